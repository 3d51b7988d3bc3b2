package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/toolyard/toolyard/internal/store"
)

// tx is the open transaction of the writing connection.
type tx struct{ d *DB }

// exec runs a prepared statement. A write that has begun is finished, so there
// is no context: each is a few milliseconds at most.
func (t tx) exec(query string, args ...any) (sql.Result, error) {
	s, err := t.stmt(query)
	if err != nil {
		return nil, err
	}
	return s.Exec(args...)
}

func (t tx) stmt(query string) (*sql.Stmt, error) {
	if s, ok := t.d.stmts[query]; ok {
		return s, nil
	}
	s, err := t.d.conn.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, err
	}
	t.d.stmts[query] = s
	return s, nil
}

// change runs f in a transaction and waits at most d.busy for its turn.
func (d *DB) change(ctx context.Context, f func(tx) error) error {
	_, err := d.commit(ctx, f)
	return err
}

// changeDurably is change, and returns when the disk has it.
func (d *DB) changeDurably(ctx context.Context, f func(tx) error) error {
	n, err := d.commit(ctx, f)
	if err != nil {
		return err
	}
	return d.sync(n)
}

func (d *DB) commit(ctx context.Context, f func(tx) error) (uint64, error) {
	if d.closed.Load() {
		return 0, store.ErrClosed
	}
	deadline := time.Now().Add(d.busy)
	if err := d.enter(ctx, deadline); err != nil {
		return 0, err
	}
	defer d.leave()
	if d.closed.Load() {
		return 0, store.ErrClosed
	}
	return d.locked(ctx, deadline, f)
}

// enter waits for the writing connection.
func (d *DB) enter(ctx context.Context, deadline time.Time) error {
	if err := d.Opened(ctx); err != nil {
		return err
	}
	select {
	case d.gate <- struct{}{}:
		return nil
	default:
	}
	late := time.NewTimer(time.Until(deadline))
	defer late.Stop()
	select {
	case d.gate <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-late.C:
		return fmt.Errorf("%w: %s (waited %v)", store.ErrBusy, d.path, d.busy)
	}
}

func (d *DB) leave() { <-d.gate }

// locked runs f in a transaction; the caller has entered. It returns the
// transaction's number, for sync.
func (d *DB) locked(ctx context.Context, deadline time.Time, f func(tx) error) (uint64, error) {
	t := tx{d}
	if err := d.begin(ctx, t, deadline); err != nil {
		return 0, d.explain(err)
	}
	err := f(t)
	if err == nil {
		_, err = t.exec("COMMIT")
	}
	if err != nil {
		// Some failures, a full disk among them, have already rolled back; then
		// this says so, which does not matter.
		_, _ = t.exec("ROLLBACK")
		return 0, d.explain(err)
	}
	return d.wal.commits.Add(1), nil
}

// begin takes the lock. SQLite's own wait cannot be cancelled and polls at most
// every 100 ms, hence the short pieces.
func (d *DB) begin(ctx context.Context, t tx, deadline time.Time) error {
	for {
		_, err := t.exec("BEGIN IMMEDIATE")
		if err == nil || !isBusy(err) {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !time.Now().Before(deadline) {
			return err
		}
	}
}

// sync returns when the first n commits are on the disk. It does what SQLite's
// synchronous=FULL does after a commit, but for all who wait and without the
// writer's lock. If another process has moved the log into the database
// meanwhile, it has synced it first.
func (d *DB) sync(n uint64) error {
	d.wal.mu.Lock()
	defer d.wal.mu.Unlock()
	if d.wal.synced >= n {
		return nil
	}
	if d.wal.file == nil {
		f, err := os.OpenFile(d.path+"-wal", os.O_RDWR, 0)
		if errors.Is(err, fs.ErrNotExist) {
			// A file system without shared memory has no log; there a commit syncs.
			d.wal.synced = n
			return nil
		}
		if err != nil {
			return d.explain(err)
		}
		// The log is this file for as long as conn is open. It may be new: its name
		// must be on the disk too.
		if err := syncDir(filepath.Dir(d.path)); err != nil {
			f.Close()
			return d.explain(err)
		}
		d.wal.file = f
	}
	upTo := d.wal.commits.Load()
	if err := syncData(d.wal.file); err != nil {
		return d.explain(err)
	}
	d.wal.synced = upTo
	return nil
}

// syncDir waits until the disk has a folder's names. Windows has no such call.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = f.Sync()
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

// closeWAL closes what sync has opened. That drops no lock: SQLite locks the
// database and its -shm. Windows cannot delete the log while it is open.
func (d *DB) closeWAL() error {
	d.wal.mu.Lock()
	defer d.wal.mu.Unlock()
	if d.wal.file == nil {
		return nil
	}
	err := d.wal.file.Close()
	d.wal.file = nil
	return err
}

// primary is SQLite's result code without its details; 0 for other errors.
func primary(err error) int {
	if e, ok := errors.AsType[*driver.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

func isBusy(err error) bool {
	code := primary(err)
	return code == lib.SQLITE_BUSY || code == lib.SQLITE_LOCKED
}

// explain turns SQLite's errors into the store's.
func (d *DB) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrNoRows):
		return store.ErrNotFound
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrBusy), errors.Is(err, store.ErrFull),
		errors.Is(err, store.ErrSettled), errors.Is(err, store.ErrExists),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case d.closed.Load() && primary(err) == 0:
		return store.ErrClosed
	case isBusy(err):
		return fmt.Errorf("%w: %s (waited %v)", store.ErrBusy, d.path, d.busy)
	case isFull(err, d.path):
		return fmt.Errorf("%w: %s: %v", store.ErrFull, d.path, err)
	case primary(err) == lib.SQLITE_CORRUPT, primary(err) == lib.SQLITE_NOTADB:
		return fmt.Errorf("the store %s is damaged: %w", d.path, err)
	}
	return fmt.Errorf("the store %s: %w", d.path, err)
}

// isFull says whether an error means that there is no space. SQLite says so for
// a full disk but reports a used up quota as a plain write error, so that one is
// tried again beside the database.
func isFull(err error, path string) bool {
	if noSpace(err) {
		return true
	}
	e, ok := errors.AsType[*driver.Error](err)
	if !ok {
		return false
	}
	switch {
	case e.Code()&0xff == lib.SQLITE_FULL, e.Code() == lib.SQLITE_IOERR_SHMSIZE:
		return true
	case e.Code()&0xff == lib.SQLITE_IOERR, e.Code()&0xff == lib.SQLITE_CANTOPEN:
		return noSpace(tryWrite(filepath.Dir(path)))
	}
	return false
}

func noSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

// tryWrite writes a small file into a folder and removes it.
func tryWrite(dir string) error {
	f, err := os.CreateTemp(dir, ".toolyard-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(make([]byte, 64<<10))
	if e := f.Sync(); err == nil {
		err = e
	}
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}
