package mcp

import (
	"context"
	"io"
)

// ServeStdio serves one client over a pair of streams, one message a line. It
// returns when the client has closed its end, cannot be written to, or ctx is
// done; the calls still running are then cancelled and waited for, at most 5 s.
// The error is nil if the client ended the connection or ctx is done.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	id := s.config.Session
	if id == "" {
		id = sessionID()
	}
	from := in
	if again := reopen(in); again != nil {
		defer again.Close()
		from = again
	}
	return s.serve(ctx, serving{
		name:     "stdio",
		session:  id,
		messages: &lineStream{in: in, lines: newLineReader(from, maxFrame), out: lineWriter{w: out}},
		limit:    maxFrame,
		grace:    drainGrace,
		last:     s.leave,
	})
}

// lineStream is one message a line over a pair of streams.
type lineStream struct {
	in    io.Reader
	lines *lineReader
	out   lineWriter
}

func (l *lineStream) next() (message []byte, more bool, err error) {
	message, err = l.lines.next()
	return message, l.lines.more(), err
}

func (l *lineStream) write(message []byte) error { return l.out.write(message) }

func (l *lineStream) offer(message []byte) error { return l.out.write(message) }

func (l *lineStream) failure() error { return l.out.failure() }

func (l *lineStream) close(error) {
	if closer, ok := l.in.(io.Closer); ok {
		_ = closer.Close() // lets the reader go, where the stream can be closed
	}
}
