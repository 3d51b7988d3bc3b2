package executor

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/toolyard/toolyard/tool"
)

// maxRetryAfter is the longest wait that the other side may ask for; beyond it
// the caller is told instead.
const maxRetryAfter = time.Minute

// retry runs a call again if the code of its failure says so, and only if that
// cannot have an effect twice.
type retry struct{ backoff Backoff }

func (s *retry) wrap(next handler) handler {
	return func(ctx context.Context, c *call) *tool.Result {
		for n := 0; ; n++ {
			r := next(ctx, c)
			c.mu.Lock()
			c.attempts = n + 1
			c.mu.Unlock()
			if !again(c, r, n) {
				return r
			}
			if !wait(ctx, c.settings.Backoff.over(s.backoff).delay(n, rand.Float64()), r.Err.RetryAfter) {
				return r
			}
			c.mu.Lock()
			c.retried = append(c.retried, r.Err.Code)
			c.mu.Unlock()
		}
	}
}

// again decides whether a failed attempt, the n-th from 0, is followed by
// another.
func again(c *call, r *tool.Result, n int) bool {
	if !r.IsError || r.Err == nil || c.coordinates {
		return false
	}
	retries, idempotentOnly := r.Err.Code.Retries()
	if retries == 0 {
		return false
	}
	if c.settings.Attempts > 0 {
		retries = c.settings.Attempts - 1
	}
	if n >= retries {
		return false
	}
	if c.spec.Idempotent {
		return true
	}
	return !idempotentOnly && !r.Err.Began
}

// wait waits before the next attempt and reports whether there is to be one.
func wait(ctx context.Context, delay, after time.Duration) bool {
	if after > maxRetryAfter {
		return false
	}
	t := time.NewTimer(max(delay, after))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// delay is the wait after attempt n, from 0. random is in [0, 1).
func (b Backoff) delay(n int, random float64) time.Duration {
	wait := b.Cap
	if n < 62 && b.Base < b.Cap>>n {
		wait = b.Base << n
	}
	return wait + time.Duration(float64(wait)*b.Jitter*(2*random-1))
}

// over is b with its zero fields taken from under.
func (b Backoff) over(under Backoff) Backoff {
	if b.Base <= 0 {
		b.Base = under.Base
	}
	if b.Cap <= 0 {
		b.Cap = under.Cap
	}
	switch {
	case b.Jitter == 0:
		b.Jitter = under.Jitter
	case b.Jitter < 0:
		b.Jitter = 0
	}
	return b
}

// filled is b with its defaults.
func (b Backoff) filled() Backoff {
	if b.Base <= 0 {
		b.Base = time.Second
	}
	if b.Cap <= 0 {
		b.Cap = 30 * time.Second
	}
	switch {
	case b.Jitter == 0:
		b.Jitter = 0.25
	case b.Jitter < 0:
		b.Jitter = 0
	}
	b.Jitter = min(b.Jitter, 1)
	return b
}
