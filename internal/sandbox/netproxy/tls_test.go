package netproxy_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox/netproxy"
)

// certificate signs itself for the names.
func certificate(t testing.TB, names ...string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// tlsServer is an HTTPS server on loopback for all names; it gives host:port.
func tlsServer(t testing.TB, config *tls.Config, h http.HandlerFunc) string {
	t.Helper()
	s := &http.Server{Handler: h, ErrorLog: quiet()}
	l := tls.NewListener(listen(t), config)
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Close(); <-done })
	return l.Addr().String()
}

// through connects to host:port in one of the ways that there are.
var through = map[string]func(w *world, t testing.TB, host string, port uint16) (net.Conn, error){
	"transparent": func(w *world, t testing.TB, host string, port uint16) (net.Conn, error) {
		return w.dialTransparent(w.fake(t, host), port)
	},
	"CONNECT": func(w *world, t testing.TB, host string, port uint16) (net.Conn, error) {
		return w.connect(t, fmt.Sprintf("%s:%d", host, port))
	},
	"CONNECT to a fake address": func(w *world, t testing.TB, host string, port uint16) (net.Conn, error) {
		return w.connect(t, netip.AddrPortFrom(w.fake(t, host), port).String())
	},
	"SOCKS5": func(w *world, t testing.TB, host string, port uint16) (net.Conn, error) {
		return w.socks5(t, host, port)
	},
}

func TestTLSNamesTheHost(t *testing.T) {
	cert, roots := certificate(t, "good.test", "evil.test")
	at := tlsServer(t, &tls.Config{Certificates: []tls.Certificate{cert}}, func(rw http.ResponseWriter, req *http.Request) {
		fmt.Fprint(rw, req.TLS.ServerName)
	})
	w := newWorld(t, netproxy.Config{Entries: entries(t, "good.test="+at, "10.1.2.3:443")})
	w.mu.Lock()
	w.dialTo["10.1.2.3:443"] = at
	w.mu.Unlock()
	for way, dial := range through {
		for _, c := range []struct{ name, sni, why string }{
			{"the same", "good.test", ""},
			{"in capitals", "GOOD.test", ""},
			{"another", "evil.test", `TLS for "evil.test" in a connection to good.test is not allowed`},
			{"below", "www.good.test", "not allowed"},
			{"with another dot", "good.test.evil.test", "not allowed"},
			{"none", "", "TLS without a server name (SNI) is not allowed"},
		} {
			conn, err := dial(w, t, "good.test", 443)
			if err != nil {
				t.Fatalf("%s: %v", way, err)
			}
			client := tls.Client(conn, &tls.Config{ServerName: c.sni, RootCAs: roots, InsecureSkipVerify: c.sni != "good.test"})
			err = client.Handshake()
			if (err == nil) != (c.why == "") {
				t.Errorf("%s, %s: handshake: %v", way, c.name, err)
			}
			conn.Close()
			if c.why != "" {
				contains(t, err.Error(), "access denied")
				eventually(t, "the refusal is recorded", func() bool { return strings.Contains(w.lastRule(), c.why) })
			}
		}
	}
	// An address that an entry names is not held to a name.
	conn := w.transparent(t, netip.MustParseAddr("10.1.2.3"), 443)
	if err := tls.Client(conn, &tls.Config{ServerName: "evil.test", InsecureSkipVerify: true}).Handshake(); err != nil {
		t.Errorf("to an address: %v", err)
	}
	client := w.client(t)
	client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: roots}
	resp, err := client.Get("https://good.test/")
	if got := body(t, resp, err); got != "good.test" {
		t.Errorf("got %q", got)
	}
	if _, err := client.Get("https://evil.test/"); err == nil {
		t.Error("https://evil.test/ is allowed")
	} else {
		contains(t, err.Error(), "evil.test:443 is not among the allowed domains")
	}
}

// clientHello is what Go would send, with more extensions. It is kept small: the
// fuzzing engine spends its time on making inputs smaller otherwise.
func clientHello(t testing.TB, name string, more ...[]byte) []byte {
	t.Helper()
	client, server := net.Pipe()
	go func() {
		defer client.Close()
		_ = tls.Client(client, &tls.Config{ServerName: name, InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{tls.X25519}}).Handshake()
	}()
	defer server.Close()
	header := make([]byte, 5)
	if _, err := io.ReadFull(server, header); err != nil {
		t.Fatal(err)
	}
	hello := make([]byte, binary.BigEndian.Uint16(header[3:]))
	if _, err := io.ReadFull(server, hello); err != nil {
		t.Fatal(err)
	}
	for _, extension := range more {
		at := 4 + 2 + 32
		at += 1 + int(hello[at])
		at += 2 + int(binary.BigEndian.Uint16(hello[at:]))
		at += 1 + int(hello[at])
		binary.BigEndian.PutUint16(hello[at:], binary.BigEndian.Uint16(hello[at:])+uint16(len(extension)))
		// In front, since a pre-shared key has to be last.
		hello = append(hello[:at+2:at+2], append(bytes.Clone(extension), hello[at+2:]...)...)
		n := len(hello) - 4
		hello[1], hello[2], hello[3] = byte(n>>16), byte(n>>8), byte(n)
	}
	return hello
}

// records splits a message into TLS records of so many bytes.
func records(message []byte, size int) []byte {
	var b []byte
	for len(message) > 0 {
		n := min(size, len(message))
		b = append(b, 22, 3, 1)
		b = binary.BigEndian.AppendUint16(b, uint16(n))
		b = append(b, message[:n]...)
		message = message[n:]
	}
	return b
}

func extension(kind uint16, data ...byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, kind)
	b = binary.BigEndian.AppendUint16(b, uint16(len(data)))
	return append(b, data...)
}

func sni(names ...string) []byte {
	var list []byte
	for _, n := range names {
		list = append(list, 0)
		list = binary.BigEndian.AppendUint16(list, uint16(len(n)))
		list = append(list, n...)
	}
	return extension(0, append(binary.BigEndian.AppendUint16(nil, uint16(len(list))), list...)...)
}

func TestParseHello(t *testing.T) {
	plain := clientHello(t, "good.test")
	nameless := clientHello(t, "")
	for _, c := range []struct {
		name string
		msg  []byte
		want string // the name
		ech  bool
		err  string
	}{
		{"Go's", records(plain, 1<<14), "good.test", false, ""},
		{"in records of 100 bytes", records(plain, 100), "good.test", false, ""},
		{"in records of one byte", records(plain, 1), "good.test", false, ""},
		{"with data after it", append(records(plain, 1<<14), 23, 3, 3, 0, 1, 0), "good.test", false, ""},
		{"without a name", records(nameless, 1<<14), "", false, ""},
		{"with ECH", records(clientHello(t, "good.test", extension(0xfe0d, 0, 0, 1)), 1<<14), "good.test", true, ""},
		{"with a draft of ECH", records(clientHello(t, "good.test", extension(0xfe09, 0)), 1<<14), "good.test", true, ""},
		{"with ESNI", records(clientHello(t, "", extension(0xffce, 0)), 1<<14), "", true, ""},
		{"with an unknown extension", records(clientHello(t, "good.test", extension(0x7a7a)), 1<<14), "good.test", false, ""},
		{"two names", records(clientHello(t, "", sni("good.test", "evil.test")), 1<<14), "", false, "malformed"},
		{"the extension twice", records(clientHello(t, "good.test", sni("evil.test")), 1<<14), "", false, "malformed"},
		{"an empty name", records(clientHello(t, "", sni("")), 1<<14), "", false, "malformed"},
		{"an empty list", records(clientHello(t, "", extension(0, 0, 0)), 1<<14), "", false, "malformed"},
		{"an empty extension", records(clientHello(t, "", extension(0)), 1<<14), "", false, "malformed"},
		{"another kind of name", records(clientHello(t, "", extension(0, 0, 4, 1, 0, 1, 'a')), 1<<14), "", false, "malformed"},
		{"bytes after the list", records(clientHello(t, "", extension(0, 0, 4, 0, 0, 1, 'a', 0)), 1<<14), "", false, "malformed"},
		{"an odd extension", records(clientHello(t, "good.test", []byte{1}), 1<<14), "", false, "malformed"},
		{"bytes in the record after it", records(append(bytes.Clone(plain), 0), 1<<14), "", false, "malformed"},
		{"an empty record first", append([]byte{22, 3, 1, 0, 0}, records(plain, 1<<14)...), "", false, "malformed"},
		{"an empty record between", append(append(records(plain[:10], 10), 22, 3, 1, 0, 0), records(plain[10:], 1<<14)...), "", false, "malformed"},
		{"an alert first", append([]byte{21, 3, 1, 0, 2, 1, 0}, records(plain, 1<<14)...), "", false, "does not begin"},
		{"an alert between", append(append(records(plain[:10], 10), 21, 3, 1, 0, 2, 1, 0), records(plain[10:], 1<<14)...), "", false, "does not begin"},
		{"a ServerHello", records(append([]byte{2}, plain[1:]...), 1<<14), "", false, "does not begin"},
		{"SSL 2", []byte{0x80, 0x2e, 1, 3, 1, 0, 0}, "", false, "does not begin"},
		{"SSL 2 in a record", []byte{22, 2, 0, 0, 1, 1}, "", false, "does not begin"},
		{"a record too large", []byte{22, 3, 1, 0x40, 1, 1}, "", false, "malformed"},
		{"a hello too large", records(append([]byte{1, 1, 0, 1}, make([]byte, 1<<14)...), 1<<14), "", false, "too large"},
		{"too many records", records(append([]byte{1, 0, 0x40, 0}, make([]byte, 1<<14)...), 1), "", false, "too large"},
		{"HTTP", []byte("GET / HTTP/1.1\r\n"), "", false, "does not begin"},
	} {
		h, need, err := netproxy.ParseHello(c.msg)
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %+v, %d, %v; want an error with %q", c.name, h, need, err, c.err)
			}
		case err != nil || need != 0 || h.Name() != c.want || h.ECH() != c.ech:
			t.Errorf("%s: %+v, %d, %v; want name %q, ECH %v", c.name, h, need, err, c.want, c.ech)
		}
	}
	whole := records(plain, 100)
	for n := range len(whole) {
		_, need, err := netproxy.ParseHello(whole[:n])
		if err != nil || need <= n || need > len(whole) {
			t.Fatalf("the first %d of %d bytes: need %d, %v", n, len(whole), need, err)
		}
	}
}

// A hello that comes in pieces is the same hello.
func TestTLSInPieces(t *testing.T) {
	at := tcpServer(t, func(c net.Conn) { _, _ = io.Copy(c, c) })
	w := newWorld(t, netproxy.Config{Entries: entries(t, "good.test="+at)})
	for name, hello := range map[string][]byte{"good.test": clientHello(t, "good.test"), "evil.test": clientHello(t, "evil.test")} {
		c := w.transparent(t, w.fake(t, "good.test"), 443)
		sent := records(hello, 7)
		for i := range sent {
			if _, err := c.Write(sent[i : i+1]); err != nil {
				break
			}
		}
		got := make([]byte, len(sent))
		n, _ := io.ReadFull(c, got)
		if passed := bytes.Equal(got[:n], sent); passed != (name == "good.test") {
			t.Errorf("%s: %d bytes arrived", name, n)
		}
	}
}

func TestTLSHidden(t *testing.T) {
	at := echo(t)
	w := newWorld(t, netproxy.Config{Entries: entries(t, "good.test="+at)})
	c := w.transparent(t, w.fake(t, "good.test"), 443)
	if _, err := c.Write(records(clientHello(t, "good.test", extension(0xfe0d, 0, 0, 1)), 1<<14)); err != nil {
		t.Fatal(err)
	}
	got, _ := io.ReadAll(c)
	if !bytes.Equal(got, []byte{21, 3, 3, 0, 2, 2, 49}) {
		t.Errorf("got % x, want an alert", got)
	}
	contains(t, w.refused(t).Rule, "Encrypted Client Hello is not allowed")
}

// retry is a server that asks for a second hello, as far as a proxy can see.
func retry() []byte {
	random := []byte("\xcf\x21\xad\x74\xe5\x9a\x61\x11\xbe\x1d\x8c\x02\x1e\x65\xb8\x91\xc2\xa2\x11\x16\x7a\xbb\x8c\x5e\x07\x9e\x09\xe2\xc8\xa8\x33\x9c")
	return records(append([]byte{2, 0, 0, 40, 3, 3}, append(random, 0, 0, 0, 0, 0, 0)...), 1<<14)
}

func TestTLSSecondHello(t *testing.T) {
	first := records(clientHello(t, "good.test"), 1<<14)
	change := []byte{20, 3, 3, 0, 1, 1}
	for _, c := range []struct {
		name   string
		answer []byte
		second []byte
		passes bool
	}{
		{"the same name", retry(), append(bytes.Clone(change), first...), true},
		{"another name", retry(), append(bytes.Clone(change), records(clientHello(t, "evil.test"), 1<<14)...), false},
		{"another name in pieces", retry(), records(clientHello(t, "evil.test"), 3), false},
		{"another name after early data", retry(), append([]byte{23, 3, 3, 0, 3, 1, 2, 3}, records(clientHello(t, "evil.test"), 1<<14)...), false},
		{"no hello", retry(), records([]byte{16, 0, 0, 1, 0}, 1<<14), false},
		{"not asked for", records(append([]byte{2, 0, 0, 40, 3, 3}, make([]byte, 38)...), 1<<14), records([]byte{16, 0, 0, 1, 0}, 1<<14), true},
		{"an alert", []byte{21, 3, 3, 0, 2, 1, 0}, []byte("rest"), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			arrived := make(chan []byte, 1)
			at := tcpServer(t, func(conn net.Conn) {
				if _, err := io.ReadFull(conn, make([]byte, len(first))); err != nil {
					arrived <- nil
					return
				}
				_, _ = conn.Write(c.answer)
				got, _ := io.ReadAll(conn)
				arrived <- got
			})
			w := newWorld(t, netproxy.Config{Entries: entries(t, "good.test="+at)})
			conn := w.transparent(t, w.fake(t, "good.test"), 443)
			if _, err := conn.Write(first); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(conn, make([]byte, len(c.answer))); err != nil {
				t.Fatal(err)
			}
			_, _ = conn.Write(c.second)
			_ = conn.(*net.TCPConn).CloseWrite()
			got := <-arrived
			if passed := bytes.Equal(got, c.second); passed != c.passes {
				t.Errorf("%d of %d bytes arrived, want all: %v", len(got), len(c.second), c.passes)
			}
			if bytes.Contains(got, []byte("evil.test")) {
				t.Error("the other name arrived")
			}
		})
	}
}

// Both at once, before the server has said anything.
func TestTLSTwoHellosAtOnce(t *testing.T) {
	arrived := make(chan []byte, 1)
	at := tcpServer(t, func(conn net.Conn) { got, _ := io.ReadAll(conn); arrived <- got })
	w := newWorld(t, netproxy.Config{Entries: entries(t, "good.test="+at)})
	conn := w.transparent(t, w.fake(t, "good.test"), 443)
	_, _ = conn.Write(append(records(clientHello(t, "good.test"), 1<<14), records(clientHello(t, "evil.test"), 1<<14)...))
	if got := <-arrived; bytes.Contains(got, []byte("evil.test")) {
		t.Error("the other name arrived")
	}
}

// Real TLS with a retry: the server wants a curve that the client offers no key for.
func TestTLSRetryWorks(t *testing.T) {
	cert, roots := certificate(t, "good.test")
	config := &tls.Config{Certificates: []tls.Certificate{cert}, CurvePreferences: []tls.CurveID{tls.CurveP384}}
	at := tlsServer(t, config, func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "here") })
	w := newWorld(t, netproxy.Config{Entries: entries(t, "good.test="+at)})
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		client := w.client(t)
		client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{
			RootCAs: roots, CurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP384}, MaxVersion: version, ClientSessionCache: tls.NewLRUClientSessionCache(4),
		}
		client.Transport.(*http.Transport).DisableKeepAlives = true
		for range 3 { // the later ones resume
			resp, err := client.Get("https://good.test/")
			if got := body(t, resp, err); got != "here" {
				t.Errorf("%x: got %q", version, got)
			}
		}
	}
}

func FuzzClientHello(f *testing.F) {
	f.Add(records(clientHello(f, "good.test"), 1<<14))
	f.Add(records(clientHello(f, "good.test", extension(0xfe0d, 0, 0, 1)), 50))
	f.Add(records(clientHello(f, "", sni("a", "b")), 1<<14))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, need, err := netproxy.ParseHello(b)
		if err != nil {
			return
		}
		if need != 0 {
			if need <= len(b) || need > 64<<10 {
				t.Fatalf("of %d bytes: need %d", len(b), need)
			}
			return
		}
		if h.Length() > len(b) || !bytes.Contains(stripRecords(b[:h.Length()]), []byte(h.Name())) {
			t.Fatalf("length %d of %d, name %q", h.Length(), len(b), h.Name())
		}
		again, need, err := netproxy.ParseHello(b[:h.Length()])
		if again != h || need != 0 || err != nil {
			t.Fatalf("without the rest: %+v, %d, %v; want %+v", again, need, err, h)
		}
	})
}

// Where Go's own parser finds a name, ours finds the same or refuses.
func TestParseHelloAgreesWithGo(t *testing.T) {
	random := mathrand.New(mathrand.NewPCG(1, 2))
	base := records(clientHello(t, "good.test"), 1<<14)
	both := 0
	for range 5000 {
		b := bytes.Clone(base)
		for range 1 + random.IntN(3) {
			b[random.IntN(len(b))] = byte(random.IntN(256))
		}
		h, need, err := netproxy.ParseHello(b)
		if err != nil || need != 0 {
			continue
		}
		if name, err := goServerName(b[:h.Length()]); err == nil {
			if both++; name != h.Name() {
				t.Fatalf("Go reads %q, we read %q in % x", name, h.Name(), b)
			}
		}
	}
	if both < 1000 {
		t.Errorf("both read %d of 5000 hellos, want more for this to mean anything", both)
	}
}

func stripRecords(b []byte) []byte {
	var message []byte
	for len(b) >= 5 {
		n := 5 + int(binary.BigEndian.Uint16(b[3:]))
		message = append(message, b[5:n]...)
		b = b[n:]
	}
	return message
}

var errSeen = errors.New("seen")

// heard is a connection on which something was said and nothing more comes.
type heard struct {
	net.Conn
	io.Reader
}

func (h heard) Read(b []byte) (int, error)  { return h.Reader.Read(b) }
func (h heard) Write(b []byte) (int, error) { return len(b), nil }

// goServerName is the name that crypto/tls finds in a hello.
func goServerName(b []byte) (name string, err error) {
	err = tls.Server(heard{Reader: bytes.NewReader(b)}, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		name = h.ServerName
		return nil, errSeen
	}}).Handshake()
	if errors.Is(err, errSeen) {
		return name, nil
	}
	return "", err
}

// lastRule is that of the last decision.
func (w *world) lastRule() string {
	all := w.Decisions()
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1].Rule
}

// connect is CONNECT by hand; it fails with the status line.
func (w *world) connect(t testing.TB, target string) (net.Conn, error) {
	t.Helper()
	c, err := net.Dial("tcp", w.proxy)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target)
	var head []byte
	for !bytes.HasSuffix(head, []byte("\r\n\r\n")) {
		b := make([]byte, 1)
		if _, err := c.Read(b); err != nil {
			c.Close()
			return nil, fmt.Errorf("after %q: %w", head, err)
		}
		head = append(head, b...)
	}
	status, _, _ := strings.Cut(string(head), "\r\n")
	if !strings.HasPrefix(status, "HTTP/1.1 200 ") {
		c.Close()
		return nil, errors.New(status)
	}
	return c, nil
}

// socks5 is SOCKS5 with a name, by hand; it fails with the code.
func (w *world) socks5(t testing.TB, host string, port uint16) (net.Conn, error) {
	t.Helper()
	return w.socks(t, []byte{5, 1, 0}, append(append([]byte{5, 1, 0, 3, byte(len(host))}, host...), byte(port>>8), byte(port)))
}

func (w *world) socks(t testing.TB, greeting, request []byte) (net.Conn, error) {
	t.Helper()
	c, err := net.Dial("tcp", w.proxy)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	answer := make([]byte, 10)
	if _, err := c.Write(append(bytes.Clone(greeting), request...)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, answer[:2]); err != nil || answer[1] != 0 {
		c.Close()
		return nil, fmt.Errorf("method % x, %v", answer[:2], err)
	}
	if _, err := io.ReadFull(c, answer); err != nil {
		c.Close()
		return nil, err
	}
	if answer[1] != 0 {
		c.Close()
		return nil, fmt.Errorf("code %d", answer[1])
	}
	return c, nil
}

// proxied is a client with another proxy address.
func proxied(t testing.TB, proxy string) *http.Client {
	u, err := url.Parse(proxy)
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{Proxy: http.ProxyURL(u)}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 20 * time.Second}
}
