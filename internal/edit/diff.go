package edit

import (
	"fmt"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/toolyard/toolyard/internal/text"
)

// maxDiffed is the size, in bytes, of what is compared line by line; of more,
// everything between the first and the last difference counts as replaced.
const maxDiffed = 2 << 20

// Diff is a unified diff with counts.
type Diff struct {
	Text       string `json:"diff"`
	Insertions int    `json:"insertions"`
	Deletions  int    `json:"deletions"`
	Cut        bool   `json:"cut,omitempty"` // Text was longer than it may be
}

// DiffText compares two texts of a file. context is the number of unchanged
// lines around each change; max bounds Text, in bytes. Line endings are part of
// the lines. Equal texts give an empty diff.
func DiffText(oldName, newName, old, new string, context, max int) Diff {
	edits := lineDiff(old, new)
	if len(edits) == 0 {
		return Diff{}
	}
	var d Diff
	for _, e := range edits {
		d.Deletions += len(lines(old[e.Start:e.End]))
		d.Insertions += len(lines(e.New))
	}
	unified, err := udiff.ToUnified(oldName, newName, old, edits, context)
	if err != nil {
		unified = fmt.Sprintf("--- %s\n+++ %s\n(no diff: %v)\n", oldName, newName, err)
	}
	d.Text, d.Cut = cutDiff(unified, max)
	return d
}

// lineDiff gives edits of whole lines.
func lineDiff(old, new string) []udiff.Edit {
	if old == new {
		return nil
	}
	head := commonPrefix(old, new)
	head = strings.LastIndexByte(old[:head], '\n') + 1
	a, b := old[head:], new[head:]
	tail := commonSuffix(a, b)
	// The tail begins after a line ending in both.
	if tail < len(a) || tail < len(b) {
		i := strings.IndexByte(a[len(a)-tail:], '\n')
		switch {
		case tail > 0 && startsLine(a, len(a)-tail) && startsLine(b, len(b)-tail):
		case i < 0:
			tail = 0
		default:
			tail -= i + 1
		}
	}
	a, b = a[:len(a)-tail], b[:len(b)-tail]
	if len(a)+len(b) > maxDiffed {
		return []udiff.Edit{{Start: head, End: head + len(a), New: b}}
	}
	edits := udiff.Lines(a, b)
	for i := range edits {
		edits[i].Start += head
		edits[i].End += head
	}
	return edits
}

func startsLine(s string, at int) bool { return at == 0 || s[at-1] == '\n' }

func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func commonSuffix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}

// cutDiff cuts a diff at a line.
func cutDiff(diff string, max int) (string, bool) {
	if len(diff) <= max {
		return diff, false
	}
	kept := diff[:strings.LastIndexByte(diff[:max], '\n')+1]
	return kept + fmt.Sprintf("… %d more lines of the diff are not shown\n", strings.Count(diff[len(kept):], "\n")), true
}

// diffOf compares two contents of the file called name.
func (e *Engine) diffOf(name string, before, after []byte, context int) Diff {
	oldName, newName := "a/"+name, "b/"+name
	if strings.HasPrefix(name, "/") {
		oldName, newName = "a"+name, "b"+name
	}
	if before == nil {
		oldName = "/dev/null"
	}
	if after == nil {
		newName = "/dev/null"
	}
	old, okOld := textOf(before)
	new, okNew := textOf(after)
	if !okOld || !okNew {
		return Diff{Text: fmt.Sprintf("Binary files %s and %s differ\n", oldName, newName)}
	}
	return DiffText(oldName, newName, old, new, context, e.config.MaxDiff)
}

func textOf(raw []byte) (string, bool) {
	enc := text.Detect(raw)
	if enc.IsBinary() {
		return "", false
	}
	return enc.Decode(raw).UTF8, true
}
