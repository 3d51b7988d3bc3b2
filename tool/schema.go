package tool

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// SchemaFor derives the JSON Schema of T and the argument aliases declared in
// it. Rules, per struct field:
//
//   - json:"name" names the property, json:"-" leaves the field out; a field
//     without omitempty or omitzero is required.
//   - jsonschema:"description; key=value; …" adds a description (the first part)
//     and default, min, max, minLength, maxLength, minItems, maxItems, pattern,
//     format, and enum=a|b|c. A semicolon in a description is written as two.
//   - alias:"other,names" are further names under which the argument is taken.
//
// Objects are closed (additionalProperties false), except maps. Slices, maps,
// pointers, embedded structs and json.RawMessage (any value) are understood,
// []byte is base64, a type with JSON methods of its own is any value, one with
// MarshalText a string. A type that contains itself is an error. A property keeps
// the order of its field.
func SchemaFor[T any]() (*jsonschema.Schema, map[string]string, error) {
	aliases := map[string]string{}
	schema, err := (&deriver{aliases: aliases}).derive(reflect.TypeFor[T]())
	if err != nil {
		return nil, nil, err
	}
	return schema, aliases, nil
}

var (
	rawType    = reflect.TypeFor[json.RawMessage]()
	timeType   = reflect.TypeFor[time.Time]()
	numberType = reflect.TypeFor[json.Number]()

	jsonMarshaler   = reflect.TypeFor[json.Marshaler]()
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
)

// deriver goes through the types of one schema.
type deriver struct {
	aliases map[string]string
	open    []reflect.Type // the structs that it is inside of
}

// special gives the schema of a type whose JSON is not that of its Go kind.
func special(t reflect.Type) *jsonschema.Schema {
	is := func(i reflect.Type) bool { return t.Implements(i) || reflect.PointerTo(t).Implements(i) }
	switch {
	case t == rawType:
		return &jsonschema.Schema{}
	case t == timeType:
		return &jsonschema.Schema{Type: "string", Format: "date-time"}
	case t == numberType:
		return &jsonschema.Schema{Type: "number"}
	case t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface:
		return nil
	case is(jsonMarshaler) || is(jsonUnmarshaler):
		return &jsonschema.Schema{}
	case is(textMarshaler):
		return &jsonschema.Schema{Type: "string"}
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return &jsonschema.Schema{Type: "string", ContentEncoding: "base64"}
	}
	return nil
}

func (d *deriver) derive(t reflect.Type) (*jsonschema.Schema, error) {
	if s := special(t); s != nil {
		return s, nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return d.derive(t.Elem())
	case reflect.String:
		return &jsonschema.Schema{Type: "string"}, nil
	case reflect.Bool:
		return &jsonschema.Schema{Type: "boolean"}, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return &jsonschema.Schema{Type: "integer"}, nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return &jsonschema.Schema{Type: "integer", Minimum: new(float64)}, nil
	case reflect.Float32, reflect.Float64:
		return &jsonschema.Schema{Type: "number"}, nil
	case reflect.Interface:
		return &jsonschema.Schema{}, nil
	case reflect.Slice, reflect.Array:
		items, err := d.derive(t.Elem())
		return &jsonschema.Schema{Type: "array", Items: items}, err
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			return nil, fmt.Errorf("map with keys of type %s", t.Key())
		}
		values, err := d.derive(t.Elem())
		return &jsonschema.Schema{Type: "object", AdditionalProperties: values}, err
	case reflect.Struct:
		if slices.Contains(d.open, t) {
			return nil, fmt.Errorf("type %s contains itself; use json.RawMessage for what is inside", t)
		}
		d.open = append(d.open, t)
		defer func() { d.open = d.open[:len(d.open)-1] }()
		return d.deriveStruct(t)
	}
	return nil, fmt.Errorf("no JSON Schema for Go type %s", t)
}

func (d *deriver) deriveStruct(t reflect.Type) (*jsonschema.Schema, error) {
	object := &jsonschema.Schema{
		Type:                 "object",
		Properties:           map[string]*jsonschema.Schema{},
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
	}
	for _, field := range reflect.VisibleFields(t) {
		if !field.IsExported() || inline(field) || insideNamed(t, field) {
			continue
		}
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" && options == "" {
			continue
		}
		if name == "" {
			name = field.Name
		}
		property, err := d.derive(field.Type)
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", field.Name, err)
		}
		if err := applyTag(property, field.Tag.Get("jsonschema")); err != nil {
			return nil, fmt.Errorf("field %s: %w", field.Name, err)
		}
		object.Properties[name] = property
		object.PropertyOrder = append(object.PropertyOrder, name)
		if !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") {
			object.Required = append(object.Required, name)
		}
		for alias := range strings.SplitSeq(field.Tag.Get("alias"), ",") {
			if alias == "" {
				continue
			}
			if other, taken := d.aliases[alias]; taken && other != name {
				return nil, fmt.Errorf("field %s: alias %q already means %q", field.Name, alias, other)
			}
			d.aliases[alias] = name
		}
	}
	return object, nil
}

// inline reports whether the fields of an embedded struct stand in the object
// itself.
func inline(field reflect.StructField) bool {
	t := field.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return field.Anonymous && name == "" && t.Kind() == reflect.Struct
}

// insideNamed reports whether a promoted field belongs to an embedded struct
// that is a property of its own.
func insideNamed(t reflect.Type, field reflect.StructField) bool {
	for n := 1; n < len(field.Index); n++ {
		if !inline(t.FieldByIndex(field.Index[:n])) {
			return true
		}
	}
	return false
}

// applyTag adds to s what a jsonschema tag says.
func applyTag(s *jsonschema.Schema, tag string) error {
	if tag == "" {
		return nil
	}
	const semicolon = "\x00"
	for i, part := range strings.Split(strings.ReplaceAll(tag, ";;", semicolon), ";") {
		part = strings.TrimSpace(strings.ReplaceAll(part, semicolon, ";"))
		key, value, isPair := strings.Cut(part, "=")
		if i == 0 {
			s.Description = part
			continue
		}
		if !isPair {
			return fmt.Errorf("jsonschema tag: %q is not key=value", part)
		}
		if err := applyKeyword(s, strings.TrimSpace(key), strings.TrimSpace(value)); err != nil {
			return err
		}
	}
	return nil
}

func applyKeyword(s *jsonschema.Schema, key, value string) error {
	number := func() (*float64, error) {
		f, err := strconv.ParseFloat(value, 64)
		return &f, err
	}
	count := func() (*int, error) {
		n, err := strconv.Atoi(value)
		return &n, err
	}
	var err error
	switch key {
	case "default":
		s.Default, err = literal(s, value)
	case "enum":
		target := s
		if s.Type == "array" {
			target = s.Items
		}
		for choice := range strings.SplitSeq(value, "|") {
			raw, err := literal(target, choice)
			if err != nil {
				return fmt.Errorf("jsonschema tag: enum=%s: %w", choice, err)
			}
			var constant any
			if err := json.Unmarshal(raw, &constant); err != nil {
				return fmt.Errorf("jsonschema tag: enum=%s: %w", choice, err)
			}
			target.Enum = append(target.Enum, constant)
		}
	case "min":
		s.Minimum, err = number()
	case "max":
		s.Maximum, err = number()
	case "minLength":
		s.MinLength, err = count()
	case "maxLength":
		s.MaxLength, err = count()
	case "minItems":
		s.MinItems, err = count()
	case "maxItems":
		s.MaxItems, err = count()
	case "pattern":
		s.Pattern = value
	case "format":
		s.Format = value
	default:
		err = fmt.Errorf("unknown key")
	}
	if err != nil {
		return fmt.Errorf("jsonschema tag: %s=%s: %w", key, value, err)
	}
	return nil
}

// literal writes a default as JSON of the property's type.
func literal(s *jsonschema.Schema, value string) (json.RawMessage, error) {
	if s.Type == "string" {
		return json.Marshal(value)
	}
	if !json.Valid([]byte(value)) {
		return nil, fmt.Errorf("not JSON")
	}
	return json.RawMessage(value), nil
}
