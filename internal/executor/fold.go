package executor

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxLine is how many characters of one line are shown of folded text.
const maxLine = 2000

// headPart of the limit shows the beginning, the rest the end.
const headPart = 0.2

// folded are the beginning and the end of a text.
type folded struct {
	head, tail []byte
	bytes      int64 // of the whole
	lines      int64 // line ends of the whole
	handle     string
	invalid    bool // it is not all UTF-8
	cutOff     bool // it went over what may be kept
}

// invalidNote says that what is shown is not what came.
const invalidNote = "[The output holds bytes that are not UTF-8; they are shown as \uFFFD.]"

var replacement = []byte("\uFFFD")

// splitLimit shares a limit between head and tail.
func splitLimit(limit int) (head, tail int) {
	head = int(float64(limit) * headPart)
	return head, limit - head
}

// text joins head and tail with a line that says what is between.
func (f *folded) text() string {
	head := shortLines(cutHead(bytes.ToValidUTF8(f.head, replacement), len(f.head)))
	tail := shortLines(cutTail(bytes.ToValidUTF8(f.tail, replacement), len(f.tail)))
	missing := f.bytes - int64(len(f.head)) - int64(len(f.tail))
	lines := f.lines - int64(bytes.Count(f.head, newline)) - int64(bytes.Count(f.tail, newline))
	var b strings.Builder
	b.Grow(len(head) + len(tail) + 200)
	b.Write(head)
	if len(head) > 0 && head[len(head)-1] != '\n' {
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "[… %d bytes, %d lines not shown", max(missing, 0), max(lines, 0))
	switch {
	case f.handle != "" && f.cutOff:
		fmt.Fprintf(&b, "; the first part is kept: output_read or output_grep with handle %s", f.handle)
	case f.handle != "":
		fmt.Fprintf(&b, "; all of it: output_read or output_grep with handle %s", f.handle)
	default:
		b.WriteString("; they were not kept")
	}
	b.WriteString(" …]\n")
	b.Write(tail)
	if f.invalid {
		return note(b.String(), invalidNote)
	}
	return b.String()
}

var newline = []byte{'\n'}

// cutHead is the beginning of text, at most limit bytes, ending at a whole line
// if there is one in its second half, else at a whole character.
func cutHead(text []byte, limit int) []byte {
	if len(text) <= limit {
		return text
	}
	text = text[:limit]
	if at := bytes.LastIndexByte(text, '\n'); at >= limit/2 {
		return text[:at+1]
	}
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if b := text[len(text)-i]; utf8.RuneStart(b) {
			if !utf8.FullRune(text[len(text)-i:]) {
				text = text[:len(text)-i]
			}
			break
		}
	}
	return text
}

// cutTail is the end of text in the same way.
func cutTail(text []byte, limit int) []byte {
	if len(text) <= limit {
		return text
	}
	whole := text
	text = text[len(text)-limit:]
	if whole[len(whole)-limit-1] == '\n' {
		return text
	}
	if at := bytes.IndexByte(text, '\n'); at >= 0 && at < limit/2 {
		return text[at+1:]
	}
	for i := 0; i < utf8.UTFMax && i < len(text); i++ {
		if utf8.RuneStart(text[i]) {
			return text[i:]
		}
	}
	return text
}

// shortLines cuts lines over maxLine characters, with a mark.
func shortLines(text []byte) []byte {
	if len(text) <= maxLine || !hasLongLine(text) {
		return text
	}
	var out []byte
	for line := range bytes.Lines(text) {
		if len(line) <= maxLine || utf8.RuneCount(line) <= maxLine+1 {
			out = append(out, line...)
			continue
		}
		end := 0
		for range maxLine {
			_, size := utf8.DecodeRune(line[end:])
			end += size
		}
		body := bytes.TrimRight(line, "\r\n")
		if end >= len(body) {
			out = append(out, line...)
			continue
		}
		out = append(out, line[:end]...)
		out = fmt.Appendf(out, " [… %d characters of this line cut]", utf8.RuneCount(body[end:]))
		out = append(out, line[len(body):]...)
	}
	return out
}

func hasLongLine(text []byte) bool {
	for len(text) > maxLine {
		at := bytes.IndexByte(text, '\n')
		if at < 0 || at > maxLine {
			return true
		}
		text = text[at+1:]
	}
	return false
}

// cut is at most limit bytes of s, whole characters, with a mark.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
