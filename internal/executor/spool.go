package executor

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/toolyard/toolyard/internal/artifact"
	"github.com/toolyard/toolyard/internal/secret"
	"github.com/toolyard/toolyard/tool"
)

// Bounds of the streaming of output.
const (
	flushEvery = 250 * time.Millisecond // between two events of one call
	maxPending = 16 << 10               // bytes of text in one event
	maxStreams = 8                      // names of streams of one call
)

// spool takes the output of a call: it streams it, keeps the beginning and the
// end in memory and, once the output is longer than the result may be, the
// whole in an artifact. It needs the same memory for any length.
type spool struct {
	c      *call
	limit  int   // bytes that the result may show
	stored int64 // bytes that may be kept
	dir    *artifact.Dir
	emit   func(stream, text string, dropped int)
	log    func(msg string, err error)

	mu      sync.Mutex
	streams map[string]*stream
	order   []*stream
	secrets *secret.Redactor
	head    []byte // the beginning; all of it until whole is opened
	tail    []byte // the end, at most twice its share
	bytes   int64
	lines   int64
	whole   *artifact.Writer
	handle  string
	full    bool // ErrOutputLimit was returned
	noKeep  bool // there is nowhere to keep the whole
	invalid bool
	closed  bool
	summary tool.OutputSummary
	last    time.Time
	timer   *time.Timer
}

// stream is one of the streams of a spool.
type stream struct {
	s       *spool
	name    string
	bytes   int64
	redact  *secret.Stream
	partial []byte // the beginning of a character
	pending []byte // text for the next event
	dropped int
}

var _ tool.OutputWriter = (*spool)(nil)

// Stream gives the writer of "stdout" or "stderr".
func (s *spool) Stream(name string) io.Writer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w, ok := s.streams[name]; ok {
		return w
	}
	if len(s.order) == maxStreams {
		return s.order[0]
	}
	w := &stream{s: s, name: name, redact: s.secrets.Stream()}
	s.streams[name] = w
	s.order = append(s.order, w)
	return w
}

// Write redacts and takes p. It returns tool.ErrOutputLimit once what may be
// kept is full; p counts then, but is not kept.
func (w *stream) Write(p []byte) (int, error) {
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, io.ErrClosedPipe
	}
	w.bytes += int64(len(p))
	w.take(w.redact.Next(p), false)
	if s.full {
		return len(p), tool.ErrOutputLimit
	}
	return len(p), nil
}

// take adds redacted output to the spool; mu is held.
func (w *stream) take(p []byte, end bool) {
	if len(p) > 0 {
		w.s.keep(p)
	}
	p = w.valid(p, end)
	switch room := maxPending - len(w.pending); {
	case len(p) == 0:
		return
	case len(p) <= room:
		w.pending = append(w.pending, p...)
	default:
		// The newest text counts; what does not fit is in the spool.
		if len(p) < maxPending {
			p = append(w.pending[:len(w.pending):len(w.pending)], p...)
		} else {
			w.dropped += len(w.pending)
		}
		tail := cutTail(p, maxPending)
		w.dropped += len(p) - len(tail)
		w.pending = append(w.pending[:0], tail...)
	}
	w.s.due()
}

// valid makes p valid UTF-8; a character cut off at the end waits for the rest.
func (w *stream) valid(p []byte, end bool) []byte {
	if len(w.partial) > 0 {
		p = append(w.partial, p...)
		w.partial = nil
	}
	if utf8.Valid(p) {
		return p
	}
	if !end {
		for i := 1; i < utf8.UTFMax && i <= len(p); i++ {
			if utf8.RuneStart(p[len(p)-i]) {
				if !utf8.FullRune(p[len(p)-i:]) {
					w.partial = bytes.Clone(p[len(p)-i:])
					p = p[:len(p)-i]
				}
				break
			}
		}
	}
	if utf8.Valid(p) {
		return p
	}
	w.s.invalid = true
	return bytes.ToValidUTF8(p, replacement)
}

// keep adds output to head, tail and the whole; mu is held.
func (s *spool) keep(p []byte) {
	s.bytes += int64(len(p))
	s.lines += int64(bytes.Count(p, newline))
	if s.whole == nil && !s.noKeep && !s.full && s.handle == "" && len(s.head)+len(p) <= s.limit {
		s.head = append(s.head, p...)
		return
	}
	s.spill()
	s.write(p)
	head, share := splitLimit(s.limit)
	if room := head - len(s.head); room > 0 && len(s.tail) == 0 {
		n := min(room, len(p))
		s.head = append(s.head, p[:n]...)
		p = p[n:]
	}
	if len(p) > share {
		s.tail = append(s.tail[:0], p[len(p)-share-1:]...)
		return
	}
	s.tail = append(s.tail, p...)
	if len(s.tail) > 2*share {
		s.tail = append(s.tail[:0], s.tail[len(s.tail)-share-1:]...)
	}
}

// spill begins to keep the whole; mu is held.
func (s *spool) spill() {
	if s.whole != nil || s.noKeep || s.full {
		return
	}
	if s.dir == nil {
		s.noKeep = true
	} else {
		w, err := s.dir.Create(artifact.Meta{Session: s.c.in.Session, Call: s.c.in.ID, Name: "output of " + s.c.name})
		if err != nil {
			s.log("output cannot be kept", err)
			s.noKeep = true
		}
		s.whole = w
	}
	all := s.head
	s.write(all)
	head, _ := splitLimit(s.limit)
	if len(all) > head {
		s.tail = append(s.tail, all[head:]...)
		s.head = all[:head:head]
	}
}

// write keeps p in the artifact, up to what may be stored; mu is held.
func (s *spool) write(p []byte) {
	if s.whole == nil || s.full {
		return
	}
	if room := s.stored - s.whole.Size(); int64(len(p)) > room {
		p = cutHead(p, int(room))
		s.full = true
	}
	if _, err := s.whole.Write(p); err != nil {
		s.log("output is no longer kept", err)
		s.full = true
	}
}

// due sends what is pending now or plans to; mu is held.
func (s *spool) due() {
	if s.emit == nil {
		for _, w := range s.order {
			w.pending, w.dropped = w.pending[:0], 0
		}
		return
	}
	if s.timer != nil {
		return
	}
	wait := flushEvery - time.Since(s.last)
	if wait <= 0 {
		s.flush()
		return
	}
	s.timer = time.AfterFunc(wait, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.timer = nil
		if !s.closed {
			s.flush()
		}
	})
}

// flush sends what is pending; mu is held.
func (s *spool) flush() {
	for _, w := range s.order {
		if len(w.pending) == 0 || s.emit == nil {
			continue
		}
		s.last = time.Now()
		s.emit(w.name, string(w.pending), w.dropped)
		w.pending, w.dropped = w.pending[:0], 0
	}
}

// Close ends the output; it may be called again.
func (s *spool) Close() (tool.OutputSummary, error) { return s.close(context.Background()) }

func (s *spool) close(ctx context.Context) (tool.OutputSummary, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.summary, nil
	}
	for _, w := range s.order {
		w.take(w.redact.End(), true)
	}
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	s.flush()
	s.closed = true
	if s.invalid {
		s.spill() // what is shown is not what came
	}
	var err error
	if s.whole != nil {
		a, errCommit := s.whole.Commit(context.WithoutCancel(ctx))
		if err = errCommit; err == nil {
			s.handle = a.ID
		} else {
			s.log("output cannot be kept", err)
		}
		s.whole = nil
	}
	s.summary = s.sum()
	s.head, s.tail = nil, nil
	if s.full {
		err = errors.Join(err, tool.ErrOutputLimit)
	}
	return s.summary, err
}

// sofar is what was written until now.
func (s *spool) sofar() tool.OutputSummary {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.summary
	}
	return s.sum()
}

// sum is the summary of what was written; mu is held.
func (s *spool) sum() tool.OutputSummary {
	sum := tool.OutputSummary{Bytes: map[string]int64{}, Lines: s.lines, Handle: s.handle}
	for _, w := range s.order {
		sum.Bytes[w.name] = w.bytes
	}
	head, share := splitLimit(s.limit)
	if s.bytes <= int64(s.limit) {
		text := bytes.ToValidUTF8(append(bytes.Clone(s.head), s.tail...), replacement)
		sum.Text = string(cutHead(text, s.limit))
		if s.invalid {
			sum.Text = note(sum.Text, invalidNote)
		}
		sum.Truncated = s.invalid
		return sum
	}
	sum.Truncated = true
	f := folded{head: cutHead(s.head, head-1), tail: cutTail(s.tail, share), bytes: s.bytes, lines: s.lines, handle: s.handle, invalid: s.invalid, cutOff: s.full}
	sum.Text = f.text()
	return sum
}

// note adds a line to text.
func note(text, line string) string {
	if text != "" && text[len(text)-1] != '\n' {
		text += "\n"
	}
	return text + line + "\n"
}
