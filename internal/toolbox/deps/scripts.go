package deps

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/tool"
)

// hooks are the scripts of a package that an installer would run, in order.
var hooks = []string{"preinstall", "install", "postinstall"}

// maxDepth bounds how deep packages may lie in each other.
const maxDepth = 32

// survey lists what is in node_modules and which of it has install scripts.
func survey(root *os.Root) (packages []Package, scripts []Script) {
	seen := map[Package]bool{}
	byPackage := map[string]int{}
	var walk func(dir string, depth int)
	visit := func(dir string, depth int) {
		p, s, ok := examine(root, dir)
		if ok {
			if !seen[p] {
				seen[p] = true
				packages = append(packages, p)
			}
			if len(s.Commands) > 0 {
				id := p.Name + "@" + p.Version
				at, known := byPackage[id]
				if !known {
					at = len(scripts)
					byPackage[id] = at
					scripts = append(scripts, s)
				}
				scripts[at].dirs = append(scripts[at].dirs, dir)
			}
		}
		walk(path.Join(dir, modulesDir), depth+1)
	}
	walk = func(dir string, depth int) {
		if depth > maxDepth {
			return
		}
		entries, _ := fs.ReadDir(root.FS(), dir)
		for _, e := range entries {
			name := e.Name()
			switch {
			case e.Type() == fs.ModeSymlink && depth == 0: // to a folder of the tool's own
				if p, _, ok := examine(root, path.Join(dir, name)); ok && !seen[p] {
					seen[p] = true
					packages = append(packages, p)
				}
			case !e.IsDir() || strings.HasPrefix(name, "."):
			case strings.HasPrefix(name, "@"):
				scoped, _ := fs.ReadDir(root.FS(), path.Join(dir, name))
				for _, s := range scoped {
					if s.IsDir() {
						visit(path.Join(dir, name, s.Name()), depth)
					}
				}
			default:
				visit(path.Join(dir, name), depth)
			}
		}
	}
	walk(modulesDir, 0)
	slices.SortFunc(packages, func(a, b Package) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version)) })
	slices.SortFunc(scripts, func(a, b Script) int {
		return cmp.Or(cmp.Compare(a.Package, b.Package), cmp.Compare(a.Version, b.Version))
	})
	return packages, scripts
}

// examine reads one package.
func examine(root *os.Root, dir string) (Package, Script, bool) {
	text, err := readIn(root, path.Join(dir, manifestFile), maxManifest)
	if err != nil {
		return Package{}, Script{}, false
	}
	var m struct {
		Name, Version string
		License       json.RawMessage
		Gypfile       *bool
		Scripts       map[string]json.RawMessage
	}
	if json.Unmarshal(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")), &m) != nil || m.Name == "" {
		return Package{}, Script{}, false
	}
	p := Package{Name: m.Name, Version: m.Version, Licence: licence(m.License)}
	s := Script{Package: m.Name, Version: m.Version}
	for _, hook := range hooks {
		var line string
		if json.Unmarshal(m.Scripts[hook], &line) == nil && strings.TrimSpace(line) != "" {
			s.Commands = append(s.Commands, ScriptCommand{hook, line})
		}
	}
	// A package with a binding.gyp and no script of its own is compiled.
	if _, has := m.Scripts["install"]; !has && m.Scripts["preinstall"] == nil && (m.Gypfile == nil || *m.Gypfile) {
		if info, err := root.Stat(path.Join(dir, "binding.gyp")); err == nil && info.Mode().IsRegular() {
			s.Commands = slices.Insert(s.Commands, 0, ScriptCommand{"install", "node-gyp rebuild"})
		}
	}
	return p, s, true
}

func licence(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var old struct{ Type string }
	_ = json.Unmarshal(raw, &old)
	return old.Type
}

func (s Script) allowed(allow map[string]bool) bool {
	if v, said := allow[s.Package+"@"+s.Version]; said {
		return v
	}
	return allow[s.Package]
}

// runScripts runs what was allowed, each package in a sandbox of its own that
// sees the staged folder and writes only its node_modules.
func (i *Installer) runScripts(ctx context.Context, b *build, scripts []Script) error {
	for n := range scripts {
		s := &scripts[n]
		if !s.allowed(b.req.Allow) {
			continue
		}
		for _, dir := range s.dirs {
			for _, c := range s.Commands {
				b.tell("scripts", s.Package+": "+c.Name)
				if err := i.runScript(ctx, b, s, dir, c); err != nil {
					return err
				}
			}
		}
		s.Ran = true
	}
	return nil
}

func (i *Installer) runScript(ctx context.Context, b *build, s *Script, dir string, c ScriptCommand) error {
	node, err := i.program(ctx, "node")
	if err != nil {
		return err
	}
	chain, search := i.toolchain(node)
	at := filepath.Join(b.project, filepath.FromSlash(dir))
	search = slices.Concat([]string{filepath.Join(at, modulesDir, ".bin"), filepath.Join(b.project, modulesDir, ".bin")}, search)
	env := []string{
		"LANG=C.UTF-8", "NODE_ENV=production", "NODE=" + node, "npm_node_execpath=" + node, "INIT_CWD=" + b.project,
		"npm_lifecycle_event=" + c.Name, "npm_lifecycle_script=" + c.Command, "npm_command=install",
		"npm_package_name=" + s.Package, "npm_package_version=" + s.Version, "npm_package_json=" + filepath.Join(at, manifestFile),
		"npm_config_user_agent=toolyard node " + platform(), "npm_config_loglevel=error",
	}
	if real, err := filepath.EvalSymlinks(node); err == nil {
		prefix := filepath.Dir(filepath.Dir(real))
		if _, err := os.Stat(filepath.Join(prefix, "include", "node", "node.h")); err == nil {
			env = append(env, "npm_config_nodedir="+prefix) // else node-gyp fetches what it compiles against
		}
	}
	if dir, program := i.gyp(); dir != "" {
		search = append(search, dir)
		env = append(env, "npm_config_node_gyp="+program)
	}
	home := filepath.Join(b.staging, "script-home")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	profile := i.profile(ctx, chain, home, filepath.Join(b.project, modulesDir))
	profile.Read = []string{b.project}
	profile.Network = sandbox.NetworkOf(b.req.ScriptHosts)
	out, err := i.run(ctx, command{args: []string{"/bin/sh", "-c", c.Command}, dir: at, profile: profile,
		env: append(env, "HOME="+home, "PATH="+joinPath(search))})
	if err != nil || out.ok() {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	what := lastLine(b.registry.hide(out.output))
	if what == "" {
		what = "it ended with " + out.Ending.Reason
	}
	return tool.Errorf(tool.DependencyError, "the %s script of %s@%s failed: %s", c.Name, s.Package, s.Version, what).
		WithHint("Install scripts run without network unless that is granted too. Withdraw the consent to install without the script.")
}

// gyp is the directory with the node-gyp that npm brings, for the PATH, and the
// program that it starts; "" if there is none.
func (i *Installer) gyp() (dir, program string) {
	npm := i.look(NPM)
	real, err := filepath.EvalSymlinks(npm)
	if npm == "" || err != nil {
		return "", ""
	}
	modules := filepath.Join(filepath.Dir(filepath.Dir(real)), modulesDir)
	dir = filepath.Join(modules, "@npmcli", "run-script", "lib", "node-gyp-bin")
	program = filepath.Join(modules, "node-gyp", "bin", "node-gyp.js")
	for _, path := range []string{dir, program} {
		if _, err := os.Stat(path); err != nil {
			return "", ""
		}
	}
	return dir, program
}

func joinPath(dirs []string) string { return strings.Join(dirs, string(filepath.ListSeparator)) }

// lastLine is the last line of an output that says something, cut to 300 bytes.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for n := len(lines) - 1; n >= 0; n-- {
		if line := strings.TrimSpace(lines[n]); line != "" {
			return strings.ToValidUTF8(line[:min(len(line), 300)], "")
		}
	}
	return ""
}
