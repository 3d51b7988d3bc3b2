package memory

import (
	"context"
	"slices"
	"time"

	"github.com/toolyard/toolyard/internal/store"
)

// PutQuestion implements [store.Questions].
func (s *Store) PutQuestion(ctx context.Context, row store.Question) error {
	return s.in(ctx, func() error {
		if _, err := s.questions.get(row.ID); err == nil {
			return store.ErrExists
		}
		row.Options, row.Details = slices.Clone(row.Options), slices.Clone(row.Details)
		s.questions.put(row.ID, row, maxRows)
		return nil
	})
}

// Question implements [store.Questions].
func (s *Store) Question(ctx context.Context, id string) (store.Question, error) {
	return read(ctx, s, func() (store.Question, error) { return s.questions.get(id) })
}

// ListQuestions implements [store.Questions].
func (s *Store) ListQuestions(ctx context.Context, f store.QuestionFilter) ([]store.Question, error) {
	return read(ctx, s, func() ([]store.Question, error) {
		is := func(want, have string) bool { return want == "" || want == have }
		rows := s.questions.list(func(q store.Question) bool {
			return is(f.State, q.State) && is(f.Session, q.Session) && is(f.Binding, q.Binding)
		})
		return newest(rows, func(q store.Question) time.Time { return q.Created }, f.Limit), nil
	})
}

// PendingQuestions implements [store.Questions].
func (s *Store) PendingQuestions(ctx context.Context) ([]string, error) {
	rows, err := s.ListQuestions(ctx, store.QuestionFilter{State: "pending", Limit: maxRows})
	ids := make([]string, len(rows))
	for i, q := range rows {
		ids[i] = q.ID
	}
	return ids, err
}

// SettleQuestion implements [store.Questions].
func (s *Store) SettleQuestion(ctx context.Context, row store.Question) error {
	return s.pending(ctx, row.ID, func(q *store.Question) {
		q.State, q.Option, q.Answer, q.By, q.Answered, q.Used = row.State, row.Option, row.Answer, row.By, row.Answered, row.Used
		if row.Deadline.After(q.Deadline) {
			q.Deadline = row.Deadline
		}
	})
}

// ExtendQuestion implements [store.Questions].
func (s *Store) ExtendQuestion(ctx context.Context, id string, deadline time.Time) error {
	return s.pending(ctx, id, func(q *store.Question) { q.Deadline = deadline })
}

// pending changes the pending question with this ID.
func (s *Store) pending(ctx context.Context, id string, change func(*store.Question)) error {
	return s.in(ctx, func() error {
		q, err := s.questions.get(id)
		if err != nil {
			return err
		}
		if q.State != "pending" {
			return store.ErrSettled
		}
		change(&q)
		s.questions.put(id, q, maxRows)
		return nil
	})
}

// TakeAnswer implements [store.Questions].
func (s *Store) TakeAnswer(ctx context.Context, binding string, now time.Time) (store.Question, error) {
	return read(ctx, s, func() (store.Question, error) {
		found := newest(s.questions.list(func(q store.Question) bool {
			return binding != "" && q.Binding == binding && q.State == "answered" && !q.Used && !q.Deadline.Before(now)
		}), func(q store.Question) time.Time { return q.Answered }, 1)
		if len(found) == 0 {
			return store.Question{}, store.ErrNotFound
		}
		return s.take(found[0]), nil
	})
}

// TakeQuestion implements [store.Questions].
func (s *Store) TakeQuestion(ctx context.Context, id string) (store.Question, error) {
	return read(ctx, s, func() (store.Question, error) {
		q, err := s.questions.get(id)
		if err != nil || q.State != "answered" || q.Used {
			return store.Question{}, store.ErrNotFound
		}
		return s.take(q), nil
	})
}

func (s *Store) take(q store.Question) store.Question {
	q.Used = true
	s.questions.put(q.ID, q, maxRows)
	return q
}

// open tells a task that is not over.
func open(k store.Task) bool { return k.Status == "working" || k.Status == "input_required" }

// PutTask implements [store.Tasks].
func (s *Store) PutTask(ctx context.Context, row store.Task) error {
	return s.in(ctx, func() error {
		row.Result, row.Error = slices.Clone(row.Result), slices.Clone(row.Error)
		s.tasks.put(row.ID, row, maxRows)
		return nil
	})
}

// Task implements [store.Tasks].
func (s *Store) Task(ctx context.Context, id string) (store.Task, error) {
	return read(ctx, s, func() (store.Task, error) { return s.tasks.get(id) })
}

// ListTasks implements [store.Tasks].
func (s *Store) ListTasks(ctx context.Context, session string, limit int) ([]store.Task, error) {
	return read(ctx, s, func() ([]store.Task, error) {
		rows := s.tasks.list(func(k store.Task) bool { return session == "" || k.Session == session })
		return newest(rows, func(k store.Task) time.Time { return k.Created }, limit), nil
	})
}

// DeleteTask implements [store.Tasks].
func (s *Store) DeleteTask(ctx context.Context, id string) error {
	return s.in(ctx, func() error {
		return missing(s.tasks.drop(func(k store.Task) bool { return k.ID == id }))
	})
}

// LoseTasks implements [store.Tasks].
func (s *Store) LoseTasks(ctx context.Context, alive func(runtime string) bool, message string) (int64, error) {
	return read(ctx, s, func() (int64, error) {
		lost := int64(0)
		for _, row := range s.tasks.list(func(k store.Task) bool { return open(k) && !alive(k.Runtime) }) {
			row.Status, row.Message, row.Updated = "failed", message, time.Now().UTC()
			s.tasks.put(row.ID, row, maxRows)
			lost++
		}
		return lost, nil
	})
}
