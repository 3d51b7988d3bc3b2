package registry

import (
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard/tool"
)

// Entry is one tool as the registry lists it.
type Entry struct {
	ID       string
	Spec     *tool.Spec
	State    State
	Cause    string // of the state
	Since    time.Time
	Health   Health
	InFlight int // calls that run now
}

// Snapshot lists the tools of the system, of that tenant and of that project,
// sorted by full name, whatever their state.
func (r *Registry) Snapshot(tenant, project string) []Entry {
	slots := r.look().visible(tenant, project)
	list := make([]Entry, len(slots))
	for i, s := range slots {
		list[i] = s.entry()
	}
	return list
}

func (s *slot) entry() Entry {
	st := s.state.Load()
	return Entry{ID: s.id, Spec: s.spec.Load(), State: st.state, Cause: st.cause, Since: st.since, Health: st.health, InFlight: int(s.inFlight.Load())}
}

// Lookup gives the entry of a tool by any of its names.
func (r *Registry) Lookup(name, tenant, project string) (Entry, bool) {
	s := r.look().find(name, tenant, project)
	if s == nil {
		return Entry{}, false
	}
	return s.entry(), true
}

// Filter chooses tools. What is zero does not count; what is set must all hold.
type Filter struct {
	Tenant, Project string
	Name            string // any spelling
	Category        string
	State           State
	Effects         tool.Effects // all of these
	Tag             string
	Source          string
	Text            string // free text; the best match comes first
	// Allowed says which tools may be found. Nil means all.
	Allowed func(*tool.Spec) bool
}

// Find lists the tools that fit, by full name or, with Text, the best first.
func (r *Registry) Find(f Filter) []Entry {
	found := r.find(f)
	list := make([]Entry, len(found))
	for i, m := range found {
		list[i] = m.slot.entry()
	}
	return list
}

// find is [Registry.Find] with how well each fits.
func (r *Registry) find(f Filter) []match {
	v := r.look()
	var slots []*slot
	for _, s := range v.visible(f.Tenant, f.Project) {
		spec := s.spec.Load()
		switch {
		case f.Category != "" && !strings.EqualFold(spec.Category, f.Category),
			f.State != "" && s.state.Load().state != f.State,
			f.Effects&^spec.Effects != 0,
			f.Tag != "" && !slices.ContainsFunc(spec.Tags, func(t string) bool { return strings.EqualFold(t, f.Tag) }),
			f.Source != "" && spec.Source != f.Source,
			f.Allowed != nil && !f.Allowed(spec):
			continue
		}
		slots = append(slots, s)
	}
	if f.Name != "" {
		named := v.find(f.Name, f.Tenant, f.Project)
		slots = slices.DeleteFunc(slots, func(s *slot) bool { return s != named })
	}
	if f.Text != "" {
		return r.rank(v, f, slots)
	}
	list := make([]match, len(slots))
	for i, s := range slots {
		list[i].slot = s
	}
	return list
}

// Search finds ready tools by free text, the best first, at most limit (zero
// means 10), as the tenant and project "" see them. See [Registry.SearchFor].
func (r *Registry) Search(query string, limit int) []*tool.Spec {
	return r.SearchFor("", "", query, limit)
}

// SearchFor is [Registry.Search] for a tenant and a project.
func (r *Registry) SearchFor(tenant, project, query string, limit int) []*tool.Spec {
	found := r.Matches(Filter{Tenant: tenant, Project: project, Text: query}, limit)
	specs := make([]*tool.Spec, len(found))
	for i, m := range found {
		specs[i] = m.Spec
	}
	return specs
}

// Matches finds the ready tools that fit, at most limit (zero means 10), with how
// well each fits f.Text.
func (r *Registry) Matches(f Filter, limit int) []tool.Match {
	if limit <= 0 {
		limit = 10
	}
	f.State = Ready
	found := r.find(f)
	found = found[:min(limit, len(found))]
	list := make([]tool.Match, len(found))
	for i, m := range found {
		list[i] = tool.Match{Spec: m.slot.spec.Load(), Score: m.score}
	}
	return list
}

// rank orders slots by how well they match; those that do not match at all are
// left out. One that the text names comes first.
func (r *Registry) rank(v *view, f Filter, slots []*slot) []match {
	among := make(map[string]*slot, len(slots))
	for _, s := range slots {
		among[s.id] = s
	}
	var list []match
	for _, h := range r.index.Search(f.Text, -1, func(id string, _ *tool.Spec) bool { return among[id] != nil }) {
		list = append(list, match{among[h.ID], h.Score})
	}
	named := v.find(strings.TrimSpace(f.Text), f.Tenant, f.Project)
	if named == nil || among[named.id] != named {
		return list
	}
	first := match{named, 1}
	if len(list) > 0 {
		first.score = list[0].score
	}
	list = slices.DeleteFunc(list, func(m match) bool { return m.slot == named })
	return slices.Insert(list, 0, first)
}

// match is a tool that was found.
type match struct {
	slot  *slot
	score float64
}
