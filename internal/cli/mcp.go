package cli

import (
	"context"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/garbage"
)

func newMCP(p *program) *cobra.Command {
	return &cobra.Command{
		Use:   "mcp",
		Short: "Serve MCP over stdio: what an agent's client starts",
		Long: "Serves the Model Context Protocol on stdin and stdout until stdin ends. It is not\n" +
			"meant to be typed: `toolyard connect` puts it into the configuration of your client.\n\n" +
			"  {\"mcpServers\": {\"toolyard\": {\"command\": \"toolyard\",\n" +
			"    \"args\": [\"mcp\", \"--workspace\", \"/path/to/project\"]}}}",
		Example: "toolyard connect claude-code                 write it into a client's configuration\n" +
			"claude mcp add toolyard -- toolyard mcp --workspace .\n" +
			"toolyard mcp --mode plan                    an agent that only looks",
		Args: args(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error { return p.mcp(c.Context()) },
	}
}

func (p *program) mcp(ctx context.Context) error {
	if p.inTTY {
		p.note("This speaks MCP on stdin and stdout and waits for a client. `toolyard demo` shows what it does; Ctrl-C ends it.")
	}
	// A client waits for the first answer, which needs no record.
	y, err := p.open(ctx, openOptions{keepJobs: true, serving: true, later: true})
	if err != nil {
		return err
	}
	defer y.close()
	defer y.listenForJobs(ctx)()
	garbage.TrimSoon()
	return served(ctx, y.ServeMCP(ctx, p.stdin, p.stdout))
}

// listenForJobs lets `toolyard jobs` reach the jobs of this runtime, until the
// function it returns is called.
func (y *yard) listenForJobs(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := y.ServeJobs(ctx, jobSocket(y.home, os.Getpid())); err != nil && ctx.Err() == nil {
			y.config.Log.Warn("`toolyard jobs` cannot reach the jobs of this process", "err", err)
		}
	}()
	return func() { cancel(); <-done }
}

// jobSocket is where the runtime with a process id listens.
func jobSocket(home string, pid int) string {
	return filepath.Join(home, "run", strconv.Itoa(pid)+".sock")
}

func newServe(p *program) *cobra.Command {
	var o toolyard.ServeConfig
	c := &cobra.Command{
		Use:   "serve [--addr HOST:PORT] [--auth token|oauth|none] [--tls-cert FILE --tls-key FILE]",
		Short: "Serve MCP and the API over HTTP",
		Long: "Serves MCP at /mcp and the API at /api/v1 until it is ended. The first line on stdout\n" +
			"is {\"url\": …, \"token_file\": …}; callers send the token as \"Authorization: Bearer\",\n" +
			"or an API key (toolyard keys). An address that others can reach needs a certificate.\n" +
			"No directory is served until --workspace names one.",
		Example: "toolyard serve --workspace ~/src/app\n" +
			"curl -H \"Authorization: Bearer $(cat ~/.toolyard/token)\" http://127.0.0.1:8765/api/v1/tools",
		Args: args(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Auth != "" {
				if err := oneOf("auth", o.Auth, "token", "oauth", "none"); err != nil {
					return err
				}
			}
			if _, _, err := net.SplitHostPort(o.Addr); err != nil {
				return usagef("--addr does not take %q", oneLine(o.Addr, 80)).withHint("Write HOST:PORT; 127.0.0.1:0 picks a port.")
			}
			if (o.Certificate == "") != (o.PrivateKey == "") {
				return usagef("--tls-cert and --tls-key belong together")
			}
			return p.serve(c.Context(), o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.Addr, "addr", "127.0.0.1:8765", "where to listen (`HOST:PORT`); port 0 picks one")
	f.StringVar(&o.Auth, "auth", "", "`WHO` may call: token (the default), oauth (auth.issuer of the configuration), or none (only on a loopback address)")
	f.StringVar(&o.Certificate, "tls-cert", "", "speak HTTPS with the certificate in this `FILE` (PEM)")
	f.StringVar(&o.PrivateKey, "tls-key", "", "its private key, a `FILE` (PEM)")
	f.BoolVar(&o.InsecureHTTP, "insecure-http", false, "speak plain HTTP on an address that others can reach: behind a proxy that does TLS")
	return c
}

func (p *program) serve(ctx context.Context, o toolyard.ServeConfig) error {
	y, err := p.open(ctx, openOptions{keepJobs: true, serving: true, noWorkspace: true, chatty: true})
	if err != nil {
		return err
	}
	defer y.close()
	defer y.listenForJobs(ctx)()
	defer p.reloadOnHangup(ctx, y)()
	if y.workspace == "" {
		p.note("No workspace is named, so file tools and bash are refused: add --workspace DIR.")
	}
	o.Listening = func(url, tokenFile string) {
		line := struct {
			URL       string `json:"url"`
			TokenFile string `json:"token_file,omitempty"`
		}{url, tokenFile}
		if err := p.printJSON(line); err != nil {
			y.config.Log.Error("the first line could not be written", "err", err)
		}
		if p.errTTY {
			p.note("MCP at %s/mcp, API at %s/api/v1. Ctrl-C ends it.", url, url)
		}
	}
	garbage.TrimSoon()
	return served(ctx, y.Serve(ctx, o))
}

// reloadOnHangup reads the configuration again at each SIGHUP, until the
// function it returns is called. A configuration that is wrong changes nothing.
func (p *program) reloadOnHangup(ctx context.Context, y *yard) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-hangups:
				p.reload(ctx, y)
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		signal.Stop(hangups)
		cancel()
		<-done
	}
}

func (p *program) reload(ctx context.Context, y *yard) {
	log := y.config.Log
	settings, err := p.settings(openOptions{noWorkspace: true}, trustedIn(ctx, y.store))
	var restart []string
	if err == nil {
		restart, err = y.Reload(ctx, settings.Config)
	}
	switch {
	case err != nil:
		what, _ := words(err)
		log.Error("the configuration is not reloaded", "err", what)
	case len(restart) > 0:
		log.Warn("the configuration is reloaded, but some of it takes a new start", "settings", strings.Join(restart, ", "))
	default:
		log.Info("the configuration is reloaded")
	}
}
