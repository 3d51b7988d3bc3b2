package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/store"
)

var insertCall = statement{`INSERT OR REPLACE INTO calls (id, parent, session, turn, workspace, tool, arguments, status, code,
	message, verdict, rule, started, duration_ms, bytes_in, bytes_out, meta)`, 17}

func appendCall(args []any, c *store.Call) []any {
	return append(args, c.ID, c.ParentID, c.Session, c.Turn, c.Workspace, c.Tool, string(c.Arguments), c.Status, c.Code,
		c.Message, c.Verdict, c.Rule, micros(c.Started), c.DurationMS, c.BytesIn, c.BytesOut, string(c.Meta))
}

func putCall(t tx, c *store.Call) error {
	_, err := t.exec(insertCall.of(1), appendCall(nil, c)...)
	return err
}

const selectCall = `SELECT id, parent, session, turn, workspace, tool, arguments, status, code,
	message, verdict, rule, started, duration_ms, bytes_in, bytes_out, meta FROM calls `

func scanCall(scan func(...any) error) (c store.Call, err error) {
	var started int64
	var arguments, meta []byte
	err = scan(&c.ID, &c.ParentID, &c.Session, &c.Turn, &c.Workspace, &c.Tool, &arguments, &c.Status, &c.Code,
		&c.Message, &c.Verdict, &c.Rule, &started, &c.DurationMS, &c.BytesIn, &c.BytesOut, &meta)
	c.Started, c.Arguments, c.Meta = moment(started), raw(arguments), raw(meta)
	return c, err
}

// raw is a JSON column; an empty one was nil.
func raw(b []byte) json.RawMessage {
	if len(b) == 0 {
		return nil
	}
	return b
}

// PutCallNow writes a row and returns when the disk has it.
func (d *DB) PutCallNow(ctx context.Context, c store.Call) error {
	if c.ID == "" {
		return errors.New("a call without an ID cannot be kept")
	}
	if d.closed.Load() {
		return store.ErrClosed
	}
	d.queue.mu.Lock()
	number := d.queue.number()
	d.queue.mu.Unlock()
	n, err := d.putNow(ctx, c, number)
	if err != nil {
		return err
	}
	return d.sync(n)
}

func (d *DB) putNow(ctx context.Context, c store.Call, number uint64) (uint64, error) {
	deadline := time.Now().Add(d.busy)
	if err := d.enter(ctx, deadline); err != nil {
		return 0, err
	}
	defer d.leave()
	if d.closed.Load() {
		return 0, store.ErrClosed
	}
	n, err := d.locked(ctx, deadline, func(t tx) error { return putCall(t, &c) })
	if err == nil {
		d.queue.drop(c.ID, number)
	}
	return n, err
}

// Call finds a call.
func (d *DB) Call(ctx context.Context, id string) (store.Call, error) {
	return one(ctx, d, selectCall+`WHERE id = ?`, []any{id}, scanCall)
}

// where collects conditions.
type where struct {
	parts []string
	args  []any
}

// equal restricts a column, unless value is "".
func (w *where) equal(column, value string) {
	if value != "" {
		w.add(column+" = ?", value)
	}
}

func (w *where) add(part string, args ...any) {
	w.parts = append(w.parts, part)
	w.args = append(w.args, args...)
}

func (w *where) String() string {
	if len(w.parts) == 0 {
		return ""
	}
	return "WHERE " + strings.Join(w.parts, " AND ") + " "
}

// rare says that the index of the calls that did not go well holds what is
// looked for; SQLite does not see it in a parameter.
const rare = "status <> 'ok'"

// ListCalls gives the newest first. It returns ErrNotFound if there is no call
// f.Before.
func (d *DB) ListCalls(ctx context.Context, f store.CallFilter) ([]store.Call, error) {
	var w where
	w.equal("tool", f.Tool)
	w.equal("session", f.Session)
	if w.equal("status", f.Status); f.Status != "" && f.Status != "ok" {
		w.add(rare)
	}
	if !f.Since.IsZero() {
		w.add("started >= ?", micros(f.Since))
	}
	if !f.Until.IsZero() {
		w.add("started < ?", micros(f.Until))
	}
	if f.Before != "" {
		started, err := one(ctx, d, `SELECT started FROM calls WHERE id = ?`, []any{f.Before},
			func(scan func(...any) error) (n int64, err error) { err = scan(&n); return n, err })
		if err != nil {
			return nil, fmt.Errorf("call %s: %w", f.Before, err)
		}
		w.add("(started, id) < (?, ?)", started, f.Before)
	}
	return list(ctx, d, selectCall+w.String()+`ORDER BY started DESC, id DESC LIMIT ?`,
		append(w.args, limit(f.Limit, defaults)), scanCall)
}
