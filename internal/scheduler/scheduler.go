// Package scheduler decides when a call may run: calls that would disturb each
// other run in the order they came, all others side by side, within the limits
// of each tool and fairly between sessions. It does not know what a call does
// beyond the resources it names, and starts nothing.
package scheduler

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/toolyard/toolyard/tool"
)

// Defaults that stand where a Config or Limits say nothing.
const (
	DefaultParallel = 10 // calls of one batch
	DefaultQueue    = 64 // calls that wait for one tool
)

// Config of a Scheduler. The zero value works.
type Config struct {
	// MaxParallel is how many calls of one batch run together. Zero means
	// [DefaultParallel].
	MaxParallel int
	// MaxRunning is how many calls run at once in all. Zero means no limit.
	MaxRunning int
	// Limits gives the limits of a tool. It is called often, from many
	// goroutines, and must be quick; what it says may change at any time. nil
	// means no limits but the default queue.
	Limits func(tool string) Limits
}

// Limits of one tool.
type Limits struct {
	Max      int // calls that run at once; zero means no limit
	Queue    int // calls that wait; zero means [DefaultQueue], negative none may wait
	Priority int // added to the priority of each task
}

// Task is one call that wants to run.
type Task struct {
	Tool      string
	Session   string
	Workspace string
	// Resources are what the call reads and writes.
	Resources []tool.Resource
	// Exclusive says that the call disturbs everything in its workspace.
	Exclusive bool
	// Priority orders tasks that wait for the same slot, highest first. It never
	// lets a task overtake an earlier one that it conflicts with.
	Priority int
	// Expected is how long the call should take. Zero means the tool's moving
	// mean. It counts only for [Scheduler.Batch].
	Expected time.Duration
}

// Scheduler hands out leave to run. It is safe for concurrent use.
type Scheduler struct {
	config Config

	mu       sync.Mutex
	oldest   *entry // all that run or wait, in order of submission
	newest   *entry
	seq      uint64
	grants   uint64
	running  int
	eligible int // that wait for a slot only
	tools    map[string]*toolState
	sessions map[string]*session
}

// entry is a task that runs or waits.
type entry struct {
	task       Task
	tool       *toolState
	session    *session
	seq        uint64
	priority   int
	before     *entry
	after      *entry
	blockers   int      // earlier tasks in conflict that have not ended
	dependents []*entry // later tasks that wait for this one
	overtaken  int
	writes     bool
	state      uint8
	granted    chan struct{} // nil if it never waited
	started    time.Time
}

const (
	blocked uint8 = iota // by an earlier task
	waiting              // for a slot
	running
	ended
)

type toolState struct {
	name     string
	limits   Limits
	running  int
	waiting  int // blocked or waiting
	eligible []*entry
	mean     time.Duration // of how long calls took
}

type session struct {
	tasks int
	last  uint64 // number of its last grant
}

// overtakeLimit is how often a task may be overtaken before it goes first,
// whatever its priority.
const overtakeLimit = 16

// New makes a scheduler.
func New(config Config) *Scheduler {
	if config.MaxParallel <= 0 {
		config.MaxParallel = DefaultParallel
	}
	if config.Limits == nil {
		config.Limits = func(string) Limits { return Limits{} }
	}
	return &Scheduler{config: config, tools: map[string]*toolState{}, sessions: map[string]*session{}}
}

// Acquire waits until the task may run. It goes before every later task that it
// conflicts with, and after every earlier one. release must be called once the
// task has ended; calling it again does nothing. waited is zero if the task
// could run at once.
//
// It fails with QUEUE_FULL if too many wait for the tool, and with CANCELLED or
// TIMEOUT_ERROR if ctx ends first; release is then nil.
func (s *Scheduler) Acquire(ctx context.Context, task Task) (release func(), waited time.Duration, err error) {
	if ctx.Err() != nil {
		return nil, 0, notBegun(ctx, task, 0)
	}
	limits := s.config.Limits(task.Tool)
	e := &entry{task: task, writes: writes(task.Resources)}
	s.mu.Lock()
	if err := s.submit(e, limits); err != nil {
		s.mu.Unlock()
		return nil, 0, err
	}
	if e.state == running {
		s.mu.Unlock()
		return func() { s.release(e) }, 0, nil
	}
	e.granted = make(chan struct{})
	s.mu.Unlock()

	since := time.Now()
	select {
	case <-e.granted:
		return func() { s.release(e) }, time.Since(since), nil
	case <-ctx.Done():
		s.release(e) // also if leave was given in the same moment
		waited = time.Since(since)
		return nil, waited, notBegun(ctx, task, waited)
	}
}

// notBegun is the error of a task whose context ended before it could run.
func notBegun(ctx context.Context, task Task, waited time.Duration) *tool.Error {
	cause := context.Cause(ctx)
	code := tool.Cancelled
	if errors.Is(cause, tool.ErrTimeout) || errors.Is(cause, context.DeadlineExceeded) {
		code = tool.TimeoutError
	}
	e := tool.Errorf(code, "%s did not begin: it waited %s for other calls", task.Tool, waited.Round(time.Millisecond)).
		WithHint("Nothing was done. Call again when the other calls have ended.")
	e.Err = cause
	return e
}

// submit enters e, and starts it if nothing is in the way. The lock is held.
func (s *Scheduler) submit(e *entry, limits Limits) error {
	t := s.tool(e.task.Tool)
	t.limits = limits
	e.tool, e.priority = t, e.task.Priority+limits.Priority
	for o := s.oldest; o != nil; o = o.after {
		if conflict(o, e) {
			e.blockers++
		}
	}
	canRun := e.blockers == 0 && s.slot(t) && len(t.eligible) == 0
	if !canRun {
		if err := t.full(); err != nil {
			return err
		}
	}
	s.seq++
	e.seq = s.seq
	e.session = s.join(e.task.Session)
	if e.blockers > 0 {
		for o := s.oldest; o != nil; o = o.after {
			if conflict(o, e) {
				o.dependents = append(o.dependents, e)
			}
		}
	}
	s.append(e)
	switch {
	case canRun:
		s.start(e)
	case e.blockers == 0:
		t.waiting++
		s.await(e)
	default:
		t.waiting++
	}
	return nil
}

// full refuses a task where no more may wait.
func (t *toolState) full() error {
	queue := t.limits.Queue
	switch {
	case queue == 0:
		queue = DefaultQueue
	case queue < 0:
		queue = 0
	}
	if t.waiting < queue {
		return nil
	}
	err := tool.Errorf(tool.QueueFull, "the queue of %s is full: %d running, %d waiting, at most %d may wait", t.name, t.running, t.waiting, queue).
		WithHint("Wait for some of the calls to end, or send fewer at once.").
		WithDetail("running", t.running).WithDetail("waiting", t.waiting).WithDetail("queue", queue)
	if t.limits.Max > 0 {
		err = err.WithDetail("max", t.limits.Max)
	}
	return err
}

func (s *Scheduler) tool(name string) *toolState {
	t := s.tools[name]
	if t == nil {
		t = &toolState{name: name}
		s.forgetIdle()
		s.tools[name] = t
	}
	return t
}

// Bounds of what is remembered; idle ones go.
const (
	maxTools    = 8192
	maxSessions = 1024
)

func (s *Scheduler) forgetSessions() {
	if len(s.sessions) < maxSessions {
		return
	}
	for name, ses := range s.sessions {
		if ses.tasks == 0 {
			delete(s.sessions, name)
		}
	}
}

func (s *Scheduler) forgetIdle() {
	if len(s.tools) < maxTools {
		return
	}
	for name, t := range s.tools {
		if t.running == 0 && t.waiting == 0 {
			delete(s.tools, name)
		}
	}
}

func (s *Scheduler) join(name string) *session {
	ses := s.sessions[name]
	if ses == nil {
		s.forgetSessions()
		ses = &session{}
		s.sessions[name] = ses
	}
	ses.tasks++
	return ses
}

func (s *Scheduler) append(e *entry) {
	if s.newest == nil {
		s.oldest, s.newest = e, e
		return
	}
	e.before = s.newest
	s.newest.after = e
	s.newest = e
}

func (s *Scheduler) unlink(e *entry) {
	if e.before != nil {
		e.before.after = e.after
	} else {
		s.oldest = e.after
	}
	if e.after != nil {
		e.after.before = e.before
	} else {
		s.newest = e.before
	}
	e.before, e.after = nil, nil
}

func (s *Scheduler) slot(t *toolState) bool {
	return (t.limits.Max <= 0 || t.running < t.limits.Max) &&
		(s.config.MaxRunning <= 0 || s.running < s.config.MaxRunning)
}

// await puts a task that nothing blocks into the queue for a slot.
func (s *Scheduler) await(e *entry) {
	e.state = waiting
	e.tool.eligible = append(e.tool.eligible, e)
	s.eligible++
}

// start gives leave.
func (s *Scheduler) start(e *entry) {
	s.grants++
	e.session.last = s.grants
	e.state = running
	e.tool.running++
	s.running++
	e.started = time.Now()
	if e.granted != nil {
		close(e.granted)
	}
}

// release ends a task, whether it ran or only waited, and starts what it was in
// the way of.
func (s *Scheduler) release(e *entry) {
	limits := s.config.Limits(e.task.Tool)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.state == ended {
		return
	}
	e.tool.limits = limits
	switch e.state {
	case running:
		e.tool.running--
		s.running--
		e.tool.observe(time.Since(e.started))
	case waiting:
		s.dequeue(e)
		e.tool.waiting--
	case blocked:
		e.tool.waiting--
	}
	e.state = ended
	s.unlink(e)
	e.session.tasks--
	for _, d := range e.dependents {
		if d.blockers--; d.blockers == 0 && d.state == blocked {
			s.await(d)
		}
	}
	e.dependents = nil
	if s.eligible > 0 {
		s.dispatch()
	}
}

func (s *Scheduler) dequeue(e *entry) {
	list := e.tool.eligible
	for i, o := range list {
		if o == e {
			e.tool.eligible = append(list[:i], list[i+1:]...)
			list[len(list)-1] = nil
			s.eligible--
			return
		}
	}
}

// dispatch starts waiting tasks as long as there are slots.
func (s *Scheduler) dispatch() {
	for s.eligible > 0 {
		var best *entry
		for _, t := range s.tools {
			if len(t.eligible) == 0 || !s.slot(t) {
				continue
			}
			for _, e := range t.eligible {
				if best == nil || before(e, best) {
					best = e
				}
			}
		}
		if best == nil {
			return
		}
		for _, e := range best.tool.eligible {
			if e.seq < best.seq {
				e.overtaken++
			}
		}
		s.dequeue(best)
		best.tool.waiting--
		s.start(best)
	}
}

// before says which of two tasks that wait for a slot goes first: one that was
// overtaken too often, the higher priority, the session whose last turn is
// longer ago, the earlier one.
func before(a, b *entry) bool {
	aOld, bOld := a.overtaken >= overtakeLimit, b.overtaken >= overtakeLimit
	switch {
	case aOld != bOld:
		return aOld
	case aOld:
		return a.seq < b.seq
	case a.priority != b.priority:
		return a.priority > b.priority
	case a.session.last != b.session.last:
		return a.session.last < b.session.last
	}
	return a.seq < b.seq
}

// observe moves the mean by a fifth of the way.
func (t *toolState) observe(took time.Duration) {
	if t.mean == 0 {
		t.mean = took
		return
	}
	t.mean += (took - t.mean) / 5
}

// Expected is how long a call of the tool takes, by the moving mean of the last
// ones; zero if none has ended yet.
func (s *Scheduler) Expected(tool string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tools[tool]; t != nil {
		return t.mean
	}
	return 0
}

// Load tells how many calls of a tool run and how many wait.
func (s *Scheduler) Load(tool string) (running, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tools[tool]; t != nil {
		return t.running, t.waiting
	}
	return 0, 0
}
