package tool

import (
	"context"
	"encoding/json"
	"io"
	"sync"
	"time"
)

// Request is one call of a tool.
type Request struct {
	Arguments    json.RawMessage
	Session      string
	Conversation string // = Session unless given
	Turn         string
	Tenant       string
	Project      string
	CallID       string
	ParentID     string // the call that made this one; "" at the top
	// Workspace is the absolute path of the workspace's root; "" if there is none.
	Workspace string
	// MaxOutput is the number of bytes of text that this call may return before
	// it is folded: what a paging tool cuts to. Zero means [DefaultMaxOutput].
	MaxOutput int
	// Host is how the tool reaches back; nil in a unit test of a tool.
	Host Host

	remembered *remembered
}

// remembered is what the methods of a tool have worked out for one call.
type remembered struct {
	mu     sync.Mutex
	values map[any]any
}

// Clone gives a copy of r for another method of the same tool and call. What is
// remembered with [Remember] from now on is common to both. It is not safe for
// concurrent use until it has been called once.
func (r *Request) Clone() *Request {
	if r.remembered == nil {
		r.remembered = &remembered{}
	}
	clone := *r
	return &clone
}

// Remember gives what find has found for this call and key, and calls find the
// first time and after an error. So a tool that is asked for its subjects and
// resources before it is called decodes and resolves its arguments once. The key
// is of a type of its own, as that of a context value. It is safe for concurrent
// use; find may be called by each of those who ask at the same time.
func Remember[T any](r *Request, key any, find func() (T, error)) (T, error) {
	if r.remembered == nil {
		return find()
	}
	r.remembered.mu.Lock()
	value, ok := r.remembered.values[key]
	r.remembered.mu.Unlock()
	if ok {
		return value.(T), nil
	}
	found, err := find()
	if err != nil {
		return found, err
	}
	r.remembered.mu.Lock()
	defer r.remembered.mu.Unlock()
	if r.remembered.values == nil {
		r.remembered.values = map[any]any{}
	}
	r.remembered.values[key] = found
	return found, nil
}

// Host is what the executor offers a running tool. All methods are safe for
// concurrent use and return soon after the call's context is done.
type Host interface {
	// Emit streams an event of this call (output, progress).
	Emit(Event)
	// Ask puts a question to a person and waits. The call's clock stands.
	Ask(ctx context.Context, q Question) (Answer, error)
	// Attach keeps data beyond the call and returns where it is.
	Attach(ctx context.Context, a Artifact) (ArtifactRef, error)
	// Report adds what the call's processes used.
	Report(Usage)
	// Output opens the stream for text that may be longer than a result may be:
	// what is written is redacted, streamed as call_output and kept whole.
	Output(ctx context.Context) (OutputWriter, error)
	// Call runs another tool through the whole pipeline, with the rights of this
	// call's caller and what is left of its budget.
	Call(ctx context.Context, name string, arguments json.RawMessage) (*Result, error)
	// CallBatch runs many, at most parallel at a time (0 = the default), and
	// gives each result to done as it ends. It returns when all have ended.
	CallBatch(ctx context.Context, calls []BatchCall, opts BatchOptions, done func(index int, r *Result)) error
	// Catalog looks tools up as this caller sees them.
	Catalog() Catalog
}

// BatchCall is one call of a batch.
type BatchCall struct {
	Tool      string
	Arguments json.RawMessage
	Timeout   time.Duration // zero means the tool's own
}

// BatchOptions steer a batch. The zero value runs everything, at most 10 at a
// time.
type BatchOptions struct {
	MaxParallel int
	StopOnError bool
}

// OutputWriter takes the long output of a call.
type OutputWriter interface {
	// Stream gives the writer of "stdout" or "stderr". Writes of both keep their
	// order. Write returns [ErrOutputLimit] once what may be stored is full.
	Stream(name string) io.Writer
	// Close ends the output. The summary is head and tail, folded to the call's
	// limit.
	Close() (OutputSummary, error)
}

// OutputSummary is what an OutputWriter saw.
type OutputSummary struct {
	Text      string           // what the result should show
	Bytes     map[string]int64 // per stream
	Lines     int64
	Truncated bool
	Handle    string // of the whole output; "" if Text is all of it
}

// Emit streams an event, if there is anybody to stream to.
func (r *Request) Emit(e Event) {
	if r.Host != nil {
		r.Host.Emit(e)
	}
}

// Report adds usage of processes to the call.
func (r *Request) Report(u Usage) {
	if r.Host != nil {
		r.Host.Report(u)
	}
}

// Ask puts a question to a person. Without a host nobody can be asked.
func (r *Request) Ask(ctx context.Context, q Question) (Answer, error) {
	if r.Host == nil {
		return Answer{}, ErrNoChannel
	}
	return r.Host.Ask(ctx, q)
}

// Client is the MCP client behind a call, for tools that stand for another MCP
// server and speak its words. All methods are safe for concurrent use.
type Client interface {
	// Capabilities is the ClientCapabilities object as the client sent it; "{}" if
	// it declared none.
	Capabilities() json.RawMessage
	// Meta is the _meta of the request as the client sent it; nil if it had none.
	Meta() json.RawMessage
	// Input puts requests to the client, all at once, and waits for the results,
	// which come under the same keys. The error is [ErrNoChannel] if the client
	// cannot be asked such a thing. The clocks of the call stand meanwhile.
	Input(ctx context.Context, requests map[string]InputRequest) (map[string]json.RawMessage, error)
}

// InputRequest is one thing that a server asks of its client (MCP, multi
// round-trip requests): elicitation/create, sampling/createMessage, roots/list.
type InputRequest struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"`
}

// Client is the MCP client behind the call; nil if there is none that can be
// spoken to.
func (r *Request) Client() Client {
	if h, ok := r.Host.(interface{ Client() Client }); ok {
		return h.Client()
	}
	return nil
}

// Event is something that happened, as the bus, the clients, the audit and the
// console see it.
type Event struct {
	ID      uint64         `json:"id"`
	Time    time.Time      `json:"time"`
	Type    string         `json:"type"` // call_started, call_output, …
	Session string         `json:"session,omitempty"`
	CallID  string         `json:"call_id,omitempty"`
	Tool    string         `json:"tool,omitempty"`
	Data    map[string]any `json:"data,omitempty"`
}

// The types of events that calls make. Others are named where they are made.
const (
	EventSessionStarted    = "session_started"
	EventSessionEnded      = "session_ended"
	EventCallStarted       = "call_started"       // arguments
	EventCallOutput        = "call_output"        // stream, text
	EventCallProgress      = "call_progress"      // progress, total, message
	EventCallLog           = "call_log"           // params: of notifications/message, from another server
	EventCallFinished      = "call_finished"      // status, code, duration_ms
	EventPermissionAsked   = "permission_asked"   // rule, reason
	EventPermissionReplied = "permission_replied" // rule, answer
	EventDoomLoop          = "doom_loop"
	EventToolState         = "tool_state" // from, to, cause
	EventArtifactCreated   = "artifact_created"
	EventJobStarted        = "job_started"
	EventJobFinished       = "job_finished"
	EventNetworkRefused    = "network_refused" // target, rule
)

// Question is put to a person.
type Question struct {
	// ID is that of the durable question; "" until it is kept.
	ID       string
	Kind     string // permission, doom_loop, confirmation, risk, clarification, decision, env
	Title    string
	Text     string
	Options  []Option
	Default  string        // option taken if nobody answers; "" means refuse
	Deadline time.Duration // zero means 50 s
	Details  map[string]any
	// Binding names exactly what the answer is about: equal bindings are the same
	// question. An answer that comes after the asker has gone is used, once, by the
	// next question with the same binding. "" means that it is used by none.
	Binding string
	// Fresh says that nothing of the call has run when it asks, so that asking
	// again later is as good.
	Fresh bool
	// Call and Tool are what asks. The executor sets them.
	Call, Tool string
}

// Option is one of the answers to choose from.
type Option struct {
	ID          string `json:"id"`
	Label       string `json:"label"`
	Description string `json:"description,omitempty"`
}

// Answer is what a person said.
type Answer struct {
	Option string // the chosen Option.ID
	Text   string // free text: a reason, a value
	By     string // who
}

// Artifact is data that outlives its call.
type Artifact struct {
	Name string
	MIME string // empty: found from the content
	Data io.Reader
}

// ArtifactRef is where an artifact can be had: "artifact://<id>".
type ArtifactRef struct {
	ID     string `json:"id"`
	URI    string `json:"uri"`
	Name   string `json:"name"`
	MIME   string `json:"mime"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Usage is what processes of a call used.
type Usage struct {
	Peaks   Peaks
	Ending  *Ending
	Sandbox *SandboxMeta
	// ReadBytes and WriteBytes are block I/O.
	ReadBytes, WriteBytes int64
}

// Catalog is the tools as one caller sees them.
type Catalog interface {
	Search(query string, limit int) []*Spec
	Describe(name string) (*Spec, bool)
	Stats(name string, window time.Duration) []Stats
}

// Match is a tool that a search found.
type Match struct {
	Spec *Spec
	// Score is how well it fits: more is better, and only those of one search can
	// be compared.
	Score float64
}

// Ranker is a [Catalog] that also tells how well what it finds fits.
type Ranker interface {
	// Rank is Search with scores: the best first, at most limit (zero means 10).
	Rank(query string, limit int) []Match
}

// Stats sums up a tool's calls in a window.
type Stats struct {
	Tool            string  `json:"tool"`
	Calls           int64   `json:"calls"`
	Errors          int64   `json:"errors"`
	TotalDurationMS float64 `json:"total_duration_ms"`
	MeanMS          float64 `json:"mean_ms"`
	P50MS           float64 `json:"p50_ms"`
	P95MS           float64 `json:"p95_ms"`
}
