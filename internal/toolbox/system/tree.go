package system

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
)

// tree shows the folders of another file system, and the files of its shared
// folder in those that use them instead of in that folder. Nothing changes after
// newTree, so it is safe for concurrent use.
type tree struct {
	from  fs.FS
	files map[string]string        // where from has each file
	dirs  map[string][]fs.DirEntry // what is in each folder, sorted by name
}

// newTree shows each file of the folder shared in the folders that users names
// for it, whose own files it must not hide. A shared file without users is an
// error, as is a user without the folder that the file belongs in.
func newTree(from fs.FS, shared string, users map[string][]string) (*tree, error) {
	t := &tree{from: from, files: map[string]string{}, dirs: map[string][]fs.DirEntry{}}
	common := map[string]fs.DirEntry{}
	err := fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == shared:
			common, err = filesOf(from, shared)
			return cmp.Or(err, fs.SkipDir)
		case d.IsDir():
			t.dirs[name] = nil
		default:
			t.files[name] = name
		}
		if name != "." {
			t.dirs[path.Dir(name)] = append(t.dirs[path.Dir(name)], d)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for file, tools := range users {
		entry := common[file]
		delete(common, file)
		if entry == nil || len(tools) == 0 {
			return nil, fmt.Errorf("%s is used and not in %s, or the other way round", file, shared)
		}
		for _, user := range tools {
			if err := t.show(path.Join(user, file), path.Join(shared, file), entry); err != nil {
				return nil, err
			}
		}
	}
	for file := range common {
		return nil, fmt.Errorf("%s in %s is used by nothing", file, shared)
	}
	for _, list := range t.dirs {
		slices.SortFunc(list, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	}
	return t, nil
}

// filesOf finds the files below a folder, by their path in it.
func filesOf(from fs.FS, dir string) (map[string]fs.DirEntry, error) {
	sub, err := fs.Sub(from, dir)
	if err != nil {
		return nil, err
	}
	found := map[string]fs.DirEntry{}
	err = fs.WalkDir(sub, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			found[name] = d
		}
		return err
	})
	return found, err
}

func (t *tree) show(name, source string, entry fs.DirEntry) error {
	dir := path.Dir(name)
	if _, ok := t.dirs[dir]; !ok {
		return fmt.Errorf("there is no folder %s for %s", dir, source)
	}
	if _, ok := t.files[name]; ok {
		return fmt.Errorf("%s is there, and would be hidden by %s", name, source)
	}
	t.files[name] = source
	t.dirs[dir] = append(t.dirs[dir], entry)
	return nil
}

// Open opens a file, or a folder to list it.
func (t *tree) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	if source, ok := t.files[name]; ok {
		return t.from.Open(source)
	}
	list, ok := t.dirs[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	f, err := t.from.Open(name)
	if err != nil {
		return nil, err
	}
	return &folder{File: f, rest: list}, nil
}

// folder is an open folder with the list of the tree.
type folder struct {
	fs.File
	rest []fs.DirEntry
}

// ReadDir gives the next n entries, or all that are left if n is not positive.
func (f *folder) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 {
		n = len(f.rest)
	} else if len(f.rest) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(f.rest))
	list := slices.Clone(f.rest[:n])
	f.rest = f.rest[n:]
	return list, nil
}
