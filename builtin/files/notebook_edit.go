package files

import (
	"context"
	_ "embed"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/toolyard/toolyard/internal/edit"
	"github.com/toolyard/toolyard/tool"
)

//go:embed notebook_edit.md
var notebookEditManual string

type notebookEditIn struct {
	FilePath   string  `json:"file_path" alias:"path,notebook_path" jsonschema:"the notebook, .ipynb; format=path"`
	CellID     string  `json:"cell_id,omitempty" jsonschema:"the cell, by its id;; with insert, the new cell comes after it"`
	CellNumber *int    `json:"cell_number,omitempty" jsonschema:"the cell, by its place from 0;; with insert, the new cell gets this place; min=0"`
	NewSource  *string `json:"new_source,omitempty" jsonschema:"the new source of the cell;; not for delete"`
	CellType   string  `json:"cell_type,omitempty" jsonschema:"the type of the cell;; default for insert is code; enum=code|markdown|raw"`
	EditMode   string  `json:"edit_mode,omitempty" jsonschema:"what to do with the cell; enum=replace|insert|delete; default=replace"`
}

type notebookEditOut struct {
	FilePath string   `json:"file_path"`
	Cell     int      `json:"cell" jsonschema:"the place of the cell, from 0"`
	CellID   string   `json:"cell_id,omitempty" jsonschema:"the cell's id, if it has one"`
	Cells    int      `json:"cells" jsonschema:"how many cells there are now"`
	Diff     string   `json:"diff"`
	Hash     string   `json:"hash"`
	Notes    []string `json:"notes,omitempty"`
}

func notebookEditTool(d Deps) tool.Tool {
	t := tool.New(tool.Spec{
		Name:  "notebook_edit",
		Title: "Edit a notebook",
		Description: "Replaces, inserts or deletes one cell of a Jupyter notebook and leaves the rest of the file as it is. " +
			"The notebook must have been read in this session.",
		Manual:      notebookEditManual,
		Category:    "files",
		Effects:     tool.Write,
		Destructive: true,
		Default:     tool.Allow,
	}, func(ctx context.Context, req *tool.Request, in notebookEditIn) (*tool.Result, notebookEditOut, error) {
		return notebookEdit(ctx, d, req, in)
	})
	return writer{Tool: t, deps: d, file: fileArgument}
}

func notebookEdit(ctx context.Context, d Deps, req *tool.Request, in notebookEditIn) (*tool.Result, notebookEditOut, error) {
	var out notebookEditOut
	p, err := target(d, req, in.FilePath)
	if err != nil {
		return nil, out, err
	}
	if !strings.EqualFold(filepath.Ext(p.Real), ".ipynb") {
		return nil, out, edit.KindError("%s is no notebook (.ipynb)", p.Display).WithHint("Use edit for other files.")
	}
	var cell edit.Cell
	r, err := d.Edit.Transform(ctx, edit.From(req), p, func(raw []byte) ([]byte, error) {
		after, c, err := edit.Notebook(raw, edit.CellEdit{
			ID: in.CellID, Number: in.CellNumber, Source: in.NewSource, Type: in.CellType, Mode: in.EditMode,
		})
		cell = c
		return after, err
	})
	if err != nil {
		return nil, out, err
	}
	out = notebookEditOut{FilePath: r.Path, Cell: cell.Number, CellID: cell.ID, Cells: cell.Cells, Diff: r.Diff.Text, Hash: r.Hash, Notes: r.Notes}
	verb := map[string]string{"insert": "Inserted", "delete": "Deleted"}[in.EditMode]
	if verb == "" {
		verb = "Replaced"
	}
	text := fmt.Sprintf("%s cell %d of %s; it has %s now.\n", verb, cell.Number, r.Path, counted(cell.Cells, "cell"))
	for _, note := range r.Notes {
		text += note + "\n"
	}
	return tool.Text(strings.TrimRight(text+r.Diff.Text, "\n")), out, nil
}
