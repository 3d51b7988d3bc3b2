package patch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/text"
	"github.com/toolyard/toolyard/tool"
)

// Splice replaces content[Start:End] by New.
type Splice struct {
	Start, End int
	New        string
}

// Applied says where one hunk went.
type Applied struct {
	Hunk   int    `json:"hunk"`             // 1-based
	Line   int    `json:"line"`             // where it matched, 1-based, in the old file
	Offset int    `json:"offset,omitempty"` // lines away from where the patch said
	With   string `json:"matched_with,omitempty"`
}

// Lenient comparisons, in the order they are tried.
const (
	withEndings     = "line endings"
	withBlanks      = "trailing blanks"
	withPunctuation = "Unicode punctuation"
	withIndentation = "indentation"
)

// Splices works out what to replace in content, the decoded text of the file
// called f.Old ("" if there is none), rising and disjoint. It changes nothing.
// A hunk that does not fit is a CONFLICT that names the hunk and the first line
// that differs.
func (f *File) Splices(content string) ([]Splice, []Applied, error) {
	m := matcher{file: f, lines: splitLines(content), content: content}
	if f.Kind == Create && !f.v4a && content != "" {
		return nil, nil, tool.Errorf(tool.Conflict, "%s is created by the patch, but it exists and is not empty", f.New)
	}
	var splices []Splice
	var applied []Applied
	for i := range f.Hunks {
		h := &f.Hunks[i]
		at, with, err := m.place(i, h)
		if err != nil {
			return nil, nil, err
		}
		splices = append(splices, m.splice(h, at, with)...)
		a := Applied{Hunk: i + 1, Line: at + 1, With: with}
		if h.OldLine > 0 {
			a.Offset = at + 1 - h.OldLine
			if len(h.old()) == 0 {
				a.Offset = at - h.OldLine
			}
			m.offset = a.Offset
		}
		m.cursor = at + len(h.old())
		applied = append(applied, a)
	}
	return splices, applied, nil
}

// Join makes the new content of splices over content.
func Join(content string, splices []Splice) string {
	var b strings.Builder
	done := 0
	for _, s := range splices {
		b.WriteString(content[done:s.Start])
		b.WriteString(s.New)
		done = s.End
	}
	b.WriteString(content[done:])
	return b.String()
}

// old is the lines that must be in the file.
func (h *Hunk) old() []Line {
	var old []Line
	for _, line := range h.Lines {
		if line.Op != '+' {
			old = append(old, line)
		}
	}
	return old
}

// fileLine is one line of the file: content[start:end] and its ending.
type fileLine struct {
	start, end int
	text, eol  string
}

func splitLines(content string) []fileLine {
	lines := make([]fileLine, 0, strings.Count(content, "\n")+1)
	for start := 0; start < len(content); {
		end := len(content)
		text, eol := content[start:], ""
		if i := strings.IndexByte(text, '\n'); i >= 0 {
			end = start + i + 1
			text, eol = text[:i], "\n"
			if strings.HasSuffix(text, "\r") {
				text, eol = text[:len(text)-1], "\r\n"
			}
		}
		lines = append(lines, fileLine{start, end, text, eol})
		start = end
	}
	return lines
}

// matcher finds the places of one file's hunks, from top to bottom.
type matcher struct {
	file    *File
	content string
	lines   []fileLine
	cursor  int // first line that no earlier hunk has taken
	offset  int // by how much the last unified hunk was off
}

// place finds the index of the line where h begins.
func (m *matcher) place(i int, h *Hunk) (at int, with string, err error) {
	if m.file.v4a {
		return m.placeV4A(i, h)
	}
	return m.placeUnified(i, h)
}

// placeUnified: the stated line first, then anywhere else if there is only one
// place. As in git apply, a hunk that begins at line 1 belongs to the file's
// begin, and one without trailing context to its end, unless it fits exactly
// where it says.
func (m *matcher) placeUnified(i int, h *Hunk) (int, string, error) {
	old := h.old()
	if len(old) == 0 {
		return m.placeInsertion(i, h)
	}
	want := h.OldLine - 1 + m.offset
	for _, same := range []struct {
		with  string
		equal func(int, Line) bool
	}{{"", m.exact}, {withEndings, m.sameText}} {
		if m.fits(h.OldLine-1, old, same.equal) {
			return h.OldLine - 1, same.with, nil
		}
		places := m.places(old, same.equal)
		places = slices.DeleteFunc(places, func(at int) bool {
			return h.OldLine <= 1 && h.Lines[0].Op != ' ' && at != 0 ||
				h.Lines[len(h.Lines)-1].Op != ' ' && at+len(old) != len(m.lines)
		})
		switch {
		case len(places) == 1:
			return places[0], same.with, nil
		case slices.Contains(places, want):
			return want, same.with, nil
		case len(places) > 1:
			return 0, "", m.ambiguous(i, h, places)
		}
	}
	return 0, "", m.miss(i, h, max(want, 0))
}

// placeInsertion: a hunk with nothing but new lines says only where, so it is
// taken for an empty file and for the file's very end, and refused elsewhere.
func (m *matcher) placeInsertion(i int, h *Hunk) (int, string, error) {
	if len(m.lines) == 0 || m.file.v4a || h.OldLine == len(m.lines) && h.OldLine > 0 {
		return len(m.lines), "", nil
	}
	return 0, "", m.conflict(i, h, "it has no context lines, so its place in a file of %d lines is a guess", len(m.lines)).
		WithHint("Send the hunk with a few unchanged lines around the new ones.")
}

// placeV4A: the anchors first, then the lines, in one place only.
func (m *matcher) placeV4A(i int, h *Hunk) (int, string, error) {
	old := h.old()
	if len(old) == 0 && len(h.Anchors) == 0 {
		return m.placeInsertion(i, h)
	}
	if len(old) == 0 {
		return 0, "", m.conflict(i, h, "it adds lines below an @@ line, but no line tells where").
			WithHint("Add the line before which or after which the new lines go, with a space in front.")
	}
	starts, err := m.anchors(i, h)
	if err != nil {
		return 0, "", err
	}
	for _, same := range []struct {
		with  string
		equal func(int, Line) bool
	}{{"", m.exact}, {withEndings, m.sameText}, {withBlanks, m.sameTrimmed}, {withPunctuation, m.samePlain}, {withIndentation, m.sameWords}} {
		places := m.places(old, same.equal)
		if h.EndOfFile {
			places = slices.DeleteFunc(places, func(at int) bool { return at+len(old) != len(m.lines) })
		}
		if len(h.Anchors) > 0 {
			places = firstAfter(places, starts)
		}
		switch {
		case len(places) == 1:
			return places[0], same.with, nil
		case len(places) > 1:
			return 0, "", m.ambiguous(i, h, places)
		}
	}
	return 0, "", m.miss(i, h, -1)
}

// anchors follows the @@ lines and gives the lines after which the change may
// begin, one for each place where the whole chain of anchors is.
func (m *matcher) anchors(i int, h *Hunk) ([]int, error) {
	starts := []int{m.cursor}
	for _, anchor := range h.Anchors {
		var next []int
		for _, same := range []func(string, string) bool{
			func(a, b string) bool { return a == b },
			func(a, b string) bool { return plain(strings.TrimSpace(a)) == plain(b) },
		} {
			for j := starts[0]; j < len(m.lines); j++ {
				if same(m.lines[j].text, anchor) {
					next = append(next, j+1)
				}
			}
			if len(next) > 0 {
				break
			}
		}
		if len(next) == 0 {
			return nil, m.conflict(i, h, "no line %q is below line %d", clip(anchor), m.cursor).
				WithHint("An @@ line must be a whole line of the file, without its indentation if you like.")
		}
		starts = next
	}
	return starts, nil
}

// firstAfter keeps the places that are the first after some start: what "below
// the anchor" means. The anchor line itself may be the first line of the change.
func firstAfter(places, starts []int) []int {
	var kept []int
	for _, start := range starts {
		for _, at := range places {
			if at >= start-1 {
				if !slices.Contains(kept, at) {
					kept = append(kept, at)
				}
				break
			}
		}
	}
	return kept
}

// places lists where old fits at or below the cursor.
func (m *matcher) places(old []Line, equal func(int, Line) bool) []int {
	const enough = 64 // more are not shown
	var found []int
	for at := m.cursor; at+len(old) <= len(m.lines) && len(found) < enough; at++ {
		if m.fits(at, old, equal) {
			found = append(found, at)
		}
	}
	return found
}

func (m *matcher) fits(at int, old []Line, equal func(int, Line) bool) bool {
	if at < m.cursor || at+len(old) > len(m.lines) {
		return false
	}
	for j, line := range old {
		if !equal(at+j, line) {
			return false
		}
	}
	return true
}

// exact compares a line with its ending: a patch line with a "\r" stands for a
// CRLF, and one marked NoEOL for a last line with no newline.
func (m *matcher) exact(at int, line Line) bool {
	have := m.lines[at]
	if m.file.v4a {
		return have.text == line.Text && have.eol != "\r\n"
	}
	if line.NoEOL != (have.eol == "") {
		return false
	}
	return have.text+strings.TrimSuffix(have.eol, "\n") == line.Text
}

// sameText compares a line without its ending; a missing last newline still has
// to be missing where the patch says so.
func (m *matcher) sameText(at int, line Line) bool {
	if line.NoEOL && m.lines[at].eol != "" {
		return false
	}
	return m.lines[at].text == strings.TrimSuffix(line.Text, "\r")
}

func (m *matcher) sameTrimmed(at int, line Line) bool {
	return strings.TrimRight(m.lines[at].text, " \t") == strings.TrimRight(line.Text, " \t\r")
}

func (m *matcher) samePlain(at int, line Line) bool {
	return plain(strings.TrimRight(m.lines[at].text, " \t")) == plain(strings.TrimRight(line.Text, " \t\r"))
}

func (m *matcher) sameWords(at int, line Line) bool {
	return plain(strings.TrimSpace(m.lines[at].text)) == plain(strings.TrimSpace(line.Text))
}

// plain writes typographic signs as those that a keyboard has.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if p := text.Plain(r); p != 0 {
			return p
		}
		return r
	}, s)
}

// splice makes the replacements of a hunk that matched at a line. Only removed
// and added lines are touched; context keeps the file's own bytes.
func (m *matcher) splice(h *Hunk, at int, with string) []Splice {
	var splices []Splice
	indent := m.indenter(h, at, with)
	for i := 0; i < len(h.Lines); {
		if h.Lines[i].Op == ' ' {
			at++
			i++
			continue
		}
		// One run of removed and added lines, in any order, is one replacement.
		from := at
		var added []Line
		for ; i < len(h.Lines) && h.Lines[i].Op != ' '; i++ {
			if h.Lines[i].Op == '-' {
				at++
			} else {
				added = append(added, h.Lines[i])
			}
		}
		splices = append(splices, m.replace(from, at, added, indent))
	}
	return splices
}

// replace puts added in place of the lines from (included) to to (excluded).
// An added line takes the ending of the line that it replaces, or else of the
// line before it.
func (m *matcher) replace(from, to int, added []Line, indent func(string) string) Splice {
	s := Splice{Start: m.start(from), End: m.start(to)}
	var b strings.Builder
	atEnd := to == len(m.lines)
	if from == to && atEnd && from > 0 && m.lines[from-1].eol == "" && len(added) > 0 {
		// Behind a last line with no newline: that line gets one, the new last
		// line has none.
		b.WriteString(m.ending(from, 0, to))
	}
	for j, line := range added {
		text := line.Text
		if !m.file.v4a {
			text = strings.TrimSuffix(text, "\r")
		}
		b.WriteString(indent(text))
		if j == len(added)-1 && atEnd && m.endsBare(to, line) {
			break
		}
		b.WriteString(m.ending(from, j, to))
	}
	s.New = b.String()
	return s
}

// endsBare reports whether the new last line gets no newline: a unified diff
// says so itself; where it could not know, and for V4A, which has no word for
// it, the file stays as it was.
func (m *matcher) endsBare(to int, line Line) bool {
	if line.NoEOL {
		return true
	}
	if len(m.lines) == 0 || m.lines[len(m.lines)-1].eol != "" {
		return false
	}
	return m.file.v4a || !m.saysNoEOL()
}

// saysNoEOL reports whether the patch marks a missing newline among the old
// lines: then it knows about it, and an unmarked new last line has one.
func (m *matcher) saysNoEOL() bool {
	for _, h := range m.file.Hunks {
		for _, line := range h.Lines {
			if line.NoEOL && line.Op != '+' {
				return true
			}
		}
	}
	return false
}

// ending is the line ending of the j-th line that replaces lines from..to.
func (m *matcher) ending(from, j, to int) string {
	at := from + j
	if at >= to {
		at = to - 1
	}
	for ; at >= 0; at-- {
		if at < len(m.lines) && m.lines[at].eol != "" {
			return m.lines[at].eol
		}
	}
	for _, line := range m.lines[min(to, len(m.lines)):] {
		if line.eol != "" {
			return line.eol
		}
	}
	return "\n"
}

func (m *matcher) start(at int) int {
	if at < len(m.lines) {
		return m.lines[at].start
	}
	return len(m.content)
}

// indenter gives the function that moves an added line to the file's
// indentation where the hunk matched only but for its own.
func (m *matcher) indenter(h *Hunk, at int, with string) func(string) string {
	if with != withIndentation {
		return func(s string) string { return s }
	}
	have, want := "", ""
	for j, line := range h.old() {
		if strings.TrimSpace(line.Text) != "" {
			want, have = leading(line.Text), leading(m.lines[at+j].text)
			break
		}
	}
	return func(s string) string {
		if strings.TrimSpace(s) == "" {
			return s
		}
		if rest, ok := strings.CutPrefix(s, want); ok {
			return have + rest
		}
		return have + strings.TrimLeft(s, " \t")
	}
}

func leading(s string) string { return s[:len(s)-len(strings.TrimLeft(s, " \t"))] }

func (m *matcher) conflict(i int, h *Hunk, format string, args ...any) *tool.Error {
	name := fmt.Sprintf("hunk %d of %s", i+1, m.file.Old)
	if h.Header != "" {
		name += " (" + clip(h.Header) + ")"
	}
	return tool.Errorf(tool.Conflict, "%s does not apply: %s", name, fmt.Sprintf(format, args...)).
		WithDetail("hunk", i+1).WithDetail("file", m.file.Old).WithDetail("patch_line", h.at)
}

func (m *matcher) ambiguous(i int, h *Hunk, places []int) *tool.Error {
	var numbers []string
	for _, at := range places[:min(len(places), 5)] {
		numbers = append(numbers, fmt.Sprint(at+1))
	}
	more := ""
	if len(places) > 5 {
		more = " and more"
	}
	return m.conflict(i, h, "its lines fit in more than one place: at lines %s%s", strings.Join(numbers, ", "), more).
		WithHint("Add more unchanged lines around the change, so that it fits in one place only.")
}

// miss says which line of the hunk first differs from the file, at the stated
// place or, if there is none, at the most similar one.
func (m *matcher) miss(i int, h *Hunk, want int) *tool.Error {
	old := h.old()
	best, score := want, -1
	for at := m.cursor; at < len(m.lines); at++ {
		n := 0
		for j := 0; j < len(old) && at+j < len(m.lines); j++ {
			if m.sameWords(at+j, old[j]) {
				n++
			}
		}
		if n > score || n == score && abs(at-want) < abs(best-want) {
			best, score = at, n
		}
	}
	best = max(best, 0)
	for j, line := range old {
		if best+j >= len(m.lines) {
			return m.conflict(i, h, "the file ends after line %d, but the hunk expects %q next", len(m.lines), clip(line.Text)).
				WithHint("Read the file again and make the patch from what is there now.").
				WithDetail("expected", clip(line.Text)).WithDetail("line", len(m.lines)+1)
		}
		if !m.exact(best+j, line) && !m.sameText(best+j, line) {
			return m.conflict(i, h, "line %d: expected %q, found %q (Failed to find expected lines)", best+j+1, clip(line.Text), clip(m.lines[best+j].text)).
				WithHint("Read the file again and make the patch from what is there now.").
				WithDetail("expected", clip(line.Text)).WithDetail("found", clip(m.lines[best+j].text)).WithDetail("line", best+j+1)
		}
	}
	if h.EndOfFile || len(old) > 0 && h.Lines[len(h.Lines)-1].Op != ' ' {
		return m.conflict(i, h, "its lines are at line %d, but with no unchanged line behind them they belong to the end of the file", best+1).
			WithHint("Add unchanged lines behind the change, or correct the line numbers.")
	}
	return m.conflict(i, h, "its lines are at line %d, but the hunk belongs to the begin of the file", best+1).
		WithHint("Correct the line numbers of the hunk.")
}

func abs(n int) int {
	if n < 0 {
		return -n
	}
	return n
}
