package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/toolyard/toolyard/internal/store"
)

// stmt prepares a query once. The number of different queries is bounded by
// the filters there are.
func (d *DB) stmt(ctx context.Context, query string) (*sql.Stmt, error) {
	if s, ok := d.reads.Load(query); ok {
		return s.(*sql.Stmt), nil
	}
	s, err := d.read.PrepareContext(ctx, query)
	if err != nil {
		return nil, d.explain(err)
	}
	if old, ok := d.reads.LoadOrStore(query, s); ok {
		s.Close()
		return old.(*sql.Stmt), nil
	}
	return s, nil
}

// one reads the row that a query finds.
func one[T any](ctx context.Context, d *DB, query string, args []any, scan func(func(...any) error) (T, error)) (T, error) {
	var zero T
	if d.closed.Load() {
		return zero, store.ErrClosed
	}
	if err := d.Opened(ctx); err != nil {
		return zero, err
	}
	s, err := d.stmt(ctx, query)
	if err != nil {
		return zero, err
	}
	v, err := scan(s.QueryRowContext(ctx, args...).Scan)
	if err != nil {
		return zero, d.explain(err)
	}
	return v, nil
}

// list reads the rows that a query finds: an empty slice, not nil, for none.
func list[T any](ctx context.Context, d *DB, query string, args []any, scan func(func(...any) error) (T, error)) ([]T, error) {
	if d.closed.Load() {
		return nil, store.ErrClosed
	}
	if err := d.Opened(ctx); err != nil {
		return nil, err
	}
	s, err := d.stmt(ctx, query)
	if err != nil {
		return nil, err
	}
	var found *sql.Rows
	if found, err = s.QueryContext(ctx, args...); err != nil {
		return nil, d.explain(err)
	}
	defer found.Close()
	out := []T{}
	for found.Next() {
		v, err := scan(found.Scan)
		if err != nil {
			return nil, d.explain(err)
		}
		out = append(out, v)
	}
	return out, d.explain(found.Err())
}

// limit is a list's length.
func limit(n, zero int) int {
	if n <= 0 {
		return zero
	}
	return n
}

// micros and moment turn times into columns and back. The zero time is 0.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func moment(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
