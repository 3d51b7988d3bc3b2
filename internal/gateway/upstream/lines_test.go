package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestLines: lines around every bound come whole, or what is told of them is true.
func TestLines(t *testing.T) {
	const limit = 3 * partBytes
	fill := func(n int) string { return strings.Repeat("0123456789abcdef", n/16+1)[:n] }
	for _, n := range []int{0, 1, 64<<10 - 1, 64 << 10, 64<<10 + 1, partBytes - 1, partBytes, partBytes + 1, 2*partBytes + 64<<10, limit - 1, limit, limit + 1, limit + 64<<10, 2 * limit} {
		for _, end := range []string{"\n", "\r\n", ""} {
			text := fill(n)
			next := "next\n"
			if end == "" {
				next = ""
				if n > limit {
					continue // half a line is given with the error, whether it would do or not
				}
			}
			l := newLines(io.MultiReader(strings.NewReader(text+end), strings.NewReader(next)), limit)
			line, over, err := l.next()
			switch {
			case n > limit:
				if line != nil || over == nil || over.size != int64(n+len(end)) || string(over.head) != text[:headBytes] {
					t.Fatalf("%d bytes and %q: %d bytes, %+v, %v", n, end, len(line), over, err)
				}
				if want := text + end; string(over.tail) != want[len(want)-tailBytes:] {
					t.Errorf("%d bytes and %q: the tail is %q", n, end, over.tail)
				}
			case over != nil || string(line) != text:
				t.Fatalf("%d bytes and %q: %d bytes, %+v, %v", n, end, len(line), over, err)
			}
			if end == "" {
				if !errors.Is(err, io.EOF) {
					t.Errorf("%d bytes and no end: %v", n, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%d bytes and %q: %v", n, end, err)
			}
			if line, over, err = l.next(); string(line) != "next" || over != nil || err != nil {
				t.Errorf("after %d bytes and %q: %q, %+v, %v", n, end, line, over, err)
			}
		}
	}
}

// TestLinesAreOwn: what was given stays as it was given.
func TestLinesAreOwn(t *testing.T) {
	a, b := bytes.Repeat([]byte("a"), 100), bytes.Repeat([]byte("b"), 100<<10)
	l := newLines(bytes.NewReader(bytes.Join([][]byte{a, b, a, b}, []byte("\n"))), 1<<20)
	var got [][]byte
	for {
		line, _, err := l.next()
		got = append(got, line)
		if err != nil {
			break
		}
	}
	for i, want := range [][]byte{a, b, a, b} {
		if i >= len(got) || !bytes.Equal(got[i], want) {
			t.Errorf("line %d is another", i)
		}
	}
}

// TestEndlessLine: what never ends is not waited for.
func TestEndlessLine(t *testing.T) {
	l := &lines{r: bufio.NewReaderSize(endlessReader{}, 4096), max: 64 << 10}
	if line, over, err := l.next(); line != nil || over != nil || !errors.Is(err, errEndless) {
		t.Errorf("%d bytes, %+v, %v", len(line), over, err)
	}
}

type endlessReader struct{}

func (endlessReader) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}
