package executor

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/toolyard/toolyard/internal/registry"
	"github.com/toolyard/toolyard/internal/scheduler"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

// handler runs a call, or what is left of it. It never returns nil.
type handler func(ctx context.Context, c *call) *tool.Result

// stage is one layer of the pipeline. Stages do not know each other: what one
// finds out for another stands in call.
type stage struct {
	name string
	wrap func(next handler) handler
}

// call is the state of one call in flight. The fields above mu belong to the
// goroutine that runs the pipeline; a tool's goroutine only reads them.
type call struct {
	in     Call
	parent *call // the call whose tool makes this one; nil at the top
	depth  int
	grants *grants // shared with the calls around it
	cancel context.CancelCauseFunc

	handle      *registry.Handle
	refs        atomic.Int32 // users of handle; see hold
	spec        *tool.Spec
	name        string // full name; what was asked for, if there is no such tool
	settings    ToolConfig
	coordinates bool // holds no slot, has no clock of its own
	args        json.RawMessage
	canonical   []byte
	repaired    bool
	brief       json.RawMessage // the arguments as they are recorded

	started time.Time
	verdict tool.Action
	rule    string // what decided
	// askedUnder is the version of the rules under which a person was asked.
	askedUnder string
	ran        atomic.Bool
	late       atomic.Bool    // Run has seen it
	waited     time.Duration  // for a slot
	task       scheduler.Task // what it holds
	maxText    int            // bytes of text that the result may hold
	redacted   bool
	folded     int64 // bytes that the result does not show
	clock      clock
	host       host

	mu        sync.Mutex
	asked     *tool.Request // what request copies
	result    *tool.Result  // once finished
	attempts  int
	retried   []tool.Code
	notes     []string
	usage     tool.Usage
	artifacts []tool.ArtifactRef
	spools    []*spool
}

// fill completes the Meta of the result. It does nothing the second time.
func (c *call) fill(r *tool.Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.result != nil {
		return
	}
	c.result = r
	m := &r.Meta
	m.CallID, m.Repaired = c.in.ID, c.repaired
	m.DurationMS = float64(time.Since(c.started)) / float64(time.Millisecond)
	if c.ran.Load() {
		m.Attempts = c.attempts
	}
	m.Retried = append(m.Retried, c.retried...)
	m.Notes = append(m.Notes, c.notes...)
	for _, a := range c.artifacts {
		m.Artifacts = append(m.Artifacts, a.URI)
	}
	if c.usage.Peaks != (tool.Peaks{}) {
		peaks := c.usage.Peaks
		m.Peaks = &peaks
	}
	if c.usage.Ending != nil {
		m.Ending = c.usage.Ending
	}
	if c.usage.Sandbox != nil {
		m.Sandbox = c.usage.Sandbox
	}
	if r.Err != nil && c.spec != nil {
		r.ErrorInMeta = forbidsError(c.spec.Output)
	}
}

// forbidsError reports whether an output schema has no room for a member
// "error".
func forbidsError(s *jsonschema.Schema) bool {
	if s == nil {
		return false
	}
	if _, own := s.Properties["error"]; own || len(s.Required) > 0 {
		return true
	}
	plain := s.AdditionalProperties == nil || s.AdditionalProperties.Not == nil && s.AdditionalProperties.Type == ""
	return !plain || s.Ref != "" || len(s.AllOf)+len(s.AnyOf)+len(s.OneOf) > 0 || s.Not != nil
}

// note adds a sentence for the model.
func (c *call) note(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notes = append(c.notes, text)
}

// shown is the name of the tool, for another goroutine.
func (c *call) shown() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.name
}

// hold keeps the tool's version alive until the function is called; a tool that
// does not stop holds it beyond its call.
func (c *call) hold() (release func()) {
	c.refs.Add(1)
	return func() {
		if c.refs.Add(-1) == 0 && c.handle != nil {
			c.handle.Release()
		}
	}
}

// request is what the tool gets, a new one each time: a tool may change it.
// What the tool remembers in it holds until forget.
func (c *call) request() *tool.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked == nil {
		c.asked = &tool.Request{
			Arguments: c.args, Session: c.in.Session, Conversation: c.in.Conversation, Turn: c.in.Turn,
			Tenant: c.in.Tenant, Project: c.in.Project, CallID: c.in.ID, ParentID: c.in.ParentID,
			Workspace: c.in.Workspace, MaxOutput: c.maxText, Host: &c.host,
		}
	}
	return c.asked.Clone()
}

// forget lets the tool look at everything anew: its arguments are others, or
// time has passed in which files may have changed.
func (c *call) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = nil
}

// row is the call as the record knows it while it runs.
func (c *call) row() store.Call {
	r := store.Call{
		ID: c.in.ID, ParentID: c.in.ParentID, Session: c.in.Session, Turn: c.in.Turn, Workspace: c.in.Workspace,
		Tool: c.name, Arguments: c.in.Arguments, Status: statusRunning, Rule: c.rule,
		Started: c.started, BytesIn: int64(len(c.in.Arguments)),
	}
	if c.verdict != 0 {
		r.Verdict = c.verdict.String()
	}
	return r
}

// The states of a recorded call.
const (
	statusRunning   = "running"
	statusOK        = "ok"
	statusError     = "error"
	statusRefused   = "refused"
	statusCancelled = "cancelled"
)

// status tells how the call ended.
func (c *call) status(r *tool.Result) string {
	switch {
	case !r.IsError:
		return statusOK
	case r.Err != nil && r.Err.Code == tool.Cancelled:
		return statusCancelled
	case !c.ran.Load():
		return statusRefused
	}
	return statusError
}

// refuse is the result of a call that is not run.
func refuse(err error) *tool.Result { return tool.ErrorResult(err) }

// textBytes is how much a result gives the caller to read.
func textBytes(r *tool.Result) int64 {
	n := int64(len(r.Structured))
	for i := range r.Content {
		n += int64(len(r.Content[i].Text) + len(r.Content[i].Data))
	}
	return n
}
