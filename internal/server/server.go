// Package server is the HTTP front door: one listener with MCP, the API,
// health and metrics behind the same checks of host, origin and
// caller (auth). What
// lies behind a path is in mcp and api. It does not know tools.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/server/auth"
	"github.com/toolyard/toolyard/internal/server/mcp"
)

// DefaultAddr is where the server listens unless told otherwise.
const DefaultAddr = "127.0.0.1:8765"

// Bounds of the listener.
const (
	headerTimeout = 10 * time.Second
	bodyTimeout   = time.Minute
	idleTimeout   = 2 * time.Minute
	maxHeader     = 64 << 10 // bytes
	maxConns      = 4096     // open connections
	defaultDrain  = 30 * time.Second
	closeLimit    = 5 * time.Second // for calls that were cancelled at the end
	readyLimit    = 5 * time.Second // for an answer to /readyz
)

// Auth says how callers prove who they are.
type Auth string

const (
	// AuthToken wants "Authorization: Bearer" with the token in Home/token.
	AuthToken Auth = "token"
	// AuthOAuth wants a token of an authorization server: see [Config.Resource].
	AuthOAuth Auth = "oauth"
	// AuthNone lets everybody in; only on a loopback address.
	AuthNone Auth = "none"
)

// Config is what is served. The zero value listens on [DefaultAddr] with a
// token, and answers only /healthz and /readyz.
type Config struct {
	// Addr is host:port. Empty means [DefaultAddr]; port 0 picks one.
	Addr string
	// Auth is [AuthToken] if empty.
	Auth Auth
	// Keys are the API keys, which are taken besides whatever Auth wants. Nil has
	// none.
	Keys *auth.Keys
	// Resource checks the tokens of [AuthOAuth], and needs it.
	Resource *auth.Resource
	// Rate is how many requests a minute one address may make, a quarter of them at
	// once. Zero is no bound; a key may have a bound of its own besides.
	Rate int
	// Certificate and PrivateKey are files in PEM; with them only HTTPS is spoken.
	// They are read again when they change.
	Certificate, PrivateKey string
	// InsecureHTTP speaks plain HTTP on an address that others can reach too: behind
	// a proxy that does TLS. Tokens can be read on the way otherwise.
	InsecureHTTP bool
	// Home is the directory of the file "token", which is made if it is missing.
	Home string
	// Hosts are further names under which the server may be called, without port.
	// Loopback names, the host of Addr and the address that a connection came to
	// are always allowed.
	Hosts []string
	// Origins are further web origins ("https://tools.example") that may call.
	Origins []string

	// MCP is served at /mcp.
	MCP *mcp.Server
	// API is served at /api/v1/. It gets the whole path.
	API http.Handler
	// Console is served at every other path.
	Console http.Handler
	// Metrics writes the Prometheus text of /metrics.
	Metrics func(w io.Writer) error
	// Ready is asked by /readyz. Nil means always ready.
	Ready func(ctx context.Context) error
	// Limit may refuse a request; retry is when to come back. Nil lets all pass.
	Limit func(r *http.Request) (retry time.Duration, ok bool)

	// Listening is called once, when the socket is bound.
	Listening func(Listening)
	// Drain is how long requests may go on after ctx is done. Zero means 30 s.
	Drain time.Duration
	// Log gets what goes wrong. Nil discards.
	Log *slog.Logger
}

// Listening is where the server can be reached: the first line that `serve`
// prints.
type Listening struct {
	URL       string `json:"url"`
	TokenFile string `json:"token_file,omitempty"`
}

// Serve listens until ctx is done, then lets requests end and returns nil. An
// address that others can reach is refused without authentication.
func Serve(ctx context.Context, c Config) error {
	if c.Addr == "" {
		c.Addr = DefaultAddr
	}
	if c.Auth == "" {
		c.Auth = AuthToken
	}
	if c.Drain == 0 {
		c.Drain = defaultDrain
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	listener, err := listen(ctx, c)
	if err != nil {
		return err
	}
	guard := &guard{config: c, bound: listener.Addr()}
	listening := Listening{URL: "http://" + listener.Addr().String()}
	var secure *tls.Config
	if c.Certificate != "" || c.PrivateKey != "" {
		pair, err := openCertificate(c.Certificate, c.PrivateKey, c.Log)
		if err != nil {
			_ = listener.Close()
			return err
		}
		secure, listening.URL = pair.config(), "https://"+listener.Addr().String()
	}
	if c.Auth == AuthToken {
		if listening.TokenFile, guard.token, err = openToken(c.Home); err != nil {
			_ = listener.Close()
			return err
		}
	}
	streams, endStreams := context.WithCancel(context.Background())
	defer endStreams()
	draining := make(chan struct{})
	front := http.Server{
		Handler:           guard.wrap(routes(c, streams, draining)),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(c.Log.Handler(), slog.LevelWarn),
		TLSConfig:         secure,
	}
	if c.Listening != nil {
		c.Listening(listening)
	}
	failed := make(chan error, 1)
	go func() {
		conns := limitConns(listener, maxConns)
		if secure != nil {
			failed <- front.ServeTLS(conns, "", "") // both are in TLSConfig
		} else {
			failed <- front.Serve(conns)
		}
	}()
	select {
	case err := <-failed:
		return fmt.Errorf("serving %s: %w", listening.URL, err)
	case <-ctx.Done():
	}
	close(draining)
	endStreams()
	err = drain(&front, c)
	<-failed
	return err
}

// drain lets requests end, and after c.Drain cancels those that do not.
func drain(front *http.Server, c Config) error {
	ctx, cancel := context.WithTimeout(context.Background(), c.Drain)
	defer cancel()
	if c.MCP != nil {
		c.MCP.EndStreams()
	}
	err := front.Shutdown(ctx)
	if c.MCP != nil {
		c.MCP.Drain(ctx) // WebSockets are no requests any more
		ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
		defer cancel()
		if e := c.MCP.Close(ctx); e != nil {
			c.Log.Warn("calls did not end when the server stopped", "err", e)
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		c.Log.Warn("requests were cut off when the server stopped", "after", c.Drain)
		return front.Close()
	}
	return err
}

// listen binds the address, if who may reach it fits how callers prove who they
// are.
func listen(ctx context.Context, c Config) (net.Listener, error) {
	switch {
	case c.Auth != AuthToken && c.Auth != AuthNone && c.Auth != AuthOAuth:
		return nil, fmt.Errorf("auth %q is neither token, oauth nor none", c.Auth)
	case c.Auth == AuthOAuth && c.Resource == nil:
		return nil, errors.New("auth oauth needs an issuer and an audience")
	}
	host, _, err := net.SplitHostPort(c.Addr)
	if err != nil {
		return nil, fmt.Errorf("address %q is not host:port: %w", c.Addr, err)
	}
	if host == "" && c.Auth == AuthNone {
		// ":0" means every interface; without authentication it means this machine.
		c.Addr = "127.0.0.1" + c.Addr
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", c.Addr)
	if err != nil {
		return nil, err
	}
	if c.Auth == AuthNone && !loopback(listener.Addr()) {
		_ = listener.Close()
		return nil, fmt.Errorf("%s can be reached by others, so it needs authentication: leave out --auth none, or bind 127.0.0.1", c.Addr)
	}
	if !loopback(listener.Addr()) && c.Certificate == "" && !c.InsecureHTTP {
		_ = listener.Close()
		return nil, fmt.Errorf("%s can be reached by others, and tokens could be read on the way: name --tls-cert and --tls-key, bind 127.0.0.1, or say --insecure-http if a proxy before it does TLS", c.Addr)
	}
	return listener, nil
}

func loopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// addrOf is the address in a net.Addr or in the host part of a URL; the zero
// Addr if there is none.
func addrOf(host string) netip.Addr {
	if strings.Contains(host, ":") {
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
	}
	a, err := netip.ParseAddr(trimBrackets(host))
	if err != nil {
		return netip.Addr{}
	}
	return a.Unmap().WithZone("")
}

// limitConns lets at most n connections be open at a time; more wait in the
// kernel's queue.
func limitConns(l net.Listener, n int) net.Listener {
	return &limited{Listener: l, slots: make(chan struct{}, n)}
}

type limited struct {
	net.Listener
	slots chan struct{}
}

func (l *limited) Accept() (net.Conn, error) {
	l.slots <- struct{}{}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &limitedConn{Conn: c, slots: l.slots}, nil
}
