package toolbox

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/toolyard/toolyard/internal/toolbox/check"
	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/internal/toolbox/host"
	"github.com/toolyard/toolyard/internal/worker"
	"github.com/toolyard/toolyard/tool"
)

// boxTool is one version of a tool, as the rest of the program knows tools.
type boxTool struct {
	version *version
	spec    *tool.Spec
}

var (
	_ tool.Tool      = (*boxTool)(nil)
	_ tool.Closer    = (*boxTool)(nil)
	_ tool.Resourcer = (*boxTool)(nil)
	_ tool.Timeouter = (*boxTool)(nil)
)

func newTool(v *version) *boxTool {
	s := spec(v.def)
	if shipped := v.box.config.System; shipped != nil {
		if _, err := fs.Stat(shipped, v.def.Name); err == nil {
			s.Tags = append(slices.Clip(s.Tags), tool.TagShipped)
		}
	}
	return &boxTool{v, s}
}

// spec is what a definition says, in the program's own words. What a tool may
// touch is its grants' business and the kernel's to enforce: of itself it has
// only its own data, which is why plan mode leaves it usable until it is granted
// more.
func spec(def *definition.Definition) *tool.Spec {
	m := def.Metadata
	s := &tool.Spec{
		Name: def.Name, Source: Source, Title: m.Name, Description: description(def), Manual: def.Manual, Category: "toolbox",
		Version: m.Version, Tags: m.Tags, Scenarios: m.Scenarios, Limitations: m.Limitations,
		Effects: effects(def), Default: tool.Allow, ConcurrencySafe: def.Runtime.ConcurrencySafe,
		MaxTimeout: max(def.Runtime.MaxExecutionTime, freeTime),
		Input:      inputSchema(def.Parameters),
	}
	for _, e := range def.BusinessErrors {
		s.Errors = append(s.Errors, tool.BusinessError{
			Code: e.Code, Description: e.Description, Match: e.Match, Solution: e.Solution, Retryable: e.Retryable,
		})
	}
	return s
}

func description(def *definition.Definition) string {
	m := def.Metadata
	text := m.Description
	if text == "" {
		text = "A tool of the toolbox called " + def.Name + "."
	}
	if len(m.Scenarios) > 0 {
		text += "\nUse it for: " + strings.Join(m.Scenarios, "; ") + "."
	}
	if len(m.Limitations) > 0 {
		text += "\nLimits: " + strings.Join(m.Limitations, "; ") + "."
	}
	return text
}

// effects are what a tool asks to be able to do, granted or not.
func effects(def *definition.Definition) tool.Effects {
	e := tool.State
	if len(def.Runtime.Directories) > 0 {
		e |= tool.Read | tool.Write
	}
	if def.Runtime.Network.All || len(def.Runtime.Network.Domains) > 0 {
		e |= tool.Network
	}
	return e
}

// inputSchema reads the schema of parameters. One that is none leaves the
// arguments to the tool.
func inputSchema(raw json.RawMessage) *jsonschema.Schema {
	s, err := check.Schema(raw)
	if len(raw) == 0 || err != nil || s == nil {
		return &jsonschema.Schema{Type: "object"}
	}
	if s.Type == "" && len(s.Types) == 0 {
		s.Type = "object"
	}
	return s
}

func (t *boxTool) Spec() *tool.Spec { return t.spec }

// Resources keeps the calls of one session in order, and disturbs no other tool.
func (t *boxTool) Resources(req *tool.Request) []tool.Resource {
	if t.version.def.Runtime.ConcurrencySafe {
		return nil
	}
	return []tool.Resource{{Key: "toolbox/" + t.version.def.Name + "/" + t.version.session(req), Access: tool.WriteAccess}}
}

// CallTimeout is what the tool asked for, as far as it was granted.
func (t *boxTool) CallTimeout(*tool.Request) time.Duration {
	if p := t.version.plan.Load(); p != nil {
		return p.wall
	}
	return freeTime
}

// Close ends the version's workers; the last call has ended.
func (t *boxTool) Close(context.Context) error {
	t.version.box.pools.retireIf(func(p *pooled) bool { return p.version == t.version })
	t.version.drop()
	return nil
}

// session is whose module state a call finds.
func (v *version) session(req *tool.Request) string {
	if v.def.Runtime.Shared {
		return ""
	}
	return req.Session
}

// Call runs execute in a worker of the caller's session.
func (t *boxTool) Call(ctx context.Context, req *tool.Request) (*tool.Result, error) {
	v := t.version
	progress := func(done, total float64, text string) {
		req.Emit(tool.Event{Type: tool.EventCallProgress, Data: map[string]any{"progress": done, "total": total, "message": text}})
	}
	if err := v.prepare(ctx, progress); err != nil {
		return nil, err
	}
	p, err := v.current(ctx, req)
	if err != nil {
		return nil, err
	}
	pool := v.pool(p, v.session(req))
	defer v.box.pools.release(pool)

	args := req.Arguments
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	log := v.box.logs.of(v.box, v.def)
	log.begin(req.CallID, args)
	done, err := pool.pool.Call(ctx, worker.Call{
		Name: "execute", Args: host.Arguments(args, req.Session),
		OnLine:     log.line,
		OnProgress: func(s worker.Progress) { progress(s.Done, s.Total, s.Text) },
		OnRequest: func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
			return v.answer(ctx, req, method, params)
		},
	})
	req.Report(v.box.usage(ctx))
	if err != nil {
		failed := v.box.failure(err, v.def)
		log.fail(req.CallID, failed, err)
		return nil, v.explain(p, failed)
	}
	log.end(req.CallID, len(done.Value), done.Took)
	result, failed := host.Result(done.Value, v.def)
	if failed != nil {
		return nil, v.explain(p, failed)
	}
	return result, nil
}

func (b *Box) failure(err error, def *definition.Definition) *tool.Error {
	return host.Failure(err, def)
}

// answer is what a tool asks of the runtime while it runs.
func (v *version) answer(ctx context.Context, req *tool.Request, method string, params json.RawMessage) (json.RawMessage, error) {
	switch method {
	case "ask":
		return v.askPerson(ctx, req, params)
	case "call":
		var in struct {
			Name string          `json:"name"`
			Args json.RawMessage `json:"args"`
		}
		if err := json.Unmarshal(params, &in); err != nil {
			return nil, tool.Errorf(tool.ParameterError, "api.tools: %v", err)
		}
		if req.Host == nil {
			return nil, tool.Errorf(tool.ExecutionError, "there are no other tools here")
		}
		if len(in.Args) == 0 {
			in.Args = json.RawMessage("{}")
		}
		result, err := req.Host.Call(ctx, in.Name, in.Args)
		if err != nil {
			return nil, err
		}
		return json.Marshal(result)
	case "artifact":
		return v.artifact(ctx, req, params)
	}
	return nil, tool.Errorf(tool.ParameterError, "the runtime knows no request %q", method)
}

// askPerson passes a tool's question on. A tool's question never permits
// anything: the answer goes to the tool.
func (v *version) askPerson(ctx context.Context, req *tool.Request, params json.RawMessage) (json.RawMessage, error) {
	var in struct {
		Title   string        `json:"title"`
		Text    string        `json:"text"`
		Options []tool.Option `json:"options"`
		Default string        `json:"default"`
		Timeout float64       `json:"timeout"` // seconds
	}
	var plain string
	if json.Unmarshal(params, &plain) == nil {
		in.Text = plain
	} else if err := json.Unmarshal(params, &in); err != nil || in.Text == "" {
		return nil, tool.Errorf(tool.ParameterError, "api.ask takes a text, or {text, options: [{id, label, description}], default, timeout}")
	}
	if in.Title == "" {
		in.Title = v.def.Name + " asks"
	}
	answer, err := req.Ask(ctx, tool.Question{
		Kind: "clarification", Title: in.Title, Text: in.Text, Options: in.Options, Default: in.Default,
		Deadline: time.Duration(in.Timeout * float64(time.Second)), Details: map[string]any{"tool": Source + ":" + v.def.Name},
	})
	if errors.Is(err, tool.ErrNoChannel) {
		return nil, tool.Errorf(tool.PermissionDenied, "nobody can be asked").WithDetail("reason", "no_channel")
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]string{"option": answer.Option, "text": answer.Text, "by": answer.By})
}

// artifact keeps a file of the tool's data beyond the call.
func (v *version) artifact(ctx context.Context, req *tool.Request, params json.RawMessage) (json.RawMessage, error) {
	var in struct{ Path, Name string }
	if err := json.Unmarshal(params, &in); err != nil || in.Path == "" {
		return nil, tool.Errorf(tool.ParameterError, "api.artifact takes the path of a file in data/")
	}
	if req.Host == nil {
		return nil, tool.Errorf(tool.ExecutionError, "nothing can be kept here")
	}
	data := filepath.Join(v.def.Dir, "data")
	rel := in.Path
	if filepath.IsAbs(rel) {
		var err error
		if rel, err = filepath.Rel(data, rel); err != nil {
			return nil, tool.Errorf(tool.PermissionDenied, "%s does not lie in data/", in.Path)
		}
	}
	root, err := os.OpenRoot(data)
	if err != nil {
		return nil, tool.Errorf(tool.NotFound, "%s has no data/", v.def.Name)
	}
	defer root.Close()
	f, err := root.Open(rel)
	if err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return nil, tool.Errorf(tool.NotFound, "%s cannot be read: %v", in.Path, err).WithHint("Write the file into data/ first.")
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, tool.Errorf(tool.ParameterError, "%s is no file", in.Path)
	}
	if in.Name == "" {
		in.Name = filepath.Base(rel)
	}
	ref, err := req.Host.Attach(ctx, tool.Artifact{Name: in.Name, Data: f})
	if err != nil {
		return nil, err
	}
	return json.Marshal(ref)
}

// failed is a tool that cannot be started, and says why.
func failed(name string, err error) tool.Tool { return &brokenTool{name, err} }

type brokenTool struct {
	name string
	err  error
}

func (t *brokenTool) Spec() *tool.Spec {
	return &tool.Spec{Name: t.name, Source: Source, Description: "This tool could not be loaded.", Category: "toolbox", Default: tool.Allow, Input: inputSchema(nil)}
}
func (t *brokenTool) Start(context.Context) error { return t.err }
func (t *brokenTool) Call(context.Context, *tool.Request) (*tool.Result, error) {
	return nil, t.err
}
