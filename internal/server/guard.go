package server

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/server/auth"
)

// limitedConn gives its slot back when it is closed.
type limitedConn struct {
	net.Conn
	slots chan struct{}
	once  sync.Once
}

func (c *limitedConn) Close() error {
	c.once.Do(func() { <-c.slots })
	return c.Conn.Close()
}

// guard decides who may call: the host that was called (DNS rebinding), the
// page that calls, who calls (caller.go).
type guard struct {
	config Config
	bound  net.Addr
	token  string // "" without authentication
	rates  auth.Rates
}

// Headers of every answer, in the form that http.Header keeps them in.
var noSniff, noReferrer = []string{"nosniff"}, []string{"no-referrer"}

// open paths need no token.
var open = []string{"/healthz", "/readyz"}

func (g *guard) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = withOfferedToken(r)
		h := w.Header()
		h["X-Content-Type-Options"], h["Referrer-Policy"] = noSniff, noReferrer
		switch {
		case !g.hostAllowed(r):
			fail(w, http.StatusForbidden, "FORBIDDEN_HOST", "the host "+strconv.Quote(r.Host)+" is not one of this server",
				"Call it by its address, or name the host in the configuration.")
			return
		case !g.originAllowed(r):
			fail(w, http.StatusForbidden, "FORBIDDEN_ORIGIN", "pages of "+strconv.Quote(r.Header.Get("Origin"))+" may not call this server",
				"Name the origin in the configuration if it is yours.")
			return
		}
		r, ok := g.admit(w, r)
		if !ok {
			return
		}
		if g.config.Limit != nil {
			if retry, ok := g.config.Limit(r); !ok {
				tooMany(w, retry)
				return
			}
		}
		if r.ContentLength != 0 && r.Body != nil {
			control := http.NewResponseController(w)
			if control.SetReadDeadline(time.Now().Add(bodyTimeout)) == nil {
				r.Body = &timedBody{ReadCloser: r.Body, control: control}
			}
		}
		next.ServeHTTP(w, r)
	})
}

// timedBody takes the deadline off a connection once the body has been read: a
// call may run for as long as it likes.
type timedBody struct {
	io.ReadCloser
	control *http.ResponseController
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// hostAllowed reports whether the Host header is a name of this server. A page
// that rebinds its own name to 127.0.0.1 sends that name.
func (g *guard) hostAllowed(r *http.Request) bool {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = trimBrackets(host)
	if g.ownName(host) {
		return true
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return local != nil && addrOf(host).IsValid() && addrOf(host) == addrOf(local.String())
}

// ownName reports whether a host is a loopback name, the bound host, or one
// that was configured.
func (g *guard) ownName(host string) bool {
	if strings.EqualFold(host, "localhost") || slices.ContainsFunc(g.config.Hosts, func(h string) bool { return strings.EqualFold(h, host) }) {
		return true
	}
	if g.config.Resource != nil && strings.EqualFold(host, g.config.Resource.Host()) {
		return true
	}
	a := addrOf(host)
	if a.IsValid() {
		return a.IsLoopback() || a == addrOf(g.bound.String())
	}
	bound, _, _ := net.SplitHostPort(g.config.Addr)
	return bound != "" && strings.EqualFold(bound, host)
}

// originAllowed reports whether the page that sent the request, if one did, may
// do so.
func (g *guard) originAllowed(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return true
	}
	if len(origins) > 1 {
		return false
	}
	origin := origins[0]
	if slices.Contains(g.config.Origins, origin) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	return g.ownName(u.Hostname()) || u.Host == r.Host
}

func trimBrackets(host string) string {
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

// fail answers with an API error.
func fail(w http.ResponseWriter, status int, code, message, hint string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"code": code, "message": message, "hint": hint}})
}
