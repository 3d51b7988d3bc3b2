package edit_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/edit"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/workspace"
	"github.com/toolyard/toolyard/tool"
)

func (f *fixture) edit(name, old, new string) *edit.FileResult {
	f.t.Helper()
	r, err := f.engine.Apply(f.t.Context(), f.origin, f.path(name), edit.Replacement{Old: old, New: new})
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

func (f *fixture) stat(name string) fs.FileInfo {
	f.t.Helper()
	info, err := os.Lstat(filepath.Join(f.dir, name))
	if err != nil {
		f.t.Fatal(err)
	}
	return info
}

func TestModeSurvives(t *testing.T) {
	for _, mode := range []fs.FileMode{0o755, 0o600, 0o444, 0o640 | fs.ModeSetgid, 0o777 | fs.ModeSticky} {
		f := newFixture(t, edit.Config{})
		f.write("f", "one\n")
		if err := os.Chmod(filepath.Join(f.dir, "f"), mode); err != nil {
			t.Fatal(err)
		}
		f.see("f")
		_, err := f.engine.Apply(t.Context(), f.origin, f.path("f"), edit.Replacement{Old: "one", New: "two"})
		if mode&0o200 == 0 && os.Getuid() != 0 {
			wantError(t, err, tool.PermissionDenied)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := f.stat("f").Mode(); got != mode {
			t.Errorf("mode %v became %v", mode, got)
		}
	}
}

func TestSymlinkStaysAndTargetIsEdited(t *testing.T) {
	f := newFixture(t, edit.Config{})
	f.write("real/f", "one\n")
	if err := os.Symlink("real/f", filepath.Join(f.dir, "link")); err != nil {
		t.Fatal(err)
	}
	f.see("link")
	f.edit("link", "one", "two")
	if f.stat("link").Mode()&fs.ModeSymlink == 0 || f.read("real/f") != "two\n" {
		t.Errorf("link %v, target %q", f.stat("link").Mode(), f.read("real/f"))
	}
}

func TestHardLinkStays(t *testing.T) {
	f := newFixture(t, edit.Config{})
	f.write("f", "one\nand more\n")
	if err := os.Link(filepath.Join(f.dir, "f"), filepath.Join(f.dir, "g")); err != nil {
		t.Fatal(err)
	}
	f.see("f")
	f.edit("f", "one\nand more", "1")
	if !os.SameFile(f.stat("f"), f.stat("g")) || f.read("g") != "1\n" {
		t.Errorf("same %v, other name has %q", os.SameFile(f.stat("f"), f.stat("g")), f.read("g"))
	}
	if _, err := f.engine.Undo(t.Context(), edit.UndoRequest{Origin: f.call("u"), Workspace: f.ws}); err != nil {
		t.Fatal(err)
	}
	if !os.SameFile(f.stat("f"), f.stat("g")) || f.read("g") != "one\nand more\n" {
		t.Errorf("after undo: same %v, %q", os.SameFile(f.stat("f"), f.stat("g")), f.read("g"))
	}
	f.noTemps()
}

func TestFIFONeverHangs(t *testing.T) {
	f := newFixture(t, edit.Config{})
	mkfifo(t, filepath.Join(f.dir, "fifo"))
	_, err := f.engine.Apply(t.Context(), f.origin, f.path("fifo"), edit.Replacement{Old: "a", New: "b"})
	wantLayer(t, wantError(t, err, tool.ParameterError, "FIFO"), 6, 5)
	_, err = f.engine.Write(t.Context(), f.origin, f.path("fifo"), "x", true)
	wantLayer(t, wantError(t, err, tool.ParameterError, "FIFO"), 6, 5)
}

func TestApplyFiles(t *testing.T) {
	f := newFixture(t, edit.Config{})
	f.write("w", "write me\n")
	f.write("d", "delete me\n")
	f.write("r", "rename me\n")
	f.write("m", "chmod me\n")
	for _, name := range []string{"w", "d", "r", "m"} {
		f.see(name)
	}
	ops := func() []edit.FileOp {
		return []edit.FileOp{
			{Kind: "write", Path: f.path("w"), Content: []byte("written\n"), Before: edit.Sum([]byte("write me\n"))},
			{Kind: "create", Path: f.path("new/c"), Content: []byte("created\n"), Mode: 0o755},
			{Kind: "delete", Path: f.path("d")},
			{Kind: "rename", Path: f.path("r"), NewPath: f.path("new/r2"), Content: []byte("renamed\n"), NewContent: true},
			{Kind: "mode", Path: f.path("m"), Mode: 0o700},
		}
	}
	before := func() {
		t.Helper()
		if f.read("w") != "write me\n" || f.read("d") != "delete me\n" || f.read("r") != "rename me\n" || f.stat("m").Mode() != 0o644 || f.exists("new") {
			t.Errorf("the files are not as they were: w %q, new there: %v", f.read("w"), f.exists("new"))
		}
		f.noTemps()
	}
	// The last one fails, in the plan and while it is carried out.
	_, err := f.engine.ApplyFiles(t.Context(), f.origin, append(ops(), edit.FileOp{Kind: "delete", Path: f.path("absent")}))
	wantLayer(t, wantError(t, err, tool.NotFound, "absent"), 5, 4)
	before()
	_, err = f.engine.ApplyFiles(t.Context(), f.origin, append(ops(),
		edit.FileOp{Kind: "create", Path: f.path("both"), Content: []byte("x")}, edit.FileOp{Kind: "create", Path: f.path("both/x"), Content: []byte("x")}))
	wantError(t, err, tool.ParameterError, "both is a directory")
	if f.exists("both") {
		t.Error("a directory was left")
	}
	before()

	r, err := f.engine.ApplyFiles(t.Context(), f.origin, ops())
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Files) != 5 || !r.Files[1].Created || r.Files[3].Path != "new/r2" {
		t.Errorf("report %+v", r)
	}
	if f.read("w") != "written\n" || f.exists("d") || f.exists("r") || f.read("new/r2") != "renamed\n" || f.read("new/c") != "created\n" {
		t.Error("not all was done")
	}
	if f.stat("m").Mode() != 0o700 || f.stat("new/c").Mode() != 0o755 {
		t.Errorf("modes %v %v", f.stat("m").Mode(), f.stat("new/c").Mode())
	}
	u, err := f.engine.Undo(t.Context(), edit.UndoRequest{Origin: f.call("u"), Workspace: f.ws, ID: "call_1"})
	if err != nil || len(u.Skipped) > 0 {
		t.Fatalf("undo: %+v, %v", u, err)
	}
	if f.read("w") != "write me\n" || f.read("d") != "delete me\n" || f.read("r") != "rename me\n" || f.exists("new/c") || f.exists("new/r2") || f.stat("m").Mode() != 0o644 {
		t.Error("undo did not restore all")
	}
	f.noTemps()
}

func TestApplyFilesBuildOnOneAnother(t *testing.T) {
	f := newFixture(t, edit.Config{})
	f.write("a", "a\n")
	f.write("b", "b\n")
	f.see("a")
	f.see("b")
	_, err := f.engine.ApplyFiles(t.Context(), f.origin, []edit.FileOp{ // swap
		{Kind: "rename", Path: f.path("a"), NewPath: f.path("t")},
		{Kind: "rename", Path: f.path("b"), NewPath: f.path("a")},
		{Kind: "rename", Path: f.path("t"), NewPath: f.path("b")},
		{Kind: "delete", Path: f.path("a")},
		{Kind: "create", Path: f.path("a"), Content: []byte("new\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if f.read("a") != "new\n" || f.read("b") != "a\n" || f.exists("t") {
		t.Errorf("a %q, b %q", f.read("a"), f.read("b"))
	}
	u, err := f.engine.Undo(t.Context(), edit.UndoRequest{Origin: f.call("u"), Workspace: f.ws})
	if err != nil || len(u.Skipped) > 0 || f.read("a") != "a\n" || f.read("b") != "b\n" || f.exists("t") {
		t.Errorf("undo: %+v, %v: a %q, b %q", u, err, f.read("a"), f.read("b"))
	}
}

func TestUndo(t *testing.T) {
	f := newFixture(t, edit.Config{})
	undo := func(r edit.UndoRequest) (*edit.UndoReport, error) {
		r.Origin, r.Workspace = f.call("undo"), f.ws
		return f.engine.Undo(t.Context(), r)
	}
	f.write("a", "0\n")
	f.write("b", "0\n")
	f.see("a")
	f.see("b")
	for i, step := range []struct{ name, old, new, turn string }{
		{"a", "0", "1", "t1"}, {"a", "1", "2", "t2"}, {"b", "0", "5", "t2"}, {"a", "2", "3", "t3"},
	} {
		o := f.call([]string{"c0", "c1", "c2", "c3"}[i])
		o.Turn = step.turn
		if _, err := f.engine.Apply(t.Context(), o, f.path(step.name), edit.Replacement{Old: step.old, New: step.new}); err != nil {
			t.Fatal(err)
		}
	}
	// c1 was followed by c3.
	r, err := undo(edit.UndoRequest{ID: "c1"})
	if err != nil || len(r.Restored) != 0 || len(r.Skipped) != 1 || !strings.Contains(r.Skipped[0].Reason, "changed since call c1") {
		t.Fatalf("an earlier change: %+v, %v", r, err)
	}
	r, err = undo(edit.UndoRequest{DryRun: true})
	if err != nil || len(r.Restored) != 1 || f.read("a") != "3\n" {
		t.Fatalf("dry run: %+v, %v, a is %q", r, err, f.read("a"))
	}
	if _, err = undo(edit.UndoRequest{}); err != nil || f.read("a") != "2\n" {
		t.Fatalf("the last call: %v, a is %q", err, f.read("a"))
	}
	// The session knows the restored content.
	f.edit("a", "2", "2x")
	if _, err = undo(edit.UndoRequest{}); err != nil || f.read("a") != "2\n" {
		t.Fatalf("%v, a is %q", err, f.read("a"))
	}
	if r, err = undo(edit.UndoRequest{Scope: edit.ScopeTurn}); err != nil || f.read("a") != "1\n" || f.read("b") != "0\n" || r.ID != "t2" {
		t.Fatalf("a turn: %+v, %v, a is %q, b is %q", r, err, f.read("a"), f.read("b"))
	}
	if _, err = undo(edit.UndoRequest{Scope: edit.ScopeFile, Path: f.path("a")}); err != nil || f.read("a") != "0\n" {
		t.Fatalf("a file: %v, a is %q", err, f.read("a"))
	}
	_, err = undo(edit.UndoRequest{})
	wantError(t, err, tool.NotFound, "no change")
	_, err = undo(edit.UndoRequest{Scope: edit.ScopeFile})
	wantError(t, err, tool.ParameterError, "file_path")
}

func TestUndoLeavesWhatChanged(t *testing.T) {
	f := newFixture(t, edit.Config{})
	if _, err := f.engine.ApplyAll(t.Context(), f.origin, []edit.FileEdit{
		{Path: f.path("x"), Replacement: edit.Replacement{New: "x\n"}}, {Path: f.path("y"), Replacement: edit.Replacement{New: "y\n"}},
	}, nil, edit.BatchOptions{}); err != nil {
		t.Fatal(err)
	}
	f.write("x", "mine\n")
	r, err := f.engine.Undo(t.Context(), edit.UndoRequest{Origin: f.call("u"), Workspace: f.ws})
	if err != nil || len(r.Restored) != 1 || r.Restored[0].Action != "deleted" || len(r.Skipped) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if f.read("x") != "mine\n" || f.exists("y") {
		t.Errorf("x %q, y there: %v", f.read("x"), f.exists("y"))
	}
}

func TestRecordedChangesAreUndone(t *testing.T) {
	f := newFixture(t, edit.Config{})
	hash, err := f.engine.PutBlob([]byte("before\n"))
	if err != nil {
		t.Fatal(err)
	}
	f.write("made", "made\n")
	f.write("changed", "after\n")
	if err := os.Symlink("changed", filepath.Join(f.dir, "link")); err != nil {
		t.Fatal(err)
	}
	real := func(name string) string { return filepath.Join(f.dir, name) }
	err = f.engine.Record(t.Context(), f.origin, []edit.Observed{
		{Path: real("made"), Kind: "create", After: edit.Sum([]byte("made\n")), AfterMode: 0o644},
		{Path: real("changed"), Kind: "write", Before: hash, After: edit.Sum([]byte("after\n")), BeforeMode: 0o600, AfterMode: 0o644},
		{Path: real("gone"), Kind: "delete", Before: hash, BeforeMode: 0o640},
		{Path: real("link"), Kind: "write", BeforeLink: "gone", AfterLink: "changed"},
		{Path: real("lost"), Kind: "delete", Before: edit.Sum([]byte("not kept")), BeforeMode: 0o640},
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := f.engine.Undo(t.Context(), edit.UndoRequest{Origin: f.call("u"), Workspace: f.ws, ID: "call_1"})
	if err != nil {
		t.Fatal(err)
	}
	if f.exists("made") || f.read("changed") != "before\n" || f.read("gone") != "before\n" || f.stat("gone").Mode() != 0o640 || f.stat("changed").Mode() != 0o600 {
		t.Errorf("%+v: changed %q", r, f.read("changed"))
	}
	if link, err := os.Readlink(real("link")); err != nil || link != "gone" {
		t.Errorf("link leads to %q, %v", link, err)
	}
	if len(r.Skipped) != 1 || r.Skipped[0].Path != "lost" || !strings.Contains(r.Skipped[0].Reason, "no longer kept") {
		t.Errorf("skipped %+v", r.Skipped)
	}
}

func TestWriteKeepsEncoding(t *testing.T) {
	f := newFixture(t, edit.Config{})
	f.write("f", "\xff\xfeo\x00l\x00d\x00\r\x00\n\x00")
	f.see("f")
	if _, err := f.engine.Write(t.Context(), f.origin, f.path("f"), "né\n", false); err != nil {
		t.Fatal(err)
	}
	if got := f.read("f"); got != "\xff\xfen\x00\xe9\x00\n\x00" {
		t.Errorf("% x", got)
	}
	f.write("crlf", "a\r\n")
	r, err := f.engine.Write(t.Context(), f.origin, f.path("crlf"), "b\nc\n", true)
	if err != nil || f.read("crlf") != "a\r\nb\r\nc\r\n" {
		t.Errorf("%q, %v", f.read("crlf"), err)
	}
	if r.Written != 6 {
		t.Errorf("written %d", r.Written)
	}
}

func TestFullAndReadOnlyDisk(t *testing.T) {
	if os.Getuid() != 0 || runtime.GOOS != "linux" {
		t.Skip("needs root on Linux, to mount a small disk")
	}
	f := newFixture(t, edit.Config{})
	disk := filepath.Join(f.dir, "disk")
	mountDisk(t, disk, 64<<10)
	f.write("disk/f", "one\n")
	f.write("disk/other", "two\n")
	f.see("disk/f")
	f.see("disk/other")
	if err := os.Link(filepath.Join(disk, "other"), filepath.Join(disk, "other2")); err != nil {
		t.Fatal(err)
	}
	big := strings.Repeat("0123456789", 10_000)
	for _, name := range []string{"disk/f", "disk/other"} {
		before := f.read(name)
		_, err := f.engine.Write(t.Context(), f.origin, f.path(name), big, false)
		wantError(t, err, tool.ResourceExhausted, "no space left")
		if got := f.read(name); got != before {
			t.Errorf("%s lost its content: %d bytes", name, len(got))
		}
	}
	_, err := f.engine.ApplyAll(t.Context(), f.origin, []edit.FileEdit{
		{Path: f.path("disk/f"), Replacement: edit.Replacement{Old: "one", New: "1"}},
		{Path: f.path("disk/new"), Replacement: edit.Replacement{New: big}},
	}, nil, edit.BatchOptions{})
	wantError(t, err, tool.ResourceExhausted)
	if f.read("disk/f") != "one\n" || f.exists("disk/new") {
		t.Error("the batch was not set back")
	}
	f.noTemps()
	remountReadOnly(t, disk)
	_, err = f.engine.Apply(t.Context(), f.origin, f.path("disk/f"), edit.Replacement{Old: "one", New: "two"})
	wantLayer(t, wantError(t, err, tool.PermissionDenied, "read-only file system"), 2, 2)
	rows, err := f.journal.ListChanges(t.Context(), store.ChangeFilter{State: "begun"})
	if err != nil || len(rows) != 0 {
		t.Errorf("rows still begun: %v, %v", rows, err)
	}
}

func TestSeenSurvivesInTheStore(t *testing.T) {
	f := newFixture(t, edit.Config{})
	rows := &memorySessions{}
	a := edit.New(edit.Config{Sessions: rows})
	f.write("f", "one\n")
	if err := a.Saw(t.Context(), "ses_1", f.path("f"), edit.Sight{Hash: edit.Sum([]byte("one\n")), Whole: true}); err != nil {
		t.Fatal(err)
	}
	b := edit.New(edit.Config{Sessions: rows, MaxSeen: 1})
	if _, err := b.Apply(t.Context(), f.origin, f.path("f"), edit.Replacement{Old: "one", New: "two"}); err != nil {
		t.Errorf("another process of the session: %v", err)
	}
	// The first learns from the store what the second has written.
	if _, err := a.Apply(t.Context(), f.origin, f.path("f"), edit.Replacement{Old: "two", New: "three"}); err != nil {
		t.Errorf("the first process: %v", err)
	}
	other := f.origin
	other.Session = "ses_2"
	_, err := a.Apply(t.Context(), other, f.path("f"), edit.Replacement{Old: "three", New: "four"})
	wantLayer(t, wantError(t, err, tool.Conflict, "has not been read"), 7, 6)
}

func TestChangeIsNoFailureWhenItCannotBeNoted(t *testing.T) {
	f := newFixture(t, edit.Config{})
	rows := &memorySessions{}
	e := edit.New(edit.Config{Sessions: rows})
	f.write("f", "one\n")
	if err := e.Saw(t.Context(), "ses_1", f.path("f"), edit.Sight{Hash: edit.Sum([]byte("one\n")), Whole: true}); err != nil {
		t.Fatal(err)
	}
	rows.busy = true
	r, err := e.Apply(t.Context(), f.origin, f.path("f"), edit.Replacement{Old: "one", New: "two"})
	if err != nil || f.read("f") != "two\n" || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "could not be noted") {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestBlobsAreBounded(t *testing.T) {
	f := newFixture(t, edit.Config{MaxBlobs: 20_000})
	var size int64
	for i := range 50 {
		// Hard to compress, so that the limit counts.
		content := strings.Builder{}
		for j := range 200 {
			content.WriteString(edit.Sum([]byte{byte(i), byte(j)}))
		}
		if _, err := f.engine.PutBlob([]byte(content.String())); err != nil {
			t.Fatal(err)
		}
	}
	root := filepath.Dir(f.journal.name)
	err := filepath.WalkDir(filepath.Join(root, "blobs"), func(_ string, d fs.DirEntry, err error) error {
		if info, infoErr := d.Info(); infoErr == nil && !d.IsDir() {
			size += info.Size()
		}
		return err
	})
	if err != nil || size > 20_000 || size == 0 {
		t.Errorf("%d bytes are kept, %v", size, err)
	}
}

func TestTempsOfTheDeadGo(t *testing.T) {
	f := newFixture(t, edit.Config{})
	f.write("f", "one\n")
	real := f.path("f").Real
	temp := filepath.Join(f.dir, edit.TempName(real))
	if err := os.WriteFile(temp, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.journal.PutChanges(t.Context(), []store.Change{{
		Call: "dead", Session: "ses_1", Path: real, Kind: "write", Before: edit.Sum([]byte("one\n")), After: edit.Sum([]byte("two\n")), State: "begun",
	}}); err != nil {
		t.Fatal(err)
	}
	r, err := f.engine.Recover(t.Context())
	if err != nil || r.Temps != 1 || f.read("f") != "one\n" {
		t.Errorf("%+v, %v", r, err)
	}
	f.noTemps()
	if _, err := edit.Resolve(f.ws, filepath.Base(temp)); err == nil {
		t.Error("a tool may write a temporary file's name")
	}
}

func TestTornFileIsSetBack(t *testing.T) {
	f := newFixture(t, edit.Config{})
	const before, after = "aaaaaaaaaa\nold tail\n", "bbbbbbbbbbbbbbb\n"
	f.write("f", "bbbbbaaaaa\nold tail\n") // cut after five bytes
	f.write("mine", "something else")
	for _, name := range []string{"f", "mine"} {
		if err := f.engine.Tear(filepath.Join(f.dir, name), []byte(before), []byte(after)); err != nil {
			t.Fatal(err)
		}
	}
	r, err := f.engine.Recover(t.Context())
	if err != nil || r.Torn != 1 || len(r.Left) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if f.read("f") != before || f.read("mine") != "something else" {
		t.Errorf("f %q, mine %q", f.read("f"), f.read("mine"))
	}
}

func TestDirectorySwappedForLinkIsRefused(t *testing.T) {
	f := newFixture(t, edit.Config{})
	f.write("d/f", "one\n")
	f.see("d/f")
	p := f.path("d/f")
	f.write(".git/hooks/f", "one\n")
	if err := os.Rename(filepath.Join(f.dir, "d"), filepath.Join(f.dir, "e")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(".git/hooks", filepath.Join(f.dir, "d")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.engine.Apply(t.Context(), f.origin, p, edit.Replacement{Old: "one", New: "two"}); err == nil {
		t.Error("the edit went through a symlink that was not there when the path was resolved")
	}
	if got := f.read(".git/hooks/f"); got != "one\n" {
		t.Errorf("the hook is %q", got)
	}
}

func TestRenameAcrossRootsAndDisks(t *testing.T) {
	f := newFixture(t, edit.Config{})
	granted := realTemp(t)
	if runtime.GOOS == "linux" && os.Getuid() == 0 {
		granted = filepath.Join(granted, "disk")
		mountDisk(t, granted, 1<<20)
	}
	ws, err := workspace.Open(workspace.Config{Dir: f.dir, Write: []string{granted}})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	f.ws = ws
	f.write("f", "moved\n")
	if err := os.Chmod(filepath.Join(f.dir, "f"), 0o750); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(granted, "deep", "g")
	if _, err := f.engine.ApplyFiles(t.Context(), f.origin, []edit.FileOp{{Kind: "rename", Path: f.path("f"), NewPath: f.path(to)}}); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(to)
	if err != nil || info.Mode() != 0o750 || f.exists("f") {
		t.Fatalf("%v, %v, the old one is there: %v", info, err, f.exists("f"))
	}
	u, err := f.engine.Undo(t.Context(), edit.UndoRequest{Origin: f.call("u"), Workspace: ws})
	if err != nil || len(u.Skipped) > 0 || f.read("f") != "moved\n" || f.stat("f").Mode() != 0o750 {
		t.Errorf("%+v, %v", u, err)
	}
	if _, err := os.Stat(to); err == nil {
		t.Error("the moved file is still there")
	}
}
