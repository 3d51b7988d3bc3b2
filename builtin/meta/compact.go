package meta

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/toolyard/toolyard/tool"
)

var errNoHost = tool.Errorf(tool.DependencyError, "there is no executor that knows the tools")

// detail is how much of a schema is told.
type detail struct {
	explanation int // bytes about one argument; 0 none
	optional    bool
	depth       int // objects within objects
	values      int // of an enum
}

// details are tried in this order until a schema fits.
var details = []detail{
	{briefExplanation, true, 4, 40},
	{shortExplanation, true, 3, 20},
	{0, true, 2, 10},
	{0, false, 1, 5},
}

// compact is a schema with only what helps to call the tool, in at most budget
// bytes if that can be; what is left out is told by tool_describe.
func compact(s *jsonschema.Schema, budget int) json.RawMessage {
	var b []byte
	for _, d := range details {
		b = encode(d.schema(s, d.depth, s))
		if len(b) <= budget {
			break
		}
	}
	if len(b) > budget { // the names at least
		b = encode(map[string]any{"type": "object", "required": s.Required})
	}
	if len(b) > budget {
		b = []byte(`{"type":"object"}`)
	}
	return b
}

// plain is a schema as it is shown. The members stand in this order.
type plain struct {
	Type        any             `json:"type,omitempty"`
	Description string          `json:"description,omitempty"`
	Enum        []any           `json:"enum,omitempty"`
	Const       any             `json:"const,omitempty"`
	Default     json.RawMessage `json:"default,omitempty"`
	Properties  *ordered        `json:"properties,omitempty"`
	Required    []string        `json:"required,omitempty"`
	Items       *plain          `json:"items,omitempty"`
	Any         []*plain        `json:"anyOf,omitempty"`
	Open        *plain          `json:"additionalProperties,omitempty"`
}

// ordered is the properties of an object, in their order.
type ordered struct {
	names  []string
	values []*plain
}

func (o *ordered) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, name := range o.names {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(encode(name))
		b.WriteByte(':')
		b.Write(encode(o.values[i]))
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func (d detail) schema(s *jsonschema.Schema, depth int, root *jsonschema.Schema) *plain {
	if s == nil {
		return nil
	}
	if s.Ref != "" {
		s = resolve(s, root)
	}
	p := &plain{Description: brief(s.Description, d.explanation), Default: s.Default}
	switch {
	case s.Type != "":
		p.Type = s.Type
	case len(s.Types) == 1:
		p.Type = s.Types[0]
	case len(s.Types) > 1:
		p.Type = s.Types
	}
	if s.Const != nil {
		p.Const = *s.Const
	}
	p.Enum = s.Enum[:min(len(s.Enum), d.values)]
	if len(p.Default) > shortExplanation || string(p.Default) == "null" || string(p.Default) == `""` {
		p.Default = nil
	}
	if depth == 0 {
		return p
	}
	p.Items = d.schema(s.Items, depth-1, root)
	for _, one := range slices.Concat(s.AnyOf, s.OneOf) {
		p.Any = append(p.Any, d.schema(one, depth-1, root))
	}
	if a := s.AdditionalProperties; a != nil && a.Not == nil && len(s.Properties) == 0 {
		p.Open = d.schema(a, depth-1, root)
	}
	d.properties(p, s, depth, root)
	return p
}

// properties adds the arguments, the required ones first.
func (d detail) properties(p *plain, s *jsonschema.Schema, depth int, root *jsonschema.Schema) {
	if len(s.Properties) == 0 {
		return
	}
	p.Required = s.Required
	p.Properties = &ordered{}
	for _, name := range inOrder(s) {
		needed := slices.Contains(s.Required, name)
		if !needed && !d.optional {
			continue
		}
		value := d.schema(s.Properties[name], depth-1, root)
		if value == nil {
			value = &plain{}
		}
		p.Properties.names = append(p.Properties.names, name)
		p.Properties.values = append(p.Properties.values, value)
	}
}

// inOrder lists the properties of an object: the required ones first, each kind in
// its own order.
func inOrder(s *jsonschema.Schema) []string {
	names := slices.Clone(s.Required)
	names = slices.DeleteFunc(names, func(n string) bool { return s.Properties[n] == nil })
	var rest []string
	for name := range s.Properties {
		if !slices.Contains(s.PropertyOrder, name) {
			rest = append(rest, name)
		}
	}
	slices.Sort(rest)
	for _, name := range slices.Concat(s.PropertyOrder, rest) {
		if s.Properties[name] != nil && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// resolve follows a reference within the schema, one step.
func resolve(s, root *jsonschema.Schema) *jsonschema.Schema {
	for _, in := range []string{"#/$defs/", "#/definitions/"} {
		if name, ok := strings.CutPrefix(s.Ref, in); ok {
			if at := root.Defs[name]; at != nil {
				return at
			}
			if at := root.Definitions[name]; at != nil {
				return at
			}
		}
	}
	return s
}

// brief is the beginning of a text, on one line: whole sentences if they fit.
func brief(text string, most int) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= most {
		return text
	}
	if most == 0 {
		return ""
	}
	cut := text[:most]
	for _, stop := range []string{". ", "。"} {
		if i := strings.LastIndex(cut, stop); i > most/3 {
			return cut[:i] + strings.TrimSpace(stop)
		}
	}
	if i := strings.LastIndexByte(cut, ' '); i > most/2 {
		cut = cut[:i]
	}
	return strings.ToValidUTF8(cut, "") + "…"
}

// encode writes JSON without escaping what only HTML must escape. What cannot be
// encoded is left out: a foreign schema may hold anything.
func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return []byte("{}")
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}
