package executor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/tool"
)

// reader is a tool that tells what it reads and records that it has been seen.
type reader struct {
	tool.Tool
	replayed *int
	fail     *bool
}

func (r reader) Resources(req *tool.Request) []tool.Resource {
	in, _ := tool.Arguments[echoIn](req)
	return []tool.Resource{{Key: "/w/" + in.Text, Access: tool.ReadAccess}}
}

func (r reader) Replay(context.Context, *tool.Request, *tool.Result) error {
	*r.replayed++
	if *r.fail {
		return errors.New("no record")
	}
	return nil
}

func TestCache(t *testing.T) {
	ran, replayed, fail := 0, 0, false
	x := reader{function(tool.Spec{Effects: tool.Read, Idempotent: true, Cacheable: true, ConcurrencySafe: true}, func(_ context.Context, _ *tool.Request, in echoIn) (*tool.Result, error) {
		ran++
		if in.Text == "bad" {
			return nil, tool.Errorf(tool.NotFound, "no file")
		}
		return tool.Text(fmt.Sprint("run ", ran)), nil
	}), &replayed, &fail}
	content := map[string]string{"/w/a": "1", "/w/b": "1", "/w/bad": "1"}
	b := newBench(t, func(c *executor.Config) {
		c.ResourceHash = func(key string) (string, error) {
			if sum, ok := content[key]; ok {
				return sum, nil
			}
			return "", errors.New("gone")
		}
	}, x)
	steps := []struct {
		name   string
		before func()
		call   executor.Call
		text   string
		cached bool
	}{
		{"first", nil, executor.Call{Arguments: args(echoIn{Text: "a"})}, "run 1", false},
		{"again", nil, executor.Call{Arguments: args(echoIn{Text: "a"})}, "run 1", true},
		{"written otherwise", nil, executor.Call{Arguments: []byte(` { "message" : "a" } `)}, "run 1", true},
		{"another file", nil, executor.Call{Arguments: args(echoIn{Text: "b"})}, "run 2", false},
		{"another tenant", nil, executor.Call{Tenant: "x", Arguments: args(echoIn{Text: "a"})}, "run 3", false},
		{"changed content", func() { content["/w/a"] = "2" }, executor.Call{Arguments: args(echoIn{Text: "a"})}, "run 4", false},
		{"no hash", func() { delete(content, "/w/a") }, executor.Call{Arguments: args(echoIn{Text: "a"})}, "run 5", false},
		{"a failure", nil, executor.Call{Arguments: args(echoIn{Text: "bad"})}, "no file", false},
		{"a failure again", nil, executor.Call{Arguments: args(echoIn{Text: "bad"})}, "no file", false},
		{"nothing to replay", func() { fail = true }, executor.Call{Arguments: args(echoIn{Text: "b"})}, "run 8", false},
	}
	for _, step := range steps {
		if step.before != nil {
			step.before()
		}
		step.call.Tool = "t"
		r := b.Call(t.Context(), step.call)
		if !strings.HasPrefix(r.TextContent(), step.text) || r.Meta.Cached != step.cached {
			t.Errorf("%s: %q, cached %v; want %q, %v", step.name, r.TextContent(), r.Meta.Cached, step.text, step.cached)
		}
	}
	if replayed != 3 {
		t.Errorf("replayed %d times, want 3", replayed)
	}
	for _, m := range b.MetricsSnapshot(0) {
		if m.CacheHits != 2 || m.Calls != 10 {
			t.Errorf("counts = %+v", m.Counts)
		}
	}
}

func TestCacheOnlyWhereItIsSafe(t *testing.T) {
	on, off := true, false
	tests := []struct {
		name   string
		spec   tool.Spec
		set    *bool
		cached bool
	}{
		{"network, opted in", tool.Spec{Effects: tool.Network, Idempotent: true, Cacheable: true}, nil, true},
		{"not opted in", tool.Spec{Effects: tool.Network, Idempotent: true}, nil, false},
		{"enabled", tool.Spec{Effects: tool.Network, Idempotent: true}, &on, true},
		{"disabled", tool.Spec{Effects: tool.Network, Idempotent: true, Cacheable: true}, &off, false},
		{"not idempotent", tool.Spec{Effects: tool.Network, Cacheable: true}, &on, false},
		{"writes", tool.Spec{Effects: tool.Network | tool.Write, Idempotent: true, Cacheable: true}, &on, false},
		{"own records", tool.Spec{Effects: tool.State, Idempotent: true, Cacheable: true}, &on, false},
		{"reads it does not say what", tool.Spec{Effects: tool.Read, Idempotent: true, Cacheable: true}, &on, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := function(test.spec, func(context.Context, *tool.Request, echoIn) (*tool.Result, error) { return tool.Text("x"), nil })
				b := newBench(t, func(c *executor.Config) { c.Tools = map[string]executor.ToolConfig{"t": {Cache: test.set}} }, x)
				b.Call(t.Context(), executor.Call{Tool: "t"})
				if r := b.Call(t.Context(), executor.Call{Tool: "t"}); r.Meta.Cached != test.cached {
					t.Errorf("cached = %v", r.Meta.Cached)
				}
				time.Sleep(6 * time.Minute)
				if r := b.Call(t.Context(), executor.Call{Tool: "t"}); r.Meta.Cached {
					t.Error("a result from the network is good for ever")
				}
			})
		})
	}
}

func TestCacheIsBounded(t *testing.T) {
	ran := 0
	x := function(tool.Spec{Effects: tool.Network, Idempotent: true, Cacheable: true}, func(context.Context, *tool.Request, echoIn) (*tool.Result, error) {
		ran++
		return tool.Text(strings.Repeat("x", 1000)), nil
	})
	b := newBench(t, func(c *executor.Config) { c.CacheBytes = 4000; c.DoomLoop = "off" }, x)
	for range 2 {
		for i := range 10 {
			passed(t, b.Call(t.Context(), executor.Call{Tool: "t", Arguments: args(echoIn{N: i})}))
		}
	}
	if ran != 20 {
		t.Errorf("the tool ran %d times; of 10 results only 2 fit", ran)
	}
	if r := b.Call(t.Context(), executor.Call{Tool: "t", Arguments: args(echoIn{N: 9})}); !r.Meta.Cached {
		t.Error("the newest result is not in the cache")
	}
}
