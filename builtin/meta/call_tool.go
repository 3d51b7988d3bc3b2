package meta

import (
	"context"
	_ "embed"
	"encoding/json"

	"github.com/toolyard/toolyard/tool"
)

//go:embed call_tool.md
var callToolManual string

type callToolIn struct {
	Name      string          `json:"name" alias:"tool,tool_name" jsonschema:"name of the tool, in any spelling; minLength=1; maxLength=512"`
	Arguments json.RawMessage `json:"arguments,omitempty" alias:"parameters,args,input" jsonschema:"its arguments, an object"`
}

// wholeResult is more than any result has: the inner call has folded it already,
// and folding twice would lose the handle.
const wholeResult = 1 << 40

func callTool() tool.Tool {
	return coordinator{tool.New(tool.Spec{
		Name: "call_tool", Title: "Call a tool",
		Description: "Calls a tool by its name, as tool_search tells it, also one that is not listed. " +
			"What it may do, who is asked and what comes back is as if that tool had been called itself.",
		Manual: callToolManual, Category: "meta", Default: tool.Allow, ConcurrencySafe: true, Repeatable: true, Timeout: -1, MaxOutput: wholeResult, Pages: true,
		Aliases:  []string{"use_tool", "execute_tool"},
		Examples: []tool.Example{{Title: "Read a file", Arguments: json.RawMessage(`{"name":"read","arguments":{"file_path":"go.mod"}}`)}},
	}, runOne)}
}

// runOne gives the result of the inner call as its own.
func runOne(ctx context.Context, req *tool.Request, in callToolIn) (*tool.Result, struct{}, error) {
	if req.Host == nil {
		return nil, struct{}{}, errNoHost
	}
	inner, err := req.Host.Call(ctx, in.Name, in.Arguments)
	if err != nil {
		return nil, struct{}{}, err
	}
	result := *inner
	m := inner.Meta
	// The other fields are about this call, and the executor fills them.
	result.Meta = tool.Meta{
		Cached: m.Cached, Repaired: m.Repaired, MatchedWith: m.MatchedWith, Truncated: m.Truncated, OutputHandle: m.OutputHandle,
		Sandbox: m.Sandbox, Ending: m.Ending, Peaks: m.Peaks, Artifacts: m.Artifacts, Notes: m.Notes,
	}
	return &result, struct{}{}, nil
}
