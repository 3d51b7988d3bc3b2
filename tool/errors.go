package tool

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Code is the stable name of a kind of failure.
type Code string

// The codes. To add one: a constant here, a row in codeTable, a line in
// docs/reference (generated).
const (
	ConnectionError   Code = "CONNECTION_ERROR"
	TimeoutError      Code = "TIMEOUT_ERROR"
	RateLimited       Code = "RATE_LIMITED"
	ParameterError    Code = "PARAMETER_ERROR" // fits the schema but makes no sense
	NotFound          Code = "NOT_FOUND"
	ValidationError   Code = "VALIDATION_ERROR" // does not fit the schema
	Conflict          Code = "CONFLICT"
	PermissionDenied  Code = "PERMISSION_DENIED"
	PermissionTimeout Code = "PERMISSION_TIMEOUT"
	ModeDenied        Code = "MODE_DENIED"
	HookDenied        Code = "HOOK_DENIED"
	DoomLoop          Code = "DOOM_LOOP"
	ExecutionError    Code = "EXECUTION_ERROR"
	ResourceExhausted Code = "RESOURCE_EXHAUSTED"
	DependencyError   Code = "DEPENDENCY_ERROR"
	QueueFull         Code = "QUEUE_FULL"
	Cancelled         Code = "CANCELLED"
	Internal          Code = "INTERNAL"

	SandboxNotFound    Code = "SANDBOX_NOT_FOUND"
	SandboxTerminated  Code = "SANDBOX_TERMINATED"
	SandboxUnavailable Code = "SANDBOX_UNAVAILABLE" // the level cannot be had
	SandboxDenied      Code = "SANDBOX_DENIED"      // a violation

	ToolNotFound      Code = "TOOL_NOT_FOUND"
	ToolDisabled      Code = "TOOL_DISABLED"
	AlreadyInPlanMode Code = "ALREADY_IN_PLAN_MODE"
	NotInPlanMode     Code = "NOT_IN_PLAN_MODE"
	PlanNotFound      Code = "PLAN_NOT_FOUND"
	InvalidPlanState  Code = "INVALID_PLAN_STATE"
)

// codeTable: class of a code and how often it is retried after the first
// attempt.
var codeTable = map[Code]struct {
	class          string
	retries        int
	idempotentOnly bool
}{
	ConnectionError:    {"connection_error", 3, false},
	TimeoutError:       {"timeout_error", 2, true},
	RateLimited:        {"connection_error", 3, false},
	ParameterError:     {"parameter_error", 0, false},
	NotFound:           {"parameter_error", 0, false},
	ValidationError:    {"validation_error", 0, false},
	Conflict:           {"validation_error", 0, false},
	PermissionDenied:   {"permission_error", 0, false},
	PermissionTimeout:  {"permission_error", 0, false},
	ModeDenied:         {"permission_error", 0, false},
	HookDenied:         {"permission_error", 0, false},
	DoomLoop:           {"permission_error", 0, false},
	ExecutionError:     {"execution_error", 0, false},
	ResourceExhausted:  {"execution_error", 0, false},
	DependencyError:    {"execution_error", 0, false},
	QueueFull:          {"execution_error", 0, false},
	Cancelled:          {"execution_error", 0, false},
	Internal:           {"execution_error", 0, false},
	SandboxNotFound:    {"sandbox_not_found", 0, false},
	SandboxTerminated:  {"sandbox_terminated", 0, false},
	SandboxUnavailable: {"sandbox_unavailable", 0, false},
	SandboxDenied:      {"sandbox_denied", 0, false},
	ToolNotFound:       {"parameter_error", 0, false},
	ToolDisabled:       {"parameter_error", 0, false},
	AlreadyInPlanMode:  {"parameter_error", 0, false},
	NotInPlanMode:      {"parameter_error", 0, false},
	PlanNotFound:       {"parameter_error", 0, false},
	InvalidPlanState:   {"parameter_error", 0, false},
}

// Class is the coarse kind of a code; "unknown_error" for one that is not in
// the table.
func (c Code) Class() string {
	if row, ok := codeTable[c]; ok {
		return row.class
	}
	return "unknown_error"
}

// Retries is how many attempts may follow the first one, and whether only for
// an idempotent tool.
func (c Code) Retries() (n int, idempotentOnly bool) {
	row := codeTable[c]
	return row.retries, row.idempotentOnly
}

// Codes lists every code, by the alphabet, for documentation and metrics.
func Codes() []Code {
	codes := make([]Code, 0, len(codeTable))
	for c := range codeTable {
		codes = append(codes, c)
	}
	slices.Sort(codes)
	return codes
}

// Fault is one thing wrong with the arguments of a call.
type Fault struct {
	Path     string `json:"path"`     // JSON path: "edits[2].old_str"; "" is the whole
	Expected string `json:"expected"` // what would have been right
	Got      string `json:"got"`      // what was there
}

func (f Fault) String() string {
	where := f.Path
	if where == "" {
		where = "arguments"
	}
	return fmt.Sprintf("%s: expected %s, got %s", where, f.Expected, f.Got)
}

// Error is a failure that a model and a person read. Message says what was
// wrong and with which value, in lower case without a full stop; Hint says what
// to do next.
type Error struct {
	Code    Code
	Message string
	Hint    string
	// Retryable says that the same call may succeed later. The executor retries
	// by Code; this is what the caller is told.
	Retryable bool
	// RetryAfter is how long to wait, where the other side said so.
	RetryAfter time.Duration
	Field      string
	Faults     []Fault
	Details    map[string]any
	// Began says that the tool may already have had an effect, so only an
	// idempotent tool is run again.
	Began bool
	// Err is the cause, for the log; never shown to the model.
	Err error
}

// Errorf makes an Error of a code.
func Errorf(code Code, format string, args ...any) *Error {
	n, _ := code.Retries()
	err := &Error{Code: code, Message: fmt.Sprintf(format, args...), Retryable: n > 0}
	for _, a := range args {
		if e, ok := a.(error); ok {
			err.Err = e
		}
	}
	return err
}

// WithHint adds what to do next and returns e.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// WithDetail adds one detail and returns e.
func (e *Error) WithDetail(key string, value any) *Error {
	if e.Details == nil {
		e.Details = map[string]any{}
	}
	e.Details[key] = value
	return e
}

// Error is the message without the hint.
func (e *Error) Error() string { return e.Message }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Text is what the model reads: the message, then the hint. A message of more
// than one line shows something below its first, and has the hint below that.
func (e *Error) Text() string {
	end := ". "
	if strings.Contains(e.Message, "\n") {
		end = "\n"
	}
	return strings.TrimRight(e.Message+end+e.Hint, " \n")
}

// AsError finds an *Error in err, or wraps err as INTERNAL. nil stays nil.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Code: Internal, Message: err.Error(), Err: err}
}

// Sentinels that callers test for.
var (
	// ErrNoChannel says that a person was needed and none can be reached.
	ErrNoChannel = errors.New("nobody can be asked")
	// ErrNoAnswer says that a person had the time to answer and did not.
	ErrNoAnswer = errors.New("nobody has answered in time")
	// ErrOutputLimit says that a call printed more than may be stored.
	ErrOutputLimit = errors.New("the output limit is reached")
	// ErrTimeout is the cause of a context that the call's time limit ended.
	ErrTimeout = errors.New("the call's time limit has passed")
)
