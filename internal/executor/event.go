package executor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/toolyard/toolyard/internal/event"
	"github.com/toolyard/toolyard/internal/secret"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

// Bounds of what is recorded of one call.
const (
	maxRecorded  = 256 << 10       // bytes of arguments in the audit record
	maxInEvent   = 8 << 10         // bytes of arguments or text in one event
	maxRecMsg    = 2 << 10         // bytes of message in the audit record
	recordWait   = 2 * time.Second // for a full queue of the store
	longRunning  = time.Second     // until a call is recorded as running
	summaryStart = 2 << 10         // bytes shown of arguments that are cut
)

// recorder publishes the events of calls and keeps the audit record.
type recorder struct {
	bus     *event.Bus  // may be nil
	store   store.Calls // may be nil
	secrets *secret.Redactor
	log     *slog.Logger
	strict  bool
	failing atomic.Bool // the store, as far as is known
}

// wrap is the event stage: every call that was let in is told when it starts
// and recorded when it ends, refused or not.
func (s *recorder) wrap(next handler) handler {
	return func(ctx context.Context, c *call) *tool.Result {
		if err := s.start(ctx, c); err != nil {
			r := refuse(err)
			s.finish(ctx, c, r)
			return r
		}
		r := next(ctx, c)
		s.finish(ctx, c, r)
		return r
	}
}

// start publishes call_started. In strict mode a call that may change something
// is written first, and refused if that fails.
func (s *recorder) start(ctx context.Context, c *call) error {
	if s.heard(c) {
		s.publish(c, tool.EventCallStarted, map[string]any{"tool": c.name, "arguments": s.arguments(c, maxInEvent)})
	}
	if s.store == nil || c.spec.ReadOnly() {
		return nil
	}
	row := c.row()
	row.Arguments = s.arguments(c, maxRecorded)
	if !s.strict {
		s.put(ctx, c, row)
		return nil
	}
	if err := s.store.PutCallNow(ctx, row); err != nil {
		s.log.Error("call refused: its start cannot be recorded", "call", c.in.ID, "tool", c.name, "err", err)
		return tool.Errorf(tool.DependencyError, "the audit record cannot be written, and audit is strict").
			WithHint("Look at the disk of the toolyard home with toolyard doctor; the log has the cause.")
	}
	return nil
}

// finish publishes call_finished and queues the row.
func (s *recorder) finish(ctx context.Context, c *call, r *tool.Result) {
	if !c.redacted {
		(&redact{s.secrets}).result(r)
	}
	c.fill(r)
	status := c.status(r)
	if s.heard(c) {
		data := map[string]any{"status": status, "duration_ms": r.Meta.DurationMS}
		if r.Err != nil {
			data["code"] = string(r.Err.Code)
			data["message"] = cut(r.Err.Message, maxRecMsg)
		}
		s.publish(c, tool.EventCallFinished, data)
	}
	if s.store == nil {
		return
	}
	row := c.row()
	row.Arguments = s.arguments(c, maxRecorded)
	row.Status, row.DurationMS, row.BytesOut = status, r.Meta.DurationMS, textBytes(r)
	if r.Err != nil {
		row.Code, row.Message = string(r.Err.Code), cut(r.Err.Message, maxRecMsg)
	}
	row.Meta = r.Meta.AppendJSON(nil)
	if !s.put(ctx, c, row) {
		r.Meta.Notes = append(r.Meta.Notes, "The audit record could not be written; this call may be missing in it.")
	}
}

// put queues a row. A store that fails costs the record and never the call.
func (s *recorder) put(ctx context.Context, c *call, row store.Call) bool {
	wait := &patience{Context: context.WithoutCancel(ctx)}
	defer wait.end()
	if err := s.store.PutCall(wait, row); err != nil {
		s.failing.Store(true)
		s.log.Error("audit record", "call", row.ID, "tool", row.Tool, "err", err)
		return false
	}
	if s.failing.Load() && s.failing.CompareAndSwap(true, false) {
		s.log.Info("the audit record takes rows again", "call", row.ID)
	}
	return true
}

// patience is a context that is done recordWait after somebody begins to wait for
// it, which hardly ever happens: then it costs no timer. It is for one goroutine.
type patience struct {
	context.Context
	limit  context.Context // nil until then
	cancel context.CancelFunc
}

func (p *patience) Done() <-chan struct{} {
	if p.limit == nil {
		p.limit, p.cancel = context.WithTimeout(p.Context, recordWait)
	}
	return p.limit.Done()
}

func (p *patience) Err() error {
	if p.limit == nil {
		return nil
	}
	return p.limit.Err()
}

func (p *patience) end() {
	if p.cancel != nil {
		p.cancel()
	}
}

// late records calls that have been running for a while, so that a crash leaves
// a trace of them.
func (s *recorder) late(ctx context.Context, c *call) {
	if s.store == nil || time.Since(c.started) < longRunning || c.late.Load() {
		return
	}
	c.late.Store(true)
	row := s.runningRow(c)
	// Under the lock, so that the row of the end cannot come first.
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.spec != nil && c.spec.ReadOnly() && c.result == nil {
		s.put(ctx, c, row)
	}
}

// runningRow is a call in flight as seen from another goroutine.
func (s *recorder) runningRow(c *call) store.Call {
	return store.Call{
		ID: c.in.ID, ParentID: c.in.ParentID, Session: c.in.Session, Turn: c.in.Turn, Workspace: c.in.Workspace, Tool: c.shown(),
		Arguments: s.brief(s.clean(c), maxRecorded), Status: statusRunning, Started: c.started, BytesIn: int64(len(c.in.Arguments)),
	}
}

// heard reports whether anybody listens.
func (s *recorder) heard(c *call) bool { return s.bus != nil || c.in.OnEvent != nil }

// publish sends an event of a call to the bus and to the caller, in order.
func (s *recorder) publish(c *call, kind string, data map[string]any) {
	e := tool.Event{Type: kind, Session: c.in.Session, CallID: c.in.ID, Tool: c.name, Data: data}
	c.host.events.Lock()
	defer c.host.events.Unlock()
	if c.host.closed {
		return
	}
	if kind == tool.EventCallFinished {
		c.host.closed = true
	}
	if s.bus != nil {
		e = s.bus.Publish(e)
	} else {
		e.Time = time.Now().UTC()
	}
	if c.in.OnEvent != nil {
		c.in.OnEvent(e)
	}
}

// arguments are those of c as they are shown, kept for the next time.
func (s *recorder) arguments(c *call, limit int) json.RawMessage {
	if len(c.in.Arguments) > maxInEvent {
		return s.brief(s.clean(c), limit)
	}
	if c.brief == nil {
		c.brief = s.brief(s.clean(c), maxInEvent)
	}
	return c.brief
}

// clean are the arguments of a call without the secrets that are known, and
// without those that its tool says are in them.
func (s *recorder) clean(c *call) json.RawMessage {
	c.mu.Lock() // others list what runs
	h := c.handle
	c.mu.Unlock()
	raw := c.in.Arguments
	if h != nil {
		if concealer, ok := h.Tool.(tool.Concealer); ok {
			raw = concealer.Conceal(raw)
		}
	}
	return s.secrets.JSON(raw)
}

// brief is raw, or what replaces arguments that are too large or no JSON.
func (s *recorder) brief(raw json.RawMessage, limit int) json.RawMessage {
	switch {
	case len(raw) == 0:
		return json.RawMessage("{}")
	case len(raw) > limit:
		sum := sha256.Sum256(raw)
		return mustJSON(map[string]any{"_cut": true, "_bytes": len(raw), "_sha256": hex.EncodeToString(sum[:]), "_begins": cut(string(raw), summaryStart)})
	case !json.Valid(raw):
		return mustJSON(map[string]any{"_invalid": string(raw)})
	}
	return raw
}

// mustJSON encodes what cannot fail.
func mustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("{}")
	}
	return raw
}
