package netproxy_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/sandbox/netproxy"
)

// greeter speaks first, and repeats then what it hears.
func greeter(t testing.TB) netip.AddrPort {
	return netip.MustParseAddrPort(tcpServer(t, func(c net.Conn) {
		_, _ = io.WriteString(c, "220 hello\r\n")
		_, _ = io.Copy(c, c)
	}))
}

func TestServerSpeaksFirst(t *testing.T) {
	at := greeter(t)
	w := newWorld(t, netproxy.Config{Entries: entries(t, "ssh.test:22="+at.String(), at.String())})
	ways := map[string]func() (net.Conn, error){
		"transparent":    func() (net.Conn, error) { return w.dialTransparent(w.fake(t, "ssh.test"), 22) },
		"to the address": func() (net.Conn, error) { return w.dialTransparent(at.Addr(), at.Port()) },
		"CONNECT":        func() (net.Conn, error) { return w.connect(t, "ssh.test:22") },
		"SOCKS5":         func() (net.Conn, error) { return w.socks5(t, "ssh.test", 22) },
	}
	for way, dial := range ways {
		for sent, passes := range map[string]bool{
			"SSH-2.0-x\r\n":  true,
			"EHLO there\r\n": true,
			"\x00\x01":       true,
			"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n":            false,
			string(records(clientHello(t, "evil.test"), 1<<14)):    false,
			string(records(clientHello(t, "ssh.test"), 1<<14)[:9]): false,
		} {
			c, err := dial()
			if err != nil {
				t.Fatalf("%s: %v", way, err)
			}
			hello := make([]byte, len("220 hello\r\n"))
			if _, err := io.ReadFull(c, hello); err != nil || string(hello) != "220 hello\r\n" {
				t.Fatalf("%s: greeting %q, %v", way, hello, err)
			}
			_, _ = io.WriteString(c, sent)
			_ = c.(*net.TCPConn).CloseWrite()
			got, _ := io.ReadAll(c)
			c.Close()
			want := passes || way == "to the address" // which is not held to a name
			if passed := string(got) == sent; passed != want {
				t.Errorf("%s: %.20q: got %.20q, want it to pass: %v", way, sent, got, want)
			}
		}
	}
	if !slices.ContainsFunc(w.Decisions(), func(d netproxy.Decision) bool {
		return !d.Allowed && d.Rule == "network: ssh.test:22: TLS or HTTP where the server spoke first"
	}) {
		t.Errorf("decisions %+v, want a refusal of what came after the server's greeting", w.Decisions())
	}
}

// A client that takes its time, at a port where the server might speak first, is
// held to the name as one that does not.
func TestLateTLSAndHTTP(t *testing.T) {
	cert, roots := certificate(t, "good.test")
	plain := server(t, func(rw http.ResponseWriter, req *http.Request) { fmt.Fprintf(rw, "host=%s", req.Host) })
	secret := tlsServer(t, &tls.Config{Certificates: []tls.Certificate{cert}}, func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "secret") })
	w := newWorld(t, netproxy.Config{Entries: entries(t, "good.test:8080="+plain, "good.test:8443="+secret)})
	// late connects, and waits until the proxy has dialled for a silent client.
	late := func(port uint16) net.Conn {
		w.mu.Lock()
		before := len(w.dialled)
		w.mu.Unlock()
		c := w.transparent(t, w.fake(t, "good.test"), port)
		eventually(t, "the proxy dials", func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return len(w.dialled) > before
		})
		return c
	}
	if got := talk(t, late(8080), "GET / HTTP/1.1\r\nHost: good.test:8080\r\nConnection: close\r\n\r\n"); !strings.Contains(got, "host=good.test:8080") {
		t.Errorf("HTTP: got %q", got)
	}
	if got := talk(t, late(8080), "GET / HTTP/1.1\r\nHost: good.test:8080\r\n\r\nGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"); !strings.Contains(got, "403") || strings.Contains(got, "host=evil") {
		t.Errorf("HTTP with another host in the second request: got %q", got)
	}
	for name, ok := range map[string]bool{"good.test": true, "evil.test": false} {
		err := tls.Client(late(8443), &tls.Config{ServerName: name, RootCAs: roots, InsecureSkipVerify: !ok}).Handshake()
		if (err == nil) != ok {
			t.Errorf("TLS for %s: %v, want it to work: %v", name, err, ok)
		}
	}
}

// What cannot be known for another name is relayed at ports that an entry names,
// and at no other.
func TestOnlyNamedPortsAreRaw(t *testing.T) {
	at := netip.MustParseAddrPort(echo(t))
	w := newWorld(t, netproxy.Config{Entries: entries(t, "raw.test="+at.String())})
	for way, dial := range through {
		for port, passes := range map[uint16]bool{at.Port(): true, 80: false, 443: false} {
			c, err := dial(w, t, "raw.test", port)
			if err != nil {
				t.Fatalf("%s: %v", way, err)
			}
			_, _ = io.WriteString(c, "\x00raw\n")
			_ = c.(*net.TCPConn).CloseWrite()
			got, _ := io.ReadAll(c)
			c.Close()
			if passed := string(got) == "\x00raw\n"; passed != passes {
				t.Errorf("%s, port %d: got %q, want it to pass: %v", way, port, got, passes)
			}
		}
		if _, err := w.connect(t, "raw.test:22"); err == nil {
			t.Error("a port that no entry names is open")
		}
	}
	contains(t, w.refused(t).Rule, "raw.test:22 is not allowed: raw.test may be reached at port 80, 443, ")
}

// Addresses that stand for nothing, and such that nobody granted.
func TestTransparentStrangers(t *testing.T) {
	w := newWorld(t, netproxy.Config{Entries: entries(t, "good.test=127.0.0.1:9", "good.test:8080=127.0.0.1:9")})
	for addr, why := range map[string]string{
		"198.18.200.200": "stands for no name now", "fdc7:6f4a:91d2:18::77:1": "stands for no name now", "198.18.0.1": "stands for no name now",
		"93.184.216.34": "93.184.216.34", "127.0.0.1": "127.0.0.1", "2606:4700::1111": "[2606:4700::1111]",
	} {
		for port, want := range map[uint16]string{80: "HTTP/1.1 403 network: ", 443: "\x15\x03\x03\x00\x02\x02\x31", 8080: ""} {
			sent := "GET / HTTP/1.1\r\nHost: good.test\r\n\r\n"
			if port == 443 {
				sent = string(records(clientHello(t, "good.test"), 1<<14))
			}
			var got []byte
			c, err := w.dialTransparent(netip.MustParseAddr(addr), port) // may see the reset itself
			if err == nil {
				_, _ = io.WriteString(c, sent)
				got, err = io.ReadAll(c)
				c.Close()
			}
			if !strings.HasPrefix(string(got), want) || (want == "" && err == nil) {
				t.Errorf("%s port %d: got %q, %v; want %q", addr, port, got, err, want)
			}
			eventually(t, "it is recorded", func() bool { return strings.Contains(w.lastRule(), why) })
		}
	}
}

func TestAllMeansAll(t *testing.T) {
	at := echo(t)
	w := newWorld(t, netproxy.Config{All: true, Entries: entries(t, "local.test="+at)})
	w.at("any.example", "93.184.216.34", map[int]string{443: at, 22: at, 1234: at})
	if got := fmt.Sprint(w.Ports()); !strings.HasPrefix(got, "[22 80 443 9418") {
		t.Errorf("ports %s", got)
	}
	routes := fmt.Sprint(w.Routes())
	contains(t, routes, "0.0.0.0/0", "::/0", "198.18.0.0/15")
	for _, dial := range []func() (net.Conn, error){
		func() (net.Conn, error) { return w.dialTransparent(w.fake(t, "any.example"), 443) },
		func() (net.Conn, error) { return w.dialTransparent(w.fake(t, "any.example"), 22) },
		func() (net.Conn, error) { return w.dialTransparent(netip.MustParseAddr("93.184.216.34"), 443) },
		func() (net.Conn, error) { return w.connect(t, "any.example:1234") },
		func() (net.Conn, error) { return w.connect(t, "93.184.216.34:1234") },
		func() (net.Conn, error) { return w.socks5(t, "any.example", 1234) },
	} {
		c, err := dial()
		if err != nil {
			t.Errorf("refused: %v", err)
			continue
		}
		echoes(t, "all", c)
	}
	if d := w.Decisions(); d[len(d)-1].Rule != "all" || !d[len(d)-1].Allowed {
		t.Errorf("decision %+v", d[len(d)-1])
	}
	// What an entry names is held to the name still.
	c := w.transparent(t, w.fake(t, "local.test"), 443)
	hello := records(clientHello(t, "evil.test"), 1<<14)
	_, _ = c.Write(hello)
	if got, _ := io.ReadAll(c); bytes.Contains(got, []byte("evil.test")) {
		t.Error("another name passes in a connection to an entry's host")
	}
	for _, host := range []string{"127.0.0.1:1", "169.254.169.254:80", "metadata.google.internal:80", "localhost:80", "[::1]:80", "10.0.0.1:443"} {
		if c, err := w.connect(t, host); err == nil {
			c.Close()
			t.Errorf("%s is open", host)
		}
	}
}

func TestHalfClose(t *testing.T) {
	heard := make(chan string, 1)
	at := netip.MustParseAddrPort(tcpServer(t, func(c net.Conn) {
		b, _ := io.ReadAll(c)
		heard <- string(b)
		_, _ = io.WriteString(c, "\x00answer")
	}))
	w := newWorld(t, netproxy.Config{Entries: entries(t, "raw.test="+at.String())})
	c := w.transparent(t, w.fake(t, "raw.test"), at.Port())
	_, _ = io.WriteString(c, "\x00question")
	_ = c.(*net.TCPConn).CloseWrite()
	got, err := io.ReadAll(c)
	if said := <-heard; said != "\x00question" || string(got) != "\x00answer" || err != nil {
		t.Errorf("the server heard %q, the client %q, %v", said, got, err)
	}
}

// When nobody is there, a program sees a connection that is reset, not one that
// ends.
func TestNobodyThere(t *testing.T) {
	l := listen(t)
	at := netip.MustParseAddrPort(l.Addr().String())
	l.Close()
	w := newWorld(t, netproxy.Config{Entries: entries(t, "gone.test="+at.String())})
	c := w.transparent(t, w.fake(t, "gone.test"), at.Port())
	_, _ = io.WriteString(c, "\x00")
	if _, err := io.ReadAll(c); err == nil {
		t.Error("the connection ends as if all was said")
	}
	c = w.transparent(t, w.fake(t, "gone.test"), 443)
	_, _ = c.Write(records(clientHello(t, "gone.test"), 1<<14))
	if _, err := io.ReadAll(c); err == nil || errors.Is(err, io.EOF) {
		t.Error("TLS ends as if all was said")
	}
	c = w.transparent(t, w.fake(t, "gone.test"), 80)
	contains(t, talk(t, c, "GET / HTTP/1.1\r\nHost: gone.test\r\nConnection: close\r\n\r\n"), "502", "network: gone.test:80 cannot be reached")
}
