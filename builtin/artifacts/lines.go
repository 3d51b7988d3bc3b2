package artifacts

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

const (
	maxLine   = 2000    // characters of a line that are shown
	maxPiece  = 1 << 20 // bytes of a line that are looked at together
	checkTime = 1 << 12 // lines between two looks at the context
)

// lines reads a text line by line in bounded memory. A line over maxPiece bytes
// comes in pieces.
type lines struct {
	r    *bufio.Reader
	n    int64 // of the line that was read last, 0-based
	part bool  // the last piece did not end its line
	text []byte
}

func newLines(r io.Reader) *lines {
	return &lines{r: bufio.NewReaderSize(r, 256<<10), n: -1}
}

// next reads one line or piece, without its end. It returns io.EOF after the
// last one. The text is valid until the next call.
func (l *lines) next(ctx context.Context) error {
	if !l.part {
		l.n++
		if l.n%checkTime == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	l.text = l.text[:0]
	for {
		chunk, err := l.r.ReadSlice('\n')
		l.text = append(l.text, chunk...)
		switch {
		case err == nil:
			l.part = false
			l.text = bytes.TrimSuffix(l.text[:len(l.text)-1], []byte{'\r'})
			return nil
		case errors.Is(err, bufio.ErrBufferFull):
			if len(l.text) >= maxPiece {
				l.part = true
				return ctx.Err()
			}
		case errors.Is(err, io.EOF) && len(l.text) > 0:
			l.part = false
			return nil
		default:
			return err
		}
	}
}

// skip passes n lines and reports how many there were.
func (l *lines) skip(ctx context.Context, n int64) (int64, error) {
	for l.n+1 < n || l.part {
		// Only the line ends count: no need to put lines together.
		chunk, err := l.r.ReadSlice('\n')
		switch {
		case err == nil:
			l.n++
			l.part = false
			if l.n%checkTime == 0 && ctx.Err() != nil {
				return l.n + 1, context.Cause(ctx)
			}
		case errors.Is(err, bufio.ErrBufferFull):
			l.part = true
			if ctx.Err() != nil {
				return l.n + 1, context.Cause(ctx)
			}
		case errors.Is(err, io.EOF):
			if len(chunk) > 0 || l.part {
				l.n++
				l.part = false
			}
			return l.n + 1, io.EOF
		default:
			return l.n + 1, err
		}
	}
	return l.n + 1, nil
}

// shown is a line as it is printed: valid UTF-8, at most maxLine characters
// around the byte at.
func shown(line []byte, at int) string {
	if len(line) <= maxLine || utf8.RuneCount(line) <= maxLine {
		return strings.ToValidUTF8(string(line), "\uFFFD")
	}
	from := boundary(line, max(0, at-maxLine/2))
	to := from
	for n := 0; n < maxLine && to < len(line); n++ {
		_, size := utf8.DecodeRune(line[to:])
		to += size
	}
	var b strings.Builder
	if from > 0 {
		fmt.Fprintf(&b, "[… %d bytes cut] ", from)
	}
	b.WriteString(strings.ToValidUTF8(string(line[from:to]), "\uFFFD"))
	if to < len(line) {
		fmt.Fprintf(&b, " [… %d bytes cut]", len(line)-to)
	}
	return b.String()
}

// boundary is the beginning of the character that at lies in.
func boundary(line []byte, at int) int {
	for i := 0; i < utf8.UTFMax && at > 0 && !utf8.RuneStart(line[at]); i++ {
		at--
	}
	return at
}
