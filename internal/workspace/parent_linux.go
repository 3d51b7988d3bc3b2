package workspace

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// openDir opens a directory below root that is reached without any symlink. The
// kernel sees to that in one call; where it cannot, openPlain does.
func openDir(p *Path, rel string) (*os.Root, error) {
	if p.file == nil {
		return openPlain(p.Root, rel)
	}
	fd, err := openBeneath(p.file, rel, unix.O_PATH|unix.O_DIRECTORY)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EAGAIN) {
		return openPlain(p.Root, rel)
	}
	if err != nil {
		if errors.Is(err, unix.ELOOP) {
			err = errMoved
		}
		return nil, &os.PathError{Op: "open", Path: rel, Err: err}
	}
	defer unix.Close(fd)
	dir, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return openPlain(p.Root, rel) // no /proc
	}
	return dir, nil
}

// direct resolves the common case, a plain path with no symlink in it to
// something that is there, by one system call. It is not ok for any other.
func direct(p *Path, at *root, rest string) (ok bool) {
	parts := split(rest)
	if len(parts) == 0 {
		return false
	}
	for _, part := range parts {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	fd, err := openBeneath(at.file, rest, unix.O_PATH)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	info, err := stat(fd, parts[len(parts)-1])
	if err != nil {
		return false
	}
	p.finish(at, parts, info)
	return true
}

// openBeneath opens what lies below a directory, following no symlink.
func openBeneath(at *os.File, rel string, flags int) (int, error) {
	conn, err := at.SyscallConn()
	if err != nil {
		return -1, err
	}
	fd := -1
	var opened error
	err = conn.Control(func(dir uintptr) {
		for {
			fd, opened = unix.Openat2(int(dir), rel, &unix.OpenHow{
				Flags:   uint64(flags | unix.O_CLOEXEC),
				Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
			})
			if !errors.Is(opened, unix.EINTR) {
				return
			}
		}
	})
	return fd, errors.Join(err, opened)
}
