package validate

import (
	"fmt"
	"slices"
	"strings"
)

func (r *run) checkObject(at int32, s *schema, inner *marks, out *faults) bool {
	n := &r.doc.nodes[at]
	ok := true
	present := uint64(0)
	count := 0
	for i, c := int32(0), n.first; i < n.count; i, c = i+1, r.doc.nodes[c].next {
		child := &r.doc.nodes[c]
		if child.dropped {
			inner.set(i)
			continue
		}
		count++
		good, bit, looked := r.checkMember(c, s, at, out)
		present |= bit
		ok = good && ok
		if looked {
			inner.set(i)
		}
		if !ok && out == nil {
			return false
		}
	}
	ok = r.checkRequired(at, s, present, out) && ok
	if count < s.minMembers || s.maxMembers >= 0 && count > s.maxMembers {
		out.add(r, "an object of "+span(s.minMembers, s.maxMembers, "member"), plural(count, "member"))
		ok = false
	}
	ok = r.checkDependent(at, s, inner, out) && ok
	if s.unevaluated == nil || inner == nil || !ok && out == nil {
		return ok
	}
	for i, c := int32(0), n.first; i < n.count; i, c = i+1, r.doc.nodes[c].next {
		if !inner.seen[i] {
			inner.set(i)
			ok = r.checkKey(c, s.unevaluated, s, out) && ok
		}
	}
	return ok
}

// checkMember holds one member against what s says about its name. looked says
// whether a keyword of s spoke of it.
func (r *run) checkMember(c int32, s *schema, at int32, out *faults) (ok bool, bit uint64, looked bool) {
	key := r.doc.nodes[c].key
	ok = true
	if m := s.members[key]; m != nil {
		bit = m.bit
		if m.schema != nil {
			looked = true
			ok = r.checkKey(c, m.schema, s, out)
		}
	}
	for i := range s.patterns {
		if p := &s.patterns[i]; p.pattern.re != nil && p.pattern.re.MatchString(key) {
			looked = true
			ok = r.checkKey(c, p.schema, s, out) && ok
		}
	}
	if !looked && s.additional != nil {
		looked = true
		ok = r.checkKey(c, s.additional, s, out) && ok
	}
	if s.names != nil && !r.checkName(key, s.names) {
		r.pushKey(key)
		out.add(r, "a name that is "+s.names.describe(), shorten(fmt.Sprintf("%q", key)))
		r.pop()
		ok = false
	}
	return ok, bit, looked
}

func (r *run) checkKey(c int32, s *schema, parent *schema, out *faults) bool {
	r.pushKey(r.doc.nodes[c].key)
	defer r.pop()
	if s.never {
		out.add(r, parent.unknown(r.doc.nodes[c].key), r.doc.shown(c))
		return false
	}
	return r.check(c, s, nil, out)
}

// checkName holds a name against propertyNames: it is a value of its own, in a
// document of its own.
func (r *run) checkName(key string, s *schema) bool {
	sub := run{scope: slices.Clone(r.scope), depth: r.depth, steps: r.steps, limit: r.limit}
	quoted := string(appendString(nil, key))
	if sub.doc.parse(quoted) != nil {
		return false
	}
	fits := sub.check(0, s, nil, nil)
	r.steps, r.over = sub.steps, r.over || sub.over
	return fits
}

func (r *run) checkRequired(at int32, s *schema, present uint64, out *faults) bool {
	missing := s.requiredBits &^ present
	if missing == 0 && s.requiredMore == nil {
		return true
	}
	ok := true
	for i, name := range s.required {
		if i < 64 {
			if missing&(1<<i) == 0 {
				continue
			}
		} else if _, there := r.doc.member(at, name); there {
			continue
		}
		ok = false
		if out == nil {
			return false
		}
		r.missing(s, name, out)
	}
	return ok
}

func (r *run) missing(s *schema, name string, out *faults) {
	expected := "a value (required)"
	for _, f := range s.flat {
		if m := f.members[name]; m != nil && m.schema != nil {
			expected = m.schema.describe() + " (required)"
		}
	}
	r.pushKey(name)
	out.add(r, expected, "nothing")
	r.pop()
}

func (r *run) checkDependent(at int32, s *schema, inner *marks, out *faults) bool {
	if len(s.dependentRequired) == 0 && len(s.dependentSchemas) == 0 {
		return true
	}
	ok := true
	for key, names := range sorted(s.dependentRequired) {
		if _, there := r.doc.member(at, key); !there {
			continue
		}
		for _, name := range names {
			if _, there := r.doc.member(at, name); !there {
				r.pushKey(name)
				out.add(r, fmt.Sprintf("a value (required where %s is given)", shorten(key)), "nothing")
				r.pop()
				ok = false
			}
		}
	}
	for key, sub := range sorted(s.dependentSchemas) {
		if _, there := r.doc.member(at, key); there {
			ok = r.check(at, sub, inner, out) && ok
		}
	}
	return ok
}

// unknown says what was expected where a name is not one of the object's.
func (s *schema) unknown(key string) string {
	own := s.own
	if len(own) == 0 {
		return "no arguments here"
	}
	candidates := slices.Clone(own)
	for alias := range s.alias {
		candidates = append(candidates, alias)
	}
	name, near := Nearest(key, candidates)
	if real, isAlias := s.alias[name]; isAlias {
		name = fmt.Sprintf("%s (the same as %s)", name, real)
	}
	if near {
		return "a known argument: did you mean " + name + "?"
	}
	const most = 12
	if len(own) <= most {
		return "a known argument: one of " + strings.Join(own, ", ")
	}
	return "a known argument: the nearest is " + name
}
