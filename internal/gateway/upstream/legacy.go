package upstream

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/toolyard/toolyard/tool"
)

// legacy is the transport of 2024-11-05: one stream from the server, and a URL
// for what goes to it, which the stream names first.
type legacy struct {
	*web
	to *url.URL
}

var _ transport = (*legacy)(nil)

// open opens the stream and waits for the URL.
func (l *legacy) open(ctx context.Context) error {
	streaming, cancel := context.WithCancel(l.c.ctx)
	release := context.AfterFunc(ctx, cancel)
	resp, err := l.do(streaming, http.MethodGet, l.url, nil, http.Header{"Accept": {acceptEvents}})
	if err != nil {
		cancel()
		return lost("the handshake", false, err)
	}
	if resp.StatusCode != http.StatusOK || kind(resp) != "text/event-stream" {
		text, _, _ := body(resp.Body, 300)
		_ = resp.Body.Close()
		cancel()
		e, sent := refused(resp, text)
		return mark(e, sent)
	}
	in := newEvents(resp.Body, l.c.conf.MaxMessage)
	var first event
	for first.name == "" && err == nil { // a comment, or a delay
		first, err = in.next()
	}
	if err == nil && first.name != "endpoint" {
		err = fmt.Errorf("its first event is %q", first.name)
	}
	if err == nil {
		l.to, err = l.url.Parse(string(first.data))
	}
	if err == nil && origin(l.to) != origin(l.url) {
		err = fmt.Errorf("it names %s to send messages to, which is another server", origin(l.to))
	}
	if err != nil || !release() {
		_ = resp.Body.Close()
		cancel()
		if ctx.Err() != nil {
			return ended(ctx, "the handshake", false)
		}
		return mark(tool.Errorf(tool.DependencyError, "the server did not say where messages go: %v", err), false)
	}
	if !l.c.spawn(func() {
		defer cancel()
		defer resp.Body.Close()
		l.listen(in)
	}) {
		_ = resp.Body.Close()
		cancel()
	}
	return nil
}

func (l *legacy) listen(in *events) {
	for {
		e, err := in.next()
		if err == nil && e.over != nil {
			_, err = l.c.tooLong(e.over, nil)
		}
		if err != nil {
			l.c.fail(fmt.Errorf("its stream ended: %w", err))
			return
		}
		if len(e.data) > 0 && (e.name == "" || e.name == "message") {
			l.c.receive(e.data, nil)
		}
	}
}

func (l *legacy) start(_ context.Context, cl *call, data []byte, _ http.Header) {
	l.c.spawn(func() {
		defer cl.cancel()
		if !cl.seen() {
			return
		}
		if err := l.post(cl.ctx, data, nil); err != nil {
			e, _ := err.(*tool.Error)
			if sent := e == nil || e.Began; l.c.leave(cl, sent) {
				cl.finish(nil, lost(cl.req.Method, sent, err))
			}
		}
	})
}

func (l *legacy) post(ctx context.Context, data []byte, _ http.Header) error {
	head := http.Header{"Accept": {acceptBoth}}
	if v := l.c.Version(); v != "" {
		head.Set(headerVersion, v)
	}
	resp, err := l.do(ctx, http.MethodPost, l.to, data, head)
	if err != nil {
		known, ok := err.(*tool.Error)
		return lost("a message", !undialled(err) && !(ok && known.Code != tool.ConnectionError), err)
	}
	text, _, _ := body(resp.Body, 300)
	discard(resp.Body)
	if resp.StatusCode > 299 {
		e, sent := refused(resp, text)
		return mark(e, sent)
	}
	return nil
}

func (l *legacy) close() {
	if l.h.Client == nil {
		l.client.CloseIdleConnections()
	}
}
