package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/tool"
)

type point struct {
	X int  `json:"x" jsonschema:"across; min=0; max=10"`
	Y uint `json:"y,omitempty"`
}

type common struct {
	Path string `json:"file_path" alias:"path,file" jsonschema:"the file; format=path; minLength=1"`
}

type everything struct {
	common
	Note   string             `json:"note,omitempty" jsonschema:"one;; two; default=a=b; maxLength=9; pattern=^a"`
	Mode   string             `json:"mode,omitempty" jsonschema:"how; enum=a|b"`
	Level  int                `json:"level,omitempty" jsonschema:"how much; enum=1|2; default=2"`
	Points []point            `json:"points" jsonschema:"where; minItems=1; maxItems=3"`
	Kinds  []string           `json:"kinds,omitempty" jsonschema:"which; enum=x|y; default=[]"`
	Rates  map[string]float64 `json:"rates,omitempty"`
	Any    json.RawMessage    `json:"any,omitempty"`
	Data   []byte             `json:"data,omitempty"`
	When   *time.Time         `json:"when,omitempty"`
	Effect tool.Effects       `json:"effect,omitempty"`
	Hidden int                `json:"-"`
	Plain  bool
}

func TestSchemaFor(t *testing.T) {
	schema, aliases, err := tool.SchemaFor[everything]()
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(schema.Properties, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	want := `{"Plain":{"type":"boolean"},"any":true,"data":{"type":"string","contentEncoding":"base64"},"effect":true,
		"file_path":{"type":"string","description":"the file","minLength":1,"format":"path"},
		"kinds":{"type":"array","description":"which","default":[],"items":{"type":"string","enum":["x","y"]}},
		"level":{"type":"integer","description":"how much","default":2,"enum":[1,2]},
		"mode":{"type":"string","description":"how","enum":["a","b"]},
		"note":{"type":"string","description":"one; two","default":"a=b","maxLength":9,"pattern":"^a"},
		"points":{"type":"array","description":"where","minItems":1,"maxItems":3,"items":{"type":"object","additionalProperties":false,"required":["x"],
			"properties":{"x":{"type":"integer","description":"across","minimum":0,"maximum":10},"y":{"type":"integer","minimum":0}}}},
		"rates":{"type":"object","additionalProperties":{"type":"number"}},"when":{"type":"string","format":"date-time"}}`
	if diff := cmp.Diff(decode(t, want), decode(t, string(got))); diff != "" {
		t.Errorf("properties (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"path": "file_path", "file": "file_path"}, aliases); diff != "" {
		t.Errorf("aliases (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"file_path", "points", "Plain"}, schema.Required); diff != "" {
		t.Errorf("required (-want +got)\n%s", diff)
	}
	order := []string{"file_path", "note", "mode", "level", "points", "kinds", "rates", "any", "data", "when", "effect", "Plain"}
	if diff := cmp.Diff(order, schema.PropertyOrder); diff != "" {
		t.Errorf("order (-want +got)\n%s", diff)
	}
}

func decode(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// Common is exported, so that its tag counts.
type Common struct {
	A int `json:"a"`
}

type exportedNamed struct {
	Common `json:"common"`
	X      int `json:"x"`
}

func TestEmbedded(t *testing.T) {
	schema, _, err := tool.SchemaFor[exportedNamed]()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"common", "x"}, schema.PropertyOrder); diff != "" {
		t.Errorf("properties (-want +got)\n%s", diff)
	}
}

type endless struct {
	Next *endless `json:"next"`
}

func TestSchemaRefuses(t *testing.T) {
	for name, err := range map[string]error{
		"itself":      fails[endless](),
		"function":    fails[struct{ F func() }](),
		"map of ints": fails[struct{ M map[int]string }](),
		"unknown key": fails[struct {
			A int `jsonschema:"a; least=1"`
		}](),
		"no pair": fails[struct {
			A int `jsonschema:"a; min"`
		}](),
		"bad number": fails[struct {
			A int `jsonschema:"a; min=x"`
		}](),
		"bad default": fails[struct {
			A int `jsonschema:"a; default=x"`
		}](),
		"bad enum": fails[struct {
			A int `jsonschema:"a; enum=x"`
		}](),
		"two meanings": fails[struct {
			A int `json:"a" alias:"c"`
			B int `json:"b" alias:"c"`
		}](),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func fails[T any]() error {
	_, _, err := tool.SchemaFor[T]()
	return err
}

type list struct {
	Files  []string       `json:"files"`
	Counts map[string]int `json:"counts"`
	Groups []group        `json:"groups"`
	Gone   []string       `json:"gone,omitempty"`
	Shared *group         `json:"shared,omitempty"`
}

type group struct {
	Names []string `json:"names"`
}

func TestNew(t *testing.T) {
	shared := &group{}
	groups := []group{{}}
	boom := errors.New("boom")
	echo := tool.New(tool.Spec{Name: "echo"}, func(_ context.Context, _ *tool.Request, in common) (*tool.Result, list, error) {
		switch in.Path {
		case "fail":
			return nil, list{}, boom
		case "text":
			return tool.Text("<b>"), list{}, nil
		}
		return nil, list{Shared: shared, Groups: groups}, nil
	})
	call := func(args string) (*tool.Result, error) {
		return echo.Call(t.Context(), &tool.Request{Arguments: json.RawMessage(args)})
	}
	r, err := call(`{"file_path":"a"}`)
	want := `{"files":[],"counts":{},"groups":[{"names":[]}],"shared":{"names":null}}`
	if err != nil || string(r.Structured) != want || r.TextContent() != want {
		t.Errorf("got %s, %v, want %s", r.Structured, err, want)
	}
	if groups[0].Names != nil || shared.Names != nil {
		t.Error("what the tool shares was changed")
	}
	if r, err := call(`{"file_path":"text"}`); err != nil || r.TextContent() != "<b>" || r.Structured == nil {
		t.Errorf("got %+v, %v", r, err)
	}
	if _, err := call(`{"file_path":"fail"}`); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
	if _, err := call(`{"file_path":1}`); tool.AsError(err).Code != tool.ValidationError {
		t.Errorf("got %v", err)
	}
	if echo.Spec().Output == nil || echo.Spec().ArgumentAliases["path"] != "file_path" {
		t.Errorf("spec %+v", echo.Spec())
	}
	quiet := tool.New(tool.Spec{Name: "quiet"}, func(context.Context, *tool.Request, common) (*tool.Result, struct{}, error) {
		return nil, struct{}{}, nil
	})
	if r, err := quiet.Call(t.Context(), &tool.Request{}); err != nil || r.Structured != nil || quiet.Spec().Output != nil {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestNewPanics(t *testing.T) {
	for name, make := range map[string]func(){
		"no name": func() {
			tool.New(tool.Spec{}, func(context.Context, *tool.Request, common) (*tool.Result, struct{}, error) {
				return nil, struct{}{}, nil
			})
		},
		"no schema": func() {
			tool.New(tool.Spec{Name: "x"}, func(context.Context, *tool.Request, endless) (*tool.Result, struct{}, error) {
				return nil, struct{}{}, nil
			})
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			make()
		}()
	}
}

func TestErrors(t *testing.T) {
	codes := tool.Codes()
	if !slices.IsSorted(codes) || len(codes) != 28 {
		t.Errorf("%d codes, sorted %t", len(codes), slices.IsSorted(codes))
	}
	for _, c := range codes {
		if c.Class() == "unknown_error" {
			t.Errorf("%s has no class", c)
		}
	}
	if tool.Code("X").Class() != "unknown_error" {
		t.Error("X has a class")
	}
	cause := errors.New("refused")
	e := tool.Errorf(tool.ConnectionError, "no answer: %v", cause).WithHint("Try %s.", "again").WithDetail("port", 1)
	if !e.Retryable || !errors.Is(e, cause) || e.Text() != "no answer: refused. Try again." || e.Details["port"] != 1 {
		t.Errorf("got %+v", e)
	}
	if got := tool.AsError(fmt.Errorf("outer: %w", e)); got != e {
		t.Errorf("got %v", got)
	}
	if got := tool.AsError(cause); got.Code != tool.Internal || !errors.Is(got, cause) {
		t.Errorf("got %v", got)
	}
	if tool.AsError(nil) != nil {
		t.Error("nil is an error")
	}
	if f := (tool.Fault{Expected: "an object", Got: "1"}); f.String() != "arguments: expected an object, got 1" {
		t.Errorf("got %s", f)
	}
	if r := tool.ErrorResult(e); !r.IsError || r.Err != e || !strings.HasPrefix(r.TextContent(), "no answer") {
		t.Errorf("got %+v", r)
	}
}

func TestEffects(t *testing.T) {
	e := tool.Read | tool.Network
	if raw, _ := json.Marshal(e); string(raw) != `["read","network"]` || e.String() != "read,network" {
		t.Errorf("got %s", raw)
	}
	if raw, _ := json.Marshal(tool.Effects(0)); string(raw) != `[]` {
		t.Errorf("got %s", raw)
	}
	for _, name := range (tool.Read | tool.Write | tool.Execute | tool.Network | tool.Interact | tool.State).Names() {
		if got, err := tool.ParseEffect(name); err != nil || got.String() != name {
			t.Errorf("%s: got %s, %v", name, got, err)
		}
	}
	if _, err := tool.ParseEffect("fly"); err == nil {
		t.Error("fly is an effect")
	}
	read := tool.Spec{Name: "a", Source: "s", Effects: tool.Read | tool.Network | tool.State}
	if !read.ReadOnly() || read.FullName() != "s:a" {
		t.Errorf("got %t, %s", read.ReadOnly(), read.FullName())
	}
}

func TestWithoutHost(t *testing.T) {
	req := &tool.Request{}
	req.Emit(tool.Event{})
	req.Report(tool.Usage{})
	if _, err := req.Ask(t.Context(), tool.Question{}); !errors.Is(err, tool.ErrNoChannel) {
		t.Errorf("got %v", err)
	}
}

func TestRemember(t *testing.T) {
	type key string
	found := 0
	find := func() (int, error) { found++; return found, nil }
	ask := func(r *tool.Request, k key, want int) {
		t.Helper()
		if got, err := tool.Remember(r, k, find); got != want || err != nil {
			t.Errorf("Remember(%s): got %d, %v, want %d", k, got, err, want)
		}
	}
	alone := &tool.Request{}
	ask(alone, "a", 1)
	ask(alone, "a", 2) // a request that nobody has cloned keeps nothing
	one := alone.Clone()
	two := alone.Clone()
	ask(one, "a", 3)
	ask(two, "a", 3)
	ask(two, "b", 4)
	broken := errors.New("broken")
	if _, err := tool.Remember(one, key("c"), func() (int, error) { return 0, broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	ask(one, "c", 5) // an error is not kept
}

func TestArgumentsOfAChangedRequest(t *testing.T) {
	type in struct{ N int }
	req := (&tool.Request{Arguments: json.RawMessage(`{"N":1}`)}).Clone()
	for _, raw := range []string{`{"N":1}`, `{"N":2}`} {
		req.Arguments = json.RawMessage(raw)
		got, err := tool.Arguments[in](req)
		if want := int(raw[5] - '0'); got.N != want || err != nil {
			t.Errorf("%s: got %d, %v", raw, got.N, err)
		}
	}
}
