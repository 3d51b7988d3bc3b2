package executor_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/tool"
)

// loopTools are tools that give back their text, or fail with "fail".
func loopTools() []tool.Tool {
	made := func(spec tool.Spec) tool.Tool {
		return function(spec, func(_ context.Context, _ *tool.Request, in echoIn) (*tool.Result, error) {
			if in.Text == "fail" {
				return nil, tool.Errorf(tool.NotFound, "no %d", in.N)
			}
			return tool.Text(in.Text), nil
		})
	}
	return []tool.Tool{
		made(tool.Spec{Name: "w", Effects: tool.Write}), made(tool.Spec{Name: "v", Effects: tool.Write}), made(tool.Spec{Name: "u", Effects: tool.Execute}),
		made(tool.Spec{Name: "r", Effects: tool.Read}), made(tool.Spec{Name: "p", Effects: tool.Execute, Repeatable: true}),
	}
}

func TestDoomLoop(t *testing.T) {
	// A call is "tool:text"; what is expected of the last one is refused or not.
	tests := []struct {
		name    string
		calls   []string
		refused bool
	}{
		{"three of the same run", []string{"w:a", "w:a", "w:a"}, false},
		{"the fourth is refused", []string{"w:a", "w:a", "w:a", "w:a"}, true},
		{"something between", []string{"w:a", "w:a", "r:x", "w:a", "w:a"}, false},
		{"other arguments", []string{"w:a", "w:a", "w:a", "w:b"}, false},
		{"a cycle of two", []string{"w:a", "v:a", "w:a", "v:a", "w:a", "v:a", "w:a"}, true},
		{"a cycle of two, left", []string{"w:a", "v:a", "w:a", "v:a", "w:a", "v:a", "v:a"}, false},
		{"a cycle of two, twice", []string{"w:a", "v:a", "w:a", "v:a", "w:a"}, false},
		{"a cycle of three", []string{"w:a", "v:a", "u:a", "w:a", "v:a", "u:a", "w:a", "v:a", "u:a", "w:a"}, true},
		{"a cycle of three with a read", []string{"w:a", "r:a", "u:a", "w:a", "r:a", "u:a", "w:a", "r:a", "u:a", "w:a"}, true},
		{"five errors", []string{"w:fail1", "w:fail2", "w:fail3", "w:fail4", "w:fail5", "w:x"}, false},
		{"six errors", []string{"w:fail1", "w:fail2", "w:fail3", "w:fail4", "w:fail5", "w:fail6", "w:x"}, true},
		{"six errors of two tools", []string{"w:fail1", "w:fail2", "w:fail3", "v:fail4", "w:fail5", "w:fail6", "w:x"}, false},
		{"a pure read runs nine times", []string{"r:a", "r:a", "r:a", "r:a", "r:a", "r:a", "r:a", "r:a", "r:a"}, false},
		{"the tenth is refused", []string{"r:a", "r:a", "r:a", "r:a", "r:a", "r:a", "r:a", "r:a", "r:a", "r:a"}, true},
		{"polling is normal", []string{"p:a", "p:a", "p:a", "p:a", "p:a", "p:a"}, false},
		{"polling does not break a loop", []string{"w:a", "w:a", "p:a", "w:a", "p:a", "w:a"}, true},
	}
	run := func(t *testing.T, e *bench, origin executor.Origin, calls []string) (last *tool.Result) {
		for _, c := range calls {
			in := echoIn{Text: c[2:]}
			if len(in.Text) > 4 {
				fmt.Sscanf(in.Text, "fail%d", &in.N)
				in.Text = "fail"
			}
			last = e.Call(t.Context(), executor.Call{Tool: c[:1], Session: "s", Origin: origin, Arguments: args(in)})
		}
		return last
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, nil, loopTools()...)
			r := run(t, b, executor.OriginMCP, test.calls)
			if refused := r.Err != nil && r.Err.Code == tool.DoomLoop; refused != test.refused {
				t.Errorf("the last call: %q, want refused %v", r.TextContent(), test.refused)
			}
			for _, origin := range []executor.Origin{executor.OriginCLI, executor.OriginSDK} {
				if r := run(t, newBench(t, nil, loopTools()...), origin, test.calls); r.Err != nil && r.Err.Code == tool.DoomLoop {
					t.Errorf("refused for %s", origin)
				}
			}
			off := newBench(t, func(c *executor.Config) { c.DoomLoop = "off" }, loopTools()...)
			if r := run(t, off, executor.OriginMCP, test.calls); r.Err != nil && r.Err.Code == tool.DoomLoop {
				t.Error("refused though off")
			}
		})
	}
}

func TestDoomLoopTellsReadsAndForgetsAfterAYes(t *testing.T) {
	b := newBench(t, nil, loopTools()...)
	for i := range 9 {
		r := b.Call(t.Context(), executor.Call{Tool: "r", Session: "s", Arguments: args(echoIn{Text: "a"})})
		passed(t, r)
		if told := len(r.Content) == 2; told != (i >= 2) {
			t.Errorf("call %d: content %+v", i+1, r.Content)
		}
	}
	asked := 0
	who := answers(func(_ context.Context, q tool.Question) (tool.Answer, error) {
		if asked++; q.Kind != "doom_loop" {
			t.Errorf("question %+v", q)
		}
		if asked == 2 {
			return tool.Answer{Option: "reject", Text: "stop it"}, nil
		}
		return tool.Answer{Option: "once"}, nil
	})
	call := executor.Call{Tool: "w", Session: "s", Arguments: args(echoIn{Text: "a"}), Asker: who}
	for range 6 {
		passed(t, b.Call(t.Context(), call))
	}
	r := b.Call(t.Context(), call)
	coded(t, r, tool.DoomLoop)
	contains(t, r.TextContent(), "stop it")
	if asked != 2 {
		t.Errorf("asked %d times, want 2", asked)
	}
	refuse := newBench(t, func(c *executor.Config) { c.DoomLoop = "refuse" }, loopTools()...)
	for range 3 {
		passed(t, refuse.Call(t.Context(), call))
	}
	coded(t, refuse.Call(t.Context(), call), tool.DoomLoop)
	if asked != 2 {
		t.Error("a person was asked though the setting is refuse")
	}
}

func TestDoomLoopConcurrentCallsDoNotCount(t *testing.T) {
	var gate sync.WaitGroup
	x := function(tool.Spec{Effects: tool.Write, ConcurrencySafe: true}, func(context.Context, *tool.Request, echoIn) (*tool.Result, error) {
		gate.Done()
		gate.Wait()
		return tool.Text("same"), nil
	})
	b := newBench(t, nil, x)
	for range 4 {
		gate.Add(2)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { passed(t, b.Call(t.Context(), executor.Call{Tool: "t", Session: "s"})) })
		}
		wg.Wait()
	}
}

// TestDoomLoopSentTogether: calls that a client sent without waiting do not
// count either, though each ended before the next began.
func TestDoomLoopSentTogether(t *testing.T) {
	x := function(tool.Spec{Effects: tool.Write, ConcurrencySafe: true}, func(context.Context, *tool.Request, echoIn) (*tool.Result, error) {
		return tool.Text("same"), nil
	})
	b := newBench(t, nil, x)
	for range 20 {
		passed(t, b.Call(t.Context(), executor.Call{Tool: "t", Session: "s", Concurrent: true}))
	}
}

// TestDoomLoopUnread: reads that come before the last answer can have been read
// do not count; calls that write do.
func TestDoomLoopUnread(t *testing.T) {
	same := func(context.Context, *tool.Request, echoIn) (*tool.Result, error) { return tool.Text("same"), nil }
	reads := newBench(t, nil, function(tool.Spec{Effects: tool.Read, ConcurrencySafe: true}, same))
	writes := newBench(t, nil, function(tool.Spec{Effects: tool.Write, ConcurrencySafe: true}, same))
	refused := 0
	for range 20 {
		passed(t, reads.Call(t.Context(), executor.Call{Tool: "t", Session: "s", Unread: true}))
		if r := writes.Call(t.Context(), executor.Call{Tool: "t", Session: "s", Unread: true}); r.IsError && r.Err.Code == tool.DoomLoop {
			refused++
		}
	}
	if refused == 0 {
		t.Error("writes that repeat themselves were never refused")
	}
}

func TestDoomLoopSetting(t *testing.T) {
	if _, err := executor.New(executor.Config{Registry: newBench(t, nil).registry, DoomLoop: "maybe"}); err == nil {
		t.Error("New takes doomLoop: maybe")
	}
}
