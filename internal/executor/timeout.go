package executor

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/toolyard/toolyard/tool"
)

const (
	grace        = 5 * time.Second  // for a tool to return once its context is done
	maxTimeout   = 10 * time.Minute // where a Spec names no ceiling
	maxAbandoned = 16               // calls of one tool that do not stop
)

// errCancelled is the cause of a context that a client or Cancel ended.
var errCancelled = errors.New("the call was cancelled")

// timeout ends an attempt that takes too long. A tool that does not return then
// is left behind: its goroutine is counted, and no more than maxAbandoned of one
// tool may pile up.
type timeout struct {
	log     *slog.Logger
	workers *workers

	mu        sync.Mutex
	abandoned map[string]int // by tool
}

func (s *timeout) wrap(next handler) handler {
	return func(ctx context.Context, c *call) *tool.Result {
		limit := timeLimit(c)
		if n := s.left(c.name); n >= maxAbandoned {
			return refuse(tool.Errorf(tool.ResourceExhausted, "%d earlier calls of %s have not stopped", n, c.name).
				WithHint("The tool hangs; the person should look at its log, and restart or disable it."))
		}
		attempt, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		if limit > 0 {
			c.clock.start(limit, func() { cancel(tool.ErrTimeout) })
			defer c.clock.stop()
		}
		done := make(chan *tool.Result, 1)
		release := c.hold()
		s.workers.run(func() {
			defer release()
			done <- next(attempt, c)
		})
		select {
		case r := <-done:
			return c.ended(attempt, r, limit)
		case <-attempt.Done():
		}
		patience := time.NewTimer(grace)
		defer patience.Stop()
		select {
		case r := <-done:
			return c.ended(attempt, r, limit)
		case <-patience.C:
		}
		s.abandon(c, done)
		r := c.ended(attempt, refuse(context.Cause(attempt)), limit)
		r.Err.Began = true
		return r
	}
}

func (s *timeout) left(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.abandoned[name]
}

// abandon counts a tool's goroutine until it ends.
func (s *timeout) abandon(c *call, done <-chan *tool.Result) {
	s.mu.Lock()
	s.abandoned[c.name]++
	n := s.abandoned[c.name]
	s.mu.Unlock()
	c.note("The tool did not stop when it was told to; it may still be running.")
	s.log.Warn("a tool does not stop", "tool", c.name, "call", c.in.ID, "running_on", n)
	name, id, since := c.name, c.in.ID, time.Now()
	go func() { // ends with the tool's goroutine
		<-done
		s.mu.Lock()
		if s.abandoned[name]--; s.abandoned[name] == 0 {
			delete(s.abandoned, name)
		}
		s.mu.Unlock()
		s.log.Info("a tool has stopped at last", "tool", name, "call", id, "late", time.Since(since))
	}()
}

// timeLimit is how long one attempt may run; zero means without limit.
func timeLimit(c *call) time.Duration {
	if c.coordinates {
		return 0
	}
	ceiling := c.spec.MaxTimeout
	if ceiling <= 0 {
		ceiling = maxTimeout
	}
	if c.in.Timeout > 0 {
		return min(c.in.Timeout, ceiling)
	}
	limit := c.settings.Timeout
	if t, ok := c.handle.Tool.(tool.Timeouter); ok {
		// The arguments say more than the settings.
		if d := t.CallTimeout(c.request()); d != 0 {
			return max(d, 0)
		}
	}
	if limit == 0 {
		limit = c.spec.Timeout
	}
	if limit == 0 {
		limit = tool.DefaultTimeout
	}
	return max(limit, 0)
}

// ended judges the result of an attempt whose context may be done: a failure is
// then the timeout's or the cancellation's, with what was produced so far. A
// success stands.
func (c *call) ended(attempt context.Context, r *tool.Result, limit time.Duration) *tool.Result {
	if attempt.Err() == nil || !r.IsError {
		return r
	}
	var err *tool.Error
	if errors.Is(context.Cause(attempt), tool.ErrTimeout) {
		err = tool.Errorf(tool.TimeoutError, "%s ran longer than its limit of %s", c.name, limit).
			WithHint("Give it less to do, or a longer timeout.")
		if c.parent != nil && c.clockless(limit) {
			err.Message = c.name + " was ended by the time limit of the call that made it"
		}
	} else {
		err = tool.AsError(cancelled(attempt, context.Cause(attempt)))
	}
	err.Began = true
	if r.Err != nil {
		err.Err = r.Err
		if r.Err.Code == err.Code {
			err.Hint, err.Details = or(r.Err.Hint, err.Hint), r.Err.Details
		}
	}
	out := *r
	out.Err = err
	out.Content = nil
	for _, b := range r.Content {
		if b.Kind == tool.KindText && b.Text == "" {
			continue
		}
		if r.Err == nil || b.Text != r.Err.Text() {
			out.Content = append(out.Content, b)
		}
	}
	if text := c.partial(); text != "" && len(out.Content) == 0 {
		out.Content = append(out.Content, tool.Content{Kind: tool.KindText, Text: text})
	}
	out.Content = append(out.Content, tool.Content{Kind: tool.KindText, Text: err.Text()})
	return &out
}

// clockless reports that the limit which has passed was not the call's own.
func (c *call) clockless(limit time.Duration) bool {
	return limit <= 0 || time.Since(c.started) < limit
}

// partial is the output that the call has streamed so far.
func (c *call) partial() string {
	c.mu.Lock()
	spools := c.spools
	c.mu.Unlock()
	for _, s := range spools {
		if sum, _ := s.close(context.Background()); sum.Text != "" {
			return sum.Text
		}
	}
	return ""
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// cancelled is the failure of a call whose context is done; err as it is while
// the context still goes on.
func cancelled(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, tool.ErrTimeout), errors.Is(cause, context.DeadlineExceeded):
		return tool.Errorf(tool.TimeoutError, "the time limit of the caller has passed")
	case errors.Is(cause, errStopped):
		return tool.Errorf(tool.Cancelled, "not run to its end: an earlier call of the batch failed").WithHint("stop_on_error was set; correct the failed call and send the rest again.")
	case errors.Is(cause, errClosing):
		return tool.Errorf(tool.Cancelled, "toolyard is shutting down").WithHint("Call again once it is back.")
	}
	return tool.Errorf(tool.Cancelled, "the call was cancelled")
}
