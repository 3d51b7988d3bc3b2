package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/toolyard/toolyard/tool"
)

// Subscriptions is what to be told of. Lists are told of by servers with
// sessions in any case.
type Subscriptions struct {
	Tools, Prompts, Resources bool     // notifications/…/list_changed
	URIs                      []string // notifications/resources/updated
}

// Subscription is open until Close or the end of the connection. Where the
// stream of a server breaks it is opened again. It is safe for concurrent use.
type Subscription struct {
	c      *Client
	want   Subscriptions
	cancel context.CancelFunc // ends the request; nil with sessions
	once   sync.Once
}

// Listen asks the server for notifications, which go to Config.Notification. It
// returns when the server has agreed. One URI should be in one open Subscription
// only.
func (c *Client) Listen(ctx context.Context, want Subscriptions) (*Subscription, error) {
	s := &Subscription{c: c, want: want}
	if !c.Stateless() {
		for i, uri := range want.URIs {
			if err := c.subscribe(ctx, "resources/subscribe", uri); err != nil {
				s.want.URIs = want.URIs[:i]
				s.unsubscribe()
				return nil, err
			}
		}
		c.keep(s)
		return s, nil
	}
	listening, cancel := context.WithCancel(c.ctx)
	s.cancel = cancel
	agreed := make(chan error, 1)
	if !c.spawn(func() { s.run(listening, agreed) }) {
		cancel()
		return nil, lost("subscriptions/listen", false, c.broken())
	}
	select {
	case err := <-agreed:
		if err != nil {
			cancel()
			return nil, err
		}
		return s, nil
	case <-ctx.Done():
		cancel()
		return nil, ended(ctx, "subscriptions/listen", true)
	}
}

// run keeps the request open. agreed gets what came of it the first time.
func (s *Subscription) run(ctx context.Context, agreed chan error) {
	for tries := 1; ; tries++ {
		began := time.Now()
		ack := make(chan struct{}, 1)
		cl := newCall(&Request{Method: "subscriptions/listen", Params: s.want.params()})
		cl.ack = func() {
			select {
			case ack <- struct{}{}:
			default:
			}
		}
		done := make(chan error, 1)
		if !s.c.spawn(func() {
			_, err := s.c.callAs(ctx, cl, s.c.Version(), nil)
			done <- err
		}) {
			return
		}
		var err error
		select {
		case <-ack:
			if agreed != nil {
				agreed <- nil
			} else {
				s.c.note("", nil) // what changed meanwhile was not told
			}
			agreed = nil
			err = <-done
		case err = <-done:
		}
		if agreed != nil {
			agreed <- err // a server that ends it at once has nothing to tell
			return
		}
		if _, refused := errors.AsType[*Error](err); ctx.Err() != nil || refused || err == nil && time.Since(began) < 10*time.Second {
			return
		}
		if time.Since(began) > longestWait {
			tries = 1
		}
		if !sleep(ctx, backoff(firstDelay, tries)) {
			return
		}
	}
}

// acknowledged is called with the first message of a listening stream.
func (c *Client) acknowledged(params json.RawMessage, origin *call) {
	if origin == nil {
		id, _ := number(member(member(params, "_meta"), metaSubscription))
		c.mu.Lock()
		origin = c.calls[id]
		c.mu.Unlock()
	}
	if origin != nil && origin.ack != nil {
		origin.ack()
	}
}

func (w *Subscriptions) params() json.RawMessage {
	type wire struct {
		Tools     bool     `json:"toolsListChanged,omitempty"`
		Prompts   bool     `json:"promptsListChanged,omitempty"`
		Resources bool     `json:"resourcesListChanged,omitempty"`
		URIs      []string `json:"resourceSubscriptions,omitempty"`
	}
	b, _ := json.Marshal(map[string]wire{"notifications": {w.Tools, w.Prompts, w.Resources, w.URIs}})
	return b
}

func (c *Client) subscribe(ctx context.Context, method, uri string) error {
	params := append(appendText([]byte(`{"uri":`), uri), '}')
	_, err := c.Call(ctx, Request{Method: method, Params: params})
	return err
}

// keep remembers what to subscribe to in the next session.
func (c *Client) keep(s *Subscription) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subs[s] = struct{}{}
}

// resubscribe subscribes again after a new session was begun.
func (c *Client) resubscribe() {
	c.mu.Lock()
	var uris []string
	for s := range c.subs {
		uris = append(uris, s.want.URIs...)
	}
	c.mu.Unlock()
	for _, uri := range uris {
		ctx, cancel := context.WithTimeout(c.ctx, handshakeTimeout)
		if err := c.subscribe(ctx, "resources/subscribe", uri); err != nil && c.ctx.Err() == nil {
			c.log.Warn("a subscription could not be made again", "uri", uri, "error", err)
		}
		cancel()
	}
}

// Close ends the notifications. It tells the server and does not wait for it
// longer than five seconds.
func (s *Subscription) Close() {
	s.once.Do(func() {
		if s.cancel != nil {
			s.cancel()
			return
		}
		s.c.mu.Lock()
		delete(s.c.subs, s)
		s.c.mu.Unlock()
		s.unsubscribe()
	})
}

func (s *Subscription) unsubscribe() {
	ctx, cancel := context.WithTimeoutCause(s.c.ctx, closeTimeout, tool.ErrTimeout)
	defer cancel()
	for _, uri := range s.want.URIs {
		if err := s.c.subscribe(ctx, "resources/unsubscribe", uri); err != nil && ctx.Err() != nil {
			return
		}
	}
}
