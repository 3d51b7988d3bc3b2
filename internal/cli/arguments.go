package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/toolyard/toolyard/internal/validate"
	"github.com/toolyard/toolyard/tool"
)

// maxInput bounds what is read from a file or from stdin.
const maxInput = 32 << 20 // bytes

// arguments makes the arguments of a call from the command line: whole as JSON,
// key=value over it, key=@file and key=- from a file and from stdin. spec may be
// nil if the tool is not known.
func (p *program) arguments(spec *tool.Spec, whole string, pairs []string) (json.RawMessage, error) {
	in := &input{stdin: p.stdin, terminal: p.inTTY}
	raw := json.RawMessage(whole)
	if whole == "-" {
		text, err := in.read("--args -")
		if err != nil {
			return nil, err
		}
		raw = json.RawMessage(text)
	}
	if len(pairs) == 0 {
		return raw, nil
	}
	merged := map[string]json.RawMessage{}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &merged); err != nil {
			return nil, usagef("--args is not a JSON object: %v", err).withHint("Only an object can be combined with key=value.")
		}
	}
	given := map[string]bool{}
	for _, pair := range pairs {
		key, value, err := in.pair(spec, pair)
		if err != nil {
			return nil, err
		}
		if given[key] {
			return nil, usagef("%s is given twice", key).withHint("Write a list as JSON: %s='[\"a\", \"b\"]'.", key)
		}
		given[key] = true
		merged[key] = value
	}
	return json.Marshal(merged)
}

// input is what arguments are read from; stdin only once.
type input struct {
	stdin    io.Reader
	terminal bool
	used     string // by what
}

func (in *input) read(by string) (string, error) {
	if in.used != "" {
		return "", usagef("%s and %s both want stdin", in.used, by)
	}
	in.used = by
	return readAll(in.stdin, "stdin")
}

// readAll reads a bounded text.
func readAll(r io.Reader, name string) (string, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxInput+1))
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", name, err)
	}
	if len(raw) > maxInput {
		return "", usagef("%s has more than %s", name, bytesText(maxInput))
	}
	return string(raw), nil
}

// pair takes key=value apart and gives the value as JSON.
func (in *input) pair(spec *tool.Spec, pair string) (string, json.RawMessage, error) {
	key, value, ok := strings.Cut(pair, "=")
	if !ok || key == "" {
		err := usagef("argument %q is not key=value", oneLine(pair, 60))
		if names := argumentNames(spec); len(names) > 0 {
			return "", nil, err.withHint("%s takes %s.", spec.FullName(), strings.Join(names, ", "))
		}
		return "", nil, err
	}
	switch {
	case value == "-":
		text, err := in.read(key + "=-")
		if err != nil {
			return "", nil, err
		}
		value = text
	case strings.HasPrefix(value, "@"):
		file, err := os.Open(value[1:])
		if err != nil {
			return "", nil, usagef("%s: %v", key, err).withHint("A value that begins with @ is read from a file; use --args for a literal @.")
		}
		defer file.Close()
		if value, err = readAll(file, value[1:]); err != nil {
			return "", nil, err
		}
	}
	if !utf8.ValidString(value) {
		return "", nil, usagef("%s is not UTF-8", key).withHint("JSON, which carries arguments, can hold nothing else; use bash for such names and contents.")
	}
	return key, valueJSON(argumentSchema(spec, key), value), nil
}

// valueJSON is value as JSON where it parses as what the schema wants, else as a
// string. Without a schema any JSON but a string counts.
func valueJSON(schema *jsonschema.Schema, value string) json.RawMessage {
	var v any
	if json.Unmarshal([]byte(value), &v) == nil {
		types := schemaTypes(schema)
		if len(types) == 0 {
			if _, isString := v.(string); !isString {
				return json.RawMessage(value)
			}
		}
		if slices.ContainsFunc(types, func(t string) bool { return isType(v, t) }) {
			return json.RawMessage(value)
		}
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return json.RawMessage(`""`)
	}
	return raw
}

// isType reports whether v is a JSON value of type t. A JSON string is not taken
// for one: name="x" means the four characters' worth that were typed.
func isType(v any, t string) bool {
	switch x := v.(type) {
	case bool:
		return t == "boolean"
	case float64:
		return t == "number" || t == "integer" && x == float64(int64(x))
	case []any:
		return t == "array"
	case map[string]any:
		return t == "object"
	case nil:
		return t == "null"
	}
	return false
}

func schemaTypes(s *jsonschema.Schema) []string {
	switch {
	case s == nil:
		return nil
	case s.Type != "":
		return []string{s.Type}
	case len(s.Types) > 0:
		return s.Types
	}
	var types []string
	for _, branch := range slices.Concat(s.AnyOf, s.OneOf) {
		types = append(types, schemaTypes(branch)...)
	}
	return types
}

// argumentSchema finds the schema of an argument by its name or an alias.
func argumentSchema(spec *tool.Spec, name string) *jsonschema.Schema {
	if spec == nil || spec.Input == nil {
		return nil
	}
	if s := spec.Input.Properties[name]; s != nil {
		return s
	}
	return spec.Input.Properties[spec.ArgumentAliases[name]]
}

// argumentNames lists the arguments of a tool, the required ones first.
func argumentNames(spec *tool.Spec) []string {
	if spec == nil || spec.Input == nil {
		return nil
	}
	names := slices.Clone(spec.Input.Required)
	for _, name := range propertyOrder(spec.Input) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// propertyOrder lists properties as their author ordered them.
func propertyOrder(s *jsonschema.Schema) []string {
	names := slices.Clone(s.PropertyOrder)
	rest := make([]string, 0, len(s.Properties))
	for name := range s.Properties {
		if !slices.Contains(names, name) {
			rest = append(rest, name)
		}
	}
	slices.Sort(rest)
	return append(names, rest...)
}

// findSpec is the tool of that name; nil if there is none. It knows less than
// the registry and is only used to read arguments and show tools.
func findSpec(specs []*tool.Spec, name string) *tool.Spec {
	for _, s := range specs {
		if s.FullName() == name || slices.Contains(s.Aliases, name) {
			return s
		}
	}
	plain := strings.Replace(strings.TrimPrefix(name, "mcp__toolyard__"), "__", ":", 1)
	for _, s := range specs {
		if s.FullName() == plain || strings.EqualFold(s.Name, plain) {
			return s
		}
	}
	return nil
}

// nearestTool names the tool that was probably meant; "" if none is near.
func nearestTool(specs []*tool.Spec, name string) string {
	var names []string
	for _, s := range specs {
		names = append(names, s.FullName())
		names = append(names, s.Aliases...)
	}
	if best, near := validate.Nearest(name, names); near {
		return best
	}
	return ""
}
