package oauth

import (
	"context"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"
)

// receiver waits on a loopback address for the browser to come back, RFC 8252
// §7.3.
type receiver struct {
	redirect string          // with the port
	came     chan url.Values // one
	server   *http.Server
	done     chan struct{}

	mu    sync.Mutex
	state string // "" until a page was made, and after one answer
}

// loopbackRedirect reports whether a redirect comes back to this machine.
func loopbackRedirect(u *url.URL) bool {
	if u.Scheme != "http" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Path == "" {
		return false
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && addr.IsLoopback() && !addr.Is4In6()
}

// listen opens the address that the browser comes back to. If a client was
// registered with a port, that one is tried first, since some authorization
// servers compare it.
func (a *Authorizer) listen(ctx context.Context, p *place) (*receiver, error) {
	redirect := *a.redirect
	port := redirect.Port()
	if port == "" {
		port = "80"
	}
	ports := []string{port}
	if port == "0" && a.config.ClientID == "" {
		if c, ok := a.kept(p.issuer); ok {
			if u, err := url.Parse(c.Redirect); err == nil && u.Port() != "" && u.Hostname() == redirect.Hostname() && u.Path == redirect.Path {
				ports = []string{u.Port(), "0"}
			}
		}
	}
	host := redirect.Hostname()
	if host == "localhost" {
		host = "127.0.0.1"
	}
	var lc net.ListenConfig
	var listener net.Listener
	var err error
	for _, port := range ports {
		if listener, err = lc.Listen(ctx, "tcp", net.JoinHostPort(host, port)); err == nil {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("waiting for the browser at %s: %w", a.config.Redirect, err)
	}
	_, bound, _ := net.SplitHostPort(listener.Addr().String())
	redirect.Host = net.JoinHostPort(redirect.Hostname(), bound)
	r := &receiver{redirect: redirect.String(), came: make(chan url.Values, 1), done: make(chan struct{})}
	r.server = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { r.serve(w, q, redirect.Path) }), ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10,
	}
	go func() { // ends with close, which waits for it
		defer close(r.done)
		_ = r.server.Serve(listener)
	}()
	return r, nil
}

// expect says which answer is the one.
func (r *receiver) expect(state string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = state
}

// serve takes one answer with the right state. Anything else that comes by is
// sent away, so that nobody can end a log-in who did not begin it.
func (r *receiver) serve(w http.ResponseWriter, q *http.Request, path string) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	if q.URL.Path != path || q.Method != http.MethodGet {
		http.NotFound(w, q)
		return
	}
	values, err := url.ParseQuery(q.URL.RawQuery)
	r.mu.Lock()
	fits := err == nil && r.state != "" && len(values["state"]) == 1 && subtle.ConstantTimeCompare([]byte(values.Get("state")), []byte(r.state)) == 1
	if fits {
		r.state = ""
	}
	r.mu.Unlock()
	if !fits {
		http.Error(w, "This is not the answer to a log-in that is under way.", http.StatusBadRequest)
		return
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	if values.Get("error") != "" {
		_, _ = strings.NewReader(failedPage).WriteTo(w)
	} else {
		_, _ = strings.NewReader(donePage).WriteTo(w)
	}
	r.came <- values
}

const (
	donePage   = "<!doctype html><meta charset=utf-8><title>Toolyard</title><p>Toolyard has the answer. You can close this page."
	failedPage = "<!doctype html><meta charset=utf-8><title>Toolyard</title><p>The log-in did not work. The program says why. You can close this page."
)

// close ends the listener. The page that was just answered gets out first.
func (r *receiver) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if r.server.Shutdown(ctx) != nil {
		_ = r.server.Close()
	}
	<-r.done
}
