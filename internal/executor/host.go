package executor

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/artifact"
	"github.com/toolyard/toolyard/internal/registry"
	"github.com/toolyard/toolyard/internal/secret"
	"github.com/toolyard/toolyard/tool"
)

// Bounds of what one call may do through its host.
const (
	maxDepth     = 8   // calls within calls
	maxOutputs   = 16  // outputs opened
	maxAttached  = 256 // artifacts
	textProbe    = 512 // bytes that tell whether an artifact is text
	maxEventData = 32  // members of an event's data
)

// host is what a running tool reaches back through. It outlives the call where
// a tool keeps it, and is silent then.
type host struct {
	e *Executor
	c *call

	events sync.Mutex // orders the events of the call
	closed bool       // call_finished was sent
}

var _ tool.Host = (*host)(nil)

// Emit sends an event of the call. What it may say of itself is set here: a
// tool cannot speak for another call.
func (h *host) Emit(ev tool.Event) {
	if !h.e.recorder.heard(h.c) || len(ev.Data) > maxEventData {
		return
	}
	switch ev.Type {
	case tool.EventCallStarted, tool.EventCallFinished, tool.EventPermissionAsked, tool.EventPermissionReplied, tool.EventDoomLoop:
		return // only the executor says these
	}
	h.e.recorder.publish(h.c, ev.Type, h.e.secrets.Map(ev.Data))
}

// Ask puts a question to the person behind the call; its clock stands. After
// the deadline the answer is the default, or an error that is PERMISSION_TIMEOUT.
func (h *host) Ask(ctx context.Context, q tool.Question) (tool.Answer, error) {
	// The tool names what is the same question for it; who asks is named here.
	if q.Binding != "" {
		q.Binding = h.c.ownBinding(q.Binding)
	} else {
		q.Binding = h.c.bindingOf(append([]string{q.Kind, q.Title, q.Text}, optionTexts(q.Options)...)...)
	}
	q.Fresh = false
	answer, err := h.e.asker.ask(ctx, h.c, q)
	if errors.Is(err, tool.ErrNoAnswer) {
		if q.Default != "" {
			return tool.Answer{Option: q.Default, By: "default"}, nil
		}
		return answer, about(tool.Errorf(tool.PermissionTimeout, "nobody has answered %q in time", cut(q.Title, 200)).
			WithHint("Go on without the answer, or ask again later."), err)
	}
	return answer, err
}

func optionTexts(options []tool.Option) (texts []string) {
	for _, o := range options {
		texts = append(texts, o.ID, o.Label, o.Description)
	}
	return texts
}

// Client is the MCP client behind the call; the call's clock stands while it is
// asked.
func (h *host) Client() tool.Client {
	if h.c.in.Client == nil {
		return nil
	}
	return client{h.c.in.Client, h.c}
}

type client struct {
	tool.Client
	c *call
}

func (c client) Input(ctx context.Context, requests map[string]tool.InputRequest) (map[string]json.RawMessage, error) {
	c.c.clock.pause()
	defer c.c.clock.resume()
	return c.Client.Input(ctx, requests)
}

// Attach keeps data beyond the call. Secret values are redacted in text.
func (h *host) Attach(ctx context.Context, a tool.Artifact) (tool.ArtifactRef, error) {
	if h.e.artifacts == nil {
		return tool.ArtifactRef{}, tool.Errorf(tool.DependencyError, "artifacts are not kept here").WithHint("Return the data in the result instead.")
	}
	h.c.mu.Lock()
	n := len(h.c.artifacts)
	h.c.mu.Unlock()
	if n >= maxAttached {
		return tool.ArtifactRef{}, tool.Errorf(tool.ResourceExhausted, "the call has attached %d artifacts", n).WithHint("Pack them into one archive.")
	}
	var data io.Reader = bufio.NewReaderSize(a.Data, 64<<10)
	if head, _ := data.(*bufio.Reader).Peek(textProbe); !h.e.secrets.Empty() && artifact.IsText(head) {
		data = &redacted{from: data, stream: h.e.secrets.Stream()}
	}
	meta := artifact.Meta{Session: h.c.in.Session, Call: h.c.in.ID, Name: h.e.secrets.String(a.Name), MIME: a.MIME}
	row, err := h.e.artifacts.Put(ctx, meta, data, h.e.stored)
	if err != nil {
		return tool.ArtifactRef{}, err
	}
	ref := artifact.Ref(row)
	h.c.mu.Lock()
	h.c.artifacts = append(h.c.artifacts, ref)
	h.c.mu.Unlock()
	if h.e.recorder.heard(h.c) {
		h.e.recorder.publish(h.c, tool.EventArtifactCreated, map[string]any{"id": ref.ID, "uri": ref.URI, "name": ref.Name, "mime": ref.MIME, "size": ref.Size})
	}
	return ref, nil
}

// redacted is a reader without secret values.
type redacted struct {
	from   io.Reader
	stream *secret.Stream
	ready  []byte
	buf    [32 << 10]byte
	err    error
}

func (r *redacted) Read(p []byte) (int, error) {
	for len(r.ready) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		n, err := r.from.Read(r.buf[:])
		r.ready = r.stream.Next(r.buf[:n])
		if err != nil {
			r.err = err
			r.ready = append(r.ready[:len(r.ready):len(r.ready)], r.stream.End()...)
		}
	}
	n := copy(p, r.ready)
	r.ready = r.ready[n:]
	return n, nil
}

// Report adds what the call's processes used.
func (h *host) Report(u tool.Usage) {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	sum := &h.c.usage
	sum.Peaks.MemoryBytes = max(sum.Peaks.MemoryBytes, u.Peaks.MemoryBytes)
	sum.Peaks.PIDs = max(sum.Peaks.PIDs, u.Peaks.PIDs)
	sum.Peaks.CPUMS += u.Peaks.CPUMS
	sum.Peaks.WallMS += u.Peaks.WallMS
	sum.ReadBytes += u.ReadBytes
	sum.WriteBytes += u.WriteBytes
	if u.Ending != nil {
		sum.Ending = u.Ending
	}
	if u.Sandbox != nil {
		sum.Sandbox = u.Sandbox
	}
}

// Output opens the stream for long text.
func (h *host) Output(ctx context.Context) (tool.OutputWriter, error) {
	c := h.c
	s := &spool{
		c: c, limit: c.maxText, stored: h.e.stored, dir: h.e.artifacts, secrets: h.e.secrets, streams: map[string]*stream{},
		log: func(msg string, err error) { h.e.log.Error(msg, "call", c.in.ID, "tool", c.name, "err", err) },
	}
	if h.e.recorder.heard(c) {
		s.emit = func(name, text string, dropped int) {
			data := map[string]any{"stream": name, "text": text}
			if dropped > 0 {
				data["dropped_bytes"] = dropped
			}
			h.e.recorder.publish(c, tool.EventCallOutput, data)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.spools) >= maxOutputs {
		return nil, tool.Errorf(tool.ResourceExhausted, "the call has opened %d outputs", len(c.spools))
	}
	c.spools = append(c.spools, s)
	return s, nil
}

// Call runs another tool with the rights of this call.
func (h *host) Call(ctx context.Context, name string, arguments json.RawMessage) (*tool.Result, error) {
	return h.e.call(ctx, h.inner(tool.BatchCall{Tool: name, Arguments: arguments}), h.c, h.c.grants), nil
}

// CallBatch runs many.
func (h *host) CallBatch(ctx context.Context, calls []tool.BatchCall, opts tool.BatchOptions, done func(int, *tool.Result)) error {
	list := make([]Call, len(calls))
	for i, b := range calls {
		list[i] = h.inner(b)
	}
	for i, r := range h.e.batch(ctx, list, opts, h.c, h.c.grants) {
		done(i, r)
	}
	return nil
}

// inner is a call with the session, the rights and the listeners of this one.
// Its events are its own: the caller hears them on the bus.
func (h *host) inner(b tool.BatchCall) Call {
	in := h.c.in
	in.ID, in.ParentID = "", h.c.in.ID
	in.Tool, in.Arguments, in.Timeout = b.Tool, b.Arguments, b.Timeout
	in.OnEvent = nil
	return in
}

// Catalog looks tools up as this caller sees them.
func (h *host) Catalog() tool.Catalog {
	return &catalog{e: h.e, tenant: h.c.in.Tenant, project: h.c.in.Project, allowed: h.c.in.Allowed}
}

// catalog is the tools that one tenant and project see.
type catalog struct {
	e               *Executor
	tenant, project string
	allowed         func(*tool.Spec) bool // nil means all
}

var _ tool.Ranker = (*catalog)(nil)

// Search gives the best matches first.
func (c *catalog) Search(query string, limit int) []*tool.Spec {
	found := c.Rank(query, limit)
	specs := make([]*tool.Spec, len(found))
	for i, m := range found {
		specs[i] = m.Spec
	}
	return specs
}

// Rank is Search with scores.
func (c *catalog) Rank(query string, limit int) []tool.Match {
	return c.e.registry.Matches(registry.Filter{Tenant: c.tenant, Project: c.project, Text: query, Allowed: c.allowed}, limit)
}

// Describe finds one tool by any of its names.
func (c *catalog) Describe(name string) (*tool.Spec, bool) {
	entry, ok := c.e.registry.Lookup(name, c.tenant, c.project)
	if !ok || c.allowed != nil && !c.allowed(entry.Spec) {
		return nil, false
	}
	return entry.Spec, true
}

// Stats sums up calls of a tool, "" for all.
func (c *catalog) Stats(name string, window time.Duration) []tool.Stats {
	if name != "" {
		if spec, ok := c.Describe(name); ok {
			name = spec.FullName()
		}
	}
	list := c.e.Stats(name, window)
	if c.allowed == nil {
		return list
	}
	return slices.DeleteFunc(list, func(s tool.Stats) bool {
		_, there := c.Describe(s.Tool)
		return !there
	})
}

// Forbidden reports whether a tool is outside what the caller may call; of one
// that is not registered its name tells.
func (c *catalog) Forbidden(name string) bool {
	if c.allowed == nil {
		return false
	}
	if entry, ok := c.e.registry.Lookup(name, c.tenant, c.project); ok {
		return !c.allowed(entry.Spec)
	}
	source, own, ok := strings.Cut(name, ":")
	if !ok {
		source, own = "", name
	}
	return !c.allowed(&tool.Spec{Name: own, Source: source, Category: source})
}

// NotFound is the answer to a name that nothing has, with the nearest that the
// caller may use.
func (c *catalog) NotFound(name string) error {
	return c.e.registry.NotFound(name, c.tenant, c.project, c.allowed)
}

// tooDeep is the refusal of a call within too many others.
func tooDeep(depth int) error {
	return tool.Errorf(tool.ResourceExhausted, "calls are nested %d deep, more than %d", depth, maxDepth).
		WithHint("%s", fmt.Sprintf("Call the tool from a higher level; at most %d calls may stand within each other.", maxDepth))
}
