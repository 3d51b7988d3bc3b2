package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolyard/toolyard/internal/store"
)

const (
	methodListen       = "subscriptions/listen"
	methodAcknowledged = "notifications/subscriptions/acknowledged"
	methodTaskStatus   = "notifications/tasks"
	// maxWatched is how many tasks one stream may follow.
	maxWatched = 200
	// codeHeaderMismatch is the JSON-RPC error of headers that contradict the body
	// (SEP-2243).
	codeHeaderMismatch = -32020
)

// status is the HTTP status of an answer in the stateless era (SEP-2575).
func (e *wireError) status() int {
	switch {
	case e == nil:
		return http.StatusOK
	case e.code == codeInvalidParams, e.code == codeMissingCapability, e.code == codeHeaderMismatch:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// postTask answers tasks/get, tasks/update and tasks/cancel of a stateless client.
func (h *httpHandler) postTask(w http.ResponseWriter, r *http.Request, f *frame) {
	p, wire := parseTask(f.method, f.params)
	switch {
	case !h.inOrder(r, &p.callParams):
		h.stateless.ServeHTTP(w, r) // refuses it
		return
	case r.Header.Get(headerMethod) != f.method:
		wire = &wireError{codeHeaderMismatch, headerMethod + " is not the method of the request"}
	case wire == nil && headerText(r.Header.Get(headerName)) != p.id:
		wire = &wireError{codeHeaderMismatch, headerName + " is not the taskId of the request"}
	}
	if wire != nil {
		refuse(w, wire.status(), f.id, wire)
		return
	}
	p.principal = principal(r.Header)
	sess := h.server.statelessSession(&p.callParams, p.principal)
	encode, wire := h.server.taskRequest(r.Context(), sess, f.method, &p)
	answer := &httpAnswer{w: w, buffers: &h.server.buffers}
	answer.finish(wire.status(), f.id, encode, wire)
}

// inOrder reports whether version, capabilities and Accept are as they must be.
func (h *httpHandler) inOrder(r *http.Request, p *callParams) bool {
	return r.Header.Get(headerVersion) == versionStateless && p.version == versionStateless && p.capabilities && !p.badClient && accepts(r)
}

// takeTask answers such a request on a connection.
func (c *connection) takeTask(f *frame, b *batch) {
	p, wire := parseTask(f.method, f.params)
	if wire != nil {
		c.fail(b, f.id, wire)
		return
	}
	if p.version >= versionStateless && (p.version != versionStateless || !p.capabilities || p.badClient) {
		c.forward(f, b) // the SDK refuses it
		return
	}
	c.mu.Lock()
	ready := c.ready
	c.mu.Unlock()
	if p.version == "" && !ready {
		c.fail(b, f.id, notInitialized(f.method))
		return
	}
	c.open.add(1)
	c.calls.Go(func() {
		defer c.open.add(-1)
		encode, wire := c.server.taskRequest(c.ctx, c.sess, f.method, &p)
		_ = c.reply(b, appendAnswer(nil, f.id, encode, wire))
	})
}

// takeListen serves a stream of tasks on a connection, until the client cancels
// its request; false if the request is for something else.
func (c *connection) takeListen(f *frame, b *batch) bool {
	ids := listenedTasks(f.params)
	if f.method != methodListen || f.id == nil || len(ids) == 0 || c.server.config.Tasks == nil {
		return false
	}
	p, wire := parseTask(f.method, f.params)
	if wire != nil || p.version != versionStateless || !p.capabilities || p.badClient {
		return false // the SDK refuses it
	}
	if !parseAbilities(p.able).tasks {
		data, wire := requiredCapability(f.method + " of tasks")
		_ = c.reply(b, appendAnswer(nil, f.id, data, wire))
		return true
	}
	key := idKey(f.id)
	ctx, cancel, wire := c.sess.begin(c.ctx, key)
	if wire != nil {
		c.fail(b, f.id, wire)
		return true
	}
	c.calls.Go(func() {
		defer cancel(nil)
		watch := c.server.watchTasks(ctx, c.sess, &p.callParams, f.id, ids)
		defer c.server.unwatchTasks(watch)
		defer context.AfterFunc(c.server.streams, func() { cancel(errGone) })()
		watch.run(ctx, func(message []byte) { _ = c.send(message) })
		c.sess.end(key)
		if errors.Is(context.Cause(ctx), errCancelled) {
			_ = c.reply(b, nil)
			return
		}
		_ = c.reply(b, appendAnswer(nil, f.id, watch.ended, nil))
	})
	return true
}

// listenedTasks are the tasks that a subscriptions/listen asks for; nil if it asks
// for anything else too, which is the SDK's then, and the tasks are not agreed to.
func listenedTasks(params json.RawMessage) (ids []string) {
	_ = eachMember(params, func(key string, value []byte) error {
		if key != "notifications" {
			return nil
		}
		return eachMember(value, func(key string, value []byte) error {
			var listed []string
			if key != "taskIds" || json.Unmarshal(value, &listed) != nil {
				ids = nil
				return errNotObject // ends it
			}
			ids = listed
			return nil
		})
	})
	return ids[:min(len(ids), maxWatched)]
}

// taskWatch is a stream that follows tasks.
type taskWatch struct {
	subscription json.RawMessage // the id of its request
	ids          []string
	wake         chan struct{} // has room for one

	mu      sync.Mutex
	pending map[string][]byte // the last state of each that has not been told
}

// watchTasks begins to follow those of ids that are tasks of sess.
func (s *Server) watchTasks(ctx context.Context, sess *session, p *callParams, subscription json.RawMessage, ids []string) *taskWatch {
	w := &taskWatch{subscription: subscription, wake: make(chan struct{}, 1), pending: map[string][]byte{}}
	for _, id := range ids {
		if _, _, wire := s.findTask(ctx, sess, &taskParams{callParams: *p, id: id}); wire == nil && !slices.Contains(w.ids, id) {
			w.ids = append(w.ids, id)
		}
	}
	s.operations.mu.Lock()
	for _, id := range w.ids {
		s.operations.watching[id] = append(s.operations.watching[id], w)
	}
	s.operations.mu.Unlock()
	// What has changed meanwhile, and what it is now.
	for _, id := range w.ids {
		op, row, wire := s.findTask(ctx, sess, &taskParams{callParams: *p, id: id})
		if wire != nil {
			continue
		}
		var requests json.RawMessage
		if op != nil {
			op.mu.Lock()
			var asks map[string]*ask
			row, asks = op.taskNow()
			requests = appendRequestsOf(asks)
			op.mu.Unlock()
		}
		w.tell(row, requests)
	}
	return w
}

func (s *Server) unwatchTasks(w *taskWatch) {
	s.operations.mu.Lock()
	defer s.operations.mu.Unlock()
	for _, id := range w.ids {
		left := slices.DeleteFunc(s.operations.watching[id], func(o *taskWatch) bool { return o == w })
		if len(left) == 0 {
			delete(s.operations.watching, id)
		} else {
			s.operations.watching[id] = left
		}
	}
}

// tellTask tells the streams that follow a task how it is now.
func (s *Server) tellTask(row store.Task, requests json.RawMessage) {
	s.operations.mu.Lock()
	watching := slices.Clone(s.operations.watching[row.ID])
	s.operations.mu.Unlock()
	for _, w := range watching {
		w.tell(row, requests)
	}
}

// tell notes a state for the stream; what it has not sent yet of the task is
// overtaken.
func (w *taskWatch) tell(row store.Task, requests json.RawMessage) {
	b := append([]byte(`{"jsonrpc":"2.0","method":"`+methodTaskStatus+`","params":{"_meta":{"`+sdk.MetaKeySubscriptionID+`":`), w.subscription...)
	b = appendDetails(appendTask(append(b, '}'), row), row, requests)
	w.mu.Lock()
	w.pending[row.ID] = append(b, '}', '}')
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// acknowledged is the first message of the stream.
func (w *taskWatch) acknowledged() []byte {
	ids := w.ids
	if ids == nil {
		ids = []string{}
	}
	b := append([]byte(`{"jsonrpc":"2.0","method":"`+methodAcknowledged+`","params":{"_meta":{"`+sdk.MetaKeySubscriptionID+`":`), w.subscription...)
	return append(appendJSON(append(b, `},"notifications":{"taskIds":`...), ids), '}', '}', '}')
}

// ended is the answer to the request, where the server ends the stream.
func (w *taskWatch) ended(b []byte) []byte {
	b = append(b, `{"resultType":"complete","_meta":{"`+sdk.MetaKeySubscriptionID+`":`...)
	return append(append(b, w.subscription...), '}', '}')
}

// run sends what there is to tell until ctx is done.
func (w *taskWatch) run(ctx context.Context, send func([]byte)) {
	send(w.acknowledged())
	for {
		w.mu.Lock()
		now := w.pending
		w.pending = map[string][]byte{}
		w.mu.Unlock()
		for _, id := range slices.Sorted(maps.Keys(now)) {
			send(now[id])
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			return
		}
	}
}

// listenTasks serves a stream of a stateless client that follows tasks, until the
// client closes it or the server stops.
func (h *httpHandler) listenTasks(w http.ResponseWriter, r *http.Request, f *frame, ids []string) {
	p, wire := parseTask(f.method, f.params)
	switch {
	case wire != nil || f.id == nil || !h.inOrder(r, &p.callParams) || r.Header.Get(headerMethod) != f.method:
		h.listen(h.stateless, w, r) // refuses it
		return
	case !parseAbilities(p.able).tasks:
		data, wire := requiredCapability(f.method + " of tasks")
		(&httpAnswer{w: w, buffers: &h.server.buffers}).finish(wire.status(), f.id, data, wire)
		return
	}
	p.principal = principal(r.Header)
	sess := h.server.statelessSession(&p.callParams, p.principal)
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer sess.hold(cancel)()
	defer context.AfterFunc(h.server.streams, func() { cancel(errGone) })()
	watch := h.server.watchTasks(ctx, sess, &p.callParams, f.id, ids)
	defer h.server.unwatchTasks(watch)
	answer := &httpAnswer{w: w, buffers: &h.server.buffers}
	watch.run(ctx, answer.send)
	if r.Context().Err() == nil {
		answer.finish(http.StatusOK, f.id, watch.ended, nil)
	}
}
