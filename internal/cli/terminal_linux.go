package cli

import (
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/toolyard/toolyard/internal/sandbox"
)

// terminal joins a person's terminal to one that a command has for itself: keys
// go there as they are typed, so that Ctrl-C is the command's, and job control
// and full-screen programs work.
type terminal struct {
	in   *os.File
	out  io.Writer
	size sandbox.TTY

	modes  *unix.Termios // of in
	state  *term.State   // nil while in is as it was
	resize chan os.Signal
	wake   [2]*os.File // closing the second ends the copy of in
	wg     sync.WaitGroup
	once   sync.Once
}

// openTerminal prepares; nil if this program may not have the terminal, because
// it is in the background.
func openTerminal(in *os.File) *terminal {
	if !inForeground(in) {
		return nil
	}
	modes, err := unix.IoctlGetTermios(int(in.Fd()), unix.TCGETS)
	if err != nil {
		return nil
	}
	t := &terminal{in: in, modes: modes}
	t.size.Columns, t.size.Rows = sizeOf(in)
	return t
}

// inForeground reports whether this program may read from a terminal.
func inForeground(tty *os.File) bool {
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp() // an error: it is not our controlling terminal
}

func sizeOf(tty *os.File) (columns, rows uint16) {
	size, err := unix.IoctlGetWinsize(int(tty.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0
	}
	return size.Col, size.Row
}

// run connects the two terminals.
func (t *terminal) run(master *os.File) error {
	raw, err := master.SyscallConn()
	if err != nil {
		return err
	}
	// The new terminal behaves as the old one does: the same keys erase and stop.
	if err := onFD(raw, func(fd int) error { return unix.IoctlSetTermios(fd, unix.TCSETS, t.modes) }); err != nil {
		return err
	}
	if t.wake[0], t.wake[1], err = os.Pipe(); err != nil {
		return err
	}
	if t.state, err = term.MakeRaw(int(t.in.Fd())); err != nil {
		return err
	}
	t.resize = make(chan os.Signal, 1)
	signal.Notify(t.resize, syscall.SIGWINCH)
	t.wg.Go(func() {
		for range t.resize {
			size := unix.Winsize{}
			size.Col, size.Row = sizeOf(t.in)
			_ = onFD(raw, func(fd int) error { return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &size) })
		}
	})
	t.wg.Go(func() { t.copyIn(master) })
	return nil
}

func onFD(raw syscall.RawConn, do func(fd int) error) error {
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = do(int(fd)) }); err != nil {
		return err
	}
	return failed
}

// copyIn passes keys on until the terminal is gone, the command's is, or close.
func (t *terminal) copyIn(master *os.File) {
	fds := []unix.PollFd{{Fd: int32(t.in.Fd()), Events: unix.POLLIN}, {Fd: int32(t.wake[0].Fd()), Events: unix.POLLIN}}
	buf := make([]byte, 4096)
	for {
		if _, err := unix.Poll(fds, -1); err != nil {
			if err == unix.EINTR {
				continue
			}
			return
		}
		if fds[1].Revents != 0 {
			return
		}
		n, err := t.in.Read(buf)
		if n > 0 {
			if _, err := master.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// restore gives the terminal back as it was.
func (t *terminal) restore() {
	if t.state != nil {
		_ = term.Restore(int(t.in.Fd()), t.state) // a terminal that is gone needs none
		t.state = nil
	}
}

// close ends the copying. The command's terminal is closed by now, so nothing
// waits to write to it.
func (t *terminal) close() {
	t.once.Do(func() {
		t.restore()
		if t.wake[1] != nil {
			t.wake[1].Close()
		}
		if t.resize != nil {
			signal.Stop(t.resize)
			close(t.resize)
		}
		t.wg.Wait()
		if t.wake[0] != nil {
			t.wake[0].Close()
		}
	})
}
