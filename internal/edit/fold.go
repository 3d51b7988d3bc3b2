package edit

import (
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/toolyard/toolyard/internal/text"
)

// fold says which differences of two texts are overlooked.
type fold uint8

const (
	foldEndings     fold = 1 << iota // CRLF is LF
	foldBlanks                       // blanks at the end of a line are not there
	foldPunctuation                  // typographic quotes, dashes and spaces are the plain ones
)

// segment is a run of folded text and the text it came from. Runs of the same
// length are the same bytes; others are one folded byte for one character (or
// line ending) of the original. Text that was dropped lies between segments.
type segment struct{ f, o, flen, olen int }

// folded is a text with differences taken out that still knows where each byte
// came from.
type folded struct {
	text string
	segs []segment
	// cut says that blanks at the very end, not followed by a line ending, were
	// dropped.
	cut bool
}

// foldText folds t.
func foldText(t string, how fold) *folded {
	f := &folded{}
	var out strings.Builder
	out.Grow(len(t))
	add := func(o, olen int, s string) {
		if olen == len(s) && len(f.segs) > 0 {
			last := &f.segs[len(f.segs)-1]
			if last.flen == last.olen && last.o+last.olen == o {
				last.flen += olen
				last.olen += olen
				out.WriteString(s)
				return
			}
		}
		f.segs = append(f.segs, segment{out.Len(), o, len(s), olen})
		out.WriteString(s)
	}
	for at := 0; at < len(t); {
		end, next := len(t), len(t)
		if i := strings.IndexByte(t[at:], '\n'); i >= 0 {
			end, next = at+i, at+i+1
			if i > 0 && t[end-1] == '\r' && how&foldEndings != 0 {
				end--
			}
		}
		content := t[at:end]
		if how&foldBlanks != 0 {
			content = trimBlanks(content, how)
			f.cut = next == len(t) && end == next && len(content) < end-at
		}
		foldLine(content, at, how, add)
		if next > end {
			add(end, next-end, "\n")
		}
		at = next
	}
	f.text = out.String()
	return f
}

func trimBlanks(s string, how fold) string {
	return strings.TrimRightFunc(s, func(r rune) bool {
		return r == ' ' || r == '\t' || how&foldPunctuation != 0 && text.Plain(r) == ' '
	})
}

// foldLine adds the content of one line.
func foldLine(content string, at int, how fold, add func(o, olen int, s string)) {
	if how&foldPunctuation == 0 {
		if content != "" {
			add(at, len(content), content)
		}
		return
	}
	from := 0
	for i := 0; i < len(content); {
		if content[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(content[i:])
		if p := text.Plain(r); p != 0 {
			if from < i {
				add(at+from, i-from, content[from:i])
			}
			add(at+i, size, string(p))
			from = i + size
		}
		i += size
	}
	if from < len(content) {
		add(at+from, len(content)-from, content[from:])
	}
}

// start is where the character at folded offset f begins in the original; -1 if
// f lies inside one.
func (f *folded) start(at int) int {
	i := sort.Search(len(f.segs), func(i int) bool { return f.segs[i].f > at }) - 1
	if i < 0 {
		return 0
	}
	s := f.segs[i]
	switch {
	case at >= s.f+s.flen:
		return s.o + s.olen
	case s.flen == s.olen:
		return s.o + at - s.f
	case at == s.f:
		return s.o
	}
	return -1
}

// end is where the character before folded offset f ends in the original; -1 if
// f lies inside one.
func (f *folded) end(at int) int {
	i := sort.Search(len(f.segs), func(i int) bool { return f.segs[i].f >= at }) - 1
	if i < 0 {
		return 0
	}
	s := f.segs[i]
	switch {
	case at >= s.f+s.flen:
		return s.o + s.olen
	case s.flen == s.olen:
		return s.o + at - s.f
	}
	return -1
}

// from is the folded offset of an offset in the original; for text that was
// dropped, that of what follows.
func (f *folded) from(o int) int {
	i := sort.Search(len(f.segs), func(i int) bool { return f.segs[i].o+f.segs[i].olen > o })
	if i == len(f.segs) {
		return len(f.text)
	}
	s := f.segs[i]
	if o <= s.o || s.flen != s.olen {
		return s.f
	}
	return s.f + o - s.o
}
