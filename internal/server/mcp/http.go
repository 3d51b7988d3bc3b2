package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/google/jsonschema-go/jsonschema"
)

// Headers of streamable HTTP.
const (
	headerVersion = "Mcp-Protocol-Version"
	headerSession = "Mcp-Session-Id"
	headerMethod  = "Mcp-Method"
	headerName    = "Mcp-Name"
	headerParam   = "Mcp-Param-"
)

// maxReplay bounds the events kept for clients that resume a stream, in bytes.
const maxReplay = 16 << 20

// writeLimit is how long a client may take to read what it is sent.
const writeLimit = 30 * time.Second

// maxAtOnce is how much memory a request gets because it says that it is so long.
const maxAtOnce = 4 << 10

// HTTPOptions change the HTTP handler. The zero value is usable.
type HTTPOptions struct {
	// MaxBody bounds a request's body. Zero means 20 MiB.
	MaxBody int64
}

// Handler serves streamable HTTP of both eras on one URL. Who may call, and
// from which origin, is decided in front of it.
func (s *Server) Handler(o HTTPOptions) http.Handler {
	if o.MaxBody == 0 {
		o.MaxBody = maxFrame
	}
	events := sdk.NewMemoryEventStore(nil)
	events.SetMaxBytes(maxReplay)
	server := func(*http.Request) *sdk.Server { return s.sdk }
	options := func(stateless, json bool) *sdk.StreamableHTTPOptions {
		o := &sdk.StreamableHTTPOptions{
			Stateless: stateless, JSONResponse: json, MaxRequestBodyBytes: o.MaxBody, Logger: s.config.Log,
			DisableLocalhostProtection: true, PropagateRequestCancellation: true,
		}
		if !stateless {
			o.EventStore = events
		}
		return o
	}
	return &httpHandler{
		server:    s,
		maxBody:   o.MaxBody,
		sessions:  s.withView(sdk.NewStreamableHTTPHandler(server, options(false, false))),
		stateless: s.withView(sdk.NewStreamableHTTPHandler(server, options(true, true))),
		streaming: s.withView(sdk.NewStreamableHTTPHandler(server, options(true, false))),
	}
}

// httpHandler routes a request to the era that it is of.
type httpHandler struct {
	server  *Server
	maxBody int64

	sessions  http.Handler // 2024-11-05 to 2025-11-25
	stateless http.Handler // 2026-07-28, answers are JSON
	streaming http.Handler // 2026-07-28, answers are event streams
}

func (h *httpHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.server.callers.note(r)
	if sess := h.session(r); sess != nil && sess.foreign(r) {
		refuse(w, http.StatusNotFound, nil, &wireError{codeInvalidRequest, "there is no such session"})
		return
	}
	r, ok := h.server.viewing(w, r)
	if !ok {
		return
	}
	if r.Method == http.MethodPost {
		h.post(w, r)
		return
	}
	if r.Header.Get(headerVersion) >= versionStateless {
		h.stateless.ServeHTTP(w, r)
		return
	}
	sess := h.session(r)
	if sess == nil {
		h.sessions.ServeHTTP(w, r)
		return
	}
	sess.touch()
	if r.Method == http.MethodDelete {
		sess.cancelAll()
		h.sessions.ServeHTTP(w, r)
		return
	}
	// An open stream keeps its session alive, and ends with it.
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer sess.hold(cancel)()
	defer sess.touch()
	h.listen(h.sessions, w, r.WithContext(ctx))
}

// listen serves a stream that ends when the server begins to stop.
func (h *httpHandler) listen(next http.Handler, w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(h.server.streams, cancel)()
	next.ServeHTTP(w, r.WithContext(ctx))
}

// session is the session that a request names; nil if it names none that is
// open.
func (h *httpHandler) session(r *http.Request) *session {
	id := r.Header.Get(headerSession)
	if id == "" {
		return nil
	}
	h.server.mu.Lock()
	defer h.server.mu.Unlock()
	return h.server.http[id]
}

func (h *httpHandler) post(w http.ResponseWriter, r *http.Request) {
	body, err := h.body(w, r)
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		refuse(w, http.StatusRequestEntityTooLarge, nil, &wireError{codeInvalidRequest, tooLong.Error()})
		return
	case err != nil:
		refuse(w, http.StatusBadRequest, nil, &wireError{codeParse, "the body cannot be read"})
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	if !isJSON(r.Header.Get("Content-Type")) {
		h.sessions.ServeHTTP(w, r) // refuses it
		return
	}
	if value0(body) == '[' && json.Valid(body) {
		h.postSession(w, r, nil)
		return
	}
	f, wire := parseFrame(body)
	if wire != nil {
		refuse(w, http.StatusBadRequest, f.id, wire)
		return
	}
	header := r.Header.Get(headerVersion)
	if header >= versionStateless || r.Header.Get(headerMethod) != "" && header == "" || requestVersion(f.params) >= versionStateless {
		h.postStateless(w, r, &f)
		return
	}
	h.postSession(w, r, &f)
}

// body reads a request to its end: what takes its deadline off waits for that.
func (h *httpHandler) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength <= 0 || r.ContentLength > min(h.maxBody, maxAtOnce) {
		return io.ReadAll(http.MaxBytesReader(w, r.Body, h.maxBody))
	}
	body := make([]byte, r.ContentLength+1) // the end comes before it is full
	n, err := io.ReadFull(r.Body, body)
	if int64(n) == r.ContentLength && errors.Is(err, io.ErrUnexpectedEOF) {
		return body[:n:n], nil
	}
	return nil, errors.Join(errors.New("the body is not as long as it says"), err)
}

// postStateless answers a request of 2026-07-28.
func (h *httpHandler) postStateless(w http.ResponseWriter, r *http.Request, f *frame) {
	switch {
	case h.server.isTaskMethod(f.method) && f.id != nil:
		h.postTask(w, r, f)
		return
	case f.method == methodListen:
		if ids := listenedTasks(f.params); len(ids) > 0 && h.server.config.Tasks != nil {
			h.listenTasks(w, r, f, ids)
			return
		}
		h.listen(h.stateless, w, r)
		return
	case f.method != "tools/call" || f.id == nil:
		h.stateless.ServeHTTP(w, r)
		return
	}
	p, wire := parseCall(f.params)
	if wire != nil || !h.plain(r, &p) {
		if p.token != nil {
			h.streaming.ServeHTTP(w, r)
		} else {
			h.stateless.ServeHTTP(w, r)
		}
		return
	}
	p.principal, p.view = principal(r.Header), viewOf(r)
	sess := h.server.statelessSession(&p, p.principal)
	defer sess.post(&p)()
	answer := &httpAnswer{w: w, buffers: &h.server.buffers}
	ch := channel{}
	if p.token != nil || p.logLevel != "" {
		ch.notify = answer.notify
	}
	encode, wire := h.server.run(r.Context(), sess, &p, ch)
	answer.finish(wire.status(), f.id, encode, wire)
}

// plain reports whether nothing about a tools/call needs the SDK's checks: all
// headers agree with the body, and the client is as it should be.
func (h *httpHandler) plain(r *http.Request, p *callParams) bool {
	if r.Header.Get(headerVersion) != versionStateless || p.version != versionStateless ||
		r.Header.Get(headerMethod) != "tools/call" || r.Header.Get(headerName) != p.name ||
		!p.capabilities || p.badClient || !accepts(r) {
		return false
	}
	for key := range r.Header {
		if strings.HasPrefix(key, headerParam) {
			return false
		}
	}
	o := h.server.tool(p.name)
	return o == nil || !o.paramHeaders
}

// postSession answers a request of a session. f is nil for a batch.
func (h *httpHandler) postSession(w http.ResponseWriter, r *http.Request, f *frame) {
	sess := h.session(r)
	if sess != nil {
		sess.touch()
	}
	switch {
	case f == nil:
	case r.Header.Get(headerSession) == "" && f.request() && f.method != "initialize" && f.method != "server/discover":
		refuse(w, http.StatusBadRequest, f.id, &wireError{codeInvalidRequest,
			f.method + " without " + headerSession + ": send initialize first"})
		return
	case f.method == "initialize" && r.Header.Get(headerSession) == "" && h.full():
		w.Header().Set("Retry-After", "60")
		refuse(w, http.StatusServiceUnavailable, f.id, &wireError{codeBusy, "too many sessions are open"})
		return
	case f.method == "notifications/cancelled" && sess != nil:
		if id := cancelledID(f.params); id != nil && sess.cancel(idKey(id)) {
			w.WriteHeader(http.StatusAccepted)
			return
		}
	case sess != nil && h.server.isTaskMethod(f.method) && f.id != nil:
		p, wire := parseTask(f.method, f.params)
		if wire != nil {
			refuse(w, http.StatusOK, f.id, wire)
			return
		}
		p.principal, p.version = principal(r.Header), ""
		answer := &httpAnswer{w: w, buffers: &h.server.buffers}
		encode, wire := h.server.taskRequest(r.Context(), sess, f.method, &p)
		answer.finish(http.StatusOK, f.id, encode, wire)
		return
	case f.method == "tools/call" && f.id != nil && sess != nil && !sess.asks() && sess.level() == "" && accepts(r):
		if p, wire := parseCall(f.params); wire == nil && p.token == nil && supported(r.Header.Get(headerVersion)) {
			p.principal, p.view = principal(r.Header), viewOf(r)
			h.callSession(w, f, sess, &p)
			return
		}
	}
	h.sessions.ServeHTTP(w, r)
}

// callSession runs a tools/call of a session. The call goes on if the
// connection breaks: in this era that does not cancel it.
func (h *httpHandler) callSession(w http.ResponseWriter, f *frame, sess *session, p *callParams) {
	key := idKey(f.id)
	ctx, cancel, wire := sess.begin(h.server.background, key)
	if wire != nil {
		refuse(w, http.StatusBadRequest, f.id, wire)
		return
	}
	defer cancel(nil)
	defer sess.post(p)()
	encode, wire := h.server.run(ctx, sess, p, channel{})
	sess.end(key)
	sess.touch()
	answer := &httpAnswer{w: w, buffers: &h.server.buffers}
	answer.finish(http.StatusOK, f.id, encode, wire)
}

// full reports whether no more sessions may be opened.
func (h *httpHandler) full() bool {
	h.server.mu.Lock()
	defer h.server.mu.Unlock()
	return h.server.closed || len(h.server.http) >= maxSessions
}

// httpAnswer is the answer to one POST: JSON, or an event stream as soon as
// there is something to tell before the result.
type httpAnswer struct {
	buffers *bufferPool

	mu     sync.Mutex
	w      http.ResponseWriter
	stream bool
}

func (a *httpAnswer) notify(method string, params []byte) {
	b := append([]byte("{\"jsonrpc\":\"2.0\",\"method\":\""), method...)
	b = append(append(b, `","params":`...), params...)
	a.send(append(b, '}'))
}

// send sends a message before the answer.
func (a *httpAnswer) send(message []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.stream {
		a.stream = true
		a.w.Header().Set("Content-Type", "text/event-stream")
		a.w.Header().Set("Cache-Control", "no-cache, no-transform")
		a.w.WriteHeader(http.StatusOK)
	}
	a.event(append([]byte("event: message\ndata: "), message...))
}

// event writes the end of an event and sends it; a is locked. A client that
// reads nothing for long is cut off, so that it does not hold up its call.
func (a *httpAnswer) event(b []byte) {
	control := http.NewResponseController(a.w)
	_ = control.SetWriteDeadline(time.Now().Add(writeLimit))
	_, _ = a.w.Write(append(b, '\n', '\n'))
	_ = control.Flush()
	_ = control.SetWriteDeadline(time.Time{})
}

func (a *httpAnswer) finish(status int, id json.RawMessage, encode func([]byte) []byte, wire *wireError) {
	a.mu.Lock()
	defer a.mu.Unlock()
	buf := a.buffers.get()
	defer a.buffers.put(buf)
	if a.stream {
		*buf = appendAnswer(append((*buf)[:0], "event: message\ndata: "...), id, encode, wire)
		a.event(*buf)
		return
	}
	*buf = appendAnswer((*buf)[:0], id, encode, wire)
	a.w.Header().Set("Content-Type", "application/json")
	a.w.WriteHeader(status)
	_, _ = a.w.Write(*buf)
}

// refuse answers with a JSON-RPC error.
func refuse(w http.ResponseWriter, status int, id json.RawMessage, err *wireError) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(appendAnswer(nil, id, nil, err))
}

// accepts reports whether a client takes both kinds of answers, as it must.
func accepts(r *http.Request) bool {
	json, stream := false, false
	for _, value := range r.Header.Values("Accept") {
		if value == "application/json, text/event-stream" { // as nearly all write it
			return true
		}
		for part := range strings.SplitSeq(value, ",") {
			kind, _, _ := strings.Cut(part, ";")
			switch strings.ToLower(strings.TrimSpace(kind)) {
			case "application/json", "application/*":
				json = true
			case "text/event-stream", "text/*":
				stream = true
			case "*/*":
				json, stream = true, true
			}
		}
	}
	return json && stream
}

// supported reports whether a version header may stand in a session.
func supported(version string) bool {
	if version == "" {
		return true
	}
	for _, v := range sdk.SupportedProtocolVersions() {
		if v == version {
			return v < versionStateless
		}
	}
	return false
}

func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && kind == "application/json"
}

// hasParamHeaders reports whether an argument of a tool travels as a header too.
func hasParamHeaders(s *jsonschema.Schema) bool {
	if s == nil {
		return false
	}
	if s.Extra["x-mcp-header"] != nil {
		return true
	}
	for _, sub := range s.Properties {
		if hasParamHeaders(sub) {
			return true
		}
	}
	return false
}

// principal is who makes a request, as far as sessions, parked calls and tasks
// are told apart by it.
func principal(h http.Header) string { return h.Get("Authorization") }
