package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxDepth is how deep made-up values go: schemas can contain themselves.
const maxDepth = 8

// maxMade is how many values one maker makes: schemas of a few lines can describe
// more than there is memory for.
const maxMade = 20000

// maker makes values that fit a schema.
type maker struct {
	root node
	left *int // values that it may still make
}

func newMaker(root node) maker {
	left := maxMade
	return maker{root, &left}
}

// made makes a value that plausibly fits a schema: what it gives itself as
// default, example, constant or choice, else one after its type, format and name.
func (m maker) made(name string, schema any, depth int) (any, bool) {
	n, ok := schema.(map[string]any)
	if !ok {
		return "text", schema == true
	}
	if *m.left--; depth > maxDepth || *m.left < 0 {
		return nil, false
	}
	if value, ok := given(n); ok {
		return value, true
	}
	if ref, ok := n["$ref"].(string); ok {
		target, ok := m.resolve(ref)
		if !ok {
			return nil, false
		}
		return m.made(name, target, depth+1)
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		choices, _ := n[keyword].([]any)
		for _, choice := range choices {
			if value, ok := m.made(name, merged(n, choice, keyword), depth+1); ok {
				return value, true
			}
		}
	}
	if all, ok := n["allOf"].([]any); ok {
		whole := any(n)
		for _, part := range all {
			whole = merged(whole.(map[string]any), part, "allOf")
		}
		return m.made(name, whole, depth+1)
	}
	return m.ofType(name, n, depth)
}

// given is a value that the schema names itself.
func given(n node) (any, bool) {
	for _, keyword := range []string{"const", "default", "example"} {
		if value, there := n[keyword]; there && value != nil {
			return value, true
		}
	}
	for _, keyword := range []string{"examples", "enum"} {
		if list, _ := n[keyword].([]any); len(list) > 0 {
			return list[0], true
		}
	}
	return nil, false
}

// merged is a schema with the keywords of a part of it, properties joined.
func merged(n map[string]any, part any, without string) map[string]any {
	whole := maps.Clone(n)
	delete(whole, without)
	add, _ := part.(map[string]any)
	for keyword, value := range add {
		properties, both := whole[keyword].(map[string]any)
		more, _ := value.(map[string]any)
		switch {
		case keyword == "properties" && both:
			properties = maps.Clone(properties)
			maps.Copy(properties, more)
			whole[keyword] = properties
		case keyword == "required":
			have, _ := whole[keyword].([]any)
			list, _ := value.([]any)
			whole[keyword] = slices.Concat(have, list)
		default:
			whole[keyword] = value
		}
	}
	return whole
}

func (m maker) resolve(ref string) (any, bool) {
	at := any(map[string]any(m.root))
	rest, local := strings.CutPrefix(ref, "#")
	if !local {
		return nil, false
	}
	for part := range strings.SplitSeq(strings.TrimPrefix(rest, "/"), "/") {
		if part == "" {
			continue
		}
		part = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		object, _ := at.(map[string]any)
		next, there := object[part]
		if !there {
			return nil, false
		}
		at = next
	}
	return at, true
}

func (m maker) ofType(name string, n node, depth int) (any, bool) {
	switch firstType(n) {
	case "string":
		return text(name, n)
	case "integer", "number":
		return quantityOf(n)
	case "boolean":
		return true, true
	case "null":
		return nil, true
	case "array":
		return m.list(name, n, depth)
	}
	return m.object(n, depth)
}

// firstType is the first of a schema's types, or what its keywords speak of.
func firstType(n node) string {
	if text, ok := n["type"].(string); ok {
		return text
	}
	if list, ok := n["type"].([]any); ok {
		for _, t := range list {
			if text, _ := t.(string); text != "null" {
				return text
			}
		}
		return "null"
	}
	for _, row := range []struct{ keyword, kind string }{
		{"properties", "object"}, {"items", "array"}, {"minLength", "string"}, {"pattern", "string"}, {"minimum", "number"},
	} {
		if _, there := n[row.keyword]; there {
			return row.kind
		}
	}
	return "string"
}

func (m maker) list(name string, n node, depth int) (any, bool) {
	least, _ := number(n["minItems"])
	if least < 1 {
		if most, ok := number(n["maxItems"]); !ok || most >= 1 {
			least = 1
		}
	}
	if least > 1000 {
		return nil, false
	}
	list := []any{}
	prefix, _ := n["prefixItems"].([]any)
	for i := range int(least) {
		schema := n["items"]
		if i < len(prefix) {
			schema = prefix[i]
		}
		if schema == nil {
			schema = map[string]any{"type": "string"}
		}
		value, ok := m.made(strings.TrimSuffix(name, "s"), schema, depth+1)
		if !ok {
			if least <= 1 && n["minItems"] == nil {
				return []any{}, true
			}
			return nil, false
		}
		if n["uniqueItems"] == true && i > 0 {
			value = distinct(value, i)
		}
		list = append(list, value)
	}
	return list, true
}

// distinct is another value like the first one.
func distinct(value any, i int) any {
	switch v := value.(type) {
	case string:
		return fmt.Sprintf("%s%d", v, i)
	case json.Number:
		if f, err := v.Float64(); err == nil {
			return json.Number(trimmed(f + float64(i)))
		}
	}
	return value
}

func (m maker) object(n node, depth int) (any, bool) {
	object := map[string]any{}
	for _, name := range m.needed(n) {
		schema, there := n.properties()[name]
		if !there {
			schema = map[string]any{"type": "string"}
		}
		value, ok := m.made(name, schema, depth+1)
		if !ok {
			return nil, false
		}
		object[name] = value
	}
	return object, true
}

// needed are the names that an object must have, those flagged on the property
// alone among them.
func (m maker) needed(n node) []string {
	names := n.required()
	for name, schema := range n.properties() {
		if property, _ := schema.(map[string]any); property["required"] == true {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func quantityOf(n node) (any, bool) {
	step, hasStep := number(n["multipleOf"])
	whole := firstType(n) == "integer"
	if !hasStep {
		step = 1
	}
	value := 1.0
	least, hasLeast := number(n["minimum"])
	if above, ok := number(n["exclusiveMinimum"]); ok {
		least, hasLeast = above+small(step, whole || hasStep), true
	}
	most, hasMost := number(n["maximum"])
	if below, ok := number(n["exclusiveMaximum"]); ok {
		most, hasMost = below-small(step, whole || hasStep), true
	}
	if hasMost && value > most {
		value = most
	}
	if hasLeast && value < least {
		value = least
	}
	if whole || hasStep {
		value = math.Ceil(value/step-1e-9) * step
	}
	if hasMost && value > most {
		value = math.Floor(most/step+1e-9) * step
	}
	return json.Number(trimmed(value)), !(hasLeast && value < least-1e-9)
}

func small(step float64, stepped bool) float64 {
	if stepped {
		return step
	}
	return 0.5
}

func trimmed(f float64) string {
	raw, err := json.Marshal(f)
	if err != nil {
		return "0"
	}
	return string(raw)
}

// text makes a text after the format, the pattern or the name of a parameter, of a
// length that fits.
func text(name string, n node) (any, bool) {
	value := formatted(n)
	if pattern, ok := n["pattern"].(string); ok {
		return matching(pattern, n)
	}
	if value == "" {
		value = named(name)
	}
	least, hasLeast := number(n["minLength"])
	if hasLeast && least > 1<<20 {
		return nil, false
	}
	if count := utf8.RuneCountInString(value); hasLeast && count < int(least) {
		const more = " and more text"
		value += strings.Repeat(more, (int(least)-count)/len(more)+1)[:int(least)-count]
	}
	if most, ok := number(n["maxLength"]); ok && utf8.RuneCountInString(value) > int(most) {
		value = string([]rune(value)[:int(most)])
	}
	return value, true
}

func formatted(n node) string {
	format, _ := n["format"].(string)
	switch format {
	case "date-time":
		return "2026-01-15T12:00:00Z"
	case "date":
		return "2026-01-15"
	case "time":
		return "12:00:00Z"
	case "email":
		return "someone@example.com"
	case "uri", "url":
		return "https://example.com/"
	case "hostname":
		return "example.com"
	case "ipv4":
		return "192.0.2.1"
	case "ipv6":
		return "2001:db8::1"
	case "uuid":
		return "3f2b8c1e-5d6a-4b7c-8d9e-0f1a2b3c4d5e"
	}
	return ""
}

func named(name string) string {
	name = strings.ToLower(name)
	for _, row := range []struct{ part, value string }{
		{"url", "https://example.com/"}, {"email", "someone@example.com"}, {"dir", "data"}, {"folder", "data"},
		{"path", "data/example.txt"}, {"file", "data/example.txt"}, {"date", "2026-01-15"}, {"lang", "en"},
		{"host", "example.com"}, {"pattern", "example"}, {"query", "example"}, {"name", "example"}, {"id", "example-1"},
	} {
		if strings.Contains(name, row.part) {
			return row.value
		}
	}
	return "an example text"
}

// matching makes a text for a regular expression; it gives up on those that Go does
// not know and where the text that it makes does not fit.
func matching(pattern string, n node) (any, bool) {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, false
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, false
	}
	least, _ := number(n["minLength"])
	for _, repeat := range []int{1, int(min(least, 1000)), 3, 8} {
		value := instance(parsed.Simplify(), repeat)
		count := utf8.RuneCountInString(value)
		most, bounded := number(n["maxLength"])
		if re.MatchString(value) && count >= int(least) && !(bounded && count > int(most)) {
			return value, true
		}
	}
	return nil, false
}

// instance is a text that an expression matches, each open repetition repeated.
func instance(re *syntax.Regexp, repeat int) string {
	var b strings.Builder
	switch re.Op {
	case syntax.OpLiteral:
		return string(re.Rune)
	case syntax.OpCharClass:
		return string(fromClass(re.Rune))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return "a"
	case syntax.OpCapture, syntax.OpConcat:
		for _, sub := range re.Sub {
			b.WriteString(instance(sub, repeat))
		}
	case syntax.OpAlternate:
		return instance(re.Sub[0], repeat)
	case syntax.OpPlus, syntax.OpStar:
		return strings.Repeat(instance(re.Sub[0], 1), max(repeat, 1))
	case syntax.OpQuest:
		if repeat > 1 {
			return instance(re.Sub[0], repeat)
		}
	case syntax.OpRepeat:
		return strings.Repeat(instance(re.Sub[0], repeat), max(re.Min, 1))
	}
	return b.String()
}

// fromClass picks a letter or digit of a class if there is one, else its first.
func fromClass(ranges []rune) rune {
	for _, want := range "aA0" {
		for i := 0; i+1 < len(ranges); i += 2 {
			if ranges[i] <= want && want <= ranges[i+1] {
				return want
			}
		}
	}
	if len(ranges) == 0 {
		return 'a'
	}
	return ranges[0]
}

// plausibleVariable is a value for an environment variable; one of a secret holds
// the canary.
func plausibleVariable(name string, property node) string {
	secret := secretName().MatchString(name) || property["format"] == "password" || property["writeOnly"] == true || property["secret"] == true
	if secret {
		return canary + "-" + strings.ToLower(name)
	}
	value, ok := newMaker(nil).made(name, map[string]any(property), 0)
	if text, isText := value.(string); ok && isText {
		return text
	}
	raw, err := json.Marshal(value)
	if !ok || err != nil {
		return "example"
	}
	return string(raw)
}

// decoded is a JSON value with its numbers as they were written.
func decoded(raw json.RawMessage) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	err := decoder.Decode(&value)
	return value, err
}
