package scheduler

import (
	"strings"

	"github.com/toolyard/toolyard/tool"
)

// Conflict reports whether two calls may not run side by side: one may write
// what the other reads or writes, or one is exclusive and both work in the same
// place.
func Conflict(a, b Task) bool {
	return conflict(&entry{task: a, writes: writes(a.Resources)}, &entry{task: b, writes: writes(b.Resources)})
}

func conflict(a, b *entry) bool {
	if a.task.Exclusive || b.task.Exclusive {
		if a.task.Workspace == b.task.Workspace {
			return true
		}
		if a.task.Exclusive && inside(a.task.Workspace, &b.task) || b.task.Exclusive && inside(b.task.Workspace, &a.task) {
			return true
		}
	}
	if !a.writes && !b.writes {
		return false
	}
	for i := range a.task.Resources {
		x := &a.task.Resources[i]
		for j := range b.task.Resources {
			y := &b.task.Resources[j]
			if (x.Access == tool.WriteAccess || y.Access == tool.WriteAccess) && overlap(x.Key, y.Key) {
				return true
			}
		}
	}
	return false
}

// inside reports whether a task of another workspace reaches into this one.
func inside(workspace string, t *Task) bool {
	if workspace == "" {
		return false
	}
	if t.Workspace != "" && overlap(workspace, t.Workspace) {
		return true
	}
	for i := range t.Resources {
		if overlap(workspace, t.Resources[i].Key) {
			return true
		}
	}
	return false
}

// overlap reports whether two keys are equal or one lies under the other.
func overlap(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	if !strings.HasPrefix(b, a) {
		return false
	}
	return len(a) == len(b) || a == "" || isSeparator(a[len(a)-1]) || isSeparator(b[len(a)])
}

// isSeparator takes both kinds: on Unix a backslash in a name makes at most a
// conflict too many.
func isSeparator(c byte) bool { return c == '/' || c == '\\' }

func writes(resources []tool.Resource) bool {
	for i := range resources {
		if resources[i].Access == tool.WriteAccess {
			return true
		}
	}
	return false
}
