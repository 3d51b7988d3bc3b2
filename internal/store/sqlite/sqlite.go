// Package sqlite keeps the store's rows in one SQLite file. It is the only
// place with SQL for SQLite, and it does not know what the rows mean.
//
// One connection writes, several read (WAL). Every write is one BEGIN IMMEDIATE
// transaction. Commits do not wait for the disk: they survive a killed process,
// and a power failure may cost the newest ones but never corrupts. What must
// survive a power failure too ([DB.PutChange], [DB.PutCallNow], [DB.Flush])
// syncs the write-ahead log afterwards, outside the writer's lock, so that one
// sync serves everybody who waits for one.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolyard/toolyard/internal/store"
)

// Bounds of the driver.
const (
	busyWait = 5 * time.Second        // how long a locked database is waited for
	lockWait = 100 * time.Millisecond // how much of it SQLite waits in one piece
	readers  = 4                      // connections that read
	defaults = 100                    // rows of a list whose limit is zero
)

// DB is an open database. It is safe for concurrent use, and several processes
// may have the same file open.
type DB struct {
	path    string
	busy    time.Duration
	opened  chan struct{} // closed when what follows is set
	openErr error
	write   *sql.DB // one connection, which conn is
	conn    *sql.Conn
	read    *sql.DB
	queue   *queue

	gate   chan struct{}        // holds one token: whoever has it may use conn and stmts
	stmts  map[string]*sql.Stmt // of conn, by SQL
	reads  sync.Map             // of read: SQL → *sql.Stmt
	closed atomic.Bool
	trim   atomic.Uint64 // the event ID at which old events are next deleted

	wal struct {
		commits atomic.Uint64 // transactions committed so far
		mu      sync.Mutex
		synced  uint64   // how many of them are on the disk for certain
		file    *os.File // nil before the first sync
	}
}

var _ store.Store = (*DB)(nil)

// options are what tests change.
type options struct {
	busy       time.Duration // zero: busyWait
	migrations fs.FS         // nil: the embedded ones
	delay      time.Duration // zero: groupDelay
}

// Open opens the database at path, an ordinary file name. What is missing is
// made: the folder (0700), the file (0600) and the tables; an older database is
// migrated. It fails with a *tool.Error that says what to do if the file is not
// a Toolyard database, comes from a newer version, or cannot be written.
//
// The caller closes it.
func Open(path string) (*DB, error) { return open(path, options{}) }

// OpenInBackground is Open for a program that has other things to do meanwhile.
// The DB's methods wait until it is open; if it cannot be opened they return
// Open's error, as [DB.Opened] does. The caller closes it in either case.
func OpenInBackground(path string) *DB {
	d := newDB(path, options{})
	go d.open(options{}) // Close waits for it
	return d
}

// Opened waits until the database is open, or says why it cannot be opened.
func (d *DB) Opened(ctx context.Context) error {
	select {
	case <-d.opened:
		return d.openErr
	default:
	}
	select {
	case <-d.opened:
		return d.openErr
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Path is the file's name.
func (d *DB) Path() string { return d.path }

// Close writes what is queued and closes the database. Rows that cannot be
// written are counted in the error. A second Close does nothing.
func (d *DB) Close() error {
	if d.closed.Swap(true) {
		return nil
	}
	<-d.opened
	err := d.closeQueue()
	if d.openErr != nil {
		return err
	}
	d.gate <- struct{}{} // writers that were under way have finished
	defer d.leave()      // those that wait find it closed
	if e := d.sync(d.wal.commits.Load()); err == nil {
		err = e
	}
	d.reads.Range(func(_, s any) bool { s.(*sql.Stmt).Close(); return true })
	for _, s := range d.stmts {
		s.Close()
	}
	return errors.Join(err, d.closeWAL(), d.read.Close(), d.conn.Close(), d.write.Close())
}
