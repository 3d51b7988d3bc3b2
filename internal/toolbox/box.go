package toolbox

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/toolbox/deps"
	"github.com/toolyard/toolyard/internal/toolbox/pkgs"
	"github.com/toolyard/toolyard/internal/toolbox/pydeps"
	"github.com/toolyard/toolyard/internal/toolbox/runtimes"
	"github.com/toolyard/toolyard/internal/validate"
	"github.com/toolyard/toolyard/tool"
)

// Config of a Box. Home, Runner, Runtimes and Packages are needed.
type Config struct {
	// Home is the runtime's home: the tools are in toolbox/ below it.
	Home string
	// UserHome is what "~" means in the paths of tools.
	UserHome string
	// Runner confines the tools.
	Runner sandbox.Runner
	// Runtimes finds Node and Python.
	Runtimes *runtimes.Runtimes
	// Packages keeps the versions of the tools.
	Packages *pkgs.Packages
	// JavaScript and Python install what tools depend on, before their first call.
	// Nil installs nothing.
	JavaScript *deps.Installer
	Python     *pydeps.Installer
	// Offline installs from what has been fetched before.
	Offline bool
	// Preload says what is done at the start: "off" asks a tool what it is when it
	// is first needed, "metadata" (also "") asks all of them beside the calls,
	// "workers" starts a worker of each as well.
	Preload string
	// System are the tools that ship with the program, a folder each. Nil is none.
	System fs.FS
	// Variables are what the operator passes on to tools that declare them.
	Variables map[string]string
	// Redact takes secrets out of text before it is logged. Nil leaves all in.
	Redact func(string) string
	// Secrets is told the values of a tool's configuration that are secrets, by
	// their names, so that they are redacted everywhere. Nil tells nobody.
	Secrets func(tool string, values map[string]string)
	// Idle is how long a worker stays that nobody uses. Zero is 5 minutes.
	Idle time.Duration
	// LogRetention is how long entries of run.log stay. Zero is 3 hours.
	LogRetention time.Duration
	// Log gets what a person who runs the program should know. Nil discards it.
	Log *slog.Logger
	// Now is the clock. Nil is time.Now.
	Now func() time.Time
}

// Box is the toolbox: the tools in the folders of one home. It is safe for
// concurrent use.
type Box struct {
	config Config
	log    *slog.Logger
	dir    string // of the tools
	state  string // what is known of them
	files  func() (hostFiles, error)

	changes chan struct{}
	scanned chan struct{} // closed after the first look
	first   sync.Once

	mu      sync.Mutex
	entries map[string]*entry
	index   *index
	pools   poolSet
	logs    logSet
	work    sync.WaitGroup
}

// entry is one folder. Its good version answers calls while a newer one is
// looked at, or is broken.
type entry struct {
	name string
	good atomic.Pointer[version]

	turn   turn       // of being asked: one at a time
	mu     sync.Mutex // held briefly
	stamp  string     // of the files that were looked at last
	broken error      // why these are not in use
	again  bool       // what it says of itself may depend on its configuration, which changed
	folder *folder
}

// New makes a Box. It starts nothing and touches no file.
func New(c Config) *Box {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Idle == 0 {
		c.Idle = 5 * time.Minute
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Redact == nil {
		c.Redact = func(s string) string { return s }
	}
	b := &Box{
		config: c, log: c.Log, dir: filepath.Join(c.Home, "toolbox"), state: filepath.Join(c.Home, "toolbox", ".state"),
		changes: make(chan struct{}, 1), scanned: make(chan struct{}), entries: map[string]*entry{},
	}
	b.files = sync.OnceValues(b.writeHost)
	b.pools.pools = map[poolKey]*pooled{}
	return b
}

// Name is the source's name in the registry.
func (b *Box) Name() string { return Source }

// Source is the source of the toolbox's tools: "toolbox:name".
const Source = "toolbox"

// Changes is sent to when the list of tools, or what one of them says, changed.
func (b *Box) Changes() <-chan struct{} { return b.changes }

func (b *Box) changed() {
	select {
	case b.changes <- struct{}{}:
	default:
	}
}

// List gives the tools as the registry takes them: each folder's good version,
// and for those that have none a tool that cannot be started and says why. With
// the first call the folders are read.
func (b *Box) List(ctx context.Context) ([]tool.Tool, error) {
	if err := b.Ready(ctx); err != nil {
		return nil, err
	}
	var tools []tool.Tool
	for _, e := range b.all() {
		switch v := e.good.Load(); {
		case v != nil:
			tools = append(tools, v.tool)
		default:
			e.mu.Lock()
			if v := e.good.Load(); v != nil { // meanwhile
				tools = append(tools, v.tool)
			} else if e.broken != nil {
				tools = append(tools, failed(e.name, e.broken))
			}
			e.mu.Unlock()
		}
	}
	return tools, nil
}

// Ready waits for the first look at the folders, and makes it where nobody has.
func (b *Box) Ready(ctx context.Context) error {
	b.first.Do(func() {
		b.work.Go(func() {
			defer close(b.scanned)
			b.ship(context.WithoutCancel(ctx))
			if err := b.Scan(context.WithoutCancel(ctx)); err != nil {
				b.log.Error("toolbox", "error", err)
			}
		})
	})
	select {
	case <-b.scanned:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Scan looks at every folder and takes in what changed. Tools that the index
// knows are there when it returns; others are asked what they are by Run.
func (b *Box) Scan(ctx context.Context) error {
	entries, err := os.ReadDir(b.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return tool.Errorf(tool.ExecutionError, "the toolbox %s cannot be read: %v", b.dir, err).WithHint("Look at the directory's permissions.")
	}
	b.loadIndex()
	there := map[string]bool{}
	for _, item := range entries {
		name := item.Name()
		if strings.HasPrefix(name, ".") || !item.IsDir() && item.Type()&fs.ModeSymlink == 0 {
			continue
		}
		there[name] = true
		b.glance(name)
	}
	b.mu.Lock()
	for name := range b.entries {
		if !there[name] {
			delete(b.entries, name)
			b.changed()
		}
	}
	b.mu.Unlock()
	return ctx.Err()
}

// glance looks at one folder without running anything.
func (b *Box) glance(name string) {
	f, err := look(filepath.Join(b.dir, name), name)
	if errors.Is(err, ErrNoTool) || errors.Is(err, fs.ErrNotExist) {
		b.mu.Lock()
		_, had := b.entries[name]
		delete(b.entries, name)
		b.mu.Unlock()
		if had {
			b.changed()
		}
		return
	}
	e := b.make(name)
	if err == nil && !namePattern.MatchString(name) {
		err = tool.Errorf(tool.ParameterError, "a folder called %q is no tool", name).WithHint("Name it with letters, digits, _ and -, at most 64.")
	}
	if err != nil {
		b.breaks(e, "", err)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if f.stamp == e.stamp {
		return
	}
	e.folder = f
	if known, ok := b.index.find(name, f.stamp); ok && e.turn.free() {
		b.adopt(e, f, known, nil)
	}
}

// breaks notes why a folder's present files, those of the stamp, are not in use.
func (b *Box) breaks(e *entry, stamp string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stamp, e.again = stamp, false
	if e.broken == nil || e.broken.Error() != err.Error() {
		b.log.Warn("tool not loaded", "tool", e.name, "error", err)
		e.broken = err
		b.changed()
	}
}

func (b *Box) make(name string) *entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[name]
	if e == nil {
		e = &entry{name: name}
		b.entries[name] = e
	}
	return e
}

func (b *Box) all() []*entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	names := slices.Sorted(maps.Keys(b.entries))
	list := make([]*entry, len(names))
	for i, name := range names {
		list[i] = b.entries[name]
	}
	return list
}

// entry finds a folder by its name, or names the nearest.
func (b *Box) entry(name string) (*entry, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.entries[name]; e != nil {
		return e, nil
	}
	err := tool.Errorf(tool.ToolNotFound, "no tool %q in the toolbox", name)
	if best, near := validate.Nearest(name, slices.Sorted(maps.Keys(b.entries))); near {
		return nil, err.WithHint("Did you mean %s? toolyard toolbox list shows what is there.", best)
	}
	return nil, err.WithHint("toolyard toolbox list shows what is there.")
}

// Close ends all workers and writes what waits. Calls that still run end with
// ctx.
func (b *Box) Close(ctx context.Context) error {
	err := b.pools.close(ctx)
	b.work.Wait()
	b.logs.close()
	b.mu.Lock()
	indexed := b.index != nil
	b.mu.Unlock()
	if indexed {
		b.tidy()
	}
	return err
}

// ship finishes what a process left that was killed, and brings the tools that
// come with the program into the toolbox.
func (b *Box) ship(ctx context.Context) {
	if _, err := b.config.Packages.Recover(ctx); err != nil {
		b.log.Warn("toolbox", "error", err)
	}
	if b.config.System == nil {
		return
	}
	report, err := b.config.Packages.Sync(ctx, b.config.System, pkgs.SyncOptions{})
	if err != nil {
		b.log.Warn("the tools that come with the program", "error", err)
		return
	}
	for _, one := range report.Tools {
		switch one.Status {
		case pkgs.StatusUnchanged:
		case pkgs.StatusFailed:
			b.log.Warn("tool not brought up to date", "tool", one.Name, "error", one.Err)
		default:
			b.log.Info("tool that comes with the program", "tool", one.Name, "status", one.Status, "reason", one.Reason)
		}
	}
}
