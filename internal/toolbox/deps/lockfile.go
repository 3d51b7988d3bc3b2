package deps

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/tool"
)

// Lockfiles, as installers name them.
const (
	packageLock = "package-lock.json"
	shrinkwrap  = "npm-shrinkwrap.json"
	pnpmLock    = "pnpm-lock.yaml"
	yarnLock    = "yarn.lock"
	bunLock     = "bun.lock"
)

var lockfiles = []string{shrinkwrap, packageLock, pnpmLock, yarnLock, bunLock}

// lockfile is what fixes versions.
type lockfile struct {
	name string
	text []byte
	npm  *npmLock // of npm's
	// fits says that it names what package.json does.
	fits bool
}

// npmLock is the part of package-lock.json that is needed here.
type npmLock struct {
	Version  int                  `json:"lockfileVersion"`
	Packages map[string]npmLocked `json:"packages"`
	// Dependencies is the form of version 1.
	Dependencies map[string]npmOld `json:"dependencies"`
}

type npmLocked struct {
	Name                 string            `json:"name"`
	Version              string            `json:"version"`
	Integrity            string            `json:"integrity"`
	Link                 bool              `json:"link"`
	Dependencies         map[string]string `json:"dependencies"`
	DevDependencies      map[string]string `json:"devDependencies"`
	OptionalDependencies map[string]string `json:"optionalDependencies"`
}

type npmOld struct {
	Version      string            `json:"version"`
	Integrity    string            `json:"integrity"`
	Dependencies map[string]npmOld `json:"dependencies"`
}

// locked picks the lockfile that an installer goes by; nil if there is none.
func locked(dir string, m *Manifest, installer string) (*lockfile, []string, error) {
	there := map[string]*lockfile{}
	for _, name := range lockfiles {
		text, err := readFile(dir, name, maxLock)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, nil, tool.Errorf(tool.DependencyError, "%s cannot be read: %v", name, reason(err)).WithHint("Correct or remove %s.", name)
		}
		l := &lockfile{name: name, text: text, fits: true}
		if name == packageLock || name == shrinkwrap {
			if l.npm, err = parseNPMLock(text); err != nil {
				return nil, nil, tool.Errorf(tool.DependencyError, "%s is not valid: %v", name, err).WithHint("Restore %s, or remove it to let versions be chosen anew.", name)
			}
			l.fits = l.npm.fits(m)
		}
		there[name] = l
	}
	first := func(fits bool, names ...string) *lockfile {
		for _, name := range names {
			if l := there[name]; l != nil && (l.fits || !fits) {
				return l
			}
		}
		return nil
	}
	var warnings []string
	switch installer {
	case NPM, Bun:
		own := []string{shrinkwrap, packageLock}
		if installer == Bun {
			own = []string{bunLock, packageLock}
		}
		l := first(false, own...)
		if l == nil && len(there) > 0 {
			warnings = append(warnings, fmt.Sprintf("%s does not read %s: versions are chosen anew.", installer, slices.Min(slices.Collect(maps.Keys(there)))))
		}
		return l, warnings, nil
	}
	if l := first(true, shrinkwrap, packageLock, pnpmLock); l != nil {
		return l, nil, nil
	}
	if l := first(false, shrinkwrap, packageLock); l != nil {
		return l, []string{fmt.Sprintf("%s does not name what package.json asks for: its versions are kept where they fit, and %s has the result.", l.name, pnpmLock)}, nil
	}
	return first(false, yarnLock), nil, nil
}

func parseNPMLock(text []byte) (*npmLock, error) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	if _, err := parseObject(text); err != nil {
		return nil, err
	}
	l := new(npmLock)
	if err := json.Unmarshal(text, l); err != nil {
		return nil, errors.New("it is no lockfile of npm")
	}
	return l, nil
}

// fits reports whether the lockfile was made for the packages of m.
func (l *npmLock) fits(m *Manifest) bool {
	root, there := l.Packages[""]
	if !there {
		for name, value := range m.Packages() {
			s, err := parseSpec(name, value)
			old, there := l.Dependencies[name]
			if err != nil || !there || s.rng != nil && !s.rng.Has(old.Version) {
				return false
			}
		}
		return true
	}
	optional := m.strings("optionalDependencies")
	plain := m.strings("dependencies")
	maps.DeleteFunc(plain, func(name, _ string) bool { _, is := optional[name]; return is })
	return maps.Equal(root.Dependencies, plain) && maps.Equal(root.OptionalDependencies, optional)
}

// dev reports whether the lockfile fixes packages that only the author needs.
func (l *lockfile) dev() bool {
	if l == nil {
		return false
	}
	if l.npm != nil {
		return len(l.npm.Packages[""].DevDependencies) > 0
	}
	return l.name == pnpmLock && bytes.Contains(l.text, []byte("\n    devDependencies:"))
}

// modules is before a package's name in its place.
const modules = "node_modules/"

// integrities are the checksums by "name@version".
func (l *npmLock) integrities() map[string]string {
	all := map[string]string{}
	for place, p := range l.Packages {
		if place == "" || p.Link {
			continue
		}
		name := p.Name
		if name == "" {
			name = place // of a workspace, a folder of the project
			if i := strings.LastIndex(place, modules); i >= 0 {
				name = place[i+len(modules):]
			}
		}
		all[name+"@"+p.Version] = p.Integrity
	}
	var old func(map[string]npmOld)
	old = func(of map[string]npmOld) {
		for name, p := range of {
			all[name+"@"+p.Version] = p.Integrity
			old(p.Dependencies)
		}
	}
	if len(l.Packages) == 0 {
		old(l.Dependencies)
	}
	return all
}

var (
	pnpmEntry     = regexp.MustCompile(`^  '?([^'\s].*?)'?:\s*$`)
	pnpmIntegrity = regexp.MustCompile(`^    resolution: \{.*\bintegrity: ([A-Za-z0-9+/=-]+)`)
)

// pnpmIntegrities are the checksums of a pnpm-lock.yaml, as pnpm itself writes it.
func pnpmIntegrities(text []byte) map[string]string {
	all := map[string]string{}
	in := bufio.NewScanner(bytes.NewReader(text))
	in.Buffer(nil, 1<<20)
	packages, entry := false, ""
	for in.Scan() {
		line := in.Text()
		if line != "" && line[0] != ' ' {
			packages = line == "packages:"
			continue
		}
		if !packages {
			continue
		}
		if m := pnpmEntry.FindStringSubmatch(line); m != nil {
			entry = m[1]
		} else if m := pnpmIntegrity.FindStringSubmatch(line); m != nil {
			all[entry] = m[1]
		}
	}
	return all
}

// compare checks what pnpm made of npm's lockfile: the same versions with the
// same contents. pnpm takes checksums from the registry, so without this a
// registry could send something else than what the author had.
func (l *npmLock) compare(pnpm []byte) error {
	want, others := l.integrities(), 0
	for id, got := range pnpmIntegrities(pnpm) {
		integrity, there := want[id]
		switch {
		case strings.Contains(id, ":"): // a folder or an archive, by its address
		case !there:
			others++
		case sameHash(integrity, got) == -1:
			return tool.Errorf(tool.DependencyError, "the contents of %s in the registry are not those that %s promises", id, packageLock).
				WithHint("Do not use it before you know why: it may have been tampered with. If the registry is right, make the lockfile anew.")
		}
	}
	if others > 0 && l.Version > 1 {
		return errOtherVersions
	}
	return nil
}

// errOtherVersions says that versions were chosen that the lockfile does not have.
var errOtherVersions = errors.New("other versions than the lockfile's")

// sameHash is 1 if two lists of checksums share one, -1 if they have one of the
// same kind and differ, 0 if they cannot be compared.
func sameHash(a, b string) int {
	result := 0
	for x := range strings.FieldsSeq(a) {
		for y := range strings.FieldsSeq(b) {
			kindX, _, _ := strings.Cut(x, "-")
			kindY, _, _ := strings.Cut(y, "-")
			if x == y {
				return 1
			}
			if kindX == kindY {
				result = -1
			}
		}
	}
	return result
}
