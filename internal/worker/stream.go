package worker

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"sync"
	"syscall"
)

// Sizes of what a tool prints, in bytes.
const (
	maxLine    = 8 << 10 // a longer line is cut into several
	readSize   = 16 << 10
	maxReads   = 16 // at once: a tool that prints without end must not hold up its result
	keptTail   = 4 << 10
	maxLogText = 64 << 10
)

var errNothing = errors.New("nothing to read")

// stream turns one of a worker's outputs into lines.
type stream struct {
	name string
	file *os.File
	raw  syscall.RawConn
	line func(stream, text string)

	mu    sync.Mutex
	buf   []byte
	part  []byte // of a line
	tail  []byte // what was printed last
	ended bool
}

func newStream(name string, file *os.File, line func(stream, text string)) (*stream, error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &stream{name: name, file: file, raw: raw, line: line}, nil
}

// run reads to the end.
func (s *stream) run() {
	for more := true; more; {
		err := s.raw.Read(func(fd uintptr) bool {
			waiting := false
			waiting, more = s.take(fd)
			return !waiting
		})
		if err != nil {
			return
		}
	}
}

// drain delivers what was printed until now.
func (s *stream) drain() {
	_ = s.raw.Control(func(fd uintptr) { s.take(fd) })
}

// take reads what is there, within bounds. It reports whether it has all that
// there is now, and whether there can be more later.
func (s *stream) take(fd uintptr) (waiting, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false, false
	}
	if s.buf == nil {
		s.buf = make([]byte, readSize)
	}
	for range maxReads {
		n, err := readNow(fd, s.buf)
		switch {
		case errors.Is(err, errNothing):
			return true, true
		case err != nil || n == 0:
			s.ended = true
			s.flush()
			return false, false
		}
		s.feed(s.buf[:n])
	}
	return false, true
}

func (s *stream) feed(text []byte) {
	s.tail = append(s.tail, text[max(0, len(text)-keptTail):]...)
	s.tail = s.tail[max(0, len(s.tail)-keptTail):]
	for {
		line, rest, found := bytes.Cut(text, []byte{'\n'})
		s.part = append(s.part, line...)
		for len(s.part) > maxLine {
			s.line(s.name, valid(s.part[:maxLine]))
			s.part = append(s.part[:0], s.part[maxLine:]...)
		}
		if !found {
			return
		}
		s.line(s.name, valid(bytes.TrimSuffix(s.part, []byte{'\r'})))
		s.part, text = s.part[:0], rest
	}
}

// flush delivers a last line without an end.
func (s *stream) flush() {
	if len(s.part) > 0 {
		s.line(s.name, valid(s.part))
		s.part = nil
	}
}

// finish delivers the rest of a call's output: a line that it did not end is one.
func (s *stream) finish() {
	s.drain()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flush()
}

func (s *stream) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return valid(s.tail)
}

func valid(text []byte) string { return strings.ToValidUTF8(string(text), "\uFFFD") }
