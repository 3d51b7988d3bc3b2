package edit_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/edit"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/workspace"
)

// TestMain lets the test binary play the other process: it does what the
// variable says instead of testing.
func TestMain(m *testing.M) {
	switch os.Getenv("EDIT_TEST_CHILD") {
	case "":
		os.Exit(m.Run())
	case "crash":
		childMain(crashChild)
	case "slots":
		childMain(slotsChild)
	}
}

func childMain(work func(ctx context.Context, f *childFixture) error) {
	f, err := newChildFixture(os.Getenv("EDIT_TEST_DIR"), os.Getenv("EDIT_TEST_HOME"))
	if err == nil {
		err = work(context.Background(), f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// childFixture is an engine on directories that were there before.
type childFixture struct {
	ws      *workspace.Workspace
	engine  *edit.Engine
	journal *fileJournal
	origin  edit.Origin
}

func newChildFixture(dir, home string) (*childFixture, error) {
	ws, err := workspace.Open(workspace.Config{Dir: dir})
	if err != nil {
		return nil, err
	}
	journal := &fileJournal{name: filepath.Join(home, "journal.jsonl")}
	return &childFixture{
		ws: ws, journal: journal,
		engine: edit.New(edit.Config{Journal: journal, Blobs: home, Strictness: edit.Anchored}),
		origin: edit.Origin{Session: "ses_child", Workspace: dir},
	}, nil
}

func (f *childFixture) path(name string) *workspace.Path {
	p, err := edit.Resolve(f.ws, name)
	if err != nil {
		panic(err)
	}
	return p
}

// spawn starts this test binary as another process.
func spawn(t *testing.T, role, dir, home string, env ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), append([]string{"EDIT_TEST_CHILD=" + role, "EDIT_TEST_DIR=" + dir, "EDIT_TEST_HOME=" + home}, env...)...)
	cmd.Stderr = os.Stderr
	return cmd
}

// genFile is a file whose lines all name one generation, so that a mixture of
// two can be seen.
const genLines = 400

func genFile(gen int) string {
	return strings.Repeat(fmt.Sprintf("generation %06d of a file that is old or new as a whole\n", gen), genLines)
}

// generation reads back which generation a file is; ok if it is whole.
func generation(content string) (gen int, ok bool) {
	first, _, _ := strings.Cut(content, "\n")
	fields := strings.Fields(first)
	if len(fields) < 2 {
		return 0, false
	}
	gen, err := strconv.Atoi(fields[1])
	return gen, err == nil && content == genFile(gen)
}

// crashChild changes files in every way until it is killed.
func crashChild(ctx context.Context, f *childFixture) error {
	read := func(name string) int {
		b, err := os.ReadFile(f.path(name).Real)
		if err != nil {
			panic(err)
		}
		gen, ok := generation(string(b))
		if !ok {
			panic(name + " is not whole at the start")
		}
		return gen
	}
	step := func(gen int) edit.Replacement {
		return edit.Replacement{Old: fmt.Sprintf("%06d", gen), New: fmt.Sprintf("%06d", gen+1), All: true}
	}
	fmt.Println("ready")
	for i := 0; ; i++ {
		f.origin.Call = fmt.Sprintf("call_%d_%d", os.Getpid(), i)
		gen := read("a.txt")
		_, err := f.engine.ApplyAll(ctx, f.origin, []edit.FileEdit{
			{Path: f.path("a.txt"), Replacement: step(gen)}, {Path: f.path("b.txt"), Replacement: step(gen)}, {Path: f.path("deep/c.txt"), Replacement: step(gen)},
		}, nil, edit.BatchOptions{})
		if err != nil {
			return err
		}
		// An undo is whole for each file, not for all of a batch together.
		f.origin.Call += "_u"
		if _, err := f.engine.Apply(ctx, f.origin, f.path("u.txt"), step(read("u.txt"))); err != nil {
			return err
		}
		if i%3 > 0 {
			if _, err := f.engine.Undo(ctx, edit.UndoRequest{Origin: f.origin, Workspace: f.ws}); err != nil {
				return err
			}
		}
		if _, err := f.engine.Apply(ctx, f.origin, f.path("hard.txt"), step(read("hard.txt"))); err != nil {
			return err
		}
		ops := []edit.FileOp{
			{Kind: "create", Path: f.path("flag"), Content: []byte("x")},
			{Kind: "rename", Path: f.path("here"), NewPath: f.path("new/there"), Content: []byte("moved\n"), NewContent: true},
		}
		if f.path("flag").Exists() {
			ops = []edit.FileOp{
				{Kind: "delete", Path: f.path("flag")},
				{Kind: "rename", Path: f.path("new/there"), NewPath: f.path("here")},
			}
		}
		if _, err := f.engine.ApplyFiles(ctx, f.origin, ops); err != nil {
			return err
		}
	}
}

// crashRounds is how many times the child is killed; EDIT_CRASH_ROUNDS raises
// it.
func crashRounds(t *testing.T) int {
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	if s := os.Getenv("EDIT_CRASH_ROUNDS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		rounds = n
	}
	return rounds
}

func TestKilledAtAnyInstant(t *testing.T) {
	dir, home := realTemp(t), realTemp(t)
	for _, name := range []string{"a.txt", "b.txt", "deep/c.txt", "u.txt", "hard.txt"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(genFile(1)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(dir, "hard.txt"), filepath.Join(dir, "hard2.txt")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "here"), []byte("moved\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	var total edit.RecoverReport
	for round := range crashRounds(t) {
		killChild(t, dir, home, time.Duration(random.IntN(40_000))*time.Microsecond)
		f, err := newChildFixture(dir, home)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a.txt", "b.txt", "deep/c.txt", "u.txt"} {
			if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			} else if _, ok := generation(string(b)); !ok {
				t.Fatalf("round %d: %s is neither old nor new before recovery", round, name)
			}
		}
		report, err := f.engine.Recover(t.Context())
		if err != nil {
			t.Fatalf("round %d: recovery: %v", round, err)
		}
		if len(report.Left) > 0 {
			t.Fatalf("round %d: recovery left %v", round, report.Left)
		}
		total.Finished += report.Finished
		total.RolledBack += report.RolledBack
		total.Torn += report.Torn
		total.Temps += report.Temps
		checkAfterCrash(t, round, dir, f)
		f.ws.Close()
	}
	t.Logf("recoveries: %+v", total)
}

// killChild lets the child work for a while and kills it.
func killChild(t *testing.T, dir, home string, after time.Duration) {
	t.Helper()
	cmd := spawn(t, "crash", dir, home)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the child said %q, %v", line, err)
	}
	timer := time.NewTimer(after)
	<-timer.C // the instant is the point of the test
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != -1 {
		t.Fatalf("the child ended by itself: %v", err)
	}
}

func checkAfterCrash(t *testing.T, round int, dir string, f *childFixture) {
	t.Helper()
	gens := map[string]int{}
	for _, name := range []string{"a.txt", "b.txt", "deep/c.txt", "u.txt", "hard.txt", "hard2.txt"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		gen, ok := generation(string(b))
		if !ok {
			t.Fatalf("round %d: %s is neither old nor new after recovery", round, name)
		}
		gens[name] = gen
	}
	if gens["a.txt"] != gens["b.txt"] || gens["a.txt"] != gens["deep/c.txt"] {
		t.Fatalf("round %d: a batch was left half done: %v", round, gens)
	}
	if gens["hard.txt"] != gens["hard2.txt"] {
		t.Fatalf("round %d: the hard link was broken: %v", round, gens)
	}
	there := func(name string) bool { _, err := os.Lstat(filepath.Join(dir, name)); return err == nil }
	if there("flag") != there("new/there") || there("here") == there("new/there") {
		t.Fatalf("round %d: flag %v, new/there %v, here %v", round, there("flag"), there("new/there"), there("here"))
	}
	rows, err := f.journal.ListChanges(t.Context(), store.ChangeFilter{State: "begun"})
	if err != nil || len(rows) > 0 {
		t.Fatalf("round %d: rows still begun: %v %v", round, rows, err)
	}
	err = filepath.WalkDir(dir, func(name string, _ os.DirEntry, err error) error {
		if edit.IsTemp(filepath.Base(name)) {
			t.Errorf("round %d: temporary file left: %s", round, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func realTemp(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

const slots = 100

// slotsChild fills its half of the slots, each from a goroutine of its own.
func slotsChild(ctx context.Context, f *childFixture) error {
	from, err := strconv.Atoi(os.Getenv("EDIT_TEST_FROM"))
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	errs := make([]error, slots/2)
	for i := range slots / 2 {
		wg.Go(func() {
			o := f.origin
			o.Call = fmt.Sprintf("call_%d", from+i)
			_, errs[i] = f.engine.Apply(ctx, o, f.path("slots.txt"), edit.Replacement{
				Old: fmt.Sprintf("slot %03d: empty", from+i), New: fmt.Sprintf("slot %03d: filled", from+i),
			})
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func TestParallelEditsOfTwoProcesses(t *testing.T) {
	dir, home := realTemp(t), realTemp(t)
	var before, after strings.Builder
	for i := range slots {
		fmt.Fprintf(&before, "slot %03d: empty\r\n", i)
		fmt.Fprintf(&after, "slot %03d: filled\r\n", i)
	}
	name := filepath.Join(dir, "slots.txt")
	if err := os.WriteFile(name, []byte(before.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	var children []*exec.Cmd
	for i := range 2 {
		cmd := spawn(t, "slots", dir, home, fmt.Sprintf("EDIT_TEST_FROM=%d", i*slots/2))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		children = append(children, cmd)
	}
	for _, cmd := range children {
		if err := cmd.Wait(); err != nil {
			t.Errorf("a process failed: %v", err)
		}
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != after.String() {
		t.Errorf("edits were lost: %d of %d slots are filled", strings.Count(string(got), "filled"), slots)
	}
}

func TestParallelEditsOfOneSession(t *testing.T) {
	f := newFixture(t, edit.Config{})
	var before, after strings.Builder
	for i := range slots {
		fmt.Fprintf(&before, "slot %03d: empty\n", i)
		fmt.Fprintf(&after, "slot %03d: filled\n", i)
	}
	f.write("slots.txt", before.String())
	f.see("slots.txt")
	var wg sync.WaitGroup
	for i := range slots {
		wg.Go(func() {
			_, err := f.engine.Apply(t.Context(), f.call(fmt.Sprintf("call_%d", i)), f.path("slots.txt"), edit.Replacement{
				Old: fmt.Sprintf("slot %03d: empty", i), New: fmt.Sprintf("slot %03d: filled", i),
			})
			if err != nil {
				t.Errorf("slot %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if got := f.read("slots.txt"); got != after.String() {
		t.Errorf("edits were lost: %d of %d slots are filled", strings.Count(got, "filled"), slots)
	}
	f.noTemps()
}
