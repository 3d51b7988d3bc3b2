package toolyard

import (
	"context"
	"reflect"
	"sync"
)

// reloading keeps what the last Reload put in force.
type reloading struct {
	mu      sync.Mutex
	current *Config // nil before the first
}

// Reload puts the permissions and the settings of single tools of another Config
// in force, for calls that begin from now on. A Config that cannot be is an
// error and changes nothing. What else differs from the Config of the start takes
// a new start; its names are returned. It is safe for concurrent use.
func (t *Toolyard) Reload(ctx context.Context, c Config) (restart []string, err error) {
	t.reloading.mu.Lock()
	defer t.reloading.mu.Unlock()
	before := t.reloading.current
	if before == nil {
		before = &t.config
	}
	if err := t.rules.replace(ctx, c); err != nil {
		return nil, err
	}
	t.settings.replace(c.ToolSettings)
	t.executor.SetTools(t.settings.tools())
	for name := range before.ToolSettings {
		if disabled(before, name) && !disabled(&c, name) {
			t.enable(name, true)
		}
	}
	for name := range c.ToolSettings {
		if disabled(&c, name) && !disabled(before, name) {
			t.enable(name, false)
		}
	}
	if err := t.reloadGateway(ctx, c); err != nil {
		return nil, err
	}
	t.reloading.current = &c
	return t.needRestart(c), nil
}

func disabled(c *Config, name string) bool {
	enabled := c.ToolSettings[name].Enabled
	return enabled != nil && !*enabled
}

func (t *Toolyard) enable(name string, on bool) {
	if err := t.registry.SetEnabled(name, on, "configuration"); err != nil {
		t.log.Warn("reloading", "tool", name, "error", err)
	}
}

// needRestart names the settings that are read at the start only and differ. To
// add one: a line here.
func (t *Toolyard) needRestart(c Config) []string {
	was := t.config
	var names []string
	for _, s := range []struct {
		name     string
		old, new any
	}{
		{"workspaces", was.Workspaces, c.Workspaces}, {"mode", was.Mode, c.Mode}, {"edit", was.Edit, c.Edit},
		{"directories", was.Directories, c.Directories}, {"shell", was.Shell, c.Shell}, {"doomLoop", was.DoomLoop, c.DoomLoop}, {"questions", was.Questions, c.Questions},
		{"output", was.Output, c.Output}, {"sandbox", was.Sandbox, c.Sandbox}, {"toolbox", was.Toolbox, c.Toolbox},
		{"gateway", [2]bool{was.MCP.On, was.MCP.Discover}, [2]bool{c.MCP.On, c.MCP.Discover}}, {"retention", was.Retention, c.Retention},
		{"profile", was.Profile, c.Profile}, {"profiles", was.Profiles, c.Profiles},
	} {
		if !reflect.DeepEqual(s.old, s.new) {
			names = append(names, s.name)
		}
	}
	return names
}
