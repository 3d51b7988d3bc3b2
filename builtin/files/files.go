// Package files holds the file tools: read, batch_read, glob, grep, list and
// the writers. A tool here decodes its arguments, does the thing and returns.
// It knows nothing of permission, retry, time limits, folding or logging.
package files

import (
	"sync"

	"github.com/toolyard/toolyard/internal/edit"
	"github.com/toolyard/toolyard/internal/workspace"
	"github.com/toolyard/toolyard/tool"
)

// Deps is what the file tools need.
type Deps struct {
	// Workspace opens the workspace of a call from [tool.Request.Workspace]. The
	// one who gives it keeps and closes it.
	Workspace func(dir string) (*workspace.Workspace, error)
	// Edit changes files and remembers what sessions have seen.
	Edit *edit.Engine
	// ExcludesFile is git's core.excludesFile: patterns that count everywhere.
	// Empty means that there is none.
	ExcludesFile string
	// Closed gives a test for the absolute paths that a rule keeps the tool named
	// from showing to a request; nil if there is no such rule. Nil closes nothing.
	Closed func(req *tool.Request, name string) func(path string) bool

	buffers *sync.Pool // of *[smallFile]byte
}

// closed is what a search of the tool named must leave out.
func (d Deps) closed(req *tool.Request, name string) func(path string) bool {
	if d.Closed == nil {
		return nil
	}
	return d.Closed(req, name)
}

// Tools lists the file tools.
func Tools(d Deps) []tool.Tool {
	d.buffers = &sync.Pool{New: func() any { return new([smallFile]byte) }}
	return append(readers(d), writers(d)...)
}

// readers lists the tools that only look. A new one is a line here.
func readers(d Deps) []tool.Tool {
	return []tool.Tool{
		readTool(d),
		batchReadTool(d),
		globTool(d),
		grepTool(d),
		listTool(d),
	}
}
