package files

import (
	"context"
	_ "embed"

	"github.com/toolyard/toolyard/internal/edit"
	"github.com/toolyard/toolyard/tool"
)

//go:embed edit.md
var editManual string

// replacement is one text and what it becomes.
type replacement struct {
	OldStr     string `json:"old_str" alias:"old_string" jsonschema:"the text to replace, exactly as in the file, without line numbers;; empty only to create a file"`
	NewStr     string `json:"new_str" alias:"new_string" jsonschema:"the text that takes its place, taken literally"`
	ReplaceAll bool   `json:"replace_all,omitempty" jsonschema:"replace every occurrence instead of the only one; default=false"`
	Expected   int    `json:"expected_replacements,omitempty" jsonschema:"how many occurrences there must be; min=1"`
}

func (r replacement) replacement() edit.Replacement {
	return edit.Replacement{Old: r.OldStr, New: r.NewStr, All: r.ReplaceAll, Expected: r.Expected}
}

type editIn struct {
	FilePath string `json:"file_path" alias:"path" jsonschema:"the file to change; format=path"`
	replacement
}

func editTool(d Deps) tool.Tool {
	t := tool.New(tool.Spec{
		Name:  "edit",
		Title: "Edit a file",
		Description: "Replaces one text in a file by another. old_str must occur exactly once, unless replace_all is set: give enough lines around it. " +
			"The file must have been read in this session. For many changes use multi_edit (one file) or batch_edit (many files).",
		Manual:      editManual,
		Category:    "files",
		Effects:     tool.Write,
		Destructive: true,
		Default:     tool.Allow,
	}, func(ctx context.Context, req *tool.Request, in editIn) (*tool.Result, changed, error) {
		r := in.replacement.replacement()
		if err := r.Check(); err != nil {
			return nil, changed{}, err
		}
		p, err := target(d, req, in.FilePath)
		if err != nil {
			return nil, changed{}, err
		}
		done, err := d.Edit.Apply(ctx, edit.From(req), p, r)
		if err != nil {
			return nil, changed{}, err
		}
		result, out := describe("Edited", done)
		return result, out, nil
	})
	return writer{Tool: t, deps: d, file: fileArgument}
}
