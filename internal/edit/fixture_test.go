package edit_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/toolyard/toolyard/internal/edit"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/workspace"
)

// fileJournal is a journal in a file of JSON lines, which several processes can
// share and which a killed process leaves readable. full makes it refuse.
type fileJournal struct {
	name string
	full bool
}

// record is one line: rows put, or rows whose state is set.
type record struct {
	Put, Set []store.Change
}

func (j *fileJournal) locked(work func(f *os.File, rows []store.Change) error) error {
	f, err := os.OpenFile(j.name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	byID := map[int64]int{}
	var rows []store.Change
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			continue // a line cut by a kill was never acknowledged
		}
		for _, c := range r.Put {
			byID[c.ID] = len(rows)
			rows = append(rows, c)
		}
		for _, c := range r.Set {
			if at, ok := byID[c.ID]; ok {
				rows[at].State, rows[at].After, rows[at].AfterMode, rows[at].AfterLink = c.State, c.After, c.AfterMode, c.AfterLink
			}
		}
	}
	return work(f, rows)
}

func (j *fileJournal) add(f *os.File, r record) error {
	if j.full {
		return store.ErrFull
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	// The newline in front ends a line that a killed process left.
	_, err = f.Write(append(append([]byte("\n"), line...), '\n'))
	return err
}

func (j *fileJournal) PutChange(ctx context.Context, c store.Change) (int64, error) {
	ids, err := j.PutChanges(ctx, []store.Change{c})
	if err != nil {
		return 0, err
	}
	return ids[0], nil
}

func (j *fileJournal) PutChanges(_ context.Context, c []store.Change) (ids []int64, err error) {
	err = j.locked(func(f *os.File, rows []store.Change) error {
		c = slices.Clone(c)
		for i := range c {
			c[i].ID = int64(len(rows) + i + 1)
			ids = append(ids, c[i].ID)
		}
		return j.add(f, record{Put: c})
	})
	return ids, err
}

func (j *fileJournal) SetChangeState(_ context.Context, c []store.Change) error {
	return j.locked(func(f *os.File, _ []store.Change) error { return j.add(f, record{Set: c}) })
}

func (j *fileJournal) ListChanges(_ context.Context, q store.ChangeFilter) (out []store.Change, err error) {
	if q.Limit == 0 {
		q.Limit = 1000
	}
	err = j.locked(func(_ *os.File, rows []store.Change) error {
		for _, c := range slices.Backward(rows) {
			fits := func(want, is string) bool { return want == "" || want == is }
			if fits(q.Session, c.Session) && fits(q.Call, c.Call) && fits(q.Turn, c.Turn) && fits(q.Workspace, c.Workspace) &&
				fits(q.Path, c.Path) && fits(q.State, c.State) && len(out) < q.Limit {
				out = append(out, c)
			}
		}
		return nil
	})
	return out, err
}

// memorySessions keeps what was seen.
type memorySessions struct {
	store.Sessions // the rest is not used

	mu   sync.Mutex
	rows map[[2]string]store.Seen
	busy bool // PutSeen fails
}

func (m *memorySessions) PutSeen(_ context.Context, s store.Seen) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.busy {
		return store.ErrBusy
	}
	if m.rows == nil {
		m.rows = map[[2]string]store.Seen{}
	}
	m.rows[[2]string{s.Session, s.Path}] = s
	return nil
}

func (m *memorySessions) Seen(_ context.Context, session, path string) (store.Seen, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.rows[[2]string{session, path}]
	if !ok {
		return s, store.ErrNotFound
	}
	return s, nil
}

// fixture is a workspace with an engine.
type fixture struct {
	t       testing.TB
	dir     string
	ws      *workspace.Workspace
	engine  *edit.Engine
	journal *fileJournal
	origin  edit.Origin
}

func newFixture(t testing.TB, c edit.Config) *fixture {
	t.Helper()
	dir := t.TempDir()
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	journal := &fileJournal{name: filepath.Join(home, "journal.jsonl")}
	c.Sessions, c.Journal, c.Blobs = &memorySessions{}, journal, home
	ws, err := workspace.Open(workspace.Config{Dir: real})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Close() })
	return &fixture{
		t: t, dir: real, ws: ws, engine: edit.New(c), journal: journal,
		origin: edit.Origin{Call: "call_1", Session: "ses_1", Turn: "turn_1", Workspace: real},
	}
}

func (f *fixture) call(id string) edit.Origin {
	o := f.origin
	o.Call = id
	return o
}

func (f *fixture) write(name, content string) {
	f.t.Helper()
	full := filepath.Join(f.dir, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) read(name string) string {
	f.t.Helper()
	b, err := os.ReadFile(filepath.Join(f.dir, name))
	if err != nil {
		f.t.Fatal(err)
	}
	return string(b)
}

func (f *fixture) exists(name string) bool {
	_, err := os.Lstat(filepath.Join(f.dir, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.t.Fatal(err)
	}
	return err == nil
}

func (f *fixture) path(name string) *workspace.Path {
	f.t.Helper()
	p, err := edit.Resolve(f.ws, name)
	if err != nil {
		f.t.Fatalf("resolving %s: %v", name, err)
	}
	return p
}

// see makes the session see the whole file as it is.
func (f *fixture) see(name string) {
	f.t.Helper()
	content := f.read(name)
	err := f.engine.Saw(f.t.Context(), f.origin.Session, f.path(name), edit.Sight{Hash: edit.Sum([]byte(content)), Size: int64(len(content)), Whole: true})
	if err != nil {
		f.t.Fatal(err)
	}
}

// noTemps fails if a temporary file is left anywhere in the workspace.
func (f *fixture) noTemps() {
	f.t.Helper()
	err := filepath.WalkDir(f.dir, func(name string, d fs.DirEntry, err error) error {
		if edit.IsTemp(filepath.Base(name)) {
			f.t.Errorf("temporary file left: %s", name)
		}
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
}
