//go:build linux || darwin

package edit

import (
	"bytes"
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// copyXattrs gives to the extended attributes of from. It is not ok if one
// cannot be set.
func copyXattrs(to, from *os.File) (ok bool, err error) {
	size, err := unix.Flistxattr(int(from.Fd()), nil)
	if errors.Is(err, unix.ENOTSUP) || err == nil && size == 0 {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	list := make([]byte, size+1024)
	if size, err = unix.Flistxattr(int(from.Fd()), list); err != nil {
		return false, err
	}
	for name := range strings.SplitSeq(string(list[:size]), "\x00") {
		if name == "" {
			continue
		}
		value, err := xattr(from, name)
		if err != nil {
			return false, nil // not even readable: only writing in place keeps it
		}
		if have, err := xattr(to, name); err == nil && bytes.Equal(have, value) {
			continue
		}
		if err := unix.Fsetxattr(int(to.Fd()), name, value, 0); err != nil {
			return false, nil
		}
	}
	return true, nil
}

func xattr(f *os.File, name string) ([]byte, error) {
	size, err := unix.Fgetxattr(int(f.Fd()), name, nil)
	if err != nil {
		return nil, err
	}
	value := make([]byte, size)
	size, err = unix.Fgetxattr(int(f.Fd()), name, value)
	if err != nil {
		return nil, err
	}
	return value[:size], nil
}
