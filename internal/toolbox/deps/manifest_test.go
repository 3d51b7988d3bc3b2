package deps_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/internal/toolbox/deps"
	"github.com/toolyard/toolyard/tool"
)

func TestManifestMade(t *testing.T) {
	dir := t.TempDir()
	d := define(dir, "lodash@^4.17.0", "@scope/pkg@>=1 <3", "any@")
	d.Name, d.Metadata = "PDF-Reader", definition.Metadata{Version: "2.1.0", Description: "reads <pages> & more"}
	for name, x := range map[string]struct {
		source string
		esm    bool
	}{
		"esm":             {"import x from 'y'\nexport default {}", true},
		"export list":     {"const a = 1; export { a as default }", true},
		"common":          {"const x = require('y')\nmodule.exports = {}", false},
		"import in text":  {"// export default {}\nmodule.exports = `\nexport default {}\n`; const s = 'import a from b'", false},
		"dynamic import":  {"module.exports = { execute() { return import('./x.mjs') } }", false},
		"regexp":          {"const r = /['\"`]/g; const s = 1 / 2\nexport default { r }", true},
		"shebang, effect": {"#!/usr/bin/env node\nimport './x.js'\n", true},
		"empty":           {"", false},
		"property":        {"const o = {}\no.export = 1; o\n.import = 2", false},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(dir, "tool.js"), []byte(x.source), 0o644); err != nil {
				t.Fatal(err)
			}
			m, err := deps.Load(dir, d)
			if err != nil {
				t.Fatal(err)
			}
			module := ""
			if x.esm {
				module = "  \"type\": \"module\",\n"
			}
			want := "{\n  \"name\": \"@toolyard/pdf-reader\",\n  \"version\": \"2.1.0\",\n  \"description\": \"reads <pages> & more\",\n  \"main\": \"tool.js\",\n" + module +
				"  \"private\": true,\n  \"dependencies\": {\n    \"@scope/pkg\": \">=1 <3\",\n    \"any\": \"*\",\n    \"lodash\": \"^4.17.0\"\n  }\n}\n"
			if diff := cmp.Diff(want, string(m.Bytes())); diff != "" || !m.Changed() || !m.Made {
				t.Errorf("made (-want +got):\n%s", diff)
			}
		})
	}
}

func TestManifestMerge(t *testing.T) {
	for _, x := range []struct {
		name, text, want   string
		packages, warnings []string
	}{
		{
			"order and unknown fields", "{\n\t\"zeta\": {\"b\": 1.50, \"a\": [1, 2]},\n\t\"name\": \"mine\",\n\t\"dependencies\": {\"zed\": \"1\"},\n\t\"type\": \"commonjs\"\n}",
			"{\n\t\"zeta\": {\n\t\t\"b\": 1.50,\n\t\t\"a\": [\n\t\t\t1,\n\t\t\t2\n\t\t]\n\t},\n\t\"name\": \"mine\",\n\t\"dependencies\": {\n\t\t\"lodash\": \"^4.0.0\",\n\t\t\"zed\": \"1\"\n\t},\n\t\"type\": \"commonjs\"\n}\n",
			[]string{"lodash@^4.0.0"}, nil,
		},
		{
			"package.json wins", `{"dependencies": {"lodash": "^3.0.0"}}`, "",
			[]string{"lodash@^4.0.0"}, []string{"package.json asks for lodash ^3.0.0, getDependencies for ^4.0.0: that of package.json is installed."},
		},
		{"optional counts", `{"optionalDependencies": {"lodash": "^4.0.0"}}`, "", []string{"lodash@^4.0.0"}, nil},
		{"bad entry of the tool", `{}`, "", []string{"lodash@workspace:*"}, []string{`An entry of getDependencies is left out: lodash: "workspace:*" works only inside of a workspace, which a tool's folder is not.`}},
		{"byte order mark and CRLF", "\xef\xbb\xbf{\r\n    \"name\": \"x\"\r\n}\r\n", "{\r\n    \"name\": \"x\",\r\n    \"dependencies\": {\r\n        \"a\": \"1\"\r\n    }\r\n}\r\n", []string{"a@1"}, nil},
		{"nothing to do", `{"name":"x"}`, "", nil, nil},
	} {
		t.Run(strings.ReplaceAll(x.name, " ", "_"), func(t *testing.T) {
			m, err := deps.ParseManifest([]byte(x.text))
			if err != nil {
				t.Fatal(err)
			}
			m.Merge(define("", x.packages...))
			if m.Changed() != (x.want != "") {
				t.Errorf("changed is %v", m.Changed())
			}
			if diff := cmp.Diff(x.want, string(m.Bytes())); x.want != "" && diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(x.warnings, m.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestManifestNotValid(t *testing.T) {
	for _, x := range []struct{ text, say string }{
		{"", "line 1, column 1"},
		{"{\n  \"name\": \"x\",\n}", "line 3, column 1"},
		{"{\n  // comment\n}", "line 2, column 3"},
		{"{\"a\": \"ä\" \"b\"}", "line 1, column 11"},
		{"[1]", "line 1, column 1: not an object"},
		{"{\n \"dependencies\": []}", "line 2, column 2: dependencies is not an object"},
		{"{\n \"dependencies\": {\n  \"a\": 1}}", "line 3, column 3: the range of a in dependencies is not a string"},
		{`{"dependencies": {"a": "workspace:*"}}`, "works only inside of a workspace"},
		{`{"dependencies": {"a": "^^"}}`, "is no range of versions"},
		{`{"dependencies": {"../up": "1"}}`, `"../up" is no name of a package`},
		{"{\"a\":", "line 1, column 6"},
	} {
		_, err := deps.ParseManifest([]byte(x.text))
		e := tool.AsError(err)
		if e == nil || e.Code != tool.DependencyError || !strings.Contains(e.Message, x.say) {
			t.Errorf("%q: %v, want %q", x.text, err, x.say)
		}
	}
}

func TestManifestOddFiles(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "package.json")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, make := range map[string]func(path string) error{
		"a link that leads out": func(path string) error { return os.Symlink(outside, path) },
		"a directory":           func(path string) error { return os.Mkdir(path, 0o755) },
		"too large": func(path string) error {
			return os.WriteFile(path, []byte(`{"x": "`+strings.Repeat("x", 2<<20)+`"}`), 0o644)
		},
	} {
		dir := t.TempDir()
		if err := make(filepath.Join(dir, "package.json")); err != nil {
			t.Fatal(err)
		}
		_, err := deps.Load(dir, define(dir))
		if e := tool.AsError(err); e == nil || e.Code != tool.DependencyError || strings.Contains(e.Message, "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSatisfied(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{"package.json": `{"dependencies": {
		"good": "^1.0.0", "old": "^2.0.0", "gone": "*", "tag": "latest", "alias": "npm:real@1", "wrong": "npm:real@1", "local": "file:./x", "git": "user/repo#semver:^1"},
		"optionalDependencies": {"maybe": "1", "bad": "2"}, "devDependencies": {"never": "1"}}`}
	for name, p := range map[string]string{"good": "good 1.4.0", "old": "old 1.9.0", "tag": "tag 9.9.9", "alias": "real 1.0.0", "wrong": "other 1.0.0", "local": "local 0.0.0", "git": "git 2.0.0", "bad": "bad 1.0.0"} {
		real, version, _ := strings.Cut(p, " ")
		files["node_modules/"+name+"/package.json"] = `{"name": "` + real + `", "version": "` + version + `"}`
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := deps.Satisfied(dir)
	want := []deps.Unmet{
		{Name: "bad", Range: "2", Installed: "1.0.0", Why: "bad 1.0.0 is installed, 2 is asked for."},
		{Name: "git", Range: "user/repo#semver:^1", Installed: "2.0.0", Why: "git 2.0.0 is installed, user/repo#semver:^1 is asked for."},
		{Name: "gone", Range: "*", Why: "gone is not installed."},
		{Name: "old", Range: "^2.0.0", Installed: "1.9.0", Why: "old 1.9.0 is installed, ^2.0.0 is asked for."},
		{Name: "wrong", Range: "npm:real@1", Installed: "1.0.0", Why: "What is installed as wrong is other, not real."},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("unmet (-want +got):\n%s%v", diff, err)
	}
}

func TestLocal(t *testing.T) {
	for _, x := range []struct {
		name     string
		files    map[string]string
		declared []string
		say      string
	}{
		{"there", map[string]string{"local.js": "", "lib/index.js": "import '../local.js'"}, []string{"./local.js", "./lib", "./local"}, ""},
		{"missing", nil, []string{"./local.js"}, "the local dependency ./local.js is not there"},
		{"outside", nil, []string{"../local.js"}, "lies outside of the tool's folder"},
		{"absolute", nil, []string{"/etc/passwd"}, "lies outside of the tool's folder"},
		{"circle", map[string]string{"a.js": "import './b.js'", "b.js": "const c = require('./c')", "c.js": "export * from './a.js'"}, []string{"./a.js"}, "local dependencies form a circle: ./a.js → ./b.js → ./c.js → ./a.js"},
		{"circle in comments only", map[string]string{"a.js": "import './b.js'", "b.js": "// import './a.js'\nconst s = \"import './a.js'\""}, []string{"./a.js", "./b.js"}, ""},
		{"diamond", map[string]string{"a.js": "import './b.js'; import './c.js'", "b.js": "import './d.js'", "c.js": "import('./d.js')", "d.js": ""}, []string{"./a.js"}, ""},
	} {
		t.Run(strings.ReplaceAll(x.name, " ", "_"), func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range x.files {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			d := define(dir)
			for _, name := range x.declared {
				d.Dependencies = append(d.Dependencies, definition.Dependency{Kind: definition.Local, Name: name, Range: "local"})
			}
			err := deps.Local(dir, d)
			if x.say == "" && err != nil || x.say != "" && (err == nil || !strings.Contains(err.Error(), x.say)) {
				t.Errorf("error %v, want %q", err, x.say)
			}
		})
	}
}

func FuzzManifest(f *testing.F) {
	for _, text := range []string{`{}`, "{\"a\": 1.0,\n \"dependencies\": {\"x\": \"^1\"}}", `{"a": 1, "a": 2}`, "\xef\xbb\xbf{\r\n}", `{"dependencies": null}`, `[`, `{"dependencies": {"a": "git+ssh://x"}}`} {
		f.Add([]byte(text))
	}
	d := define("", "fuzzed@^1.0.0")
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := deps.ParseManifest(text)
		if err != nil {
			if tool.AsError(err).Code != tool.DependencyError {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		before := map[string]any{}
		if err := json.Unmarshal([]byte(strings.TrimPrefix(string(text), "\xef\xbb\xbf")), &before); err != nil {
			t.Fatalf("%q was read as JSON: %v", text, err)
		}
		_, had := m.Packages()["fuzzed"]
		m.Merge(d)
		after := map[string]any{}
		if err := json.Unmarshal(m.Bytes(), &after); err != nil {
			t.Fatalf("%q became %q: %v", text, m.Bytes(), err)
		}
		if !had && m.Packages()["fuzzed"] != "^1.0.0" {
			t.Errorf("%q: not merged: %s", text, m.Bytes())
		}
		delete(before, "dependencies")
		delete(after, "dependencies")
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("%q changed:\n%s", text, diff)
		}
	})
}
