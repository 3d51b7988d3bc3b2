package netguard

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// Limits of one connection.
const (
	headerTimeout  = 30 * time.Second
	idleTimeout    = 30 * time.Second
	maxIdle        = 4       // connections kept for one host
	maxHeaderBytes = 1 << 20 // of an answer
)

// ErrTooLarge is what a body fails with that is longer than [Config.MaxBody].
var ErrTooLarge = errors.New("the answer is longer than allowed")

// Client is a client whose every request and redirect is checked. Proxies of the
// environment are not used, since a proxy dials for itself. Callers may share it;
// its idle connections close by themselves.
func (g *Guard) Client() *http.Client {
	c := &http.Client{
		Transport: &transport{guard: g, next: &http.Transport{
			DialContext:            g.DialContext,
			TLSHandshakeTimeout:    DialTimeout,
			ResponseHeaderTimeout:  headerTimeout,
			IdleConnTimeout:        idleTimeout,
			MaxIdleConnsPerHost:    maxIdle,
			MaxResponseHeaderBytes: maxHeaderBytes,
			ForceAttemptHTTP2:      true,
		}},
		CheckRedirect: g.redirect,
	}
	if g.config.Timeout > 0 {
		c.Timeout = g.config.Timeout
	}
	return c
}

// redirect decides about the next request of a chain. What is sensitive in the
// first one's headers net/http leaves out when the host changes.
func (g *Guard) redirect(next *http.Request, via []*http.Request) error {
	if g.config.Redirects < 0 {
		return http.ErrUseLastResponse
	}
	if len(via) > g.config.Redirects {
		return refuse("%s redirects more than %d times", via[0].URL.Host, g.config.Redirects)
	}
	if last := via[len(via)-1]; last.URL.Scheme == "https" && next.URL.Scheme == "http" {
		return refuse("%s redirects to plain http", last.URL.Host)
	}
	return g.CheckURL(next.URL)
}

// transport checks what http.Transport is asked for.
type transport struct {
	guard *Guard
	next  http.RoundTripper
}

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := t.guard.CheckURL(r.URL); err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	if agent := t.guard.config.UserAgent; agent != "" && r.Header.Get("User-Agent") == "" {
		r = r.Clone(r.Context())
		r.Header.Set("User-Agent", agent)
	}
	answer, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if limit := t.guard.config.MaxBody; limit > 0 && answer.Body != nil {
		answer.Body = &bounded{ReadCloser: answer.Body, left: limit}
	}
	return answer, nil
}

func (t *transport) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// bounded is a body that may not be longer than left.
type bounded struct {
	io.ReadCloser
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, ErrTooLarge
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1] // one more shows whether there is more
	}
	n, err := b.ReadCloser.Read(p)
	if int64(n) > b.left {
		n, err = int(b.left), ErrTooLarge
		b.left = -1
		return n, err
	}
	b.left -= int64(n)
	return n, err
}
