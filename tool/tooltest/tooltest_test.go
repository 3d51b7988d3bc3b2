package tooltest_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/toolyard/toolyard/tool"
	"github.com/toolyard/toolyard/tool/tooltest"
)

type input struct {
	Name  string `json:"name" alias:"who" jsonschema:"whom to greet"`
	Times int    `json:"times,omitempty" jsonschema:"how often; default=1; min=1"`
}

type output struct {
	Greeting string `json:"greeting"`
}

func greet(change func(*tool.Spec)) tool.Tool {
	spec := tool.Spec{
		Name: "greet", Description: "Greets somebody.", Category: "test", Effects: tool.Read, Version: "1.0.0", Idempotent: true, Cacheable: true,
		Examples: []tool.Example{{Title: "one", Arguments: json.RawMessage(`{"who":"Ann"}`)}},
	}
	made := tool.New(spec, func(_ context.Context, _ *tool.Request, in input) (*tool.Result, output, error) {
		return nil, output{"hello, " + in.Name}, nil
	})
	if change != nil {
		change(made.Spec())
	}
	return made
}

func TestGood(t *testing.T) {
	tooltest.TestAll(t, []tool.Tool{greet(nil), greet(func(s *tool.Spec) { s.Name = "other" })}, nil)
}

// call is a tool that does as it is told.
type call struct {
	tool.Tool
	do func(context.Context, *tool.Request) (*tool.Result, error)
}

func (c call) Call(ctx context.Context, req *tool.Request) (*tool.Result, error) {
	return c.do(ctx, req)
}

// blocking asks for its resources for ever.
type blocking struct {
	tool.Tool
	stop chan struct{}
}

func (b blocking) Resources(*tool.Request) []tool.Resource { <-b.stop; return nil }

func TestBad(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	spec := func(change func(*tool.Spec)) tool.Tool { return greet(change) }
	for _, c := range []struct {
		want string
		tool tool.Tool
	}{
		{"the name", spec(func(s *tool.Spec) { s.Name = "no name" })},
		{"stands twice", spec(func(s *tool.Spec) { s.Aliases = []string{"greet"} })},
		{"no description", spec(func(s *tool.Spec) { s.Description = " " })},
		{"no category", spec(func(s *tool.Spec) { s.Category = "" })},
		{"no effects", spec(func(s *tool.Spec) { s.Effects = 0 })},
		{"cacheable", spec(func(s *tool.Spec) { s.Idempotent = false })},
		{"destructive", spec(func(s *tool.Spec) { s.Destructive = true })},
		{"version", spec(func(s *tool.Spec) { s.Version = "one" })},
		{"requires", spec(func(s *tool.Spec) { s.Requires = []tool.Requirement{{Tool: "x", Version: "?"}} })},
		{"ceiling", spec(func(s *tool.Spec) { s.Timeout, s.MaxTimeout = 2, 1 })},
		{"no input schema", spec(func(s *tool.Spec) { s.Input = nil })},
		{"draft 2020-12", spec(func(s *tool.Spec) { s.Input.Properties["times"].Type = "count" })},
		{"does not name", spec(func(s *tool.Spec) { s.Input.AdditionalProperties = nil })},
		{"not of type object", spec(func(s *tool.Spec) { s.Output = &jsonschema.Schema{Type: "array"} })},
		{"no description", spec(func(s *tool.Spec) { s.Input.Properties["times"].Description = "" })},
		{"does not fit", spec(func(s *tool.Spec) { s.Input.Properties["times"].Default = json.RawMessage(`0`) })},
		{"required and has a default", spec(func(s *tool.Spec) { s.Input.Required = []string{"name", "times"} })},
		{"no object has", spec(func(s *tool.Spec) { s.ArgumentAliases["x"] = "y" })},
		{"example 0", spec(func(s *tool.Spec) { s.Examples[0].Arguments = json.RawMessage(`{"nmae":"x"}`) })},
		{"panics", call{greet(nil), func(context.Context, *tool.Request) (*tool.Result, error) { panic("oh") }}},
		{"neither", call{greet(nil), func(context.Context, *tool.Request) (*tool.Result, error) { return nil, nil }}},
		{"without saying why", call{greet(nil), func(context.Context, *tool.Request) (*tool.Result, error) {
			return &tool.Result{IsError: true}, nil
		}}},
		{"when its context is done", call{greet(nil), func(ctx context.Context, req *tool.Request) (*tool.Result, error) {
			if strings.Contains(string(req.Arguments), "Ann") {
				<-stop
			}
			return tool.Text("x"), nil
		}}},
		{"Resources blocks", blocking{greet(nil), stop}},
	} {
		problems := strings.Join(tooltest.Check(t.Context(), c.tool, tooltest.Options{Workspace: t.TempDir(), Within: 100 * time.Millisecond}), "\n")
		if !strings.Contains(problems, c.want) {
			t.Errorf("%s: got %q", c.want, problems)
		}
	}
}

func TestCollisions(t *testing.T) {
	a, b := greet(nil), greet(func(s *tool.Spec) { s.Name, s.Aliases = "hello", []string{"greet"} })
	if got := tooltest.Collisions([]tool.Tool{a, b}); len(got) != 1 || !strings.Contains(got[0], `"greet"`) {
		t.Errorf("got %q", got)
	}
}
