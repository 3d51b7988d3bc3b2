package netproxy_test

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"testing"

	"github.com/toolyard/toolyard/internal/sandbox/netproxy"
)

func TestSOCKS5(t *testing.T) {
	at := netip.MustParseAddrPort(echo(t))
	l6, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skip("IPv6 is needed")
	}
	six := netip.MustParseAddrPort(l6.Addr().String())
	go func() { // ends with the listener
		for {
			c, err := l6.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(c, c)
			c.Close()
		}
	}()
	defer l6.Close()
	w := newWorld(t, netproxy.Config{Entries: entries(t, "good.test="+at.String(), at.String(), six.String(), "127.0.0.1:7", "gone.test:9000", "private.test:9000")})
	w.at("private.test", "10.0.0.1", nil)
	fake := w.fake(t, "good.test").As4()
	port := []byte{byte(at.Port() >> 8), byte(at.Port())}
	none := []byte{5, 1, 0}
	name := func(host string, port []byte) []byte {
		return append(append([]byte{5, 1, 0, 3, byte(len(host))}, host...), port...)
	}
	for _, c := range []struct {
		name     string
		greeting []byte
		request  []byte
		want     string // error
	}{
		{"a name", none, name("good.test", port), ""},
		{"a name in capitals", none, name("GOOD.Test.", port), ""},
		{"several methods", []byte{5, 3, 1, 2, 0}, name("good.test", port), ""},
		{"a fake address", none, append(append([]byte{5, 1, 0, 1}, fake[:]...), port...), ""},
		{"an address", none, append([]byte{5, 1, 0, 1, 127, 0, 0, 1}, port...), ""},
		{"an IPv6 address", none, append(append([]byte{5, 1, 0, 4}, netip.IPv6Loopback().AsSlice()...), byte(six.Port()>>8), byte(six.Port())), ""},
		{"an address as a name", none, name("127.0.0.1", port), ""},
		{"an IPv6 address as a name", none, name("::1", []byte{byte(six.Port() >> 8), byte(six.Port())}), ""},
		{"not allowed", none, name("evil.test", port), "code 2"},
		{"another port", none, name("good.test", []byte{0, 22}), "code 2"},
		{"port 0", none, name("good.test", []byte{0, 0}), "code 2"},
		{"another address", none, append([]byte{5, 1, 0, 1, 127, 0, 0, 2}, port...), "code 2"},
		{"IPv4 in IPv6 form", none, append(append([]byte{5, 1, 0, 4}, netip.MustParseAddr("::ffff:127.0.0.1").AsSlice()...), port...), "code 2"},
		{"a private address", none, name("private.test", []byte{9000 >> 8, 9000 & 255}), "code 2"},
		{"no such host", none, name("gone.test", []byte{9000 >> 8, 9000 & 255}), "code 4"},
		{"nobody there", none, append([]byte{5, 1, 0, 1, 127, 0, 0, 1}, 0, 7), "code 5"},
		{"a name with a NUL", none, name("good.test\x00.evil", port), "code 2"},
		{"an empty name", none, name("", port), "code 8"},
		{"BIND", none, append([]byte{5, 2}, name("good.test", port)[2:]...), "code 7"},
		{"UDP", none, append([]byte{5, 3}, name("good.test", port)[2:]...), "code 7"},
		{"another kind of address", none, []byte{5, 1, 0, 9, 0, 0, 0}, "code 8"},
		{"no method that we have", []byte{5, 1, 1}, nil, "method 05 ff"},
		{"no method at all", []byte{5, 0}, nil, "method 05 ff"},
	} {
		conn, err := w.socks(t, c.greeting, c.request)
		if c.want != "" {
			if err == nil {
				conn.Close()
				t.Errorf("%s: allowed, want %q", c.name, c.want)
				continue
			}
			contains(t, err.Error(), c.want)
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		echoes(t, c.name, conn)
	}
	contains(t, w.refused(t).Rule, "not")
}

// echoes checks that what is sent comes back, and the end too.
func echoes(t testing.TB, name string, conn net.Conn) {
	t.Helper()
	defer conn.Close()
	if _, err := io.WriteString(conn, "\x00ping"); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	if got, err := io.ReadAll(conn); err != nil || string(got) != "\x00ping" {
		t.Errorf("%s: got %q, %v", name, got, err)
	}
}

// A client that insists on a name and a password gets through with any.
func TestSOCKS5Password(t *testing.T) {
	at := netip.MustParseAddrPort(echo(t))
	w := newWorld(t, netproxy.Config{Entries: entries(t, "good.test="+at.String())})
	conn, err := net.Dial("tcp", w.proxy)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, step := range [][2][]byte{
		{{5, 1, 2}, {5, 2}},
		{{1, 4, 'u', 's', 'e', 'r', 2, 'p', 'w'}, {1, 0}},
		{append([]byte("\x05\x01\x00\x03\x09good.test"), byte(at.Port()>>8), byte(at.Port())), {5, 0, 0, 1, 0, 0, 0, 0, 0, 0}},
	} {
		if _, err := conn.Write(step[0]); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(step[1]))
		if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, step[1]) {
			t.Fatalf("% x is answered by % x, %v; want % x", step[0], got, err, step[1])
		}
	}
	echoes(t, "after the password", conn)
}

func TestSOCKS4(t *testing.T) {
	at := netip.MustParseAddrPort(echo(t))
	w := newWorld(t, netproxy.Config{Entries: entries(t, "good.test="+at.String(), at.String())})
	port := []byte{byte(at.Port() >> 8), byte(at.Port())}
	for _, c := range []struct {
		name    string
		request []byte
		want    byte
	}{
		{"an address", append(append([]byte{4, 1}, port...), "\x7f\x00\x00\x01user\x00"...), 0x5a},
		{"a name", append(append([]byte{4, 1}, port...), "\x00\x00\x00\x01\x00good.test\x00"...), 0x5a},
		{"another name", append(append([]byte{4, 1}, port...), "\x00\x00\x00\x01\x00evil.test\x00"...), 0x5b},
		{"another address", append(append([]byte{4, 1}, port...), "\x7f\x00\x00\x02\x00"...), 0x5b},
		{"BIND", append(append([]byte{4, 2}, port...), "\x7f\x00\x00\x01\x00"...), 0x5b},
	} {
		conn, err := net.Dial("tcp", w.proxy)
		if err != nil {
			t.Fatal(err)
		}
		for i := range c.request { // in pieces
			if _, err := conn.Write(c.request[i : i+1]); err != nil {
				t.Fatal(err)
			}
		}
		got := make([]byte, 8)
		if _, err := io.ReadFull(conn, got); err != nil || got[1] != c.want {
			t.Errorf("%s: answer % x, %v; want %#x", c.name, got, err, c.want)
		} else if c.want == 0x5a {
			echoes(t, c.name, conn)
		}
		conn.Close()
	}
}

func FuzzSOCKS(f *testing.F) {
	f.Add([]byte("\x05\x01\x00\x03\x09good.test\x00\x50"))
	f.Add([]byte("\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50"))
	f.Add([]byte("\x04\x01\x00\x50\x00\x00\x00\x01user\x00good.test\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		q, length, err := netproxy.ParseSocks(b)
		if err != nil {
			return
		}
		if length > len(b) {
			if length > 1024 {
				t.Fatalf("%d bytes wanted", length)
			}
			return
		}
		host, _ := q.Address()
		if addr, err := netip.ParseAddr(host); err != nil && !bytes.Contains(b, []byte(host)) || err == nil && addr.Zone() != "" && b[0] == 4 && b[4] != 0 {
			t.Fatalf("host %q is not in % x", host, b)
		}
		again, n, err := netproxy.ParseSocks(b[:length])
		if again != q || n != length || err != nil {
			t.Fatalf("%v and %v for the same bytes", q, again)
		}
		for i := range length {
			if _, n, err := netproxy.ParseSocks(b[:i]); err != nil || n <= i || n > length {
				t.Fatalf("of %d bytes after %d: %d more wanted, %v", length, i, n, err)
			}
		}
	})
}
