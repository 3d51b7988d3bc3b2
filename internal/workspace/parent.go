package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/toolyard/toolyard/tool"
)

// Parent opens the directory that the path lies in and gives the last name. The
// directory is the one that was resolved: if a part of the path has become a
// symlink since, Parent refuses. With create, missing directories are made. The
// caller closes the directory.
func (p *Path) Parent(create bool) (dir *os.Root, base string, err error) {
	if p.Rel == "." {
		return nil, "", tool.Errorf(tool.PermissionDenied, "%s is the root of a granted directory", shorten(p.Display)).
			WithHint("Name something inside it.")
	}
	rel := filepath.Dir(p.Rel)
	dir, err = openDir(p, rel)
	if create && errors.Is(err, fs.ErrNotExist) {
		if err = p.Root.MkdirAll(rel, 0o777); err == nil {
			dir, err = openDir(p, rel)
		}
	}
	return dir, filepath.Base(p.Rel), err
}

// errMoved says that a directory has become a symlink since it was resolved.
var errMoved = errors.New("a part of the path has become a symlink")

// openPlain opens a directory below root, looking at each part on the way, and
// once more afterwards.
func openPlain(root *os.Root, rel string) (*os.Root, error) {
	dir, err := root.OpenRoot(rel)
	if err != nil {
		return nil, err
	}
	opened, err := dir.Stat(".")
	if err == nil {
		err = noLinks(root, rel, opened)
	}
	if err != nil {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

func noLinks(root *os.Root, rel string, opened fs.FileInfo) error {
	for at := rel; at != "."; at = filepath.Dir(at) {
		info, err := root.Lstat(at)
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 || at == rel && !os.SameFile(info, opened) {
			return &fs.PathError{Op: "open", Path: rel, Err: errMoved}
		}
	}
	return nil
}

// NotFound is the error for a path with nothing there. It names up to 5 files
// of the workspace whose names are near.
func (p *Path) NotFound() *tool.Error {
	e := notFound(p.Display)
	if p.near == nil {
		return e
	}
	if near := p.near(); len(near) > 0 {
		list := near[0]
		for _, n := range near[1:] {
			list += ", " + n
		}
		return e.WithHint("Did you mean %s?", list).WithDetail("near", near)
	}
	return e.WithHint("No name in the workspace is near it. Use glob or list to see what is there.")
}
