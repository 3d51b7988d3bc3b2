package check

import (
	"context"
	"encoding/json"
)

// Trial runs the tool that is looked at, in a throw-away copy of its folder with
// scratch data, in the sandbox with what the tool may do without a person's grant
// and no network. Its methods are called one at a time.
//
// Required variables that are not set should have the values of [Variables], so
// that a tool that needs settings can be tried before it is configured, and a
// secret that appears in a log is seen.
type Trial interface {
	// Validate does what the runtime does before a tool sees the parameters of a
	// call: it returns them with aliases resolved and defaults applied, or the
	// error of a call that does not reach the tool.
	Validate(params json.RawMessage) (json.RawMessage, error)
	// Execute calls the tool's execute with params as they are; Validate does not
	// stand before it. What became of the call is the Outcome, failures of the tool
	// and of its process among them. An error means that no call could be made at
	// all. ctx ends the call.
	Execute(ctx context.Context, params json.RawMessage) (Outcome, error)
	// Escape runs code in the tool's place that tries to read and write outside of
	// the tool's directories, and names what it could. An error
	// means that it could not be tried.
	Escape(ctx context.Context) (reached []string, err error)
}

// Tester is a Trial that can run the tests that a tool has of its own.
type Tester interface {
	// Test runs them. An error means that they could not be run.
	Test(ctx context.Context) (TestRun, error)
}

// TestRun is what became of a tool's own tests.
type TestRun struct {
	// Passed says that all did.
	Passed bool
	// Summary is one line: "5 passed, 1 failed".
	Summary string
}

// Outcome is what became of one call of a tool.
type Outcome struct {
	// Value is the JSON of what execute returned; nil if it returned nothing or
	// failed.
	Value json.RawMessage
	// Undefined says that execute returned undefined, in Python nothing at all
	// where that can be told from None.
	Undefined bool
	// Err is why the call failed: a *tool.Error, with a *worker.Thrown as its cause
	// where the tool's own code threw. Nil is success.
	Err error
	// Lines are the entries that the call added to run.log, the runtime's own
	// (start, end) among them.
	Lines []string
	// Changed names the files that the call made, changed or removed, but for
	// run.log and what is in logs/.
	Changed []string
}
