//go:build amd64 || arm64

package docker_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/sandbox/docker"
	"github.com/toolyard/toolyard/internal/sandbox/sandboxtest"
)

func TestMain(m *testing.M) {
	sandboxtest.Main()
	if len(os.Args) == 4 && os.Args[1] == runtimeArg {
		runtimeMain(os.Args[2], os.Args[3])
	}
	os.Exit(run(m))
}

// daemon is one for all tests; nil where none can be started.
var daemon *sandboxtest.Daemon

func run(m *testing.M) int {
	if sandboxtest.NoDockerd() == "" {
		var err error
		if daemon, err = sandboxtest.StartDockerd(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() {
			if err := daemon.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}()
	}
	return m.Run()
}

func runner(t *testing.T) *docker.Runner {
	t.Helper()
	if daemon == nil {
		t.Skip(sandboxtest.NoDockerd())
	}
	r := docker.New(docker.Config{Host: "unix://" + daemon.Socket, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func TestContract(t *testing.T) {
	r := runner(t)
	t.Logf("%+v", r.Probe(t.Context()))
	sandboxtest.Run(t, r, sandbox.Docker)
}
