package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/toolyard/toolyard/tool"
)

// Bounds of HTTP.
const (
	maxRedirects    = 5
	maxAttempts     = 3        // of one request, to satisfy who asks for credentials
	maxErrorBody    = 1 << 20  // of an answer that is an error
	maxHeaderBytes  = 64 << 10 // of an answer, where the client is ours
	maxSessionBytes = 1024
)

// web does the HTTP requests of one server.
type web struct {
	c      *Client
	h      HTTP
	url    *url.URL
	client *http.Client
}

func newWeb(c *Client, h *HTTP) (*web, error) {
	shown, _, _ := strings.Cut(h.URL, "?") // a query may hold a secret
	u, err := url.Parse(h.URL)
	if err != nil || u.Host == "" {
		return nil, tool.Errorf(tool.ParameterError, "%q is not a URL of a server", shown).WithHint("Give one that begins with http:// or https://.")
	}
	switch u.Scheme {
	case "ws":
		u.Scheme = "http"
	case "wss":
		u.Scheme = "https"
	case "http", "https":
	default:
		return nil, tool.Errorf(tool.ParameterError, "%q has the scheme %q", shown, u.Scheme).WithHint("Give a URL that begins with http:// or https://.")
	}
	w := &web{c: c, h: *h, url: u, client: &http.Client{}}
	if h.Client != nil {
		*w.client = *h.Client
	} else {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxResponseHeaderBytes = maxHeaderBytes
		transport.MaxIdleConnsPerHost = 128
		w.client.Transport = transport
	}
	before := w.client.CheckRedirect
	w.client.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		if err := redirect(r, via); err != nil || before == nil {
			return err
		}
		return before(r, via)
	}
	return w, nil
}

// redirect keeps credentials, and what a session is, to the origin that they are
// for.
func redirect(r *http.Request, via []*http.Request) error {
	switch first := via[0]; {
	case len(via) > maxRedirects:
		return fmt.Errorf("more than %d redirects", maxRedirects)
	case r.Method != first.Method:
		return fmt.Errorf("the redirect to %s would make %s of %s", origin(r.URL), r.Method, first.Method)
	case origin(r.URL) != origin(first.URL):
		kept := http.Header{}
		for _, name := range []string{"Accept", "Content-Type", headerVersion, headerMethod, headerName} {
			if v := r.Header.Get(name); v != "" {
				kept.Set(name, v)
			}
		}
		r.Header = kept
	}
	return nil
}

// origin is scheme, host and port of u.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}

// do does a request, again where the server asks for credentials that can be
// had. Only a request to whom the credentials are for gets them.
func (w *web) do(ctx context.Context, method string, to *url.URL, body []byte, head http.Header) (*http.Response, error) {
	for try := 1; ; try++ {
		r, err := w.request(ctx, method, to, body, head)
		if err != nil {
			return nil, err
		}
		resp, err := w.client.Do(r)
		if err != nil {
			return nil, plain(err)
		}
		if resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden || w.h.Auth == nil ||
			try >= maxAttempts || origin(resp.Request.URL) != origin(w.url) {
			return resp, nil
		}
		again, err := w.h.Auth.Challenge(ctx, resp)
		if err == nil && !again {
			return resp, nil
		}
		discard(resp.Body)
		if err != nil {
			return nil, denied(err)
		}
	}
}

// plain is err without the URL, whose query may hold a secret.
func plain(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

func (w *web) request(ctx context.Context, method string, to *url.URL, body []byte, head http.Header) (*http.Request, error) {
	var content io.Reader
	if body != nil {
		content = bytes.NewReader(body)
	}
	r, err := http.NewRequestWithContext(ctx, method, to.String(), content)
	if err != nil {
		return nil, tool.Errorf(tool.ParameterError, "the request cannot be made: %v", err)
	}
	for name, values := range w.h.Header {
		if r.Header[http.CanonicalHeaderKey(name)] = values; strings.EqualFold(name, "Host") && len(values) > 0 {
			r.Host = values[0]
		}
	}
	for name, values := range head {
		r.Header[name] = values
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if w.h.Auth != nil {
		if err := w.h.Auth.Authorize(ctx, r); err != nil {
			return nil, denied(err)
		}
	}
	return r, nil
}

// denied is the error of a request that was not made, or refused, for want of
// credentials.
func denied(err error) error {
	if known, ok := errors.AsType[*tool.Error](err); ok {
		return known
	}
	return tool.Errorf(tool.PermissionDenied, "the server asks for credentials that could not be had: %v", err)
}

// refused is the error of a status that is no success. The body is read to say
// why.
func refused(resp *http.Response, body []byte) (e *tool.Error, sent bool) {
	why := strings.TrimSpace(string(clean(body[:min(len(body), 300)])))
	if why != "" {
		why = ": " + why
	}
	code := resp.StatusCode
	switch {
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		e = tool.Errorf(tool.PermissionDenied, "the server refuses the credentials: HTTP %d%s", code, why).WithHint("Log in to the server, or check its token.")
	case code == http.StatusTooManyRequests:
		e = tool.Errorf(tool.RateLimited, "the server asks for fewer requests: HTTP 429%s", why)
		e.RetryAfter = retryAfter(resp)
	case code >= 500:
		e, sent = tool.Errorf(tool.ConnectionError, "the server failed: HTTP %d%s", code, why), true
		e.RetryAfter = retryAfter(resp)
	default:
		e = tool.Errorf(tool.DependencyError, "the server refuses the request: HTTP %d%s", code, why).WithHint("See whether the URL is that of an MCP server.")
	}
	return e.WithDetail("status", code), sent
}

// retryAfter reads how long a server asks to wait, at most an hour.
func retryAfter(resp *http.Response) time.Duration {
	text := resp.Header.Get("Retry-After")
	if n, err := strconv.Atoi(text); err == nil && n >= 0 {
		return min(time.Duration(min(n, 3600))*time.Second, time.Hour)
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, min(time.Until(at), time.Hour))
	}
	return 0
}

// kind is the media type of an answer.
func kind(resp *http.Response) string {
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return media
}

// body reads at most limit bytes; over says that there are more.
func body(r io.Reader, limit int64) (data []byte, over bool, err error) {
	data, err = io.ReadAll(io.LimitReader(r, limit+1))
	if int64(len(data)) > limit {
		return data[:limit], true, err
	}
	return data, false, err
}

// discard ends an answer so that its connection can be used again, if little of
// it is left.
func discard(r io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, r, 64<<10)
	_ = r.Close()
}
