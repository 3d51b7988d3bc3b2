package executor

import (
	"context"
	"encoding/json"
	"time"

	"github.com/toolyard/toolyard/internal/policy"
	"github.com/toolyard/toolyard/tool"
)

// Origin says which front door a call came through.
type Origin string

// The front doors. The doom loop stage is off for OriginCLI and OriginSDK.
const (
	OriginMCP Origin = "mcp"
	OriginAPI Origin = "api"
	OriginCLI Origin = "cli"
	OriginSDK Origin = "sdk"
)

// Call is one request to run a tool. Tool is needed, all else may be zero.
type Call struct {
	// Tool is any name that the registry knows: a full name, an alias, the wire
	// form or the name of another system.
	Tool      string
	Arguments json.RawMessage
	// ID is the call's ID. Empty means that one is made: "call_" and 16 hex
	// digits. An ID that is running already is refused.
	ID string
	// ParentID is the call that this one belongs to; "" at the top. Inner calls
	// made by a tool get it from the executor.
	ParentID     string
	Session      string
	Conversation string // empty means Session
	Turn         string
	Tenant       string
	Project      string
	// Workspace is the absolute path of the workspace's root; "" if there is none.
	Workspace string
	// Mode is the session's mode. Empty means build.
	Mode policy.Mode
	// Rules hold for this session only, besides those of the policy. The slice
	// must not change afterwards; pass the same one for each call of a session.
	Rules []policy.Rule
	// Renew gives Rules as they are now, after a person was asked. Nil means that
	// they do not change while the call runs.
	Renew func(ctx context.Context) []policy.Rule
	// Timeout is the limit of one attempt. Zero means the tool's own; it is cut
	// to the tool's ceiling.
	Timeout time.Duration
	Origin  Origin
	// Concurrent says that the caller sent other calls without waiting for their
	// answers. Such a call is no repetition of what it has seen: the doom loop
	// does not count it.
	Concurrent bool
	// Unread says that the call came so soon after the session's last answer that
	// nobody can have read it: the caller may well have sent both together. The
	// doom loop then does not count reads.
	Unread bool
	// Client is the MCP client that makes the call, for tools that stand for other
	// servers. Nil means that there is none, or none that can be asked.
	Client tool.Client
	// Allowed says which tools the caller may call, itself and through others. Nil
	// means all. What it does not allow is not found.
	Allowed func(*tool.Spec) bool
	// Asker puts questions to a person. Nil means that nobody can be asked.
	Asker Asker
	// OnEvent gets the events of this call, in order and never concurrently. It
	// must be quick and must not call the executor. The events of the calls that
	// a tool makes are on the bus only.
	OnEvent func(tool.Event)
}

// Asker puts a question to a person and waits for the answer until ctx is done.
// It returns [tool.ErrNoChannel] (wrapped or not) if nobody can be reached, and
// must be safe for concurrent use.
type Asker interface {
	Ask(ctx context.Context, q tool.Question) (tool.Answer, error)
}
