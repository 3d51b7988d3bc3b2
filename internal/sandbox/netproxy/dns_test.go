package netproxy_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox/netproxy"
)

// opt is an EDNS record that offers so many bytes.
func opt(size uint16, version byte) []byte {
	return append(binary.BigEndian.AppendUint16([]byte{0, 0, 41}, size), 0, version, 0, 0, 0, 0)
}

const (
	typeA, typeNS, typePTR, typeMX, typeTXT, typeAAAA, typeSRV, typeSVCB, typeHTTPS, typeANY = 1, 2, 12, 15, 16, 28, 33, 64, 65, 255
)

func rcode(msg []byte) int   { return int(msg[3] & 15) }
func answers(msg []byte) int { return int(binary.BigEndian.Uint16(msg[6:])) }

func TestDNSAnswers(t *testing.T) {
	w := newWorld(t, netproxy.Config{Entries: entries(t, "git.test=127.0.0.1:1", "*.wild.test", "private.test")})
	w.at("private.test", "10.0.0.1", nil)
	fake := w.fake(t, "git.test").As4()
	reverse := netip.AddrFrom4([4]byte{fake[3], fake[2], fake[1], fake[0]}).String() + ".in-addr.arpa"
	for _, c := range []struct {
		name  string
		host  string
		kind  uint16
		rcode int
		count int
	}{
		{"A", "git.test", typeA, 0, 1},
		{"AAAA", "git.test", typeAAAA, 0, 1},
		{"any case", "gIT.TesT", typeA, 0, 1},
		{"HTTPS", "git.test", typeHTTPS, 0, 0},
		{"SVCB", "git.test", typeSVCB, 0, 0},
		{"TXT", "git.test", typeTXT, 0, 0},
		{"MX", "git.test", typeMX, 0, 0},
		{"NS", "git.test", typeNS, 0, 0},
		{"SRV", "git.test", typeSRV, 0, 0},
		{"ANY", "git.test", typeANY, 0, 0},
		{"PTR of a fake address", reverse, typePTR, 0, 1},
		{"PTR of another", "1.0.0.127.in-addr.arpa", typePTR, 3, 0},
		{"A of a reverse name", reverse, typeA, 3, 0},
		{"not allowed", "evil.test", typeA, 3, 0},
		{"not allowed, other type", "data.evil.test", typeTXT, 3, 0},
		{"the domain of a wildcard", "wild.test", typeA, 3, 0},
		{"no such host", "none.wild.test", typeA, 3, 0},
		{"private", "private.test", typeA, 3, 0},
		{"odd bytes", "a\x00b.git.test", typeA, 3, 0},
		{"localhost", "localhost", typeA, 0, 1},
		{"localhost IPv6", "a.LOCALHOST", typeAAAA, 0, 1},
		{"an address", "127.0.0.1", typeA, 3, 0},
		{"the root", "", typeNS, 3, 0},
	} {
		q := question(0xbeef, c.host, c.kind)
		if c.host == "" {
			q = append(question(0xbeef, "x", c.kind)[:12], 0, 0, byte(c.kind), 0, 1)
		}
		for _, extra := range [][]byte{nil, opt(4096, 0)} {
			q := append(bytes.Clone(q), extra...)
			if extra != nil {
				q[11] = 1
			}
			got := w.ask(t, q)
			if rcode(got) != c.rcode || answers(got) != c.count {
				t.Errorf("%s: code %d with %d answers, want %d with %d", c.name, rcode(got), answers(got), c.rcode, c.count)
			}
			if !bytes.Equal(got[:2], q[:2]) || got[2]&0x80 == 0 || got[2]&1 == 0 || got[3]&0x80 == 0 {
				t.Errorf("%s: header % x", c.name, got[:12])
			}
			end := len(q) - len(extra)
			if !bytes.Equal(got[12:end], q[12:end]) {
				t.Errorf("%s: the question comes back as %q, want %q", c.name, got[12:end], q[12:end])
			}
			if additional := got[11]; (additional == 1) != (extra != nil) {
				t.Errorf("%s: %d additional records, EDNS asked for: %v", c.name, additional, extra != nil)
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range []string{"evil.test", "data.evil.test", "wild.test", "localhost", "git.test"} {
		if w.lookups[name] != 0 {
			t.Errorf("%s was looked up outside", name)
		}
	}
}

func TestDNSSaysWhy(t *testing.T) {
	w := newWorld(t, netproxy.Config{Entries: entries(t, "git.test=127.0.0.1:1")})
	got := w.ask(t, question(1, "evil.test", typeA, opt(1232, 0)...))
	contains(t, string(got), "network: evil.test is not among the allowed domains (git.test=127.0.0.1:1)")
	if got := w.ask(t, question(1, "evil.test", typeA)); bytes.Contains(got, []byte("network:")) {
		t.Errorf("a reason without EDNS: %q", got)
	}
}

func TestDNSEdges(t *testing.T) {
	w := newWorld(t, netproxy.Config{Entries: entries(t, "git.test=127.0.0.1:1")})
	good := question(7, "git.test", typeA)
	with := func(change func([]byte) []byte) []byte { return change(bytes.Clone(good)) }
	for _, c := range []struct {
		name string
		msg  []byte
		want int // code; -1 is no answer
	}{
		{"empty", nil, -1},
		{"short", good[:11], -1},
		{"an answer", with(func(b []byte) []byte { b[2] |= 0x80; return b }), -1},
		{"only a header", good[:12], 1},
		{"two questions", with(func(b []byte) []byte { b[5] = 2; return append(b, b[12:]...) }), 1},
		{"no question", with(func(b []byte) []byte { b[5] = 0; return b[:12] }), 1},
		{"with an answer", with(func(b []byte) []byte { b[7] = 1; return b }), 1},
		{"cut off", good[:len(good)-1], 1},
		{"compressed", with(func(b []byte) []byte { b[12] = 0xc0; return b }), 1},
		{"a loop", append(bytes.Clone(good[:12]), 0xc0, 12, 0, 1, 0, 1), 1},
		{"a long label", append(bytes.Clone(good[:12]), append(append([]byte{64}, make([]byte, 64)...), 0, 0, 1, 0, 1)...), 1},
		{"a long name", question(1, strings.Repeat("abcdefg.", 40)+"test", typeA), 1},
		{"status", with(func(b []byte) []byte { b[2] |= 2 << 3; return b }), 4},
		{"update", with(func(b []byte) []byte { b[2] |= 5 << 3; return b }), 4},
		{"chaos", with(func(b []byte) []byte { b[len(b)-1] = 3; return b }), 5},
		{"class ANY", with(func(b []byte) []byte { b[len(b)-1] = 255; return b }), 0},
		{"EDNS of the future", question(1, "git.test", typeA, opt(512, 1)...), 0}, // 16, the upper bits of which are in EDNS
		{"EDNS twice", with(func(b []byte) []byte { b[11] = 2; return append(append(b, opt(512, 0)...), opt(512, 0)...) }), 1},
		{"EDNS cut off", question(1, "git.test", typeA, opt(512, 0)[:8]...), 1},
		{"EDNS with options", question(1, "git.test", typeA, append(opt(512, 0)[:9], 0, 4, 0, 10, 0, 0)...), 0},
		{"a dot in a label", bytes.Replace(question(1, "git_test", typeA), []byte("_"), []byte("."), 1), 3},
		{"a small buffer", question(1, "git.test", typeA, opt(0, 0)...), 0},
		{"a signature", question(1, "git.test", typeA, 0, 0, 250, 0, 255, 0, 0, 0, 0, 0, 2, 1, 2), 0},
	} {
		got := netproxy.Answer(w.Proxy, c.msg, true)
		switch {
		case got == nil && c.want == -1:
		case got == nil || c.want == -1:
			t.Errorf("%s: answer %x, want code %d", c.name, got, c.want)
		case rcode(got) != c.want:
			t.Errorf("%s: code %d, want %d", c.name, rcode(got), c.want)
		}
	}
	got := netproxy.Answer(w.Proxy, question(1, "git.test", typeA, opt(512, 1)...), true)
	if answers(got) != 0 || got[len(got)-6] != 1 {
		t.Errorf("EDNS of the future: % x, want BADVERS", got)
	}
}

// What does not fit is left out, and the client told so; by TCP it comes whole.
func TestDNSTruncates(t *testing.T) {
	long := strings.Repeat(strings.Repeat("a", 61)+".", 3) + strings.Repeat("b", 40) + ".test"
	w := newWorld(t, netproxy.Config{Entries: entries(t, long+"=127.0.0.1:1")})
	addrs, err := w.resolver(false).LookupNetIP(t.Context(), "ip6", long)
	if err != nil {
		t.Fatal(err)
	}
	b := addrs[0].As16()
	var reverse []string
	for i := 15; i >= 0; i-- {
		reverse = append(reverse, string("0123456789abcdef"[b[i]&15]), string("0123456789abcdef"[b[i]>>4]))
	}
	q := question(1, strings.Join(append(reverse, "ip6", "arpa"), "."), typePTR)
	udp := netproxy.Answer(w.Proxy, q, true)
	if answers(udp) != 1 || len(udp) > 512 {
		t.Errorf("%d bytes with %d answers, want all in 512 bytes", len(udp), answers(udp))
	}
	if reason := netproxy.Answer(w.Proxy, question(1, "evil.test", typeA, opt(512, 0)...), true); len(reason) > 512 || rcode(reason) != 3 {
		t.Errorf("%d bytes, code %d; want at most 512, 3", len(reason), rcode(reason))
	}
	small := netproxy.Pack(q, long, 100)
	if small[2]&2 == 0 || answers(small) != 0 || len(small) > 100 {
		t.Errorf("% x: want it truncated to 100 bytes and marked", small)
	}
}

func TestDNSByTCPKeepsTheConnection(t *testing.T) {
	w := newWorld(t, netproxy.Config{Entries: entries(t, "git.test=127.0.0.1:1")})
	c, err := net.Dial("tcp", w.dnsTCP)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	for id := range uint16(3) {
		q := question(id, "git.test", typeA)
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(q))), q...)); err != nil {
			t.Fatal(err)
		}
		var length [2]byte
		if _, err := io.ReadFull(c, length[:]); err != nil {
			t.Fatal(err)
		}
		msg := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(c, msg); err != nil {
			t.Fatal(err)
		}
		if binary.BigEndian.Uint16(msg) != id || answers(msg) != 1 {
			t.Errorf("answer %x to question %d", msg, id)
		}
	}
	if _, err := c.Write([]byte{0xff, 0xff}); err != nil {
		t.Fatal(err)
	}
	if !closedByPeer(c) {
		t.Error("a message of 65535 bytes is waited for")
	}
}

// A resolver that fails is not a name that does not exist.
func TestDNSServerFailure(t *testing.T) {
	p := netproxy.New(netproxy.Config{Entries: entries(t, "a.test"), Resolver: turnsTo(errors.New("timeout"))})
	if got := netproxy.Answer(p, question(1, "a.test", typeA), true); rcode(got) != 2 {
		t.Errorf("code %d, want 2", rcode(got))
	}
	if len(p.Decisions()) != 0 {
		t.Errorf("decisions %+v, want none", p.Decisions())
	}
}

func TestDNSWithoutIPv6(t *testing.T) {
	p := netproxy.New(netproxy.Config{Entries: entries(t, "a.test=127.0.0.1:1"), NoIPv6: true})
	if got := netproxy.Answer(p, question(1, "a.test", typeAAAA), true); rcode(got) != 0 || answers(got) != 0 {
		t.Errorf("code %d with %d answers, want an empty answer", rcode(got), answers(got))
	}
	for _, r := range p.Routes() {
		if r.Addr().Is6() {
			t.Errorf("a route for %s", r)
		}
	}
}

// The addresses of names that are asked for often stay; those that are not come
// back late.
func TestFakesAreBounded(t *testing.T) {
	p := netproxy.New(netproxy.Config{Entries: entries(t, "*.test"), Resolver: all{netip.MustParseAddr("1.1.1.1")}})
	ask := func(name string) netip.Addr {
		got := netproxy.Answer(p, question(1, name, typeA), true)
		if answers(got) != 1 {
			t.Fatalf("%s: no answer", name)
		}
		return netip.AddrFrom4([4]byte(got[len(got)-4:]))
	}
	kept, lost := ask("kept.test"), ask("lost.test")
	seen := map[netip.Addr]bool{kept: true, lost: true}
	for i := range 5000 {
		if i%1000 == 0 && ask("kept.test") != kept {
			t.Fatal("a name that is used has changed its address")
		}
		addr := ask("n" + string(rune('a'+i%26)) + strings.Repeat("x", i/26%60) + string(rune('a'+i/1560)) + ".test")
		if seen[addr] {
			t.Fatalf("%s is given out again after %d names", addr, i)
		}
		seen[addr] = true
	}
	if err := netproxy.Granted(p, kept.String(), 443); err != nil {
		t.Errorf("the address of a name that is used: %v", err)
	}
	if err := netproxy.Granted(p, lost.String(), 443); err == nil {
		t.Error("the address of a name long gone leads somewhere")
	} else {
		contains(t, err.Error(), "stands for no name now")
	}
}

func FuzzDNSMessage(f *testing.F) {
	f.Add(question(1, "git.test", typeA))
	f.Add(question(1, "GIT.test", typeHTTPS, opt(1232, 0)...))
	f.Add(question(1, "100.1.18.198.in-addr.arpa", typePTR))
	f.Add(question(1, "evil.test", typeTXT, opt(512, 1)...))
	p := netproxy.New(netproxy.Config{Entries: entries(f, "git.test=127.0.0.1:1")})
	f.Fuzz(func(t *testing.T, msg []byte) {
		for _, udp := range []bool{false, true} {
			got := netproxy.Answer(p, msg, udp)
			if got == nil {
				continue
			}
			if len(got) < 12 || got[2]&0x80 == 0 || !bytes.Equal(got[:2], msg[:2]) {
				t.Fatalf("answer % x to % x", got, msg)
			}
			if udp && len(got) > 1232 {
				t.Fatalf("%d bytes by UDP", len(got))
			}
			if answers(got) > 0 {
				q, _, err := netproxy.ParseQuery(msg)
				name := strings.ToLower(strings.TrimSuffix(q.Name(), "."))
				if err != nil || name != "git.test" && name != "localhost" && !strings.HasSuffix(name, ".localhost") && !strings.HasSuffix(name, ".arpa") {
					t.Fatalf("an answer about %q", q.Name())
				}
			}
		}
	})
}
