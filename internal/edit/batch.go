package edit

import (
	"context"
	"errors"
	"fmt"

	"github.com/toolyard/toolyard/internal/workspace"
	"github.com/toolyard/toolyard/tool"
)

// FileEdit is one replacement in one of many files.
type FileEdit struct {
	Path *workspace.Path
	Replacement
}

// BatchOptions steer [Engine.ApplyAll].
type BatchOptions struct {
	DryRun      bool
	StopOnError bool // end the checking at the first fault
}

// BatchReport is what became of a batch.
type BatchReport struct {
	// Edits has one outcome per edit that was checked, in their order.
	Edits []EditOutcome
	// Files has one result per changed file, in the order of first mention;
	// empty if anything failed.
	Files              []FileResult
	Successful, Failed int
	Applied            bool
}

// EditOutcome is the check of one edit.
type EditOutcome struct {
	Path         string
	Replacements int
	MatchedWith  string
	Err          *tool.Error
}

// ApplyAll makes replacements in many files, all or none. Edits of one file
// build on one another. A fault is in its edit's outcome, and then nothing is
// written; the error is for what concerns the batch as a whole. A nil Path with
// a non-nil fault in faults, by index, counts as failed.
func (e *Engine) ApplyAll(ctx context.Context, o Origin, edits []FileEdit, faults map[int]error, opts BatchOptions) (*BatchReport, error) {
	var paths []string
	for _, ed := range edits {
		if ed.Path != nil {
			paths = append(paths, ed.Path.Real)
		}
	}
	release, err := e.locks.acquire(ctx, paths...)
	if err != nil {
		return nil, lockError("the files", err)
	}
	defer release()
	for try := 1; ; try++ {
		b := &batch{files: map[string]*batchFile{}}
		if err := e.check(ctx, o, b, edits, faults, opts); err != nil {
			return nil, err
		}
		if b.report.Failed > 0 || opts.DryRun {
			b.finish(e)
			return &b.report, nil
		}
		var steps []*step
		for _, f := range b.order {
			steps = append(steps, f.file.becomes(f.change.after))
		}
		err := e.commit(ctx, o, steps)
		if errors.Is(err, errChanged) {
			if e.strictness(o) == Anchored && try < maxTries {
				continue
			}
			return nil, inLayer(&tool.Error{Code: tool.Conflict, Message: modified + " (" + err.Error() + ")"}, 8, 7).
				WithHint("Nothing was changed. Read the files again, then repeat the call.")
		}
		if err != nil {
			return nil, err
		}
		for _, f := range b.order {
			if err := e.wrote(context.WithoutCancel(ctx), o, f.file, f.change.after, changedLines(f.file.raw, f.change.after), f.change.whole); err != nil {
				f.change.result.Notes = append(f.change.result.Notes, unnoted(f.file.path, err))
			}
		}
		b.finish(e)
		b.report.Applied = true
		return &b.report, nil
	}
}

// batch is the work on many files.
type batch struct {
	report BatchReport
	files  map[string]*batchFile
	order  []*batchFile
}

// batchFile is one file as it is on the disk and as it would become.
type batchFile struct {
	file   *file
	now    *file
	change *change
}

// check works all edits out in memory.
func (e *Engine) check(ctx context.Context, o Origin, b *batch, edits []FileEdit, faults map[int]error, opts BatchOptions) error {
	for i, ed := range edits {
		outcome := EditOutcome{}
		err := faults[i]
		if err == nil {
			outcome.Path = ed.Path.Display
			err = e.checkOne(ctx, o, b, ed, &outcome)
		}
		if err != nil {
			te, ok := errors.AsType[*tool.Error](err)
			if !ok {
				return err
			}
			outcome.Err = te
			b.report.Failed++
		} else {
			b.report.Successful++
		}
		b.report.Edits = append(b.report.Edits, outcome)
		if err != nil && opts.StopOnError {
			break
		}
	}
	return nil
}

func (e *Engine) checkOne(ctx context.Context, o Origin, b *batch, ed FileEdit, outcome *EditOutcome) error {
	if err := ed.Check(); err != nil {
		return err
	}
	bf := b.files[ed.Path.Real]
	if bf == nil {
		f, err := e.load(ctx, ed.Path)
		if err != nil {
			return err
		}
		bf = &batchFile{file: f, now: f, change: &change{result: &FileResult{}}}
	}
	// Layers 6 to 8 are about what is on the disk, the match about what the
	// edits before have made of it.
	before := *bf.now
	c := &change{result: &FileResult{}}
	after := before
	switch {
	case ed.Old == "":
		if err := c.create(&after, ed.Replacement, 0); err != nil {
			return err
		}
		bf.change.whole = true
	case !before.exists:
		return missing(ed.Path)
	default:
		var stale bool
		if bf.file.exists {
			if err := checkText(ed.Path, detect(&before)); err != nil {
				return err
			}
			notes, isStale, err := e.checkSeen(ctx, o, bf.file, true)
			if err != nil {
				return err
			}
			bf.change.result.Notes, stale = notes, isStale
		}
		if err := c.replace(&after, ed.Replacement, stale); err != nil {
			return err
		}
	}
	if err := e.fits(ed.Path, after.raw); err != nil {
		return err
	}
	if b.files[ed.Path.Real] == nil {
		b.files[ed.Path.Real] = bf
		b.order = append(b.order, bf)
	}
	bf.now = &after
	bf.change.after = after.raw
	r := bf.change.result
	r.Replacements += c.result.Replacements
	r.MatchedWith = looser(r.MatchedWith, c.result.MatchedWith)
	r.Encoding = c.result.Encoding
	outcome.Replacements, outcome.MatchedWith = c.result.Replacements, c.result.MatchedWith
	return nil
}

// finish fills in the results of the files.
func (b *batch) finish(e *Engine) {
	for _, f := range b.order {
		e.complete(f.file, f.change, 3)
		b.report.Files = append(b.report.Files, *f.change.result)
	}
}

// Summary is one line for a person.
func (r *BatchReport) Summary() string {
	return fmt.Sprintf("%d edits checked: %d fit, %d do not", r.Successful+r.Failed, r.Successful, r.Failed)
}
