package sandbox_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/sandbox/sandboxtest"
	"github.com/toolyard/toolyard/tool"
)

func TestParallel(t *testing.T) {
	s := sandbox.New(sandbox.Config{})
	defer s.Close()
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			if got := sandboxtest.Shell(t, s, sandbox.Profile{}, "echo $((6*7))"); got.Output != "42" {
				t.Errorf("got %q, %+v", got.Output, got.Ending)
			}
		})
	}
	all.Wait()
}

// TestSeveral: the sandboxes of one process do not get into each other's way.
func TestSeveral(t *testing.T) {
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			s := sandbox.New(sandbox.Config{})
			defer s.Close()
			for range 5 {
				if got := sandboxtest.Shell(t, s, sandbox.Profile{}, "echo $((6*7))"); got.Output != "42" {
					t.Errorf("got %q, %+v", got.Output, got.Ending)
				}
			}
		})
	}
	all.Wait()
}

// TestNothingIsLeft counts descriptors and children before and after.
func TestNothingIsLeft(t *testing.T) {
	s := sandbox.New(sandbox.Config{})
	sandboxtest.Shell(t, s, sandbox.Profile{}, "true")
	s.Close()
	before := descriptors(t)
	s = sandbox.New(sandbox.Config{})
	for range 5 {
		sandboxtest.Shell(t, s, sandbox.Profile{}, "sleep 100 & echo x")
	}
	if _, err := s.Start(t.Context(), sandbox.Cmd{Args: []string{"/no/such/program"}}); err == nil {
		t.Error("a program that does not exist was started")
	}
	s.Close()
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != syscall.ECHILD {
		t.Errorf("child %d is left, %v", pid, err)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestContextEndsTheCommand(t *testing.T) {
	s := sandbox.New(sandbox.Config{})
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	p, err := s.Start(ctx, sandbox.Cmd{Args: []string{"/bin/sleep", "987"}, Profile: sandbox.Profile{Read: sandboxtest.System()}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	short, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer stop()
	if r := p.Wait(short); r.Ending.Reason != "" {
		t.Errorf("a command that runs has ended by %+v", r.Ending)
	}
	cancel()
	if r := p.Wait(t.Context()); r.Ending.Reason != sandbox.EndKilled {
		t.Errorf("ended by %+v, want killed", r.Ending)
	}
}

func TestSignal(t *testing.T) {
	s := sandbox.New(sandbox.Config{})
	defer s.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := s.Start(t.Context(), sandbox.Cmd{
		Args: []string{"/bin/bash", "-c", "trap 'exit 9' INT; echo ready; while :; do sleep 0.01; done"},
		Env:  []string{"PATH=/usr/bin:/bin"}, Stdout: w, Profile: sandbox.Profile{Read: sandboxtest.System()},
	})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := r.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	if err := p.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if got := p.Wait(t.Context()).Ending; got.Reason != sandbox.EndExit || got.Code != 9 {
		t.Errorf("ended by %+v, want the trap's exit 9", got)
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name  string
		cmd   sandbox.Cmd
		level sandbox.Level
		code  tool.Code
		says  string
	}{
		{"nothing to run", sandbox.Cmd{}, "", tool.ParameterError, "no command"},
		{"a relative path", sandbox.Cmd{Args: []string{"x"}, Profile: sandbox.Profile{Read: []string{"etc"}}}, "", tool.ParameterError, `"etc"`},
		{"all of the machine", sandbox.Cmd{Args: []string{"x"}, Profile: sandbox.Profile{Read: []string{"/"}}}, "", tool.ParameterError, "/"},
		{"the host's devices", sandbox.Cmd{Args: []string{"x"}, Profile: sandbox.Profile{Write: []string{"/dev/shm"}}}, "", tool.ParameterError, "/dev"},
		{"no directory to write in", sandbox.Cmd{Args: []string{"x"}, Profile: sandbox.Profile{Write: []string{"/no/such"}}}, "", tool.ParameterError, "/no/such"},
		{"a network", sandbox.Cmd{Args: []string{"x"}, Profile: sandbox.Profile{Network: sandbox.NetworkOf([]string{"all"})}}, sandbox.L1, tool.SandboxUnavailable, `network "all" cannot be granted at sandbox level L1: there is no network namespace`},
		{"domains", sandbox.Cmd{Args: []string{"x"}, Profile: sandbox.Profile{Network: sandbox.NetworkOf([]string{"a.test"}), MinLevel: sandbox.L0}}, sandbox.L0, tool.SandboxUnavailable, `network "domains" cannot be granted at sandbox level L0`},
		{"no host", sandbox.Cmd{Args: []string{"x"}, Profile: sandbox.Profile{Network: sandbox.NetworkOf([]string{"a b"})}}, "", tool.ParameterError, `"a b"`},
		{"a level that is not there", sandbox.Cmd{Args: []string{"x"}, Profile: sandbox.Profile{Kind: "toolbox"}}, sandbox.L1, tool.SandboxUnavailable, "L2 is required and L1"},
		{"no sandbox at all", sandbox.Cmd{Args: []string{"x"}}, sandbox.L0, tool.SandboxUnavailable, "L1 is required and L0"},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			s := sandbox.New(sandbox.Config{}.AtMost(c.level))
			defer s.Close()
			p, err := s.Start(t.Context(), c.cmd)
			if err == nil {
				p.Close()
				t.Fatal("it was started")
			}
			e := tool.AsError(err)
			if e.Code != c.code || !strings.Contains(e.Message, c.says) {
				t.Errorf("got %s %q, want %s and %q in it", e.Code, e.Message, c.code, c.says)
			}
		})
	}
}

// TestUnconfined: only a profile that says L0 runs without a sandbox, and even
// then nothing outlives it.
func TestUnconfined(t *testing.T) {
	s := sandbox.New(sandbox.Config{}.AtMost(sandbox.L0))
	defer s.Close()
	got := sandboxtest.Shell(t, s, sandbox.Profile{MinLevel: sandbox.L0}, "setsid sleep 987 & echo $!")
	if got.Sandbox.Level != "L0" || len(got.Sandbox.Layers) > 0 {
		t.Errorf("reported %+v", got.Sandbox)
	}
	if _, err := os.Stat("/proc/" + got.Output); err == nil {
		t.Errorf("process %s outlived its sandbox", got.Output)
	}
}
