package deps

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/tool"
)

// Names of files in a tool's folder.
const (
	manifestFile = "package.json"
	modulesDir   = "node_modules"
)

// maxManifest bounds package.json, in bytes; maxLock a lockfile.
const (
	maxManifest = 1 << 20
	maxLock     = 64 << 20
)

// Manifest is a package.json. What it has is kept as it is, in its order.
type Manifest struct {
	// Warnings are what was odd about it, a sentence each.
	Warnings []string
	// Added are the packages that Merge put in, sorted.
	Added []string
	// Made says that there was none.
	Made bool

	root    *object
	indent  string
	crlf    bool
	changed bool
}

// Load reads a tool's package.json, or makes one in memory if there is none, and
// merges in what the definition asks for. It writes nothing: see
// [Manifest.Changed]. The error is a *tool.Error with DEPENDENCY_ERROR.
func Load(dir string, d *definition.Definition) (*Manifest, error) {
	text, err := readFile(dir, manifestFile, maxManifest)
	var m *Manifest
	switch {
	case errors.Is(err, fs.ErrNotExist):
		m = newManifest(d, func() string { source, _ := readFile(dir, d.File, maxSource); return string(source) })
	case err != nil:
		return nil, tool.Errorf(tool.DependencyError, "package.json cannot be read: %v", reason(err)).
			WithHint("Make it a regular file of at most 1 MiB that can be read.")
	default:
		if m, err = ParseManifest(text); err != nil {
			return nil, err
		}
	}
	m.Merge(d)
	return m, nil
}

// ParseManifest reads the text of a package.json. The error is a *tool.Error with
// DEPENDENCY_ERROR that names line and column.
func ParseManifest(text []byte) (*Manifest, error) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	root, err := parseObject(text)
	if err != nil {
		return nil, tool.Errorf(tool.DependencyError, "package.json is not valid: %v", err).
			WithHint("Correct package.json at that place; strings and keys need double quotes, and there are no comments or trailing commas in JSON.")
	}
	m := &Manifest{root: root, indent: indentOf(text), crlf: bytes.Contains(text, []byte("\r\n"))}
	for _, section := range sections {
		if err := m.check(text, section); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// sections are the parts of package.json whose packages are installed.
var sections = []string{"dependencies", "optionalDependencies", "devDependencies", "peerDependencies"}

// check holds one section to names with strings that can be understood.
func (m *Manifest) check(text []byte, section string) error {
	raw, there := m.root.values[section]
	if !there || string(raw) == "null" {
		return nil
	}
	wrong := func(near string, format string, args ...any) error {
		where := at(text, max(0, bytes.Index(text, []byte(near))), fmt.Sprintf(format, args...))
		return tool.Errorf(tool.DependencyError, "package.json is not valid: %v", where).
			WithHint(`Write %q as {"name": "range of versions"}.`, section)
	}
	inner, err := parseObject(raw)
	if err != nil {
		return wrong(string(encode(section)), "%s is not an object", section)
	}
	for _, name := range inner.keys {
		var value string
		if json.Unmarshal(inner.values[name], &value) != nil {
			return wrong(string(encode(name)), "the range of %s in %s is not a string", name, section)
		}
		if section != "dependencies" && section != "optionalDependencies" {
			continue // not installed, so none of our business
		}
		if _, err := parseSpec(name, value); err != nil {
			return wrong(string(encode(name)), "%v", err)
		}
	}
	return nil
}

// indentOf is how a text of JSON is indented; two blanks if it is on one line.
func indentOf(text []byte) string {
	_, rest, _ := bytes.Cut(text, []byte("\n"))
	indent := rest[:len(rest)-len(bytes.TrimLeft(rest, " \t"))]
	if len(indent) == 0 || len(indent) > 8 {
		return "  "
	}
	return string(indent)
}

func newManifest(d *definition.Definition, source func() string) *Manifest {
	m := &Manifest{Made: true, changed: true, indent: "  ", root: &object{values: map[string]json.RawMessage{}}}
	name := strings.ToLower(d.Name)
	if !validName("@toolyard/" + name) {
		name = "tool"
	}
	m.root.set("name", "@toolyard/"+name)
	version := d.Metadata.Version
	if _, err := parseVersion(version); err != nil {
		version = "0.0.0"
	}
	m.root.set("version", strings.TrimLeft(strings.TrimSpace(version), "v="))
	if d.Metadata.Description != "" {
		m.root.set("description", d.Metadata.Description)
	}
	if d.File != "" {
		m.root.set("main", d.File)
	}
	if isESM(d.File, source) {
		m.root.set("type", "module")
	}
	m.root.set("private", true)
	return m
}

// Merge puts the packages that a definition asks for into "dependencies". Where
// package.json has another range, its own stays and a warning is added.
func (m *Manifest) Merge(d *definition.Definition) {
	if d == nil {
		return
	}
	deps := m.section("dependencies")
	all := m.Packages()
	for _, dep := range d.Dependencies {
		if dep.Kind != definition.Package {
			continue
		}
		wanted := dep.Range
		if wanted == "" {
			wanted = "*"
		}
		have, there := all[dep.Name]
		if there {
			if have != wanted {
				m.Warnings = append(m.Warnings, fmt.Sprintf("package.json asks for %s %s, getDependencies for %s: that of package.json is installed.", dep.Name, quoted(have), quoted(wanted)))
			}
			continue
		}
		if _, err := parseSpec(dep.Name, wanted); err != nil {
			m.Warnings = append(m.Warnings, fmt.Sprintf("An entry of getDependencies is left out: %v.", err))
			continue
		}
		deps.set(dep.Name, wanted)
		all[dep.Name] = wanted
		m.Added = append(m.Added, dep.Name)
	}
	if len(m.Added) == 0 {
		return
	}
	slices.Sort(m.Added)
	slices.Sort(deps.keys)
	m.root.setRaw("dependencies", deps.bytes())
	m.changed = true
}

func quoted(text string) string {
	if text == "" {
		return `""`
	}
	return text
}

// section is a copy of one part, as an object; empty if it is not there.
func (m *Manifest) section(name string) *object {
	if o, err := parseObject(m.root.values[name]); err == nil {
		return o
	}
	return &object{values: map[string]json.RawMessage{}}
}

func (m *Manifest) strings(section string) map[string]string {
	o, found := m.section(section), map[string]string{}
	for _, name := range o.keys {
		found[name] = o.text(name)
	}
	return found
}

// Packages are the packages to install, with their ranges: dependencies, and
// those that are optional.
func (m *Manifest) Packages() map[string]string {
	all := m.strings("dependencies")
	maps.Copy(all, m.strings("optionalDependencies")) // npm: the optional one counts
	return all
}

// Optional reports whether a package may be missing.
func (m *Manifest) Optional(name string) bool {
	_, there := m.strings("optionalDependencies")[name]
	return there
}

// Changed reports whether Bytes differs from what was read.
func (m *Manifest) Changed() bool { return m.changed }

// Bytes is the text to write, indented as it was, with a line feed at the end.
func (m *Manifest) Bytes() []byte {
	var b bytes.Buffer
	if err := json.Indent(&b, m.root.bytes(), "", m.indent); err != nil {
		panic("deps: indenting what was parsed: " + err.Error())
	}
	b.WriteByte('\n')
	if m.crlf {
		return bytes.ReplaceAll(b.Bytes(), []byte("\n"), []byte("\r\n"))
	}
	return b.Bytes()
}

// installable is what the installer is given: without scripts, which are the
// tool's and not ours to run, and without the packages that only the author needs
// unless a lockfile has them, which would not fit then.
func (m *Manifest) installable(dev bool) []byte {
	o := &object{values: map[string]json.RawMessage{}}
	for _, key := range m.root.keys {
		switch key {
		case "devDependencies":
			if !dev {
				continue
			}
		case "scripts", "workspaces", "packageManager", "devEngines", "publishConfig", "pnpm", "bin", "files", "gypfile":
			continue
		}
		o.setRaw(key, m.root.values[key])
	}
	if o.text("name") == "" {
		delete(o.values, "name")
		o.keys = slices.DeleteFunc(o.keys, func(k string) bool { return k == "name" })
	}
	return o.bytes()
}

// Unmet is a package that is not there as package.json asks.
type Unmet struct {
	Name string `json:"name"`
	// Range is what is asked for; Installed the version that is there, "" if none.
	Range     string `json:"range"`
	Installed string `json:"installed,omitempty"`
	// Why is a sentence.
	Why string `json:"why"`
}

// Satisfied compares what package.json asks for with what node_modules has. A
// missing package.json asks for nothing. The error is a *tool.Error: package.json
// is not valid.
func Satisfied(dir string) ([]Unmet, error) {
	text, err := readFile(dir, manifestFile, maxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, tool.Errorf(tool.DependencyError, "package.json cannot be read: %v", reason(err)).WithHint("Make it a regular file of at most 1 MiB that can be read.")
	}
	m, err := ParseManifest(text)
	if err != nil {
		return nil, err
	}
	return m.Unmet(dir), nil
}

// Unmet compares what m asks for with what is in dir/node_modules.
func (m *Manifest) Unmet(dir string) []Unmet {
	var unmet []Unmet
	all := m.Packages()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		u := Unmet{Name: name, Range: all[name]}
		s, err := parseSpec(name, all[name])
		if err != nil {
			u.Why = sentence(err.Error())
			unmet = append(unmet, u)
			continue
		}
		real, version, err := installed(dir, name)
		u.Installed = version
		switch {
		case errors.Is(err, fs.ErrNotExist) && m.Optional(name):
			continue
		case errors.Is(err, fs.ErrNotExist):
			u.Why = fmt.Sprintf("%s is not installed.", name)
		case err != nil:
			u.Why = fmt.Sprintf("What is installed as %s cannot be read: %v.", name, reason(err))
		case s.kind <= specTag && real != s.pkg:
			u.Why = fmt.Sprintf("What is installed as %s is %s, not %s.", name, real, s.pkg)
		case s.rng != nil && !s.rng.Has(version):
			u.Why = fmt.Sprintf("%s %s is installed, %s is asked for.", name, version, quoted(all[name]))
		default:
			continue
		}
		unmet = append(unmet, u)
	}
	return unmet
}

// installed reads the name and the version of a package in node_modules.
func installed(dir, name string) (real, version string, err error) {
	text, err := readFile(dir, modulesDir+"/"+name+"/"+manifestFile, maxManifest)
	if err != nil {
		return "", "", err
	}
	var p struct{ Name, Version string }
	if err := json.Unmarshal(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")), &p); err != nil {
		return "", "", errors.New("its package.json is not valid")
	}
	return p.Name, p.Version, nil
}

// readFile reads a file below dir that is a regular one, and that no symlink
// takes out of dir.
func readFile(dir, name string, limit int64) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return readIn(root, name, limit)
}

func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// reason is an error without the path, which whoever reads it knows.
func reason(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
