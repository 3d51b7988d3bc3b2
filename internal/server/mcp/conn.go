package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolyard/toolyard/internal/server/auth"
)

// messages is how the messages of one client travel: lines, or frames of a
// WebSocket.
type messages interface {
	// next gives the next message, in memory of its own, and whether the client had
	// sent another one by then. With errFrameTooLong it gives the first bytes of one
	// that was skipped; after any other error there is no next. It is called from
	// one goroutine.
	next() (message []byte, more bool, err error)
	// write sends a message and keeps nothing of it. It is safe for concurrent use.
	// An error means that the client cannot be written to any more.
	write(message []byte) error
	// offer is write for a message that may be lost, such as progress: where it can,
	// it loses it rather than wait for a client that reads slowly.
	offer(message []byte) error
	// failure is why writing has ended; nil if it has not.
	failure() error
	// close ends the stream, and with it next where that is possible. The cause is
	// nil where the client has closed its end.
	close(cause error)
}

// serving is one client and how it is served.
type serving struct {
	name     string // of the transport, for errors
	session  string
	messages messages
	limit    int           // bytes of a message
	grace    time.Duration // answers are still written after the client has closed its end
	// caller is who opened the connection, and principal stands for that caller: see
	// session. Nil is the owner.
	caller    *auth.Caller
	principal string
	last      func() // called when the client has sent all that it will; may be nil
	// drain is done when no more requests are wanted: those that run are answered,
	// and then the connection is ended. Nil means never.
	drain <-chan struct{}
	view  *view // the client's own; nil if it has none
}

// errStopping is the cause of connections that end because the server stops.
var errStopping = errors.New("the server is stopping")

// serve serves one client. It returns when the client has closed its end, cannot
// be written to, or ctx is done; the calls still running are then cancelled and
// waited for, at most drainLimit.
func (s *Server) serve(ctx context.Context, o serving) error {
	connCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	c := &connection{
		serving:   o,
		server:    s,
		sess:      newSession(o.session, s.defaultWorkspace(), s.config.Now()),
		ctx:       connCtx,
		incoming:  make(chan jsonrpc.Message),
		connected: make(chan struct{}),
		ended:     make(chan struct{}),
		closed:    make(chan struct{}),
		initDone:  make(chan struct{}),
		forwarded: map[string]*batch{},
		work:      make(chan inboundCall),
	}
	c.sess.caller, c.sess.principal = o.caller, owned(o.principal)
	ss, err := s.sdk.Connect(connCtx, c, nil)
	if err != nil {
		return err
	}
	c.sess.ss, c.sess.conn = ss, c
	if o.view != nil {
		c.sess.view.Store(o.view)
	}
	s.attach(c.sess)
	close(c.connected)
	go c.read() // ends with the stream, or with the process if it cannot be closed

	cause := c.wait(ctx)
	c.shut(cause)
	s.detach(c.sess)
	s.ended(c.sess)
	if cause == nil || errors.Is(cause, io.EOF) || errors.Is(cause, errStopping) || ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("mcp over %s: %w", o.name, cause)
}

// wait waits for the end and tells its cause.
func (c *connection) wait(ctx context.Context) error {
	drain := c.drain
	var idle <-chan struct{}
	for {
		select {
		case <-c.ended:
			return c.readErr
		case <-c.closed:
			return c.messages.failure()
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-drain:
			c.stopping.Store(true)
			drain, idle = nil, c.open.zero()
		case <-idle:
			return errStopping
		}
	}
}

// shut lets what is nearly done finish, cancels the rest and waits for it.
func (c *connection) shut(cause error) {
	if c.last != nil {
		c.last()
	}
	if c.grace > 0 {
		after := time.NewTimer(c.grace)
		defer after.Stop()
		select {
		case <-c.open.zero():
		case <-c.closed:
		case <-after.C:
		}
	}
	c.mu.Lock()
	c.shutting = true
	c.mu.Unlock()
	c.sess.cancelAll()
	c.Close()
	done := make(chan struct{})
	go func() {
		c.calls.Wait()
		_ = c.sess.ss.Close()
		close(done)
	}()
	limit := time.NewTimer(drainLimit)
	defer limit.Stop()
	select {
	case <-done:
	case <-limit.C:
		c.server.config.Log.Warn("calls did not end after their client had gone", "calls", c.sess.inFlight())
	}
	c.messages.close(cause)
}

// connection is one client that is served. It is the SDK's transport for it, and
// takes tools/call out of the stream for itself, and the answers to what it
// asked the client.
type connection struct {
	serving
	server *Server
	sess   *session
	ctx    context.Context // of the connection; its calls descend from it

	incoming  chan jsonrpc.Message // to the SDK
	connected chan struct{}        // closed when sess is complete
	ended     chan struct{}        // closed when the client's end is closed
	readErr   error                // why; written before ended is closed
	closed    chan struct{}
	closing   sync.Once
	calls     sync.WaitGroup   // goroutines that run our own tools/call
	work      chan inboundCall // to those of them that wait
	idle      atomic.Int32     // how many wait
	// more says that the client had sent another message already when the one
	// before was read, pipelined that this holds for the current one or the one
	// before. Only read and what it calls touch them.
	more, pipelined bool
	open            tally       // requests that have no answer yet
	stopping        atomic.Bool // no more requests are taken
	asked           asked

	mu        sync.Mutex
	shutting  bool          // no more goroutines are started for calls
	initID    string        // key of the initialize request
	initDone  chan struct{} // closed when initialize has been answered
	ready     bool          // it was answered well
	forwarded map[string]*batch
}

// Connect gives the connection itself to the SDK.
func (c *connection) Connect(context.Context) (sdk.Connection, error) { return c, nil }

// SessionID is empty: stdio has no ids of sessions.
func (c *connection) SessionID() string { return "" }

// Read gives the SDK the next message that is not ours.
func (c *connection) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case msg := <-c.incoming:
		return msg, nil
	case <-c.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close ends the connection towards the SDK.
func (c *connection) Close() error {
	c.closing.Do(func() { close(c.closed) })
	return nil
}

// Write sends a message of the SDK.
func (c *connection) Write(_ context.Context, msg jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(msg)
	response, ok := msg.(*jsonrpc.Response)
	if err != nil && ok {
		// An error here would make the SDK give the connection up.
		data, err = jsonrpc.EncodeMessage(&jsonrpc.Response{ID: response.ID,
			Error: &jsonrpc.Error{Code: codeInternal, Message: "the answer cannot be encoded: " + err.Error()}})
	}
	if err != nil {
		return fmt.Errorf("encoding a message: %w", err)
	}
	if !ok {
		return c.send(data)
	}
	key := keyOf(response.ID)
	c.mu.Lock()
	b, known := c.forwarded[key]
	delete(c.forwarded, key)
	if key == c.initID && c.initDone != nil {
		c.ready = response.Error == nil
		c.initID = ""
		close(c.initDone)
		if !c.ready {
			c.initDone = make(chan struct{}) // another initialize may come
		}
	}
	c.mu.Unlock()
	if known {
		defer c.open.add(-1)
	}
	return c.reply(b, data)
}

// read takes the client's messages until its end is closed.
func (c *connection) read() {
	<-c.connected
	for {
		message, more, err := c.messages.next()
		c.pipelined, c.more = c.more || more, more
		switch {
		case err == nil && c.over():
		case err == nil:
			c.take(message)
		case errors.Is(err, errFrameTooLong):
			c.fail(nil, looseID(message), &wireError{codeInvalidRequest, fmt.Sprintf(
				"the message is longer than %d bytes and was not read. Write large content in parts (write with mode append)", c.limit)})
		default:
			c.readErr = err
			close(c.ended)
			return
		}
	}
}

// over reports whether nothing that the client sends can be answered any more.
func (c *connection) over() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

// take handles one message.
func (c *connection) take(message []byte) {
	if value0(message) == '[' && json.Valid(message) && c.batches() {
		c.takeBatch(message)
		return
	}
	f, err := parseFrame(message)
	if err != nil {
		c.fail(nil, f.id, err)
		return
	}
	c.route(&f, nil)
}

// admitted reports whether the client may make a request now. If not it has been
// answered.
func (c *connection) admitted(f *frame, b *batch) bool {
	retry, err := c.caller.Again(c.ctx)
	switch {
	case err != nil:
		c.fail(b, f.id, &wireError{codeInvalidRequest, "the token does not hold any more: " + err.Error()})
	case retry > 0:
		c.fail(b, f.id, &wireError{codeBusy, fmt.Sprintf("too many requests; try again in %d s", int(retry.Seconds())+1)})
	default:
		return true
	}
	return false
}

// route decides who handles a message.
func (c *connection) route(f *frame, b *batch) {
	switch {
	case !f.call:
		if !c.asked.answer(f) {
			c.forwardResponse(f)
		}
	case f.method == "notifications/cancelled":
		if id := cancelledID(f.params); id == nil || !c.sess.cancel(idKey(id)) {
			c.toSDK(&jsonrpc.Request{Method: f.method, Params: f.params})
		}
	case f.id == nil:
		c.toSDK(&jsonrpc.Request{Method: f.method, Params: f.params})
	case c.stopping.Load():
		c.fail(b, f.id, &wireError{codeBusy, errStopping.Error()})
	case c.caller != nil && c.caller.Again != nil && !c.admitted(f, b):
	case f.method == "tools/call":
		c.takeCall(f, b)
	case c.server.isTaskMethod(f.method):
		c.takeTask(f, b)
	case c.takeListen(f, b):
	default:
		c.forward(f, b)
	}
}

// forward gives a request to the SDK.
func (c *connection) forward(f *frame, b *batch) {
	id, ok := sdkID(f.id)
	if !ok {
		c.fail(b, f.id, &wireError{codeInvalidRequest, "the request id is beyond 2^53"})
		return
	}
	key := idKey(f.id)
	c.mu.Lock()
	_, doubled := c.forwarded[key]
	early := !c.ready && c.initID == "" && needsInit(f)
	if !doubled && !early {
		c.forwarded[key] = b
		if f.method == "initialize" && !c.ready {
			c.initID = key
		}
	}
	c.mu.Unlock()
	switch {
	case doubled:
		c.fail(b, f.id, &wireError{codeInvalidRequest, "request id " + string(f.id) + " is already in use"})
	case early:
		c.fail(b, f.id, notInitialized(f.method))
	default:
		c.open.add(1)
		c.toSDK(&jsonrpc.Request{ID: id, Method: f.method, Params: f.params})
	}
}

// forwardResponse gives the SDK the client's answer to a request of ours.
func (c *connection) forwardResponse(f *frame) {
	id, ok := sdkID(f.id)
	if !ok {
		return // we never ask with such an id
	}
	r := &jsonrpc.Response{ID: id, Result: f.result}
	if f.err != nil {
		wire := &jsonrpc.Error{}
		if json.Unmarshal(f.err, wire) != nil {
			wire = &jsonrpc.Error{Code: codeInternal, Message: "the client answered with an error that is not one"}
		}
		r.Error = wire
	}
	c.toSDK(r)
}

func (c *connection) toSDK(msg jsonrpc.Message) {
	select {
	case c.incoming <- msg:
	case <-c.closed:
	}
}

// fail answers with an error.
func (c *connection) fail(b *batch, id json.RawMessage, err *wireError) {
	_ = c.reply(b, appendAnswer(nil, id, nil, err))
}

// send writes a message.
func (c *connection) send(message []byte) error { return c.sent(c.messages.write(message)) }

// offer writes a message that may be lost.
func (c *connection) offer(message []byte) error { return c.sent(c.messages.offer(message)) }

// sent takes the outcome of writing. A client that cannot be written to has gone.
func (c *connection) sent(err error) error {
	if err != nil {
		c.sess.cancelAll()
		c.Close()
	}
	return err
}

// needsInit reports whether a request may only come after initialize.
func needsInit(f *frame) bool {
	switch f.method {
	case "initialize", "ping", "server/discover":
		return false
	}
	return requestVersion(f.params) < versionStateless
}

func notInitialized(method string) *wireError {
	return &wireError{codeInvalidRequest, method + " came before initialize"}
}
