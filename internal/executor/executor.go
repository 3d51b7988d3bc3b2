// Package executor runs one call from start to end. It is the only package that
// calls Tool.Call. It knows no protocol, no prompt to a person (see [Asker])
// and no tool by name.
//
// A call goes through the stages that [New] lists. Each is a file of its own;
// stages do not know each other. To add one: a file with a wrap method and a
// line in New.
package executor

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolyard/toolyard/internal/artifact"
	"github.com/toolyard/toolyard/internal/policy"
	"github.com/toolyard/toolyard/internal/registry"
	"github.com/toolyard/toolyard/internal/scheduler"
	"github.com/toolyard/toolyard/internal/secret"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

// Executor runs calls. It is safe for concurrent use.
type Executor struct {
	registry    *registry.Registry
	scheduler   *scheduler.Scheduler
	store       Store         // may be nil
	artifacts   *artifact.Dir // may be nil
	secrets     *secret.Redactor
	log         *slog.Logger
	recorder    *recorder
	workers     *workers
	meter       *meter
	asker       asker
	stages      []stage
	handler     handler
	maxOutput   int
	stored      int64
	maxParallel int
	policy      atomic.Pointer[policy.Policy]
	tools       atomic.Pointer[map[string]ToolConfig]
	lastID      atomic.Uint64

	mu      sync.Mutex
	running map[string]*call
	closing bool
	idle    chan struct{} // closed when closing and nothing runs
}

// errClosing is the cause of a context that Close ended.
var errClosing = errors.New("the executor is closing")

// New makes an executor. It starts nothing; see [Executor.Run].
func New(c Config) (*Executor, error) {
	if c.Registry == nil {
		return nil, errors.New("executor: a Config needs a Registry")
	}
	if err := c.fill(); err != nil {
		return nil, err
	}
	e := &Executor{
		registry: c.Registry, scheduler: c.Scheduler, store: c.Store, artifacts: c.Artifacts, secrets: c.Redactor, log: c.Log,
		workers: newWorkers(), meter: newMeter(), maxOutput: c.MaxOutput, stored: c.Stored, maxParallel: c.MaxParallel,
		running: map[string]*call{}, idle: make(chan struct{}),
	}
	e.lastID.Store(rand.Uint64())
	e.SetPolicy(c.Policy)
	e.SetTools(c.Tools)
	e.recorder = &recorder{bus: c.Bus, secrets: c.Redactor, log: c.Log, strict: c.AuditStrict}
	if c.Store != nil {
		e.recorder.store = c.Store
	}
	e.asker = asker{c.AskDeadline, c.Redactor, e.recorder}
	admit := &admit{
		registry: c.Registry, recorder: e.recorder, meter: e.meter, tools: e.tool, maxOutput: c.MaxOutput,
		global: newLimiter(c.Rate), perCall: c.SessionRate, sessions: newLRU[string, *rateLimiter](maxSessions),
	}
	doomLoop := &doomLoop{setting: c.DoomLoop, ask: e.asker, recorder: e.recorder, sessions: newLRU[string, *history](maxSessions)}
	permission := &permission{
		policy: &e.policy, home: c.Home, real: c.RealPath, save: c.SaveRule, ask: e.asker, recorder: e.recorder, log: c.Log,
		derived: newLRU[string, *derived](maxSessions), granted: newLRU[string, []policy.Rule](maxSessions), pending: map[*pending]struct{}{},
	}
	cache := &cache{max: c.CacheBytes, hash: c.ResourceHash, items: newLRU[cacheKey, *cached](1 << 20)}

	// The order of a call, outermost first.
	e.stages = []stage{
		{"admit", admit.wrap},
		{"event", e.recorder.wrap},
		{"metric", e.meter.wrap},
		{"validate", validation},
		{"doom loop", doomLoop.wrap},
		{"permission", permission.wrap},
		{"cache", cache.wrap},
		{"schedule", (&schedule{c.Scheduler}).wrap},
		{"output", (&output{c.Artifacts, c.Log}).wrap},
		{"redact", (&redact{c.Redactor}).wrap},
		{"retry", (&retry{c.Backoff.filled()}).wrap},
		{"timeout", (&timeout{log: c.Log, workers: e.workers, abandoned: map[string]int{}}).wrap},
	}
	e.handler = run(c.Log)
	for _, s := range slices.Backward(e.stages) {
		e.handler = s.wrap(e.handler)
	}
	return e, nil
}

// Stages lists the names of the stages, outermost first.
func (e *Executor) Stages() []string {
	names := make([]string, len(e.stages))
	for i, s := range e.stages {
		names[i] = s.name
	}
	return names
}

// SetPolicy changes the rules for the calls that are judged from now on. Nil is
// the policy without rules: every tool's own default.
func (e *Executor) SetPolicy(p *policy.Policy) {
	if p == nil {
		p, _ = policy.New(nil) // no rule, no fault
	}
	e.policy.Store(p)
}

// SetTools changes the settings of single tools, by full name, for the calls
// that begin from now on.
func (e *Executor) SetTools(tools map[string]ToolConfig) {
	tools = maps.Clone(tools)
	e.tools.Store(&tools)
}

func (e *Executor) tool(name string) ToolConfig { return (*e.tools.Load())[name] }

// Call runs one call through the pipeline. It never returns nil: a failure is a
// result with IsError, Err and Meta set.
func (e *Executor) Call(ctx context.Context, c Call) *tool.Result {
	return e.call(ctx, c, nil, &grants{})
}

func (e *Executor) call(ctx context.Context, in Call, parent *call, g *grants) *tool.Result {
	c := &call{in: in, parent: parent, grants: g, name: in.Tool, started: time.Now()}
	c.host.e, c.host.c = e, c
	if c.in.ID == "" {
		c.in.ID = e.newID()
	}
	if c.in.Conversation == "" {
		c.in.Conversation = c.in.Session
	}
	if parent != nil {
		c.depth, c.clock.parent = parent.depth+1, &parent.clock
	}
	ctx, c.cancel = context.WithCancelCause(ctx)
	defer c.cancel(nil)
	if err := e.enter(c); err != nil {
		r := refuse(err)
		r.Meta.CallID = c.in.ID
		return r
	}
	defer e.leave(c)
	r := e.handler(ctx, c)
	c.fill(r)
	return r
}

// maxIDStep bounds how far apart two IDs of one executor are that follow each
// other.
const maxIDStep = 1 << 20

// newID gives "call_" and 16 hexadecimal digits. They begin at a random number
// and rise by random steps: rows that are written together then stand together
// in the record's index, where IDs all over would each touch a page of their own.
func (e *Executor) newID() string {
	const digits = "0123456789abcdef"
	id := [21]byte{'c', 'a', 'l', 'l', '_'}
	n := e.lastID.Add(1 + rand.Uint64N(maxIDStep))
	for i := len(id) - 1; i >= 5; i-- {
		id[i] = digits[n&15]
		n >>= 4
	}
	return string(id[:])
}

// enter lists the call as running. Inner calls of a call that is being drained
// are still let in.
func (e *Executor) enter(c *call) error {
	if c.depth > maxDepth {
		return tooDeep(c.depth)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing && c.parent == nil {
		return tool.Errorf(tool.Cancelled, "toolyard is shutting down").WithHint("Call again once it is back.")
	}
	if c.parent != nil && e.running[c.parent.in.ID] != c.parent {
		return tool.Errorf(tool.Cancelled, "the call that makes this one has ended")
	}
	if e.running[c.in.ID] != nil {
		return tool.Errorf(tool.ParameterError, "a call with the ID %q is running already", c.in.ID).WithHint("Leave the ID out, or use one that is new.")
	}
	e.running[c.in.ID] = c
	return nil
}

func (e *Executor) leave(c *call) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.running, c.in.ID)
	if e.closing && len(e.running) == 0 {
		close(e.idle)
	}
}

// Cancel ends a running call and reports whether there was one.
func (e *Executor) Cancel(callID string) bool {
	e.mu.Lock()
	c := e.running[callID]
	e.mu.Unlock()
	if c == nil {
		return false
	}
	c.cancel(errCancelled)
	return true
}

// Running lists the calls in flight, oldest first. Their arguments are
// redacted.
func (e *Executor) Running() []store.Call {
	list := []store.Call{}
	for _, c := range e.inFlight() {
		list = append(list, e.recorder.runningRow(c))
	}
	slices.SortFunc(list, func(a, b store.Call) int { return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID)) })
	return list
}

func (e *Executor) inFlight() []*call {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Values(e.running))
}

// Stats sums up a tool's calls ("" means every tool) over a window of at most
// an hour, in whole minutes. Zero or more than an hour means since the start.
func (e *Executor) Stats(name string, window time.Duration) []tool.Stats {
	return e.meter.stats(name, window)
}

// MetricsSnapshot gives the counters of every tool over a window, as Stats does.
func (e *Executor) MetricsSnapshot(window time.Duration) []ToolMetrics {
	return e.meter.snapshot(window)
}

// flushMetrics is how often counters go to the store.
const flushMetrics = 15 * time.Second

// Run writes the counters of every minute to the store, and records calls that
// take long as running, until ctx is done.
func (e *Executor) Run(ctx context.Context) error {
	tick := time.NewTicker(longRunning)
	defer tick.Stop()
	flushed := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for _, c := range e.inFlight() {
			e.recorder.late(ctx, c)
		}
		if e.store != nil && time.Since(flushed) >= flushMetrics {
			flushed = time.Now()
			if err := e.meter.flush(ctx, e.store); err != nil && ctx.Err() == nil {
				e.log.Error("metrics are not stored", "err", err)
			}
		}
	}
}

// Close takes no more calls, waits for those in flight until ctx is done, then
// cancels them and waits for the time that a tool has to stop, and flushes the
// record. A second Close returns at once.
func (e *Executor) Close(ctx context.Context) error {
	e.mu.Lock()
	if e.closing {
		e.mu.Unlock()
		return nil
	}
	e.closing = true
	if len(e.running) == 0 {
		close(e.idle)
	}
	e.mu.Unlock()
	var err error
	select {
	case <-e.idle:
	case <-ctx.Done():
		err = e.stopAll()
	}
	e.workers.stop()
	if e.store == nil {
		return err
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	return errors.Join(err, e.meter.flush(last, e.store), e.store.Flush(last))
}

// stopAll cancels what runs and waits a little longer than a tool may take.
func (e *Executor) stopAll() error {
	for _, c := range e.inFlight() {
		c.cancel(errClosing)
	}
	t := time.NewTimer(grace + time.Second)
	defer t.Stop()
	select {
	case <-e.idle:
		return nil
	case <-t.C:
		return errors.New("calls did not stop in time")
	}
}
