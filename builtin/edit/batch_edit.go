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

//go:embed batch_edit.md
var batchEditManual string

type fileReplacement struct {
	FilePath   string `json:"file_path" alias:"path" jsonschema:"the file to change; format=path"`
	OldStr     string `json:"old_str" alias:"old_string" jsonschema:"the text to replace, exactly as in the file;; empty only to create a file"`
	NewStr     string `json:"new_str" alias:"new_string" jsonschema:"the text that takes its place, taken literally"`
	ReplaceAll bool   `json:"replace_all,omitempty" jsonschema:"replace every occurrence instead of the only one; default=false"`
	Expected   int    `json:"expected_replacements,omitempty" jsonschema:"how many occurrences there must be; min=1"`
}

type batchEditIn struct {
	Edits       []fileReplacement `json:"edits" jsonschema:"the replacements;; those of one file build on one another; minItems=1"`
	DryRun      bool              `json:"dry_run,omitempty" jsonschema:"only check and show what would change; default=false"`
	StopOnError bool              `json:"stop_on_error,omitempty" jsonschema:"end the checking at the first fault; default=false"`
}

type batchOutcome struct {
	FilePath     string `json:"file_path"`
	Status       string `json:"status" jsonschema:"ok or error; enum=ok|error"`
	Replacements int    `json:"replacements,omitempty"`
	MatchedWith  string `json:"matched_with,omitempty"`
	Code         string `json:"code,omitempty"`
	Error        string `json:"error,omitempty"`
}

type batchFile struct {
	FilePath   string   `json:"file_path"`
	Diff       string   `json:"diff"`
	Hash       string   `json:"hash" jsonschema:"hash of the new content"`
	Insertions int      `json:"insertions"`
	Deletions  int      `json:"deletions"`
	Created    bool     `json:"created,omitempty"`
	Notes      []string `json:"notes,omitempty"`
}

type batchEditOut struct {
	Results    []batchOutcome `json:"results" jsonschema:"one for each edit that was checked, in order"`
	Total      int            `json:"total" jsonschema:"edits given"`
	Successful int            `json:"successful" jsonschema:"edits that fit"`
	Failed     int            `json:"failed" jsonschema:"edits that do not fit"`
	Applied    bool           `json:"applied" jsonschema:"the files were changed"`
	Files      []batchFile    `json:"files"`
}

// batchEditor is batch_edit.
type batchEditor struct {
	tool.Tool
	deps Deps
}

// Resources names the files that a call changes.
func (b batchEditor) Resources(req *tool.Request) []tool.Resource {
	in, err := tool.Arguments[batchEditIn](req)
	if err != nil {
		return nil
	}
	ws, wsErr := b.deps.Workspace(req.Workspace)
	var resources []tool.Resource
	for _, e := range in.Edits {
		key := e.FilePath
		if wsErr == nil {
			if p, err := ws.Resolve(e.FilePath, workspace.Write); err == nil {
				key = p.Real
			}
		}
		resources = append(resources, tool.Resource{Key: key, Access: tool.WriteAccess})
	}
	return resources
}

func batchEditTool(d Deps) tool.Tool {
	return batchEditor{deps: d, Tool: tool.New(tool.Spec{
		Name:  "batch_edit",
		Title: "Edit many files",
		Description: "Makes replacements in many files, all or none: every edit is checked before anything is written. " +
			"Each file must have been read in this session. With dry_run it only shows what would change.",
		Manual:      batchEditManual,
		Category:    "edit",
		Effects:     tool.Write,
		Destructive: true,
		Default:     tool.Allow,
	}, func(ctx context.Context, req *tool.Request, in batchEditIn) (*tool.Result, batchEditOut, error) {
		return batchEdit(ctx, d, req, in)
	})}
}

func batchEdit(ctx context.Context, d Deps, req *tool.Request, in batchEditIn) (*tool.Result, batchEditOut, error) {
	out := batchEditOut{Results: []batchOutcome{}, Total: len(in.Edits), Files: []batchFile{}}
	ws, err := d.Workspace(req.Workspace)
	if err != nil {
		return nil, out, err
	}
	edits := make([]edit.FileEdit, len(in.Edits))
	faults := map[int]error{}
	for i, e := range in.Edits {
		edits[i].Replacement = edit.Replacement{Old: e.OldStr, New: e.NewStr, All: e.ReplaceAll, Expected: e.Expected}
		if edits[i].Path, err = edit.Resolve(ws, e.FilePath); err != nil {
			faults[i] = err
		}
	}
	report, err := d.Edit.ApplyAll(ctx, edit.From(req), edits, faults, edit.BatchOptions{DryRun: in.DryRun, StopOnError: in.StopOnError})
	if err != nil {
		return nil, out, err
	}
	out.Successful, out.Failed, out.Applied = report.Successful, report.Failed, report.Applied
	var first *tool.Error
	for i, e := range report.Edits {
		r := batchOutcome{FilePath: in.Edits[i].FilePath, Status: "ok", Replacements: e.Replacements, MatchedWith: e.MatchedWith}
		if e.Err != nil {
			r.Status, r.Code, r.Error = "error", string(e.Err.Code), e.Err.Text()
			if first == nil {
				first = e.Err
			}
		}
		out.Results = append(out.Results, r)
	}
	if first == nil {
		for _, f := range report.Files {
			out.Files = append(out.Files, batchFile{FilePath: f.Path, Diff: f.Diff.Text, Hash: f.Hash, Insertions: f.Diff.Insertions, Deletions: f.Diff.Deletions, Created: f.Created, Notes: f.Notes})
		}
	}
	return batchResult(in, out, first), out, nil
}

// batchResult puts the outcome in words.
func batchResult(in batchEditIn, out batchEditOut, first *tool.Error) *tool.Result {
	var text strings.Builder
	switch {
	case first != nil:
		fmt.Fprintf(&text, "Nothing was changed: %d of %d edits do not fit.\n", out.Failed, len(out.Results))
		for i, r := range out.Results {
			if r.Error != "" {
				fmt.Fprintf(&text, "edit %d, %s: %s\n", i+1, r.FilePath, r.Error)
			}
		}
		if len(out.Results) < len(in.Edits) {
			fmt.Fprintf(&text, "The %d edits after it were not checked.\n", len(in.Edits)-len(out.Results))
		}
	case in.DryRun:
		fmt.Fprintf(&text, "All %d edits fit; nothing was changed (dry run). %d files would change.\n", out.Total, len(out.Files))
	default:
		fmt.Fprintf(&text, "Made %d edits in %d files.\n", out.Total, len(out.Files))
	}
	for _, f := range out.Files {
		for _, note := range f.Notes {
			text.WriteString(note + "\n")
		}
		text.WriteString(f.Diff)
	}
	result := tool.Text(strings.TrimRight(text.String(), "\n"))
	if first != nil {
		e := *first
		e.Message = fmt.Sprintf("nothing was changed: %d of %d edits do not fit; the first: %s", out.Failed, len(out.Results), first.Message)
		result.IsError, result.Err = true, &e
	}
	return result
}
