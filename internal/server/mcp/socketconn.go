package mcp

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// maxWaiting is how many bytes of frames wait until a peer reads, beside those
// of one message.
const maxWaiting = 8 << 20

// socketConn is the connection below a WebSocket. Text frames and the control
// frames that the library writes come out whole. Frames that are ready at the
// same time go out in one write: the library would make one for each.
//
// Who adds a frame writes it, if nobody is writing; else it waits with the others
// and its writer goes on. Only when too much waits does who adds more wait too.
type socketConn struct {
	net.Conn
	unread time.Duration
	begin  time.Time
	heard  atomic.Int64 // when something was read last, ns since begin
	gone   atomic.Bool  // nothing can be read any more

	mu      sync.Mutex
	moved   sync.Cond // something was written, or nothing will be
	waiting []byte
	spare   []byte // what waiting was before
	writing bool
	refused error // why no more text is taken
	last    bool  // the time for all that is left has been set
	err     error // why nothing can be written any more
}

func newSocketConn(c net.Conn, unread time.Duration) *socketConn {
	s := &socketConn{Conn: c, unread: unread, begin: time.Now()}
	s.moved.L = &s.mu
	return s
}

// Read notes that the peer is there.
func (s *socketConn) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if n > 0 {
		s.heard.Store(int64(time.Since(s.begin)))
	}
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		s.gone.Store(true)
	}
	return n, err
}

// quiet is how long nothing has been read.
func (s *socketConn) quiet() time.Duration {
	return time.Since(s.begin) - time.Duration(s.heard.Load())
}

// Write sends a control frame. It waits only for the last one, after which the
// library may close the connection.
func (s *socketConn) Write(p []byte) (int, error) {
	const opcode, opClose = 0x0f, 0x8
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.failed() == nil && !s.last && s.crowded() { // by pings of a peer that does not read
		s.moved.Wait()
	}
	if err := s.failed(); err != nil {
		return 0, err
	}
	s.waiting = append(s.waiting, p...)
	if err := s.flush(p[0]&opcode == opClose); err != nil {
		return 0, err
	}
	return len(p), nil
}

// text sends a message. It waits while too much else does. A message that may be
// lost is then lost, and never waited for.
func (s *socketConn) text(message []byte, mayBeLost bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !mayBeLost && s.refused == nil && s.err == nil && s.crowded() {
		s.moved.Wait()
	}
	switch {
	case s.err != nil:
		return s.err
	case s.refused != nil:
		return s.refused
	case mayBeLost && s.crowded():
		return nil
	}
	s.waiting = appendFrame(s.waiting, message)
	return s.flush(!mayBeLost)
}

func (s *socketConn) crowded() bool { return len(s.waiting) > maxWaiting }

// flush writes what waits, unless somebody does already; s is locked. A
// goroutine does it if the caller must not wait, and writes what comes
// meanwhile, so that nobody is held up by the messages of others.
func (s *socketConn) flush(wait bool) error {
	if s.writing {
		return nil
	}
	s.writing = true
	if wait {
		s.round()
		if len(s.waiting) == 0 || s.failed() != nil {
			s.writing = false
			return s.failed()
		}
	}
	go func() { // ends when nothing waits, or with the connection
		s.mu.Lock()
		defer s.mu.Unlock()
		for len(s.waiting) > 0 && s.failed() == nil {
			s.round()
		}
		s.writing = false
	}()
	return nil
}

// failed is why writing has ended for now; s is locked.
func (s *socketConn) failed() error {
	if s.err == nil && !s.last {
		return s.refused
	}
	return s.err
}

// round writes what waits now; s is locked, but not while it writes.
func (s *socketConn) round() {
	out := s.waiting
	s.waiting, s.spare = s.spare[:0], nil
	s.mu.Unlock()
	n, err := s.parts(out)
	s.mu.Lock()
	switch {
	case err == nil:
	case errors.Is(err, os.ErrDeadlineExceeded) && !s.last:
		// What is left stays, in front of the reason why the rest will not come.
		s.waiting = append(bytes.Clone(out[n:]), s.waiting...)
		s.refused = errUnread
	case s.err == nil:
		s.err = err
	}
	if s.spare = out; cap(out) > 2*maxUnflushed {
		s.spare = nil
	}
	s.moved.Broadcast()
}

// parts writes b in parts, each with a deadline of its own, so that a slow peer
// is told from one that does not read.
func (s *socketConn) parts(b []byte) (n int, err error) {
	for n < len(b) {
		s.mu.Lock()
		if !s.last {
			_ = s.SetWriteDeadline(time.Now().Add(s.unread))
		}
		s.mu.Unlock()
		wrote, err := s.Conn.Write(b[n:min(len(b), n+maxUnflushed)])
		if n += wrote; err != nil {
			return n, err
		}
	}
	return n, nil
}

// end takes no more text and gives what is left, and the ends to agree on it, d
// at most.
func (s *socketConn) end(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last = true; s.refused == nil {
		s.refused = net.ErrClosed
	}
	s.moved.Broadcast()
	_ = s.SetDeadline(time.Now().Add(d))
}

// interrupt ends reading.
func (s *socketConn) interrupt() { _ = s.SetReadDeadline(time.Now()) }

// failure is why no message can be written any more; nil if one can.
func (s *socketConn) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.err, s.refused)
}

// broken reports whether the peer can be told nothing any more.
func (s *socketConn) broken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err != nil || s.gone.Load()
}

// appendFrame appends a text frame of a server, which is not masked (RFC 6455,
// section 5.2).
func appendFrame(b, message []byte) []byte {
	const finalText = 0x81
	switch n := len(message); {
	case n < 126:
		b = append(b, finalText, byte(n))
	case n <= math.MaxUint16:
		b = binary.BigEndian.AppendUint16(append(b, finalText, 126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, finalText, 127), uint64(n))
	}
	return append(b, message...)
}
