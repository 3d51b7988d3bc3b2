package validate

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// marks notes which members or items of one value a schema has looked at, for
// unevaluatedProperties and unevaluatedItems. nil notes nothing.
type marks struct{ seen []bool }

func (m *marks) set(i int32) {
	if m != nil {
		m.seen[i] = true
	}
}

func (m *marks) add(other *marks) {
	if m == nil || other == nil {
		return
	}
	for i, seen := range other.seen {
		m.seen[i] = m.seen[i] || seen
	}
}

// fresh makes marks for the same value, or nil if nobody wants any.
func (m *marks) fresh() *marks {
	if m == nil {
		return nil
	}
	return &marks{seen: make([]bool, len(m.seen))}
}

// check holds the value at against s. Faults go to out; with a nil out it stops
// at the first. What s looked at goes to outer if the value fits.
func (r *run) check(at int32, s *schema, outer *marks, out *faults) bool {
	if s.any {
		return true
	}
	if !r.enter() {
		return false
	}
	pushed := len(r.scope) == 0 || r.scope[len(r.scope)-1] != s.res
	if pushed {
		r.scope = append(r.scope, s.res)
	}
	ok := r.apply(at, s, outer, out)
	if pushed {
		r.scope = r.scope[:len(r.scope)-1]
	}
	r.depth--
	return ok
}

func (r *run) apply(at int32, s *schema, outer *marks, out *faults) bool {
	n := &r.doc.nodes[at]
	if s.never {
		out.add(r, "nothing here", r.doc.shown(at))
		return false
	}
	inner := outer
	if s.unevaluated != nil && n.kind == kindObject || s.unevaluatedItems != nil && n.kind == kindArray {
		inner = &marks{seen: make([]bool, n.count)}
	}
	if s.types != 0 && !r.fitsType(n, s.types) {
		expected := s.describe()
		if n.kind == kindString && out != nil && (s.types&kindArray != 0 && strings.HasPrefix(n.str(), "[") || s.types&kindObject != 0 && strings.HasPrefix(n.str(), "{")) {
			expected += " itself, not a string that holds it"
		}
		out.add(r, expected, r.doc.shown(at))
		return false // what else it says would only repeat this
	}
	ok := r.checkValue(at, s, out)
	if !ok && out == nil {
		return false
	}
	if s.inPlaceToo {
		ok = r.checkInPlace(at, s, inner, out) && ok
		if !ok && out == nil {
			return false
		}
	}
	switch n.kind {
	case kindObject:
		ok = r.checkObject(at, s, inner, out) && ok
	case kindArray:
		ok = r.checkArray(at, s, inner, out) && ok
	}
	if ok && inner != outer {
		outer.add(inner)
	}
	return ok
}

func (r *run) fitsType(n *node, types kind) bool {
	if n.kind&types != 0 {
		return true
	}
	return n.kind == kindNumber && types&kindInteger != 0 && isInteger(n.text)
}

// checkValue holds the value against enum, const and the keywords of numbers
// and strings.
func (r *run) checkValue(at int32, s *schema, out *faults) bool {
	n := &r.doc.nodes[at]
	ok := true
	if s.enum != nil && !s.enum.has(&r.doc, at) {
		out.add(r, s.enum.describe(&r.doc, at), r.doc.shown(at))
		ok = false
	}
	if s.konst != nil && !s.konst.has(&r.doc, at) {
		out.add(r, s.konst.describe(&r.doc, at), r.doc.shown(at))
		ok = false
	}
	switch {
	case n.kind == kindNumber && s.number:
		if !numberFits(n.text, s) {
			out.add(r, s.describe(), r.doc.shown(at))
			ok = false
		}
	case n.kind == kindString && (s.minLength > 0 || s.maxLength >= 0 || s.pattern != nil):
		str := n.str()
		if length := utf8.RuneCountInString(str); length < s.minLength || s.maxLength >= 0 && length > s.maxLength {
			out.add(r, "a string of "+span(s.minLength, s.maxLength, "character"), plural(length, "character"))
			ok = false
		}
		if s.pattern != nil && !s.pattern.match(str) {
			out.add(r, "a string that matches "+shorten(s.pattern.text), r.doc.shown(at))
			ok = false
		}
	}
	return ok
}

func numberFits(text string, s *schema) bool {
	src := s.src
	switch {
	case src.Minimum != nil && compare(text, *src.Minimum) < 0,
		src.Maximum != nil && compare(text, *src.Maximum) > 0,
		src.ExclusiveMinimum != nil && compare(text, *src.ExclusiveMinimum) <= 0,
		src.ExclusiveMaximum != nil && compare(text, *src.ExclusiveMaximum) >= 0,
		src.MultipleOf != nil && !isMultiple(text, *src.MultipleOf):
		return false
	}
	return true
}

// checkInPlace applies the schemas that speak of the same value.
func (r *run) checkInPlace(at int32, s *schema, inner *marks, out *faults) bool {
	ok := true
	if s.ref != nil && !r.check(at, s.ref, inner, out) {
		ok = false
	}
	if s.dynamicRef != nil && !r.check(at, r.dynamicTarget(s), inner, out) {
		ok = false
	}
	for _, sub := range s.allOf {
		if !ok && out == nil {
			return false
		}
		if !r.check(at, sub, inner, out) {
			ok = false
		}
	}
	if !ok && out == nil {
		return false
	}
	if len(s.anyOf) > 0 && !r.anyOf(at, s, inner, out) {
		ok = false
	}
	if len(s.oneOf) > 0 && !r.oneOf(at, s, inner, out) {
		ok = false
	}
	if s.not != nil && r.check(at, s.not, nil, nil) {
		out.add(r, "anything but "+s.not.describe(), r.doc.shown(at))
		ok = false
	}
	if s.cond != nil {
		branch := s.els
		tried := inner.fresh()
		if r.check(at, s.cond, tried, nil) {
			inner.add(tried)
			branch = s.then
		}
		if branch != nil && !r.check(at, branch, inner, out) {
			ok = false
		}
	}
	return ok
}

func (r *run) dynamicTarget(s *schema) *schema {
	if s.dynamic != "" {
		for _, res := range r.scope { // the outermost wins
			if target, ok := res.dynamic[s.dynamic]; ok {
				return target
			}
		}
	}
	return s.dynamicRef
}

func (r *run) anyOf(at int32, s *schema, inner *marks, out *faults) bool {
	fits := false
	for _, sub := range s.anyOf {
		tried := inner.fresh()
		if r.check(at, sub, tried, nil) {
			inner.add(tried)
			fits = true
			if inner == nil {
				return true
			}
		}
	}
	if !fits {
		r.noBranch(at, s.anyOf, out)
	}
	return fits
}

func (r *run) oneOf(at int32, s *schema, inner *marks, out *faults) bool {
	first := -1
	for i, sub := range s.oneOf {
		tried := inner.fresh()
		if !r.check(at, sub, tried, nil) {
			continue
		}
		if first >= 0 {
			out.add(r, fmt.Sprintf("exactly one of %d forms, and forms %d and %d both fit", len(s.oneOf), first+1, i+1), r.doc.shown(at))
			return false
		}
		first = i
		inner.add(tried)
	}
	if first < 0 {
		r.noBranch(at, s.oneOf, out)
	}
	return first >= 0
}

// noBranch says what was wrong where none of several forms fit: the faults of
// the nearest form, or all the forms if none is near.
func (r *run) noBranch(at int32, branches []*schema, out *faults) {
	if out == nil {
		return
	}
	var best faults
	found, tie := false, false
	for _, sub := range branches {
		if !r.near(at, sub) {
			continue
		}
		var tried faults
		if r.check(at, sub, nil, &tried) {
			continue
		}
		switch {
		case !found || tried.total < best.total:
			best, found, tie = tried, true, false
		case tried.total == best.total:
			tie = true
		}
	}
	if found && !tie {
		out.join(&best)
		return
	}
	out.add(r, describeAll(branches), r.doc.shown(at))
}

// near reports whether the value has at least the type of the form and the
// constants that tell it from others.
func (r *run) near(at int32, s *schema) bool {
	n := &r.doc.nodes[at]
	for _, f := range s.flat {
		if f.types != 0 && !r.fitsType(n, f.types) || f.never {
			return false
		}
		if f.konst != nil && !f.konst.has(&r.doc, at) || f.enum != nil && !f.enum.has(&r.doc, at) {
			return false
		}
		if n.kind != kindObject {
			continue
		}
		for key, m := range f.members {
			if m.schema == nil || m.schema.konst == nil {
				continue
			}
			if c, ok := r.doc.member(at, key); ok && !m.schema.konst.has(&r.doc, c) {
				return false
			}
		}
	}
	return true
}

func (r *run) checkArray(at int32, s *schema, inner *marks, out *faults) bool {
	n := &r.doc.nodes[at]
	ok := true
	count := int(n.count)
	if count < s.minItems || s.maxItems >= 0 && count > s.maxItems {
		out.add(r, "a list of "+span(s.minItems, s.maxItems, "item"), plural(count, "item"))
		ok = false
	}
	if s.src.UniqueItems {
		if first, second, twice := r.doc.double(at); twice {
			out.add(r, "a list without doubles", fmt.Sprintf("the same value at [%d] and [%d]", first, second))
			ok = false
		}
	}
	contained := 0
	for i, c := int32(0), n.first; i < n.count; i, c = i+1, r.doc.nodes[c].next {
		if !ok && out == nil {
			return false
		}
		item := s.items
		if int(i) < len(s.prefix) {
			item = s.prefix[i]
		}
		if item != nil {
			inner.set(i)
			ok = r.checkItem(c, int(i), item, out) && ok
		}
		if s.contains != nil && r.check(c, s.contains, nil, nil) {
			contained++
			inner.set(i)
		}
	}
	if s.contains != nil && (contained < s.minContains || s.maxContains >= 0 && contained > s.maxContains) {
		out.add(r, fmt.Sprintf("a list with %s that are %s", span(s.minContains, s.maxContains, "item"), s.contains.describe()), fmt.Sprintf("%d such", contained))
		ok = false
	}
	if s.unevaluatedItems == nil || inner == nil {
		return ok
	}
	for i, c := int32(0), n.first; i < n.count; i, c = i+1, r.doc.nodes[c].next {
		if inner.seen[i] {
			continue
		}
		inner.set(i)
		ok = r.checkItem(c, int(i), s.unevaluatedItems, out) && ok
	}
	return ok
}

func (r *run) checkItem(c int32, i int, s *schema, out *faults) bool {
	r.pushIndex(i)
	defer r.pop()
	return r.check(c, s, nil, out)
}

// double finds two equal items.
func (d *doc) double(at int32) (first, second int, twice bool) {
	n := &d.nodes[at]
	seen := make(map[string]int, n.count)
	var buf []byte
	for i, c := 0, n.first; i < int(n.count); i, c = i+1, d.nodes[c].next {
		buf = d.canonical(buf[:0], c)
		if j, ok := seen[string(buf)]; ok {
			return j, i, true
		}
		seen[string(buf)] = i
	}
	return 0, 0, false
}
