// Package upstream is the client's end of an MCP connection, for the gateway:
// it speaks JSON-RPC 2.0 to a server over stdio, streamable HTTP, HTTP with SSE
// or WebSocket, in whichever era of the protocol the server knows, and hands
// results on as the bytes they came in. It must not know what a tool, a policy
// or a configuration is, nor start processes; it uses no SDK types, because
// their decoding drops members that they do not know.
//
// A connection is made by [Connect], which asks for the newest protocol first
// (server/discover of 2026-07-28, then initialize of 2025-11-25 and older), and
// used by [Client.Call]:
//
//	c, err := upstream.Connect(ctx, upstream.Config{Stdio: &upstream.Stdio{Stdin: in, Stdout: out}})
//	result, err := c.Call(ctx, upstream.Request{Method: "tools/call", Params: params})
//
// An error of Call is an [*Error], if the server answered with one, or a
// [*tool.Error]: CONNECTION_ERROR if the answer cannot come any more,
// TIMEOUT_ERROR or CANCELLED if the caller's context ended, RATE_LIMITED,
// PERMISSION_DENIED, RESOURCE_EXHAUSTED or DEPENDENCY_ERROR for what a server or
// a bound refused. Details["sent"] and Began say whether the server may have
// seen the request: what may have been seen must not be sent again.
package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"
)

// The bounds of a connection.
const (
	// DefaultMaxMessage is how many bytes one message may have.
	DefaultMaxMessage = 64 << 20
	// maxInFlight is how many calls of one connection may wait for an answer.
	maxInFlight = 1024
	// maxAsks is how many requests of the server are answered at a time.
	maxAsks = 64
	// handshakeTimeout is how long a server has until it can be used.
	handshakeTimeout = 30 * time.Second
	// discoverTimeout is how long server/discover is waited for on a stream before
	// initialize is sent as well: older servers may ignore what they do not know.
	discoverTimeout = 5 * time.Second
	// listenTimeout is how long a server has to open the stream for what belongs to
	// no call; calls are made without it then.
	listenTimeout = time.Second
	// closeTimeout is how long a server may take to hear what is taken back.
	closeTimeout = 5 * time.Second
	// goodbyeTimeout is how long Close waits for the end of a session.
	goodbyeTimeout = 2 * time.Second
)

// Config says what to connect to. Exactly one of Stdio, HTTP, SSE and WebSocket
// is set.
type Config struct {
	Stdio *Stdio
	// HTTP is streamable HTTP, of both eras. A server that knows neither is tried
	// as one of HTTP with SSE.
	HTTP *HTTP
	// SSE is HTTP with SSE as of 2024-11-05.
	SSE *HTTP
	// WebSocket has a URL of ws, wss, http or https.
	WebSocket *HTTP

	// Info is our Implementation object. nil means one with the name "toolyard".
	Info json.RawMessage
	// Capabilities is the ClientCapabilities object that a session is begun with,
	// and the default of Request.Capabilities. nil means none.
	Capabilities json.RawMessage
	// Session skips server/discover and begins a session at once, for servers that
	// end when the first message is not initialize. The error of a connection that
	// was lost so has Details["probe"] = true.
	Session bool

	// Request answers requests of the server that belong to no call, or not surely
	// to one. nil refuses them. ping never gets here. Safe for concurrent use.
	Request func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, *Error)
	// Notification takes what the server says beside its calls, in order, never
	// concurrently. It may make calls but must not call Close.
	Notification func(method string, params json.RawMessage)
	// Renewed is called when the server may have forgotten or changed what it was
	// told and asked: after a session was lost and begun anew, and after a listening
	// stream was opened again. Resource subscriptions of Listen are made again by
	// the connection itself; a log level and lists are not. It is called like
	// Notification.
	Renewed func()
	// Closed is called once when the connection is lost, on a goroutine of its own.
	// It is not called after Close.
	Closed func(error)

	// MaxMessage bounds a message of the server, in bytes. Zero means
	// [DefaultMaxMessage].
	MaxMessage int64
	// Log takes what a server does wrong. nil means none.
	Log *slog.Logger
}

// Stdio is the two ends of a process that the caller started and ends. Close
// closes both; its goroutines are gone when it returns if Stdout is an io.Closer
// whose Close ends a Read, as that of a pipe, else when the process has ended.
type Stdio struct {
	Stdin  io.WriteCloser
	Stdout io.Reader
}

// HTTP is a server at a URL.
type HTTP struct {
	URL string
	// Header is sent with every request: credentials and what the server demands.
	Header http.Header
	// Client does the requests. Its transport says what may be reached and how TLS
	// is done; it must have no Timeout, which would end long streams. Redirects are
	// followed with the method kept; one to another origin gets neither Header nor
	// what Auth adds. nil means a plain one.
	Client *http.Client
	// Auth may be nil.
	Auth Authorizer
}

// Authorizer adds credentials to requests. It is safe for concurrent use.
type Authorizer interface {
	// Authorize sets what proves who we are, usually the Authorization header.
	Authorize(ctx context.Context, r *http.Request) error
	// Challenge is told of an answer 401 or 403. retry says that the request should
	// be made again, with what Authorize sets now. It must not close the body.
	Challenge(ctx context.Context, r *http.Response) (retry bool, err error)
}

// ServerInfo is what a server said of itself.
type ServerInfo struct {
	Info         json.RawMessage // Implementation; nil if it gave none
	Capabilities json.RawMessage // ServerCapabilities; "{}" if it gave none
	Instructions string
	Result       json.RawMessage // the whole result of server/discover or initialize
}

// Request is one call of a method of the server.
type Request struct {
	Method string
	// Params is an object; nil means none. Its members are sent as they are, but
	// for _meta.
	Params json.RawMessage
	// Meta is what the client behind sent as _meta. Its members, then those of
	// Params._meta, are kept, except for the progress token and what 2026-07-28
	// reserves for the parties of one connection: those are ours.
	Meta json.RawMessage
	// Name is the header Mcp-Name. "" means name or uri of Params for the methods
	// where the protocol says so.
	Name string
	// Headers makes the Mcp-Param headers of a tool; nil means none.
	Headers *ParamHeaders
	// Client is who is behind this call: any comparable value that tells clients
	// apart. It must be set on every call that is made for somebody: a request of
	// the server that comes beside the calls is put to Ask only if all of them are
	// of one client.
	Client any
	// Capabilities and ClientInfo are those of the client behind, for servers of
	// 2026-07-28. nil means those of Config.
	Capabilities json.RawMessage
	ClientInfo   json.RawMessage
	// LogLevel asks a server of 2026-07-28 for messages of this call; "" for none.
	LogLevel string
	// Progress and Log take the params of notifications/progress and
	// notifications/message of this call, in order, on the goroutine of Call and
	// before it returns. A slow one loses the oldest. nil means none wanted.
	Progress, Log func(params json.RawMessage)
	// Ask answers a request of the server in the course of this call. It may run
	// beside itself and its context ends with the call. nil means that nobody can
	// be asked.
	Ask func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, *Error)
}

// Codes of JSON-RPC errors that we answer or understand.
const (
	CodeParse              = -32700
	CodeInvalidRequest     = -32600
	CodeMethodNotFound     = -32601
	CodeInvalidParams      = -32602
	CodeInternal           = -32603
	CodeBusy               = -32000
	CodeHeaderMismatch     = -32020
	CodeMissingCapability  = -32021
	CodeUnsupportedVersion = -32022
)

// Error is an error object of JSON-RPC, as the server sent it.
type Error struct {
	Code    int64
	Message string
	Data    json.RawMessage // nil if there was none
}

func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// Counters says what a connection had to put up with.
type Counters struct {
	Garbage  int64 // lines, events and answers that were no message
	Unknown  int64 // answers to nothing that was asked, or asked still
	Oversize int64 // messages above the bound
	Dropped  int64 // notifications that nobody took in time
}
