// Package edit holds the tools that change many files at once or only show what
// would change: batch_edit and preview_edit. A tool here decodes its arguments,
// does the thing and returns. It knows nothing of permission, retry, time
// limits, folding or logging.
package edit

import (
	"github.com/toolyard/toolyard/internal/edit"
	"github.com/toolyard/toolyard/internal/workspace"
	"github.com/toolyard/toolyard/tool"
)

// Deps is what the edit tools need.
type Deps struct {
	// Workspace opens the workspace of a call from [tool.Request.Workspace]. The
	// one who gives it keeps and closes it.
	Workspace func(dir string) (*workspace.Workspace, error)
	// Edit changes files and remembers what sessions have seen.
	Edit *edit.Engine
}

// Tools lists the edit tools. A new one is a line here.
func Tools(d Deps) []tool.Tool {
	return []tool.Tool{
		batchEditTool(d),
		previewEditTool(d),
	}
}
