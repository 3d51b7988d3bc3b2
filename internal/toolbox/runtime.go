package toolbox

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/internal/toolbox/host"
	"github.com/toolyard/toolyard/internal/toolbox/runtimes"
	"github.com/toolyard/toolyard/internal/worker"
	"github.com/toolyard/toolyard/tool"
)

// hostFiles are the programs that load tools, where workers can read them.
type hostFiles struct {
	dir string
	host.Files
}

func (b *Box) writeHost() (hostFiles, error) {
	dir := filepath.Join(b.config.Home, "cache", "worker")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return hostFiles{}, err
	}
	files, err := host.Write(dir)
	return hostFiles{dir, files}, err
}

// usage is how the tools of this box are protected, for a call's result.
func (b *Box) usage(ctx context.Context) tool.Usage {
	r := b.config.Runner.Probe(ctx)
	return tool.Usage{Sandbox: &tool.SandboxMeta{Level: string(r.Level), Layers: r.Layers, Missing: r.Gaps()}}
}

// runtime adds to a plan the program that loads the tool, what it depends on, and
// the environment.
func (b *Box) runtime(ctx context.Context, def *definition.Definition, at site, files hostFiles, p *plan) error {
	var path []string
	show := func(mounts []sandbox.Mount) { p.profile.Mounts = append(p.profile.Mounts, mounts...) }
	switch def.Language {
	case definition.Python:
		rt, err := b.config.Runtimes.Python(ctx)
		if err != nil {
			return err
		}
		show(b.config.Runtimes.Mounts(rt))
		program := rt.Program
		if at.venv != "" {
			program = filepath.Join(def.Dir, ".venv", "bin", "python")
			show(b.config.Runtimes.Libraries(at.venv))
		}
		p.host, p.adapter = worker.Python{Program: program}, files.Py
		path = append(path, filepath.Dir(program))
	default:
		rt, err := b.config.Runtimes.Node(ctx)
		if err != nil {
			return err
		}
		show(b.config.Runtimes.Mounts(rt))
		p.host, p.adapter = worker.Node{Program: rt.Program}, files.JS
	}
	if at.modules != "" {
		show(b.config.Runtimes.Libraries(at.modules))
	}
	for _, d := range def.Dependencies {
		if d.Kind != definition.Command {
			continue
		}
		command, err := b.config.Runtimes.Declared(ctx, d.Name, d.Range)
		if err != nil {
			return err
		}
		show(command.Mounts)
		path = append(path, command.Dirs...)
	}
	if def.Runtime.ConcurrencySafe {
		p.concurrent = sideBySide
	}
	found, err := b.browser(ctx, def, at, p)
	if err != nil {
		return err
	}
	base := map[string]string{"HOME": filepath.Join(def.Dir, "data"), "TMPDIR": "/tmp", "LANG": "C.UTF-8"}
	if len(path) > 0 {
		base["PATH"] = strings.Join(path, ":")
	}
	maps.Copy(base, found)
	p.base = base
	p.profile.Mounts = runtimes.Join(p.profile.Mounts)
	return nil
}

// sideBySide is how many calls a worker runs at once of a tool that says that they
// do not disturb each other.
const sideBySide = 16

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
