package host_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
)

// validations are schemas with values that fit and values that do not. Both
// adapters must agree with each other to the letter, and with a whole validator.
// To add one: a row.
var validations = []struct {
	schema string
	values []string
}{
	{`{"type":"string"}`, []string{`"a"`, `1`, `null`, `true`, `[]`, `{}`}},
	{`{"type":["string","null"]}`, []string{`"a"`, `null`, `1`}},
	{`{"type":"integer"}`, []string{`1`, `1.5`, `"1"`, `true`}},
	{`{"type":"number","minimum":1,"maximum":3}`, []string{`0`, `1`, `2.5`, `3`, `4`}},
	{`{"exclusiveMinimum":1,"exclusiveMaximum":3}`, []string{`1`, `2`, `3`, `"a"`}},
	{`{"multipleOf":3}`, []string{`9`, `10`, `0`}},
	{`{"minLength":2,"maxLength":3}`, []string{`"a"`, `"ab"`, `"abcd"`, `"𝄞"`, `"𝄞𝄞𝄞"`}},
	{`{"pattern":"^a+$"}`, []string{`"aa"`, `"ab"`, `1`}},
	{`{"enum":["a",1,null,{"b":[1]}]}`, []string{`"a"`, `1`, `null`, `{"b":[1]}`, `{"b":[2]}`, `true`}},
	{`{"const":{"a":1}}`, []string{`{"a":1}`, `{"a":2}`, `{}`}},
	{`{"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":2}`, []string{`[]`, `[1]`, `[1,"x"]`, `[1,2,3]`}},
	{`{"prefixItems":[{"type":"string"},{"type":"integer"}],"items":false}`, []string{`["a"]`, `["a",1]`, `[1]`, `["a",1,2]`}},
	{`{"uniqueItems":true}`, []string{`[1,2]`, `[1,1]`, `[{"a":1},{"a":1}]`, `[0,false]`}},
	{`{"contains":{"type":"string"},"minContains":2,"maxContains":2}`, []string{`["a"]`, `["a","b"]`, `["a","b","c",1]`}},
	{`{"contains":{"const":1}}`, []string{`[]`, `[1]`, `[2]`}},
	{`{"type":"object","properties":{"a":{"type":"string"},"b-c":{"type":"integer"}},"required":["a","b-c"]}`, []string{`{}`, `{"a":"x","b-c":1}`, `{"a":1,"b-c":"x"}`, `{"a":"x","b-c":1,"d":2}`}},
	{`{"properties":{"a":true},"additionalProperties":false}`, []string{`{"a":1}`, `{"b":1}`, `{}`}},
	{`{"additionalProperties":{"type":"integer"}}`, []string{`{"a":1}`, `{"a":"x"}`}},
	{`{"patternProperties":{"^x":{"type":"integer"}},"additionalProperties":false}`, []string{`{"xa":1}`, `{"xa":"1"}`, `{"y":1}`}},
	{`{"propertyNames":{"maxLength":2}}`, []string{`{"ab":1}`, `{"abc":1}`}},
	{`{"minProperties":1,"maxProperties":2}`, []string{`{}`, `{"a":1}`, `{"a":1,"b":2,"c":3}`}},
	{`{"dependentRequired":{"a":["b"]}}`, []string{`{"a":1}`, `{"a":1,"b":2}`, `{"c":1}`}},
	{`{"dependentSchemas":{"a":{"required":["b"]}}}`, []string{`{"a":1}`, `{"a":1,"b":2}`}},
	{`{"anyOf":[{"type":"string"},{"minimum":5}]}`, []string{`"a"`, `7`, `3`}},
	{`{"oneOf":[{"type":"number"},{"type":"integer"}]}`, []string{`1.5`, `1`, `"a"`}},
	{`{"allOf":[{"minimum":1},{"maximum":2}]}`, []string{`0`, `1`, `3`}},
	{`{"not":{"type":"string"}}`, []string{`1`, `"a"`}},
	{`{"if":{"properties":{"k":{"const":1}},"required":["k"]},"then":{"required":["a"]},"else":{"required":["b"]}}`, []string{`{"k":1}`, `{"k":1,"a":1}`, `{"k":2}`, `{"b":1}`}},
	{`{"$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n"},"v":{"type":"integer"}},"required":["v"]}},"$ref":"#/$defs/n"}`, []string{`{"v":1}`, `{"v":1,"next":{"v":2,"next":{}}}`, `{"v":"x"}`}},
	{`{"properties":{"a":{"properties":{"b c":{"items":{"type":"string"}}}}}}`, []string{`{"a":{"b c":["x",1]}}`, `{"a":{"b c":["x"]}}`}},
	{`{"format":"email"}`, []string{`"no address"`}},
	{`{"properties":{"toString":{"type":"integer"}},"required":["constructor"]}`, []string{`{}`, `{"constructor":1}`, `{"constructor":1,"toString":"x"}`}},
	{`true`, []string{`1`}},
	{`false`, []string{`1`}},
	{`{}`, []string{`1`, `null`}},
}

type validation struct {
	Schema json.RawMessage `json:"schema"`
	Value  json.RawMessage `json:"value"`
}

type verdict struct {
	Valid  bool     `json:"valid"`
	Errors []string `json:"errors"`
}

func TestValidatorsAgree(t *testing.T) {
	s := box(t)
	var cases []validation
	for _, v := range validations {
		for _, value := range v.values {
			cases = append(cases, validation{json.RawMessage(v.schema), json.RawMessage(value)})
		}
	}
	params, err := json.Marshal(map[string]any{"method": "validateAll", "cases": cases})
	if err != nil {
		t.Fatal(err)
	}
	var said [2][]verdict
	for i, l := range languages {
		b := contract(t, s, l.file, nil)
		if err := json.Unmarshal([]byte(b.text(string(params))), &said[i]); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range cases {
		var schema jsonschema.Schema
		if err := json.Unmarshal(c.Schema, &schema); err != nil {
			t.Fatal(err)
		}
		resolved, err := schema.Resolve(nil)
		if err != nil {
			t.Fatalf("%s: %v", c.Schema, err)
		}
		var value any
		if err := json.Unmarshal(c.Value, &value); err != nil {
			t.Fatal(err)
		}
		js, py := said[0][i], said[1][i]
		if want := resolved.Validate(value) == nil; js.Valid != want || js.Valid != (len(js.Errors) == 0) {
			t.Errorf("%s and %s: %+v, want %v", c.Schema, c.Value, js, want)
		}
		if diff := cmp.Diff(js, py); diff != "" {
			t.Errorf("%s and %s: (-js +py):\n%s", c.Schema, c.Value, diff)
		}
	}
}

// TestPathsAgree: whatever a path is made of, both adapters find the same, and that
// lies in what was granted.
func TestPathsAgree(t *testing.T) {
	s := box(t)
	first := contract(t, s, "contract.tool.js", nil)
	second := contract(t, s, "tool.py", func(b *bench) {
		b.setup, b.config.Dir = first.setup, first.setup.Dir
		b.config.Profile.Read = append(b.config.Profile.Read, first.setup.Dir)
		b.config.Profile.Write = first.config.Profile.Write
	})
	setup := first.setup
	for link, to := range map[string]string{"out": "/etc", "up": "..", "self": "data", "in": setup.Shared, "loop": "loop"} {
		if err := os.Symlink(to, filepath.Join(setup.Data, link)); err != nil {
			t.Fatal(err)
		}
	}
	parts := []string{
		"..", ".", "", "a", "data", "shared", "toolbox", "contract", "local.js", "out", "up", "self", "in", "loop", "passwd", "~", ".prompt-manager", "ü", "a b",
		"a\nb", "%2e%2e", "...", "\\..", "a\x00b", "$HOME", "*",
	}
	roots := []string{"", "", "", "/", setup.Data + "/", setup.Shared + "/", setup.Home + "/", setup.Dir, "~/", "~/.prompt-manager/", "/home/someone/.prompt-manager/", "file://", "/proc/self/root/", "//"}
	random := rand.New(rand.NewPCG(1, 2))
	var paths []string
	for range 600 {
		path := roots[random.IntN(len(roots))]
		for range 1 + random.IntN(5) {
			path += parts[random.IntN(len(parts))] + []string{"/", "/", "//", ""}[random.IntN(4)]
		}
		paths = append(paths, path)
	}
	params, err := json.Marshal(map[string]any{"method": "resolveAll", "paths": paths})
	if err != nil {
		t.Fatal(err)
	}
	var found [2][]any
	for i, b := range []*bench{first, second} {
		r, failed := b.call(string(params))
		if failed != nil {
			t.Fatalf("%s: %s", languages[i].name, failed.Message)
		}
		if err := json.Unmarshal([]byte(r.TextContent()), &found[i]); err != nil {
			t.Fatal(err)
		}
	}
	allowed := []string{setup.Data, setup.Shared, setup.Dir}
	granted := 0
	for i, path := range paths {
		if diff := cmp.Diff(found[0][i], found[1][i]); diff != "" {
			t.Errorf("%q: (-js +py):\n%s", path, diff)
		}
		full, ok := found[0][i].(string)
		if !ok {
			continue
		}
		granted++
		real, err := filepath.EvalSymlinks(full)
		if err != nil {
			real = full
		}
		for _, p := range []string{full, real} {
			if !slices.ContainsFunc(allowed, func(d string) bool { return p == d || strings.HasPrefix(p, d+"/") }) {
				t.Errorf("%q is %s, outside of %q", path, p, allowed)
			}
		}
	}
	if granted < 50 {
		t.Errorf("%d of %d paths are granted: the test tries too little", granted, len(paths))
	}
}
