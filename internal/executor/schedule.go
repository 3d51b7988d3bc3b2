package executor

import (
	"context"

	"github.com/toolyard/toolyard/internal/scheduler"
	"github.com/toolyard/toolyard/tool"
)

// schedule waits until nothing that conflicts with the call is running.
// Coordinators hold no slot: their inner calls do.
type schedule struct{ scheduler *scheduler.Scheduler }

func (s *schedule) wrap(next handler) handler {
	return func(ctx context.Context, c *call) *tool.Result {
		if c.coordinates {
			return next(ctx, c)
		}
		c.task = c.newTask()
		task := c.task
		if !c.withinParents(&task) {
			return next(ctx, c)
		}
		release, waited, err := s.scheduler.Acquire(ctx, task)
		if c.waited = waited; waited > 0 {
			c.forget()
		}
		if err != nil {
			return refuse(cancelled(ctx, err))
		}
		defer release()
		return next(ctx, c)
	}
}

// newTask tells what the call touches. One that does not tell is taken to touch
// everything in its workspace.
func (c *call) newTask() scheduler.Task {
	t := scheduler.Task{Tool: c.name, Session: c.in.Session, Workspace: c.in.Workspace, Priority: c.settings.Priority}
	if r, ok := c.handle.Tool.(tool.Resourcer); ok {
		t.Resources = r.Resources(c.request())
	} else {
		t.Exclusive = !c.spec.ConcurrencySafe
	}
	if c.settings.Safe != nil {
		t.Exclusive = !*c.settings.Safe
	}
	return t
}

// withinParents takes out of the task what a calling tool holds already: the
// inner call works under its caller's hold and would else wait for it for ever.
// It reports whether anything is left to wait for.
func (c *call) withinParents(task *scheduler.Task) bool {
	for p := c.parent; p != nil; p = p.parent {
		if p.coordinates {
			continue
		}
		if p.name == c.name || (task.Exclusive || p.task.Exclusive) && scheduler.Conflict(p.task, *task) {
			return false
		}
		var left []tool.Resource
		for _, r := range task.Resources {
			if !scheduler.Conflict(p.task, scheduler.Task{Workspace: c.in.Workspace, Resources: []tool.Resource{r}}) {
				left = append(left, r)
			}
		}
		task.Resources = left
	}
	return true
}
