package edit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/text"
	"github.com/toolyard/toolyard/internal/workspace"
	"github.com/toolyard/toolyard/tool"
)

// FileResult is what became of one file.
type FileResult struct {
	Path         string // to show
	Replacements int
	// MatchedWith is the loosest way in which a text was found, a Match constant.
	MatchedWith string
	Diff        Diff
	Hash        string // of the new content
	Bytes       int    // of the new content
	Written     int    // bytes given to Write, as encoded
	Created     bool
	Encoding    string
	// Notes are sentences for the model: what was done though it was not seen.
	Notes []string
}

// maxTries is how often an edit is worked out anew because the file changed
// between reading and writing, with Anchored strictness.
const maxTries = 20

// Apply makes replacements in one file, one after the other, all or none. An
// empty Old, in the first only, creates the file. Errors are those of the nine
// layers; of several edits, the detail "edit" is the index of the one at fault.
func (e *Engine) Apply(ctx context.Context, o Origin, p *workspace.Path, edits ...Replacement) (*FileResult, error) {
	if err := CheckAll(edits); err != nil {
		return nil, err
	}
	return e.change1(ctx, o, p, func(f *file) (*change, error) {
		return e.replaceAll(ctx, o, f, edits)
	})
}

// Preview works out what Apply would do and changes nothing. Whether the
// session has seen the file does not matter.
func (e *Engine) Preview(ctx context.Context, p *workspace.Path, context int, edits ...Replacement) (*FileResult, error) {
	if err := CheckAll(edits); err != nil {
		return nil, err
	}
	f, err := e.load(ctx, p)
	if err != nil {
		return nil, err
	}
	o := Origin{Strictness: Anchored}
	c, err := e.replaceAll(ctx, o, f, edits)
	if err != nil {
		return nil, err
	}
	c.result.Notes = nil
	c.result.Diff = e.diffOf(p.Display, f.raw, c.after, context)
	return c.result, nil
}

// CheckAll is layer 1 for the edits of one file.
func CheckAll(edits []Replacement) error {
	if len(edits) == 0 {
		return layerError(tool.ParameterError, 1, 1, "there are no edits").WithHint("Give at least one.")
	}
	for i, r := range edits {
		if err := r.Check(); err != nil {
			return ofEdit(err, i, len(edits))
		}
	}
	return nil
}

// change is a worked out change of one file.
type change struct {
	result *FileResult
	after  []byte
	lines  []lineEdit
	whole  bool // the session gave the whole content
}

// change1 changes one file: lock, read, work out, write; again if the file
// changed meanwhile and the strictness allows.
func (e *Engine) change1(ctx context.Context, o Origin, p *workspace.Path, work func(*file) (*change, error)) (*FileResult, error) {
	release, err := e.locks.acquire(ctx, p.Real)
	if err != nil {
		return nil, lockError(p.Display, err)
	}
	defer release()
	for try := 1; ; try++ {
		f, err := e.load(ctx, p)
		if err != nil {
			return nil, err
		}
		c, err := work(f)
		if err != nil {
			return nil, err
		}
		err = e.commit(ctx, o, []*step{f.becomes(c.after)})
		if errors.Is(err, errChanged) {
			if e.strictness(o) == Anchored && try < maxTries {
				continue
			}
			return nil, changedMeanwhile(p)
		}
		if err != nil {
			return nil, err
		}
		e.complete(f, c, 3)
		if err := e.wrote(context.WithoutCancel(ctx), o, f, c.after, c.lines, c.whole); err != nil {
			c.result.Notes = append(c.result.Notes, unnoted(p, err))
		}
		return c.result, nil
	}
}

// unnoted says that a change was made, but that the session's record of what it
// has seen could not follow.
func unnoted(p *workspace.Path, err error) string {
	return fmt.Sprintf("%s was changed, but it could not be noted as seen (%v): read it again before the next edit.", p.Display, err)
}

// becomes is the step to a new content.
func (f *file) becomes(after []byte) *step {
	s := &step{kind: kindWrite, path: f.path, before: f.state()}
	if !f.exists {
		s.kind = kindCreate
	}
	s.after = state{exists: true, raw: after, hash: Sum(after)}
	return s
}

// complete fills in what all results say.
func (e *Engine) complete(f *file, c *change, context int) {
	r := c.result
	r.Path, r.Hash, r.Bytes, r.Created = f.path.Display, Sum(c.after), len(c.after), !f.exists
	before := f.raw
	if !f.exists {
		before = nil
	} else if before == nil {
		before = []byte{}
	}
	r.Diff = e.diffOf(f.path.Display, before, c.after, context)
}

func changedMeanwhile(p *workspace.Path) error {
	return inLayer(&tool.Error{Code: tool.Conflict, Message: modified + " (" + p.Display + " changed while it was being edited)"}, 8, 7).
		WithHint("Use read on %s, then repeat the call.", p.Display)
}

func lockError(name string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, tool.ErrTimeout) {
		return err
	}
	return writeError(name, err)
}

// ofEdit says which of several edits failed.
func ofEdit(err error, i, n int) error {
	te, ok := errors.AsType[*tool.Error](err)
	if !ok || n < 2 {
		return err
	}
	te.WithDetail("edit", i)
	te.Message = fmt.Sprintf("edit %d of %d: %s", i+1, n, te.Message)
	return te
}

// replaceAll works out all edits of one file.
func (e *Engine) replaceAll(ctx context.Context, o Origin, f *file, edits []Replacement) (*change, error) {
	c := &change{result: &FileResult{}}
	after := &file{path: f.path, exists: f.exists, raw: f.raw, hash: f.hash}
	notes, stale := []string(nil), false
	for i, r := range edits {
		if r.Old == "" {
			if err := c.create(after, r, i); err != nil {
				return nil, ofEdit(err, i, len(edits))
			}
			continue
		}
		if !after.exists {
			return nil, ofEdit(missing(f.path), i, len(edits))
		}
		if i == 0 {
			enc := text.Detect(f.raw)
			if err := checkText(f.path, enc); err != nil {
				return nil, err
			}
			var err error
			if notes, stale, err = e.checkSeen(ctx, o, f, true); err != nil {
				return nil, err
			}
		}
		if err := c.replace(after, r, stale); err != nil {
			return nil, ofEdit(err, i, len(edits))
		}
		if int64(len(after.raw)) > e.config.MaxFile {
			return nil, e.tooLarge(f.path.Display, int64(len(after.raw)))
		}
	}
	c.after = after.raw
	c.result.Notes = notes
	if len(edits) == 1 && edits[0].Old != "" {
		if note := e.unseenLines(ctx, o, f, touched(c.lines)); note != "" {
			c.result.Notes = append(c.result.Notes, note)
		}
	} else if len(edits) > 1 {
		c.lines = changedLines(f.raw, c.after)
		if note := e.unseenLines(ctx, o, f, touched(c.lines)); note != "" && f.exists {
			c.result.Notes = append(c.result.Notes, note)
		}
	}
	return c, nil
}

// create is layer 3: an empty old text makes a new file.
func (c *change) create(f *file, r Replacement, i int) error {
	if i > 0 {
		return layerError(tool.ParameterError, 1, 1, "old_str is empty, which is for creating a file and so can only be the first edit").
			WithHint("Give the text to be replaced.")
	}
	if f.exists && len(f.raw) > 0 {
		return layerError(tool.Conflict, 3, 3, "%s already exists and has content, so it cannot be created with an empty old_str", f.path.Display).
			WithHint("Read the file and give the text to be replaced in old_str, or use write to replace all of it.")
	}
	f.raw, f.exists = []byte(r.New), true
	c.result.Replacements++
	c.result.Encoding = text.UTF8
	c.whole = true
	return nil
}

// replace makes one replacement in f, which is in memory.
func (c *change) replace(f *file, r Replacement, stale bool) error {
	enc := text.Detect(f.raw)
	if enc.IsBinary() {
		return checkBinary(f.path, enc)
	}
	c.result.Encoding = enc.String()
	t := enc.Decode(f.raw)
	r.Old, r.New = strings.TrimPrefix(r.Old, "\ufeff"), strings.TrimPrefix(r.New, "\ufeff")
	hits := search(t.UTF8, r)
	name := f.path.Display
	switch {
	case len(hits.regions) == 0:
		return notFound(name, t.UTF8, r)
	case len(hits.regions) > maxAll:
		return tool.Errorf(tool.ResourceExhausted, "old_str occurs more than %d times in %s", maxAll, name).
			WithHint("Use a program that streams, such as sed in bash.")
	case r.Expected > 0 && len(hits.regions) != r.Expected:
		return layerError(tool.Conflict, 9, 9, "old_str occurs %d times in %s, but expected_replacements is %d", len(hits.regions), name, r.Expected).
			WithHint("Read the file again and check which occurrences are meant.").WithDetail("count", len(hits.regions))
	case len(hits.regions) > 1 && !r.All && r.Expected == 0:
		return ambiguous(name, t.UTF8, hits)
	case stale && hits.with != MatchExact && hits.with != MatchEndings:
		// What was read is gone; only the very text is an anchor.
		return inLayer(&tool.Error{Code: tool.Conflict, Message: modified + " (" + name + ", and old_str matches it only with differences in " + hits.with + ")"}, 8, 7).
			WithHint("Use read on %s, then repeat the call with the text as it is now.", name)
	}
	if applySplices(t.UTF8, hits.splices) == t.UTF8 {
		return layerError(tool.NotFound, 9, 8, "old_str was not found in %s as it stands; with differences in %s overlooked, the text there is new_str already", name, hits.with).
			WithHint("Nothing is left to do if this edit was made before.").WithDetail("already_applied", true)
	}
	raw, err := spliceRaw(t, f.raw, hits.splices)
	if err != nil {
		return encodeError(name, err)
	}
	f.raw = raw
	c.result.Replacements += len(hits.regions)
	c.result.MatchedWith = looser(c.result.MatchedWith, hits.with)
	c.lines = lineEdits(t.UTF8, hits.splices)
	return nil
}

// encodeError says which character the file's encoding cannot hold.
func encodeError(name string, err error) error {
	lacking, ok := errors.AsType[*text.EncodeError](err)
	if !ok {
		return err
	}
	return layerError(tool.ParameterError, 1, 1, "%s is encoded as %s, which has no character %q (U+%04X)", name, lacking.Encoding, lacking.Rune, lacking.Rune).
		WithHint("Write it with other characters, or convert the file first (iconv in bash).")
}

// spliceRaw makes the changes in the bytes; all others stay as they are.
func spliceRaw(t *text.Text, raw []byte, splices []splice) ([]byte, error) {
	out := make([]byte, 0, len(raw)+64)
	at := 0
	for _, s := range splices {
		encoded, err := t.Encoding.Encode(s.text)
		if err != nil {
			return nil, err
		}
		start, end := t.Raw(s.start), t.Raw(s.end)
		out = append(out, raw[at:start]...)
		out = append(out, encoded...)
		at = end
	}
	return append(out, raw[at:]...), nil
}

// looser is the match that overlooked more.
func looser(a, b string) string {
	order := []string{MatchExact, MatchEndings, MatchBlanks, MatchPunctuation, MatchIndentation}
	if slices.Index(order, a) > slices.Index(order, b) {
		return a
	}
	return b
}

// lineEdits says which lines splices replace by how many, rising.
func lineEdits(t string, splices []splice) []lineEdit {
	var out []lineEdit
	line, at := 1, 0
	for _, s := range splices {
		line += strings.Count(t[at:s.start], "\n")
		removed := strings.Count(t[s.start:s.end], "\n")
		l := lineEdit{from: line, to: line + removed, count: 1 + strings.Count(s.text, "\n")}
		if n := len(out); n > 0 && out[n-1].to == l.from {
			out[n-1].to = l.to
			out[n-1].count += l.count - 1
		} else {
			out = append(out, l)
		}
		line += removed
		at = s.end
	}
	return out
}

// changedLines gives the changed lines of two contents.
func changedLines(before, after []byte) []lineEdit {
	old, okOld := textOf(before)
	new, okNew := textOf(after)
	if !okOld || !okNew {
		return nil
	}
	var out []lineEdit
	line, at := 1, 0
	for _, e := range lineDiff(old, new) {
		line += strings.Count(old[at:e.Start], "\n")
		removed := len(lines(old[e.Start:e.End]))
		out = append(out, lineEdit{from: line, to: line + removed - 1, count: len(lines(e.New))})
		line += strings.Count(old[e.Start:e.End], "\n")
		at = e.End
	}
	return out
}

func touched(edits []lineEdit) []store.LineRange {
	var out []store.LineRange
	for _, l := range edits {
		if l.to >= l.from {
			out = append(out, store.LineRange{From: l.from, To: l.to})
		}
	}
	return out
}
