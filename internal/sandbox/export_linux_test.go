//go:build amd64 || arm64

package sandbox

import (
	"context"
	"syscall"
)

// Ahead waits for what is being made ahead and says how many footings wait.
func (s *Sandbox) Ahead() int {
	s.ahead.work.Wait()
	s.ahead.mu.Lock()
	defer s.ahead.mu.Unlock()
	return len(s.ahead.ready)
}

// KillAhead kills the footings that wait.
func (s *Sandbox) KillAhead() {
	s.ahead.mu.Lock()
	defer s.ahead.mu.Unlock()
	for _, f := range s.ahead.ready {
		_ = f.init.Signal(syscall.SIGKILL)
	}
}

// PrepareOver makes a footing ahead, with something happening between the look
// at the profile's paths and the mounts.
func (s *Sandbox) PrepareOver(ctx context.Context, p Profile, meanwhile func()) error {
	p = p.Defaults()
	t, err := newTree(&p)
	if err != nil {
		return err
	}
	m := s.measure(ctx)
	meanwhile()
	s.prepare(m, t, p, m.footingKey(&p, t))
	s.Ahead()
	return nil
}

// AheadPIDs are the processes that wait.
func (s *Sandbox) AheadPIDs() []int {
	s.Ahead()
	s.ahead.mu.Lock()
	defer s.ahead.mu.Unlock()
	var pids []int
	for _, f := range s.ahead.ready {
		pids = append(pids, f.init.PID)
	}
	return pids
}
