package files

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/toolyard/toolyard/internal/edit"
	"github.com/toolyard/toolyard/internal/edit/patch"
	"github.com/toolyard/toolyard/internal/text"
	"github.com/toolyard/toolyard/internal/workspace"
	"github.com/toolyard/toolyard/tool"
)

//go:embed patch.md
var patchManual string

type patchIn struct {
	Patch    string `json:"patch_content" alias:"patch" jsonschema:"a unified diff, or an envelope between *** Begin Patch and *** End Patch; minLength=1"`
	FilePath string `json:"file_path,omitempty" alias:"path" jsonschema:"the one file that the patch is for (a patch of another is refused); format=path"`
	Strip    *int   `json:"strip,omitempty" jsonschema:"leading components to cut from the names of a unified diff, as patch -p (by default a/ and b/ are cut); min=0; max=20"`
	DryRun   bool   `json:"dry_run,omitempty" jsonschema:"only say what would change"`
}

type patchOut struct {
	Files []patchedFile `json:"files" jsonschema:"in the order of the patch"`
}

type patchedFile struct {
	Path    string          `json:"path" jsonschema:"the file"`
	OldPath string          `json:"old_path,omitempty" jsonschema:"its name before"`
	Status  string          `json:"status" jsonschema:"what happened to it; enum=modified|created|deleted|renamed|copied"`
	Hunks   []patch.Applied `json:"hunks" jsonschema:"where each hunk went"`
	Hash    string          `json:"hash,omitempty" jsonschema:"of the new content"`
}

// patchTool makes the changes of a patch.
type patchTool struct {
	tool.Tool
	deps Deps
}

var (
	_ tool.Resourcer         = (*patchTool)(nil)
	_ tool.PermissionSubject = (*patchTool)(nil)
)

func newPatch(d Deps) tool.Tool {
	p := &patchTool{deps: d}
	p.Tool = tool.New(tool.Spec{
		Name: "patch", Title: "Apply a patch",
		Description: "Applies a patch to one or many files, all of it or nothing: a unified diff as git apply takes it (create, delete, rename, mode), or a *** Begin Patch envelope. " +
			"Hunks must match the file; one that stands a few lines off is found, and the result says so. Read the files first.",
		Manual: patchManual, Category: "files",
		Effects: tool.Write, Default: tool.Allow, Destructive: true,
	}, p.run)
	return p
}

// named lists the paths that a call would touch; nil if the patch does not parse.
func (p *patchTool) named(req *tool.Request) []string {
	in, err := tool.Arguments[patchIn](req)
	if err != nil {
		return nil
	}
	files, err := patch.Parse(in.Patch, patch.Options{Strip: in.Strip, Name: in.FilePath})
	if err != nil {
		return nil
	}
	var names []string
	if in.FilePath != "" {
		names = append(names, in.FilePath)
	}
	for _, f := range files {
		names = append(names, f.Old)
		if f.New != f.Old {
			names = append(names, f.New)
		}
	}
	return names
}

// Subjects are all files that the patch names, whatever its arguments say.
func (p *patchTool) Subjects(req *tool.Request) []tool.Subject {
	var subjects []tool.Subject
	for _, name := range p.named(req) {
		subjects = append(subjects, tool.Subject{Kind: tool.SubjectPath, Value: name, Write: true})
	}
	return subjects
}

// Resources are the same files by their real paths.
func (p *patchTool) Resources(req *tool.Request) []tool.Resource {
	ws, err := p.deps.Workspace(req.Workspace)
	if err != nil {
		return nil
	}
	var resources []tool.Resource
	for _, name := range p.named(req) {
		if path, err := ws.Resolve(name, workspace.Write); err == nil {
			resources = append(resources, tool.Resource{Key: path.Real, Access: tool.WriteAccess})
		}
	}
	return resources
}

func (p *patchTool) run(ctx context.Context, req *tool.Request, in patchIn) (*tool.Result, patchOut, error) {
	ws, err := p.deps.Workspace(req.Workspace)
	if err != nil {
		return nil, patchOut{}, err
	}
	parsed, err := patch.Parse(in.Patch, patch.Options{Strip: in.Strip, Name: in.FilePath})
	if err != nil {
		return nil, patchOut{}, err
	}
	if in.FilePath != "" {
		if err := onlyFor(ws, parsed, in.FilePath); err != nil {
			return nil, patchOut{}, err
		}
	}
	var ops []edit.FileOp
	var out patchOut
	for i := range parsed {
		op, done, err := p.plan(ctx, ws, &parsed[i])
		if err != nil {
			return nil, patchOut{}, err
		}
		ops = append(ops, op...)
		out.Files = append(out.Files, done)
	}
	if in.DryRun {
		return tool.Text("dry run, nothing is changed:\n" + describePatch(out, nil)), out, nil
	}
	report, err := p.deps.Edit.ApplyFiles(ctx, edit.From(req), ops)
	if err != nil {
		return nil, patchOut{}, err
	}
	// A change of content and of mode are one operation each; the hash of the last
	// one for a path is the file's.
	for _, f := range report.Files {
		for i := range out.Files {
			if out.Files[i].Path == f.Path {
				out.Files[i].Hash = f.Hash
			}
		}
	}
	return tool.Text(describePatch(out, report)), out, nil
}

// onlyFor checks that the patch is for the one file that the caller names, and
// gives that name to it.
func onlyFor(ws *workspace.Workspace, files []patch.File, name string) error {
	if len(files) != 1 {
		return tool.Errorf(tool.ParameterError, "file_path is %s, but the patch is for %d files", name, len(files)).
			WithHint("Leave file_path out to apply a patch of many files.")
	}
	f := &files[0]
	want, err := ws.Resolve(name, workspace.Write)
	if err != nil {
		return err
	}
	have, err := ws.Resolve(f.Old, workspace.Write)
	if err != nil {
		return err
	}
	if have.Real != want.Real {
		// A patch made further down names the file by the end of its path.
		if have.Exists() || f.Kind != patch.Modify || !strings.HasSuffix(want.Real, "/"+f.Old) {
			return tool.Errorf(tool.ParameterError, "file_path is %s, but the patch is for %s", name, f.Old).
				WithHint("Give the file that the patch names, or correct the names in the patch.")
		}
		f.Old, f.New = name, name
	}
	return nil
}

// plan works out what becomes of one file of the patch. It changes nothing.
func (p *patchTool) plan(ctx context.Context, ws *workspace.Workspace, f *patch.File) ([]edit.FileOp, patchedFile, error) {
	done := patchedFile{Hunks: []patch.Applied{}}
	to, err := ws.Resolve(f.New, workspace.Write)
	if err != nil {
		return nil, done, err
	}
	done.Path = to.Display
	if f.Kind == patch.Create {
		return p.create(to, f, done)
	}
	access := workspace.Write
	if f.Kind == patch.Copy {
		access = workspace.Read
	}
	from, err := ws.Resolve(f.Old, access)
	if err != nil {
		return nil, done, err
	}
	old, err := p.deps.Edit.Load(ctx, from)
	if err != nil {
		return nil, done, err
	}
	content, applied, err := apply(f, old, from.Display)
	if err != nil {
		return nil, done, err
	}
	if applied != nil {
		done.Hunks = applied
	}
	op := edit.FileOp{Path: from, Before: old.Hash, Content: content, NewContent: string(content) != string(old.Raw), Mode: f.NewMode}
	switch f.Kind {
	case patch.Delete:
		done.Status, done.Path = "deleted", from.Display
		if len(f.Hunks) > 0 && len(content) > 0 {
			return nil, done, tool.Errorf(tool.Conflict, "the patch deletes %s, but the file has content that the patch does not name", from.Display).
				WithHint("Read the file again and make the patch from what is there now.")
		}
		op.Kind = "delete"
	case patch.Rename:
		done.Status, done.OldPath = "renamed", from.Display
		op.Kind, op.NewPath = "rename", to
	case patch.Copy:
		done.Status, done.OldPath = "copied", from.Display
		op = edit.FileOp{Kind: "create", Path: to, Content: content, Mode: f.NewMode}
	default:
		done.Status = "modified"
		op.Kind = "write"
		if !op.NewContent {
			op.Kind = "mode"
			if f.NewMode == 0 {
				return nil, done, tool.Errorf(tool.ParameterError, "the patch changes nothing in %s", from.Display)
			}
		}
	}
	return []edit.FileOp{op}, done, nil
}

// create plans a new file.
func (p *patchTool) create(to *workspace.Path, f *patch.File, done patchedFile) ([]edit.FileOp, patchedFile, error) {
	done.Status = "created"
	content, applied, err := apply(f, &edit.Content{Text: &text.Text{}}, to.Display)
	if err != nil {
		return nil, done, err
	}
	if applied != nil {
		done.Hunks = applied
	}
	return []edit.FileOp{{Kind: "create", Path: to, Content: content, Mode: f.NewMode}}, done, nil
}

// apply gives the new bytes of a file: what no hunk touches stays as it is, new
// lines are encoded as the file is.
func apply(f *patch.File, old *edit.Content, name string) ([]byte, []patch.Applied, error) {
	if f.Binary() {
		content, err := f.ApplyBinary(old.Raw)
		return content, nil, err
	}
	if len(f.Hunks) == 0 {
		return old.Raw, nil, nil
	}
	if old.Text == nil {
		return nil, nil, tool.Errorf(tool.ParameterError, "%s is a binary file; only a git binary patch can change it", name)
	}
	splices, applied, err := f.Splices(old.Text.UTF8)
	if err != nil {
		return nil, nil, err
	}
	var content []byte
	from := 0
	for _, s := range splices {
		added, err := old.Encoding.Encode(s.New)
		if err != nil {
			if bad, ok := errors.AsType[*text.EncodeError](err); ok {
				return nil, nil, tool.Errorf(tool.ParameterError, "%s: %v", name, bad).
					WithHint("Use characters that the file's encoding has, or convert the file first.")
			}
			return nil, nil, err
		}
		if old.Raw == nil {
			content = append(content, added...)
			continue
		}
		content = append(append(content, old.Raw[from:old.Text.Raw(s.Start)]...), added...)
		from = old.Text.Raw(s.End)
	}
	return append(content, old.Raw[from:]...), applied, nil
}

// describePatch says what happened, a line a file, then the changes.
func describePatch(out patchOut, report *edit.Report) string {
	var b strings.Builder
	for _, f := range out.Files {
		fmt.Fprintf(&b, "%s %s", f.Status, f.Path)
		if f.OldPath != "" {
			fmt.Fprintf(&b, " from %s", f.OldPath)
		}
		for _, h := range f.Hunks {
			if h.Offset != 0 {
				fmt.Fprintf(&b, "; hunk %d matched at line %d, %+d from where the patch says", h.Hunk, h.Line, h.Offset)
			}
			if h.With != "" {
				fmt.Fprintf(&b, "; hunk %d matched but for %s", h.Hunk, h.With)
			}
		}
		b.WriteByte('\n')
	}
	if report != nil {
		for _, f := range report.Files {
			for _, note := range f.Notes {
				b.WriteString(note + "\n")
			}
			if f.Diff.Text != "" {
				b.WriteString(f.Diff.Text)
			}
		}
	}
	return strings.TrimRight(b.String(), "\n")
}
