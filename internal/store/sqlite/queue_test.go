package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/toolyard/toolyard/internal/store"
)

// hold takes the database's write lock as another process would, until the
// returned function is called.
func hold(t *testing.T, path string) (release func()) {
	t.Helper()
	db, err := sql.Open("sqlite", dsn(path, time.Second))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	held := true
	release = func() {
		if !held {
			return
		}
		held = false
		if _, err := conn.ExecContext(context.Background(), "ROLLBACK"); err != nil {
			t.Error(err)
		}
		conn.Close()
		db.Close()
	}
	t.Cleanup(release)
	return release
}

// eventually polls until done says yes.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); !done(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not in 20 s: %s", what)
		}
	}
}

func count(t *testing.T, d *DB, table string) (n int) {
	t.Helper()
	if err := d.read.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// intact runs SQLite's own check.
func intact(t *testing.T, d *DB) {
	t.Helper()
	var answer string
	if err := d.read.QueryRowContext(context.Background(), "PRAGMA integrity_check").Scan(&answer); err != nil || answer != "ok" {
		t.Errorf("integrity_check: %q, %v", answer, err)
	}
}

func TestGroupsWithoutFlush(t *testing.T) {
	d := openTest(t, filepath.Join(t.TempDir(), "x.db"), options{})
	before := d.wal.commits.Load()
	for i := range 1000 {
		if err := d.PutCall(t.Context(), benchCall(i)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "1000 rows are written", func() bool { return count(t, d, "calls") == 1000 })
	if n := d.wal.commits.Load() - before; n > 100 {
		t.Errorf("%d transactions for 1000 rows", n)
	}
	eventually(t, "the goroutine ends when nothing waits", func() bool {
		d.queue.mu.Lock()
		defer d.queue.mu.Unlock()
		return !d.queue.running
	})
}

// A locked database: a bounded wait, one report, no row lost.
func TestLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	const wait = 250 * time.Millisecond
	d := openTest(t, path, options{busy: wait})
	release := hold(t, path)

	start := time.Now()
	_, err := d.PutChange(t.Context(), store.Change{})
	if !errors.Is(err, store.ErrBusy) || !strings.Contains(err.Error(), path) {
		t.Fatalf("PutChange while locked: got %v, want ErrBusy with the path", err)
	}
	if took := time.Since(start); took < wait || took > wait+2*time.Second {
		t.Errorf("PutChange gave up after %v, want about %v", took, wait)
	}

	// Reading goes on.
	if _, err := d.ListCalls(t.Context(), store.CallFilter{}); err != nil {
		t.Errorf("ListCalls while locked: %v", err)
	}

	reports := 0
	put := func(i int) {
		switch err := d.PutCall(t.Context(), benchCall(i)); {
		case errors.Is(err, store.ErrBusy):
			reports++
		case err != nil:
			t.Fatal(err)
		}
	}
	put(0)
	n := 1
	eventually(t, "the failure is reported", func() bool { put(n % 100); n++; return reports > 0 })
	if err := d.Flush(t.Context()); !errors.Is(err, store.ErrBusy) {
		t.Errorf("Flush while locked: got %v, want ErrBusy", err)
	}
	put(101)
	if reports != 1 {
		t.Errorf("reported %d times, want once", reports)
	}

	// Its context ends the wait of a caller.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := d.PutSetting(ctx, "a", "b"); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, store.ErrBusy) {
		t.Errorf("PutSetting with a deadline: got %v", err)
	}

	release()
	want := min(n, 100) + 1
	eventually(t, "the rows are written after all", func() bool { return count(t, d, "calls") == want })
	if err := d.Flush(t.Context()); err != nil {
		t.Errorf("Flush: %v", err)
	}
	intact(t, d)
}

func TestQueueIsBounded(t *testing.T) {
	t.Run("waits while the disk is busy", func(t *testing.T) {
		d := openTest(t, filepath.Join(t.TempDir(), "x.db"), options{})
		if err := d.enter(t.Context(), time.Now().Add(time.Minute)); err != nil { // nobody writes now
			t.Fatal(err)
		}
		for i := range queueRows {
			if err := d.PutCall(t.Context(), benchCall(i)); err != nil {
				t.Fatal(err)
			}
		}
		// The same call again needs no room.
		if err := d.PutCall(t.Context(), benchCall(5)); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if err := d.PutCall(ctx, benchCall(queueRows)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("PutCall into a full queue: got %v, want the context's error", err)
		}
		if err := d.PutEvents(ctx, []store.Event{{ID: 1}}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("PutEvents into a full queue: got %v, want the context's error", err)
		}
		done := make(chan error)
		go func() { done <- d.PutCall(t.Context(), benchCall(queueRows)) }()
		d.leave()
		if err := <-done; err != nil {
			t.Errorf("PutCall when there was room again: %v", err)
		}
		if err := d.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := count(t, d, "calls"); n != queueRows+1 {
			t.Errorf("%d rows, want %d", n, queueRows+1)
		}
	})
	t.Run("in bytes", func(t *testing.T) {
		d := openTest(t, filepath.Join(t.TempDir(), "x.db"), options{delay: time.Hour})
		big := json.RawMessage(`"` + strings.Repeat("x", queueBytes/4) + `"`)
		for i := range 3 {
			if err := d.PutCall(t.Context(), store.Call{ID: fmt.Sprint(i), Arguments: big}); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if err := d.PutCall(ctx, store.Call{ID: "4", Arguments: big}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("PutCall of more than %d bytes: got %v, want the context's error", queueBytes, err)
		}
	})
	t.Run("refuses while it cannot write", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "x.db")
		d := openTest(t, path, options{busy: 20 * time.Millisecond})
		release := hold(t, path)
		taken := 0
		var err error
		for i := 0; ; i++ {
			if err = d.PutCall(t.Context(), benchCall(i)); err != nil && strings.Contains(err.Error(), "not kept") {
				break
			}
			taken++
		}
		if !errors.Is(err, store.ErrBusy) || taken != queueRows {
			t.Errorf("after %d rows: %v; want ErrBusy after %d", taken, err, queueRows)
		}
		release()
		eventually(t, "all accepted rows are written", func() bool { return count(t, d, "calls") == taken })
	})
}

// A group that fails goes back into the queue behind nothing and before what
// has come since; a newer row of the same call wins.
func TestFailedGroupGoesBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	d := openTest(t, path, options{delay: time.Hour, busy: 10 * time.Millisecond})
	put := func(id, status string) {
		t.Helper()
		if err := d.PutCall(t.Context(), store.Call{ID: id, Status: status}); err != nil && !errors.Is(err, store.ErrBusy) {
			t.Fatal(err)
		}
	}
	put("a", "running")
	put("b", "running")
	if err := d.PutEvents(t.Context(), []store.Event{{ID: 1, Body: json.RawMessage(`1`)}}); err != nil {
		t.Fatal(err)
	}
	group := d.queue.take() // as flush does
	put("a", "ok")
	put("c", "running")
	d.queue.settle(group, fmt.Errorf("%w: test", store.ErrBusy), nil)
	put("b", "ok")
	var bytes int
	for _, w := range d.queue.rows.calls {
		bytes += size(&w.row)
	}
	if want := bytes + 1; d.queue.rows.bytes != want {
		t.Errorf("the queue counts %d bytes, want %d", d.queue.rows.bytes, want)
	}
	if err := d.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{"a": "ok", "b": "ok", "c": "running"} {
		c, err := d.Call(t.Context(), id)
		if err != nil || c.Status != want {
			t.Errorf("call %s is %q (%v), want %q", id, c.Status, err, want)
		}
	}
	if n := count(t, d, "events"); n != 1 {
		t.Errorf("%d events, want 1", n)
	}
}

// One row that SQLite does not take is lost and said; its neighbours are kept.
func TestImpossibleRow(t *testing.T) {
	d := openTest(t, filepath.Join(t.TempDir(), "x.db"), options{delay: time.Hour})
	if _, err := driver.Limit(d.conn, lib.SQLITE_LIMIT_LENGTH, 100_000); err != nil {
		t.Fatal(err)
	}
	for id, n := range map[string]int{"small": 10, "huge": 200_000, "other": 10} {
		if err := d.PutCall(t.Context(), store.Call{ID: id, Message: strings.Repeat("x", n)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Flush(t.Context()); err != nil {
		t.Errorf("Flush: %v", err)
	}
	if n := count(t, d, "calls"); n != 2 {
		t.Errorf("%d calls, want 2", n)
	}
	err := d.PutCall(t.Context(), store.Call{ID: "next"})
	if err == nil || !strings.Contains(err.Error(), "an earlier call was lost") {
		t.Errorf("the next PutCall: got %v, want the loss", err)
	}
	if err := d.PutCall(t.Context(), store.Call{ID: "next"}); err != nil {
		t.Errorf("the loss is reported twice: %v", err)
	}
}

func TestEventsAreTrimmed(t *testing.T) {
	d := openTest(t, filepath.Join(t.TempDir(), "x.db"), options{})
	put := func(ids ...uint64) {
		t.Helper()
		var events []store.Event
		for _, id := range ids {
			events = append(events, store.Event{ID: id})
		}
		if err := errors.Join(d.PutEvents(t.Context(), events), d.Flush(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	first := func() uint64 {
		t.Helper()
		e, err := d.EventsAfter(t.Context(), 0, 1)
		if err != nil || len(e) == 0 {
			t.Fatalf("EventsAfter: %v, %v", e, err)
		}
		return e[0].ID
	}
	put(1, 2, 500, keepEvents)
	if got := first(); got != 1 {
		t.Errorf("the first event is %d, want 1: none is too many", got)
	}
	put(keepEvents + 2)
	if got := first(); got != 500 {
		t.Errorf("the first event is %d, want 500", got)
	}
	put(keepEvents + 600) // within the next thousand: not yet
	if got := first(); got != 500 {
		t.Errorf("the first event is %d, want 500", got)
	}
	put(keepEvents + 2000)
	if got := first(); got != keepEvents {
		t.Errorf("the first event is %d, want %d", got, keepEvents)
	}
	if last, err := d.LastEventID(t.Context()); err != nil || last != keepEvents+2000 {
		t.Errorf("LastEventID = %d, %v", last, err)
	}
}

// What must survive a power failure has been synced when the method returns.
func TestDurable(t *testing.T) {
	d := openTest(t, filepath.Join(t.TempDir(), "x.db"), options{})
	for name, f := range map[string]func() error{
		"PutChange":  func() error { _, err := d.PutChange(t.Context(), store.Change{}); return err },
		"PutCallNow": func() error { return d.PutCallNow(t.Context(), store.Call{ID: "a"}) },
		"PutRule":    func() error { _, err := d.PutRule(t.Context(), store.Rule{Rule: "x"}); return err },
		"PutSetting": func() error { return d.PutSetting(t.Context(), "a", "b") },
		"Flush": func() error {
			return errors.Join(d.PutSession(t.Context(), store.Session{ID: "a"}), d.Flush(t.Context()))
		},
	} {
		before := d.wal.synced
		if err := f(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d.wal.synced != d.wal.commits.Load() || d.wal.synced == before {
			t.Errorf("%s: %d commits are synced of %d", name, d.wal.synced, d.wal.commits.Load())
		}
	}
}
