package netproxy_test

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"testing"

	"github.com/toolyard/toolyard/internal/sandbox/netproxy"
)

func TestDNSGivesFakeAddresses(t *testing.T) {
	w := newWorld(t, netproxy.Config{Entries: entries(t, "git.test=127.0.0.1:1", "*.wild.test")})
	w.at("a.wild.test", "93.184.216.34", nil)
	for _, tcp := range []bool{false, true} {
		addrs, err := w.resolver(tcp).LookupNetIP(t.Context(), "ip", "git.test")
		if err != nil || len(addrs) != 2 {
			t.Fatalf("LookupNetIP(git.test) = %v, %v; want an IPv4 and an IPv6 address", addrs, err)
		}
		for _, addr := range addrs {
			addr = addr.Unmap()
			if !netproxy.FakeIPv4.Contains(addr) && !netproxy.FakeIPv6.Contains(addr) {
				t.Errorf("git.test is at %s, want a fake address", addr)
			}
			names, err := w.resolver(tcp).LookupAddr(t.Context(), addr.String())
			if err != nil || !slices.Equal(names, []string{"git.test."}) {
				t.Errorf("LookupAddr(%s) = %v, %v; want git.test.", addr, names, err)
			}
		}
	}
	if a, b := w.fake(t, "a.wild.test"), w.fake(t, "git.test"); a == b {
		t.Errorf("two names have one address, %s", a)
	}
	if _, err := w.resolver(false).LookupHost(t.Context(), "evil.test"); err == nil {
		t.Error("evil.test has an address")
	}
	d := w.refused(t)
	if want := "network: evil.test is not among the allowed domains (git.test=127.0.0.1:1, *.wild.test)"; d.Rule != want || d.Protocol != "dns" {
		t.Errorf("decision %+v, want rule %q", d, want)
	}
}

func TestTransparentTCP(t *testing.T) {
	to := netip.MustParseAddrPort(echo(t))
	w := newWorld(t, netproxy.Config{Entries: entries(t, "raw.test="+to.String())})
	c := w.transparent(t, w.fake(t, "raw.test"), to.Port())
	if _, err := io.WriteString(c, "\x00hello\n"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 7)
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "\x00hello\n" {
		t.Fatalf("echo = %q, %v", got, err)
	}
}

func TestHTTPBothWays(t *testing.T) {
	at := server(t, func(rw http.ResponseWriter, req *http.Request) { fmt.Fprintf(rw, "%s %s", req.Host, req.URL) })
	w := newWorld(t, netproxy.Config{Entries: entries(t, "web.test="+at)})
	for name, client := range map[string]*http.Client{"proxy": w.client(t), "transparent": w.transparentClient(t)} {
		resp, err := client.Get("http://web.test/x?y=1")
		if got := body(t, resp, err); got != "web.test /x?y=1" {
			t.Errorf("%s: got %q", name, got)
		}
	}
	resp, err := w.client(t).Get("http://evil.test/")
	contains(t, body(t, resp, err), "network: evil.test:80 is not among the allowed domains (web.test="+at+")")
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("status %d, want 403", resp.StatusCode)
	}
}
