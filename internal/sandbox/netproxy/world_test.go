package netproxy_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox/netproxy"
)

// world is a Proxy that serves on loopback, and the outside that it reaches.
type world struct {
	*netproxy.Proxy
	proxy  string // of the proxy port
	dns    string
	dnsTCP string

	stop func() // ends Serve and checks what is left; the test's end does it otherwise

	mu      sync.Mutex
	routed  map[uint16]*routed
	answers map[string][]string // by name; of the resolver
	lookups map[string]int
	dialled []string
	dialTo  map[string]string // address as dialled → where it is in truth
}

// routed is a listener whose connections believe that they were made to another
// address, as the namespace's routes do.
type routed struct {
	net.Listener
	wants chan netip.AddrPort
}

type routedConn struct {
	*net.TCPConn
	local netip.AddrPort
}

func (c routedConn) LocalAddr() net.Addr { return net.TCPAddrFromAddrPort(c.local) }

func (r *routed) Accept() (net.Conn, error) {
	c, err := r.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return routedConn{c.(*net.TCPConn), <-r.wants}, nil
}

// entries parses them.
func entries(t testing.TB, list ...string) []netproxy.Entry {
	t.Helper()
	var es []netproxy.Entry
	for _, s := range list {
		e, err := netproxy.ParseEntry(s)
		if err != nil {
			t.Fatal(err)
		}
		es = append(es, e)
	}
	return es
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// newWorld serves until the test ends, and checks then that nothing is left.
func newWorld(t testing.TB, c netproxy.Config) *world {
	t.Helper()
	w := &world{routed: map[uint16]*routed{}, answers: map[string][]string{}, lookups: map[string]int{}, dialTo: map[string]string{}}
	if c.Resolver == nil {
		c.Resolver = w
	}
	if c.Dial == nil {
		c.Dial = w.dial
	}
	w.Proxy = netproxy.New(c)
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := netproxy.Sockets{DNS: udp, DNSTCP: listen(t), Proxy: listen(t), Transparent: map[uint16]net.Listener{}}
	w.dns, w.dnsTCP, w.proxy = udp.LocalAddr().String(), s.DNSTCP.Addr().String(), s.Proxy.Addr().String()
	for _, port := range w.Ports() {
		r := &routed{listen(t), make(chan netip.AddrPort, 64)}
		w.routed[port], s.Transparent[port] = r, r
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- w.Serve(ctx, s) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-served:
			if err != nil {
				t.Errorf("Serve = %v, want nil", err)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("Serve goes on after its context has ended:\n%s", stacks())
			return
		}
		noGoroutines(t)
	})
	t.Cleanup(w.stop)
	return w
}

func stacks() string {
	buf := make([]byte, 1<<20)
	return string(buf[:runtime.Stack(buf, true)])
}

// noGoroutines waits until none is left that the package or its HTTP transport
// started.
func noGoroutines(t testing.TB) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		left := ""
		for g := range strings.SplitSeq(stacks(), "\n\n") {
			if strings.Contains(g, "sandbox/netproxy.") && !strings.Contains(g, "netproxy_test.") || strings.Contains(g, "sandbox/netproxy.(*upstream)") {
				left = g
			}
		}
		if left == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("a goroutine is left:\n%s", left)
			return
		}
		runtime.Gosched()
	}
}

// LookupNetIP makes the world its own resolver.
func (w *world) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lookups[host]++
	list, ok := w.answers[host]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	var addrs []netip.Addr
	for _, a := range list {
		addrs = append(addrs, netip.MustParseAddr(a))
	}
	return addrs, nil
}

// dial goes to loopback where the test said that a public address is there.
func (w *world) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	w.dialled = append(w.dialled, address)
	to := w.dialTo[address]
	w.mu.Unlock()
	if to == "" {
		to = address
		if ap := netip.MustParseAddrPort(address); !ap.Addr().IsLoopback() {
			return nil, fmt.Errorf("dial %s: the test has nothing there", address)
		}
	}
	var d net.Dialer
	return d.DialContext(ctx, network, to)
}

// at says that a name is at public addresses and that a port there is served at
// another place.
func (w *world) at(name, address string, ports map[int]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers[name] = append(w.answers[name], address)
	for port, to := range ports {
		w.dialTo[netip.AddrPortFrom(netip.MustParseAddr(address), uint16(port)).String()] = to
	}
}

// fake asks the DNS server for the address that stands for a name.
func (w *world) fake(t testing.TB, name string) netip.Addr {
	t.Helper()
	addrs, err := w.resolver(false).LookupNetIP(t.Context(), "ip4", name)
	if err != nil {
		t.Fatalf("looking up %s: %v", name, err)
	}
	return addrs[0].Unmap()
}

// resolver is Go's, asking the world.
func (w *world) resolver(tcp bool) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		if tcp {
			return d.DialContext(ctx, "tcp", w.dnsTCP)
		}
		return d.DialContext(ctx, "udp", w.dns)
	}}
}

// transparent connects as a program does that knows of no proxy.
func (w *world) transparent(t testing.TB, addr netip.Addr, port uint16) net.Conn {
	t.Helper()
	c, err := w.dialTransparent(addr, port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func (w *world) dialTransparent(addr netip.Addr, port uint16) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.routed[port]
	if r == nil {
		return nil, fmt.Errorf("no listener at port %d", port)
	}
	r.wants <- netip.AddrPortFrom(addr, port)
	c, err := net.DialTimeout("tcp", r.Addr().String(), 5*time.Second)
	if err == nil {
		err = c.SetDeadline(time.Now().Add(20 * time.Second))
	}
	return c, err
}

// client is an HTTP client that uses the proxy port.
func (w *world) client(t testing.TB) *http.Client {
	proxy := &url.URL{Scheme: "http", Host: w.proxy}
	tr := &http.Transport{Proxy: http.ProxyURL(proxy)}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 20 * time.Second}
}

// transparentClient is an HTTP client that knows of no proxy.
func (w *world) transparentClient(t testing.TB) *http.Client {
	tr := &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		addrs, err := w.resolver(false).LookupNetIP(ctx, "ip4", host)
		if err != nil {
			return nil, err
		}
		n, err := net.LookupPort("tcp", port)
		if err != nil {
			return nil, err
		}
		return w.dialTransparent(addrs[0].Unmap(), uint16(n))
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 20 * time.Second}
}

// server is an HTTP server on loopback; it gives host:port.
func server(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// echo is a TCP server that sends back what comes.
func echo(t testing.TB) string {
	t.Helper()
	return tcpServer(t, func(c net.Conn) { _, _ = io.Copy(c, c) })
}

// tcpServer serves each connection with a function.
func tcpServer(t testing.TB, serve func(net.Conn)) string {
	t.Helper()
	l := listen(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				serve(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return l.Addr().String()
}

// refused finds the last decision against something.
func (w *world) refused(t testing.TB) netproxy.Decision {
	t.Helper()
	all := w.Decisions()
	for i := len(all) - 1; i >= 0; i-- {
		if !all[i].Allowed {
			return all[i]
		}
	}
	t.Fatalf("nothing was refused: %+v", all)
	return netproxy.Decision{}
}

// eventually waits for something that another goroutine does.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// body reads an answer whole.
func body(t testing.TB, resp *http.Response, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// ask sends one DNS message by UDP and gives the answer.
func (w *world) ask(t testing.TB, msg []byte) []byte {
	t.Helper()
	c, err := net.Dial("udp", w.dns)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := c.Write(msg); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	n, err := c.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return buf[:n]
}

// question makes a query; the name's bytes are taken as they are.
func question(id uint16, name string, kind uint16, additional ...byte) []byte {
	msg := binary.BigEndian.AppendUint16(nil, id)
	msg = append(msg, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0)
	if len(additional) > 0 {
		msg[11] = 1
	}
	for label := range strings.SplitSeq(name, ".") {
		msg = append(msg, byte(len(label)))
		msg = append(msg, label...)
	}
	msg = append(msg, 0)
	msg = binary.BigEndian.AppendUint16(msg, kind)
	msg = binary.BigEndian.AppendUint16(msg, 1)
	return append(msg, additional...)
}

// closedByPeer reports whether a read ends without data.
func closedByPeer(c net.Conn) bool {
	n, err := c.Read(make([]byte, 1))
	var timeout net.Error
	return n == 0 && err != nil && !(errors.As(err, &timeout) && timeout.Timeout())
}

func contains(t testing.TB, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !bytes.Contains([]byte(got), []byte(w)) {
			t.Errorf("got %q, want %q in it", got, w)
		}
	}
}

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
