package toolbox_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/builtin/toolbox"
	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/internal/policy"
	"github.com/toolyard/toolyard/internal/registry"
	"github.com/toolyard/toolyard/tool"
)

type sayIn struct {
	Text string `json:"text" jsonschema:"what to say; minLength=1"`
}

// TestPipeline runs toolm as a client does: its inner calls are validated and
// permitted as toolbox:echo, and rules for toolm itself hold in every form.
func TestPipeline(t *testing.T) {
	box := newBox(echo())
	ran := 0
	inner := tool.New(tool.Spec{Name: "echo", Source: "toolbox", Description: "Says it again", Category: "utility", Effects: tool.Execute, Default: tool.Allow, ConcurrencySafe: true},
		func(_ context.Context, _ *tool.Request, in sayIn) (*tool.Result, struct{}, error) {
			ran++
			return tool.Text("said " + in.Text), struct{}{}, nil
		})
	reg := registry.New(registry.Config{})
	for _, x := range []tool.Tool{toolbox.Toolm(toolbox.Deps{Box: box}), inner} {
		if err := reg.Add(t.Context(), x); err != nil {
			t.Fatal(err)
		}
	}
	e, err := executor.New(executor.Config{Registry: reg})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close(context.WithoutCancel(t.Context())) })
	deny := func(rules ...string) []policy.Rule {
		var list []policy.Rule
		for _, text := range rules {
			r, err := policy.ParseRule(tool.Deny, text, policy.Session, "test")
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, r)
		}
		return list
	}
	for _, c := range []struct {
		name, arguments string
		mode            policy.Mode
		rules           []policy.Rule
		code            tool.Code // "" is success
		part            string
	}{
		{"runs", text("tool: echo\nparameters: {text: hi}"), "", nil, "", `"result":"said hi"`},
		{"fields", `{"toolUrl":"tool://echo","parameters":{"text":"hi"}}`, "", nil, "", `"result":"said hi"`},
		{"faults of the inner call", text("tool: echo\nparameters: {txet: hi}"), "", nil, tool.ValidationError, "did you mean"},
		{"inner call denied", text("tool: echo\nparameters: {text: hi}"), "", deny("toolbox:echo"), tool.PermissionDenied, "PERMISSION_DENIED"},
		{"inner call denied by an argument", text("tool: echo\nparameters: {text: hi}"), "", deny("toolbox:echo(text:h*)"), tool.PermissionDenied, "PERMISSION_DENIED"},
		{"inner call refused by the mode", text("tool: echo\nparameters: {text: hi}"), policy.Plan, nil, tool.ModeDenied, "MODE_DENIED"},
		{"a manual in mode plan", text("tool: echo\nmode: manual"), policy.Plan, nil, "", "# 🧰 Echo"},
		{"configure denied, as yaml", text("tool: echo\nmode: configure\nparameters: {VOLUME: 3}"), "", deny("toolm(mode:configure)"), tool.PermissionDenied, "not allowed"},
		{"configure denied, as fields", `{"tool":"echo","operation":"configure","parameters":{"VOLUME":3}}`, "", deny("toolm(mode:configure)"), tool.PermissionDenied, "not allowed"},
		{"one tool denied, as yaml", text("toolUrl: @tool://echo"), "", deny("toolm(tool:echo)"), tool.PermissionDenied, "not allowed"},
		{"another tool denied", text("tool: echo\nmode: manual"), "", deny("toolm(tool:other)", "toolm(mode:log)"), "", "# 🧰 Echo"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := ran
			r := e.Call(t.Context(), executor.Call{Tool: "toolm", Arguments: json.RawMessage(c.arguments), Session: "s", Mode: c.mode, Rules: c.rules})
			if (c.code == "") == r.IsError || r.IsError && r.Err.Code != c.code || !strings.Contains(r.TextContent(), c.part) {
				t.Fatalf("%s", r.AppendJSON(nil))
			}
			if r.IsError && ran != before {
				t.Error("the tool ran")
			}
		})
	}
	if len(box.tools["echo"].env) != 0 {
		t.Errorf("configured: %v", box.tools["echo"].env)
	}
}
