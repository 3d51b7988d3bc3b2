package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/coder/websocket"
)

// pingEvery is how often a WebSocket is asked whether it is still there, and how
// long it may take to say so.
const pingEvery = 30 * time.Second

// socket is the wire over a WebSocket: a frame is a message.
type socket struct {
	conn *websocket.Conn
	max  int64
}

var _ wire = (*socket)(nil)

// dial connects, again where the server asks for credentials that can be had.
func (w *web) dial(ctx context.Context) (*socket, error) {
	for try := 1; ; try++ {
		r, err := w.request(ctx, http.MethodGet, w.url, nil, nil)
		if err != nil {
			return nil, err
		}
		conn, resp, err := websocket.Dial(ctx, w.url.String(), &websocket.DialOptions{
			HTTPClient: w.client, HTTPHeader: r.Header, Host: r.Host, Subprotocols: []string{"mcp"},
		})
		if err == nil {
			conn.SetReadLimit(-1) // read bounds it and throws away what is above
			return &socket{conn: conn, max: w.c.conf.MaxMessage}, nil
		}
		if resp == nil || resp.StatusCode == http.StatusSwitchingProtocols {
			if ctx.Err() != nil {
				return nil, ended(ctx, "the handshake", false)
			}
			return nil, lost("the handshake", false, plain(err))
		}
		if code := resp.StatusCode; (code == http.StatusUnauthorized || code == http.StatusForbidden) && w.h.Auth != nil && try < maxAttempts &&
			resp.Request != nil && origin(resp.Request.URL) == origin(w.url) {
			again, err := w.h.Auth.Challenge(ctx, resp)
			if err != nil {
				return nil, denied(err)
			}
			if again {
				continue
			}
		}
		text, _, _ := body(resp.Body, 300)
		e, _ := refused(resp, text)
		return nil, mark(e, false)
	}
}

func (s *socket) read(ctx context.Context) ([]byte, *long, error) {
	_, r, err := s.conn.Reader(ctx)
	if err != nil {
		return nil, nil, closing(err)
	}
	data, over, err := body(r, s.max)
	if err != nil {
		return nil, nil, closing(err)
	}
	if !over {
		return data, nil, nil
	}
	l := &long{head: bytes.Clone(data[:min(len(data), headBytes)]), size: int64(len(data))}
	data = make([]byte, 32<<10)
	for {
		n, err := r.Read(data)
		l.size += int64(n)
		l.keep(data[:n])
		if l.size > endless*s.max {
			return nil, nil, errEndless
		}
		if errors.Is(err, io.EOF) {
			return nil, l, nil
		}
		if err != nil {
			return nil, nil, closing(err)
		}
	}
}

// closing says in words why a WebSocket ended.
func closing(err error) error {
	if e, ok := errors.AsType[websocket.CloseError](err); ok {
		return fmt.Errorf("it closed the WebSocket with %d %q", e.Code, e.Reason)
	}
	return err
}

func (s *socket) write(ctx context.Context, messages [][]byte) error {
	for _, m := range messages {
		if err := s.conn.Write(ctx, websocket.MessageText, m); err != nil {
			return closing(err)
		}
	}
	return nil
}

func (s *socket) goodbye() { _ = s.conn.Close(websocket.StatusNormalClosure, "") }

func (s *socket) close() { _ = s.conn.CloseNow() }

func (s *socket) ends() bool { return true }

// beat notices a server that is not there any more.
func (s *socket) beat(c *Client) {
	for sleep(c.ctx, pingEvery) {
		ctx, cancel := context.WithTimeout(c.ctx, pingEvery)
		err := s.conn.Ping(ctx)
		cancel()
		if err != nil && c.ctx.Err() == nil {
			c.fail(fmt.Errorf("it does not answer pings: %w", err))
			return
		}
	}
}
