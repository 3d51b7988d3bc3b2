//go:build !linux || !(amd64 || arm64)

package search

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// handle is an open directory. [os.Root] refuses to leave it.
type handle struct{ root *os.Root }

// reader is an open file.
type reader struct{ file *os.File }

// openHandle opens the directory that f is. The name was resolved by the
// caller; os.Root keeps everything below it from here on.
func openHandle(f *os.File) (handle, error) {
	root, err := os.OpenRoot(f.Name())
	if err != nil {
		return handle{}, err
	}
	was, err1 := f.Stat()
	is, err2 := root.Stat(".")
	if err := errors.Join(err1, err2); err != nil {
		root.Close()
		return handle{}, err
	}
	if !os.SameFile(was, is) {
		root.Close()
		return handle{}, fs.ErrInvalid
	}
	return handle{root}, nil
}

func (h handle) close() { h.root.Close() }

func (h handle) sub(name string) (handle, error) {
	info, err := h.root.Lstat(name)
	if err != nil {
		return handle{}, err
	}
	if !info.IsDir() {
		return handle{}, fs.ErrInvalid
	}
	root, err := h.root.OpenRoot(name)
	return handle{root}, err
}

func (h handle) open(name string) (reader, error) {
	info, err := h.root.Lstat(name)
	if err != nil {
		return reader{}, err
	}
	if !info.Mode().IsRegular() {
		return reader{}, fs.ErrInvalid
	}
	f, err := h.root.Open(name)
	return reader{f}, err
}

func (h handle) stat(name string) (meta, error) {
	info, err := h.root.Lstat(name)
	if err != nil {
		return meta{}, err
	}
	return meta{size: info.Size(), mode: info.Mode(), mtime: info.ModTime()}, nil
}

func (h handle) entries(_ []byte, list []entry) ([]entry, error) {
	f, err := h.root.Open(".")
	if err != nil {
		return list, err
	}
	defer f.Close()
	found, err := f.ReadDir(-1)
	for _, e := range found {
		k := kindOther
		switch {
		case e.Type().IsRegular():
			k = kindFile
		case e.IsDir():
			k = kindDir
		case e.Type()&fs.ModeSymlink != 0:
			k = kindLink
		}
		list = append(list, entry{e.Name(), k})
	}
	return list, err
}

func (r reader) close() { r.file.Close() }

func (r reader) read(p []byte) (int, error) {
	n, err := r.file.Read(p)
	if n == 0 && err == nil && len(p) > 0 {
		return 0, io.EOF
	}
	return n, err
}

func (r reader) stat() (meta, error) {
	info, err := r.file.Stat()
	if err != nil {
		return meta{}, err
	}
	return meta{size: info.Size(), mode: info.Mode(), mtime: info.ModTime()}, nil
}

// readerOf reads from a file that stays the caller's.
func readerOf(f *os.File) reader { return reader{f} }
