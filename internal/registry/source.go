package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/toolyard/toolyard/tool"
)

// Source is where tools come from: a fixed list, the toolbox, an MCP server,
// skills, workers.
type Source interface {
	// Name is short and unique; tools whose names clash get it as prefix.
	Name() string
	// List gives all tools that there are now. A tool that is the same value as
	// last time is left alone, another value under the same name replaces it. An
	// error means that the list cannot be had: the last one stays.
	List(ctx context.Context) ([]tool.Tool, error)
}

// Changer is a source that tells when its list has changed. The channel is
// closed when there will be no more changes.
type Changer interface {
	Changes() <-chan struct{}
}

// Static is a source with a fixed list.
func Static(name string, tools []tool.Tool) Source { return static{name, tools} }

type static struct {
	name  string
	tools []tool.Tool
}

func (s static) Name() string                              { return s.name }
func (s static) List(context.Context) ([]tool.Tool, error) { return s.tools, nil }

// Composite keeps a registry current with several sources. It is safe for
// concurrent use. A name that another source has already is resolved by the
// source's name as prefix and reported; a source that fails keeps its last
// list; a tool that cannot be loaded stops no other.
type Composite struct {
	registry *Registry
	report   func(Report)

	mu      sync.Mutex
	sources []*sourced
	begin   func(*sourced) // watches one more source; nil unless it runs
}

type sourced struct {
	source Source
	mu     sync.Mutex        // one sync at a time
	have   map[string]loaded // by the name that the source gives
	gone   chan struct{}     // closed when it is removed
}

type loaded struct {
	tool tool.Tool
	id   string
}

// Report is what one look at a source brought.
type Report struct {
	Source   string
	Err      error // the list could not be had; everything else is as before
	Added    []string
	Replaced []string
	Removed  []string
	Failed   map[string]error  // by full name
	Renamed  map[string]string // a clash: the name it wanted, the name it got
}

// Changed reports whether anything is different from before.
func (r Report) Changed() bool {
	return len(r.Added)+len(r.Replaced)+len(r.Removed)+len(r.Failed) > 0
}

// NewComposite makes a composite of no sources. report, which may be nil, is
// told of each look that changed or failed.
func NewComposite(r *Registry, report func(Report)) *Composite {
	if report == nil {
		report = func(Report) {}
	}
	return &Composite{registry: r, report: report}
}

// Add takes a source in. Its tools come with the next Sync or Run, or at once
// where Run goes on.
func (c *Composite) Add(source Source) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &sourced{source: source, have: map[string]loaded{}, gone: make(chan struct{})}
	c.sources = append(c.sources, s)
	if c.begin != nil {
		c.begin(s)
	}
}

// Remove takes a source and its tools away, waiting for calls as
// [Registry.Remove] does.
func (c *Composite) Remove(ctx context.Context, name string) error {
	c.mu.Lock()
	i := slices.IndexFunc(c.sources, func(s *sourced) bool { return s.source.Name() == name })
	if i < 0 {
		c.mu.Unlock()
		return fmt.Errorf("no source %q", name)
	}
	s := c.sources[i]
	c.sources = slices.Delete(c.sources, i, i+1)
	c.mu.Unlock()
	close(s.gone)
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for key, l := range s.have {
		delete(s.have, key)
		errs = append(errs, c.registry.Remove(ctx, l.id))
	}
	return errors.Join(errs...)
}

// Sync looks at every source once, in the order in which they were added.
func (c *Composite) Sync(ctx context.Context) []Report {
	c.mu.Lock()
	sources := slices.Clone(c.sources)
	c.mu.Unlock()
	var reports []Report
	for _, s := range sources {
		reports = append(reports, c.sync(ctx, s))
	}
	return reports
}

// Bounds of how soon a source that failed is looked at again.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// Run keeps the registry current with the sources: it looks at each at once, then
// whenever it says that it changed, and again after a while if it failed. It
// returns when ctx is done.
func (c *Composite) Run(ctx context.Context) {
	var watchers sync.WaitGroup
	begin := func(s *sourced) { watchers.Go(func() { c.watch(ctx, s) }) }
	c.mu.Lock()
	for _, s := range c.sources {
		begin(s)
	}
	c.begin = begin
	c.mu.Unlock()
	<-ctx.Done()
	c.mu.Lock()
	c.begin = nil
	c.mu.Unlock()
	watchers.Wait()
}

func (c *Composite) watch(ctx context.Context, s *sourced) {
	var changes <-chan struct{}
	if changer, ok := s.source.(Changer); ok {
		changes = changer.Changes()
	}
	delay := firstRetry
	for {
		var again <-chan time.Time
		if report := c.sync(ctx, s); report.Err != nil {
			again = time.After(delay)
			delay = min(2*delay, lastRetry)
		} else {
			delay = firstRetry
		}
		select {
		case <-ctx.Done():
			return
		case <-s.gone:
			return
		case <-again:
		case _, open := <-changes:
			if !open {
				changes = nil
				if again == nil {
					return
				}
			}
		}
	}
}

// sync makes the registry hold what the source lists now.
func (c *Composite) sync(ctx context.Context, s *sourced) Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.gone:
		return Report{Source: s.source.Name()}
	default:
	}
	report := Report{Source: s.source.Name(), Failed: map[string]error{}, Renamed: map[string]string{}}
	tools, err := list(ctx, s.source)
	if err != nil {
		report.Err = fmt.Errorf("list of %s: %w", report.Source, err)
		c.report(report)
		return report
	}
	listed := map[string]bool{}
	for _, t := range requiredFirst(tools) {
		key := keyOf(t)
		if listed[key] {
			report.Failed[t.Spec().FullName()] = fmt.Errorf("%s lists it twice", report.Source)
			continue
		}
		listed[key] = true
		c.load(ctx, s, t, key, &report)
	}
	for key, l := range s.have {
		if listed[key] {
			continue
		}
		delete(s.have, key)
		report.Removed = append(report.Removed, l.id)
		// Its calls may run on: nothing here waits for them.
		drained, cancel := context.WithCancel(ctx)
		cancel()
		_ = c.registry.Remove(drained, l.id)
	}
	slices.Sort(report.Removed)
	if report.Changed() {
		c.report(report)
	}
	return report
}

func list(ctx context.Context, source Source) (tools []tool.Tool, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return source.List(ctx)
}

func keyOf(t tool.Tool) string {
	tenant, project := ownerOf(t)
	return ID(t.Spec().FullName(), tenant, project)
}

// load brings one tool in, under another name if its own is taken.
func (c *Composite) load(ctx context.Context, s *sourced, t tool.Tool, key string, report *Report) {
	old, had := s.have[key]
	if had && same(old.tool, t) {
		if e, ok := c.registry.entryOf(old.id); ok && e.State != Failed {
			return
		}
	}
	full := t.Spec().FullName()
	spec, id := c.place(s, t, key)
	if wanted := spec.FullName(); wanted != full {
		report.Renamed[full] = wanted
	}
	s.have[key] = loaded{tool: t, id: id}
	if had {
		if err := c.registry.replace(ctx, t, spec); err != nil {
			report.Failed[spec.FullName()] = err
			return
		}
		report.Replaced = append(report.Replaced, spec.FullName())
		return
	}
	if err := c.registry.add(ctx, t, spec); err != nil {
		report.Failed[spec.FullName()] = err
		if _, listed := c.registry.entryOf(id); !listed {
			delete(s.have, key)
		}
		return
	}
	report.Added = append(report.Added, spec.FullName())
}

// same reports whether two tools are one value. Values that cannot be compared
// are never the same.
func same(a, b tool.Tool) (equal bool) {
	defer func() {
		if recover() != nil {
			equal = false
		}
	}()
	return a == b
}

// place finds the name under which a tool of s goes: its own, or where another
// source has that, one with this source's name in front.
func (c *Composite) place(s *sourced, t tool.Tool, key string) (*tool.Spec, string) {
	if old, had := s.have[key]; had {
		if e, ok := c.registry.entryOf(old.id); ok {
			spec := *t.Spec()
			spec.Source, spec.Name = e.Spec.Source, e.Spec.Name
			if spec.FullName() == t.Spec().FullName() {
				return t.Spec(), old.id
			}
			return &spec, old.id
		}
	}
	tenant, project := ownerOf(t)
	free := func(spec *tool.Spec) (string, bool) {
		id := ID(spec.FullName(), tenant, project)
		_, taken := c.registry.entryOf(id)
		return id, !taken
	}
	if id, ok := free(t.Spec()); ok {
		return t.Spec(), id
	}
	spec := *t.Spec()
	prefix := s.source.Name()
	if spec.Source == "" || spec.Source != prefix {
		spec.Source = prefix
	}
	for n := 1; ; n++ {
		if id, ok := free(&spec); ok {
			return &spec, id
		}
		spec.Name = fmt.Sprintf("%s_%s", prefix, t.Spec().Name)
		if n > 1 {
			spec.Name = fmt.Sprintf("%s_%d", spec.Name, n)
		}
	}
}

// entryOf gives the entry of an ID.
func (r *Registry) entryOf(id string) (Entry, bool) {
	s := r.slot(id)
	if s == nil {
		return Entry{}, false
	}
	return s.entry(), true
}
