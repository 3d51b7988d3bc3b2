// Package api is the HTTP API under /api/v1: calls, tools, sessions, events,
// rules, jobs and artifacts as JSON. One table of routes registers the handlers
// and makes the OpenAPI document, so the two cannot differ. It does not know how
// a tool runs, and decides nothing about who may call.
package api

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"time"

	"github.com/toolyard/toolyard/internal/event"
	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/internal/gateway"
	"github.com/toolyard/toolyard/internal/policy"
	"github.com/toolyard/toolyard/internal/registry"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/toolbox"
	"github.com/toolyard/toolyard/tool"
)

// Bounds of the API.
const (
	maxBody     = 20 << 20 // bytes of a request
	maxBatch    = 1000     // calls of one batch
	defaultPage = 100
	maxPage     = 1000
	heartbeat   = 15 * time.Second // between comments on a silent event stream
	maxOutput   = 1 << 20          // bytes of a job's output in one answer
)

// Executor runs calls: [*executor.Executor].
type Executor interface {
	Call(ctx context.Context, c executor.Call) *tool.Result
	ExecuteBatch(ctx context.Context, calls []executor.Call, opts tool.BatchOptions) iter.Seq2[int, *tool.Result]
	Cancel(callID string) bool
	Running() []store.Call
	Stats(tool string, window time.Duration) []tool.Stats
}

// Store is what the API reads of the record.
type Store interface {
	Call(ctx context.Context, id string) (store.Call, error)
	ListCalls(ctx context.Context, f store.CallFilter) ([]store.Call, error)
	ListSessions(ctx context.Context, limit int) ([]store.Session, error)
	EventsAfter(ctx context.Context, id uint64, limit int) ([]store.Event, error)
}

// Jobs are the background commands.
type Jobs interface {
	// List gives the newest first; session "" means all.
	List(ctx context.Context, session string, limit int) ([]store.Job, error)
	// Output gives at most limit bytes of a job's output from offset.
	Output(ctx context.Context, id string, offset int64, limit int) (JobOutput, error)
	Input(ctx context.Context, id, text string) error
	Kill(ctx context.Context, id string) (store.Job, error)
}

// JobOutput is a piece of what a job has printed.
type JobOutput struct {
	Status     string `json:"status" jsonschema:"running, exited, killed or lost"`
	ExitCode   *int   `json:"exit_code,omitempty" jsonschema:"of a job that has ended"`
	Output     string `json:"output" jsonschema:"the text"`
	NextOffset int64  `json:"next_offset" jsonschema:"where the next piece begins, in bytes"`
}

// Policy is the rules in force.
type Policy interface {
	Rules(ctx context.Context) ([]Rule, error)
	// AddRule saves a rule of scope user or project and puts it in force.
	AddRule(ctx context.Context, r Rule) (Rule, error)
	// Explain judges a call without running it.
	Explain(ctx context.Context, q Explain) (Explanation, error)
}

// Rule is one permission rule.
type Rule struct {
	ID        int64    `json:"id,omitempty" jsonschema:"of a saved rule"`
	Action    string   `json:"action" jsonschema:"what the rule says; enum=allow|ask|deny"`
	Rule      string   `json:"rule" jsonschema:"such as bash(git push *)"`
	Scope     string   `json:"scope,omitempty" jsonschema:"built-in, user, project, session or managed"`
	Workspace string   `json:"workspace,omitempty" jsonschema:"of a rule of scope project"`
	Source    string   `json:"source,omitempty" jsonschema:"file and line, or who saved it"`
	Overrides []string `json:"overrides,omitempty" jsonschema:"the ask rules that it answered"`
}

// Explain is a call to be judged: a tool and its arguments, or both written as
// a rule is, bash(git push).
type Explain struct {
	Call      string          `json:"call,omitempty" jsonschema:"tool(arguments), as in a rule"`
	Tool      string          `json:"tool,omitempty" jsonschema:"instead of call"`
	Arguments json.RawMessage `json:"arguments,omitempty" jsonschema:"of tool"`
	Workspace string          `json:"workspace,omitempty" jsonschema:"the absolute root, by default the first"`
}

// Explanation is what the policy says about a call, and why.
type Explanation struct {
	Action string `json:"action" jsonschema:"allow, ask or deny"`
	Rule   string `json:"rule,omitempty" jsonschema:"the rule that decided"`
	Source string `json:"source,omitempty" jsonschema:"where that rule stands"`
	Reason string `json:"reason,omitempty" jsonschema:"a sentence"`
	Parts  []Part `json:"parts" jsonschema:"what the call does, each judged by itself"`
}

// Part is one thing a call does.
type Part struct {
	Kind   string `json:"kind" jsonschema:"call, command, read, write, text or syntax"`
	Text   string `json:"text" jsonschema:"the command, path or text"`
	Action string `json:"action" jsonschema:"allow, ask or deny"`
	Rule   string `json:"rule,omitempty" jsonschema:"the rule that decided"`
	Source string `json:"source,omitempty" jsonschema:"where that rule stands"`
	Reason string `json:"reason,omitempty" jsonschema:"a sentence"`
}

// Limits of one tool. Nil fields change nothing.
type Limits struct {
	TimeoutMS   *int64 `json:"timeout_ms,omitempty" jsonschema:"of one attempt; min=1"`
	Attempts    *int   `json:"attempts,omitempty" jsonschema:"runs in all; min=1;max=10"`
	MaxOutput   *int   `json:"max_output,omitempty" jsonschema:"bytes of text in one result; min=1024"`
	MaxParallel *int   `json:"max_parallel,omitempty" jsonschema:"calls that run together; min=1"`
	Queue       *int   `json:"queue,omitempty" jsonschema:"calls that may wait; min=0"`
}

// Config is what the API serves. Executor and Registry are needed; the routes
// of a part that is nil answer 404.
type Config struct {
	Executor Executor
	Registry *registry.Registry
	Store    Store
	Bus      *event.Bus
	Policy   Policy
	// Questions are what people are asked.
	Questions Questions
	Jobs      Jobs
	// Toolbox is the user's own tools.
	Toolbox *toolbox.Box
	// Gateway is the other MCP servers; nil leaves its routes out.
	Gateway *gateway.Gateway
	// OpenArtifact gives the bytes of an artifact.
	OpenArtifact func(ctx context.Context, id string) (io.ReadSeekCloser, store.Artifact, error)
	// SetLimits changes the limits of a tool until the program ends.
	SetLimits func(ctx context.Context, fullName string, l Limits) error

	// Workspaces are the absolute roots that were named; the first is the default.
	Workspaces []string
	// Mode and Rules hold for all calls.
	Mode  policy.Mode
	Rules []policy.Rule
	// Version of the program, for the OpenAPI document.
	Version string
	// Log gets what goes wrong. Nil discards.
	Log *slog.Logger
}

// api answers the routes.
type api struct {
	config Config
	mux    *http.ServeMux
	spec   document
}

// New makes the handler. It serves paths that begin with /api/v1/.
func New(c Config) http.Handler {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	a := &api{config: c, mux: http.NewServeMux()}
	for _, r := range a.routes() {
		a.mux.HandleFunc(r.method+" "+prefix+r.path, a.serve(r))
	}
	a.mux.HandleFunc(elsewhere, a.unknown)
	return a.mux
}

// elsewhere is the pattern of what no route matches.
const elsewhere = prefix + "/"

const prefix = "/api/v1"

// route is one line of the API. What it says about itself is in the OpenAPI
// document.
type route struct {
	method, path string
	summary      string
	query        []parameter
	body         *schemaRef // of the request; nil for none
	bodyType     string     // empty means application/json
	answer       *schemaRef // of a success; nil for none
	answerType   string     // empty means application/json
	status       int        // of a success; zero means 200
	maxBody      int64      // bytes of the request; zero means 20 MiB
	handle       func(w http.ResponseWriter, r *http.Request) error
}

// parameter is one query parameter or header.
type parameter struct {
	name, description string
	kind              string // string, integer, boolean
	in                string // empty means query
}

// routes is the table. To add a route: a line here and its handler.
func (a *api) routes() []route {
	c := &a.config
	list := []route{
		{method: "POST", path: "/calls", summary: "Run a tool", body: schemaOf[CallRequest](), answer: callResult, handle: a.postCall},
		{method: "POST", path: "/calls/batch", summary: "Run many tools; a line for each as it ends",
			query:    []parameter{{"stop_on_error", "start no more after a failure", "boolean", ""}, {"max_parallel", "calls that run together; default 10", "integer", ""}},
			body:     schemaOf[CallRequest](),
			bodyType: "application/x-ndjson", answer: batchResult, answerType: "application/x-ndjson", handle: a.postBatch},
		{method: "GET", path: "/tools", summary: "List the tools",
			query:  []parameter{{"q", "free text; the best match comes first", "string", ""}, {"category", "family", "string", ""}, {"state", "state, such as ready", "string", ""}},
			answer: schemaOf[toolList](), handle: a.getTools},
		{method: "GET", path: "/tools/{name}", summary: "Describe a tool", answer: schemaOf[toolDetail](), handle: a.getTool},
		{method: "PATCH", path: "/tools/{name}", summary: "Enable, disable or limit a tool", body: schemaOf[toolPatch](), answer: schemaOf[toolDetail](), handle: a.patchTool},
		{method: "GET", path: "/stats", summary: "Sum up calls",
			query:  []parameter{{"tool", "only this tool", "string", ""}, {"window", "such as 5m; default since the start", "string", ""}},
			answer: schemaOf[statsList](), handle: a.getStats},
		{method: "GET", path: "/openapi.json", summary: "This document", answer: anyObject, handle: a.getOpenAPI},
	}
	if c.Store != nil {
		list = append(list,
			route{method: "GET", path: "/calls", summary: "List calls, the newest first",
				query: []parameter{{"tool", "full name", "string", ""}, {"session", "session", "string", ""}, {"status", "running, ok, error, refused, cancelled or lost", "string", ""},
					{"since", "a time (RFC 3339) or a duration back from now (1h)", "string", ""}, {"cursor", "next_cursor of the page before", "string", ""}, {"limit", "at most 1000; default 100", "integer", ""}},
				answer: schemaOf[callList](), handle: a.getCalls},
			route{method: "GET", path: "/sessions", summary: "List sessions, the newest first",
				query: []parameter{{"limit", "at most 1000; default 100", "integer", ""}}, answer: schemaOf[sessionList](), handle: a.getSessions},
		)
	}
	list = append(list,
		route{method: "GET", path: "/calls/{id}", summary: "Describe a call", answer: schemaOf[store.Call](), handle: a.getCall},
		route{method: "DELETE", path: "/calls/{id}", summary: "Cancel a call", status: http.StatusAccepted, handle: a.deleteCall},
	)
	if c.Bus != nil {
		list = append(list, route{method: "GET", path: "/events", summary: "Follow what happens, as server-sent events",
			query: []parameter{{"session", "only of this session", "string", ""}, {"type", "only these types, separated by commas", "string", ""},
				{"after", "begin after this event", "integer", ""}, {"questions", "somebody looks at the questions while the stream is open, so that calls wait for an answer", "boolean", ""}, {"Last-Event-ID", "begin after this event", "integer", "header"}},
			answer: schemaOf[tool.Event](), answerType: "text/event-stream", handle: a.getEvents})
	}
	if c.Policy != nil {
		list = append(list,
			route{method: "GET", path: "/policy", summary: "List the rules in force", answer: schemaOf[ruleList](), handle: a.getPolicy},
			route{method: "POST", path: "/policy", summary: "Save a rule", status: http.StatusCreated, body: schemaOf[Rule](), answer: schemaOf[Rule](), handle: a.postPolicy},
			route{method: "POST", path: "/policy/explain", summary: "Judge a call without running it", body: schemaOf[Explain](), answer: schemaOf[Explanation](), handle: a.explain},
		)
	}
	if c.Questions != nil {
		list = append(list, a.questionRoutes()...)
	}
	if c.Jobs != nil {
		list = append(list,
			route{method: "GET", path: "/jobs", summary: "List background commands, the newest first",
				query: []parameter{{"session", "only of this session", "string", ""}, {"limit", "at most 1000; default 100", "integer", ""}}, answer: schemaOf[jobList](), handle: a.getJobs},
			route{method: "GET", path: "/jobs/{id}/output", summary: "Read a job's output",
				query: []parameter{{"offset", "where to begin, in bytes", "integer", ""}, {"limit", "at most 1048576 bytes", "integer", ""}}, answer: schemaOf[JobOutput](), handle: a.getJobOutput},
			route{method: "POST", path: "/jobs/{id}/input", summary: "Write to a job", status: http.StatusNoContent, body: schemaOf[jobInput](), handle: a.postJobInput},
			route{method: "DELETE", path: "/jobs/{id}", summary: "End a job", answer: schemaOf[store.Job](), handle: a.deleteJob},
		)
	}
	if c.Toolbox != nil {
		list = append(list, a.toolboxRoutes()...)
	}
	if c.Gateway != nil {
		list = append(list, a.gatewayRoutes()...)
	}
	if c.OpenArtifact != nil {
		list = append(list, route{method: "GET", path: "/artifacts/{id}", summary: "Read an artifact, or a range of it",
			query: []parameter{{"Range", "bytes=from-to", "string", "header"}}, answer: binary, answerType: "application/octet-stream", handle: a.getArtifact})
	}
	return list
}
