package search

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// rgBuffer is the size of ripgrep's buffer. A NUL byte ends a file's search, and
// what was read together with it is not searched; so where the buffers end
// decides which lines before the NUL count.
const rgBuffer = 64 << 10

// Why a file is given up.
var (
	errLongLine = errors.New("a line is longer than 64 MiB")
	errTooLarge = errors.New("the file is larger than 16 MiB, too large for multi-line mode")
)

// searcher searches one file after the other with buffers of its own. It
// belongs to one goroutine.
type searcher struct {
	ctx    context.Context // of the one grep it works for
	g      GrepOptions
	finder *finder
	buf    []byte
	wide   []byte // UTF-16 decoded
	named  bool   // a file that was named is searched although it is binary

	dir    *directory
	name   string
	binary bool // the file at hand is

	out     *File
	max     int // matching lines wanted of one file; 0 is all
	line    int // number of the line at counted
	counted int // offset in the window up to which newlines are counted
	printed int // offset in the window behind the last line told of; -1 none yet
	after   int // lines of context that still follow
}

func newSearcher(ctx context.Context, g GrepOptions) *searcher {
	s := &searcher{ctx: ctx, g: g, finder: newFinder(g.Pattern, func() bool { return ctx.Err() != nil }), buf: g.Buffers.get()}
	if g.MaxLines > 0 && g.Lines {
		s.max = g.MaxLines + 1
	}
	if g.FirstOnly {
		s.max = 1
	}
	return s
}

// search looks through a file; nil if nothing matches.
func (s *searcher) search(r reader, path string) (*File, error) {
	s.out, s.binary = nil, false
	s.line, s.counted, s.printed, s.after = 1, 0, -1, 0
	n, eof, err := s.fill(r, 0)
	if err != nil || n == 0 {
		return nil, err
	}
	for !eof && (len(s.buf) < windowBuffer || s.wantsWhole(s.buf[:n])) {
		if len(s.buf) >= maxLine {
			return nil, errLongLine
		}
		if s.finder.p.spans != nil && len(s.buf) >= maxMultiline {
			return nil, errTooLarge
		}
		s.grow(2 * len(s.buf))
		if n, eof, err = s.fill(r, n); err != nil {
			return nil, err
		}
	}
	if eof {
		s.whole(s.buf[:n])
		s.describe(r, s.buf[:n], nil)
	} else if err = s.stream(r, n); err != nil && s.out == nil {
		return nil, err
	}
	if err == nil && s.ctx.Err() != nil {
		err = context.Cause(s.ctx) // perhaps not all of it was searched
	}
	if s.out != nil {
		s.out.Path = path
		s.out.More = s.max > 0 && s.out.Count >= s.max
	}
	return s.out, err
}

// wantsWhole reports whether a file that begins with head cannot be searched in
// parts.
func (s *searcher) wantsWhole(head []byte) bool {
	return s.g.Pattern.spans != nil || bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff"))
}

func (s *searcher) grow(size int) {
	bigger := make([]byte, size)
	copy(bigger, s.buf)
	s.buf = bigger
}

// fill reads behind have until the buffer is full or the file ends.
func (s *searcher) fill(r reader, have int) (n int, eof bool, err error) {
	for have < len(s.buf) {
		n, err := r.read(s.buf[have:])
		have += n
		if err == io.EOF {
			return have, true, nil
		}
		if err != nil {
			return have, false, err
		}
	}
	return have, false, nil
}

// describe adds what a caller needs to know of the whole file.
func (s *searcher) describe(r reader, data []byte, hash Hash) {
	if s.out == nil || !s.g.Lines || s.g.NewHash == nil {
		return
	}
	m, err := r.stat()
	if err != nil {
		return
	}
	if hash == nil {
		hash = s.g.NewHash()
		hash.Write(data)
	}
	s.out.Size, s.out.ModTime, s.out.Hash = m.size, m.mtime, hash.Sum()
}

// whole searches a file that is in memory.
func (s *searcher) whole(data []byte) {
	switch {
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		data = data[3:]
	case bytes.HasPrefix(data, []byte("\xff\xfe")):
		data = s.decode(data[2:], binary.LittleEndian)
	case bytes.HasPrefix(data, []byte("\xfe\xff")):
		data = s.decode(data[2:], binary.BigEndian)
	}
	if s.finder.p.spans != nil {
		s.multiline(data)
		return
	}
	// Most files hold no match: whether they are binary is asked only if one does.
	start, _, ok := s.find(data, 0)
	if !ok {
		return
	}
	if nul := bytes.IndexByte(data, 0); nul >= 0 {
		s.binary = true
		if s.named {
			s.tell().Count, s.out.Binary = 1, int64(nul)
			return
		}
		s.lines(data[:binaryLimit(data, nul)], start)
		if s.out != nil {
			s.out.Binary = int64(nul)
		}
		return
	}
	s.lines(data, start)
}

// find is the finder's next in a buffer that may be a new one.
func (s *searcher) find(data []byte, pos int) (start, end int, ok bool) {
	if s.finder.needles != nil {
		s.finder.needles.reset()
	}
	return s.finder.next(data, pos)
}

// binaryLimit is how much of data is searched if it holds a NUL at nul: whole
// lines of the buffers before the one with the NUL.
func binaryLimit(data []byte, nul int) int {
	pos, end := 0, 0
	for {
		end += rgBuffer - (end-pos)%rgBuffer
		if nul < end {
			return pos
		}
		if i := bytes.LastIndexByte(data[pos:end], '\n'); i >= 0 {
			pos += i + 1
		}
	}
}

// stream searches a file that is larger than a window.
func (s *searcher) stream(r reader, n int) error {
	var hash Hash
	if s.g.NewHash != nil && s.g.Lines {
		hash = s.g.NewHash()
		hash.Write(s.buf[:n])
	}
	from, eof := 0, false // from: where the window's unsearched part begins
	if bytes.HasPrefix(s.buf, []byte("\xef\xbb\xbf")) {
		from, s.counted = 3, 3
	}
	offset := int64(0) // of the window in the file
	for {
		if s.ctx.Err() != nil {
			return context.Cause(s.ctx)
		}
		end := n
		if !eof {
			end = bytes.LastIndexByte(s.buf[:n], '\n') + 1
		}
		if end > from {
			if nul := bytes.IndexByte(s.buf[from:end], 0); nul >= 0 {
				return s.binaryWindow(from, end, from+nul, offset)
			}
			s.lines(s.buf[:end], from)
			from = end
		}
		if eof {
			s.describe(r, nil, hash)
			return nil
		}
		if s.out != nil && s.max > 0 && s.out.Count >= s.max && s.after == 0 {
			return nil
		}
		keep := s.keepFrom(from)
		offset += int64(keep)
		copy(s.buf, s.buf[keep:n])
		n, from = n-keep, from-keep
		if n == len(s.buf) {
			if n >= maxLine {
				return errLongLine
			}
			s.grow(2 * n)
		}
		have := n
		var err error
		if n, eof, err = s.fill(r, have); err != nil {
			return err
		}
		if hash != nil {
			hash.Write(s.buf[have:n])
		}
	}
}

// binaryWindow ends a stream at a NUL byte.
func (s *searcher) binaryWindow(from, end, nul int, offset int64) error {
	s.binary = true
	if s.named {
		if _, _, ok := s.find(s.buf[:end], from); ok || s.out != nil {
			count := s.tell()
			count.Count, count.Binary, count.Lines = max(count.Count, 1), offset+int64(nul), nil
		}
		return nil
	}
	s.lines(s.buf[:from+binaryLimit(s.buf[from:end], nul-from)], from)
	if s.out != nil {
		s.out.Binary = offset + int64(nul)
	}
	return nil
}

// keepFrom is where the part of the window begins that is still needed as
// context before pos, and moves the marks there.
func (s *searcher) keepFrom(pos int) int {
	keep := pos
	for range s.g.Before {
		if keep == 0 {
			break
		}
		keep = lineStart(s.buf, keep-1, 0)
	}
	s.line += bytes.Count(s.buf[s.counted:keep], []byte{'\n'})
	s.counted = 0
	if s.printed >= 0 {
		s.printed = max(s.printed-keep, 0)
	}
	return keep
}

// tell is the file's result, made when there is something to tell.
func (s *searcher) tell() *File {
	if s.out == nil {
		s.out = &File{Binary: -1}
	}
	return s.out
}

// lines finds the matching lines of data, which are whole lines, from pos on.
func (s *searcher) lines(data []byte, pos int) {
	if s.finder.needles != nil {
		s.finder.needles.reset()
	}
	for pos < len(data) && (s.max == 0 || s.out == nil || s.out.Count < s.max) {
		start, end, ok := s.finder.next(data, pos)
		if !ok {
			break
		}
		s.tell().Count++
		if s.g.Lines {
			s.context(data, start)
			s.add(data, start, end, true)
			s.after = s.g.After
		}
		pos = end + 1
	}
	if s.after > 0 {
		s.context(data, len(data))
	}
}

// context tells of the lines between the last one told of and start: those
// after the one and those before the other.
func (s *searcher) context(data []byte, start int) {
	pos := max(s.printed, 0)
	for ; s.after > 0 && pos < start && s.printed >= 0; s.after-- {
		end := lineEnd(data, pos)
		s.add(data, pos, end, false)
		pos = end + 1
	}
	if start == len(data) {
		return
	}
	first := start
	for range s.g.Before {
		if first <= pos {
			break
		}
		first = max(lineStart(data, first-1, 0), pos)
	}
	for first < start {
		end := lineEnd(data, first)
		s.add(data, first, end, false)
		first = end + 1
	}
}

// add tells of one line.
func (s *searcher) add(data []byte, start, end int, match bool) {
	if s.counted < start {
		s.line += bytes.Count(data[s.counted:start], []byte{'\n'})
		s.counted = start
	}
	text := bytes.TrimSuffix(data[start:end], []byte{'\r'})
	l := Line{Number: s.line, Match: match, Size: len(text)}
	l.Text = string(text[:min(len(text), keepLine)])
	s.out.Lines = append(s.out.Lines, l)
	s.printed = min(end+1, len(data))
}

// multiline finds the lines that matches cover.
func (s *searcher) multiline(data []byte) {
	if s.finder.needles != nil {
		s.finder.needles.reset()
		if s.finder.needles.index(data, 0) < 0 {
			return
		}
	}
	nul := bytes.IndexByte(data[:min(len(data), rgBuffer)], 0)
	if nul >= 0 && !s.named {
		s.binary = true
		return
	}
	const maxSpans = 1 << 20
	next := 0 // where the first line begins that no match has covered
	for _, span := range s.finder.p.spans.FindAllIndex(data, maxSpans) {
		if s.max > 0 && s.out != nil && s.out.Count >= s.max {
			break
		}
		if nul >= 0 {
			s.binary = true
			s.tell().Count, s.out.Binary = 1, int64(nul)
			return
		}
		if span[0] == len(data) && len(data) > 0 && data[len(data)-1] == '\n' {
			break // an empty match behind the last line
		}
		last := max(span[1]-1, span[0])
		for pos := max(next, lineStart(data, span[0], 0)); pos <= last && pos < len(data); pos = next {
			end := lineEnd(data, pos)
			s.tell().Count++
			if s.g.Lines {
				s.context(data, pos)
				s.add(data, pos, end, true)
				s.after = s.g.After
			}
			next = end + 1
		}
	}
	if s.after > 0 {
		s.context(data, len(data))
	}
}

// decode turns UTF-16 into UTF-8; what is not valid becomes U+FFFD.
func (s *searcher) decode(data []byte, order binary.ByteOrder) []byte {
	out := s.wide[:0]
	for len(data) >= 2 {
		r := rune(order.Uint16(data))
		data = data[2:]
		if utf16.IsSurrogate(r) {
			second := rune(0)
			if len(data) >= 2 {
				second = rune(order.Uint16(data))
			}
			if r = utf16.DecodeRune(r, second); r != utf8.RuneError {
				data = data[2:]
			}
		}
		out = utf8.AppendRune(out, r)
	}
	if len(data) > 0 {
		out = utf8.AppendRune(out, utf8.RuneError)
	}
	s.wide = out
	return out
}
