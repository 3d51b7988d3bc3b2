// Package pydeps gives a Python tool the packages that it needs, in a virtual
// environment of its own. It knows requirements, wheels and installers; it does
// not know how a tool is run.
//
//	in := pydeps.New(pydeps.Config{Runner: box, Runtimes: r, Cache: home + "/cache"})
//	report, err := in.Install(ctx, pydeps.Request{Dir: dir, Definition: def})
//	worker.Python{Program: report.Program}
package pydeps

import (
	"cmp"
	"context"
	"log/slog"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/internal/toolbox/runtimes"
	"github.com/toolyard/toolyard/tool"
)

// DefaultIndex is Python's own.
const DefaultIndex = "https://pypi.org/simple/"

// DefaultLimit is how long an installation may take.
const DefaultLimit = 5 * time.Minute

// Config of an Installer. Runner, Runtimes and Cache are needed; the rest works
// when zero.
type Config struct {
	// Runner confines the installation.
	Runner sandbox.Runner
	// Runtimes find Python and uv.
	Runtimes *runtimes.Runtimes
	// Cache holds wheels for all tools, so that what one has another has without a
	// network.
	Cache string
	// Index is the URL of a simple index (PEP 503). Credentials in it are sent to its
	// host, by the network and not by the installer. Empty is [DefaultIndex].
	Index string
	// NoIndex uses only Wheels and what the cache has.
	NoIndex bool
	// Hosts are further hosts that the index's files come from, as entries of a
	// sandbox's network; one for the index itself may name its address. That of
	// DefaultIndex needs none.
	Hosts []string
	// Wheels are directories of wheels that are looked into besides.
	Wheels []string
	// Limit is how long an installation may take. Zero is [DefaultLimit].
	Limit time.Duration
	// Log gets what was installed. Nil discards it.
	Log *slog.Logger
}

// Installer installs what Python tools need. It is safe for concurrent use, also
// by several processes with the same cache.
type Installer struct {
	c             Config
	authorization string // of the index
	host          string
	broken        error // what is wrong with the configuration

	mu     sync.Mutex
	flight map[string]chan struct{} // by the tool's folder
}

// New makes an Installer. It touches no file; what is wrong with c is said by
// Install.
func New(c Config) *Installer {
	if c.Index == "" {
		c.Index = DefaultIndex
	}
	if c.Limit == 0 {
		c.Limit = DefaultLimit
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	in := &Installer{c: c, flight: map[string]chan struct{}{}}
	if !c.NoIndex {
		in.parseIndex()
	}
	return in
}

func (in *Installer) parseIndex() {
	u, err := url.Parse(in.c.Index)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		in.broken = tool.Errorf(tool.DependencyError, "the Python index is no URL").WithHint("Set it to an address such as %s.", DefaultIndex)
		return
	}
	if u.User != nil {
		password, _ := u.User.Password()
		in.authorization = basic(u.User.Username(), password)
		u.User = nil
		in.c.Index = u.String()
	}
	in.host = u.Host
	if u.Port() == "" {
		in.host = u.Hostname() + ":" + map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	if in.c.Index == DefaultIndex || u.Hostname() == "pypi.org" {
		in.c.Hosts = append([]string{"files.pythonhosted.org:443"}, in.c.Hosts...)
	}
}

// Request is what one tool needs.
type Request struct {
	// Dir is the tool's folder. Seen is the path under which the tool itself finds
	// it, where its sandbox shows it elsewhere; empty is Dir.
	Dir, Seen string
	// Definition adds what the tool says itself that it needs. Nil adds nothing.
	Definition *definition.Definition
	// Offline uses no network.
	Offline bool
	// Allow are packages that may be built from their source, which runs their code
	// while it is installed: a person agreed to each.
	Allow []string
	// Progress gets what is being done, from the calling goroutine or one that has
	// ended when Install returns. Nil is not told.
	Progress func(text string)
}

// Report says what there is now.
type Report struct {
	// Changed says that something was installed, or taken away.
	Changed bool
	// Env is the virtual environment in Dir, Program the Python in it, as the tool
	// sees it. A tool that needs no packages has none: Env is empty and Program the
	// Python itself.
	Env, Program string
	// Python is the one that the environment was made from: its mounts are needed
	// for Program to run.
	Python runtimes.Runtime
	// Packages are all that is installed, by name.
	Packages []Package
	Warnings []string
	// Installer is "uv" or "pip"; empty if nothing was done.
	Installer string
	Took      time.Duration
}

// Package is one that is installed.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Wheel is the file that it came from, SHA256 the sum of that.
	Wheel  string `json:"wheel,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	// Built says that it was made here from its source.
	Built bool `json:"built,omitempty"`
}

// Install makes the tool's .venv what its requirements.txt, pyproject.toml and
// definition ask for. What is so already is left alone, which takes a
// millisecond. The error is DEPENDENCY_ERROR, CANCELLED, or SANDBOX_UNAVAILABLE;
// then the environment is the one that it was before. One installation of a tool
// runs at a time.
func (in *Installer) Install(ctx context.Context, q Request) (*Report, error) {
	began := time.Now()
	if in.broken != nil {
		return nil, in.broken
	}
	dir, err := filepath.EvalSymlinks(q.Dir)
	if err != nil || !filepath.IsAbs(dir) {
		return nil, tool.Errorf(tool.DependencyError, "the tool's folder %s is not there", q.Dir)
	}
	q.Dir = dir
	release, err := in.acquire(ctx, dir)
	if err != nil {
		return nil, ended(err)
	}
	defer release()
	python, err := in.c.Runtimes.Python(ctx)
	if err != nil {
		return nil, err
	}
	need, err := read(dir, q.Definition)
	if err != nil {
		return nil, err
	}
	if err := fits(python, need.python); err != nil {
		return nil, err
	}
	job := &job{in: in, q: q, python: python, need: need, env: filepath.Join(dir, envName), seen: filepath.Join(cmp.Or(q.Seen, dir), envName)}
	report, err := job.do(ctx)
	if err != nil {
		return nil, err
	}
	report.Warnings = append(report.Warnings, need.warnings...)
	report.Took = time.Since(began)
	return report, nil
}

func fits(python runtimes.Runtime, within string) error {
	ok, err := Satisfied(python.Version, within)
	if err == nil && !ok {
		err = tool.Errorf(tool.DependencyError, "the tool requires Python %s and there is %s", within, python.Version).
			WithHint("Install such a Python and put it first on PATH.")
	}
	return err
}

// acquire waits until no other installation of that folder runs in this process.
func (in *Installer) acquire(ctx context.Context, dir string) (release func(), err error) {
	in.mu.Lock()
	turn, ok := in.flight[dir]
	if !ok {
		turn = make(chan struct{}, 1)
		in.flight[dir] = turn
	}
	in.mu.Unlock()
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// network is what an installation may reach.
func (in *Installer) network(offline bool) sandbox.Network {
	if offline || in.c.NoIndex {
		return sandbox.Network{}
	}
	entries := in.c.Hosts
	own := func(entry string) bool {
		return entry == in.host || strings.HasPrefix(entry, in.host+"=") || strings.HasPrefix(entry, hostOf(in.host)+"=")
	}
	if !slices.ContainsFunc(entries, own) {
		entries = append([]string{in.host}, entries...)
	}
	return sandbox.NetworkOf(entries)
}

// Requirements are what a tool's folder and definition ask for, for a list or a
// check. The error is DEPENDENCY_ERROR and names the file and line.
func Requirements(dir string, def *definition.Definition) ([]Requirement, []string, error) {
	need, err := read(dir, def)
	if err != nil {
		return nil, nil, err
	}
	return need.list, need.warnings, nil
}

// Problem is a requirement that what is installed does not fulfil.
type Problem struct {
	Requirement Requirement
	Installed   string // its version, empty if it is not there
}

// Check compares what is installed in a tool's .venv with what is asked for. A
// requirement with a condition counts only if its package is there.
func Check(dir string, def *definition.Definition) ([]Problem, error) {
	need, err := read(dir, def)
	if err != nil {
		return nil, err
	}
	return unfulfilled(filepath.Join(dir, envName), need), nil
}

func unfulfilled(env string, need *requirements) []Problem {
	have := map[string]string{}
	for _, p := range installedIn(env) {
		have[p.Name] = p.Version
	}
	var problems []Problem
	for _, q := range need.list {
		version, there := have[q.Name]
		if !there && q.Marker != "" {
			continue
		}
		ok, err := Satisfied(version, q.Range)
		if there && q.Range == "" {
			ok, err = true, nil
		}
		if !there || err != nil || !ok {
			problems = append(problems, Problem{q, version})
		}
	}
	return problems
}

func basic(user, password string) string { return "Basic " + encode64(user+":"+password) }

// hostOf is a host without its port.
func hostOf(hostPort string) string {
	if i := strings.LastIndexByte(hostPort, ':'); i >= 0 && !strings.HasSuffix(hostPort, "]") {
		return hostPort[:i]
	}
	return hostPort
}
