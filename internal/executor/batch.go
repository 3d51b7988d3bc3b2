package executor

import (
	"context"
	"errors"
	"iter"
	"sync"

	"github.com/toolyard/toolyard/internal/scheduler"
	"github.com/toolyard/toolyard/tool"
)

// errStopped ends the calls of a batch after a failure with stop_on_error.
var errStopped = errors.New("an earlier call of the batch failed")

// ExecuteBatch runs calls, at most opts.MaxParallel together, and yields index
// and result of each as it ends. Calls that conflict run in the order of the
// list; of the others the longest expected goes first. With StopOnError the
// first failure cancels what runs and what has not begun. A caller that stops
// ranging cancels the rest; the iterator returns when all have ended.
func (e *Executor) ExecuteBatch(ctx context.Context, calls []Call, opts tool.BatchOptions) iter.Seq2[int, *tool.Result] {
	return e.batch(ctx, calls, opts, nil, &grants{})
}

func (e *Executor) batch(ctx context.Context, calls []Call, opts tool.BatchOptions, parent *call, g *grants) iter.Seq2[int, *tool.Result] {
	return func(yield func(int, *tool.Result) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		parallel := opts.MaxParallel
		if parallel <= 0 || parallel > e.maxParallel {
			parallel = e.maxParallel
		}
		tasks := make([]scheduler.Task, len(calls))
		for i := range calls {
			tasks[i] = e.plan(calls[i])
		}
		b := e.scheduler.Batch(tasks, parallel)
		type ended struct {
			index  int
			result *tool.Result
		}
		results := make(chan ended)
		var wg sync.WaitGroup
		wg.Go(func() {
			defer close(results)
			b.Run(ctx, func(i int) {
				r := e.call(ctx, calls[i], parent, g)
				if r.IsError && opts.StopOnError {
					b.Stop()
					cancel(errStopped)
				}
				results <- ended{i, r}
			})
			for _, i := range b.Unstarted() {
				results <- ended{i, e.notRun(ctx, calls[i])}
			}
		})
		defer func() { // however the ranging ends
			b.Stop()
			cancel(errCancelled)
			for range results {
			}
			wg.Wait()
		}()
		for r := range results {
			if !yield(r.index, r.result) {
				return
			}
		}
	}
}

// notRun is the result of a call of a batch that was never begun. It is not in
// the record: nothing happened.
func (e *Executor) notRun(ctx context.Context, c Call) *tool.Result {
	r := refuse(tool.Errorf(tool.Cancelled, "%s was not run: the batch was cancelled", c.Tool))
	if ctx.Err() != nil {
		r = refuse(cancelled(ctx, context.Cause(ctx)))
	}
	r.Meta.CallID = c.ID
	return r
}

// plan tells what a call of a batch will touch, so that conflicting ones keep
// their order. One that will be refused touches nothing; a coordinator, whose
// inner calls are not known, everything.
func (e *Executor) plan(in Call) scheduler.Task {
	t := scheduler.Task{Session: in.Session, Workspace: in.Workspace}
	h, err := acquire(e.registry, &in)
	if err != nil || len(in.Arguments) > maxArguments {
		return t
	}
	defer h.Release()
	c := &call{in: in, handle: h, spec: h.Spec, name: h.Spec.FullName()}
	c.settings = e.tool(c.name)
	c.host.e, c.host.c = e, c
	t.Tool = c.name
	if co, ok := h.Tool.(tool.Coordinator); ok && co.Coordinates() {
		t.Exclusive = true
		return t
	}
	if c.args, _, err = h.Validator.Arguments(in.Arguments); err != nil {
		return t
	}
	return c.newTask()
}
