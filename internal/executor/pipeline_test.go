package executor_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/event"
	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/internal/policy"
	"github.com/toolyard/toolyard/internal/secret"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

func TestStagesStandInTheirOrder(t *testing.T) {
	want := []string{"admit", "event", "metric", "validate", "doom loop", "permission", "cache", "schedule", "output", "redact", "retry", "timeout"}
	if diff := cmp.Diff(want, newBench(t, nil).Stages()); diff != "" {
		t.Errorf("Stages (-want +got):\n%s", diff)
	}
}

func TestCallFillsMetaEventsAndRecord(t *testing.T) {
	b := newBench(t, nil, echo())
	var own []string
	r := b.Call(t.Context(), executor.Call{Tool: "echo", Arguments: []byte(`{"message":"hi"}`), Session: "s", OnEvent: func(e tool.Event) { own = append(own, e.Type) }})
	passed(t, r)
	if r.TextContent() != "hi" || !strings.HasPrefix(r.Meta.CallID, "call_") || len(r.Meta.CallID) != 21 || r.Meta.Attempts != 1 || r.Meta.DurationMS <= 0 {
		t.Errorf("result %q, meta %+v", r.TextContent(), r.Meta)
	}
	row, err := b.store.Call(t.Context(), r.Meta.CallID)
	if err != nil {
		t.Fatal(err)
	}
	if row.Status != "ok" || row.Tool != "echo" || row.Verdict != "allow" || string(row.Arguments) != `{"message":"hi"}` || row.BytesOut != 2 || len(row.Meta) == 0 {
		t.Errorf("row = %+v", row)
	}
	if diff := cmp.Diff([]string{"call_started", "call_finished"}, own); diff != "" {
		t.Errorf("events of the call (-want +got):\n%s", diff)
	}
	sub, _ := b.bus.Subscribe(0, nil)
	defer sub.Close()
	for _, want := range own {
		if e := <-sub.C(); e.Type != want || e.CallID != r.Meta.CallID || e.Tool != "echo" {
			t.Errorf("event %+v, want %s", e, want)
		}
	}
}

func TestRefusalsAreRecordedAndReachNoTool(t *testing.T) {
	var ran atomic.Bool
	x := function(tool.Spec{Effects: tool.Write, Default: tool.Deny}, func(context.Context, *tool.Request, echoIn) (*tool.Result, error) {
		ran.Store(true)
		return tool.Text("ran"), nil
	})
	tests := []struct {
		name string
		call executor.Call
		code tool.Code
		text string
	}{
		{"no such tool", executor.Call{Tool: "echoo"}, tool.ToolNotFound, "echo"},
		{"wrong arguments", executor.Call{Tool: "t", Arguments: []byte(`{"n":"x","texxt":1}`)}, tool.ValidationError, "n"},
		{"cut off arguments", executor.Call{Tool: "t", Arguments: []byte(`{"text":"abc`)}, tool.ValidationError, "cut off at byte"},
		{"denied", executor.Call{Tool: "t"}, tool.PermissionDenied, ""},
		{"mode plan", executor.Call{Tool: "t", Mode: policy.Plan}, tool.ModeDenied, ""},
		{"too large", executor.Call{Tool: "echo", Arguments: []byte(`{"text":"` + strings.Repeat("x", 16<<20) + `"}`)}, tool.ResourceExhausted, "bytes"},
	}
	b := newBench(t, nil, x, echo())
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.call.ID = fmt.Sprintf("call_%d", i)
			r := b.Call(t.Context(), test.call)
			coded(t, r, test.code)
			contains(t, r.TextContent(), test.text)
			row, err := b.store.Call(t.Context(), test.call.ID)
			if err != nil || row.Status != "refused" || row.Code != string(test.code) {
				t.Errorf("row = %+v, %v", row, err)
			}
			if len(row.Arguments) > 300<<10 {
				t.Errorf("the row holds %d bytes of arguments", len(row.Arguments))
			}
		})
	}
	if ran.Load() {
		t.Error("a refused call reached the tool")
	}
}

// A refused call never reaches a tool, whatever the rules, the mode and the
// answers are.
func TestRefusedCallsReachNoTool(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	names := []string{"alpha", "beta", "gamma"}
	effects := []tool.Effects{tool.Read, tool.Write, tool.Execute, tool.Network, tool.State, tool.Read | tool.Write}
	var ran sync.Map // call ID
	var tools []tool.Tool
	for i, name := range names {
		tools = append(tools, function(tool.Spec{Name: name, Effects: effects[i], Default: tool.Action(1 + i), ConcurrencySafe: true},
			func(_ context.Context, req *tool.Request, _ echoIn) (*tool.Result, error) {
				ran.Store(req.CallID, true)
				return tool.Text("ok"), nil
			}))
	}
	b := newBench(t, func(c *executor.Config) { c.Store, c.Bus, c.DoomLoop = nil, nil, "off" }, tools...)
	actions := []tool.Action{tool.Allow, tool.Ask, tool.Deny}
	texts := []string{"alpha", "beta", "gamma", "effect:read", "effect:write", "effect:execute", "*", "alpha(text:a*)", "gamma(text:*b)"}
	modes := []policy.Mode{"", policy.Build, policy.Plan, policy.Explore, policy.Trusted}
	options := []string{"once", "reject", "", "always"}
	refused, allowed := 0, 0
	for i := range 20_000 {
		rules := make([]policy.Rule, rng.IntN(4))
		denies := false
		for j := range rules {
			r, err := policy.ParseRule(actions[rng.IntN(3)], texts[rng.IntN(len(texts))], policy.Session, "test")
			if err != nil {
				t.Fatal(err)
			}
			rules[j] = r
		}
		name := names[rng.IntN(3)]
		for _, r := range rules {
			denies = denies || r.Action == tool.Deny && (r.Text == name || r.Text == "*")
		}
		option, asked, answered := options[rng.IntN(4)], false, false
		var who executor.Asker
		if rng.IntN(3) > 0 {
			who = answers(func(context.Context, tool.Question) (tool.Answer, error) {
				asked, answered = true, option == "once" || option == "always"
				return tool.Answer{Option: option}, nil
			})
		}
		call := executor.Call{
			Tool: name, ID: fmt.Sprintf("call_%d", i), Session: fmt.Sprint("s", i), Mode: modes[rng.IntN(len(modes))], Rules: rules, Asker: who,
			Arguments: args(echoIn{Text: []string{"", "ab", "ba"}[rng.IntN(3)], N: i}),
		}
		r := b.Call(t.Context(), call)
		_, reached := ran.LoadAndDelete(call.ID)
		if reached == r.IsError {
			t.Fatalf("call %+v with rules %v: reached %v, result %q", call, rules, reached, r.TextContent())
		}
		if reached && denies {
			t.Fatalf("call %+v ran against %v", call, rules)
		}
		if reached && asked && !answered {
			t.Fatalf("call %+v ran without leave", call)
		}
		if reached {
			allowed++
		} else {
			refused++
		}
	}
	if refused < 2000 || allowed < 2000 {
		t.Errorf("%d refused, %d allowed: the rules do not tell", refused, allowed)
	}
}

func TestPanicIsOneFailedCall(t *testing.T) {
	x := function(tool.Spec{Effects: tool.Read}, func(context.Context, *tool.Request, echoIn) (*tool.Result, error) { panic("secret stack") })
	b := newBench(t, nil, x, echo())
	r := b.Call(t.Context(), executor.Call{Tool: "t"})
	coded(t, r, tool.Internal)
	if text := r.TextContent(); strings.Contains(text, "secret stack") || strings.Contains(text, "goroutine") {
		t.Errorf("the panic shows: %q", text)
	}
	passed(t, b.Call(t.Context(), executor.Call{Tool: "echo"}))
}

func TestTimeoutKeepsWhatWasProduced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := function(tool.Spec{Effects: tool.Execute, Timeout: 7 * time.Second}, func(ctx context.Context, req *tool.Request, _ echoIn) (*tool.Result, error) {
			out, err := req.Host.Output(ctx)
			if err != nil {
				return nil, err
			}
			fmt.Fprint(out.Stream("stdout"), "half of it\n")
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), tool.ErrTimeout) {
				t.Errorf("cause = %v", context.Cause(ctx))
			}
			return nil, ctx.Err()
		})
		b := newBench(t, nil, x)
		start := time.Now()
		r := b.Call(t.Context(), executor.Call{Tool: "t", Session: "s"})
		coded(t, r, tool.TimeoutError)
		contains(t, r.TextContent(), "half of it\n", "limit of 7s")
		if took := time.Since(start); took != 7*time.Second {
			t.Errorf("took %s", took)
		}
		if r = b.Call(t.Context(), executor.Call{Tool: "t", Timeout: time.Second}); r.Err.Code != tool.TimeoutError || r.Meta.DurationMS != 1000 {
			t.Errorf("own timeout: %+v", r.Meta)
		}
	})
}

func TestToolThatDoesNotStopIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		x := function(tool.Spec{Effects: tool.Read, Idempotent: true, ConcurrencySafe: true, Timeout: time.Second}, func(context.Context, *tool.Request, echoIn) (*tool.Result, error) {
			<-stop
			return tool.Text("late"), nil
		})
		b := newBench(t, func(c *executor.Config) { c.Tools = map[string]executor.ToolConfig{"t": {Attempts: 1}} }, x)
		start := time.Now()
		r := b.Call(t.Context(), executor.Call{Tool: "t"})
		coded(t, r, tool.TimeoutError)
		if took := time.Since(start); took != 6*time.Second {
			t.Errorf("took %s, want the limit and 5 s", took)
		}
		if len(r.Meta.Notes) != 1 {
			t.Errorf("notes = %q", r.Meta.Notes)
		}
		for range 15 {
			coded(t, b.Call(t.Context(), executor.Call{Tool: "t"}), tool.TimeoutError)
		}
		coded(t, b.Call(t.Context(), executor.Call{Tool: "t"}), tool.ResourceExhausted)
		close(stop)
		synctest.Wait()
		passed(t, b.Call(t.Context(), executor.Call{Tool: "t"}))
	})
}

func TestClockStandsWhileAPersonIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := function(tool.Spec{Name: "inner", Effects: tool.Read, ConcurrencySafe: true, Timeout: 3 * time.Second}, func(ctx context.Context, req *tool.Request, _ echoIn) (*tool.Result, error) {
			if _, err := req.Ask(ctx, tool.Question{Kind: "clarification", Deadline: time.Hour}); err != nil {
				return nil, err
			}
			return tool.Text("answered"), nil
		})
		outer := function(tool.Spec{Name: "outer", Effects: tool.Read, ConcurrencySafe: true, Timeout: 3 * time.Second}, func(ctx context.Context, req *tool.Request, _ echoIn) (*tool.Result, error) {
			return req.Host.Call(ctx, "inner", nil)
		})
		b := newBench(t, nil, inner, outer)
		who := answers(func(ctx context.Context, q tool.Question) (tool.Answer, error) {
			time.Sleep(10 * time.Minute)
			return tool.Answer{Option: "x"}, ctx.Err()
		})
		r := b.Call(t.Context(), executor.Call{Tool: "outer", Asker: who})
		passed(t, r)
		if r.TextContent() != "answered" {
			t.Errorf("text = %q", r.TextContent())
		}
	})
}

func TestInnerCallEndsWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := function(tool.Spec{Name: "slow", Effects: tool.Read, ConcurrencySafe: true, Timeout: -1}, func(ctx context.Context, _ *tool.Request, _ echoIn) (*tool.Result, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		var inner *tool.Result
		outer := function(tool.Spec{Name: "outer", Effects: tool.Read, ConcurrencySafe: true, Timeout: 2 * time.Second}, func(ctx context.Context, req *tool.Request, _ echoIn) (*tool.Result, error) {
			inner, _ = req.Host.Call(ctx, "slow", nil)
			return inner, nil
		})
		b := newBench(t, nil, slow, outer)
		coded(t, b.Call(t.Context(), executor.Call{Tool: "outer", ID: "call_o"}), tool.TimeoutError)
		coded(t, inner, tool.TimeoutError)
		row, err := b.store.Call(t.Context(), inner.Meta.CallID)
		if err != nil || row.ParentID != "call_o" || row.Status != "error" {
			t.Errorf("row of the inner call = %+v, %v", row, err)
		}
	})
}

func TestCallsDoNotNestForEver(t *testing.T) {
	deepest := 0
	x := function(tool.Spec{Effects: tool.Read, ConcurrencySafe: true}, func(ctx context.Context, req *tool.Request, in echoIn) (*tool.Result, error) {
		deepest = max(deepest, in.N)
		return req.Host.Call(ctx, "t", args(echoIn{N: in.N + 1}))
	})
	b := newBench(t, nil, x)
	r := b.Call(t.Context(), executor.Call{Tool: "t"})
	coded(t, r, tool.ResourceExhausted)
	if deepest != 8 {
		t.Errorf("the deepest call was at %d, want 8", deepest)
	}
}

func TestRetry(t *testing.T) {
	began := tool.Errorf(tool.ConnectionError, "lost")
	began.Began = true
	later := tool.Errorf(tool.RateLimited, "slow down")
	later.RetryAfter = 20 * time.Second
	tests := []struct {
		name       string
		idempotent bool
		attempts   int
		fails      []error // then success
		want       int     // attempts
		took       time.Duration
		ok         bool
	}{
		{"connection, 3 retries", false, 0, []error{tool.Errorf(tool.ConnectionError, "a"), tool.Errorf(tool.ConnectionError, "b"), tool.Errorf(tool.ConnectionError, "c")}, 4, 7 * time.Second, true},
		{"connection, a fourth failure", true, 0, slices.Repeat([]error{tool.Errorf(tool.ConnectionError, "a")}, 4), 4, 7 * time.Second, false},
		{"begun and not idempotent", false, 0, []error{began}, 1, 0, false},
		{"begun and idempotent", true, 0, []error{began}, 2, time.Second, true},
		{"timeout, idempotent", true, 0, slices.Repeat([]error{tool.Errorf(tool.TimeoutError, "a")}, 3), 3, 3 * time.Second, false},
		{"timeout, not idempotent", false, 0, []error{tool.Errorf(tool.TimeoutError, "a")}, 1, 0, false},
		{"not retryable", true, 0, []error{tool.Errorf(tool.NotFound, "a")}, 1, 0, false},
		{"unknown errors had begun", false, 0, []error{errors.New("odd")}, 1, 0, false},
		{"attempts: 1", true, 1, []error{tool.Errorf(tool.ConnectionError, "a")}, 1, 0, false},
		{"attempts: 6", true, 6, slices.Repeat([]error{tool.Errorf(tool.ConnectionError, "a")}, 5), 6, 31 * time.Second, true},
		{"retry after", false, 0, []error{later}, 2, 20 * time.Second, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				x := function(tool.Spec{Effects: tool.Write, Idempotent: test.idempotent}, func(context.Context, *tool.Request, echoIn) (*tool.Result, error) {
					if n++; n <= len(test.fails) {
						return nil, test.fails[n-1]
					}
					return tool.Text("done"), nil
				})
				b := newBench(t, func(c *executor.Config) {
					c.Backoff.Jitter = -1
					c.Tools = map[string]executor.ToolConfig{"t": {Attempts: test.attempts}}
				}, x)
				start := time.Now()
				r := b.Call(t.Context(), executor.Call{Tool: "t"})
				if n != test.want || r.Meta.Attempts != test.want || len(r.Meta.Retried) != test.want-1 || r.IsError == test.ok {
					t.Errorf("%d attempts (meta %d, retried %v), result %q; want %d, ok %v", n, r.Meta.Attempts, r.Meta.Retried, r.TextContent(), test.want, test.ok)
				}
				if took := time.Since(start); took != test.took {
					t.Errorf("took %s, want %s", took, test.took)
				}
			})
		})
	}
}

func TestCancel(t *testing.T) {
	running := make(chan struct{})
	x := function(tool.Spec{Effects: tool.Write}, func(ctx context.Context, _ *tool.Request, _ echoIn) (*tool.Result, error) {
		close(running)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	b := newBench(t, nil, x)
	done := make(chan *tool.Result)
	go func() { done <- b.Call(t.Context(), executor.Call{Tool: "t", ID: "call_x", Session: "s"}) }()
	<-running
	list := b.Running()
	if len(list) != 1 || list[0].ID != "call_x" || list[0].Tool != "t" || list[0].Status != "running" {
		t.Errorf("Running = %+v", list)
	}
	coded(t, b.Call(t.Context(), executor.Call{Tool: "t", ID: "call_x"}), tool.ParameterError)
	if b.Cancel("call_y") || !b.Cancel("call_x") {
		t.Error("Cancel does not know what runs")
	}
	coded(t, <-done, tool.Cancelled)
	if row, _ := b.store.Call(t.Context(), "call_x"); row.Status != "cancelled" {
		t.Errorf("row = %+v", row)
	}
	if list := b.Running(); len(list) != 0 {
		t.Errorf("Running = %+v", list)
	}
}

func TestCloseDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := function(tool.Spec{Effects: tool.Read, ConcurrencySafe: true, Timeout: time.Hour}, func(ctx context.Context, _ *tool.Request, in echoIn) (*tool.Result, error) {
			select {
			case <-time.After(time.Duration(in.N) * time.Second):
				return tool.Text("done"), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
		b := newBench(t, nil, x)
		results := make(chan *tool.Result, 2)
		go func() { results <- b.Call(t.Context(), executor.Call{Tool: "t", Arguments: args(echoIn{N: 5})}) }()
		go func() { results <- b.Call(t.Context(), executor.Call{Tool: "t", Arguments: args(echoIn{N: 500})}) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if err := b.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
		passed(t, <-results)
		coded(t, <-results, tool.Cancelled)
		coded(t, b.Call(t.Context(), executor.Call{Tool: "t"}), tool.Cancelled)
		if err := b.Close(t.Context()); err != nil {
			t.Errorf("second Close: %v", err)
		}
		if len(b.store.metrics) == 0 {
			t.Error("no metrics were flushed")
		}
	})
}

func TestRateLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(c *executor.Config) { c.SessionRate = 2 }, echo())
		call := executor.Call{Tool: "echo", Session: "a"}
		passed(t, b.Call(t.Context(), call))
		passed(t, b.Call(t.Context(), call))
		r := b.Call(t.Context(), call)
		coded(t, r, tool.RateLimited)
		if r.Err.RetryAfter != 500*time.Millisecond || r.Meta.CallID == "" {
			t.Errorf("RetryAfter = %s, meta %+v", r.Err.RetryAfter, r.Meta)
		}
		if n := len(b.store.rows()); n != 2 {
			t.Errorf("%d rows; a rate-limited call is only counted", n)
		}
		call.Session = "b"
		passed(t, b.Call(t.Context(), call))
		for _, m := range b.MetricsSnapshot(0) {
			if m.Tool == "echo" && (m.Refused != 1 || m.OK != 3 || m.Codes[tool.RateLimited] != 1) {
				t.Errorf("counts = %+v", m.Counts)
			}
		}
	})
}

func TestFailingStoreLosesNoCall(t *testing.T) {
	b := newBench(t, nil, echo(), function(tool.Spec{Effects: tool.Write}, func(context.Context, *tool.Request, echoIn) (*tool.Result, error) { return tool.Text("done"), nil }))
	b.store.fail = store.ErrFull
	r := b.Call(t.Context(), executor.Call{Tool: "t"})
	passed(t, r)
	if len(r.Meta.Notes) != 1 || !strings.Contains(r.Meta.Notes[0], "audit record") {
		t.Errorf("notes = %q", r.Meta.Notes)
	}
	b.store.fail = nil
	if r = b.Call(t.Context(), executor.Call{Tool: "t"}); len(r.Meta.Notes) != 0 {
		t.Errorf("notes = %q", r.Meta.Notes)
	}
}

func TestStrictAuditRefusesWhatCannotBeRecorded(t *testing.T) {
	ran := 0
	x := function(tool.Spec{Effects: tool.Write}, func(context.Context, *tool.Request, echoIn) (*tool.Result, error) {
		ran++
		return tool.Text("done"), nil
	})
	b := newBench(t, func(c *executor.Config) { c.AuditStrict = true }, x, echo())
	passed(t, b.Call(t.Context(), executor.Call{Tool: "t"}))
	if b.store.now != 1 || b.store.rows()[0].Status != "running" {
		t.Errorf("%d rows written at once, %+v", b.store.now, b.store.rows())
	}
	b.store.fail = store.ErrFull
	coded(t, b.Call(t.Context(), executor.Call{Tool: "t"}), tool.DependencyError)
	passed(t, b.Call(t.Context(), executor.Call{Tool: "echo"}))
	b.store.fail = nil
	if ran != 1 {
		t.Errorf("the tool ran %d times", ran)
	}
}

func TestSecretsAreInNothingThatLeaves(t *testing.T) {
	const hidden = "hunter2hunter2"
	x := function(tool.Spec{Effects: tool.Read}, func(ctx context.Context, req *tool.Request, in echoIn) (*tool.Result, error) {
		req.Emit(tool.Event{Type: tool.EventCallProgress, Data: map[string]any{"message": hidden}})
		out, err := req.Host.Output(ctx)
		if err != nil {
			return nil, err
		}
		fmt.Fprint(out.Stream("stdout"), "out hunter2")
		fmt.Fprint(out.Stream("stdout"), "hunter2 end\n")
		sum, err := out.Close()
		if err != nil {
			return nil, err
		}
		if _, err := req.Host.Attach(ctx, tool.Artifact{Name: hidden + ".txt", Data: strings.NewReader("text " + hidden)}); err != nil {
			return nil, err
		}
		r := tool.Text(sum.Text + hidden)
		r.Structured = []byte(`{"x":"` + hidden + `"}`)
		r.Err = tool.Errorf(tool.NotFound, "no %s", hidden).WithHint("not %s", hidden).WithDetail("d", hidden)
		return r, nil
	})
	b := newBench(t, func(c *executor.Config) { c.Redactor = secret.New(secret.Value{Name: "PW", Value: hidden}) }, x)
	sub, _ := b.bus.Subscribe(0, nil)
	defer sub.Close()
	r := b.Call(t.Context(), executor.Call{Tool: "t", Session: "s", Arguments: args(echoIn{Text: hidden})})
	bad := b.Call(t.Context(), executor.Call{Tool: "t", Session: "s", Arguments: []byte(`{"n":"` + hidden + `"}`)})
	coded(t, bad, tool.ValidationError)
	seen := string(r.AppendJSON(nil)) + string(bad.AppendJSON(nil))
	for _, row := range b.store.rows() {
		seen += fmt.Sprintf("%+v %s %s", row, row.Arguments, row.Meta)
	}
	for _, a := range b.store.artifacts {
		seen += fmt.Sprintf("%+v", a)
		f, err := b.dir.Open(t.Context(), a.ID)
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 1000)
		n, _ := f.Read(buf)
		f.Close()
		seen += string(buf[:n])
	}
	for len(sub.C()) > 0 {
		e := <-sub.C()
		seen += fmt.Sprintf("%s %s", e.Type, args(e.Data))
	}
	if strings.Contains(seen, hidden) {
		t.Errorf("the secret is in %s", seen)
	}
	contains(t, seen, "[redacted:PW]", "out [redacted:PW] end", "text [redacted:PW]")
}

func TestEventsOfACallComeInOrder(t *testing.T) {
	x := function(tool.Spec{Effects: tool.Read}, func(ctx context.Context, req *tool.Request, _ echoIn) (*tool.Result, error) {
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() { req.Emit(tool.Event{Type: tool.EventCallProgress, Data: map[string]any{"progress": i}}) })
		}
		wg.Wait()
		req.Emit(tool.Event{Type: tool.EventCallFinished}) // only the executor may say this
		host := req.Host
		go func() { host.Emit(tool.Event{Type: tool.EventCallProgress}) }()
		return tool.Text("x"), nil
	})
	b := newBench(t, func(c *executor.Config) { c.Bus = event.New(0) }, x)
	var last uint64
	var types []string
	b.Call(t.Context(), executor.Call{Tool: "t", OnEvent: func(e tool.Event) {
		if e.ID <= last {
			t.Errorf("event %d after %d", e.ID, last)
		}
		last, types = e.ID, append(types, e.Type)
	}})
	if types[0] != tool.EventCallStarted || types[len(types)-1] != tool.EventCallFinished || slices.Index(types, tool.EventCallFinished) != len(types)-1 {
		t.Errorf("events = %v", types)
	}
}

func TestLongCallsAreRecordedAsRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := function(tool.Spec{Effects: tool.Read}, func(context.Context, *tool.Request, echoIn) (*tool.Result, error) {
			time.Sleep(5 * time.Second)
			return tool.Text("x"), nil
		})
		b := newBench(t, nil, x)
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan error)
		go func() { stopped <- b.Run(ctx) }()
		b.Call(t.Context(), executor.Call{Tool: "t"})
		cancel()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		var states []string
		for _, row := range b.store.rows() {
			states = append(states, row.Status)
		}
		if diff := cmp.Diff([]string{"running", "ok"}, states); diff != "" {
			t.Errorf("rows (-want +got):\n%s", diff)
		}
	})
}

// retrier is a tool that says itself how often it is tried.
type retrier struct {
	tool.Tool
	how tool.Retry
}

func (r retrier) Retry() tool.Retry { return r.how }

func TestRetriesThatTheToolAsksFor(t *testing.T) {
	for name, test := range map[string]struct {
		tool   tool.Retry
		config executor.ToolConfig
		want   int
		took   time.Duration
	}{
		"the code's own":          {want: 4, took: 7 * time.Second},
		"the tool's":              {tool: tool.Retry{Attempts: 2, Base: 3 * time.Second}, want: 2, took: 3 * time.Second},
		"the configuration first": {tool: tool.Retry{Attempts: 2}, config: executor.ToolConfig{Attempts: 1}, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				x := function(tool.Spec{Idempotent: true}, func(context.Context, *tool.Request, echoIn) (*tool.Result, error) {
					n++
					return nil, tool.Errorf(tool.ConnectionError, "gone")
				})
				b := newBench(t, func(c *executor.Config) {
					c.Tools = map[string]executor.ToolConfig{"t": test.config}
					c.Backoff.Jitter = -1
				}, retrier{x, test.tool})
				start := time.Now()
				coded(t, b.Call(t.Context(), executor.Call{Tool: "t"}), tool.ConnectionError)
				if took := time.Since(start); n != test.want || took != test.took {
					t.Errorf("%d attempts in %s, want %d in %s", n, took, test.want, test.took)
				}
			})
		})
	}
}
