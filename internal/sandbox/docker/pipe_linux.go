//go:build amd64 || arm64

package docker

import (
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// patience is how long a writer waits, once its process is being closed, for a
// caller who reads nothing.
const patience = 200 // milliseconds

// atomicWrite is how much goes into a pipe that can be written to without
// waiting: PIPE_BUF.
const atomicWrite = 4096

var errStopped = errors.New("the command's streams are closed")

// stopper ends the waiting of all ends that share it.
type stopper struct {
	r, w *os.File
	done chan struct{} // closed with w
	once sync.Once
}

func newStopper() (*stopper, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &stopper{r: r, w: w, done: make(chan struct{})}, nil
}

func (s *stopper) stop() {
	s.once.Do(func() {
		s.w.Close()
		close(s.done)
	})
}

// close lets go of the files. No end may be waiting.
func (s *stopper) close() {
	s.stop()
	s.r.Close()
}

// end is a copy of a caller's file, which may be in blocking mode and shared
// with others: waiting is done with poll, so that it can be ended.
type end struct {
	fd     int
	signal int // readable when it is over
	whole  bool
}

// newEnd copies the descriptor of f. The caller keeps f and closes the end, after
// which the stopper may be closed.
func newEnd(f *os.File, s *stopper) (*end, error) {
	e := &end{fd: -1}
	err := control(s.r, func(fd int) error { e.signal = fd; return nil })
	if err != nil {
		return nil, err
	}
	err = control(f, func(fd int) error {
		var err error
		if e.fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3); err != nil {
			return err
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		e.whole = flags&unix.O_NONBLOCK != 0
		return err
	})
	return e, err
}

// control runs f with the descriptor, which stays in the mode that it is in.
func control(file *os.File, f func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = raw.Control(func(fd uintptr) { inner = f(int(fd)) })
	return errors.Join(err, inner)
}

// Close closes the copy.
func (e *end) Close() error { return unix.Close(e.fd) }

// Read ends with io.EOF when it is over.
func (e *end) Read(p []byte) (int, error) {
	for {
		over, ready, err := e.wait(unix.POLLIN, -1)
		if err != nil {
			return 0, err
		}
		if over {
			return 0, io.EOF
		}
		if !ready {
			continue
		}
		n, err := unix.Read(e.fd, p)
		switch {
		case again(err):
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// Write writes all of p. When it is over, it goes on only as long as somebody
// reads.
func (e *end) Write(p []byte) (int, error) {
	written, timeout := 0, -1
	for written < len(p) {
		over, ready, err := e.wait(unix.POLLOUT, timeout)
		if err != nil {
			return written, err
		}
		if !ready {
			if timeout >= 0 {
				return written, errStopped
			}
			if over {
				timeout = patience
			}
			continue
		}
		piece := p[written:]
		if !e.whole && len(piece) > atomicWrite {
			piece = piece[:atomicWrite]
		}
		n, err := unix.Write(e.fd, piece)
		if err != nil && !again(err) {
			return written, err
		}
		written += max(n, 0)
	}
	return written, nil
}

func again(err error) bool { return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) }

// wait waits for the file or the signal. With a timeout, in milliseconds, the
// signal has been given and is not looked at.
func (e *end) wait(events int16, timeout int) (over, ready bool, err error) {
	fds := []unix.PollFd{{Fd: int32(e.fd), Events: events}, {Fd: int32(e.signal), Events: unix.POLLIN}}
	if timeout >= 0 {
		fds = fds[:1]
	}
	if _, err := unix.Poll(fds, timeout); err != nil && !again(err) {
		return false, false, err
	}
	return len(fds) > 1 && fds[1].Revents != 0, fds[0].Revents != 0, nil
}
