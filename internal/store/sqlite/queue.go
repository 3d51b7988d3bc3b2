package sqlite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	lib "modernc.org/sqlite/lib"

	"github.com/toolyard/toolyard/internal/store"
)

// Bounds of the queue.
const (
	queueRows  = 1024     // rows that wait, those being written included
	queueBytes = 64 << 20 // bytes in them
	groupRows  = 256      // rows that are written without waiting any longer
	groupDelay = 5 * time.Millisecond
	retryDelay = 50 * time.Millisecond // after a failure, doubled up to retryMost
	retryMost  = time.Second
)

// queue holds the rows that are written in groups. A goroutine runs only while
// there are any.
type queue struct {
	delay time.Duration
	kick  chan struct{} // ends the wait for more rows
	quit  chan struct{} // closed by Close
	done  sync.WaitGroup

	mu      sync.Mutex
	rows    batch
	place   map[string]int           // call ID → its index in rows.calls
	next    uint64                   // number of the next row
	flying  int                      // rows being written
	flyingB int                      // bytes in them
	landing map[[2]string]store.Seen // what was seen, of the rows being written
	running bool
	closed  bool
	room    chan struct{} // closed when rows have gone; nil if nobody waits
	failed  error         // not yet returned to anybody
	stuck   error         // why the last group could not be written
	spare   batch
}

// batch is a group of rows.
type batch struct {
	calls  []waiting
	events []store.Event
	seen   map[[2]string]store.Seen // by session and path
	bytes  int
}

// waiting is a call in the queue. dead ones have been written by PutCallNow.
type waiting struct {
	row  store.Call
	n    uint64
	dead bool
}

func (b batch) rows() int { return len(b.calls) + len(b.events) + len(b.seen) }

func newQueue(delay time.Duration) *queue {
	if delay == 0 {
		delay = groupDelay
	}
	return &queue{delay: delay, kick: make(chan struct{}, 1), quit: make(chan struct{}), place: map[string]int{}}
}

func size(c *store.Call) int { return len(c.Arguments) + len(c.Meta) + len(c.Message) }

// PutCall queues a row; see [store.Calls]. The row is queued even if an earlier
// failure is returned, except when that is [store.ErrFull] or [store.ErrBusy]
// and the queue is full: then it would wait for a person, and is refused. The
// caller does not change the row's slices afterwards.
func (d *DB) PutCall(ctx context.Context, c store.Call) error {
	if c.ID == "" {
		return errors.New("a call without an ID cannot be kept")
	}
	q := d.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if i, ok := q.place[c.ID]; ok && !q.closed {
		q.rows.bytes += size(&c) - size(&q.rows.calls[i].row)
		q.rows.calls[i] = waiting{row: c, n: q.number()}
		return q.report()
	}
	if err := q.admit(ctx, size(&c)); err != nil {
		return err
	}
	// While this waited for room, the same call may have been queued again.
	if i, ok := q.place[c.ID]; ok {
		q.rows.calls[i].dead = true
	}
	q.place[c.ID] = len(q.rows.calls)
	q.rows.calls = append(q.rows.calls, waiting{row: c, n: q.number()})
	q.rows.bytes += size(&c)
	q.start(d)
	return q.report()
}

// PutSeen queues what a session has seen of a file, like PutCall. A failure of
// earlier rows is left to the next PutCall to report.
func (d *DB) PutSeen(ctx context.Context, s store.Seen) error {
	q := d.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	key := [2]string{s.Session, s.Path}
	old, queued := q.rows.seen[key]
	if !queued || q.closed {
		if err := q.admit(ctx, seenSize(&s)); err != nil {
			return err
		}
		old, queued = q.rows.seen[key] // the wait for room may have been long
	}
	if queued {
		q.rows.bytes -= seenSize(&old)
	}
	if q.rows.seen == nil {
		q.rows.seen = map[[2]string]store.Seen{}
	}
	q.rows.seen[key] = s
	q.rows.bytes += seenSize(&s)
	q.start(d)
	return nil
}

func seenSize(s *store.Seen) int {
	const line = 16 // bytes of a LineRange
	return len(s.Session) + len(s.Path) + len(s.Hash) + line*len(s.Lines)
}

// queuedSeen finds a row that is not in the database yet.
func (q *queue) queuedSeen(session, path string) (store.Seen, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	key := [2]string{session, path}
	if s, ok := q.rows.seen[key]; ok {
		return s, true
	}
	s, ok := q.landing[key]
	return s, ok
}

// PutEvents queues events, like PutCall.
func (d *DB) PutEvents(ctx context.Context, events []store.Event) error {
	q := d.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range events {
		if err := q.admit(ctx, len(e.Body)); err != nil {
			return err
		}
		q.rows.events = append(q.rows.events, e)
		q.rows.bytes += len(e.Body)
		q.start(d)
	}
	return q.report()
}

func (q *queue) number() uint64 {
	q.next++
	return q.next
}

// report gives an earlier failure, once.
func (q *queue) report() error {
	err := q.failed
	q.failed = nil
	return err
}

// admit waits, unlocked, until a row of n bytes fits. One row always fits into
// an empty queue.
func (q *queue) admit(ctx context.Context, n int) error {
	for {
		if q.closed {
			return store.ErrClosed
		}
		have := q.rows.rows() + q.flying
		if have == 0 || have < queueRows && q.rows.bytes+q.flyingB+n <= queueBytes {
			return nil
		}
		if q.stuck != nil {
			q.failed = nil
			return fmt.Errorf("the record of a call was not kept, %d rows wait already: %w", have, q.stuck)
		}
		if q.room == nil {
			q.room = make(chan struct{})
		}
		room := q.room
		q.mu.Unlock()
		select {
		case <-room:
			q.mu.Lock()
		case <-ctx.Done():
			q.mu.Lock()
			return context.Cause(ctx)
		}
	}
}

// start makes sure that somebody writes the rows.
func (q *queue) start(d *DB) {
	if !q.running {
		q.running = true
		q.done.Go(d.drain)
	}
	if q.rows.rows() == groupRows {
		select {
		case q.kick <- struct{}{}:
		default:
		}
	}
}

// drain writes groups until no row waits.
func (d *DB) drain() {
	q := d.queue
	pause := q.delay
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-q.kick:
		case <-q.quit:
			return // Close writes the rest
		}
		err := d.flush(context.Background())
		q.mu.Lock()
		if q.rows.rows() == 0 {
			q.running = false
			q.mu.Unlock()
			return
		}
		full := q.rows.rows() >= groupRows
		q.mu.Unlock()
		switch {
		case err != nil && pause < retryDelay:
			pause = retryDelay
		case err != nil:
			pause = min(2*pause, retryMost)
		case full:
			pause = 0
		default:
			pause = q.delay
		}
		timer.Reset(pause)
	}
}

// flush writes all that is queued in one transaction. The rows stay in the queue
// if that fails.
func (d *DB) flush(ctx context.Context) error {
	deadline := time.Now().Add(d.busy)
	if err := d.enter(ctx, deadline); err != nil {
		return d.queue.fail(err)
	}
	defer d.leave()
	// Taken only now: PutCallNow, which has been here before, must not be
	// overwritten by an older row.
	b := d.queue.take()
	if b.rows() == 0 {
		return nil
	}
	var lost error
	_, err := d.locked(ctx, deadline, func(t tx) (err error) {
		lost, err = d.putBatch(t, b)
		return err
	})
	d.queue.settle(b, err, d.explain(lost))
	return err
}

func (q *queue) fail(err error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if errors.Is(err, store.ErrBusy) {
		q.refuse(err)
	}
	return err
}

// refuse notes a failure. The same one is reported once, not at every attempt.
func (q *queue) refuse(err error) {
	if q.stuck == nil {
		q.failed = fmt.Errorf("the record of earlier calls could not be written yet: %w", err)
	}
	q.stuck = err
	q.wake()
}

func (q *queue) wake() {
	if q.room != nil {
		close(q.room)
		q.room = nil
	}
}

// take moves the rows out of the queue.
func (q *queue) take() batch {
	q.mu.Lock()
	defer q.mu.Unlock()
	b := q.rows
	q.rows, q.spare = q.spare, batch{}
	q.flying, q.flyingB, q.landing = b.rows(), b.bytes, b.seen
	clear(q.place)
	return b
}

// settle ends a group: written, or back into the queue before what has come
// since.
func (q *queue) settle(b batch, err, lost error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.flying, q.flyingB, q.landing = 0, 0, nil
	if err == nil {
		q.stuck = nil
		if lost != nil {
			q.failed = fmt.Errorf("the record of an earlier call was lost: %w", lost)
		}
		clear(b.calls)
		clear(b.events)
		clear(b.seen)
		q.spare = batch{calls: b.calls[:0], events: b.events[:0], seen: b.seen}
		q.wake()
		return
	}
	newer := q.rows
	q.rows = batch{events: append(b.events, newer.events...), seen: b.seen}
	if q.rows.seen == nil {
		q.rows.seen = newer.seen
	}
	maps.Copy(q.rows.seen, newer.seen)
	for _, w := range b.calls {
		if _, replaced := q.place[w.row.ID]; !replaced && !w.dead {
			q.rows.calls = append(q.rows.calls, w)
		}
	}
	q.rows.calls = append(q.rows.calls, newer.calls...)
	clear(q.place)
	for i, w := range q.rows.calls {
		q.rows.bytes += size(&w.row)
		if !w.dead {
			q.place[w.row.ID] = i
		}
	}
	for _, e := range q.rows.events {
		q.rows.bytes += len(e.Body)
	}
	for _, s := range q.rows.seen {
		q.rows.bytes += seenSize(&s)
	}
	q.refuse(err)
}

// drop forgets a queued row that is older than number n.
func (q *queue) drop(id string, n uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i, ok := q.place[id]; ok && q.rows.calls[i].n < n {
		q.rows.calls[i].dead = true
		delete(q.place, id)
	}
}

// putBatch writes a group. A row that can never be written (larger than SQLite
// takes) is skipped, so that it does not hold up the others.
func (d *DB) putBatch(t tx, b batch) (lost, err error) {
	calls := make([]*store.Call, 0, len(b.calls))
	for i := range b.calls {
		if !b.calls[i].dead {
			calls = append(calls, &b.calls[i].row)
		}
	}
	lost, err = putRows(t, calls, insertCall, callsAtOnce, appendCall)
	for _, s := range b.seen {
		if err == nil {
			var l error
			if l, err = skippable(putSeen(t, &s)); l != nil {
				lost = l
			}
		}
	}
	if err != nil || len(b.events) == 0 {
		return lost, err
	}
	events := make([]*store.Event, len(b.events))
	var last uint64
	for i := range b.events {
		events[i] = &b.events[i]
		last = max(last, b.events[i].ID)
	}
	l, err := putRows(t, events, insertEvent, eventsAtOnce, appendEvent)
	if l != nil {
		lost = l
	}
	if err == nil {
		err = d.trimEvents(t, last)
	}
	return lost, err
}

// Rows that one statement takes: a statement costs as much as two rows.
const (
	callsAtOnce  = 8
	eventsAtOnce = 16
)

// putRows inserts rows, n with a statement where there are so many. If one of
// them is at fault, they are tried one by one.
func putRows[T any](t tx, rows []T, insert statement, n int, values func([]any, T) []any) (lost, err error) {
	args := make([]any, 0, n*insert.columns)
	one, many := insert.of(1), insert.of(n)
	put := func(query string, rows []T) error {
		args = args[:0]
		for _, r := range rows {
			args = values(args, r)
		}
		_, err := t.exec(query, args...)
		return err
	}
	for len(rows) > 0 {
		chunk := rows[:min(n, len(rows))]
		rows = rows[len(chunk):]
		if len(chunk) == n {
			l, e := skippable(put(many, chunk))
			if e != nil {
				return lost, e
			}
			if l == nil {
				continue
			}
		}
		for i := range chunk {
			l, e := skippable(put(one, chunk[i:i+1]))
			if e != nil {
				return lost, e
			}
			if l != nil {
				lost = l
			}
		}
	}
	return lost, nil
}

// skippable tells a row that can never be written from a failure that may pass.
func skippable(e error) (lost, err error) {
	switch code := primary(e); code {
	case lib.SQLITE_TOOBIG, lib.SQLITE_CONSTRAINT, lib.SQLITE_MISMATCH:
		return e, nil
	}
	return nil, e
}

// statement inserts rows of so many columns.
type statement struct {
	into    string // up to VALUES
	columns int
}

// of is the statement for so many rows.
func (s statement) of(rows int) string {
	if rows == 1 {
		return s.into + " VALUES " + s.row()
	}
	return s.into + " VALUES " + strings.Repeat(s.row()+", ", rows-1) + s.row()
}

func (s statement) row() string { return "(" + strings.Repeat("?, ", s.columns-1) + "?)" }

// Flush waits until everything queued is on the disk, or fails.
func (d *DB) Flush(ctx context.Context) error {
	if d.closed.Load() {
		return store.ErrClosed
	}
	if err := d.flush(ctx); err != nil {
		return err
	}
	return d.sync(d.wal.commits.Load())
}

// closeQueue ends the queue and writes what is in it.
func (d *DB) closeQueue() error {
	q := d.queue
	q.mu.Lock()
	q.closed = true
	q.wake()
	q.mu.Unlock()
	close(q.quit)
	q.done.Wait()
	err := d.flush(context.Background())
	lost := q.rows.rows()
	if err == nil || lost == 0 { // of a database that could not be opened nothing is lost
		return nil
	}
	return fmt.Errorf("the record of %d calls and events is lost: %w", lost, err)
}
