package netproxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/netguard"
)

// Limits of HTTP.
const (
	maxRequestHeader  = 64 << 10  // bytes
	maxResponseHeader = 256 << 10 // bytes
	keepAliveIdle     = 2 * time.Minute
	upstreamIdle      = 30 * time.Second
	maxUpstreamIdle   = 64 // connections kept for the next request
)

// origin is what a connection on which HTTP is spoken is about.
type origin struct {
	target target // of all requests; unset on the proxy port, where each names its own
	proxy  bool   // it came to the proxy port
	tls    bool   // it was TLS that the proxy opened
	via    string // what the grant was recorded under already

	client *client
	ended  chan struct{} // closed when HTTP is done with the connection
	end    sync.Once

	mu       sync.Mutex
	hijacked bool
	to       net.Conn // made already, for the first request
	recorded string   // the last target that was recorded as allowed
}

// take gives the connection that was made already, once.
func (o *origin) take(address string) net.Conn {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.to == nil || o.proxy || address != net.JoinHostPort(o.target.host, strconv.Itoa(int(o.target.port))) {
		return nil
	}
	to := o.to
	o.to = nil
	return to
}

// first reports whether the target was not recorded as allowed just before.
func (o *origin) first(t target) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	is := o.recorded != t.String()
	o.recorded = t.String()
	return is
}

// state follows http.Server. A connection that a handler took over ends with the
// handler, any other when the server has closed it.
func (o *origin) state(s http.ConnState) {
	switch s {
	case http.StateHijacked:
		o.mu.Lock()
		o.hijacked = true
		o.mu.Unlock()
	case http.StateClosed:
		o.finish()
	}
}

func (o *origin) handled() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.hijacked {
		o.finish()
	}
}

func (o *origin) finish() { o.end.Do(func() { close(o.ended) }) }

// httpConn is a connection for http.Server, with what it is about.
type httpConn struct {
	net.Conn
	origin *origin
}

func (c httpConn) CloseWrite() error { return closeWrite(c.Conn) }

// forwarder serves HTTP and passes requests on.
type forwarder struct {
	*run
	server    *http.Server
	proxy     *httputil.ReverseProxy
	transport *http.Transport
	conns     *handOver
	upstream  upstreams
}

// handOver is the listener of connections that were accepted elsewhere.
type handOver struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (h *handOver) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

func (h *handOver) Close() error {
	h.once.Do(func() { close(h.done) })
	return nil
}

func (h *handOver) Addr() net.Addr { return &net.TCPAddr{} }

type originKey struct{}

// startHTTP starts what serves HTTP; finish ends it, when all connections from
// inside are gone.
func (r *run) startHTTP(ctx context.Context) (finish func()) {
	f := &forwarder{run: r, conns: &handOver{conns: make(chan net.Conn), done: make(chan struct{})}}
	r.http = f
	f.upstream.ctx = ctx
	f.transport = &http.Transport{
		DialContext:            f.dialUpstream,
		TLSClientConfig:        &tls.Config{RootCAs: r.config.RootCAs, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    netguard.DialTimeout,
		TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{}, // HTTP/1.1 only
		DisableCompression:     true,
		MaxIdleConns:           maxUpstreamIdle,
		MaxIdleConnsPerHost:    maxUpstreamIdle / 4,
		IdleConnTimeout:        upstreamIdle,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: maxResponseHeader,
	}
	quiet := log.New(io.Discard, "", 0) // what these say names what clients sent
	f.proxy = &httputil.ReverseProxy{
		Rewrite:       f.rewrite,
		Transport:     f.transport,
		FlushInterval: -1,
		ErrorLog:      quiet,
		ErrorHandler:  f.fail,
	}
	f.server = &http.Server{
		Handler:           f,
		ErrorLog:          quiet,
		ReadHeaderTimeout: helloTimeout,
		IdleTimeout:       keepAliveIdle,
		MaxHeaderBytes:    maxRequestHeader,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, originKey{}, c.(httpConn).origin)
		},
		ConnState: func(c net.Conn, s http.ConnState) { c.(httpConn).origin.state(s) },
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = f.server.Serve(f.conns) }) // ends with f.conns
	return func() {
		f.conns.Close()
		wg.Wait()
		f.transport.CloseIdleConnections()
		f.upstream.wait()
	}
}

// serveHTTP serves HTTP on a connection until it ends.
func (r *run) serveHTTP(c *client, o *origin) { r.serveHTTPOn(c, c, o) }

// serveHTTPOn does so on conn, which is c or what is inside of c.
func (r *run) serveHTTPOn(conn net.Conn, c *client, o *origin) {
	o.client, o.ended = c, make(chan struct{})
	defer func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.to != nil {
			o.to.Close()
		}
	}()
	select {
	case r.http.conns.conns <- httpConn{conn, o}:
		<-o.ended
	case <-c.closed:
	}
	c.Close()
}

// ServeHTTP decides about one request.
func (f *forwarder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	o := req.Context().Value(originKey{}).(*origin)
	defer o.handled()
	if o.proxy && req.Method == http.MethodConnect {
		f.serveConnect(w, req, o)
		return
	}
	t, scheme, err := f.requestTarget(o, req)
	if err == nil && req.Method == http.MethodTrace && f.inject[t.host] != nil {
		err = refuse("%s: TRACE would show what is injected", t)
	}
	if err != nil {
		f.decide("http", t, "", err)
		f.deny(w, o, err)
		return
	}
	if t.name() && !strings.EqualFold(req.Header.Get("Upgrade"), "websocket") {
		// HTTP/2 and TLS, which a server may offer to change to, would hide which host
		// is asked. Without the header it answers as it would have done.
		req.Header.Del("Upgrade")
	}
	_ = http.NewResponseController(w).EnableFullDuplex() // an answer may come before its request is whole
	h := w.Header()
	h["Date"], h["Content-Type"] = nil, nil // the server's own or none
	fw := forward{target: t, scheme: scheme, origin: o}
	ctx := context.WithValue(req.Context(), forwardKey{}, fw)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if o.first(t) && o.via == "" {
			f.decide("http", t, info.Conn.RemoteAddr().String(), nil)
		}
	}})
	f.proxy.ServeHTTP(w, req.WithContext(ctx))
}

// requestTarget says where a request goes, if it may.
func (f *forwarder) requestTarget(o *origin, req *http.Request) (t target, scheme string, err error) {
	scheme, authority := "http", req.Host
	if o.tls {
		scheme = "https"
	}
	t = o.target
	if o.proxy {
		if req.URL.Scheme != "http" && req.URL.Scheme != "https" || req.URL.Host == "" {
			t.host = authority
			return t, "", refuse("this is a proxy: it takes http:// addresses and CONNECT")
		}
		scheme, authority = req.URL.Scheme, req.URL.Host
	}
	if authority == "" && t.name() {
		return t, "", refuse("%s: a request without Host is not allowed", t)
	}
	host, port, ok := splitAuthority(authority, scheme)
	if !ok && (o.proxy || t.name()) {
		if t.host == "" {
			t.host = authority
		}
		return t, "", refuse("%q is not a host", shorten(authority))
	}
	if o.proxy {
		t, err = f.grant(host, port)
		if err != nil {
			t = target{host: host, port: port}
		}
		return t, scheme, err
	}
	name, _ := netguard.Name(host)
	_, explicit, _ := splitAuthority(authority, "")
	switch {
	case req.Method == http.MethodConnect:
		return t, "", refuse("%s: CONNECT belongs to the proxy's port", t)
	case !t.name():
		return t, scheme, nil
	case name != t.host:
		return t, "", refuse("%s: a request for %q in a connection to %s is not allowed", t, shorten(host), t.host)
	case explicit != 0 && explicit != t.port:
		return t, "", refuse("%s: a request for port %d in a connection to port %d is not allowed", t, explicit, t.port)
	}
	return t, scheme, nil
}

// splitAuthority splits "host" and "host:port"; the port is that of the scheme
// if none is written.
func splitAuthority(s, scheme string) (host string, port uint16, ok bool) {
	host, rest := s, ""
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap.Addr().String(), ap.Port(), ap.Port() != 0
	}
	if len(s) > 0 && s[0] == '[' {
		if s[len(s)-1] != ']' {
			return "", 0, false
		}
		host = s[1 : len(s)-1]
	} else if i := bytes.IndexByte([]byte(s), ':'); i >= 0 {
		host, rest = s[:i], s[i+1:]
		n, err := strconv.ParseUint(rest, 10, 16)
		if err != nil || n == 0 || rest[0] == '+' {
			return "", 0, false
		}
		return host, uint16(n), host != ""
	}
	switch scheme {
	case "http":
		port = 80
	case "https":
		port = 443
	}
	return host, port, host != ""
}

// forward is where a request goes.
type forward struct {
	target target
	scheme string
	origin *origin
}

type forwardKey struct{}

// rewrite addresses a request and sets what is to be injected. It runs after the
// headers that are only for the proxy were taken out, so a client cannot have
// an injected one taken out ("Connection: Authorization").
func (f *forwarder) rewrite(pr *httputil.ProxyRequest) {
	fw := pr.In.Context().Value(forwardKey{}).(forward)
	out := pr.Out
	out.URL.Scheme = fw.scheme
	out.URL.Host = net.JoinHostPort(fw.target.host, strconv.Itoa(int(fw.target.port)))
	out.Host = hostHeader(fw)
	if fw.target.any || fw.target.addr.IsValid() {
		out.Host = pr.In.Host
	}
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values, ok := pr.In.Header[name]; ok {
			out.Header[name] = values
		}
	}
	for _, in := range f.inject[fw.target.host] {
		if !injects(fw, pr.In.Host) {
			continue
		}
		out.Header.Set(in.Header, in.Value)
		delete(out.Trailer, http.CanonicalHeaderKey(in.Header))
	}
}

// injects reports whether the server that gets the request is the host of the
// target by the request's own words too.
func injects(fw forward, host string) bool {
	name, _, _ := splitAuthority(host, fw.scheme)
	name, _ = netguard.Name(name)
	return name == fw.target.host
}

// hostHeader names the target as a client would.
func hostHeader(fw forward) string {
	if (fw.scheme == "http" && fw.target.port == 80) || (fw.scheme == "https" && fw.target.port == 443) {
		return hostPort(fw.target.host, 0)
	}
	return fw.target.String()
}

// dialUpstream makes a connection for requests. The name is checked here once
// more: nothing gets out by an address that was put together elsewhere.
func (f *forwarder) dialUpstream(ctx context.Context, _, address string) (net.Conn, error) {
	if fw, ok := ctx.Value(forwardKey{}).(forward); ok {
		if c := fw.origin.take(address); c != nil {
			return f.upstream.own(c)
		}
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, err
	}
	t, err := f.grant(host, uint16(n))
	if err != nil {
		return nil, err
	}
	return f.upstream.dial(ctx, func(ctx context.Context) (net.Conn, error) { return f.dial(ctx, t) })
}

// fail answers a request that could not be passed on.
func (f *forwarder) fail(w http.ResponseWriter, req *http.Request, err error) {
	fw := req.Context().Value(forwardKey{}).(forward)
	switch {
	case isRefusal(err):
		f.decide("http", fw.target, "", err)
		f.deny(w, fw.origin, err)
	case req.Context().Err() != nil:
		panic(http.ErrAbortHandler) // the client is gone
	default:
		if fw.origin.first(fw.target) && fw.origin.via == "" {
			f.decide("http", fw.target, "", nil)
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(http.StatusBadGateway)
		fmt.Fprintf(w, "network: %s cannot be reached: %v\n", fw.target, err)
	}
}

// deny answers with the sentence, in the status line too, which is all that many
// programs show.
func (f *forwarder) deny(w http.ResponseWriter, o *origin, err error) {
	f.answer(w, o, forbidden(err.Error()))
}

// answer takes the connection over, writes an answer and ends it.
func (f *forwarder) answer(w http.ResponseWriter, o *origin, answer []byte) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	_ = conn.SetDeadline(time.Now().Add(turnAwayTime))
	_, _ = conn.Write(answer)
	_, _ = buffered.Discard(buffered.Reader.Buffered())
	if _, secret := conn.(httpConn).Conn.(*tls.Conn); secret {
		_ = conn.(httpConn).CloseWrite()
	}
	o.client.lingering()
}

// forbidden is a whole answer with a sentence.
func forbidden(sentence string) []byte { return plainAnswer(http.StatusForbidden, sentence, sentence) }

func plainAnswer(status int, reason, body string) []byte {
	reason = asciiOnly(printable(reason, maxSentence))
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s\n", status, reason, len(body)+1, body)
	return b.Bytes()
}

// asciiOnly makes a text fit into a status line.
func asciiOnly(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 0x80 {
			b[i] = '?'
		}
	}
	return string(b)
}

// serveConnect answers CONNECT and carries what comes in it.
func (f *forwarder) serveConnect(w http.ResponseWriter, req *http.Request, o *origin) {
	host, port, ok := splitAuthority(req.Host, "")
	t, err := target{host: req.Host}, error(nil)
	if ok && port != 0 {
		t, err = f.grant(host, port)
		if err != nil {
			t = target{host: host, port: port}
		}
	} else {
		err = refuse("%q is not host:port", shorten(req.Host))
	}
	var to net.Conn
	if err == nil {
		to, err = f.dial(req.Context(), t)
	}
	switch {
	case isRefusal(err):
		f.decide("connect", t, "", err)
		f.deny(w, o, err)
		return
	case err != nil:
		f.decide("connect", t, "", nil)
		sentence := fmt.Sprintf("network: %s cannot be reached: %v", t, err)
		f.answer(w, o, plainAnswer(http.StatusBadGateway, sentence, sentence))
		return
	}
	f.decide("connect", t, to.RemoteAddr().String(), nil)
	_, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		to.Close()
		return
	}
	c := o.client
	_ = c.SetDeadline(time.Time{})
	c.head = append(drain(buffered.Reader), c.head...)
	if _, err := io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		to.Close()
		return
	}
	f.carry(f.upstream.ctx, c, t, to, "connect")
}

// drain gives what was read ahead.
func drain(r *bufio.Reader) []byte {
	b, _ := r.Peek(r.Buffered())
	return append([]byte(nil), b...)
}

// logError notes what went wrong with something that was allowed.
func (p *Proxy) logError(ctx context.Context, what string, t target, err error) {
	if p.config.Log != nil && !errors.Is(err, net.ErrClosed) {
		p.config.Log.LogAttrs(ctx, slog.LevelDebug, what, slog.String("target", t.String()), slog.String("error", printable(err.Error(), maxSentence)))
	}
}
