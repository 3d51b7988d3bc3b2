package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/toolyard/toolyard/internal/store"
)

// PutQuestion inserts a question durably; ErrExists if its ID is taken.
func (d *DB) PutQuestion(ctx context.Context, q store.Question) error {
	options := ""
	if len(q.Options) > 0 {
		b, err := json.Marshal(q.Options)
		if err != nil {
			return err
		}
		options = string(b)
	}
	return d.changeDurably(ctx, func(t tx) error {
		r, err := t.exec(`INSERT OR IGNORE INTO questions (`+questionColumns+`)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			q.ID, q.Kind, q.Session, q.Call, q.Tool, q.Workspace, q.Title, q.Text, options, q.Default, string(q.Details), q.Binding, q.Fresh,
			micros(q.Created), micros(q.Deadline), q.State, q.Option, q.Answer, q.By, micros(q.Answered), q.Used)
		return instead(store.ErrExists, touched(r, err))
	})
}

const questionColumns = `id, kind, session, call, tool, workspace, title, text, options, preset, details, binding, fresh,
	created, deadline, state, option, answer, by, answered, used`

const selectQuestion = `SELECT ` + questionColumns + ` FROM questions `

// instead gives err where nothing was found.
func instead(err, found error) error {
	if found == store.ErrNotFound {
		return err
	}
	return found
}

func scanQuestion(scan func(...any) error) (q store.Question, err error) {
	var created, deadline, answered int64
	var options, details []byte
	err = scan(&q.ID, &q.Kind, &q.Session, &q.Call, &q.Tool, &q.Workspace, &q.Title, &q.Text, &options, &q.Default, &details, &q.Binding, &q.Fresh,
		&created, &deadline, &q.State, &q.Option, &q.Answer, &q.By, &answered, &q.Used)
	if err != nil {
		return q, err
	}
	q.Created, q.Deadline, q.Answered, q.Details = moment(created), moment(deadline), moment(answered), raw(details)
	if len(options) > 0 {
		err = json.Unmarshal(options, &q.Options)
	}
	return q, err
}

// Question finds a question.
func (d *DB) Question(ctx context.Context, id string) (store.Question, error) {
	return one(ctx, d, selectQuestion+`WHERE id = ?`, []any{id}, scanQuestion)
}

// ListQuestions gives the newest first.
func (d *DB) ListQuestions(ctx context.Context, f store.QuestionFilter) ([]store.Question, error) {
	var w where
	if f.State == "pending" { // as the index of them says it
		w.add("state = 'pending'")
	} else {
		w.equal("state", f.State)
	}
	w.equal("session", f.Session)
	if f.Binding != "" {
		w.add("binding <> '' AND binding = ?", f.Binding)
	}
	return list(ctx, d, selectQuestion+w.String()+`ORDER BY created DESC, id DESC LIMIT ?`, append(w.args, limit(f.Limit, defaults)), scanQuestion)
}

// maxPending is how many pending questions are listed by ID.
const maxPending = 10_000

// PendingQuestions gives the IDs of the pending ones, the newest first. The index
// alone answers it.
func (d *DB) PendingQuestions(ctx context.Context) ([]string, error) {
	return list(ctx, d, `SELECT id FROM questions WHERE state = 'pending' ORDER BY created DESC, id DESC LIMIT ?`, []any{maxPending},
		func(scan func(...any) error) (id string, err error) { err = scan(&id); return id, err })
}

// SettleQuestion settles a pending question; ErrSettled if it is not pending.
func (d *DB) SettleQuestion(ctx context.Context, q store.Question) error {
	return d.pending(ctx, q.ID, `UPDATE questions SET state = ?, option = ?, answer = ?, by = ?, answered = ?, used = ?,
		deadline = max(deadline, ?) WHERE id = ? AND state = 'pending'`, q.State, q.Option, q.Answer, q.By, micros(q.Answered), q.Used, micros(q.Deadline), q.ID)
}

// ExtendQuestion gives a pending question another deadline.
func (d *DB) ExtendQuestion(ctx context.Context, id string, deadline time.Time) error {
	return d.pending(ctx, id, `UPDATE questions SET deadline = ? WHERE id = ? AND state = 'pending'`, micros(deadline), id)
}

// pending runs an update of the pending question with this ID.
func (d *DB) pending(ctx context.Context, id, update string, args ...any) error {
	return d.changeDurably(ctx, func(t tx) error {
		err := touched(t.exec(update, args...))
		if err != store.ErrNotFound {
			return err
		}
		s, err := t.stmt(`SELECT 1 FROM questions WHERE id = ?`)
		if err != nil {
			return err
		}
		var there int
		if err := s.QueryRow(id).Scan(&there); err != nil {
			return err
		}
		return store.ErrSettled
	})
}

// TakeAnswer marks an answer as used and returns its question.
func (d *DB) TakeAnswer(ctx context.Context, binding string, now time.Time) (store.Question, error) {
	if binding == "" {
		return store.Question{}, store.ErrNotFound
	}
	// Looked for first: as a rule there is none, and then nobody's lock is taken.
	const which = `SELECT id FROM questions WHERE binding <> '' AND binding = ?
		AND state = 'answered' AND used = 0 AND deadline >= ? ORDER BY answered DESC, id DESC LIMIT 1`
	if _, err := one(ctx, d, which, []any{binding, micros(now)}, func(scan func(...any) error) (id string, err error) { err = scan(&id); return id, err }); err != nil {
		return store.Question{}, err
	}
	return d.take(ctx, `UPDATE questions SET used = 1 WHERE id = (`+which+`) RETURNING `+questionColumns, binding, micros(now))
}

// TakeQuestion marks the answer of one question as used and returns the question.
func (d *DB) TakeQuestion(ctx context.Context, id string) (store.Question, error) {
	return d.take(ctx, `UPDATE questions SET used = 1 WHERE id = ? AND state = 'answered' AND used = 0 RETURNING `+questionColumns, id)
}

func (d *DB) take(ctx context.Context, update string, args ...any) (q store.Question, err error) {
	err = d.changeDurably(ctx, func(t tx) error {
		s, err := t.stmt(update)
		if err != nil {
			return err
		}
		q, err = scanQuestion(s.QueryRow(args...).Scan)
		return err
	})
	return q, err
}

// PutTask inserts or replaces a task, durably.
func (d *DB) PutTask(ctx context.Context, k store.Task) error {
	return d.changeDurably(ctx, func(t tx) error {
		_, err := t.exec(`INSERT OR REPLACE INTO tasks (`+taskColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			k.ID, k.Session, k.Call, k.Tool, k.Status, k.Message, micros(k.Created), micros(k.Updated), micros(k.Expires),
			string(k.Result), string(k.Error), k.Runtime)
		return err
	})
}

const taskColumns = `id, session, call, tool, status, message, created, updated, expires, result, error, runtime`

func scanTask(scan func(...any) error) (k store.Task, err error) {
	var created, updated, expires int64
	var result, failure []byte
	err = scan(&k.ID, &k.Session, &k.Call, &k.Tool, &k.Status, &k.Message, &created, &updated, &expires, &result, &failure, &k.Runtime)
	k.Created, k.Updated, k.Expires = moment(created), moment(updated), moment(expires)
	k.Result, k.Error = raw(result), raw(failure)
	return k, err
}

// Task finds a task.
func (d *DB) Task(ctx context.Context, id string) (store.Task, error) {
	return one(ctx, d, `SELECT `+taskColumns+` FROM tasks WHERE id = ?`, []any{id}, scanTask)
}

// ListTasks gives the newest first; session "" means all.
func (d *DB) ListTasks(ctx context.Context, session string, n int) ([]store.Task, error) {
	var w where
	w.equal("session", session)
	return list(ctx, d, `SELECT `+taskColumns+` FROM tasks `+w.String()+`ORDER BY created DESC, id DESC LIMIT ?`,
		append(w.args, limit(n, defaults)), scanTask)
}

// DeleteTask deletes a task; ErrNotFound if there is none.
func (d *DB) DeleteTask(ctx context.Context, id string) error {
	return d.changeDurably(ctx, func(t tx) error { return touched(t.exec(`DELETE FROM tasks WHERE id = ?`, id)) })
}

// LoseTasks marks tasks that are not over as failed whose runtime alive says is
// gone.
func (d *DB) LoseTasks(ctx context.Context, alive func(runtime string) bool, message string) (int64, error) {
	gone, err := d.gone(ctx, `SELECT DISTINCT runtime FROM tasks WHERE status IN ('working', 'input_required')`, alive)
	if err != nil || len(gone) == 0 {
		return 0, err
	}
	var lost int64
	err = d.changeDurably(ctx, func(t tx) error {
		for _, r := range gone {
			res, err := t.exec(`UPDATE tasks SET status = 'failed', message = ?, updated = ?
				WHERE status IN ('working', 'input_required') AND runtime = ?`, message, micros(time.Now()), r)
			if err != nil {
				return err
			}
			n, err := res.RowsAffected()
			if err != nil {
				return fmt.Errorf("tasks of runtime %s: %w", r, err)
			}
			lost += n
		}
		return nil
	})
	return lost, err
}
