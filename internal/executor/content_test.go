package executor_test

import (
	"context"
	"testing"

	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/tool"
)

// A tool that printed nothing before it failed left an empty block before the
// error.
func TestNoEmptyTextBeforeAnError(t *testing.T) {
	b := newBench(t, nil, function(tool.Spec{Name: "t", Default: tool.Allow, ConcurrencySafe: true},
		func(context.Context, *tool.Request, echoIn) (*tool.Result, error) {
			return tool.Text(""), tool.Errorf(tool.ExecutionError, "broken")
		}))
	r := b.Call(t.Context(), executor.Call{Tool: "t", Session: "s"})
	coded(t, r, tool.ExecutionError)
	if len(r.Content) != 1 || r.Content[0].Text == "" {
		t.Errorf("the content is %+v, want the error alone", r.Content)
	}
}
