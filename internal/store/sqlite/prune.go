package sqlite

import (
	"context"
	"time"

	"github.com/toolyard/toolyard/internal/store"
)

// pruneRows is how many rows one transaction deletes; calls go on between two.
const pruneRows = 500

// pruning deletes old rows of one kind. ?1 is the time before which a row is
// old, ?2 the most rows to delete.
type pruning struct {
	kind string
	old  time.Duration
	sql  string
}

// Prune deletes what is older than r says, in small transactions. Calls takes
// with it what describes calls: metrics, ended jobs, questions that can no longer
// be answered, tasks that are over and have expired, and the sessions (and what
// they have seen) that have no call left. It reports the kinds calls, metrics,
// jobs, questions, tasks, sessions, seen, changes and artifacts; the contents of changes and
// artifacts lie elsewhere and are not touched.
func (d *DB) Prune(ctx context.Context, r store.Retention) (map[string]int64, error) {
	gone := map[string]int64{}
	now := time.Now()
	for _, p := range []pruning{
		{"calls", r.Calls, `DELETE FROM calls WHERE id IN (SELECT id FROM calls WHERE started < ?1 ORDER BY started LIMIT ?2)`},
		{"metrics", r.Calls, `DELETE FROM metrics WHERE (tool, minute) IN (SELECT tool, minute FROM metrics WHERE minute < ?1 LIMIT ?2)`},
		{"jobs", r.Calls, `DELETE FROM jobs WHERE id IN (SELECT id FROM jobs WHERE started < ?1 AND ended < ?1 AND status != 'running' LIMIT ?2)`},
		{"sessions", r.Calls, `DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE started < ?1 AND seen < ?1
			AND NOT EXISTS (SELECT 1 FROM calls WHERE calls.session = sessions.id) LIMIT ?2)`},
		{"seen", r.Calls, `DELETE FROM seen WHERE (session, path) IN (SELECT session, path FROM seen WHERE at < ?1
			AND NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.id = seen.session) LIMIT ?2)`},
		{"questions", r.Calls, `DELETE FROM questions WHERE id IN (SELECT id FROM questions WHERE created < ?1 AND deadline < ?1 AND answered < ?1 LIMIT ?2)`},
		{"tasks", r.Calls, `DELETE FROM tasks WHERE id IN (SELECT id FROM tasks WHERE updated < ?1
			AND status NOT IN ('working', 'input_required') AND expires < ?1 LIMIT ?2)`},
		{"changes", r.Journal, `DELETE FROM changes WHERE id IN (SELECT id FROM changes WHERE at < ?1 LIMIT ?2)`},
		{"artifacts", r.Artifacts, `DELETE FROM artifacts WHERE id IN (SELECT id FROM artifacts WHERE created < ?1 LIMIT ?2)`},
	} {
		if p.old <= 0 {
			continue
		}
		n, err := d.pruneKind(ctx, p, now.Add(-p.old))
		gone[p.kind] = n
		if err != nil {
			return gone, err
		}
	}
	return gone, nil
}

func (d *DB) pruneKind(ctx context.Context, p pruning, before time.Time) (total int64, err error) {
	for {
		if ctx.Err() != nil {
			return total, context.Cause(ctx)
		}
		var n int64
		err := d.change(ctx, func(t tx) error {
			r, err := t.exec(p.sql, micros(before), pruneRows)
			if err != nil {
				return err
			}
			n, err = r.RowsAffected()
			return err
		})
		if err != nil {
			return total, err
		}
		total += n
		if n < pruneRows {
			return total, nil
		}
	}
}
