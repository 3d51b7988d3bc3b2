package check

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

var toolName = lazily(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// modules lists the names that a tool's module may have, best first.
func modules(name string) []string {
	return []string{name + ".tool.js", "tool.js", name + ".tool.py", "tool.py"}
}

// moduleFile finds the module of a folder, and further files that could be it.
func moduleFile(dir, name string) (module string, others []string) {
	for _, candidate := range modules(name) {
		if info, err := os.Lstat(filepath.Join(dir, candidate)); err != nil || !info.Mode().IsRegular() {
			continue
		}
		if module == "" {
			module = candidate
		} else {
			others = append(others, candidate)
		}
	}
	return module, others
}

// structure is layer 1.
func (r *run) structure() {
	entries, err := os.ReadDir(r.Dir)
	if err != nil {
		r.skip(unloaded)
		r.found("folder", r.Dir, cause(err))
		return
	}
	if !toolName().MatchString(r.Name) {
		r.found("name", r.Name, r.Name)
	}
	r.moduleRules(entries)
	switch {
	case errors.Is(r.broken, fs.ErrNotExist):
		r.skip(noManifest, "package-json")
	case r.broken != nil:
		r.found("package-json", "package.json", cause(r.broken))
	}
	r.linkRule()
	if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return isReadme(e.Name()) }) {
		r.found("readme", "README.md")
	}
}

func isReadme(name string) bool {
	name = strings.ToLower(name)
	return name == "readme" || name == "readme.md" || name == "readme.txt" || name == "readme.rst"
}

func (r *run) moduleRules(entries []fs.DirEntry) {
	info, err := os.Stat(filepath.Join(r.Dir, r.module))
	switch {
	case r.module == "" || err != nil:
		r.skip(noFile, "module-one")
		r.found("module", "", noModule(entries))
	case info.Size() == 0:
		r.found("module", r.module, words{"the module is empty", "模块文件为空"})
	}
	for _, other := range r.others {
		r.found("module-one", other, other, r.module)
	}
}

// noModule says that there is no module, and names what could be meant to be it.
func noModule(entries []fs.DirEntry) words {
	var near []string
	for _, e := range entries {
		name := e.Name()
		if isTest(name) || e.IsDir() {
			continue
		}
		switch filepath.Ext(name) {
		case ".js", ".mjs", ".cjs", ".ts", ".py":
			near = append(near, name)
		}
	}
	if len(near) == 0 {
		return words{"there is no module in the folder", "文件夹中没有模块文件"}
	}
	list := strings.Join(near, ", ")
	return words{"there is no module in the folder, only " + list, "文件夹中没有模块文件，只有 " + list}
}

// linkRule finds symbolic links that lead out of the folder. Those of installed
// packages are the installer's own.
func (r *run) linkRule() {
	root, err := filepath.EvalSymlinks(r.Dir)
	if err != nil {
		return
	}
	_ = filepath.WalkDir(r.Dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // what cannot be read cannot be followed either
		}
		if e.IsDir() && path != r.Dir && installed(e.Name()) {
			return fs.SkipDir
		}
		if e.Type()&fs.ModeSymlink == 0 {
			return nil
		}
		target, err := filepath.EvalSymlinks(path)
		if err == nil && target != root && !strings.HasPrefix(target, root+string(filepath.Separator)) {
			name, _ := filepath.Rel(r.Dir, path)
			r.found("link", filepath.ToSlash(name))
		}
		return nil
	})
}

// installed reports whether a folder holds what others made: packages, records.
func installed(name string) bool {
	switch name {
	case "node_modules", ".venv", "venv", "__pycache__", ".git", "data", "logs", "site-packages":
		return true
	}
	return false
}

// packageJSON is what is read of a package.json.
type packageJSON struct {
	Name            string            `json:"name"`
	Version         string            `json:"version"`
	License         json.RawMessage   `json:"license"`
	Licenses        json.RawMessage   `json:"licenses"`
	Dependencies    map[string]string `json:"dependencies"`
	DevDependencies map[string]string `json:"devDependencies"`
	Optional        map[string]string `json:"optionalDependencies"`
	Scripts         map[string]string `json:"scripts"`
	Gypfile         bool              `json:"gypfile"`
}

// ranges are all packages that it names, with their ranges.
func (p *packageJSON) ranges() map[string]string {
	all := map[string]string{}
	for _, from := range []map[string]string{p.DevDependencies, p.Optional, p.Dependencies} {
		for name, rng := range from {
			all[name] = rng
		}
	}
	return all
}

// license is the licence that it names, "" if none.
func (p *packageJSON) license() string {
	for _, raw := range []json.RawMessage{p.License, p.Licenses} {
		var text string
		if json.Unmarshal(raw, &text) == nil && text != "" {
			return text
		}
		var old struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(raw, &old) == nil && old.Type != "" {
			return old.Type
		}
		var list []struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(raw, &list) == nil && len(list) > 0 && list[0].Type != "" {
			return list[0].Type
		}
	}
	return ""
}

func readPackageJSON(dir string) (*packageJSON, error) {
	content, err := readFile(filepath.Join(dir, "package.json"), maxSource)
	if err != nil {
		return nil, err
	}
	content = bytes.TrimPrefix(content, []byte("\xef\xbb\xbf"))
	if kind := kindOf(content); kind != "an object" && json.Valid(content) {
		return nil, fmt.Errorf("it is %s; an object is expected", kind)
	}
	var p packageJSON
	if err := json.Unmarshal(content, &p); err != nil {
		return nil, jsonFault(content, err)
	}
	return &p, nil
}

// jsonFault adds the place to an error of encoding/json.
func jsonFault(content []byte, err error) error {
	var at int64 = -1
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		at = syntax.Offset
	}
	if kind := (*json.UnmarshalTypeError)(nil); errors.As(err, &kind) {
		return fmt.Errorf("%s is %s", kind.Field, kind.Value)
	}
	if at < 0 || at > int64(len(content)) {
		return err
	}
	line := 1 + bytes.Count(content[:at], []byte("\n"))
	column := at - int64(bytes.LastIndexByte(content[:at], '\n')) - 1
	return fmt.Errorf("line %d, column %d: %w", line, column, err)
}

// readFile reads at most limit bytes of a regular file.
func readFile(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is no file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}

// cause is an error without the path, which stands beside it.
func cause(err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return path.Err
	}
	return err
}
