package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard/tool"
)

// How a stream that broke is taken up again.
const (
	maxResumes  = 5 // without anything new between
	firstDelay  = 500 * time.Millisecond
	longestWait = 30 * time.Second // of ours; a server may ask for more
	longestAsk  = 10 * time.Minute
)

const (
	acceptBoth   = "application/json, text/event-stream"
	acceptEvents = "text/event-stream"
)

// streamable is the transport over streamable HTTP: each request has an answer
// of its own, which is a message or a stream of them.
type streamable struct {
	*web

	mu       sync.Mutex
	session  string
	renewing chan struct{}      // closed when the new session stands; nil if there is no need
	stop     context.CancelFunc // ends the GET stream of the session
}

var _ transport = (*streamable)(nil)

// headers are those of a session. In the stateless era head has all.
func (s *streamable) headers(head http.Header, session, accept string) http.Header {
	if head == nil {
		head = make(http.Header, 3)
		if v := s.c.Version(); v != "" {
			head.Set(headerVersion, v)
		}
		if session != "" {
			head[headerSession] = []string{session}
		}
	}
	head.Set("Accept", accept)
	return head
}

func (s *streamable) start(_ context.Context, cl *call, data []byte, head http.Header) {
	if !s.c.spawn(func() { s.run(cl, data, head) }) {
		return // end has told the call
	}
}

// run does the request of a call and reads what comes.
func (s *streamable) run(cl *call, data []byte, head http.Header) {
	defer cl.cancel()
	session, err := s.ready(cl)
	if err != nil || !cl.seen() {
		return
	}
	resp, err := s.do(cl.ctx, http.MethodPost, s.url, data, s.headers(head, session, acceptBoth))
	if err != nil {
		s.lose(cl, s.sentDespite(err), err)
		return
	}
	if cl.req.Method == "initialize" && resp.StatusCode < 300 {
		s.began(resp.Header.Get(headerSession))
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		s.refuse(cl, resp, session)
		return
	}
	switch kind(resp) {
	case "application/json":
		s.single(cl, resp)
	case "text/event-stream":
		s.stream(cl, resp, session)
	default:
		text, _, _ := body(resp.Body, 300)
		discard(resp.Body)
		s.lose(cl, true, tool.Errorf(tool.DependencyError, "the server answered %s with HTTP %d and the content type %q: %s", cl.req.Method, resp.StatusCode,
			resp.Header.Get("Content-Type"), clean(text)).WithHint("See whether the URL is that of an MCP server.").WithDetail("status", resp.StatusCode))
	}
}

// ready gives the session of now, after a new one has begun where need be.
func (s *streamable) ready(cl *call) (string, error) {
	for {
		s.mu.Lock()
		session, wait := s.session, s.renewing
		s.mu.Unlock()
		if wait == nil || handshake(cl.req.Method) {
			return session, nil
		}
		select {
		case <-wait:
		case <-cl.ctx.Done():
			return "", cl.ctx.Err()
		}
	}
}

// sentDespite says whether the server may have seen a request that failed so.
func (s *streamable) sentDespite(err error) bool {
	if e, ok := errors.AsType[*tool.Error](err); ok && e.Code != tool.ConnectionError {
		return false // it was not made, or refused
	}
	return !undialled(err)
}

// lose ends a call whose answer will not come.
func (s *streamable) lose(cl *call, sent bool, why error) {
	if s.c.leave(cl, sent) {
		cl.finish(nil, lost(cl.req.Method, sent, why))
	}
}

// single reads an answer that is one message.
func (s *streamable) single(cl *call, resp *http.Response) {
	data, over, err := body(resp.Body, s.c.conf.MaxMessage)
	_ = resp.Body.Close()
	switch {
	case over:
		l := &long{head: data[:min(len(data), headBytes)], size: int64(len(data))}
		_, _ = s.c.tooLong(l, cl)
	case err != nil:
		s.lose(cl, true, fmt.Errorf("the answer was cut off: %w", err))
	default:
		s.c.receive(data, cl)
		s.lose(cl, true, tool.Errorf(tool.DependencyError, "the server answered %s with something else than its result", cl.req.Method))
	}
}

// refuse ends a call that was answered with a status that is no success.
func (s *streamable) refuse(cl *call, resp *http.Response, session string) {
	data, _, _ := body(resp.Body, maxErrorBody)
	discard(resp.Body)
	m, err := parse(clean(data))
	id, ours := number(m.id)
	ours = ours && id == cl.id
	if session != "" && !handshake(cl.req.Method) && gone404(resp.StatusCode, &m, err == nil && ours) {
		s.lose(cl, false, tool.Errorf(tool.ConnectionError, "the server has ended the session").WithHint("A new one is begun: try again."))
		s.renew(session)
		return
	}
	if err == nil && m.err != nil && (ours || m.id == nil || string(m.id) == "null") {
		if s.c.leave(cl, false) {
			cl.finish(nil, wireError(m.err))
		}
		return
	}
	e, sent := refused(resp, data)
	s.lose(cl, sent, e)
}

// gone404 reports whether an answer says that a session is not known any more:
// 404, and from some servers 400 with words.
func gone404(status int, m *message, ours bool) bool {
	switch {
	case ours:
		return false
	case status == http.StatusNotFound:
		return true
	}
	return status == http.StatusBadRequest && m.err != nil && strings.Contains(strings.ToLower(wireError(m.err).Message), "session")
}

// stream reads an answer that is a stream, and takes it up again where it broke,
// until the call has ended.
func (s *streamable) stream(cl *call, resp *http.Response, session string) {
	at := place{delay: firstDelay}
	for tries := 0; ; {
		fresh, err := s.read(resp.Body, cl, &at)
		if cl.over() {
			enough := time.AfterFunc(time.Second, cl.cancel)
			discard(resp.Body)
			enough.Stop()
			return
		}
		_ = resp.Body.Close()
		if tries++; fresh {
			tries = 0
		}
		if at.last == "" || s.c.Stateless() || tries > maxResumes {
			s.lose(cl, true, fmt.Errorf("its stream ended before the answer: %w", err))
			return
		}
		if resp = s.resume(cl.ctx, session, &at, tries); resp == nil {
			s.lose(cl, true, errors.New("its stream ended before the answer and could not be taken up again"))
			return
		}
	}
}

// place is where a stream is.
type place struct {
	last  string // Last-Event-ID
	delay time.Duration
}

// read hands on what a stream brings until it ends or the call has. fresh says
// that there was anything.
func (s *streamable) read(r io.Reader, cl *call, at *place) (fresh bool, err error) {
	in := newEvents(r, s.c.conf.MaxMessage)
	for {
		e, err := in.next()
		if err != nil {
			return fresh, err
		}
		if e.hasID && e.id != at.last {
			at.last, fresh = e.id, true
		}
		if e.retry >= 0 {
			at.delay = max(e.retry, 10*time.Millisecond)
		}
		switch {
		case e.over != nil:
			_, _ = s.c.tooLong(e.over, cl)
		case len(e.data) > 0 && (e.name == "" || e.name == "message"):
			fresh = true
			s.c.receive(e.data, cl)
		}
		if cl != nil && cl.over() {
			return fresh, nil
		}
	}
}

// resume opens a stream again after what was read last; nil if that cannot be.
func (s *streamable) resume(ctx context.Context, session string, at *place, tries int) *http.Response {
	for ; tries <= maxResumes; tries++ {
		if !sleep(ctx, backoff(at.delay, tries)) {
			return nil
		}
		resp, err := s.get(ctx, session, at.last)
		if err != nil {
			continue
		}
		if resp.StatusCode == http.StatusOK && kind(resp) == "text/event-stream" {
			return resp
		}
		discard(resp.Body)
		if resp.StatusCode == http.StatusNotFound && session != "" {
			s.renew(session)
		}
		if resp.StatusCode < 500 && resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusConflict {
			return nil
		}
	}
	return nil
}

func (s *streamable) get(ctx context.Context, session, last string) (*http.Response, error) {
	head := s.headers(nil, session, acceptEvents)
	if last != "" {
		head.Set(headerLast, last)
	}
	return s.do(ctx, http.MethodGet, s.url, nil, head)
}

// backoff is how long to wait before the next try: what the server said, then
// more.
func backoff(first time.Duration, tries int) time.Duration {
	if first >= longestWait {
		return min(first, longestAsk)
	}
	for ; tries > 1 && first < longestWait; tries-- {
		first *= 2
	}
	return min(first, longestWait)
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// began notes the session that the server has given.
func (s *streamable) began(session string) {
	if len(session) > maxSessionBytes {
		session = ""
	}
	s.mu.Lock()
	s.session = session
	s.mu.Unlock()
}

// listen opens the stream for what the server says beside the calls, where it
// offers one, for as long as the session stands.
func (s *streamable) listen() (answered <-chan struct{}) {
	ctx, cancel := context.WithCancel(s.c.ctx)
	s.mu.Lock()
	if s.stop != nil {
		s.stop()
	}
	s.stop = cancel
	session := s.session
	s.mu.Unlock()
	first := make(chan struct{})
	once := sync.OnceFunc(func() { close(first) })
	if !s.c.spawn(func() {
		defer cancel()
		defer once()
		s.listening(ctx, session, once)
	}) {
		cancel()
		once()
	}
	return first
}

// listening keeps the stream open; answered is called when the server has
// answered, whatever it said.
func (s *streamable) listening(ctx context.Context, session string, answered func()) {
	at := place{delay: firstDelay}
	for tries := 1; ctx.Err() == nil; tries++ {
		resp, err := s.get(ctx, session, at.last)
		answered()
		switch {
		case err != nil:
			if e, ok := errors.AsType[*tool.Error](err); ok && e.Code == tool.PermissionDenied {
				return
			}
		case resp.StatusCode == http.StatusOK && kind(resp) == "text/event-stream":
			fresh, _ := s.read(resp.Body, nil, &at)
			_ = resp.Body.Close()
			if fresh {
				tries = 0
			}
		case resp.StatusCode == http.StatusNotFound && session != "" && tries > 1:
			discard(resp.Body)
			s.renew(session)
			return
		default:
			discard(resp.Body)
			if resp.StatusCode < 500 && resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusConflict {
				return // it offers none
			}
		}
		if !sleep(ctx, backoff(at.delay, max(tries, 1))) {
			return
		}
	}
}

// renew begins a new session in the place of one that the server has forgotten,
// once for all who notice. If that fails the connection is lost.
func (s *streamable) renew(old string) {
	s.mu.Lock()
	if s.session != old || s.renewing != nil {
		s.mu.Unlock()
		return
	}
	done := make(chan struct{})
	s.renewing, s.session = done, ""
	if s.stop != nil {
		s.stop()
	}
	s.mu.Unlock()
	s.c.spawn(func() {
		ctx, cancel := context.WithTimeout(s.c.ctx, handshakeTimeout)
		defer cancel()
		err := s.c.begin(ctx)
		s.mu.Lock()
		s.renewing = nil
		close(done)
		s.mu.Unlock()
		if err != nil {
			s.c.fail(fmt.Errorf("the session ended and no new one could be begun: %w", err))
			return
		}
		s.c.resubscribe()
		s.c.note("", nil)
	})
}

func (s *streamable) post(ctx context.Context, data []byte, head http.Header) error {
	s.mu.Lock()
	session := s.session
	s.mu.Unlock()
	resp, err := s.do(ctx, http.MethodPost, s.url, data, s.headers(head, session, acceptBoth))
	if err != nil {
		return lost("a message", s.sentDespite(err), err)
	}
	text, _, _ := body(resp.Body, 300)
	_ = resp.Body.Close()
	if resp.StatusCode == http.StatusNotFound && session != "" {
		s.renew(session)
	}
	if resp.StatusCode > 299 {
		e, sent := refused(resp, text)
		return mark(e, sent)
	}
	return nil
}

// goodbye tells the server that its session is not needed any more.
func (s *streamable) goodbye() {
	s.mu.Lock()
	session := s.session
	s.mu.Unlock()
	if session == "" {
		return
	}
	ctx, cancel := context.WithTimeout(s.c.ctx, goodbyeTimeout)
	defer cancel()
	if resp, err := s.do(ctx, http.MethodDelete, s.url, nil, s.headers(nil, session, acceptBoth)); err == nil {
		discard(resp.Body)
	}
}

func (s *streamable) close() {
	if s.h.Client == nil {
		s.client.CloseIdleConnections()
	}
}
