package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Real gives a Path for a real path that was resolved earlier and recorded, for
// use where no workspace is at hand (recovery after a crash). Its Root is the
// directory of the file, which the caller closes. It is an error if a directory
// of the path is missing (fs.ErrNotExist) or has become a symlink since.
func Real(real string) (*Path, error) {
	dir, base := filepath.Split(filepath.Clean(real))
	dir = filepath.Clean(dir)
	now, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	if now != dir || base == "" {
		return nil, &fs.PathError{Op: "open", Path: real, Err: errMoved}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	// Once more: what was opened is still what has that name.
	opened, err := root.Stat(".")
	if err == nil {
		var named fs.FileInfo
		if named, err = os.Lstat(dir); err == nil && !os.SameFile(opened, named) {
			err = &fs.PathError{Op: "open", Path: real, Err: errMoved}
		}
	}
	p := &Path{Given: real, Real: real, Rel: base, Display: real, Root: root}
	if err == nil {
		if p.Info, err = root.Lstat(base); errors.Is(err, fs.ErrNotExist) {
			p.Info, err = nil, nil
		}
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return p, nil
}
