package testkit

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/tool"
)

// Config says what is tested, and with what.
type Config struct {
	// Dir is the tool's folder, and the working directory of its tests.
	Dir      string
	Language definition.Language
	Kit      Kit
	// Node and Python are programs. Empty is node and python3, looked for in PATH; a
	// .venv of the tool comes before Python.
	Node, Python string
	// Files are the tests, relative to Dir; those of another language are left out.
	Files []string
}

// Run is the command that runs a tool's tests. Exit code 0 is that all passed.
type Run struct {
	Args []string
	// Env is to be added to the environment.
	Env []string
	// Files are the tests that run, relative to the tool's folder, with slashes.
	Files []string
	// Runner is "node", "jest", "vitest", "unittest" or "pytest".
	Runner string
}

// Command says how the tests of a tool are run: by node's own
// runner, or by unittest, unless package.json declares jest or vitest, or the
// requirements declare pytest. A tool without tests is a *tool.Error NOT_FOUND, a
// runner that is declared and not installed is DEPENDENCY_ERROR.
func Command(c Config) (*Run, error) {
	files := slices.DeleteFunc(slices.Clone(c.Files), func(name string) bool {
		return (filepath.Ext(name) == ".py") != (c.Language == definition.Python)
	})
	if len(files) == 0 {
		return nil, tool.Errorf(tool.NotFound, "the tool in %s has no tests", c.Dir).
			WithHint("Write one beside the module: <name>.test.js with node:test, or test_<name>.py with unittest.")
	}
	if c.Language == definition.Python {
		return c.python(files)
	}
	return c.node(files)
}

func (c Config) node(files []string) (*Run, error) {
	program := c.Node
	if program == "" {
		program = "node"
	}
	runner, err := c.declared()
	if err != nil {
		return nil, err
	}
	run := &Run{Files: files, Runner: runner}
	switch runner {
	case "jest":
		bin, err := c.bin("jest")
		if err != nil {
			return nil, err
		}
		mapped, err := json.Marshal(map[string]string{"^toolyard:test$": c.Kit.CommonJS})
		if err != nil {
			return nil, err
		}
		run.Env = []string{"NODE_NO_WARNINGS=1"} // of what is experimental in it
		run.Args = []string{program, "--experimental-vm-modules", bin, "--moduleNameMapper", string(mapped), "--cache=false", "--runTestsByPath"}
	case "vitest":
		if _, err := c.bin("vitest"); err != nil {
			return nil, err
		}
		run.Args = []string{program, filepath.Join(c.Kit.Dir, "vitest.mjs")}
	default:
		run.Runner = "node"
		run.Args = []string{program, "--import", fileURL(c.Kit.Register), "--test"}
	}
	run.Args = append(run.Args, files...)
	return run, nil
}

// declared is the runner that package.json names, "" if none.
func (c Config) declared() (string, error) {
	content, err := os.ReadFile(filepath.Join(c.Dir, "package.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	var p struct {
		Dependencies, DevDependencies map[string]any
	}
	if err == nil {
		err = json.Unmarshal(content, &p)
	}
	if err != nil {
		return "", tool.Errorf(tool.ValidationError, "package.json of the tool cannot be read: %v", err).
			WithHint("Mend it; toolyard toolbox validate shows where.")
	}
	for _, name := range []string{"vitest", "jest"} {
		if p.Dependencies[name] != nil || p.DevDependencies[name] != nil {
			return name, nil
		}
	}
	return "", nil
}

// bin is the program of an installed package.
func (c Config) bin(name string) (string, error) {
	dir := filepath.Join(c.Dir, "node_modules", name)
	content, err := os.ReadFile(filepath.Join(dir, "package.json"))
	if err != nil {
		return "", notInstalled(name)
	}
	var p struct{ Bin json.RawMessage }
	if err := json.Unmarshal(content, &p); err != nil {
		return "", notInstalled(name)
	}
	var one string
	var many map[string]string
	if json.Unmarshal(p.Bin, &one) != nil {
		if json.Unmarshal(p.Bin, &many) != nil || many[name] == "" {
			return "", notInstalled(name)
		}
		one = many[name]
	}
	return filepath.Join(dir, filepath.FromSlash(one)), nil
}

func notInstalled(name string) error {
	return tool.Errorf(tool.DependencyError, "the tool declares %s, which is not installed", name).
		WithHint("Install the tool's dependencies, those for development too.")
}

// startModule runs a module as python -m does, with directories ahead of those
// that modules come from: a sandbox lets no PYTHONPATH in.
const startModule = `import runpy, sys
sys.path[:0] = sys.argv[1].split("\n")
module = sys.argv[2]
del sys.argv[:2]
runpy.run_module(module, run_name="__main__", alter_sys=True)
`

func (c Config) python(files []string) (*Run, error) {
	program := c.Python
	if program == "" {
		program = "python3"
	}
	for _, own := range []string{".venv/bin/python", ".venv/Scripts/python.exe"} {
		if path := filepath.Join(c.Dir, filepath.FromSlash(own)); isFile(path) {
			program = path
		}
	}
	path := []string{c.Kit.Dir}
	if info, err := os.Stat(filepath.Join(c.Dir, "lib")); err == nil && info.IsDir() {
		path = append(path, filepath.Join(c.Dir, "lib"))
	}
	run := &Run{Files: files, Runner: "unittest", Args: []string{program, "-B", "-X", "utf8", "-c", startModule, strings.Join(path, "\n")}}
	if c.pytest() {
		run.Runner = "pytest"
		run.Args = append(run.Args, "pytest", "-p", "no:cacheprovider", "--rootdir", c.Dir)
	} else {
		run.Args = append(run.Args, "unittest", "-v")
	}
	run.Args = append(run.Args, files...)
	return run, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir()
}

// pytest reports whether the tool declares it.
func (c Config) pytest() bool {
	required := regexp.MustCompile(`(?mi)^\s*pytest\s*($|[<>=!~\[;#@ ])`)
	declared := regexp.MustCompile(`(?mi)^\s*\[tool\.pytest|["']pytest\s*["'<>=!~\[;]`)
	for _, name := range []string{"requirements.txt", "requirements-dev.txt", "dev-requirements.txt", "requirements-test.txt"} {
		if content, err := os.ReadFile(filepath.Join(c.Dir, name)); err == nil && required.Match(content) {
			return true
		}
	}
	content, err := os.ReadFile(filepath.Join(c.Dir, "pyproject.toml"))
	return err == nil && declared.Match(content) || isFile(filepath.Join(c.Dir, "pytest.ini"))
}
