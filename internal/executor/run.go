package executor

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"slices"

	"github.com/toolyard/toolyard/tool"
)

// run is the end of the pipeline, and the only place that calls a tool. A panic
// in the tool is a failed call; the stack goes to the log only.
func run(log *slog.Logger) handler {
	return func(ctx context.Context, c *call) (r *tool.Result) {
		defer func() {
			if p := recover(); p != nil {
				log.Error("a tool panicked", "tool", c.name, "call", c.in.ID, "panic", p, "stack", string(debug.Stack()))
				r = refuse(&tool.Error{Code: tool.Internal, Message: c.name + " crashed", Began: true,
					Hint: "This is a mistake in the tool. Other arguments may work; the log has the details."})
			}
		}()
		if ctx.Err() != nil {
			return refuse(cancelled(ctx, context.Cause(ctx)))
		}
		c.ran.Store(true)
		req := c.request()
		c.forget() // the next attempt, and who looks after this one, begin anew
		got, err := c.handle.Tool.Call(ctx, req)
		return finished(c.spec, got, err)
	}
}

// finished makes one result of what a tool returned; the tool may have kept its
// own, so it is copied.
func finished(spec *tool.Spec, got *tool.Result, err error) *tool.Result {
	r := &tool.Result{}
	if got != nil {
		*r = *got
	}
	if err != nil {
		e := failure(err)
		r.IsError, r.Err = true, e
		said := slices.DeleteFunc(slices.Clone(r.Content), func(b tool.Content) bool { return b.Kind == tool.KindText && b.Text == "" })
		r.Content = append(said, tool.Content{Kind: tool.KindText, Text: e.Text()})
	}
	if r.Err != nil {
		r.IsError = true
	}
	explain(spec, r)
	if r.IsError && len(r.Content) == 0 {
		r.Content = []tool.Content{{Kind: tool.KindText, Text: r.Err.Text()}}
	}
	return r
}

// failure is err as a *tool.Error; a deadline that the tool set itself is a
// timeout.
func failure(err error) *tool.Error {
	if e, ok := errors.AsType[*tool.Error](err); ok {
		return e
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &tool.Error{Code: tool.TimeoutError, Message: err.Error(), Err: err, Retryable: true, Began: true}
	}
	if errors.Is(err, tool.ErrOutputLimit) {
		return &tool.Error{Code: tool.ResourceExhausted, Message: err.Error(), Err: err, Hint: "Print less, or raise output.stored.", Began: true}
	}
	e := tool.AsError(err)
	e.Began = true
	return e
}
