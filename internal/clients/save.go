package clients

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// MaxFile bounds a client's file, in bytes.
const MaxFile = 64 << 20

// maxLinks bounds how many symbolic links lead to a file.
const maxLinks = 40

// ErrChanged is the error of [Save] for a file that somebody else has changed
// since it was read.
var ErrChanged = errors.New("the file has been changed meanwhile")

// Read gives a file and whether it is there. What is not a regular file, or is
// larger than [MaxFile], is an error.
func Read(path string) (data []byte, there bool, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	if !info.Mode().IsRegular() {
		return nil, false, fmt.Errorf("%s is not a file", path)
	}
	if info.Size() > MaxFile {
		return nil, false, fmt.Errorf("%s is larger than %d MiB", path, MaxFile>>20)
	}
	data, err = os.ReadFile(path)
	return data, err == nil, err
}

// Save replaces the content of a file, old, by new, in one step: whoever reads it
// sees one or the other. Symbolic links are followed and stay; mode and, where
// that is allowed, owner are kept. A file that is not there is made, with perm
// and its folder; old is nil then. What it was is kept in the folder backups, and
// backup says where; "" if there was nothing.
func Save(path string, old, new []byte, backups string, perm fs.FileMode) (backup string, err error) {
	real, err := follow(path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(real)
	there := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	mode := perm
	if there {
		mode = info.Mode().Perm()
		if backup, err = keep(real, old, backups); err != nil {
			return "", fmt.Errorf("keeping a copy of %s: %w", real, err)
		}
	} else if err := os.MkdirAll(filepath.Dir(real), 0o755); err != nil {
		return "", err
	}
	temp, err := os.CreateTemp(filepath.Dir(real), ".toolyard-*")
	if err != nil {
		return "", err
	}
	defer os.Remove(temp.Name()) // nothing once it is renamed
	_, err = temp.Write(new)
	err = errors.Join(err, temp.Chmod(mode), own(temp, info), temp.Sync(), temp.Close())
	if err != nil {
		return "", fmt.Errorf("writing %s: %w", real, err)
	}
	now, stillThere, err := Read(real)
	if err != nil {
		return "", err
	}
	if stillThere != there || !bytes.Equal(now, old) {
		return "", ErrChanged
	}
	return backup, os.Rename(temp.Name(), real)
}

// follow gives the file that a path leads to, which need not be there.
func follow(path string) (string, error) {
	for range maxLinks {
		target, err := os.Readlink(path)
		if err != nil {
			// Not a link, or not there. The folder may be a link too.
			if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
				return filepath.Join(dir, filepath.Base(path)), nil
			}
			return path, nil
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return "", fmt.Errorf("%s: too many links", path)
}

// keep writes a copy that only its owner reads: such files hold tokens.
func keep(path string, content []byte, dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	name := time.Now().UTC().Format("20060102T150405.000Z") + "-" + filepath.Base(path)
	for i := 0; ; i++ {
		file := filepath.Join(dir, name)
		if i > 0 {
			file += fmt.Sprintf(".%d", i)
		}
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		_, err = f.Write(content)
		return file, errors.Join(err, f.Close())
	}
}
