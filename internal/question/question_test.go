package question_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/event"
	"github.com/toolyard/toolyard/internal/question"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/store/memory"
	"github.com/toolyard/toolyard/internal/store/sqlite"
	"github.com/toolyard/toolyard/tool"
)

// drivers are the stores that a desk works on.
var drivers = []struct {
	name string
	open func(t *testing.T) store.Store
}{
	{"memory", func(*testing.T) store.Store { return memory.New() }},
	{"sqlite", func(t *testing.T) store.Store {
		db, err := sqlite.Open(filepath.Join(t.TempDir(), "x.db"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		return db
	}},
}

// onBoth runs a test on rows of either driver.
func onBoth(t *testing.T, test func(t *testing.T, rows store.Store)) {
	for _, d := range drivers {
		t.Run(d.name, func(t *testing.T) { test(t, d.open(t)) })
	}
}

func newDesk(t *testing.T, c question.Config) *question.Desk {
	t.Helper()
	d := question.New(c)
	t.Cleanup(func() { d.Close() })
	return d
}

// channel is an asker made of a function.
type channel func(ctx context.Context, q tool.Question) (tool.Answer, error)

func (f channel) Ask(ctx context.Context, q tool.Question) (tool.Answer, error) { return f(ctx, q) }

// says is a channel that answers at once.
func says(option string) question.Asker {
	return channel(func(context.Context, tool.Question) (tool.Answer, error) {
		return tool.Answer{Option: option, By: "own"}, nil
	})
}

// silent is a channel that shows the question and waits; it tells when it is
// asked and what ended it.
type silent struct {
	asked chan tool.Question
	ended chan error
}

func newSilent() silent { return silent{make(chan tool.Question, 4), make(chan error, 4)} }

func (s silent) Ask(ctx context.Context, q tool.Question) (tool.Answer, error) {
	s.asked <- q
	<-ctx.Done()
	s.ended <- context.Cause(ctx)
	return tool.Answer{}, context.Cause(ctx)
}

// permission is a question as the executor asks it.
func permission(binding string) tool.Question {
	return tool.Question{
		Kind: "permission", Title: "Allow bash?", Text: "bash(rm *) asks", Binding: binding, Fresh: true, Deadline: time.Minute, Call: "call_1", Tool: "bash",
		Options: []tool.Option{{ID: "once", Label: "Allow once"}, {ID: "always", Label: "Always"}, {ID: "reject", Label: "Refuse"}},
		Details: map[string]any{"rule": "bash(rm *)", "suggest": []string{"bash(rm a)"}},
	}
}

var from = question.From{Session: "ses", Workspace: "/w"}

// idOf is the question that an error is about.
func idOf(t *testing.T, err error) string {
	t.Helper()
	kept, ok := errors.AsType[interface {
		error
		QuestionID() string
	}](err)
	if !ok {
		t.Fatalf("the error %v names no question", err)
	}
	return kept.QuestionID()
}

func isCode(t *testing.T, err error, code tool.Code, parts ...string) {
	t.Helper()
	e, ok := errors.AsType[*tool.Error](err)
	if !ok || e.Code != code {
		t.Fatalf("got %v, want %s", err, code)
	}
	for _, part := range parts {
		if !strings.Contains(e.Message+" "+e.Hint, part) {
			t.Errorf("%q does not say %q", e.Message+" "+e.Hint, part)
		}
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// state reads a question.
func state(t *testing.T, rows store.Store, id string) store.Question {
	t.Helper()
	q, err := rows.Question(t.Context(), id)
	ok(t, err)
	return q
}

// asking runs Ask and gives what it returns.
type outcome struct {
	answer tool.Answer
	err    error
}

func asking(ctx context.Context, d *question.Desk, q tool.Question, own question.Asker) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		a, err := d.Ask(ctx, q, from, own)
		done <- outcome{a, err}
	}()
	return done
}

// receive waits for what comes from a channel.
func receive[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(20 * time.Second):
		t.Fatalf("not in 20 s: %s", what)
		panic("")
	}
}

func TestOwnChannelAnswers(t *testing.T) {
	onBoth(t, func(t *testing.T, rows store.Store) {
		d := newDesk(t, question.Config{Rows: rows})
		var asked []string
		for range 2 {
			a, err := d.Ask(t.Context(), permission("b"), from, channel(func(_ context.Context, q tool.Question) (tool.Answer, error) {
				asked = append(asked, q.ID)
				return tool.Answer{Option: "once", Text: "fine", By: "ann"}, nil
			}))
			ok(t, err)
			if d := cmp.Diff(tool.Answer{Option: "once", Text: "fine", By: "ann"}, a); d != "" {
				t.Error(d)
			}
		}
		if len(asked) != 2 || asked[0] == asked[1] || !strings.HasPrefix(asked[0], "perm_") || len(asked[0]) != len("perm_")+8 {
			t.Fatalf("the channel saw %q, want two questions", asked)
		}
		q := state(t, rows, asked[0])
		if q.State != "answered" || q.Option != "once" || q.Answer != "fine" || q.By != "ann" || !q.Used || q.Answered.IsZero() {
			t.Errorf("the row is %+v", q)
		}
		if q.Session != "ses" || q.Workspace != "/w" || q.Call != "call_1" || q.Tool != "bash" || !q.Fresh || q.Text != "bash(rm *) asks" || len(q.Options) != 3 {
			t.Errorf("the row does not say what was asked: %+v", q)
		}
	})
}

// A question that nobody could be shown is answered by its ID; the next equal one
// takes the answer, once.
func TestAnswerThatComesLate(t *testing.T) {
	onBoth(t, func(t *testing.T, rows store.Store) {
		d := newDesk(t, question.Config{Rows: rows})
		_, err := d.Ask(t.Context(), permission("b"), from, nil)
		if !errors.Is(err, tool.ErrNoChannel) {
			t.Fatalf("nobody there: %v", err)
		}
		id := idOf(t, err)
		if q := state(t, rows, id); q.State != "pending" || time.Until(q.Deadline) < question.DefaultKeep/2 {
			t.Fatalf("the row is %+v", q)
		}
		_, err = d.Ask(t.Context(), permission("b"), from, channel(func(context.Context, tool.Question) (tool.Answer, error) {
			return tool.Answer{}, fmt.Errorf("no screen: %w", tool.ErrNoChannel)
		}))
		if again := idOf(t, err); again != id {
			t.Errorf("the same question again is %s, want %s", again, id)
		}
		ok(t, d.Answer(t.Context(), id, tool.Answer{Option: "once", By: "ann"}))

		for what, q := range map[string]tool.Question{
			"other arguments": permission("c"),
			"another kind":    func() tool.Question { q := permission("b"); q.Kind = "doom_loop"; return q }(),
			"no binding":      permission(""),
		} {
			if _, err := d.Ask(t.Context(), q, from, nil); !errors.Is(err, tool.ErrNoChannel) {
				t.Errorf("%s: %v, want that nobody can be asked", what, err)
			}
		}
		a, err := d.Ask(t.Context(), permission("b"), from, nil)
		ok(t, err)
		if a.Option != "once" || a.By != "ann" {
			t.Errorf("got %+v", a)
		}
		_, err = d.Ask(t.Context(), permission("b"), from, nil)
		if !errors.Is(err, tool.ErrNoChannel) || idOf(t, err) == id {
			t.Errorf("a second use: %v, want a new question", err)
		}
	})
}

// Two desks are two processes. One reopens what the other has left.
func TestAnswerAfterTheAskerIsGone(t *testing.T) {
	onBoth(t, func(t *testing.T, rows store.Store) {
		first := newDesk(t, question.Config{Rows: rows})
		own := newSilent()
		done := asking(t.Context(), first, permission("b"), own)
		id := receive(t, "the question", own.asked).ID
		ok(t, first.Close()) // leaves what it has asked, as a killed process would
		if o := receive(t, "the end of the wait", done); !errors.Is(o.err, tool.ErrNoChannel) || idOf(t, o.err) != id {
			t.Errorf("got %+v", o)
		}
		if _, err := first.Ask(t.Context(), permission("z"), from, nil); !errors.Is(err, tool.ErrNoChannel) {
			t.Errorf("a closed desk: %v", err)
		}
		person, next := newDesk(t, question.Config{Rows: rows}), newDesk(t, question.Config{Rows: rows})
		ok(t, person.Answer(t.Context(), id, tool.Answer{Option: "reject", Text: "no", By: "ann"}))
		a, err := next.Ask(t.Context(), permission("b"), from, nil)
		ok(t, err)
		if a.Option != "reject" || a.Text != "no" {
			t.Errorf("got %+v", a)
		}
	})
}

func TestFirstAnswerWins(t *testing.T) {
	onBoth(t, func(t *testing.T, rows store.Store) {
		d := newDesk(t, question.Config{Rows: rows})
		own := newSilent()
		done := asking(t.Context(), d, permission("b"), own)
		id := receive(t, "the question", own.asked).ID
		var won atomic.Int64
		var winner atomic.Value
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				by := fmt.Sprint("person ", i)
				switch err := d.Answer(context.Background(), id, tool.Answer{Option: "once", By: by}); {
				case err == nil:
					won.Add(1)
					winner.Store(by)
				case tool.AsError(err).Code != tool.Conflict:
					t.Errorf("%s: %v, want CONFLICT", by, err)
				}
			})
		}
		all.Wait()
		if won.Load() != 1 {
			t.Fatalf("%d answers won", won.Load())
		}
		o := receive(t, "the answer", done)
		if o.err != nil || o.answer.By != winner.Load() {
			t.Errorf("got %+v, want the answer of %v", o, winner.Load())
		}
		if cause := receive(t, "the end of the channel", own.ended); cause == nil || !strings.Contains(cause.Error(), "elsewhere") {
			t.Errorf("the channel ended with %v", cause)
		}
		isCode(t, d.Answer(t.Context(), id, tool.Answer{Option: "reject"}), tool.Conflict, "answered by "+o.answer.By, "at ", "once")
		if _, err := d.Ask(t.Context(), permission("b"), from, nil); !errors.Is(err, tool.ErrNoChannel) {
			t.Errorf("the answer was used: %v", err)
		}
	})
}

// The own channel is one of those that answer.
func TestOwnChannelIsTooLate(t *testing.T) {
	onBoth(t, func(t *testing.T, rows store.Store) {
		d, other := newDesk(t, question.Config{Rows: rows}), newDesk(t, question.Config{Rows: rows})
		a, err := d.Ask(t.Context(), permission("b"), from, channel(func(_ context.Context, q tool.Question) (tool.Answer, error) {
			ok(t, other.Answer(context.Background(), q.ID, tool.Answer{Option: "reject", By: "ann"}))
			return tool.Answer{Option: "once", By: "own"}, nil
		}))
		ok(t, err)
		if a.By != "ann" || a.Option != "reject" {
			t.Errorf("got %+v, want the answer that came first", a)
		}
	})
}

// Somebody who watches in another process is asked, and the answer is brought
// back from there.
func TestTwoProcesses(t *testing.T) {
	onBoth(t, func(t *testing.T, rows store.Store) {
		asks := newDesk(t, question.Config{Rows: rows, Identity: "1:1"})
		person := newDesk(t, question.Config{Rows: rows, Identity: "2:2"})
		release := person.Watch()
		done := asking(t.Context(), asks, permission("b"), nil)
		shown, version, err := person.Await(t.Context(), store.QuestionFilter{State: "pending"}, "")
		ok(t, err)
		if len(shown) != 1 || version == "" {
			t.Fatalf("the person sees %+v", shown)
		}
		ok(t, person.Answer(t.Context(), shown[0].ID, tool.Answer{Option: "once", By: "ann"}))
		if o := receive(t, "the answer", done); o.err != nil || o.answer.By != "ann" {
			t.Errorf("got %+v", o)
		}
		release()
		release()
		if _, err := asks.Ask(t.Context(), permission("c"), from, nil); !errors.Is(err, tool.ErrNoChannel) {
			t.Errorf("nobody watches any more: %v", err)
		}
		left, err := rows.ListSettings(t.Context(), "question.")
		ok(t, err)
		if len(left) != 0 {
			t.Errorf("settings left behind: %v", left)
		}
	})
}

// A process that was killed while it watched is found out.
func TestWatcherThatIsGone(t *testing.T) {
	onBoth(t, func(t *testing.T, rows store.Store) {
		d := newDesk(t, question.Config{Rows: rows, Alive: func(identity string) bool { return identity == "alive" }})
		for name, value := range map[string]string{
			"killed":  time.Now().Add(time.Hour).Format(time.RFC3339Nano),
			"alive":   time.Now().Add(-time.Second).Format(time.RFC3339Nano),
			"garbage": "soon",
		} {
			ok(t, rows.PutSetting(t.Context(), "question.watcher/"+name+"/1", value))
		}
		if _, err := d.Ask(t.Context(), permission("b"), from, nil); !errors.Is(err, tool.ErrNoChannel) {
			t.Errorf("got %v", err)
		}
		left, err := rows.ListSettings(t.Context(), "question.")
		ok(t, err)
		if len(left) != 0 {
			t.Errorf("settings left behind: %v", left)
		}
	})
}

// Two calls wait for one question: an answer for one reaches one.
func TestOneAnswerForTwoEqualCalls(t *testing.T) {
	onBoth(t, func(t *testing.T, rows store.Store) {
		desks := []*question.Desk{newDesk(t, question.Config{Rows: rows}), newDesk(t, question.Config{Rows: rows})}
		owns := []silent{newSilent(), newSilent()}
		var done []<-chan outcome
		var ids []string
		for i, d := range desks {
			done = append(done, asking(t.Context(), d, permission("b"), owns[i]))
			ids = append(ids, receive(t, "the question", owns[i].asked).ID)
		}
		if ids[0] != ids[1] {
			t.Fatalf("two questions: %v", ids)
		}
		ok(t, desks[0].Answer(t.Context(), ids[0], tool.Answer{Option: "once", By: "ann"}))
		var second int
		select {
		case o := <-done[0]:
			second = 1
			ok(t, o.err)
		case o := <-done[1]:
			second = 0
			ok(t, o.err)
		}
		next := receive(t, "the question anew", owns[second].asked).ID
		if next == ids[0] {
			t.Fatal("the same question twice")
		}
		ok(t, desks[0].Answer(t.Context(), next, tool.Answer{Option: "reject", By: "ann"}))
		if o := receive(t, "the second answer", done[second]); o.err != nil || o.answer.Option != "reject" {
			t.Errorf("got %+v", o)
		}
	})
}

func TestExpire(t *testing.T) {
	onBoth(t, func(t *testing.T, rows store.Store) {
		d := newDesk(t, question.Config{Rows: rows})
		defer d.Watch()()
		ctx, cancel := context.WithCancelCause(t.Context())
		done := asking(ctx, d, permission("b"), nil)
		shown, _, err := d.Await(t.Context(), store.QuestionFilter{State: "pending"}, "")
		ok(t, err)
		cancel(tool.ErrNoAnswer)
		if err = receive(t, "the end", done).err; !errors.Is(err, tool.ErrNoAnswer) {
			t.Fatalf("got %v", err)
		}
		id := idOf(t, err)
		if id != shown[0].ID {
			t.Errorf("the error is about %s, want %s", id, shown[0].ID)
		}
		if q := state(t, rows, id); q.State != "expired" {
			t.Errorf("the row is %+v", q)
		}
		isCode(t, d.Answer(t.Context(), id, tool.Answer{Option: "once"}), tool.Conflict, id+" expired at", "made again")
	})
}

// The time of the question counts where the caller's does not end.
func TestDeadline(t *testing.T) {
	rows := memory.New()
	d := newDesk(t, question.Config{Rows: rows})
	defer d.Watch()()
	q := permission("b")
	q.Deadline = 20 * time.Millisecond
	_, err := d.Ask(t.Context(), q, from, nil)
	if !errors.Is(err, tool.ErrNoAnswer) || state(t, rows, idOf(t, err)).State != "expired" {
		t.Errorf("got %v", err)
	}
}

// What lies there expires too, and its late answer counts for nothing.
func TestExpireLeft(t *testing.T) {
	onBoth(t, func(t *testing.T, rows store.Store) {
		var later atomic.Int64
		now := func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
		d := newDesk(t, question.Config{Rows: rows, Keep: time.Minute, Now: now})
		ask := func(binding string) (tool.Answer, error) { return d.Ask(t.Context(), permission(binding), from, nil) }
		_, err := ask("unanswered")
		unanswered := idOf(t, err)
		_, err = ask("answered")
		answered := idOf(t, err)
		ok(t, d.Answer(t.Context(), answered, tool.Answer{Option: "once"}))
		later.Store(int64(2 * time.Minute))
		isCode(t, d.Answer(t.Context(), unanswered, tool.Answer{Option: "once"}), tool.Conflict, "expired")
		if q := state(t, rows, unanswered); q.State != "expired" {
			t.Errorf("the row is %+v", q)
		}
		for _, binding := range []string{"unanswered", "answered"} {
			if _, err := ask(binding); !errors.Is(err, tool.ErrNoChannel) || idOf(t, err) == unanswered || idOf(t, err) == answered {
				t.Errorf("%s: %v, want a new question", binding, err)
			}
		}
		later.Store(int64(4 * time.Minute))
		ok(t, d.Expire(t.Context()))
		left, err := rows.PendingQuestions(t.Context())
		ok(t, err)
		if len(left) != 0 {
			t.Errorf("pending after the deadline: %v", left)
		}
	})
}

// No answer is never the first option.
func TestDefaults(t *testing.T) {
	options := []tool.Option{{ID: "first"}, {ID: "second"}, {ID: "reject"}}
	for _, c := range []struct {
		name    string
		q       tool.Question
		want    tool.Answer
		wantErr error
		prefix  string
	}{
		{"default", tool.Question{Kind: "decision", Default: "second"}, tool.Answer{Option: "second", By: "default"}, nil, "deci_"},
		{"decision", tool.Question{Kind: "decision"}, tool.Answer{}, tool.ErrNoAnswer, "deci_"},
		{"clarification", tool.Question{Kind: "clarification"}, tool.Answer{}, tool.ErrNoAnswer, "clar_"},
		{"confirmation", tool.Question{Kind: "confirmation"}, tool.Answer{Option: "reject", Text: tool.ErrNoAnswer.Error(), By: "default"}, nil, "deci_"},
		{"risk", tool.Question{Kind: "risk"}, tool.Answer{Option: "reject", Text: tool.ErrNoAnswer.Error(), By: "default"}, nil, "deci_"},
		{"risk with a default", tool.Question{Kind: "risk", Default: "first"}, tool.Answer{Option: "first", By: "default"}, nil, "deci_"},
		{"permission", tool.Question{Kind: "permission"}, tool.Answer{}, tool.ErrNoAnswer, "perm_"},
		{"doom loop", tool.Question{Kind: "doom_loop"}, tool.Answer{}, tool.ErrNoAnswer, "perm_"},
		{"env", tool.Question{Kind: "env"}, tool.Answer{}, tool.ErrNoAnswer, "env_"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rows := memory.New()
			d := newDesk(t, question.Config{Rows: rows})
			own := newSilent()
			ctx, end := context.WithCancelCause(t.Context())
			c.q.Options, c.q.Deadline = options, time.Minute
			done := asking(ctx, d, c.q, own)
			id := receive(t, "the question", own.asked).ID
			if !strings.HasPrefix(id, c.prefix) {
				t.Errorf("the ID is %s, want %s…", id, c.prefix)
			}
			end(tool.ErrNoAnswer)
			o := receive(t, "the end", done)
			if !errors.Is(o.err, c.wantErr) || o.answer != c.want {
				t.Errorf("got %+v, want %+v and %v", o, c.want, c.wantErr)
			}
			q := state(t, rows, id)
			if q.State != "expired" || q.Option != c.q.Default {
				t.Errorf("the row is %+v", q)
			}
		})
	}
}

// settled is a cause as the executor gives it.
type settled struct{}

func (settled) Error() string              { return "settled by another answer" }
func (settled) SettledBy() (id, by string) { return "call_7", "ann" }

func TestEndOfTheCall(t *testing.T) {
	for _, c := range []struct {
		name      string
		cause     error
		state, by string
	}{
		{"cancelled", errors.New("the client has cancelled"), "cancelled", "the client has cancelled"},
		{"settled", settled{}, "answered", "ann, by the answer to call_7"},
		{"deadline", context.DeadlineExceeded, "expired", ""},
	} {
		onBoth(t, func(t *testing.T, rows store.Store) {
			t.Run(c.name, func(t *testing.T) {
				d := newDesk(t, question.Config{Rows: rows})
				own := newSilent()
				ctx, end := context.WithCancelCause(t.Context())
				done := asking(ctx, d, permission("b"), own)
				id := receive(t, "the question", own.asked).ID
				end(c.cause)
				if o := receive(t, "the end", done); o.err == nil {
					t.Errorf("got %+v", o)
				}
				if q := state(t, rows, id); q.State != c.state || q.By != c.by {
					t.Errorf("the row is %+v", q)
				}
				if _, err := d.Ask(t.Context(), permission("b"), from, nil); !errors.Is(err, tool.ErrNoChannel) {
					t.Errorf("the same question again: %v", err)
				}
			})
		})
	}
}

// One "always" settles what it covers, whoever waits for it.
func TestAlwaysCovers(t *testing.T) {
	onBoth(t, func(t *testing.T, rows store.Store) {
		var saved []string
		asks := newDesk(t, question.Config{Rows: rows})
		person := newDesk(t, question.Config{Rows: rows, Always: func(_ context.Context, q store.Question) error {
			saved = append(saved, q.ID)
			return nil
		}})
		defer person.Watch()()
		put := func(binding string, change func(*tool.Question), from question.From) <-chan outcome {
			q := permission(binding)
			if change != nil {
				change(&q)
			}
			done := make(chan outcome, 1)
			go func() {
				a, err := asks.Ask(t.Context(), q, from, nil)
				done <- outcome{a, err}
			}()
			return done
		}
		one := put("one", nil, from)
		same := put("same", nil, question.From{Session: "another", Workspace: "/w"})
		put("other place", nil, question.From{Session: "ses", Workspace: "/v"})
		put("other rule", func(q *tool.Question) { q.Details["rule"] = "bash" }, from)
		put("more", func(q *tool.Question) { q.Details["suggest"] = []string{"bash(rm a)", "bash(rm b)"} }, from)
		put("no always", func(q *tool.Question) { q.Options = q.Options[:1] }, from)
		var first string
		eventually(t, "all questions are there", func() bool {
			list, err := person.List(t.Context(), store.QuestionFilter{State: "pending"})
			ok(t, err)
			for _, q := range list {
				if strings.HasSuffix(q.Binding, " one") {
					first = q.ID
				}
			}
			return len(list) == 6
		})
		ok(t, person.Answer(t.Context(), first, tool.Answer{Option: "always", By: "ann"}))
		for _, done := range []<-chan outcome{one, same} {
			if o := receive(t, "the answer", done); o.err != nil || o.answer.Option != "always" {
				t.Errorf("got %+v", o)
			}
		}
		if !slices.Equal(saved, []string{first}) {
			t.Errorf("rules saved for %v, want %s", saved, first)
		}
		left, err := person.List(t.Context(), store.QuestionFilter{State: "pending"})
		ok(t, err)
		if len(left) != 4 {
			t.Errorf("%d are pending, want 4: %+v", len(left), left)
		}
		for _, binding := range []string{"one", "same"} { // the rule allows them now; an answer does not
			if _, ok := rows.TakeAnswer(t.Context(), "permission "+binding, time.Now()); ok == nil {
				t.Errorf("the answer to %s can still be used", binding)
			}
		}
		settled, err := person.List(t.Context(), store.QuestionFilter{State: "answered", Session: "another"})
		ok(t, err)
		if len(settled) != 1 || settled[0].By != "ann, by the answer to "+first {
			t.Errorf("settled: %+v", settled)
		}
	})
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); !done(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not in 20 s: %s", what)
		}
	}
}

func TestAnswersThatDoNotFit(t *testing.T) {
	rows := memory.New()
	d := newDesk(t, question.Config{Rows: rows})
	put := func(q tool.Question) string {
		q.Binding = fmt.Sprint(q.Kind, q.Title)
		_, err := d.Ask(t.Context(), q, from, nil)
		return idOf(t, err)
	}
	choice := put(permission("x"))
	free := put(tool.Question{Kind: "clarification", Title: "free"})
	custom := put(tool.Question{Kind: "decision", Title: "custom", Options: []tool.Option{{ID: "a"}}, Details: map[string]any{"allow_custom": true}})
	env := put(tool.Question{Kind: "env", Title: "env", Options: []tool.Option{{ID: "set"}}})
	for _, c := range []struct {
		name, id string
		a        tool.Answer
		code     tool.Code
		says     string
	}{
		{"no such question", "perm_00000000", tool.Answer{Option: "once"}, tool.NotFound, "perm_00000000"},
		{"no such option", choice, tool.Answer{Option: "perhaps"}, tool.ParameterError, "once, always, reject"},
		{"nothing", choice, tool.Answer{}, tool.ParameterError, "one of its options"},
		{"only a text", choice, tool.Answer{Text: "go on"}, tool.ParameterError, "one of its options"},
		{"no text", free, tool.Answer{}, tool.ParameterError, "needs a text"},
		{"an option of none", free, tool.Answer{Option: "once"}, tool.ParameterError, "Answer it with a text"},
		{"too long", free, tool.Answer{Text: strings.Repeat("x", 1<<20)}, tool.ParameterError, "1048576 bytes"},
		{"a secret", env, tool.Answer{Option: "set", Text: "hunter2"}, tool.ParameterError, "secret store"},
		{"free", free, tool.Answer{Text: "the second"}, "", ""},
		{"custom", custom, tool.Answer{Text: "neither"}, "", ""},
		{"an option with a remark", choice, tool.Answer{Option: "reject", Text: "not now"}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := d.Answer(t.Context(), c.id, c.a)
			if c.code == "" {
				ok(t, err)
				return
			}
			isCode(t, err, c.code, c.says)
		})
	}
}

// The values of an environment question go through, and not into the record.
func TestEnvIsNotKept(t *testing.T) {
	rows := memory.New()
	d := newDesk(t, question.Config{Rows: rows})
	id := ""
	a, err := d.Ask(t.Context(), tool.Question{Kind: "env", Title: "TOKEN?"}, from, channel(func(_ context.Context, q tool.Question) (tool.Answer, error) {
		id = q.ID
		return tool.Answer{Text: "hunter2", By: "ann"}, nil
	}))
	ok(t, err)
	if a.Text != "hunter2" {
		t.Errorf("got %+v", a)
	}
	if q := state(t, rows, id); q.State != "answered" || q.Answer != "" {
		t.Errorf("the row is %+v", q)
	}
}

// A model answers only what is left to it, of its own session.
func TestModelAnswers(t *testing.T) {
	d := newDesk(t, question.Config{Rows: memory.New()})
	for kind, may := range map[string]bool{
		"permission": false, "doom_loop": false, "confirmation": false, "risk": false, "env": false, "clarification": true, "decision": true, "new": false,
	} {
		_, err := d.Ask(t.Context(), tool.Question{Kind: kind, Title: "?", Binding: kind, Options: []tool.Option{{ID: "a"}}}, from, nil)
		id := idOf(t, err)
		isCode(t, d.AnswerByModel(t.Context(), "another", id, tool.Answer{Option: "a"}), tool.NotFound)
		err = d.AnswerByModel(t.Context(), "ses", id, tool.Answer{Option: "a", By: "ann"})
		if may {
			ok(t, err)
			if q, err := d.Get(t.Context(), id); err != nil || q.By != "model" {
				t.Errorf("%s: %+v, %v", kind, q, err)
			}
			continue
		}
		isCode(t, err, tool.PermissionDenied, "only a person", "toolyard approve "+id)
	}
}

func TestBounds(t *testing.T) {
	rows := memory.New()
	d := newDesk(t, question.Config{Rows: rows})
	many := make([]tool.Option, 500)
	for i := range many {
		many[i] = tool.Option{ID: fmt.Sprint(i), Label: strings.Repeat("ü", 5000)}
	}
	_, err := d.Ask(t.Context(), tool.Question{
		Kind: "permission", Binding: "b", Title: strings.Repeat("ü", 5000), Text: strings.Repeat("x", 1<<20), Options: many,
		Details: map[string]any{"arguments": strings.Repeat("x", 1<<20)},
	}, from, nil)
	q := state(t, rows, idOf(t, err))
	body, err := json.Marshal(q)
	ok(t, err)
	if len(body) > 256<<10 {
		t.Errorf("the row has %d bytes", len(body))
	}
	if !strings.HasSuffix(q.Title, "[…]") || strings.ContainsRune(q.Title, '\uFFFD') {
		t.Errorf("the title ends with %q", q.Title[len(q.Title)-10:])
	}
}

// Questions that nobody answers do not pile up.
func TestBoundOfWhatIsLeft(t *testing.T) {
	rows := memory.New()
	d := newDesk(t, question.Config{Rows: rows})
	var first string
	for i := range 1010 {
		_, err := d.Ask(t.Context(), permission(fmt.Sprint(i)), from, nil)
		if i == 0 {
			first = idOf(t, err)
		}
	}
	left, err := rows.PendingQuestions(t.Context())
	ok(t, err)
	if len(left) != 1000 || state(t, rows, first).State != "cancelled" {
		t.Errorf("%d are pending, the first is %s; want 1000 and cancelled", len(left), state(t, rows, first).State)
	}
}

func TestBoundOfThoseThatWait(t *testing.T) {
	d := newDesk(t, question.Config{Rows: memory.New()})
	defer d.Watch()()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range 1000 {
		all.Go(func() { _, _ = d.Ask(ctx, permission(fmt.Sprint(i)), from, nil) })
	}
	eventually(t, "1000 wait", func() bool {
		list, err := d.List(t.Context(), store.QuestionFilter{State: "pending", Limit: 1000})
		return err == nil && len(list) == 1000
	})
	_, err := d.Ask(t.Context(), permission("one more"), from, says("once"))
	isCode(t, err, tool.ResourceExhausted, "1000 questions")
	cancel()
	all.Wait()
	_, err = d.Ask(t.Context(), permission("one more"), from, says("once"))
	ok(t, err)
}

func TestEvents(t *testing.T) {
	bus := event.New(0)
	sub, _ := bus.Subscribe(0, nil)
	defer sub.Close()
	d := newDesk(t, question.Config{Rows: memory.New(), Bus: bus})
	_, err := d.Ask(t.Context(), permission("b"), from, says("once"))
	ok(t, err)
	_, err = d.Ask(t.Context(), permission("c"), from, nil)
	id := idOf(t, err)
	ok(t, d.Answer(t.Context(), id, tool.Answer{Option: "reject", By: "ann"}))
	var got []string
	for range 4 {
		e := receive(t, "an event", sub.C())
		if e.Session != "ses" || e.CallID != "call_1" || e.Tool != "bash" || e.Data["kind"] != "permission" || e.Data["id"] == "" {
			t.Errorf("the event says %+v", e)
		}
		got = append(got, strings.TrimSpace(fmt.Sprint(e.Type, " ", e.Data["by"])))
	}
	if d := cmp.Diff([]string{"question_asked <nil>", "question_answered own", "question_asked <nil>", "question_answered ann"}, got); d != "" {
		t.Error(d)
	}
}

// A store that fails keeps nobody from being asked who is there.
func TestStoreFails(t *testing.T) {
	rows := memory.New()
	d := newDesk(t, question.Config{Rows: rows})
	ok(t, rows.Close())
	a, err := d.Ask(t.Context(), permission("b"), from, says("once"))
	if err != nil || a.Option != "once" {
		t.Errorf("got %+v, %v", a, err)
	}
	if _, err := d.Ask(t.Context(), permission("b"), from, nil); !errors.Is(err, tool.ErrNoChannel) {
		t.Errorf("nobody there: %v", err)
	}
}

// A channel that fails ends the question for the others too.
func TestChannelFails(t *testing.T) {
	rows := memory.New()
	d := newDesk(t, question.Config{Rows: rows})
	declined := errors.New("the person declined to answer")
	id := ""
	_, err := d.Ask(t.Context(), permission("b"), from, channel(func(_ context.Context, q tool.Question) (tool.Answer, error) {
		id = q.ID
		return tool.Answer{}, declined
	}))
	if !errors.Is(err, declined) {
		t.Errorf("got %v", err)
	}
	isCode(t, d.Answer(t.Context(), id, tool.Answer{Option: "once"}), tool.Conflict, "withdrawn", "declined")
}

func TestAwait(t *testing.T) {
	onBoth(t, func(t *testing.T, rows store.Store) {
		d := newDesk(t, question.Config{Rows: rows})
		f := store.QuestionFilter{State: "pending"}
		now, cancel := context.WithCancel(t.Context())
		cancel()
		list, empty, err := d.Await(now, f, "")
		ok(t, err)
		if len(list) != 0 || empty == "" {
			t.Fatalf("got %v, %q", list, empty)
		}
		type result struct {
			list    []store.Question
			version string
		}
		came := make(chan result, 1)
		wait := func(version string) {
			go func() {
				list, version, err := d.Await(t.Context(), f, version)
				if err != nil {
					t.Error(err)
				}
				came <- result{list, version}
			}()
		}
		wait(empty)
		// Who waits watches: the question waits for an answer.
		var done <-chan outcome
		eventually(t, "somebody watches", func() bool {
			beats, err := rows.ListSettings(t.Context(), "question.watcher")
			return err == nil && len(beats) == 1
		})
		done = asking(t.Context(), d, permission("b"), nil)
		r := receive(t, "the list", came)
		if len(r.list) != 1 || r.version == empty {
			t.Fatalf("got %+v", r)
		}
		wait(r.version)
		ok(t, d.Answer(t.Context(), r.list[0].ID, tool.Answer{Option: "once"}))
		ok(t, receive(t, "the answer", done).err)
		if r := receive(t, "the list", came); len(r.list) != 0 {
			t.Errorf("got %+v", r)
		}
	})
}
