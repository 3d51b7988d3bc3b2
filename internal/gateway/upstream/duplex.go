package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/toolyard/toolyard/tool"
)

// maxGarbage is how many bytes a server may send on a stream, without a message
// between, that are none.
const maxGarbage = 64 << 20

// maxQueued is how many messages may wait to be written.
const maxQueued = 256

// wire is a stream of messages in both directions.
type wire interface {
	// read gives the next message in memory of its own, or what remains of one that
	// was too long. Called from one goroutine.
	read(ctx context.Context) ([]byte, *long, error)
	// write sends messages, in order. Called from one goroutine.
	write(ctx context.Context, messages [][]byte) error
	// close ends both directions.
	close()
	// ends says that close ends a read that waits.
	ends() bool
}

// packet is a message that waits to be written.
type packet struct {
	data []byte
	call *call // nil if it has no answer
}

// duplex is the transport over a wire: one goroutine reads, one writes.
type duplex struct {
	c   *Client
	w   wire
	out chan packet
}

var _ transport = (*duplex)(nil)

func newDuplex(c *Client, w wire) *duplex {
	d := &duplex{c: c, w: w, out: make(chan packet, maxQueued)}
	c.t = d
	c.spawn(d.writer)
	if w.ends() {
		c.spawn(d.reader)
	} else {
		go d.reader() // it ends with the process, whose owner waits for that
	}
	return d
}

func (d *duplex) start(ctx context.Context, cl *call, data []byte, _ http.Header) {
	select {
	case d.out <- packet{data, cl}:
	case <-ctx.Done(): // whoever waits sees it too
	case <-d.c.ctx.Done():
	}
}

func (d *duplex) post(ctx context.Context, data []byte, _ http.Header) error {
	select {
	case d.out <- packet{data: data}:
		return nil
	case <-ctx.Done():
		return ended(ctx, "the message", false)
	case <-d.c.ctx.Done():
		return lost("the message", false, d.c.broken())
	}
}

// writer writes what waits, as much as there is at a time.
func (d *duplex) writer() {
	var batch [][]byte
	for {
		var p packet
		select {
		case p = <-d.out:
		case <-d.c.ctx.Done():
			return
		}
		batch = batch[:0]
		for more := true; more; {
			if p.call == nil || p.call.seen() {
				batch = append(batch, p.data)
			}
			select {
			case p = <-d.out:
				more = len(batch) < maxQueued
				if !more && (p.call == nil || p.call.seen()) {
					batch = append(batch, p.data)
				}
			default:
				more = false
			}
		}
		if len(batch) == 0 {
			continue
		}
		if err := d.w.write(d.c.ctx, batch); err != nil {
			d.c.fail(fmt.Errorf("it does not take requests any more: %w", err))
			return
		}
		clear(batch)
	}
}

// reader hands on what the server sends until it ends.
func (d *duplex) reader() {
	junk := int64(0)
	for {
		data, over, err := d.w.read(d.c.ctx)
		switch {
		case over != nil:
			known, why := d.c.tooLong(over, nil)
			if why != nil {
				d.c.fail(why)
				return
			}
			if junk += over.size; known {
				junk = 0
			}
		case err == nil && len(data) == 0: // an empty line
		case len(data) > 0:
			if d.c.receive(data, nil) {
				junk = 0
			} else {
				junk += int64(len(data))
			}
		}
		if err != nil {
			d.c.fail(gone(err))
			return
		}
		if junk > maxGarbage {
			d.c.fail(tool.Errorf(tool.ConnectionError, "the server sends something else than MCP: %d bytes without a message", junk).
				WithHint("See that it writes nothing but messages to its output; its log belongs on stderr."))
			return
		}
	}
}

// gone says why a stream ended.
func gone(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.ErrClosedPipe) {
		return errors.New("it closed its output")
	}
	return err
}

func (d *duplex) close() { d.w.close() }

// goodbye tells the server that we go, where the wire has words for that.
func (d *duplex) goodbye() {
	if g, ok := d.w.(interface{ goodbye() }); ok {
		g.goodbye()
	}
}
