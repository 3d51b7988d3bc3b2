package netproxy_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox/netproxy"
)

const secret = "Bearer s3cr3t-t0ken"

// authorizations is a handler that says which it got.
func authorizations(rw http.ResponseWriter, req *http.Request) {
	rw.Header().Set("X-Got", strings.Join(req.Header["Authorization"], "|"))
	fmt.Fprintf(rw, "%s %s proto=%s auth=%q", req.Method, req.Host, req.Proto, req.Header["Authorization"])
}

// injecting is a world in which api.test has an injection, over TLS and without.
func injecting(t *testing.T, c netproxy.Config) (w *world, log *bytes.Buffer) {
	cert, roots := certificate(t, "api.test", "www.api.test", "other.test")
	secure := tlsServer(t, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}}, authorizations)
	plain := server(t, authorizations)
	c.RootCAs = roots
	c.Inject = []netproxy.Injection{{Host: "api.test", Header: "authorization", Value: secret}, {Host: "api.test", Header: "X-Key", Value: "k3y"}}
	c.Entries = append(c.Entries, entries(t, "api.test:443="+secure, "api.test:80="+plain, "*.api.test", "other.test:443="+secure, "other.test:80="+plain, "up.test:80="+upgradeServer(t))...)
	log = &bytes.Buffer{}
	c.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w = newWorld(t, c)
	w.at("www.api.test", "93.184.216.34", map[int]string{443: secure, 80: plain})
	return w, log
}

// inside is how programs inside trust the proxy.
func inside(t *testing.T, w *world) *x509.CertPool {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(w.CA()) {
		t.Fatal("CA gives no certificate")
	}
	return pool
}

func TestInjection(t *testing.T) {
	w, log := injecting(t, netproxy.Config{})
	ca := inside(t, w)
	for way, client := range map[string]*http.Client{
		"proxy": w.client(t), "transparent": w.transparentClient(t), "SOCKS5": proxied(t, "socks5://"+w.proxy),
	} {
		client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: ca}
		client.Transport.(*http.Transport).ForceAttemptHTTP2 = true
		for _, scheme := range []string{"http", "https"} {
			for _, method := range []string{"GET", "POST"} {
				req, _ := http.NewRequest(method, scheme+"://api.test/", strings.NewReader("x"))
				req.Header["Authorization"] = []string{"Bearer of the client", "twice"}
				req.Header.Set("Connection", "Authorization, X-Key")
				resp, err := client.Do(req)
				got := body(t, resp, err)
				want := fmt.Sprintf("%s api.test proto=HTTP/1.1 auth=[%q]", method, secret)
				if got != want {
					t.Errorf("%s, %s: got %q, want %q", way, scheme, got, want)
				}
				if resp.Header.Get("X-Got") != secret {
					t.Errorf("%s, %s: the answer's header is %q, want it as it came", way, scheme, resp.Header.Get("X-Got"))
				}
			}
		}
		// Another host, another below, get nothing.
		resp, err := client.Get("http://other.test/")
		contains(t, body(t, resp, err), "other.test proto=HTTP/1.1 auth=[]")
		resp, err = client.Get("http://www.api.test/")
		contains(t, body(t, resp, err), "www.api.test proto=HTTP/1.1 auth=[]")
	}
	var all bytes.Buffer
	fmt.Fprintf(&all, "%+v %s", w.Decisions(), log)
	for _, s := range []string{"s3cr3t", "k3y"} {
		if strings.Contains(all.String(), s) {
			t.Errorf("%q is in decisions or the log", s)
		}
	}
	contains(t, log.String(), "network decision")
}

// TLS of hosts without an injection is not opened.
func TestOnlyInjectionsOpenTLS(t *testing.T) {
	w, _ := injecting(t, netproxy.Config{})
	for host, opened := range map[string]bool{"api.test": true, "other.test": false, "www.api.test": false} {
		conn := w.transparent(t, w.fake(t, host), 443)
		c := tls.Client(conn, &tls.Config{ServerName: host, InsecureSkipVerify: true})
		if err := c.Handshake(); err != nil {
			t.Fatalf("%s: %v", host, err)
		}
		_, err := c.ConnectionState().PeerCertificates[0].Verify(x509.VerifyOptions{DNSName: host, Roots: inside(t, w)})
		if (err == nil) != opened {
			t.Errorf("%s: the proxy's certificate: %v, want it: %v", host, err, opened)
		}
	}
}

// Inside of TLS that the proxy opens, every request is held to the host.
func TestInjectionChecksHost(t *testing.T) {
	w, _ := injecting(t, netproxy.Config{})
	config := &tls.Config{ServerName: "api.test", RootCAs: inside(t, w)}
	for sent, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: other.test\r\n\r\n":                                         "403",
		"GET / HTTP/1.1\r\nHost: www.api.test\r\n\r\n":                                       "403",
		"GET / HTTP/1.1\r\nHost: api.test:80\r\n\r\n":                                        "403",
		"GET https://other.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n":                         "403",
		"GET / HTTP/1.1\r\nHost: api.test\r\n\r\nGET / HTTP/1.1\r\nHost: other.test\r\n\r\n": "HTTP/1.1 403",
		"TRACE / HTTP/1.1\r\nHost: api.test\r\n\r\n":                                         "TRACE would show what is injected",
		"GET / HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n":                      "200 OK",
		"GET / HTTP/1.1\r\nHost: api.test:443\r\nConnection: close\r\n\r\n":                  "200 OK",
		"CONNECT other.test:443 HTTP/1.1\r\nHost: other.test:443\r\n\r\n":                    "403",
		"POST / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\nTrailer: Authorization\r\nConnection: close\r\n\r\n1\r\nx\r\n0\r\nAuthorization: mine\r\n\r\n": fmt.Sprintf("auth=[%q]", secret),
	} {
		conn := tls.Client(w.transparent(t, w.fake(t, "api.test"), 443), config)
		contains(t, talk(t, conn, sent), want)
	}
	if got := talk(t, w.transparent(t, w.fake(t, "api.test"), 80), "TRACE / HTTP/1.1\r\nHost: api.test\r\n\r\n"); !strings.Contains(got, "403") {
		t.Errorf("TRACE: got %q", got)
	}
}

// The server behind an injection must be who it says.
func TestInjectionVerifiesTheServer(t *testing.T) {
	cert, _ := certificate(t, "api.test")
	_, otherRoots := certificate(t, "api.test")
	wrong, wrongRoots := certificate(t, "wrong.test")
	for name, c := range map[string]struct {
		cert  tls.Certificate
		roots *x509.CertPool
	}{"unknown": {cert, otherRoots}, "another name": {wrong, wrongRoots}, "system roots": {cert, nil}} {
		t.Run(name, func(t *testing.T) {
			asked := false
			at := tlsServer(t, &tls.Config{Certificates: []tls.Certificate{c.cert}}, func(http.ResponseWriter, *http.Request) { asked = true })
			w := newWorld(t, netproxy.Config{
				Entries: entries(t, "api.test="+at), RootCAs: c.roots,
				Inject: []netproxy.Injection{{Host: "api.test", Header: "Authorization", Value: secret}},
			})
			conn := tls.Client(w.transparent(t, w.fake(t, "api.test"), 443), &tls.Config{ServerName: "api.test", RootCAs: inside(t, w)})
			got := talk(t, conn, "GET / HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n")
			contains(t, got, "502", "network: api.test:443 cannot be reached", "certificate")
			if asked || strings.Contains(got, "s3cr3t") {
				t.Errorf("the request was sent: %q", got)
			}
		})
	}
}

func TestInjectionAndWebSocket(t *testing.T) {
	got := make(chan http.Header, 1)
	at := tcpServer(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		got <- req.Header
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(c, r)
	})
	w := newWorld(t, netproxy.Config{Entries: entries(t, "api.test="+at), Inject: []netproxy.Injection{{Host: "api.test", Header: "Authorization", Value: secret}}})
	c := w.transparent(t, w.fake(t, "api.test"), 80)
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: api.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nAuthorization: mine\r\n\r\n")
	r := bufio.NewReader(c)
	if resp, err := http.ReadResponse(r, nil); err != nil || resp.StatusCode != 101 {
		t.Fatalf("answer %+v, %v", resp, err)
	}
	if h := <-got; len(h["Authorization"]) != 1 || h.Get("Authorization") != secret {
		t.Errorf("the server got %q", h["Authorization"])
	}
	_, _ = io.WriteString(c, "ping")
	if b := make([]byte, 4); func() bool { _, err := io.ReadFull(r, b); return err != nil || string(b) != "ping" }() {
		t.Errorf("got %q", b)
	}
}

// When all is allowed, what goes to another server gets nothing, whatever name
// it says.
func TestInjectionWhenAllIsAllowed(t *testing.T) {
	w, _ := injecting(t, netproxy.Config{All: true})
	plain := server(t, authorizations)
	w.at("thief.example", "93.184.216.35", map[int]string{80: plain})
	w.mu.Lock()
	w.dialTo["93.184.216.36:80"] = plain
	w.mu.Unlock()
	for _, c := range []net.Conn{w.transparent(t, w.fake(t, "thief.example"), 80), w.transparent(t, netip.MustParseAddr("93.184.216.36"), 80)} {
		got := talk(t, c, "GET / HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n")
		if !strings.Contains(got, "auth=[]") {
			t.Errorf("got %q", got)
		}
	}
	resp, err := w.client(t).Get("http://api.test/")
	contains(t, body(t, resp, err), "s3cr3t")
}

// A host that no entry names has its injection too, in requests that are for it.
func TestInjectionWithoutEntry(t *testing.T) {
	w := newWorld(t, netproxy.Config{All: true, Inject: []netproxy.Injection{{Host: "api.test", Header: "Authorization", Value: secret}}})
	w.at("api.test", "93.184.216.34", map[int]string{80: server(t, authorizations)})
	for host, want := range map[string]string{"api.test": fmt.Sprintf("api.test proto=HTTP/1.1 auth=[%q]", secret), "other.test": "other.test proto=HTTP/1.1 auth=[]"} {
		c := w.transparent(t, w.fake(t, "api.test"), 80)
		contains(t, talk(t, c, "GET / HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n"), want)
	}
}

func TestAuthority(t *testing.T) {
	if netproxy.New(netproxy.Config{}).CA() != nil {
		t.Error("a certificate without an injection")
	}
	c := netproxy.Config{Inject: []netproxy.Injection{{Host: "api.test", Header: "A", Value: "b"}}}
	a, b := netproxy.New(c).CA(), netproxy.New(c).CA()
	if bytes.Equal(a, b) {
		t.Error("two proxies have one certificate")
	}
	block, rest := pem.Decode(a)
	if block == nil || len(rest) > 0 || block.Type != "CERTIFICATE" {
		t.Fatalf("CA gives %q", a)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if !cert.IsCA || !cert.PermittedDNSDomainsCritical || fmt.Sprint(cert.PermittedDNSDomains) != "[api.test]" || time.Until(cert.NotAfter) > 398*24*time.Hour {
		t.Errorf("certificate %+v", cert)
	}
}

func TestInjectionIsChecked(t *testing.T) {
	for want, in := range map[string]netproxy.Injection{
		"not a host name":          {Host: "", Header: "A", Value: secret},
		"is not a host name in":    {Host: "API.test", Header: "A", Value: secret},
		"not the name of a header": {Host: "api.test", Header: "A B", Value: secret},
		"has a control character":  {Host: "api.test", Header: "A", Value: secret + "\r\nX: y"},
		"Host cannot be set":       {Host: "api.test", Header: "host", Value: secret},
		"Connection cannot be set": {Host: "api.test", Header: "connection", Value: secret},
		"Content-Length cannot be": {Host: "api.test", Header: "content-length", Value: secret},
	} {
		c := netproxy.Config{Inject: []netproxy.Injection{in}}
		err := c.Check()
		if err == nil {
			t.Errorf("%q: no error", want)
			continue
		}
		contains(t, err.Error(), want)
		if err := netproxy.New(c).Serve(t.Context(), netproxy.Sockets{}); err == nil {
			t.Errorf("%q: served", want)
		}
		j, _ := json.Marshal(c.Inject)
		for _, text := range []string{err.Error(), fmt.Sprintf("%v %+v %#v %s", in, c.Inject, in, j), fmt.Sprint(slog.Any("in", in))} {
			if strings.Contains(text, "s3cr3t") {
				t.Errorf("%q shows the value", text)
			}
		}
	}
}
