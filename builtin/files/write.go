package files

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/toolyard/toolyard/internal/edit"
	"github.com/toolyard/toolyard/tool"
)

//go:embed write.md
var writeManual string

type writeIn struct {
	FilePath string `json:"file_path" alias:"path" jsonschema:"the file to write;; missing directories are made; format=path"`
	Content  string `json:"content" jsonschema:"the text to write"`
	Mode     string `json:"mode,omitempty" jsonschema:"overwrite replaces the whole content, append adds at the end; enum=overwrite|append; default=overwrite"`
}

type writeOut struct {
	FilePath     string   `json:"file_path" jsonschema:"the file, from the workspace's root"`
	BytesWritten int      `json:"bytes_written" jsonschema:"bytes given, as they are encoded in the file"`
	Hash         string   `json:"hash" jsonschema:"hash of the new content"`
	Created      bool     `json:"created" jsonschema:"the file is new"`
	Diff         string   `json:"diff,omitempty" jsonschema:"the change as a unified diff"`
	Notes        []string `json:"notes,omitempty"`
}

func writeTool(d Deps) tool.Tool {
	t := tool.New(tool.Spec{
		Name:  "write",
		Title: "Write a file",
		Description: "Creates a file, replaces all of its content, or appends to it. An existing file must have been read in this session before it is overwritten. " +
			"To change a part of a file use edit.",
		Manual:      writeManual,
		Category:    "files",
		Effects:     tool.Write,
		Destructive: true,
		Default:     tool.Allow,
	}, func(ctx context.Context, req *tool.Request, in writeIn) (*tool.Result, writeOut, error) {
		p, err := target(d, req, in.FilePath)
		if err != nil {
			return nil, writeOut{}, err
		}
		add := in.Mode == "append"
		r, err := d.Edit.Write(ctx, edit.From(req), p, in.Content, add)
		if err != nil {
			return nil, writeOut{}, err
		}
		out := writeOut{FilePath: r.Path, BytesWritten: r.Written, Hash: r.Hash, Created: r.Created, Notes: r.Notes}
		verb := "Wrote"
		switch {
		case r.Created:
			verb = "Created"
		case add:
			verb = "Appended to"
		}
		text := fmt.Sprintf("%s %s: %s, +%d -%d lines, %s.", verb, r.Path, counted(out.BytesWritten, "byte"), r.Diff.Insertions, r.Diff.Deletions, r.Encoding)
		for _, note := range r.Notes {
			text += "\n" + note
		}
		if !r.Created { // of a new file the diff would only repeat the content
			out.Diff = r.Diff.Text
			text += "\n" + strings.TrimRight(r.Diff.Text, "\n")
		}
		return tool.Text(strings.TrimRight(text, "\n")), out, nil
	})
	return writer{Tool: t, deps: d, file: fileArgument}
}
