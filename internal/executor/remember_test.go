package executor_test

import (
	"context"
	"slices"
	"testing"

	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/tool"
)

// looker is a tool that looks at something in Resources and in Call.
type looker struct {
	tool.Tool
	look func(req *tool.Request) int
}

func (l looker) Resources(req *tool.Request) []tool.Resource {
	l.look(req)
	return []tool.Resource{{Key: "x", Access: tool.ReadAccess}}
}

func TestWhatAToolRemembersHoldsForOneAttempt(t *testing.T) {
	type key struct{}
	looks := 0
	look := func(req *tool.Request) int {
		n, _ := tool.Remember(req, key{}, func() (int, error) { looks++; return looks, nil })
		return n
	}
	var seen []int
	x := looker{look: look, Tool: function(tool.Spec{Effects: tool.Read, Idempotent: true}, func(_ context.Context, req *tool.Request, _ echoIn) (*tool.Result, error) {
		seen = append(seen, look(req))
		if len(seen) == 1 {
			return nil, tool.Errorf(tool.ConnectionError, "lost")
		}
		return tool.Text("done"), nil
	})}
	b := newBench(t, func(c *executor.Config) { c.Backoff = executor.Backoff{Base: 1, Cap: 1, Jitter: -1} }, x)
	for range 2 {
		passed(t, b.Call(t.Context(), executor.Call{Tool: "t"}))
	}
	// Resources and the first attempt share; the second attempt and the second
	// call look anew.
	if want := []int{1, 2, 3}; !slices.Equal(seen, want) {
		t.Errorf("the tool saw %v, want %v", seen, want)
	}
}
