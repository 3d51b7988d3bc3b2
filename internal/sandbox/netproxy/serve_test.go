package netproxy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox/netproxy"
)

// newWorld checks at the end of every test that Serve ends and leaves nothing;
// here it has something to end in each state that a connection can be in.
func TestServeEndsEverything(t *testing.T) {
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	silent := netip.MustParseAddrPort(tcpServer(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }))
	web := server(t, func(rw http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/hang" {
			select {
			case <-req.Context().Done():
			case <-hang:
			}
		}
	})
	upgrade := upgradeServer(t)
	var dialling sync.WaitGroup
	dialling.Add(3)
	w := newWorld(t, netproxy.Config{
		Entries: entries(t, "raw.test="+silent.String(), "web.test="+web, "up.test="+upgrade, "hang.test:9=127.0.0.9:9", "api.test="+web),
		Inject:  []netproxy.Injection{{Host: "api.test", Header: "A", Value: "b"}},
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == "127.0.0.9:9" {
				dialling.Done()
				<-ctx.Done()
				return nil, ctx.Err()
			}
			var d net.Dialer
			return d.DialContext(ctx, network, address)
		},
	})
	say := func(c net.Conn, err error) func(string) net.Conn {
		return func(text string) net.Conn {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(c, text); err != nil {
				t.Fatal(err)
			}
			return c
		}
	}
	var conns []net.Conn
	open := func(c net.Conn) { conns = append(conns, c) }
	fake := func(name string) netip.Addr { return w.fake(t, name) }
	open(say(net.Dial("tcp", w.proxy))(""))
	open(say(net.Dial("tcp", w.proxy))("\x05"))
	open(say(net.Dial("tcp", w.proxy))("GET http://web.test/ HT"))
	open(say(net.Dial("tcp", w.proxy))("GET http://web.test/hang HTTP/1.1\r\nHost: x\r\n\r\n"))
	open(say(net.Dial("tcp", w.proxy))("POST http://web.test/ HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc"))
	open(say(net.Dial("tcp", w.dnsTCP))("\x00"))
	open(say(w.connect(t, "raw.test:"+fmt.Sprint(silent.Port())))("\x00"))
	open(say(w.socks5(t, "raw.test", silent.Port()))("\x00"))
	open(say(w.dialTransparent(fake("raw.test"), silent.Port()))("")) // late
	open(say(w.dialTransparent(fake("raw.test"), 443))(string(records(clientHello(t, "raw.test"), 1<<14))))
	open(say(w.dialTransparent(fake("raw.test"), 443))("\x16\x03\x01"))
	open(say(w.dialTransparent(fake("api.test"), 443))(string(records(clientHello(t, "api.test"), 1<<14)))) // opened
	open(say(w.dialTransparent(fake("up.test"), 80))("GET / HTTP/1.1\r\nHost: up.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"))
	open(say(w.dialTransparent(fake("web.test"), 80))("GET / HTTP/1.1\r\nHost: web.test\r\n\r\n"))
	open(say(net.Dial("tcp", w.proxy))("CONNECT hang.test:9 HTTP/1.1\r\nHost: x\r\n\r\n"))
	open(say(w.dialTransparent(fake("hang.test"), 9))("\x00"))
	open(say(net.Dial("tcp", w.proxy))("GET http://hang.test:9/ HTTP/1.1\r\nHost: x\r\n\r\n"))
	half := say(w.dialTransparent(fake("raw.test"), silent.Port()))("\x00x")
	_ = half.(*net.TCPConn).CloseWrite()
	open(half)
	dialling.Wait()
	eventually(t, "the upgrade is answered", func() bool {
		n, _ := conns[12].Read(make([]byte, 12))
		return n > 0
	})
	t.Cleanup(func() { // runs before the world's own
		for _, c := range conns {
			c.Close()
		}
	})
	w.stop()
	for i, c := range conns {
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		_, err := io.Copy(io.Discard, c)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("connection %d is still open", i)
		}
	}
}

func TestServeOnce(t *testing.T) {
	p := netproxy.New(netproxy.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Serve(ctx, netproxy.Sockets{}); err != nil {
		t.Errorf("first: %v", err)
	}
	l := listen(t)
	if err := p.Serve(t.Context(), netproxy.Sockets{Proxy: l}); err == nil {
		t.Error("a second Serve works")
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the socket is left open: %v", err)
	}
}

// A listener that breaks ends all with its error, so that nobody believes in a
// proxy that is half there.
func TestServeEndsWithAListener(t *testing.T) {
	p := netproxy.New(netproxy.Config{})
	broken, other := listen(t), listen(t)
	served := make(chan error, 1)
	go func() { served <- p.Serve(t.Context(), netproxy.Sockets{Proxy: broken, DNSTCP: other}) }()
	c, err := net.Dial("tcp", broken.Addr().String()) // Serve has begun when this is served
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(c, "x\r\n\r\n")
	_, _ = io.ReadAll(c)
	broken.Close()
	if err := <-served; err == nil || !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve = %v, want the listener's error", err)
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	at := netip.MustParseAddrPort(echo(t))
	w := newWorld(t, netproxy.Config{Entries: entries(t, "raw.test="+at.String()), MaxConns: 3})
	var conns []net.Conn
	for range 3 {
		c, err := w.connect(t, "raw.test:"+fmt.Sprint(at.Port()))
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	c, err := net.Dial("tcp", w.proxy)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET http://evil.test/ HTTP/1.1\r\nHost: x\r\n\r\n")
	_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if n, err := c.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Error("a fourth connection is served")
	}
	echoes(t, "one of three", conns[0])
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	if n, err := c.Read(make([]byte, 1)); n == 0 {
		t.Errorf("a connection that waited is not served when there is room: %v", err)
	}
	for _, c := range conns[1:] {
		c.Close()
	}
}

func TestPortsAndRoutes(t *testing.T) {
	p := netproxy.New(netproxy.Config{Entries: entries(t, "a.test", "b.test:22", "c.test=127.0.0.1:1234", "10.1.2.3:5432", "10.8.0.0/16:22", "127.0.0.1:99", "[fd00::5]:80")})
	if got := fmt.Sprint(p.Ports()); got != "[22 80 99 443 1234 5432]" {
		t.Errorf("ports %s", got)
	}
	if got, want := fmt.Sprint(p.Routes()), "[198.18.0.0/15 fdc7:6f4a:91d2:18::/64 10.1.2.3/32 10.8.0.0/16 fd00::5/128]"; got != want {
		t.Errorf("routes %s, want %s", got, want)
	}
	if got := netproxy.New(netproxy.Config{}); len(got.Ports()) != 0 {
		t.Errorf("ports %v without entries", got.Ports())
	}
}

// An entry in the fake range itself keeps its address.
func TestFakesAvoidEntries(t *testing.T) {
	at := netip.MustParseAddrPort(echo(t))
	w := newWorld(t, netproxy.Config{Entries: entries(t, "198.18.1.0/24:5000", "a.test="+at.String(), "b.test="+at.String())})
	w.mu.Lock()
	w.dialTo["198.18.1.0:5000"] = at.String()
	w.mu.Unlock()
	for _, name := range []string{"a.test", "b.test"} {
		if addr := w.fake(t, name); netip.MustParsePrefix("198.18.1.0/24").Contains(addr) {
			t.Errorf("%s is at %s, which an entry names", name, addr)
		}
	}
	echoes(t, "the entry's address", w.transparent(t, netip.MustParseAddr("198.18.1.0"), 5000))
}

func TestZeroConfigAllowsNothing(t *testing.T) {
	w := newWorld(t, netproxy.Config{})
	for _, host := range []string{"example.com:443", "8.8.8.8:53", "127.0.0.1:80"} {
		if _, err := w.connect(t, host); err == nil {
			t.Errorf("%s is open", host)
		} else {
			contains(t, err.Error(), "403 network: "+host+" is not allowed: no domain is")
		}
	}
}

// Many at once, for the race detector.
func TestConcurrent(t *testing.T) {
	web := server(t, func(rw http.ResponseWriter, req *http.Request) { fmt.Fprint(rw, req.Host) })
	raw := netip.MustParseAddrPort(echo(t))
	w := newWorld(t, netproxy.Config{Entries: entries(t, "web.test="+web, "raw.test="+raw.String(), "*.many.test")})
	proxyClient, direct := w.client(t), w.transparentClient(t)
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			for range 4 {
				switch i % 4 {
				case 0:
					resp, err := proxyClient.Get("http://web.test/")
					if err != nil {
						t.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				case 1:
					resp, err := direct.Get("http://web.test/")
					if err != nil {
						t.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				case 2:
					c, err := w.connect(t, "raw.test:"+fmt.Sprint(raw.Port()))
					if err != nil {
						t.Error(err)
						return
					}
					echoes(t, "CONNECT", c)
				case 3:
					_, _ = w.resolver(i%8 == 3).LookupHost(t.Context(), fmt.Sprintf("n%d.many.test", i))
				}
			}
		})
	}
	wg.Wait()
}
