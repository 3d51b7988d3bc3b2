package toolyard

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/toolyard/toolyard/internal/gateway"
	"github.com/toolyard/toolyard/internal/policy"
	"github.com/toolyard/toolyard/internal/registry"
	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/toolbox/runtimes"
	"github.com/toolyard/toolyard/tool"
)

// openGateway makes the gateway to other MCP servers. None is started yet.
func (t *Toolyard) openGateway() error {
	c := t.config.MCP
	if !c.On {
		return nil
	}
	config := gateway.Config{
		Home: t.config.Home, Servers: c.Servers, Check: checkServer, Workspaces: t.workspaces.names(), Runner: t.sandbox,
		Protected: t.confine.protected, Path: t.config.Path, UserHome: t.config.UserHome,
		Deny: func(workspace string) ([]string, error) { return t.confine.denied([]string{workspace}, workspace) },
		Node: func(ctx context.Context) (string, error) {
			in, err := t.installers()
			if err != nil {
				return "", err
			}
			rt, err := in.runtimes.Node(ctx)
			return rt.Program, err
		},
		PythonMounts: func(rt runtimes.Runtime) []sandbox.Mount {
			in, err := t.installers()
			if err != nil {
				return nil
			}
			return in.runtimes.Mounts(rt)
		},
		Settings: t.store, Ready: t.ready, Bus: t.bus, Env: variables(c.Environ), Secret: c.Secret, Auth: t.authorize, Discover: c.Discover,
		Conceal: func(server string, values map[string]string) { t.conceal("mcp:"+server, values) },
		Redact:  t.redactor.String, Info: clientInfo(), Log: t.log,
	}
	if config.Secret == nil {
		config.Secret = t.secretOf
	}
	in, err := t.installers()
	if err != nil {
		t.log.Warn("packages of MCP servers cannot be fetched", "error", err)
	} else {
		config.JavaScript, config.Python = in.copied, in.python
	}
	if t.gateway, err = gateway.New(config); err != nil {
		return err
	}
	t.bridged = make(chan struct{})
	t.foreign = registry.NewComposite(t.registry, t.reportTools)
	for _, source := range t.gateway.Sources() {
		t.foreign.Add(source)
	}
	t.gateway.OnServers(func(added, removed []registry.Source) {
		for _, s := range removed {
			if err := t.foreign.Remove(t.background, s.Name()); err != nil && t.background.Err() == nil {
				t.log.Warn("MCP server", "server", s.Name(), "error", err)
			}
		}
		for _, s := range added {
			t.foreign.Add(s)
		}
		t.foreign.Sync(t.background)
		t.judgeServers(t.background)
	})
	return nil
}

// variables looks up NAME=value pairs, but for those that are ours alone.
func variables(environ []string) func(name string) (string, bool) {
	return func(name string) (string, bool) {
		if name == masterKey || name == "TOOLYARD_TOKEN" {
			return "", false
		}
		return lookup(environ, name)
	}
}

func lookup(environ []string, name string) (string, bool) {
	for _, pair := range environ {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// clientInfo is what servers are told of us.
func clientInfo() json.RawMessage {
	raw, err := json.Marshal(map[string]string{"name": "toolyard", "title": "Toolyard", "version": Version})
	if err != nil {
		return nil
	}
	return raw
}

// beginGateway registers the tools of servers that are known and keeps them
// current.
func (t *Toolyard) beginGateway() {
	if t.gateway == nil {
		return
	}
	t.work.Go(func() {
		if t.ready(t.background) != nil {
			close(t.bridged)
			return
		}
		t.judgeServers(t.background)
		t.foreign.Sync(t.background)
		close(t.bridged)
		t.foreign.Run(t.background)
	})
}

// discover starts servers that have never been seen, once there is somebody to
// show their tools to.
func (t *Toolyard) discover() {
	if t.gateway != nil && t.background.Err() == nil {
		t.discovery.Do(func() { t.work.Go(func() { t.gateway.Run(t.background) }) })
	}
}

// awaitGateway waits until the servers' known tools are registered. It waits for
// no server.
func (t *Toolyard) awaitGateway(ctx context.Context) {
	if t.gateway == nil {
		return
	}
	select {
	case <-t.bridged:
	case <-ctx.Done():
	}
}

// awaitServer starts a server that a call may mean and whose tools nobody knows.
func (t *Toolyard) awaitServer(ctx context.Context, name string) {
	if t.gateway == nil {
		return
	}
	t.awaitGateway(ctx)
	if _, known := t.registry.Lookup(name, "", ""); known {
		return
	}
	for server, entry := range t.gateway.Servers() {
		prefix := entry.Prefix(server)
		if !entry.On() || prefix == "" || !strings.HasPrefix(name, prefix+":") && !strings.HasPrefix(name, prefix+"__") && !strings.HasPrefix(name, "mcp__"+prefix+"__") {
			continue
		}
		if err := t.gateway.Start(ctx, server); err == nil {
			t.foreign.Sync(ctx)
		}
	}
}

// awaitServers waits until every server that has never been seen has been asked
// what it offers, or cannot be.
func (t *Toolyard) awaitServers(ctx context.Context) {
	if t.gateway == nil {
		return
	}
	t.awaitGateway(ctx)
	t.gateway.Discover(ctx)
	t.foreign.Sync(ctx)
}

// Gateway is the other MCP servers; nil without [MCP.On].
func (t *Toolyard) Gateway() *gateway.Gateway { return t.gateway }

func (t *Toolyard) closeGateway(ctx context.Context) error {
	if t.gateway == nil {
		return nil
	}
	return t.gateway.Close(ctx)
}

// reloadGateway puts the servers of another Config in force.
func (t *Toolyard) reloadGateway(ctx context.Context, c Config) error {
	if t.gateway == nil {
		return nil
	}
	return t.gateway.Reload(ctx, c.MCP.Servers)
}

// judgeServers puts the rules of the servers' entries in force.
func (t *Toolyard) judgeServers(ctx context.Context) {
	var rules []policy.Rule
	for name, s := range t.gateway.Servers() {
		of, err := serverRules(name, s)
		if err != nil { // checkServer let it pass
			t.log.Error("rules of an MCP server", "server", name, "error", err)
		}
		rules = append(rules, of...)
	}
	if err := t.rules.setServers(ctx, rules); err != nil && ctx.Err() == nil {
		t.log.Error("rules of MCP servers", "error", err)
	}
}

// checkServer refuses an entry with rules that are none.
func checkServer(name string, s gateway.Server) error {
	_, err := serverRules(name, s)
	return err
}

// serverRules are the rules of an entry, with the server's name in front.
func serverRules(name string, s gateway.Server) ([]policy.Rule, error) {
	scope := policy.User
	if s.Workspace != "" {
		scope = policy.Project
	}
	var rules []policy.Rule
	for _, group := range []struct {
		action tool.Action
		texts  []string
	}{{tool.Allow, s.Permissions.Allow}, {tool.Ask, s.Permissions.Ask}, {tool.Deny, s.Permissions.Deny}} {
		for _, text := range group.texts {
			prefix := s.Prefix(name)
			if prefix != "" && !strings.HasPrefix(text, prefix+":") {
				text = prefix + ":" + text
			}
			r, err := policy.ParseRule(group.action, text, scope, "mcpServers."+name)
			if err != nil {
				return nil, err
			}
			rules = append(rules, r)
		}
	}
	return rules, nil
}
