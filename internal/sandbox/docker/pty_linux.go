//go:build amd64 || arm64

package docker

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/toolyard/toolyard/internal/sandbox"
)

// terminal is a pair of this machine that stands for the container's terminal:
// the caller has the master, and what goes through the other end, which changes
// nothing on its way, is the container's attached stream.
type terminal struct {
	master, peer *os.File
}

func openTerminal(size unix.Winsize) (*terminal, error) {
	const flags = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC | unix.O_NONBLOCK
	fd, err := unix.Open("/dev/ptmx", flags, 0)
	if err != nil {
		return nil, err
	}
	t := &terminal{master: os.NewFile(uintptr(fd), "pty")}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.close()
		return nil, err
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &size); err != nil {
		t.close()
		return nil, err
	}
	peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, flags)
	if errno != 0 {
		t.close()
		return nil, errno
	}
	t.peer = os.NewFile(peer, "pty")
	if err := makeRaw(int(peer)); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

func (t *terminal) close() {
	t.master.Close()
	if t.peer != nil {
		t.peer.Close()
	}
}

// makeRaw leaves all of the work to the container's own terminal: termios(3),
// cfmakeraw.
func makeRaw(fd int) error {
	t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return err
	}
	t.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	t.Oflag &^= unix.OPOST
	t.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	t.Cflag = t.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	return unix.IoctlSetTermios(fd, unix.TCSETS, t)
}

// size is what the caller has set on the master.
func (t *terminal) size() (unix.Winsize, error) {
	var size unix.Winsize
	err := control(t.peer, func(fd int) error {
		got, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
		if err == nil {
			size = *got
		}
		return err
	})
	return size, err
}

// sizeOf is a terminal's size with the default of [sandbox.TTY].
func sizeOf(t *sandbox.TTY) unix.Winsize {
	if t.Columns == 0 || t.Rows == 0 {
		return unix.Winsize{Row: 24, Col: 80}
	}
	return unix.Winsize{Row: t.Rows, Col: t.Columns}
}
