package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolyard/toolyard/tool"
)

// transport carries messages to a server. What comes back goes to
// [Client.receive].
type transport interface {
	// start sends the request of a call and returns soon. What becomes of it goes
	// to the call: its answer, or that it was lost.
	start(ctx context.Context, cl *call, data []byte, head http.Header)
	// post sends a message that has no answer.
	post(ctx context.Context, data []byte, head http.Header) error
	// close ends all streams. Those who wait are told before.
	close()
}

// Client is a connection to a server. It is safe for concurrent use.
type Client struct {
	conf   Config
	log    *slog.Logger
	ctx    context.Context // ends with the connection
	cancel context.CancelFunc
	t      transport
	notes  notes
	asks   chan struct{} // a place for each request of the server that is answered

	garbage, unknown, oversize, dropped atomic.Int64

	mu      sync.Mutex
	closed  error // why the connection ended; nil while it stands
	ready   bool  // Connect has succeeded
	closing bool  // Close was called
	tasks   sync.WaitGroup
	lastID  int64
	calls   map[int64]*call
	shadows map[int64]shadow
	asked   map[string]context.CancelFunc // requests of the server, by raw id
	version string
	modern  bool // the era without sessions
	both    bool // it is of the stateless era and speaks sessions too
	server  ServerInfo
	subs    map[*Subscription]struct{}
}

// Connect speaks to the server until both know what they speak, at most 30
// seconds. The error is a [*tool.Error], or an [*Error] with which the server
// refused. On an error what was passed in Config.Stdio is closed.
func Connect(ctx context.Context, conf Config) (*Client, error) {
	given := 0
	for _, set := range []bool{conf.Stdio != nil, conf.HTTP != nil, conf.SSE != nil, conf.WebSocket != nil} {
		if set {
			given++
		}
	}
	if given != 1 {
		return nil, errors.New("exactly one of Stdio, HTTP, SSE and WebSocket must be set")
	}
	if conf.MaxMessage <= 0 {
		conf.MaxMessage = DefaultMaxMessage
	}
	conf.Info = orObject(conf.Info, json.RawMessage(`{"name":"toolyard","version":"0"}`))
	conf.Capabilities = orObject(conf.Capabilities, json.RawMessage(`{}`))
	limited, stop := context.WithTimeoutCause(ctx, handshakeTimeout, fmt.Errorf("%v have passed: %w", handshakeTimeout, context.DeadlineExceeded))
	defer stop()
	c, err := connect(limited, conf)
	if e, ok := errors.AsType[*tool.Error](err); ok && conf.HTTP != nil && older(e) {
		conf.SSE, conf.HTTP = conf.HTTP, nil
		if old, err := connect(limited, conf); err == nil {
			return old, nil
		}
	}
	return c, err
}

// older reports whether a server that answers so may be one of HTTP with SSE.
func older(e *tool.Error) bool {
	switch e.Details["status"] {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed:
		return true
	}
	return false
}

// connect makes the connection of Connect.
func connect(ctx context.Context, conf Config) (*Client, error) {
	c := &Client{
		conf: conf, log: conf.Log,
		calls: map[int64]*call{}, shadows: map[int64]shadow{}, asked: map[string]context.CancelFunc{}, subs: map[*Subscription]struct{}{},
		asks: make(chan struct{}, maxAsks),
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
	c.notes.wake = make(chan struct{}, 1)
	c.spawn(c.deliver)
	if err := c.connect(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ready = true
	return c, nil
}

// Version is the protocol version that both speak.
func (c *Client) Version() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version
}

// Sessions reports whether the server speaks a version of the session era too, by
// what it says of itself.
func (c *Client) Sessions() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.modern || c.both
}

// Stateless reports whether the server is one of the era without sessions: it
// asks by input_required, and is listened to by [Client.Listen].
func (c *Client) Stateless() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.modern
}

// Server is what the server said of itself when the connection, or the session
// of now, began.
func (c *Client) Server() ServerInfo {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server
}

// Counters are what the connection had to put up with until now.
func (c *Client) Counters() Counters {
	return Counters{c.garbage.Load(), c.unknown.Load(), c.oversize.Load(), c.dropped.Load()}
}

// InFlight is how many calls wait for an answer.
func (c *Client) InFlight() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls)
}

// Call sends a request and waits for its result, which is the raw bytes of the
// answer. When ctx ends the server is told and Call returns at once.
func (c *Client) Call(ctx context.Context, r Request) (json.RawMessage, error) {
	c.mu.Lock()
	modern := ""
	if c.modern {
		modern = c.version
	}
	c.mu.Unlock()
	return c.call(ctx, &r, modern, nil)
}

// call does a call. modern is the version of the stateless era, or "".
func (c *Client) call(ctx context.Context, r *Request, modern string, head http.Header) (json.RawMessage, error) {
	return c.callAs(ctx, newCall(r), modern, head)
}

func (c *Client) callAs(ctx context.Context, cl *call, modern string, head http.Header) (json.RawMessage, error) {
	r := cl.req
	if ctx.Err() != nil {
		return nil, ended(ctx, r.Method, false)
	}
	if c.conf.HTTP != nil || c.conf.SSE != nil {
		cl.ctx, cl.cancel = context.WithCancel(c.ctx) // the exchange outlives the call a little, to free its connection
	}
	if err := c.enter(cl); err != nil {
		if cl.cancel != nil {
			cl.cancel()
		}
		return nil, err
	}
	var room [512]byte
	own := c.ownMeta(room[:0], cl.id, r, modern)
	data, err := appendRequest(make([]byte, 0, 96+len(r.Method)+len(r.Params)+len(r.Meta)+len(own)), cl.id, r.Method, r.Params, r.Meta, own)
	if err == nil && modern != "" && c.http() {
		head, err = standardHeaders(head, modern, r)
	}
	if err != nil {
		c.leave(cl, false)
		if cl.cancel != nil {
			cl.cancel()
		}
		return nil, err
	}
	c.t.start(ctx, cl, data, head)
	return c.wait(ctx, cl)
}

// http reports whether requests have headers.
func (c *Client) http() bool { return c.conf.HTTP != nil }

// wait tells the caller what comes until the call has ended.
func (c *Client) wait(ctx context.Context, cl *call) (json.RawMessage, error) {
	for {
		select {
		case <-cl.wake:
		case <-ctx.Done():
			return nil, c.abandon(ctx, cl)
		}
		events, done, result, err := cl.take()
		for _, e := range events {
			switch {
			case e.log && cl.req.Log != nil:
				cl.req.Log(e.params)
			case !e.log && cl.req.Progress != nil:
				cl.req.Progress(e.params)
			}
		}
		if done {
			return result, err
		}
	}
}

// enter gives a call its id and a place among those in flight.
func (c *Client) enter(cl *call) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed != nil {
		return lost(cl.req.Method, false, c.closed)
	}
	if len(c.calls) >= maxInFlight {
		return mark(tool.Errorf(tool.QueueFull, "%d calls wait for this server's answer", len(c.calls)).WithHint("Wait until some have ended."), false)
	}
	c.lastID++
	cl.id = c.lastID
	c.calls[cl.id] = cl
	return nil
}

// leave takes a call out of those in flight; false if it is not there any more.
func (c *Client) leave(cl *call, shaded bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls[cl.id] != cl {
		return false
	}
	delete(c.calls, cl.id)
	if shaded && len(c.shadows) < maxInFlight {
		c.shadows[cl.id] = shadow{cl.client, cl.own(), time.Now().Add(shadowTime)}
	}
	return true
}

// abandon ends a call whose caller has gone.
func (c *Client) abandon(ctx context.Context, cl *call) error {
	unseen := cl.state.CompareAndSwap(queued, abandoned)
	there := c.leave(cl, !unseen)
	err := ended(ctx, cl.req.Method, !unseen)
	cl.finish(nil, err)
	if cl.cancel != nil {
		cl.cancel()
	}
	if there && !unseen && !handshake(cl.req.Method) && !(c.http() && c.Stateless()) {
		reason := json.RawMessage(fmt.Sprintf(`{"requestId":%d,"reason":%s}`, cl.id, appendText(nil, err.Message)))
		c.spawn(func() {
			ctx, cancel := context.WithTimeout(c.ctx, closeTimeout)
			defer cancel()
			_ = c.Notify(ctx, "notifications/cancelled", reason)
		})
	}
	return err
}

// Notify sends a notification.
func (c *Client) Notify(ctx context.Context, method string, params json.RawMessage) error {
	if err := c.broken(); err != nil {
		return lost(method, false, err)
	}
	data, err := appendRequest(nil, 0, method, params, nil, nil)
	if err != nil {
		return err
	}
	var head http.Header
	if c.http() && c.Stateless() {
		if head, err = standardHeaders(nil, c.Version(), &Request{Method: method}); err != nil {
			return err
		}
	}
	return c.t.post(ctx, data, head)
}

// broken is why the connection ended; nil while it stands.
func (c *Client) broken() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// spawn runs f on a goroutine that Close waits for; false if the connection has
// ended.
func (c *Client) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed != nil {
		return false
	}
	c.tasks.Go(f)
	return true
}

// fail ends the connection because it was lost.
func (c *Client) fail(why error) {
	if c.end(why) {
		c.t.close()
		c.mu.Lock()
		tell := c.ready && !c.closing
		c.mu.Unlock()
		if c.conf.Closed != nil && tell {
			go c.conf.Closed(lost("the connection", true, why))
		}
	}
}

// end tells all who wait that the connection has ended; false if it had before.
func (c *Client) end(why error) bool {
	c.mu.Lock()
	if c.closed != nil {
		c.mu.Unlock()
		return false
	}
	c.closed = why
	calls := slices.Collect(maps.Values(c.calls))
	clear(c.calls)
	clear(c.shadows)
	c.mu.Unlock()
	for _, cl := range calls {
		cl.state.CompareAndSwap(queued, abandoned)
		cl.finish(nil, lost(cl.req.Method, cl.wasSent(), why))
		if cl.cancel != nil {
			cl.cancel()
		}
	}
	c.cancel()
	return true
}

// Close ends the connection and waits for what it has started. Calls in flight
// fail. It may be called more than once.
func (c *Client) Close() error {
	c.mu.Lock()
	first := !c.closing && c.closed == nil
	c.closing = true
	c.mu.Unlock()
	if g, ok := c.t.(interface{ goodbye() }); ok && first {
		g.goodbye()
	}
	c.end(errClosed)
	if c.t != nil {
		c.t.close()
	}
	c.tasks.Wait()
	return nil
}

// bad counts and logs, but not without end, what is no message.
func (c *Client) bad(data []byte, why error) {
	n := c.garbage.Add(1)
	if n <= 10 || n%1000 == 0 {
		c.log.Warn("the server sent what is no message", "why", why, "text", string(bytes.ToValidUTF8(data[:min(len(data), 200)], []byte("?"))), "count", n)
	}
}
