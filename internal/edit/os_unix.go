//go:build unix

package edit

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

const (
	errQuota = syscall.EDQUOT
	nonBlock = syscall.O_NONBLOCK
)

// syncDir makes the names in a directory durable. A file system that cannot do
// that is not an error.
func syncDir(dir *os.File) error {
	err := dir.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		return nil
	}
	return err
}

// links is how many names a file has.
func links(info fs.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Nlink)
	}
	return 1
}

// copyOwner gives to the owner and group of from. It is not ok if this process
// may not.
func copyOwner(to *os.File, from fs.FileInfo) (ok bool, err error) {
	want, okWant := from.Sys().(*syscall.Stat_t)
	info, err := to.Stat()
	if err != nil {
		return false, err
	}
	have, okHave := info.Sys().(*syscall.Stat_t)
	if !okWant || !okHave || want.Uid == have.Uid && want.Gid == have.Gid {
		return true, nil
	}
	uid := -1
	if want.Uid != have.Uid {
		uid = int(want.Uid)
	}
	err = to.Chown(uid, int(want.Gid))
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		return false, nil
	}
	return err == nil, err
}
