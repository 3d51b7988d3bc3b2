package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/pressly/goose/v3"

	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

// schema describes the tables, with blanks evened out, and the versions.
func schema(t *testing.T, path string) []string {
	t.Helper()
	db, err := sql.Open("sqlite", dsn(path, lockWait))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(`SELECT type || ' ' || name || ' ' || tbl_name || ' ' || coalesce(sql, '') FROM sqlite_schema
		UNION ALL SELECT 'version ' || id || ' ' || version_id || ' ' || is_applied FROM goose_db_version
		UNION ALL SELECT 'application ' || application_id FROM pragma_application_id ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		out = append(out, strings.Join(strings.Fields(s), " "))
	}
	if len(out) < 20 || rows.Err() != nil {
		t.Fatalf("only %d things in the schema, %v", len(out), rows.Err())
	}
	return out
}

// released are the embedded migrations and one more, which a later version
// might have.
func released(t *testing.T) (now, later fs.FS) {
	t.Helper()
	now, err := fs.Sub(embedded, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	more := fstest.MapFS{"00003_later.sql": {Data: []byte(
		"-- +goose Up\nCREATE TABLE later (n INTEGER NOT NULL);\nINSERT INTO later (n) VALUES (1);\n")}}
	names, err := fs.Glob(now, "*.sql")
	if err != nil || len(names) != 2 {
		t.Fatalf("migrations %v, %v: number the later one behind them", names, err)
	}
	for _, name := range names {
		b, err := fs.ReadFile(now, name)
		if err != nil {
			t.Fatal(err)
		}
		more[name] = &fstest.MapFile{Data: b}
	}
	return now, more
}

// A database that the first release made gets what came later.
func TestMigrateFromTheFirst(t *testing.T) {
	first := fstest.MapFS{}
	const name = "00001_record.sql"
	b, err := fs.ReadFile(embedded, "migrations/"+name)
	if err != nil {
		t.Fatal(err)
	}
	first[name] = &fstest.MapFile{Data: b}
	path := filepath.Join(t.TempDir(), "x.db")
	d := openTest(t, path, options{migrations: first})
	if err := d.PutSetting(t.Context(), "kept", "yes"); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = openTest(t, path, options{})
	if got, err := d.Setting(t.Context(), "kept"); err != nil || got != "yes" {
		t.Errorf("a setting after the migration: %q, %v", got, err)
	}
	if err := d.PutQuestion(t.Context(), store.Question{ID: "perm_1"}); err != nil {
		t.Error(err)
	}
	if err := d.PutTask(t.Context(), store.Task{ID: "t"}); err != nil {
		t.Error(err)
	}
	intact(t, d)
}

func TestFreshIsMigrated(t *testing.T) {
	dir := t.TempDir()
	now, _ := released(t)
	fresh, migrated := filepath.Join(dir, "fresh.db"), filepath.Join(dir, "migrated.db")
	openTest(t, fresh, options{})
	db, err := sql.Open("sqlite", dsn(migrated, lockWait))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	p, err := goose.NewProvider(goose.DialectSQLite3, db, now, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(schema(t, migrated), schema(t, fresh)); d != "" {
		t.Errorf("a fresh database is not what goose makes (-goose +fresh):\n%s", d)
	}
}

func TestMigrate(t *testing.T) {
	dir := t.TempDir()
	_, later := released(t)
	old, fresh := filepath.Join(dir, "old.db"), filepath.Join(dir, "fresh.db")
	d := openTest(t, old, options{})
	if err := d.PutSetting(t.Context(), "kept", "yes"); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}

	// Several at once: each finds the newest version, and it was made once.
	var wg sync.WaitGroup
	dbs := make([]*DB, 4)
	for i := range dbs {
		wg.Go(func() {
			var err error
			if dbs[i], err = open(old, options{migrations: later}); err != nil {
				t.Errorf("open %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	for _, d := range dbs {
		if d == nil {
			continue
		}
		if got, err := d.Setting(t.Context(), "kept"); err != nil || got != "yes" {
			t.Errorf("a setting after the migration: %q, %v", got, err)
		}
		if n := count(t, d, "later"); n != 1 {
			t.Errorf("the migration ran %d times", n)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	openTest(t, fresh, options{migrations: later})
	if d := cmp.Diff(schema(t, fresh), schema(t, old)); d != "" {
		t.Errorf("migrated is not fresh (-fresh +migrated):\n%s", d)
	}

	// And the older binary refuses it.
	_, err := Open(old)
	refused(t, err, tool.DependencyError, "has version 3, and this toolyard knows versions up to 2", "Use that version")
}

// refused checks an error of Open.
func refused(t *testing.T, err error, code tool.Code, message, hint string) {
	t.Helper()
	e, ok := errors.AsType[*tool.Error](err)
	if !ok || e.Code != code || !strings.Contains(e.Message, message) || !strings.Contains(e.Hint, hint) {
		t.Errorf("got %#v, want %s with %q and the hint %q", err, code, message, hint)
	}
}

func TestOpenRefuses(t *testing.T) {
	write := func(t *testing.T, path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	query := func(t *testing.T, path string, statements string) {
		t.Helper()
		db, err := sql.Open("sqlite", dsn(path, lockWait))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.Exec(statements); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name          string
		make          func(t *testing.T, path string)
		message, hint string
	}{
		{"text", func(t *testing.T, path string) { write(t, path, strings.Repeat("not a database. ", 100)) },
			"is not a toolyard database", "Move the file away"},
		{"another program's database", func(t *testing.T, path string) { query(t, path, "CREATE TABLE calls (id)") },
			"is not a toolyard database", "Move the file away"},
		{"another user of goose", func(t *testing.T, path string) {
			query(t, path, gooseTable+"INSERT INTO goose_db_version VALUES (7, 1, 1, 0)")
		},
			"is not a toolyard database", "Move the file away"},
		{"a folder", func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, "cannot be written", "Change their owner or mode"},
		{"damaged", func(t *testing.T, path string) {
			d := openTest(t, path, options{})
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for i := 100; i < len(b); i++ {
				b[i] = 0xa5
			}
			write(t, path, string(b))
		}, "is damaged", "Move the file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.db")
			c.make(t, path)
			before, _ := os.ReadFile(path)
			d, err := Open(path)
			if err == nil {
				d.Close()
			}
			refused(t, err, tool.DependencyError, c.message, c.hint)
			if after, _ := os.ReadFile(path); !slices.Equal(before, after) {
				t.Error("the refused file was changed")
			}
		})
	}
}

func TestOpenLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	db, err := sql.Open("sqlite", dsn(path, lockWait))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; CREATE TABLE x (y)"); err != nil {
		t.Fatal(err)
	}
	_, err = open(path, options{busy: lockWait})
	refused(t, err, tool.DependencyError, "locked by another process", "Another process holds the store")
	if !errors.Is(err, store.ErrBusy) {
		t.Errorf("got %v, want ErrBusy", err)
	}
}

func TestFileModes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no modes")
	}
	dir := filepath.Join(t.TempDir(), "a", "home")
	d := openTest(t, filepath.Join(dir, "x.db"), options{})
	if err := d.PutSetting(t.Context(), "a", "b"); err != nil {
		t.Fatal(err)
	}
	want := map[string]fs.FileMode{".": fs.ModeDir | 0o700, "x.db": 0o600, "x.db-wal": 0o600, "x.db-shm": 0o600}
	got := map[string]fs.FileMode{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append([]string{"."}, names(entries)...) {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		got[name] = info.Mode()
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("modes (-want +got):\n%s", d)
	}
}

func names(entries []fs.DirEntry) (out []string) {
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestOddPaths(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such names")
	}
	for _, name := range []string{"a b", "q?mode=memory", "50%20off", "a#b", "größe 漢字", "%zz", "a;b&c=d"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), name)
			d := openTest(t, filepath.Join(dir, name+".db"), options{})
			if err := d.PutSetting(t.Context(), "a", "b"); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(dir, name+".db-wal")); err != nil {
				t.Errorf("the log is elsewhere: %v", err)
			}
		})
	}
}

// A copy made by SQLite's own backup is not in WAL mode.
func TestRestoredBackup(t *testing.T) {
	dir := t.TempDir()
	d := openTest(t, filepath.Join(dir, "x.db"), options{})
	if err := d.PutSetting(t.Context(), "a", "b"); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, "copy.db")
	if _, err := d.conn.ExecContext(t.Context(), "VACUUM INTO ?", copied); err != nil {
		t.Fatal(err)
	}
	c := openTest(t, copied, options{})
	if got, err := c.Setting(t.Context(), "a"); err != nil || got != "b" {
		t.Errorf("the copy has %q, %v", got, err)
	}
	var mode string
	if err := c.read.QueryRow("PRAGMA journal_mode").Scan(&mode); err != nil || mode != "wal" {
		t.Errorf("journal mode %q, %v", mode, err)
	}
}

func TestFiltersUseIndices(t *testing.T) {
	d := openTest(t, filepath.Join(t.TempDir(), "x.db"), options{})
	for query, index := range map[string]string{
		selectCall + `ORDER BY started DESC, id DESC LIMIT 9`:                                          "calls_started",
		selectCall + `WHERE tool = 'a' ORDER BY started DESC, id DESC LIMIT 9`:                         "calls_started",
		selectCall + `WHERE session = 'a' AND (started, id) < (1, 'b') ORDER BY started DESC, id DESC`: "calls_session",
		selectCall + `WHERE status = ? AND ` + rare + ` ORDER BY started DESC, id DESC LIMIT 9`:        "calls_status",
		`SELECT * FROM changes WHERE state = 'begun' ORDER BY id DESC`:                                 "changes_begun",
		`SELECT * FROM changes WHERE session = 'a' ORDER BY id DESC`:                                   "changes_session",
		`SELECT * FROM changes WHERE path = 'a' ORDER BY id DESC`:                                      "changes_path",
		selectArtifact + `WHERE session = 'a' ORDER BY created DESC, id DESC`:                          "artifacts_session",
		selectJob + `ORDER BY started DESC, id DESC`:                                                   "jobs_started",
		`SELECT DISTINCT runtime FROM jobs WHERE status = 'running'`:                                   "jobs_running",
		`SELECT count(*) FROM artifacts WHERE sha256 = 'a'`:                                            "artifacts_sha256",
	} {
		rows, err := d.read.Query("EXPLAIN QUERY PLAN "+query, slices.Repeat([]any{"a"}, strings.Count(query, "?"))...)
		if err != nil {
			t.Fatal(err)
		}
		plan := ""
		for rows.Next() {
			var a, b, c int
			var detail string
			if err := rows.Scan(&a, &b, &c, &detail); err != nil {
				t.Fatal(err)
			}
			plan += fmt.Sprintln(detail)
		}
		rows.Close()
		if !strings.Contains(plan, index) || strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("%s\ndoes not use %s alone:\n%s", query, index, plan)
		}
	}
}
