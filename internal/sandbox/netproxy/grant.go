package netproxy

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/netguard"
)

// maxSentence is the length of the sentence of a refusal, in characters.
const maxSentence = 600

// refusal is why something is not done. Its text is for whoever is inside as
// well: it holds nothing that the operator has not put into an entry.
type refusal struct{ sentence string }

func (r *refusal) Error() string { return r.sentence }

func refuse(format string, args ...any) error {
	return &refusal{printable("network: "+fmt.Sprintf(format, args...), maxSentence)}
}

func isRefusal(err error) bool {
	var r *refusal
	return errors.As(err, &r)
}

// target is something that may be reached.
type target struct {
	host string     // a clean name, or an address in text
	addr netip.Addr // if host is an address
	port uint16
	rule string
	// at is where the entry says that host is.
	at     netip.Addr
	atPort uint16
	// any says that it is granted because all is: what a client says inside of
	// the connection decides nothing then.
	any bool
	// named says that an entry holds the address, so it is not checked.
	named bool
}

// name reports whether the target is a name that TLS and HTTP must repeat.
func (t target) name() bool { return !t.addr.IsValid() && !t.any }

func (t target) String() string { return hostPort(t.host, t.port) }

func hostPort(host string, port uint16) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port == 0 {
		return host
	}
	return fmt.Sprintf("%s:%d", host, port)
}

// grant decides whether host may be reached at port. Host is as a client wrote
// it: a name, an address, or an address that stands for a name.
func (p *Proxy) grant(host string, port uint16) (target, error) {
	if port == 0 {
		return target{}, refuse("%s has no port", shorten(host))
	}
	bare := strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if addr, err := netip.ParseAddr(bare); err == nil {
		if _, literal := p.literal(addr, port); !literal {
			if name, ok := p.fakes.name(addr); ok {
				return p.grantName(name, port)
			}
		}
		return p.grantAddr(addr, port)
	}
	name, ok := netguard.Name(host)
	if !ok {
		return target{}, refuse("%q is not a host name", shorten(host))
	}
	return p.grantName(name, port)
}

func (p *Proxy) grantName(name string, port uint16) (target, error) {
	var others []string
	for _, e := range p.config.Entries {
		if !e.names(name) {
			continue
		}
		if slices.Contains(e.ports(), port) {
			return target{host: name, port: port, rule: e.String(), at: e.Addr, atPort: e.AddrPort}, nil
		}
		for _, allowed := range e.ports() {
			others = append(others, fmt.Sprint(allowed))
		}
	}
	switch {
	case p.config.All:
		if why := netguard.SpecialName(name); why != "" {
			return target{}, refuse("%s is %s", hostPort(name, port), why)
		}
		return target{host: name, port: port, rule: ruleAll, any: true}, nil
	case others != nil:
		return target{}, refuse("%s is not allowed: %s may be reached at port %s only", hostPort(name, port), name, strings.Join(others, ", "))
	}
	return target{}, p.notAmong(hostPort(name, port))
}

func (p *Proxy) grantAddr(addr netip.Addr, port uint16) (target, error) {
	t := target{host: addr.String(), addr: addr, port: port}
	if e, ok := p.literal(addr, port); ok {
		t.rule, t.named = e.String(), true
		return t, nil
	}
	if isFake(addr) {
		return target{}, refuse("%s stands for no name now: look the name up again", addr)
	}
	if !p.config.All {
		return target{}, p.notAmong(hostPort(addr.String(), port))
	}
	if why := p.refuseAddr(addr); why != "" {
		return target{}, refuse("%s is not allowed: %s", hostPort(addr.String(), port), why)
	}
	t.rule, t.any = ruleAll, true
	return t, nil
}

// literal finds the entry that names an address.
func (p *Proxy) literal(addr netip.Addr, port uint16) (Entry, bool) {
	for _, e := range p.config.Entries {
		if e.Host == "" && e.Prefix.Contains(addr) && slices.Contains(e.ports(), port) && (!netguard.Metadata(addr) || e.Prefix.IsSingleIP()) {
			return e, true
		}
	}
	return Entry{}, false
}

// named reports whether an entry names the address, so that a name may be there
// too. Port 0 is one that is not known yet.
func (p *Proxy) named(addr netip.Addr, port uint16) bool {
	if port != 0 {
		_, ok := p.literal(addr, port)
		return ok
	}
	return slices.ContainsFunc(p.config.Entries, func(e Entry) bool {
		_, ok := p.literal(addr, e.ports()[0])
		return e.Host == "" && e.Prefix.Contains(addr) && ok
	})
}

// grantLookup decides whether the name may be looked up: it may if it can be
// reached at some port.
func (p *Proxy) grantLookup(name string) (target, error) {
	for _, e := range p.config.Entries {
		if e.names(name) {
			return target{host: name, rule: e.String(), at: e.Addr, atPort: e.AddrPort}, nil
		}
	}
	if !p.config.All {
		return target{}, p.notAmong(name)
	}
	if why := netguard.SpecialName(name); why != "" {
		return target{}, refuse("%s is %s", name, why)
	}
	return target{host: name, rule: ruleAll, any: true}, nil
}

// ruleAll is the rule of what is allowed because all is.
const ruleAll = "all"

// refuseAddr says why an address that nobody named by itself cannot be dialled,
// "" if it can.
func (p *Proxy) refuseAddr(addr netip.Addr) string {
	what := netguard.Special(addr)
	if what == "" {
		return ""
	}
	for _, r := range p.config.AllowRanges {
		if r.Contains(addr) && !addr.Is4In6() && (!netguard.Metadata(addr) || r.IsSingleIP()) {
			return ""
		}
	}
	return fmt.Sprintf("%s, %s", addr, what)
}

// notAmong says what is allowed instead of what was asked for.
func (p *Proxy) notAmong(what string) error {
	const most = 12
	if len(p.config.Entries) == 0 {
		return refuse("%s is not allowed: no domain is", what)
	}
	var rules []string
	for i, e := range p.config.Entries {
		if i == most {
			rules = append(rules, fmt.Sprintf("and %d more", len(p.config.Entries)-most))
			break
		}
		rules = append(rules, e.String())
	}
	return refuse("%s is not among the allowed domains (%s)", what, strings.Join(rules, ", "))
}
