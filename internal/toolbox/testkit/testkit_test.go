package testkit_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/toolbox/check"
	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/internal/toolbox/host"
	"github.com/toolyard/toolyard/internal/toolbox/templates"
	"github.com/toolyard/toolyard/internal/toolbox/testkit"
	"github.com/toolyard/toolyard/tool"
)

// folder makes a folder of files: of testdata where a name stands alone, else of
// the text given.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if text == "" {
			content, err := os.ReadFile(filepath.Join("testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			text = string(content)
		}
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func adapters(t *testing.T) testkit.Adapters {
	t.Helper()
	files, err := host.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return testkit.Adapters{JS: files.JS, Python: files.Py}
}

func kit(t *testing.T) testkit.Kit {
	t.Helper()
	k, err := testkit.Write(t.TempDir(), adapters(t))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// run runs a tool's tests and returns what was printed.
func run(t *testing.T, c testkit.Config) (output string, passed bool) {
	t.Helper()
	if c.Files == nil {
		c.Files = check.TestFiles(c.Dir)
	}
	command, err := testkit.Command(c)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(command.Args[0], command.Args[1:]...)
	cmd.Dir = c.Dir
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "NODE_TEST") }), command.Env...)
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

// count is the number that stands behind a label.
func count(t *testing.T, output, label string) int {
	t.Helper()
	m := regexp.MustCompile(label + ` (\d+)`).FindStringSubmatch(output)
	if m == nil {
		t.Fatalf("no %q in:\n%s", label, output)
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestHelperJS(t *testing.T) {
	dir := folder(t, map[string]string{"thing.tool.js": "", "thing.test.js": "", "package.json": `{"type": "module"}`})
	out, passed := run(t, testkit.Config{Dir: dir, Language: definition.JavaScript, Kit: kit(t)})
	if !passed || count(t, out, "pass") != 13 || count(t, out, "fail") != 0 {
		t.Error(out)
	}
}

func TestHelperPython(t *testing.T) {
	dir := folder(t, map[string]string{"thing.tool.py": "", "test_thing.py": ""})
	out, passed := run(t, testkit.Config{Dir: dir, Language: definition.Python, Kit: kit(t)})
	if !passed || count(t, out, "Ran") != 10 {
		t.Error(out)
	}
	if _, err := os.Stat(filepath.Join(dir, "__pycache__")); err == nil {
		t.Error("the tests left __pycache__ in the tool's folder")
	}
}

// TestTemplates runs the tests of a new tool, and again with the tool broken.
func TestTemplates(t *testing.T) {
	for name, tt := range map[string]struct {
		lang     string
		language definition.Language
		file     string
		label    string
		tests    int
		from, to string
	}{
		"js": {"js", definition.JavaScript, "my-tool.tool.js", "pass", 5, "words++", "words += 2"},
		"py": {"py", definition.Python, "my-tool.tool.py", "Ran", 5, "sum(counts.values())", "sum(counts.values()) * 2"},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			if _, err := templates.New(home, "my-tool", tt.lang, templates.Options{}); err != nil {
				t.Fatal(err)
			}
			c := testkit.Config{Dir: filepath.Join(home, "my-tool"), Language: tt.language, Kit: kit(t)}
			out, passed := run(t, c)
			if !passed || count(t, out, tt.label) != tt.tests {
				t.Error(out)
			}
			path := filepath.Join(c.Dir, tt.file)
			text, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(text), tt.from) {
				t.Fatalf("%v, or no %q in %s", err, tt.from, text)
			}
			if err := os.WriteFile(path, []byte(strings.Replace(string(text), tt.from, tt.to, 1)), 0o644); err != nil {
				t.Fatal(err)
			}
			if out, passed := run(t, c); passed {
				t.Errorf("the tests pass with a tool that counts wrong:\n%s", out)
			}
		})
	}
}

func TestCommand(t *testing.T) {
	k := testkit.Kit{Dir: "/kit", Register: "/kit/a b/register.mjs", CommonJS: "/kit/toolyard-test.cjs"}
	jest := map[string]string{
		"package.json":                   `{"devDependencies": {"jest": "^30.0.0"}}`,
		"node_modules/jest/package.json": `{"name": "jest", "bin": "./bin/jest.js"}`,
		"a.test.js":                      "1",
	}
	for name, tt := range map[string]struct {
		files map[string]string
		lang  definition.Language
		only  []string
		want  []string // %s is the folder
		code  tool.Code
	}{
		"node":   {map[string]string{"a.test.js": "1", "b.tool.js": "1", "test/b.js": "1", "node_modules/x/x.test.js": "1", "test_c.py": "1"}, definition.JavaScript, nil, []string{"node", "--import", "file:///kit/a%20b/register.mjs", "--test", "a.test.js", "test/b.js"}, ""},
		"named":  {map[string]string{"a.test.js": "1", "b.test.js": "1"}, definition.JavaScript, []string{"b.test.js"}, []string{"node", "--import", "file:///kit/a%20b/register.mjs", "--test", "b.test.js"}, ""},
		"jest":   {jest, definition.JavaScript, nil, []string{"node", "--experimental-vm-modules", "%s/node_modules/jest/bin/jest.js", "--moduleNameMapper", `{"^toolyard:test$":"/kit/toolyard-test.cjs"}`, "--cache=false", "--runTestsByPath", "a.test.js"}, ""},
		"vitest": {map[string]string{"package.json": `{"devDependencies": {"vitest": "3"}}`, "node_modules/vitest/package.json": `{"bin": {"vitest": "vitest.mjs"}}`, "a.test.js": "1"}, definition.JavaScript, nil, []string{"node", "/kit/vitest.mjs", "a.test.js"}, ""},
		"python": {map[string]string{"test_c.py": "1", "tests/d.py": "1", "tests/__init__.py": "1", "a.test.js": "1"}, definition.Python, nil, []string{"python3", "-B", "-X", "utf8", "-c", "START", "PATH", "unittest", "-v", "test_c.py", "tests/d.py"}, ""},
		"venv":   {map[string]string{"test_c.py": "1", ".venv/bin/python": "1"}, definition.Python, nil, []string{"%s/.venv/bin/python", "-B", "-X", "utf8", "-c", "START", "PATH", "unittest", "-v", "test_c.py"}, ""},
		"pytest": {map[string]string{"test_c.py": "1", "requirements.txt": "requests\npytest>=8\n"}, definition.Python, nil, []string{"python3", "-B", "-X", "utf8", "-c", "START", "PATH", "pytest", "-p", "no:cacheprovider", "--rootdir", "%s", "test_c.py"}, ""},
		"none":   {map[string]string{"a.tool.js": "1"}, definition.JavaScript, nil, nil, tool.NotFound},
		"absent": {map[string]string{"package.json": `{"devDependencies": {"jest": "1"}}`, "a.test.js": "1"}, definition.JavaScript, nil, nil, tool.DependencyError},
		"broken": {map[string]string{"package.json": `{`, "a.test.js": "1"}, definition.JavaScript, nil, nil, tool.ValidationError},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t, tt.files)
			files := tt.only
			if files == nil {
				files = check.TestFiles(dir)
			}
			got, err := testkit.Command(testkit.Config{Dir: dir, Language: tt.lang, Kit: k, Files: files})
			if tt.code != "" {
				if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != tt.code || e.Hint == "" {
					t.Errorf("got %#v, want %s", err, tt.code)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := slices.Clone(tt.want)
			for i := range want {
				want[i] = strings.ReplaceAll(want[i], "%s", dir)
			}
			if at := slices.Index(got.Args, "-c"); at >= 0 { // how Python finds the helper
				if !strings.Contains(got.Args[at+1], "sys.path[:0]") || !strings.HasPrefix(got.Args[at+2], k.Dir) {
					t.Errorf("got %q", got.Args)
				}
				got.Args[at+1], got.Args[at+2] = "START", "PATH"
			}
			if diff := cmp.Diff(want, got.Args); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestWriteTwice finds the same folder again.
func TestWriteTwice(t *testing.T) {
	dir := t.TempDir()
	first, err := testkit.Write(dir, adapters(t))
	if err != nil {
		t.Fatal(err)
	}
	second, err := testkit.Write(dir, adapters(t))
	if err != nil || first != second {
		t.Errorf("got %+v and %+v, %v", first, second, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("in the folder are %v, %v", entries, err)
	}
}
