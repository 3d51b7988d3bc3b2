package deps

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/toolyard/toolyard/internal/toolbox/definition"
)

// stampFile lies in node_modules and takes its place together with it.
const stampFile = ".toolyard.json"

// stampVersion changes when what an install makes changes.
const stampVersion = 1

// stamp says for what a node_modules was made.
type stamp struct {
	Version  int    `json:"version"`
	Platform string `json:"platform"`
	// Manifest is the hash of what package.json asks for, and of what lies at
	// paths that it names.
	Manifest string `json:"manifest"`
	// Locks are the hashes of all lockfiles.
	Locks map[string]string `json:"locks"`
	// Roots is how each package that package.json names was found, Names the
	// hash of what else lies beside it.
	Roots  map[string]string `json:"roots"`
	Names  string            `json:"names"`
	Report Report            `json:"report"`
}

func platform() string { return runtime.GOOS + "-" + runtime.GOARCH }

// asks are the keys of package.json that change what is installed.
var asks = []string{"dependencies", "optionalDependencies", "peerDependencies", "peerDependenciesMeta", "overrides", "resolutions", "bundleDependencies", "bundledDependencies"}

func (m *Manifest) hash(root *os.Root) string {
	part := &object{values: map[string]json.RawMessage{}}
	for _, key := range asks {
		if raw, there := m.root.values[key]; there {
			part.setRaw(key, raw)
		}
	}
	// Compacted: how it is written does not matter.
	var compact any
	_ = json.Unmarshal(part.bytes(), &compact)
	text := []byte(encode(compact))
	for _, target := range m.files() {
		_ = fs.WalkDir(root.FS(), target, func(name string, e fs.DirEntry, err error) error {
			if err != nil {
				return nil //nolint:nilerr // what is not there is not part of the hash; the install says so
			}
			if e.IsDir() && e.Name() == modulesDir {
				return fs.SkipDir
			}
			text = append(append(text, name...), state(root, name)...)
			return nil
		})
	}
	return sum(text)
}

// files are the paths of packages that lie in the tool's folder, sorted.
func (m *Manifest) files() []string {
	var found []string
	for name, value := range m.Packages() {
		if s, err := parseSpec(name, value); err == nil && s.kind == specFile {
			found = append(found, path.Clean(strings.ReplaceAll(s.target, `\`, "/")))
		}
	}
	slices.Sort(found)
	return found
}

// state is how a file is, as far as can be told without reading it; "" if it is
// not there.
func state(root *os.Root, name string) string {
	info, err := root.Stat(filepath.FromSlash(name))
	if err != nil {
		return ""
	}
	if info.IsDir() {
		return "/"
	}
	return strconv.FormatInt(info.Size(), 10) + "@" + strconv.FormatInt(info.ModTime().UnixNano(), 10)
}

func lockSums(root *os.Root) map[string]string {
	sums := map[string]string{}
	for _, name := range lockfiles {
		if text, err := readIn(root, name, maxLock); err == nil {
			sums[name] = sum(text)
		}
	}
	return sums
}

func rootStates(root *os.Root, m *Manifest) map[string]string {
	states := map[string]string{}
	for name := range m.Packages() {
		states[name] = state(root, path.Join(modulesDir, name, manifestFile))
	}
	return states
}

// namesIn is the hash of the names in node_modules, two levels deep where the
// first is a scope.
func namesIn(root *os.Root) string {
	var names []string
	entries, _ := fs.ReadDir(root.FS(), modulesDir)
	for _, e := range entries {
		if e.Name() == stampFile {
			continue
		}
		names = append(names, e.Name())
		if strings.HasPrefix(e.Name(), "@") {
			scoped, _ := fs.ReadDir(root.FS(), path.Join(modulesDir, e.Name()))
			for _, s := range scoped {
				names = append(names, e.Name()+"/"+s.Name())
			}
		}
	}
	return sum([]byte(strings.Join(names, "\n")))
}

// newStamp describes an installed root.
func newStamp(root *os.Root, m *Manifest, report Report) *stamp {
	report.Changed, report.Added, report.Made, report.Warnings, report.Took = false, nil, false, nil, 0
	return &stamp{
		Version: stampVersion, Platform: platform(), Manifest: m.hash(root), Locks: lockSums(root),
		Roots: rootStates(root, m), Names: namesIn(root), Report: report,
	}
}

func readStamp(root *os.Root) *stamp {
	text, err := readIn(root, modulesDir+"/"+stampFile, maxLock)
	s := new(stamp)
	if err != nil || json.Unmarshal(text, s) != nil {
		return nil
	}
	return s
}

// holds reports whether all is as the stamp says.
func (s *stamp) holds(root *os.Root, m *Manifest) bool {
	return s != nil && s.Version == stampVersion && s.Platform == platform() &&
		s.Manifest == m.hash(root) && maps.Equal(s.Locks, lockSums(root)) &&
		maps.Equal(s.Roots, rootStates(root, m)) && s.Names == namesIn(root)
}

// fresh is the report of what is installed already; nil if an install is needed.
// The error is that none can help.
func (i *Installer) fresh(ctx context.Context, req Request) (*Report, error) {
	m, err := Load(req.Dir, req.Definition)
	if err != nil {
		return nil, err
	}
	if err := Local(req.Dir, req.Definition); err != nil {
		return nil, err
	}
	commands, err := i.Commands(ctx, req.Definition)
	if err != nil {
		return nil, err
	}
	if m.Changed() || req.Force {
		return nil, nil
	}
	root, err := os.OpenRoot(req.Dir)
	if err != nil {
		return nil, nil //nolint:nilerr // build says what is wrong with it
	}
	defer root.Close()
	s := readStamp(root)
	if len(m.Packages()) == 0 {
		if s != nil {
			return nil, nil
		}
		return &Report{Commands: commands, Warnings: m.Warnings}, nil
	}
	if !s.holds(root, m) {
		return nil, nil
	}
	for _, script := range s.Report.Scripts {
		if script.Ran != script.allowed(req.Allow) {
			return nil, nil
		}
	}
	report := s.Report
	report.Commands, report.Warnings = commands, m.Warnings
	return &report, nil
}

// Ready reports whether Install would find nothing to do, and says why not.
func (i *Installer) Ready(ctx context.Context, req Request) (bool, error) {
	if req.Definition == nil {
		req.Definition = &definition.Definition{Name: filepath.Base(req.Dir), Dir: req.Dir, Language: definition.JavaScript}
	}
	report, err := i.fresh(ctx, req)
	return report != nil, err
}

var errLimit = errors.New("the time for an install is over")
