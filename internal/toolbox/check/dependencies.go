package check

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/toolbox/definition"
)

// installedPackage is what is known of one package that is installed.
type installedPackage struct {
	name, version, license string
	scripts                []string // "postinstall: node x.js"
}

// dependencies is layer 9.
func (r *run) dependencies() {
	if r.Definition == nil {
		r.skip(unloaded)
		return
	}
	var declared map[string]string
	var all []installedPackage
	manifest := "package.json"
	satisfies := r.Satisfies
	if r.lang == definition.Python {
		manifest, declared = requirements(r.Dir)
		all, satisfies = sitePackages(r.Dir), r.SatisfiesPython
		if satisfies == nil {
			satisfies = satisfiesPython
		}
	} else {
		if r.project != nil {
			declared = r.project.ranges()
		}
		all = nodeModules(r.Dir)
		if satisfies == nil {
			satisfies = satisfiesNPM
		}
	}
	at := r.finder(all)
	r.declaredPackages(manifest, declared)
	r.installedPackages(r.wanted(declared), at, satisfies)
	r.listed(all)
	r.localFiles()
	r.commands(satisfies)
}

// finder finds what the tool itself would load under a package's name.
func (r *run) finder(all []installedPackage) func(name string) (installedPackage, bool) {
	return func(name string) (installedPackage, bool) {
		if r.lang != definition.Python {
			return nodePackage(filepath.Join(r.Dir, "node_modules", filepath.FromSlash(name)), name)
		}
		i := slices.IndexFunc(all, func(p installedPackage) bool { return p.name == normal(name) })
		if i < 0 {
			return installedPackage{}, false
		}
		return all[i], true
	}
}

// incomplete reports whether a package that the tool needs is not installed.
func (r *run) incomplete() bool {
	declared, all := map[string]string{}, []installedPackage(nil)
	if r.lang == definition.Python {
		_, declared = requirements(r.Dir)
		all = sitePackages(r.Dir)
	}
	at := r.finder(all)
	for name := range r.wanted(declared) {
		if _, there := at(name); !there {
			return true
		}
	}
	return false
}

// key is a package's name as a manifest's names are compared.
func (r *run) key(name string) string {
	if r.lang == definition.Python {
		return normal(name)
	}
	return name
}

// packages are the packages that the tool itself names, by name.
func (r *run) packages() map[string]string {
	named := map[string]string{}
	for _, d := range r.Definition.Dependencies {
		if d.Kind == definition.Package {
			named[r.key(d.Name)] = d.Range
		}
	}
	return named
}

// later is the severity of what the installation brings about: an error where the
// tool is installed, a note where it is not yet.
func (r *run) later() Severity {
	if r.Uninstalled {
		return Info
	}
	return Error
}

func (r *run) declaredPackages(manifest string, declared map[string]string) {
	_, answered := r.raw("getDependencies")
	named := r.packages()
	for _, name := range slices.Sorted(maps.Keys(named)) {
		rng, there := declared[name]
		switch {
		case !there:
			r.foundAs(r.later(), "dep-declared", name, named[name], manifest)
		case compact(rng) != compact(named[name]):
			r.found("dep-differs", name, manifest, quote(rng), quote(named[name]))
		}
	}
	if !answered {
		r.skip(absent, "dep-declared", "dep-differs")
		return
	}
	for _, name := range slices.Sorted(maps.Keys(r.runtimeRanges(declared))) {
		if _, there := named[name]; !there {
			r.found("dep-differs", name, manifest, quote(declared[name]), words{"nothing", "没有"})
		}
	}
}

// runtimeRanges leaves out what is needed for development only.
func (r *run) runtimeRanges(declared map[string]string) map[string]string {
	if r.project == nil || r.lang == definition.Python {
		return declared
	}
	return r.project.Dependencies
}

// wanted are the ranges that count: the manifest's, then those that only
// getDependencies names.
func (r *run) wanted(declared map[string]string) map[string]string {
	all := r.packages()
	for name, rng := range r.runtimeRanges(declared) {
		all[name] = rng
	}
	return all
}

func (r *run) installedPackages(wanted map[string]string, at func(string) (installedPackage, bool), satisfies func(rng, version string) bool) {
	if len(wanted) == 0 {
		r.skip(notAsked, "dep-installed", "dep-satisfied")
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		p, there := at(name)
		switch {
		case !there:
			r.foundAs(r.later(), "dep-installed", name)
		case !satisfies(wanted[name], p.version):
			r.found("dep-satisfied", name, p.version, wanted[name])
		}
	}
}

// listed says which licences and which install scripts there are.
func (r *run) listed(all []installedPackage) {
	if len(all) == 0 {
		r.skip(notAsked, "dep-licences", "dep-scripts")
		return
	}
	byLicence := map[string][]string{}
	for _, p := range all {
		licence := p.license
		if licence == "" {
			licence = "unknown"
		}
		name := p.name + "@" + p.version
		if !slices.Contains(byLicence[licence], name) {
			byLicence[licence] = append(byLicence[licence], name)
		}
	}
	var parts []string
	for _, licence := range slices.Sorted(maps.Keys(byLicence)) {
		names := byLicence[licence]
		slices.Sort(names)
		shown := strings.Join(names[:min(len(names), 5)], ", ")
		if len(names) > 5 {
			shown += ", …"
		}
		parts = append(parts, fmt.Sprintf("%s %d (%s)", licence, len(names), shown))
	}
	r.found("dep-licences", "", strings.Join(parts, "; "))
	for _, p := range all {
		if len(p.scripts) > 0 {
			r.found("dep-scripts", p.name+"@"+p.version, strings.Join(p.scripts, "; "))
		}
	}
}

func (r *run) localFiles() {
	asked := false
	for _, d := range r.Definition.Dependencies {
		if d.Kind != definition.Local {
			continue
		}
		asked = true
		name := filepath.FromSlash(d.Name)
		info, err := os.Stat(filepath.Join(r.Dir, name))
		if err != nil || info.IsDir() && !folderModule(filepath.Join(r.Dir, name)) || !filepath.IsLocal(name) {
			r.found("dep-local", d.Name)
		}
	}
	if !asked {
		r.skip(notAsked, "dep-local")
	}
}

// folderModule reports whether a folder can be imported.
func folderModule(dir string) bool {
	for _, name := range []string{"package.json", "index.js", "index.mjs", "index.cjs", "__init__.py"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

func (r *run) commands(satisfies func(rng, version string) bool) {
	asked := false
	for _, d := range r.Definition.Dependencies {
		if d.Kind != definition.Command || r.Command == nil {
			continue
		}
		asked = true
		version, there := r.Command(d.Name)
		if !there || version != "" && d.Range != "" && !satisfies(d.Range, version) {
			if version == "" {
				version = "–"
			}
			r.found("dep-command", d.Name, d.Range, version)
		}
	}
	if !asked {
		r.skip(notAsked, "dep-command")
	}
}

func compact(rng string) string { return strings.ReplaceAll(strings.TrimSpace(rng), " ", "") }

func quote(rng string) string { return fmt.Sprintf("%q", rng) }

// nodeModules lists what is installed in node_modules, sorted, each copy once. It
// follows the layouts of npm and of pnpm.
func nodeModules(dir string) []installedPackage {
	var all []installedPackage
	seen := map[string]bool{}
	var folder func(at string, depth int)
	folder = func(at string, depth int) {
		entries, err := os.ReadDir(at)
		if err != nil || depth > 20 {
			return
		}
		for _, e := range entries {
			path := filepath.Join(at, e.Name())
			switch {
			case e.Name() == ".pnpm":
				stored, _ := os.ReadDir(path)
				for _, s := range stored {
					folder(filepath.Join(path, s.Name(), "node_modules"), depth+1)
				}
			case strings.HasPrefix(e.Name(), "."):
			case strings.HasPrefix(e.Name(), "@"):
				folder(path, depth+1)
			default:
				real, err := filepath.EvalSymlinks(path)
				if err != nil || seen[real] || len(all) >= maxInstalled {
					continue
				}
				seen[real] = true
				if p, ok := nodePackage(real, e.Name()); ok {
					all = append(all, p)
					folder(filepath.Join(real, "node_modules"), depth+1)
				}
			}
		}
	}
	folder(filepath.Join(dir, "node_modules"), 0)
	slices.SortFunc(all, func(a, b installedPackage) int {
		return strings.Compare(a.name+"@"+a.version, b.name+"@"+b.version)
	})
	return all
}

// nodePackage reads one installed package.
func nodePackage(dir, name string) (installedPackage, bool) {
	p, err := readPackageJSON(dir)
	if err != nil {
		return installedPackage{}, false
	}
	made := installedPackage{name: name, version: p.Version, license: p.license()}
	if p.Name != "" {
		made.name = p.Name
	}
	for _, script := range []string{"preinstall", "install", "postinstall"} {
		if text := p.Scripts[script]; text != "" {
			made.scripts = append(made.scripts, script+": "+brief([]byte(text)))
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "binding.gyp")); err == nil && p.Scripts["install"] == "" {
		made.scripts = append(made.scripts, "install: node-gyp rebuild")
	}
	return made, true
}
