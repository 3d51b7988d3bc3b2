package gateway

import (
	"encoding/json"
	"time"
)

// Server is one entry of mcpServers: the keys that MCP clients use, and ours.
// The zero value of everything but Command or URL works.
type Server struct {
	// Type is "stdio", "http" (also "streamable-http"), "sse" or "ws". Empty is
	// stdio with a Command, ws with a ws:// or wss:// URL, and else http.
	Type string `json:"type,omitempty"`
	// Command, Args, Env and Cwd start a stdio server. Cwd is absolute or starts in
	// the first workspace; empty is that workspace, or the server's home where there
	// is none.
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Cwd     string            `json:"cwd,omitempty"`
	// URL and Headers reach one elsewhere.
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`

	// Enabled is whether the server is there at all. Nil is true.
	Enabled *bool `json:"enabled,omitempty"`
	// Namespace stands before the names of its tools and prompts. Nil is the
	// server's name; "" passes the names through as they are.
	Namespace *string `json:"namespace,omitempty"`
	// Tools says which of its tools are offered, and how.
	Tools Tools `json:"tools,omitzero"`
	// Timeout of one call. Zero is 60 s; progress starts it anew, up to MaxTimeout.
	Timeout Duration `json:"timeout,omitempty"`
	// StartTimeout is how long it may take until it has answered the first request.
	// Zero is 60 s.
	StartTimeout Duration `json:"startTimeout,omitempty"`
	// IdleTimeout is how long it stays that nobody uses. Zero is 10 minutes; negative
	// for ever.
	IdleTimeout Duration `json:"idleTimeout,omitempty"`
	// Concurrency is how many calls run together. Zero is 16.
	Concurrency int `json:"concurrency,omitempty"`
	// Retry of calls that are safe to repeat.
	Retry Retry `json:"retry,omitzero"`
	// Sandbox is what a stdio server may touch.
	Sandbox Sandbox `json:"sandbox,omitzero"`
	// Permissions are rules for its tools, written without the server's name:
	// "search_*", "create_issue(repo:ours/*)".
	Permissions Permissions `json:"permissions,omitzero"`
	// Pin is what becomes of definitions that change: "on" (also "") withholds a
	// changed tool until it is approved, "strict" new ones too, "off" nothing.
	Pin Pin `json:"pin,omitempty"`
	// Sampling lets the server ask the client's model.
	Sampling Sampling `json:"sampling,omitzero"`
	// Trust believes the annotations of its tools: without it only readOnlyHint
	// counts, and only for the default permission.
	Trust bool `json:"trust,omitempty"`
	// Session speaks to the server in the era of sessions (2025-11-25 and before)
	// even if it knows 2026-07-28 too: for one whose tools ask their client in ways
	// that only sessions have.
	Session bool `json:"session,omitempty"`
	// OAuth settings of a remote server.
	OAuth *OAuth `json:"oauth,omitempty"`

	// From is where the entry stands, to show: a file, with a line if known.
	From string `json:"-"`
	// Workspace is the project whose file named the server; "" if the user did.
	Workspace string `json:"-"`
}

// Tools chooses and rewords tools of a server. Names are the server's own; Allow
// and Deny may hold * and ?.
type Tools struct {
	Allow       []string          `json:"allow,omitempty"` // empty is all
	Deny        []string          `json:"deny,omitempty"`
	Rename      map[string]string `json:"rename,omitempty"`
	Description map[string]string `json:"description,omitempty"`
}

// Retry is how often a call runs at most, the first time included, and how long
// it waits in between. Zero is what the kind of failure says (core.md §2).
type Retry struct {
	Attempts int      `json:"attempts,omitempty"`
	Base     Duration `json:"base,omitempty"`
	Cap      Duration `json:"cap,omitempty"`
}

// Sandbox is what a stdio server is granted beyond its own home, the programs of
// this machine and reading the workspaces.
type Sandbox struct {
	Read    []string `json:"read,omitempty"`
	Write   []string `json:"write,omitempty"`
	Network []string `json:"network,omitempty"` // hosts, or the one word all
	Memory  Size     `json:"memory,omitempty"`  // zero is 1 GiB
	PIDs    int      `json:"pids,omitempty"`    // zero is the sandbox's own
	Disk    Size     `json:"disk,omitempty"`    // zero is 1 GiB
	// Level is the weakest that it may run at. Empty is L2.
	Level string `json:"level,omitempty"`
	// Workspaces is how the workspaces are seen: "read" (also ""), "write" or "none".
	Workspaces string `json:"workspaces,omitempty"`
}

// Permissions are rules for the tools of one server.
type Permissions struct {
	Allow []string `json:"allow,omitempty"`
	Ask   []string `json:"ask,omitempty"`
	Deny  []string `json:"deny,omitempty"`
}

// Sampling bounds what a server may ask of the client's model, since the program
// started.
type Sampling struct {
	Allowed bool `json:"allowed,omitempty"`
	Calls   int  `json:"calls,omitempty"`  // zero is 20
	Tokens  int  `json:"tokens,omitempty"` // asked for with maxTokens, all together; zero is 50,000
}

// OAuth is what the operator knows about a server's authorization server. All of
// it may be missing.
type OAuth struct {
	ClientID     string   `json:"clientId,omitempty"`
	ClientSecret string   `json:"clientSecret,omitempty"` // usually ${secret:NAME}
	MetadataURL  string   `json:"authServerMetadataUrl,omitempty"`
	Scopes       []string `json:"scopes,omitempty"`
	CallbackPort int      `json:"callbackPort,omitempty"`
	Off          bool     `json:"off,omitempty"` // never authorize
}

// Pin is what becomes of definitions that change.
type Pin string

// The values of a Pin. The zero value is PinOn.
const (
	PinOn     Pin = "on"
	PinStrict Pin = "strict"
	PinOff    Pin = "off"
)

// Duration is a time: in JSON a Go duration ("90s") or milliseconds as a number.
type Duration time.Duration

// Size is a number of bytes: in JSON a number or "256MiB".
type Size int64

// On reports whether the server is to be offered.
func (s Server) On() bool { return s.Enabled == nil || *s.Enabled }

// Prefix is the namespace of the server's tools.
func (s Server) Prefix(name string) string {
	if s.Namespace == nil {
		return name
	}
	return *s.Namespace
}

// ParseServer reads one entry of mcpServers. Notes are sentences about keys that
// have no effect here, and those that nobody knows. The error is a *tool.Error
// with VALIDATION_ERROR and a fault for each thing that is wrong, by its key.
func ParseServer(name string, raw json.RawMessage) (s Server, notes []string, err error) {
	return parseServer(name, raw)
}
