package check

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// fault is one way to get the parameters wrong. Its value is made when it is tried,
// since it may be large.
type fault struct {
	rule  string
	where string     // the parameter, as "edits.old"
	value func() any // what stands there; nil is nothing
	put   func(value any) map[string]any
	about []any // for the rule's message, behind the value
}

// maxFaults is how many faults of one schema are made.
const maxFaults = 1000

// parametersNode is the parameters' schema, decoded; nil if there is none that can
// be used.
func (r *run) parametersNode() node {
	answer, ok := r.raw("getSchema")
	if !ok {
		return nil
	}
	raw, _ := schemasOf(r.Definition, answer)
	value, err := decoded(raw)
	if err != nil {
		return nil
	}
	root, _ := value.(map[string]any)
	return root
}

// baseParams are parameters that the tool should accept: made from the schema, or
// {} where there is none.
func (r *run) baseParams() (json.RawMessage, error) {
	root := r.parametersNode()
	if root == nil {
		return json.RawMessage("{}"), nil
	}
	value, ok := newMaker(root).made("", map[string]any(root), 0)
	object, isObject := value.(map[string]any)
	if !ok || !isObject {
		return nil, errors.New("its required parameters have no plausible value")
	}
	return json.Marshal(object)
}

// parameters is layer 6.
func (r *run) parameters() {
	switch {
	case r.Definition == nil:
		r.skip(unloaded)
		return
	case r.Trial == nil:
		r.skip(noTrial)
		return
	}
	root := r.parametersNode()
	if root == nil {
		r.skip(noSchema)
		return
	}
	raw, err := r.baseParams()
	if err == nil {
		_, err = r.Trial.Validate(raw)
	}
	base, _ := decoded(raw)
	object, isObject := base.(map[string]any)
	if err != nil || !isObject {
		r.skip(noBase)
		r.found("param-base", "parameters", noValueText(err))
		return
	}
	g := &generator{maker: newMaker(root)}
	g.object(root, object, "", func(changed map[string]any) map[string]any { return changed }, 0)
	r.unasked(g.faults)
	reached, untried := 0, g.dropped
	for _, f := range g.faults {
		params, args := f.params()
		if params == nil {
			continue
		}
		passed, err := r.Trial.Validate(params)
		if err != nil {
			continue // the runtime refuses it
		}
		if reached >= maxTrials || r.ctx.Err() != nil {
			untried++
			continue
		}
		reached++
		_, failed, err := r.execute(passed)
		switch {
		case err != nil:
			untried++
		case failed == nil || failed.kind != refused:
			r.found(f.rule, f.where, args...)
		default:
			r.refusals = append(r.refusals, *failed)
		}
	}
	if untried > 0 {
		r.found("param-untried", "parameters", untried, maxTrials, trialsTime.String())
	}
}

// params are the parameters with the fault, and what its rule's message shows.
func (f fault) params() (json.RawMessage, []any) {
	var value any
	var args []any
	if f.value != nil {
		value = f.value()
		args = append([]any{showAny(value)}, f.about...)
	}
	raw, err := json.Marshal(f.put(value))
	if err != nil {
		return nil, nil
	}
	return raw, args
}

func noValueText(err error) string {
	if err == nil {
		return "they are no object"
	}
	return err.Error()
}

// unasked marks the rules for which the schema gives nothing to try.
func (r *run) unasked(faults []fault) {
	for _, id := range []string{"param-missing", "param-wrong-type", "param-enum", "param-minimum", "param-maximum", "param-short", "param-long"} {
		if !slices.ContainsFunc(faults, func(f fault) bool { return f.rule == id }) {
			r.skip(notAsked, id)
		}
	}
}

// generator makes the ways to get each parameter wrong, with everything else as in
// the base; those of parameters within objects too.
type generator struct {
	maker
	faults  []fault
	dropped int // faults over the limit
}

// object makes the faults of an object's properties. whole puts a changed object
// into the place where it belongs.
func (g *generator) object(n node, base map[string]any, prefix string, whole func(map[string]any) map[string]any, depth int) {
	for _, name := range g.needed(n) {
		property, _ := n.properties()[name].(map[string]any)
		if _, filled := property["default"]; filled { // the runtime adds it
			continue
		}
		g.add("param-missing", prefix+name, nil, func(any) map[string]any {
			without := maps.Clone(base)
			delete(without, name)
			return whole(without)
		})
	}
	for _, name := range slices.Sorted(maps.Keys(n.properties())) {
		property, ok := n.properties()[name].(map[string]any)
		if !ok {
			continue
		}
		put := func(value any) map[string]any {
			changed := maps.Clone(base)
			changed[name] = value
			return whole(changed)
		}
		g.property(prefix+name, property, put)
		if inner, ok := g.inner(name, property, base); ok && depth < 3 {
			g.object(property, inner, prefix+name+".", func(changed map[string]any) map[string]any { return put(changed) }, depth+1)
		}
	}
}

// inner is the object that stands or could stand at a property.
func (g *generator) inner(name string, property node, base map[string]any) (map[string]any, bool) {
	if property.properties() == nil {
		return nil, false
	}
	if inner, ok := base[name].(map[string]any); ok {
		return inner, true
	}
	made, ok := g.made(name, map[string]any(property), 1)
	inner, isObject := made.(map[string]any)
	return inner, ok && isObject
}

func (g *generator) add(rule, where string, value func() any, put func(any) map[string]any, about ...any) {
	if len(g.faults) >= maxFaults {
		g.dropped++
		return
	}
	g.faults = append(g.faults, fault{rule, where, value, put, about})
}

// always gives one value.
func always(value any) func() any { return func() any { return value } }

func (g *generator) property(where string, n node, put func(any) map[string]any) {
	if value, ok := wrongType(n); ok {
		g.add("param-wrong-type", where, always(value), put, strings.Join(typesOf(n), ", "))
	}
	if values, ok := n["enum"].([]any); ok && len(values) > 0 {
		g.add("param-enum", where, always(outside(values)), put)
	}
	types := typesOf(n)
	if slices.Contains(types, "number") || slices.Contains(types, "integer") {
		g.bounds(where, n, put)
	}
	if slices.Contains(types, "string") {
		g.lengths(where, n, put)
	}
	if slices.Contains(types, "array") {
		g.counts(where, n, put)
	}
}

// bounds makes numbers just outside of what is allowed.
func (g *generator) bounds(where string, n node, put func(any) map[string]any) {
	step, ok := number(n["multipleOf"])
	if !ok {
		step = 1
	}
	whole := firstType(n) == "integer"
	if least, ok := number(n["minimum"]); ok {
		g.outsideOf("param-minimum", where, math.Floor(least)-step, put)
	} else if least, ok := number(n["exclusiveMinimum"]); ok && (!whole || least == math.Trunc(least)) {
		g.outsideOf("param-minimum", where, least, put)
	}
	if most, ok := number(n["maximum"]); ok {
		g.outsideOf("param-maximum", where, math.Ceil(most)+step, put)
	} else if most, ok := number(n["exclusiveMaximum"]); ok && (!whole || most == math.Trunc(most)) {
		g.outsideOf("param-maximum", where, most, put)
	}
}

func (g *generator) outsideOf(rule, where string, f float64, put func(any) map[string]any) {
	g.add(rule, where, always(json.Number(trimmed(f))), put)
}

// maxLong is the longest text, in bytes, that is made to be too long.
const maxLong = 2 << 20

func (g *generator) lengths(where string, n node, put func(any) map[string]any) {
	text := func(length int) func() any { return func() any { return strings.Repeat("a", length) } }
	if least, ok := number(n["minLength"]); ok && least >= 1 && least < maxLong {
		g.add("param-short", where, text(int(least)-1), put)
	}
	if most, ok := number(n["maxLength"]); ok && most >= 0 && most < maxLong {
		g.add("param-long", where, text(int(most)+1), put)
	}
}

// maxItems is the longest list that is made to be too long.
const maxItems = 1000

func (g *generator) counts(where string, n node, put func(any) map[string]any) {
	schema := n["items"]
	if schema == nil {
		schema = map[string]any{"type": "string"}
	}
	item, ok := g.made("item", schema, 1)
	if !ok {
		return
	}
	list := func(count int) func() any {
		return func() any {
			list := []any{}
			for i := range count {
				list = append(list, distinct(item, i))
			}
			return list
		}
	}
	if least, ok := number(n["minItems"]); ok && least >= 1 && least <= maxItems {
		g.add("param-short", where, list(int(least)-1), put)
	}
	if most, ok := number(n["maxItems"]); ok && most >= 0 && most <= maxItems {
		g.add("param-long", where, list(int(most)+1), put)
	}
}

// typesOf are the types that a schema allows by itself.
func typesOf(n node) []string {
	switch t := n["type"].(type) {
	case string:
		return []string{t}
	case []any:
		var types []string
		for _, item := range t {
			if text, ok := item.(string); ok {
				types = append(types, text)
			}
		}
		return types
	}
	return nil
}

// wrongType is a value of none of a schema's types.
func wrongType(n node) (any, bool) {
	types := typesOf(n)
	if len(types) == 0 {
		return nil, false
	}
	for _, candidate := range []struct {
		kind  string
		value any
	}{
		{"object", map[string]any{"unexpected": json.Number("1")}}, {"array", []any{}}, {"string", "unexpected text"},
		{"boolean", true}, {"number", json.Number("12.5")}, {"null", nil},
	} {
		fits := slices.Contains(types, candidate.kind)
		if !fits {
			return candidate.value, true
		}
	}
	return nil, false
}

// outside is a value like those of an enum that is none of them.
func outside(values []any) any {
	largest := 0.0
	numbers := false
	for _, v := range values {
		if f, ok := number(v); ok {
			largest, numbers = max(largest, f), true
		}
	}
	if numbers {
		return json.Number(trimmed(math.Ceil(largest) + 1))
	}
	value := "not-one-of-them"
	for slices.Contains(values, any(value)) {
		value += "-either"
	}
	return value
}

// wrongParams are parameters that only the tool itself can refuse, for its errors:
// none at all, and each required one of the wrong type.
func (r *run) wrongParams() []json.RawMessage {
	root := r.parametersNode()
	if root == nil {
		return nil
	}
	names := newMaker(root).needed(root)
	if len(names) == 0 {
		return nil
	}
	wrong := map[string]any{}
	for _, name := range names {
		property, _ := root.properties()[name].(map[string]any)
		wrong[name], _ = wrongType(property)
	}
	list := []json.RawMessage{json.RawMessage("{}")}
	if raw, err := json.Marshal(wrong); err == nil {
		list = append(list, raw)
	}
	return list
}

func showAny(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if len(raw) <= 40 {
		return string(raw)
	}
	switch v := v.(type) {
	case string:
		return fmt.Sprintf("a text of %d characters", len([]rune(v)))
	case []any:
		return fmt.Sprintf("a list of %d items", len(v))
	}
	return cmp.Or(brief(raw), "{}")
}
