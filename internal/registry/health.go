package registry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/toolyard/toolyard/tool"
)

// HealthStatus is whether a tool would work now.
type HealthStatus string

const (
	Healthy   HealthStatus = "healthy"
	Unhealthy HealthStatus = "unhealthy" // its check says no
	Unknown   HealthStatus = "error"     // its check failed itself, or the tool is in no state to be checked
	Missing   HealthStatus = "not_found"
)

// Health is what the last check of a tool found.
type Health struct {
	Status   HealthStatus   `json:"status"`
	Message  string         `json:"message,omitempty"`
	Details  map[string]any `json:"details,omitempty"`
	Checked  time.Time      `json:"checked,omitzero"`
	Failures int            `json:"failures,omitempty"` // in a row
}

// maxFailures is how many checks in a row may fail before the state is error.
const maxFailures = 3

// healthCause begins the cause of a state that checks brought about.
const healthCause = "health: "

// CheckHealth checks one tool now. Three failures in a row put a ready tool
// into state error; a success brings it back. A tool without a check is healthy
// while it is ready.
func (r *Registry) CheckHealth(ctx context.Context, id string) Health {
	s := r.slot(id)
	if s == nil {
		return Health{Status: Missing, Message: fmt.Sprintf("there is no tool %q", cut(id)), Checked: r.config.Now()}
	}
	st, v := s.state.Load(), s.current.Load()
	if v == nil || st.state == Disabled || st.state == Failed {
		h := st.health
		h.Status, h.Message, h.Checked = Unknown, "the tool is "+string(st.state)+": "+st.cause, r.config.Now()
		return h
	}
	if _, ok := v.tool.(tool.HealthChecker); !ok {
		h := Health{Status: Healthy, Checked: r.config.Now()}
		if st.state == Error {
			h.Status, h.Message = Unhealthy, st.cause
		}
		return h
	}
	if !v.acquire() { // replaced in this moment
		return st.health
	}
	defer v.release()
	return r.judge(s, r.probe(ctx, v.tool.(tool.HealthChecker)))
}

// probe runs a check with its time limit.
func (r *Registry) probe(ctx context.Context, c tool.HealthChecker) (h Health) {
	ctx, cancel := context.WithTimeout(ctx, r.config.HealthTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			h = Health{Status: Unknown, Message: fmt.Sprintf("the check panicked: %v", p)}
		}
	}()
	err := c.CheckHealth(ctx)
	if err == nil {
		return Health{Status: Healthy}
	}
	h = Health{Status: Unhealthy, Message: err.Error()}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		h = Health{Status: Unknown, Message: fmt.Sprintf("the check took longer than %s", r.config.HealthTimeout)}
	}
	if e, ok := errors.AsType[*tool.Error](err); ok {
		h.Details = maps.Clone(e.Details)
	}
	return h
}

// judge records what a check found and moves the state.
func (r *Registry) judge(s *slot, h Health) Health {
	h.Checked = r.config.Now()
	r.mu.Lock()
	old := s.state.Load()
	if h.Status != Healthy {
		h.Failures = old.health.Failures + 1
	}
	next := *old
	next.health = h
	s.state.Store(&next)
	there := r.slots[s.id] == s
	r.mu.Unlock()
	switch {
	case !there:
	case h.Failures >= maxFailures && old.state == Ready:
		_ = r.change(s, Error, healthCause+h.Message, map[string]string{"failures": fmt.Sprint(h.Failures)}) // lost a race with another change: fine
	case h.Status == Healthy && old.state == Error && len(old.cause) >= len(healthCause) && old.cause[:len(healthCause)] == healthCause:
		_ = r.change(s, Ready, healthCause+"recovered", nil)
	}
	return h
}

// parallelChecks is how many checks run at once.
const parallelChecks = 4

// RunHealth checks every tool that has a check, at once and then every minute
// (Config.HealthEvery). It returns when ctx is done and its checks have ended.
func (r *Registry) RunHealth(ctx context.Context) {
	ticker := time.NewTicker(r.config.HealthEvery)
	defer ticker.Stop()
	for {
		r.checkAll(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (r *Registry) checkAll(ctx context.Context) {
	r.mu.Lock()
	var ids []string
	for id, s := range r.slots {
		v := s.current.Load()
		if v == nil {
			continue
		}
		if _, ok := v.tool.(tool.HealthChecker); ok {
			ids = append(ids, id)
		}
	}
	r.mu.Unlock()
	work := make(chan string)
	var workers sync.WaitGroup
	for range parallelChecks {
		workers.Go(func() {
			for id := range work {
				r.CheckHealth(ctx, id)
			}
		})
	}
	for _, id := range ids {
		if ctx.Err() != nil {
			break
		}
		work <- id
	}
	close(work)
	workers.Wait()
}
