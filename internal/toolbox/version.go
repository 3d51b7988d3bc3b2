package toolbox

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/toolbox/check"
	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/internal/toolbox/host"
	"github.com/toolyard/toolyard/internal/toolbox/pkgs"
	"github.com/toolyard/toolyard/internal/worker"
	"github.com/toolyard/toolyard/tool"
)

// version is a tool as it was at one moment. Its files are a version of package
// pkgs, which no edit reaches, so that calls that run, and workers that are
// started later, find what they began with.
type version struct {
	box  *Box
	def  *definition.Definition
	tool *boxTool

	// hash is that of the files, which installing changes with package.json.
	hash  atomic.Pointer[string]
	plan  atomic.Pointer[plan]
	ready atomic.Bool

	turn  turn          // of one installation or question at a time, and of files
	files *pkgs.Version // nil until they are needed
}

// describeTime is how long a tool may take to say what it is.
const describeTime = 5 * time.Second

// loadOne asks a folder's tool what it is, where the index does not know. It returns
// when the folder's present files are in use or were found to be broken, which is
// the error.
func (b *Box) loadOne(ctx context.Context, e *entry) error {
	release, err := e.turn.take(ctx)
	if err != nil {
		return err
	}
	defer release()
	e.mu.Lock()
	f, again, broken := e.folder, e.again, e.broken
	current := f == nil || f.stamp == e.stamp && !again
	e.mu.Unlock()
	if current {
		return broken
	}
	err = b.refresh(ctx, e, f, again)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx) // nobody waits: the files are looked at again
	}
	if err == nil {
		return nil
	}
	if e.good.Load() == nil { // before it is said that the folder is broken: the tool is there
		b.resume(ctx, e, f)
	}
	b.breaks(e, f.stamp, err)
	return err
}

// refresh puts what lies in a folder in use. The caller has the entry's turn.
func (b *Box) refresh(ctx context.Context, e *entry, f *folder, again bool) error {
	files, err := b.config.Packages.Snapshot(ctx, e.name)
	if err != nil {
		return err
	}
	if v := e.good.Load(); v != nil && *v.hash.Load() == files.Hash && !again {
		e.mu.Lock()
		e.stamp, e.broken = f.stamp, nil // changed back, or only touched
		e.mu.Unlock()
		return files.Close()
	}
	def, err := b.ask(ctx, files, f.language)
	if lacksPackage(err) {
		// It cannot say what it is without what it depends on.
		err = errors.Join(files.Close(), b.install(ctx, need{name: f.name, dir: f.dir, language: f.language}))
		if err != nil {
			return err
		}
		if files, err = b.config.Packages.Snapshot(ctx, e.name); err != nil {
			return err
		}
		if now, e := look(f.dir, f.name); e == nil {
			f = now // package.json or a lockfile may have come
		}
		def, err = b.ask(ctx, files, f.language)
	}
	if err != nil {
		return errors.Join(b.failure(err, nil), files.Close())
	}
	if err := faults(def); err != nil {
		return errors.Join(err, files.Close())
	}
	k := known{Stamp: f.stamp, Definition: def}
	b.index.put(e.name, k)
	e.mu.Lock()
	e.folder = f
	b.adopt(e, f, k, files)
	e.mu.Unlock()
	b.hide(e.good.Load())
	b.report(ctx, f, def)
	return b.config.Packages.Accept(ctx, files)
}

// report logs what the first layers of the validator find wrong with a tool that
// runs nevertheless.
func (b *Box) report(ctx context.Context, f *folder, def *definition.Definition) {
	r := check.Run(ctx, check.Subject{Dir: f.dir, Name: f.name, Definition: def}, check.Options{Layers: []int{1, 2, 3, 4}})
	for _, layer := range r.Layers {
		for _, finding := range layer.Findings {
			if finding.Severity == check.Error {
				b.log.Warn("a tool is not as it should be", "tool", f.name, "where", finding.Where, "finding", finding.Message, "hint", "toolyard toolbox validate "+f.name)
			}
		}
	}
}

// lacksPackage reports whether a module could not be loaded for want of another.
func lacksPackage(err error) bool {
	thrown, ok := errors.AsType[*worker.Thrown](err)
	return ok && (thrown.Code == "ERR_MODULE_NOT_FOUND" || thrown.Code == "MODULE_NOT_FOUND" || thrown.Name == "ModuleNotFoundError")
}

// resume puts the last good version in use where a start finds a broken edit.
func (b *Box) resume(ctx context.Context, e *entry, f *folder) {
	files, err := b.config.Packages.Current(e.name)
	if err != nil {
		return // there has been none
	}
	def, err := b.ask(ctx, files, languageOf(files.File))
	if err == nil {
		err = faults(def)
	}
	if err != nil {
		_ = files.Close()
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	b.adopt(e, f, known{Definition: def}, files)
}

// adopt puts a version in use; files is nil where they are not needed yet. The
// caller holds e.mu.
func (b *Box) adopt(e *entry, f *folder, k known, files *pkgs.Version) {
	def := *k.Definition
	def.Dir = f.dir
	v := &version{box: b, def: &def, files: files}
	v.hash.Store(&def.Hash)
	v.tool = newTool(v)
	e.stamp, e.broken, e.again = f.stamp, nil, false
	e.good.Store(v)
	b.changed()
}

// ask runs a tool's module to hear what it is. It has its own data and nothing
// else.
func (b *Box) ask(ctx context.Context, files *pkgs.Version, language definition.Language) (*definition.Definition, error) {
	def := &definition.Definition{Name: files.Name, Dir: files.Seen, File: files.File, Language: language, Hash: files.Hash}
	return b.askAt(ctx, def, siteOf(files))
}

func (b *Box) askAt(ctx context.Context, def *definition.Definition, at site) (*definition.Definition, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*describeTime)
	defer cancel()
	env, err := b.environment(def) // what it says may depend on its configuration
	if err != nil {
		return nil, err
	}
	p, err := b.planOf(ctx, def, at, Grant{}, env)
	if err != nil {
		return nil, err
	}
	config := b.workerConfig(p, worker.Limits{Wall: describeTime, CPU: describeTime})
	config.Log = slog.New(slog.DiscardHandler) // the caller knows what a failure means
	pool := worker.New(config)
	raw, err := pool.Call(ctx, host.Describe())
	if closing := pool.Close(context.WithoutCancel(ctx)); err == nil {
		err = closing
	}
	if err != nil {
		return nil, err
	}
	told, err := definition.Decode(raw.Value)
	if err != nil {
		return nil, err
	}
	told.Name, told.Dir, told.File, told.Language, told.Hash = def.Name, def.Dir, def.File, def.Language, def.Hash
	return told, nil
}

// faults is what makes a tool unfit to be called; the validator says more.
func faults(def *definition.Definition) error {
	if def.Script || slices.Contains(def.Methods, "execute") {
		return nil
	}
	return tool.Errorf(tool.ValidationError, "%s has no function execute", def.File).
		WithHint("Export an object with execute(params, mode).")
}

// installTime is how long dependencies may take.
const installTime = 5 * time.Minute

// prepare makes sure that what the tool depends on is there.
func (v *version) prepare(ctx context.Context, progress func(done, total float64, text string)) error {
	if v.ready.Load() {
		return nil
	}
	release, err := v.turn.take(ctx)
	if err != nil {
		return err
	}
	defer release()
	if v.ready.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, installTime)
	defer cancel()
	if there, err := v.there(ctx); err != nil || !there {
		return err
	}
	if err := v.box.install(ctx, need{name: v.def.Name, dir: v.def.Dir, def: v.def, language: v.def.Language, progress: progress}); err != nil {
		return err
	}
	if err := v.installed(ctx); err != nil {
		return err
	}
	v.ready.Store(true)
	return nil
}

// there reports whether the tool's folder holds this version. If somebody has
// edited it since, what is installed there is for another one: this version has
// what it needs, or never will.
func (v *version) there(ctx context.Context) (bool, error) {
	files, err := v.box.config.Packages.Snapshot(ctx, v.def.Name)
	if e := tool.AsError(err); e != nil && e.Code == tool.NotFound {
		return false, nil // removed
	}
	if err != nil {
		return false, err
	}
	return files.Hash == *v.hash.Load(), files.Close()
}

// installed takes what was installed into the version. Installing writes to
// package.json too, which makes no other tool of it. The caller has the turn.
func (v *version) installed(ctx context.Context) error {
	b := v.box
	e, err := b.entry(v.def.Name)
	if err != nil || e.good.Load() != v {
		return nil // an older version, whose calls are about to end
	}
	files, err := b.config.Packages.Snapshot(ctx, v.def.Name)
	if err != nil {
		return err
	}
	if v.files != nil && v.files.Number == files.Number || v.files == nil && files.Hash == *v.hash.Load() {
		return files.Close()
	}
	f, err := look(v.def.Dir, v.def.Name)
	if err != nil {
		return errors.Join(err, files.Close())
	}
	if v.files != nil {
		_ = v.files.Close()
	}
	v.files = files
	v.hash.Store(&files.Hash)
	v.plan.Store(nil)
	e.mu.Lock()
	e.folder, e.stamp = f, f.stamp
	e.mu.Unlock()
	def := *v.def
	def.Hash = files.Hash
	b.index.put(def.Name, known{Stamp: f.stamp, Definition: &def})
	return b.config.Packages.Accept(ctx, files)
}

// Lookup loads a tool by its name and gives what it is. Where the present files
// are broken it is the last good version, with what is wrong as broken.
func (b *Box) Lookup(ctx context.Context, name string) (def *definition.Definition, broken, err error) {
	v, broken, err := b.lookup(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	return v.def, broken, nil
}

func (b *Box) lookup(ctx context.Context, name string) (v *version, broken, err error) {
	if err := b.Ready(ctx); err != nil {
		return nil, nil, err
	}
	b.glance(name) // what has just been saved counts
	e, err := b.entry(name)
	if err != nil {
		return nil, nil, err
	}
	broken = b.loadOne(ctx, e)
	if v = e.good.Load(); v == nil {
		if broken == nil {
			broken = tool.Errorf(tool.ExecutionError, "tool %s could not be loaded", name)
		}
		return nil, nil, broken
	}
	return v, broken, nil
}

// siteOf is where a version of package pkgs runs.
func siteOf(files *pkgs.Version) site {
	at := site{mounts: files.Mounts()}
	if dir := files.Path("node_modules"); exists(dir) {
		at.modules = dir
	}
	if dir := files.Path(".venv"); exists(filepath.Join(dir, "bin", "python")) {
		at.venv = dir
	}
	return at
}

// site is where the version runs. The caller has the turn.
func (v *version) site(ctx context.Context) (site, error) {
	if v.files == nil {
		files, err := v.box.config.Packages.Snapshot(ctx, v.def.Name)
		if err == nil && files.Hash != *v.hash.Load() { // edited since the index was written
			_ = files.Close()
			files, err = v.box.config.Packages.Current(v.def.Name)
		}
		if err != nil {
			return site{}, err
		}
		if files.Hash != *v.hash.Load() {
			_ = files.Close()
			return site{}, tool.Errorf(tool.Conflict, "the files of tool %s have just changed", v.def.Name).WithHint("Call it again.")
		}
		v.files = files
	}
	return siteOf(v.files), nil
}

// drop gives the version's files up.
func (v *version) drop() {
	release, err := v.turn.take(context.Background())
	if err != nil {
		return
	}
	defer release()
	if v.files != nil {
		_ = v.files.Close()
		v.files = nil
	}
}

// plan is how a version's workers are started, for the configuration and the
// grants of one moment.
type plan struct {
	stamp   string // of the files that it was made from
	env     map[string]string
	given   Grant // in force
	missing Grant // asked, and not given
	unasked bool  // about missing: there was nobody
	profile sandbox.Profile
	base    map[string]string // of the environment, beneath the tool's own
	environ []string
	setup   json.RawMessage
	host    worker.Host
	module  string
	adapter string
	dir     string
	wall    time.Duration
	// concurrent is how many calls a worker runs side by side.
	concurrent int
}

// warm starts a worker of every tool, for the first session that calls it.
func (b *Box) warm(ctx context.Context) {
	var g errgroup.Group
	var ready atomic.Int64
	g.SetLimit(2 * askAtOnce)
	for _, e := range b.all() {
		v := e.good.Load()
		if v == nil {
			continue
		}
		g.Go(func() error {
			if err := v.warm(ctx); err == nil {
				ready.Add(1)
			} else if ctx.Err() == nil {
				b.log.Warn("no worker ahead", "tool", v.def.Name, "error", err)
			}
			return nil
		})
	}
	_ = g.Wait()
	if ctx.Err() == nil {
		b.log.Info("workers are ready", "tools", ready.Load())
	}
}

func (v *version) warm(ctx context.Context) error {
	if err := v.prepare(ctx, nil); err != nil {
		return err
	}
	p, err := v.current(ctx, nil)
	if err != nil {
		return err
	}
	pool := v.pool(p, spare)
	defer v.box.pools.release(pool)
	return pool.pool.Start(ctx)
}

// pool takes the workers of a session.
func (v *version) pool(p *plan, session string) *pooled {
	return v.box.pools.take(v, poolKey{p, session}, func() *worker.Pool {
		return worker.New(v.box.workerConfig(p, worker.Limits{Wall: -1, CPU: p.wall}))
	})
}
