package meta_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/builtin/meta"
	"github.com/toolyard/toolyard/tool"
)

// host answers calls by their tool's name, in reverse order.
type host struct {
	tool.Host
	calls []tool.BatchCall
	opts  tool.BatchOptions
	stats []tool.Stats
	asked time.Duration
}

func (h *host) Emit(tool.Event) {}

func (h *host) CallBatch(_ context.Context, calls []tool.BatchCall, opts tool.BatchOptions, done func(int, *tool.Result)) error {
	h.calls, h.opts = calls, opts
	for i := len(calls) - 1; i >= 0; i-- {
		r := tool.Text("text of " + calls[i].Tool)
		if calls[i].Tool == "bad" {
			r = tool.ErrorResult(tool.Errorf(tool.NotFound, "no file"))
		}
		if calls[i].Tool == "image" {
			r.Content = append(r.Content, tool.Content{Kind: tool.KindImage, Data: []byte{1}, MIME: "image/png"})
		}
		done(i, r)
	}
	return nil
}

func (h *host) Catalog() tool.Catalog { return h }

func (h *host) Search(string, int) []*tool.Spec { return nil }

func (h *host) Describe(name string) (*tool.Spec, bool) {
	return &tool.Spec{Name: strings.ToLower(name)}, name != "nothing"
}

func (h *host) Stats(name string, window time.Duration) []tool.Stats {
	h.asked = window
	var list []tool.Stats
	for _, s := range h.stats {
		if name == "" || name == s.Tool {
			list = append(list, s)
		}
	}
	return list
}

func call(t *testing.T, h tool.Host, name, arguments string) (*tool.Result, error) {
	t.Helper()
	for _, x := range meta.Tools() {
		if x.Spec().Name == name {
			return x.Call(t.Context(), &tool.Request{Arguments: json.RawMessage(arguments), Host: h})
		}
	}
	t.Fatalf("no tool %s", name)
	return nil, nil
}

func TestExecuteBatch(t *testing.T) {
	h := &host{}
	r, err := call(t, h, "execute_batch", `{"calls":[{"tool":"a","arguments":{"x":1},"timeout":1.5},{"tool":"bad"},{"tool":"image"}],"stop_on_error":true,"max_parallel":3}`)
	if err != nil {
		t.Fatal(err)
	}
	want := []tool.BatchCall{{Tool: "a", Arguments: json.RawMessage(`{"x":1}`), Timeout: 1500 * time.Millisecond}, {Tool: "bad"}, {Tool: "image"}}
	if diff := cmp.Diff(want, h.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if h.opts != (tool.BatchOptions{MaxParallel: 3, StopOnError: true}) {
		t.Errorf("opts = %+v", h.opts)
	}
	var out struct {
		Results []struct {
			Index  int
			Tool   string
			Result struct {
				Content []struct{ Text string }
				IsError bool
			}
		}
		Order []int
	}
	if err := json.Unmarshal(r.Structured, &out); err != nil {
		t.Fatal(err)
	}
	if len(out.Results) != 3 || out.Results[1].Index != 1 || !out.Results[1].Result.IsError || out.Results[0].Result.Content[0].Text != "text of a" || !cmp.Equal(out.Order, []int{2, 1, 0}) {
		t.Errorf("structured = %s", r.Structured)
	}
	if want := "[0] a: ok\ntext of a\n\n[1] bad: failed\nno file.\n\n[2] image: ok\ntext of image"; r.Content[0].Text != want || r.IsError {
		t.Errorf("text = %q, want %q", r.Content[0].Text, want)
	}
	if len(r.Content) != 2 || r.Content[1].Kind != tool.KindImage {
		t.Errorf("content = %+v", r.Content)
	}
}

func TestExecuteBatchFailsOnlyIfAllFail(t *testing.T) {
	r, err := call(t, &host{}, "execute_batch", `{"calls":[{"tool":"bad"},{"tool":"bad"}]}`)
	if err != nil || !r.IsError || r.Err.Code != tool.ExecutionError {
		t.Errorf("result %+v, %v", r, err)
	}
	if _, err := call(t, nil, "execute_batch", `{"calls":[{"tool":"a"}]}`); tool.AsError(err).Code != tool.DependencyError {
		t.Errorf("without a host: %v", err)
	}
}

func TestExecuteBatchIsACoordinator(t *testing.T) {
	for _, x := range meta.Tools() {
		c, ok := x.(tool.Coordinator)
		if (ok && c.Coordinates()) != (x.Spec().Name == "execute_batch" || x.Spec().Name == "call_tool") {
			t.Errorf("%s: coordinator %v", x.Spec().Name, ok)
		}
		if x.Spec().Manual == "" || x.Spec().Default != tool.Allow {
			t.Errorf("%s: %+v", x.Spec().Name, x.Spec())
		}
	}
}

func TestToolStats(t *testing.T) {
	h := &host{stats: []tool.Stats{
		{Tool: "read", Calls: 3, Errors: 1, TotalDurationMS: 30, MeanMS: 10, P50MS: 9, P95MS: 20},
		{Tool: "bash", Calls: 1, TotalDurationMS: 10, MeanMS: 10, P50MS: 10, P95MS: 10},
	}}
	r, err := call(t, h, "tool_stats", `{"window":300}`)
	if err != nil || h.asked != 5*time.Minute {
		t.Fatalf("%v, window %s", err, h.asked)
	}
	var out map[string]any
	if err := json.Unmarshal(r.Structured, &out); err != nil {
		t.Fatal(err)
	}
	if out["calls"] != 4.0 || out["errors"] != 1.0 || out["total_duration_ms"] != 40.0 || out["mean_ms"] != 10.0 || out["p50_ms"] != nil || len(out["tools"].([]any)) != 2 {
		t.Errorf("structured = %s", r.Structured)
	}
	if r, err = call(t, h, "tool_stats", `{"tool":"READ"}`); err != nil || !strings.Contains(string(r.Structured), `"p95_ms":20`) || strings.Contains(r.TextContent(), "bash") {
		t.Errorf("one tool: %s, %v", r.Structured, err)
	}
	if _, err = call(t, h, "tool_stats", `{"tool":"nothing"}`); tool.AsError(err).Code != tool.ToolNotFound {
		t.Errorf("an unknown tool: %v", err)
	}
}
