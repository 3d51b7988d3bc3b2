package pydeps_test

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/sandbox/sandboxtest"
	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/internal/toolbox/pydeps"
	"github.com/toolyard/toolyard/internal/toolbox/runtimes"
	"github.com/toolyard/toolyard/tool"
)

func TestMain(m *testing.M) {
	sandboxtest.Main()
	if len(os.Args) == 6 && os.Args[1] == installArg {
		os.Exit(installs(os.Args[2], os.Args[3], os.Args[4], os.Args[5]))
	}
	os.Exit(runTests(m))
}

// prepared is where all tests have their pip and what is known of Python: to find
// out takes long.
var prepared string

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "pydeps-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	prepared = dir
	return m.Run()
}

// box is the sandbox of a test.
func box(t testing.TB, c sandbox.Config) *sandbox.Sandbox {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no python3")
	}
	s := sandbox.New(c)
	t.Cleanup(func() { s.Close() })
	if report := s.Probe(t.Context()); !report.Level.AtLeast(sandbox.L2) {
		t.Skipf("level L2 cannot be had here, only %s: %v", report.Level, report.Missing)
	}
	return s
}

// world is an installer with a directory of wheels, and one tool.
type world struct {
	*testing.T
	s                    *sandbox.Sandbox
	r                    *runtimes.Runtimes
	c                    pydeps.Config
	in                   *pydeps.Installer
	wheels, tool, states string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return worldOn(t, os.Getenv("PATH"))
}

func worldOn(t *testing.T, path string) *world {
	w := &world{T: t, s: box(t, sandbox.Config{})}
	dir := t.TempDir()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	w.wheels, w.tool, w.states = dir+"/wheels", dir+"/toolbox/greet", dir+"/cache"
	for _, d := range []string{w.wheels, w.tool, w.states} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(prepared, w.states+"/pip"); err != nil {
		t.Fatal(err)
	}
	w.r = runtimes.New(runtimes.Config{Dir: dir + "/runtimes", Cache: prepared, Path: path, Home: home, Runner: w.s})
	w.c = pydeps.Config{Runner: w.s, Runtimes: w.r, Cache: w.states, NoIndex: true, Wheels: []string{w.wheels}}
	w.in = pydeps.New(w.c)
	return w
}

// wheel puts a wheel of one module and one program into the directory.
func (w *world) wheel(name, version string, requires ...string) string {
	w.Helper()
	return makeWheel(w, w.wheels, name, version, requires...)
}

func makeWheel(t testing.TB, dir, name, version string, requires ...string) string {
	t.Helper()
	path := filepath.Join(dir, fmt.Sprintf("%s-%s-py3-none-any.whl", name, version))
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info := name + "-" + version + ".dist-info/"
	meta := "Metadata-Version: 2.1\nName: " + name + "\nVersion: " + version + "\n"
	for _, r := range requires {
		meta += "Requires-Dist: " + r + "\n"
	}
	z := zip.NewWriter(f)
	record := ""
	for _, file := range [][2]string{
		{name + ".py", "import sys\nversion = " + fmt.Sprintf("%q", version) + "\ndef main():\n    print('hello from', version, 'in', sys.prefix)\n"},
		{info + "METADATA", meta},
		{info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{info + "entry_points.txt", "[console_scripts]\n" + name + " = " + name + ":main\n"},
	} {
		out, err := z.Create(file[0])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write([]byte(file[1])); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256([]byte(file[1]))
		record += fmt.Sprintf("%s,sha256=%s,%d\n", file[0], base64.RawURLEncoding.EncodeToString(sum[:]), len(file[1]))
	}
	out, err := z.Create(info + "RECORD")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Write([]byte(record + info + "RECORD,,\n")); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// put writes a file of the tool.
func (w *world) put(name, text string) {
	w.Helper()
	if err := os.WriteFile(filepath.Join(w.tool, name), []byte(text), 0o644); err != nil {
		w.Fatal(err)
	}
}

func (w *world) install(q pydeps.Request) (*pydeps.Report, *tool.Error) {
	w.Helper()
	q.Dir = w.tool
	r, err := w.in.Install(w.Context(), q)
	return r, tool.AsError(err)
}

// must installs what can be installed.
func (w *world) must(q pydeps.Request) *pydeps.Report {
	w.Helper()
	r, err := w.install(q)
	if err != nil {
		w.Fatalf("%s: %s\n%v", err.Code, err.Text(), err.Details)
	}
	return r
}

// python runs the environment's Python as a tool's worker does.
func (w *world) python(r *pydeps.Report, args ...string) string {
	w.Helper()
	got := sandboxtest.Command(w.T, w.s, sandbox.Cmd{
		Args: args, Dir: w.tool, Env: []string{"PATH=" + r.Env + "/bin"},
		Profile: sandbox.Profile{Kind: "toolbox", Read: []string{w.tool}, Mounts: w.r.Mounts(r.Python)},
	})
	if got.Ending.Code != 0 {
		w.Errorf("%v ended %+v with %s", args, got.Ending, got.Output)
	}
	return strings.TrimSpace(got.Output)
}

func TestInstall(t *testing.T) {
	w := newWorld(t)
	w.wheel("greet_a", "1.0")
	w.wheel("greet_a", "1.5")
	w.wheel("greet_a", "2.0", "greet-b>=0.1")
	w.wheel("greet_b", "0.3")
	w.wheel("greet_c", "7.0")
	w.put("requirements.txt", "# what it needs\nGreet.A>=1,<2  # not 2\n")
	var told []string
	r := w.must(pydeps.Request{Progress: func(text string) { told = append(told, text) }})
	if !r.Changed || len(r.Packages) != 1 || r.Packages[0].Name != "greet-a" || r.Packages[0].Version != "1.5" || len(told) == 0 {
		t.Errorf("got %+v, told %q", r, told)
	}
	env := filepath.Join(w.tool, ".venv")
	if got, want := w.python(r, r.Program, "-I", "-c", "import greet_a; greet_a.main()"), "hello from 1.5 in "+env; got != want {
		t.Errorf("the module says %q, want %q", got, want)
	}
	if got, want := w.python(r, env+"/bin/greet_a"), "hello from 1.5 in "+env; got != want {
		t.Errorf("the program says %q, want %q", got, want)
	}

	// The second time there is nothing to do.
	best := time.Hour
	for range 5 {
		again := w.must(pydeps.Request{})
		if again.Changed || again.Program != r.Program || len(again.Packages) != 1 {
			t.Fatalf("unchanged: got %+v", again)
		}
		best = min(best, again.Took)
	}
	if best > 50*time.Millisecond { // an installer takes more to start
		t.Errorf("nothing to do took %s", best)
	}

	// Another range, and what the tool and the project say.
	w.put("requirements.txt", "greet-a==2.*\n")
	w.put("pyproject.toml", "[project]\nname = 'x'\nrequires-python = '>=3.8'\ndependencies = ['greet-c ; python_version > \"3\"']\n")
	def := &definition.Definition{Dependencies: []definition.Dependency{
		{Kind: definition.Package, Name: "greet_a", Range: "^1.0"}, {Kind: definition.Package, Name: "greet_b", Range: "*"},
		{Kind: definition.Command, Name: "git", Range: ">=2"}, {Kind: definition.Local, Name: "./lib.py"},
	}}
	r = w.must(pydeps.Request{Definition: def})
	var names []string
	for _, p := range r.Packages {
		names = append(names, p.Name+" "+p.Version)
	}
	if got := strings.Join(names, ", "); got != "greet-a 2.0, greet-b 0.3, greet-c 7.0" {
		t.Errorf("installed %s", got)
	}
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "requirements.txt:1") {
		t.Errorf("warnings: %q", r.Warnings)
	}
	if problems, err := pydeps.Check(w.tool, def); err != nil || len(problems) != 0 {
		t.Errorf("Check: %+v, %v", problems, err)
	}
	w.put("requirements.txt", "greet-a>2.0\n")
	if problems, err := pydeps.Check(w.tool, def); err != nil || len(problems) != 1 || problems[0].Installed != "2.0" {
		t.Errorf("Check: %+v, %v", problems, err)
	}

	// Nothing any more.
	for _, name := range []string{"requirements.txt", "pyproject.toml"} {
		if err := os.Remove(filepath.Join(w.tool, name)); err != nil {
			t.Fatal(err)
		}
	}
	r = w.must(pydeps.Request{})
	if !r.Changed || r.Env != "" || r.Program != r.Python.Program {
		t.Errorf("without requirements: %+v", r)
	}
	w.onlyIn(w.tool)
}

// onlyIn fails where an installation left something in a tool's folder.
func (w *world) onlyIn(dir string, names ...string) {
	w.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		w.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(names, " ") {
		w.Errorf("%s has %q, want %q", dir, got, names)
	}
	if left, _ := filepath.Glob(w.states + "/py-*"); len(left) > 0 {
		w.Errorf("left in the cache: %q", left)
	}
}

// TestFailureKeepsThePrevious: an installation that fails changes nothing.
func TestFailureKeepsThePrevious(t *testing.T) {
	w := newWorld(t)
	w.wheel("greet_a", "1.0")
	broken := w.wheel("greet_b", "1.0")
	if err := os.WriteFile(broken, []byte("no zip"), 0o644); err != nil {
		t.Fatal(err)
	}
	w.wheel("greet_c", "1.0", "greet-a>=5")
	good := sha256.Sum256([]byte("something else"))
	w.put("requirements.txt", "greet-a\n")
	w.must(pydeps.Request{})
	for _, c := range []struct{ name, text, want string }{
		{"absent", "greet-a\nnot-there>=1\n", "not-there"},
		{"a broken wheel", "greet-a\ngreet-b\n", "greet"},
		{"a conflict", "greet-c\n", "greet-a"},
		{"another hash", "greet-a --hash=sha256:" + hex.EncodeToString(good[:]) + "\n", "hash"},
		{"an address", "greet-a @ https://example.com/a.whl\n", "requirements.txt:1"},
		{"a repository", "git+https://example.com/a\n", "requirements.txt:1"},
		{"another index", "--extra-index-url https://evil.test/simple\ngreet-a\n", "--extra-index-url"},
		{"an option", "greet-a --global-option=x\n", "--global-option"},
		{"a file outside", "-r ../../other.txt\n", "requirements.txt:1"},
		{"no requirement", "greet-a\n!!!\n", "requirements.txt:2"},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			w.put("requirements.txt", c.text)
			_, err := w.install(pydeps.Request{})
			if err == nil || err.Code != tool.DependencyError || err.Hint == "" || !strings.Contains(err.Message, c.want) {
				t.Errorf("got %v (%s), want DEPENDENCY_ERROR that has %q", err, err.Text(), c.want)
			}
			w.put("requirements.txt", "greet-a\n")
			r := w.must(pydeps.Request{})
			if got := w.python(r, r.Program, "-I", "-c", "import greet_a; print(greet_a.version)"); r.Changed || got != "1.0" {
				t.Errorf("afterwards: %+v says %q", r, got)
			}
		})
	}
	w.onlyIn(w.tool, ".venv", "requirements.txt")
}
