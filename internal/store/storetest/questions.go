package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

// aQuestion has every field set that a pending one has.
func aQuestion() store.Question {
	return store.Question{
		ID: "perm_00000001", Kind: "permission", Session: "s1", Call: "c1", Tool: "bash", Workspace: "/w", Title: "Allow bash?", Text: "no rule allows it",
		Options: []tool.Option{{ID: "once", Label: "Allow once"}, {ID: "reject", Label: "Refuse", Description: "and say why"}},
		Default: "reject", Details: json.RawMessage(`{"rule":"bash"}`), Binding: "b1", Fresh: true,
		Created: day, Deadline: day.Add(time.Minute), State: "pending",
	}
}

func questions(t *testing.T, s store.Store) {
	ctx := t.Context()
	_, err := s.Question(ctx, "perm_00000001")
	absent(t, "Question", err)
	none, err := s.ListQuestions(ctx, store.QuestionFilter{})
	empty(t, "ListQuestions", none, err)
	want := aQuestion()
	ok(t, s.PutQuestion(ctx, want))
	if err := s.PutQuestion(ctx, store.Question{ID: want.ID}); !errors.Is(err, store.ErrExists) {
		t.Errorf("a second PutQuestion: %v, want ErrExists", err)
	}
	got, err := s.Question(ctx, want.ID)
	ok(t, err)
	same(t, "Question", got, want)

	want.Deadline = day.Add(time.Hour)
	ok(t, s.ExtendQuestion(ctx, want.ID, want.Deadline))
	want.State, want.Option, want.Answer, want.By, want.Answered, want.Used = "answered", "once", "for now", "ann", day.Add(time.Second), true
	settled := want
	settled.Title, settled.Deadline = "another title", day // not what SettleQuestion sets
	ok(t, s.SettleQuestion(ctx, settled))
	longer := store.Question{ID: "longer", State: "pending", Deadline: day}
	ok(t, s.PutQuestion(ctx, longer))
	longer.State, longer.Deadline = "answered", day.Add(time.Hour)
	ok(t, s.SettleQuestion(ctx, longer))
	kept, err := s.Question(ctx, longer.ID)
	ok(t, err)
	same(t, "Question settled with a later deadline", kept, longer)
	got, err = s.Question(ctx, want.ID)
	ok(t, err)
	same(t, "Question once settled", got, want)

	if err := s.SettleQuestion(ctx, store.Question{ID: want.ID, State: "cancelled"}); !errors.Is(err, store.ErrSettled) {
		t.Errorf("a second SettleQuestion: %v, want ErrSettled", err)
	}
	if err := s.ExtendQuestion(ctx, want.ID, day); !errors.Is(err, store.ErrSettled) {
		t.Errorf("ExtendQuestion of a settled one: %v, want ErrSettled", err)
	}
	absent(t, "SettleQuestion of none", s.SettleQuestion(ctx, store.Question{ID: "perm_0", State: "answered"}))
	absent(t, "ExtendQuestion of none", s.ExtendQuestion(ctx, "perm_0", day))
}

func questionFilters(t *testing.T, s store.Store) {
	ctx := t.Context()
	for i, q := range []store.Question{
		{ID: "q0", Session: "a", State: "pending", Binding: "x"},
		{ID: "q1", Session: "b", State: "answered", Binding: "x"},
		{ID: "q2", Session: "a", State: "answered"},
		{ID: "q3", Session: "b", State: "pending"},
	} {
		q.Created = day.Add(time.Duration(i) * time.Second)
		ok(t, s.PutQuestion(ctx, q))
	}
	for _, c := range []struct {
		name   string
		filter store.QuestionFilter
		want   []string
	}{
		{"all", store.QuestionFilter{}, []string{"q3", "q2", "q1", "q0"}},
		{"state", store.QuestionFilter{State: "pending"}, []string{"q3", "q0"}},
		{"session", store.QuestionFilter{Session: "a"}, []string{"q2", "q0"}},
		{"binding", store.QuestionFilter{Binding: "x"}, []string{"q1", "q0"}},
		{"state and binding", store.QuestionFilter{State: "pending", Binding: "x"}, []string{"q0"}},
		{"limit", store.QuestionFilter{Limit: 1}, []string{"q3"}},
	} {
		rows, err := s.ListQuestions(ctx, c.filter)
		ok(t, err)
		got := []string{}
		for _, q := range rows {
			got = append(got, q.ID)
		}
		same(t, "ListQuestions, "+c.name, got, c.want)
	}
}

func pendingQuestions(t *testing.T, s store.Store) {
	ctx := t.Context()
	none, err := s.PendingQuestions(ctx)
	empty(t, "PendingQuestions", none, err)
	for i, state := range []string{"pending", "answered", "pending", "expired", "cancelled"} {
		ok(t, s.PutQuestion(ctx, store.Question{ID: fmt.Sprint("q", i), State: state, Created: day.Add(time.Duration(i) * time.Second)}))
	}
	got, err := s.PendingQuestions(ctx)
	ok(t, err)
	same(t, "PendingQuestions", got, []string{"q2", "q0"})
}

// race runs f many times at once and counts those that succeed; the others must
// fail with lost.
func race(t *testing.T, lost error, f func(i int) error) int64 {
	t.Helper()
	var won atomic.Int64
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			switch err := f(i); {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, lost):
				t.Errorf("%d: %v, want %v", i, err, lost)
			}
		})
	}
	wg.Wait()
	return won.Load()
}

func questionSettledOnce(t *testing.T, s store.Store) {
	ctx := t.Context()
	ok(t, s.PutQuestion(ctx, aQuestion()))
	var winner atomic.Int64
	won := race(t, store.ErrSettled, func(i int) error {
		err := s.SettleQuestion(ctx, store.Question{ID: aQuestion().ID, State: "answered", Option: fmt.Sprint(i)})
		if err == nil {
			winner.Store(int64(i))
		}
		return err
	})
	same(t, "how many settled it", won, int64(1))
	q, err := s.Question(ctx, aQuestion().ID)
	ok(t, err)
	same(t, "whose answer is kept", q.Option, fmt.Sprint(winner.Load()))
}

func answerTakenOnce(t *testing.T, s store.Store) {
	ctx := t.Context()
	answered := func(id string) store.Question {
		q := aQuestion()
		q.ID, q.State, q.Answered = id, "answered", day.Add(time.Second)
		return q
	}
	ok(t, s.PutQuestion(ctx, answered("one")))
	same(t, "how many took the answer", race(t, store.ErrNotFound, func(int) error {
		q, err := s.TakeAnswer(ctx, "b1", day)
		if err == nil && (q.ID != "one" || !q.Used) {
			t.Errorf("TakeAnswer gave %+v", q)
		}
		return err
	}), int64(1))
	ok(t, s.PutQuestion(ctx, answered("two")))
	same(t, "how many took the question", race(t, store.ErrNotFound, func(i int) error {
		if i%2 == 0 {
			_, err := s.TakeAnswer(ctx, "b1", day)
			return err
		}
		_, err := s.TakeQuestion(ctx, "two")
		return err
	}), int64(1))
	q, err := s.Question(ctx, "two")
	ok(t, err)
	same(t, "used", q.Used, true)
}

func answerThatCounts(t *testing.T, s store.Store) {
	ctx := t.Context()
	for _, q := range []store.Question{
		{ID: "pending", State: "pending"},
		{ID: "cancelled", State: "cancelled"},
		{ID: "expired", State: "expired"},
		{ID: "used", State: "answered", Used: true},
		{ID: "too late", State: "answered", Deadline: day.Add(-time.Microsecond)},
	} {
		q.Binding, q.Created, q.Answered = q.ID, day, day
		if q.Deadline.IsZero() {
			q.Deadline = day.Add(time.Hour)
		}
		ok(t, s.PutQuestion(ctx, q))
		_, err := s.TakeAnswer(ctx, q.ID, day)
		absent(t, "TakeAnswer of one that is "+q.ID, err)
	}
	for _, id := range []string{"pending", "cancelled", "expired", "used", "none"} {
		_, err := s.TakeQuestion(ctx, id)
		absent(t, "TakeQuestion of one that is "+id, err)
	}
	ok(t, s.PutQuestion(ctx, store.Question{ID: "unbound", State: "answered", Deadline: day}))
	_, err := s.TakeAnswer(ctx, "", day)
	absent(t, "TakeAnswer without a binding", err)

	// Of two the last word; and just in time is in time.
	for i, id := range []string{"first", "last"} {
		ok(t, s.PutQuestion(ctx, store.Question{ID: id, State: "answered", Binding: "b", Deadline: day, Answered: day.Add(time.Duration(i) * time.Second)}))
	}
	for _, want := range []string{"last", "first"} {
		q, err := s.TakeAnswer(ctx, "b", day)
		ok(t, err)
		same(t, "TakeAnswer of two", q.ID, want)
	}
}

func tasks(t *testing.T, s store.Store) {
	ctx := t.Context()
	_, err := s.Task(ctx, "t1")
	absent(t, "Task", err)
	none, err := s.ListTasks(ctx, "", 0)
	empty(t, "ListTasks", none, err)
	one := store.Task{ID: "t1", Session: "s1", Call: "c1", Tool: "bash", Status: "completed", Message: "done", Created: day, Updated: day.Add(time.Second),
		Expires: day.Add(time.Hour), Result: json.RawMessage(`{"content":[]}`), Error: json.RawMessage(`{"code":-32603}`), Runtime: "42:17"}
	two := store.Task{ID: "t2", Session: "s2", Status: "working", Created: day.Add(time.Second)}
	ok(t, s.PutTask(ctx, store.Task{ID: "t1", Status: "working", Created: day}))
	ok(t, s.PutTask(ctx, one)) // replaces
	ok(t, s.PutTask(ctx, two))
	got, err := s.Task(ctx, "t1")
	ok(t, err)
	same(t, "Task", got, one)
	all, err := s.ListTasks(ctx, "", 0)
	ok(t, err)
	same(t, "ListTasks", all, []store.Task{two, one})
	mine, err := s.ListTasks(ctx, "s1", 10)
	ok(t, err)
	same(t, "ListTasks of s1", mine, []store.Task{one})
	ok(t, s.DeleteTask(ctx, "t1"))
	absent(t, "a second DeleteTask", s.DeleteTask(ctx, "t1"))
}

func loseTasks(t *testing.T, s store.Store) {
	ctx := t.Context()
	for _, k := range []store.Task{
		{ID: "dead", Status: "working", Runtime: "1:1"},
		{ID: "dead and asking", Status: "input_required", Runtime: "1:1"},
		{ID: "alive", Status: "working", Runtime: "2:2"},
		{ID: "over", Status: "completed", Runtime: "1:1"},
	} {
		ok(t, s.PutTask(ctx, k))
	}
	for _, want := range []int64{2, 0} {
		n, err := s.LoseTasks(ctx, func(runtime string) bool { return runtime == "2:2" }, "the process is gone")
		ok(t, err)
		same(t, "LoseTasks", n, want)
	}
	for id, want := range map[string]string{"dead": "failed", "dead and asking": "failed", "alive": "working", "over": "completed"} {
		k, err := s.Task(ctx, id)
		ok(t, err)
		same(t, "status of "+id, k.Status, want)
		if want == "failed" && (k.Message != "the process is gone" || k.Updated.IsZero()) {
			t.Errorf("the lost task %s says %q at %v", id, k.Message, k.Updated)
		}
	}
}
