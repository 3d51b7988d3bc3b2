package toolyard

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/toolyard/toolyard/internal/registry"
	"github.com/toolyard/toolyard/internal/secret"
	"github.com/toolyard/toolyard/internal/toolbox"
	"github.com/toolyard/toolyard/internal/toolbox/deps"
	"github.com/toolyard/toolyard/internal/toolbox/pkgs"
	"github.com/toolyard/toolyard/internal/toolbox/pydeps"
	"github.com/toolyard/toolyard/internal/toolbox/runtimes"
	"github.com/toolyard/toolyard/internal/toolbox/system"
	"github.com/toolyard/toolyard/tool"
)

// installers fetch what the user's tools and other servers depend on.
type installers struct {
	javascript *deps.Installer
	copied     *deps.Installer // the same, with files that nobody else has
	python     *pydeps.Installer
	runtimes   *runtimes.Runtimes
	// address is that of the npm registry, authorization what its host wants.
	address, authorization string
}

// newInstallers makes them. Nothing is looked at yet.
func (t *Toolyard) newInstallers() (*installers, error) {
	c := t.config.Toolbox
	home := t.config.Home
	cache := filepath.Join(home, "cache")
	in := &installers{}
	npm := deps.Config{
		Runner: t.sandbox, Cache: filepath.Join(cache, "npm"), Installer: c.Installer, Env: c.Environ, Registry: c.Registry, Log: t.log,
		Program: func(ctx context.Context, name string) (string, error) {
			switch name {
			case "node":
				rt, err := in.runtimes.Node(ctx)
				return rt.Program, err
			case "pnpm":
				rt, err := in.runtimes.Pnpm(ctx)
				return rt.Program, err
			}
			return "", tool.Errorf(tool.DependencyError, "the runtime brings no %s", name)
		},
	}
	in.javascript = deps.New(npm)
	npm.Copy = true
	in.copied = deps.New(npm)
	var err error
	if in.address, in.authorization, err = in.javascript.Origin(t.background); err != nil {
		return nil, err
	}
	in.runtimes = runtimes.New(runtimes.Config{
		Dir: filepath.Join(home, "runtimes"), Cache: filepath.Join(cache, "runtimes"), Path: t.config.Path, Home: t.config.UserHome,
		Registry: in.address, Authorization: in.authorization, Offline: c.Offline, Runner: t.sandbox, Log: t.log,
	})
	python := pydeps.Config{
		Runner: t.sandbox, Runtimes: in.runtimes, Cache: filepath.Join(cache, "python"), Index: c.Index, NoIndex: c.Wheels != "" && c.Index == "", Log: t.log,
	}
	if c.Wheels != "" {
		python.Wheels = []string{c.Wheels}
	}
	in.python = pydeps.New(python)
	return in, nil
}

// openToolbox makes the toolbox. Nothing is looked at yet.
func (t *Toolyard) openToolbox() error {
	c := t.config.Toolbox
	if !c.On {
		return nil
	}
	in, err := t.installers()
	if err != nil {
		return err
	}
	home := t.config.Home
	packages, err := pkgs.Open(pkgs.Config{
		Home: filepath.Join(home, "toolbox"), Runner: t.sandbox, Registry: in.address, Authorization: in.authorization,
	})
	if err != nil {
		return err
	}
	t.toolbox = toolbox.New(toolbox.Config{
		Home: home, UserHome: t.config.UserHome, Runner: t.sandbox, Runtimes: in.runtimes, Packages: packages,
		JavaScript: in.javascript, Python: in.python, Offline: c.Offline, Preload: c.Preload,
		System: system.FS(), Variables: c.Variables, Redact: t.redactor.String, Secrets: t.conceal,
		Idle: c.Idle, LogRetention: c.LogRetention, Log: t.log,
	})
	t.boxed = make(chan struct{})
	t.sources = registry.NewComposite(t.registry, t.reportTools)
	t.sources.Add(t.toolbox)
	return nil
}

// beginToolbox looks at the toolbox and keeps it current from then on: at the
// start, or with preload off when it is first needed.
func (t *Toolyard) beginToolbox() {
	if t.toolbox != nil && t.background.Err() == nil {
		t.begun.Do(func() { t.work.Go(t.runToolbox) })
	}
}

// runToolbox registers the tools that are known and keeps them current.
func (t *Toolyard) runToolbox() {
	begin := sync.OnceFunc(func() { close(t.boxed) })
	defer begin()
	if t.ready(t.background) != nil {
		return
	}
	t.sources.Sync(t.background)
	begin()
	t.work.Go(func() { t.sources.Run(t.background) })
	t.toolbox.Run(t.background)
}

// secrets takes what must not be shown of each tool's configuration.
func (t *Toolyard) secrets() func(name string, values map[string]string) {
	var mu sync.Mutex
	all := map[string]map[string]string{}
	return func(name string, values map[string]string) {
		mu.Lock()
		defer mu.Unlock()
		if maps.Equal(all[name], values) {
			return
		}
		all[name] = values
		var list []secret.Value
		for _, name := range slices.Sorted(maps.Keys(all)) {
			for _, key := range slices.Sorted(maps.Keys(all[name])) {
				list = append(list, secret.Value{Name: key, Value: all[name][key]})
			}
		}
		t.redactor.Set(list)
	}
}

// reportTools tells what a look at the sources of tools brought.
func (t *Toolyard) reportTools(r registry.Report) {
	if t.background.Err() != nil {
		return
	}
	if r.Err != nil {
		t.log.Warn("tools", "source", r.Source, "error", r.Err)
	}
	if r.Source == toolbox.Source && r.Changed() {
		t.describeToolm()
	}
	for name, err := range r.Failed {
		t.log.Warn("tool not loaded", "tool", name, "error", err)
	}
	for wanted, name := range r.Renamed {
		t.log.Warn("two tools of the same name", "name", wanted, "now", name)
	}
}

// AwaitTool waits for the toolbox or another MCP server where a call may mean one
// of its tools, and asks what it is if nobody has.
func (t *Toolyard) AwaitTool(ctx context.Context, name string) {
	t.awaitServer(ctx, name)
	if t.toolbox == nil {
		return
	}
	e, known := t.registry.Lookup(name, "", "")
	if known && e.State != registry.Registered && e.State != registry.Initializing {
		return
	}
	t.awaitToolbox(ctx)
	if known { // it is being started
		t.sources.Sync(ctx)
	}
	if _, known := t.registry.Lookup(name, "", ""); known {
		return
	}
	for _, separator := range []string{":", "__"} {
		if at := strings.LastIndex(name, toolbox.Source+separator); at >= 0 {
			if _, _, err := t.toolbox.Lookup(ctx, name[at+len(toolbox.Source+separator):]); err == nil {
				t.sources.Sync(ctx)
				return
			}
		}
	}
}

// awaitToolbox waits until the tools that are known are registered.
func (t *Toolyard) awaitToolbox(ctx context.Context) {
	if t.toolbox == nil {
		return
	}
	t.beginToolbox()
	select {
	case <-t.boxed:
	case <-ctx.Done():
	}
}

// AwaitTools waits until every tool of the toolbox has been asked what it is.
func (t *Toolyard) AwaitTools(ctx context.Context) {
	t.awaitServers(ctx)
	if t.toolbox == nil {
		return
	}
	t.awaitToolbox(ctx)
	t.toolbox.Load(ctx)
	t.sources.Sync(ctx)
}

// Toolbox is the user's own tools; nil without [Toolbox.On].
func (t *Toolyard) Toolbox() *toolbox.Box { return t.toolbox }

func (t *Toolyard) closeToolbox(ctx context.Context) error {
	if t.toolbox == nil {
		return nil
	}
	return t.toolbox.Close(ctx)
}
