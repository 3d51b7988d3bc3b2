package storetest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/store"
)

// change makes a change whose every field is set.
func change(call string) store.Change {
	return store.Change{Call: call, Session: "s1", Turn: "t1", Workspace: "/srv/app", Path: "/srv/app/a.go", Kind: "rename", OldPath: "/srv/app/b.go",
		Before: "h1", After: "h2", BeforeMode: 0o100644, AfterMode: 0o120777, BeforeLink: "x", AfterLink: "y", At: day, State: "begun"}
}

func changes(t *testing.T, s store.Store) {
	ctx := t.Context()
	none, err := s.ListChanges(ctx, store.ChangeFilter{})
	empty(t, "ListChanges", none, err)
	one, two := change("c1"), store.Change{Call: "c2"}
	one.ID, err = s.PutChange(ctx, one)
	ok(t, err)
	given, err := s.PutChanges(ctx, []store.Change{two, change("c3")})
	ok(t, err)
	if len(given) != 2 || one.ID <= 0 || given[0] <= one.ID || given[1] <= given[0] {
		t.Fatalf("IDs %d, %v do not rise", one.ID, given)
	}
	two.ID = given[0]
	three := change("c3")
	three.ID = given[1]
	got, err := s.ListChanges(ctx, store.ChangeFilter{})
	ok(t, err)
	same(t, "ListChanges", got, []store.Change{three, two, one})
	noIDs, err := s.PutChanges(ctx, nil)
	empty(t, "PutChanges of nothing", noIDs, err)

	// Only the state and the After fields change.
	done := store.Change{ID: one.ID, State: "done", After: "h3", AfterMode: 0o100755, AfterLink: "", Path: "/elsewhere", Before: "h9"}
	ok(t, s.SetChangeState(ctx, []store.Change{done}))
	one.State, one.After, one.AfterMode, one.AfterLink = "done", "h3", 0o100755, ""
	got, err = s.ListChanges(ctx, store.ChangeFilter{Call: "c1"})
	ok(t, err)
	same(t, "after SetChangeState", got, []store.Change{one})
}

func changeFilters(t *testing.T, s store.Store) {
	ctx := t.Context()
	for _, c := range []store.Change{
		{Call: "1", Session: "s1", Turn: "t1", Workspace: "/w", Path: "/w/a", State: "done"},
		{Call: "2", Session: "s1", Turn: "t2", Workspace: "/w", Path: "/w/b", State: "begun"},
		{Call: "3", Session: "s2", Turn: "t1", Workspace: "/v", Path: "/v/a", State: "undone"},
		{Call: "4", Session: "s1", Turn: "t2", Workspace: "/w", Path: "/w/a", State: "done"},
	} {
		_, err := s.PutChange(ctx, c)
		ok(t, err)
	}
	for _, c := range []struct {
		name string
		f    store.ChangeFilter
		want string
	}{
		{"all, newest first", store.ChangeFilter{}, "4321"},
		{"limit", store.ChangeFilter{Limit: 3}, "432"},
		{"session", store.ChangeFilter{Session: "s1"}, "421"},
		{"call", store.ChangeFilter{Call: "3"}, "3"},
		{"turn of a session", store.ChangeFilter{Session: "s1", Turn: "t1"}, "1"},
		{"workspace", store.ChangeFilter{Workspace: "/v"}, "3"},
		{"path", store.ChangeFilter{Path: "/w/a"}, "41"},
		{"begun", store.ChangeFilter{State: "begun"}, "2"},
		{"done", store.ChangeFilter{State: "done"}, "41"},
		{"none", store.ChangeFilter{Path: "/w/c"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			list, err := s.ListChanges(ctx, c.f)
			ok(t, err)
			got := ""
			for _, x := range list {
				got += x.Call
			}
			same(t, fmt.Sprintf("ListChanges(%+v)", c.f), got, c.want)
		})
	}
}

func changesAllOrNothing(t *testing.T, s store.Store) {
	ctx := t.Context()
	id, err := s.PutChange(ctx, store.Change{State: "begun"})
	ok(t, err)
	absent(t, "SetChangeState", s.SetChangeState(ctx, []store.Change{{ID: id, State: "done"}, {ID: id + 1000, State: "done"}}))
	got, err := s.ListChanges(ctx, store.ChangeFilter{State: "begun"})
	ok(t, err)
	if len(got) != 1 {
		t.Errorf("after a failed SetChangeState %d changes are still begun, want 1", len(got))
	}
}

func artifacts(t *testing.T, s store.Store) {
	ctx := t.Context()
	_, err := s.Artifact(ctx, "art_1")
	absent(t, "Artifact", err)
	none, err := s.ListArtifacts(ctx, "", 0)
	empty(t, "ListArtifacts", none, err)
	one := store.Artifact{ID: "art_1", Session: "s1", Call: "c1", Name: "out.txt", MIME: "text/plain", Category: "output", Size: 7, SHA256: "aa", Created: day}
	two := store.Artifact{ID: "art_2", Session: "s2", SHA256: "aa", Created: day.Add(time.Second)}
	ok(t, s.PutArtifact(ctx, one))
	ok(t, s.PutArtifact(ctx, two))
	got, err := s.Artifact(ctx, "art_1")
	ok(t, err)
	same(t, "Artifact", got, one)
	all, err := s.ListArtifacts(ctx, "", 0)
	ok(t, err)
	same(t, "ListArtifacts", all, []store.Artifact{two, one})
	mine, err := s.ListArtifacts(ctx, "s1", 10)
	ok(t, err)
	same(t, "ListArtifacts of s1", mine, []store.Artifact{one})
	for _, want := range []int64{2, 1} {
		n, err := s.ArtifactsWithHash(ctx, "aa")
		ok(t, err)
		same(t, "ArtifactsWithHash", n, want)
		if want == 2 {
			ok(t, s.DeleteArtifact(ctx, "art_2"))
		}
	}
	absent(t, "a second DeleteArtifact", s.DeleteArtifact(ctx, "art_2"))
}

func jobs(t *testing.T, s store.Store) {
	ctx := t.Context()
	_, err := s.Job(ctx, "j1")
	absent(t, "Job", err)
	none, err := s.ListJobs(ctx, "", 0)
	empty(t, "ListJobs", none, err)
	one := store.Job{ID: "j1", Call: "c1", Session: "s1", Workspace: "/w", Command: "sleep 9", Status: "killed", ExitCode: -1, Signal: "SIGKILL",
		Reason: "wall", RuntimePID: 42, Runtime: "42:17", Handle: "art_1", Bytes: 12, Started: day, Ended: day.Add(time.Second)}
	two := store.Job{ID: "j2", Session: "s2", Status: "running", Started: day.Add(time.Second)}
	ok(t, s.PutJob(ctx, store.Job{ID: "j1", Status: "running"}))
	ok(t, s.PutJob(ctx, one)) // replaces
	ok(t, s.PutJob(ctx, two))
	got, err := s.Job(ctx, "j1")
	ok(t, err)
	same(t, "Job", got, one)
	all, err := s.ListJobs(ctx, "", 0)
	ok(t, err)
	same(t, "ListJobs", all, []store.Job{two, one})
	mine, err := s.ListJobs(ctx, "s1", 10)
	ok(t, err)
	same(t, "ListJobs of s1", mine, []store.Job{one})
}

func loseJobs(t *testing.T, s store.Store) {
	ctx := t.Context()
	for _, j := range []store.Job{
		{ID: "dead", Status: "running", Runtime: "1:1"},
		{ID: "dead too", Status: "running", Runtime: "1:1"},
		{ID: "alive", Status: "running", Runtime: "2:2"},
		{ID: "over", Status: "exited", Runtime: "1:1", Ended: day},
	} {
		ok(t, s.PutJob(ctx, j))
	}
	alive := func(runtime string) bool { return runtime == "2:2" }
	for _, want := range []int64{2, 0} {
		n, err := s.LoseJobs(ctx, alive)
		ok(t, err)
		same(t, "LoseJobs", n, want)
	}
	for id, want := range map[string]string{"dead": "lost", "dead too": "lost", "alive": "running", "over": "exited"} {
		j, err := s.Job(ctx, id)
		ok(t, err)
		same(t, "status of "+id, j.Status, want)
		if want == "lost" && j.Ended.IsZero() {
			t.Errorf("the lost job %s has no end", id)
		}
	}
}

func rules(t *testing.T, s store.Store) {
	ctx := t.Context()
	none, err := s.ListRules(ctx)
	empty(t, "ListRules", none, err)
	one := store.Rule{Scope: "project", ScopeKey: "/srv/app", Action: "allow", Rule: "bash(npm run test:*)", Overrides: []string{"bash"}, By: "ann", Created: day}
	two := store.Rule{Scope: "user", Action: "deny", Rule: "bash(rm *)", Created: day.Add(time.Second)}
	one.ID, err = s.PutRule(ctx, one)
	ok(t, err)
	two.ID, err = s.PutRule(ctx, two)
	ok(t, err)
	got, err := s.ListRules(ctx)
	ok(t, err)
	same(t, "ListRules", got, []store.Rule{one, two})

	one.Action, one.Overrides = "ask", nil
	id, err := s.PutRule(ctx, one)
	ok(t, err)
	same(t, "ID of a replaced rule", id, one.ID)
	got, err = s.ListRules(ctx)
	ok(t, err)
	same(t, "ListRules after a rule was replaced", got, []store.Rule{one, two})

	ok(t, s.DeleteRule(ctx, one.ID))
	absent(t, "a second DeleteRule", s.DeleteRule(ctx, one.ID))
	got, err = s.ListRules(ctx)
	ok(t, err)
	same(t, "ListRules after DeleteRule", got, []store.Rule{two})
}

func settings(t *testing.T, s store.Store) {
	ctx := t.Context()
	_, err := s.Setting(ctx, "trust:/a")
	absent(t, "Setting", err)
	for name, value := range map[string]string{"trust:/a": "1", "trust:/b": "", "trust%": "3", "other": "4"} {
		ok(t, s.PutSetting(ctx, name, value))
	}
	ok(t, s.PutSetting(ctx, "trust:/a", "2"))
	got, err := s.Setting(ctx, "trust:/a")
	ok(t, err)
	same(t, "Setting", got, "2")
	for prefix, want := range map[string]map[string]string{
		"trust:": {"trust:/a": "2", "trust:/b": ""},
		"trust%": {"trust%": "3"},
		"Trust":  {},
		"":       {"trust:/a": "2", "trust:/b": "", "trust%": "3", "other": "4"},
	} {
		got, err := s.ListSettings(ctx, prefix)
		ok(t, err)
		same(t, fmt.Sprintf("ListSettings(%q)", prefix), got, want)
	}
	ok(t, s.DeleteSetting(ctx, "trust:/a"))
	absent(t, "a second DeleteSetting", s.DeleteSetting(ctx, "trust:/a"))
}

// fill puts a row of every kind that Prune knows, of that age; name tells them
// apart.
func fill(t *testing.T, s store.Store, name string, at time.Time) {
	t.Helper()
	ctx := t.Context()
	ok(t, s.PutSession(ctx, store.Session{ID: name, Started: at, Seen: at}))
	ok(t, s.PutSeen(ctx, store.Seen{Session: name, Path: "/a", At: at}))
	ok(t, s.PutCallNow(ctx, store.Call{ID: name, Session: name, Started: at}))
	ok(t, s.PutMetrics(ctx, []store.Metric{{Tool: name, Minute: at, Body: json.RawMessage(`{}`)}}))
	ok(t, s.PutJob(ctx, store.Job{ID: name, Status: "exited", Started: at, Ended: at}))
	_, err := s.PutChange(ctx, store.Change{Call: name, At: at})
	ok(t, err)
	ok(t, s.PutArtifact(ctx, store.Artifact{ID: name, Created: at}))
	ok(t, s.PutQuestion(ctx, store.Question{ID: name, State: "answered", Created: at, Deadline: at, Answered: at}))
	ok(t, s.PutTask(ctx, store.Task{ID: name, Status: "completed", Created: at, Updated: at, Expires: at}))
}

func prune(t *testing.T, s store.Store) {
	ctx := t.Context()
	now := time.Now().UTC()
	old := now.Add(-48 * time.Hour)
	fill(t, s, "old", old)
	fill(t, s, "new", now)
	ok(t, s.PutJob(ctx, store.Job{ID: "still running", Status: "running", Started: old}))
	ok(t, s.PutSession(ctx, store.Session{ID: "with a new call", Started: old, Seen: old}))
	ok(t, s.PutQuestion(ctx, store.Question{ID: "can be answered", State: "pending", Created: old, Deadline: now.Add(time.Hour)}))
	ok(t, s.PutQuestion(ctx, store.Question{ID: "answered late", State: "answered", Created: old, Deadline: now.Add(time.Hour), Answered: now}))
	ok(t, s.PutQuestion(ctx, store.Question{ID: "never answered", State: "pending", Created: old, Deadline: old}))
	ok(t, s.PutTask(ctx, store.Task{ID: "working", Status: "working", Created: old, Updated: old, Expires: old}))
	ok(t, s.PutTask(ctx, store.Task{ID: "not expired", Status: "completed", Created: old, Updated: old, Expires: now.Add(time.Hour)}))
	ok(t, s.PutCallNow(ctx, store.Call{ID: "its call", Session: "with a new call", Started: now}))

	// More than one transaction deletes.
	for i := range 1200 {
		ok(t, s.PutCall(ctx, store.Call{ID: fmt.Sprint("old ", i), Session: "old", Started: old}))
	}
	ok(t, s.Flush(ctx))

	got, err := s.Prune(ctx, store.Retention{Journal: 24 * time.Hour})
	ok(t, err)
	same(t, "Prune of the journal alone", got, map[string]int64{"changes": 1})
	got, err = s.Prune(ctx, store.Retention{Calls: 24 * time.Hour, Artifacts: 24 * time.Hour})
	ok(t, err)
	same(t, "Prune", got, map[string]int64{"calls": 1201, "metrics": 1, "jobs": 1, "questions": 2, "tasks": 1, "sessions": 1, "seen": 1, "artifacts": 1})

	left, err := s.ListCalls(ctx, store.CallFilter{})
	ok(t, err)
	if len(left) != 2 {
		t.Errorf("calls left: %v, want the 2 new ones", ids(left))
	}
	_, err = s.Job(ctx, "still running")
	ok(t, err)
	_, err = s.Session(ctx, "with a new call")
	ok(t, err)
	for _, id := range []string{"new", "can be answered", "answered late"} {
		_, err = s.Question(ctx, id)
		ok(t, err)
	}
	for _, id := range []string{"new", "working", "not expired"} {
		_, err = s.Task(ctx, id)
		ok(t, err)
	}
	_, err = s.Seen(ctx, "new", "/a")
	ok(t, err)
}

func pruneNothing(t *testing.T, s store.Store) {
	ctx := t.Context()
	fill(t, s, "ancient", day.AddDate(-10, 0, 0))
	got, err := s.Prune(ctx, store.Retention{})
	ok(t, err)
	for kind, n := range got {
		if n != 0 {
			t.Errorf("a retention of zero deleted %d %s", n, kind)
		}
	}
	_, err = s.Call(ctx, "ancient")
	ok(t, err)
}

// oddText is kept byte for byte: model output, paths of a file system.
func oddText(t *testing.T, s store.Store) {
	ctx := t.Context()
	for i, text := range []string{"", "'; DROP TABLE calls; --", "tab\tline\nnul\x00end", "größe 漢字 🛠", "bad utf-8 \xff\xfe", "?1 $x :y @z %"} {
		id := fmt.Sprint("c", i)
		ok(t, s.PutCallNow(ctx, store.Call{ID: id, Message: text, Session: text}))
		got, err := s.Call(ctx, id)
		ok(t, err)
		same(t, fmt.Sprintf("message %q", text), got.Message, text)
		ok(t, s.PutSeen(ctx, store.Seen{Session: "s", Path: "/" + text, Hash: id}))
		seen, err := s.Seen(ctx, "s", "/"+text)
		ok(t, err)
		same(t, fmt.Sprintf("hash of path %q", text), seen.Hash, id)
	}
}
