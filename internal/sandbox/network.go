package sandbox

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/toolyard/toolyard/internal/sandbox/netproxy"
	"github.com/toolyard/toolyard/tool"
)

// The modes of a Network.
const (
	NetworkNone    = "none"    // loopback of its own, nothing else
	NetworkDomains = "domains" // what Domains names
	NetworkAll     = "all"     // anything but private addresses
)

// Network is what a command may talk to. In JSON it is "none", "all" or a list
// of domains. The zero value is none.
type Network struct {
	Mode string
	// Domains are "host[:port][=ADDRESS[:port]]", "*.host[:port]", an address or a
	// range with a port: see [netproxy.ParseEntry].
	Domains []string
}

// IsZero reports whether nothing was said.
func (n Network) IsZero() bool { return n.Mode == "" && len(n.Domains) == 0 }

// MarshalJSON writes "none", "all" or the list of domains.
func (n Network) MarshalJSON() ([]byte, error) {
	switch n.Mode {
	case NetworkDomains:
		if n.Domains == nil {
			return []byte("[]"), nil
		}
		return json.Marshal(n.Domains)
	case "":
		return json.Marshal(NetworkNone)
	}
	return json.Marshal(n.Mode)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (n *Network) UnmarshalJSON(data []byte) error {
	var domains []string
	if json.Unmarshal(data, &domains) == nil && domains != nil {
		*n = Network{Mode: NetworkDomains, Domains: domains}
		return nil
	}
	var mode string
	if err := json.Unmarshal(data, &mode); err != nil || (mode != NetworkNone && mode != NetworkAll) {
		return fmt.Errorf("network is %s: expected \"none\", \"all\" or a list of domains", data)
	}
	*n = Network{Mode: mode}
	return nil
}

// Entries are the parsed Domains. The error, a *tool.Error with PARAMETER_ERROR,
// names the first that is none.
func (n Network) Entries() ([]netproxy.Entry, error) {
	if n.Mode != NetworkDomains {
		return nil, nil
	}
	entries := make([]netproxy.Entry, 0, len(n.Domains))
	for _, domain := range n.Domains {
		e, err := netproxy.ParseEntry(domain)
		if err != nil {
			return nil, tool.Errorf(tool.ParameterError, "%v", err).
				WithHint("Name hosts such as registry.npmjs.org, *.example.org, git.example.org:9418 or db.test=10.1.2.3:5432.")
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// NetworkOf is the network of a list of entries, as configuration has it: none
// for an empty list, all for the one word "all".
func NetworkOf(entries []string) Network {
	switch {
	case len(entries) == 0:
		return Network{Mode: NetworkNone}
	case len(entries) == 1 && entries[0] == NetworkAll:
		return Network{Mode: NetworkAll}
	}
	return Network{Mode: NetworkDomains, Domains: slices.Clone(entries)}
}

// Narrow is what is left of asked within granted.
func (granted Network) Narrow(asked Network) Network {
	switch {
	case asked.Mode == NetworkNone || granted.Mode == NetworkNone:
		return Network{Mode: NetworkNone}
	case asked.Mode == NetworkAll:
		return granted
	}
	n := Network{Mode: NetworkDomains}
	for _, domain := range asked.Domains {
		if granted.covers(domain) {
			n.Domains = append(n.Domains, domain)
		}
	}
	return n
}

// covers reports whether one of the granted entries grants all that domain
// does. What is no entry is covered by nothing.
func (granted Network) covers(domain string) bool {
	asked, err := netproxy.ParseEntry(domain)
	if err != nil {
		return false
	}
	if granted.Mode == NetworkAll {
		// All is every public address; one that is named could be any.
		return asked.Host != "" && !asked.Addr.IsValid()
	}
	return slices.ContainsFunc(granted.Domains, func(text string) bool {
		entry, err := netproxy.ParseEntry(text)
		return err == nil && entry.Covers(asked)
	})
}

// ParseRange reads a range of addresses such as 10.1.0.0/16, or an address as the
// range of it alone.
func ParseRange(text string) (netip.Prefix, error) {
	if !strings.Contains(text, "/") {
		a, err := netip.ParseAddr(text)
		if err != nil || a.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("%q is neither an address nor a range", text)
		}
		return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil || p.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("%q is no range of addresses", text)
	}
	return p.Masked(), nil
}

// networkViolation is the Kind of a Violation.
const networkViolation = "network"

// refusal is what a decision that refuses is in a result.
func refusal(d netproxy.Decision) Violation { return Violation{networkViolation, target(d), d.Rule} }

func target(d netproxy.Decision) string {
	host := d.Host
	if host == "" {
		host = d.Address
	}
	if d.Port == 0 || d.Protocol == "dns" {
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(d.Port))
}
