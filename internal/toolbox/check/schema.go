package check

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/internal/validate"
)

// VariableName is what names of environment variables and codes of business
// errors look like.
var variableName = lazily(`^[A-Z_][A-Z0-9_]*$`)

// schemas is layer 4.
func (r *run) schemas() {
	answer, ok := r.answered("getSchema")
	if !ok {
		return
	}
	where := r.spelled("getSchema") + "()"
	if kindOf(answer) != "an object" {
		r.skip(unanswered)
		r.found("schema", where, r.spelled("getSchema"), kind(answer))
		return
	}
	parameters, environment := schemasOf(r.Definition, answer)
	if parameters == nil {
		r.skip(notAsked, "param-type", "pattern")
		r.found("no-parameters", where+".parameters")
	} else if s := r.schema("parameters", parameters); s != nil {
		for _, name := range slices.Sorted(maps.Keys(s.properties())) {
			if !typed(s.properties()[name]) {
				r.found("param-type", "parameters.properties."+name)
			}
		}
	}
	if environment == nil {
		r.skip(notAsked, "env-name", "env-undescribed")
		r.found("no-environment", where+".environment")
	} else if s := r.schema("environment", environment); s != nil {
		r.variables(s)
	}
}

// schemasOf are the two schemas of getSchema's answer, as they were written; nil
// where there is none. What an older form holds elsewhere, the definition knows.
func schemasOf(d *definition.Definition, answer json.RawMessage) (parameters, environment json.RawMessage) {
	fields := members(answer)
	pick := func(name string, known json.RawMessage) json.RawMessage {
		if raw := fields[name]; raw != nil && kindOf(raw) != "null" {
			return raw
		}
		return known
	}
	return pick("parameters", d.Parameters), pick("environment", d.Environment)
}

func (r *run) variables(s node) {
	for _, name := range slices.Sorted(maps.Keys(s.properties())) {
		at := "environment.properties." + name
		if !variableName().MatchString(name) {
			r.found("env-name", at, name)
		}
		property, _ := s.properties()[name].(map[string]any)
		if text, _ := property["description"].(string); strings.TrimSpace(text) == "" {
			r.found("env-undescribed", at)
		}
	}
}

// node is a schema that is an object, decoded.
type node map[string]any

func (n node) properties() map[string]any {
	m, _ := n["properties"].(map[string]any)
	return m
}

// required is the list of required names; what is no text is left out.
func (n node) required() []string {
	list, _ := n["required"].([]any)
	var names []string
	for _, item := range list {
		if name, ok := item.(string); ok {
			names = append(names, name)
		}
	}
	return names
}

// schema looks at one schema and all that are in it. It returns nil if it is no
// schema of an object.
func (r *run) schema(where string, raw json.RawMessage) node {
	whole, err := decoded(raw)
	if err != nil {
		r.found("schema-valid", where, err.Error())
		return nil
	}
	root, ok := whole.(map[string]any)
	if !ok {
		r.found("schema-valid", where, words{"it is " + kindOf(raw) + ", not an object", "应为对象"})
		return nil
	}
	before := len(r.layer.Findings)
	if kind, there := root["type"]; there && kind != "object" {
		r.found("schema-valid", where, words{"its type must be object, for calls pass objects", "type 必须是 object，因为调用传递的是对象"})
	}
	walk(where, root, func(at string, n node) {
		for _, fault := range sane(n) {
			r.found("schema-valid", at, fault)
		}
		if enum, there := n["enum"]; there {
			if _, isList := enum.([]any); !isList {
				r.found("enum-list", at, kindOfAny(enum))
			}
		}
		r.requirements(at, n)
	})
	if len(r.layer.Findings) > before {
		return root
	}
	r.compiles(where, root)
	return root
}

func (r *run) requirements(at string, n node) {
	properties, required := n.properties(), n.required()
	if properties != nil {
		for _, name := range required {
			if _, there := properties[name]; !there {
				r.found("required-known", at, name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		property, _ := properties[name].(map[string]any)
		if property["required"] == true && !slices.Contains(required, name) {
			r.found("required-true", at+".properties."+name)
		}
	}
}

// compiles has the schema read by the library, and by the validator that stands
// in front of every call.
func (r *run) compiles(where string, root map[string]any) {
	compiled, parsed, err := compile(root)
	if err != nil {
		r.found("schema-valid", where, err.Error())
		return
	}
	// The library resolves references only locally, as the validator does.
	if _, err := parsed.Resolve(nil); err != nil && !strings.Contains(err.Error(), "regexp") {
		r.found("schema-valid", where, err.Error())
		return
	}
	for _, pattern := range compiled.Unchecked() {
		r.found("pattern", where, pattern)
	}
}

// Schema reads a schema of a tool as the runtime can use it: without the
// required: true on properties, which JSON Schema does not know and its readers
// refuse. An error says what else is wrong with it.
func Schema(raw json.RawMessage) (*jsonschema.Schema, error) {
	value, err := decoded(raw)
	if err != nil {
		return nil, err
	}
	root, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the schema is %s, not an object", kindOf(raw))
	}
	_, s, err := compile(root)
	return s, err
}

// compile makes a validator of a decoded schema, without the required: true that
// JSON Schema does not know.
func compile(root map[string]any) (*validate.Validator, *jsonschema.Schema, error) {
	raw, err := json.Marshal(withoutFlags(root))
	if err != nil {
		return nil, nil, err
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, nil, err
	}
	v, err := validate.CompileSchema(&s)
	return v, &s, err
}

// withoutFlags copies a schema and leaves out each required that is true or false.
func withoutFlags(root map[string]any) map[string]any {
	copied, _ := clone(root).(map[string]any)
	walk("", copied, func(_ string, n node) {
		if _, flag := n["required"].(bool); flag {
			delete(n, "required")
		}
	})
	return copied
}

func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, item := range v {
			m[k] = clone(item)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = clone(item)
		}
		return list
	}
	return v
}

// The keywords that hold schemas: by name, one, or in a list.
func namedSchemas() []string {
	return []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
}

func singleSchemas() []string {
	return []string{"items", "additionalItems", "additionalProperties", "unevaluatedItems", "unevaluatedProperties",
		"contains", "propertyNames", "not", "if", "then", "else"}
}

func listedSchemas() []string { return []string{"allOf", "anyOf", "oneOf", "prefixItems", "items"} }

// walk calls visit for a schema and for each below it, in a fixed order.
func walk(at string, n map[string]any, visit func(at string, n node)) {
	visit(at, n)
	for _, keyword := range namedSchemas() {
		m, _ := n[keyword].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(m)) {
			if sub, ok := m[name].(map[string]any); ok {
				walk(at+"."+keyword+"."+name, sub, visit)
			}
		}
	}
	for _, keyword := range singleSchemas() {
		if sub, ok := n[keyword].(map[string]any); ok {
			walk(at+"."+keyword, sub, visit)
		}
	}
	for _, keyword := range listedSchemas() {
		list, _ := n[keyword].([]any)
		for i, item := range list {
			if sub, ok := item.(map[string]any); ok {
				walk(fmt.Sprintf("%s.%s[%d]", at, keyword, i), sub, visit)
			}
		}
	}
}

// typed reports whether a parameter's schema says of which type it is: by itself,
// by a reference, or by every branch of a choice.
func typed(schema any) bool {
	n, ok := schema.(map[string]any)
	if !ok {
		return schema == true
	}
	if _, there := n["type"]; there {
		return true
	}
	if _, there := n["$ref"]; there {
		return true
	}
	if _, there := n["const"]; there {
		return true
	}
	if all, ok := n["allOf"].([]any); ok && slices.ContainsFunc(all, typed) {
		return true
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		if choices, ok := n[keyword].([]any); ok && len(choices) > 0 &&
			!slices.ContainsFunc(choices, func(c any) bool { return !typed(c) }) {
			return true
		}
	}
	return false
}

// sane finds what the meta-schema forbids in one schema: keywords whose values
// are of the wrong kind. enum and required: true have rules of their own.
func sane(n node) []any {
	var faults []any
	wrong := func(keyword, expected, expectedZH string) {
		faults = append(faults, words{
			fmt.Sprintf("%s is %s; %s is expected", keyword, kindOfAny(n[keyword])[en], expected),
			fmt.Sprintf("%s 为 %s；应为%s", keyword, kindOfAny(n[keyword])[zh], expectedZH),
		})
	}
	for _, row := range metaSchema() {
		value, there := n[row.keyword]
		if there && !row.fits(value) {
			wrong(row.keyword, row.expected[en], row.expected[zh])
		}
	}
	for _, pair := range [][2]string{{"minLength", "maxLength"}, {"minItems", "maxItems"}, {"minimum", "maximum"}, {"minProperties", "maxProperties"}} {
		least, ok1 := number(n[pair[0]])
		most, ok2 := number(n[pair[1]])
		if ok1 && ok2 && least > most {
			faults = append(faults, words{
				fmt.Sprintf("%s %v is above %s %v: nothing fits", pair[0], least, pair[1], most),
				fmt.Sprintf("%s %v 大于 %s %v：没有值能满足", pair[0], least, pair[1], most),
			})
		}
	}
	return faults
}

type metaRow struct {
	keyword  string
	fits     func(any) bool
	expected words
}

// metaSchema says of which kind each keyword's value must be.
func metaSchema() []metaRow {
	types := words{"one of string, number, integer, boolean, array, object, null, or a list of them", " string、number、integer、boolean、array、object、null 之一，或其列表"}
	var rows []metaRow
	add := func(fits func(any) bool, expected words, keywords ...string) {
		for _, k := range keywords {
			rows = append(rows, metaRow{k, fits, expected})
		}
	}
	add(isType, types, "type")
	add(isSchemas, words{"an object of schemas", "由模式组成的对象"}, namedSchemas()...)
	add(func(v any) bool { return isSchema(v) || isSchemaList(v) }, words{"a schema", "模式"}, "items")
	add(isSchema, words{"a schema", "模式"}, slices.DeleteFunc(singleSchemas(), func(k string) bool { return k == "items" })...)
	add(isSchemaList, words{"a list of schemas", "模式列表"}, "allOf", "anyOf", "oneOf", "prefixItems")
	add(func(v any) bool { _, ok := v.(bool); return ok || isNames(v) }, words{"a list of names", "名称列表"}, "required")
	add(isCount, words{"a whole number from 0", "非负整数"}, "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
	add(func(v any) bool { _, ok := number(v); return ok }, words{"a number", "数字"}, "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
	add(func(v any) bool { f, ok := number(v); return ok && f > 0 }, words{"a number above 0", "大于 0 的数字"}, "multipleOf")
	add(func(v any) bool { _, ok := v.(string); return ok }, words{"a text", "文本"}, "title", "description", "format", "pattern", "$ref", "$id", "$schema")
	return rows
}

func isType(v any) bool {
	known := func(t any) bool {
		switch t {
		case "string", "number", "integer", "boolean", "array", "object", "null":
			return true
		}
		return false
	}
	if list, ok := v.([]any); ok {
		return len(list) > 0 && !slices.ContainsFunc(list, func(t any) bool { return !known(t) })
	}
	return known(v)
}

func isSchema(v any) bool {
	switch v.(type) {
	case map[string]any, bool:
		return true
	}
	return false
}

func isSchemas(v any) bool {
	m, ok := v.(map[string]any)
	for _, s := range m {
		ok = ok && isSchema(s)
	}
	return ok
}

func isSchemaList(v any) bool {
	list, ok := v.([]any)
	return ok && len(list) > 0 && !slices.ContainsFunc(list, func(s any) bool { return !isSchema(s) })
}

func isNames(v any) bool {
	list, ok := v.([]any)
	return ok && !slices.ContainsFunc(list, func(s any) bool { _, text := s.(string); return !text })
}

func isCount(v any) bool {
	f, ok := number(v)
	return ok && f >= 0 && f == float64(int64(f))
}

func number(v any) (float64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	f, err := n.Float64()
	return f, err == nil
}

func kindOfAny(v any) words {
	raw, err := json.Marshal(v)
	if err != nil {
		return words{"no JSON", "非 JSON"}
	}
	if w := kind(raw); len(raw) > 40 || raw[0] == '{' || raw[0] == '[' {
		return w
	}
	return words{string(raw), string(raw)}
}
