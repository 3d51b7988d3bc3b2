package netproxy_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox/netproxy"
)

// talk sends text and gives what is answered until the connection ends.
func talk(t testing.TB, c net.Conn, text string) string {
	t.Helper()
	defer c.Close()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	got, _ := io.ReadAll(c)
	return string(got)
}

func TestHostIsCheckedInEachRequest(t *testing.T) {
	at := server(t, func(rw http.ResponseWriter, req *http.Request) { fmt.Fprintf(rw, "host=%s;", req.Host) })
	port := netip.MustParseAddrPort(at).Port()
	w := newWorld(t, netproxy.Config{Entries: entries(t, "good.test="+at, "other.test="+at)})
	for way, dial := range through {
		for _, c := range []struct {
			name string
			sent string
			want []string // in the answer
			not  string
		}{
			{"right", "GET / HTTP/1.1\r\nHost: good.test\r\nConnection: close\r\n\r\n", []string{"host=good.test;"}, "403"},
			{"in capitals, with a dot", "GET / HTTP/1.1\r\nHost: GOOD.test.\r\nConnection: close\r\n\r\n", []string{"host=good.test;"}, "403"},
			{"with the port", "GET / HTTP/1.1\r\nHost: good.test:80\r\nConnection: close\r\n\r\n", []string{"host=good.test;"}, "403"},
			{"another port", "GET / HTTP/1.1\r\nHost: good.test:81\r\n\r\n", []string{"403", "port 81"}, "host="},
			{"another host", "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", []string{"403", `a request for "evil.test" in a connection to good.test is not allowed`}, "host="},
			{"another allowed host", "GET / HTTP/1.1\r\nHost: other.test\r\n\r\n", []string{"403"}, "host="},
			{"the second request", "GET / HTTP/1.1\r\nHost: good.test\r\n\r\nGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", []string{"host=good.test;", "403"}, "host=evil"},
			{"absolute, another host", "GET http://evil.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n", []string{"403"}, "host="},
			{"absolute, the same", "GET http://good.test/ HTTP/1.1\r\nHost: evil.test\r\nConnection: close\r\n\r\n", []string{"host=good.test;"}, "403"},
			{"two hosts", "GET / HTTP/1.1\r\nHost: good.test\r\nHost: evil.test\r\n\r\n", []string{"400"}, "host="},
			{"a folded host", "GET / HTTP/1.1\r\nHost: good.test\r\n evil.test\r\n\r\n", []string{"400"}, "host="},
			{"no host", "GET / HTTP/1.0\r\n\r\n", []string{"403", "without Host"}, "host="},
			{"an empty host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", []string{"403"}, "host="},
			{"a user in the host", "GET / HTTP/1.1\r\nHost: good.test@evil.test\r\n\r\n", []string{"40"}, "host="},
			{"an address", "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", []string{"403"}, "host="},
			{"CONNECT inside", "CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n", []string{"403"}, "200"},
			{"CONNECT to the same", "CONNECT good.test:80 HTTP/1.1\r\nHost: good.test:80\r\n\r\n", []string{"403"}, "200"},
			{"two lengths", "POST / HTTP/1.1\r\nHost: good.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", nil, "host=evil"},
			{"an empty line first", "\r\nGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", []string{"400"}, "host="},
			{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", nil, "host="},
			{"no HTTP", "\x00\x01\x02\x03\r\n\r\n", nil, "host="},
			{"no HTTP, in words", "HELO there\r\n", nil, "host="},
		} {
			conn, err := dial(w, t, "good.test", 80)
			if err != nil {
				t.Fatalf("%s: %v", way, err)
			}
			got := talk(t, conn, c.sent)
			contains(t, got, c.want...)
			if strings.Contains(got, c.not) {
				t.Errorf("%s, %s: got %q, want no %q in it", way, c.name, got, c.not)
			}
		}
		// At another port that the entry names, HTTP is held to the host too.
		conn, err := dial(w, t, "good.test", port)
		if err != nil {
			t.Fatalf("%s: %v", way, err)
		}
		contains(t, talk(t, conn, fmt.Sprintf("GET / HTTP/1.1\r\nHost: good.test:%d\r\nConnection: close\r\n\r\n", port)), fmt.Sprintf("host=good.test:%d;", port))
		if conn, err = dial(w, t, "good.test", port); err != nil {
			t.Fatalf("%s: %v", way, err)
		}
		if got := talk(t, conn, "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"); !strings.Contains(got, "403") || strings.Contains(got, "host=") {
			t.Errorf("%s, another port: got %q", way, got)
		}
	}
}

func TestProxyRequests(t *testing.T) {
	at := server(t, func(rw http.ResponseWriter, req *http.Request) {
		b, _ := io.ReadAll(req.Body)
		fmt.Fprintf(rw, "%s %s host=%s body=%s x=%s auth=%s", req.Method, req.URL, req.Host, b, req.Header["X-Forwarded-For"], req.Header["Proxy-Authorization"])
	})
	w := newWorld(t, netproxy.Config{Entries: entries(t, "good.test="+at, "narrow.test:8080="+at, "127.0.0.1:7")})
	for _, c := range []struct {
		name string
		sent string
		want []string
	}{
		{"GET", "GET http://good.test/a%2Fb?c=%20d HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", []string{"GET /a%2Fb?c=%20d host=good.test body= x=[] auth=[]"}},
		{"the Host header does not count", "GET http://good.test/ HTTP/1.1\r\nHost: evil.test\r\nConnection: close\r\n\r\n", []string{"host=good.test"}},
		{"POST", "POST http://good.test/ HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc", []string{"body=abc"}},
		{"chunks", "POST http://good.test/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\n", []string{"body=abc"}},
		{"expecting", "POST http://good.test/ HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc", []string{"body=abc"}},
		{"HTTP/1.0", "GET http://good.test/ HTTP/1.0\r\n\r\n", []string{"host=good.test"}},
		{"other methods", "PROPFIND http://good.test/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", []string{"PROPFIND / "}},
		{"what is for the proxy stays there", "GET http://good.test/ HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Basic eDp5\r\nX-Forwarded-For: a\r\nConnection: close\r\n\r\n", []string{"x=[a] auth=[]"}},
		{"an own port", "GET http://narrow.test:8080/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", []string{"host=narrow.test:8080"}},
		{"two hosts on a connection", "GET http://good.test/ HTTP/1.1\r\nHost: x\r\n\r\nGET http://narrow.test:8080/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", []string{"host=good.test ", "host=narrow.test:8080"}},
		{"not allowed", "GET http://evil.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n", []string{"HTTP/1.1 403 network: evil.test:80 is not among the allowed domains"}},
		{"another port", "GET http://narrow.test/ HTTP/1.1\r\nHost: x\r\n\r\n", []string{"403", "narrow.test:80 is not allowed: narrow.test may be reached at port 8080 only"}},
		{"no proxy request", "GET / HTTP/1.1\r\nHost: good.test\r\n\r\n", []string{"403", "this is a proxy"}},
		{"another scheme", "GET ftp://good.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n", []string{"403", "this is a proxy"}},
		{"a number for a host", "GET http://2130706433/ HTTP/1.1\r\nHost: x\r\n\r\n", []string{"403", "not a host name"}},
		{"a bad port", "GET http://good.test:0/ HTTP/1.1\r\nHost: x\r\n\r\n", []string{"403"}},
		{"a port too large", "GET http://good.test:99999/ HTTP/1.1\r\nHost: x\r\n\r\n", []string{"40"}},
		{"loopback", "GET http://127.0.0.1:8/ HTTP/1.1\r\nHost: x\r\n\r\n", []string{"403", "127.0.0.1:8 is not among"}},
		{"loopback in IPv6 form", "GET http://[::ffff:127.0.0.1]:7/ HTTP/1.1\r\nHost: x\r\n\r\n", []string{"403"}},
		{"nobody there", "GET http://127.0.0.1:7/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", []string{"502", "network: 127.0.0.1:7 cannot be reached", "refused"}},
		{"CONNECT, not allowed", "CONNECT evil.test:443 HTTP/1.1\r\nHost: x\r\n\r\n", []string{"HTTP/1.1 403 network: evil.test:443 is not among the allowed domains"}},
		{"CONNECT, no port", "CONNECT good.test HTTP/1.1\r\nHost: x\r\n\r\n", []string{"HTTP/1.1 403"}},
		{"CONNECT, nobody there", "CONNECT 127.0.0.1:7 HTTP/1.1\r\nHost: x\r\n\r\n", []string{"HTTP/1.1 502 network: 127.0.0.1:7 cannot be reached"}},
		{"garbage", "garbage\r\n\r\n", []string{"400"}},
		{"a header too large", "GET http://good.test/ HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("a", 80<<10) + "\r\n\r\n", []string{"431"}},
	} {
		conn, err := net.Dial("tcp", w.proxy)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		got := talk(t, conn, c.sent)
		if !slices.ContainsFunc(c.want, func(want string) bool { return !strings.Contains(got, want) }) {
			continue
		}
		t.Errorf("%s: got %q, want %q in it", c.name, got, c.want)
	}
}

// What servers answer comes as it is.
func TestAnswersAreUnchanged(t *testing.T) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write([]byte("hello"))
	_ = z.Close()
	raw := "HTTP/1.1 418 I'm a teapot\r\nX-A: 1\r\nX-A: 2\r\nSet-Cookie: a=b\r\nContent-Encoding: gzip\r\nContent-Length: " + fmt.Sprint(zipped.Len()) + "\r\n\r\n"
	at := tcpServer(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			if req.Header.Get("Accept-Encoding") != "" || req.Header.Get("User-Agent") != "" || req.Header.Get("X-Forwarded-For") != "" {
				fmt.Fprint(c, "HTTP/1.1 500 headers were added\r\n\r\n")
				return
			}
			_, _ = io.WriteString(c, raw)
			_, _ = c.Write(zipped.Bytes())
		}
	})
	w := newWorld(t, netproxy.Config{Entries: entries(t, "good.test="+at)})
	c := w.transparent(t, w.fake(t, "good.test"), 80)
	got := talk(t, c, "GET / HTTP/1.1\r\nHost: good.test\r\nConnection: close\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(got)), nil)
	if err != nil {
		t.Fatal(err)
	}
	b := body(t, resp, nil)
	if resp.StatusCode != 418 || !slices.Equal(resp.Header["X-A"], []string{"1", "2"}) || b != zipped.String() {
		t.Errorf("got %q", got)
	}
	for _, h := range []string{"Date", "Content-Type", "Via", "Server"} {
		if _, ok := resp.Header[h]; ok {
			t.Errorf("a header %s was added", h)
		}
	}
}

// A long body goes both ways as it comes, not when it is whole.
func TestBodiesStream(t *testing.T) {
	at := server(t, func(rw http.ResponseWriter, req *http.Request) {
		_ = http.NewResponseController(rw).EnableFullDuplex()
		rw.WriteHeader(200)
		_ = http.NewResponseController(rw).Flush()
		buf := make([]byte, 32<<10)
		for {
			n, err := req.Body.Read(buf)
			_, _ = rw.Write(buf[:n])
			_ = http.NewResponseController(rw).Flush()
			if err != nil {
				return
			}
		}
	})
	w := newWorld(t, netproxy.Config{Entries: entries(t, "good.test="+at)})
	r, out := io.Pipe()
	req, _ := http.NewRequest("POST", "http://good.test/", r)
	client := w.transparentClient(t)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for i := range 5 {
		piece := fmt.Sprintf("piece %d", i)
		if _, err := io.WriteString(out, piece); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(piece))
		if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != piece {
			t.Fatalf("got %q, %v; want %q before the next is sent", got, err, piece)
		}
	}
	big := make([]byte, 4<<20)
	_, _ = rand.Read(big)
	go func() { _, _ = out.Write(big); out.Close() }()
	got, err := io.ReadAll(resp.Body)
	if err != nil || !bytes.Equal(got, big) {
		t.Errorf("%d bytes back, %v; want %d", len(got), err, len(big))
	}
}

// upgradeServer takes any upgrade, and sends back what comes then.
func upgradeServer(t testing.TB) string {
	return tcpServer(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		if req.Header.Get("Upgrade") == "" {
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nplain")
			return
		}
		fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", req.Header.Get("Upgrade"))
		_, _ = io.Copy(c, r)
	})
}

func TestUpgrade(t *testing.T) {
	w := newWorld(t, netproxy.Config{Entries: entries(t, "good.test="+upgradeServer(t))})
	for way, dial := range through {
		for protocol, passes := range map[string]bool{"websocket": true, "WebSocket": true, "h2c": false, "TLS/1.2": false, "websocket, h2c": false} {
			c, err := dial(w, t, "good.test", 80)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: good.test\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nUpgrade: %s\r\n\r\n", protocol)
			r := bufio.NewReader(c)
			resp, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatalf("%s, %s: %v", way, protocol, err)
			}
			if upgraded := resp.StatusCode == 101; upgraded != passes {
				t.Errorf("%s, %s: status %d, want an upgrade: %v", way, protocol, resp.StatusCode, passes)
			}
			if passes {
				_, _ = c.Write([]byte("\x81\x02hi"))
				got := make([]byte, 4)
				if _, err := io.ReadFull(r, got); err != nil || string(got) != "\x81\x02hi" {
					t.Errorf("%s, %s: got %q, %v", way, protocol, got, err)
				}
			} else if got := body(t, resp, nil); got != "plain" {
				t.Errorf("%s, %s: got %q", way, protocol, got)
			}
			c.Close()
		}
	}
}

func TestDecisions(t *testing.T) {
	at := server(t, func(rw http.ResponseWriter, _ *http.Request) {})
	var seen []netproxy.Decision // OnDecision is never called concurrently
	w := newWorld(t, netproxy.Config{Entries: entries(t, "good.test="+at), OnDecision: func(d netproxy.Decision) { seen = append(seen, d) }})
	client := w.client(t)
	for range 3 {
		resp, err := client.Get("http://good.test/")
		_ = body(t, resp, err)
	}
	resp, err := client.Get("http://evil.test/")
	_ = body(t, resp, err)
	got := w.Decisions()
	if len(got) != 2 || w.Dropped() != 0 {
		t.Fatalf("decisions %+v, want 2: an answered connection is recorded once", got)
	}
	want := netproxy.Decision{Time: got[0].Time, Protocol: "http", Host: "good.test", Port: 80, Address: at, Allowed: true, Rule: "good.test=" + at}
	if got[0] != want {
		t.Errorf("got %+v, want %+v", got[0], want)
	}
	want = netproxy.Decision{Time: got[1].Time, Protocol: "http", Host: "evil.test", Port: 80, Rule: "network: evil.test:80 is not among the allowed domains (good.test=" + at + ")"}
	if got[1] != want {
		t.Errorf("got %+v, want %+v", got[1], want)
	}
	if !slices.Equal(seen, got) {
		t.Errorf("OnDecision saw %+v, want %+v", seen, got)
	}
	for i := range 1500 {
		_ = netproxy.Answer(w.Proxy, question(1, fmt.Sprintf("n%d.evil.test", i), typeA), true)
	}
	got = w.Decisions()
	if len(got) != 1000 || w.Dropped() != 502 || got[999].Host != "n1499.evil.test" || got[0].Host != "n500.evil.test" {
		t.Errorf("%d decisions, %d dropped, from %q to %q", len(got), w.Dropped(), got[0].Host, got[len(got)-1].Host)
	}
	// A name cannot break a line of a log.
	_ = netproxy.Answer(w.Proxy, question(1, "a\nb\x1b[2J.test", typeA), true)
	last := w.Decisions()[999]
	if strings.ContainsAny(last.Host+last.Rule, "\n\x1b") {
		t.Errorf("decision about %q, %q has control characters", last.Host, last.Rule)
	}
}

func FuzzRequestHost(f *testing.F) {
	for _, s := range []string{"GET / HTTP/1.1\r\nHost: good.test\r\n\r\n", "GET http://evil.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n", "\r\nPOST * http/1.0\r\n", "PRI * HTTP/2.0\r\n\r\n", "EHLO a\r\n", "\x16\x03\x01"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		kind, more := netproxy.Guess(b)
		if more && len(b) >= 32<<10 {
			t.Fatalf("more than %d bytes wanted", len(b))
		}
		// What Go's parser takes for a request is recognised, as soon as its first line is there.
		req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b)))
		if err == nil && req.ProtoMajor == 1 && len(req.Method) <= 32 && kind != netproxy.KindHTTP {
			t.Fatalf("%q is HTTP, and not recognised", b)
		}
		if err == nil {
			host, port, ok := netproxy.SplitAuthority(req.Host, "http")
			if ok && (host == "" || port == 0) {
				t.Fatalf("authority %q gives %q, %d", req.Host, host, port)
			}
			if name, valid := netproxy.CleanName(host); ok && valid {
				if again, valid := netproxy.CleanName(name); !valid || again != name {
					t.Fatalf("name %q becomes %q", name, again)
				}
			}
		}
		for i := range b {
			if k, more := netproxy.Guess(b[:i]); !more && k != kind {
				t.Fatalf("after %d bytes it is %d, after all it is %d", i, k, kind)
			}
		}
	})
}
