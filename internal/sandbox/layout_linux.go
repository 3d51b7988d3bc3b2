//go:build amd64 || arm64

package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/toolyard/toolyard/tool"
)

// Layout is where the paths of a profile lie on this machine and where they are
// seen in a sandbox: what a driver needs to make the same file system as
// [Sandbox] does. It is for one command, and closed after it.
type Layout struct {
	// Binds are what is to be mounted, parents before children.
	Binds []Bind
	// Links are symlinks to make, by path: what they point to.
	Links map[string]string

	// TmpBytes and TmpInodes limit /tmp and /dev/shm; TmpBytes is 0 or less for no
	// limit.
	TmpBytes, TmpInodes int64

	owner any
	guard *guard
	quota *quota
}

// Bind is one file or directory of this machine in a sandbox.
type Bind struct {
	// Source is on this machine, without symlinks. Empty if Hidden.
	Source string
	Target string
	Write  bool
	// Hidden says that there is to be nothing that can be opened, although
	// something above is visible.
	Hidden bool
	Dir    bool
	// Within says that Target lies in another bind, so its mount point exists.
	Within bool
}

// NewLayout resolves the paths of a profile, which has its defaults. Errors are
// a *tool.Error.
func NewLayout(p Profile) (*Layout, error) {
	t, err := newTree(&p)
	if err != nil {
		return nil, err
	}
	l := &Layout{Links: t.links, owner: t.owner}
	for _, q := range slices.Concat(t.places, t.sockets) {
		l.Binds = append(l.Binds, Bind{
			Source: q.source, Target: q.target, Write: q.access == readWrite, Hidden: q.access == hidden, Dir: q.dir, Within: q.within,
		})
	}
	l.TmpBytes, l.TmpInodes = tmpLimits(&p)
	if l.guard, err = newGuard(t, Docker); err != nil {
		return nil, err
	}
	if l.quota, err = newQuota(t, &p); err != nil {
		return nil, tool.Errorf(tool.Internal, "looking at what may be written: %v", err)
	}
	return l, nil
}

// Watch holds what the command adds to what it may write against Profile.Disk
// and Profile.Inodes, until Close. Init is the root of its processes, tmp the
// tmpfs that are its own; the caller closes those after Close. Exceeded is called
// once, from another goroutine.
func (l *Layout) Watch(init int, tmp []*os.File, exceeded func()) { l.quota.begin(init, tmp, exceeded) }

// Exceeded looks once more, when the command has ended.
func (l *Layout) Exceeded() bool { return l.quota.reached(true) }

// Close ends the watch.
func (l *Layout) Close() { l.quota.close() }

// Owner is whose the first directory to write in is; false if there is none.
func (l *Layout) Owner() (uid, gid int, ok bool) {
	st, ok := l.owner.(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(st.Uid), int(st.Gid), true
}

// Violations takes away what a command put at protected paths that did not
// exist, and tells what it was. It is called when the command has ended, and once
// more when all that it started is gone.
func (l *Layout) Violations() []Violation { return l.guard.check() }

// Host is where a path of the sandbox lies on this machine; false if no place
// shows it. Links of the layout are followed, symlinks below a place are not.
func (l *Layout) Host(path string) (string, bool) {
	path = filepath.Clean(path)
	for range 8 { // a link may lead to another
		name, to := "", ""
		for n, t := range l.Links {
			if inside(path, n) && len(n) > len(name) {
				name, to = n, t
			}
		}
		if name == "" {
			break
		}
		path = filepath.Join(to, strings.TrimPrefix(path, name))
	}
	for i := len(l.Binds) - 1; i >= 0; i-- {
		p := &l.Binds[i]
		if inside(path, p.Target) && !p.Hidden {
			return filepath.Join(p.Source, strings.TrimPrefix(path, p.Target)), true
		}
		if p.Hidden && inside(path, p.Target) {
			return "", false
		}
	}
	return "", false
}
