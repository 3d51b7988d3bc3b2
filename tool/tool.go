package tool

import (
	"context"
	"encoding/json"
	"time"
)

// Tool is one thing that an agent can call.
//
// Spec returns the same value for the life of the tool; callers do not change
// it. Call runs the tool once. It must be safe for concurrent use, must return
// soon after ctx is done, and streams partial output through [Request.Emit].
// Arguments arrive validated against Spec().Input with aliases resolved and
// defaults applied. A failure that the model should read is a [*Error] or a
// Result with IsError; any other error is reported as INTERNAL.
type Tool interface {
	Spec() *Spec
	Call(ctx context.Context, req *Request) (*Result, error)
}

// Previewer is a tool that can show what a call would do without doing it.
type Previewer interface {
	Preview(ctx context.Context, req *Request) (*Result, error)
}

// HealthChecker is a tool that can tell whether it would work now. A tool
// without it counts as healthy.
type HealthChecker interface {
	CheckHealth(ctx context.Context) error
}

// Starter is a tool with something to prepare before its first call. Start is
// called once, by the registry; an error puts the tool into state failed.
type Starter interface {
	Start(ctx context.Context) error
}

// Closer is a tool that holds something to release. Close is called once,
// after the last call has ended.
type Closer interface {
	Close(ctx context.Context) error
}

// Composer is a tool that can tell whether its output fits another's input
// better than a comparison of the schemas would.
type Composer interface {
	CanCompose(next *Spec) bool
}

// Resourcer tells which resources a call reads and writes, so that calls which
// do not touch the same thing run side by side. It sees validated arguments
// and must not block.
type Resourcer interface {
	Resources(req *Request) []Resource
}

// Validator finds faults that a schema cannot express. It sees arguments that
// already fit the schema and must not block.
type Validator interface {
	Validate(req *Request) []Fault
}

// Permitter may tighten what the policy decided about a call, or narrow its
// arguments. It can never loosen: an action weaker than verdict is ignored.
type Permitter interface {
	Permit(ctx context.Context, req *Request, verdict Action) (Action, string)
}

// Enabler tells whether the tool is of any use here (a program is installed, a
// key is set). The reason is shown to the person.
type Enabler interface {
	Enabled(ctx context.Context) (bool, string)
}

// Timeouter gives the time limit of one call where it depends on the
// arguments. Zero means Spec().Timeout.
type Timeouter interface {
	CallTimeout(req *Request) time.Duration
}

// Concealer is a tool whose arguments may hold secrets that nobody knows yet.
// Conceal gives arguments, as they came and perhaps no JSON, as the record and
// the events may show them. It must not block, and is safe for concurrent use.
type Concealer interface {
	Conceal(arguments json.RawMessage) json.RawMessage
}

// Retrier says how failed attempts are repeated, where the tool's configuration
// says nothing. Whether they may be at all is not for it to say.
type Retrier interface {
	Retry() Retry
}

// Retry is how failed attempts are repeated.
type Retry struct {
	// Attempts counts all runs. Zero means 1 and the retries of the error's code.
	Attempts int
	// Base is the first delay, doubled each time, and Cap the longest. Zero means 1 s
	// and 30 s.
	Base, Cap time.Duration
}

// Coordinator is a tool that only calls others (execute_batch). It has no time
// limit and holds no slot of its own; its inner calls do, and the policy judges
// those instead of it.
type Coordinator interface {
	Coordinates() bool
}

// PermissionSubject is a tool whose calls are judged by strings that are not
// simply its arguments. Without it the policy uses the arguments that the
// schema marks as paths, commands or names.
type PermissionSubject interface {
	Subjects(req *Request) []Subject
}

// Subject is one thing that a permission rule's pattern is matched against.
type Subject struct {
	Kind  SubjectKind
	Value string
	Write bool // a path that is written
}

// SubjectKind says how a pattern meets a subject.
type SubjectKind uint8

const (
	// SubjectPath is a path as the user gave it; matched as a gitignore pattern
	// on this name and on the real path.
	SubjectPath SubjectKind = iota + 1
	// SubjectCommand is a shell command; matched one simple command at a time.
	SubjectCommand
	// SubjectText is matched as a glob over the whole string.
	SubjectText
)

// Access is what a call does to a resource.
type Access uint8

const (
	ReadAccess  Access = iota + 1
	WriteAccess        // implies reading
)

// Resource is something that a call touches. Key is compared by path: "/a/b"
// lies under "/a". Two calls conflict if one writes a key that equals, contains
// or lies under a key of the other.
type Resource struct {
	Key    string
	Access Access
}

// Action is what a permission rule says, from weak to strong.
type Action uint8

const (
	Allow Action = iota + 1
	Ask
	Deny
)

func (a Action) String() string {
	switch a {
	case Allow:
		return "allow"
	case Ask:
		return "ask"
	case Deny:
		return "deny"
	}
	return "unset"
}
