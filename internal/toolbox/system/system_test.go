package system_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/toolbox/system"
)

// node is the Node that is there; without one nothing here means anything.
func node(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("node")
	if err != nil {
		t.Skip("no node on PATH")
	}
	return program
}

// run runs Node in a directory and returns what it printed.
func run(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, node(t), args...)
	cmd.Dir = dir
	// Inside a test of Node's own runner the inner one would report to it.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "NODE_") })
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// unpack writes a tool's folder as it would be installed.
func unpack(t *testing.T, name string) string {
	t.Helper()
	folder, err := fs.Sub(system.FS(), name)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), name)
	if err := os.CopyFS(dir, folder); err != nil {
		t.Fatal(err)
	}
	return dir
}

// packages holds what was installed from the registry, once for each tool.
var packages struct {
	sync.Mutex
	root string            // of TestMain
	of   map[string]string // the node_modules of a tool
}

func TestMain(m *testing.M) {
	root, err := os.MkdirTemp("", "system-packages-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	packages.root, packages.of = root, map[string]string{}
	code := m.Run()
	if err := os.RemoveAll(root); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// install gives a tool's folder what its package.json names, if anything.
func install(t *testing.T, dir string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "package.json"))
	if err != nil {
		t.Fatal(err)
	}
	var pkg struct{ Dependencies map[string]string }
	if err := json.Unmarshal(raw, &pkg); err != nil {
		t.Fatal(err)
	}
	if len(pkg.Dependencies) == 0 {
		return
	}
	from := fetched(t, filepath.Base(dir), raw)
	err = filepath.WalkDir(from, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, file)
		if err != nil {
			return err
		}
		to := filepath.Join(dir, "node_modules", name)
		switch {
		case d.IsDir():
			return os.Mkdir(to, 0o755)
		case d.Type().IsRegular():
			return os.Link(file, to)
		}
		return nil // a link of .bin, which nothing here runs
	})
	if err != nil {
		t.Fatal(err)
	}
}

// fetched gets the packages of a package.json from the registry, the first time.
func fetched(t *testing.T, name string, manifest []byte) string {
	t.Helper()
	packages.Lock()
	defer packages.Unlock()
	if dir, ok := packages.of[name]; ok {
		return dir
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("no npm on PATH")
	}
	dir := filepath.Join(packages.root, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), manifest, 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--omit=optional", "--no-package-lock")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm install: %v\n%s", err, out)
	}
	packages.of[name] = filepath.Join(dir, "node_modules")
	return packages.of[name]
}

func TestNames(t *testing.T) {
	got := system.Names()
	for _, want := range []string{"file-reader", "filesystem", "ollama-remote", "pdf-reader", "playwright", "thinking", "todolist"} {
		if !slices.Contains(got, want) {
			t.Errorf("Names() = %q, want %s among them", got, want)
		}
	}
	if !slices.IsSorted(got) {
		t.Errorf("Names() = %q, want them sorted", got)
	}
}

func TestFoldersAreComplete(t *testing.T) {
	for _, name := range system.Names() {
		t.Run(name, func(t *testing.T) {
			for _, file := range []string{name + ".tool.js", "package.json", "README.md"} {
				if _, err := fs.Stat(system.FS(), path.Join(name, file)); err != nil {
					t.Errorf("%s has no %s: %v", name, file, err)
				}
			}
			tests, err := fs.Glob(system.FS(), name+"/*.test.js")
			if err != nil || len(tests) == 0 {
				t.Errorf("%s has no tests: %v", name, err)
			}
			raw, err := fs.ReadFile(system.FS(), path.Join(name, "package.json"))
			if err != nil {
				t.Fatal(err)
			}
			var pkg struct {
				Name, Version, Description, Main, Type, License string
				Private                                         bool
			}
			if err := json.Unmarshal(raw, &pkg); err != nil {
				t.Fatal(err)
			}
			if pkg.Name != "@toolyard/"+name || pkg.Main != name+".tool.js" || pkg.Type != "module" || pkg.License != "Apache-2.0" || !pkg.Private {
				t.Errorf("package.json of %s says %+v", name, pkg)
			}
			if !regexp.MustCompile(`^\d+\.\d+\.\d+$`).MatchString(pkg.Version) || pkg.Description == "" {
				t.Errorf("package.json of %s has version %q and description %q", name, pkg.Version, pkg.Description)
			}
		})
	}
}

// described prints what a module says of itself.
const described = `
const { default: tool } = await import(process.argv[1]);
console.log(JSON.stringify({
  id: tool.getMetadata().id,
  version: tool.getMetadata().version,
  dependencies: tool.getDependencies(),
  methods: Object.keys(tool).filter((name) => typeof tool[name] === 'function'),
}));`

func TestModulesSayWhatTheirPackagesSay(t *testing.T) {
	for _, name := range system.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := unpack(t, name)
			out, err := run(t, dir, "--input-type=module", "-e", described, "file://"+filepath.Join(dir, name+".tool.js"))
			if err != nil {
				t.Fatalf("%s does not load: %v\n%s", name, err, out)
			}
			var got struct {
				ID, Version  string
				Dependencies map[string]string
				Methods      []string
			}
			if err := json.Unmarshal([]byte(out), &got); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			var pkg struct {
				Version      string
				Dependencies map[string]string
			}
			raw, err := os.ReadFile(filepath.Join(dir, "package.json"))
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(raw, &pkg); err != nil {
				t.Fatal(err)
			}
			if got.ID != name || got.Version != pkg.Version {
				t.Errorf("the module is %s %s, want %s %s", got.ID, got.Version, name, pkg.Version)
			}
			for _, method := range []string{"getMetadata", "getSchema", "getDependencies", "getBusinessErrors", "getRuntimeConfig", "execute"} {
				if !slices.Contains(got.Methods, method) {
					t.Errorf("%s has no %s", name, method)
				}
			}
			if diff := cmp.Diff(pkg.Dependencies, packagesOf(t, dir, got.Dependencies)); diff != "" {
				t.Errorf("dependencies of package.json (-) and module (+):\n%s", diff)
			}
		})
	}
}

// packagesOf are the packages among a tool's dependencies; its local files must
// be there, and each file of its lib/ must be among them.
func packagesOf(t *testing.T, dir string, all map[string]string) map[string]string {
	t.Helper()
	var packages map[string]string
	local := map[string]bool{}
	for name, want := range all {
		switch {
		case want == "local":
			local[path.Clean(name)] = true
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
				t.Errorf("a local dependency is missing: %v", err)
			}
		case strings.HasPrefix(name, "cmd:") || name == "python3":
		default:
			if packages == nil {
				packages = map[string]string{}
			}
			packages[name] = want
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "lib", "*.js"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if name := "lib/" + filepath.Base(file); !local[name] {
			t.Errorf("%s is not among the dependencies %v", name, slices.Sorted(maps.Keys(local)))
		}
	}
	return packages
}

// parse compiles the modules that it is given, without running them.
const parse = `
import { readFileSync } from 'node:fs';
import { SourceTextModule } from 'node:vm';
for (const file of process.argv.slice(1)) {
  try {
    new SourceTextModule(readFileSync(file, 'utf8'), { identifier: file });
  } catch (error) {
    console.log(file + ': ' + error.stack);
    process.exitCode = 1;
  }
}`

func TestScriptsParse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, system.FS()); err != nil {
		t.Fatal(err)
	}
	args := []string{"--experimental-vm-modules", "--input-type=module", "-e", parse}
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(file) == ".js" {
			args = append(args, file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := run(t, dir, args...); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestToolsPassTheirOwnTests(t *testing.T) {
	for _, name := range system.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := unpack(t, name)
			install(t, dir)
			out, err := run(t, dir, "--test", "--test-reporter=tap")
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if !regexp.MustCompile(`(?m)^# pass [1-9]`).MatchString(out) || !regexp.MustCompile(`(?m)^# fail 0$`).MatchString(out) {
				t.Errorf("no test passed, or one failed:\n%s", out)
			}
		})
	}
}
