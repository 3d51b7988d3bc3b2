package executor_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/tool"
)

// worker is a tool that takes N seconds and writes the file named by Text.
type worker struct {
	tool.Tool
}

func (worker) Resources(req *tool.Request) []tool.Resource {
	in, _ := tool.Arguments[echoIn](req)
	if in.Text == "" {
		return nil
	}
	return []tool.Resource{{Key: "/w/" + in.Text, Access: tool.WriteAccess}}
}

// work makes a worker that tells when it starts; text "fail" fails.
func work(started func(in echoIn)) tool.Tool {
	return worker{function(tool.Spec{Effects: tool.Write, Timeout: -1}, func(ctx context.Context, _ *tool.Request, in echoIn) (*tool.Result, error) {
		started(in)
		select {
		case <-time.After(time.Duration(in.N) * time.Second):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if in.Text == "fail" {
			return nil, tool.Errorf(tool.ParameterError, "failed")
		}
		return tool.Text(fmt.Sprint(in.N)), nil
	})}
}

func TestBatchRunsSideBySideAndYieldsAsTheyEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running, most := 0, 0
		x := function(tool.Spec{Effects: tool.Read, ConcurrencySafe: true, Timeout: -1}, func(_ context.Context, _ *tool.Request, in echoIn) (*tool.Result, error) {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			time.Sleep(time.Duration(in.N) * time.Second)
			mu.Lock()
			running--
			mu.Unlock()
			return tool.Text(fmt.Sprint(in.N)), nil
		})
		b := newBench(t, nil, x)
		calls := make([]executor.Call, 25)
		for i := range calls {
			calls[i] = executor.Call{Tool: "t", Session: "s", Arguments: args(echoIn{N: 25 - i})}
		}
		var order []int
		for i, r := range b.ExecuteBatch(t.Context(), calls[15:], tool.BatchOptions{}) {
			passed(t, r)
			order = append(order, i)
		}
		if want := []int{9, 8, 7, 6, 5, 4, 3, 2, 1, 0}; !slices.Equal(order, want) {
			t.Errorf("order = %v, want %v", order, want)
		}
		n := 0
		for range b.ExecuteBatch(t.Context(), calls, tool.BatchOptions{MaxParallel: 99}) {
			n++
		}
		if n != 25 || most != 10 {
			t.Errorf("%d results, %d together; want 25 and 10", n, most)
		}
		most = 0
		for range b.ExecuteBatch(t.Context(), calls[20:], tool.BatchOptions{MaxParallel: 2}) {
		}
		if most != 2 {
			t.Errorf("%d together, want 2", most)
		}
	})
}

func TestBatchKeepsTheOrderOfWhatConflicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var starts []int
		b := newBench(t, nil, work(func(in echoIn) {
			mu.Lock()
			defer mu.Unlock()
			starts = append(starts, in.N)
		}))
		var calls []executor.Call
		for _, in := range []echoIn{{"a", 1}, {"a/b", 2}, {"c", 9}, {"a", 3}, {"d", 8}} {
			calls = append(calls, executor.Call{Tool: "t", Session: "s", Workspace: "/w", Arguments: args(in)})
		}
		begin := time.Now()
		for _, r := range b.ExecuteBatch(t.Context(), calls, tool.BatchOptions{}) {
			passed(t, r)
		}
		if took := time.Since(begin); took != 9*time.Second {
			t.Errorf("took %s, want 9s", took)
		}
		var chain []int
		for _, n := range starts {
			if n < 8 {
				chain = append(chain, n)
			}
		}
		if !slices.Equal(chain, []int{1, 2, 3}) {
			t.Errorf("conflicting calls started as %v", chain)
		}
	})
}

func TestBatchOneFailureSparesTheOthers(t *testing.T) {
	for _, stop := range []bool{false, true} {
		t.Run(fmt.Sprintf("stop on error %v", stop), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, nil, work(func(echoIn) {}))
				calls := []executor.Call{
					{Tool: "t", Arguments: args(echoIn{"fail", 1})},
					{Tool: "t", Arguments: args(echoIn{"b", 2})},
					{Tool: "nothing"},
					{Tool: "t", Arguments: args(echoIn{"b", 3})},
				}
				calls[2].Tool = "t"
				calls[2].Arguments = args(echoIn{"fail", 1})
				got := map[int]tool.Code{}
				for i, r := range b.ExecuteBatch(t.Context(), calls, tool.BatchOptions{StopOnError: stop}) {
					got[i] = ""
					if r.Err != nil {
						got[i] = r.Err.Code
					}
				}
				want := map[int]tool.Code{0: tool.ParameterError, 1: "", 2: tool.ParameterError, 3: ""}
				if stop {
					want = map[int]tool.Code{0: tool.ParameterError, 1: tool.Cancelled, 2: tool.Cancelled, 3: tool.Cancelled}
				}
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("codes = %v, want %v", got, want)
				}
			})
		})
	}
}

func TestBatchLeftEarlyCancelsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil, work(func(echoIn) {}))
		calls := []executor.Call{{Tool: "t", Arguments: args(echoIn{"a", 1})}, {Tool: "t", Arguments: args(echoIn{"b", 1000})}, {Tool: "t", Arguments: args(echoIn{"b", 1000})}}
		begin := time.Now()
		for i := range b.ExecuteBatch(t.Context(), calls, tool.BatchOptions{}) {
			if i != 0 {
				t.Errorf("index %d ended first", i)
			}
			break
		}
		if took := time.Since(begin); took != time.Second {
			t.Errorf("took %s", took)
		}
		if list := b.Running(); len(list) != 0 {
			t.Errorf("still running: %+v", list)
		}
	})
}

// A tool that holds its workspace may call another that needs it too.
func TestInnerCallsDoNotWaitForTheirCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer := function(tool.Spec{Name: "outer", Effects: tool.Write}, func(ctx context.Context, req *tool.Request, in echoIn) (*tool.Result, error) {
			if in.N == 0 {
				return req.Host.Call(ctx, "outer", args(echoIn{N: 1}))
			}
			return req.Host.Call(ctx, "t", args(echoIn{Text: "a", N: 1}))
		})
		b := newBench(t, nil, outer, work(func(echoIn) {}))
		passed(t, b.Call(t.Context(), executor.Call{Tool: "outer", Workspace: "/w", Session: "s"}))
	})
}

func TestManyConcurrentCalls(t *testing.T) {
	b := newBench(t, nil, echo(), work(func(echoIn) {}))
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := range 50 {
				name := []string{"echo", "t", "nosuch"}[i%3]
				r := b.Call(t.Context(), executor.Call{Tool: name, Session: fmt.Sprint("s", g%4), Workspace: "/w", Arguments: args(echoIn{Text: fmt.Sprint("x", i%5)}), OnEvent: func(tool.Event) {}})
				if r.IsError != (name == "nosuch") {
					t.Errorf("%s: %q", name, r.TextContent())
				}
				b.Running()
				b.MetricsSnapshot(time.Minute)
				b.SetTools(map[string]executor.ToolConfig{"t": {Priority: i}})
			}
		})
	}
	wg.Wait()
}

// A panic in the body of the range ends the batch and goes on up.
func TestBatchSurvivesAPanicOfItsReader(t *testing.T) {
	b := newBench(t, nil, echo())
	calls := slices.Repeat([]executor.Call{{Tool: "echo"}}, 20)
	defer func() {
		if p := recover(); p != "reader" {
			t.Errorf("recovered %v", p)
		}
		if list := b.Running(); len(list) != 0 {
			t.Errorf("still running: %+v", list)
		}
	}()
	for range b.ExecuteBatch(t.Context(), calls, tool.BatchOptions{}) {
		panic("reader")
	}
}

// together is a tool that only calls others.
type together struct{ tool.Tool }

func (together) Coordinates() bool { return true }

func TestCoordinatorsHoldNoSlotAndHaveNoClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inner []*tool.Result
		co := together{function(tool.Spec{Name: "co", Timeout: time.Second}, func(ctx context.Context, req *tool.Request, _ echoIn) (*tool.Result, error) {
			inner = make([]*tool.Result, 3)
			err := req.Host.CallBatch(ctx, []tool.BatchCall{
				{Tool: "t", Arguments: args(echoIn{"a", 100})}, {Tool: "t", Arguments: args(echoIn{"b", 100}), Timeout: time.Second}, {Tool: "asked"},
			}, tool.BatchOptions{}, func(i int, r *tool.Result) { inner[i] = r })
			return tool.Text("done"), err
		})}
		b := newBench(t, nil, co, work(func(echoIn) {}), asking("asked"))
		start := time.Now()
		passed(t, b.Call(t.Context(), executor.Call{Tool: "co", ID: "call_co", Session: "s", Workspace: "/w"}))
		if took := time.Since(start); took != 100*time.Second {
			t.Errorf("took %s", took)
		}
		passed(t, inner[0])
		coded(t, inner[1], tool.TimeoutError)
		coded(t, inner[2], tool.PermissionDenied)
		for _, r := range inner {
			if row, err := b.store.Call(t.Context(), r.Meta.CallID); err != nil || row.ParentID != "call_co" || row.Session != "s" {
				t.Errorf("row %+v, %v", row, err)
			}
		}
	})
}

func TestToolsOfATenantAreItsOwn(t *testing.T) {
	own := function(tool.Spec{Name: "own", Effects: tool.Read, Scope: tool.ScopeTenant}, func(context.Context, *tool.Request, echoIn) (*tool.Result, error) {
		return tool.Text("x"), nil
	})
	b := newBench(t, nil)
	if err := b.registry.Add(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	passed(t, b.Call(t.Context(), executor.Call{Tool: "own"}))
	coded(t, b.Call(t.Context(), executor.Call{Tool: "own", Tenant: "other"}), tool.ToolNotFound)
}
