package mcp

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/event"
	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/internal/policy"
	"github.com/toolyard/toolyard/internal/registry"
	"github.com/toolyard/toolyard/tool"
)

type greetIn struct {
	Name string `json:"name" alias:"who" jsonschema:"whom; minLength=1"`
	N    int    `json:"n,omitempty" jsonschema:"how often; default=1; min=1; max=3"`
}

type greetOut struct {
	Greeting string `json:"greeting"`
}

func greet(source string, action tool.Action) tool.Tool {
	return tool.New(tool.Spec{Name: "greet", Source: source, Description: "greets", Effects: tool.Write, Default: action},
		func(_ context.Context, _ *tool.Request, in greetIn) (*tool.Result, greetOut, error) {
			if in.Name == "nobody" {
				return nil, greetOut{}, tool.Errorf(tool.NotFound, "there is no %q", in.Name).WithHint("Name somebody.")
			}
			return tool.Text(strings.Repeat("hello "+in.Name+" ", in.N)), greetOut{in.Name}, nil
		})
}

// whole is a server with the real registry and executor behind it.
func whole(t *testing.T) (*conn, *registry.Registry) {
	t.Helper()
	r := registry.New(registry.Config{})
	for _, one := range []tool.Tool{greet("", tool.Allow), greet("github", tool.Ask)} {
		if err := r.Add(t.Context(), one); err != nil {
			t.Fatal(err)
		}
	}
	rules, err := policy.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	e, err := executor.New(executor.Config{Registry: r, Policy: rules, Bus: event.New(0)})
	if err != nil {
		t.Fatal(err)
	}
	return dial(t, Config{Executor: e, Catalog: FromRegistry(r)}), r
}

func TestWithTheRealExecutor(t *testing.T) {
	k, r := whole(t)
	k.initialize("2025-11-25", `{"elicitation":{}}`)
	ask := func(name, arguments string) map[string]any {
		k.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, name, arguments))
		return k.next()
	}
	for _, name := range []string{"greet", "mcp__toolyard__greet", "toolyard__greet"} {
		m := ask(name, `{"who":"Ada","n":2}`)
		if text(m) != "hello Ada hello Ada " || at(m, "result", "structuredContent", "greeting") != "Ada" {
			t.Errorf("%s: %v", name, m)
		}
		if at(m, "result", "_meta", "toolyard/call", "call_id") == nil {
			t.Errorf("%s: no call_id: %v", name, m)
		}
	}
	if m := ask("greet", `"{\"name\":\"Bob\"}"`); text(m) != "hello Bob " || at(m, "result", "_meta", "toolyard/call", "repaired") != true {
		t.Errorf("arguments as a string: %v", m)
	}

	// The output schema leaves no room for an error, so it stands in _meta.
	m := ask("greet", `{"n":9,"nmae":"x"}`)
	failure := at(m, "result", "_meta", "toolyard/error")
	faults, _ := at(failure, "faults").([]any)
	if at(m, "result", "isError") != true || at(failure, "code") != "VALIDATION_ERROR" || len(faults) < 2 || at(m, "result", "structuredContent") != nil {
		t.Errorf("faults: %v", m)
	}
	m = ask("greet", `{"name":"nobody"}`)
	if got := at(m, "result", "_meta", "toolyard/error", "code"); got != "NOT_FOUND" || text(m) != `there is no "nobody". Name somebody.` {
		t.Errorf("failure: %v", m)
	}
	if m := ask("gret", `{}`); at(m, "error", "code") != -32602.0 || !strings.Contains(at(m, "error", "message").(string), "greet") {
		t.Errorf("unknown tool: %v", m)
	}

	// A tool whose default is ask brings the form.
	m = ask("github__greet", `{"name":"Eve"}`)
	if m["method"] != "elicitation/create" {
		t.Fatalf("got %v", m)
	}
	k.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"result":{"action":"accept","content":{"answer":"once"}}}`, m["id"]))
	if m := k.next(); text(m) != "hello Eve " {
		t.Errorf("after once: %v", m)
	}
	m = ask("github:greet", `{"name":"Eve"}`)
	k.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"result":{"action":"decline"}}`, m["id"]))
	m = k.next()
	if got := at(m, "result", "_meta", "toolyard/error", "code"); got != "PERMISSION_DENIED" {
		t.Errorf("after decline: %v", m)
	}

	if err := r.SetEnabled("greet", false, "test"); err != nil {
		t.Fatal(err)
	}
	if m := k.next(); m["method"] != "notifications/tools/list_changed" {
		t.Fatalf("got %v", m)
	}
	m = ask("greet", `{"name":"Ada"}`)
	if code := at(m, "result", "_meta", "toolyard/error", "code"); code != "TOOL_DISABLED" {
		code = at(m, "result", "structuredContent", "error", "code")
		if code != "TOOL_DISABLED" {
			t.Errorf("disabled tool: %v", m)
		}
	}
	k.send(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	if tools, _ := at(k.next(), "result", "tools").([]any); len(tools) != 1 || at(tools[0], "name") != "github__greet" {
		t.Errorf("tools %v", tools)
	}
}

func TestNobodyToAsk(t *testing.T) {
	k, _ := whole(t)
	k.initialize("2025-11-25", `{}`)
	k.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"github__greet","arguments":{"name":"Eve"}}}`)
	m := k.next()
	failure := at(m, "result", "_meta", "toolyard/error")
	if at(failure, "code") != "PERMISSION_DENIED" || at(failure, "details", "reason") != "no_channel" {
		t.Errorf("got %v", m)
	}
}
