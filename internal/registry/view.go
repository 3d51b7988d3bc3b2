package registry

import (
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/validate"
	"github.com/toolyard/toolyard/tool"
)

// view is an unchangeable picture of the registry, made anew after each change.
type view struct {
	system   []*slot
	tenants  map[string][]*slot
	projects map[owner][]*slot

	systemNames  names
	tenantNames  map[string]names
	projectNames map[owner]names
}

type owner struct{ tenant, project string }

// names are all spellings of a group of tools.
type names map[string]named

type named struct {
	slot *slot
	rank int // 0 its own name, 1 an alias, 2 the name in another system
}

func newView(slots []*slot) *view {
	v := &view{
		tenants:      map[string][]*slot{},
		projects:     map[owner][]*slot{},
		tenantNames:  map[string]names{},
		projectNames: map[owner]names{},
	}
	slices.SortFunc(slots, func(a, b *slot) int { return strings.Compare(a.id, b.id) })
	for _, s := range slots {
		switch s.scope {
		case tool.ScopeSystem:
			v.system = append(v.system, s)
		case tool.ScopeTenant:
			v.tenants[s.tenant] = append(v.tenants[s.tenant], s)
		default:
			o := owner{s.tenant, s.project}
			v.projects[o] = append(v.projects[o], s)
		}
	}
	v.systemNames = spell(v.system)
	for t, list := range v.tenants {
		v.tenantNames[t] = spell(list)
	}
	for o, list := range v.projects {
		v.projectNames[o] = spell(list)
	}
	return v
}

func spell(slots []*slot) names {
	n := make(names, 3*len(slots))
	add := func(name string, s *slot, rank int) {
		if old, taken := n[name]; !taken || rank < old.rank {
			n[name] = named{s, rank}
		}
	}
	for _, s := range slots {
		add(s.full, s, 0)
		add(WireName(s.full), s, 0)
		for _, alias := range s.spec.Load().Aliases {
			add(alias, s, 1)
		}
	}
	for other, ours := range otherNames {
		if target, ok := n[ours]; ok && target.rank == 0 {
			add(other, target.slot, 2)
		}
	}
	return n
}

// rebuild has the view made anew when somebody looks: of a thousand tools that come
// one after the other each would make all the names again. The lock is held.
func (r *Registry) rebuild() { r.stale.Store(true) }

// look gives the view as it is now. The lock is not held.
func (r *Registry) look() *view {
	if !r.stale.Load() {
		return r.view.Load()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stale.Load() {
		slots := make([]*slot, 0, len(r.slots))
		for _, s := range r.slots {
			slots = append(slots, s)
		}
		r.view.Store(newView(slots))
		r.stale.Store(false)
	}
	return r.view.Load()
}

// find resolves a name for a caller: own names before aliases, and of equals
// the system's, then the tenant's, then the project's.
func (v *view) find(name, tenant, project string) *slot {
	if n, ok := v.systemNames[name]; ok && n.rank == 0 {
		return n.slot
	}
	for i, spelled := range spellings(name) {
		best := named{rank: 3}
		if n, ok := v.systemNames[spelled]; ok {
			best = n
		}
		if n, ok := v.tenantNames[tenant][spelled]; ok && n.rank < best.rank {
			best = n
		}
		if n, ok := v.projectNames[owner{tenant, project}][spelled]; ok && n.rank < best.rank {
			best = n
		}
		if best.slot != nil && (i == 0 || best.rank <= 1) {
			return best.slot
		}
	}
	return nil
}

// visible lists the tools that a caller sees, sorted.
func (v *view) visible(tenant, project string) []*slot {
	t, p := v.tenants[tenant], v.projects[owner{tenant, project}]
	if len(t) == 0 && len(p) == 0 {
		return v.system
	}
	list := slices.Concat(v.system, t, p)
	slices.SortStableFunc(list, func(a, b *slot) int { return strings.Compare(a.full, b.full) })
	return list
}

// Handle is a tool in use. Release must be called once the call has ended.
type Handle struct {
	Tool      tool.Tool
	Spec      *tool.Spec // what the registry knows the tool by; prefer it to Tool.Spec()
	Validator *validate.Validator

	slot     *slot
	version  *version
	released bool
}

// Release gives the tool back. A second Release does nothing. It is called from
// one goroutine.
func (h *Handle) Release() {
	if h.released {
		return
	}
	h.released = true
	h.slot.inFlight.Add(-1)
	h.version.release()
}

// Acquire finds a tool of the system, or of the tenant and project "", by any
// of its names and takes it into use. It fails with TOOL_NOT_FOUND, naming the
// nearest, or TOOL_DISABLED.
func (r *Registry) Acquire(name string) (*Handle, error) { return r.AcquireFor(name, "", "") }

// AcquireFor is [Registry.Acquire] as a tenant and a project see the tools.
func (r *Registry) AcquireFor(name, tenant, project string) (*Handle, error) {
	for {
		s := r.look().find(name, tenant, project)
		if s == nil {
			return nil, r.notFound(name, tenant, project, nil)
		}
		st := s.state.Load()
		if st.state == Unregistered {
			continue // the next view is without it
		}
		v := s.current.Load()
		if st.state != Ready || v == nil {
			return nil, unusable(s, st)
		}
		if v.acquire() {
			s.inFlight.Add(1)
			return &Handle{Tool: v.tool, Spec: v.spec, Validator: v.validator, slot: s, version: v}, nil
		}
	}
}

func unusable(s *slot, st *status) error {
	err := tool.Errorf(tool.ToolDisabled, "the tool %s is %s", s.full, st.state)
	if st.cause != "" {
		err.Message += ": " + st.cause
	}
	if st.state == Initializing || st.state == Registered {
		err.Retryable = true
		err.Hint = "It is being started. Call again in a moment."
	} else {
		err.Hint = "Use another tool, or ask the operator to enable it."
	}
	return err.WithDetail("state", string(st.state))
}

// maxNearest is how many names an unknown one is answered with.
const maxNearest = 3

// NotFound is the TOOL_NOT_FOUND for a caller who may use only what allowed
// says (nil means all): it names the nearest of those.
func (r *Registry) NotFound(name, tenant, project string, allowed func(*tool.Spec) bool) error {
	return r.notFound(name, tenant, project, allowed)
}

func (r *Registry) notFound(name, tenant, project string, allowed func(*tool.Spec) bool) error {
	near, close := r.nearest(name, tenant, project, maxNearest, allowed)
	err := tool.Errorf(tool.ToolNotFound, "there is no tool %q", cut(name))
	err.Hint = "Call one of the tools that are listed."
	if len(near) > 0 {
		err.Hint = "The nearest are " + strings.Join(near, ", ") + "."
		if close {
			err.Hint = "Did you mean " + near[0] + "?"
		}
		err = err.WithDetail("nearest", near)
	}
	return err
}

func cut(name string) string {
	const longest = 80
	if len(name) > longest {
		return strings.ToValidUTF8(name[:longest], "") + "…"
	}
	return name
}

// Nearest gives the full names of usable tools that are most like name.
func (r *Registry) Nearest(name, tenant, project string, limit int) []string {
	near, _ := r.nearest(name, tenant, project, limit, nil)
	return near
}

// nearest also says whether the first is like enough to be what was meant.
func (r *Registry) nearest(name, tenant, project string, limit int, allowed func(*tool.Spec) bool) (near []string, close bool) {
	name = cut(name)
	var candidates []string
	real := map[string]string{}
	for _, s := range r.look().visible(tenant, project) {
		spec := s.spec.Load()
		if s.state.Load().state != Ready || allowed != nil && !allowed(spec) {
			continue
		}
		for _, spelled := range slices.Concat([]string{s.full, spec.Name}, spec.Aliases) {
			if _, there := real[spelled]; !there {
				real[spelled] = s.full
				candidates = append(candidates, spelled)
			}
		}
	}
	if i := strings.LastIndex(name, ":"); i >= 0 && real[name] == "" && real[name[i+1:]] != "" {
		name = name[i+1:] // of another source than was said
	}
	_, close = validate.Nearest(name, candidates)
	for _, c := range validate.Rank(name, candidates) {
		if full := real[c]; !slices.Contains(near, full) {
			near = append(near, full)
		}
		if len(near) == limit {
			break
		}
	}
	return near, close
}
