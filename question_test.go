package toolyard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/sqlite"
	"github.com/toolyard/toolyard/tool"
)

// touching is a tool that has to be asked about and counts its effects.
type touching struct{ runs atomic.Int64 }

type touchIn struct {
	What string `json:"what"`
}

func (c *touching) tool() tool.Tool {
	return tool.New(tool.Spec{Name: "touch", Category: "test", Description: "Counts.", Manual: "# touch", Effects: tool.Write, Default: tool.Ask, ConcurrencySafe: true},
		func(_ context.Context, _ *tool.Request, in touchIn) (*tool.Result, struct{}, error) {
			c.runs.Add(1)
			return tool.Text("touched " + in.What), struct{}{}, nil
		})
}

// office is a yard on a store that others may share.
type office struct {
	*toolyard.Toolyard
	*touching
	t *testing.T
}

// openOffices makes yards that share a workspace and a store, as processes do.
func openOffices(t *testing.T, n int, change func(*toolyard.Config)) []office {
	t.Helper()
	workspace, path := t.TempDir(), filepath.Join(t.TempDir(), "toolyard.db")
	var all []office
	for range n {
		db, err := sqlite.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		o := office{touching: &touching{}, t: t}
		c := toolyard.Config{Home: t.TempDir(), Workspaces: []string{workspace}, Store: db, Tools: []tool.Tool{o.tool()}}
		if change != nil {
			change(&c)
		}
		if o.Toolyard, err = toolyard.New(c); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := o.Close(); err != nil {
				t.Error(err)
			}
		})
		all = append(all, o)
	}
	return all
}

// touch calls the tool.
func (o office) touch(what string, asker toolyard.Asker) *tool.Result {
	raw, _ := json.Marshal(touchIn{what})
	return o.Call(o.t.Context(), toolyard.Call{Tool: "touch", Arguments: raw, Session: "ses_shared", Asker: asker})
}

// refused wants the refusal of a call that nobody could be asked about, and gives
// its question.
func (o office) refused(r *tool.Result) string {
	o.t.Helper()
	id, _ := errorOf(r).Details["question"].(string)
	if !r.IsError || r.Err.Code != tool.PermissionDenied || r.Err.Details["reason"] != "no_channel" || !strings.HasPrefix(id, "perm_") {
		o.t.Fatalf("got %+v: %s", r.Err, r.TextContent())
	}
	if hint := r.Err.Hint; !strings.Contains(hint, "`toolyard approve "+id+"`") || strings.Index(hint, "approve") > strings.Index(hint, "toolyard policy allow") {
		o.t.Errorf("the hint does not name the command first: %s", hint)
	}
	return id
}

func errorOf(r *tool.Result) *tool.Error {
	if r.Err == nil {
		return &tool.Error{}
	}
	return r.Err
}

func (o office) ran(want int64) {
	o.t.Helper()
	if got := o.runs.Load(); got != want {
		o.t.Errorf("the tool has run %d times, want %d", got, want)
	}
}

func (o office) answer(id, option string) {
	o.t.Helper()
	if err := o.Answer(o.t.Context(), id, tool.Answer{Option: option, By: "ann"}); err != nil {
		o.t.Fatal(err)
	}
}

// pending waits for a question.
func (o office) pending() store.Question {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(o.t.Context(), 20*time.Second)
	defer cancel()
	list, _, err := o.AwaitQuestions(ctx, store.QuestionFilter{State: "pending"}, "")
	if err != nil || len(list) == 0 {
		o.t.Fatalf("no question has come: %v", err)
	}
	return list[0]
}

// TestApproval is the table of what an approval is good for: a call that nobody
// could be asked about, answered in one process, made again in another.
func TestApproval(t *testing.T) {
	for _, c := range []struct {
		name string
		then func(t *testing.T, caller, person office, id string)
	}{
		{"once", func(t *testing.T, caller, person office, id string) {
			person.answer(id, "once")
			ok(t, caller.touch("a", nil))
			caller.refused(caller.touch("a", nil)) // replayed
			caller.ran(1)
		}},
		{"always", func(t *testing.T, caller, person office, id string) {
			person.answer(id, "always")
			rules, err := person.Store().ListRules(t.Context())
			if err != nil || len(rules) != 1 || rules[0].By != "ann" || rules[0].Scope != "project" || rules[0].ScopeKey != caller.Workspaces()[0] {
				t.Fatalf("rules %+v, %v", rules, err)
			}
			eventually(t, "the rule holds in the other process", func() bool { return !caller.touch("a", nil).IsError })
			ok(t, caller.touch("a", nil))
			caller.ran(2)
			if err := caller.RemoveRule(t.Context(), rules[0].ID); err != nil {
				t.Fatal(err)
			}
			caller.refused(caller.touch("a", nil)) // the answer was the rule
			caller.ran(2)
		}},
		{"reject", func(t *testing.T, caller, person office, id string) {
			if err := person.Answer(t.Context(), id, tool.Answer{Option: "reject", Text: "not on a Friday", By: "ann"}); err != nil {
				t.Fatal(err)
			}
			r := caller.touch("a", nil)
			if e := errorOf(r); e.Code != tool.PermissionDenied || e.Details["reason"] != "rejected" || !strings.Contains(e.Message, "not on a Friday") {
				t.Errorf("got %+v", r.Err)
			}
			caller.refused(caller.touch("a", nil))
			caller.ran(0)
		}},
		{"other arguments", func(t *testing.T, caller, person office, id string) {
			person.answer(id, "once")
			caller.refused(caller.touch("b", nil))
			caller.ran(0)
			ok(t, caller.touch("a", nil))
		}},
		{"another session", func(t *testing.T, caller, person office, id string) {
			person.answer(id, "once")
			caller.refused(caller.Call(t.Context(), toolyard.Call{Tool: "touch", Arguments: json.RawMessage(`{"what":"a"}`), Session: "ses_other"}))
			caller.ran(0)
		}},
		{"the same arguments, written otherwise", func(t *testing.T, caller, person office, id string) {
			person.answer(id, "once")
			ok(t, caller.Call(t.Context(), toolyard.Call{Tool: "touch", Arguments: json.RawMessage(` { "what" : "\u0061" } `), Session: "ses_shared"}))
			caller.ran(1)
		}},
		{"a rule denies it meanwhile", func(t *testing.T, caller, person office, id string) {
			person.answer(id, "once")
			if _, err := caller.SaveRule(t.Context(), store.Rule{Scope: "user", Action: "deny", Rule: "touch"}); err != nil {
				t.Fatal(err)
			}
			if e := errorOf(caller.touch("a", nil)); e.Code != tool.PermissionDenied || e.Details["reason"] == "no_channel" {
				t.Errorf("got %+v", e)
			}
			caller.ran(0)
		}},
		{"another rule asks meanwhile", func(t *testing.T, caller, person office, id string) {
			person.answer(id, "once")
			if _, err := caller.SaveRule(t.Context(), store.Rule{Scope: "user", Action: "ask", Rule: "effect:write"}); err != nil {
				t.Fatal(err)
			}
			caller.refused(caller.touch("a", nil))
			caller.ran(0)
		}},
		{"not answered", func(_ *testing.T, caller, person office, id string) {
			if again := caller.refused(caller.touch("a", nil)); again != id {
				t.Errorf("the same call is another question: %s and %s", id, again)
			}
			caller.ran(0)
		}},
		{"answered twice", func(t *testing.T, caller, person office, id string) {
			person.answer(id, "reject")
			err := caller.Answer(t.Context(), id, tool.Answer{Option: "once", By: "bob"})
			if e := tool.AsError(err); e == nil || e.Code != tool.Conflict || !strings.Contains(e.Message, "ann") {
				t.Errorf("got %v", err)
			}
			if e := errorOf(caller.touch("a", nil)); e.Details["reason"] != "rejected" {
				t.Errorf("got %+v", e)
			}
			caller.ran(0)
		}},
		{"answered by a channel that has come", func(t *testing.T, caller, _ office, id string) {
			var asked string
			r := caller.touch("a", askerFunc(func(_ context.Context, q tool.Question) (tool.Answer, error) {
				asked = q.ID
				return tool.Answer{Option: "once", By: "own"}, nil
			}))
			ok(t, r)
			if asked != id {
				t.Errorf("the channel was asked %s, want %s", asked, id)
			}
			caller.ran(1)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			both := openOffices(t, 2, nil)
			c.then(t, both[0], both[1], both[0].refused(both[0].touch("a", nil)))
		})
	}
}

type askerFunc func(ctx context.Context, q tool.Question) (tool.Answer, error)

func (f askerFunc) Ask(ctx context.Context, q tool.Question) (tool.Answer, error) { return f(ctx, q) }

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); !done(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not in 20 s: %s", what)
		}
	}
}

func TestApprovalExpires(t *testing.T) {
	both := openOffices(t, 2, func(c *toolyard.Config) { c.Questions.Keep = time.Millisecond })
	caller, person := both[0], both[1]
	id := caller.refused(caller.touch("a", nil))
	eventually(t, "the question expires", func() bool {
		q, err := person.Question(t.Context(), id)
		return err == nil && q.State == "expired"
	})
	if e := tool.AsError(person.Answer(t.Context(), id, tool.Answer{Option: "once"})); e == nil || e.Code != tool.Conflict || !strings.Contains(e.Message, "expired") {
		t.Errorf("got %v", e)
	}
	caller.refused(caller.touch("a", nil))
	caller.ran(0)
}

// Who could be asked and did not answer has refused; the question is over.
func TestPermissionTimeout(t *testing.T) {
	o := openOffices(t, 1, func(c *toolyard.Config) { c.Questions.Timeout = 30 * time.Millisecond })[0]
	r := o.touch("a", askerFunc(func(ctx context.Context, _ tool.Question) (tool.Answer, error) {
		<-ctx.Done()
		return tool.Answer{}, context.Cause(ctx)
	}))
	id, _ := errorOf(r).Details["question"].(string)
	if errorOf(r).Code != tool.PermissionTimeout || id == "" || !strings.Contains(r.Err.Message, "30ms") {
		t.Fatalf("got %+v", r.Err)
	}
	if q, err := o.Question(t.Context(), id); err != nil || q.State != "expired" {
		t.Errorf("the question is %+v, %v", q, err)
	}
	o.ran(0)
}

// Somebody who watches in another process is asked, sees the exact call, and the
// call goes on with the answer; its own channel is withdrawn.
func TestSomebodyWatches(t *testing.T) {
	for _, own := range []bool{false, true} {
		t.Run(fmt.Sprintf("own channel %v", own), func(t *testing.T) {
			both := openOffices(t, 2, nil)
			caller, person := both[0], both[1]
			defer person.WatchQuestions()()
			withdrawn := make(chan struct{})
			var asker toolyard.Asker
			if own {
				asker = askerFunc(func(ctx context.Context, _ tool.Question) (tool.Answer, error) {
					<-ctx.Done()
					close(withdrawn)
					return tool.Answer{}, context.Cause(ctx)
				})
			}
			done := make(chan *tool.Result, 1)
			go func() { done <- caller.touch("a", asker) }()
			q := person.pending()
			var details struct {
				Arguments touchIn
				Suggest   []string
			}
			if err := json.Unmarshal(q.Details, &details); err != nil || details.Arguments.What != "a" || len(details.Suggest) != 1 {
				t.Errorf("the details are %s, %v", q.Details, err)
			}
			if q.Tool != "touch" || q.Call == "" || q.Session != "ses_shared" || q.Workspace != caller.Workspaces()[0] {
				t.Errorf("the question is %+v", q)
			}
			person.answer(q.ID, "once")
			ok(t, <-done)
			if own {
				<-withdrawn
			}
			caller.ran(1)
		})
	}
}

// A batch asks for each call; one "always" settles them all, and each runs once.
func TestAlwaysSettlesABatch(t *testing.T) {
	both := openOffices(t, 2, nil)
	caller, person := both[0], both[1]
	defer person.WatchQuestions()()
	var calls []toolyard.Call
	for i := range 5 {
		raw, _ := json.Marshal(touchIn{fmt.Sprint(i)})
		calls = append(calls, toolyard.Call{Tool: "touch", Arguments: raw, Session: "ses_shared"})
	}
	failed := make(chan int, 1)
	go func() {
		n := 0
		for _, r := range caller.ExecuteBatch(t.Context(), calls, tool.BatchOptions{}) {
			if r.IsError {
				n++
			}
		}
		failed <- n
	}()
	eventually(t, "all are asked", func() bool {
		list, err := person.Questions(t.Context(), store.QuestionFilter{State: "pending"})
		return err == nil && len(list) == len(calls)
	})
	first := person.pending().ID
	person.answer(first, "always")
	if n := <-failed; n != 0 {
		t.Errorf("%d calls failed", n)
	}
	caller.ran(int64(len(calls)))
	list, err := person.Questions(t.Context(), store.QuestionFilter{State: "answered"})
	if err != nil || len(list) != len(calls) {
		t.Fatalf("answered are %+v, %v", list, err)
	}
	for _, q := range list {
		if q.ID != first && !strings.Contains(q.By, "by the answer to ") {
			t.Errorf("%s was settled by %q", q.ID, q.By)
		}
	}
}

// A call that is stuck in a question does not hold up the end of the program.
func TestCloseWhileAsked(t *testing.T) {
	o := openOffices(t, 1, nil)[0]
	asked := make(chan struct{})
	done := make(chan *tool.Result, 1)
	go func() {
		done <- o.touch("a", askerFunc(func(ctx context.Context, _ tool.Question) (tool.Answer, error) {
			close(asked)
			<-ctx.Done()
			return tool.Answer{}, context.Cause(ctx)
		}))
	}()
	<-asked
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	o.refused(<-done) // and its question is still there for who comes
	o.ran(0)
}

func TestBadWebhook(t *testing.T) {
	_, err := toolyard.New(toolyard.Config{Home: t.TempDir(), Questions: toolyard.Questions{Webhook: "file:///etc/passwd"}})
	if e := tool.AsError(err); e == nil || e.Code != tool.ParameterError {
		t.Errorf("got %v", err)
	}
}

// A rule that another process saves while a person thinks holds for the call that
// they allow, however quick they were.
func TestDeniedElsewhereWhileAsked(t *testing.T) {
	for _, option := range []string{"once", "always"} {
		t.Run(option, func(t *testing.T) {
			both := openOffices(t, 2, nil)
			caller, person := both[0], both[1]
			if e := errorOf(caller.touch("warm", nil)); e.Details["reason"] != "no_channel" { // the rules have just been read
				t.Fatalf("got %+v", e)
			}
			r := caller.touch("a", askerFunc(func(ctx context.Context, _ tool.Question) (tool.Answer, error) {
				if _, err := person.SaveRule(ctx, store.Rule{Scope: "user", Action: "deny", Rule: "touch"}); err != nil {
					t.Error(err)
				}
				return tool.Answer{Option: option, By: "ann"}, nil
			}))
			if e := errorOf(r); e.Code != tool.PermissionDenied || e.Details["rule"] != "touch" {
				t.Errorf("got %+v", r.Err)
			}
			caller.ran(0)
		})
	}
}
