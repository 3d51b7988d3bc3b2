package upstream

import (
	"bufio"
	"context"
	"io"
	"sync"
)

// pipes is the wire to a process: a line is a message.
type pipes struct {
	lines *lines
	in    io.WriteCloser
	buf   *bufio.Writer
	out   io.Reader
	once  sync.Once
}

var _ wire = (*pipes)(nil)

func newPipes(s *Stdio, limit int64) *pipes {
	return &pipes{lines: newLines(s.Stdout, limit), in: s.Stdin, buf: bufio.NewWriterSize(s.Stdin, 64<<10), out: s.Stdout}
}

func (p *pipes) read(context.Context) ([]byte, *long, error) { return p.lines.next() }

func (p *pipes) write(_ context.Context, messages [][]byte) error {
	for _, m := range messages {
		_, _ = p.buf.Write(m) // the error stays
		_ = p.buf.WriteByte('\n')
	}
	return p.buf.Flush()
}

func (p *pipes) close() {
	p.once.Do(func() {
		_ = p.in.Close()
		if closer, ok := p.out.(io.Closer); ok {
			_ = closer.Close()
		}
	})
}

func (p *pipes) ends() bool {
	_, ok := p.out.(io.Closer)
	return ok
}
