package worker

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// pair is the two ends of the control socket. Ours can wait with a deadline.
func pair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "worker"), os.NewFile(uintptr(fds[1]), "worker"), nil
}

// unblock makes reading from the worker's end fail where it would wait.
func unblock(theirs *os.File) error { return unix.SetNonblock(int(theirs.Fd()), true) }

// readNow reads what is there. It returns 0 and nil at the end, and
// errNothing where there is nothing yet.
func readNow(fd uintptr, buf []byte) (int, error) {
	for {
		n, err := unix.Read(int(fd), buf)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			return 0, errNothing
		}
		return max(n, 0), err
	}
}

// hangUp ends the stream for the worker, which may still be heard.
func hangUp(socket *os.File) {
	if raw, err := socket.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_WR) })
	}
}
