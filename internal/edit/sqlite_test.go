package edit_test

import (
	"path/filepath"
	"testing"

	"github.com/toolyard/toolyard/internal/edit"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/store/sqlite"
)

// TestWithTheRealStore goes once through everything that the journal does, with
// the store that users have.
func TestWithTheRealStore(t *testing.T) {
	f := newFixture(t, edit.Config{})
	home := t.TempDir()
	rows, err := sqlite.Open(filepath.Join(home, "toolyard.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	if err := rows.PutSession(t.Context(), store.Session{ID: f.origin.Session, Workspace: f.dir}); err != nil {
		t.Fatal(err)
	}
	f.engine = edit.New(edit.Config{Sessions: rows, Journal: rows, Blobs: home})
	f.write("a", "one\n")
	f.write("b", "one\n")
	f.see("a")
	f.see("b")
	if _, err := f.engine.ApplyAll(t.Context(), f.call("c1"), []edit.FileEdit{
		{Path: f.path("a"), Replacement: edit.Replacement{Old: "one", New: "two"}},
		{Path: f.path("b"), Replacement: edit.Replacement{Old: "one", New: "two"}},
		{Path: f.path("c"), Replacement: edit.Replacement{New: "new\n"}},
	}, nil, edit.BatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.engine.ApplyFiles(t.Context(), f.call("c2"), []edit.FileOp{{Kind: "rename", Path: f.path("a"), NewPath: f.path("z")}}); err != nil {
		t.Fatal(err)
	}
	// A batch of three that a process left behind after the first file.
	f.write("b", "three\n")
	if _, err := rows.PutChanges(t.Context(), []store.Change{
		{Call: "dead", Session: "ses_1", Path: f.path("b").Real, Kind: "write", Before: edit.Sum([]byte("two\n")), After: edit.Sum([]byte("three\n")), BeforeMode: 0o644, AfterMode: 0o644, State: "begun"},
		{Call: "dead", Session: "ses_1", Path: f.path("c").Real, Kind: "delete", Before: edit.Sum([]byte("new\n")), BeforeMode: 0o644, State: "begun"},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.engine.PutBlob([]byte("two\n")); err != nil {
		t.Fatal(err)
	}
	report, err := f.engine.Recover(t.Context())
	if err != nil || report.RolledBack != 1 || f.read("b") != "two\n" || f.read("c") != "new\n" {
		t.Fatalf("recovery: %+v, %v, b is %q", report, err, f.read("b"))
	}
	for range 2 {
		r, err := f.engine.Undo(t.Context(), edit.UndoRequest{Origin: f.call("u"), Workspace: f.ws})
		if err != nil || len(r.Skipped) > 0 {
			t.Fatalf("undo: %+v, %v", r, err)
		}
	}
	if f.read("a") != "one\n" || f.read("b") != "one\n" || f.exists("c") || f.exists("z") {
		t.Errorf("a %q, b %q", f.read("a"), f.read("b"))
	}
	left, err := rows.ListChanges(t.Context(), store.ChangeFilter{Session: f.origin.Session})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range left {
		if c.State != "undone" {
			t.Errorf("row %+v", c)
		}
	}
}
