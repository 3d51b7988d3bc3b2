package netproxy_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/sandbox/netproxy"
)

func TestParseEntry(t *testing.T) {
	addr, prefix := netip.MustParseAddr, netip.MustParsePrefix
	for _, c := range []struct {
		in   string
		want netproxy.Entry
		text string // if it is not in
	}{
		{"registry.npmjs.org", netproxy.Entry{Host: "registry.npmjs.org"}, ""},
		{" Registry.NPMjs.org. ", netproxy.Entry{Host: "registry.npmjs.org"}, "registry.npmjs.org"},
		{"example.com:8443", netproxy.Entry{Host: "example.com", Port: 8443}, ""},
		{"localhost", netproxy.Entry{Host: "localhost"}, ""},
		{"db_1.internal:5432", netproxy.Entry{Host: "db_1.internal", Port: 5432}, ""},
		{"*.github.com", netproxy.Entry{Host: "github.com", Wild: true}, ""},
		{"*.test:8080", netproxy.Entry{Host: "test", Wild: true, Port: 8080}, ""},
		{"git.test=127.0.0.1:1234", netproxy.Entry{Host: "git.test", Addr: addr("127.0.0.1"), AddrPort: 1234}, ""},
		{"git.test:443=127.0.0.1:1234", netproxy.Entry{Host: "git.test", Port: 443, Addr: addr("127.0.0.1"), AddrPort: 1234}, ""},
		{"git.test=10.0.0.1", netproxy.Entry{Host: "git.test", Addr: addr("10.0.0.1")}, ""},
		{"git.test=::1", netproxy.Entry{Host: "git.test", Addr: addr("::1")}, ""},
		{"git.test=[::1]", netproxy.Entry{Host: "git.test", Addr: addr("::1")}, "git.test=::1"},
		{"git.test=[::1]:80", netproxy.Entry{Host: "git.test", Addr: addr("::1"), AddrPort: 80}, ""},
		{"git.test=::ffff:10.0.0.1", netproxy.Entry{Host: "git.test", Addr: addr("10.0.0.1")}, "git.test=10.0.0.1"},
		{"10.1.2.3", netproxy.Entry{Prefix: prefix("10.1.2.3/32")}, ""},
		{"10.1.2.3:5432", netproxy.Entry{Prefix: prefix("10.1.2.3/32"), Port: 5432}, ""},
		{"[::1]:8080", netproxy.Entry{Prefix: prefix("::1/128"), Port: 8080}, ""},
		{"fd00::1", netproxy.Entry{Prefix: prefix("fd00::1/128")}, ""},
		{"10.0.0.0/8", netproxy.Entry{Prefix: prefix("10.0.0.0/8")}, ""},
		{"10.0.0.0/8:5432", netproxy.Entry{Prefix: prefix("10.0.0.0/8"), Port: 5432}, ""},
		{"fd00::/8", netproxy.Entry{Prefix: prefix("fd00::/8")}, ""},
		{"[fd00::]/8:443", netproxy.Entry{Prefix: prefix("fd00::/8"), Port: 443}, ""},
		{"bücher.example", netproxy.Entry{Host: "xn--bcher-kva.example"}, "xn--bcher-kva.example"},
		{"BÜCHER.example:81", netproxy.Entry{Host: "xn--bcher-kva.example", Port: 81}, "xn--bcher-kva.example:81"},
		{"*.例え.jp", netproxy.Entry{Host: "xn--r8jz45g.jp", Wild: true}, "*.xn--r8jz45g.jp"},
		{"президент.рф", netproxy.Entry{Host: "xn--d1abbgf6aiiy.xn--p1ai"}, "xn--d1abbgf6aiiy.xn--p1ai"},
	} {
		got, err := netproxy.ParseEntry(c.in)
		if err != nil || got != c.want {
			t.Errorf("ParseEntry(%q) = %+v, %v; want %+v", c.in, got, err, c.want)
			continue
		}
		want := c.text
		if want == "" {
			want = c.in
		}
		if got.String() != want {
			t.Errorf("ParseEntry(%q).String() = %q, want %q", c.in, got, want)
		}
	}
}

func TestParseEntryRefuses(t *testing.T) {
	for in, why := range map[string]string{
		"":                                "names nothing",
		" ":                               "names nothing",
		"=127.0.0.1":                      "names nothing",
		"*":                               "a wildcard stands for whole labels",
		"*.":                              "empty",
		"a*.test":                         "a wildcard stands for whole labels",
		"*.*.test":                        "a wildcard stands for whole labels",
		"*.test=127.0.0.1":                "a wildcard cannot be at one address",
		"host:0":                          `port "0"`,
		"host:65536":                      `port "65536"`,
		"host:+80":                        `port "+80"`,
		"host:":                           `port ""`,
		"host:http":                       `port "http"`,
		"http://host":                     "port",
		"host/path":                       "not a range",
		"a b":                             "not a host name",
		"-a.test":                         "not a host name",
		"a..test":                         "not a host name",
		"a.test..":                        "not a host name",
		"2130706433":                      "not a host name",
		"0x7f000001":                      "not a host name",
		"0x7f.1":                          "not a host name",
		"127.1":                           "not a host name",
		"0177.0.0.1":                      "not a host name",
		"10.0.0.0/33":                     "not a range",
		"10.0.0.1/8":                      "the range is 10.0.0.0/8",
		"::ffff:10.0.0.0/104":             "IPv4 range in IPv6 form",
		"fe80::1%eth0":                    "not a host name",
		"[10.0.0.1]:80":                   "only an IPv6 address is written in brackets",
		"[::1":                            "without",
		"[::1]x:80":                       "follows an address",
		"git.test=":                       "not an IP address",
		"git.test=other.test":             "not an IP address",
		"git.test=127.0.0.1=1":            "not an IP address",
		"git.test=fe80::1%1":              "not an IP address",
		"10.0.0.1=10.0.0.2":               "an address cannot be at another",
		"a\x00b.test":                     "not a host name",
		"snow☃.test":                      "cannot be part of a host name",
		strings.Repeat("a", 64) + ".test": "not a host name",
		strings.Repeat("ä", 64) + ".test": "too long",
		strings.Repeat("a.", 130) + "b":   "not a host name",
		strings.Repeat("a", 600):          "longer than 512 bytes",
	} {
		e, err := netproxy.ParseEntry(in)
		if err == nil {
			t.Errorf("ParseEntry(%q) = %+v, want an error with %q", in, e, why)
			continue
		}
		contains(t, err.Error(), why, "expected host[:port]")
	}
}

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		granted, asked string
		want           bool
	}{
		{"a.test", "a.test", true},
		{"a.test", "a.test:443", true},
		{"a.test", "a.test:80", true},
		{"a.test", "a.test:22", false},
		{"a.test:443", "a.test", false},
		{"a.test:443", "a.test:443", true},
		{"a.test", "b.a.test", false},
		{"*.a.test", "b.a.test", true},
		{"*.a.test", "c.b.a.test:443", true},
		{"*.a.test", "a.test", false},
		{"*.a.test", "xa.test", false},
		{"*.a.test", "*.a.test", true},
		{"*.a.test", "*.b.a.test", true},
		{"*.b.a.test", "*.a.test", false},
		{"a.test", "*.a.test", false},
		{"a.test=127.0.0.1:99", "a.test", false},
		{"a.test", "a.test=127.0.0.1:99", false},
		{"a.test=127.0.0.1:99", "a.test=127.0.0.1:99", true},
		{"a.test=127.0.0.1:99", "a.test:99=127.0.0.1:99", true},
		{"a.test=127.0.0.1:99", "a.test:98=127.0.0.1:99", false},
		{"a.test=127.0.0.1:99", "a.test=127.0.0.1:98", false},
		{"10.0.0.0/8", "10.1.0.0/16", true},
		{"10.1.0.0/16", "10.0.0.0/8", false},
		{"10.0.0.0/8:5432", "10.1.2.3:5432", true},
		{"10.0.0.0/8", "10.1.2.3:5432", false},
		{"fd00::/8", "10.0.0.1", false},
		{"10.0.0.0/8", "a.test", false},
		{"a.test", "10.0.0.1", false},
	} {
		es := entries(t, c.granted, c.asked)
		if got := es[0].Covers(es[1]); got != c.want {
			t.Errorf("%q covers %q: %v, want %v", c.granted, c.asked, got, c.want)
		}
	}
}

func FuzzParseEntry(f *testing.F) {
	for _, s := range []string{"a.test", "*.a.test:8", "a.test=127.0.0.1:99", "[::1]:8080", "[fd00::]/8:443", "bücher.example", "10.0.0.0/8", "a.test=::1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e, err := netproxy.ParseEntry(s)
		if err != nil {
			return
		}
		again, err := netproxy.ParseEntry(e.String())
		if err != nil || again != e {
			t.Fatalf("ParseEntry(%q) = %+v, but its text %q gives %+v, %v", s, e, e.String(), again, err)
		}
		if !e.Covers(e) {
			t.Fatalf("%q does not cover itself", e)
		}
	})
}
