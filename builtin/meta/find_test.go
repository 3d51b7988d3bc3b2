package meta_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/toolyard/toolyard/tool"
)

// shelf is a host with tools to find.
type shelf struct {
	tool.Host
	specs  []*tool.Spec
	called tool.BatchCall
	result *tool.Result
}

func (s *shelf) Catalog() tool.Catalog { return s }

func (s *shelf) Call(_ context.Context, name string, arguments json.RawMessage) (*tool.Result, error) {
	s.called = tool.BatchCall{Tool: name, Arguments: arguments}
	return s.result, nil
}

func (s *shelf) Search(string, int) []*tool.Spec { return s.specs }

func (s *shelf) Rank(_ string, limit int) []tool.Match {
	var list []tool.Match
	for i, spec := range s.specs[:min(limit, len(s.specs))] {
		list = append(list, tool.Match{Spec: spec, Score: 10 - float64(i)})
	}
	return list
}

func (s *shelf) Describe(name string) (*tool.Spec, bool) {
	for _, spec := range s.specs {
		if spec.FullName() == name || tool.WireName(spec.FullName()) == name {
			return spec, true
		}
	}
	return nil, false
}

func (s *shelf) NotFound(name string) error {
	return tool.Errorf(tool.ToolNotFound, "there is no tool %q", name).WithDetail("nearest", []string{"github:create_issue"})
}

func (s *shelf) Stats(string, time.Duration) []tool.Stats { return nil }

func issues() *tool.Spec {
	return &tool.Spec{
		Name: "create_issue", Source: "github", Description: "Create a new issue in a GitHub repository. " + strings.Repeat("More about it. ", 100),
		Input: &jsonschema.Schema{
			Type: "object", Required: []string{"repo", "title"}, PropertyOrder: []string{"body", "title", "repo", "labels"},
			Properties: map[string]*jsonschema.Schema{
				"repo":   {Type: "string", Description: "the repository", Pattern: "^x", MinLength: new(int)},
				"title":  {Type: "string"},
				"body":   {Type: "string", Description: strings.Repeat("what it is about ", 50)},
				"labels": {Type: "array", Items: &jsonschema.Schema{Type: "string", Enum: []any{"bug", "<idea>"}}},
			},
			AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
		},
		Output:   &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"number": {Type: "integer"}}},
		Manual:   "# create_issue\nAll about it.",
		Examples: []tool.Example{{Title: "one", Arguments: json.RawMessage(`{"repo":"a/b","title":"t"}`)}},
	}
}

func TestToolSearch(t *testing.T) {
	h := &shelf{specs: []*tool.Spec{{Name: "tool_search"}, issues(), {Name: "read", Description: "Reads a file.", Input: &jsonschema.Schema{Type: "object"}}}}
	r, err := call(t, h, "tool_search", `{"query":"new issue","limit":2}`)
	if err != nil {
		t.Fatal(err)
	}
	var out struct {
		Tools []struct {
			Name, Description string
			Schema            json.RawMessage
			Score             float64
		}
	}
	if err := json.Unmarshal(r.Structured, &out); err != nil {
		t.Fatal(err)
	}
	if len(out.Tools) != 2 || out.Tools[0].Name != "github__create_issue" || out.Tools[1].Name != "read" || out.Tools[0].Score <= out.Tools[1].Score {
		t.Fatalf("tools = %+v; the finders themselves must not be among them", out.Tools)
	}
	if d := out.Tools[0].Description; !strings.HasPrefix(d, "Create a new issue in a GitHub repository.") || len(d) > 320 {
		t.Errorf("description = %q", d)
	}
	schema := string(out.Tools[0].Schema)
	for _, want := range []string{`"required":["repo","title"]`, `"properties":{"repo":{"type":"string","description":"the repository"},"title"`, `"enum":["bug","<idea>"]`} {
		if !strings.Contains(schema, want) {
			t.Errorf("schema has no %s: %s", want, schema)
		}
	}
	for _, no := range []string{"pattern", "additionalProperties", "minLength"} {
		if strings.Contains(schema, no) {
			t.Errorf("schema has %s: %s", no, schema)
		}
	}
	if text := r.TextContent(); !strings.Contains(text, "1. github__create_issue — Create") || !strings.Contains(text, "call_tool") {
		t.Errorf("text = %q", text)
	}
	if r, err = call(t, &shelf{}, "tool_search", `{"query":"nothing"}`); err != nil || string(r.Structured) != `{"tools":[]}` {
		t.Errorf("nothing found: %s, %v", r.Structured, err)
	}
}

func TestToolSearchKeepsToItsBudget(t *testing.T) {
	h := &shelf{}
	for i := range 60 {
		s := issues()
		s.Name = fmt.Sprintf("tool_%02d", i)
		for j := range 200 {
			s.Input.Properties[fmt.Sprintf("argument_%03d", j)] = &jsonschema.Schema{Type: "string", Description: strings.Repeat("long ", 100)}
		}
		h.specs = append(h.specs, s)
	}
	for _, limit := range []int{1, 10, 50} {
		r, err := call(t, h, "tool_search", fmt.Sprintf(`{"query":"x","limit":%d}`, limit))
		if err != nil {
			t.Fatal(err)
		}
		if n, most := len(r.Structured), 450*limit+20<<10; n > most {
			t.Errorf("%d tools take %d bytes, more than %d", limit, n, most)
		}
		if !bytes.Contains(r.Structured, []byte(`"required":["repo","title"]`)) {
			t.Errorf("%d tools: the required arguments are missing: %.300s", limit, r.Structured)
		}
	}
}

func TestToolDescribe(t *testing.T) {
	h := &shelf{specs: []*tool.Spec{issues()}}
	r, err := call(t, h, "tool_describe", `{"names":["github:create_issue","create_isue"]}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"inputSchema":{"type":"object"`, `"pattern":"^x"`, `"outputSchema"`, `"manual":"# create_issue`, `"missing":[{"name":"create_isue","nearest":["github:create_issue"]}]`, `"permission":"ask"`} {
		if !bytes.Contains(r.Structured, []byte(want)) {
			t.Errorf("no %s in %s", want, r.Structured)
		}
	}
	if text := r.TextContent(); !strings.Contains(text, "All about it.") || !strings.Contains(text, `There is no tool "create_isue".`) {
		t.Errorf("text = %q", text)
	}
	if _, err := call(t, h, "tool_describe", `{"names":["x"]}`); tool.AsError(err).Code != tool.ToolNotFound {
		t.Errorf("only an unknown name: %v", err)
	}
}

func TestCallTool(t *testing.T) {
	inner := tool.Text("done")
	inner.Structured = json.RawMessage(`{"number":7}`)
	inner.Foreign = &tool.Foreign{Members: []byte(`"extra":1`)}
	inner.Meta = tool.Meta{CallID: "call_inner", DurationMS: 5, Attempts: 2, Truncated: true, OutputHandle: "art_1"}
	h := &shelf{result: inner}
	r, err := call(t, h, "call_tool", `{"name":"github__create_issue","arguments":{"repo":"a"}}`)
	if err != nil {
		t.Fatal(err)
	}
	if h.called.Tool != "github__create_issue" || string(h.called.Arguments) != `{"repo":"a"}` {
		t.Errorf("called %s with %s", h.called.Tool, h.called.Arguments)
	}
	if r.TextContent() != "done" || string(r.Structured) != `{"number":7}` || r.Foreign == nil || r.Meta.OutputHandle != "art_1" || r.Meta.CallID != "" {
		t.Errorf("result = %+v", r)
	}
	h.result = tool.ErrorResult(tool.Errorf(tool.NotFound, "no such repository"))
	if r, err = call(t, h, "call_tool", `{"name":"x"}`); err != nil || !r.IsError || r.Err.Code != tool.NotFound {
		t.Errorf("a failure: %+v, %v", r, err)
	}
	for _, name := range []string{"tool_search", "tool_describe", "call_tool"} {
		if _, err := call(t, nil, name, `{"query":"x","names":["x"],"name":"x"}`); tool.AsError(err).Code != tool.DependencyError {
			t.Errorf("%s without a host: %v", name, err)
		}
	}
}
