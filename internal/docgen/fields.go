package docgen

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// field is one property of an object, ready for a table.
type field struct {
	path     string // edits[].old_str
	others   []string
	kind     string // string, list of integer; what it may be
	takes    string // the kind, and whether it is required
	standard string
	meaning  string
}

func (f field) names() string {
	names := code(f.path)
	for _, other := range f.others {
		names += ", " + code(other)
	}
	return names
}

// fieldRows lists the properties of an object and of the objects in it, each in
// the order of the schema.
func fieldRows(s *jsonschema.Schema, aliases map[string]string) []field {
	return objectRows(s, aliases, "")
}

func objectRows(s *jsonschema.Schema, aliases map[string]string, prefix string) []field {
	if s == nil {
		return nil
	}
	var rows []field
	for _, name := range propertyNames(s) {
		p := s.Properties[name]
		row := field{path: prefix + name, kind: kind(p), meaning: escape(p.Description)}
		for _, alias := range slices.Sorted(maps.Keys(aliases)) {
			if aliases[alias] == name && s.Properties[alias] == nil {
				row.others = append(row.others, alias)
			}
		}
		if l := limits(p); l != "" {
			row.kind += ", " + l
		}
		row.takes = row.kind
		if slices.Contains(s.Required, name) {
			row.takes += ", required"
		}
		if p.Default != nil {
			row.standard = code(plainDefault(p.Default))
		}
		rows = append(rows, row)
		rows = append(rows, objectRows(p, aliases, row.path+".")...)
		if p.Items != nil {
			rows = append(rows, objectRows(p.Items, aliases, row.path+"[].")...)
		}
	}
	return rows
}

func propertyNames(s *jsonschema.Schema) []string {
	if len(s.PropertyOrder) == len(s.Properties) {
		return s.PropertyOrder
	}
	return slices.Sorted(maps.Keys(s.Properties))
}

// kind is the type of a property in words.
func kind(s *jsonschema.Schema) string {
	switch {
	case s.Type == "array" && s.Items != nil:
		return "list of " + kind(s.Items)
	case s.Type != "":
		return s.Type
	}
	return "anything"
}

// limits says what a value may be.
func limits(s *jsonschema.Schema) string {
	var list []string
	if s.Items != nil && len(s.Items.Enum) > 0 {
		s = s.Items
	}
	if len(s.Enum) > 0 {
		var words []string
		for _, w := range s.Enum {
			words = append(words, fmt.Sprintf("`%v`", w))
		}
		list = append(list, strings.Join(words, " or "))
	}
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		list = append(list, fmt.Sprintf("%v to %v", *s.Minimum, int64(*s.Maximum)))
	case s.Minimum != nil:
		list = append(list, fmt.Sprintf("at least %v", *s.Minimum))
	case s.Maximum != nil:
		list = append(list, fmt.Sprintf("at most %v", int64(*s.Maximum)))
	}
	switch {
	case s.MinItems != nil && s.MaxItems != nil:
		list = append(list, fmt.Sprintf("%d to %d entries", *s.MinItems, *s.MaxItems))
	case s.MinItems != nil:
		list = append(list, fmt.Sprintf("at least %d", *s.MinItems))
	case s.MaxItems != nil:
		list = append(list, fmt.Sprintf("at most %d", *s.MaxItems))
	}
	if s.MinLength != nil && *s.MinLength > 0 {
		list = append(list, "not empty")
	}
	return strings.Join(list, ", ")
}

func plainDefault(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}
