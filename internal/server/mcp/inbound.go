package mcp

import (
	"context"
	"encoding/json"
	"errors"
)

// takeCall runs a tools/call beside the SDK, unless something about it is for
// the SDK to refuse.
func (c *connection) takeCall(f *frame, b *batch) {
	p, err := parseCall(f.params)
	if err != nil {
		c.fail(b, f.id, err)
		return
	}
	p.concurrent = c.pipelined || b != nil
	stateless := p.version >= versionStateless
	if stateless && (p.version != versionStateless || !p.capabilities || p.badClient) {
		c.forward(f, b)
		return
	}
	c.mu.Lock()
	ready, answered, asked := c.ready, c.initDone, c.initID != ""
	_, doubled := c.forwarded[idKey(f.id)]
	c.mu.Unlock()
	switch {
	case doubled:
		c.fail(b, f.id, &wireError{codeInvalidRequest, "request id " + string(f.id) + " is already in use"})
		return
	case !stateless && !ready && !asked:
		c.fail(b, f.id, notInitialized(f.method))
		return
	}
	key := idKey(f.id)
	ctx, cancel, err := c.sess.begin(c.ctx, key)
	if err != nil {
		c.fail(b, f.id, err)
		return
	}
	if stateless {
		c.sess.name(p.client)
	}
	c.open.add(1)
	if stateless || ready {
		answered = nil
	}
	c.start(inboundCall{ctx: ctx, cancel: cancel, key: key, id: f.id, params: p, batch: b, after: answered})
}

// inboundCall is a tools/call that is to be run.
type inboundCall struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	key    string
	id     json.RawMessage
	params callParams
	batch  *batch
	after  <-chan struct{} // the answer to initialize, if that is to be waited for
}

// maxIdle is how many goroutines of one connection wait for the next call.
const maxIdle = 64

// start runs a call in a goroutine that waits for one, or in a new one: to grow
// a new stack for each costs a tenth of a call. There are as many as calls in
// flight, at most maxInFlight.
func (c *connection) start(call inboundCall) {
	select {
	case c.work <- call:
	default:
		if !c.launch(call) {
			c.sess.end(call.key)
			c.open.add(-1)
		}
	}
}

// launch starts a goroutine for calls, unless they are being waited for already.
func (c *connection) launch(call inboundCall) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shutting {
		return false
	}
	c.calls.Go(func() { c.serve(call) })
	return true
}

// serve runs a call and those that come after it, until the connection is
// closed or enough others wait.
func (c *connection) serve(call inboundCall) {
	for {
		c.run(&call)
		call = inboundCall{}
		if c.idle.Add(1) > maxIdle {
			c.idle.Add(-1)
			return
		}
		select {
		case call = <-c.work:
			c.idle.Add(-1)
		case <-c.closed:
			return
		}
	}
}

// run runs one call once the client may make it.
func (c *connection) run(call *inboundCall) {
	defer c.open.add(-1)
	defer call.cancel(nil)
	if call.after != nil && !c.awaitInit(call.ctx, call.after) {
		c.sess.end(call.key)
		c.fail(call.batch, call.id, notInitialized("tools/call"))
		return
	}
	c.call(call.ctx, call.key, call.id, &call.params, call.batch)
}

// awaitInit waits for the answer to an initialize that is under way and reports
// whether it went well.
func (c *connection) awaitInit(ctx context.Context, answered <-chan struct{}) bool {
	select {
	case <-answered:
	case <-ctx.Done():
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ready
}

// call runs a tools/call and answers it, unless the client has cancelled it.
func (c *connection) call(ctx context.Context, key string, id json.RawMessage, p *callParams, b *batch) {
	encode, err := c.server.run(ctx, c.sess, p, channel{notify: c.notify, request: c.request})
	cancelled := errors.Is(context.Cause(ctx), errCancelled)
	c.sess.end(key)
	if cancelled {
		_ = c.reply(b, nil)
		return
	}
	buf := c.server.buffers.get()
	*buf = appendAnswer((*buf)[:0], id, encode, err)
	_ = c.reply(b, *buf)
	c.server.buffers.put(buf)
}

// notify sends a notification.
func (c *connection) notify(method string, params []byte) {
	message := append([]byte(`{"jsonrpc":"2.0","method":"`), method...)
	message = append(append(message, `","params":`...), params...)
	_ = c.offer(append(message, '}')) // a client that is gone is noticed there
}
