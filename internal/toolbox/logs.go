package toolbox

import (
	"context"
	"encoding/json"
	"path/filepath"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/internal/toolbox/host"
	"github.com/toolyard/toolyard/internal/toolbox/runlog"
	"github.com/toolyard/toolyard/internal/worker"
	"github.com/toolyard/toolyard/tool"
)

// maxLogged is how much of a call's parameters run.log shows, in bytes.
const maxLogged = 2 << 10

// logSet holds the open run.log of each tool.
type logSet struct {
	mu   sync.Mutex
	logs map[string]*toolLog // by path
}

// toolLog is one tool's run.log.
type toolLog struct {
	*runlog.Log
	used time.Time
}

func (s *logSet) of(b *Box, def *definition.Definition) *toolLog {
	path := filepath.Join(def.Dir, "run.log")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.logs == nil {
		s.logs = map[string]*toolLog{}
	}
	l := s.logs[path]
	if l == nil {
		l = &toolLog{Log: runlog.Open(runlog.Config{Path: path, Retention: b.config.LogRetention, Redact: b.config.Redact})}
		s.logs[path] = l
	}
	l.used = time.Now()
	return l
}

// tidy writes what waits and closes the logs that nobody writes to.
func (s *logSet) tidy() { s.flush(time.Now().Add(-10 * time.Minute)) }

// close writes what waits.
func (s *logSet) close() { s.flush(time.Now().Add(time.Hour)) }

func (s *logSet) flush(unusedSince time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path, l := range s.logs {
		_ = l.Flush(context.Background()) // what cannot be written waits
		if l.used.Before(unusedSince) {
			_ = l.Close()
			delete(s.logs, path)
		}
	}
}

func (l *toolLog) begin(call string, args json.RawMessage) {
	meta := map[string]any{"call": call}
	if len(args) <= maxLogged {
		meta["parameters"] = args
	} else {
		meta["parameters"] = string(args[:maxLogged]) + "…"
		meta["bytes"] = len(args)
	}
	l.note("INFO", "call started", meta)
}

func (l *toolLog) end(call string, size int, took time.Duration) {
	l.note("INFO", "call finished", map[string]any{"call": call, "bytes": size, "ms": took.Milliseconds()})
	l.write()
}

func (l *toolLog) fail(call string, e *tool.Error, cause error) {
	meta := map[string]any{"call": call, "code": e.Code}
	if stack := host.Stack(cause); stack != "" {
		meta["stack"] = stack
	}
	l.note("ERROR", e.Message, meta)
	l.write()
}

// line is what the tool itself logged or printed.
func (l *toolLog) line(line worker.Line) { l.Append(host.Level(line), line.Text, line.Meta) }

func (l *toolLog) note(level, text string, meta map[string]any) {
	data, err := json.Marshal(meta)
	if err != nil {
		data = nil
	}
	l.Append(level, text, data)
}

// write puts everything into the file at the end of a call, so that nothing is
// lost with the tool.
func (l *toolLog) write() { _ = l.Flush(context.Background()) }
