//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/toolyard/toolyard/internal/launch"
	"github.com/toolyard/toolyard/internal/process"
	"github.com/toolyard/toolyard/internal/sandbox/cgroup"
)

// launcher is the process that makes the init of every sandbox. It is started
// with the first and kept, because starting it is the dearest part of a launch.
type launcher struct {
	executable string

	mu     sync.Mutex
	socket int // -1 while there is none
	child  *process.Child
	left   string // what it takes away if this process dies: see launch.Leftovers
}

// tidies tells a launcher that is yet to be started where the groups are made.
func (l *launcher) tidies(root *cgroup.Root) {
	if root == nil {
		return
	}
	prefix, dirs := root.Left()
	l.mu.Lock()
	l.left = strings.Join(append([]string{prefix}, dirs...), ":")
	l.mu.Unlock()
}

// launch has the launcher make an init with the first three descriptors given,
// nil being /dev/null, and what else the program needs. It returns the control
// socket, over which the program is to be sent.
func (l *launcher) launch(stdin, stdout, stderr *os.File, extras []*os.File) (*os.File, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	theirs := os.NewFile(uintptr(pair[1]), "control")
	defer theirs.Close()
	if err := unix.SetNonblock(pair[0], true); err != nil {
		unix.Close(pair[0])
		return nil, err
	}
	control := os.NewFile(uintptr(pair[0]), "control")
	files, null, err := orNull(stdin, stdout, stderr)
	if err == nil {
		err = l.hand(append(append([]*os.File{theirs}, files...), extras...))
		null.Close()
	}
	if err != nil {
		control.Close()
		return nil, err
	}
	return control, nil
}

// orNull puts /dev/null, which the caller closes, where there is no file.
func orNull(files ...*os.File) ([]*os.File, *os.File, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, nil, err
	}
	for i, f := range files {
		if f == nil {
			files[i] = null
		}
	}
	return files, null, nil
}

// hand gives the launcher the descriptors of one launch. A launcher that has
// died is replaced once.
func (l *launcher) hand(files []*os.File) error {
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for attempt := 0; ; attempt++ {
		if err := l.start(); err != nil {
			return err
		}
		err := sendRights(l.socket, fds)
		if err == nil {
			return nil
		}
		l.stop()
		if attempt > 0 {
			return err
		}
	}
}

func sendRights(socket int, fds []int) error {
	for {
		err := unix.Sendmsg(socket, []byte{0}, unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func (l *launcher) start() error {
	if l.child != nil {
		return nil
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	theirs := os.NewFile(uintptr(pair[1]), "launcher")
	defer theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		unix.Close(pair[0])
		return err
	}
	defer null.Close()
	files := []*os.File{null, null, null, theirs}
	l.child, err = process.Spawn(l.executable, []string{"toolyard-launcher"}, []string{launch.Marker + "=1", launch.Leftovers + "=" + l.left}, files)
	if err != nil {
		unix.Close(pair[0])
		return err
	}
	l.socket = pair[0]
	return nil
}

// stop ends the launcher. Sandboxes that it made go on.
func (l *launcher) stop() {
	if l.child == nil {
		return
	}
	_, _ = unix.SendmsgN(l.socket, []byte{launch.Bye}, nil, nil, unix.MSG_NOSIGNAL) // it may have died
	unix.Close(l.socket)
	_, _, _ = l.child.Wait()
	l.child = nil
}

// Close ends the launcher and gives up what Start left for the next command.
// Commands that run go on; a later Start begins anew.
func (s *Sandbox) Close() error {
	s.ahead.close()
	s.launcher.mu.Lock()
	s.launcher.stop()
	s.launcher.mu.Unlock()
	s.groups.close()
	return nil
}
