package files

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// windowBuffer is how much of a file is in memory at most while its lines are
// counted.
const windowBuffer = 256 << 10

// keepBytes is how much of one line is kept: more than 2,000 characters need.
const keepBytes = maxLineChars*utf8.UTFMax + 1

// window takes a run of lines from a stream, and counts the others. Its memory
// is bound by its output, not by the stream.
type window struct {
	skip, want int
	raw        bool
	limit      int // bytes of text

	text    strings.Builder
	total   int // lines of the stream
	lines   int // lines in text
	full    bool
	valid   bool // the stream is known to be UTF-8
	invalid bool // not UTF-8 somewhere in the window
	cut     bool // a line was cut at 2,000 characters
	broken  bool // the first line did not fit and was cut to the limit

	line  []byte // the line at hand, as far as it is kept
	chars int    // all of its characters
	open  bool   // a line has begun
}

// from reads r to its end. size is about how many bytes that are.
func (w *window) from(r io.Reader, size int64) error {
	const least = 4 << 10
	buf := make([]byte, min(max(size, least), windowBuffer))
	for {
		n, err := r.Read(buf)
		w.take(buf[:n])
		if err == io.EOF {
			w.end()
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// all takes b, which is the whole stream.
func (w *window) all(b []byte) {
	const line = 8 // what is put before one
	w.text.Grow(min(len(b)+line*min(bytes.Count(b, []byte{'\n'})+1, w.want), w.limit) + noteRoom)
	w.valid = utf8.Valid(b) // at once it is cheaper than line by line
	w.take(b)
	w.end()
}

// inside reports whether the line at hand is wanted.
func (w *window) inside() bool {
	return w.total >= w.skip && w.lines < w.want && !w.full
}

func (w *window) take(b []byte) {
	for len(b) > 0 {
		if !w.inside() {
			b = w.pass(b)
			continue
		}
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			w.keep(b)
			return
		}
		if line := b[:end+1]; !w.plain(line) {
			w.keep(line)
			w.finish()
		}
		b = b[end+1:]
	}
}

// plain puts a whole line into the text if it is shown as it is and fits, as
// nearly all are. What it says no to is for keep and finish.
func (w *window) plain(line []byte) bool {
	if w.open || len(line) > maxLineChars || !w.valid && !utf8.Valid(line) {
		return false
	}
	if w.raw {
		if w.text.Len()+len(line) > w.limit {
			return false
		}
		w.total++
		w.lines++
		w.text.Write(line)
		return true
	}
	if n := len(line); n > 1 && line[n-2] == '\r' {
		return false
	}
	const pad = "      " // as %6d has
	var buf [len(pad) + 20]byte
	number := strconv.AppendInt(append(buf[:0], pad...), int64(w.total)+1, 10)
	number = append(number[min(len(number)-len(pad), len(pad)):], '\t')
	if w.text.Len()+len(number)+len(line) > w.limit {
		return false
	}
	w.total++
	w.lines++
	w.text.Write(number)
	w.text.Write(line)
	return true
}

// pass counts lines that are not wanted, up to the first that is.
func (w *window) pass(b []byte) []byte {
	left := w.skip - w.total
	if newlines := bytes.Count(b, []byte{'\n'}); w.full || w.lines >= w.want || newlines < left {
		w.total += newlines
		w.open = b[len(b)-1] != '\n'
		return nil
	}
	for ; left > 0; left-- {
		b = b[bytes.IndexByte(b, '\n')+1:]
		w.total++
	}
	w.open = false
	return b
}

// keep adds a part of the line at hand.
func (w *window) keep(b []byte) {
	w.open = true
	room := keepBytes
	if w.raw {
		room = w.limit + 1
	}
	w.line = append(w.line, b[:min(len(b), max(room-len(w.line), 0))]...)
	for _, c := range b {
		if utf8.RuneStart(c) {
			w.chars++
		}
	}
}

// finish puts the line at hand into the text.
func (w *window) finish() {
	defer func() { w.line, w.chars, w.open = w.line[:0], 0, false }()
	w.total++
	line := w.line
	if !w.raw {
		// Its end has been counted only if it was kept.
		if trimmed := bytes.TrimSuffix(bytes.TrimSuffix(line, []byte{'\n'}), []byte{'\r'}); len(trimmed) < len(line) {
			w.chars -= len(line) - len(trimmed)
			line = trimmed
		}
	}
	shown := string(line)
	if !utf8.ValidString(shown) {
		shown = strings.ToValidUTF8(trimPartial(shown, len(line) < keepBytes || w.raw), "\uFFFD")
		w.invalid = w.invalid || strings.ContainsRune(shown, utf8.RuneError)
	}
	if !w.raw {
		shown = fmt.Sprintf("%6d\t%s\n", w.total, w.cutTo(shown))
	}
	if w.text.Len()+len(shown) > w.limit {
		w.full = true
		if w.lines > 0 {
			return
		}
		// Not even one line fits: rather a part of it than nothing.
		shown = strings.ToValidUTF8(shown[:max(w.limit, 0)], "")
		w.broken = true
	}
	w.text.WriteString(shown)
	w.lines++
}

// trimPartial drops a character that keeping only a part has cut in two.
func trimPartial(s string, whole bool) string {
	if whole {
		return s
	}
	for i := 1; i <= utf8.UTFMax && i <= len(s); i++ {
		if c := s[len(s)-i]; utf8.RuneStart(c) {
			if !utf8.FullRuneInString(s[len(s)-i:]) {
				return s[:len(s)-i]
			}
			break
		}
	}
	return s
}

// cutTo cuts a line after 2,000 characters.
func (w *window) cutTo(line string) string {
	if w.chars <= maxLineChars {
		return line
	}
	n := 0
	for i := range line {
		if n == maxLineChars {
			line = line[:i]
			break
		}
		n++
	}
	w.cut = true
	return fmt.Sprintf("%s… [line cut, %s more characters]", line, thousands(int64(w.chars-maxLineChars)))
}

// end closes the stream: a last line may lack its newline.
func (w *window) end() {
	switch {
	case !w.open:
	case w.inside():
		w.finish()
	default:
		w.total++
	}
}

// notes says what part was shown and how to go on.
func (w *window) notes(out readOut) string {
	var b strings.Builder
	fmt.Fprintf(&b, "(lines %s-%s of %s", thousands(int64(out.Offset+1)), thousands(int64(out.Offset+w.lines)), thousands(int64(w.total)))
	if out.Encoding != "" && out.Encoding != "utf-8" {
		b.WriteString(", " + out.Encoding)
	}
	if w.full && out.NextOffset > 0 {
		b.WriteString("; the output limit is reached")
	}
	if out.NextOffset > 0 {
		fmt.Fprintf(&b, "; go on with offset=%d", out.NextOffset)
	}
	b.WriteString(")")
	if w.cut {
		fmt.Fprintf(&b, "\n(Lines over %s characters are cut; raw: true shows them whole.)", thousands(maxLineChars))
	}
	if w.broken {
		b.WriteString("\n(The line is longer than the output may be, so only its beginning is shown.)")
	}
	if w.invalid {
		b.WriteString("\n(Bytes that are not valid " + strings.ToUpper(encodingName(out.Encoding)) + " are shown as \uFFFD.)")
	}
	return b.String()
}

func encodingName(encoding string) string {
	if encoding == "" {
		return "utf-8"
	}
	name, _, _ := strings.Cut(encoding, " ")
	return name
}
