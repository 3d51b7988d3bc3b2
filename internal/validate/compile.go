package validate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// compiler turns a jsonschema.Schema into a schema.
type compiler struct {
	draft7    bool
	done      map[*jsonschema.Schema]*schema
	order     []*schema // parents first
	resources map[string]*resource
	refs      []pendingRef
	unchecked []string
}

type pendingRef struct {
	from    *schema
	base    *url.URL
	ref     string
	dynamic bool
}

// place is where a schema stands: its base URI, and its pointer from every
// resource it is inside of.
type place struct {
	base    *url.URL
	res     *resource
	outer   []*resource // enclosing ones, with the pointers from them
	pointer []string    // from each of outer, then from res
}

func (p place) down(parts ...string) place {
	var b strings.Builder
	for _, part := range parts {
		b.WriteByte('/')
		// Two replacements cost nothing where there is nothing to replace; building
		// a Replacer each time was a third of the program's start.
		b.WriteString(strings.ReplaceAll(strings.ReplaceAll(part, "~", "~0"), "/", "~1"))
	}
	pointers := make([]string, len(p.pointer))
	for i, old := range p.pointer {
		pointers[i] = old + b.String()
	}
	p.pointer = pointers
	return p
}

func compile(root *jsonschema.Schema, aliases map[string]string) (*Validator, error) {
	c := &compiler{
		draft7:    strings.Contains(root.Schema, "draft-07"),
		done:      map[*jsonschema.Schema]*schema{},
		resources: map[string]*resource{},
	}
	base := &url.URL{}
	res := &resource{pointers: map[string]*schema{}, anchors: map[string]*schema{}, dynamic: map[string]*schema{}}
	c.resources[""] = res
	s, err := c.schema(root, place{base: base, res: res, pointer: []string{""}})
	if err != nil {
		return nil, err
	}
	res.root = s
	if err := c.resolve(); err != nil {
		return nil, err
	}
	if err := noCircle(c.order); err != nil {
		return nil, err
	}
	c.prepare(aliases)
	return &Validator{root: s, unchecked: c.unchecked}, nil
}

// schema compiles one schema; references stay pending.
func (c *compiler) schema(src *jsonschema.Schema, at place) (*schema, error) {
	if src == nil {
		return nil, nil // each caller that cannot do without says so
	}
	if s, ok := c.done[src]; ok {
		return s, nil
	}
	s := &schema{src: src, maxLength: -1, maxItems: -1, maxMembers: -1, maxContains: -1, minContains: 1}
	c.done[src] = s
	c.order = append(c.order, s)
	at, err := c.identify(s, src, at)
	if err != nil {
		return nil, err
	}
	s.res = at.res
	for i, outer := range at.outer {
		outer.pointers[at.pointer[i]] = s
	}
	at.res.pointers[at.pointer[len(at.pointer)-1]] = s
	c.anchors(s, src, at.res)
	if src.Ref != "" {
		c.refs = append(c.refs, pendingRef{from: s, base: at.base, ref: src.Ref})
	}
	if src.DynamicRef != "" {
		c.refs = append(c.refs, pendingRef{from: s, base: at.base, ref: src.DynamicRef, dynamic: true})
	}
	for _, defs := range []struct {
		name string
		m    map[string]*jsonschema.Schema
	}{{"$defs", src.Defs}, {"definitions", src.Definitions}} {
		for name, def := range sorted(defs.m) {
			if _, err := c.schema(def, at.down(defs.name, name)); err != nil {
				return nil, err
			}
		}
	}
	if c.draft7 && src.Ref != "" {
		return s, nil // its siblings do not count
	}
	for _, step := range []func(*schema, *jsonschema.Schema, place) error{c.values, c.arrays, c.objects, c.logic} {
		if err := step(s, src, at); err != nil {
			return nil, err
		}
	}
	if src.Not != nil && isTrue(src.Not) {
		s.never = true
	}
	s.any = isTrue(src)
	return s, nil
}

// sorted goes through a map in the order of its keys.
func sorted[V any](m map[string]V) func(yield func(string, V) bool) {
	return func(yield func(string, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if !yield(key, m[key]) {
				return
			}
		}
	}
}

// identify opens a new resource where a schema has an $id.
func (c *compiler) identify(s *schema, src *jsonschema.Schema, at place) (place, error) {
	if src.ID == "" || c.draft7 && (src.Ref != "" || strings.HasPrefix(src.ID, "#")) {
		return at, nil
	}
	id, err := url.Parse(src.ID)
	if err != nil {
		return at, fmt.Errorf("$id %q: %w", src.ID, err)
	}
	base := at.base.ResolveReference(id)
	base.Fragment = ""
	uri := base.String()
	last := len(at.pointer) - 1
	if at.pointer[last] == "" && at.res.root == nil && len(at.outer) == 0 { // the whole schema
		at.res.uri = uri
		c.resources[uri] = at.res
		at.base = base
		return at, nil
	}
	if _, taken := c.resources[uri]; taken {
		return at, fmt.Errorf("$id %q stands twice", uri)
	}
	res := &resource{uri: uri, root: s, pointers: map[string]*schema{}, anchors: map[string]*schema{}, dynamic: map[string]*schema{}}
	c.resources[uri] = res
	return place{
		base:    base,
		res:     res,
		outer:   append(slices.Clone(at.outer), at.res),
		pointer: append(slices.Clone(at.pointer), ""),
	}, nil
}

func (c *compiler) anchors(s *schema, src *jsonschema.Schema, res *resource) {
	if src.Anchor != "" {
		res.anchors[src.Anchor] = s
	}
	if src.DynamicAnchor != "" {
		res.anchors[src.DynamicAnchor] = s
		res.dynamic[src.DynamicAnchor] = s
	}
	if c.draft7 && strings.HasPrefix(src.ID, "#") {
		res.anchors[src.ID[1:]] = s
	}
}

// resolve ties the references. Nothing is ever loaded from elsewhere.
func (c *compiler) resolve() error {
	for i := 0; i < len(c.refs); i++ { // a target may bring more
		p := c.refs[i]
		target, anchor, err := c.target(p)
		if err != nil {
			return err
		}
		if !p.dynamic {
			p.from.ref = target
			continue
		}
		p.from.dynamicRef = target
		if anchor != "" && target.res.dynamic[anchor] == target {
			p.from.dynamic = anchor
		}
	}
	return nil
}

func (c *compiler) target(p pendingRef) (s *schema, anchor string, err error) {
	ref, err := url.Parse(p.ref)
	if err != nil {
		return nil, "", fmt.Errorf("$ref %q: %w", p.ref, err)
	}
	uri := p.base.ResolveReference(ref)
	fragment := uri.Fragment
	uri.Fragment, uri.RawFragment = "", ""
	res, ok := c.resources[uri.String()]
	if !ok {
		return nil, "", fmt.Errorf("$ref %q leads out of the schema; nothing is loaded from elsewhere", p.ref)
	}
	if fragment == "" {
		if res.root == nil {
			return res.pointers[""], "", nil
		}
		return res.root, "", nil
	}
	if strings.HasPrefix(fragment, "/") {
		if s, ok := res.pointers[fragment]; ok {
			return s, "", nil
		}
		s, err := c.unknownKeyword(res, p.base, fragment)
		if err != nil {
			return nil, "", fmt.Errorf("$ref %q: %w", p.ref, err)
		}
		return s, "", nil
	}
	if s, ok := res.anchors[fragment]; ok {
		return s, fragment, nil
	}
	return nil, "", fmt.Errorf("$ref %q leads nowhere", p.ref)
}

// unknownKeyword compiles a schema that stands under a keyword of its own, or
// in draft 2020-12 under an old one.
func (c *compiler) unknownKeyword(res *resource, base *url.URL, pointer string) (*schema, error) {
	nowhere := fmt.Errorf("it leads nowhere")
	raw, err := json.Marshal(res.pointers[""].src)
	if err != nil {
		return nil, err
	}
	for part := range strings.SplitSeq(pointer[1:], "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) == nil {
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(list) {
				return nil, nowhere
			}
			raw = list[i]
			continue
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) != nil || object[part] == nil {
			return nil, nowhere
		}
		raw = object[part]
	}
	src := new(jsonschema.Schema)
	if err := json.Unmarshal(raw, src); err != nil {
		return nil, err
	}
	return c.schema(src, place{base: base, res: res, pointer: []string{pointer}})
}

var typeKinds = []struct {
	name string
	kind kind
}{
	{"null", kindNull}, {"boolean", kindBool}, {"number", kindNumber}, {"string", kindString},
	{"array", kindArray}, {"object", kindObject}, {"integer", kindInteger},
}

func (c *compiler) values(s *schema, src *jsonschema.Schema, _ place) (err error) {
	types := src.Types
	if src.Type != "" {
		types = []string{src.Type}
	}
	for _, name := range types {
		i := slices.IndexFunc(typeKinds, func(t struct {
			name string
			kind kind
		}) bool {
			return t.name == name
		})
		if i < 0 {
			return fmt.Errorf("there is no type %q", name)
		}
		s.types |= typeKinds[i].kind
	}
	if src.Enum != nil {
		if s.enum, err = parseConstants(src.Enum); err != nil {
			return fmt.Errorf("enum: %w", err)
		}
	}
	if src.Const != nil {
		if s.konst, err = parseConstants([]any{*src.Const}); err != nil {
			return fmt.Errorf("const: %w", err)
		}
	}
	s.number = src.Minimum != nil || src.Maximum != nil || src.ExclusiveMinimum != nil ||
		src.ExclusiveMaximum != nil || src.MultipleOf != nil
	s.minLength, s.maxLength = deref(src.MinLength, 0), deref(src.MaxLength, -1)
	if src.Pattern != "" {
		s.pattern = c.pattern(src.Pattern)
	}
	return nil
}

func deref(p *int, none int) int {
	if p == nil {
		return none
	}
	return *p
}

func (c *compiler) list(srcs []*jsonschema.Schema, at place, keyword string) ([]*schema, error) {
	list := make([]*schema, 0, len(srcs))
	for i, src := range srcs {
		if src == nil {
			return nil, fmt.Errorf("%s[%d] is null, not a schema", keyword, i)
		}
		s, err := c.schema(src, at.down(keyword, strconv.Itoa(i)))
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// each compiles the single sub-schemas of a table.
func (c *compiler) each(at place, rows ...subschema) error {
	for _, row := range rows {
		s, err := c.schema(row.src, at.down(row.keyword))
		if err != nil {
			return err
		}
		if s != nil {
			*row.to = s
		}
	}
	return nil
}

type subschema struct {
	to      **schema
	src     *jsonschema.Schema
	keyword string
}

func (c *compiler) arrays(s *schema, src *jsonschema.Schema, at place) (err error) {
	if s.prefix, err = c.list(src.PrefixItems, at, "prefixItems"); err != nil {
		return err
	}
	rest := subschema{&s.items, src.Items, "items"}
	if src.ItemsArray != nil { // the older form
		if s.prefix, err = c.list(src.ItemsArray, at, "items"); err != nil {
			return err
		}
		rest = subschema{&s.items, src.AdditionalItems, "additionalItems"}
	} else if src.AdditionalItems != nil {
		if _, err := c.schema(src.AdditionalItems, at.down("additionalItems")); err != nil {
			return err
		}
	}
	s.minItems, s.maxItems = deref(src.MinItems, 0), deref(src.MaxItems, -1)
	s.minContains, s.maxContains = deref(src.MinContains, 1), deref(src.MaxContains, -1)
	return c.each(at, rest,
		subschema{&s.contains, src.Contains, "contains"},
		subschema{&s.unevaluatedItems, src.UnevaluatedItems, "unevaluatedItems"})
}

func (c *compiler) objects(s *schema, src *jsonschema.Schema, at place) error {
	s.members = make(map[string]*member, len(src.Properties))
	for name, property := range sorted(src.Properties) {
		if property == nil {
			return fmt.Errorf("property %q is null, not a schema", name)
		}
		sub, err := c.schema(property, at.down("properties", name))
		if err != nil {
			return err
		}
		s.members[name] = &member{schema: sub}
	}
	s.require(src.Required)
	for text, property := range sorted(src.PatternProperties) {
		if property == nil {
			return fmt.Errorf("patternProperties %q is null, not a schema", text)
		}
		sub, err := c.schema(property, at.down("patternProperties", text))
		if err != nil {
			return err
		}
		s.patterns = append(s.patterns, patternMember{c.pattern(text), sub})
	}
	s.minMembers, s.maxMembers = deref(src.MinProperties, 0), deref(src.MaxProperties, -1)
	s.dependentRequired = src.DependentRequired
	if src.DependencyStrings != nil {
		s.dependentRequired = maps.Clone(src.DependencyStrings)
		maps.Copy(s.dependentRequired, src.DependentRequired)
	}
	s.dependentSchemas = map[string]*schema{}
	for keyword, m := range map[string]map[string]*jsonschema.Schema{"dependentSchemas": src.DependentSchemas, "dependencies": src.DependencySchemas} {
		for name, dependent := range sorted(m) {
			if dependent == nil {
				return fmt.Errorf("%s %q is null, not a schema", keyword, name)
			}
			sub, err := c.schema(dependent, at.down(keyword, name))
			if err != nil {
				return err
			}
			s.dependentSchemas[name] = sub
		}
	}
	return c.each(at,
		subschema{&s.additional, src.AdditionalProperties, "additionalProperties"},
		subschema{&s.names, src.PropertyNames, "propertyNames"},
		subschema{&s.unevaluated, src.UnevaluatedProperties, "unevaluatedProperties"})
}

// require notes the required names. One whose property has a default is never
// missing, so it is not held against the call.
func (s *schema) require(names []string) {
	for _, name := range names {
		m := s.members[name]
		if m == nil {
			m = &member{}
			s.members[name] = m
		} else if m.schema != nil && m.schema.src.Default != nil {
			continue
		}
		if m.bit != 0 || slices.Contains(s.required, name) {
			continue
		}
		if n := len(s.required); n < 64 {
			m.bit = 1 << n
			s.requiredBits |= m.bit
		} else {
			s.requiredMore = append(s.requiredMore, name)
		}
		s.required = append(s.required, name)
	}
}

func (c *compiler) logic(s *schema, src *jsonschema.Schema, at place) error {
	for _, row := range []struct {
		to      *[]*schema
		srcs    []*jsonschema.Schema
		keyword string
	}{{&s.allOf, src.AllOf, "allOf"}, {&s.anyOf, src.AnyOf, "anyOf"}, {&s.oneOf, src.OneOf, "oneOf"}} {
		list, err := c.list(row.srcs, at, row.keyword)
		if err != nil {
			return err
		}
		*row.to = list
	}
	if err := c.each(at,
		subschema{&s.not, src.Not, "not"},
		subschema{&s.cond, src.If, "if"},
		subschema{&s.then, src.Then, "then"},
		subschema{&s.els, src.Else, "else"}); err != nil {
		return err
	}
	if s.cond == nil {
		s.then, s.els = nil, nil // they stay addressable
	}
	return nil
}

// isTrue reports whether a schema has no keyword that could refuse a value.
func isTrue(s *jsonschema.Schema) bool {
	if s.Type != "" || s.Types != nil || s.Ref != "" {
		return false // nearly every schema; the long way is for the others
	}
	copied := *s
	copied.Title, copied.Description, copied.Comment, copied.Default = "", "", "", nil
	copied.Examples, copied.Format, copied.Deprecated, copied.ReadOnly, copied.WriteOnly = nil, "", false, false, false
	copied.PropertyOrder, copied.ID, copied.Schema, copied.Anchor, copied.DynamicAnchor = nil, "", "", "", ""
	copied.Defs, copied.Definitions, copied.Extra = nil, nil, nil
	raw, err := json.Marshal(&copied)
	return err == nil && string(raw) == "true"
}

// noCircle refuses a schema that applies itself to the same value for ever.
func noCircle(all []*schema) error {
	const open, closed = 1, 2
	state := map[*schema]int{}
	var visit func(*schema) error
	visit = func(s *schema) error {
		switch state[s] {
		case closed:
			return nil
		case open:
			return fmt.Errorf("the schema %q refers to itself without going deeper into the value", cmp.Or(s.src.Ref, s.src.ID, s.src.Title, "#"))
		}
		state[s] = open
		for _, next := range s.inPlace() {
			if err := visit(next); err != nil {
				return err
			}
		}
		if s.not != nil {
			if err := visit(s.not); err != nil {
				return err
			}
		}
		state[s] = closed
		return nil
	}
	for _, s := range all {
		if err := visit(s); err != nil {
			return err
		}
	}
	return nil
}

var unicodeEscape = regexp.MustCompile(`\\u([0-9a-fA-F]{4})`)

// pattern compiles a regular expression of ECMA-262 as far as RE2 can say it.
func (c *compiler) pattern(text string) *pattern {
	re, err := regexp.Compile(text)
	if err != nil {
		translated := unicodeEscape.ReplaceAllString(text, `\x{$1}`)
		translated = strings.NewReplacer(`\\`, `\\`, `\d`, `[0-9]`, `\p{Letter}`, `\p{L}`, `\p{digit}`, `\p{Nd}`, `(?<`, `(?P<`, `(?<=`, `(?<=`, `(?<!`, `(?<!`).Replace(translated)
		if re, err = regexp.Compile(translated); err != nil {
			c.unchecked = append(c.unchecked, text)
			return &pattern{text: text}
		}
	}
	return &pattern{text: text, re: re}
}
