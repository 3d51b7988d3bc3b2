package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard/internal/gateway"
	"github.com/toolyard/toolyard/tool"
)

// serverTimeout is how long a runtime may take to start or stop a server: as long
// as a start may take, and a little more.
const serverTimeout = 2 * time.Minute

func newGateway(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:   "gateway COMMAND",
		Short: "Other MCP servers, whose tools are offered as ours",
		Long: "Servers are entries of mcpServers: in config.yaml, or in mcp.json of the home, which\n" +
			"`add` and `import` write. Each runs in the sandbox, is started when it is first needed,\n" +
			"and its tools are called SERVER:TOOL. They belong to the `mcp` or `serve` that started\n" +
			"them: list, start, stop, restart, logs and approve speak to every one that runs.",
		Example: "toolyard gateway add memory -- npx -y @modelcontextprotocol/server-memory\n" +
			"toolyard gateway import claude-code --dry-run\n" +
			"toolyard gateway list",
		RunE: p.noCommand,
		Args: cobra.ArbitraryArgs,
	}
	c.AddCommand(
		newGatewayAdd(p), newGatewayImport(p), newGatewayList(p), newGatewayInspect(p),
		newGatewayAct(p, "start", "Start a server, or try a failed one again"), newGatewayAct(p, "stop", "Stop a server with everything it has started"),
		newGatewayAct(p, "restart", "Stop a server and start it again"), newGatewayLogs(p), newGatewayApprove(p), newGatewayLogin(p), newGatewayRemove(p),
	)
	return c
}

// gatewayRoute is a path of the API's gateway part.
func gatewayRoute(elements ...string) string {
	path := "/gateway"
	for _, e := range elements {
		path += "/" + url.PathEscape(e)
	}
	return path
}

// gatewayDoor is what the commands ask of a gateway: that of a running runtime, or
// one made for this command.
type gatewayDoor interface {
	List(ctx context.Context) ([]gateway.Status, error)
	Inspect(ctx context.Context, name string) (gateway.Detail, error)
	Start(ctx context.Context, name string) error
	Stop(ctx context.Context, name string) error
	Restart(ctx context.Context, name string) error
	Logs(ctx context.Context, name string, n int) ([]string, error)
	Approve(ctx context.Context, name string, a gateway.Approval) ([]gateway.Approved, error)
}

var (
	_ gatewayDoor = (*gateway.Gateway)(nil)
	_ gatewayDoor = remoteGateway{}
)

// door is a gateway with the process it is in; 0 is this one, which knows what is
// configured and recorded and starts nothing.
type door struct {
	pid int
	gatewayDoor
}

// remoteGateway is that of a running runtime, asked over its socket.
type remoteGateway struct{ client *jobClient }

func (r remoteGateway) List(ctx context.Context) ([]gateway.Status, error) {
	var answer struct {
		Servers []gateway.Status `json:"servers"`
	}
	err := r.client.call(ctx, http.MethodGet, gatewayRoute(), nil, &answer)
	return answer.Servers, err
}

func (r remoteGateway) Inspect(ctx context.Context, name string) (d gateway.Detail, err error) {
	return d, r.client.call(ctx, http.MethodGet, gatewayRoute(name), nil, &d)
}

func (r remoteGateway) Start(ctx context.Context, name string) error {
	return r.client.call(ctx, http.MethodPost, gatewayRoute(name, "start"), nil, nil)
}

func (r remoteGateway) Stop(ctx context.Context, name string) error {
	return r.client.call(ctx, http.MethodPost, gatewayRoute(name, "stop"), nil, nil)
}

func (r remoteGateway) Restart(ctx context.Context, name string) error {
	return r.client.call(ctx, http.MethodPost, gatewayRoute(name, "restart"), nil, nil)
}

func (r remoteGateway) Logs(ctx context.Context, name string, n int) ([]string, error) {
	var answer struct {
		Lines []string `json:"lines"`
	}
	err := r.client.call(ctx, http.MethodGet, fmt.Sprintf("%s?lines=%d", gatewayRoute(name, "logs"), n), nil, &answer)
	return answer.Lines, err
}

func (r remoteGateway) Approve(ctx context.Context, name string, a gateway.Approval) ([]gateway.Approved, error) {
	var answer struct {
		Tools []gateway.Approved `json:"tools"`
	}
	err := r.client.call(ctx, http.MethodPost, gatewayRoute(name, "approve"), a, &answer)
	return answer.Tools, err
}

// serverState is a server, with the process of the runtime that has it.
type serverState struct {
	Runtime int `json:"runtime,omitempty"`
	gateway.Status
}

// running finds the runtimes of a home that have a gateway.
func running(ctx context.Context, home string) []door {
	var found []door
	sockets, _ := filepath.Glob(filepath.Join(home, "run", "*.sock")) // the pattern is correct
	for _, socket := range sockets {
		pid, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(socket), ".sock"))
		if err != nil {
			continue
		}
		client := newJobClient(home, pid)
		client.http.Timeout = serverTimeout
		look, cancel := context.WithTimeout(ctx, jobTimeout)
		_, err = remoteGateway{client}.List(look)
		cancel()
		if err == nil {
			found = append(found, door{pid, remoteGateway{client}})
		}
	}
	slices.SortFunc(found, func(a, b door) int { return a.pid - b.pid })
	return found
}

// gateways gives those of the runtimes that run, or if there is none one of this
// process. The caller closes them.
func (p *program) gateways(ctx context.Context) (doors []door, closeAll func(), err error) {
	settings, err := p.settings(openOptions{}, nil)
	if err != nil {
		return nil, nil, err
	}
	if doors = running(ctx, settings.Home); len(doors) > 0 {
		return doors, func() {}, nil
	}
	local, closeAll, err := p.ownGateway(ctx)
	if err != nil {
		return nil, nil, err
	}
	return []door{{0, local}}, closeAll, nil
}

// ownGateway makes a gateway that knows what is configured and what was recorded.
func (p *program) ownGateway(ctx context.Context) (*gateway.Gateway, func(), error) {
	settings, db, err := p.record(ctx, openOptions{})
	if err != nil {
		return nil, nil, err
	}
	// Entries that are wrong are in the list, so nothing is logged of them.
	g, err := gateway.New(gateway.Config{
		Home: settings.Home, Servers: settings.Config.MCP.Servers, Settings: db, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return g, func() {
		_ = g.Close(context.WithoutCancel(ctx)) // nothing was started
		_ = db.Close()                          // it was only read, or has synced what was approved
	}, nil
}

// tellGateways makes every runtime read its servers again.
func (p *program) tellGateways(ctx context.Context, home string) {
	for _, d := range running(ctx, home) {
		remote := d.gatewayDoor.(remoteGateway)
		if err := remote.client.call(ctx, http.MethodPost, gatewayRoute("reload"), nil, nil); err != nil {
			p.note("Process %d does not know of it: %v. It does after a new start.", d.pid, err)
		}
	}
}

// unknownServer turns NOT_FOUND of a runtime into what ends with exit code 4.
func unknownServer(err error) error {
	if e := tool.AsError(err); e != nil && e.Code == tool.NotFound {
		return &missing{e.Message, e.Hint}
	}
	return err
}

func target(s gateway.Server) string {
	if s.URL != "" {
		return s.URL
	}
	return strings.Join(append([]string{s.Command}, s.Args...), " ")
}

func newGatewayList(p *program) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the servers and how they are", Args: args(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			doors, done, err := p.gateways(c.Context())
			if err != nil {
				return err
			}
			defer done()
			var states []serverState
			for _, d := range doors {
				list, err := d.List(c.Context())
				if err != nil {
					return err
				}
				for _, s := range list {
					states = append(states, serverState{d.pid, s})
				}
			}
			return p.printServers(states, doors)
		},
	}
}

func (p *program) printServers(states []serverState, doors []door) error {
	if p.flags.json {
		if states == nil {
			states = []serverState{}
		}
		return p.printJSON(states)
	}
	if len(states) == 0 {
		p.note("There are no servers. `toolyard gateway add NAME -- COMMAND` adds one, `import` those of a client.")
		return nil
	}
	rows := make([][]string, len(states))
	columns := []column{{head: "SERVER", paint: p.out.cyan}, {head: "STATE", paint: p.out.status}, {head: "TOOLS", right: true}, {head: "TYPE", paint: p.out.dim}, {head: "TARGET"}}
	if len(doors) > 1 {
		columns = append([]column{{head: "PROCESS", right: true, paint: p.out.dim}}, columns...)
	}
	for i, s := range states {
		tools := ""
		if s.Tools > 0 {
			tools = strconv.Itoa(s.Tools)
		}
		if s.Withheld > 0 {
			tools += fmt.Sprintf(" (%d withheld)", s.Withheld)
		}
		text := s.Target
		switch {
		case s.Problem != "":
			text = s.Problem
		case s.Cause != "" && s.State != gateway.Ready:
			text += ": " + s.Cause
		}
		rows[i] = []string{s.Name, string(s.State), tools, s.Transport, oneLine(text, 100)}
		if len(doors) > 1 {
			rows[i] = append([]string{strconv.Itoa(s.Runtime)}, rows[i]...)
		}
	}
	p.table(p.stdout, columns, rows)
	if doors[0].pid == 0 {
		p.note("No `toolyard mcp` or `serve` runs here; servers are started by one when they are needed.")
	}
	return nil
}

// noRuntime is what there is to say where only a runtime can do something.
func noRuntime(what string) error {
	return tool.Errorf(tool.Conflict, "%s takes a running `toolyard mcp` or `serve`, and none runs in this home", what).
		WithHint("A server belongs to the runtime that has started it, which starts it when it is first needed.")
}

func newGatewayAct(p *program, action, short string) *cobra.Command {
	return &cobra.Command{
		Use: action + " NAME", Short: short, Example: "toolyard gateway " + action + " github", Args: args(1, 1, "NAME"),
		RunE: func(c *cobra.Command, args []string) error { return p.actOnServer(c.Context(), action, args[0]) },
	}
}

// actOnServer starts, stops or restarts a server in every runtime that has it.
func (p *program) actOnServer(ctx context.Context, action, name string) error {
	doors, done, err := p.gateways(ctx)
	if err != nil {
		return err
	}
	defer done()
	if _, err := doors[0].Inspect(ctx, name); err != nil && len(doors) == 1 {
		return unknownServer(err)
	}
	if doors[0].pid == 0 {
		return noRuntime(action)
	}
	var states []serverState
	var failed, gone error
	for _, d := range doors {
		g := p.progress(action + " " + name)
		err := act(ctx, d, action, name)
		g.end()
		if e := tool.AsError(err); e != nil && e.Code == tool.NotFound {
			gone = unknownServer(err) // a server that only others have is no failure
			continue
		}
		if err != nil {
			failed = err
		}
		detail, err := d.Inspect(ctx, name)
		if err != nil {
			return err
		}
		states = append(states, serverState{d.pid, detail.Status})
	}
	if len(states) == 0 {
		return gone
	}
	return errors.Join(failed, p.printServers(states, doors))
}

func act(ctx context.Context, d door, action, name string) error {
	switch action {
	case "start":
		return d.Start(ctx, name)
	case "stop":
		return d.Stop(ctx, name)
	}
	return d.Restart(ctx, name)
}

func newGatewayInspect(p *program) *cobra.Command {
	return &cobra.Command{
		Use: "inspect NAME", Short: "Show all that is known of a server", Example: "toolyard gateway inspect github --json", Args: args(1, 1, "NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			detail, err := p.inspectServer(c.Context(), args[0])
			if err != nil {
				return err
			}
			if p.flags.json {
				return p.printJSON(detail)
			}
			p.printServer(detail)
			return nil
		},
	}
}

// serverDetail is a server of a runtime, or as it is configured.
type serverDetail struct {
	Runtime int `json:"runtime,omitempty"`
	gateway.Detail
}

// inspectServer asks the first runtime that has the server.
func (p *program) inspectServer(ctx context.Context, name string) (*serverDetail, error) {
	doors, done, err := p.gateways(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	for _, d := range doors {
		var detail gateway.Detail
		if detail, err = d.Inspect(ctx, name); err == nil {
			return &serverDetail{d.pid, detail}, nil
		}
	}
	return nil, unknownServer(err)
}

func (p *program) printServer(d *serverDetail) {
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(p.stdout, "%s  %s\n", p.out.dim(fmt.Sprintf("%-10s", name)), wrap(printable(value), 88, "\n            "))
		}
	}
	fmt.Fprintf(p.stdout, "%s  %s\n", p.out.cyan(d.Name), p.out.status(string(d.State)))
	row("cause", d.Cause)
	row("problem", d.Problem)
	row("target", d.Transport+" "+d.Target)
	if d.Namespace != d.Name {
		row("namespace", strconv.Quote(d.Namespace))
	}
	row("server", d.Server)
	row("protocol", d.Protocol)
	if d.Detail.PID > 0 {
		row("process", strconv.Itoa(d.Detail.PID))
	}
	if s := d.Sandbox; s != nil {
		row("sandbox", s.Level+": "+strings.Join(s.Layers, ", "))
		row("without", strings.Join(s.Missing, ", "))
	}
	row("from", d.From)
	if m := d.Metrics; m.Calls > 0 {
		row("calls", fmt.Sprintf("%d, %d failed, p50 %.1f ms, p95 %.1f ms, started %d times", m.Calls, m.Errors, m.P50MS, m.P95MS, m.Starts))
	}
	for _, note := range d.Notes {
		row("note", note)
	}
	if len(d.ToolList) > 0 {
		rows := make([][]string, len(d.ToolList))
		for i, t := range d.ToolList {
			state := t.Quarantined
			if t.Hidden {
				state = "hidden"
			}
			rows[i] = []string{t.FullName, state, oneLine(firstSentence(t.Description), 90)}
		}
		fmt.Fprintln(p.stdout)
		p.table(p.stdout, []column{{head: "TOOL", paint: p.out.cyan}, {head: "", paint: p.out.yellow}, {head: "DESCRIPTION"}}, rows)
	}
	if len(d.Log) > 0 {
		fmt.Fprintln(p.stdout)
		for _, line := range d.Log {
			fmt.Fprintln(p.stdout, p.out.dim(printable(line)))
		}
	}
}
