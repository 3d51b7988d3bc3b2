package toolbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/toolbox/check"
	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/internal/toolbox/deps"
	"github.com/toolyard/toolyard/internal/toolbox/dotenv"
	"github.com/toolyard/toolyard/internal/toolbox/host"
	"github.com/toolyard/toolyard/internal/toolbox/pydeps"
	"github.com/toolyard/toolyard/internal/validate"
	"github.com/toolyard/toolyard/internal/worker"
	"github.com/toolyard/toolyard/tool"
)

// trialTime is how long one trial of a tool may take.
const trialTime = 5 * time.Second

// trial runs a tool that is looked at: a copy of its files, scratch data, no
// network and no grant.
type trial struct {
	b       *Box
	def     *definition.Definition
	at      site
	scratch string
	kept    string // the copy of the files
	valid   *validate.Validator
	env     map[string]string

	mu    sync.Mutex
	pool  *worker.Pool
	lines []string // of the call that runs
}

var _ check.Trial = (*trial)(nil)

// tryOut copies a tool's folder to where a trial can do as it likes. The caller
// closes it.
func (b *Box) tryOut(f *folder) (_ *trial, err error) {
	if err := os.MkdirAll(b.state, 0o700); err != nil {
		return nil, err
	}
	scratch, err := os.MkdirTemp(b.state, "trial-")
	if err != nil {
		return nil, err
	}
	t := &trial{b: b, scratch: scratch}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close(context.Background()))
		}
	}()
	kept, data := filepath.Join(scratch, "files"), filepath.Join(scratch, "data")
	if err := errors.Join(os.Mkdir(data, 0o755), f.copy(kept)); err != nil {
		return nil, err
	}
	for _, name := range []string{"data", "node_modules", ".venv"} {
		if err := os.MkdirAll(filepath.Join(kept, name), 0o755); err != nil {
			return nil, err
		}
		if from := filepath.Join(f.dir, name); name != "data" && exists(from) {
			t.at.mounts = append(t.at.mounts, sandbox.Mount{Source: from})
			if name == ".venv" {
				t.at.venv = from
			} else {
				t.at.modules = from
			}
		}
	}
	t.kept = kept
	t.at.mounts = append([]sandbox.Mount{{Source: kept, Target: f.dir}}, t.at.mounts...)
	t.at.data = data
	t.def = &definition.Definition{Name: f.name, Dir: f.dir, File: f.file, Language: f.language}
	return t, nil
}

// copy copies a folder's own files.
func (f *folder) copy(to string) error {
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path != "." && !strings.Contains(path, "/") && !isSource(path), entry.Name() == "__pycache__", entry.Name() == "node_modules":
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(to, path), 0o755)
		case !entry.Type().IsRegular():
			return nil
		}
		content, err := root.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, path), content, 0o644)
	})
}

// describe asks the copy what it is.
func (t *trial) describe(ctx context.Context) error {
	def, err := t.b.askAt(ctx, t.def, t.at)
	if err != nil {
		return t.b.failure(err, nil)
	}
	t.def = def
	t.valid, err = validate.CompileSchema(inputSchema(def.Parameters))
	if err != nil {
		t.valid = nil // layer 4 says what is wrong with it
	}
	env, err := t.b.environment(def)
	if err != nil {
		return err
	}
	for name, value := range check.Variables(def) {
		if env[name] == "" {
			env[name] = value
		}
	}
	t.env = env
	return nil
}

// Validate does what the runtime does before the tool is called.
func (t *trial) Validate(params json.RawMessage) (json.RawMessage, error) {
	if t.valid == nil {
		return params, nil
	}
	args, _, err := t.valid.Arguments(params)
	return args, err
}

// Execute calls the tool in its scratch place.
func (t *trial) Execute(ctx context.Context, params json.RawMessage) (check.Outcome, error) {
	pool, err := t.workers(ctx)
	if err != nil {
		return check.Outcome{}, err
	}
	before := t.snapshot()
	t.mu.Lock()
	t.lines = nil
	t.mu.Unlock()
	t.line("INFO", "call started", nil)
	done, err := pool.Call(ctx, worker.Call{
		Name: "execute", Args: host.Arguments(params, "trial"),
		OnLine: func(l worker.Line) { t.line(host.Level(l), l.Text, l.Meta) },
		OnRequest: func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
			return nil, tool.Errorf(tool.ExecutionError, "a trial reaches nothing of the runtime")
		},
	})
	if err != nil {
		t.line("ERROR", t.b.failure(err, t.def).Message, nil)
	} else {
		t.line("INFO", "call finished", nil)
	}
	o := check.Outcome{Changed: changes(before, t.snapshot())}
	t.mu.Lock()
	o.Lines = t.lines
	t.mu.Unlock()
	if err != nil {
		o.Err = err
		return o, nil
	}
	o.Value, o.Undefined = done.Value, len(done.Value) == 0
	if _, failed := host.Result(done.Value, t.def); failed != nil {
		o.Err = failed
	}
	return o, nil
}

func (t *trial) line(level, text string, meta json.RawMessage) {
	line := "[" + level + "] " + text
	if len(meta) > 0 {
		line += " " + string(meta)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, line)
}

func (t *trial) workers(ctx context.Context) (*worker.Pool, error) {
	if t.pool != nil {
		return t.pool, nil
	}
	p, err := t.b.planOf(ctx, t.def, t.at, Grant{}, t.env)
	if err != nil {
		return nil, err
	}
	c := t.b.workerConfig(p, worker.Limits{Wall: trialTime, CPU: trialTime})
	c.Warm = 0
	t.pool = worker.New(c)
	return t.pool, nil
}

// snapshot is what the scratch data hold: size and time by path.
func (t *trial) snapshot() map[string]string {
	found := map[string]string{}
	_ = filepath.WalkDir(t.scratch, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || len(found) >= dataInodes {
			return nil
		}
		if info, err := entry.Info(); err == nil {
			if rel, err := filepath.Rel(t.scratch, path); err == nil {
				found[rel] = fmt.Sprint(info.Size(), info.ModTime().UnixNano())
			}
		}
		return nil
	})
	return found
}

func changes(before, after map[string]string) []string {
	var names []string
	for name := range after {
		if before[name] != after[name] {
			names = append(names, name)
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (t *trial) close(ctx context.Context) error {
	var err error
	if t.pool != nil {
		err = t.pool.Close(ctx)
	}
	return errors.Join(err, os.RemoveAll(t.scratch))
}

// Validate looks at a tool of the toolbox, by its name, or at a folder anywhere,
// by its path, through all layers. What is wrong with the tool is in the report;
// the error is that it could not be looked at.
func (b *Box) Validate(ctx context.Context, where string, o check.Options) (*check.Report, error) {
	dir, name, installed, err := b.place(ctx, where)
	if err != nil {
		return nil, err
	}
	return b.examine(ctx, dir, name, installed, o)
}

// ValidateAll looks at every tool of the toolbox, by name.
func (b *Box) ValidateAll(ctx context.Context, o check.Options) ([]*check.Report, error) {
	if err := b.Ready(ctx); err != nil {
		return nil, err
	}
	var reports []*check.Report
	for _, e := range b.all() {
		r, err := b.Validate(ctx, e.name, o)
		if err != nil {
			return reports, err
		}
		reports = append(reports, r)
	}
	return reports, ctx.Err()
}

// place finds a tool by its name, or a folder by its path.
func (b *Box) place(ctx context.Context, where string) (dir, name string, installed bool, err error) {
	if !strings.ContainsAny(where, `/\`) && where != "." && where != ".." {
		if err := b.Ready(ctx); err != nil {
			return "", "", false, err
		}
		if info, err := os.Stat(filepath.Join(b.dir, where)); err != nil || !info.IsDir() {
			_, err := b.entry(where)
			if err == nil {
				err = tool.Errorf(tool.NotFound, "the folder of tool %s is gone", where)
			}
			return "", "", false, err
		}
		return filepath.Join(b.dir, where), where, true, nil
	}
	dir, err = filepath.Abs(where)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	var info fs.FileInfo
	if err == nil {
		info, err = os.Stat(dir)
	}
	if err != nil || !info.IsDir() {
		return "", "", false, tool.Errorf(tool.NotFound, "there is no folder %s", where).
			WithHint("Name a tool of the toolbox, or the folder of one.")
	}
	return dir, moduleOwner(dir), filepath.Dir(dir) == b.dir, nil
}

// moduleOwner is the name of the tool in a folder: that of its module, or the
// folder's.
func moduleOwner(dir string) string {
	name := filepath.Base(dir)
	for _, file := range moduleNames(name) {
		if exists(filepath.Join(dir, file)) {
			return name
		}
	}
	for _, pattern := range []string{"*.tool.js", "*.tool.py"} {
		if found, err := filepath.Glob(filepath.Join(dir, pattern)); err == nil && len(found) == 1 {
			owner, _, _ := strings.Cut(filepath.Base(found[0]), ".tool.")
			return owner
		}
	}
	return name
}

func (b *Box) examine(ctx context.Context, dir, name string, installed bool, o check.Options) (*check.Report, error) {
	o.ParseEnv = func(content []byte) (map[string]string, []check.EnvFault) {
		values, faults := dotenv.Parse(content)
		list := make([]check.EnvFault, len(faults))
		for i, f := range faults {
			list[i] = check.EnvFault{Line: f.Line, Message: f.Message}
		}
		return values, list
	}
	o.Command = func(command string) (string, bool) {
		found, err := b.config.Runtimes.Declared(ctx, command, ">=0")
		if err != nil {
			found, err = b.config.Runtimes.Command(ctx, command) // there, and does not tell its version
		}
		return found.Version, err == nil
	}
	o.Satisfies = func(within, version string) bool {
		r, err := deps.ParseRange(within)
		return err == nil && r.Has(version)
	}
	o.SatisfiesPython = func(within, version string) bool {
		ok, err := pydeps.Satisfied(version, within)
		return err == nil && ok
	}
	s := check.Subject{Dir: dir, Name: name, Uninstalled: !installed}
	if o.Release {
		b.release(ctx, &s, installed)
	}
	f, err := look(dir, name)
	if err != nil {
		s.LoadError = err
		if errors.Is(err, ErrNoTool) {
			s.LoadError = tool.Errorf(tool.NotFound, "%s holds none of %s", dir, strings.Join(moduleNames(name), ", "))
		}
		return check.Run(ctx, s, o), nil
	}
	t, err := b.tryOut(f)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err := t.close(context.WithoutCancel(ctx)); err != nil {
			b.log.Warn("after a trial", "tool", name, "error", err)
		}
	}()
	if s.LoadError = t.describe(ctx); s.LoadError == nil {
		s.Definition, s.Trial = t.def, t
	}
	return check.Run(ctx, s, o), ctx.Err()
}

// release adds what the checklist of a release wants to know: what a package would
// hold, and the version before. What cannot be found out is not checked.
func (b *Box) release(ctx context.Context, s *check.Subject, installed bool) {
	if out, err := os.MkdirTemp("", "toolyard-pack-"); err == nil {
		defer os.RemoveAll(out)
		if packed, err := b.config.Packages.Pack(ctx, s.Dir, out); err == nil {
			s.Packed = []check.PackedFile{}
			for _, file := range packed.Files {
				if info, err := os.Stat(filepath.Join(s.Dir, filepath.FromSlash(file))); err == nil {
					s.Packed = append(s.Packed, check.PackedFile{Path: file, Size: info.Size()})
				}
			}
		}
	}
	if !installed {
		return
	}
	if r, ok, err := b.config.Packages.Record(s.Name); err == nil && ok {
		if now, ok := r.Release(r.Base); ok {
			if before, ok := r.Release(now.Previous); ok {
				s.Previous = before.Version
			}
		}
	}
}

// Escape tries to leave the tool's directories from where the tool is.
func (t *trial) Escape(ctx context.Context) ([]string, error) {
	name, text := "escape.cjs", escapeJS
	if t.def.Language == definition.Python {
		name, text = "escape.py", escapePython
	}
	if err := os.WriteFile(filepath.Join(t.kept, name), []byte(text), 0o644); err != nil {
		return nil, err
	}
	p, err := t.b.planOf(ctx, t.def, t.at, Grant{}, maps.Clone(t.env))
	if err != nil {
		return nil, err
	}
	p.module, p.adapter, p.setup = filepath.Join(t.def.Dir, name), "", nil
	c := t.b.workerConfig(p, worker.Limits{Wall: trialTime, CPU: trialTime})
	c.Warm = 0
	pool := worker.New(c)
	args, err := json.Marshal(map[string]any{"read": t.outside(), "write": t.elsewhere()})
	if err != nil {
		return nil, err
	}
	done, err := pool.Call(ctx, worker.Call{Name: "escape", Args: args})
	if closing := pool.Close(context.WithoutCancel(ctx)); err == nil {
		err = closing
	}
	if err != nil {
		return nil, err
	}
	var reached []string
	if err := json.Unmarshal(done.Value, &reached); err != nil {
		return nil, err
	}
	for _, path := range t.elsewhere() {
		if os.Remove(path) == nil { // it is there, on the machine
			reached = append(reached, "write "+path)
		}
	}
	return reached, nil
}

// outside are files that exist and that no tool may read, one of them made for
// the purpose.
func (t *trial) outside() []string {
	canary := filepath.Join(t.scratch, "canary")
	_ = os.WriteFile(canary, []byte("not for tools"), 0o644)
	paths := []string{
		canary, filepath.Join(t.b.config.Home, "token"), filepath.Join(t.b.config.Home, "toolyard.db"), filepath.Join(t.b.config.Home, "config.yaml"),
		filepath.Join(t.b.state, "index.json"), filepath.Join(t.def.Dir, ".env"), "/etc/shadow",
	}
	return slices.DeleteFunc(paths, func(path string) bool { return !exists(path) })
}

// elsewhere are files that no tool may make. Inside of a sandbox some of them may
// seem to be made, in what the sandbox throws away: whether they are is looked at
// from outside.
func (t *trial) elsewhere() []string {
	mark := filepath.Base(t.scratch)
	var paths []string
	for _, dir := range []string{t.scratch, t.b.config.Home, t.b.dir, t.b.config.UserHome, "/var/tmp", "/etc", filepath.Join(t.b.config.Home, "shared"), t.def.Dir} {
		if dir != "" {
			paths = append(paths, filepath.Join(dir, mark))
		}
	}
	return paths
}

// escapeJS and escapePython try paths and tell which could be read.
const escapeJS = `'use strict'
const fs = require('fs')
module.exports = {
  escape ({ read, write }) {
    const reached = []
    for (const path of read) {
      try { if (fs.readFileSync(path).length > 0) reached.push('read ' + path) } catch {}
    }
    for (const path of write) {
      try { fs.writeFileSync(path, 'x') } catch {}
    }
    return reached
  }
}
`

const escapePython = `import os
def escape(args):
    reached = []
    for path in args["read"]:
        try:
            if open(path, "rb").read(1):
                reached.append("read " + path)
        except OSError:
            pass
    for path in args["write"]:
        try:
            open(path, "w").write("x")
        except OSError:
            pass
    return reached
`
