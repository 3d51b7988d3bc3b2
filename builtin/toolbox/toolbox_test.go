package toolbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/builtin/toolbox"
	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/internal/validate"
	"github.com/toolyard/toolyard/tool"
	"github.com/toolyard/toolyard/tool/tooltest"
)

// host runs inner calls with a function and remembers them.
type host struct {
	tool.Host
	run    func(name string, args json.RawMessage) (*tool.Result, error)
	called []string
	events []tool.Event
	answer tool.Answer
}

func (h *host) Catalog() tool.Catalog { return nil }

func (h *host) Emit(e tool.Event) { h.events = append(h.events, e) }

func (h *host) Ask(context.Context, tool.Question) (tool.Answer, error) { return h.answer, nil }

func (h *host) Call(_ context.Context, name string, args json.RawMessage) (*tool.Result, error) {
	h.called = append(h.called, name+" "+string(args))
	return h.run(name, args)
}

func echo() *definition.Definition {
	return &definition.Definition{
		Name:       "echo",
		Metadata:   definition.Metadata{Name: "Echo", Description: "Says it again", Version: "1.0.0", Category: "utility"},
		Parameters: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string","description":"what to say"}},"required":["text"]}`),
		Environment: json.RawMessage(`{"type":"object","required":["API_KEY"],"properties":{
			"API_KEY":{"type":"string"},"VOLUME":{"type":"integer","minimum":1,"maximum":9,"default":5}}}`),
		BusinessErrors: []definition.BusinessError{{Code: "TOO_LOUD", Description: "d", Solution: "s"}},
	}
}

func call(t *testing.T, b toolbox.Box, h tool.Host, name, arguments string) (*tool.Result, error) {
	t.Helper()
	resolve := func(req *tool.Request, path string) (string, error) {
		if strings.HasPrefix(path, "/secret") {
			return "", tool.Errorf(tool.PermissionDenied, "%s may not be read", path)
		}
		return filepath.Join(req.Workspace, path), nil
	}
	for _, x := range toolbox.Tools(toolbox.Deps{Box: b, Resolve: resolve}) {
		if x.Spec().Name == name {
			v, err := validate.Compile(x.Spec())
			if err != nil {
				t.Fatal(err)
			}
			args, _, err := v.Arguments(json.RawMessage(arguments)) // as the executor does
			if err != nil {
				return nil, err
			}
			return x.Call(t.Context(), &tool.Request{Arguments: args, Host: h, Workspace: "/src"})
		}
	}
	t.Fatalf("no tool %s", name)
	return nil, nil
}

// text is a request as YAML.
func text(yaml string) string {
	raw, _ := json.Marshal(map[string]string{"yaml": yaml})
	return string(raw)
}

func TestExecute(t *testing.T) {
	image := tool.Content{Kind: tool.KindImage, Data: []byte{1}, MIME: "image/png"}
	for _, c := range []struct {
		name, arguments string
		inner           *tool.Result
		called          string
		want            string // structured content and text
		content         []tool.Content
	}{
		{"yaml", text("tool: tool://echo\nparameters:\n  text: hi\n"), tool.Text("hi"), `toolbox:echo {"text":"hi"}`,
			`{"success":true,"tool":"echo","mode":"execute","result":"hi"}`, nil},
		{"fields", `{"tool":"echo","parameters":{"text":"hi"}}`, tool.Text("hi"), `toolbox:echo {"text":"hi"}`,
			`{"success":true,"tool":"echo","mode":"execute","result":"hi"}`, nil},
		{"no parameters", `{"tool":"echo"}`, tool.Text(""), `toolbox:echo {}`, `{"success":true,"tool":"echo","mode":"execute","result":""}`, nil},
		{"JSON as text", `{"tool":"echo"}`, tool.Text(` {"a":[1,"<&>"]} `), `toolbox:echo {}`,
			`{"success":true,"tool":"echo","mode":"execute","result":{"a":[1,"<&>"]}}`, nil},
		{"what only looks like JSON", `{"tool":"echo"}`, tool.Text(`{a}`), `toolbox:echo {}`, `{"success":true,"tool":"echo","mode":"execute","result":"{a}"}`, nil},
		{"structured", `{"tool":"echo"}`, &tool.Result{Content: []tool.Content{{Kind: tool.KindText, Text: "words"}}, Structured: json.RawMessage(`{"n":12345678901234567890}`)}, `toolbox:echo {}`,
			`{"success":true,"tool":"echo","mode":"execute","result":{"n":12345678901234567890}}`, nil},
		{"an image beside text", `{"tool":"echo"}`, &tool.Result{Content: []tool.Content{{Kind: tool.KindText, Text: "a picture"}, image}}, `toolbox:echo {}`,
			`{"success":true,"tool":"echo","mode":"execute","result":"a picture"}`, []tool.Content{image}},
		{"only an image", `{"tool":"echo"}`, &tool.Result{Content: []tool.Content{image}}, `toolbox:echo {}`,
			`{"success":true,"tool":"echo","mode":"execute","result":{"content":[{"type":"image","mimeType":"image/png"}]}}`, []tool.Content{image}},
		{"repaired", text("tool: @tool://echo\n"), tool.Text("hi"), `toolbox:echo {}`,
			`{"success":true,"tool":"echo","mode":"execute","result":"hi","repairs":["put the value of line 1 in quotes"]}`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &host{run: func(string, json.RawMessage) (*tool.Result, error) { return c.inner, nil }}
			r, err := call(t, newBox(echo()), h, "toolm", c.arguments)
			if err != nil || r.IsError {
				t.Fatalf("%+v, %v", r, err)
			}
			if diff := cmp.Diff([]string{c.called}, h.called); diff != "" {
				t.Errorf("calls: %s", diff)
			}
			if string(r.Structured) != c.want || r.Content[0].Text != c.want {
				t.Errorf("structured %s\ntext %s\nwant %s", r.Structured, r.Content[0].Text, c.want)
			}
			if diff := cmp.Diff(c.content, append([]tool.Content(nil), r.Content[1:]...)); diff != "" {
				t.Errorf("content: %s", diff)
			}
			if repaired := strings.Contains(c.want, "repairs"); repaired != (len(r.Meta.Notes) == 1) {
				t.Errorf("notes %q", r.Meta.Notes)
			}
		})
	}
}

func TestExecuteKeepsWhatAResultHasBeside(t *testing.T) {
	inner := tool.Text("x")
	inner.Meta = tool.Meta{Truncated: true, OutputHandle: "art_1", Artifacts: []string{"artifact://2"}, Notes: []string{"n"}, Sandbox: &tool.SandboxMeta{Level: "L2"}, CallID: "inner", DurationMS: 5}
	r, err := call(t, newBox(echo()), &host{run: func(string, json.RawMessage) (*tool.Result, error) { return inner, nil }}, "toolm", `{"tool":"echo"}`)
	if err != nil {
		t.Fatal(err)
	}
	want := tool.Meta{Truncated: true, OutputHandle: "art_1", Artifacts: []string{"artifact://2"}, Notes: []string{"n"}, Sandbox: &tool.SandboxMeta{Level: "L2"}}
	if diff := cmp.Diff(want, r.Meta); diff != "" {
		t.Error(diff)
	}
}

func TestExecuteFails(t *testing.T) {
	fail := func(err *tool.Error) *tool.Result { return tool.ErrorResult(err) }
	business := tool.Errorf(tool.ExecutionError, "it is too loud").WithHint("Be quiet.").
		WithDetail("business", map[string]any{"code": "TOO_LOUD", "description": "The voice is too loud", "solution": "Be quiet.", "retryable": true})
	business.Retryable = true
	faulty := tool.Errorf(tool.ValidationError, "the arguments do not fit")
	faulty.Faults = []tool.Fault{{Path: "text", Expected: "a string", Got: "7"}}
	for _, c := range []struct {
		name  string
		inner *tool.Result
		code  tool.Code
		help  bool
		parts []string
	}{
		{"business error", fail(business), tool.ExecutionError, true, []string{"it is too loud", "EXECUTION_ERROR", "TOO_LOUD: The voice is too loud", "Solution: Be quiet.", "may succeed later", "what to say", "tool: echo\nmode: execute\nparameters:\n  text: "}},
		{"faults", fail(faulty), tool.ValidationError, true, []string{"text: expected a string, got 7", "| `text` | string | yes |"}},
		{"refused", fail(tool.Errorf(tool.PermissionDenied, "denied by a rule")), tool.PermissionDenied, false, []string{"denied by a rule", "PERMISSION_DENIED"}},
		{"only text", &tool.Result{IsError: true, Content: []tool.Content{{Kind: tool.KindText, Text: "broken"}}}, tool.ExecutionError, true, []string{"broken"}},
		{"nothing said", &tool.Result{IsError: true}, tool.ExecutionError, true, []string{"said nothing"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &host{run: func(string, json.RawMessage) (*tool.Result, error) { return c.inner, nil }}
			r, err := call(t, newBox(echo()), h, "toolm", `{"tool":"echo"}`)
			if err != nil || !r.IsError || r.Err.Code != c.code {
				t.Fatalf("%+v, %v", r, err)
			}
			for _, part := range c.parts {
				if !strings.Contains(r.Content[0].Text, part) {
					t.Errorf("%q is not in:\n%s", part, r.Content[0].Text)
				}
			}
			var wire struct {
				IsError           bool
				StructuredContent struct {
					Success  *bool
					Tool     string
					Mode     string
					Error    struct{ Code, Message string }
					Business struct{ Code, Solution string } `json:"business_error"`
					Help     *struct{ Parameters []any }
				}
			}
			if err := json.Unmarshal(r.AppendJSON(nil), &wire); err != nil {
				t.Fatal(err)
			}
			got := wire.StructuredContent
			if !wire.IsError || got.Success == nil || *got.Success || got.Tool != "echo" || got.Mode != "execute" || got.Error.Code != string(c.code) || (got.Help != nil) != c.help {
				t.Errorf("on the wire: %s", r.AppendJSON(nil))
			}
			if c.name == "business error" && (got.Business.Code != "TOO_LOUD" || got.Business.Solution == "" || !r.Err.Retryable) {
				t.Errorf("on the wire: %s", r.AppendJSON(nil))
			}
		})
	}
	h := &host{run: func(string, json.RawMessage) (*tool.Result, error) { return nil, errors.New("no depth left") }}
	if r, err := call(t, newBox(echo()), h, "toolm", `{"tool":"echo"}`); err != nil || !r.IsError || !strings.Contains(r.Content[0].Text, "no depth left") {
		t.Errorf("%+v %v", r, err)
	}
	if _, err := call(t, newBox(echo()), nil, "toolm", `{"tool":"echo"}`); tool.AsError(err).Code != tool.DependencyError {
		t.Errorf("without a host: %v", err)
	}
}

func TestExecuteOfAToolThatDoesNotLoad(t *testing.T) {
	b := newBox(echo())
	b.tools["echo"].entry.Usable = false
	b.tools["echo"].entry.Failure = tool.Errorf(tool.DependencyError, "no package left-pad")
	h := &host{run: func(string, json.RawMessage) (*tool.Result, error) { return tool.Text("old version"), nil }}
	r, err := call(t, b, h, "toolm", `{"tool":"echo"}`)
	if err != nil || !r.IsError || r.Err.Code != tool.DependencyError || len(h.called) > 0 {
		t.Errorf("%+v %v, calls %q", r, err, h.called)
	}
	b.tools["echo"].entry.Usable = true // the last good version
	if r, err = call(t, b, h, "toolm", `{"tool":"echo"}`); err != nil || r.IsError || len(h.called) != 1 {
		t.Errorf("%+v %v", r, err)
	}
	if r, err = call(t, b, h, "toolm", `{"tool":"echo","mode":"manual"}`); err != nil || !strings.Contains(r.Content[0].Text, "Does not load: no package left-pad") {
		t.Errorf("%+v %v", r, err)
	}
}

func TestModes(t *testing.T) {
	b := newBox(echo())
	b.tools["echo"].log = []string{"[2026-11-18T02:00:08.104Z] [INFO] one", "[2026-11-18T02:00:09.104Z] [WARN] two", "[2026-11-18T02:00:10.104Z] [INFO] three"}
	for _, c := range []struct {
		name, arguments string
		text, json      string // parts
	}{
		{"manual", text("tool: echo\nmode: manual\n"), "# 🧰 Echo\n", `"mode":"manual"`},
		{"manual in Chinese", text("tool: echo\nmode: manual\nlanguage: zh\n"), "## 📝 参数", `"mode":"manual"`},
		{"manual, language beside the text", `{"yaml":"tool: echo\nmode: manual","language":"zh-CN"}`, "## 📝 参数", `"mode":"manual"`},
		{"operation", `{"url":"tool://echo","operation":"manual"}`, "# 🧰 Echo\n", `"mode":"manual"`},
		{"configure shows", `{"tool":"echo","mode":"configure"}`, "❌ not", `"status":"not"`},
		{"log", `{"tool":"echo","mode":"log"}`, "[WARN] two", `"shown":3`},
		{"log head", text("tool: echo\nmode: log\nparameters:\n  action: head\n  lines: 1\n"), "1 of 3 entries", `"shown":1,"matched":3,"more":true,"lines":["[2026-11-18T02:00:08.104Z] [INFO] one"]`},
		{"log grep", `{"tool":"echo","mode":"log","parameters":{"pattern":"t(wo|hree)","level":"warning","since":"2h"}}`, "[WARN] two", `"shown":1`},
		{"log all", `{"tool":"echo","mode":"log","parameters":{"action":"all"}}`, "three", `"action":"all"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := call(t, b, nil, "toolm", c.arguments)
			if err != nil || r.IsError {
				t.Fatalf("%+v, %v", r, err)
			}
			if !strings.Contains(r.Content[0].Text, c.text) || !strings.Contains(string(r.Structured), c.json) {
				t.Errorf("text:\n%s\nstructured: %s", r.Content[0].Text, r.Structured)
			}
		})
	}
}

func TestConfigureWrites(t *testing.T) {
	const secret = "sk-0123456789-0123456789-0123456789"
	b := newBox(echo())
	r, err := call(t, b, nil, "toolm", text("tool: echo\nmode: configure\nparameters:\n  API_KEY: "+secret+"\n  VOLUME: 7\n"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"API_KEY": secret, "VOLUME": "7"}, b.tools["echo"].env); diff != "" {
		t.Error(diff)
	}
	if wire := string(r.AppendJSON(nil)); strings.Contains(wire, secret) || !strings.Contains(wire, `"status":"configured"`) || !strings.Contains(wire, `"changed":["API_KEY","VOLUME"]`) {
		t.Errorf("%s", wire)
	}
	if r, err = call(t, b, nil, "toolm", `{"tool":"echo","mode":"configure","parameters":{"VOLUME":null}}`); err != nil || len(b.tools["echo"].env) != 1 || !strings.Contains(string(r.Structured), `"removed":["VOLUME"]`) {
		t.Errorf("%v %v", b.tools["echo"].env, err)
	}
	_, err = call(t, b, nil, "toolm", `{"tool":"echo","mode":"configure","parameters":{"VOLUME":70,"API_KEY":["`+secret+`"],"VOLUM":1}}`)
	e := tool.AsError(err)
	if err == nil || e.Code != tool.ValidationError || len(e.Faults) != 3 || strings.Contains(string(e.AppendJSON(nil)), secret) || !strings.Contains(e.Message, "did you mean VOLUME?") {
		t.Errorf("%v", err)
	}
	if len(b.tools["echo"].env) != 1 {
		t.Errorf("a faulty change was made: %v", b.tools["echo"].env)
	}
}

func TestToolmRefuses(t *testing.T) {
	for _, c := range []struct {
		name, arguments string
		code            tool.Code
		part            string
	}{
		{"an unknown tool", `{"tool":"ehco"}`, tool.ToolNotFound, "Did you mean echo?"},
		{"nothing", `{}`, tool.ValidationError, "neither yaml nor tool"},
		{"another tool beside yaml", `{"yaml":"tool: echo","tool":"other"}`, tool.ValidationError, "Give either yaml alone"},
		{"another mode beside yaml", `{"yaml":"tool: echo","mode":"log"}`, tool.ValidationError, "mode: expected what yaml says"},
		{"other parameters beside yaml", `{"yaml":"tool: echo\nparameters: {a: 1}","tool":"echo","parameters":{"a":2}}`, tool.ValidationError, "parameters: expected what yaml says"},
		{"an unknown mode", text("tool: echo\nmode: exceute\n"), tool.ValidationError, "did you mean execute?"},
		{"no YAML", text("tool: echo\nparameters: [\n"), tool.ValidationError, "line 2, column 13"},
		{"an unknown parameter of the log", `{"tool":"echo","mode":"log","parameters":{"acton":"tail"}}`, tool.ValidationError, "did you mean action?"},
		{"an unknown action of the log", `{"tool":"echo","mode":"log","parameters":{"action":"tial","level":"loud","lines":0,"since":"soon"}}`, tool.ValidationError, "did you mean tail?"},
		{"grep for nothing", `{"tool":"echo","mode":"log","parameters":{"action":"grep"}}`, tool.ValidationError, "a regular expression to look for"},
		{"a bad pattern", `{"tool":"echo","mode":"log","parameters":{"pattern":"("}}`, tool.ValidationError, "RE2"},
		{"parameters as a list", `{"tool":"echo","parameters":[1]}`, tool.ValidationError, "a mapping of the tool's own parameters"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := call(t, newBox(echo()), &host{}, "toolm", c.arguments)
			e := tool.AsError(err)
			if err == nil || e.Code != c.code {
				t.Fatalf("%+v, %v", r, err)
			}
			said := e.Text()
			for _, f := range e.Faults {
				said += "\n" + f.String()
			}
			if !strings.Contains(said, c.part) {
				t.Errorf("%s\nwant %q", said, c.part)
			}
		})
	}
	if _, err := call(t, nil, nil, "toolm", `{"tool":"echo"}`); tool.AsError(err).Code != tool.DependencyError {
		t.Errorf("without a box: %v", err)
	}
}

func TestLanguageOfTheClient(t *testing.T) {
	x := toolbox.Toolm(toolbox.Deps{Box: newBox(echo()), Language: func(*tool.Request) string { return "zh_CN.UTF-8" }})
	for arguments, want := range map[string]string{`{"tool":"echo","mode":"manual"}`: "参数", `{"tool":"echo","mode":"manual","language":"en"}`: "Parameters"} {
		r, err := x.Call(t.Context(), &tool.Request{Arguments: json.RawMessage(arguments)})
		if err != nil || !strings.Contains(r.Content[0].Text, want) {
			t.Errorf("%s: %v %v", arguments, r, err)
		}
	}
}

func TestValidate(t *testing.T) {
	b := newBox(echo())
	b.report = toolbox.Report{Text: "1 passed, 0 warnings, 0 failed", JSON: json.RawMessage(`{"passed":1}`), OK: true}
	r, err := call(t, b, nil, "toolbox_validate", `{"name":"echo","release":true}`)
	if err != nil || r.IsError || r.Content[0].Text != b.report.Text || string(r.Structured) != `{"passed":1}` {
		t.Errorf("%+v %v", r, err)
	}
	b.report.OK = false
	if r, err = call(t, b, nil, "toolbox_validate", `{"path":"tools/x"}`); err != nil || !r.IsError || r.Content[0].Text != b.report.Text {
		t.Errorf("%+v %v", r, err)
	}
	if diff := cmp.Diff([]string{"echo true", "/src/tools/x false"}, b.asked); diff != "" {
		t.Error(diff)
	}
	if _, err := call(t, b, nil, "toolbox_validate", `{"path":"/secret"}`); tool.AsError(err).Code != tool.PermissionDenied {
		t.Errorf("a path that may not be read: %v", err)
	}
	for _, arguments := range []string{`{}`, `{"name":"a","path":"b"}`} {
		if _, err := call(t, b, nil, "toolbox_validate", arguments); tool.AsError(err).Code != tool.ParameterError {
			t.Errorf("%s: %v", arguments, err)
		}
	}
}

func TestInstall(t *testing.T) {
	b := newBox(echo())
	h := &host{answer: tool.Answer{Option: "yes"}}
	r, err := call(t, b, h, "toolbox_install", `{"source":"./my-tool"}`)
	if err != nil || !strings.Contains(r.Content[0].Text, "Installed new 2.0.0 in place of 1.0.0") || !strings.Contains(r.Content[0].Text, "Warning: no README") || !strings.Contains(string(r.Structured), `"path":"/box/new"`) {
		t.Errorf("%+v %v", r, err)
	}
	if len(h.events) != 1 || h.events[0].Type != tool.EventCallProgress || h.events[0].Data["message"] != "fetching" {
		t.Errorf("events %+v", h.events)
	}
	h.answer.Option = "no"
	if _, err = call(t, b, h, "toolbox_install", `{"source":"some-package@1"}`); tool.AsError(err).Code != tool.PermissionDenied {
		t.Errorf("%v", err)
	}
	if diff := cmp.Diff([]string{"/src/my-tool", "some-package@1"}, b.asked); diff != "" {
		t.Error(diff)
	}
}

func TestContract(t *testing.T) {
	b := newBox(echo())
	b.report = toolbox.Report{Text: "0 passed, 0 warnings, 0 failed", JSON: json.RawMessage(`{}`), OK: true}
	tooltest.TestAll(t, toolbox.Tools(toolbox.Deps{Box: b}), nil)
}

func TestSpecs(t *testing.T) {
	for _, x := range toolbox.Tools(toolbox.Deps{Box: newBox(), Description: "Mine"}) {
		c, ok := x.(tool.Coordinator)
		if is := x.Spec().Name == "toolm"; (ok && c.Coordinates()) != is || is && x.Spec().Description != "Mine" || x.Spec().Manual == "" {
			t.Errorf("%+v", x.Spec())
		}
	}
}

// TestPermit: rules see the fields, whatever the form of the request.
func TestPermit(t *testing.T) {
	x := toolbox.Toolm(toolbox.Deps{Box: newBox(echo())})
	for _, c := range []struct{ name, arguments, want string }{
		{"yaml", text("tool: @tool://echo\nmode: configure\nparameters:\n  B: 1\n  A: <x>\n"), `"tool":"echo","mode":"configure","parameters":{"B":1,"A":"<x>"}}`},
		{"scheme", `{"tool":"tool://echo","mode":"manual"}`, `{"tool":"echo","mode":"manual"}`},
		{"yaml beside the default mode", `{"yaml":"tool: echo\nmode: configure","tool":"echo","mode":"execute"}`, `"tool":"echo","mode":"configure"}`},
		{"plain fields stay", `{"mode": "log", "tool": "echo"}`, `{"mode": "log", "tool": "echo"}`},
		{"what is wrong stays", text("tool: [\n"), text("tool: [\n")},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := &tool.Request{Arguments: json.RawMessage(c.arguments)}
			if action, why := x.(tool.Permitter).Permit(t.Context(), req, tool.Allow); action != tool.Allow || why != "" {
				t.Errorf("%s %q", action, why)
			}
			if !strings.HasSuffix(string(req.Arguments), c.want) {
				t.Errorf("%s, want %s", req.Arguments, c.want)
			}
			v, err := validate.Compile(x.Spec())
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := v.Arguments(req.Arguments); err != nil {
				t.Error(err)
			}
		})
	}
	// The call then says the same, with what was repaired.
	h := &host{run: func(string, json.RawMessage) (*tool.Result, error) { return tool.Text("hi"), nil }}
	req := &tool.Request{Arguments: json.RawMessage(text("tool: @tool://echo\nparameters:\n  text: 'a'\n")), Host: h}
	x.(tool.Permitter).Permit(t.Context(), req, tool.Allow)
	r, err := x.Call(t.Context(), req)
	if err != nil || r.IsError || !strings.Contains(r.Content[0].Text, "in quotes") || h.called[0] != `toolbox:echo {"text":"a"}` {
		t.Errorf("%+v %v %q", r, err, h.called)
	}
}
