// Package registry keeps the tools: which there are, in which state, and under
// which names they answer. It does not know what a tool does, who calls it or
// whether it may.
package registry

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/toolyard/toolyard/internal/event"
	"github.com/toolyard/toolyard/internal/toolindex"
	"github.com/toolyard/toolyard/internal/validate"
	"github.com/toolyard/toolyard/tool"
)

// Config of a Registry. The zero value works.
type Config struct {
	// Bus gets tool_state events; nil means none.
	Bus *event.Bus
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// HealthEvery is how often [Registry.RunHealth] checks; zero means a minute.
	HealthEvery time.Duration
	// HealthTimeout bounds one check; zero means 10 s.
	HealthTimeout time.Duration
}

// Owned is a tool of a tenant or a project (tool.ScopeTenant, ScopeProject). A
// tool of that scope without it belongs to the tenant and project "".
type Owned interface {
	Owner() (tenant, project string)
}

// Registry holds the tools. It is safe for concurrent use; Acquire and Snapshot
// never wait for what a change does, only for its being entered.
type Registry struct {
	config Config
	view   atomic.Pointer[view]
	stale  atomic.Bool // the view is from before a change; set with mu held
	index  toolindex.Index

	mu        sync.Mutex
	slots     map[string]*slot // by ID
	listeners []func(string, Transition)
	changed   []func()
	pending   []notice // in order, not yet told
	telling   bool

	retired sync.WaitGroup // old versions that still run or close
}

// slot is the place of one tool, through all its versions.
type slot struct {
	id       string
	tenant   string
	project  string
	scope    tool.Scope // guarded by Registry.mu
	full     string
	current  atomic.Pointer[version] // nil before the first is ready
	state    atomic.Pointer[status]
	inFlight atomic.Int64

	spec atomic.Pointer[tool.Spec] // also of a failed one

	history []Transition // guarded by Registry.mu
}

// status is the part of a slot that changes together.
type status struct {
	state  State
	cause  string
	since  time.Time
	health Health
}

// version is one tool value. uses counts its calls; the high bit says that it
// takes no more.
type version struct {
	tool      tool.Tool
	spec      *tool.Spec
	validator *validate.Validator
	uses      atomic.Int64
	drained   chan struct{}
}

const retiredBit = int64(1) << 62

func (v *version) acquire() bool {
	for {
		n := v.uses.Load()
		if n&retiredBit != 0 {
			return false
		}
		if v.uses.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (v *version) release() {
	if v.uses.Add(-1) == retiredBit {
		close(v.drained)
	}
}

// retire lets no further call in.
func (v *version) retire() {
	if v.uses.Or(retiredBit) == 0 {
		close(v.drained)
	}
}

// New makes an empty registry.
func New(config Config) *Registry {
	if config.Now == nil {
		config.Now = time.Now
	}
	if config.HealthEvery <= 0 {
		config.HealthEvery = time.Minute
	}
	if config.HealthTimeout <= 0 {
		config.HealthTimeout = 10 * time.Second
	}
	r := &Registry{config: config, slots: map[string]*slot{}}
	r.view.Store(newView(nil))
	return r
}

// ID is what [Registry.Remove] and [Registry.SetEnabled] know a tool by: the
// full name, with the owner where there is one.
func ID(fullName, tenant, project string) string {
	if tenant == "" && project == "" {
		return fullName
	}
	return fullName + "@" + tenant + "/" + project
}

func ownerOf(t tool.Tool) (tenant, project string) {
	if t.Spec().Scope == tool.ScopeSystem {
		return "", ""
	}
	if o, ok := t.(Owned); ok {
		tenant, project = o.Owner()
	}
	if t.Spec().Scope == tool.ScopeTenant {
		project = ""
	}
	return tenant, project
}

// Add registers a tool, starts it and makes it ready, or disabled if it says
// that it is of no use here. A tool that cannot be had is listed as failed, with
// the reason that Add returns; adding it again is allowed. A name that is taken
// is a CONFLICT.
func (r *Registry) Add(ctx context.Context, t tool.Tool) error { return r.add(ctx, t, t.Spec()) }

func (r *Registry) add(ctx context.Context, t tool.Tool, spec *tool.Spec) error {
	if err := checkName(spec); err != nil {
		return err
	}
	s, err := r.open(t, spec)
	if err != nil {
		return err
	}
	v, err := r.prepare(ctx, t, spec)
	if err != nil {
		r.change(s, Failed, err.Error(), nil)
		return err
	}
	enabled, reason := isEnabled(ctx, t)
	r.mu.Lock()
	s.current.Store(v)
	r.mu.Unlock()
	r.change(s, Ready, "started", nil)
	if !enabled {
		r.change(s, Disabled, reason, nil)
	}
	return nil
}

// open makes the slot of a new tool, in state initializing.
func (r *Registry) open(t tool.Tool, spec *tool.Spec) (*slot, error) {
	tenant, project := ownerOf(t)
	full := spec.FullName()
	s := &slot{id: ID(full, tenant, project), tenant: tenant, project: project, scope: spec.Scope, full: full}
	s.spec.Store(spec)
	s.state.Store(&status{state: Registered, since: r.config.Now(), health: Health{Status: Healthy}})
	r.mu.Lock()
	if old := r.slots[s.id]; old != nil {
		if state := old.state.Load().state; state != Failed {
			r.mu.Unlock()
			return nil, tool.Errorf(tool.Conflict, "there is already a tool %s (%s)", full, state).
				WithHint("Replace it, or give the new one another source.")
		}
		r.step(old, Unregistered, "registered again", nil)
		s.history = slices.Clone(old.history)
	}
	r.slots[s.id] = s
	r.index.Put(s.id, spec)
	r.step(s, Initializing, "registered", map[string]string{"version": versionOf(spec)})
	r.rebuild()
	r.mu.Unlock()
	r.tell()
	return s, nil
}

// prepare compiles, checks what the tool needs, and starts it.
func (r *Registry) prepare(ctx context.Context, t tool.Tool, spec *tool.Spec) (*version, error) {
	validator, err := validate.Compile(spec)
	if err != nil {
		return nil, tool.Errorf(tool.ValidationError, "%v", err).WithHint("Correct the schema of the tool.")
	}
	if err := r.requirements(t, spec); err != nil {
		return nil, err
	}
	if err := start(ctx, t); err != nil {
		return nil, tool.Errorf(tool.ExecutionError, "starting %s: %v", spec.FullName(), err)
	}
	return &version{tool: t, spec: spec, validator: validator, drained: make(chan struct{})}, nil
}

func start(ctx context.Context, t tool.Tool) (err error) {
	starter, ok := t.(tool.Starter)
	if !ok {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return starter.Start(ctx)
}

func isEnabled(ctx context.Context, t tool.Tool) (enabled bool, reason string) {
	e, ok := t.(tool.Enabler)
	if !ok {
		return true, ""
	}
	defer func() {
		if p := recover(); p != nil {
			enabled, reason = false, fmt.Sprintf("panic: %v", p)
		}
	}()
	return e.Enabled(ctx)
}

// AddAll adds many tools, those that others require first. Each that fails is
// listed as failed and stops nobody; the errors come by full name.
func (r *Registry) AddAll(ctx context.Context, tools []tool.Tool) map[string]error {
	failed := map[string]error{}
	for _, t := range requiredFirst(tools) {
		if err := r.Add(ctx, t); err != nil {
			failed[t.Spec().FullName()] = err
		}
	}
	return failed
}

// Replace puts a new version in the place of a tool, or adds it if there is
// none. The new one is started first; if that fails the old one stays. Running
// calls finish on the old version, then it is closed. A disabled tool stays
// disabled, one in state error is ready again.
func (r *Registry) Replace(ctx context.Context, t tool.Tool) error {
	return r.replace(ctx, t, t.Spec())
}

func (r *Registry) replace(ctx context.Context, t tool.Tool, spec *tool.Spec) error {
	if err := checkName(spec); err != nil {
		return err
	}
	tenant, project := ownerOf(t)
	id := ID(spec.FullName(), tenant, project)
	r.mu.Lock()
	s := r.slots[id]
	r.mu.Unlock()
	if s == nil || s.current.Load() == nil {
		return r.add(ctx, t, spec)
	}
	v, err := r.prepare(ctx, t, spec)
	if err != nil {
		return err
	}
	r.mu.Lock()
	if r.slots[id] != s { // removed meanwhile
		r.mu.Unlock()
		r.retire(v)
		return tool.Errorf(tool.Conflict, "%s was removed while it was being replaced", id)
	}
	old := s.current.Swap(v)
	s.spec.Store(spec)
	r.index.Put(s.id, spec)
	s.scope = spec.Scope
	s.note(Transition{From: s.state.Load().state, To: s.state.Load().state, Time: r.config.Now(), Cause: "replaced",
		Context: map[string]string{"from": versionOf(old.spec), "to": versionOf(spec)}})
	r.rebuild()
	r.pending = append(r.pending, notice{id: s.id})
	r.mu.Unlock()
	r.retire(old)
	r.tell()
	if s.state.Load().state == Error {
		return r.change(s, Ready, "replaced", nil)
	}
	return nil
}

// closeTimeout bounds a tool's Close.
const closeTimeout = 10 * time.Second

// retire closes a version once its last call has ended.
func (r *Registry) retire(v *version) {
	v.retire()
	c, ok := v.tool.(tool.Closer)
	if !ok {
		return
	}
	r.retired.Go(func() {
		<-v.drained
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		defer func() { _ = recover() }() // a tool's panic is not ours
		_ = c.Close(ctx)                 // there is nobody left to tell
	})
}

// Remove takes a tool away: no call finds it from now on. It returns once the
// calls that run have ended; if ctx is done first it says how many still run,
// and the tool is closed after the last of them.
func (r *Registry) Remove(ctx context.Context, id string) error {
	r.mu.Lock()
	s := r.slots[id]
	if s == nil {
		r.mu.Unlock()
		return r.notFound(id, "", "", nil)
	}
	if err := legal(s.state.Load().state, Unregistered, s.full); err != nil {
		r.mu.Unlock()
		return err
	}
	delete(r.slots, id)
	r.index.Remove(id)
	r.step(s, Unregistered, "removed", nil)
	r.rebuild()
	v := s.current.Load()
	r.mu.Unlock()
	r.tell()
	if v == nil {
		return nil
	}
	r.retire(v)
	select {
	case <-v.drained:
		return nil
	case <-ctx.Done():
		return tool.Errorf(tool.TimeoutError, "%s is removed, but %d of its calls still run: %v", id, s.inFlight.Load(), context.Cause(ctx))
	}
}

// Close removes every tool and waits until all are closed or ctx is done.
func (r *Registry) Close(ctx context.Context) error {
	r.mu.Lock()
	ids := slices.Sorted(maps.Keys(r.slots))
	r.mu.Unlock()
	var waits sync.WaitGroup
	for _, id := range ids {
		waits.Go(func() { _ = r.Remove(ctx, id) }) // what remains is told below
	}
	waits.Wait()
	done := make(chan struct{})
	go func() { // ends with the last version, at most closeTimeout after its last call
		r.retired.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("some tools are not closed yet: %w", context.Cause(ctx))
	}
}

// SetEnabled switches a tool on or off. Switching to what it is already is
// nothing; a tool in state error can be switched off.
func (r *Registry) SetEnabled(id string, on bool, cause string) error {
	s := r.slot(id)
	if s == nil {
		return r.notFound(id, "", "", nil)
	}
	to := Disabled
	if on {
		to = Ready
	}
	if s.state.Load().state == to {
		return nil
	}
	if on && s.state.Load().state == Error {
		cause = "recovered: " + cause
	}
	return r.change(s, to, cause, nil)
}

// Fail puts a ready tool into state error; SetEnabled(id, true, …) brings it
// back.
func (r *Registry) Fail(id, cause string) error {
	s := r.slot(id)
	if s == nil {
		return r.notFound(id, "", "", nil)
	}
	return r.change(s, Error, cause, nil)
}

func (r *Registry) slot(id string) *slot {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.slots[id]
}

// OnChange calls f after the list of tools or what it says has changed: a tool
// came, went, was replaced or changed its state. f must be quick and may be
// called from any goroutine, never twice at once; the caller coalesces.
func (r *Registry) OnChange(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed = append(r.changed, f)
}

// OnTransition calls f after each transition, in their order. The rules of
// OnChange hold.
func (r *Registry) OnTransition(f func(id string, t Transition)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listeners = append(r.listeners, f)
}

// isOwnName says whether one of our tools may have a name. No regular
// expression: this runs at every start.
func isOwnName(name string) bool {
	const most = 64
	return name != "" && len(name) <= most && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

// isForeignName says whether a tool or source of another system may have a name.
func isForeignName(name string) bool {
	const most = 200 // characters
	return name != "" && utf8.RuneCountInString(name) <= most && !strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c == ':' || c == '@' })
}

// checkName refuses names that could not be called. Those of other systems may
// hold more than our own; [WireName] makes them fit.
func checkName(spec *tool.Spec) error {
	if spec.Source == "" && !isOwnName(spec.Name) {
		return tool.Errorf(tool.ParameterError, "%q is no name for a tool", spec.Name).
			WithHint("Use 1 to 64 letters, digits, '_' and '-'.")
	}
	if spec.Source != "" && (!isForeignName(spec.Name) || !isForeignName(spec.Source)) {
		return tool.Errorf(tool.ParameterError, "%q of source %q is no name for a tool", spec.Name, spec.Source).
			WithHint("Use no blanks, '@' or ':'.")
	}
	return nil
}

func versionOf(spec *tool.Spec) string {
	if spec.Version == "" {
		return "1.0.0"
	}
	return strings.TrimPrefix(spec.Version, "v")
}
