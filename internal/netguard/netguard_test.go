package netguard_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/netguard"
)

// book resolves names from a table; a name with several rows gives the next one
// at each lookup.
type book struct {
	mu   sync.Mutex
	rows map[string][][]string
}

func (b *book) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	rows, ok := b.rows[host]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	if len(rows) > 1 {
		b.rows[host] = rows[1:]
	}
	var addrs []netip.Addr
	for _, a := range rows[0] {
		addrs = append(addrs, netip.MustParseAddr(a))
	}
	return addrs, nil
}

// wire sends every connection to one listener and notes where it was meant to go.
type wire struct {
	to string

	mu     sync.Mutex
	dialed []string
}

func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	w.mu.Lock()
	w.dialed = append(w.dialed, addr)
	w.mu.Unlock()
	return (&net.Dialer{}).DialContext(ctx, network, w.to)
}

func (w *wire) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.dialed)
}

func allow(t *testing.T, entries ...string) []netguard.Allow {
	t.Helper()
	var all []netguard.Allow
	for _, e := range entries {
		a, err := netguard.ParseAllow(e)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := netguard.ParseAllow(a.String()); err != nil || again != a {
			t.Errorf("%q is written as %q, which is read as %v, %v", e, a, again, err)
		}
		all = append(all, a)
	}
	return all
}

func TestURLs(t *testing.T) {
	for _, c := range []struct {
		name, url string
		allow     []string
		https     bool
		want      string // in the refusal; "" if it passes
	}{
		{"https", "https://good.test/x", nil, true, ""},
		{"http", "http://good.test/x", nil, false, ""},
		{"a public address", "https://8.8.8.8/", nil, true, ""},
		{"a public address of IPv6", "https://[2606:4700::1111]/", nil, true, ""},
		{"its own port by number", "https://good.test:443/", nil, true, ""},
		{"http where https is wanted", "http://good.test/", nil, true, "not encrypted"},
		{"http at a named host", "http://good.test/", []string{"good.test"}, true, ""},
		{"file", "file:///etc/passwd", nil, false, "no URL of http"},
		{"gopher", "gopher://good.test/", nil, false, "no URL of http"},
		{"javascript", "javascript:alert(1)", nil, false, "no URL of http"},
		{"no scheme", "//good.test/", nil, false, "no URL of http"},
		{"opaque", "https:good.test", nil, false, "no host"},
		{"no host", "https:///x", nil, false, "no host"},
		{"a user", "https://good.test@127.0.0.1/", nil, false, "a user in it"},
		{"a user without a name", "https://:x@good.test/", nil, false, "a user in it"},
		{"another port", "https://good.test:22/", nil, false, "port 22"},
		{"port 0", "https://good.test:0/", nil, false, "not a port"},
		{"another port that is named", "https://good.test:8443/", []string{"good.test:8443"}, true, ""},
		{"another port of a named host", "https://good.test:8443/", []string{"good.test"}, true, ""},
		{"a port that is not the named one", "https://good.test:8444/", []string{"good.test:8443"}, true, "port 8444"},
		{"loopback", "http://127.0.0.1/", nil, false, "loopback"},
		{"loopback of IPv6", "http://[::1]/", nil, false, "loopback"},
		{"loopback by name", "http://localhost/", nil, false, "this machine"},
		{"below localhost", "http://a.LOCALHOST./", nil, false, "this machine"},
		{"a named address", "http://127.0.0.1:3000/", []string{"127.0.0.1"}, true, ""},
		{"a named range", "http://10.1.2.3/", []string{"10.0.0.0/8"}, true, ""},
		{"beside the range", "http://11.0.0.1:80/", []string{"10.0.0.0/8"}, true, "not encrypted"},
		{"localhost by name", "http://localhost:3000/", []string{"localhost:3000"}, true, ""},
		{"a private address", "https://192.168.1.1/", nil, false, "private"},
		{"a carrier's address", "https://100.64.0.1/", nil, false, "carrier"},
		{"link-local", "https://[fe80::1]/", nil, false, "link-local"},
		{"a zone", "https://[fe80::1%25eth0]/", nil, false, "one link"},
		{"multicast", "https://224.0.0.1/", nil, false, "multicast"},
		{"unspecified", "http://0.0.0.0/", nil, false, "this machine"},
		{"mapped", "http://[::ffff:127.0.0.1]/", nil, false, "IPv4 address in IPv6 form"},
		{"NAT64", "http://[64:ff9b::7f00:1]/", nil, false, "IPv4 address in IPv6 form"},
		{"6to4", "http://[2002:7f00:1::1]/", nil, false, "tunnel"},
		{"metadata", "http://169.254.169.254/latest/", nil, false, "metadata"},
		{"metadata by name", "http://metadata.google.internal/", nil, false, "metadata"},
		{"metadata in a named range", "http://169.254.169.254/", []string{"169.254.0.0/16"}, false, "metadata"},
		{"metadata that is named", "http://169.254.169.254/", []string{"169.254.169.254"}, false, ""},
		{"decimal", "http://2130706433/", nil, false, "not a host name"},
		{"octal", "http://0177.0.0.1/", nil, false, "not a host name"},
		{"hexadecimal", "http://0x7f.1/", nil, false, "not a host name"},
		{"short", "http://127.1/", nil, false, "not a host name"},
		{"a full stop behind an address", "http://127.0.0.1./", nil, false, "not a host name"},
		{"a name below a named one", "http://a.corp.test/", []string{"*.corp.test"}, true, ""},
		{"the named one itself", "http://corp.test/", []string{"*.corp.test"}, true, "not encrypted"},
		{"one that ends alike", "http://evilcorp.test/", []string{"*.corp.test"}, true, "not encrypted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			u, err := url.Parse(c.url)
			if err != nil {
				t.Fatal(err)
			}
			err = netguard.New(netguard.Config{Allow: allow(t, c.allow...), HTTPS: c.https}).CheckURL(u)
			refused(t, err, c.want)
		})
	}
}

func refused(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" {
		if err != nil {
			t.Errorf("refused: %v", err)
		}
		return
	}
	if !errors.Is(err, netguard.ErrRefused) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want a refusal with %q", err, want)
	}
}

func TestBadEntries(t *testing.T) {
	for _, s := range []string{"", "*", "*.", "a b", "10.0.0.0/33", "good.test:0", "good.test:65536", "good.test:x", "fe80::1%eth0", "127.1", "http://good.test", "a..b", "[::1", "10.0.0.0/8:80"} {
		if a, err := netguard.ParseAllow(s); err == nil {
			t.Errorf("%q is read as %q", s, a)
		}
	}
}

func TestWhereANameLeads(t *testing.T) {
	for _, c := range []struct {
		name   string
		addrs  []string
		allow  []string
		want   string
		dialed []string
	}{
		{"public", []string{"93.184.216.34"}, nil, "", []string{"93.184.216.34:443"}},
		{"as net.Resolver writes it", []string{"::ffff:93.184.216.34"}, nil, "", []string{"93.184.216.34:443"}},
		{"mapped loopback", []string{"::ffff:127.0.0.1"}, nil, "it is at 127.0.0.1, a loopback address", nil},
		{"private", []string{"10.0.0.1"}, nil, "it is at 10.0.0.1, a private address", nil},
		{"unique local", []string{"fd00::1"}, nil, "a private address", nil},
		{"metadata", []string{"169.254.169.254"}, nil, "metadata", nil},
		{"some are public", []string{"127.0.0.1", "93.184.216.34", "::1"}, nil, "", []string{"93.184.216.34:443"}},
		{"a named host", []string{"10.0.0.1"}, []string{"a.test"}, "", []string{"10.0.0.1:443"}},
		{"a named host at the metadata", []string{"169.254.169.254"}, []string{"a.test"}, "metadata", nil},
		{"both named", []string{"169.254.169.254"}, []string{"a.test", "169.254.169.254"}, "", []string{"169.254.169.254:443"}},
		{"a named range", []string{"10.0.0.1"}, []string{"10.0.0.0/24"}, "", []string{"10.0.0.1:443"}},
		{"a named address and another port", []string{"10.0.0.1"}, []string{"10.0.0.1:80"}, "private", nil},
		{"no address", nil, nil, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(http.NotFoundHandler())
			defer server.Close()
			w := &wire{to: server.Listener.Addr().String()}
			g := netguard.New(netguard.Config{Allow: allow(t, c.allow...), Resolver: &book{rows: map[string][][]string{"a.test": {c.addrs}}}, Dial: w.dial})
			conn, err := g.DialContext(t.Context(), "tcp", "a.test:443")
			if err == nil {
				conn.Close()
			}
			if len(c.addrs) > 0 {
				refused(t, err, c.want)
			} else if err == nil || errors.Is(err, netguard.ErrRefused) {
				t.Errorf("a name without an address gives %v", err)
			}
			if got := w.all(); !slices.Equal(got, c.dialed) {
				t.Errorf("dialled %v, want %v", got, c.dialed)
			}
		})
	}
	g := netguard.New(netguard.Config{})
	for _, c := range []struct{ network, addr, want string }{
		{"udp", "8.8.8.8:443", "udp"}, {"unix", "/run/x", "unix"}, {"tcp", "8.8.8.8", "host:port"}, {"tcp", "8.8.8.8:0", "port"}, {"tcp", "8.8.8.8:http", "port"},
		{"tcp", "127.0.0.1:443", "loopback"}, {"tcp", "a b:443", "host name"}, {"tcp", "8.8.8.8:25", "port 25"},
	} {
		conn, err := g.DialContext(t.Context(), c.network, c.addr)
		if err == nil {
			conn.Close()
		}
		refused(t, err, c.want)
	}
}

// clientOf gives a client for which every name but those of rows is at a public
// address that is really the handler.
func clientOf(t *testing.T, c netguard.Config, rows map[string][][]string, h http.HandlerFunc) (*http.Client, *wire) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	w := &wire{to: server.Listener.Addr().String()}
	c.Resolver, c.Dial = &book{rows: rows}, w.dial
	client := netguard.New(c).Client()
	t.Cleanup(client.CloseIdleConnections)
	return client, w
}

const public = "93.184.216.34"

func TestRebinding(t *testing.T) {
	rows := map[string][][]string{"a.test": {{public}, {"127.0.0.1"}}}
	client, w := clientOf(t, netguard.Config{}, rows, func(rw http.ResponseWriter, _ *http.Request) { rw.Header().Set("Connection", "close") })
	answer, err := client.Get("http://a.test/")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	_, err = client.Get("http://a.test/")
	refused(t, err, "it is at 127.0.0.1")
	if got := w.all(); !slices.Equal(got, []string{public + ":80"}) {
		t.Errorf("dialled %v", got)
	}
}

func TestRedirects(t *testing.T) {
	for _, c := range []struct {
		name, to string
		max      int
		want     string
	}{
		{"to a public host", "http://b.test/end", 0, ""},
		{"to a private host", "http://private.test/", 0, "it is at 10.0.0.1"},
		{"to the metadata", "http://169.254.169.254/", 0, "metadata"},
		{"to another scheme", "file:///etc/passwd", 0, "no URL of http"},
		{"to a user", "http://b.test@127.0.0.1/", 0, "a user in it"},
		{"in a circle", "http://a.test/", 0, "more than 5 times"},
		{"with none allowed", "http://127.0.0.1/", -1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			rows := map[string][][]string{"a.test": {{public}}, "b.test": {{public}}, "private.test": {{"10.0.0.1"}}}
			client, w := clientOf(t, netguard.Config{Redirects: c.max}, rows, func(rw http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/end" {
					return
				}
				rw.Header().Set("Location", c.to)
				rw.WriteHeader(http.StatusFound)
			})
			answer, err := client.Get("http://a.test/")
			if err == nil {
				answer.Body.Close()
			}
			refused(t, err, c.want)
			for _, d := range w.all() {
				if !strings.HasPrefix(d, public) {
					t.Errorf("dialled %s", d)
				}
			}
		})
	}
}

func TestBodies(t *testing.T) {
	const limit = 1000
	for _, c := range []struct {
		name string
		size int
		zip  bool
		ok   bool
	}{
		{"below", limit - 1, false, true}, {"at the bound", limit, false, true}, {"above", limit + 1, false, false}, {"far above", 100 * limit, false, false},
		{"a bomb", 1000 * limit, true, false}, {"small when packed, and unpacked", limit, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, _ := clientOf(t, netguard.Config{MaxBody: limit, UserAgent: "Toolyard"}, map[string][][]string{"a.test": {{public}}}, func(rw http.ResponseWriter, r *http.Request) {
				if r.UserAgent() != "Toolyard" {
					t.Errorf("the user agent is %q", r.UserAgent())
				}
				body := bytes.Repeat([]byte("a"), c.size)
				if !c.zip {
					_, _ = rw.Write(body)
					return
				}
				rw.Header().Set("Content-Encoding", "gzip")
				z := gzip.NewWriter(rw)
				_, _ = z.Write(body)
				_ = z.Close()
			})
			answer, err := client.Get("http://a.test/")
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			body, err := io.ReadAll(answer.Body)
			if c.ok && (err != nil || len(body) != c.size) || !c.ok && (!errors.Is(err, netguard.ErrTooLarge) || len(body) > limit) {
				t.Errorf("%d bytes, %v", len(body), err)
			}
		})
	}
}

func TestTimeout(t *testing.T) {
	release := make(chan struct{})
	client, _ := clientOf(t, netguard.Config{Timeout: 20 * time.Millisecond}, map[string][][]string{"a.test": {{public}}}, func(http.ResponseWriter, *http.Request) { <-release })
	defer close(release)
	answer, err := client.Get("http://a.test/")
	if err == nil {
		answer.Body.Close()
		t.Fatal("a server that does not answer gives an answer")
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func FuzzCheckURL(f *testing.F) {
	for _, s := range []string{"https://good.test/", "http://127.0.0.1/", "http://[::ffff:127.0.0.1]:80/", "https://a@b/", "http://0x7f.1/", "HTTP://LOCALHOST", "http://[fe80::1%25a]/"} {
		f.Add(s)
	}
	g := netguard.New(netguard.Config{})
	f.Fuzz(func(t *testing.T, s string) {
		u, err := url.Parse(s)
		if err != nil || g.CheckURL(u) != nil {
			return
		}
		if u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
			t.Errorf("%q passes", s)
		}
		host := u.Hostname()
		if addr, err := netip.ParseAddr(host); err == nil {
			if what := netguard.Special(addr); what != "" {
				t.Errorf("%q passes, and is %s", s, what)
			}
		} else if _, ok := netguard.Name(host); !ok {
			t.Errorf("%q passes, and %q is no name", s, host)
		}
	})
}

func FuzzParseAllow(f *testing.F) {
	for _, s := range []string{"10.0.0.0/8", "[::1]:80", "::1", "*.a.test:1", "a.test", "1.2.3.4:5"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := netguard.ParseAllow(s)
		if err != nil {
			return
		}
		if again, err := netguard.ParseAllow(a.String()); err != nil || again != a {
			t.Errorf("%q is written as %q, which is read as %v, %v", s, fmt.Sprint(a), again, err)
		}
	})
}
