// Package memory keeps the store's rows in memory, for embedders that need no
// record beyond the process, and for tests. Every list is bounded: the oldest
// rows go.
package memory

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/store"
)

// Bounds: how many rows of a kind are kept.
const (
	maxCalls    = 10_000
	maxEvents   = 10_000
	maxRows     = 10_000 // of every other kind
	defaultPage = 100    // rows of a list whose limit is zero
	maxChanges  = 1000   // changes of a list whose limit is zero
)

// Store keeps rows in memory. It is safe for concurrent use.
type Store struct {
	mu       sync.Mutex
	closed   bool
	sessions table[string, store.Session]
	seen     table[[2]string, store.Seen]
	calls    table[string, store.Call]
	events   []store.Event
	lastID   uint64
	metrics  table[metricKey, store.Metric]
	changes  table[int64, store.Change]
	change   int64
	artifact table[string, store.Artifact]
	jobs     table[string, store.Job]
	rules    table[int64, store.Rule]
	rule     int64
	settings map[string]string

	questions table[string, store.Question]
	tasks     table[string, store.Task]
}

type metricKey struct {
	tool   string
	minute time.Time
}

var _ store.Store = (*Store)(nil)

// New makes an empty store.
func New() *Store { return &Store{settings: map[string]string{}} }

// table is rows by key in the order of their first insertion.
type table[K comparable, V any] struct {
	rows  map[K]V
	order []K
	from  int // of order: what is before has been deleted
}

func (t *table[K, V]) put(key K, row V, max int) {
	if t.rows == nil {
		t.rows = map[K]V{}
	}
	if _, known := t.rows[key]; !known {
		t.order = append(t.order, key)
	}
	t.rows[key] = row
	for len(t.rows) > max {
		delete(t.rows, t.order[t.from])
		t.from++
	}
	if t.from > max {
		t.order, t.from = slices.Clone(t.order[t.from:]), 0
	}
}

// drop deletes the rows that gone says yes to and counts them.
func (t *table[K, V]) drop(gone func(V) bool) (n int64) {
	var kept []K
	for _, key := range t.order[t.from:] {
		if row, ok := t.rows[key]; ok && gone(row) {
			delete(t.rows, key)
			n++
		} else if ok {
			kept = append(kept, key)
		}
	}
	t.order, t.from = kept, 0
	return n
}

// list gives the rows that keep wants, oldest first.
func (t *table[K, V]) list(keep func(V) bool) []V {
	found := []V{}
	for _, key := range t.order[t.from:] {
		if row, ok := t.rows[key]; ok && keep(row) {
			found = append(found, row)
		}
	}
	return found
}

func (t *table[K, V]) get(key K) (V, error) {
	row, ok := t.rows[key]
	if !ok {
		return row, store.ErrNotFound
	}
	return row, nil
}

// missing is ErrNotFound where nothing was there to delete.
func missing(deleted int64) error {
	if deleted == 0 {
		return store.ErrNotFound
	}
	return nil
}

// newest sorts rows by a time, the newest first, and cuts to limit.
func newest[V any](rows []V, at func(V) time.Time, limit int) []V {
	slices.Reverse(rows) // of equal times the later inserted is the newer
	slices.SortStableFunc(rows, func(a, b V) int { return at(b).Compare(at(a)) })
	if limit <= 0 {
		limit = defaultPage
	}
	return rows[:min(limit, len(rows))]
}

// lock takes the lock unless the store is closed or ctx is done.
func (s *Store) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return store.ErrClosed
	}
	return nil
}

// in runs f with the lock held.
func (s *Store) in(ctx context.Context, f func() error) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	return f()
}

// read runs f with the lock held and gives what it found.
func read[V any](ctx context.Context, s *Store, f func() (V, error)) (V, error) {
	var found V
	err := s.in(ctx, func() (err error) {
		found, err = f()
		return err
	})
	return found, err
}

// PutSession implements [store.Sessions].
func (s *Store) PutSession(ctx context.Context, row store.Session) error {
	return s.in(ctx, func() error {
		row.Calls = 0
		s.sessions.put(row.ID, row, maxRows)
		return nil
	})
}

func (s *Store) countCalls(row store.Session) store.Session {
	row.Calls = int64(len(s.calls.list(func(c store.Call) bool { return c.Session == row.ID })))
	return row
}

// Session implements [store.Sessions].
func (s *Store) Session(ctx context.Context, id string) (store.Session, error) {
	return read(ctx, s, func() (store.Session, error) {
		row, err := s.sessions.get(id)
		return s.countCalls(row), err
	})
}

// ListSessions implements [store.Sessions].
func (s *Store) ListSessions(ctx context.Context, limit int) ([]store.Session, error) {
	return read(ctx, s, func() ([]store.Session, error) {
		rows := newest(s.sessions.list(func(store.Session) bool { return true }), func(r store.Session) time.Time { return r.Started }, limit)
		for i := range rows {
			rows[i] = s.countCalls(rows[i])
		}
		return rows, nil
	})
}

// PutSeen implements [store.Sessions].
func (s *Store) PutSeen(ctx context.Context, row store.Seen) error {
	return s.in(ctx, func() error {
		row.Lines = slices.Clone(row.Lines)
		s.seen.put([2]string{row.Session, row.Path}, row, maxRows)
		return nil
	})
}

// Seen implements [store.Sessions].
func (s *Store) Seen(ctx context.Context, session, path string) (store.Seen, error) {
	return read(ctx, s, func() (store.Seen, error) { return s.seen.get([2]string{session, path}) })
}

// PutCall implements [store.Calls].
func (s *Store) PutCall(ctx context.Context, row store.Call) error { return s.PutCallNow(ctx, row) }

// PutCallNow implements [store.Calls].
func (s *Store) PutCallNow(ctx context.Context, row store.Call) error {
	return s.in(ctx, func() error {
		if row.ID == "" {
			return errors.New("a call needs an ID")
		}
		row.Arguments, row.Meta = slices.Clone(row.Arguments), slices.Clone(row.Meta)
		s.calls.put(row.ID, row, maxCalls)
		return nil
	})
}

// Call implements [store.Calls].
func (s *Store) Call(ctx context.Context, id string) (store.Call, error) {
	return read(ctx, s, func() (store.Call, error) { return s.calls.get(id) })
}

// ListCalls implements [store.Calls].
func (s *Store) ListCalls(ctx context.Context, f store.CallFilter) ([]store.Call, error) {
	return read(ctx, s, func() ([]store.Call, error) {
		rows := newest(s.calls.list(func(c store.Call) bool {
			return (f.Tool == "" || c.Tool == f.Tool) && (f.Session == "" || c.Session == f.Session) &&
				(f.Status == "" || c.Status == f.Status) && !c.Started.Before(f.Since) && (f.Until.IsZero() || c.Started.Before(f.Until))
		}), func(c store.Call) time.Time { return c.Started }, maxCalls)
		if f.Before != "" {
			if _, err := s.calls.get(f.Before); err != nil {
				return nil, err
			}
			at := slices.IndexFunc(rows, func(c store.Call) bool { return c.ID == f.Before })
			if at < 0 {
				before := s.calls.rows[f.Before]
				at = len(rows) - 1
				for i, c := range rows {
					if c.Started.Before(before.Started) {
						at = i - 1
						break
					}
				}
			}
			rows = rows[at+1:]
		}
		limit := cmp.Or(f.Limit, defaultPage)
		return rows[:min(limit, len(rows))], nil
	})
}

// PutEvents implements [store.Events].
func (s *Store) PutEvents(ctx context.Context, events []store.Event) error {
	return s.in(ctx, func() error {
		for _, e := range events {
			e.Body = slices.Clone(e.Body)
			at, known := slices.BinarySearchFunc(s.events, e.ID, func(a store.Event, id uint64) int { return cmp.Compare(a.ID, id) })
			if known {
				s.events[at] = e
			} else {
				s.events = slices.Insert(s.events, at, e)
			}
			s.lastID = max(s.lastID, e.ID)
		}
		if over := len(s.events) - maxEvents; over > 0 {
			s.events = slices.Delete(s.events, 0, over)
		}
		return nil
	})
}

// EventsAfter implements [store.Events].
func (s *Store) EventsAfter(ctx context.Context, id uint64, limit int) ([]store.Event, error) {
	return read(ctx, s, func() ([]store.Event, error) {
		at, _ := slices.BinarySearchFunc(s.events, id+1, func(a store.Event, id uint64) int { return cmp.Compare(a.ID, id) })
		if limit <= 0 {
			limit = defaultPage
		}
		return append([]store.Event{}, s.events[at:min(at+limit, len(s.events))]...), nil
	})
}

// LastEventID implements [store.Events].
func (s *Store) LastEventID(ctx context.Context) (uint64, error) {
	return read(ctx, s, func() (uint64, error) { return s.lastID, nil })
}

// PutMetrics implements [store.Metrics].
func (s *Store) PutMetrics(ctx context.Context, rows []store.Metric) error {
	return s.in(ctx, func() error {
		for _, row := range rows {
			row.Body = slices.Clone(row.Body)
			s.metrics.put(metricKey{row.Tool, row.Minute.UTC()}, row, maxRows)
		}
		return nil
	})
}

// ListMetrics implements [store.Metrics].
func (s *Store) ListMetrics(ctx context.Context, tool string, since time.Time) ([]store.Metric, error) {
	return read(ctx, s, func() ([]store.Metric, error) {
		rows := s.metrics.list(func(m store.Metric) bool {
			return (tool == "" || m.Tool == tool) && !m.Minute.Before(since)
		})
		slices.SortStableFunc(rows, func(a, b store.Metric) int {
			return cmp.Or(a.Minute.Compare(b.Minute), strings.Compare(a.Tool, b.Tool))
		})
		return rows, nil
	})
}

// PutChange implements [store.Journal].
func (s *Store) PutChange(ctx context.Context, row store.Change) (int64, error) {
	ids, err := s.PutChanges(ctx, []store.Change{row})
	if err != nil {
		return 0, err
	}
	return ids[0], nil
}

// PutChanges implements [store.Journal].
func (s *Store) PutChanges(ctx context.Context, rows []store.Change) ([]int64, error) {
	return read(ctx, s, func() ([]int64, error) {
		ids := make([]int64, 0, len(rows))
		for _, row := range rows {
			s.change++
			row.ID = s.change
			s.changes.put(row.ID, row, maxRows)
			ids = append(ids, row.ID)
		}
		return ids, nil
	})
}

// SetChangeState implements [store.Journal].
func (s *Store) SetChangeState(ctx context.Context, rows []store.Change) error {
	return s.in(ctx, func() error {
		for _, row := range rows {
			if _, err := s.changes.get(row.ID); err != nil {
				return err
			}
		}
		for _, row := range rows {
			old := s.changes.rows[row.ID]
			old.State, old.After, old.AfterMode, old.AfterLink = row.State, row.After, row.AfterMode, row.AfterLink
			s.changes.put(row.ID, old, maxRows)
		}
		return nil
	})
}

// ListChanges implements [store.Journal].
func (s *Store) ListChanges(ctx context.Context, f store.ChangeFilter) ([]store.Change, error) {
	return read(ctx, s, func() ([]store.Change, error) {
		rows := s.changes.list(func(c store.Change) bool {
			is := func(want, have string) bool { return want == "" || want == have }
			return is(f.Session, c.Session) && is(f.Call, c.Call) && is(f.Turn, c.Turn) &&
				is(f.Workspace, c.Workspace) && is(f.Path, c.Path) && is(f.State, c.State)
		})
		slices.Reverse(rows)
		limit := cmp.Or(f.Limit, maxChanges)
		return rows[:min(limit, len(rows))], nil
	})
}

// PutArtifact implements [store.Artifacts].
func (s *Store) PutArtifact(ctx context.Context, row store.Artifact) error {
	return s.in(ctx, func() error {
		s.artifact.put(row.ID, row, maxRows)
		return nil
	})
}

// Artifact implements [store.Artifacts].
func (s *Store) Artifact(ctx context.Context, id string) (store.Artifact, error) {
	return read(ctx, s, func() (store.Artifact, error) { return s.artifact.get(id) })
}

// ListArtifacts implements [store.Artifacts].
func (s *Store) ListArtifacts(ctx context.Context, session string, limit int) ([]store.Artifact, error) {
	return read(ctx, s, func() ([]store.Artifact, error) {
		rows := s.artifact.list(func(a store.Artifact) bool { return session == "" || a.Session == session })
		return newest(rows, func(a store.Artifact) time.Time { return a.Created }, limit), nil
	})
}

// DeleteArtifact implements [store.Artifacts].
func (s *Store) DeleteArtifact(ctx context.Context, id string) error {
	return s.in(ctx, func() error {
		return missing(s.artifact.drop(func(a store.Artifact) bool { return a.ID == id }))
	})
}

// ArtifactsWithHash implements [store.Artifacts].
func (s *Store) ArtifactsWithHash(ctx context.Context, sha256 string) (int64, error) {
	return read(ctx, s, func() (int64, error) {
		return int64(len(s.artifact.list(func(a store.Artifact) bool { return a.SHA256 == sha256 }))), nil
	})
}

// PutJob implements [store.Jobs].
func (s *Store) PutJob(ctx context.Context, row store.Job) error {
	return s.in(ctx, func() error {
		s.jobs.put(row.ID, row, maxRows)
		return nil
	})
}

// Job implements [store.Jobs].
func (s *Store) Job(ctx context.Context, id string) (store.Job, error) {
	return read(ctx, s, func() (store.Job, error) { return s.jobs.get(id) })
}

// ListJobs implements [store.Jobs].
func (s *Store) ListJobs(ctx context.Context, session string, limit int) ([]store.Job, error) {
	return read(ctx, s, func() ([]store.Job, error) {
		rows := s.jobs.list(func(j store.Job) bool { return session == "" || j.Session == session })
		return newest(rows, func(j store.Job) time.Time { return j.Started }, limit), nil
	})
}

// LoseJobs implements [store.Jobs].
func (s *Store) LoseJobs(ctx context.Context, alive func(runtime string) bool) (int64, error) {
	return read(ctx, s, func() (int64, error) {
		lost := int64(0)
		for _, row := range s.jobs.list(func(j store.Job) bool { return j.Status == "running" && !alive(j.Runtime) }) {
			row.Status, row.Ended = "lost", time.Now().UTC()
			s.jobs.put(row.ID, row, maxRows)
			lost++
		}
		return lost, nil
	})
}

// PutRule implements [store.Rules].
func (s *Store) PutRule(ctx context.Context, row store.Rule) (int64, error) {
	return read(ctx, s, func() (int64, error) {
		for id, old := range s.rules.rows {
			if old.Scope == row.Scope && old.ScopeKey == row.ScopeKey && old.Rule == row.Rule {
				row.ID = id
			}
		}
		if row.ID == 0 || s.rules.rows[row.ID].Rule != row.Rule {
			s.rule++
			row.ID = s.rule
		}
		row.Overrides = slices.Clone(row.Overrides)
		s.rules.put(row.ID, row, maxRows)
		return row.ID, nil
	})
}

// DeleteRule implements [store.Rules].
func (s *Store) DeleteRule(ctx context.Context, id int64) error {
	return s.in(ctx, func() error {
		return missing(s.rules.drop(func(r store.Rule) bool { return r.ID == id }))
	})
}

// ListRules implements [store.Rules].
func (s *Store) ListRules(ctx context.Context) ([]store.Rule, error) {
	return read(ctx, s, func() ([]store.Rule, error) {
		return s.rules.list(func(store.Rule) bool { return true }), nil
	})
}

// PutSetting implements [store.Settings].
func (s *Store) PutSetting(ctx context.Context, name, value string) error {
	return s.in(ctx, func() error {
		s.settings[name] = value
		return nil
	})
}

// Setting implements [store.Settings].
func (s *Store) Setting(ctx context.Context, name string) (string, error) {
	return read(ctx, s, func() (string, error) {
		value, ok := s.settings[name]
		if !ok {
			return "", store.ErrNotFound
		}
		return value, nil
	})
}

// DeleteSetting implements [store.Settings].
func (s *Store) DeleteSetting(ctx context.Context, name string) error {
	return s.in(ctx, func() error {
		if _, ok := s.settings[name]; !ok {
			return store.ErrNotFound
		}
		delete(s.settings, name)
		return nil
	})
}

// ListSettings implements [store.Settings].
func (s *Store) ListSettings(ctx context.Context, prefix string) (map[string]string, error) {
	return read(ctx, s, func() (map[string]string, error) {
		found := maps.Clone(s.settings)
		maps.DeleteFunc(found, func(name, _ string) bool { return !strings.HasPrefix(name, prefix) })
		return found, nil
	})
}

// Flush implements [store.Store]: nothing is ever queued.
func (s *Store) Flush(ctx context.Context) error { return s.in(ctx, func() error { return nil }) }

// Prune implements [store.Store].
func (s *Store) Prune(ctx context.Context, r store.Retention) (map[string]int64, error) {
	return read(ctx, s, func() (map[string]int64, error) {
		now := time.Now()
		old := func(at time.Time, keep time.Duration) bool { return keep > 0 && at.Before(now.Add(-keep)) }
		gone := map[string]int64{}
		if r.Calls > 0 {
			gone["calls"] = s.calls.drop(func(c store.Call) bool { return old(c.Started, r.Calls) })
			gone["metrics"] = s.metrics.drop(func(m store.Metric) bool { return old(m.Minute, r.Calls) })
			gone["jobs"] = s.jobs.drop(func(j store.Job) bool {
				return j.Status != "running" && old(j.Started, r.Calls) && old(j.Ended, r.Calls)
			})
			active := map[string]bool{}
			for _, c := range s.calls.rows {
				active[c.Session] = true
			}
			gone["questions"] = s.questions.drop(func(q store.Question) bool {
				return old(q.Created, r.Calls) && old(q.Deadline, r.Calls) && old(q.Answered, r.Calls)
			})
			gone["tasks"] = s.tasks.drop(func(k store.Task) bool {
				return !open(k) && old(k.Updated, r.Calls) && old(k.Expires, r.Calls)
			})
			gone["sessions"] = s.sessions.drop(func(x store.Session) bool {
				return old(x.Started, r.Calls) && old(x.Seen, r.Calls) && !active[x.ID]
			})
			gone["seen"] = s.seen.drop(func(x store.Seen) bool {
				_, known := s.sessions.rows[x.Session]
				return old(x.At, r.Calls) && !known
			})
		}
		if r.Journal > 0 {
			gone["changes"] = s.changes.drop(func(c store.Change) bool { return old(c.At, r.Journal) })
		}
		if r.Artifacts > 0 {
			gone["artifacts"] = s.artifact.drop(func(a store.Artifact) bool { return old(a.Created, r.Artifacts) })
		}
		return gone, nil
	})
}

// Close implements [store.Store]. A second Close does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}
