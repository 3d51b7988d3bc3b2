package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard/tool"
)

// remote is one tool of a server, as the rest of the program knows tools.
type remote struct {
	peer *peer
	def  definition
	spec *tool.Spec
	// parse makes the headers and looks at the definition once, when it is called.
	parse func() shown
}

var (
	_ tool.Tool    = (*remote)(nil)
	_ tool.Starter = (*remote)(nil)
	_ tool.Retrier = (*remote)(nil)
)

func newRemote(p *peer, d definition, local string) *remote {
	return &remote{peer: p, def: d, spec: p.specOf(d, local), parse: sync.OnceValue(func() shown { return read(d.raw) })}
}

func (t *remote) Spec() *tool.Spec { return t.spec }

// Start refuses a tool that is withheld: the registry lists it as failed, and
// tells whoever calls it why.
func (t *remote) Start(context.Context) error {
	if err := t.withheld(); err != nil {
		return err
	}
	return nil
}

// Retry is what the entry of the server says.
func (t *remote) Retry() tool.Retry {
	r := t.peer.entry.Retry
	return tool.Retry{Attempts: r.Attempts, Base: time.Duration(r.Base), Cap: time.Duration(r.Cap)}
}

func (t *remote) withheld() *tool.Error {
	d, name := t.def, t.peer.name
	switch d.withheld {
	case "":
		return nil
	case quarantineNew:
		return tool.Errorf(tool.ToolDisabled, "the MCP server %s added the tool %s, which nobody has approved; a person can look at it and approve it with: toolyard gateway approve %s %s", name, d.name, name, d.name)
	}
	what := strings.Join(changedMembers(d.was, d.raw), ", ")
	return tool.Errorf(tool.ToolDisabled, "the MCP server %s changed the tool %s (%s) after it was approved; a person can look at the difference and approve it with: toolyard gateway approve %s %s", name, d.name, what, name, d.name)
}

// Call runs the tool on its server.
func (t *remote) Call(ctx context.Context, req *tool.Request) (*tool.Result, error) {
	if err := t.withheld(); err != nil {
		return nil, err
	}
	p := t.peer
	release, err := p.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	args := req.Arguments
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	x := &exchange{
		method: "tools/call", name: t.def.name, client: req.Client(), session: req.Session,
		members: []member{{"name", quote(t.def.name)}, {"arguments", args}},
		emit:    req.Emit, tool: t.def.raw,
		task: t.parse().Execution.TaskSupport == "required",
	}
	began := time.Now()
	raw, err := p.do(ctx, x)
	p.metrics.bytesOut.Add(int64(len(args)))
	p.metrics.bytesIn.Add(int64(len(raw)))
	var result *tool.Result
	if err == nil {
		result, err = resultOf(raw)
	}
	p.metrics.call(time.Since(began), err != nil || result.IsError)
	if err != nil {
		return nil, failure(err, fmt.Sprintf("%s of the MCP server %s", t.def.name, p.name))
	}
	return result, nil
}
