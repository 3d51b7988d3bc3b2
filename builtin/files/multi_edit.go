package files

import (
	"context"
	_ "embed"

	"github.com/toolyard/toolyard/internal/edit"
	"github.com/toolyard/toolyard/tool"
)

//go:embed multi_edit.md
var multiEditManual string

type multiEditIn struct {
	FilePath string        `json:"file_path" alias:"path" jsonschema:"the file to change; format=path"`
	Edits    []replacement `json:"edits" jsonschema:"the replacements, made one after the other; minItems=1"`
}

func multiEditTool(d Deps) tool.Tool {
	t := tool.New(tool.Spec{
		Name:  "multi_edit",
		Title: "Edit a file in many places",
		Description: "Makes several replacements in one file, one after the other, all or none. Each edit sees what the ones before it made. " +
			"The file must have been read in this session.",
		Manual:      multiEditManual,
		Category:    "files",
		Effects:     tool.Write,
		Destructive: true,
		Default:     tool.Allow,
	}, func(ctx context.Context, req *tool.Request, in multiEditIn) (*tool.Result, changed, error) {
		var edits []edit.Replacement
		for _, r := range in.Edits {
			edits = append(edits, r.replacement())
		}
		if err := edit.CheckAll(edits); err != nil {
			return nil, changed{}, err
		}
		p, err := target(d, req, in.FilePath)
		if err != nil {
			return nil, changed{}, err
		}
		done, err := d.Edit.Apply(ctx, edit.From(req), p, edits...)
		if err != nil {
			return nil, changed{}, err
		}
		result, out := describe("Edited", done)
		return result, out, nil
	})
	return writer{Tool: t, deps: d, file: fileArgument}
}
