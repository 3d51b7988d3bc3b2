package executor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/internal/secret"
	"github.com/toolyard/toolyard/tool"
)

// keptError is what an asker returns that keeps its questions.
type keptError struct{ error }

func (keptError) QuestionID() string { return "perm_0badcafe" }
func (e keptError) Unwrap() error    { return e.error }

// keeper is an asker that reaches nobody and keeps the questions.
type keeper struct{ asked []tool.Question }

func (k *keeper) Ask(_ context.Context, q tool.Question) (tool.Answer, error) {
	k.asked = append(k.asked, q)
	return tool.Answer{}, keptError{tool.ErrNoChannel}
}

// A refusal names the question that can still be answered, first.
func TestRefusalNamesItsQuestion(t *testing.T) {
	b := newBench(t, nil, asking("t"))
	r := b.Call(t.Context(), executor.Call{Tool: "t", Session: "s", Asker: &keeper{}})
	coded(t, r, tool.PermissionDenied)
	if r.Err.Details["question"] != "perm_0badcafe" || r.Err.Details["reason"] != "no_channel" {
		t.Errorf("details %v", r.Err.Details)
	}
	approve, allow := strings.Index(r.Err.Hint, "`toolyard approve perm_0badcafe`"), strings.Index(r.Err.Hint, "`toolyard policy allow 't'`")
	if approve < 0 || allow < approve {
		t.Errorf("the hint is %q", r.Err.Hint)
	}
	late := answers(func(context.Context, tool.Question) (tool.Answer, error) {
		return tool.Answer{}, keptError{tool.ErrNoAnswer}
	})
	r = b.Call(t.Context(), executor.Call{Tool: "t", Session: "s", Asker: late})
	coded(t, r, tool.PermissionTimeout)
	if r.Err.Details["question"] != "perm_0badcafe" {
		t.Errorf("details %v", r.Err.Details)
	}
}

func TestDoomLoopNamesItsQuestion(t *testing.T) {
	b := newBench(t, nil, function(tool.Spec{Effects: tool.Write}, func(context.Context, *tool.Request, echoIn) (*tool.Result, error) {
		return tool.Text("same"), nil
	}))
	k := &keeper{}
	var r *tool.Result
	for range 4 {
		r = b.Call(t.Context(), executor.Call{Tool: "t", Session: "s", Origin: executor.OriginMCP, Asker: k})
	}
	coded(t, r, tool.DoomLoop)
	if r.Err.Details["question"] != "perm_0badcafe" || !strings.Contains(r.Err.Hint, "toolyard approve perm_0badcafe") {
		t.Errorf("%+v", r.Err)
	}
	if len(k.asked) != 1 || k.asked[0].Binding == "" || !k.asked[0].Fresh {
		t.Errorf("asked was %+v", k.asked)
	}
}

// What a question says is what the call is, bound to exactly that.
func TestQuestionShowsTheCall(t *testing.T) {
	b := newBench(t, nil, asking("t"), asking("u"))
	ask := func(name, args, session string) tool.Question {
		t.Helper()
		k := &keeper{}
		b.Call(t.Context(), executor.Call{ID: "call_" + session + name + fmt.Sprint(len(args)), Tool: name, Arguments: json.RawMessage(args), Session: session, Asker: k})
		if len(k.asked) != 1 {
			t.Fatalf("asked %d times", len(k.asked))
		}
		return k.asked[0]
	}
	q := ask("t", `{"text":"a"}`, "s")
	if q.Call != "call_st12" || q.Tool != "t" || !q.Fresh || fmt.Sprint(q.Details["arguments"]) != "map[text:a]" {
		t.Errorf("asked was %+v", q)
	}
	same := ask("t", ` {"message": "\u0061"}`, "s")
	if same.Binding == "" || same.Binding != q.Binding {
		t.Errorf("the same call is bound to %q and %q", q.Binding, same.Binding)
	}
	for what, other := range map[string]tool.Question{
		"arguments": ask("t", `{"text":"b"}`, "s"), "session": ask("t", `{"text":"a"}`, "r"), "tool": ask("u", `{"text":"a"}`, "s"),
	} {
		if other.Binding == q.Binding {
			t.Errorf("other %s have the same binding", what)
		}
	}
	long := ask("t", `{"text":"`+strings.Repeat("x", 1<<20)+`"}`, "s")
	if text, ok := long.Details["arguments"].(string); !ok || len(text) > 40<<10 || !strings.Contains(text, "1048587 bytes in all") {
		t.Errorf("long arguments are shown as %T of %d bytes", long.Details["arguments"], len(text))
	}
}

// Questions of a tool are bound by the executor: a tool cannot pass one off as
// another's, or as one that was asked before anything ran.
func TestQuestionsOfATool(t *testing.T) {
	asks := func(name string, q tool.Question) tool.Tool {
		return function(tool.Spec{Name: name}, func(ctx context.Context, req *tool.Request, _ echoIn) (*tool.Result, error) {
			_, err := req.Ask(ctx, q)
			return tool.Text("asked"), err
		})
	}
	plain := tool.Question{Kind: "permission", Title: "Install?", Text: "a", Fresh: true, ID: "perm_1", Call: "call_x", Tool: "bash"}
	named := plain
	named.Binding = "grant"
	other := plain
	other.Text = "b"
	b := newBench(t, nil, asks("plain", plain), asks("named", named), asks("other", other), asks("again", named))
	ask := func(name, args string) tool.Question {
		k := &keeper{}
		b.Call(t.Context(), executor.Call{Tool: name, Arguments: json.RawMessage(args), Session: "s", Asker: k})
		return k.asked[0]
	}
	q := ask("plain", `{}`)
	if q.Fresh || q.ID != "" || q.Tool != "plain" || q.Call == "call_x" || q.Binding == "" {
		t.Errorf("asked was %+v", q)
	}
	if ask("plain", `{}`).Binding != q.Binding {
		t.Error("the same question of the same call is another")
	}
	if ask("plain", `{"n":1}`).Binding == q.Binding || ask("other", `{}`).Binding == q.Binding {
		t.Error("another question has the same binding")
	}
	if ask("named", `{}`).Binding != ask("named", `{"n":1}`).Binding {
		t.Error("a question that the tool names depends on the arguments")
	}
	if ask("named", `{}`).Binding == ask("again", `{}`).Binding || ask("named", `{}`).Binding == "grant" {
		t.Error("two tools share a binding")
	}
}

func TestQuestionHasNoSecrets(t *testing.T) {
	const hidden = "correct-horse-battery"
	b := newBench(t, func(c *executor.Config) { c.Redactor = secret.New(secret.Value{Name: "PW", Value: hidden}) },
		function(tool.Spec{Name: "t"}, func(ctx context.Context, req *tool.Request, _ echoIn) (*tool.Result, error) {
			_, err := req.Ask(ctx, tool.Question{
				Title: hidden, Text: hidden, Options: []tool.Option{{ID: "a", Label: hidden, Description: hidden}}, Details: map[string]any{"x": []any{hidden}},
			})
			return tool.Text("asked"), err
		}), asking("u"))
	for _, name := range []string{"t", "u"} {
		k := &keeper{}
		b.Call(t.Context(), executor.Call{Tool: name, Arguments: json.RawMessage(`{"text":"` + hidden + `"}`), Session: "s", Asker: k})
		if shown, err := json.Marshal(k.asked); err != nil || strings.Contains(string(shown), hidden) || !strings.Contains(string(shown), "redacted:PW") {
			t.Errorf("%s: asked was %s, %v", name, shown, err)
		}
	}
}
