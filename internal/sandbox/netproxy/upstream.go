package netproxy

import (
	"context"
	"net"
	"sync"
)

// upstreams counts the connections that an http.Transport made, which outlive
// the requests that they were made for, so that all can be ended and waited for.
type upstreams struct {
	ctx context.Context // ends all

	mu     sync.Mutex
	closed bool
	open   map[*upstream]struct{}
	wg     sync.WaitGroup
}

// upstream is one of them.
type upstream struct {
	net.Conn
	of   *upstreams
	once sync.Once
}

func (u *upstream) Close() error {
	err := u.Conn.Close()
	u.once.Do(func() {
		u.of.mu.Lock()
		delete(u.of.open, u)
		u.of.mu.Unlock()
		u.of.wg.Done()
	})
	return err
}

func (u *upstream) CloseWrite() error { return closeWrite(u.Conn) }

// dial makes a connection unless the end has come. It ends with the end of all,
// as the transport's own dials outlive their request.
func (s *upstreams) dial(ctx context.Context, dial func(context.Context) (net.Conn, error)) (net.Conn, error) {
	if !s.begin() {
		return nil, net.ErrClosed
	}
	defer s.wg.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	c, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	return s.own(c)
}

func (s *upstreams) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.wg.Add(1)
	return true
}

// own takes a connection into account.
func (s *upstreams) own(c net.Conn) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		c.Close()
		return nil, net.ErrClosed
	}
	u := &upstream{Conn: c, of: s}
	if s.open == nil {
		s.open = map[*upstream]struct{}{}
	}
	s.open[u] = struct{}{}
	s.wg.Add(1)
	return u, nil
}

// wait closes what is open and returns when nothing is left.
func (s *upstreams) wait() {
	s.mu.Lock()
	s.closed = true
	var open []*upstream
	for u := range s.open {
		open = append(open, u)
	}
	s.mu.Unlock()
	for _, u := range open {
		u.Close()
	}
	s.wg.Wait()
}
