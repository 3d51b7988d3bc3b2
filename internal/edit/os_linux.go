package edit

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// renameNew gives a file its name unless there is one of that name already.
func renameNew(dir *os.Root, from, to string) error {
	err := renameAt(dir, from, dir, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return linkNew(dir, from, to)
	}
	return err
}

// move renames a file from one directory to another unless there is one of that
// name already.
func move(dir *os.Root, base string, toDir *os.Root, toBase string) error {
	err := renameAt(dir, base, toDir, toBase, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		if _, statErr := toDir.Lstat(toBase); !errors.Is(statErr, os.ErrNotExist) {
			return &os.PathError{Op: "rename", Path: toBase, Err: os.ErrExist}
		}
		err = renameAt(dir, base, toDir, toBase, 0)
	}
	if errors.Is(err, unix.EXDEV) {
		return errOtherDisk
	}
	return err
}

func renameAt(dir *os.Root, base string, toDir *os.Root, toBase string, flags uint) error {
	d, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	to, err := toDir.Open(".")
	if err != nil {
		return err
	}
	defer to.Close()
	if err := unix.Renameat2(int(d.Fd()), base, int(to.Fd()), toBase, flags); err != nil {
		return &os.PathError{Op: "rename", Path: toBase, Err: err}
	}
	return nil
}
