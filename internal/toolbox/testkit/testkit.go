// Package testkit runs the tests that tools have of their own: it holds the module
// toolyard:test (in Python toolyard_test), with which such a test makes the tool as
// a worker has it, and says which command runs the tests of a folder. It starts
// nothing itself.
package testkit

import (
	_ "embed"
	"fmt"
	"hash/fnv"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

//go:embed register.mjs
var register string

//go:embed hooks.mjs
var hooks string

//go:embed vitest.mjs
var vitest string

//go:embed toolyard-test.cjs
var helperJS string

//go:embed toolyard_test.py
var helperPython string

// Kit is where the files of the helper modules are.
type Kit struct {
	// Dir holds them all; a sandbox must let them be read.
	Dir string
	// Register is what node loads before a test, with --import; CommonJS is the
	// helper itself, for runners that want to be told where a module is.
	Register, CommonJS string
}

// Adapters are the files that make a tool out of a module in a worker, and in a test
// as well: those of internal/toolbox/host.
type Adapters struct{ JS, Python string }

// Write puts the helper modules, with copies of the adapters, into a folder of their
// own below dir, an existing directory, and tells where they are. The folder's name
// has their content in it, so that many programs and versions share dir; it is there
// whole or not at all.
func Write(dir string, a Adapters) (Kit, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Kit{}, fmt.Errorf("finding the folder of the test helpers: %w", err)
	}
	draft, err := os.MkdirTemp(dir, ".testkit-")
	if err != nil {
		return Kit{}, fmt.Errorf("writing the test helpers: %w", err)
	}
	defer os.RemoveAll(draft)
	sum, err := write(draft, a)
	if err != nil {
		return Kit{}, fmt.Errorf("writing the test helpers: %w", err)
	}
	made := filepath.Join(dir, fmt.Sprintf("testkit-%016x", sum))
	if err := os.Rename(draft, made); err != nil {
		if info, e := os.Stat(made); e != nil || !info.IsDir() { // not there either from before
			return Kit{}, fmt.Errorf("writing the test helpers: %w", err)
		}
	}
	return Kit{Dir: made, Register: filepath.Join(made, "register.mjs"), CommonJS: filepath.Join(made, "toolyard-test.cjs")}, nil
}

func write(dir string, a Adapters) (sum uint64, err error) {
	js, err := os.ReadFile(a.JS)
	if err != nil {
		return 0, err
	}
	python, err := os.ReadFile(a.Python)
	if err != nil {
		return 0, err
	}
	hash := fnv.New64a()
	for _, file := range []struct{ name, text string }{
		{"register.mjs", register}, {"hooks.mjs", hooks}, {"vitest.mjs", vitest}, {"toolyard-test.cjs", helperJS}, {"toolyard_test.py", helperPython},
		{"package.json", `{"type": "commonjs"}` + "\n"},
		{"adapter.cjs", string(js)}, {"toolyard_adapter.py", string(python)},
	} {
		_, _ = hash.Write([]byte(file.text))
		if err := os.WriteFile(filepath.Join(dir, file.name), []byte(file.text), 0o644); err != nil {
			return 0, err
		}
	}
	return hash.Sum64(), os.Chmod(dir, 0o755)
}

// fileURL is a path as an import wants it.
func fileURL(path string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/…
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}
