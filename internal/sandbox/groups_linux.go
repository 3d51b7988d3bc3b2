//go:build amd64 || arm64

package sandbox

import (
	"crypto/rand"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/toolyard/toolyard/internal/sandbox/cgroup"
)

// groups makes control groups and removes them. The kernel takes its time for
// both, so one is made ahead while a command runs, with the limits of the last,
// and nobody waits for a removal but close.
type groups struct {
	log  *slog.Logger
	work sync.WaitGroup

	mu    sync.Mutex
	own   string // begins the names of its groups
	count uint64
	spare *joinable
	ahead bool // one is being made
	last  cgroup.Limits
}

// joinable is a group with the files by which a process becomes a member.
type joinable struct {
	group  *cgroup.Group
	limits cgroup.Limits
	files  []*os.File
}

// take is a new group with limits. The caller closes the files.
func (g *groups) take(root *cgroup.Root, l cgroup.Limits) (*cgroup.Group, []*os.File, error) {
	g.mu.Lock()
	g.last = l
	spare := g.spare
	if spare != nil && spare.limits == l {
		g.spare = nil
		g.mu.Unlock()
		return spare.group, spare.files, nil
	}
	name := g.nameLocked()
	g.mu.Unlock()
	made, err := newJoinable(root, name, l)
	if err != nil {
		return nil, nil, err
	}
	return made.group, made.files, nil
}

// empty is a new group without limits.
func (g *groups) empty(root *cgroup.Root) (*cgroup.Group, error) {
	g.mu.Lock()
	name := g.nameLocked()
	g.mu.Unlock()
	return root.New(name, cgroup.Limits{})
}

func newJoinable(root *cgroup.Root, name string, l cgroup.Limits) (*joinable, error) {
	group, err := root.New(name, l)
	if err != nil {
		return nil, err
	}
	files, err := group.Born()
	if err != nil {
		_ = group.Remove()
		return nil, err
	}
	return &joinable{group, l, files}, nil
}

// nameLocked is a name that no other group of this process has, nor of another
// Sandbox in it.
func (g *groups) nameLocked() string {
	if g.own == "" {
		g.own = strings.ToLower(rand.Text()[:8])
	}
	g.count++
	return g.own + "-" + strconv.FormatUint(g.count, 10)
}

// prepare makes a group ahead, for another command with the limits of the last.
func (g *groups) prepare(root *cgroup.Root) {
	if root == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ahead || g.spare != nil && g.spare.limits == g.last {
		return
	}
	g.dropLocked()
	g.ahead = true
	name, limits := g.nameLocked(), g.last
	g.work.Go(func() {
		made, err := newJoinable(root, name, limits)
		g.mu.Lock()
		defer g.mu.Unlock()
		g.ahead = false
		if err == nil {
			g.spare = made
		}
	})
}

// dropLocked gives up the spare.
func (g *groups) dropLocked() {
	if g.spare != nil {
		closeAll(g.spare.files)
		g.give(g.spare.group)
		g.spare = nil
	}
}

// give removes a group whose members are dead. Nil is nothing.
func (g *groups) give(group *cgroup.Group) { g.giveAfter(group, nil) }

// giveAfter does so once wait, if there is one, returns.
func (g *groups) giveAfter(group *cgroup.Group, wait func()) {
	if group == nil && wait == nil {
		return
	}
	g.work.Go(func() {
		if wait != nil {
			wait()
		}
		if group == nil {
			return
		}
		if err := group.Remove(); err != nil {
			g.log.Warn("sandbox", "error", err)
		}
	})
}

// close waits for removals and removes the spare.
func (g *groups) close() {
	g.work.Wait()
	g.mu.Lock()
	g.dropLocked()
	g.mu.Unlock()
	g.work.Wait()
}
