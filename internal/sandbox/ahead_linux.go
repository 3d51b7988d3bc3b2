//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolyard/toolyard/internal/launch"
	"github.com/toolyard/toolyard/internal/process"
	"github.com/toolyard/toolyard/internal/sandbox/cgroup"
)

// footing is a sandbox without a command: new namespaces, in which all is mounted
// that the profile grants. Its init waits for the rest. Making it is most of a
// launch, so that one is made ahead for another command with the same grants. It
// serves one command and is never used again.
type footing struct {
	key     string
	mounts  int // what the machine had mounted: see ahead.mounts
	made    time.Time
	program *program
	control *os.File
	init    *process.Child // nil until it is known to have been made
	group   *cgroup.Group  // in which init was born; nil where it joins one
	groups  *groups
}

// drop gives up a footing with its group.
func (f *footing) drop() {
	f.end()
	f.groups.give(f.group)
}

// end ends a footing's init.
func (f *footing) end() {
	if f.init == nil {
		_ = f.settle() // or nobody would wait for its init
	}
	f.control.Close()
	if f.init != nil {
		_ = f.init.Signal(syscall.SIGKILL)
		_, _, _ = f.init.Wait()
	}
}

// ahead keeps the footings for commands to come, by what has to be the same: one
// for each of the profiles that were used last.
type ahead struct {
	log  *slog.Logger
	work sync.WaitGroup

	mu     sync.Mutex
	ready  []*footing // the one used last at the end
	making map[string]*making
	expiry *time.Timer
	closed bool
	table  int // a descriptor of the machine's mounts, 0 while there is none
	mounts int // how often they have changed
}

// making is a footing that will be there soon.
type making struct {
	claim chan *footing // of who waits for it; nil if nobody does
}

// maxReady bounds the footings that wait, footingLife how long they do: as long
// a file system that the machine has unmounted meanwhile is still in use.
const (
	maxReady    = 3
	footingLife = 15 * time.Second
)

// take is the footing with a key, or nil. One that is being made is waited for:
// a new one would take longer.
func (a *ahead) take(key string) *footing {
	a.mu.Lock()
	a.lookLocked()
	for i, f := range a.ready {
		if f.key == key {
			a.ready = append(a.ready[:i:i], a.ready[i+1:]...)
			if f.alive() {
				a.mu.Unlock()
				return f
			}
			a.work.Go(f.drop)
			break
		}
	}
	m := a.making[key]
	if m == nil || m.claim != nil {
		a.mu.Unlock()
		return nil
	}
	m.claim = make(chan *footing, 1)
	now := a.mounts
	a.mu.Unlock()
	f := <-m.claim // it is sent in any case, nil if it failed
	if f != nil && f.mounts != now {
		f.drop()
		return nil
	}
	return f
}

// lookLocked gives up what has waited too long, and all that was made before the
// machine's mounts changed, since it shows them as they were. The kernel says so
// by poll, proc_pid_mounts(5).
func (a *ahead) lookLocked() {
	changed := a.table == 0
	if a.table == 0 {
		// No os.File: Go's poller would see the change and keep it to itself.
		fd, err := unix.Open("/proc/self/mounts", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			a.table = fd
		}
	} else {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(a.table), Events: unix.POLLPRI}}, 0)
		changed = err != nil || n > 0
	}
	if changed {
		a.mounts++
	}
	a.ready = slices.DeleteFunc(a.ready, func(f *footing) bool {
		stale := changed || time.Since(f.made) >= footingLife
		if stale {
			a.work.Go(f.drop)
		}
		return stale
	})
}

// prepare makes a footing ahead, if there is none with the key.
func (a *ahead) prepare(key string, build func() (*footing, error)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.making[key] != nil || len(a.making) >= maxReady || slices.ContainsFunc(a.ready, func(f *footing) bool { return f.key == key }) {
		return
	}
	if a.making == nil {
		a.making = map[string]*making{}
	}
	a.closed = false
	a.lookLocked()
	m, mounts := &making{}, a.mounts
	a.making[key] = m
	a.work.Go(func() {
		f, err := build()
		if err == nil {
			f.mounts, f.made = mounts, time.Now()
		} else {
			a.log.Debug("sandbox", "error", err) // the next command has one made, and is told why if that fails
			f = nil
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.making, key)
		switch {
		case m.claim != nil:
			m.claim <- f
		case f != nil && f.mounts != a.mounts:
			a.work.Go(f.drop)
		case f != nil:
			a.keepLocked(f)
		}
	})
}

func (a *ahead) keepLocked(f *footing) {
	a.ready = append(a.ready, f)
	if len(a.ready) > maxReady {
		oldest := a.ready[0]
		a.ready = a.ready[1:]
		a.work.Go(oldest.drop)
	}
	if a.expiry == nil {
		a.expiry = time.AfterFunc(footingLife, a.expire)
	} else {
		a.expiry.Reset(footingLife)
	}
}

// expire gives up what has waited too long while no command came.
func (a *ahead) expire() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed {
		a.work.Go(a.clear)
	}
}

// clear gives up what waits.
func (a *ahead) clear() {
	a.mu.Lock()
	ready := a.ready
	a.ready = nil
	a.mu.Unlock()
	for _, f := range ready {
		f.drop()
	}
}

// close gives up what waits or is being made.
func (a *ahead) close() {
	a.mu.Lock()
	a.closed = true
	if a.expiry != nil {
		a.expiry.Stop()
	}
	a.mu.Unlock()
	a.work.Wait()
	a.clear()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.table != 0 {
		unix.Close(a.table)
		a.table = 0
	}
}

// alive reports whether init still waits: the machine may have killed it for
// want of memory.
func (f *footing) alive() bool {
	raw, err := f.control.SyscallConn()
	if err != nil {
		return false
	}
	quiet := false
	err = raw.Control(func(fd uintptr) {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		quiet = err == nil && n == 0
	})
	return err == nil && quiet
}

// settle waits until init waits for a command.
func (f *footing) settle() error {
	if err := f.control.SetReadDeadline(time.Now().Add(probeTimeout)); err != nil {
		return err
	}
	for ready := false; !ready || f.init == nil; {
		m, files, err := receive(f.control, 1)
		closeAll(files)
		switch {
		case err != nil:
			return fmt.Errorf("preparing the next sandbox: %w", err)
		case m.Kind == launch.Started:
			if f.init, err = process.Adopt(int(m.PID)); err != nil {
				return err
			}
		case m.Kind == launch.Ready:
			ready = true
		case m.Kind == launch.Failed:
			return fmt.Errorf("preparing the next sandbox: %s: %w", f.program.name(m.Op), syscall.Errno(m.Errno))
		}
	}
	return f.control.SetReadDeadline(time.Time{})
}

// footing begins one. Where a group is given init is born in it. It does not wait
// for anything.
func (s *Sandbox) footing(m *measured, p *Profile, t *tree, group *cgroup.Group, net *network) (*footing, error) {
	b := m.builder(p, t)
	b.network = net
	var born []*os.File
	if group != nil {
		var err error
		if born, err = group.Born(); err != nil {
			return nil, err
		}
		defer closeAll(born)
		b.cgroupFD = launch.FirstExtra
	}
	b.footing()
	f := &footing{program: b.program, group: group, groups: &s.groups}
	var err error
	f.control, err = s.launcher.launch(nil, nil, nil, born)
	if err != nil {
		return nil, err
	}
	if _, err := f.control.Write(b.program.encode()); err != nil {
		f.control.Close()
		return nil, err
	}
	return f, nil
}

// prepare makes the footing of a command like the one that is being started.
func (s *Sandbox) prepare(m *measured, t *tree, p Profile, key string) {
	s.ahead.prepare(key, func() (*footing, error) {
		group, err := s.bornIn(m)
		if err != nil {
			return nil, err
		}
		f, err := s.footing(m, &p, t, group, nil)
		if err != nil {
			s.groups.give(group)
			return nil, err
		}
		f.key = key
		if err = f.settle(); err == nil && !t.unchanged() {
			err = errors.New("preparing the next sandbox: what it is to show has changed meanwhile")
		}
		if err != nil {
			f.drop()
			return nil, err
		}
		return f, nil
	})
}

// unchanged reports whether everything is still what it was when the tree was
// made. A footing of which that is true shows what its key says, also to a later
// command that finds the same: something else was not put in the way for as long
// as the mounts took.
func (t *tree) unchanged() bool {
	for _, list := range [][]place{t.places, t.sockets} {
		for i := range list {
			path := list[i].source
			if list[i].access == hidden {
				path = list[i].target
			}
			if identify(path) != list[i].id {
				return false
			}
		}
	}
	return true
}

// bornIn is a group for an init that cannot join one later: moving a process
// waits for the whole machine in version 2.
func (s *Sandbox) bornIn(m *measured) (*cgroup.Group, error) {
	if m.groups == nil || m.groups.Version() == 1 {
		return nil, nil
	}
	return s.groups.empty(m.groups)
}

// next hands the rest of a program to an init that waits for it.
func (f *footing) next(files []*os.File, program []byte) error {
	fds := make([]int, len(files))
	for i, file := range files {
		fds[i] = int(file.Fd())
	}
	raw, err := f.control.SyscallConn()
	if err != nil {
		return err
	}
	var sendErr error
	err = raw.Write(func(fd uintptr) bool {
		sendErr = sendRights(int(fd), fds)
		return !errors.Is(sendErr, unix.EAGAIN)
	})
	if err = errors.Join(err, sendErr); err != nil {
		return err
	}
	_, err = f.control.Write(program)
	return err
}

// footingKey names all that a footing is made of, each file with its identity on
// the file system: what has been replaced since is not what a footing shows.
// (What is mounted from a directory keeps its inode from being used again. A
// mount upon a file inside of another is gone with that file's name, and both the
// number and the name may return: so a time is part of an identity.)
func (m *measured) footingKey(p *Profile, t *tree) string {
	uid, gid := identityOf(t)
	bytes, inodes := tmpLimits(p)
	key := fmt.Appendf(make([]byte, 0, 4096), "%v %d %d %d %d %q", m.variant, uid, gid, bytes, inodes, p.Home)
	for _, list := range [][]place{t.places, t.sockets} {
		for i := range list {
			q := &list[i]
			key = append(strconv.AppendQuote(strconv.AppendQuote(key, q.source), q.target), byte('0'+q.access), '0')
			for j, b := range []bool{q.dir, q.within} {
				if b {
					key[len(key)-1] += 1 << j
				}
			}
			for _, n := range []uint64{uint64(q.id.major), uint64(q.id.minor), q.id.inode, uint64(q.id.since.Sec), uint64(q.id.since.Nsec)} {
				key = append(strconv.AppendUint(key, n, 36), ' ')
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.links)) {
		key = strconv.AppendQuote(strconv.AppendQuote(key, name), t.links[name])
	}
	return string(key)
}
