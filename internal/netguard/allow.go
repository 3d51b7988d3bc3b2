package netguard

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Allow is something that the operator named: it may be reached although it is
// special, by plain HTTP and at its own port.
type Allow struct {
	prefix netip.Prefix // of addresses, if name is empty
	name   string       // a clean name; with a leading dot all names below it
	port   uint16       // zero means every port
}

// ParseAllow reads what an operator wrote: an address (10.0.0.7), a range
// (10.0.0.0/8), a host (sso.corp.example) or all hosts below one
// (*.corp.example), each but a range with :port if only that one is meant. A host
// opens every address that it has but those of a cloud's metadata; these must be
// named by themselves.
func ParseAllow(s string) (Allow, error) {
	if prefix, err := netip.ParsePrefix(s); err == nil {
		return Allow{prefix: prefix.Masked()}, nil
	}
	host, port := s, uint16(0)
	if h, p, ok := cutPort(s); ok {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return Allow{}, fmt.Errorf("%q: %q is not a port", s, p)
		}
		host, port = h, uint16(n)
	}
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Zone() != "" {
			return Allow{}, fmt.Errorf("%q has a zone", s)
		}
		return Allow{prefix: netip.PrefixFrom(addr, addr.BitLen()), port: port}, nil
	}
	bare, below := strings.CutPrefix(host, "*.")
	name, ok := Name(bare)
	if !ok {
		return Allow{}, fmt.Errorf("%q is neither a host, nor an address, nor a range of addresses", s)
	}
	if below {
		name = "." + name
	}
	return Allow{name: name, port: port}, nil
}

// cutPort cuts host:port and [address]:port, and leaves a bare IPv6 address.
func cutPort(s string) (host, port string, ok bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 || strings.Contains(s[:i], ":") && !strings.HasSuffix(s[:i], "]") {
		return "", "", false
	}
	return s[:i], s[i+1:], true
}

// String is what [ParseAllow] reads.
func (a Allow) String() string {
	s := a.name
	switch {
	case strings.HasPrefix(s, "."):
		s = "*" + s
	case s != "":
	case !a.prefix.IsSingleIP():
		return a.prefix.String()
	case a.port != 0 && a.prefix.Addr().Is6():
		s = "[" + a.prefix.Addr().String() + "]"
	default:
		s = a.prefix.Addr().String()
	}
	if a.port != 0 {
		s += ":" + strconv.Itoa(int(a.port))
	}
	return s
}

func (a Allow) fits(port uint16) bool { return a.port == 0 || a.port == port }

// host reports whether the entry names the host.
func (a Allow) host(host string, port uint16) bool {
	if a.name == "" || !a.fits(port) {
		return false
	}
	return host == a.name || strings.HasPrefix(a.name, ".") && strings.HasSuffix(host, a.name)
}

// address reports whether the entry opens the address of a host, which may be
// the address itself.
func (a Allow) address(host string, addr netip.Addr, port uint16) bool {
	if a.name != "" {
		return a.host(host, port) && !Metadata(addr) && addr.Zone() == ""
	}
	return a.fits(port) && a.prefix.Contains(addr) && (!Metadata(addr) || a.prefix.IsSingleIP())
}
