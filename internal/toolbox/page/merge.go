package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/internal/validate"
	"github.com/toolyard/toolyard/tool"
)

// Directories is the variable that names directories. It takes a list, a JSON
// array, or text separated by colons or commas, whatever the schema says.
const Directories = "ALLOWED_DIRECTORIES"

// maxValue bounds one value, in bytes.
const maxValue = 256 << 10

// keyPattern is the form of a variable's name.
var keyPattern = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`)

// MergeConfig gives the variables after params, a JSON object, were merged into
// current: null takes one out, anything else sets it, as text. Values are checked
// against the tool's environment schema; a name that it does not know is taken
// only where it is open (additionalProperties), or to take out what is there.
// All faults come at once, and then nothing is merged. They show no secret.
func MergeConfig(d *definition.Definition, current map[string]string, params json.RawMessage) (map[string]string, []tool.Fault) {
	m := merger{schema: readSchema(d.Environment), merged: maps.Clone(current), typed: map[string]json.RawMessage{}}
	if m.merged == nil {
		m.merged = map[string]string{}
	}
	params = bytes.TrimSpace(params)
	if len(params) == 0 || string(params) == "null" {
		return m.merged, nil
	}
	names, values := ordered(params)
	if values == nil && string(params) != "{}" && object(params) == nil {
		return nil, []tool.Fault{{Expected: "a mapping of environment variables", Got: kindOf(params)}}
	}
	for _, name := range names {
		m.one(name, values[name])
	}
	m.faults = append(m.faults, check(d, m.schema, m.typed)...)
	if len(m.faults) > 0 {
		return nil, m.faults
	}
	return m.merged, nil
}

type merger struct {
	schema schema
	merged map[string]string
	// typed are the new values as the schema's types.
	typed  map[string]json.RawMessage
	faults []tool.Fault
}

func (m *merger) fault(path, expected, got string) {
	m.faults = append(m.faults, tool.Fault{Path: path, Expected: expected, Got: got})
}

func (m *merger) one(name string, raw json.RawMessage) {
	p := m.schema.property(name)
	_, there := m.merged[name]
	removed := string(bytes.TrimSpace(raw)) == "null"
	if p == nil && !(removed && there) {
		if !m.schema.Open {
			m.unknown(name)
			return
		}
		if !keyPattern.MatchString(name) {
			m.fault(name, "a name of capitals, digits and _", fmt.Sprintf("%q", short(name, 80)))
			return
		}
	}
	if removed {
		delete(m.merged, name)
		return
	}
	of := schema{}
	if p != nil {
		of = p.schema
	}
	text, typed, expected := m.value(name, of, raw)
	secret := secretProperty(name, of)
	switch {
	case expected == "" && strings.ContainsRune(text, 0):
		expected = "text without NUL characters"
	case expected == "" && len(text) > maxValue:
		expected = fmt.Sprintf("at most %d KiB", maxValue>>10)
	}
	if expected != "" {
		m.fault(name, expected, gotOf(raw, secret))
		return
	}
	m.merged[name] = text
	if p != nil && name != Directories {
		m.typed[name] = typed
	}
}

func (m *merger) unknown(name string) {
	var known []string
	for _, p := range m.schema.Properties {
		known = append(known, p.Name)
	}
	expected := "no variable: this tool has none"
	if len(known) > 0 {
		expected = "one of " + strings.Join(validate.Rank(name, known)[:min(len(known), 5)], ", ")
		if best, near := validate.Nearest(name, known); near {
			expected += " (did you mean " + best + "?)"
		}
	}
	m.fault(name, expected, "an unknown variable")
}

// value gives a value as text and as the type of its schema; expected says what
// would have been right.
func (m *merger) value(name string, s schema, raw json.RawMessage) (text string, typed json.RawMessage, expected string) {
	raw = compact(raw)
	var given string
	isText := json.Unmarshal(raw, &given) == nil
	if name == Directories {
		return directories(raw, given, isText)
	}
	if !isText {
		given = string(raw)
	}
	typed, ok := typeOf(s, given, raw, isText)
	if !ok {
		return "", nil, s.typeText()
	}
	var still string
	switch {
	case json.Unmarshal(typed, &still) == nil:
		return still, typed, ""
	case isText && typed[0] != 't' && typed[0] != 'f':
		return given, typed, "" // a number or list keeps the words that it was given in
	}
	return string(typed), typed, ""
}

// typeOf gives a value as one of the schema's types.
func typeOf(s schema, given string, raw json.RawMessage, isText bool) (json.RawMessage, bool) {
	trimmed := strings.TrimSpace(given)
	if len(s.Types) == 0 || isText && s.is("string") {
		return raw, true
	}
	first := trimmed[:min(1, len(trimmed))]
	valid := json.Valid([]byte(trimmed))
	switch {
	case s.is("integer") || s.is("number"):
		if n, err := strconv.ParseFloat(trimmed, 64); err == nil && n-n == 0 {
			if !valid {
				return encode(n), true // .5 and +5 are numbers too
			}
			return json.RawMessage(trimmed), true
		}
	}
	if s.is("boolean") {
		switch strings.ToLower(trimmed) {
		case "true", "yes", "on", "1":
			return json.RawMessage("true"), true
		case "false", "no", "off", "0":
			return json.RawMessage("false"), true
		}
	}
	if s.is("object") && valid && first == "{" {
		return json.RawMessage(trimmed), true
	}
	if s.is("array") {
		if valid && first == "[" {
			return json.RawMessage(trimmed), true
		}
		if isText {
			return splitList(trimmed, ","), true
		}
	}
	// A number or boolean as text is what .env has anyway.
	if s.is("string") && first != "{" && first != "[" {
		return encode(given), true
	}
	return nil, false
}

// splitList makes a JSON array of texts between separators.
func splitList(text, separator string) json.RawMessage {
	items := []string{}
	for item := range strings.SplitSeq(text, separator) {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return encode(items)
}

// directories takes a list of directories in any of its forms.
func directories(raw json.RawMessage, given string, isText bool) (string, json.RawMessage, string) {
	const expected = "a list of directories, or text with them separated by commas"
	if isText {
		if strings.HasPrefix(strings.TrimSpace(given), "[") {
			raw = json.RawMessage(strings.TrimSpace(given))
		} else {
			return strings.TrimSpace(given), encode(given), ""
		}
	}
	var list []string
	if json.Unmarshal(raw, &list) != nil {
		return "", nil, expected
	}
	for _, dir := range list {
		if strings.TrimSpace(dir) == "" {
			return "", nil, expected + "; none of them empty"
		}
	}
	return string(encode(list)), encode(list), ""
}

// gotOf is a value for a fault; a secret is not shown.
func gotOf(raw json.RawMessage, secret bool) string {
	if secret {
		return kindOf(raw) + " (not shown)"
	}
	return short(string(compact(raw)), 80)
}

func kindOf(raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '{':
		return "a mapping"
	case '[':
		return "a list"
	case '"':
		return "text"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	}
	return "a number"
}

// check holds values against the schema of the variables; what the schema
// itself has wrong is not theirs.
func check(d *definition.Definition, s schema, typed map[string]json.RawMessage) []tool.Fault {
	if len(typed) == 0 {
		return nil
	}
	root := object(d.Environment)
	wanted := map[string]json.RawMessage{"type": json.RawMessage(`"object"`), "properties": sound(root["properties"], 0)}
	for _, name := range []string{"$defs", "definitions"} {
		if root[name] != nil {
			wanted[name] = sound(root[name], 0)
		}
	}
	var js jsonschema.Schema
	if json.Unmarshal(encode(wanted), &js) != nil {
		return nil
	}
	v, err := validate.CompileSchema(&js)
	if err != nil {
		return nil
	}
	faults := v.Check(encode(typed))
	for i, f := range faults {
		for name := range typed {
			if p := s.property(name); strings.HasPrefix(f.Path, name) && p != nil && secretProperty(name, p.schema) {
				faults[i].Got = kindOf(typed[name]) + " (not shown)"
			}
		}
	}
	return faults
}

// sound takes out of schemas what other dialects write and ours refuses:
// "required: true" on a property.
func sound(raw json.RawMessage, depth int) json.RawMessage {
	names, members := ordered(raw)
	if members == nil || depth > 2*maxSchemaDepth {
		return raw
	}
	var out []member
	for _, name := range names {
		value := members[name]
		if name == "required" && (string(bytes.TrimSpace(value)) == "true" || string(bytes.TrimSpace(value)) == "false") {
			continue
		}
		out = append(out, member{name, sound(value, depth+1)})
	}
	return orderedObject(out)
}

// unfit finds the values that are not as the schema wants them.
func unfit(d *definition.Definition, s schema, values map[string]string) map[string]bool {
	given := map[string]string{}
	for _, p := range s.Properties {
		if v := values[p.Name]; v != "" {
			given[p.Name] = v
		}
	}
	_, faults := MergeConfig(d, nil, encode(given))
	wrong := map[string]bool{}
	for _, f := range faults {
		for name := range given { // a name may have dots of its own
			if f.Path == name || strings.HasPrefix(f.Path, name+".") || strings.HasPrefix(f.Path, name+"[") {
				wrong[name] = true
			}
		}
	}
	return wrong
}

// Changes compares two states of a tool's variables: what was set or changed,
// and what was taken out, by the alphabet.
func Changes(before, after map[string]string) (changed, removed []string) {
	for name, value := range after {
		if old, was := before[name]; !was || old != value {
			changed = append(changed, name)
		}
	}
	for name := range before {
		if _, is := after[name]; !is {
			removed = append(removed, name)
		}
	}
	slices.Sort(changed)
	slices.Sort(removed)
	return changed, removed
}
