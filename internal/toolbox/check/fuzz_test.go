package check_test

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/toolbox/check"
	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/internal/validate"
)

// obliging is a trial of a tool that takes what its schema takes.
type obliging struct {
	validator *validate.Validator
}

func (o *obliging) Validate(params json.RawMessage) (json.RawMessage, error) {
	if o.validator == nil {
		return params, nil
	}
	args, _, err := o.validator.Arguments(params)
	return args, err
}

func (o *obliging) Execute(context.Context, json.RawMessage) (check.Outcome, error) {
	return check.Outcome{Value: json.RawMessage(`{"ok":true}`), Lines: []string{"start"}}, nil
}

func (o *obliging) Escape(context.Context) ([]string, error) { return nil, nil }

// sound says what must hold of any report.
func sound(t *testing.T, report *check.Report) {
	t.Helper()
	for _, lang := range []string{"en", "zh"} {
		if text := report.Text(lang); !strings.HasSuffix(text, report.Summary()+"\n") || strings.Contains(text, "%!") {
			t.Errorf("the text is %s", text)
		}
	}
	out, err := check.JUnit(report)
	if err == nil {
		err = xml.Unmarshal(out, new(struct{}))
	}
	if err != nil {
		t.Errorf("JUnit: %v\n%s", err, out)
	}
	if _, err := report.JSON(); err != nil {
		t.Errorf("JSON: %v", err)
	}
}

// FuzzAnswers takes whatever a tool may say of itself.
func FuzzAnswers(f *testing.F) {
	for _, seed := range [][4]string{
		{`{"name":"x","version":"1.0.0","tags":[1]}`, `{"parameters":{"type":"object","required":["a"],"properties":{"a":{"type":"string","minLength":3,"pattern":"^[a-c]+x?$"},"b":{"$ref":"#"}}}}`, `[{"code":"a"}]`, `{"x":""}`},
		{`[]`, `{"parameters":{"properties":{"a":{"required":true,"anyOf":[{"type":"integer","minimum":1e9},{"enum":[null]}]}}},"environment":{"properties":{"A":{"default":[1]},"B":{"required":true,"type":"number","multipleOf":0.1}},"required":["B"]}}`, `null`, `[]`},
		{`{}`, `{"parameters":{"type":"object","properties":{"l":{"type":"array","minItems":2,"maxItems":3,"uniqueItems":true,"items":{"type":"object","properties":{"x":{"type":"number","exclusiveMaximum":1}},"required":["x"]}}},"required":["l"]}}`, `[1]`, `{"a":1}`},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, metadata, schema, errors, dependencies string) {
		raw := map[string]json.RawMessage{}
		for method, text := range map[string]string{"getMetadata": metadata, "getSchema": schema, "getBusinessErrors": errors, "getDependencies": dependencies} {
			if json.Valid([]byte(text)) {
				raw[method] = json.RawMessage(text)
			}
		}
		told, err := json.Marshal(map[string]any{"methods": []string{"execute", "getMetadata", "getSchema"}, "values": raw})
		if err != nil {
			t.Fatal(err)
		}
		d, err := definition.Decode(told)
		if err != nil {
			t.Fatal(err)
		}
		trial := &obliging{}
		if s, err := check.Schema(d.Parameters); err == nil {
			trial.validator, _ = validate.CompileSchema(s)
		}
		report := check.Run(t.Context(), check.Subject{Dir: dir, Name: "x", Definition: d, Trial: trial}, check.Options{Release: true})
		sound(t, report)
		if trial.validator == nil || len(report.Find("schema-valid")) > 0 {
			return
		}
		// What a valid schema forbids its validator refuses, so nothing gets through
		// but what stands in the way of the schema itself.
		for _, id := range []string{"param-minimum", "param-maximum", "param-short", "param-long"} {
			for _, found := range report.Find(id) {
				t.Errorf("%s %s: %s", id, found.Where, found.Message)
			}
		}
	})
}

// FuzzFolder takes whatever may be in a folder.
func FuzzFolder(f *testing.F) {
	f.Add(`{"license": {"type": "MIT"}, "dependencies": {"a": "^1"}}`, "exec(`ls ${x}`) // child_process\nlogger.info(`${token}`)", "a[b]>=1,<2 ; x\n-r y\n", "[project]\ndependencies = [\n 'a>=1',\n]\nversion = \"1\"\n")
	f.Add(`[`, "/* console.log('\\", "===", "[project")
	f.Add(`{"license": []}`, "def f():\n  \"\"\"x\n  os.system(f\"{a}\"", "a==1.*", "[project]\nlicense = 'x")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, manifest, code, requirements, project string) {
		for name, text := range map[string]string{"package.json": manifest, "x.tool.js": code, "helper.py": code, "pyproject.toml": project} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		list := filepath.Join(dir, "requirements.txt")
		if err := os.Remove(list); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if requirements != "" {
			if err := os.WriteFile(list, []byte(requirements), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for _, language := range []definition.Language{definition.JavaScript, definition.Python} {
			d := &definition.Definition{Language: language, Raw: map[string]json.RawMessage{"getDependencies": json.RawMessage(`{}`)}}
			sound(t, check.Run(t.Context(), check.Subject{Dir: dir, Name: "x", Definition: d}, check.Options{Release: true}))
		}
	})
}
