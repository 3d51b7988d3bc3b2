package check_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/toolyard/toolyard/internal/toolbox/check"
)

// inside is a change of what execute does before anything else.
func inside(code string) map[string]string {
	return map[string]string{js: "async execute(params) { → async execute(params) { " + code}
}

// unguarded takes the runtime's validator away, so that only the tool is left to
// refuse.
func unguarded(s *check.Subject, _ *check.Options) { s.Trial.(*node).validator = nil }

// lenient makes the tool itself take everything.
func lenient(more string) map[string]string {
	changes := inside("if (true) return { ok: true };")
	if more != "" {
		changes[js+"#2"] = more
	}
	return changes
}

// others are the rules of layer 6 but one: a tool that checks nothing breaks all.
func others(id string) []string {
	var list []string
	for _, other := range []string{"param-missing", "param-wrong-type", "param-enum", "param-minimum", "param-maximum", "param-short", "param-long"} {
		if other != id {
			list = append(list, other)
		}
	}
	return list
}

func TestTriedRules(t *testing.T) {
	for _, r := range triedRows() {
		t.Run(r.name(), func(t *testing.T) {
			t.Parallel()
			r.test(t)
		})
	}
}

func triedRows() []row {
	return []row{
		{id: "param-base", of: "no text fits", change: map[string]string{js: "minLength: 2 → pattern: '^(?=x)y', minLength: 2"}, want: "no plausible value", as: check.Info},
		{id: "param-missing", of: "flagged alone", change: map[string]string{js: "required: ['who'], properties → properties", js + "#2": "who: { type → who: { required: true, type", js + "#3": "if (typeof params.who → if (false && typeof params.who", js + "#4": "params.who.length → 1"},
			want: "who", as: check.Error},
		{id: "param-missing", of: "the tool refuses", change: map[string]string{js: "required: ['who'], properties → properties", js + "#2": "who: { type → who: { required: true, type"}, never: true},
		{id: "param-missing", of: "defaulted", change: map[string]string{js: "who: { type: 'string', → who: { default: 'you', type: 'string',"}, never: true},
		{id: "param-wrong-type", of: "of a list's items", change: inside("if (false) throw 1;"), never: true},
		{id: "param-untried", of: "many", change: lenient("notes: → " + manyParameters(40) + " notes:"), set: unguarded, want: "11 faults were not tried", also: others("")},

		{id: "return-undefined", of: "nothing", change: inside("if (params.who !== 'nobody' && typeof params.who === 'string') return;"), as: check.Error},
		{id: "return-undefined", of: "an empty text", change: inside("return '';"), never: true},
		{id: "return-json", of: "a circle", change: inside("const loop = {}; loop.loop = loop; return loop;"), want: "circular", as: check.Error},
		{id: "return-json", of: "a BigInt", change: inside("return { n: 1n };"), want: "BigInt"},
		{id: "return-scalar", of: "null", change: inside("return null;"), want: "returned null", as: check.Warning},
		{id: "return-scalar", of: "a number", change: inside("return 5;"), want: "returned a number"},
		{id: "return-scalar", of: "a boolean", change: inside("return true;"), want: "returned true"},
		{id: "return-scalar", of: "a list", change: inside("return [1];"), never: true},
		{id: "return-content", of: "an object", change: inside("return { content: { type: 'text', text: 'x' } };"), want: "content is an object", as: check.Error},
		{id: "return-content", of: "a text", change: inside("return { content: 'a file' };"), as: check.Warning},
		{id: "return-content", of: "a list", change: inside("return { content: [{ type: 'text', text: 'x' }] };"), never: true},

		{id: "message-empty", of: "thrown", change: inside("if (params.who === undefined) throw new Error('');"), as: check.Error},
		{id: "message-empty", of: "success false", change: inside("return { success: false };")},
		{id: "message-short", of: "thrown", change: inside("if (params.who === undefined) throw new Error('no who');"), want: `"no who"`, as: check.Warning},
		{id: "message-short", of: "MCP", change: inside("if (params.who === undefined) return { isError: true, content: [{ type: 'text', text: 'bad' }] };"), want: `"bad"`},
		{id: "message-short", of: "chinese", change: inside("if (params.who === undefined) throw new Error('缺少参数 who');"), never: true},
		{id: "message-short", of: "the language's", change: inside("if (params.who === undefined) throw new TypeError('x');"), never: true},
		{id: "error-code", of: "small letters", change: map[string]string{js: "'NOT_WELCOME' → 'notWelcome'"}, want: `"notWelcome"`, as: check.Error},

		{id: "load-sandbox", of: "throws", change: map[string]string{js: "throw new Error('not today')"}, want: "not today", as: check.Error},
		{id: "trial", of: "exits", change: inside("process.exit(3);"), want: "ended the tool's process", as: check.Error},
		{id: "trial-refused", of: "throws", change: inside("if (params.who) throw new Error('the moon is not full');"), want: "the moon is not full", as: check.Warning},
		{id: "trial-refused", of: "without network", change: map[string]string{js: "async execute(params) { → async execute(params) { throw new Error('cannot connect to a.test');", js + "#2": "networkAccess: false → networkAccess: ['a.test']"},
			as: check.Info},
		{id: "trial-refused", of: "foreseen", change: inside("if (params.who) throw Object.assign(new Error('not the time to greet'), { code: 'NOT_WELCOME' });"), as: check.Info},
		{id: "trial-refused", of: "not installed yet", change: map[string]string{js: "async execute(params) { → async execute(params) { await import('left');", js + "#2": withPackage}, set: uninstalled, want: "left", as: check.Info},
		{id: "logs", of: "none", set: func(s *check.Subject, _ *check.Options) { s.Trial = silent{s.Trial} }, as: check.Warning},
		{id: "escape", of: "a file", set: func(s *check.Subject, _ *check.Options) { s.Trial.(*node).escaped = []string{"write /etc"} }, want: "could reach write /etc", as: check.Error},
	}
}

// TestNobodyRefuses is a tool that takes everything, with nothing in front of it.
func TestNobodyRefuses(t *testing.T) {
	t.Parallel()
	report := row{change: lenient(""), set: unguarded}.look(t, 6)
	got := map[string]bool{}
	for _, f := range report.Layers[0].Findings {
		if f.Severity != check.Error {
			t.Errorf("%s is %s", f.ID, f.Severity)
		}
		got[f.Where+": "+f.Message] = true
	}
	for _, want := range []string{
		`language: the call was not refused with {"unexpected":1}, though its type is string`,
		`language: the call was not refused with "not-one-of-them", which is not in its enum`,
		"times: the call was not refused with 0, below its minimum",
		"times: the call was not refused with 6, above its maximum",
		`who: the call was not refused with "a", which is too short`,
		"who: the call was not refused with a text of 41 characters, which is too long",
		"notes: the call was not refused with a list of 4 items, which is too long",
		"who: the call was not refused without it",
	} {
		if !got[want] {
			t.Errorf("not found: %s\n%s", want, report.Text("en"))
		}
	}
}

func manyParameters(n int) string {
	text := ""
	for i := range n {
		text += "p" + string(rune('a'+i/26)) + string(rune('a'+i%26)) + ": { type: 'string' }, "
	}
	return text
}

// silent is a trial whose runs leave nothing in the log.
type silent struct{ check.Trial }

func (s silent) Execute(ctx context.Context, params json.RawMessage) (check.Outcome, error) {
	o, err := s.Trial.Execute(ctx, params)
	o.Lines = nil
	return o, err
}

// TestUnending is a tool that never answers: the trial ends it.
func TestUnending(t *testing.T) {
	t.Parallel()
	r := row{id: "trial", change: inside("if (params.who) for (;;);"), want: "did not end within 5s"}
	r.test(t)
}

// TestNoTrial says of what it could not look at why.
func TestNoTrial(t *testing.T) {
	t.Parallel()
	report := row{set: func(s *check.Subject, _ *check.Options) { s.Trial = nil }}.look(t)
	for _, l := range report.Layers {
		for _, c := range l.Checks {
			if (l.Number == 6 || l.Number == 7 || l.Number == 11) && (c.State != check.Skipped || c.Reason == "") {
				t.Errorf("layer %d %s: %s, %q", l.Number, c.ID, c.State, c.Reason)
			}
		}
	}
	if report.Failed+report.Warnings > 0 {
		t.Errorf("got %s", report.Text("en"))
	}
}

// TestBrokenTrial is a sandbox that cannot be had: nothing is made up.
func TestBrokenTrial(t *testing.T) {
	t.Parallel()
	report := row{set: func(s *check.Subject, _ *check.Options) { s.Trial = broken{s.Trial} }}.look(t, 7, 11)
	for _, l := range report.Layers {
		for _, c := range l.Checks {
			if c.State != check.Skipped && c.ID != "load-sandbox" {
				t.Errorf("layer %d %s is %s", l.Number, c.ID, c.State)
			}
		}
	}
}

type broken struct{ check.Trial }

func (broken) Execute(context.Context, json.RawMessage) (check.Outcome, error) {
	return check.Outcome{}, errors.New("no sandbox")
}

func (broken) Escape(context.Context) ([]string, error) { return nil, errors.New("no sandbox") }
