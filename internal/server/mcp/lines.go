package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
)

// Bounds of one stdio connection.
const (
	// maxFrame is the longest message taken: arguments of 16 MiB and what is
	// around them.
	maxFrame = 20 << 20
	// headKept is how much of a longer one is looked at to find its id.
	headKept = 4 << 10
	// maxUnflushed is how many bytes of answers wait for one write.
	maxUnflushed = 256 << 10
)

// errFrameTooLong says that a line was longer than the limit; it has been
// skipped and the next one can be read.
var errFrameTooLong = errors.New("the message is too long")

// lineReader splits a stream into lines. A line that is too long is skipped
// without being held.
type lineReader struct {
	r     *bufio.Reader
	limit int
}

func newLineReader(r io.Reader, limit int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 64<<10), limit: limit}
}

// next gives the next line that is not blank, without its end, in memory of its
// own. With errFrameTooLong it gives the line's first bytes. At the end of the
// stream a last line without a newline is given too.
func (l *lineReader) next() ([]byte, error) {
	for {
		line, err := l.one()
		if err != nil && len(line) == 0 {
			return nil, err
		}
		if err == nil || errors.Is(err, io.EOF) {
			if line = bytes.TrimSpace(line); len(line) > 0 {
				return line, nil
			}
			if err != nil {
				return nil, err
			}
			continue
		}
		return line, err
	}
}

// more reports whether something of what follows has been read already.
func (l *lineReader) more() bool { return l.r.Buffered() > 0 }

func (l *lineReader) one() ([]byte, error) {
	var parts [][]byte // kept apart, so that a long line is copied only once
	total := 0
	for {
		part, err := l.r.ReadSlice('\n')
		if total += len(part); total > l.limit {
			if len(parts) > 0 {
				part = parts[0]
			}
			return bytes.Clone(part[:min(len(part), headKept)]), l.skip(err)
		}
		part = bytes.Clone(part)
		if !errors.Is(err, bufio.ErrBufferFull) {
			if len(parts) == 0 {
				return part, err
			}
			return slices.Concat(append(parts, part)...), err
		}
		parts = append(parts, part)
	}
}

// skip reads to the end of the line that err belongs to.
func (l *lineReader) skip(err error) error {
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = l.r.ReadSlice('\n')
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return errFrameTooLong
}

// lineWriter writes whole lines. Lines that are ready at the same time go out
// in one write. It is safe for concurrent use.
type lineWriter struct {
	w       io.Writer
	waiting atomic.Int64

	mu  sync.Mutex
	buf []byte
	err error // the first failure; nothing is written after it
}

func (l *lineWriter) write(line []byte) error {
	l.waiting.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	others := l.waiting.Add(-1)
	if l.err != nil {
		return l.err
	}
	l.buf = append(append(l.buf, line...), '\n')
	if others > 0 && len(l.buf) < maxUnflushed {
		return nil // whoever waits for the lock writes this line too
	}
	_, l.err = l.w.Write(l.buf)
	if l.buf = l.buf[:0]; cap(l.buf) > 2*maxUnflushed {
		l.buf = nil
	}
	return l.err
}

// failure is why writing ended; nil if it has not.
func (l *lineWriter) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// tally counts what is open.
type tally struct {
	mu    sync.Mutex
	n     int
	empty chan struct{}
}

func (t *tally) add(d int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n += d
	if t.n == 0 && t.empty != nil {
		close(t.empty)
		t.empty = nil
	}
}

// count is how many are open.
func (t *tally) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n
}

// zero gives a channel that is closed once nothing is open. Nothing should be
// added afterwards.
func (t *tally) zero() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n == 0 {
		empty := make(chan struct{})
		close(empty)
		return empty
	}
	if t.empty == nil {
		t.empty = make(chan struct{})
	}
	return t.empty
}

// maxPooled is the largest buffer that is kept for the next answer.
const maxPooled = 256 << 10

// bufferPool keeps buffers for answers. It is safe for concurrent use.
type bufferPool struct{ pool sync.Pool }

func (p *bufferPool) get() *[]byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		return b
	}
	return new([]byte)
}

func (p *bufferPool) put(b *[]byte) {
	if cap(*b) <= maxPooled {
		p.pool.Put(b)
	}
}
