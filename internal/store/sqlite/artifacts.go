package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/toolyard/toolyard/internal/store"
)

// touched is ErrNotFound if a statement changed no row.
func touched(r sql.Result, err error) error {
	if err != nil {
		return err
	}
	n, err := r.RowsAffected()
	if err == nil && n == 0 {
		err = store.ErrNotFound
	}
	return err
}

// PutArtifact inserts or replaces an artifact's row.
func (d *DB) PutArtifact(ctx context.Context, a store.Artifact) error {
	return d.change(ctx, func(t tx) error {
		_, err := t.exec(`INSERT OR REPLACE INTO artifacts (id, session, call, name, mime, category, size, sha256, created)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			a.ID, a.Session, a.Call, a.Name, a.MIME, a.Category, a.Size, a.SHA256, micros(a.Created))
		return err
	})
}

const selectArtifact = `SELECT id, session, call, name, mime, category, size, sha256, created FROM artifacts `

func scanArtifact(scan func(...any) error) (a store.Artifact, err error) {
	var created int64
	err = scan(&a.ID, &a.Session, &a.Call, &a.Name, &a.MIME, &a.Category, &a.Size, &a.SHA256, &created)
	a.Created = moment(created)
	return a, err
}

// Artifact finds an artifact.
func (d *DB) Artifact(ctx context.Context, id string) (store.Artifact, error) {
	return one(ctx, d, selectArtifact+`WHERE id = ?`, []any{id}, scanArtifact)
}

// ListArtifacts gives the newest first; session "" means all.
func (d *DB) ListArtifacts(ctx context.Context, session string, n int) ([]store.Artifact, error) {
	var w where
	w.equal("session", session)
	return list(ctx, d, selectArtifact+w.String()+`ORDER BY created DESC, id DESC LIMIT ?`,
		append(w.args, limit(n, defaults)), scanArtifact)
}

// DeleteArtifact deletes an artifact's row; ErrNotFound if there is none.
func (d *DB) DeleteArtifact(ctx context.Context, id string) error {
	return d.change(ctx, func(t tx) error { return touched(t.exec(`DELETE FROM artifacts WHERE id = ?`, id)) })
}

// ArtifactsWithHash counts the rows that refer to a content.
func (d *DB) ArtifactsWithHash(ctx context.Context, sha256 string) (int64, error) {
	return one(ctx, d, `SELECT count(*) FROM artifacts WHERE sha256 = ?`, []any{sha256},
		func(scan func(...any) error) (n int64, err error) { err = scan(&n); return n, err })
}

// PutJob inserts or replaces a job.
func (d *DB) PutJob(ctx context.Context, j store.Job) error {
	return d.change(ctx, func(t tx) error {
		_, err := t.exec(`INSERT OR REPLACE INTO jobs (id, call, session, workspace, command, status, exit_code, signal, reason,
			runtime_pid, runtime, handle, bytes, started, ended) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			j.ID, j.Call, j.Session, j.Workspace, j.Command, j.Status, j.ExitCode, j.Signal, j.Reason,
			j.RuntimePID, j.Runtime, j.Handle, j.Bytes, micros(j.Started), micros(j.Ended))
		return err
	})
}

const selectJob = `SELECT id, call, session, workspace, command, status, exit_code, signal, reason,
	runtime_pid, runtime, handle, bytes, started, ended FROM jobs `

func scanJob(scan func(...any) error) (j store.Job, err error) {
	var started, ended int64
	err = scan(&j.ID, &j.Call, &j.Session, &j.Workspace, &j.Command, &j.Status, &j.ExitCode, &j.Signal, &j.Reason,
		&j.RuntimePID, &j.Runtime, &j.Handle, &j.Bytes, &started, &ended)
	j.Started, j.Ended = moment(started), moment(ended)
	return j, err
}

// Job finds a job.
func (d *DB) Job(ctx context.Context, id string) (store.Job, error) {
	return one(ctx, d, selectJob+`WHERE id = ?`, []any{id}, scanJob)
}

// ListJobs gives the newest first; session "" means all.
func (d *DB) ListJobs(ctx context.Context, session string, n int) ([]store.Job, error) {
	var w where
	w.equal("session", session)
	return list(ctx, d, selectJob+w.String()+`ORDER BY started DESC, id DESC LIMIT ?`, append(w.args, limit(n, defaults)), scanJob)
}

// LoseJobs marks running jobs as lost whose runtime alive says is gone. Their
// end is the time at which that was found.
func (d *DB) LoseJobs(ctx context.Context, alive func(runtime string) bool) (int64, error) {
	gone, err := d.gone(ctx, `SELECT DISTINCT runtime FROM jobs WHERE status = 'running'`, alive)
	if err != nil || len(gone) == 0 {
		return 0, err
	}
	var lost int64
	err = d.change(ctx, func(t tx) error {
		for _, r := range gone {
			res, err := t.exec(`UPDATE jobs SET status = 'lost', ended = ? WHERE status = 'running' AND runtime = ?`, micros(time.Now()), r)
			if err != nil {
				return err
			}
			n, err := res.RowsAffected()
			if err != nil {
				return fmt.Errorf("jobs of runtime %s: %w", r, err)
			}
			lost += n
		}
		return nil
	})
	return lost, err
}

// gone asks alive about the runtimes that a query finds. It is asked outside any
// transaction: it looks at processes.
func (d *DB) gone(ctx context.Context, query string, alive func(runtime string) bool) ([]string, error) {
	runtimes, err := list(ctx, d, query, nil, func(scan func(...any) error) (s string, err error) { err = scan(&s); return s, err })
	return slices.DeleteFunc(runtimes, alive), err
}
