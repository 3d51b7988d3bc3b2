package validate

import (
	"fmt"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
)

// prepare finds out, once, what of a schema speaks of the same value, and where
// aliases and defaults can apply at all.
func (c *compiler) prepare(aliases map[string]string) {
	for _, s := range c.order {
		s.flat = flatten(s)
		s.inPlaceToo = len(s.flat) > 1 || s.not != nil
	}
	for _, s := range c.order {
		s.prepareNames(aliases)
		s.prepareDefaults()
	}
	for changed := true; changed; { // upwards, until nothing is new
		changed = false
		for i := len(c.order) - 1; i >= 0; i-- {
			s := c.order[i]
			touches, defaults := len(s.alias) > 0, len(s.ownDefaults) > 0
			for _, f := range s.flat {
				touches = touches || f.touches
				defaults = defaults || f.defaultsBelow
				for _, sub := range f.below() {
					touches = touches || sub.touches
					defaults = defaults || sub.defaultsBelow
				}
			}
			if touches != s.touches || defaults != s.defaultsBelow {
				s.touches, s.defaultsBelow, changed = touches, defaults, true
			}
		}
	}
}

func flatten(s *schema) []*schema {
	list := []*schema{s}
	for i := 0; i < len(list); i++ {
		for _, next := range list[i].inPlace() {
			if !slices.Contains(list, next) {
				list = append(list, next)
			}
		}
	}
	return list
}

func (s *schema) prepareNames(aliases map[string]string) {
	seen := map[string]bool{}
	for _, f := range s.flat {
		for _, name := range propertyOrder(f.src) {
			if m := f.members[name]; m != nil && m.schema != nil && !m.schema.never && !seen[name] {
				seen[name] = true
				s.own = append(s.own, name)
			}
		}
	}
	for alias, own := range aliases {
		if seen[own] && !seen[alias] {
			if s.alias == nil {
				s.alias = map[string]string{}
			}
			s.alias[alias] = own
		}
	}
}

// propertyOrder lists the properties as they were declared, then the others.
func propertyOrder(src *jsonschema.Schema) []string {
	order := slices.Clone(src.PropertyOrder)
	for name := range sorted(src.Properties) {
		if !slices.Contains(order, name) {
			order = append(order, name)
		}
	}
	return order
}

// prepareDefaults keeps the defaults that fit their own schema; schemas of
// others often carry one that does not.
func (s *schema) prepareDefaults() {
	for _, name := range propertyOrder(s.src) {
		m := s.members[name]
		if m == nil || m.schema == nil || m.schema.src.Default == nil {
			continue
		}
		probe := run{}
		if probe.doc.parse(string(m.schema.src.Default)) != nil || !probe.check(0, m.schema, nil, nil) {
			continue
		}
		n := probe.doc.nodes[0]
		s.ownDefaults = append(s.ownDefaults, defaultMember{key: name, text: n.text, kind: n.kind})
	}
}

// children calls each for the members and items of a value, with every schema
// that s has for them.
func (r *run) children(at int32, s *schema, each func(c int32, i int, sub *schema)) {
	n := r.doc.nodes[at]
	for i, c := int32(0), n.first; i < n.count; i, c = i+1, r.doc.nodes[c].next {
		switch n.kind {
		case kindObject:
			key, known := r.doc.nodes[c].key, false
			if m := s.members[key]; m != nil && m.schema != nil {
				known = true
				each(c, -1, m.schema)
			}
			for _, p := range s.patterns {
				if p.pattern.re != nil && p.pattern.re.MatchString(key) {
					known = true
					each(c, -1, p.schema)
				}
			}
			switch {
			case known:
			case s.additional != nil:
				each(c, -1, s.additional)
			case s.unevaluated != nil:
				each(c, -1, s.unevaluated)
			}
		case kindArray:
			switch {
			case int(i) < len(s.prefix):
				each(c, int(i), s.prefix[i])
			case s.items != nil:
				each(c, int(i), s.items)
			case s.unevaluatedItems != nil:
				each(c, int(i), s.unevaluatedItems)
			}
		}
	}
}

// rename puts members that stand under an alias under their own names, here and
// below. Both given with the same value is fine; with different ones is a fault.
func (r *run) rename(at int32, s *schema, out *faults) {
	n := r.doc.nodes[at]
	if n.kind != kindObject && n.kind != kindArray || !r.enter() {
		return
	}
	defer func() { r.depth-- }()
	if n.kind == kindObject && len(s.alias) > 0 {
		for i, c := int32(0), n.first; i < n.count; i, c = i+1, r.doc.nodes[c].next {
			alias := r.doc.nodes[c].key
			own, isAlias := s.alias[alias]
			if !isAlias || r.doc.nodes[c].dropped {
				continue
			}
			r.changed = true
			twin, both := r.doc.member(at, own)
			if !both {
				r.doc.nodes[c].key = own
				continue
			}
			r.doc.nodes[c].dropped = true
			if !r.doc.equal(c, &r.doc, twin) {
				r.pushKey(own)
				out.add(r, fmt.Sprintf("one value, for %s is another name of it", alias),
					fmt.Sprintf("%s and %s", r.doc.shown(twin), r.doc.shown(c)))
				r.pop()
			}
		}
	}
	for _, f := range s.flat {
		r.children(at, f, func(c int32, i int, sub *schema) {
			if !sub.touches {
				return
			}
			r.path = append(r.path, step{key: r.doc.nodes[c].key, index: i})
			r.rename(c, sub, out)
			r.pop()
		})
	}
}

// defaults adds the members that are absent and have a default, here and below:
// those of s, of what always applies to the same value, and of the branches
// that do.
func (r *run) defaults(at int32, s *schema) {
	k := r.doc.nodes[at].kind
	if k != kindObject && k != kindArray || !s.defaultsBelow || !r.enter() {
		return
	}
	defer func() { r.depth-- }()
	if k == kindObject {
		for i := range s.ownDefaults {
			def := &s.ownDefaults[i]
			if _, there := r.doc.member(at, def.key); there {
				continue
			}
			c := int32(len(r.doc.nodes))
			r.doc.nodes = append(r.doc.nodes, node{key: def.key, text: def.text, kind: def.kind})
			if def.kind == kindObject || def.kind == kindArray {
				r.doc.nodes[c].kind = kindString // written as it is
			}
			r.doc.link(at, c)
			r.changed = true
		}
	}
	r.children(at, s, func(c int32, _ int, sub *schema) { r.defaults(c, sub) })
	if len(s.flat) == 1 {
		return
	}
	if s.ref != nil {
		r.defaults(at, s.ref)
	}
	for _, sub := range s.allOf {
		r.defaults(at, sub)
	}
	for _, list := range [][]*schema{s.anyOf, s.oneOf} {
		for _, sub := range list {
			if sub.defaultsBelow && r.check(at, sub, nil, nil) {
				r.defaults(at, sub)
				break
			}
		}
	}
	if s.cond != nil {
		branch := s.els
		if r.check(at, s.cond, nil, nil) {
			branch = s.then
		}
		if branch != nil {
			r.defaults(at, branch)
		}
	}
}
