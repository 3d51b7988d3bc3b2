package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/toolbox/deps"
	"github.com/toolyard/toolyard/internal/toolbox/pydeps"
	"github.com/toolyard/toolyard/tool"
)

// packaged is a command whose package was fetched before.
type packaged struct {
	args   []string
	path   []string // directories in front of PATH
	read   []string
	write  []string // its own folder: some keep their data beside their program
	mounts []sandbox.Mount
}

// wanted is a package that a command such as npx names.
type wanted struct {
	name, version string // of the package
	program       string // the one to run; "" is the package's own
	args          []string
	python        bool
}

// packaged fetches what npx, bunx, uvx and the like name, in a step of its own
// that reaches the registry only, and gives the command that runs it from there.
// It is nil for all other commands.
func (p *peer) packaged(ctx context.Context, s Server, home string) (*packaged, error) {
	w := parsePackage(s.Command, s.Args)
	switch {
	case w == nil:
		return nil, nil
	case w.python:
		if p.g.config.Python == nil {
			return nil, nil
		}
		return p.fromPython(ctx, w, filepath.Join(filepath.Dir(home), "python"))
	case p.g.config.JavaScript == nil:
		return nil, nil
	}
	return p.fromNPM(ctx, w, filepath.Join(filepath.Dir(home), "npm"))
}

// parsePackage reads the command line of npx, bunx, pnpm dlx, npm exec, uvx,
// uv tool run and pipx run; nil if it is none of them, or not understood.
func parsePackage(command string, args []string) *wanted {
	sub := func(words ...string) bool {
		if len(args) < len(words) || !slices.Equal(args[:len(words)], words) {
			return false
		}
		args = args[len(words):]
		return true
	}
	w := &wanted{}
	switch filepath.Base(command) {
	case "npx", "bunx", "pnpx":
	case "npm":
		if !sub("exec") && !sub("x") {
			return nil
		}
	case "pnpm":
		if !sub("dlx") {
			return nil
		}
	case "bun":
		if !sub("x") {
			return nil
		}
	case "uvx":
		w.python = true
	case "uv":
		if !sub("tool", "run") {
			return nil
		}
		w.python = true
	case "pipx":
		if !sub("run") {
			return nil
		}
		w.python = true
	default:
		return nil
	}
	if !w.options(args) {
		return nil
	}
	return w
}

// options reads the options and what follows them; false if one is not known.
func (w *wanted) options(args []string) bool {
	pkg := ""
	for len(args) > 0 {
		arg := args[0]
		name, value, joined := strings.Cut(arg, "=")
		take := func() string {
			if !joined && len(args) > 1 {
				value, args = args[1], args[1:]
			}
			return value
		}
		switch {
		case arg == "--":
			args = args[1:]
			return w.rest(pkg, args)
		case !strings.HasPrefix(arg, "-"):
			return w.rest(pkg, args)
		case name == "-p" && !w.python, name == "--package", name == "--from", name == "--spec":
			pkg = take()
		case name == "-y", name == "--yes", name == "-q", name == "--quiet", name == "--prefer-online", name == "--prefer-offline", name == "--bun", name == "--silent",
			name == "--offline", name == "--isolated", name == "--no-progress":
		case name == "--python", name == "-p", name == "--index-url", name == "--loglevel":
			take()
		default:
			return false
		}
		args = args[1:]
	}
	return w.rest(pkg, nil)
}

func (w *wanted) rest(pkg string, args []string) bool {
	if pkg == "" {
		if len(args) == 0 {
			return false
		}
		pkg, args = args[0], args[1:]
	} else if len(args) > 0 {
		w.program, args = args[0], args[1:]
	}
	w.args = args
	if w.python {
		w.name = pkg
		for i, c := range pkg {
			if i > 0 && strings.ContainsRune("=<>!~@[", c) {
				w.name, w.version = pkg[:i], pkg[i:]
				break
			}
		}
		return w.name != "" && !strings.Contains(w.name, "/") && !strings.Contains(w.name, ":")
	}
	w.name, w.version = pkg, "latest"
	if at := strings.LastIndexByte(pkg, '@'); at > 0 {
		w.name, w.version = pkg[:at], pkg[at+1:]
	}
	return w.name != "" && !strings.HasPrefix(w.name, ".") && !strings.HasPrefix(w.name, "/") && !strings.Contains(w.name, ":")
}

// fromNPM installs a package, the versions fixed by a lockfile from then on, and
// runs it with this machine's Node.
func (p *peer) fromNPM(ctx context.Context, w *wanted, dir string) (*packaged, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	manifest := with(json.RawMessage(`{"name":"server","version":"1.0.0","private":true}`), "dependencies", mustJSON(map[string]string{w.name: w.version}))
	if err := wantFile(dir, "package.json", manifest); err != nil {
		return nil, err
	}
	p.log.add("fetching " + w.name + "@" + w.version)
	report, err := p.g.config.JavaScript.Install(ctx, deps.Request{Dir: dir})
	if err != nil {
		return nil, err
	}
	if report.Changed {
		p.log.add("installed " + w.name + " with " + report.Installer)
	}
	modules := filepath.Join(dir, "node_modules")
	program, err := binOf(filepath.Join(modules, filepath.FromSlash(w.name)), w)
	if err != nil {
		return nil, tool.Errorf(tool.DependencyError, "the package %s of the MCP server %s: %v", w.name, p.name, err).WithHint("Name the program: npx -p %s PROGRAM.", w.name)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	node := "node"
	out := &packaged{read: []string{real}, path: []string{filepath.Join(real, "node_modules", ".bin")}}
	if find := p.g.config.Node; find != nil {
		if node, err = find(ctx); err != nil {
			return nil, err
		}
		out.path = append(out.path, filepath.Dir(node))
		if resolved, err := filepath.EvalSymlinks(node); err == nil {
			out.mounts = append(out.mounts, sandbox.Mount{Source: node}, sandbox.Mount{Source: resolved})
		}
	}
	rel, err := filepath.Rel(dir, program)
	if err != nil {
		return nil, err
	}
	out.args = append([]string{node, filepath.Join(real, rel)}, w.args...)
	if own, err := filepath.EvalSymlinks(filepath.Join(modules, filepath.FromSlash(w.name))); err == nil && inside(own, real) {
		out.write = []string{own}
	}
	return out, nil
}

// binOf finds the program of an installed package, as npx does.
func binOf(dir string, w *wanted) (string, error) {
	raw, err := os.ReadFile(filepath.Join(dir, "package.json"))
	if err != nil {
		return "", err
	}
	var bins map[string]string
	field := get(raw, "bin")
	var one string
	if json.Unmarshal(field, &one) == nil && one != "" {
		bins = map[string]string{filepath.Base(w.name): one}
	} else if json.Unmarshal(field, &bins) != nil || len(bins) == 0 {
		return "", errors.New("it has no program")
	}
	pick := w.program
	if pick == "" {
		if pick = filepath.Base(w.name); bins[pick] == "" {
			names := slices.Sorted(maps.Keys(bins))
			first := bins[names[0]]
			for _, name := range names {
				if bins[name] != first {
					return "", errors.New("it has several programs: " + strings.Join(names, ", "))
				}
			}
			pick = names[0]
		}
	}
	target, ok := bins[pick]
	if !ok || !filepath.IsLocal(target) {
		return "", errors.New("it has no program " + pick)
	}
	return filepath.Join(dir, target), nil
}

// wantFile makes a file hold something, and removes what was installed for
// another content.
func wantFile(dir, name string, content []byte) error {
	path := filepath.Join(dir, name)
	wanted := filepath.Join(dir, ".wanted")
	if was, err := os.ReadFile(wanted); err == nil && string(was) == string(content) {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return errors.Join(os.WriteFile(path, content, 0o600), os.WriteFile(wanted, content, 0o600))
}

// fromPython installs a package into a virtual environment and runs its program.
func (p *peer) fromPython(ctx context.Context, w *wanted, dir string) (*packaged, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	version := w.version
	if v, ok := strings.CutPrefix(version, "@"); ok {
		if version = "==" + v; v == "latest" {
			version = ""
		}
	}
	if err := wantFile(dir, "requirements.txt", []byte(w.name+version+"\n")); err != nil {
		return nil, err
	}
	p.log.add("fetching " + w.name + version)
	report, err := p.g.config.Python.Install(ctx, pydeps.Request{Dir: dir})
	if err != nil {
		return nil, err
	}
	bin := filepath.Dir(report.Program)
	program := w.program
	if program == "" {
		program, _, _ = strings.Cut(w.name, "[")
	}
	path := filepath.Join(bin, program)
	if _, err := os.Stat(path); err != nil {
		return nil, tool.Errorf(tool.DependencyError, "the package %s of the MCP server %s has no program %s", w.name, p.name, program).
			WithHint("Name the program: uvx --from %s PROGRAM.", w.name)
	}
	out := &packaged{read: []string{dir}, path: []string{bin, filepath.Dir(report.Python.Program)}}
	if mounts := p.g.config.PythonMounts; mounts != nil {
		out.mounts = mounts(report.Python)
	}
	out.args = append([]string{report.Program, path}, w.args...)
	return out, nil
}

func mustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("a map of texts that is no JSON")
	}
	return raw
}
