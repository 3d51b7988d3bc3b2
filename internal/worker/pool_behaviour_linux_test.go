package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/worker"
	"github.com/toolyard/toolyard/tool"
)

func TestOutput(t *testing.T) {
	s := box(t)
	for _, l := range languages() {
		t.Run(l.name, func(t *testing.T) {
			l.need(t)
			p := open(t, config(t, s, l.host, "tool"+l.suffix))
			lines := map[string][]string{}
			collect := func(l worker.Line) {
				lines[l.Stream+l.Level] = append(lines[l.Stream+l.Level], l.Text+string(l.Meta))
			}
			if _, err := call(t, p, worker.Call{Name: "logs", OnLine: collect}); err != nil {
				t.Fatal(err)
			}
			want := map[string][]string{"stdout": {"printed", "unfinished"}, "stderr": {"raw error"}, "logwarn": {`a warning{"n": 2}`}}
			if l.name == "node" {
				want = map[string][]string{
					"loginfo": {"to the log { a: 1 }"}, "logerror": {"an error"}, "logwarn": {`a warning{"n":2}`},
					"stdout": {"raw", "unfinished"}, "stderr": {"raw error"},
				}
			}
			if diff := cmp.Diff(want, lines); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
			lines = map[string][]string{}
			if _, err := call(t, p, worker.Call{Name: "binary", OnLine: collect}); err != nil {
				t.Fatal(err)
			}
			if got, want := lines["stdout"], []string{"\x00\uFFFD", "\x01\x02"}; !slices.Equal(got, want) {
				t.Errorf("binary output: got %q, want %q", got, want)
			}
			kept := 0
			r, err := call(t, p, worker.Call{Name: "flood", Limits: worker.Limits{Output: 50_000}, OnLine: func(l worker.Line) { kept += len(l.Text) + 1 }})
			if err != nil {
				t.Fatal(err)
			}
			if kept > 50_000 || kept < 48_000 || kept+r.Dropped != 3000*1001 {
				t.Errorf("%d bytes came and %d were dropped, want 50,000 of %d", kept, r.Dropped, 3000*1001)
			}
		})
	}
}

func TestProgress(t *testing.T) {
	s := box(t)
	for _, l := range languages() {
		t.Run(l.name, func(t *testing.T) {
			l.need(t)
			p := open(t, config(t, s, l.host, "tool"+l.suffix))
			var got []worker.Progress
			if _, err := call(t, p, worker.Call{Name: "progress", Args: json.RawMessage(`{"n":3}`), OnProgress: func(p worker.Progress) { got = append(got, p) }}); err != nil {
				t.Fatal(err)
			}
			want := []worker.Progress{{1, 3, "step 1"}, {2, 3, "step 2"}, {3, 3, "step 3"}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("progress (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCancel: the call returns at once, and what stops by itself is not killed.
func TestCancel(t *testing.T) {
	s := box(t)
	for _, l := range languages() {
		for _, c := range []struct {
			function string
			lives    bool
			only     string
		}{{"wait", true, ""}, {"waitAsync", true, "python"}, {"deaf", false, ""}, {"loop", false, "node"}} {
			if c.only != "" && c.only != l.name {
				continue
			}
			t.Run(l.name+"/"+c.function, func(t *testing.T) {
				l.need(t)
				conf := config(t, s, l.host, "tool"+l.suffix)
				conf.Max = 1
				conf.Grace = 2 * time.Second
				if c.lives {
					conf.Grace = 20 * time.Second
				}
				p := open(t, conf)
				before, err := call(t, p, worker.Call{Name: "counter"})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				failed := occupy(ctx, t, p, c.function, "null")
				began := time.Now()
				cancel(errors.New("no longer wanted"))
				failure := <-failed
				if took := time.Since(began); took > conf.Grace*3/4 {
					t.Errorf("it returned after %s", took)
				}
				e := tool.AsError(failure)
				if e == nil || e.Code != tool.Cancelled || !strings.Contains(e.Message, "no longer wanted") {
					t.Errorf("got %+v, want %s", failure, tool.Cancelled)
				}
				after, err := call(t, p, worker.Call{Name: "counter"})
				if err != nil {
					t.Fatal(err)
				}
				if lived := string(after.Value) == "2" && after.PID == before.PID; lived != c.lives {
					t.Errorf("the counter is at %s: the worker lived is %v, want %v", after.Value, lived, c.lives)
				}
			})
		}
	}
}

// TestTasks: what a coroutine of Python begins lives on to the next call, unless it
// was cancelled.
func TestTasks(t *testing.T) {
	s := box(t)
	l := languages()[1]
	l.need(t)
	conf := config(t, s, l.host, "tool.py")
	conf.Max = 1
	conf.Grace = time.Second
	p := open(t, conf)
	value(t, p, "startTask", "null")
	if got := value(t, p, "taskRuns", "null"); got != "true" {
		t.Errorf("a task of an earlier call runs: %s", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	failed := occupy(ctx, t, p, "startTask", `{"wait":true}`)
	cancel()
	if err := tool.AsError(<-failed); err == nil || err.Code != tool.Cancelled {
		t.Errorf("got %+v, want %s", err, tool.Cancelled)
	}
	r, err := call(t, p, worker.Call{Name: "taskRuns"})
	if err != nil || string(r.Value) != "false" || r.Calls != 3 {
		t.Errorf("a task of a cancelled call: %+v, %v", r, err)
	}
}

func TestDeadline(t *testing.T) {
	s := box(t)
	l := languages()[0]
	l.need(t)
	p := open(t, config(t, s, l.host, "tool"+l.suffix))
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, tool.ErrTimeout)
	defer cancel()
	_, err := p.Call(ctx, worker.Call{Name: "wait"})
	if e := tool.AsError(err); e == nil || e.Code != tool.TimeoutError {
		t.Errorf("got %v, want %s", err, tool.TimeoutError)
	}
}

func TestModules(t *testing.T) {
	s := box(t)
	for _, c := range []struct{ name, module, adapter, setup, function, args, want string }{
		{"a class", "tool.cjs", "", "", "greet", `{"who":"you"}`, `"hello you"`},
		{"a function", "function.cjs", "", "", "", `1`, `{"called":1}`},
		{"a top-level await", "await.mjs", "", "", "base", `{"path":"/a/b"}`, `"b"`},
		{"an adapter", "tool.mjs", "adapter.cjs", `{"prefix":"> "}`, "shout", `{"text":"a"}`, ``},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			languages()[0].need(t)
			conf := config(t, s, worker.Node{}, c.module)
			if c.adapter != "" {
				conf.Adapter, conf.Setup = fixture(t, c.adapter), json.RawMessage(c.setup)
				c.want = `"> A"`
			}
			if got := value(t, open(t, conf), c.function, c.args); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestAdapterPython: an adapter has a say in how the module is loaded.
func TestAdapterPython(t *testing.T) {
	s := box(t)
	l := languages()[1]
	l.need(t)
	conf := config(t, s, l.host, "tool.py")
	conf.Adapter, conf.Setup = fixture(t, "adapter.py"), json.RawMessage(`{"prefix":"> "}`)
	if got, want := value(t, open(t, conf), "shout", `{"text":"a"}`), `"> A/tool.py"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestRetire: a worker that says so gets no other call.
func TestRetire(t *testing.T) {
	s := box(t)
	languages()[0].need(t)
	conf := config(t, s, worker.Node{}, "tool.mjs")
	conf.Adapter, conf.Setup, conf.Max = fixture(t, "adapter.cjs"), json.RawMessage(`{}`), 1
	p := open(t, conf)
	for range 2 {
		if got := value(t, p, "counter", "null"); got != "1" {
			t.Errorf("the counter is at %s, want 1", got)
		}
		_, err := call(t, p, worker.Call{Name: "spoil"})
		if err == nil || err.Code != tool.ExecutionError || err.Message != "Error: spoiled" {
			t.Errorf("got %+v", err)
		}
	}
}

// TestLate: what a tool throws after its call is no error of the next one.
func TestLate(t *testing.T) {
	s := box(t)
	languages()[0].need(t)
	conf := config(t, s, worker.Node{}, "tool.mjs")
	conf.Max = 1
	conf.Ping = 20 * time.Millisecond // so that it is noticed while nobody calls
	p := open(t, conf)
	first, err := call(t, p, worker.Call{Name: "throwAfter"})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the worker is replaced", func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/%d", first.PID))
		return err != nil
	})
	if got := value(t, p, "counter", "null"); got != "1" {
		t.Errorf("the counter is at %s, want 1", got)
	}
}

func TestFresh(t *testing.T) {
	s := box(t)
	languages()[1].need(t)
	conf := config(t, s, worker.Python{Program: "/usr/bin/python3", Fresh: true}, "tool.py")
	conf.Max = 1
	p := open(t, conf)
	pids := map[int]bool{}
	for range 20 {
		r, err := call(t, p, worker.Call{Name: "counter"})
		if err != nil {
			t.Fatal(err)
		}
		if string(r.Value) != "1" {
			t.Errorf("the counter is at %s, want 1", r.Value)
		}
		pids[r.PID] = true
	}
	if len(pids) != 1 {
		t.Errorf("%d sandboxes, want 1", len(pids))
	}
	if _, err := call(t, p, worker.Call{Name: "exit", Args: json.RawMessage(`{"code":3}`)}); err == nil || !strings.Contains(err.Message, "exit code 3") {
		t.Errorf("got %v, want exit code 3", err)
	}
	if got := value(t, p, "echo", "1"); got != "1" {
		t.Errorf("got %s", got)
	}
}

// TestRecycled: a worker does not live for ever.
func TestRecycled(t *testing.T) {
	s := box(t)
	for _, c := range []struct {
		name, function, args string
		change               func(*worker.Config)
		calls                int
	}{
		{"after its number of calls", "counter", "null", func(c *worker.Config) { c.MaxCalls = 3 }, 3},
		{"when it has grown", "grow", `{"n":90000000}`, func(c *worker.Config) { c.Profile.Memory = 160 * sandbox.MiB }, 1},
	} {
		for _, l := range languages() {
			t.Run(strings.ReplaceAll(c.name, " ", "_")+"/"+l.name, func(t *testing.T) {
				l.need(t)
				conf := config(t, s, l.host, "tool"+l.suffix)
				conf.Max = 1
				c.change(&conf)
				p := open(t, conf)
				var last *worker.Result
				for range c.calls {
					r, err := call(t, p, worker.Call{Name: c.function, Args: json.RawMessage(c.args)})
					if err != nil {
						t.Fatal(err)
					}
					if last != nil && r.PID != last.PID {
						t.Errorf("replaced after %d calls", last.Calls+1)
					}
					last = r
				}
				r, err := call(t, p, worker.Call{Name: "counter"})
				if err != nil {
					t.Fatal(err)
				}
				if r.PID == last.PID || r.Calls != 0 {
					t.Errorf("process %d had %d calls before, want another one than %d", r.PID, r.Calls, last.PID)
				}
			})
		}
	}
}

// TestPool: how many workers there are.
func TestPool(t *testing.T) {
	s := box(t)
	languages()[0].need(t)
	t.Run("warm", func(t *testing.T) {
		conf := config(t, s, worker.Node{}, "tool.mjs")
		conf.Warm = 2
		p := open(t, conf)
		if err := p.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, want := p.Stats(), (worker.Stats{Workers: 2, Idle: 2}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if _, err := call(t, p, worker.Call{Name: "exit", Args: json.RawMessage(`{"code":0}`)}); err == nil {
			t.Error("a call that exits went well")
		}
		until(t, "the lost one is replaced", func() bool { return p.Stats() == worker.Stats{Workers: 2, Idle: 2} })
	})
	t.Run("one start for all who wait", func(t *testing.T) {
		conf := config(t, s, worker.Node{}, "tool.mjs")
		conf.Max = 1
		p := open(t, conf)
		pids := make(chan int, 8)
		for range cap(pids) {
			go func() {
				r, err := p.Call(t.Context(), worker.Call{Name: "echo"})
				if err != nil {
					t.Error(err)
					pids <- 0
					return
				}
				pids <- r.PID
			}()
		}
		first := <-pids
		for range cap(pids) - 1 {
			if pid := <-pids; pid != first {
				t.Errorf("processes %d and %d", first, pid)
			}
		}
	})
	t.Run("one call after the other needs one", func(t *testing.T) {
		p := open(t, config(t, s, worker.Node{}, "tool.mjs"))
		for began := time.Now(); time.Since(began) < 700*time.Millisecond; {
			value(t, p, "echo", "1")
		}
		if got := p.Stats().Workers; got != 1 {
			t.Errorf("%d workers, want 1", got)
		}
	})
	t.Run("by load, with a spare", func(t *testing.T) {
		conf := config(t, s, worker.Node{}, "tool.mjs")
		conf.Max = 3
		p := open(t, conf)
		value(t, p, "echo", "1")
		if got := p.Stats(); got.Workers != 1 {
			t.Errorf("%+v after one call, want one worker", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		for range 2 {
			calls.Go(func() { _, _ = p.Call(ctx, worker.Call{Name: "wait"}) })
		}
		until(t, "two run and one is ready", func() bool { return p.Stats() == worker.Stats{Workers: 3, Busy: 2, Idle: 1} })
		for range 3 {
			calls.Go(func() { _, _ = p.Call(ctx, worker.Call{Name: "wait"}) })
		}
		until(t, "no more than three", func() bool { return p.Stats() == worker.Stats{Workers: 3, Busy: 3, Waiting: 2} })
		cancel()
		calls.Wait()
	})
	t.Run("a full queue, in order", func(t *testing.T) {
		conf := config(t, s, worker.Node{}, "tool.mjs")
		conf.Max, conf.Queue = 1, 3
		p := open(t, conf)
		value(t, p, "echo", "1")
		ctx, cancel := context.WithCancel(t.Context())
		failed := occupy(ctx, t, p, "wait", "null")
		var calls sync.WaitGroup
		order := make(chan string, 3)
		for i := range 3 {
			calls.Go(func() {
				r, err := p.Call(t.Context(), worker.Call{Name: "counter"})
				if err != nil {
					t.Error(err)
					return
				}
				order <- fmt.Sprint(i, " ", string(r.Value))
			})
			until(t, "it waits", func() bool { return p.Stats().Waiting == i+1 })
		}
		if _, err := call(t, p, worker.Call{Name: "counter"}); err == nil || err.Code != tool.QueueFull {
			t.Errorf("got %v, want %s", err, tool.QueueFull)
		}
		cancel()
		<-failed
		calls.Wait()
		close(order)
		var got []string
		for s := range order {
			got = append(got, s)
		}
		slices.Sort(got)
		if want := []string{"0 1", "1 2", "2 3"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("idle ones end", func(t *testing.T) {
		conf := config(t, s, worker.Node{}, "tool.mjs")
		conf.Idle, conf.Ping = 50*time.Millisecond, 20*time.Millisecond
		p := open(t, conf)
		value(t, p, "echo", "1")
		until(t, "it ends", func() bool { return p.Stats() == worker.Stats{} })
		value(t, p, "echo", "1")
	})
	t.Run("one that hangs while idle is replaced", func(t *testing.T) {
		conf := config(t, s, worker.Node{}, "tool.mjs")
		conf.Warm, conf.Max, conf.Ping = 1, 1, 20*time.Millisecond
		p := open(t, conf)
		if err := p.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		first, err := call(t, p, worker.Call{Name: "hangAfter"})
		if err != nil {
			t.Fatal(err)
		}
		until(t, "it is replaced", func() bool {
			_, err := os.Stat(fmt.Sprintf("/proc/%d", first.PID))
			return err != nil && p.Stats() == worker.Stats{Workers: 1, Idle: 1}
		})
	})
	t.Run("several calls in one", func(t *testing.T) {
		conf := config(t, s, worker.Node{}, "tool.mjs")
		conf.Max, conf.Concurrent = 1, 4
		p := open(t, conf)
		value(t, p, "echo", "1")
		began := time.Now()
		var calls sync.WaitGroup
		for range 4 {
			calls.Go(func() {
				if _, err := p.Call(t.Context(), worker.Call{Name: "later", Args: json.RawMessage(`{"ms":2000}`)}); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
		if took := time.Since(began); took > 7*time.Second {
			t.Errorf("four calls of 2 s took %s", took)
		}
	})
}

// TestLargeFrames goes up to the limit both ways, and over it.
func TestLargeFrames(t *testing.T) {
	s := box(t)
	for _, l := range languages() {
		t.Run(l.name, func(t *testing.T) {
			l.need(t)
			p := open(t, config(t, s, l.host, "tool"+l.suffix))
			text := `"` + strings.Repeat("äb\\n", 3<<20) + `"`
			r, err := call(t, p, worker.Call{Name: "echo", Args: json.RawMessage(text), Limits: worker.Limits{Result: -1}})
			if l.name == "python" && err != nil && err.Code == tool.ResourceExhausted {
				// It writes what is not ASCII as \u00e4.
				text = `"` + strings.Repeat("ab\\n", 3<<20) + `"`
				r, err = call(t, p, worker.Call{Name: "echo", Args: json.RawMessage(text), Limits: worker.Limits{Result: -1}})
			}
			if err != nil {
				t.Fatal(err.Code, err.Message)
			}
			if !bytes.Equal(r.Value, []byte(text)) {
				t.Errorf("%d bytes came back of %d", len(r.Value), len(text))
			}
			if _, err := call(t, p, worker.Call{Name: "echo", Args: json.RawMessage(`"` + strings.Repeat("x", 17<<20) + `"`)}); err == nil || err.Code != tool.ParameterError {
				t.Errorf("got %v, want %s", err, tool.ParameterError)
			}
			value(t, p, "echo", "1")
		})
	}
}

// TestClose: calls end first, and nothing is left.
func TestClose(t *testing.T) {
	s := box(t)
	languages()[0].need(t)
	sandboxed(t, s)
	before, files := runtime.NumGoroutine(), descriptors(t)
	p := worker.New(config(t, s, worker.Node{}, "tool.mjs"))
	value(t, p, "echo", "1")
	long := occupy(t.Context(), t, p, "wait", "null")
	short := occupy(t.Context(), t, p, "later", `{"ms":200}`)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	if err := p.Close(ctx); err != nil {
		t.Error(err)
	}
	if err := <-short; err != nil {
		t.Errorf("the short call: %v", err)
	}
	if err := <-long; err == nil {
		t.Error("the long call went well")
	}
	if _, err := p.Call(t.Context(), worker.Call{Name: "echo"}); err == nil {
		t.Error("a closed pool took a call")
	}
	if err := p.Close(t.Context()); err != nil {
		t.Errorf("closing again: %v", err)
	}
	until(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
	until(t, "no descriptor is left", func() bool { return descriptors(t) <= files })
}

// sandboxed runs something, so that what the sandbox keeps is there.
func sandboxed(t *testing.T, s *sandbox.Sandbox) {
	t.Helper()
	p := worker.New(config(t, s, worker.Node{}, "tool.mjs"))
	value(t, p, "echo", "1")
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
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

// TestCloseWhileStarting does not wait for a module that never ends loading.
func TestCloseWhileStarting(t *testing.T) {
	s := box(t)
	languages()[0].need(t)
	p := worker.New(config(t, s, worker.Node{}, "never.cjs"))
	failed := make(chan error, 1)
	go func() {
		_, err := p.Call(t.Context(), worker.Call{Name: "echo"})
		failed <- err
	}()
	until(t, "it starts", func() bool { return p.Stats().Starting == 1 })
	began := time.Now()
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
	if err := <-failed; err == nil {
		t.Error("the call went well")
	}
}
