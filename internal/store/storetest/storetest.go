// Package storetest is the contract of [store.Store] as tests. Every driver
// calls [Run]; what is special about a driver it tests itself.
package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/store"
)

// day is a moment with microseconds, which every store keeps.
var day = time.Date(2026, 3, 4, 5, 6, 7, 891011000, time.UTC)

// Run tests a store. open makes an empty one and closes it at the test's end;
// closing twice must be harmless.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	for _, c := range []struct {
		name string
		test func(*testing.T, store.Store)
	}{
		{"Sessions", sessions},
		{"Seen", seen},
		{"Calls", calls},
		{"CallFilters", callFilters},
		{"CallPaging", callPaging},
		{"CallReplaced", callReplaced},
		{"CallNow", callNow},
		{"CallsConcurrently", callsConcurrently},
		{"Events", events},
		{"Metrics", metrics},
		{"Changes", changes},
		{"ChangeFilters", changeFilters},
		{"ChangesAllOrNothing", changesAllOrNothing},
		{"Artifacts", artifacts},
		{"Jobs", jobs},
		{"LoseJobs", loseJobs},
		{"Rules", rules},
		{"Settings", settings},
		{"Questions", questions},
		{"QuestionFilters", questionFilters},
		{"PendingQuestions", pendingQuestions},
		{"QuestionSettledOnce", questionSettledOnce},
		{"AnswerTakenOnce", answerTakenOnce},
		{"AnswerThatCounts", answerThatCounts},
		{"Tasks", tasks},
		{"LoseTasks", loseTasks},
		{"Prune", prune},
		{"PruneNothing", pruneNothing},
		{"OddText", oddText},
		{"Cancelled", cancelled},
		{"Closed", closed},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func absent(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, store.ErrNotFound) {
		t.Errorf("%s: got error %v, want ErrNotFound", what, err)
	}
}

// empty checks that a list is empty and not nil, so that it is [] in JSON.
func empty[T any](t *testing.T, what string, list []T, err error) {
	t.Helper()
	ok(t, err)
	if list == nil || len(list) != 0 {
		t.Errorf("%s: got %#v, want an empty slice", what, list)
	}
}

func sessions(t *testing.T, s store.Store) {
	ctx := t.Context()
	_, err := s.Session(ctx, "s1")
	absent(t, "Session", err)
	none, err := s.ListSessions(ctx, 0)
	empty(t, "ListSessions", none, err)

	one := store.Session{ID: "s1", Client: "claude-code/2.1", Workspace: "/srv/app", Mode: "build", Started: day, Seen: day.Add(time.Minute), Turn: "t1"}
	two := store.Session{ID: "s2", Client: "cli", Workspace: "/srv/b", Mode: "plan", Started: day.Add(time.Hour), Seen: day.Add(time.Hour), Ended: day.Add(2 * time.Hour)}
	ok(t, s.PutSession(ctx, one))
	ok(t, s.PutSession(ctx, two))
	ok(t, s.PutCallNow(ctx, store.Call{ID: "c1", Session: "s1", Started: day}))
	ok(t, s.PutCallNow(ctx, store.Call{ID: "c2", Session: "s1", Started: day}))
	one.Seen, one.Turn = day.Add(3*time.Hour), "t2"
	ok(t, s.PutSession(ctx, one)) // replaces
	one.Calls = 2

	got, err := s.Session(ctx, "s1")
	ok(t, err)
	same(t, "Session", got, one)
	list, err := s.ListSessions(ctx, 10)
	ok(t, err)
	same(t, "ListSessions", list, []store.Session{two, one})
	list, err = s.ListSessions(ctx, 1)
	ok(t, err)
	same(t, "ListSessions(1)", list, []store.Session{two})
}

func seen(t *testing.T, s store.Store) {
	ctx := t.Context()
	_, err := s.Seen(ctx, "s1", "/a")
	absent(t, "Seen", err)
	part := store.Seen{Session: "s1", Path: "/a", Hash: "h1", Size: 99, ModTime: day.Add(123 * time.Nanosecond),
		Lines: []store.LineRange{{From: 1, To: 20}, {From: 40, To: 41}}, At: day}
	ok(t, s.PutSeen(ctx, part))
	got, err := s.Seen(ctx, "s1", "/a")
	ok(t, err)
	same(t, "Seen, with the file's nanoseconds", got, part)

	whole := store.Seen{Session: "s1", Path: "/a", Hash: "h2", Size: 100, ModTime: day, Whole: true, At: day}
	ok(t, s.PutSeen(ctx, whole))
	got, err = s.Seen(ctx, "s1", "/a")
	ok(t, err)
	same(t, "Seen replaced", got, whole)
	_, err = s.Seen(ctx, "s2", "/a")
	absent(t, "Seen of another session", err)
}

// call makes a call whose every field is set.
func call(id string, started time.Time) store.Call {
	return store.Call{ID: id, ParentID: "p", Session: "s1", Turn: "t1", Workspace: "/srv/app", Tool: "system:read",
		Arguments: json.RawMessage(`{"file_path":"a.go"}`), Status: "ok", Code: "NOT_FOUND", Message: "no file a.go",
		Verdict: "allow", Rule: "read(src/**)", Started: started, DurationMS: 1.25, BytesIn: 20, BytesOut: 4096,
		Meta: json.RawMessage(`{"call_id":"x"}`)}
}

func calls(t *testing.T, s store.Store) {
	ctx := t.Context()
	_, err := s.Call(ctx, "c1")
	absent(t, "Call", err)
	none, err := s.ListCalls(ctx, store.CallFilter{})
	empty(t, "ListCalls", none, err)
	if err := s.PutCall(ctx, store.Call{}); err == nil {
		t.Error("PutCall took a call without an ID")
	}
	if err := s.PutCallNow(ctx, store.Call{}); err == nil {
		t.Error("PutCallNow took a call without an ID")
	}

	full := call("c1", day)
	ok(t, s.PutCall(ctx, full))
	bare := store.Call{ID: "c2"}
	ok(t, s.PutCall(ctx, bare))
	ok(t, s.Flush(ctx))
	for _, want := range []store.Call{full, bare} {
		got, err := s.Call(ctx, want.ID)
		ok(t, err)
		same(t, "Call "+want.ID, got, want)
	}
}

func ids(list []store.Call) []string {
	out := []string{}
	for _, c := range list {
		out = append(out, c.ID)
	}
	return out
}

func callFilters(t *testing.T, s store.Store) {
	ctx := t.Context()
	for i, c := range []store.Call{
		{ID: "a", Tool: "system:read", Session: "s1", Status: "ok"},
		{ID: "b", Tool: "system:bash", Session: "s1", Status: "error"},
		{ID: "c", Tool: "system:read", Session: "s2", Status: "error"},
		{ID: "d", Tool: "system:read", Session: "s1", Status: "running"},
	} {
		c.Started = day.Add(time.Duration(i) * time.Minute)
		ok(t, s.PutCall(ctx, c))
	}
	ok(t, s.Flush(ctx))
	for _, c := range []struct {
		name string
		f    store.CallFilter
		want []string
	}{
		{"all, newest first", store.CallFilter{}, []string{"d", "c", "b", "a"}},
		{"limit", store.CallFilter{Limit: 2}, []string{"d", "c"}},
		{"tool", store.CallFilter{Tool: "system:read"}, []string{"d", "c", "a"}},
		{"session", store.CallFilter{Session: "s2"}, []string{"c"}},
		{"status", store.CallFilter{Status: "error"}, []string{"c", "b"}},
		{"tool and session", store.CallFilter{Tool: "system:read", Session: "s1"}, []string{"d", "a"}},
		{"since is included", store.CallFilter{Since: day.Add(2 * time.Minute)}, []string{"d", "c"}},
		{"until is not", store.CallFilter{Until: day.Add(2 * time.Minute)}, []string{"b", "a"}},
		{"since and until", store.CallFilter{Since: day.Add(time.Minute), Until: day.Add(2 * time.Minute)}, []string{"b"}},
		{"before", store.CallFilter{Before: "c"}, []string{"b", "a"}},
		{"before, with a tool that it has not", store.CallFilter{Before: "c", Tool: "system:bash"}, []string{"b"}},
		{"none", store.CallFilter{Tool: "system:write"}, []string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := s.ListCalls(ctx, c.f)
			ok(t, err)
			same(t, fmt.Sprintf("ListCalls(%+v)", c.f), ids(got), c.want)
		})
	}
	_, err := s.ListCalls(ctx, store.CallFilter{Before: "no such call"})
	absent(t, "ListCalls before an unknown call", err)
}

func callPaging(t *testing.T, s store.Store) {
	ctx := t.Context()
	const n = 250
	want := map[string]bool{}
	for i := range n {
		id := fmt.Sprintf("c%03d", (i*37)%n) // IDs do not rise with time
		want[id] = true
		// Many calls share one start.
		ok(t, s.PutCall(ctx, store.Call{ID: id, Started: day.Add(time.Duration(i/20) * time.Second)}))
	}
	ok(t, s.Flush(ctx))
	page, err := s.ListCalls(ctx, store.CallFilter{})
	ok(t, err)
	if len(page) != 100 {
		t.Errorf("a list without a limit has %d calls, want 100", len(page))
	}
	var last store.Call
	for f := (store.CallFilter{Limit: 33}); ; f.Before = last.ID {
		page, err := s.ListCalls(ctx, f)
		ok(t, err)
		if len(page) == 0 {
			break
		}
		for _, c := range page {
			if !want[c.ID] {
				t.Fatalf("call %s is on two pages", c.ID)
			}
			delete(want, c.ID)
			if last.ID != "" && c.Started.After(last.Started) {
				t.Fatalf("call %s of %v comes after %s of %v", c.ID, c.Started, last.ID, last.Started)
			}
			last = c
		}
	}
	if len(want) != 0 {
		t.Errorf("%d calls are on no page", len(want))
	}
}

func callReplaced(t *testing.T, s store.Store) {
	ctx := t.Context()
	for _, flush := range []bool{false, true} {
		id := fmt.Sprint("flush ", flush)
		ok(t, s.PutCall(ctx, store.Call{ID: id, Status: "running", Started: day}))
		if flush {
			ok(t, s.Flush(ctx))
		}
		ok(t, s.PutCall(ctx, store.Call{ID: id, Status: "ok", Started: day}))
		ok(t, s.Flush(ctx))
		got, err := s.Call(ctx, id)
		ok(t, err)
		same(t, "the later row of "+id, got.Status, "ok")
	}
	list, err := s.ListCalls(ctx, store.CallFilter{})
	ok(t, err)
	if len(list) != 2 {
		t.Errorf("%d rows of 2 calls", len(list))
	}
}

func callNow(t *testing.T, s store.Store) {
	ctx := t.Context()
	ok(t, s.PutCallNow(ctx, store.Call{ID: "c", Status: "running", Started: day}))
	got, err := s.Call(ctx, "c") // without Flush
	ok(t, err)
	same(t, "status", got.Status, "running")

	// A queued row that is older does not come back.
	ok(t, s.PutCall(ctx, store.Call{ID: "d", Status: "running", Started: day}))
	ok(t, s.PutCallNow(ctx, store.Call{ID: "d", Status: "ok", Started: day}))
	ok(t, s.Flush(ctx))
	got, err = s.Call(ctx, "d")
	ok(t, err)
	same(t, "status after an older row was queued", got.Status, "ok")
}

func callsConcurrently(t *testing.T, s store.Store) {
	ctx := t.Context()
	const writers, each = 8, 200
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				id := fmt.Sprintf("%d-%d", w, i)
				for _, status := range []string{"running", "ok"} {
					if err := s.PutCall(ctx, store.Call{ID: id, Session: "s", Status: status, Started: day}); err != nil {
						t.Error(err)
					}
				}
				if i%50 == 0 {
					if _, err := s.PutChange(ctx, store.Change{Call: id, Session: "s", At: day}); err != nil {
						t.Error(err)
					}
				}
				if i%40 == 0 {
					if _, err := s.ListCalls(ctx, store.CallFilter{Limit: 5}); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	ok(t, s.Flush(ctx))
	done, err := s.ListCalls(ctx, store.CallFilter{Status: "ok", Limit: 10_000})
	ok(t, err)
	if len(done) != writers*each {
		t.Errorf("%d calls are done, want %d", len(done), writers*each)
	}
	made, err := s.ListChanges(ctx, store.ChangeFilter{Session: "s"})
	ok(t, err)
	if len(made) != writers*each/50 {
		t.Errorf("%d changes, want %d", len(made), writers*each/50)
	}
}

func events(t *testing.T, s store.Store) {
	ctx := t.Context()
	last, err := s.LastEventID(ctx)
	ok(t, err)
	same(t, "LastEventID of nothing", last, uint64(0))
	none, err := s.EventsAfter(ctx, 0, 10)
	empty(t, "EventsAfter", none, err)

	var all []store.Event
	for i := range 20 {
		all = append(all, store.Event{ID: uint64(i + 1), Time: day.Add(time.Duration(i) * time.Microsecond), Body: json.RawMessage(fmt.Sprintf(`{"id":%d}`, i+1))})
	}
	ok(t, s.PutEvents(ctx, all[:7]))
	ok(t, s.PutEvents(ctx, all[7:]))
	ok(t, s.PutEvents(ctx, nil))
	ok(t, s.Flush(ctx))
	got, err := s.EventsAfter(ctx, 0, 100)
	ok(t, err)
	same(t, "EventsAfter(0)", got, all)
	got, err = s.EventsAfter(ctx, 5, 4)
	ok(t, err)
	same(t, "EventsAfter(5), 4", got, all[5:9])
	last, err = s.LastEventID(ctx)
	ok(t, err)
	same(t, "LastEventID", last, uint64(20))
}

func metrics(t *testing.T, s store.Store) {
	ctx := t.Context()
	minute := day.Truncate(time.Minute)
	row := func(tool string, after time.Duration, body string) store.Metric {
		return store.Metric{Tool: tool, Minute: minute.Add(after), Body: json.RawMessage(body)}
	}
	none, err := s.ListMetrics(ctx, "a", time.Time{})
	empty(t, "ListMetrics", none, err)
	ok(t, s.PutMetrics(ctx, []store.Metric{row("a", 0, `1`), row("a", time.Minute, `2`), row("b", 0, `3`)}))
	ok(t, s.PutMetrics(ctx, []store.Metric{row("a", 0, `4`)}))
	for _, c := range []struct {
		name, tool string
		since      time.Time
		want       []store.Metric
	}{
		{"one tool, replaced", "a", time.Time{}, []store.Metric{row("a", 0, `4`), row("a", time.Minute, `2`)}},
		{"since", "a", minute.Add(time.Minute), []store.Metric{row("a", time.Minute, `2`)}},
		{"all tools", "", time.Time{}, []store.Metric{row("a", 0, `4`), row("b", 0, `3`), row("a", time.Minute, `2`)}},
	} {
		got, err := s.ListMetrics(ctx, c.tool, c.since)
		ok(t, err)
		same(t, "ListMetrics, "+c.name, got, c.want)
	}
}

func cancelled(t *testing.T, s store.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.ListCalls(ctx, store.CallFilter{}); !errors.Is(err, context.Canceled) {
		t.Errorf("ListCalls with a context that is done: got %v", err)
	}
	// The store goes on working.
	ok(t, s.PutSetting(t.Context(), "a", "b"))
}

func closed(t *testing.T, s store.Store) {
	ctx := t.Context()
	ok(t, s.PutCall(ctx, store.Call{ID: "c"}))
	ok(t, s.Close())
	ok(t, s.Close())
	for name, f := range map[string]func() error{
		"PutCall":    func() error { return s.PutCall(ctx, store.Call{ID: "d"}) },
		"PutCallNow": func() error { return s.PutCallNow(ctx, store.Call{ID: "d"}) },
		"PutEvents":  func() error { return s.PutEvents(ctx, []store.Event{{ID: 1}}) },
		"PutChange":  func() error { _, err := s.PutChange(ctx, store.Change{}); return err },
		"Call":       func() error { _, err := s.Call(ctx, "c"); return err },
		"ListCalls":  func() error { _, err := s.ListCalls(ctx, store.CallFilter{}); return err },
		"Flush":      func() error { return s.Flush(ctx) },
		"Prune":      func() error { _, err := s.Prune(ctx, store.Retention{Calls: 1}); return err },
	} {
		if err := f(); !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s of a closed store: got %v, want ErrClosed", name, err)
		}
	}
}
