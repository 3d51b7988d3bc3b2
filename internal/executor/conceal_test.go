package executor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/tool"
)

// concealing shows nothing of its arguments.
type concealing struct{ tool.Tool }

func (concealing) Conceal(json.RawMessage) json.RawMessage {
	return json.RawMessage(`{"text":"not shown"}`)
}

// TestConcealedArguments: what a tool conceals is neither in the record nor in
// an event nor in the list of what runs; the tool itself gets it.
func TestConcealedArguments(t *testing.T) {
	const hidden = "nobody-knows-this-one"
	var b *bench
	seen, got := "", ""
	x := concealing{function(tool.Spec{Effects: tool.Write}, func(_ context.Context, _ *tool.Request, in echoIn) (*tool.Result, error) {
		got = in.Text
		for _, row := range b.Running() {
			seen += string(row.Arguments)
		}
		return tool.Text("ok"), nil
	})}
	b = newBench(t, nil, x)
	b.Call(t.Context(), executor.Call{Tool: "t", Session: "s", Arguments: args(echoIn{Text: hidden}), OnEvent: func(e tool.Event) { seen += fmt.Sprintf("%s %s", e.Type, e.Data) }})
	b.Call(t.Context(), executor.Call{Tool: "t", Session: "s", Arguments: []byte(`{"text":"` + hidden + `","nonsense":1}`)})
	for _, row := range b.store.rows() {
		seen += string(row.Arguments)
	}
	if got != hidden {
		t.Errorf("the tool got %q", got)
	}
	if strings.Contains(seen, hidden) || strings.Count(seen, "not shown") < 4 {
		t.Errorf("seen: %s", seen)
	}
}
