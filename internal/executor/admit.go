package executor

import (
	"context"
	"sync"

	"golang.org/x/time/rate"

	"github.com/toolyard/toolyard/internal/registry"
	"github.com/toolyard/toolyard/tool"
)

// maxArguments is the size of the largest arguments, in bytes.
const maxArguments = 16 << 20

// maxSessions is how many sessions are told apart, here and in the doom loop
// stage; those not seen for longest are forgotten.
const maxSessions = 1024

// rateLimiter is the limiter of one session.
type rateLimiter = rate.Limiter

// admit lets a call in: size, rates, the name. Its refusals are recorded, but
// rate-limited ones are only counted: a flood must not fill the record.
type admit struct {
	registry  *registry.Registry
	recorder  *recorder
	meter     *meter
	tools     func(name string) ToolConfig
	maxOutput int
	global    *rate.Limiter // nil means no limit
	perCall   float64       // calls a second of one session; 0 means no limit

	mu       sync.Mutex
	sessions *lru[string, *rateLimiter]
}

func newLimiter(perSecond float64) *rate.Limiter {
	if perSecond <= 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(perSecond), max(1, int(perSecond)))
}

func (a *admit) wrap(next handler) handler {
	return func(ctx context.Context, c *call) *tool.Result {
		if err := a.limited(c); err != nil {
			a.meter.refused(a.known(c), tool.RateLimited)
			return refuse(err)
		}
		err := a.resolve(c)
		if err != nil {
			r := refuse(err)
			a.meter.refused("", tool.AsError(err).Code)
			a.recorder.finish(ctx, c, r)
			return r
		}
		defer c.hold()()
		return next(ctx, c)
	}
}

// limited refuses a top call that comes too fast. Inner calls were paid for by
// the one that makes them.
func (a *admit) limited(c *call) error {
	if c.parent != nil || a.global == nil && a.perCall <= 0 {
		return nil
	}
	for _, l := range []*rate.Limiter{a.global, a.session(c.in.Session)} {
		if l == nil {
			continue
		}
		r := l.Reserve()
		if wait := r.Delay(); wait > 0 {
			r.Cancel()
			err := tool.Errorf(tool.RateLimited, "too many calls a second: at most %g", float64(l.Limit())).
				WithHint("Wait %s, or make fewer calls with more in each.", wait.Round(1e6))
			err.RetryAfter = wait
			return err
		}
	}
	return nil
}

// known is the full name of the tool that the call means; "" if there is none.
func (a *admit) known(c *call) string {
	if entry, ok := a.registry.Lookup(c.in.Tool, c.in.Tenant, c.in.Project); ok {
		return entry.Spec.FullName()
	}
	return ""
}

func (a *admit) session(id string) *rate.Limiter {
	if a.perCall <= 0 {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	l, ok := a.sessions.get(id)
	if !ok {
		l = newLimiter(a.perCall)
		a.sessions.put(id, l)
	}
	return l
}

func (a *admit) resolve(c *call) error {
	if n := len(c.in.Arguments); n > maxArguments {
		return tool.Errorf(tool.ResourceExhausted, "the arguments have %d bytes, more than %d", n, maxArguments).
			WithHint("Send less at a time, for example with write in mode append.")
	}
	h, err := acquire(a.registry, &c.in)
	if err != nil {
		return err
	}
	if h.Spec.FullName() == "bash" {
		c.in.Arguments = registry.Translate(c.in.Tool, c.in.Arguments)
	}
	c.mu.Lock() // others list what runs
	c.handle, c.spec, c.name = h, h.Spec, h.Spec.FullName()
	c.mu.Unlock()
	c.settings = a.tools(c.name)
	if r, ok := h.Tool.(tool.Retrier); ok {
		own := r.Retry()
		if c.settings.Attempts == 0 {
			c.settings.Attempts = own.Attempts
		}
		c.settings.Backoff = c.settings.Backoff.over(Backoff{Base: own.Base, Cap: own.Cap})
	}
	if co, ok := h.Tool.(tool.Coordinator); ok {
		c.coordinates = co.Coordinates()
	}
	switch {
	case c.settings.MaxOutput > 0:
		c.maxText = c.settings.MaxOutput
	case c.spec.MaxOutput > 0:
		c.maxText = c.spec.MaxOutput
	default:
		c.maxText = a.maxOutput
	}
	return nil
}

// acquire takes the tool of a call into use. One that the caller is not allowed is
// not there for it.
func acquire(r *registry.Registry, in *Call) (*registry.Handle, error) {
	if in.Allowed == nil {
		return r.AcquireFor(in.Tool, in.Tenant, in.Project)
	}
	if e, ok := r.Lookup(in.Tool, in.Tenant, in.Project); ok && !in.Allowed(e.Spec) {
		return nil, r.NotFound(in.Tool, in.Tenant, in.Project, in.Allowed)
	}
	h, err := r.AcquireFor(in.Tool, in.Tenant, in.Project)
	switch {
	case err != nil && tool.AsError(err).Code == tool.ToolNotFound:
		return nil, r.NotFound(in.Tool, in.Tenant, in.Project, in.Allowed)
	case err == nil && !in.Allowed(h.Spec): // it has been replaced since
		h.Release()
		return nil, r.NotFound(in.Tool, in.Tenant, in.Project, in.Allowed)
	}
	return h, err
}
