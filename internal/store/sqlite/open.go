package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pressly/goose/v3"
	lib "modernc.org/sqlite/lib"

	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

// To add a migration: a file NNNNN_what.sql, numbered without gaps, beginning
// with "-- +goose Up". There is no way down: an older binary refuses a newer
// database. Never change one that has been released.
//
//go:embed migrations/*.sql
var embedded embed.FS

// applicationID marks the file as ours; the first migration sets it.
const applicationID = 1416589164

func open(path string, o options) (*DB, error) {
	d := newDB(path, o)
	if err := d.open(o); err != nil {
		return nil, err
	}
	return d, nil
}

// newDB is a DB that has still to be opened.
func newDB(path string, o options) *DB {
	if o.busy == 0 {
		o.busy = busyWait
	}
	// Without a working directory there is no other name; then opening fails.
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return &DB{
		path: path, busy: o.busy, queue: newQueue(o.delay), opened: make(chan struct{}),
		gate: make(chan struct{}, 1), stmts: map[string]*sql.Stmt{},
	}
}

// open opens the database and lets the methods that wait for it go on.
func (d *DB) open(o options) error {
	defer close(d.opened)
	d.openErr = d.openFile(o)
	return d.openErr
}

func (d *DB) openFile(o options) (err error) {
	if o.migrations == nil {
		o.migrations, _ = fs.Sub(embedded, "migrations") // the folder is embedded
	}
	if err := create(d.path); err != nil {
		return unusable(d.path, err)
	}
	if d.write, err = sql.Open("sqlite", dsn(d.path, lockWait)); err != nil {
		return err
	}
	d.write.SetMaxOpenConns(1)
	if err := d.prepare(o.migrations); err != nil {
		if d.conn != nil {
			d.conn.Close()
		}
		d.write.Close()
		return d.cannotOpen(err)
	}
	if d.read, err = sql.Open("sqlite", dsn(d.path, d.busy)+"&_pragma=query_only(1)"); err != nil {
		return errors.Join(err, d.conn.Close(), d.write.Close())
	}
	d.read.SetMaxOpenConns(readers)
	d.read.SetMaxIdleConns(readers)
	return nil
}

// create makes the folder and an empty file that only its owner can read; the
// log files get the same mode from SQLite. The file is linked into place,
// because a descriptor of the database itself must not be closed here: that
// would drop the locks of another DB in this process (POSIX, fcntl(2)).
func create(path string) error {
	if _, err := os.Stat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".toolyard-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if err := f.Close(); err != nil {
		return err
	}
	err = os.Link(f.Name(), path)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return nil
	}
	// No hard links on this file system.
	f, err = os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// dsn names the file as a URI, so that no character of the path is taken for an
// option.
func dsn(path string, busy time.Duration) string {
	path = filepath.ToSlash(path)
	if runtime.GOOS == "windows" && !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	u := url.URL{Scheme: "file", Path: path}
	// The log is cut back to this size when it has grown larger.
	return u.String() + fmt.Sprintf("?_pragma=busy_timeout(%d)&_pragma=synchronous(normal)&_pragma=cache_size(-512)"+
		"&_pragma=journal_size_limit(16777216)&_txlock=immediate", busy.Milliseconds())
}

// prepare brings the database to the newest version and leaves d.conn open. It
// costs one query if there is nothing to do.
func (d *DB) prepare(migrations fs.FS) error {
	newest, err := newestVersion(migrations)
	if err != nil {
		return err
	}
	// What has begun is finished, however slow the disk; only a lock is not waited
	// for any longer.
	ctx, deadline := context.Background(), time.Now().Add(d.busy)
	for {
		err := d.prepareOnce(ctx, migrations, newest)
		// Another process may be doing the same. Switching to WAL does not wait
		// for a lock by itself.
		if !isBusy(err) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (d *DB) prepareOnce(ctx context.Context, migrations fs.FS, newest int64) (err error) {
	if d.conn == nil {
		if d.conn, err = d.write.Conn(ctx); err != nil {
			return err
		}
	}
	version, err := d.version(ctx)
	if err != nil {
		return err
	}
	if version > newest {
		return newerError{version, newest}
	}
	if err := d.useWAL(ctx); err != nil {
		return err
	}
	if version == 0 {
		if err := d.fresh(ctx, migrations); err != nil {
			return err
		}
		version, err = d.version(ctx)
	}
	if err != nil || version == newest {
		return err
	}
	return d.migrate(ctx, migrations, newest)
}

// version is the database's version; 0 for an empty file.
func (d *DB) version(ctx context.Context) (int64, error) {
	version, err := d.queryVersion(ctx)
	if !errors.Is(err, errForeign) {
		return version, err
	}
	var tables int
	if err := d.conn.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema`).Scan(&tables); err != nil || tables == 0 {
		return 0, err
	}
	// All tables come in one transaction: if another process made them between
	// the two queries, the version is there now.
	return d.queryVersion(ctx)
}

// queryVersion fails with errForeign if there is no version of ours.
func (d *DB) queryVersion(ctx context.Context) (int64, error) {
	const query = `SELECT coalesce(max(version_id), 0), (SELECT application_id FROM pragma_application_id)
		FROM goose_db_version WHERE is_applied`
	var version, id int64
	err := d.conn.QueryRowContext(ctx, query).Scan(&version, &id)
	switch {
	case err == nil && id != applicationID && version != 0, err != nil && primary(err) == lib.SQLITE_ERROR: // "no such table"
		return 0, errForeign
	case err != nil:
		return 0, err
	}
	return version, nil
}

// useWAL switches an empty or restored database to the write-ahead log. The
// answer tells the mode; where it cannot be had (no shared memory) SQLite goes
// on without, more slowly.
func (d *DB) useWAL(ctx context.Context) error {
	var mode string
	return d.conn.QueryRowContext(ctx, `PRAGMA journal_mode = WAL`).Scan(&mode)
}

// fresh makes all tables of an empty database in one transaction and notes the
// versions as goose would have done.
func (d *DB) fresh(ctx context.Context, migrations fs.FS) error {
	if _, err := d.conn.ExecContext(ctx, `BEGIN IMMEDIATE`); err != nil {
		return err
	}
	err := d.freshTables(ctx, migrations)
	if err == nil {
		_, err = d.conn.ExecContext(ctx, `COMMIT`)
	}
	if err != nil {
		_, _ = d.conn.ExecContext(ctx, `ROLLBACK`)
	}
	return err
}

// gooseTable is what goose makes for SQLite.
const gooseTable = `CREATE TABLE goose_db_version (
		id INTEGER PRIMARY KEY AUTOINCREMENT,
		version_id INTEGER NOT NULL,
		is_applied INTEGER NOT NULL,
		tstamp TIMESTAMP DEFAULT (datetime('now'))
	);
	INSERT INTO goose_db_version (version_id, is_applied) VALUES (0, 1);`

func (d *DB) freshTables(ctx context.Context, migrations fs.FS) error {
	var tables int
	if err := d.conn.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema`).Scan(&tables); err != nil {
		return err
	}
	if tables > 0 {
		return nil // another process was first
	}
	if _, err := d.conn.ExecContext(ctx, gooseTable); err != nil {
		return err
	}
	names, err := fs.Glob(migrations, "*.sql")
	if err != nil {
		return err
	}
	for _, name := range names {
		text, err := fs.ReadFile(migrations, name)
		if err != nil {
			return err
		}
		_, up, _ := strings.Cut(string(text), "-- +goose Up")
		if _, err := d.conn.ExecContext(ctx, up); err != nil {
			return fmt.Errorf("migration %s: %w", name, err)
		}
		version, err := versionOf(name)
		if err != nil {
			return err
		}
		if _, err := d.conn.ExecContext(ctx, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (?, 1)`, version); err != nil {
			return err
		}
	}
	return nil
}

func newestVersion(migrations fs.FS) (int64, error) {
	names, err := fs.Glob(migrations, "*.sql") // sorted
	if err != nil || len(names) == 0 {
		return 0, err
	}
	return versionOf(names[len(names)-1])
}

func versionOf(name string) (int64, error) {
	number, _, _ := strings.Cut(name, "_")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("migration %s has no number: %w", name, err)
	}
	return n, nil
}

// migrate runs goose. It wants the connection for itself, and if another process
// migrates at the same time, one of the two fails at the version's unique index
// and finds the work done.
func (d *DB) migrate(ctx context.Context, migrations fs.FS, newest int64) error {
	if err := d.conn.Close(); err != nil {
		return err
	}
	d.conn = nil
	p, err := goose.NewProvider(goose.DialectSQLite3, d.write, migrations, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	_, failed := p.Up(ctx)
	if d.conn, err = d.write.Conn(ctx); err != nil {
		return errors.Join(failed, err)
	}
	if failed == nil {
		return nil
	}
	if version, err := d.version(ctx); err == nil && version == newest {
		return nil
	}
	return failed
}

// Why a database cannot be used, before it becomes a sentence.
var errForeign = errors.New("tables of another program")

type newerError struct{ version, known int64 }

func (e newerError) Error() string {
	return fmt.Sprintf("version %d, this binary knows %d", e.version, e.known)
}

// cannotOpen says what is wrong with the database and what to do.
func (d *DB) cannotOpen(err error) error {
	if newer, ok := errors.AsType[newerError](err); ok {
		return tool.Errorf(tool.DependencyError, "the store %s has version %d, and this toolyard knows versions up to %d", d.path, newer.version, newer.known).
			WithHint("A newer toolyard has used this store. Use that version, or point TOOLYARD_HOME to another folder.")
	}
	switch {
	case errors.Is(err, errForeign), primary(err) == lib.SQLITE_NOTADB:
		return tool.Errorf(tool.DependencyError, "%s is not a toolyard database", d.path).
			WithHint("Move the file away, and toolyard makes a new one; or point TOOLYARD_HOME to another folder.")
	case primary(err) == lib.SQLITE_CORRUPT:
		return tool.Errorf(tool.DependencyError, "the store %s is damaged: %v", d.path, err).
			WithHint("Move the file and its -wal and -shm neighbours away, and toolyard makes a new one; `sqlite3 %s .recover` may save rows.", d.path)
	case isBusy(err):
		return tool.Errorf(tool.DependencyError, "%v", d.explain(err)).
			WithHint("Another process holds the store; end it, or try again.")
	}
	return unusable(d.path, err)
}

// unusable says why a file cannot be made or written.
func unusable(path string, err error) error {
	dir := filepath.Dir(path)
	if isFull(err, path) {
		e := tool.Errorf(tool.ResourceExhausted, "no space left for the store %s", path).
			WithHint("Free some space on the disk or quota of %s.", dir)
		e.Err = fmt.Errorf("%w: %w", store.ErrFull, err)
		return e
	}
	readOnly := errors.Is(err, fs.ErrPermission) || primary(err) == lib.SQLITE_READONLY ||
		primary(err) == lib.SQLITE_CANTOPEN || primary(err) == lib.SQLITE_PERM
	if readOnly || errors.Is(err, syscall.EROFS) {
		return tool.Errorf(tool.DependencyError, "the store %s cannot be written: %v", path, err).
			WithHint("Toolyard must be able to write the file and its folder %s (the log lies beside it). Change their owner or mode, or point TOOLYARD_HOME to another folder.", dir)
	}
	return tool.Errorf(tool.DependencyError, "the store %s cannot be opened: %v", path, err).
		WithHint("Check that the folder %s is there and can be written, or point TOOLYARD_HOME to another one.", dir)
}
