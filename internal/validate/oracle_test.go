package validate_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	oracle "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/toolyard/toolyard/internal/validate"
	"github.com/toolyard/toolyard/tool"
)

// TestOracle holds random values against random schemas, here and in
// santhosh-tekuri/jsonschema: both must say the same.
func TestOracle(t *testing.T) {
	g := &generator{rand.New(rand.NewPCG(1, 2))}
	valid, invalid := 0, 0
	for range 1500 {
		schema := g.schema(3)
		raw, err := json.Marshal(schema)
		if err != nil {
			t.Fatal(err)
		}
		want := oracleFor(t, raw)
		if want == nil {
			continue
		}
		var s jsonschema.Schema
		if err := json.Unmarshal(raw, &s); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		v, err := validate.CompileSchema(&s)
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		for range 12 {
			data, err := json.Marshal(g.value(3))
			if err != nil {
				t.Fatal(err)
			}
			instance, err := oracle.UnmarshalJSON(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			fits := want.Validate(instance) == nil
			if faults := v.Check(data); (len(faults) == 0) != fits {
				t.Fatalf("valid %t, the oracle says %t\nschema %s\ndata %s\nfaults %v", len(faults) == 0, fits, raw, data, faults)
			}
			if fits {
				valid++
			} else {
				invalid++
			}
		}
	}
	t.Logf("%d valid, %d invalid", valid, invalid)
	if valid < 2000 || invalid < 2000 {
		t.Errorf("%d valid and %d invalid values: the generator shows too little", valid, invalid)
	}
}

func oracleFor(t *testing.T, raw []byte) *oracle.Schema {
	t.Helper()
	doc, err := oracle.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	c := oracle.NewCompiler()
	c.DefaultDraft(oracle.Draft2020)
	if err := c.AddResource("mem:///s.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("mem:///s.json")
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return s
}

// generator makes schemas and values from so small a set of names and values
// that they often meet.
type generator struct{ *rand.Rand }

func pick[T any](g *generator, list ...T) T { return list[g.IntN(len(list))] }

func (g *generator) value(depth int) any {
	if depth > 0 {
		switch g.IntN(3) {
		case 0:
			list := []any{}
			for range g.IntN(4) {
				list = append(list, g.value(depth-1))
			}
			return list
		case 1:
			object := map[string]any{}
			for range g.IntN(4) {
				object[g.name()] = g.value(depth - 1)
			}
			return object
		}
	}
	return pick[any](g, nil, true, false, "", "a", "ab", "é", json.Number("0"), json.Number("1"), json.Number("1.0"),
		json.Number("2.5"), json.Number("-3"), json.Number("1e2"), json.Number("9007199254740993"), json.Number("0.3"))
}

// constant is a value without the integer that jsonschema.Schema, which holds
// constants as float64, cannot keep.
func (g *generator) constant(depth int) any {
	for {
		v := g.value(depth)
		if raw, _ := json.Marshal(v); !bytes.Contains(raw, []byte("9007199254740993")) {
			return v
		}
	}
}

func (g *generator) name() string { return pick(g, "a", "b", "c", "ab") }

func (g *generator) schemas(depth int) []any {
	list := []any{}
	for range 1 + g.IntN(2) {
		list = append(list, g.schema(depth))
	}
	return list
}

func (g *generator) named(depth int) map[string]any {
	object := map[string]any{}
	for range 1 + g.IntN(2) {
		object[g.name()] = g.schema(depth)
	}
	return object
}

func (g *generator) schema(depth int) any {
	if depth == 0 || g.IntN(6) == 0 {
		return pick[any](g, true, true, false, map[string]any{"type": "string"}, map[string]any{"type": "integer"}, map[string]any{"type": "object"})
	}
	s := map[string]any{}
	for range 1 + g.IntN(3) {
		g.keyword(s, depth-1)
	}
	return s
}

func (g *generator) keyword(s map[string]any, depth int) {
	key := pick(g, "type", "type", "enum", "const", "minimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern",
		"items", "prefixItems", "contains", "minContains", "maxContains", "minItems", "maxItems", "uniqueItems", "unevaluatedItems",
		"properties", "properties", "additionalProperties", "patternProperties", "propertyNames", "required", "dependentRequired",
		"dependentSchemas", "minProperties", "maxProperties", "unevaluatedProperties", "allOf", "anyOf", "oneOf", "not", "if", "then", "else")
	switch key {
	case "type":
		s[key] = pick[any](g, "string", "number", "integer", "object", "array", "object", "array", []any{"null", "string"}, []any{"object", "integer"})
	case "enum":
		s[key] = []any{g.constant(1), g.constant(0), g.constant(0)}
	case "const":
		s[key] = g.constant(1)
	case "minimum", "exclusiveMaximum":
		s[key] = pick(g, 0, 1, 2.5, 0.3)
	case "multipleOf":
		s[key] = pick(g, 1, 0.5, 0.1, 3)
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains":
		s[key] = g.IntN(3)
	case "pattern":
		s[key] = pick(g, "^a", "b$", "[^a]")
	case "uniqueItems":
		s[key] = g.IntN(2) == 0
	case "required":
		s[key] = []any{g.name()}
	case "dependentRequired":
		s[key] = map[string]any{g.name(): []any{g.name()}}
	case "properties", "dependentSchemas":
		s[key] = g.named(depth)
	case "patternProperties":
		s[key] = map[string]any{pick(g, "^a", "b"): g.schema(depth)}
	case "propertyNames":
		s[key] = map[string]any{pick(g, "maxLength", "minLength"): g.IntN(3)}
	case "prefixItems", "allOf", "anyOf", "oneOf":
		s[key] = g.schemas(depth)
	default:
		s[key] = g.schema(depth)
	}
}

// FuzzArguments: whatever comes, there is an answer, and arguments that were
// taken are JSON that fits and that is taken again unchanged.
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{``, `null`, `{}`, `{"path":"a","edits":[{"old_string":"a","new_str":"b"}]}`, `"{\"path\":\"a\",\"edits\":[]}"`,
		"{\"file_path\":\"a\n\",\"edits\":[{\"old_str\":\"\\ud800\",\"new_str\":\"\"}]}", `{"file_path":"a","edits":[1e400,-0.0]}`,
		`{"file_path":"a","file\u005fpath":1}`, `{"edits`, "\"\xff\"", strings.Repeat(`[`, 300)} {
		f.Add([]byte(seed))
	}
	v := validator[multiEditInput](f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		args, repaired, err := v.Arguments(raw)
		if err != nil {
			if args != nil || err.Error() == "" {
				t.Errorf("%q: args %s with error %v", raw, args, err)
			}
			return
		}
		if !json.Valid(args) {
			t.Fatalf("%q: not JSON: %q", raw, args)
		}
		if !repaired && !blankOrNull(raw) && !json.Valid(raw) {
			t.Errorf("%q: taken without repair", raw)
		}
		if faults := v.Check(args); faults != nil {
			t.Errorf("%q: %s does not fit: %v", raw, args, faults)
		}
		again, repaired, err := v.Arguments(args)
		if err != nil || repaired || !bytes.Equal(again, args) {
			t.Errorf("%q: %s became %s, repaired %t, %v", raw, args, again, repaired, err)
		}
		var in multiEditInput
		if err := json.Unmarshal(args, &in); err != nil {
			t.Errorf("%s does not decode: %v", args, err)
		}
		one, err := validate.Canonical(args)
		if err != nil {
			t.Fatal(err)
		}
		two, err := validate.Canonical(one)
		if err != nil || !bytes.Equal(one, two) {
			t.Errorf("canonical of %s is not: %s, %v", one, two, err)
		}
	})
}

func blankOrNull(raw []byte) bool {
	s := strings.TrimSpace(string(raw))
	return s == "" || s == "null"
}

// FuzzCompile: schemas come from other servers. Whatever they say, there is an
// error or a validator, and the validator gives an answer.
func FuzzCompile(f *testing.F) {
	for _, seed := range []string{`true`, `{"properties":{"a":null}}`, `{"allOf":[null]}`, `{"$ref":"#/allOf/0","allOf":[{"type":"string"}]}`,
		`{"$defs":{"a":{"$id":"x","$dynamicAnchor":"n"}},"$dynamicRef":"x#n"}`, `{"type":["string",7]}`, `{"minLength":-1,"maxItems":-5}`,
		`{"pattern":"(","patternProperties":{"[":{}}}`, `{"items":[{},null],"additionalItems":false}`, `{"enum":[{"a":[1]}],"const":null}`,
		`{"multipleOf":0,"minimum":1e308}`, `{"$ref":"#/definitions/%zz"}`, `{"properties":{"a":{"default":{"b":1}}},"oneOf":[{"required":["a"]}]}`} {
		f.Add(seed, `{"a":[1,"b",{"c":null}]}`)
	}
	f.Fuzz(func(t *testing.T, schema, args string) {
		var s jsonschema.Schema
		if json.Unmarshal([]byte(schema), &s) != nil {
			return
		}
		v, err := validate.Compile(&tool.Spec{Name: "t", Input: &s, ArgumentAliases: map[string]string{"b": "a"}})
		if err != nil {
			return
		}
		out, _, err := v.Arguments(json.RawMessage(args))
		if (err == nil) != (out != nil) {
			t.Errorf("schema %s: args %q gave %s and %v", schema, args, out, err)
		}
		v.Check(json.RawMessage(args))
	})
}
