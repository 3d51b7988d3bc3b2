package toolbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/internal/toolbox/dotenv"
	"github.com/toolyard/toolyard/internal/toolbox/host"
	"github.com/toolyard/toolyard/internal/toolbox/page"
	"github.com/toolyard/toolyard/internal/worker"
	"github.com/toolyard/toolyard/tool"
)

// What a tool may leave in its data, all files together.
const (
	dataBytes  = 1 << 30
	dataInodes = 20_000
	// morePIDs is how many processes and threads a tool may have that was granted
	// more memory than every tool has: a browser takes about 190. Others have the
	// 64 of the sandbox's profile.
	morePIDs = 256
)

// current gives the plan that holds now: made anew where the configuration or the
// grants changed. Where the tool asks for more than it was granted a person is
// asked, once for each version and wish; a nil req asks nobody.
func (v *version) current(ctx context.Context, req *tool.Request) (*plan, error) {
	if p := v.plan.Load(); p != nil && p.stamp == v.stamp() && (req == nil || !p.unasked) {
		return p, nil
	}
	release, err := v.turn.take(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	b, stamp := v.box, v.stamp()
	p := v.plan.Load()
	if p != nil && p.stamp == stamp && (req == nil || !p.unasked) {
		return p, nil
	}
	env, err := b.environment(v.def)
	if err != nil {
		return nil, err
	}
	c, err := b.consent(v.def.Name)
	if err != nil {
		return nil, err
	}
	wish := b.asks(v.def, env)
	unasked := false
	if missing := wish.without(c.of(*v.hash.Load())); !missing.IsZero() && !c.answeredBefore(*v.hash.Load(), missing) {
		if unasked = req == nil; !unasked {
			if c, unasked, err = v.question(ctx, req, missing, c); err != nil {
				return nil, err
			}
		}
		if unasked && p != nil && p.stamp == stamp {
			return p, nil // still nobody to ask
		}
		stamp = v.stamp()
	}
	given := c.of(*v.hash.Load())
	files, err := v.site(ctx)
	if err != nil {
		return nil, err
	}
	if p, err = b.planOf(ctx, v.def, files, given, env); err != nil {
		return nil, err
	}
	p.stamp, p.missing, p.unasked = stamp, wish.without(given), unasked
	v.plan.Store(p)
	// Workers of an earlier plan end with their calls.
	b.pools.retireIf(func(old *pooled) bool { return old.version == v && old.key.plan != p })
	return p, nil
}

// stamp changes with the files that a plan is made from.
func (v *version) stamp() string {
	var b strings.Builder
	for _, path := range []string{filepath.Join(v.def.Dir, ".env"), v.box.consentPath(v.def.Name)} {
		if info, err := os.Stat(path); err == nil {
			fmt.Fprintf(&b, "%d %d %d;", info.Size(), info.ModTime().UnixNano(), changed(info))
		} else {
			b.WriteString("-;")
		}
	}
	return b.String()
}

// question asks a person about what a tool wants beyond its grants. With nobody
// to ask it goes without, and somebody who comes later is asked; no answer is a
// refusal until the tool or the program changes.
func (v *version) question(ctx context.Context, req *tool.Request, missing Grant, c consent) (_ consent, unasked bool, err error) {
	lines := missing.Lines()
	answer, err := req.Ask(ctx, tool.Question{
		Kind:  "permission",
		Title: fmt.Sprintf("Tool %s asks for more than it has", v.def.Name),
		Text:  fmt.Sprintf("%s %s, in %s, asks to:\n  %s\nWithout it the tool still runs, with its own data only.", v.def.Name, v.def.Metadata.Version, v.def.Dir, strings.Join(lines, "\n  ")),
		Options: []tool.Option{
			{ID: "allow", Label: "Grant it", Description: "until the tool's files change"},
			{ID: "deny", Label: "Run it without"},
		},
		Details: map[string]any{"tool": Source + ":" + v.def.Name, "asked": lines},
		Binding: strings.Join(append([]string{*v.hash.Load()}, lines...), "\n"), // each call asks the same
	})
	switch {
	case ctx.Err() != nil:
		return c, false, context.Cause(ctx)
	case err != nil:
		return c, errors.Is(err, tool.ErrNoChannel), nil
	}
	a := answered{Asked: missing, Granted: answer.Option == "allow", By: answer.By, When: v.box.config.Now()}
	err = v.box.changeConsent(v.def.Name, func(stored *consent) {
		stored.answer(*v.hash.Load(), a)
		c = *stored
	})
	return c, false, err
}

// renew makes the next call of a tool look at its configuration and grants again.
func (b *Box) renew(name string) {
	if e, err := b.entry(name); err == nil {
		if v := e.good.Load(); v != nil {
			v.plan.Store(nil)
		}
	}
}

// environment is what environment.get and the worker's process see, before
// anything of the machine's own.
func (b *Box) environment(def *definition.Definition) (map[string]string, error) {
	values, faults, err := dotenv.Load(filepath.Join(def.Dir, ".env"))
	if err != nil {
		return nil, tool.Errorf(tool.ExecutionError, "the configuration of tool %s cannot be read: %v", def.Name, err).
			WithHint("Look at %s.", filepath.Join(def.Dir, ".env"))
	}
	for _, fault := range faults {
		b.log.Warn("configuration of a tool", "tool", def.Name, "error", fault)
	}
	passed := map[string]string{}
	for name := range declared(def) {
		if value, ok := b.config.Variables[name]; ok {
			passed[name] = value
		}
	}
	usual := map[string]string{}
	if def.Language == definition.JavaScript {
		usual["NODE_ENV"] = "production"
	}
	env := host.Environment(values, def.Runtime.Environment, usual, host.SchemaDefaults(def.Environment), passed)
	if b.config.Secrets != nil {
		secrets := map[string]string{}
		for _, name := range page.Secrets(def, env) {
			secrets[name] = env[name]
		}
		b.config.Secrets(def.Name, secrets)
	}
	return env, nil
}

// hide reads a tool's configuration, so that its secrets are redacted before
// anybody has called it.
func (b *Box) hide(v *version) {
	if b.config.Secrets != nil {
		_, _ = b.environment(v.def) // what is wrong with it is told when it is needed
	}
}

// declared are the variables in a tool's environment schema.
func declared(def *definition.Definition) map[string]json.RawMessage {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	_ = json.Unmarshal(def.Environment, &s) // what is no schema declares nothing
	return s.Properties
}

// directories are those that a tool asks for, as absolute paths.
func (b *Box) directories(def *definition.Definition, env map[string]string) []string {
	var dirs []string
	for _, dir := range slices.Concat(def.Runtime.Directories, dotenv.List(env["ALLOWED_DIRECTORIES"])) {
		dir = strings.ReplaceAll(dir, "{toolname}", def.Name)
		path := b.expand(dir)
		if !filepath.IsAbs(path) {
			path = filepath.Join(b.dir, def.Name, path)
		}
		dirs = append(dirs, path)
	}
	return dirs
}

// expand resolves ~ and the home of the Prompt Manager, which is ours.
func (b *Box) expand(path string) string {
	if path == "~" || strings.HasPrefix(path, "~/") {
		path = filepath.Join(b.config.UserHome, path[1:])
	}
	path = filepath.Clean(path)
	if old := filepath.Join(b.config.UserHome, ".prompt-manager"); within(path, old) {
		path = filepath.Join(b.config.Home, strings.TrimPrefix(path, old))
	}
	return path
}

// site is where a tool runs: what is shown in place of its folder, and what it
// writes.
type site struct {
	mounts []sandbox.Mount
	// modules and venv are where node_modules and .venv are; empty if there is none.
	modules, venv string
	// data is the directory that is seen as data/; empty is that of the folder.
	data string
}

// planOf makes the plan for a configuration and a grant.
func (b *Box) planOf(ctx context.Context, def *definition.Definition, at site, given Grant, env map[string]string) (*plan, error) {
	switch def.Runtime.SandboxType {
	case "", "nodejs", "node", "python":
	default:
		return nil, tool.Errorf(tool.SandboxUnavailable, "tool %s asks to run in %q", def.Name, def.Runtime.SandboxType).
			WithHint("Tools run in the program's own sandbox: use sandboxType nodejs or python.")
	}
	files, err := b.files()
	if err != nil {
		return nil, err
	}
	p := &plan{env: env, given: given, dir: def.Dir, module: filepath.Join(def.Dir, def.File)}
	p.wall = cut(def.Runtime.MaxExecutionTime, freeTime, given.Time)
	data := filepath.Join(def.Dir, "data")
	allowed := []string{data}
	p.profile = sandbox.Profile{
		Kind: "toolbox", Mounts: slices.Clone(at.mounts), Read: []string{files.dir},
		Disk: dataBytes, Inodes: dataInodes, Protected: []string{}, MinLevel: sandbox.L2,
		Network: sandbox.NetworkOf(given.Network),
	}
	if at.data != "" {
		p.profile.Mounts = append(p.profile.Mounts, sandbox.Mount{Source: at.data, Target: data, Write: true})
	} else if err := os.MkdirAll(data, 0o755); err != nil {
		return nil, err
	} else {
		p.profile.Write = []string{data}
	}
	p.profile.Memory = cut(def.Runtime.MaxMemory, freeMemory, given.Memory)
	if p.profile.Memory > freeMemory {
		p.profile.PIDs = morePIDs
	}
	shared := filepath.Join(b.config.Home, "shared")
	for _, dir := range b.directories(def, env) {
		if within(dir, shared) {
			if err := os.MkdirAll(shared, 0o755); err != nil {
				return nil, err
			}
			p.profile.Write = append(p.profile.Write, shared)
			allowed = append(allowed, dir)
		}
	}
	add := func(dirs []string, to *[]string) {
		for _, dir := range dirs {
			// One that is not there cannot be shown, nor one of the runtime's own.
			if _, err := os.Stat(dir); err == nil && b.ungrantable(dir) == "" {
				*to = append(*to, dir)
				allowed = append(allowed, dir)
			}
		}
	}
	add(given.Write, &p.profile.Write)
	add(given.Read, &p.profile.Read)
	slices.Sort(p.profile.Write)
	p.profile.Write = slices.Compact(p.profile.Write)
	if err := b.runtime(ctx, def, at, files, p); err != nil {
		return nil, err
	}
	setup := host.Setup{
		Name: def.Name, Dir: def.Dir, Data: data, Home: b.config.Home, Shared: shared, UserHome: b.config.UserHome,
		Directories: allowed, Environment: env,
	}
	p.setup, p.environ = setup.JSON(), setup.Env(p.base)
	return p, nil
}

// cut is a limit as far as it was granted. A tool that asks for none takes what it
// is given.
func cut[N int64 | time.Duration](asked, free, given N) N {
	if granted := max(free, given); asked <= 0 || asked > granted {
		return granted
	}
	return asked
}

// workerConfig is how a plan's workers are made.
func (b *Box) workerConfig(p *plan, limits worker.Limits) worker.Config {
	return worker.Config{
		Runner: b.config.Runner, Host: p.host, Module: p.module, Adapter: p.adapter, Setup: p.setup, Profile: p.profile,
		Env: p.environ, Dir: p.dir, Files: filepath.Join(b.config.Home, "cache", "worker"),
		Warm: b.spares(), Max: 1, Concurrent: p.concurrent, Idle: b.config.Idle, MaxCalls: -1, Limits: limits, Log: b.log,
	}
}

// spares is how many workers of a pool stay however long nobody calls.
func (b *Box) spares() int {
	if b.config.Preload == "workers" {
		return 1
	}
	return 0
}
