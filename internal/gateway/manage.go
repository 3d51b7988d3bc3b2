package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/tool"
)

// List gives every server, by name, those whose entries are wrong too. It starts
// none.
func (g *Gateway) List(ctx context.Context) ([]Status, error) {
	if err := g.ready(ctx); err != nil {
		return nil, err
	}
	list := []Status{}
	for _, p := range g.all() {
		list = append(list, p.status())
	}
	g.mu.Lock()
	for name, bad := range g.problems {
		list = append(list, Status{Name: name, State: Failed, From: bad.from, Problem: reason(bad.err), Cause: "its entry is wrong", Since: g.config.Now()})
	}
	g.mu.Unlock()
	slices.SortFunc(list, func(a, b Status) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

func (p *peer) status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	st := Status{
		Name: p.name, Namespace: p.entry.Prefix(p.name), Transport: p.entry.Type, Target: p.entry.target(), State: p.state, Cause: p.cause, Since: p.since,
		From: p.entry.From, Resources: len(p.seen.Resources), Prompts: len(p.seen.Prompts), Protocol: p.seen.Protocol, InFlight: p.inFlight,
	}
	for _, raw := range p.seen.Tools {
		name := textOf(raw, "name")
		if !p.entry.Tools.offers(name) {
			continue
		}
		st.Tools++
		if _, held := p.seen.held[name]; held {
			st.Withheld++
		}
	}
	if name := textOf(p.seen.Info, "name"); name != "" {
		st.Server = strings.TrimSpace(name + " " + textOf(p.seen.Info, "version"))
	}
	if p.link != nil && p.link.guest != nil {
		st.PID = p.link.guest.process.PID()
	}
	return st
}

// target is what is run or reached, as it is written: references stay, and of a
// URL the user and the query are left out.
func (s Server) target() string {
	if s.Type == transportStdio {
		return strings.Join(append([]string{s.Command}, s.Args...), " ")
	}
	u, err := url.Parse(s.URL)
	if err != nil || strings.Contains(s.URL, "${") {
		return s.URL
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// Inspect tells all that is known of a server. It does not start it.
func (g *Gateway) Inspect(ctx context.Context, name string) (Detail, error) {
	if err := g.ready(ctx); err != nil {
		return Detail{}, err
	}
	p, err := g.peer(name)
	if err != nil {
		return Detail{}, err
	}
	p.pinsAgain(ctx)
	d := Detail{Status: p.status(), Metrics: p.metrics.sum(), Log: p.log.tail(20), ToolList: []ToolInfo{}}
	if d.Entry, err = json.Marshal(p.entry.Masked()); err != nil {
		return d, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	d.Capabilities, d.Instructions, d.Notes = p.seen.Capabilities, p.seen.Instructions, slices.Clone(p.seen.notes)
	if p.link != nil && p.link.guest != nil {
		d.Sandbox = p.link.guest.confinement()
	}
	for _, raw := range p.seen.Tools {
		d.ToolList = append(d.ToolList, p.toolInfo(raw))
	}
	return d, nil
}

// Masked is an entry as it may be shown: values of the environment and of headers
// only where they are references.
func (s Server) Masked() Server {
	hide := func(m map[string]string) map[string]string {
		out := maps.Clone(m)
		for name, v := range out {
			if !reference.MatchString(v) && (secretName(name) || len(v) > 0 && s.Type != transportStdio) {
				out[name] = "•••"
			}
		}
		return out
	}
	s.Env, s.Headers = hide(s.Env), hide(s.Headers)
	if s.OAuth != nil && s.OAuth.ClientSecret != "" && !reference.MatchString(s.OAuth.ClientSecret) {
		o := *s.OAuth
		o.ClientSecret = "•••"
		s.OAuth = &o
	}
	s.URL = func() string {
		if s.URL == "" {
			return ""
		}
		return s.target()
	}()
	return s
}

// toolInfo tells of one tool. The lock is held.
func (p *peer) toolInfo(raw json.RawMessage) ToolInfo {
	name := textOf(raw, "name")
	s := read(raw)
	spec := tool.Spec{Source: p.entry.Prefix(p.name), Name: p.entry.localName(name)}
	info := ToolInfo{
		Name: name, FullName: spec.FullName(), Description: visible(s.Description), ReadOnly: s.Annotations.ReadOnly, Hidden: !p.entry.Tools.offers(name),
		Warnings: warningsOf(raw), Pinned: p.seen.pins[name].Hash,
	}
	if h, held := p.seen.held[name]; held {
		info.Quarantined = h.why
		info.Diff = diffOf(name, p.seen.pins[name].Definition, h.now)
	}
	return info
}

// Start starts a server, also one that failed too often, and waits until it can be
// used.
func (g *Gateway) Start(ctx context.Context, name string) error {
	if err := g.ready(ctx); err != nil {
		return err
	}
	p, err := g.peer(name)
	if err != nil {
		return err
	}
	p.mu.Lock()
	if p.state == Disabled {
		p.mu.Unlock()
		return tool.Errorf(tool.Conflict, "the MCP server %s is switched off by its entry in %s", name, p.entry.From).WithHint("Set enabled there.")
	}
	if p.link != nil {
		p.mu.Unlock()
		return nil
	}
	p.tries, p.next = 0, p.g.config.Now()
	a := p.begin()
	p.mu.Unlock()
	return a.wait(ctx)
}

// Missing says why a name of a tool leads nowhere, if it is one of a server that
// is not there; nil if it is not.
func (g *Gateway) Missing(name string) error {
	namespace, _, ok := strings.Cut(name, ":")
	if !ok {
		if namespace, _, ok = strings.Cut(name, "__"); !ok {
			return nil
		}
	}
	g.mu.Lock()
	peers := slices.Collect(maps.Values(g.peers))
	g.mu.Unlock()
	for _, p := range peers {
		p.mu.Lock()
		there := p.link != nil
		prefix := p.entry.Prefix(p.name)
		err := p.down()
		p.mu.Unlock()
		if prefix == namespace && !there {
			return err
		}
	}
	return nil
}

// Remote is the entry of a server that is elsewhere, with values in the place of
// references.
func (g *Gateway) Remote(ctx context.Context, name string) (Server, error) {
	if err := g.ready(ctx); err != nil {
		return Server{}, err
	}
	p, err := g.peer(name)
	if err != nil {
		return Server{}, err
	}
	if p.entry.Type == transportStdio {
		return Server{}, tool.Errorf(tool.ParameterError, "the MCP server %s is a program on this machine, which needs no log-in", name).
			WithHint("Give it what it needs in the env of its entry.")
	}
	return p.expanded(ctx)
}

// Stop ends a server and all that it started. The next call of one of its tools
// starts it again.
func (g *Gateway) Stop(ctx context.Context, name string) error {
	if err := g.ready(ctx); err != nil {
		return err
	}
	p, err := g.peer(name)
	if err != nil {
		return err
	}
	p.end(Stopped, "it was stopped", false)
	return nil
}

// Restart stops a server and starts it.
func (g *Gateway) Restart(ctx context.Context, name string) error {
	if err := g.Stop(ctx, name); err != nil {
		return err
	}
	return g.Start(ctx, name)
}

// Logs gives the last lines of what a server wrote to stderr and of what became of
// it; all that are kept if n is 0.
func (g *Gateway) Logs(_ context.Context, name string, n int) ([]string, error) {
	p, err := g.peer(name)
	if err != nil {
		return nil, err
	}
	return p.log.tail(n), nil
}

// Approve approves what a server's tools are now: those named, or all that are
// withheld. With DryRun it only tells what would be.
func (g *Gateway) Approve(ctx context.Context, name string, a Approval) ([]Approved, error) {
	if err := g.ready(ctx); err != nil {
		return nil, err
	}
	p, err := g.peer(name)
	if err != nil {
		return nil, err
	}
	p.pinsAgain(ctx)
	p.mu.Lock()
	names := slices.Sorted(maps.Keys(p.seen.held))
	if len(a.Tools) > 0 {
		for _, one := range a.Tools {
			if _, held := p.seen.held[one]; !held {
				p.mu.Unlock()
				return nil, tool.Errorf(tool.NotFound, "the MCP server %s has no tool %q that waits for approval", name, one).
					WithHint("toolyard gateway inspect %s shows those that do.", name)
			}
		}
		names = a.Tools
	}
	done := []Approved{}
	for _, one := range names {
		h := p.seen.held[one]
		done = append(done, Approved{Tool: one, Was: h.why, Diff: diffOf(one, p.seen.pins[one].Definition, h.now)})
		if !a.DryRun {
			p.seen.pins[one] = pin{Hash: hashOf(h.now), Definition: h.now, At: g.config.Now().UTC()}
		}
	}
	if !a.DryRun {
		p.judge()
	}
	p.mu.Unlock()
	if !a.DryRun && len(done) > 0 {
		p.keep(ctx, true)
		p.offer()
	}
	return done, nil
}

// Add writes an entry to the home's mcp.json and puts it in force. Notes are
// sentences about keys that have no effect.
func (g *Gateway) Add(ctx context.Context, name string, raw json.RawMessage) (notes []string, err error) {
	if _, notes, err = ParseServer(name, raw); err != nil {
		return notes, err
	}
	g.mu.Lock()
	given, fixed := g.given[name]
	g.mu.Unlock()
	if fixed {
		return notes, tool.Errorf(tool.Conflict, "the MCP server %s is in %s, which counts before what is added", name, given.From).WithHint("Change it there, or take another name.")
	}
	if err := WriteServer(ctx, FilePath(g.config.Home), name, raw); err != nil {
		return notes, err
	}
	return notes, g.renew(ctx)
}

// Remove takes an entry out of the home's mcp.json and ends the server. What was
// approved of it stays known.
func (g *Gateway) Remove(ctx context.Context, name string) error {
	g.mu.Lock()
	given, fixed := g.given[name]
	g.mu.Unlock()
	if fixed {
		return tool.Errorf(tool.Conflict, "the MCP server %s stands in %s, which is not ours to change", name, given.From).WithHint("Take it out there.")
	}
	if err := RemoveServer(ctx, FilePath(g.config.Home), name); err != nil {
		return err
	}
	return g.renew(ctx)
}

// Renew reads the home's mcp.json again, which another process may have written.
func (g *Gateway) Renew(ctx context.Context) error { return g.renew(ctx) }

// Call makes one request of a server for its operator, as it is: no permission is
// asked, so it is not for models.
func (g *Gateway) Call(ctx context.Context, name, method string, params json.RawMessage) (json.RawMessage, error) {
	if err := g.ready(ctx); err != nil {
		return nil, err
	}
	p, err := g.peer(name)
	if err != nil {
		return nil, err
	}
	if len(params) == 0 {
		params = json.RawMessage("{}")
	}
	raw, err := p.other(ctx, nil, method, method, params)
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w", method, name, err)
	}
	return raw, nil
}

// Servers gives the entries in force, by name.
func (g *Gateway) Servers() map[string]Server {
	out := map[string]Server{}
	for _, p := range g.all() {
		out[p.name] = p.entry
	}
	return out
}
