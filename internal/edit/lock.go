package edit

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/flock"
)

// Waits between two attempts at a lock that another process holds.
const (
	firstWait = 500 * time.Microsecond
	longWait  = 20 * time.Millisecond
)

// locks serialises the writers of a path, in this process and among those that
// share a directory of lock files.
type locks struct {
	dir string // "" for this process only

	mu   sync.Mutex
	held map[string]*held
}

// held is a lock in this process; free holds one token.
type held struct {
	free  chan struct{}
	users int
}

// acquire locks all keys, in a fixed order so that no two callers wait for each
// other. It gives up when ctx is done.
func (l *locks) acquire(ctx context.Context, paths ...string) (release func(), err error) {
	var releases []func()
	release = func() {
		for _, r := range slices.Backward(releases) {
			r()
		}
		releases = nil
	}
	keys := make([]string, 0, len(paths))
	for _, path := range paths {
		// One of 256 lock files. Paths that fall on the same one wait for each
		// other, no more.
		keys = append(keys, Sum([]byte(path))[:2])
	}
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		r, err := l.inProcess(ctx, key)
		if err != nil {
			release()
			return nil, err
		}
		releases = append(releases, r)
		if r, err = l.acrossProcesses(ctx, key); err != nil {
			release()
			return nil, err
		}
		releases = append(releases, r)
	}
	return release, nil
}

func (l *locks) inProcess(ctx context.Context, key string) (func(), error) {
	l.mu.Lock()
	h := l.held[key]
	if h == nil {
		h = &held{free: make(chan struct{}, 1)}
		h.free <- struct{}{}
		l.held[key] = h
	}
	h.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if h.users--; h.users == 0 {
			delete(l.held, key)
		}
	}
	select {
	case <-h.free:
		return func() { h.free <- struct{}{}; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}

func (l *locks) acrossProcesses(ctx context.Context, key string) (func(), error) {
	if l.dir == "" {
		return func() {}, nil
	}
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(l.dir, key), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for wait := firstWait; ; wait = min(wait*2, longWait) {
		held, err := flock.Try(f)
		if held {
			return func() { f.Close() }, nil // which unlocks
		}
		if err != nil {
			f.Close()
			return nil, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			f.Close()
			return nil, context.Cause(ctx)
		}
	}
}
