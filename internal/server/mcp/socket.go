package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"

	"github.com/toolyard/toolyard/internal/server/auth"
	"github.com/toolyard/toolyard/tool"
)

// Subprotocol is what a WebSocket client of MCP offers in its handshake.
const Subprotocol = "mcp"

// Bounds of WebSockets.
const (
	maxSocketMessage = 100 << 20        // bytes of one message
	maxSockets       = 2048             // connections at a time
	maxAssembled     = 512 << 20        // bytes of large messages that all connections hold while they are read
	large            = 1 << 20          // bytes; a message up to this is not counted
	pingEvery        = 30 * time.Second // a peer that is silent for so long is asked whether it is there
	closeLimit       = 2 * time.Second  // for the peer to agree to the end
)

// SocketOptions change the WebSocket handler. The zero value is usable.
type SocketOptions struct {
	// MaxMessage bounds a message, in bytes. Zero means 100 MiB.
	MaxMessage int64
	// Ping is how long a peer may be silent before it is asked whether it is there.
	// Zero means 30 s. It then has as long to answer.
	Ping time.Duration
	// Unread is how long a peer may leave answers unread before it is cut off. Zero
	// means 30 s.
	Unread time.Duration
}

// Socket serves MCP over WebSockets with the subprotocol "mcp", a JSON-RPC
// message in each text frame, both eras of the protocol as over stdio. Each
// connection is a session of its own. Who may call, and from which origin, is
// decided in front of it.
//
// The connection is closed with 1001 when the server stops, 1002 for frames that
// break the protocol, 1003 for a binary message, 1007 for text that is not
// UTF-8, 1008 for a peer that does not read or does not answer a ping, 1009 for
// a message that is too long, 1013 when too many large ones are under way.
func (s *Server) Socket(o SocketOptions) http.Handler {
	if o.MaxMessage == 0 {
		o.MaxMessage = maxSocketMessage
	}
	if o.Ping == 0 {
		o.Ping = pingEvery
	}
	if o.Unread == 0 {
		o.Unread = writeLimit
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.socket(w, r, o) })
}

func (s *Server) socket(w http.ResponseWriter, r *http.Request, o SocketOptions) {
	caller := auth.From(r.Context())
	r.Header.Del(headerView)
	own, status, err := s.ownView(r)
	if err != nil {
		http.Error(w, tool.AsError(err).Text(), status)
		return
	}
	switch {
	case !slices.Contains(offeredProtocols(r), Subprotocol) && strings.EqualFold(r.Header.Get("Upgrade"), "websocket"):
		http.Error(w, "offer the subprotocol "+Subprotocol, http.StatusBadRequest)
		return
	case !s.enter():
		w.Header().Set("Retry-After", "60")
		http.Error(w, "too many connections are open, or the server is stopping", http.StatusServiceUnavailable)
		return
	}
	defer s.work.Done()
	defer s.sockets.add(-1)
	taken := &takenOver{ResponseWriter: w, unread: o.Unread}
	// The origin has been checked, with more knowledge than the library has.
	ws, err := websocket.Accept(taken, r, &websocket.AcceptOptions{Subprotocols: []string{Subprotocol}, InsecureSkipVerify: true})
	if err != nil {
		s.config.Log.Debug("handshake of a WebSocket", "err", err)
		return
	}
	ws.SetReadLimit(o.MaxMessage)
	m := &socket{ws: ws, conn: taken.conn, lines: taken.reader, budget: &s.assembled, silence: o.Ping, scratch: make([]byte, 4<<10)}
	m.ctx, m.stop = context.WithCancel(context.WithoutCancel(r.Context()))
	m.watch()
	err = s.serve(s.background, serving{
		name: "WebSocket", session: sessionID(), messages: m, limit: int(o.MaxMessage), drain: s.streams.Done(),
		view: own, caller: &caller, principal: r.Header.Get("Authorization"),
	})
	if err != nil {
		s.config.Log.Info("a WebSocket ended", "err", err)
	}
}

// enter counts a WebSocket in, unless there are too many.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.streams.Err() != nil || s.sockets.count() >= maxSockets {
		return false
	}
	s.sockets.add(1)
	s.work.Add(1)
	return true
}

// Drain asks for the end of whatever only listens, and of WebSockets once their
// calls have been answered, and waits for the latter until ctx is done.
func (s *Server) Drain(ctx context.Context) {
	s.EndStreams()
	s.mu.Lock() // whoever comes later is refused
	empty := s.sockets.zero()
	s.mu.Unlock()
	select {
	case <-empty:
	case <-ctx.Done():
	}
}

// offeredProtocols are the subprotocols that a client offers.
func offeredProtocols(r *http.Request) (names []string) {
	for _, value := range r.Header.Values("Sec-WebSocket-Protocol") {
		for name := range strings.SplitSeq(value, ",") {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names
}

// takenOver puts a socketConn below a WebSocket when the library takes the
// connection over.
type takenOver struct {
	http.ResponseWriter
	unread time.Duration
	conn   *socketConn
	reader *bufio.Reader
}

// Hijack gives the connection, for what the library reads and for its control
// frames, which are at most 127 bytes.
func (t *takenOver) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(t.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	t.conn, t.reader = newSocketConn(conn, t.unread), rw.Reader
	return t.conn, bufio.NewReadWriter(rw.Reader, bufio.NewWriterSize(t.conn, 256)), nil
}

// closeError ends a WebSocket with a code that tells the peer why.
type closeError struct {
	code   websocket.StatusCode
	reason string // at most 123 bytes
}

func (e *closeError) Error() string { return e.reason }

var (
	errBinary  = &closeError{websocket.StatusUnsupportedData, "a binary message: messages are text"}
	errNotText = &closeError{websocket.StatusInvalidFramePayloadData, "the message is not UTF-8"}
	errSilent  = &closeError{websocket.StatusPolicyViolation, "no answer to a ping"}
	errUnread  = &closeError{websocket.StatusPolicyViolation, "answers were not read in time"}
	errCrowded = &closeError{websocket.StatusTryAgainLater, "too many large messages are under way"}
	errTooBig  = &closeError{websocket.StatusMessageTooBig, "the message is too long. Write large content in parts (write with mode append)"}
	errFrames  = &closeError{websocket.StatusProtocolError, "the frames break the protocol"}
)

// socket is the messages of one WebSocket.
type socket struct {
	ws      *websocket.Conn
	conn    *socketConn
	lines   *bufio.Reader // below ws; looked at only between messages
	budget  *atomic.Int64
	silence time.Duration
	ctx     context.Context // ends reading
	stop    context.CancelFunc
	held    atomic.Int64 // taken from the budget
	closed  atomic.Bool
	scratch []byte // what is read first
	silent  atomic.Bool
	ping    *time.Timer
}

func (m *socket) next() (message []byte, more bool, err error) {
	m.release()
	kind, r, err := m.ws.Reader(m.ctx)
	if err != nil {
		return nil, false, m.ending(err)
	}
	if kind != websocket.MessageText {
		return nil, false, errBinary
	}
	message, err = m.assemble(r)
	if m.closed.Load() {
		m.release() // nobody else will
	}
	switch {
	case err != nil:
		return nil, false, m.ending(err)
	case !utf8.Valid(message):
		return nil, false, errNotText
	}
	if message = bytes.TrimSpace(message); len(message) == 0 {
		message = []byte(" ") // is answered as what it is: no JSON
	}
	return message, m.lines.Buffered() > 0, nil
}

// release gives back what was taken from the budget. Reading and closing both do.
func (m *socket) release() { m.budget.Add(-m.held.Swap(0)) }

// assemble reads a message into memory of its own. The parts of a long one are
// kept apart, so that it is copied only once.
func (m *socket) assemble(r io.Reader) ([]byte, error) {
	var parts [][]byte
	total, buf := 0, m.scratch
	for {
		n, err := fill(r, buf)
		if total += n; total > large {
			more := int64(total) - large - m.held.Load()
			m.held.Add(more)
			if m.budget.Add(more) > maxAssembled {
				return nil, errCrowded
			}
		}
		switch {
		case err == io.EOF && parts == nil:
			return bytes.Clone(buf[:n]), nil
		case err == io.EOF:
			return slices.Concat(append(parts, buf[:n])...), nil
		case err != nil:
			return nil, err
		}
		if parts == nil {
			buf = bytes.Clone(buf)
		}
		parts = append(parts, buf)
		buf = make([]byte, min(2*len(buf), 1<<20))
	}
}

// fill reads until buf is full or nothing comes. Its error is io.EOF at the end
// of the message.
func fill(r io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) {
		got, err := r.Read(buf[n:])
		if n += got; err != nil {
			return n, err
		}
	}
	return n, nil
}

// ending is why reading ended, for the peer and for the log.
func (m *socket) ending(err error) error {
	var own *closeError
	switch {
	case errors.As(err, &own):
		return own
	case m.silent.Load():
		return errSilent
	case errors.Is(err, websocket.ErrMessageTooBig):
		return errTooBig
	case websocket.CloseStatus(err) != -1, errors.Is(err, net.ErrClosed), errors.Is(err, context.Canceled), m.conn.broken():
		return io.EOF // the peer's end is closed, in one way or another
	}
	return errFrames // whatever else the library complains about
}

func (m *socket) write(message []byte) error { return m.conn.text(message, false) }

func (m *socket) offer(message []byte) error { return m.conn.text(message, true) }

func (m *socket) failure() error { return m.conn.failure() }

// watch asks a peer that is silent whether it is still there, and drops it if it
// does not answer.
func (m *socket) watch() {
	m.ping = time.AfterFunc(m.silence, func() {
		if idle := m.conn.quiet(); idle < m.silence {
			m.ping.Reset(m.silence - idle)
			return
		}
		heard := m.conn.heard.Load()
		ctx, cancel := context.WithTimeout(m.ctx, m.silence)
		defer cancel()
		// A long message may stand before the answer: whatever comes counts.
		if m.ws.Ping(ctx) != nil && m.conn.heard.Load() == heard {
			m.silent.Store(true)
			m.conn.interrupt()
			return
		}
		if m.ctx.Err() == nil {
			m.ping.Reset(m.silence)
		}
	})
}

// close ends the WebSocket and tells the peer why.
func (m *socket) close(cause error) {
	m.ping.Stop()
	defer m.stop()
	defer m.release()
	m.closed.Store(true)
	var own *closeError
	switch {
	case errors.As(cause, &own):
	case cause == nil, m.conn.broken(), errors.Is(cause, io.EOF):
		_ = m.ws.CloseNow()
		return
	default:
		own = &closeError{websocket.StatusGoingAway, errStopping.Error()}
	}
	m.conn.end(closeLimit)
	_ = m.ws.Close(own.code, own.reason)
}
