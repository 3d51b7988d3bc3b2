package sqlite

import (
	"context"
	"encoding/json"
	"time"

	"github.com/toolyard/toolyard/internal/store"
)

// PutSession inserts or replaces a session.
func (d *DB) PutSession(ctx context.Context, s store.Session) error {
	return d.change(ctx, func(t tx) error {
		_, err := t.exec(`INSERT OR REPLACE INTO sessions (id, client, workspace, mode, started, seen, ended, turn)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			s.ID, s.Client, s.Workspace, s.Mode, micros(s.Started), micros(s.Seen), micros(s.Ended), s.Turn)
		return err
	})
}

const selectSession = `SELECT id, client, workspace, mode, started, seen, ended, turn,
	(SELECT count(*) FROM calls WHERE calls.session = sessions.id) FROM sessions `

func scanSession(scan func(...any) error) (s store.Session, err error) {
	var started, seen, ended int64
	err = scan(&s.ID, &s.Client, &s.Workspace, &s.Mode, &started, &seen, &ended, &s.Turn, &s.Calls)
	s.Started, s.Seen, s.Ended = moment(started), moment(seen), moment(ended)
	return s, err
}

// Session finds a session.
func (d *DB) Session(ctx context.Context, id string) (s store.Session, err error) {
	return one(ctx, d, selectSession+`WHERE id = ?`, []any{id}, scanSession)
}

// ListSessions gives the newest first.
func (d *DB) ListSessions(ctx context.Context, n int) ([]store.Session, error) {
	return list(ctx, d, selectSession+`ORDER BY started DESC, id DESC LIMIT ?`, []any{limit(n, defaults)}, scanSession)
}

func putSeen(t tx, s *store.Seen) error {
	lines := ""
	if len(s.Lines) > 0 {
		b, err := json.Marshal(s.Lines)
		if err != nil {
			return err
		}
		lines = string(b)
	}
	// A file's time is compared for equality, so it keeps its nanoseconds.
	var mtime int64
	if !s.ModTime.IsZero() {
		mtime = s.ModTime.UnixNano()
	}
	_, err := t.exec(`INSERT OR REPLACE INTO seen (session, path, hash, size, mtime, lines, whole, at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, s.Session, s.Path, s.Hash, s.Size, mtime, lines, s.Whole, micros(s.At))
	return err
}

// Seen finds what a session has seen of a path, queued rows included.
func (d *DB) Seen(ctx context.Context, session, path string) (store.Seen, error) {
	if d.closed.Load() {
		return store.Seen{}, store.ErrClosed
	}
	if s, ok := d.queue.queuedSeen(session, path); ok {
		return s, nil
	}
	return one(ctx, d, `SELECT session, path, hash, size, mtime, lines, whole, at FROM seen WHERE session = ? AND path = ?`,
		[]any{session, path}, func(scan func(...any) error) (s store.Seen, err error) {
			var mtime, at int64
			var lines string
			if err = scan(&s.Session, &s.Path, &s.Hash, &s.Size, &mtime, &lines, &s.Whole, &at); err != nil {
				return s, err
			}
			s.At = moment(at)
			if mtime != 0 {
				s.ModTime = time.Unix(0, mtime).UTC()
			}
			if lines != "" {
				err = json.Unmarshal([]byte(lines), &s.Lines)
			}
			return s, err
		})
}
