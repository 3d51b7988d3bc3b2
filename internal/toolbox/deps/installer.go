package deps

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/tool"
)

// The installers.
const (
	PNPM = "pnpm"
	NPM  = "npm"
	Bun  = "bun"
)

// DefaultLimit is how long an install may take if nothing else is said.
const DefaultLimit = 5 * time.Minute

// stagingPrefix begins the names of all that an install makes for a while in a
// tool's folder.
const stagingPrefix = ".deps-"

// Config of an Installer. Runner and Cache are needed; the rest works when zero.
type Config struct {
	// Runner confines the installer and everything else that is started. The
	// registry's host must be at an address that it lets a granted name resolve to.
	Runner sandbox.Runner
	// Cache is the directory of what was fetched, shared by all tools. It is made
	// if it is not there.
	Cache string
	// Installer is "pnpm", "npm" or "bun". Empty is pnpm, or npm where there is no
	// pnpm.
	Installer string
	// Program finds "pnpm", "npm", "bun" and "node", and may fetch them: it returns
	// an absolute path. Nil, and an error, mean the PATH of Env.
	Program func(ctx context.Context, name string) (string, error)
	// Env is the operator's environment. Only PATH, HOME, variables that the NPMRC
	// files name, and npm_config_registry are used; none is passed on but PATH.
	Env []string
	// Registry is the address of the registry. Empty is what the NPMRC files say,
	// else the environment, else npm's own.
	Registry string
	// Registries are addresses of which the one that answers first is used where
	// Registry is empty.
	Registries []string
	// NPMRC are the operator's npm configurations, later ones win. Nil is where npm
	// itself looks with Env, the machine's and the user's. A tool's own .npmrc is not
	// read: it would choose whom this machine asks.
	NPMRC []string
	// Hosts are granted to installers besides the registry's, as entries of
	// sandbox.Network: for packages from git, or tarballs elsewhere.
	Hosts []string
	// Copy gives every tool files of its own, also where the file system cannot clone
	// and pnpm would make hard links into the store. It takes several times as long.
	Copy bool
	// Limit is how long one install may take, its scripts included. Zero is
	// [DefaultLimit].
	Limit time.Duration
	// Log gets what was run and how it ended. Nil discards it.
	Log *slog.Logger
}

// Installer installs packages. It is safe for concurrent use.
type Installer struct {
	c Config

	mu       sync.Mutex
	flights  map[string]*flight // by directory
	commands map[string]probed  // by path
	fastest  string             // of Registries
	measured time.Time
}

// New makes an Installer. It starts nothing.
func New(c Config) *Installer {
	if c.Limit <= 0 {
		c.Limit = DefaultLimit
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	i := &Installer{c: c, flights: map[string]*flight{}, commands: map[string]probed{}}
	if c.NPMRC == nil {
		i.c.NPMRC = i.configurations()
	}
	return i
}

// configurations are the files that npm would read, the user's last.
func (i *Installer) configurations() (files []string) {
	variable := func(name string) string {
		if v := sandbox.LookupEnv(i.c.Env, name); v != "" {
			return v
		}
		return sandbox.LookupEnv(i.c.Env, strings.ToUpper(name))
	}
	if global := variable("npm_config_globalconfig"); global != "" {
		files = append(files, global)
	} else if npm := i.look(NPM); npm != "" {
		files = append(files, filepath.Join(filepath.Dir(filepath.Dir(npm)), "etc", "npmrc"))
	}
	if user := variable("npm_config_userconfig"); user != "" {
		return append(files, user)
	}
	if home := sandbox.LookupEnv(i.c.Env, "HOME"); home != "" {
		files = append(files, filepath.Join(home, ".npmrc"))
	}
	return files
}

// Request is one install.
type Request struct {
	// Dir is the tool's folder. Empty is that of the definition.
	Dir string
	// Definition is what the tool says; nil installs what package.json names.
	Definition *definition.Definition
	// Offline uses the cache only.
	Offline bool
	// Allow names the packages whose install scripts run: "esbuild", or
	// "esbuild@0.21.5" for that version only. False denies what is not named too.
	Allow map[string]bool
	// ScriptHosts is what those scripts may reach, as entries of sandbox.Network.
	// Nil is nothing.
	ScriptHosts []string
	// Force installs even where nothing changed.
	Force bool
	// Progress hears how far it is. It must not block, and is not called after
	// Install has returned. Nil hears nothing.
	Progress func(Progress)
}

// Progress is how far an install has come.
type Progress struct {
	// Stage is "resolve", "fetch", "link", "scripts" or "check".
	Stage string `json:"stage"`
	// Done of Total packages; Total is 0 while it is not known.
	Done  int `json:"done"`
	Total int `json:"total,omitempty"`
	// Text is what is being worked on, such as a package's name.
	Text string `json:"text,omitempty"`
}

// Report is what an install did, or found done.
type Report struct {
	// Changed says that node_modules is another than before.
	Changed bool `json:"changed"`
	// Installer, its version and the registry's address, without credentials; as
	// of when it was installed.
	Installer string `json:"installer,omitempty"`
	Registry  string `json:"registry,omitempty"`
	// Lockfile is the file that fixed the versions, or was made.
	Lockfile string `json:"lockfile,omitempty"`
	// Packages are all that is in node_modules, sorted.
	Packages []Package `json:"packages,omitempty"`
	// Scripts are the packages that have install scripts, sorted.
	Scripts []Script `json:"scripts,omitempty"`
	// Commands are the programs of the machine that the tool depends on.
	Commands []CommandFound `json:"commands,omitempty"`
	// Added are packages that getDependencies put into package.json; Made says that
	// there was no package.json.
	Added []string `json:"added,omitempty"`
	Made  bool     `json:"made,omitempty"`
	// Warnings are sentences.
	Warnings []string      `json:"warnings,omitempty"`
	Took     time.Duration `json:"took,omitempty"`
}

// Package is one installed package.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Licence string `json:"licence,omitempty"`
}

// Script is a package with install scripts.
type Script struct {
	Package string `json:"package"`
	Version string `json:"version"`
	// Commands are the scripts by name, in the order in which they would run.
	Commands []ScriptCommand `json:"commands"`
	// Ran says that somebody allowed them and they ran.
	Ran bool `json:"ran"`

	dirs []string // in node_modules
}

// ScriptCommand is one install script.
type ScriptCommand struct {
	Name    string `json:"name"` // preinstall, install or postinstall
	Command string `json:"command"`
}

// flight is an install that runs.
type flight struct {
	done   chan struct{}
	report *Report
	err    error
	ended  bool // its own context ended: others must try themselves
}

// Install brings node_modules to what package.json, the lockfile and the
// definition ask for. Where all is as it was it compares a stamp and returns in
// about a millisecond. Calls for the same folder and wish share one install;
// other processes wait for it.
//
// The error is a *tool.Error: DEPENDENCY_ERROR with the reason in a sentence, and
// CANCELLED where ctx ended. Then node_modules, package.json and the lockfile are
// as before.
func (i *Installer) Install(ctx context.Context, req Request) (*Report, error) {
	if req.Dir == "" && req.Definition != nil {
		req.Dir = req.Definition.Dir
	}
	dir, err := filepath.Abs(req.Dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil || req.Dir == "" {
		return nil, tool.Errorf(tool.DependencyError, "the tool's folder %q cannot be found", req.Dir).WithHint("Check the path.")
	}
	req.Dir = dir
	if req.Definition == nil {
		req.Definition = &definition.Definition{Name: filepath.Base(dir), Dir: dir, Language: definition.JavaScript}
	}
	for {
		f, mine := i.join(req)
		if mine {
			f.report, f.err = i.install(ctx, req)
			f.ended = ctx.Err() != nil
			i.leave(req, f)
			return f.report, f.err
		}
		select {
		case <-f.done:
			if !f.ended {
				return f.report, f.err
			}
		case <-ctx.Done():
			return nil, cancelled(ctx)
		}
	}
}

func (r Request) key() string {
	return strings.Join([]string{r.Dir, r.Definition.Hash, string(encode(r.Allow)), string(encode([]any{r.Offline, r.Force, r.ScriptHosts, r.Definition.Dependencies}))}, "\x00")
}

func (i *Installer) join(req Request) (f *flight, mine bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if f, there := i.flights[req.key()]; there {
		return f, false
	}
	f = &flight{done: make(chan struct{})}
	i.flights[req.key()] = f
	return f, true
}

func (i *Installer) leave(req Request, f *flight) {
	i.mu.Lock()
	delete(i.flights, req.key())
	i.mu.Unlock()
	close(f.done)
}

func cancelled(ctx context.Context) error {
	e := tool.Errorf(tool.Cancelled, "the installation of dependencies was cancelled").WithHint("What was installed before is as it was; call again to install.")
	e.Err = context.Cause(ctx)
	return e
}

func (i *Installer) install(ctx context.Context, req Request) (*Report, error) {
	started := time.Now()
	report, err := i.fresh(ctx, req)
	if report != nil || err != nil {
		i.tidy(req.Dir)
		return report, err
	}
	limited, stop := context.WithTimeoutCause(ctx, i.c.Limit, errLimit)
	defer stop()
	unlock, err := i.lock(limited, req.Dir)
	if err != nil {
		return nil, i.ended(ctx, limited, err)
	}
	defer unlock()
	if report, err := i.fresh(limited, req); report != nil || err != nil { // another process did it meanwhile
		return report, i.ended(ctx, limited, err)
	}
	report, err = i.build(limited, req)
	if err != nil {
		return nil, i.ended(ctx, limited, err)
	}
	report.Took = time.Since(started)
	return report, nil
}
