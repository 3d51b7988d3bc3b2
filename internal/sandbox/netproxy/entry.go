package netproxy

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Entry is one thing that may be reached: a host by its name, all hosts below a
// name, or an address or range of addresses. Make one with [ParseEntry].
type Entry struct {
	// Host is a name in lower case and punycode, without a trailing dot. It is
	// empty for an address or a range.
	Host string
	// Wild says that all names below Host are meant, and Host itself is not.
	Wild bool
	// Prefix is the address or range if Host is empty.
	Prefix netip.Prefix
	// Port is the only port; zero is 80 and 443.
	Port uint16
	// Addr is where Host is, instead of what a resolver says. It is not checked:
	// whoever names it grants it, wherever it is.
	Addr netip.Addr
	// AddrPort is the port at Addr; zero is the port that was asked for. With it,
	// and with no Port, Host is reached at 80, 443 and AddrPort, and all of them
	// lead to AddrPort.
	AddrPort uint16
}

// maxEntry is the length of an entry's text in bytes; more than a name of 253
// bytes with an address and two ports has.
const maxEntry = 512

// expected says what an entry looks like, in errors.
const expected = "expected host[:port][=ADDRESS[:port]], *.host[:port], ADDRESS[:port] or ADDRESS/bits[:port]"

// ParseEntry reads "host[:port][=ADDRESS[:port]]", "*.host[:port]", "10.1.2.3",
// "10.1.2.3:5432", "[::1]:8080", "10.0.0.0/8" or "[fd00::]/8:443". A name may
// be written in Unicode. The error says which value is wrong and what is
// expected.
func ParseEntry(s string) (Entry, error) {
	fail := func(why string) (Entry, error) {
		return Entry{}, fmt.Errorf("network entry %q: %s; %s", shorten(s), why, expected)
	}
	if len(s) > maxEntry {
		return fail("longer than " + strconv.Itoa(maxEntry) + " bytes")
	}
	text, at, located := strings.Cut(strings.TrimSpace(s), "=")
	if text == "" {
		return fail("names nothing")
	}
	e, why := parseWhat(text)
	if why != "" {
		return fail(why)
	}
	if !located {
		return e, nil
	}
	switch {
	case e.Host == "":
		return fail("an address cannot be at another address")
	case e.Wild:
		return fail("a wildcard cannot be at one address")
	}
	host, port, why := splitPort(at)
	if why != "" {
		return fail(why)
	}
	addr, ok := parseAddr(host)
	if !ok {
		return fail(fmt.Sprintf("%q is not an IP address", host))
	}
	e.Addr, e.AddrPort = addr, port
	return e, nil
}

// parseWhat reads all but the address that a host is at.
func parseWhat(text string) (e Entry, why string) {
	host, port, why := splitPort(text)
	if why != "" {
		return e, why
	}
	e.Port = port
	if addr, ok := parseAddr(host); ok {
		e.Prefix = netip.PrefixFrom(addr, addr.BitLen())
		return e, ""
	}
	if strings.Contains(host, "/") {
		prefix, err := netip.ParsePrefix(host)
		if err != nil {
			return e, fmt.Sprintf("%q is not a range", host)
		}
		if prefix.Addr().Is4In6() {
			return e, fmt.Sprintf("%q is an IPv4 range in IPv6 form", host)
		}
		if prefix != prefix.Masked() {
			return e, fmt.Sprintf("%s has bits set after its length; the range is %s", prefix, prefix.Masked())
		}
		e.Prefix = prefix
		return e, ""
	}
	if below, wild := strings.CutPrefix(host, "*."); wild {
		e.Wild, host = true, below
	}
	if strings.Contains(host, "*") {
		return e, "a wildcard stands for whole labels at the front, as in *.example.com"
	}
	name, err := asciiName(host)
	if err != nil {
		return e, err.Error()
	}
	e.Host = name
	return e, ""
}

// splitPort splits "x", "x:port", "[v6]", "[v6]:port", "v6" and "[v6]/bits:port".
func splitPort(s string) (host string, port uint16, why string) {
	rest := ""
	switch {
	case strings.HasPrefix(s, "["):
		inner, after, ok := strings.Cut(s[1:], "]")
		if !ok {
			return "", 0, "\"[\" without \"]\""
		}
		if !strings.Contains(inner, ":") {
			return "", 0, "only an IPv6 address is written in brackets"
		}
		bits, _, _ := strings.Cut(after, ":")
		if bits != "" && !strings.HasPrefix(bits, "/") {
			return "", 0, fmt.Sprintf("%q follows an address", bits)
		}
		host, rest = inner+bits, strings.TrimPrefix(after, bits)
	case strings.Count(s, ":") > 1:
		return s, 0, "" // IPv6 without brackets
	default:
		i := strings.IndexByte(s, ':')
		if i < 0 {
			return s, 0, ""
		}
		host, rest = s[:i], s[i:]
	}
	if rest == "" {
		return host, 0, ""
	}
	n, err := strconv.ParseUint(rest[1:], 10, 16)
	if err != nil || n == 0 || rest[1] == '+' {
		return "", 0, fmt.Sprintf("port %q is not between 1 and 65535", rest[1:])
	}
	return host, uint16(n), ""
}

// parseAddr reads an address in its usual form. Zones are refused: they mean
// something only on one machine's links.
func parseAddr(s string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(s)
	if err != nil || addr.Zone() != "" {
		return netip.Addr{}, false
	}
	return addr.Unmap(), true
}

// String is what ParseEntry reads.
func (e Entry) String() string {
	var b strings.Builder
	switch {
	case e.Host != "":
		if e.Wild {
			b.WriteString("*.")
		}
		b.WriteString(e.Host)
	case e.Prefix.IsSingleIP():
		b.WriteString(bracket(e.Prefix.Addr(), e.Port))
	case e.Prefix.Addr().Is6() && e.Port != 0:
		fmt.Fprintf(&b, "[%s]/%d", e.Prefix.Addr(), e.Prefix.Bits())
	default:
		b.WriteString(e.Prefix.String())
	}
	if e.Port != 0 {
		fmt.Fprintf(&b, ":%d", e.Port)
	}
	if e.Addr.IsValid() {
		b.WriteString("=" + bracket(e.Addr, e.AddrPort))
		if e.AddrPort != 0 {
			fmt.Fprintf(&b, ":%d", e.AddrPort)
		}
	}
	return b.String()
}

func bracket(addr netip.Addr, port uint16) string {
	if addr.Is6() && port != 0 {
		return "[" + addr.String() + "]"
	}
	return addr.String()
}

// ports lists where the entry may be reached.
func (e Entry) ports() []uint16 {
	if e.Port != 0 {
		return []uint16{e.Port}
	}
	ports := []uint16{80, 443}
	if e.AddrPort != 0 && !slices.Contains(ports, e.AddrPort) {
		ports = append(ports, e.AddrPort)
	}
	return ports
}

// names reports whether the entry is about a host of that name, at any port.
func (e Entry) names(host string) bool {
	switch {
	case e.Host == "":
		return false
	case e.Wild:
		return below(host, e.Host)
	}
	return e.Host == host
}

// below reports whether name is a subdomain of domain.
func below(name, domain string) bool {
	return len(name) > len(domain)+1 && strings.HasSuffix(name, domain) && name[len(name)-len(domain)-1] == '.'
}

// Covers reports whether all that asked allows is allowed by granted too. An
// entry with an address covers, and is covered by, only such with the same
// address.
func (granted Entry) Covers(asked Entry) bool {
	if granted.Addr != asked.Addr || granted.AddrPort != asked.AddrPort {
		return false
	}
	for _, port := range asked.ports() {
		if !slices.Contains(granted.ports(), port) {
			return false
		}
	}
	if granted.Host == "" {
		return asked.Host == "" && asked.Prefix.Bits() >= granted.Prefix.Bits() &&
			granted.Prefix.Contains(asked.Prefix.Addr())
	}
	if asked.Wild {
		return granted.Wild && (asked.Host == granted.Host || below(asked.Host, granted.Host))
	}
	return granted.names(asked.Host)
}

// shorten cuts what came from outside to what a sentence can hold.
func shorten(s string) string {
	const most = 120
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
