package edit

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"github.com/toolyard/toolyard/internal/text"
	"github.com/toolyard/toolyard/internal/workspace"
	"github.com/toolyard/toolyard/tool"
)

// Write makes content the whole content of a file, or adds it at the end. A new
// file is UTF-8; an existing one keeps its encoding and byte order mark. Line
// endings are taken as given, but what is added to a file with only CRLF gets
// CRLF. Overwriting needs the file to have been seen in either strictness,
// adding does not.
func (e *Engine) Write(ctx context.Context, o Origin, p *workspace.Path, content string, add bool) (*FileResult, error) {
	return e.change1(ctx, o, p, func(f *file) (*change, error) {
		c := &change{result: &FileResult{Replacements: 1, Encoding: text.UTF8}, whole: !add}
		if !f.exists {
			c.whole, c.after = true, []byte(content)
			c.result.Written = len(content)
			return c, e.fits(p, c.after)
		}
		enc := text.Detect(f.raw)
		if err := checkBinary(p, enc); err != nil {
			return nil, err
		}
		if !add {
			notes, _, err := e.checkSeen(ctx, o, f, false)
			if err != nil {
				return nil, err
			}
			c.result.Notes = notes
		}
		c.result.Encoding = enc.String()
		body := strings.TrimPrefix(content, "\ufeff")
		if add {
			t := enc.Decode(f.raw).UTF8
			if strings.Contains(t, "\r\n") && strings.Count(t, "\n") == strings.Count(t, "\r\n") {
				body = strings.ReplaceAll(plainEndings(body), "\n", "\r\n")
			}
			c.lines = []lineEdit{{from: 1 + strings.Count(t, "\n"), to: strings.Count(t, "\n"), count: len(lines(body))}}
		}
		raw, err := enc.Encode(body)
		if err != nil {
			return nil, encodeError(p.Display, err)
		}
		c.result.Written = len(raw)
		if add {
			c.after = append(bytes.Clone(f.raw), raw...)
		} else {
			mark := enc.Mark()
			if mark == nil && content != body {
				mark = text.Encoding{Name: enc.Name, BOM: true}.Mark() // asked for
			}
			c.after = append(bytes.Clone(mark), raw...)
		}
		return c, e.fits(p, c.after)
	})
}

func (e *Engine) fits(p *workspace.Path, content []byte) error {
	if int64(len(content)) > e.config.MaxFile {
		return e.tooLarge(p.Display, int64(len(content)))
	}
	return nil
}

// Transform changes a file by a function from its bytes to the new ones. The
// file must exist, be regular, and have been seen; kind of content is work's
// business. work may run more than once and must not keep or change its
// argument.
func (e *Engine) Transform(ctx context.Context, o Origin, p *workspace.Path, work func(raw []byte) ([]byte, error)) (*FileResult, error) {
	return e.change1(ctx, o, p, func(f *file) (*change, error) {
		if !f.exists {
			return nil, missing(p)
		}
		notes, _, err := e.checkSeen(ctx, o, f, true)
		if err != nil {
			return nil, err
		}
		after, err := work(f.raw)
		if err != nil {
			return nil, err
		}
		if bytes.Equal(after, f.raw) {
			return nil, layerError(tool.ParameterError, 1, 1, "nothing in %s would change", p.Display)
		}
		c := &change{result: &FileResult{Replacements: 1, Notes: notes}, after: after, lines: changedLines(f.raw, after)}
		return c, e.fits(p, after)
	})
}

// FileOp is one change of a file whose new content the caller has worked out.
type FileOp struct {
	// Kind is write, create, delete, rename or mode.
	Kind string
	Path *workspace.Path
	// NewPath is where a rename leads.
	NewPath *workspace.Path
	// Content is the new content of write, create, and of a rename with
	// NewContent.
	Content    []byte
	NewContent bool
	// Mode is the new permission, 0 for the old one (or the default).
	Mode uint32
	// Before is the hash of the content that the change was worked out on: a
	// different one on the disk is a CONFLICT. Empty asserts nothing.
	Before string
}

// Report is what became of the operations, in their order.
type Report struct {
	Files []FileResult
}

// ApplyFiles makes all operations or none, in order. They go through the layers
// 2 and 4 to 8, and may build on one another (delete a file, then create it).
// The whole is one entry of the journal.
func (e *Engine) ApplyFiles(ctx context.Context, o Origin, ops []FileOp) (*Report, error) {
	release, err := e.locks.acquire(ctx, opPaths(ops)...)
	if err != nil {
		return nil, lockError("the files", err)
	}
	defer release()
	for try := 1; ; try++ {
		plan, err := e.plan(ctx, o, ops)
		if err != nil {
			return nil, err
		}
		err = e.commit(ctx, o, plan.steps)
		if errors.Is(err, errChanged) {
			if e.strictness(o) == Anchored && try < maxTries && !pinned(ops) {
				continue
			}
			return nil, inLayer(&tool.Error{Code: tool.Conflict, Message: modified + " (" + err.Error() + ")"}, 8, 7).
				WithHint("Nothing was changed. Read the files again, then repeat the call.")
		}
		if err != nil {
			return nil, err
		}
		e.recordPlan(context.WithoutCancel(ctx), o, plan)
		return &plan.report, nil
	}
}

func opPaths(ops []FileOp) []string {
	var paths []string
	for _, op := range ops {
		paths = append(paths, op.Path.Real)
		if op.NewPath != nil {
			paths = append(paths, op.NewPath.Real)
		}
	}
	return paths
}

func pinned(ops []FileOp) bool {
	for _, op := range ops {
		if op.Before != "" {
			return true
		}
	}
	return false
}

// plan is the steps of many operations, and what the session knows after them.
type plan struct {
	steps  []*step
	report Report
	// files is what is at each path at the start and after the steps so far.
	first, now map[string]*file
}

func (e *Engine) plan(ctx context.Context, o Origin, ops []FileOp) (*plan, error) {
	pl := &plan{first: map[string]*file{}, now: map[string]*file{}}
	for i, op := range ops {
		if err := e.planOp(ctx, o, pl, op); err != nil {
			return nil, ofEdit(err, i, len(ops))
		}
	}
	return pl, nil
}

// at is what is at a path after the steps so far.
func (e *Engine) at(ctx context.Context, pl *plan, p *workspace.Path) (*file, error) {
	if f := pl.now[p.Real]; f != nil {
		return f, nil
	}
	f, err := e.load(ctx, p)
	if err != nil {
		return nil, err
	}
	pl.first[p.Real], pl.now[p.Real] = f, f
	return f, nil
}

func (e *Engine) planOp(ctx context.Context, o Origin, pl *plan, op FileOp) error {
	f, err := e.at(ctx, pl, op.Path)
	if err != nil {
		return err
	}
	s := &step{kind: op.Kind, path: op.Path, before: f.state(), after: f.state()}
	result := FileResult{Path: op.Path.Display}
	if op.Kind == kindCreate {
		if f.exists {
			return layerError(tool.Conflict, 3, 3, "%s already exists, so it cannot be created", op.Path.Display).
				WithHint("Change the file instead, or delete it first.")
		}
		result.Created = true
	} else if err := e.checkOp(ctx, o, pl, op, f, &result); err != nil {
		return err
	}
	switch op.Kind {
	case kindCreate, kindWrite:
		s.after = state{exists: true, raw: op.Content, hash: Sum(op.Content)}
	case kindDelete:
		s.after = state{}
	case kindRename:
		to, err := e.at(ctx, pl, op.NewPath)
		if err != nil {
			return err
		}
		if to.exists {
			return layerError(tool.Conflict, 3, 3, "%s already exists, so %s cannot be renamed to it", op.NewPath.Display, op.Path.Display).
				WithHint("Choose another name, or delete the file there first.")
		}
		s.to, result.Path = op.NewPath, op.NewPath.Display
		if op.NewContent {
			s.after.raw, s.after.hash = op.Content, Sum(op.Content)
		}
	case kindMode:
	default:
		return tool.Errorf(tool.Internal, "no such kind of change: %q", op.Kind)
	}
	if op.Mode != 0 {
		s.after.mode = fileMode(op.Mode)
	} else if op.Kind == kindWrite {
		s.after.mode = 0
	}
	if err := e.fits(op.Path, s.after.raw); err != nil {
		return err
	}
	result.Diff = e.planDiff(s)
	result.Hash, result.Bytes = s.after.hash, len(s.after.raw)
	pl.steps = append(pl.steps, s)
	pl.report.Files = append(pl.report.Files, result)
	pl.follow(s)
	return nil
}

// checkOp is the layers 5 to 8 for an operation on a file that must exist.
func (e *Engine) checkOp(ctx context.Context, o Origin, pl *plan, op FileOp, f *file, result *FileResult) error {
	if !f.exists {
		return missing(op.Path)
	}
	if op.Before != "" && op.Before != f.hash {
		return changedMeanwhile(op.Path)
	}
	if pl.first[op.Path.Real] != f || op.Kind == kindMode || op.Kind == kindRename && !op.NewContent {
		return nil
	}
	if op.Kind == kindWrite {
		// Whether it is text is for the caller, who has worked out the bytes.
		if err := checkText(op.Path, text.Encoding{}); err != nil {
			return err
		}
	}
	notes, _, err := e.checkSeen(ctx, o, f, true)
	result.Notes = notes
	return err
}

// follow moves the plan's picture of the files past a step.
func (pl *plan) follow(s *step) {
	after := &file{path: s.target(), exists: s.after.exists, raw: s.after.raw, hash: s.after.hash, mode: s.after.mode}
	if s.after.exists && s.after.mode == 0 {
		after.mode = s.before.mode
	}
	pl.now[s.target().Real] = after
	if s.kind == kindRename {
		pl.now[s.path.Real] = &file{path: s.path}
	}
}

func (e *Engine) planDiff(s *step) Diff {
	var before, after []byte
	if s.before.exists {
		before = append([]byte{}, s.before.raw...)
	}
	if s.after.exists {
		after = append([]byte{}, s.after.raw...)
	}
	if bytes.Equal(before, after) && s.kind == kindRename || s.kind == kindMode {
		return Diff{}
	}
	return e.diffOf(s.target().Display, before, after, 3)
}

// recordPlan notes what the session has written.
func (e *Engine) recordPlan(ctx context.Context, o Origin, pl *plan) {
	for real, f := range pl.now {
		first := pl.first[real]
		if !f.exists || first == nil || f == first {
			continue
		}
		if err := e.wrote(ctx, o, first, f.raw, changedLines(first.raw, f.raw), !first.exists); err != nil {
			for i := range pl.report.Files {
				if r := &pl.report.Files[i]; r.Path == f.path.Display {
					r.Notes = append(r.Notes, unnoted(f.path, err))
				}
			}
		}
	}
}
