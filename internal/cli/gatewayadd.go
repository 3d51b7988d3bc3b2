package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard/internal/gateway"
	"github.com/toolyard/toolyard/internal/validate"
	"github.com/toolyard/toolyard/tool"
)

// addFlags are those of gateway add.
type addFlags struct {
	url, kind, cwd, namespace string
	passThrough, force        bool
	headers, env              []string
	network, read, write      []string
}

func newGatewayAdd(p *program) *cobra.Command {
	var f addFlags
	c := &cobra.Command{
		Use:   "add NAME -- COMMAND [ARG…] | add NAME --url URL",
		Short: "Add a server",
		Long: "Writes the server into mcp.json of the home. A command runs in the sandbox: it sees the\n" +
			"workspaces read-only, has a folder of its own, and no network beyond what --network\n" +
			"names. Values may hold ${VARIABLE} and ${secret:NAME}.",
		Example: "toolyard gateway add memory -- npx -y @modelcontextprotocol/server-memory\n" +
			"toolyard gateway add github --url https://api.githubcopilot.com/mcp/ --header 'Authorization=Bearer ${secret:GITHUB_TOKEN}'\n" +
			"toolyard gateway add search --env 'KEY=${secret:SEARCH_KEY}' --network api.example.org -- python3 server.py",
		Args: args(1, -1, "NAME, and a command behind -- or --url"),
		RunE: func(c *cobra.Command, args []string) error {
			raw, err := f.entry(args[1:], c.ArgsLenAtDash(), c.Flags().Changed("namespace"))
			if err != nil {
				return err
			}
			return p.addServer(c.Context(), args[0], raw, f.force)
		},
	}
	c.Flags().StringVar(&f.url, "url", "", "reach a server at a `URL` instead of starting one")
	c.Flags().StringVar(&f.kind, "type", "", "how: `TYPE` http, sse or ws (default: ws for a ws:// URL, else http)")
	c.Flags().StringArrayVar(&f.headers, "header", nil, "send a header, `KEY=VALUE`; repeatable")
	c.Flags().StringArrayVar(&f.env, "env", nil, "give the command a variable, `KEY=VALUE`; repeatable")
	c.Flags().StringVar(&f.cwd, "cwd", "", "start the command in `DIR`")
	c.Flags().StringVar(&f.namespace, "namespace", "", "the `NAME` before its tools' names (default: the server's)")
	c.Flags().BoolVar(&f.passThrough, "pass-through", false, "offer its tools under their own names")
	c.Flags().StringArrayVar(&f.network, "network", nil, "let the command reach a `HOST`; repeatable")
	c.Flags().StringArrayVar(&f.read, "read", nil, "let the command read a `DIR`; repeatable")
	c.Flags().StringArrayVar(&f.write, "write", nil, "let the command change a `DIR`; repeatable")
	c.Flags().BoolVar(&f.force, "force", false, "replace a server of this name")
	return c
}

// entry is the flags as an entry of mcpServers.
func (f *addFlags) entry(command []string, dash int, named bool) (json.RawMessage, error) {
	switch {
	case (f.url != "") == (len(command) > 0):
		return nil, usagef("gateway add needs a command behind --, or --url").withHint("toolyard gateway add NAME -- npx -y PACKAGE")
	case len(command) > 0 && dash != 1:
		return nil, usagef("the command stands behind --").withHint("toolyard gateway add NAME -- %s", oneLine(strings.Join(command, " "), 80))
	case f.passThrough && named:
		return nil, usagef("--pass-through and --namespace do not go together")
	case f.url == "" && (f.kind != "" || len(f.headers) > 0):
		return nil, usagef("--type and --header need --url")
	case f.url != "" && (len(f.env)+len(f.network)+len(f.read)+len(f.write) > 0 || f.cwd != ""):
		return nil, usagef("--env, --cwd, --network, --read and --write are for a command")
	}
	if err := oneOf("type", f.kind, "http", "sse", "ws"); err != nil {
		return nil, err
	}
	headers, err := pairs("header", f.headers)
	if err != nil {
		return nil, err
	}
	env, err := pairs("env", f.env)
	if err != nil {
		return nil, err
	}
	entry := gatewayEntry{Type: f.kind, URL: f.url, Headers: headers, Env: env, Cwd: f.cwd}
	if len(command) > 0 {
		entry.Command, entry.Args = command[0], command[1:]
	}
	if named || f.passThrough {
		entry.Namespace = &f.namespace
	}
	if len(f.network)+len(f.read)+len(f.write) > 0 {
		entry.Sandbox = &entrySandbox{f.read, f.write, f.network}
	}
	return json.Marshal(entry)
}

// gatewayEntry is an entry of mcpServers as it is written: only what was said.
type gatewayEntry struct {
	Type      string            `json:"type,omitempty"`
	Command   string            `json:"command,omitempty"`
	Args      []string          `json:"args,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	Cwd       string            `json:"cwd,omitempty"`
	URL       string            `json:"url,omitempty"`
	Headers   map[string]string `json:"headers,omitempty"`
	Namespace *string           `json:"namespace,omitempty"`
	Enabled   *bool             `json:"enabled,omitempty"`
	Sandbox   *entrySandbox     `json:"sandbox,omitempty"`
}

type entrySandbox struct {
	Read    []string `json:"read,omitempty"`
	Write   []string `json:"write,omitempty"`
	Network []string `json:"network,omitempty"`
}

// addServer writes an entry into the home's file.
func (p *program) addServer(ctx context.Context, name string, raw json.RawMessage, force bool) error {
	settings, err := p.settings(openOptions{noWorkspace: true}, nil)
	if err != nil {
		return err
	}
	path := gateway.FilePath(settings.Home)
	server, notes, err := gateway.ParseServer(name, raw)
	if err != nil {
		return usageOf(err)
	}
	parsed, err := gateway.ReadFile(path)
	if err != nil {
		return err
	}
	_, there := parsed.Servers[name]
	if _, broken := parsed.Errs[name]; (there || broken) && !force {
		return tool.Errorf(tool.Conflict, "there is an MCP server %q already", name).WithHint("Add --force to replace it, or choose another name.")
	}
	if err := gateway.WriteServer(ctx, path, name, raw); err != nil {
		return err
	}
	p.tellGateways(ctx, settings.Home)
	if p.flags.json {
		return p.printJSON(map[string]any{"name": name, "entry": raw, "path": path, "replaced": there, "notes": notes})
	}
	for _, note := range notes {
		p.note("note: %s", note)
	}
	fmt.Fprintf(p.stdout, "%s is added: %s\n", p.out.cyan(name), printable(oneLine(target(server), 100)))
	p.note("In %s. Its tools are called %s.", path, toolsOf(server, name))
	return nil
}

func toolsOf(s gateway.Server, name string) string {
	if prefix := s.Prefix(name); prefix != "" {
		return prefix + ":TOOL"
	}
	return "as it calls them"
}

// usageOf makes a wrong entry that came from flags a wrong command line.
func usageOf(err error) error {
	if e := tool.AsError(err); e != nil && e.Code == tool.ValidationError {
		return usagef("%s", withFaults(e)).withHint("%s", "Correct the flags; `toolyard gateway add --help` shows examples.")
	}
	return err
}

func newGatewayRemove(p *program) *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Short: "Take a server out of mcp.json of the home", Example: "toolyard gateway remove memory", Args: args(1, 1, "NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			settings, err := p.settings(openOptions{noWorkspace: true}, nil)
			if err != nil {
				return err
			}
			path := gateway.FilePath(settings.Home)
			parsed, err := gateway.ReadFile(path)
			if err != nil {
				return err
			}
			_, there := parsed.Servers[args[0]]
			if _, broken := parsed.Errs[args[0]]; !there && !broken {
				return noServer(path, args[0], slices.Concat(slices.Sorted(maps.Keys(parsed.Servers)), slices.Sorted(maps.Keys(parsed.Errs))))
			}
			if err := gateway.RemoveServer(c.Context(), path, args[0]); err != nil {
				return unknownServer(err)
			}
			p.tellGateways(c.Context(), settings.Home)
			if p.flags.json {
				return p.printJSON(map[string]any{"name": args[0], "removed": true, "path": path})
			}
			_, err = fmt.Fprintf(p.stdout, "%s is removed; its folder %s is kept\n", args[0], filepath.Join(settings.Home, "gateway", args[0]))
			return err
		},
	}
}

// noServer says that a server is not in a file, with the nearest name.
func noServer(path, name string, names []string) error {
	e := &missing{what: fmt.Sprintf("there is no MCP server %q in %s", oneLine(name, 60), path), hint: "`toolyard gateway list --json` shows where each one stands."}
	if near, ok := validate.Nearest(name, names); ok {
		e.hint = "Did you mean " + near + "?"
	}
	return e
}
