package worker_test

import (
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/sandbox/sandboxtest"
	"github.com/toolyard/toolyard/internal/worker"
	"github.com/toolyard/toolyard/tool"
)

// box is the sandbox of a test.
func box(t *testing.T) *sandbox.Sandbox {
	t.Helper()
	s := sandbox.New(sandbox.Config{})
	t.Cleanup(func() { s.Close() })
	if report := s.Probe(t.Context()); !report.Level.AtLeast(sandbox.L2) {
		t.Skipf("level L2 cannot be had here, only %s: %v", report.Level, report.Missing)
	}
	return s
}

// language is one host with the module that the contract calls.
type language struct {
	name, program, suffix string
	host                  worker.Host
}

func languages() []language {
	return []language{
		{"node", "node", ".mjs", worker.Node{}},
		{"python", "python3", ".py", worker.Python{Program: "/usr/bin/python3"}},
	}
}

// need skips where a program is not there.
func (l language) need(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath(l.program); err != nil {
		t.Skipf("no %s", l.program)
	}
}

func fixture(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// config is that of a pool over one fixture.
func config(t *testing.T, s sandbox.Runner, host worker.Host, module string) worker.Config {
	t.Helper()
	path := fixture(t, module)
	return worker.Config{
		Runner: s, Host: host, Module: path, Env: []string{"PATH=/usr/bin:/bin"},
		Profile: sandbox.Profile{Kind: "toolbox", Read: append(sandboxtest.System(), filepath.Dir(path)), MinLevel: sandbox.L1},
	}
}

// open makes a pool that is closed with the test.
func open(t *testing.T, c worker.Config) *worker.Pool {
	t.Helper()
	p := worker.New(c)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := p.Close(ctx); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return p
}

// call calls with a generous deadline.
func call(t *testing.T, p *worker.Pool, c worker.Call) (*worker.Result, *tool.Error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := p.Call(ctx, c)
	if err != nil {
		return nil, tool.AsError(err)
	}
	return r, nil
}

// value is the result of a call that succeeds.
func value(t *testing.T, p *worker.Pool, name, args string) string {
	t.Helper()
	r, err := call(t, p, worker.Call{Name: name, Args: json.RawMessage(args)})
	if err != nil {
		t.Fatalf("%s(%s): %s %s %v", name, args, err.Code, err.Message, err.Details)
	}
	return string(r.Value)
}

// occupy starts a call that says when it runs, and returns then. The
// channel gets its error.
func occupy(ctx context.Context, t *testing.T, p *worker.Pool, function, args string) <-chan error {
	t.Helper()
	runs, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := p.Call(ctx, worker.Call{Name: function, Args: json.RawMessage(args), OnProgress: func(worker.Progress) { close(runs) }})
		failed <- err
	}()
	select {
	case <-runs:
	case err := <-failed:
		t.Fatalf("%s ended: %v", function, err)
	}
	return failed
}

// until waits for a condition.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}

func TestValues(t *testing.T) {
	s := box(t)
	for _, l := range languages() {
		t.Run(l.name, func(t *testing.T) {
			l.need(t)
			p := open(t, config(t, s, l.host, "tool"+l.suffix))
			nothing, environment := "", `["PATH"]`
			if l.name == "python" {
				nothing, environment = "null", `["LC_CTYPE","PATH"]` // the first is Python's own
			}
			for _, c := range []struct{ name, function, args, want string }{
				{"an object", "echo", `{"a":[1,"ü€𝄞",null,true,1.5]}`, `{"a":[1,"ü€𝄞",null,true,1.5]}`},
				{"line feeds", "echo", `"a\nb"`, `"a\nb"`},
				{"asynchronous", "later", `{"ms":1}`, `"later"`},
				{"an export beside the default", "plain", `1`, `{"plain":1}`},
				{"a method", "self", `null`, `"contract"`},
				{"state lives", "counter", `null`, `1`},
				{"state lives on", "counter", `null`, `2`},
				{"nothing", "nothing", `null`, nothing},
				{"an answer of the runtime", "ask", `{"n":21}`, `{"got":42}`},
				{"a refusal of the runtime", "askWrong", `null`, `"PERMISSION_DENIED"`},
				{"descriptor 3 of a child", "child", `null`, `"closed"`},
				{"the environment", "environment", `null`, environment},
			} {
				t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
					r, err := call(t, p, worker.Call{Name: c.function, Args: json.RawMessage(c.args), OnRequest: answer})
					if err != nil {
						t.Fatalf("%s %s %v", err.Code, err.Message, err.Details)
					}
					var got, want any
					if string(r.Value) != c.want && (json.Unmarshal(r.Value, &got) != nil || json.Unmarshal([]byte(c.want), &want) != nil || !equal(got, want)) {
						t.Errorf("%s(%s) = %s, want %s", c.function, c.args, r.Value, c.want)
					}
				})
			}
		})
	}
}

func equal(a, b any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

// answer doubles and refuses.
func answer(_ context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	if method != "double" {
		return nil, tool.Errorf(tool.PermissionDenied, "%s is not allowed", method)
	}
	var in struct{ N int }
	if err := json.Unmarshal(params, &in); err != nil {
		return nil, err
	}
	return json.Marshal(2 * in.N)
}
