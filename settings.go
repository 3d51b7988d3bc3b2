package toolyard

import (
	"maps"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/internal/scheduler"
)

// Limits of tools where nothing else is set. To add one: a line here.
var defaultLimits = map[string]scheduler.Limits{
	"bash": {Max: 4, Queue: 64},
}

// settings are the settings of single tools, which can change while calls run.
// It is safe for concurrent use.
type settings struct {
	mu     sync.RWMutex
	byTool map[string]ToolSettings
}

func newSettings(byTool map[string]ToolSettings) *settings {
	s := &settings{byTool: maps.Clone(byTool)}
	if s.byTool == nil {
		s.byTool = map[string]ToolSettings{}
	}
	return s
}

// replace takes other settings in the place of all, those set over the API too.
func (s *settings) replace(byTool map[string]ToolSettings) {
	fresh := newSettings(byTool)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byTool = fresh.byTool
}

// limits is what the scheduler asks for each call.
func (s *settings) limits(name string) scheduler.Limits {
	s.mu.RLock()
	set := s.byTool[name].Concurrency
	s.mu.RUnlock()
	l := defaultLimits[name]
	if set.Max > 0 {
		l.Max = set.Max
	}
	if set.Queue > 0 {
		l.Queue = set.Queue
	}
	l.Priority = set.Priority
	return l
}

// tools is what the executor wants to know.
func (s *settings) tools() map[string]executor.ToolConfig {
	s.mu.RLock()
	defer s.mu.RUnlock()
	tools := make(map[string]executor.ToolConfig, len(s.byTool))
	for name, set := range s.byTool {
		tools[name] = executor.ToolConfig{
			Timeout: set.Timeout, Attempts: set.Retry.Attempts, MaxOutput: set.MaxOutput, Cache: set.Cache, Safe: set.Concurrency.Safe,
			Backoff: executor.Backoff{Base: set.Retry.Base, Cap: set.Retry.Cap},
		}
	}
	return tools
}

// change applies f to the settings of a tool.
func (s *settings) change(name string, f func(*ToolSettings)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	set := s.byTool[name]
	f(&set)
	s.byTool[name] = set
}

// milliseconds as a duration.
func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
