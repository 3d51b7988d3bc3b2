// Package toolbox holds the tools through which a model uses the toolbox of
// user-written tools: toolm, which reaches all of them, and those that validate
// and install. They see the toolbox as a [Box] and know neither workers nor
// files.
package toolbox

import "github.com/toolyard/toolyard/tool"

// Deps is what the family needs.
type Deps struct {
	Box Box
	// Resolve makes a path of a call one that the caller may read: absolute, with
	// no symlink. Nil refuses paths.
	Resolve func(req *tool.Request, path string) (string, error)
	// Description is what toolm says of itself: page.ToolmDescription of the tools
	// present. A Spec is constant, so a toolbox that changed needs a new [Toolm].
	// Empty means that there are no tools yet.
	Description string
	// Language of headings where a call names none: the client's locale, "en-GB"
	// or "zh_CN.UTF-8". Empty means English.
	Language func(req *tool.Request) string
}

// Tools lists the family.
func Tools(d Deps) []tool.Tool {
	return []tool.Tool{
		Toolm(d),
		newValidate(d),
		newInstall(d),
	}
}

// errNoBox is the answer where the runtime has no toolbox.
func errNoBox() error {
	return tool.Errorf(tool.DependencyError, "this runtime has no toolbox").WithHint("Switch it on in the configuration: toolbox.")
}
