package meta

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard/tool"
)

//go:embed execute_batch.md
var executeBatchManual string

type executeBatchIn struct {
	Calls []struct {
		Tool      string          `json:"tool" alias:"tool_name" jsonschema:"name of the tool; minLength=1"`
		Arguments json.RawMessage `json:"arguments,omitempty" alias:"parameters" jsonschema:"arguments of the tool"`
		Timeout   float64         `json:"timeout,omitempty" jsonschema:"time limit in seconds; min=0"`
	} `json:"calls" jsonschema:"the calls; minItems=1; maxItems=256"`
	StopOnError bool `json:"stop_on_error,omitempty" jsonschema:"end at the first failure"`
	MaxParallel int  `json:"max_parallel,omitempty" jsonschema:"calls that run together, at most 10; min=0"`
}

type executeBatchOut struct {
	Results []batchResult `json:"results" jsonschema:"one for each call, by index"`
	Order   []int         `json:"order" jsonschema:"indexes in the order in which the calls ended"`
}

type batchResult struct {
	Index  int             `json:"index" jsonschema:"place in calls"`
	Tool   string          `json:"tool" jsonschema:"name as it was called"`
	Result json.RawMessage `json:"result" jsonschema:"a CallToolResult"`
}

// coordinator is a tool that only calls others.
type coordinator struct{ tool.Tool }

// Coordinates is true.
func (coordinator) Coordinates() bool { return true }

var _ tool.Coordinator = coordinator{}

func executeBatch() tool.Tool {
	return coordinator{tool.New(tool.Spec{
		Name:  "execute_batch",
		Title: "Run calls together",
		Description: "Runs several tool calls in one request; those that do not conflict run in parallel. " +
			"Use it for independent reads and searches. Not for calls that need the result of an earlier one.",
		Manual: executeBatchManual, Category: "meta", Default: tool.Allow, ConcurrencySafe: true, Timeout: -1,
		Examples: []tool.Example{{
			Title:     "Read two files",
			Arguments: json.RawMessage(`{"calls":[{"tool":"read","arguments":{"file_path":"a.go"}},{"tool":"read","arguments":{"file_path":"b.go"}}]}`),
		}},
	}, runBatch)}
}

func runBatch(ctx context.Context, req *tool.Request, in executeBatchIn) (*tool.Result, executeBatchOut, error) {
	out := executeBatchOut{Results: make([]batchResult, len(in.Calls)), Order: []int{}}
	if req.Host == nil {
		return nil, out, tool.Errorf(tool.DependencyError, "there is no executor to run the calls")
	}
	calls := make([]tool.BatchCall, len(in.Calls))
	for i, c := range in.Calls {
		calls[i] = tool.BatchCall{Tool: c.Tool, Arguments: c.Arguments, Timeout: seconds(c.Timeout)}
	}
	var mu sync.Mutex
	results := make([]*tool.Result, len(calls))
	failed := 0
	err := req.Host.CallBatch(ctx, calls, tool.BatchOptions{MaxParallel: in.MaxParallel, StopOnError: in.StopOnError}, func(i int, r *tool.Result) {
		mu.Lock()
		defer mu.Unlock()
		results[i] = r
		out.Results[i] = batchResult{Index: i, Tool: calls[i].Tool, Result: r.AppendJSON(nil)}
		out.Order = append(out.Order, i)
		if r.IsError {
			failed++
		}
		req.Emit(tool.Event{Type: tool.EventCallProgress, Data: map[string]any{"progress": len(out.Order), "total": len(calls), "message": calls[i].Tool}})
	})
	if err != nil {
		return nil, out, err
	}
	return summary(calls, results, failed), out, nil
}

// seconds is a time limit; what does not fit in a Duration is the longest.
func seconds(s float64) time.Duration {
	if s >= math.MaxInt64/float64(time.Second) {
		return math.MaxInt64
	}
	return time.Duration(s * float64(time.Second))
}

// summary is what the model reads: the results one after another.
func summary(calls []tool.BatchCall, results []*tool.Result, failed int) *tool.Result {
	var text strings.Builder
	r := &tool.Result{}
	for i, one := range results {
		state := "ok"
		if one.IsError {
			state = "failed"
		}
		fmt.Fprintf(&text, "[%d] %s: %s\n", i, calls[i].Tool, state)
		if said := one.TextContent(); said != "" {
			text.WriteString(strings.TrimRight(said, "\n"))
			text.WriteString("\n\n")
		}
		for _, b := range one.Content {
			if b.Kind != tool.KindText {
				r.Content = append(r.Content, b)
			}
		}
	}
	r.Content = append([]tool.Content{{Kind: tool.KindText, Text: strings.TrimRight(text.String(), "\n")}}, r.Content...)
	if failed == len(results) {
		r.IsError = true
		r.Err = tool.Errorf(tool.ExecutionError, "none of the %d calls succeeded", failed).WithHint("Each result tells what was wrong.")
	}
	return r
}
