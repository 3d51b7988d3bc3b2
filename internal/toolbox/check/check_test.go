package check_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/toolbox/check"
)

// row is one tool with one fault, and what is found of it.
type row struct {
	id     string // the rule
	of     string // which case of it
	change map[string]string
	set    func(*check.Subject, *check.Options)
	want   string         // in the message or the place
	as     check.Severity // zero is the first that the rule has
	also   []string       // rules that find the same fault
	never  bool           // the rule must not find anything here
}

func (r row) name() string {
	if r.never {
		return r.id + "/not/" + r.of
	}
	return r.id + "/" + r.of
}

// look runs the validation of a tool with one change.
func (r row) look(t *testing.T, layers ...int) *check.Report {
	t.Helper()
	dir := write(t, "greet", change(t, greet(), r.change))
	s, o := subject(t, dir), check.Options{Layers: layers}
	if slices.Contains([]string{"shell-string", "tests", "when", "scenario", "limit", "progress"}, r.id) {
		s.Trial = nil // nothing of these needs a run
	}
	if r.set != nil {
		r.set(&s, &o)
	}
	return check.Run(context.Background(), s, o)
}

// layerOf finds a rule's layer: that of a report about nothing.
func layerOf(t *testing.T, id string) int {
	t.Helper()
	for _, l := range check.Run(context.Background(), check.Subject{Dir: t.TempDir()}, check.Options{}).Layers {
		for _, c := range l.Checks {
			if c.ID == id {
				return l.Number
			}
		}
	}
	t.Fatalf("there is no rule %s", id)
	return 0
}

// test runs the rule's own layer, or those given.
func (r row) test(t *testing.T, layers ...int) {
	t.Helper()
	if layers == nil {
		layers = []int{layerOf(t, r.id)}
	}
	report := r.look(t, layers...)
	found := report.Find(r.id)
	if r.never {
		if len(found) > 0 {
			t.Errorf("found %s: %s", r.id, found[0].Message)
		}
		return
	}
	if len(found) == 0 {
		t.Fatalf("%s found nothing:\n%s", r.id, report.Text("en"))
	}
	if whole := found[0].Where + ": " + found[0].Message; !strings.Contains(whole, r.want) {
		t.Errorf("got %q, want %q in it", whole, r.want)
	}
	if r.as != "" && found[0].Severity != r.as {
		t.Errorf("severity is %s, want %s", found[0].Severity, r.as)
	}
	for _, l := range report.Layers {
		for _, f := range l.Findings {
			if f.ID != r.id && f.Severity != check.Info && !slices.Contains(r.also, f.ID) {
				t.Errorf("found too: layer %d %s: %s: %s", l.Number, f.ID, f.Where, f.Message)
			}
		}
	}
}

const js = "greet.tool.js"

func TestStatedRules(t *testing.T) {
	for _, r := range statedRows() {
		t.Run(r.name(), func(t *testing.T) {
			t.Parallel()
			r.test(t, 1, 2, 3, 4, 5)
		})
	}
}

func statedRows() []row {
	return []row{
		{id: "folder", of: "absent", set: func(s *check.Subject, _ *check.Options) { s.Dir += "-not"; s.Definition = nil }, want: "no such file", also: []string{"load"}},
		{id: "name", of: "blank", set: func(s *check.Subject, _ *check.Options) { s.Name = "a tool" }, want: `"a tool"`},
		{id: "module", of: "absent", change: map[string]string{js: "-", "index.js": "export default {}"}, want: "only index.js, words.js", also: []string{"load"}, as: check.Error},
		{id: "module", of: "empty", change: map[string]string{js: ""}, want: "empty", also: []string{"execute", "method"}},
		{id: "module-one", of: "two", change: map[string]string{"tool.js": "export default {}"}, want: "tool.js could be", as: check.Warning},
		{id: "package-json", of: "no JSON", change: map[string]string{"package.json": "{\n  \"name\": oops\n}"}, want: "line 2, column 11", also: []string{"load"}, as: check.Error},
		{id: "package-json", of: "a list", change: map[string]string{"package.json": "[]"}, want: "it is a list", also: []string{"load"}},
		{id: "package-json", of: "absent", change: map[string]string{"package.json": "-", js: "import → import"}, never: true},
		{id: "link", of: "outside", change: map[string]string{"secrets@": "/etc/hostname"}, want: "secrets", as: check.Warning},
		{id: "link", of: "inside", change: map[string]string{"other.js@": "words.js"}, never: true},
		{id: "readme", of: "absent", change: map[string]string{"README.md": "-"}, as: check.Warning},

		{id: "load", of: "throws", change: map[string]string{js: "throw new Error('not today')"}, want: "not today", as: check.Error},
		{id: "execute", of: "absent", change: map[string]string{js: "async execute( → async run("}, as: check.Error},
		{id: "execute", of: "no function", change: map[string]string{js: "async execute(params) → execute: 5, async run(params)"}},
		{id: "method", of: "absent", change: map[string]string{js: "getRuntimeConfig() → runtimeConfig()"}, want: "no getRuntimeConfig", as: check.Warning},
		{id: "method", of: "strict", change: map[string]string{js: "getRuntimeConfig() → runtimeConfig()"}, as: check.Error,
			set: func(_ *check.Subject, o *check.Options) { o.Strict = true }},
		{id: "throws", of: "one", change: map[string]string{js: "getDependencies() { → getDependencies() { throw new Error('no list');"}, want: "getDependencies() threw: no list", as: check.Error},

		{id: "metadata", of: "a list", change: map[string]string{js: "return { id: 'greet' → return [] ; ({ id: 'greet'", js + "#2": "two languages'] } → two languages'] })"}, want: "returned a list", as: check.Error},
		{id: "meta-name", of: "absent", change: map[string]string{js: "name: 'Greet', → "}, want: "name is missing", as: check.Error},
		{id: "meta-name", of: "a number", change: map[string]string{js: "name: 'Greet' → name: 5"}, want: "name is a number"},
		{id: "meta-description", of: "empty", change: map[string]string{js: "description: 'Writes a greeting. Use it when someone is to be welcomed.' → description: ''"}, want: "an empty text", as: check.Error},
		{id: "meta-version", of: "two numbers", change: map[string]string{js: "'1.2.0' → '1.2'"}, want: `version is "1.2"`, as: check.Error},
		{id: "meta-version", of: "absent", change: map[string]string{js: "version: '1.2.0', → "}, want: "missing"},
		{id: "meta-version", of: "pre-release", change: map[string]string{js: "'1.2.0' → '1.2.0-rc.1+build'"}, never: true},
		{id: "meta-id", of: "absent", change: map[string]string{js: "id: 'greet', → "}, as: check.Warning},
		{id: "meta-category", of: "absent", change: map[string]string{js: "category: 'text', → "}, as: check.Warning},
		{id: "meta-lists", of: "a text", change: map[string]string{js: "tags: ['text'] → tags: 'text'"}, want: "tags is a text", as: check.Error},
		{id: "meta-lists", of: "of numbers", change: map[string]string{js: "scenarios: ['Welcome a new member'] → scenarios: [1]"}, want: "scenarios"},
		{id: "meta-lists", of: "absent", change: map[string]string{js: "tags: ['text'], → "}, never: true},

		{id: "schema", of: "a text", change: map[string]string{js: "getSchema() { → getSchema() { return 'none';"}, want: "returned a text", as: check.Error},
		{id: "schema-valid", of: "unknown type", change: map[string]string{js: "type: 'integer', minimum: 1 → type: 'int', minimum: 1"}, want: `parameters.properties.times: the schema is not valid: type is "int"`, as: check.Error},
		{id: "schema-valid", of: "bounds", change: map[string]string{js: "minLength: 2 → minLength: 50"}, want: "nothing fits"},
		{id: "schema-valid", of: "reference", change: map[string]string{js: "notes: { type: 'array' → notes: { $ref: '#/$defs/none', type: 'array'"}, want: "none"},
		{id: "schema-valid", of: "a list", change: map[string]string{js: "parameters: { type: 'object' → parameters: { type: 'array'"}, want: "must be object"},
		{id: "schema-valid", of: "properties", change: map[string]string{js: "environment: { type: 'object', required: ['SIGNATURE'], properties: { → environment: { type: 'object', properties: [], x: {"}, want: "properties is a list"},
		{id: "schema-valid", of: "negative", change: map[string]string{js: "maxItems: 3 → maxItems: -3"}, want: "maxItems is -3"},
		{id: "param-type", of: "absent", change: map[string]string{js: "times: { type: 'integer', → times: {"}, want: "parameters.properties.times", as: check.Error},
		{id: "param-type", of: "choice", change: map[string]string{js: "times: { type: 'integer', → times: { anyOf: [{ type: 'integer' }, { type: 'number' }],"}, never: true},
		{id: "required-known", of: "unknown", change: map[string]string{js: "required: ['who'] → required: ['who', 'whom']"}, want: `"whom"`, as: check.Error},
		{id: "required-true", of: "alone", change: map[string]string{js: "times: { type: 'integer', → times: { required: true, type: 'integer',"}, want: "parameters.properties.times", as: check.Error},
		{id: "required-true", of: "listed", change: map[string]string{js: "who: { type: 'string', → who: { required: true, type: 'string',"}, never: true},
		{id: "required-true", of: "false", change: map[string]string{js: "times: { type: 'integer', → times: { required: false, type: 'integer',"}, never: true},
		{id: "enum-list", of: "a text", change: map[string]string{js: "enum: ['en', 'zh'] → enum: 'en'"}, want: "language", as: check.Error},
		{id: "env-name", of: "small letters", change: map[string]string{js: "SIGNATURE: { type → signature: { type: 'string', description: 'x' }, SIGNATURE: { type"}, want: `"signature"`, as: check.Error},
		{id: "no-parameters", of: "absent", change: map[string]string{js: "parameters: { type: 'object' → params: { type: 'object'"}, as: check.Warning},
		{id: "no-environment", of: "absent", change: map[string]string{js: "environment: { type: 'object' → env: { type: 'object'"}, as: check.Warning},
		{id: "env-undescribed", of: "absent", change: map[string]string{js: "description: 'who greets', → "}, want: "SIGNATURE", as: check.Warning},
		{id: "pattern", of: "look-ahead", change: map[string]string{js: "who: { type: 'string', → who: { type: 'string', pattern: '^(?!x)',"}, want: "(?!x)", as: check.Warning},
		{id: "pattern", of: "plain", change: map[string]string{js: "who: { type: 'string', → who: { type: 'string', pattern: '^[a-z]+$',"}, never: true},

		{id: "answer", of: "nothing", change: map[string]string{js: "getRuntimeConfig() { return { maxMemory: 64, networkAccess: false } → getRuntimeConfig() {"}, want: "it returned nothing", as: check.Error},
		{id: "deps", of: "a list", change: map[string]string{js: "return { './words.js': 'local' } → return ['lodash']"}, want: "returned a list", as: check.Error},
		{id: "dep-range", of: "empty", change: map[string]string{js: "'./words.js': 'local' → './words.js': ''"}, want: "an empty text", as: check.Error},
		{id: "dep-range", of: "a number", change: map[string]string{js: "'./words.js': 'local' → './words.js': 4"}, want: "a number"},
		{id: "errors", of: "an object", change: map[string]string{js: "return [{ code: → return { errors: 1 }; return [{ code:"}, want: "an object", as: check.Error},
		{id: "error-fields", of: "no solution", change: map[string]string{js: "solution: 'Greet someone else.', → "}, want: "solution is missing", as: check.Error},
		{id: "error-fields", of: "retryable", change: map[string]string{js: "retryable: false → retryable: 'no'"}, want: "true or false is expected"},
		{id: "error-fields", of: "a text", change: map[string]string{js: "return [{ code: → return ['x']; return [{ code:"}, want: "an object is expected"},
		{id: "runtime", of: "a text", change: map[string]string{js: "return { maxMemory: 64, networkAccess: false } → return 'small'"}, want: "a text", as: check.Error},
		{id: "understood", of: "memory", change: map[string]string{js: "maxMemory: 64 → maxMemory: 'much'"}, want: "maxMemory: expected megabytes", as: check.Warning},
		{id: "understood", of: "network", change: map[string]string{js: "networkAccess: false → networkAccess: ['a.test']"}, never: true},
		{id: "understood", of: "author", change: map[string]string{js: "author: 'A. Author' → author: 5"}, want: "author: expected a text"},
	}
}

// TestNothing is a tool that no rule finds anything in.
func TestNothing(t *testing.T) {
	report := row{}.look(t)
	if report.Failed+report.Warnings > 0 || report.Passed == 0 {
		t.Errorf("got %s", report.Text("en"))
	}
}
