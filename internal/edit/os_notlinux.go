//go:build !linux

package edit

import "os"

// renameNew gives a file its name unless there is one of that name already.
func renameNew(dir *os.Root, from, to string) error { return linkNew(dir, from, to) }

// move renames a file from one directory to another unless there is one of that
// name already. Between two directories there is no rename that is safe from
// swapped directories here, so the content moves instead.
func move(dir *os.Root, base string, toDir *os.Root, toBase string) error {
	if dir.Name() != toDir.Name() {
		return errOtherDisk
	}
	return linkNew(dir, base, toBase)
}
