package gateway

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/toolyard/toolyard/internal/event"
	"github.com/toolyard/toolyard/internal/gateway/upstream"
	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/toolbox/deps"
	"github.com/toolyard/toolyard/internal/toolbox/pydeps"
	"github.com/toolyard/toolyard/internal/toolbox/runtimes"
	"github.com/toolyard/toolyard/tool"
)

// Config of a Gateway. Home is needed, and Runner for stdio servers.
type Config struct {
	// Home is the runtime's home: gateway/<name>/ below it is each server's own,
	// mcp.json the entries that Add writes.
	Home string
	// Servers are the entries of the configuration. Those of $Home/mcp.json come
	// with them; of two with one name the configuration's counts.
	Servers map[string]Server
	// Check refuses entries for reasons of its own. Nil refuses none.
	Check func(name string, s Server) error
	// Workspaces are the directories that servers are told of as roots and see.
	Workspaces []string
	// Runner confines stdio servers.
	Runner sandbox.Runner
	// MinLevel is the weakest level of the sandbox for servers that say nothing.
	// Empty is L2.
	MinLevel sandbox.Level
	// Protected lists what of a workspace a server may not change. Nil is
	// sandbox.DefaultProtected.
	Protected func(workspace string) []string
	// Deny lists what of a workspace a server must not see. Nil is nothing.
	Deny func(workspace string) ([]string, error)
	// Path and UserHome are the operator's, to find programs.
	Path, UserHome string
	// JavaScript and Python install what npx, bunx and uvx name. JavaScript must give
	// each server files of its own (deps.Config.Copy): it may write in its package.
	// Nil leaves those commands as they are.
	JavaScript *deps.Installer
	Python     *pydeps.Installer
	// Node finds the Node that runs what npx names. Nil is that of Path.
	Node func(ctx context.Context) (string, error)
	// PythonMounts are what a sandbox must show for a Python to run. Nil is nothing.
	PythonMounts func(runtimes.Runtime) []sandbox.Mount
	// Settings keep lists and pins. Nil keeps them in memory.
	Settings store.Settings
	// Bus gets gateway_state events. Nil drops them.
	Bus *event.Bus
	// Env gives the variables that ${VAR} may name. Nil knows none.
	Env func(name string) (string, bool)
	// Secret gives those that ${secret:NAME} names. Nil knows none.
	Secret func(ctx context.Context, name string) (string, error)
	// Conceal is told values that must be redacted everywhere. Nil tells nobody.
	Conceal func(server string, values map[string]string)
	// HTTP is the client for remote servers; it decides which addresses may be
	// reached. Nil is http.DefaultClient.
	HTTP *http.Client
	// Auth gives what authorizes requests to a remote server; nil, and nil from it,
	// send none but the entry's headers.
	Auth func(name string, s Server) upstream.Authorizer
	// Info is our Implementation object; empty is {"name":"toolyard"}.
	Info json.RawMessage
	// Ready waits until Settings can be used. Nil does not wait.
	Ready func(ctx context.Context) error
	// Discover starts servers that have never been seen, so that their tools are
	// known.
	Discover bool
	// Redact takes secrets out of what servers write to their logs. Nil leaves all in.
	Redact func(string) string
	// Log gets what a person who runs the program should know. Nil discards it.
	Log *slog.Logger
	// Now is the clock. Nil is time.Now.
	Now func() time.Time
}

// State is how a server is.
type State string

// The states of a server.
const (
	Stopped  State = "stopped"  // nobody needs it
	Starting State = "starting" // being started, or waiting to be tried again
	Ready    State = "ready"
	Degraded State = "degraded" // answers, but not all of it works
	Failed   State = "failed"   // tried too often; Start tries again
	Disabled State = "disabled" // by the configuration
)

// EventState is the event of a server whose state changed: server, from, to,
// cause.
const EventState = "gateway_state"

// Status is one server, in a list.
type Status struct {
	Name      string    `json:"name"`
	Namespace string    `json:"namespace"`
	Transport string    `json:"transport"` // stdio, http, sse, ws
	Target    string    `json:"target"`    // the command or the URL, secrets left out
	State     State     `json:"state"`
	Cause     string    `json:"cause,omitempty"` // of the state
	Since     time.Time `json:"since"`
	From      string    `json:"from,omitempty"` // where the entry stands
	Tools     int       `json:"tools"`
	Withheld  int       `json:"withheld,omitempty"` // quarantined tools
	Resources int       `json:"resources,omitempty"`
	Prompts   int       `json:"prompts,omitempty"`
	Protocol  string    `json:"protocol,omitempty"` // the version that was agreed on
	Server    string    `json:"server,omitempty"`   // its name and version
	PID       int       `json:"pid,omitempty"`
	InFlight  int       `json:"in_flight"`
	Problem   string    `json:"problem,omitempty"` // of the entry itself
}

// Detail is all that is known of a server.
type Detail struct {
	Status
	Entry        json.RawMessage `json:"entry"` // as configured; secrets by name only
	Capabilities json.RawMessage `json:"capabilities,omitempty"`
	Instructions string          `json:"instructions,omitempty"`
	ToolList     []ToolInfo      `json:"tool_list"`
	Notes        []string        `json:"notes,omitempty"`
	// Sandbox is what confines the process of a stdio server; nil while none runs.
	Sandbox *tool.SandboxMeta `json:"sandbox,omitempty"`
	Metrics Metrics           `json:"metrics"`
	Log     []string          `json:"log,omitempty"` // its end
}

// ToolInfo is one tool of a server.
type ToolInfo struct {
	Name        string   `json:"name"` // the server's own
	FullName    string   `json:"full_name"`
	Description string   `json:"description,omitempty"`
	ReadOnly    bool     `json:"read_only,omitempty"`
	Hidden      bool     `json:"hidden,omitempty"`      // by the filter
	Quarantined string   `json:"quarantined,omitempty"` // "changed" or "new"
	Diff        string   `json:"diff,omitempty"`        // unified, of what was approved and what it is now
	Warnings    []string `json:"warnings,omitempty"`    // hidden characters
	Pinned      string   `json:"pinned,omitempty"`      // hash of the approved definition
}

// Metrics counts since the program started.
type Metrics struct {
	Calls    int64   `json:"calls"`
	Errors   int64   `json:"errors"`
	P50MS    float64 `json:"p50_ms"`
	P95MS    float64 `json:"p95_ms"`
	Starts   int64   `json:"starts"`
	Restarts int64   `json:"restarts"` // after a failure
	BytesIn  int64   `json:"bytes_in"`
	BytesOut int64   `json:"bytes_out"`
	Sampling int64   `json:"sampling"` // requests of the server to a model
}

// Approval says which definitions are approved. The zero value is all that are
// quarantined.
type Approval struct {
	Tools []string `json:"tools,omitempty"`
	// DryRun only tells what would be.
	DryRun bool `json:"dry_run,omitempty"`
}

// Approved is what an approval changed, or would.
type Approved struct {
	Tool string `json:"tool"`
	Was  string `json:"was"` // "changed" or "new"
	Diff string `json:"diff"`
}
