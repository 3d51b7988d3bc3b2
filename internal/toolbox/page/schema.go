package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// maxSchemas bounds how many schemas inside one are read: those of properties,
// items and choices, however often they are referred to.
const maxSchemas = 1000

// schema is what pages show of a JSON Schema. What is malformed is left out.
type schema struct {
	Types       []string
	Title       string
	Description string
	Default     json.RawMessage
	Const       json.RawMessage
	Enum        []json.RawMessage
	Examples    []json.RawMessage
	Format      string
	Pattern     string
	Properties  []property // in the order of the text
	Required    []string
	// Open says that names which are not among Properties are taken.
	Open      bool
	Items     *schema
	MinItems  int
	MinLength int
	MaxLength *int
	Minimum, Maximum,
	ExclusiveMinimum, ExclusiveMaximum,
	MultipleOf *float64
	WriteOnly bool // or said to be secret in other words
	mandatory bool // "required: true" on a property itself
}

// property is one member of an object.
type property struct {
	Name string
	schema
	Required bool
}

// readSchema reads the schema of an object. Of none, or what is no schema, it is
// one with no properties.
func readSchema(raw json.RawMessage) schema {
	r := &schemaReader{root: raw}
	return r.read(raw, 0)
}

type schemaReader struct {
	root  json.RawMessage
	count int
}

// maxSchemaDepth bounds schemas inside schemas, and references.
const maxSchemaDepth = 8

func (r *schemaReader) read(raw json.RawMessage, depth int) schema {
	var s schema
	if r.count++; r.count > maxSchemas || depth > maxSchemaDepth {
		return s
	}
	members := object(raw)
	if members == nil {
		return s
	}
	var ref string
	if json.Unmarshal(members["$ref"], &ref) == nil && ref != "" {
		if target := r.find(ref); target != nil {
			s = r.read(target, depth+1)
		}
	}
	r.words(&s, members)
	r.bounds(&s, members)
	r.inside(&s, members, depth)
	for _, combined := range []string{"allOf", "anyOf", "oneOf"} {
		var parts []json.RawMessage
		_ = json.Unmarshal(members[combined], &parts)
		for _, part := range parts {
			s.join(r.read(part, depth+1), combined == "allOf")
		}
	}
	return s
}

// find follows a reference within the schema.
func (r *schemaReader) find(ref string) json.RawMessage {
	rest, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil
	}
	at := r.root
	for step := range strings.SplitSeq(rest, "/") {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		if at = object(at)[step]; at == nil {
			return nil
		}
	}
	return at
}

func (r *schemaReader) words(s *schema, m map[string]json.RawMessage) {
	text := func(name string, to *string) {
		var v string
		if json.Unmarshal(m[name], &v) == nil && v != "" {
			*to = v
		}
	}
	text("title", &s.Title)
	text("description", &s.Description)
	text("format", &s.Format)
	text("pattern", &s.Pattern)
	var one string
	var many []string
	if json.Unmarshal(m["type"], &one) == nil && one != "" {
		s.Types = []string{one}
	} else if json.Unmarshal(m["type"], &many) == nil && len(many) > 0 {
		s.Types = many
	}
	if m["default"] != nil {
		s.Default = compact(m["default"])
	}
	if m["const"] != nil {
		s.Const = compact(m["const"])
	}
	for _, name := range []string{"example", "x-example"} {
		if m[name] != nil {
			s.Examples = append(s.Examples, compact(m[name]))
		}
	}
	s.Examples = append(s.Examples, values(m["examples"])...)
	if enum := values(m["enum"]); enum != nil {
		s.Enum = enum
	}
	for _, name := range []string{"writeOnly", "secret", "sensitive", "x-secret", "x-sensitive", "mask", "masked"} {
		var is bool
		if json.Unmarshal(m[name], &is) == nil && is {
			s.WriteOnly = true
		}
	}
}

func (r *schemaReader) bounds(s *schema, m map[string]json.RawMessage) {
	number := func(name string, to **float64) {
		var v *float64
		if json.Unmarshal(m[name], &v) == nil && v != nil {
			*to = v
		}
	}
	number("minimum", &s.Minimum)
	number("maximum", &s.Maximum)
	number("exclusiveMinimum", &s.ExclusiveMinimum)
	number("exclusiveMaximum", &s.ExclusiveMaximum)
	number("multipleOf", &s.MultipleOf)
	_ = json.Unmarshal(m["minLength"], &s.MinLength)
	_ = json.Unmarshal(m["maxLength"], &s.MaxLength)
	_ = json.Unmarshal(m["minItems"], &s.MinItems)
}

func (r *schemaReader) inside(s *schema, m map[string]json.RawMessage, depth int) {
	if json.Unmarshal(m["required"], &s.Required) != nil {
		_ = json.Unmarshal(m["required"], &s.mandatory)
	}
	names, properties := ordered(m["properties"])
	for _, name := range names {
		if r.count > maxSchemas {
			break
		}
		p := property{Name: name, schema: r.read(properties[name], depth+1)}
		p.Required = slices.Contains(s.Required, name) || p.mandatory
		s.Properties = append(s.Properties, p)
	}
	switch additional := bytes.TrimSpace(m["additionalProperties"]); {
	case additional == nil, string(additional) == "false":
		// Nothing said is closed: the tool would not know what to do with it.
	default:
		s.Open = true
	}
	if object(m["items"]) != nil {
		items := r.read(m["items"], depth+1)
		s.Items = &items
	}
}

// join adds what a part of allOf says, or of a choice only the types.
func (s *schema) join(part schema, all bool) {
	for _, t := range part.Types {
		if !slices.Contains(s.Types, t) {
			s.Types = append(s.Types, t)
		}
	}
	if s.Items == nil {
		s.Items = part.Items
	}
	s.WriteOnly = s.WriteOnly || part.WriteOnly
	if len(s.Enum) == 0 {
		s.Enum = part.Enum
	}
	if s.Const == nil && all {
		s.Const = part.Const
	}
	for _, p := range part.Properties {
		if s.property(p.Name) == nil {
			p.Required = p.Required && all
			s.Properties = append(s.Properties, p)
		}
	}
	if s.Minimum == nil {
		s.Minimum = part.Minimum
	}
	if s.Maximum == nil {
		s.Maximum = part.Maximum
	}
	s.MinItems = max(s.MinItems, part.MinItems)
	s.MinLength = max(s.MinLength, part.MinLength)
}

func (s *schema) property(name string) *property {
	for i := range s.Properties {
		if s.Properties[i].Name == name {
			return &s.Properties[i]
		}
	}
	return nil
}

// is reports whether a value may be of a type; where nothing is said, any.
func (s *schema) is(kind string) bool {
	return slices.Contains(s.Types, kind) || kind == "integer" && slices.Contains(s.Types, "number")
}

// typeText is the type for a table.
func (s *schema) typeText() string {
	text := strings.Join(s.Types, " · ")
	if text == "" {
		switch {
		case len(s.Properties) > 0:
			text = "object"
		case len(s.Enum) > 0 && s.Enum[0][0] == '"':
			text = "string"
		default:
			text = "any"
		}
	}
	if s.Items != nil && len(s.Items.Types) > 0 && s.is("array") {
		text = strings.Replace(text, "array", "array of "+strings.Join(s.Items.Types, "/"), 1)
	}
	if s.Format != "" {
		text += " (" + s.Format + ")"
	}
	return text
}

// choices are the values to choose from and the bounds, for a table.
func (s *schema) choices() string {
	var list []string
	of := s
	if len(of.Enum) == 0 && of.Items != nil {
		of = of.Items
	}
	const most = 40
	for i, v := range of.Enum {
		if i == most {
			list = append(list, fmt.Sprintf("… (%d)", len(of.Enum)))
			break
		}
		list = append(list, code(short(plain(v), 80)))
	}
	if s.Const != nil {
		list = append(list, code(short(plain(s.Const), 80)))
	}
	bound := func(sign string, v *float64) {
		if v != nil {
			list = append(list, fmt.Sprintf("%s %v", sign, *v))
		}
	}
	bound("≥", s.Minimum)
	bound(">", s.ExclusiveMinimum)
	bound("≤", s.Maximum)
	bound("<", s.ExclusiveMaximum)
	return strings.Join(list, ", ")
}

// plain is a JSON value as a person writes it: text without quotes.
func plain(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

func object(raw json.RawMessage) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return nil
	}
	return m
}

// ordered gives an object's names in the order of the text.
func ordered(raw json.RawMessage) ([]string, map[string]json.RawMessage) {
	members := object(raw)
	if len(members) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	names := make([]string, 0, len(members))
	_, _ = d.Token() // it is an object
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			break
		}
		if text, ok := name.(string); ok && !slices.Contains(names, text) {
			names = append(names, text)
		}
	}
	return names, members
}

func values(raw json.RawMessage) []json.RawMessage {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	for i := range list {
		list[i] = compact(list[i])
	}
	return list
}

func compact(raw json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return json.RawMessage("null")
	}
	return b.Bytes()
}
