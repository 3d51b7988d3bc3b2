package validate_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/toolyard/toolyard/internal/validate"
	"github.com/toolyard/toolyard/tool"
)

func TestArguments(t *testing.T) {
	read, multi, grep := validator[readInput](t), validator[multiEditInput](t), validator[grepInput](t)
	for _, c := range []struct {
		name     string
		v        *validate.Validator
		raw      string
		want     string
		repaired bool
	}{
		{"as it is", read, `{ "file_path": "a", "offset": 0, "limit": 5 }`, `{ "file_path": "a", "offset": 0, "limit": 5 }`, false},
		{"defaults", read, `{"file_path":"a"}`, `{"file_path":"a","offset":0,"limit":2000}`, false},
		{"alias", read, `{"path":"a","offset":1,"limit":1}`, `{"file_path":"a","offset":1,"limit":1}`, false},
		{"alias and name agree", read, `{"path":"a","file_path":"\u0061","offset":1,"limit":1}`, `{"file_path":"\u0061","offset":1,"limit":1}`, false},
		{"alias in a list", multi, `{"path":"f","edits":[{"old_string":"a","new_str":"b"},{"old_str":"c","new_string":"d","replace_all":true}]}`,
			`{"file_path":"f","edits":[{"old_str":"a","new_str":"b","replace_all":false},{"old_str":"c","new_str":"d","replace_all":true}]}`, false},
		{"a property is no alias", grep, `{"pattern":"x","path":"src","case_insensitive":true,"output":"files","max_results":1}`,
			`{"pattern":"x","path":"src","-i":true,"output":"files","max_results":1}`, false},
		{"3.0 is an integer", read, `{"file_path":"a","offset":3.0,"limit":1e3}`, `{"file_path":"a","offset":3.0,"limit":1e3}`, false},
		{"big numbers keep their text", read, `{"path":"a","offset":9007199254740993,"limit":1}`, `{"file_path":"a","offset":9007199254740993,"limit":1}`, false},
		{"a string holding JSON", read, `"{\"file_path\":\"a\",\"offset\":1,\"limit\":2}"`, `{"file_path":"a","offset":1,"limit":2}`, true},
		{"raw newline, tab, return", multi, "{\"path\":\"f\",\"edits\":[{\"old_str\":\"a\n\tb\r\",\"new_str\":\"\\\"\n\",\"replace_all\":true}]}\n",
			`{"file_path":"f","edits":[{"old_str":"a\n\tb\r","new_str":"\"\n","replace_all":true}]}`, true},
		{"both repairs", read, "\"{\\\"file_path\\\":\\\"a\\nb\\\",\\\"offset\\\":1,\\\"limit\\\":2}\"", `{"file_path":"a\nb","offset":1,"limit":2}`, true},
		{"unicode", read, `{"path":"\ud83d\ude00é","offset":1,"limit":2}`, `{"file_path":"\ud83d\ude00é","offset":1,"limit":2}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, repaired, err := c.v.Arguments(json.RawMessage(c.raw))
			if err != nil {
				t.Fatalf("%s: %v", c.raw, err)
			}
			if string(got) != c.want || repaired != c.repaired {
				t.Errorf("got  %s (repaired %t)\nwant %s (repaired %t)", got, repaired, c.want, c.repaired)
			}
		})
	}
}

func TestArgumentsAbsent(t *testing.T) {
	type in struct {
		Limit int `json:"limit,omitempty" jsonschema:"how many; default=7"`
	}
	for _, raw := range []string{"", "  \n", "null", "{}", `"{}"`, `""`, `"null"`} {
		got, _, err := validator[in](t).Arguments(json.RawMessage(raw))
		if err != nil || string(got) != `{"limit":7}` {
			t.Errorf("%q: got %s, %v", raw, got, err)
		}
	}
	empty, err := validate.Compile(&tool.Spec{Name: "t"})
	if err != nil {
		t.Fatal(err)
	}
	if got, _, err := empty.Arguments(nil); err != nil || string(got) != "{}" {
		t.Errorf("without a schema: got %s, %v", got, err)
	}
	if _, _, err := empty.Arguments(json.RawMessage(`{"a":1}`)); err == nil {
		t.Error("without a schema an argument was taken")
	}
}

func TestFaults(t *testing.T) {
	read, multi, grep := validator[readInput](t), validator[multiEditInput](t), validator[grepInput](t)
	long := strings.Repeat("x", 200)
	for _, c := range []struct {
		name string
		v    *validate.Validator
		raw  string
		want []tool.Fault
	}{
		{"missing", read, `{}`, []tool.Fault{{Path: "file_path", Expected: "a string (required)", Got: "nothing"}}},
		{"mistyped", read, `{"file_path":3}`, []tool.Fault{{Path: "file_path", Expected: "a string", Got: "3"}}},
		{"no number from a string", read, `{"file_path":"a","limit":"5"}`, []tool.Fault{{Path: "limit", Expected: "an integer of at least 1", Got: `"5"`}}},
		{"out of range", grep, `{"pattern":"a","max_results":1001}`, []tool.Fault{{Path: "max_results", Expected: "an integer from 1 to 1000", Got: "1001"}}},
		{"not whole", read, `{"file_path":"a","limit":1.5}`, []tool.Fault{{Path: "limit", Expected: "an integer of at least 1", Got: "1.5"}}},
		{"unknown, near", read, `{"file_path":"a","ofset":3}`, []tool.Fault{{Path: "ofset", Expected: "a known argument: did you mean offset?", Got: "3"}}},
		{"unknown, camel case", read, `{"filePath":"a"}`, []tool.Fault{
			{Path: "filePath", Expected: "a known argument: did you mean file_path?", Got: `"a"`},
			{Path: "file_path", Expected: "a string (required)", Got: "nothing"}}},
		{"unknown, near an alias", grep, `{"pattern":"a","case_insensitve":true}`, []tool.Fault{
			{Path: "case_insensitve", Expected: "a known argument: did you mean case_insensitive (the same as -i)?", Got: "true"}}},
		{"unknown, far", read, `{"file_path":"a","zzzzzzzzzzzzzz":1}`, []tool.Fault{
			{Path: "zzzzzzzzzzzzzz", Expected: "a known argument: one of file_path, offset, limit, pages, raw", Got: "1"}}},
		{"enum, near", grep, `{"pattern":"a","output":"file"}`, []tool.Fault{
			{Path: "output", Expected: `one of "content", "files", "count" (did you mean "files"?)`, Got: `"file"`}}},
		{"enum, far", grep, `{"pattern":"a","output":7}`, []tool.Fault{{Path: "output", Expected: `one of "content", "files", "count"`, Got: "7"}}},
		{"all at once, in a list", multi, `{"edits":[{"old_str":"","new_string":"b"},{"old_str":1,"mode":"x"},"?"]}`, []tool.Fault{
			{Path: "edits[0].old_str", Expected: "a string of at least 1 character", Got: "0 characters"},
			{Path: "edits[1].old_str", Expected: "a string", Got: "1"},
			{Path: "edits[1].mode", Expected: "a known argument: one of old_str, new_str, replace_all", Got: `"x"`},
			{Path: "edits[1].new_str", Expected: "a string (required)", Got: "nothing"},
			{Path: "edits[2]", Expected: "an object", Got: `"?"`},
			{Path: "file_path", Expected: "a string (required)", Got: "nothing"}}},
		{"too few items", multi, `{"path":"a","edits":[]}`, []tool.Fault{{Path: "edits", Expected: "a list of at least 1 item", Got: "0 items"}}},
		{"shortened", read, `{"file_path":["` + long + `"]}`, []tool.Fault{{Path: "file_path", Expected: "a string", Got: `["` + long[:77] + "…"}}},
		{"alias and name differ", read, `{"file_path":"a","path":"b"}`, []tool.Fault{{Path: "file_path", Expected: "one value, for path is another name of it", Got: `"a" and "b"`}}},
		{"not an object", read, `[1]`, []tool.Fault{{Expected: "an object", Got: "[1]"}}},
		{"decoded only once", read, `"\"{}\""`, []tool.Fault{{Expected: "an object itself, not a string that holds it", Got: `"{}"`}}},
		{"twice", read, `{"file_path":"a","file_path":"b"}`, []tool.Fault{{Path: "file_path", Expected: "one value", Got: "two"}}},
		{"twice, spelled differently", read, `{"file_path":"a","file\u005fpath":"b"}`, []tool.Fault{{Path: "file_path", Expected: "one value", Got: "two"}}},
		{"odd name", read, `{"file_path":"a","a b":1}`, []tool.Fault{{Path: `["a b"]`, Expected: "a known argument: one of file_path, offset, limit, pages, raw", Got: "1"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := c.v.Arguments(json.RawMessage(c.raw))
			var e *tool.Error
			if !errors.As(err, &e) {
				t.Fatalf("%s: got error %v", c.raw, err)
			}
			if e.Code != tool.ValidationError || e.Hint == "" || e.Field != c.want[0].Path {
				t.Errorf("got code %s, hint %q, field %q", e.Code, e.Hint, e.Field)
			}
			if diff := cmp.Diff(c.want, e.Faults); diff != "" {
				t.Errorf("%s: faults (-want +got)\n%s", c.raw, diff)
			}
		})
	}
}

func TestUnreadable(t *testing.T) {
	v := validator[readInput](t)
	for _, c := range []struct{ name, raw, want string }{
		{"cut in a string", `{"file_path":"a`, "arguments were cut off at byte 15"},
		{"cut after a name", `{"file_path"`, "arguments were cut off at byte 12"},
		{"cut after a value", `{"file_path":"a"`, "arguments were cut off at byte 16"},
		{"cut in a word", `{"raw":tr`, "arguments were cut off at byte 9"},
		{"cut in a number", `{"limit":-`, "arguments were cut off at byte 10"},
		{"cut in an escape", `{"file_path":"\u00`, "arguments were cut off at byte 18"},
		{"cut after a raw newline", "{\"file_path\":\"a\nb", "arguments were cut off at byte 18"},
		{"cut inside a string", `"{\"file_path\":"`, "arguments were cut off at byte 13"},
		{"not UTF-8", "{\"file_path\":\"a\xffb\"}", "the arguments are not valid JSON: invalid UTF-8 at byte 15"},
		{"control character", "{\"file_path\":\"a\x01b\"}", "the arguments are not valid JSON: raw control character 0x01 in a string at byte 15"},
		{"more after the end", `{"file_path":"a"}}`, "the arguments are not valid JSON: unexpected '}' after the end at byte 17"},
		{"not JSON", `file_path=a`, "the arguments are not valid JSON: unexpected 'f' at byte 0"},
		{"single quotes", `{'file_path':'a'}`, `the arguments are not valid JSON: expected a name in double quotes, found '\'' at byte 1`},
		{"trailing comma", `{"file_path":"a",}`, "the arguments are not valid JSON: expected a name in double quotes, found '}' at byte 17"},
		{"leading zero", `{"limit":01}`, "the arguments are not valid JSON: expected , or }, found '1' at byte 10"},
		{"huge exponent", `{"limit":1e9999999}`, "the arguments are not valid JSON: a number out of range at byte 9"},
		{"bad escape", `{"file_path":"\x"}`, `the arguments are not valid JSON: invalid escape '\\' at byte 14`},
		{"too deep", strings.Repeat("[", 300) + strings.Repeat("]", 300), "the arguments are not valid JSON: nested more than 200 deep at byte 200"},
		{"twice", `{"limit":1,"limit":1}`, `the arguments are ambiguous: the name "limit" stands twice in one object, the second time at byte 11`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := v.Arguments(json.RawMessage(c.raw))
			var e *tool.Error
			if !errors.As(err, &e) || e.Code != tool.ValidationError {
				t.Fatalf("%q: got %v", c.raw, err)
			}
			if e.Message != c.want || e.Hint == "" {
				t.Errorf("got  %s\nwant %s\nhint %q", e.Message, c.want, e.Hint)
			}
		})
	}
}

// TestForms covers what derived schemas do not have: schemas of other servers.
func TestForms(t *testing.T) {
	for _, c := range []struct {
		name, schema, raw string
		want              string // the arguments, or the faults one a line
	}{
		{"alias behind a reference", `{"$ref":"#/$defs/in","$defs":{"in":{"type":"object","properties":{"file_path":{"type":"string"}}}}}`,
			`{"path":"a"}`, `{"file_path":"a"}`},
		{"alias in a branch", `{"oneOf":[{"properties":{"file_path":{"type":"string"}},"required":["file_path"],"additionalProperties":false},{"required":["url"]}]}`,
			`{"path":"a"}`, `{"file_path":"a"}`},
		{"defaults of the branch that fits", `{"type":"object","oneOf":[{"properties":{"kind":{"const":"a"},"x":{"default":1}},"required":["kind"]},{"properties":{"kind":{"const":"b"},"y":{"default":2}},"required":["kind"]}]}`,
			`{"kind":"b"}`, `{"kind":"b","y":2}`},
		{"defaults of a condition", `{"if":{"required":["a"]},"then":{"properties":{"b":{"default":1}}},"else":{"properties":{"c":{"default":2}}}}`, `{}`, `{"c":2}`},
		{"a default makes a name not required", `{"properties":{"a":{"default":[1]}},"required":["a"]}`, `{}`, `{"a":[1]}`},
		{"a default that does not fit is left out", `{"properties":{"a":{"type":"string","default":null}}}`, `{}`, `{}`},
		{"the faults of the nearest form", `{"anyOf":[{"type":"string"},{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}]}`,
			`{"a":"x"}`, `a: expected an integer, got "x"`},
		{"the form that a constant names", `{"oneOf":[{"type":"object","properties":{"op":{"const":"add"},"n":{"type":"integer"}},"required":["op","n"]},{"type":"object","properties":{"op":{"const":"del"}},"required":["op"],"additionalProperties":false}]}`,
			`{"op":"add"}`, `n: expected an integer (required), got nothing`},
		{"no form is near", `{"type":"object","properties":{"v":{"anyOf":[{"type":"string"},{"type":"array","items":{"type":"string"}}]}}}`,
			`{"v":5}`, `v: expected a string or a list, each item a string, got 5`},
		{"several forms fit", `{"oneOf":[{"required":["a"]},{"required":["b"]}]}`, `{"a":1,"b":2}`,
			`arguments: expected exactly one of 2 forms, and forms 1 and 2 both fit, got {"a":1,"b":2}`},
		{"pattern", `{"properties":{"a":{"type":"string","pattern":"^\\d+$"}}}`, `{"a":"x"}`, `a: expected a string that matches ^\d+$, got "x"`},
		{"dependent", `{"properties":{"a":{},"b":{}},"dependentRequired":{"a":["b"]}}`, `{"a":1}`, `b: expected a value (required where a is given), got nothing`},
		{"doubles", `{"properties":{"a":{"uniqueItems":true}}}`, `{"a":[1,2,1.0]}`, `a: expected a list without doubles, got the same value at [0] and [2]`},
		{"exclusive bounds", `{"properties":{"a":{"type":"number","exclusiveMinimum":0,"multipleOf":0.01}}}`, `{"a":0.005}`,
			`a: expected a number above 0 and that is a multiple of 0.01, got 0.005`},
		{"names", `{"propertyNames":{"maxLength":2}}`, `{"abc":1}`, `abc: expected a name that is a value of another kind, got "abc"`},
		{"unevaluated", `{"allOf":[{"properties":{"alpha":{}}}],"unevaluatedProperties":false}`, `{"alpha":1,"alfa":2}`,
			`alfa: expected a known argument: did you mean alpha?, got 2`},
		{"big integers are not mangled", `{"properties":{"a":{"const":9007199254740992}}}`, `{"a":9007199254740993}`,
			`a: expected 9007199254740992, got 9007199254740993`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s jsonschema.Schema
			if err := json.Unmarshal([]byte(c.schema), &s); err != nil {
				t.Fatal(err)
			}
			v, err := validate.Compile(&tool.Spec{Name: "t", Input: &s, ArgumentAliases: map[string]string{"path": "file_path"}})
			if err != nil {
				t.Fatal(err)
			}
			args, _, err := v.Arguments(json.RawMessage(c.raw))
			got := string(args)
			if e := tool.AsError(err); e != nil {
				var lines []string
				for _, f := range e.Faults {
					lines = append(lines, f.String())
				}
				got = strings.Join(lines, "\n")
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestCompileRefuses(t *testing.T) {
	for name, schema := range map[string]string{
		"leads out":       `{"$ref":"https://example.org/x.json"}`,
		"leads nowhere":   `{"$ref":"#/$defs/x"}`,
		"unknown anchor":  `{"$ref":"#x"}`,
		"a circle":        `{"$ref":"#"}`,
		"a longer circle": `{"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"}]},"b":{"not":{"$ref":"#/$defs/a"}}},"$ref":"#/$defs/a"}`,
		"unknown type":    `{"type":"text"}`,
	} {
		var s jsonschema.Schema
		if err := json.Unmarshal([]byte(schema), &s); err != nil {
			t.Fatal(err)
		}
		if _, err := validate.CompileSchema(&s); err == nil {
			t.Errorf("%s: %s was taken", name, schema)
		}
	}
}

func TestUnchecked(t *testing.T) {
	v, err := validate.CompileSchema(&jsonschema.Schema{Properties: map[string]*jsonschema.Schema{
		"a": {Pattern: `^(?!x)`}, "b": {Pattern: `^A$`}, "c": {Pattern: `^(?<year>[0-9]{4})$`},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{`^(?!x)`}, v.Unchecked()); diff != "" {
		t.Errorf("unchecked (-want +got)\n%s", diff)
	}
	if faults := v.Check(json.RawMessage(`{"a":"x","b":"A","c":"2026"}`)); faults != nil {
		t.Errorf("faults %v", faults)
	}
	if faults := v.Check(json.RawMessage(`{"b":"B"}`)); len(faults) != 1 {
		t.Errorf("faults %v", faults)
	}
}

// TestExplosion gives the validator a schema that doubles the work at each
// level: it must give up, not run for ever.
func TestExplosion(t *testing.T) {
	var s jsonschema.Schema
	schema := `{"$defs":{"a":{"anyOf":[{"items":{"$ref":"#/$defs/a"},"minItems":1},{"items":{"$ref":"#/$defs/a"},"minItems":1,"title":"b"}]}},"$ref":"#/$defs/a"}`
	if err := json.Unmarshal([]byte(schema), &s); err != nil {
		t.Fatal(err)
	}
	v, err := validate.CompileSchema(&s)
	if err != nil {
		t.Fatal(err)
	}
	if faults := v.Check(json.RawMessage(strings.Repeat("[", 150) + strings.Repeat("]", 150))); len(faults) == 0 {
		t.Error("no fault")
	}
}

func TestManyFaults(t *testing.T) {
	v := validator[multiEditInput](t)
	_, _, err := v.Arguments(json.RawMessage(`{"path":"a","edits":[` + strings.Repeat("1,", 499) + `1]}`))
	e := tool.AsError(err)
	if e == nil || len(e.Faults) != 50 || !strings.HasSuffix(e.Message, "; and 490 more") {
		t.Errorf("got %v", e)
	}
}

func TestCanonical(t *testing.T) {
	for _, c := range []struct{ name, raw, want string }{
		{"empty", "", "{}"},
		{"order and blanks", ` { "b" : [ 1 , 2 ] , "a" : { "d":1, "c":2 } } `, `{"a":{"c":2,"d":1},"b":[1,2]}`},
		{"numbers", `[1.0,1e2,100,-0,0.10,9007199254740993,1E-9,1e30,123456789012345678901234567890,-1.50e1]`,
			`[1,100,100,0,0.1,9007199254740993,1e-9,1e30,12345678901234567890123456789e1,-15]`},
		{"strings", `["\u0061\/\n\u00e9","\ud83d\ude00"]`, `["a/\né","😀"]`},
		{"a lone surrogate", `"\ud800x"`, `"�x"`},
	} {
		got, err := validate.Canonical(json.RawMessage(c.raw))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: got %s, %v, want %s", c.name, got, err, c.want)
		}
	}
	if _, err := validate.Canonical(json.RawMessage(`{`)); err == nil {
		t.Error("cut off JSON was taken")
	}
}

func TestNearest(t *testing.T) {
	names := []string{"file_path", "offset", "limit", "case_insensitive"}
	for _, c := range []struct {
		name, want string
		near       bool
	}{
		{"filepath", "file_path", true}, {"FILE-PATH", "file_path", true}, {"ofsfet", "offset", true},
		{"lmit", "limit", true}, {"xyzxyzxyz", "", false}, {strings.Repeat("limit", 1000), "", false},
	} {
		got, near := validate.Nearest(c.name, names)
		if near != c.near || c.near && got != c.want {
			t.Errorf("%.20s: got %s, %t, want %s, %t", c.name, got, near, c.want, c.near)
		}
	}
	if got, near := validate.Nearest("a", nil); got != "" || near {
		t.Errorf("of nothing: got %q, %t", got, near)
	}
}

func TestConcurrentUse(t *testing.T) {
	v := validator[multiEditInput](t)
	done := make(chan error)
	for g := range 8 {
		go func() {
			for i := range 200 {
				raw := fmt.Sprintf(`{"path":"f%d","edits":[{"old_string":"%d","new_str":"","replace_all":true}]}`, g, i)
				want := fmt.Sprintf(`{"file_path":"f%d","edits":[{"old_str":"%d","new_str":"","replace_all":true}]}`, g, i)
				if got, _, err := v.Arguments(json.RawMessage(raw)); err != nil || string(got) != want {
					done <- fmt.Errorf("got %s, %v, want %s", got, err, want)
					return
				}
			}
			done <- nil
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
