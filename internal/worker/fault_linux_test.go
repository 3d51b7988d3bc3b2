package worker_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/worker"
	"github.com/toolyard/toolyard/tool"
)

// fault is something that a tool does to its worker: one error of one call.
type fault struct {
	name, function, args string
	code                 tool.Code
	says                 string
	only                 string // a language
	limits               worker.Limits
	memory               int64
	// lives says that the worker runs the next call as well.
	lives bool
}

// faults holds what must not take anything else with it. To add one: a function in
// testdata/tool.* and a row here.
var faults = []fault{
	{name: "throw", function: "fail", code: tool.ExecutionError, says: "TypeError: it is wrong", lives: true},
	{name: "throw later", function: "failLater", code: tool.ExecutionError, says: "later wrong", lives: true},
	{name: "throw null", function: "failOddly", code: tool.ExecutionError, says: "null", only: "node", lives: true},
	{name: "no such function", function: "noSuchFunction", code: tool.NotFound, says: "noSuchFunction", lives: true},
	{name: "a name of every object", function: "hasOwnProperty", code: tool.NotFound, says: "hasOwnProperty", lives: true},
	{name: "exit", function: "exit", args: `{"code":3}`, code: tool.ExecutionError, says: "exit code 3"},
	{name: "exit with success", function: "exit", args: `{"code":0}`, code: tool.ExecutionError, says: "exit code 0"},
	{name: "raise SystemExit", function: "systemExit", args: `{"code":3}`, code: tool.ExecutionError, says: "SystemExit", only: "python", lives: true},
	{name: "loop", function: "loop", code: tool.TimeoutError, says: "300ms", limits: worker.Limits{Wall: 300 * time.Millisecond}},
	{name: "loop against CPU time", function: "loop", code: tool.ResourceExhausted, says: "CPU time than its limit of 200ms", limits: worker.Limits{CPU: 200 * time.Millisecond}},
	{name: "sleep past the time", function: "deaf", code: tool.TimeoutError, says: "100ms", limits: worker.Limits{Wall: 100 * time.Millisecond}},
	{name: "a late throw", function: "throwLate", code: tool.ExecutionError, says: "late", only: "node"},
	{name: "a rejection", function: "rejectLate", code: tool.ExecutionError, says: "rejected", only: "node"},
	{name: "a cyclic result", function: "cyclic", code: tool.ExecutionError, says: "cannot be written as JSON", lives: true},
	{name: "a result that is no JSON", function: "big", code: tool.ExecutionError, says: "cannot be written as JSON", lives: true},
	{name: "a function as result", function: "functionValue", code: tool.ExecutionError, says: "cannot be written as JSON", only: "node", lives: true},
	{name: "5 MB of result", function: "large", args: `{"n":5000000}`, code: tool.ResourceExhausted, says: "5000002 bytes", lives: true},
	{name: "a result over the call's own limit", function: "large", args: `{"n":1000}`, limits: worker.Limits{Result: 100}, code: tool.ResourceExhausted, says: "1002 bytes, at most 100", lives: true},
	{name: "out of heap", function: "heap", code: tool.ResourceExhausted, says: "memory", memory: 128 * sandbox.MiB},
	{name: "2 GB of buffers", function: "buffers", code: tool.ResourceExhausted, says: "memory", memory: 256 * sandbox.MiB},
	{name: "garbage on descriptor 3", function: "garbage", code: tool.ExecutionError, says: "descriptor 3"},
	{name: "a forged result", function: "forge", code: tool.ExecutionError, says: "nonce"},
	{name: "a huge frame", function: "hugeFrame", code: tool.ExecutionError, says: "4294967295 bytes"},
	{name: "descriptor 3 closed", function: "closeControl", code: tool.ExecutionError, says: "descriptor 3", only: "node"},
	{name: "a flood of descriptors", function: "descriptors", code: tool.ExecutionError, says: "open files", lives: true},
	{name: "a file outside", function: "outside", code: tool.ExecutionError, says: "no such file", lives: true},
	{name: "a crash", function: "crash", code: tool.ExecutionError, says: "SIGSEGV"},
}

func TestFaults(t *testing.T) {
	s := box(t)
	for _, l := range languages() {
		t.Run(l.name, func(t *testing.T) {
			l.need(t)
			one := config(t, s, l.host, "tool"+l.suffix)
			one.Max = 1 // so that it is always the same worker, unless it was replaced
			p := open(t, one)
			for _, f := range faults {
				if f.only != "" && f.only != l.name {
					continue
				}
				t.Run(strings.ReplaceAll(f.name, " ", "_"), func(t *testing.T) {
					p := p
					if f.memory > 0 {
						c := one
						c.Profile.Memory = f.memory
						p = open(t, c)
					}
					before := value(t, p, "counter", "null")
					began := time.Now()
					r, err := call(t, p, worker.Call{Name: f.function, Args: json.RawMessage(f.args), Limits: f.limits})
					took := time.Since(began)
					if err == nil {
						t.Fatalf("it went well: %s", r.Value)
					}
					if err.Code != f.code || !strings.Contains(strings.ToLower(err.Message), strings.ToLower(f.says)) || !err.Began {
						t.Errorf("got %s %q (%v), want %s and %q", err.Code, err.Message, err.Details, f.code, f.says)
					}
					if f.limits.Wall > 0 && took > f.limits.Wall+10*time.Second {
						t.Errorf("took %s", took)
					}
					// The next call is none the wiser.
					after := value(t, p, "counter", "null")
					if lived := after != "1" || before == "0"; lived != f.lives {
						t.Errorf("the counter went from %s to %s: the worker lived is %v, want %v", before, after, lived, f.lives)
					}
				})
			}
		})
	}
}

func TestThrown(t *testing.T) {
	s := box(t)
	for _, l := range languages() {
		t.Run(l.name, func(t *testing.T) {
			l.need(t)
			p := open(t, config(t, s, l.host, "tool"+l.suffix))
			_, err := call(t, p, worker.Call{Name: "fail"})
			thrown, ok := errors.AsType[*worker.Thrown](err)
			if !ok {
				t.Fatalf("%v has no Thrown", err)
			}
			if thrown.Name != "TypeError" || thrown.Message != "it is wrong" || thrown.Code != "E_WRONG" || !strings.Contains(thrown.Stack, "fail") {
				t.Errorf("got %+v", thrown)
			}
		})
	}
}

// TestLoad: a module that cannot be loaded is one error for all who wait for it,
// and is tried again for those who come later.
func TestLoad(t *testing.T) {
	s := box(t)
	for _, c := range []struct {
		module string
		code   tool.Code
		says   string
	}{
		{"missing", tool.DependencyError, "no"},
		{"broken", tool.ExecutionError, "does not load: SyntaxError"},
		{"throws", tool.ExecutionError, "at load"},
		{"exits", tool.ExecutionError, "exit code 4"},
		{"never", tool.TimeoutError, "not loaded within 700ms"},
		{"not-there", tool.DependencyError, "does not load"},
	} {
		for _, l := range languages() {
			t.Run(c.module+"/"+l.name, func(t *testing.T) {
				l.need(t)
				module := c.module + l.suffix
				if _, err := os.Stat("testdata/" + module); err != nil && l.name == "node" {
					module = c.module + ".cjs"
				}
				want := c.code
				if c.module == "not-there" && l.name == "python" {
					want = tool.ExecutionError
				}
				conf := config(t, s, l.host, module)
				if c.module == "never" {
					conf.Ready = 700 * time.Millisecond
				}
				p := open(t, conf)
				for range 2 {
					_, err := call(t, p, worker.Call{Name: "execute"})
					if err == nil || err.Code != want || !strings.Contains(strings.ToLower(err.Message), strings.ToLower(c.says)) {
						t.Errorf("got %+v, want %s and %q", err, want, c.says)
					}
				}
				if s := p.Stats(); s.Workers != 0 {
					t.Errorf("%+v are left", s)
				}
			})
		}
	}
}

// TestKilledFromOutside: somebody ends a worker that runs a call, and one that
// idles.
func TestKilledFromOutside(t *testing.T) {
	s := box(t)
	for _, l := range languages() {
		t.Run(l.name, func(t *testing.T) {
			l.need(t)
			p := open(t, config(t, s, l.host, "tool"+l.suffix))
			r, err := call(t, p, worker.Call{Name: "echo"})
			if err != nil {
				t.Fatal(err)
			}
			failed := occupy(t.Context(), t, p, "deaf", "null")
			if err := syscall.Kill(r.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if err := tool.AsError(<-failed); err == nil || err.Code != tool.SandboxTerminated {
				t.Errorf("got %+v, want %s", err, tool.SandboxTerminated)
			}
			r, err = call(t, p, worker.Call{Name: "echo"})
			if err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(r.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			until(t, "the idle worker's end is noticed", func() bool {
				_, err := os.Stat(fmt.Sprintf("/proc/%d", r.PID))
				return err != nil
			})
			value(t, p, "echo", "1")
		})
	}
}
