// Package builtin lists the families of tools that come with the program. It
// knows no tool itself.
package builtin

import (
	"slices"

	"github.com/toolyard/toolyard/builtin/artifacts"
	"github.com/toolyard/toolyard/builtin/edit"
	"github.com/toolyard/toolyard/builtin/files"
	"github.com/toolyard/toolyard/builtin/meta"
	"github.com/toolyard/toolyard/builtin/shell"
	"github.com/toolyard/toolyard/tool"
)

// Deps is what the families need, each its own.
type Deps struct {
	Files     files.Deps
	Edit      edit.Deps
	Shell     shell.Deps
	Artifacts artifacts.Deps
}

// Tools lists the tools of all families. To add a family: a field above if it
// needs anything, a line here.
func Tools(d Deps) []tool.Tool {
	return slices.Concat(
		files.Tools(d.Files),
		edit.Tools(d.Edit),
		shell.Tools(d.Shell),
		artifacts.Tools(d.Artifacts),
		meta.Tools(),
	)
}
