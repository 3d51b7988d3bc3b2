package sandbox_test

import (
	"context"
	"testing"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/tool"
)

// TestOnce: a Sandbox for one command says of it what one that measures does, and
// refuses what that refuses.
func TestOnce(t *testing.T) {
	measured := sandbox.New(sandbox.Config{})
	defer measured.Close()
	want := measured.Probe(t.Context())
	run := func(p sandbox.Profile, args ...string) (sandbox.Result, error) {
		t.Helper()
		s := sandbox.New(sandbox.Config{Once: true})
		defer s.Close()
		p.Kind, p.Mounts = "run", sandbox.Toolchains("/usr/bin:/bin", "").Mounts
		process, err := s.Start(t.Context(), sandbox.Cmd{Args: args, Env: []string{"PATH=/usr/bin:/bin"}, Profile: p})
		if err != nil {
			return sandbox.Result{}, err
		}
		defer process.Close()
		return process.Wait(context.Background()), nil
	}
	r, err := run(sandbox.Profile{}, "true")
	if err != nil {
		t.Fatal(err)
	}
	if r.Ending.Reason != sandbox.EndExit || r.Ending.Code != 0 || r.Sandbox.Level != string(want.Level) || len(r.Sandbox.Missing) != len(want.Missing) || len(r.Sandbox.Layers) != len(want.Layers) {
		t.Errorf("result %+v, want level %s, layers %v, missing %v", r, want.Level, want.Layers, want.Missing)
	}
	for _, c := range []struct {
		name    string
		profile sandbox.Profile
		command string
		want    tool.Code
	}{
		{"a level that cannot be had", sandbox.Profile{MinLevel: sandbox.L3}, "true", tool.SandboxUnavailable},
		{"a program that is not there", sandbox.Profile{}, "no-such-program", tool.NotFound},
		{"a path that makes no sense", sandbox.Profile{Read: []string{"/"}}, "true", tool.ParameterError},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := run(c.profile, c.command); tool.AsError(err) == nil || tool.AsError(err).Code != c.want {
				t.Errorf("error %v, want %s", err, c.want)
			}
		})
	}
}
