package netproxy_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/sandbox/netproxy"
)

// special are hosts that "all" does not mean, as a client may write them.
var special = map[string]string{
	"0.0.0.0": "this machine", "0.1.2.3": "this machine", "10.0.0.1": "private", "10.255.255.255": "private",
	"100.64.0.1": "carrier", "100.127.255.254": "carrier", "100.100.100.200": "metadata", "127.0.0.1": "loopback",
	"127.0.0.53": "loopback", "127.255.255.254": "loopback", "169.254.0.1": "link-local", "169.254.169.254": "metadata",
	"169.254.170.2": "metadata", "172.16.0.1": "private", "172.31.255.255": "private", "192.0.0.8": "reserved",
	"192.0.0.192": "metadata", "192.0.2.1": "documentation", "192.31.196.1": "reserved", "192.52.193.1": "reserved", "192.88.99.1": "relay",
	"192.168.0.1": "private", "192.168.255.255": "private", "192.175.48.1": "reserved", "198.18.0.1": "no name",
	"198.19.255.255": "no name", "198.51.100.1": "documentation", "203.0.113.1": "documentation", "224.0.0.1": "multicast",
	"239.255.255.250": "multicast", "240.0.0.1": "reserved", "255.255.255.255": "reserved", "168.63.129.16": "metadata",

	"::": "this machine", "::1": "loopback", "::7f00:1": "IPv4 address in IPv6 form", "::ffff:127.0.0.1": "IPv4 address in IPv6 form",
	"::ffff:8.8.8.8": "IPv4 address in IPv6 form", "::ffff:a9fe:a9fe": "IPv4 address in IPv6 form", "::ffff:0:127.0.0.1": "IPv4 address in IPv6 form",
	"64:ff9b::7f00:1": "IPv4 address in IPv6 form", "64:ff9b::169.254.169.254": "IPv4 address in IPv6 form", "64:ff9b:1::1": "IPv4 address in IPv6 form",
	"100::1": "reserved", "2001::1": "tunnel", "2001:0:7f00:1::": "tunnel", "2001:2::1": "reserved", "2001:10::1": "reserved",
	"2001:db8::1": "documentation", "2002:7f00:1::": "tunnel", "2002:a9fe:a9fe::1": "tunnel", "3fff::1": "documentation", "4000::1": "reserved", "5f00::1": "reserved",
	"fc00::1": "private", "fd00:ec2::254": "metadata", "fd20:ce::254": "metadata", "fdff::1": "private", "fdc7:6f4a:91d2:18::100": "no name",
	"fe80::1": "link-local", "fe80::a9fe:a9fe": "metadata", "fe80::1%eth0": "one link", "8.8.8.8%1": "not a host name",
	"fec0::1": "private", "ff02::1": "multicast", "ff0e::1": "multicast", "2606:4700::1111%lo": "one link",

	"2130706433": "not a host name", "0x7f000001": "not a host name", "0X7F.1": "not a host name", "017700000001": "not a host name",
	"127.1": "not a host name", "127.0.1": "not a host name", "0177.0.0.1": "not a host name", "0x7f.0x0.0x0.0x1": "not a host name",
	"127.0.0.1.": "not a host name", "10.0.0.1.": "not a host name", "a.0x1": "not a host name", "1.2.3.4.5": "not a host name", "0x": "not a host name",
	"metadata.google.internal": "metadata", "Metadata.Google.Internal.": "metadata", "metadata": "metadata", "instance-data": "metadata",
	"localhost": "this machine", "LOCALHOST.": "this machine", "a.localhost": "this machine",
	"": "not a host name", ".": "not a host name", "a..b": "not a host name", "ａ.test": "not a host name", "a_b-.test": "not a host name",
	"evil.test\x00.good.test": "not a host name", "user@good.test": "not a host name", "good.test/": "not a host name", "%6c.test": "not a host name",
}

func TestSpecialHostsAreRefused(t *testing.T) {
	if len(special) < 60 {
		t.Fatalf("%d hosts, want 60 at least", len(special))
	}
	w := newWorld(t, netproxy.Config{All: true})
	for host, why := range special {
		err := netproxy.Granted(w.Proxy, host, 443)
		if err == nil {
			t.Errorf("%q is allowed, want it refused: %s", host, why)
			continue
		}
		contains(t, err.Error(), why)
	}
	for _, host := range []string{
		"8.8.8.8", "1.1.1.1", "93.184.216.34", "100.63.255.255", "100.128.0.0", "172.32.0.1", "172.15.255.255", "192.0.1.1", "198.17.255.255",
		"198.20.0.0", "223.255.255.255", "2606:4700::1111", "2001:4860:4860::8888", "[2a00:1450::1]", "2001:200::1", "example.com", "EXAMPLE.com.", "0x7f.example.com", "127.0.0.1.nip.io", "a_b.test", "xn--bcher-kva.example",
	} {
		if err := netproxy.Granted(w.Proxy, host, 443); err != nil {
			t.Errorf("%q is refused: %v", host, err)
		}
	}
}

// Whatever a resolver says is held to the same list.
func TestSpecialAnswersAreRefused(t *testing.T) {
	w := newWorld(t, netproxy.Config{Entries: entries(t, "*.test")})
	client := w.client(t)
	n := 0
	for host, why := range special {
		addr, err := netip.ParseAddr(host)
		if err != nil {
			continue
		}
		n++
		name := "n" + strings.Map(func(r rune) rune {
			if strings.ContainsRune(":.%", r) {
				return '-'
			}
			return r
		}, host) + "x.test"
		w.at(name, addr.String(), nil)
		resp, err := client.Get("http://" + name + "/")
		got := body(t, resp, err)
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s: status %d, want 403: %s", host, resp.StatusCode, got)
		}
		if why == "no name" {
			why = map[bool]string{true: "benchmarks", false: "private"}[addr.Is4()]
		}
		contains(t, got, "network: "+name+":80 is not allowed there: it is at", why, name+"=ADDRESS")
		if _, err := w.resolver(false).LookupHost(t.Context(), name); err == nil {
			t.Errorf("%s: a lookup gives an address", host)
		}
	}
	if n < 60 {
		t.Errorf("%d addresses tried, want 60 at least", n)
	}
	if len(w.dialled) > 0 {
		t.Errorf("dialled %v, want nothing", w.dialled)
	}
}

func TestRangesOpen(t *testing.T) {
	at := server(t, func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte("here")) })
	var ranges []netip.Prefix
	for _, r := range []string{"203.0.113.0/24", "169.254.0.0/16", "100.100.100.200/32", "::/0"} {
		ranges = append(ranges, netip.MustParsePrefix(r))
	}
	w := newWorld(t, netproxy.Config{Entries: entries(t, "*.test", "10.9.0.0/16:8080", "169.254.0.0/16:8080", "169.254.170.2:8080"), AllowRanges: ranges})
	for name, c := range map[string]struct {
		at   string
		open bool
	}{
		"mirror.test":   {"203.0.113.80", true},
		"link.test":     {"169.254.1.1", true},
		"metadata.test": {"169.254.169.254", false}, // a range does not open it
		"alone.test":    {"100.100.100.200", true},  // by itself it does
		"mapped.test":   {"::ffff:203.0.113.80", false},
		"private.test":  {"10.0.0.1", false},
	} {
		w.at(name, c.at, map[int]string{80: at})
		resp, err := w.client(t).Get("http://" + name + "/")
		if got := body(t, resp, err); (got == "here") != c.open {
			t.Errorf("%s at %s: got %q, want open: %v", name, c.at, got, c.open)
		}
	}
	for host, open := range map[string]bool{"10.9.1.1": true, "10.8.1.1": false, "169.254.1.1": true, "169.254.169.254": false, "169.254.170.2": true} {
		if err := netproxy.Granted(w.Proxy, host, 8080); (err == nil) != open {
			t.Errorf("%s:8080: %v, want open: %v", host, err, open)
		}
	}
}

// A name whose address changes between a check and the use of it.
func TestRebinding(t *testing.T) {
	at := server(t, func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte("here")) })
	w := newWorld(t, netproxy.Config{Entries: entries(t, "rebind.test")})
	w.at("rebind.test", "10.0.0.1", nil)
	w.at("rebind.test", "93.184.216.34", map[int]string{80: at})
	w.at("rebind.test", "127.0.0.1", nil)
	w.fake(t, "rebind.test") // a program's own lookup, whose answer serves the connection too
	resp, err := w.client(t).Get("http://rebind.test/")
	if got := body(t, resp, err); got != "here" {
		t.Fatalf("got %q", got)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lookups["rebind.test"] != 1 || len(w.dialled) != 1 || w.dialled[0] != "93.184.216.34:80" {
		t.Errorf("%d lookups, dialled %v; want one lookup and only the public address", w.lookups["rebind.test"], w.dialled)
	}
}

// A resolver that says something else each time: each answer is checked, and what
// is dialled was in the answer that was checked.
func TestRebindingResolver(t *testing.T) {
	turns := &turns{answers: []string{"93.184.216.34", "127.0.0.1", "169.254.169.254", "93.184.216.34", "10.0.0.1"}}
	var dialled dialLog
	p := netproxy.New(netproxy.Config{Entries: entries(t, "rebind.test"), Resolver: turns, Dial: dialled.dial})
	for range 10 {
		netproxy.DialFresh(p, t.Context(), "rebind.test", 80)
	}
	if len(dialled.addresses) != 4 {
		t.Errorf("dialled %v, want the public address 4 times", dialled.addresses)
	}
	for _, a := range dialled.addresses {
		if a != "93.184.216.34:80" {
			t.Errorf("dialled %s", a)
		}
	}
}
