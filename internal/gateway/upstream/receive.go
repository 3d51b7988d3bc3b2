package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/toolyard/toolyard/tool"
)

// receive takes a message of the server. data is ours. origin is the call on
// whose own stream it came, or nil. It reports whether it was a message.
func (c *Client) receive(data []byte, origin *call) bool {
	data = clean(data)
	if i := space(data, 0); i < len(data) && data[i] == '[' { // a batch, as 2025-03-26 allows
		if end := array(data, i, 0, nil); end < 0 || space(data, end) != len(data) {
			c.bad(data, errJSON)
			return false
		}
		ok := false
		array(data, i, 0, func(start, end int) {
			ok = c.receiveOne(data[start:end:end], origin) || ok
		})
		return ok
	}
	return c.receiveOne(data, origin)
}

func (c *Client) receiveOne(data []byte, origin *call) bool {
	m, err := parse(data)
	switch {
	case err != nil:
		c.bad(data, err)
		return false
	case m.method == "":
		c.answered(&m)
	case m.id != nil:
		c.requested(&m, origin)
	default:
		c.notified(&m, origin)
	}
	return true
}

// answered hands an answer to its call.
func (c *Client) answered(m *message) {
	id, ok := number(m.id)
	c.mu.Lock()
	cl := c.calls[id]
	if cl != nil {
		delete(c.calls, id)
	}
	_, late := c.shadows[id]
	delete(c.shadows, id)
	c.mu.Unlock()
	if !ok || cl == nil {
		if late {
			return
		}
		if n := c.unknown.Add(1); n <= 10 || n%1000 == 0 {
			c.log.Warn("the server answered what was not asked", "id", string(m.id[:min(len(m.id), 40)]), "count", n)
		}
		return
	}
	if m.err != nil {
		cl.finish(nil, wireError(m.err))
		return
	}
	cl.finish(m.result, nil)
}

// notified hands a notification to whom it is for.
func (c *Client) notified(m *message, origin *call) {
	switch m.method {
	case "notifications/progress":
		if cl := c.progressing(m.params); cl != nil {
			c.dropped.Add(cl.tell(callEvent{params: m.params}))
		}
	case "notifications/message":
		if origin == nil {
			origin = c.only()
		}
		if origin != nil && origin.req.Log != nil {
			c.dropped.Add(origin.tell(callEvent{log: true, params: m.params}))
			return
		}
		c.note(m.method, m.params)
	case "notifications/cancelled":
		id := member(m.params, "requestId")
		c.mu.Lock()
		stop := c.asked[string(id)]
		c.mu.Unlock()
		if stop != nil {
			stop()
		}
	case "notifications/subscriptions/acknowledged":
		c.acknowledged(m.params, origin)
	default:
		c.note(m.method, withoutSubscription(m.params))
	}
}

// progressing is the call whose progress params tell of; nil if none wants it.
func (c *Client) progressing(params json.RawMessage) *call {
	id, ok := number(member(params, metaProgress))
	if !ok {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if cl := c.calls[id]; cl != nil && cl.req.Progress != nil {
		return cl
	}
	return nil
}

// only is the call that a message of the log is of, if it can be but one: all
// that is done for anybody.
func (c *Client) only() (found *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cl := range c.calls {
		if cl.req.Log == nil && cl.req.Client == nil {
			continue // one of the gateway's own
		}
		if found != nil {
			return nil
		}
		found = cl
	}
	return found
}

// askable is the call to which a question belongs that came beside the calls:
// the newest, if all that are in flight for somebody are of one client. A
// question must never reach another.
func (c *Client) askable() (found *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var client any
	count, mixed := 0, false
	add := func(of any) {
		if count > 0 && (client == nil || of != client) {
			mixed = true
		}
		client = of
		count++
	}
	for _, cl := range c.calls {
		if cl.own() {
			continue
		}
		add(cl.client)
		if cl.req.Ask != nil && (found == nil || cl.id > found.id) {
			found = cl
		}
	}
	now := time.Now()
	for id, s := range c.shadows {
		if now.After(s.until) {
			delete(c.shadows, id)
			continue
		}
		if s.own {
			continue
		}
		add(s.client)
	}
	if mixed {
		return nil
	}
	return found
}

// requested answers a request of the server, on a goroutine of its own.
func (c *Client) requested(m *message, origin *call) {
	id, method, params := m.id, m.method, m.params
	if method == "ping" {
		c.reply(answer(id, json.RawMessage("{}"), nil))
		return
	}
	if origin == nil && !c.Stateless() {
		origin = c.askable()
	}
	parent, ask := c.ctx, c.conf.Request
	if origin != nil && origin.req.Ask != nil {
		ctx, open := origin.asked(c.ctx)
		if open {
			parent, ask = ctx, origin.req.Ask
		}
	}
	if ask == nil {
		c.reply(answer(id, nil, &Error{Code: CodeMethodNotFound, Message: method + " is not supported"}))
		return
	}
	select {
	case c.asks <- struct{}{}:
	default:
		c.reply(answer(id, nil, &Error{Code: CodeBusy, Message: "too many requests of this server wait for an answer"}))
		return
	}
	ctx, cancel := context.WithCancel(parent)
	key := string(id)
	c.mu.Lock()
	_, twice := c.asked[key]
	if !twice {
		c.asked[key] = cancel
	}
	c.mu.Unlock()
	if twice {
		cancel()
		<-c.asks
		c.reply(answer(id, nil, &Error{Code: CodeInvalidRequest, Message: "another request has this id"}))
		return
	}
	done := func() {
		cancel()
		c.mu.Lock()
		delete(c.asked, key)
		c.mu.Unlock()
		<-c.asks
	}
	if !c.spawn(func() {
		defer done()
		result, e := ask(ctx, method, params)
		if ctx.Err() != nil && parent.Err() == nil {
			return // the server took its question back
		}
		if e == nil && len(bytes.TrimSpace(result)) == 0 {
			result = json.RawMessage("{}")
		}
		c.send(answer(id, result, e))
	}) {
		done()
	}
}

// reply sends a short answer without keeping whoever reads waiting. There are as
// many places for it as for questions: a server that asks without end and reads
// nothing gets no more answers.
func (c *Client) reply(data []byte) {
	select {
	case c.asks <- struct{}{}:
	default:
		c.dropped.Add(1)
		return
	}
	if !c.spawn(func() {
		defer func() { <-c.asks }()
		c.send(data)
	}) {
		<-c.asks
	}
}

func (c *Client) send(data []byte) {
	ctx, cancel := context.WithTimeout(c.ctx, handshakeTimeout)
	defer cancel()
	if err := c.t.post(ctx, data, nil); err != nil && c.ctx.Err() == nil {
		c.log.Warn("an answer did not reach the server", "error", err)
	}
}

// long is what remains of a message above the bound.
type long struct {
	head, tail []byte
	size       int64
}

var errUnknownLong = errors.New("it sent a message above the bound that answers nobody knows what")

// tooLong fails the call whose answer was above the bound. The error is not nil
// if that call cannot be found, so that nobody waits for what was thrown away.
// known says that it was a message.
func (c *Client) tooLong(l *long, origin *call) (known bool, err error) {
	c.oversize.Add(1)
	c.log.Warn("a message of the server was too long", "bytes", l.size, "bound", c.conf.MaxMessage)
	id, method := headID(l.head)
	if id == 0 && !method {
		id, _ = tailID(l.tail)
	}
	c.mu.Lock()
	cl := c.calls[id]
	delete(c.calls, id)
	c.mu.Unlock()
	if cl == nil && !method && origin != nil && c.leave(origin, false) {
		cl = origin
	}
	switch {
	case cl != nil:
		cl.finish(nil, mark(tool.Errorf(tool.ResourceExhausted, "the server's answer to %s is longer than %d bytes", cl.req.Method, c.conf.MaxMessage).
			WithHint("Ask for less at a time. The server has done what was asked."), true))
	case method || id != 0:
	case space(l.head, 0) < len(l.head) && l.head[space(l.head, 0)] == '{':
		return false, errUnknownLong
	default:
		c.bad(l.head, errJSON)
		return false, nil
	}
	return true, nil
}
