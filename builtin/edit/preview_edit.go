package edit

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/toolyard/toolyard/internal/edit"
	"github.com/toolyard/toolyard/internal/workspace"
	"github.com/toolyard/toolyard/tool"
)

//go:embed preview_edit.md
var previewEditManual string

type previewEditIn struct {
	FilePath     string `json:"file_path" alias:"path" jsonschema:"the file; format=path"`
	OldStr       string `json:"old_str" alias:"old_string" jsonschema:"the text to replace, exactly as in the file"`
	NewStr       string `json:"new_str" alias:"new_string" jsonschema:"the text that would take its place"`
	ReplaceAll   bool   `json:"replace_all,omitempty" jsonschema:"every occurrence instead of the only one; default=false"`
	ContextLines *int   `json:"context_lines,omitempty" jsonschema:"unchanged lines around each change; default=3; min=0; max=50"`
}

type previewEditOut struct {
	Diff        string `json:"diff" jsonschema:"the change as a unified diff"`
	Changes     int    `json:"changes" jsonschema:"how many places would change"`
	MatchedWith string `json:"matched_with,omitempty"`
}

func previewEditTool(d Deps) tool.Tool {
	return tool.New(tool.Spec{
		Name:            "preview_edit",
		Title:           "Preview an edit",
		Description:     "Shows as a diff what edit would do with the same arguments, and changes nothing.",
		Manual:          previewEditManual,
		Category:        "edit",
		Effects:         tool.Read,
		Idempotent:      true,
		ConcurrencySafe: true,
		Default:         tool.Allow,
	}, func(ctx context.Context, req *tool.Request, in previewEditIn) (*tool.Result, previewEditOut, error) {
		var out previewEditOut
		ws, err := d.Workspace(req.Workspace)
		if err != nil {
			return nil, out, err
		}
		p, err := edit.ResolveFor(ws, in.FilePath, workspace.Read)
		if err != nil {
			return nil, out, err
		}
		around := 3
		if in.ContextLines != nil {
			around = *in.ContextLines
		}
		r, err := d.Edit.Preview(ctx, p, around, edit.Replacement{Old: in.OldStr, New: in.NewStr, All: in.ReplaceAll})
		if err != nil {
			return nil, out, err
		}
		out = previewEditOut{Diff: r.Diff.Text, Changes: r.Replacements, MatchedWith: r.MatchedWith}
		text := fmt.Sprintf("Places that would change: %d.\n", r.Replacements)
		if r.MatchedWith != "" && r.MatchedWith != edit.MatchExact {
			text = fmt.Sprintf("Places that would change: %d (matched with differences in %s overlooked).\n", r.Replacements, r.MatchedWith)
		}
		result := tool.Text(text + strings.TrimRight(r.Diff.Text, "\n"))
		result.Meta.MatchedWith = r.MatchedWith
		return result, out, nil
	})
}
