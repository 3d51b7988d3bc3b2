//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// TestUnlimited: what the kernel does not limit is said.
func TestUnlimited(t *testing.T) {
	layers := []string{"memory limit", "page cache limit", "kernel memory limit", "pids limit", "cpu share", "cpu accounting"}
	for _, c := range []struct {
		name string
		uid  int
		want string // of the limit of processes
	}{
		{"an ordinary user", 1000, "RLIMIT_NPROC bounds"},
		{"root", 0, "does not count for root"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := map[string]Missing{}
			for _, m := range unlimited(nil, "no cgroup can be made", c.uid) {
				got[m.Layer] = m
			}
			for _, layer := range layers {
				if m := got[layer]; !strings.HasPrefix(m.Reason, "no cgroup can be made; ") || m.Fix == "" {
					t.Errorf("%s: got %+v, want the reason and a fix", layer, m)
				}
			}
			if len(got) != len(layers) || !strings.Contains(got["pids limit"].Reason, c.want) {
				t.Errorf("got %+v, want %v and %q", got, layers, c.want)
			}
		})
	}
}

// TestProbeFault: what goes wrong once does not lower the level; what goes wrong
// for a while lowers it for as long only; what the kernel refuses is not tried
// again. A probe that failed for want of a moment once left a runtime at L1 for
// good.
func TestProbeFault(t *testing.T) {
	for _, c := range []struct {
		name          string
		err           error
		times         int // that an attempt fails, with a namespace
		during, after Level
		attempts      int // of the first probe, that failed
	}{
		{"once", syscall.EAGAIN, 1, L2, L2, 1},
		{"for a while", errors.New("a probe ended by signal 9"), 12, L1, L2, 12},
		{"refused", syscall.EPERM, 4, L1, L1, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			failed := 0
			s := New(Config{fault: func(l Level) error {
				if !l.AtLeast(L2b) || failed >= c.times {
					return nil
				}
				failed++
				return fmt.Errorf("fork: %w", c.err)
			}})
			defer s.Close()
			if level := s.Probe(t.Context()).Level; level != c.during {
				t.Errorf("got level %s, want %s", level, c.during)
			}
			if failed != c.attempts {
				t.Errorf("%d attempts failed, want %d", failed, c.attempts)
			}
			if level := s.Probe(t.Context()).Level; level != c.after {
				t.Errorf("afterwards: got level %s, want %s", level, c.after)
			}
		})
	}
}
