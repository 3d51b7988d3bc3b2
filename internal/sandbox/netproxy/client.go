package netproxy

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of a connection.
const (
	helloTimeout = 30 * time.Second // until a client has said what it wants
	maxHello     = 64 << 10         // bytes of that
	idleTimeout  = time.Hour        // of a tunnel in which nothing moves
	copyBuffer   = 32 << 10
)

// client is a connection from inside. What was read ahead is read again; a
// connection on which nothing moves for idleTimeout is closed.
type client struct {
	net.Conn
	head []byte // read ahead; of one goroutine until the connection is handed on

	moved     atomic.Int64 // unix nanoseconds
	idle      *time.Timer
	closeOnce sync.Once
	closeErr  error
	closed    chan struct{}
}

func newClient(c net.Conn) *client {
	k := &client{Conn: c, closed: make(chan struct{})}
	k.moved.Store(time.Now().UnixNano())
	k.idle = time.AfterFunc(idleTimeout, k.checkIdle)
	return k
}

func (c *client) checkIdle() {
	left := idleTimeout - time.Since(time.Unix(0, c.moved.Load()))
	if left <= 0 {
		c.Close()
		return
	}
	select {
	case <-c.closed:
	default:
		c.idle.Reset(left)
	}
}

func (c *client) Read(b []byte) (int, error) {
	if len(c.head) > 0 {
		n := copy(b, c.head)
		if c.head = c.head[n:]; len(c.head) == 0 {
			c.head = nil
		}
		return n, nil
	}
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.moved.Store(time.Now().UnixNano())
	}
	return n, err
}

func (c *client) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if n > 0 {
		c.moved.Store(time.Now().UnixNano())
	}
	return n, err
}

// Close can be called often and from anywhere.
func (c *client) Close() error {
	c.closeOnce.Do(func() {
		close(c.closed)
		c.idle.Stop()
		c.closeErr = c.Conn.Close()
	})
	return c.closeErr
}

// CloseWrite says that no more comes, where the connection can say so.
func (c *client) CloseWrite() error { return closeWrite(c.Conn) }

func closeWrite(c net.Conn) error {
	if h, ok := c.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return c.Close()
}

// reset closes the connection so that the other side sees it refused.
func (c *client) reset() {
	if t, ok := c.Conn.(interface{ SetLinger(int) error }); ok {
		_ = t.SetLinger(0)
	}
	c.Close()
}

var errHello = errors.New("too much was said before it was clear what is wanted")

// peek reads ahead until at least n bytes are there.
func (c *client) peek(n int) error {
	if n > maxHello {
		return errHello
	}
	for len(c.head) < n {
		if err := c.more(); err != nil {
			return err
		}
	}
	return nil
}

// more reads ahead whatever comes next.
func (c *client) more() error {
	if len(c.head) >= maxHello {
		return errHello
	}
	buf := make([]byte, min(4096, maxHello-len(c.head)))
	n, err := c.Conn.Read(buf)
	c.head = append(c.head, buf[:n]...)
	if n > 0 {
		c.moved.Store(time.Now().UnixNano())
		return nil
	}
	return err
}

// relay copies between two connections until both have ended, and closes both.
// An end in one direction is passed on; the other direction goes on.
func relay(a *client, b net.Conn) {
	defer tie(a, b)()
	var wg sync.WaitGroup
	wg.Go(func() { pass(b, a) })
	wg.Go(func() { pass(a, b) })
	wg.Wait()
}

// tie closes b when a is closed, whoever does that: of two directions one may
// have ended before, and nobody reads a then. The function that it returns closes
// both.
func tie(a *client, b net.Conn) func() {
	var wg sync.WaitGroup
	wg.Go(func() {
		<-a.closed
		b.Close()
	})
	return func() {
		a.Close()
		wg.Wait()
	}
}

// pass copies one direction. When it fails both ends are closed, since what
// comes after a gap has no meaning.
func pass(to, from net.Conn) {
	_, err := io.CopyBuffer(onlyWriter{to}, onlyReader{from}, make([]byte, copyBuffer))
	if err == nil {
		err = closeWrite(to)
	}
	if err != nil {
		to.Close()
		from.Close()
	}
}

// onlyReader and onlyWriter hide shortcuts past Read and Write.
type (
	onlyReader struct{ io.Reader }
	onlyWriter struct{ io.Writer }
)

// lingering lets a client read what was said last before its connection is
// gone: closing with unread data would take it back.
func (c *client) lingering() {
	const most, wait = 256 << 10, time.Second
	if c.CloseWrite() == nil {
		_ = c.SetReadDeadline(time.Now().Add(wait))
		_, _ = io.CopyN(io.Discard, onlyReader{c}, most)
	}
	c.Close()
}
