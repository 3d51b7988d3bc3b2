package host_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/sandbox/sandboxtest"
	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/internal/toolbox/host"
	"github.com/toolyard/toolyard/internal/worker"
	"github.com/toolyard/toolyard/tool"
)

// box is the sandbox of a test.
func box(t testing.TB) *sandbox.Sandbox {
	t.Helper()
	s := sandbox.New(sandbox.Config{})
	t.Cleanup(func() { s.Close() })
	if report := s.Probe(t.Context()); !report.Level.AtLeast(sandbox.L2) {
		t.Skipf("level L2 cannot be had here, only %s: %v", report.Level, report.Missing)
	}
	return s
}

// bench is one tool in a home of its own, with a worker.
type bench struct {
	t      testing.TB
	runner sandbox.Runner
	setup  host.Setup
	config worker.Config
	pool   *worker.Pool
	def    *definition.Definition

	mu    sync.Mutex
	lines []string // LEVEL text meta
}

// need skips where a program is not there.
func need(t testing.TB, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("no %s", program)
	}
}

// lay writes files below dir.
func lay(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// newBench makes a tool of files; file is its module. What is special about its
// worker, change sets.
func newBench(t testing.TB, runner sandbox.Runner, name, file string, files map[string]string, change func(*bench)) *bench {
	t.Helper()
	home := t.TempDir()
	if err := os.Chmod(home, 0o755); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(home, "toolbox", name)
	lay(t, dir, files)
	for _, d := range []string{filepath.Join(dir, "data"), filepath.Join(home, "shared"), filepath.Join(home, "run")} {
		if err := os.MkdirAll(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	written, err := host.Write(filepath.Join(home, "run"))
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, runner: runner, setup: host.Setup{
		Name: name, Dir: dir, Data: filepath.Join(dir, "data"), Home: home, Shared: filepath.Join(home, "shared"), UserHome: "/home/someone",
		Directories: []string{filepath.Join(dir, "data"), filepath.Join(home, "shared")},
		Environment: map[string]string{"GREETING": "hello"},
	}}
	b.config = worker.Config{
		Runner: runner, Host: worker.Node{}, Module: filepath.Join(dir, file), Adapter: written.JS, Files: filepath.Join(home, "run"), Dir: dir, Max: 1,
		Profile: sandbox.Profile{
			Kind: "toolbox", Read: append(sandboxtest.System(), dir), Write: []string{filepath.Join(dir, "data"), filepath.Join(home, "shared")}, MinLevel: sandbox.L1,
		},
		OnLine: b.line,
	}
	if strings.HasSuffix(file, ".py") {
		b.config.Host, b.config.Adapter = worker.Python{Program: "/usr/bin/python3"}, written.Py
		need(t, "python3")
	} else {
		need(t, "node")
	}
	if change != nil {
		change(b)
	}
	b.config.Setup = b.setup.JSON()
	b.config.Env = b.setup.Env(map[string]string{"PATH": "/usr/bin:/bin"})
	b.pool = worker.New(b.config)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := b.pool.Close(ctx); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return b
}

func (b *bench) line(l worker.Line) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, strings.TrimRight(host.Level(l)+" "+l.Text+" "+string(l.Meta), " "))
}

// log gives what was logged since the last time.
func (b *bench) log() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	lines := b.lines
	b.lines = nil
	return lines
}

// describe asks the tool what it is.
func (b *bench) describe() *definition.Definition {
	b.t.Helper()
	r, err := b.pool.Call(b.t.Context(), host.Describe())
	if err != nil {
		b.t.Fatalf("describe: %+v", tool.AsError(err))
	}
	d, err := definition.Decode(r.Value)
	if err != nil {
		b.t.Fatal(err)
	}
	b.def = d
	return d
}

// call executes with parameters in JSON.
func (b *bench) call(params string) (*tool.Result, *tool.Error) {
	b.t.Helper()
	return b.do(host.Execute(json.RawMessage(params), ""))
}

func (b *bench) do(c worker.Call) (*tool.Result, *tool.Error) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	c.OnLine = b.line
	r, err := b.pool.Call(ctx, c)
	if err != nil {
		return nil, host.Failure(err, b.def)
	}
	return host.Result(r.Value, b.def)
}

// text is the text of a call that succeeds.
func (b *bench) text(params string) string {
	b.t.Helper()
	r, err := b.call(params)
	if err != nil {
		b.t.Fatalf("execute(%s): %s %s %v", params, err.Code, err.Message, err.Details)
	}
	return r.TextContent()
}
