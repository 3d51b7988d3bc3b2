package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/tool"
)

// Thrown is what tool code threw, as its language tells it. It is the cause of
// the *tool.Error of such a call: errors.AsType[*Thrown] finds it.
type Thrown struct {
	Name    string `json:"name"`    // "TypeError"
	Message string `json:"message"` //
	Code    string `json:"code,omitempty"`
	Stack   string `json:"stack,omitempty"`
	// Cause is the message of the error that this one names as its cause.
	Cause string `json:"cause,omitempty"`
	// Kind says what happened where nothing was thrown by the tool itself: one of
	// the Kind constants. Empty is a throw.
	Kind string `json:"kind,omitempty"`
}

// The kinds of a Thrown.
const (
	KindLoad    = "load"     // the module could not be loaded
	KindAbsent  = "absent"   // there is no such function
	KindValue   = "value"    // the result is nothing that JSON can hold
	KindTooLong = "too_long" // the result is larger than the call allows
	KindLate    = "late"     // thrown where nobody waited for it: a timer, a rejection
	KindHeap    = "heap"     // out of memory, as the language noticed itself
)

func (t *Thrown) Error() string {
	if t.Name == "" {
		return t.Message
	}
	return t.Name + ": " + t.Message
}

// toolError is what the caller of Call reads.
func (t *Thrown) toolError() *tool.Error {
	var err *tool.Error
	switch t.Kind {
	case KindLoad:
		code := tool.ExecutionError
		if t.Code == "ERR_MODULE_NOT_FOUND" || t.Code == "MODULE_NOT_FOUND" || t.Name == "ModuleNotFoundError" {
			code = tool.DependencyError
		}
		err = tool.Errorf(code, "the tool's module does not load: %s", t.Error())
	case KindAbsent:
		err = tool.Errorf(tool.NotFound, "%s", t.Message)
	case KindValue:
		err = tool.Errorf(tool.ExecutionError, "the tool's result cannot be written as JSON: %s", t.Message).
			WithHint("Return plain objects, lists, strings and numbers.")
	case KindTooLong:
		err = tool.Errorf(tool.ResourceExhausted, "the tool's result is too large: %s", t.Message).
			WithHint("Ask for less at once, or have the tool write a file.")
	case KindLate:
		err = tool.Errorf(tool.ExecutionError, "the tool threw outside of its call: %s", t.Error()).
			WithHint("A promise or a timer of the tool failed and nothing caught it.")
	case KindHeap:
		err = outOfMemory(0)
	default:
		err = tool.Errorf(tool.ExecutionError, "%s", t.Error())
	}
	err.Err = t
	err.WithDetail("name", t.Name)
	if t.Code != "" {
		err.WithDetail("code", t.Code)
	}
	if t.Stack != "" {
		err.WithDetail("stack", t.Stack)
	}
	return err
}

func outOfMemory(limit int64) *tool.Error {
	err := tool.Errorf(tool.ResourceExhausted, "the tool used more memory than it may")
	if limit > 0 {
		err = tool.Errorf(tool.ResourceExhausted, "the tool used more than its memory limit of %d MiB", limit/sandbox.MiB)
	}
	return err.WithDetail("reason", sandbox.EndMemory).WithHint("Process less at once, or grant the tool more memory.")
}

func wallReached(limit time.Duration) *tool.Error {
	return tool.Errorf(tool.TimeoutError, "the tool ran longer than its limit of %s and was ended", limit).
		WithDetail("reason", sandbox.EndWall).WithHint("Ask for less at once, or grant the tool more time.")
}

func cpuReached(limit time.Duration) *tool.Error {
	return tool.Errorf(tool.ResourceExhausted, "the tool used more CPU time than its limit of %s and was ended", limit).
		WithDetail("reason", sandbox.EndCPU).WithHint("Ask for less at once, or grant the tool more time.")
}

// ended is what the end of a worker's process means for a call that ran in it.
func ended(r sandbox.Result, p *sandbox.Profile, stderr string) *tool.Error {
	var err *tool.Error
	e := r.Ending
	heap := e.Reason == sandbox.EndSignal && (strings.Contains(stderr, "heap out of memory") || strings.Contains(stderr, "OOMDetails"))
	switch {
	case e.Reason == sandbox.EndMemory || heap:
		err = outOfMemory(p.Memory)
	case e.Reason == sandbox.EndPIDs:
		err = tool.Errorf(tool.ResourceExhausted, "the tool started more than its limit of %d processes", p.PIDs).
			WithHint("Grant the tool more processes.")
	case e.Reason == sandbox.EndDisk:
		err = tool.Errorf(tool.ResourceExhausted, "the tool wrote more than its disk limit").WithHint("Grant the tool more room.")
	case e.Reason == sandbox.EndWall:
		err = wallReached(p.Wall)
	case e.Reason == sandbox.EndCPU:
		err = cpuReached(p.CPU)
	case e.Signal == "SIGSYS":
		err = tool.Errorf(tool.SandboxDenied, "the tool made a system call that its sandbox does not have")
	case e.Reason == sandbox.EndExit:
		err = tool.Errorf(tool.ExecutionError, "the tool ended its own process with exit code %d", e.Code).
			WithHint("A tool returns or throws; it does not exit.")
	case e.Reason == sandbox.EndSignal && e.Signal != "SIGKILL":
		err = tool.Errorf(tool.ExecutionError, "the tool's process crashed with %s", e.Signal)
	default:
		err = tool.Errorf(tool.SandboxTerminated, "the tool's process was killed").WithHint("Call again; a new process takes its place.")
	}
	if len(r.Violations) > 0 {
		err.WithDetail("violations", r.Violations)
	}
	if tail := strings.TrimSpace(stderr); tail != "" {
		err.WithDetail("stderr", tail)
	}
	return err.WithDetail("reason", e.Reason)
}

// stopped is the error of a call whose context ended.
func stopped(ctx context.Context) *tool.Error {
	cause := context.Cause(ctx)
	if errors.Is(cause, tool.ErrTimeout) || errors.Is(cause, context.DeadlineExceeded) {
		return tool.Errorf(tool.TimeoutError, "the call was ended: %v", cause)
	}
	return tool.Errorf(tool.Cancelled, "the call was cancelled: %v", cause)
}

func faulty(err error) *tool.Error {
	text := strings.TrimPrefix(err.Error(), errProtocol.Error()+": ")
	e := tool.Errorf(tool.ExecutionError, "the tool's process was ended because of what came on its descriptor 3: %s", text).
		WithHint("Descriptor 3 is the runtime's; a tool prints to its standard output.")
	e.Err = err
	return e.WithDetail("reason", "protocol")
}

func gone(f *frame) *tool.Error {
	what := fmt.Sprintf("exit code %d", f.Code)
	if f.Text != "" {
		what = f.Text
	}
	return tool.Errorf(tool.ExecutionError, "the tool ended its own process with %s", what).
		WithHint("A tool returns or raises; it does not exit.").WithDetail("reason", sandbox.EndExit)
}
