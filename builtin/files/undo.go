package files

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/toolyard/toolyard/internal/edit"
	"github.com/toolyard/toolyard/tool"
)

//go:embed undo.md
var undoManual string

type undoIn struct {
	ID       string `json:"id,omitempty" jsonschema:"the call to take back (or the turn, with scope turn);; default is the last one of this session"`
	Scope    string `json:"scope,omitempty" jsonschema:"call takes back all files of a call, file one file of it, turn all calls of a turn; enum=call|file|turn; default=call"`
	FilePath string `json:"file_path,omitempty" alias:"path" jsonschema:"only this file; format=path"`
	DryRun   bool   `json:"dry_run,omitempty" jsonschema:"only say what would be restored; default=false"`
}

type undoOut struct {
	ID       string          `json:"id" jsonschema:"what was taken back"`
	Restored []edit.Restored `json:"restored"`
	Skipped  []edit.Skipped  `json:"skipped" jsonschema:"files left as they are, and why"`
	DryRun   bool            `json:"dry_run,omitempty"`
}

// undoer is the undo tool. Which files it changes is known only from the
// journal, so it has the whole workspace to itself.
type undoer struct {
	tool.Tool
	deps Deps
}

// Resources names the workspace.
func (u undoer) Resources(req *tool.Request) []tool.Resource {
	return written(u.deps, req, ".")
}

func undoTool(d Deps) tool.Tool {
	return undoer{deps: d, Tool: tool.New(tool.Spec{
		Name:  "undo",
		Title: "Undo changes",
		Description: "Takes back what a call, or all calls of a turn, changed in files: of this session, the last by default. " +
			"A file that has changed since is left alone and named. A person is asked first.",
		Manual:      undoManual,
		Category:    "files",
		Effects:     tool.Write,
		Destructive: true,
		Default:     tool.Ask,
	}, func(ctx context.Context, req *tool.Request, in undoIn) (*tool.Result, undoOut, error) {
		return undo(ctx, d, req, in)
	})}
}

func undo(ctx context.Context, d Deps, req *tool.Request, in undoIn) (*tool.Result, undoOut, error) {
	var out undoOut
	ws, err := d.Workspace(req.Workspace)
	if err != nil {
		return nil, out, err
	}
	r := edit.UndoRequest{Origin: edit.From(req), Workspace: ws, Scope: in.Scope, ID: in.ID, DryRun: in.DryRun}
	if in.FilePath != "" {
		if r.Path, err = edit.Resolve(ws, in.FilePath); err != nil {
			return nil, out, err
		}
	}
	report, err := d.Edit.Undo(ctx, r)
	if report == nil {
		return nil, out, err
	}
	out = undoOut{ID: report.ID, Restored: report.Restored, Skipped: report.Skipped, DryRun: in.DryRun}
	if err != nil {
		return nil, out, err
	}
	if len(report.Restored) == 0 && len(report.Skipped) > 0 {
		e := tool.Errorf(tool.Conflict, "nothing of %s was undone: %s", report.ID, reasons(report.Skipped)).
			WithHint("Read the files and change them by edit.").WithDetail("skipped", report.Skipped)
		return nil, out, e
	}
	var text strings.Builder
	verb := "Undid"
	if in.DryRun {
		verb = "Would undo"
	}
	fmt.Fprintf(&text, "%s %s: %s.\n", verb, report.ID, counted(len(report.Restored), "file"))
	for _, f := range report.Restored {
		fmt.Fprintf(&text, "%s %s\n", f.Action, f.Path)
	}
	if len(report.Skipped) > 0 {
		fmt.Fprintf(&text, "Left as they are: %s.\n", reasons(report.Skipped))
	}
	for _, f := range report.Restored {
		text.WriteString(f.Diff.Text)
	}
	return tool.Text(strings.TrimRight(text.String(), "\n")), out, nil
}

func reasons(skipped []edit.Skipped) string {
	var all []string
	for _, s := range skipped {
		all = append(all, fmt.Sprintf("%s (%s)", s.Path, s.Reason))
	}
	return strings.Join(all, ", ")
}
