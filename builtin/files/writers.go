package files

import (
	"fmt"
	"strings"

	"github.com/toolyard/toolyard/internal/edit"
	"github.com/toolyard/toolyard/internal/workspace"
	"github.com/toolyard/toolyard/tool"
)

// writers lists the tools that change files. A new one is a line here.
func writers(d Deps) []tool.Tool {
	return []tool.Tool{
		writeTool(d),
		editTool(d),
		multiEditTool(d),
		notebookEditTool(d),
		newPatch(d),
		undoTool(d),
	}
}

// writer is a tool that changes one file, which its arguments name.
type writer struct {
	tool.Tool
	deps Deps
	file func(req *tool.Request) string
}

// Resources names the file that a call changes.
func (w writer) Resources(req *tool.Request) []tool.Resource {
	return written(w.deps, req, w.file(req))
}

// written is the resource of a file that is changed. A name that does not
// resolve will be refused by the call; until then it stands for itself.
func written(d Deps, req *tool.Request, name string) []tool.Resource {
	key := name
	if ws, err := d.Workspace(req.Workspace); err == nil {
		if p, err := ws.Resolve(name, workspace.Write); err == nil {
			key = p.Real
		}
	}
	return []tool.Resource{{Key: key, Access: tool.WriteAccess}}
}

// fileArgument reads file_path of a call.
func fileArgument(req *tool.Request) string {
	in, err := tool.Arguments[struct {
		FilePath string `json:"file_path"`
	}](req)
	if err != nil {
		return ""
	}
	return in.FilePath
}

// target resolves the file to change.
func target(d Deps, req *tool.Request, name string) (*workspace.Path, error) {
	ws, err := d.Workspace(req.Workspace)
	if err != nil {
		return nil, err
	}
	return edit.Resolve(ws, name)
}

// changed is what the tools that change one file return.
type changed struct {
	FilePath     string   `json:"file_path" jsonschema:"the file, from the workspace's root"`
	Replacements int      `json:"replacements" jsonschema:"how many places changed"`
	Diff         string   `json:"diff" jsonschema:"the change as a unified diff"`
	Insertions   int      `json:"insertions" jsonschema:"lines added"`
	Deletions    int      `json:"deletions" jsonschema:"lines removed"`
	Hash         string   `json:"hash" jsonschema:"hash of the new content"`
	MatchedWith  string   `json:"matched_with,omitempty" jsonschema:"which differences were overlooked to find the text: exact is none"`
	Created      bool     `json:"created,omitempty" jsonschema:"the file is new"`
	Notes        []string `json:"notes,omitempty" jsonschema:"what was done although the session had not seen it"`
}

// describe says what became of a file, to the model and as data.
func describe(verb string, r *edit.FileResult) (*tool.Result, changed) {
	out := changed{
		FilePath: r.Path, Replacements: r.Replacements, Diff: r.Diff.Text, Insertions: r.Diff.Insertions, Deletions: r.Diff.Deletions,
		Hash: r.Hash, MatchedWith: r.MatchedWith, Created: r.Created, Notes: r.Notes,
	}
	if r.Created {
		verb = "Created"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s: %s", verb, r.Path, counted(r.Replacements, "replacement"))
	if r.MatchedWith != "" && r.MatchedWith != edit.MatchExact {
		fmt.Fprintf(&text, " (matched with differences in %s overlooked)", r.MatchedWith)
	}
	fmt.Fprintf(&text, ", +%d -%d lines.\n", out.Insertions, out.Deletions)
	for _, note := range r.Notes {
		text.WriteString(note + "\n")
	}
	text.WriteString(r.Diff.Text)
	result := tool.Text(strings.TrimRight(text.String(), "\n"))
	result.Meta.MatchedWith = r.MatchedWith
	return result, out
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
