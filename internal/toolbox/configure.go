package toolbox

import (
	"context"
	"path/filepath"

	"github.com/toolyard/toolyard/internal/flock"
	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/internal/toolbox/dotenv"
	"github.com/toolyard/toolyard/internal/toolbox/page"
	"github.com/toolyard/toolyard/internal/toolbox/runlog"
	"github.com/toolyard/toolyard/tool"
)

// EnvPath is the path of a tool's .env, whether or not it is there.
func (b *Box) EnvPath(name string) string { return filepath.Join(b.dir, name, ".env") }

// Environment gives the values in a tool's .env; empty, not nil, if it has none.
func (b *Box) Environment(ctx context.Context, name string) (map[string]string, error) {
	if err := b.known(ctx, name); err != nil {
		return nil, err
	}
	values, _, err := dotenv.Load(b.EnvPath(name))
	if err != nil {
		return nil, err
	}
	return values, nil
}

func (b *Box) known(ctx context.Context, name string) error {
	if err := b.Ready(ctx); err != nil {
		return err
	}
	_, err := b.entry(name)
	return err
}

// Configure replaces the values in a tool's .env: change gets the present ones
// and gives the new ones, or an error, which leaves everything as it was. What
// people wrote between the values stays. The tool's next call sees it.
func (b *Box) Configure(ctx context.Context, name string, change func(current map[string]string) (map[string]string, error)) (map[string]string, error) {
	if err := b.known(ctx, name); err != nil {
		return nil, err
	}
	unlock, err := flock.Open(ctx, filepath.Join(b.state, name+".env.lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	path := b.EnvPath(name)
	before, _, err := dotenv.Load(path)
	if err != nil {
		return nil, err
	}
	wanted, err := change(before)
	if err != nil {
		return nil, err
	}
	changes := map[string]*string{}
	for key, value := range wanted {
		if old, ok := before[key]; !ok || old != value {
			changes[key] = &value
		}
	}
	for key := range before {
		if _, ok := wanted[key]; !ok {
			changes[key] = nil
		}
	}
	if len(changes) == 0 {
		return before, nil
	}
	title := name
	e, err := b.entry(name)
	if err == nil {
		if v := e.good.Load(); v != nil && v.def.Metadata.Name != "" {
			title = v.def.Metadata.Name
		}
	}
	after, _, err := dotenv.Update(path, name, title, changes, b.config.Now())
	if err != nil {
		return nil, err
	}
	b.renew(name)
	b.reask(ctx, e)
	if v := e.good.Load(); v != nil {
		_, err = b.environment(v.def) // its secrets are to be hidden from now on
	}
	return after, err
}

// reask asks a tool again what it is, for that may depend on its configuration.
// What it was holds on where it cannot say.
func (b *Box) reask(ctx context.Context, e *entry) {
	e.mu.Lock()
	e.again = true
	e.mu.Unlock()
	if err := b.loadOne(ctx, e); err != nil {
		b.log.Warn("tool not loaded with its new configuration", "tool", e.name, "error", err)
	}
}

// Log reads a tool's run.log, with what is secret in it hidden.
func (b *Box) Log(ctx context.Context, name string, q runlog.Query) (path string, p *runlog.Page, err error) {
	if err := b.known(ctx, name); err != nil {
		return "", nil, err
	}
	e, err := b.entry(name)
	if err != nil {
		return "", nil, err
	}
	path = filepath.Join(b.dir, name, "run.log")
	if v := e.good.Load(); v != nil {
		if _, err := b.environment(v.def); err != nil { // what is hidden
			b.log.Warn("toolbox", "tool", name, "error", err)
		}
		p, err = b.logs.of(b, v.def).Query(ctx, q)
	} else {
		p, err = runlog.Read(ctx, path, q)
	}
	if err != nil {
		return "", nil, err
	}
	for i := range p.Entries {
		p.Entries[i].Raw = b.config.Redact(p.Entries[i].Raw)
	}
	return path, p, nil
}

// Limits is what a tool may use of what it asks for.
func (b *Box) Limits(def *definition.Definition) (page.Limits, error) {
	given, _, err := b.Grants(def.Name)
	if err != nil {
		return page.Limits{}, err
	}
	l := page.Limits{Read: given.Read, Write: given.Write, Network: given.Network, Memory: freeMemory, Time: freeTime}
	if asked := def.Runtime.MaxMemory; asked > 0 {
		l.Memory = min(asked, max(freeMemory, given.Memory))
	}
	if asked := def.Runtime.MaxExecutionTime; asked > 0 {
		l.Time = min(asked, max(freeTime, given.Time))
	}
	return l, nil
}

// Entry is a tool at one moment: what it is, the error that keeps its present
// files, and whether a version of it can be called.
func (b *Box) Entry(ctx context.Context, name string) (def *definition.Definition, failure error, usable bool, err error) {
	if err := b.known(ctx, name); err != nil {
		return nil, nil, false, err
	}
	def, broken, err := b.Lookup(ctx, name)
	if err == nil {
		return def, broken, true, nil
	}
	if tool.AsError(err).Code == tool.ToolNotFound {
		return nil, nil, false, err
	}
	e, gone := b.entry(name)
	if gone != nil {
		return nil, nil, false, gone
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	def = &definition.Definition{Name: name, Dir: filepath.Join(b.dir, name)}
	if e.folder != nil {
		def.File, def.Language = e.folder.file, e.folder.language
	}
	return def, err, false, nil
}
