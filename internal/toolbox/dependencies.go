package toolbox

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/internal/toolbox/deps"
	"github.com/toolyard/toolyard/internal/toolbox/pydeps"
)

// need is a tool's folder whose dependencies have to be there.
type need struct {
	name, dir string
	language  definition.Language
	// def is nil where the tool has not been asked yet: then its package.json or
	// requirements.txt say what it needs.
	def *definition.Definition
	// staged says that the folder is not in the toolbox yet.
	staged   bool
	progress func(done, total float64, text string)
}

// install brings what a tool depends on into its folder. Where nothing changed it
// takes about a millisecond.
func (b *Box) install(ctx context.Context, n need) error {
	c, err := b.consent(n.name)
	if err != nil {
		return err
	}
	if !n.staged {
		unlock, err := b.config.Packages.Lock(ctx, n.name, "installing dependencies")
		if err != nil {
			return err
		}
		defer unlock()
	}
	offline := b.config.Offline
	if n.language == definition.Python {
		if b.config.Python == nil || n.def == nil && !exists(filepath.Join(n.dir, "requirements.txt")) && !exists(filepath.Join(n.dir, "pyproject.toml")) {
			return nil
		}
		report, err := b.config.Python.Install(ctx, pydeps.Request{
			Dir: n.dir, Definition: n.def, Offline: offline, Allow: c.Operator.Scripts,
			Progress: func(text string) { n.report(0, 0, text) },
		})
		if err == nil {
			b.warnings(n.name, report.Warnings)
		}
		return err
	}
	if b.config.JavaScript == nil || n.def == nil && !exists(filepath.Join(n.dir, "package.json")) {
		return nil
	}
	allow := map[string]bool{}
	for _, name := range c.Operator.Scripts {
		allow[name] = true
	}
	report, err := b.config.JavaScript.Install(ctx, deps.Request{
		Dir: n.dir, Definition: n.def, Offline: offline, Allow: allow,
		Progress: func(p deps.Progress) { n.report(float64(p.Done), float64(p.Total), p.Stage+" "+p.Text) },
	})
	if err == nil {
		b.warnings(n.name, report.Warnings)
	}
	return err
}

func (n need) report(done, total float64, text string) {
	if n.progress != nil {
		n.progress(done, total, strings.TrimSpace(text))
	}
}

func (b *Box) warnings(name string, list []string) {
	for _, text := range list {
		b.log.Warn("dependencies", "tool", name, "warning", text)
	}
}
