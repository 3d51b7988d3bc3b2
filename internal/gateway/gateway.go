package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/registry"
	"github.com/toolyard/toolyard/internal/validate"
	"github.com/toolyard/toolyard/tool"
)

// Gateway is the other MCP servers. It is safe for concurrent use.
type Gateway struct {
	config Config
	log    *slog.Logger

	background context.Context // of all that servers do
	stop       context.CancelFunc
	work       sync.WaitGroup
	loaded     chan struct{}
	loading    sync.Once

	mu             sync.Mutex
	peers          map[string]*peer
	given          map[string]Server // of the configuration
	problems       map[string]problem
	clashes        map[string]bool
	level          string
	onChange       []func(kind string)
	onNotification []func(hears func(may func(*tool.Spec) bool) bool, method string, params json.RawMessage)
	onServers      func(added, removed []registry.Source)
	closed         bool
}

// problem is an entry that cannot be used.
type problem struct {
	err  error
	from string
}

// New makes a Gateway of the configuration's servers and those of the home's
// mcp.json. It starts nothing. A bad entry is no error: it is listed with what is
// wrong.
func New(c Config) (*Gateway, error) {
	if c.Home == "" {
		return nil, fmt.Errorf("a gateway needs a home")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.HTTP == nil {
		c.HTTP = http.DefaultClient
	}
	if len(c.Info) == 0 {
		c.Info = json.RawMessage(`{"name":"toolyard","version":"0"}`)
	}
	c.Workspaces = slices.Clone(c.Workspaces)
	g := &Gateway{config: c, log: c.Log, loaded: make(chan struct{}), peers: map[string]*peer{}, given: maps.Clone(c.Servers), clashes: map[string]bool{}}
	g.background, g.stop = context.WithCancel(context.Background())
	servers, err := g.configured()
	if err != nil {
		g.log.Warn("MCP servers", "error", err)
	}
	for name, s := range servers {
		g.peers[name] = newPeer(g, name, s)
	}
	return g, nil
}

// configured are the servers that there should be: the configuration's, and
// those of the file that Add writes.
func (g *Gateway) configured() (map[string]Server, error) {
	own := FilePath(g.config.Home)
	parsed, err := ReadFile(own)
	servers := map[string]Server{}
	problems := map[string]problem{}
	maps.Copy(servers, parsed.Servers)
	for name, bad := range parsed.Errs {
		problems[name] = problem{bad, own}
		g.log.Warn("MCP server left out", "server", name, "from", own, "error", bad)
	}
	for _, note := range parsed.Notes {
		g.log.Info("MCP server", "from", own, "note", note)
	}
	for name, s := range g.given {
		if _, twice := servers[name]; twice {
			g.log.Warn("an MCP server is named twice; the configuration's counts", "server", name, "left_out", own, "from", s.From)
		}
		servers[name] = s
		delete(problems, name)
	}
	for name, s := range servers {
		if g.config.Check == nil {
			break
		}
		if err := g.config.Check(name, s); err != nil {
			problems[name] = problem{err, s.From}
			delete(servers, name)
			g.log.Warn("MCP server left out", "server", name, "from", s.From, "error", err)
		}
	}
	g.problems = problems
	return servers, err
}

// all gives the servers by name.
func (g *Gateway) all() []*peer {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := make([]*peer, 0, len(g.peers))
	for _, name := range slices.Sorted(maps.Keys(g.peers)) {
		list = append(list, g.peers[name])
	}
	return list
}

// peer finds a server, or names the nearest.
func (g *Gateway) peer(name string) (*peer, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p := g.peers[name]; p != nil {
		return p, nil
	}
	err := tool.Errorf(tool.NotFound, "there is no MCP server %q", name)
	if bad, ok := g.problems[name]; ok {
		return nil, bad.err
	}
	if best, near := validate.Nearest(name, slices.Sorted(maps.Keys(g.peers))); near {
		return nil, err.WithHint("Did you mean %s? toolyard gateway list shows all.", best)
	}
	return nil, err.WithHint("toolyard gateway list shows all.")
}

// Sources are the servers as the registry takes them.
func (g *Gateway) Sources() []registry.Source {
	var list []registry.Source
	for _, p := range g.all() {
		list = append(list, p.source)
	}
	return list
}

// OnServers registers what is called when servers came or went, so that their
// sources do.
func (g *Gateway) OnServers(f func(added, removed []registry.Source)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.onServers = f
}

// ready waits until what earlier processes learned has been read.
func (g *Gateway) ready(ctx context.Context) error {
	g.loading.Do(func() {
		g.work.Go(func() {
			defer close(g.loaded)
			if g.config.Ready != nil && g.config.Ready(g.background) != nil {
				return
			}
			for _, p := range g.all() {
				p.begun(g.background)
			}
		})
	})
	select {
	case <-g.loaded:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// begun reads what is known of a server. What cannot be read withholds nothing
// that was not approved: the server is out of use.
func (p *peer) begun(ctx context.Context) {
	if err := p.load(ctx); err != nil {
		p.g.log.Error("MCP server", "server", p.name, "error", err)
		p.mu.Lock()
		p.to(Failed, reason(err))
		p.mu.Unlock()
	}
}

// Run starts servers that have never been seen, if Config.Discover says so, and
// returns when ctx is done.
func (g *Gateway) Run(ctx context.Context) {
	if g.ready(ctx) != nil {
		return
	}
	if g.config.Discover {
		g.Discover(ctx)
	}
	<-ctx.Done()
}

// discovering is how many servers are started together that nobody asked for.
const discovering = 3

// Discover starts servers that have never been seen, so that their tools are
// known, and waits until each is or has failed.
func (g *Gateway) Discover(ctx context.Context) {
	if g.ready(ctx) != nil {
		return
	}
	var starts sync.WaitGroup
	turns := make(chan struct{}, discovering)
	for _, p := range g.all() {
		turns <- struct{}{}
		starts.Go(func() {
			defer func() { <-turns }()
			g.discover(ctx, p)
		})
	}
	starts.Wait()
}

func (g *Gateway) discover(ctx context.Context, p *peer) {
	p.mu.Lock()
	unknown := p.seen.At.IsZero() && p.state == Stopped && !p.closed
	var a *attempt
	if unknown {
		a = p.begin()
	}
	p.mu.Unlock()
	if a != nil {
		_ = a.wait(ctx) // what failed is in its state
	}
}

// Close stops all servers and returns when nothing of them is left.
func (g *Gateway) Close(context.Context) error {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	var ends sync.WaitGroup
	for _, p := range g.all() {
		ends.Go(func() { p.end(Stopped, "toolyard ends", true) })
	}
	ends.Wait()
	g.stop()
	g.work.Wait()
	return nil
}

// Reload makes the servers those of another configuration, and of the home's
// mcp.json as it is now. One whose entry is the same goes on running.
func (g *Gateway) Reload(ctx context.Context, servers map[string]Server) error {
	g.mu.Lock()
	g.given = maps.Clone(servers)
	g.mu.Unlock()
	return g.renew(ctx)
}

func (g *Gateway) renew(ctx context.Context) error {
	if err := g.ready(ctx); err != nil {
		return err
	}
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return errors.New("the gateway is closed")
	}
	servers, err := g.configured()
	if err != nil {
		g.mu.Unlock()
		return err
	}
	var gone, come []*peer
	for name, p := range g.peers {
		if s, stays := servers[name]; !stays || !equal(p.entry, s) {
			gone = append(gone, p)
			delete(g.peers, name)
		}
	}
	for name, s := range servers {
		if g.peers[name] == nil {
			p := newPeer(g, name, s)
			g.peers[name] = p
			come = append(come, p)
		}
	}
	tell := g.onServers
	g.mu.Unlock()
	var ends sync.WaitGroup
	for _, p := range gone {
		ends.Go(func() { p.end(Stopped, "its entry changed", true) })
	}
	ends.Wait()
	for _, p := range come {
		p.begun(ctx)
	}
	if tell != nil && len(gone)+len(come) > 0 {
		tell(sourcesOf(come), sourcesOf(gone))
	}
	if len(gone)+len(come) > 0 {
		g.changed("resources")
		g.changed("prompts")
	}
	if g.config.Discover {
		for _, p := range come {
			g.work.Go(func() { g.discover(g.background, p) })
		}
	}
	return nil
}

func sourcesOf(list []*peer) []registry.Source {
	var out []registry.Source
	for _, p := range list {
		out = append(out, p.source)
	}
	return out
}

func equal(a, b Server) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y) && a.Workspace == b.Workspace
}

// homeOf is the home of a server's processes, made if it is not there.
func (g *Gateway) homeOf(name string) (string, error) {
	home := filepath.Join(g.config.Home, "gateway", name, "home")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return "", fmt.Errorf("home of the MCP server %s: %w", name, err)
	}
	return filepath.EvalSymlinks(home)
}

func (g *Gateway) logPath(name string) string {
	return filepath.Join(g.config.Home, "gateway", name, "server.log")
}

// workspaces are those that a server may see: all, or that of the project whose
// file named it.
func (g *Gateway) workspaces(s Server) []string {
	if s.Workspace != "" {
		return []string{s.Workspace}
	}
	return g.config.Workspaces
}

func (g *Gateway) expandHome(path string) string {
	if g.config.UserHome != "" && (path == "~" || strings.HasPrefix(path, "~/")) {
		return filepath.Join(g.config.UserHome, path[1:])
	}
	return path
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// tellState publishes that a server's state changed.
func (g *Gateway) tellState(name string, from, to State, cause string) {
	level := slog.LevelDebug
	if to == Failed || to == Degraded {
		level = slog.LevelWarn
	}
	g.log.Log(context.Background(), level, "MCP server", "server", name, "state", to, "cause", cause)
	if g.config.Bus != nil {
		g.config.Bus.Publish(tool.Event{Type: EventState, Data: map[string]any{"server": name, "from": string(from), "to": string(to), "cause": cause}})
	}
}
