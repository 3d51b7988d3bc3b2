package sqlite

import (
	"context"
	"time"

	"github.com/toolyard/toolyard/internal/store"
)

// Bounds of the events.
const (
	keepEvents = 100_000
	trimEvery  = 1_000 // IDs between two deletions of old events
)

var insertEvent = statement{`INSERT OR REPLACE INTO events (id, time, body)`, 3}

func appendEvent(args []any, e *store.Event) []any {
	return append(args, int64(e.ID), micros(e.Time), string(e.Body))
}

// trimEvents deletes old events from time to time; last is the newest ID.
func (d *DB) trimEvents(t tx, last uint64) error {
	if last < d.trim.Load() || last <= keepEvents {
		return nil
	}
	if _, err := t.exec(`DELETE FROM events WHERE id <= ?`, int64(last-keepEvents)); err != nil {
		return err
	}
	d.trim.Store(last + trimEvery)
	return nil
}

func scanEvent(scan func(...any) error) (e store.Event, err error) {
	var id, at int64
	var body []byte
	err = scan(&id, &at, &body)
	e.ID, e.Time, e.Body = uint64(id), moment(at), raw(body)
	return e, err
}

// EventsAfter gives at most n events with a higher ID, oldest first.
func (d *DB) EventsAfter(ctx context.Context, id uint64, n int) ([]store.Event, error) {
	return list(ctx, d, `SELECT id, time, body FROM events WHERE id > ? ORDER BY id LIMIT ?`,
		[]any{int64(id), limit(n, defaults)}, scanEvent)
}

// LastEventID is the highest ID stored; the newest event is never deleted.
func (d *DB) LastEventID(ctx context.Context) (uint64, error) {
	return one(ctx, d, `SELECT coalesce(max(id), 0) FROM events`, nil, func(scan func(...any) error) (uint64, error) {
		var id int64
		err := scan(&id)
		return uint64(id), err
	})
}

// PutMetrics inserts or replaces by tool and minute.
func (d *DB) PutMetrics(ctx context.Context, metrics []store.Metric) error {
	return d.change(ctx, func(t tx) error {
		for _, m := range metrics {
			_, err := t.exec(`INSERT OR REPLACE INTO metrics (tool, minute, body) VALUES (?, ?, ?)`, m.Tool, micros(m.Minute), string(m.Body))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func scanMetric(scan func(...any) error) (m store.Metric, err error) {
	var minute int64
	var body []byte
	err = scan(&m.Tool, &minute, &body)
	m.Minute, m.Body = moment(minute), raw(body)
	return m, err
}

// ListMetrics gives the counters since a time, oldest first; tool "" means all.
func (d *DB) ListMetrics(ctx context.Context, tool string, since time.Time) ([]store.Metric, error) {
	var w where
	w.equal("tool", tool)
	w.add("minute >= ?", micros(since))
	return list(ctx, d, `SELECT tool, minute, body FROM metrics `+w.String()+`ORDER BY minute, tool`, w.args, scanMetric)
}
