// Package netguard keeps the runtime's own fetches on the public internet: it
// says which addresses are not part of it, and gives a client that refuses them
// on the connection really made, on every redirect, whatever a name resolves to
// and however often that changes. It does not know what is fetched, or for whom.
package netguard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Defaults of a [Guard].
const (
	DefaultTimeout   = 30 * time.Second
	DefaultRedirects = 5
	DefaultMaxBody   = 10 << 20 // bytes
)

// ErrRefused is in every error that says that something may not be fetched. It
// says so before anything was sent.
var ErrRefused = errors.New("refused")

// refuse makes an error that wraps ErrRefused and reads as a sentence of its own.
func refuse(format string, args ...any) error {
	return &refusal{fmt.Sprintf(format, args...)}
}

type refusal struct{ sentence string }

func (r *refusal) Error() string { return r.sentence }
func (r *refusal) Unwrap() error { return ErrRefused }

// Config is what a Guard lets pass. The zero value lets HTTP and HTTPS to ports
// 80 and 443 of public addresses pass.
type Config struct {
	// Allow names what may be reached besides: see [ParseAllow].
	Allow []Allow
	// Ports may be reached at hosts that Allow does not name. Nil means 80 and 443.
	Ports []uint16
	// HTTPS refuses plain HTTP to hosts that Allow does not name.
	HTTPS bool

	// Timeout is how long a request may take, with its redirects and the reading of
	// its body. Zero means [DefaultTimeout]; negative means that only the request's
	// context limits it.
	Timeout time.Duration
	// Redirects is how many are followed. Zero means [DefaultRedirects]; negative
	// means none: the answer that redirects is what the caller gets.
	Redirects int
	// MaxBody bounds an answer's body, after decompression, in bytes. What is longer
	// fails to read with [ErrTooLarge]. Zero means [DefaultMaxBody]; negative means
	// no bound.
	MaxBody int64
	// UserAgent is sent with requests that have none. Empty means that of Go.
	UserAgent string

	// Resolver finds the addresses of names. Nil is [net.DefaultResolver], which
	// knows the machine's own names too: what they are is checked like all others.
	Resolver Resolver
	// Dial connects to an ADDRESS:port that has been checked. Nil is that of
	// [net.Dialer].
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Guard decides and dials. It is safe for concurrent use.
type Guard struct{ config Config }

// New makes a Guard.
func New(c Config) *Guard {
	if c.Ports == nil {
		c.Ports = []uint16{80, 443}
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Redirects == 0 {
		c.Redirects = DefaultRedirects
	}
	if c.MaxBody == 0 {
		c.MaxBody = DefaultMaxBody
	}
	if c.Resolver == nil {
		c.Resolver = net.DefaultResolver
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Timeout: DialTimeout, KeepAlive: 30 * time.Second}).DialContext
	}
	return &Guard{config: c}
}

// CheckURL reports why a URL may not be fetched: its scheme, a user in it, its
// host or its port. A name that passes is checked again where it leads, at the
// dial. The error wraps [ErrRefused].
func (g *Guard) CheckURL(u *url.URL) error {
	host, port, err := authority(u)
	if err != nil {
		return err
	}
	named := g.named(host, port)
	if u.Scheme == "http" && g.config.HTTPS && !named {
		return refuse("%s://%s is not encrypted: https is wanted, or the host must be allowed by name", u.Scheme, u.Host)
	}
	return g.check(host, port, named)
}

// check decides about a host, which is a clean name or an address, and a port.
func (g *Guard) check(host string, port uint16, named bool) error {
	if !named && !g.portAllowed(port) {
		return refuse("port %d of %s is not allowed", port, host)
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return g.checkAddr(host, addr, port)
	}
	if what := SpecialName(host); what != "" && !named {
		return refuse("%s is not allowed: it is %s", host, what)
	}
	return nil
}

func (g *Guard) portAllowed(port uint16) bool {
	for _, p := range g.config.Ports {
		if p == port {
			return true
		}
	}
	return false
}

// checkAddr decides about the address that a host has.
func (g *Guard) checkAddr(host string, addr netip.Addr, port uint16) error {
	what := Special(addr)
	if what == "" {
		return nil
	}
	for _, a := range g.config.Allow {
		if a.address(host, addr, port) {
			return nil
		}
	}
	if host == addr.String() {
		return refuse("%s is not allowed: it is %s", host, what)
	}
	return refuse("%s is not allowed: it is at %s, %s", host, addr, what)
}

// named reports whether the operator named the host, or the address that it is.
func (g *Guard) named(host string, port uint16) bool {
	addr, _ := netip.ParseAddr(host)
	for _, a := range g.config.Allow {
		if a.host(host, port) || addr.IsValid() && a.address(host, addr, port) {
			return true
		}
	}
	return false
}

// DialContext connects to host:port if that is allowed: it resolves once, checks
// every address, and dials by number. For [http.Transport]. Errors that say no
// wrap [ErrRefused].
func (g *Guard) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if !strings.HasPrefix(network, "tcp") {
		return nil, refuse("%s is not allowed", network)
	}
	h, p, err := net.SplitHostPort(address)
	if err != nil {
		return nil, refuse("%q is not host:port", address)
	}
	n, err := strconv.ParseUint(p, 10, 16)
	if err != nil || n == 0 {
		return nil, refuse("%q is not a port", p)
	}
	port := uint16(n)
	host, err := cleanHost(h)
	if err != nil {
		return nil, err
	}
	if err := g.check(host, port, g.named(host, port)); err != nil {
		return nil, err
	}
	addrs, err := g.addresses(ctx, host, port)
	if err != nil {
		return nil, err
	}
	return Race(ctx, g.config.Dial, addrs, port)
}

// addresses are those of the host that may be dialled. It is a refusal if there
// are addresses and none is left.
func (g *Guard) addresses(ctx context.Context, host string, port uint16) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr}, nil // checked by check
	}
	ctx, cancel := context.WithTimeout(ctx, DialTimeout)
	defer cancel()
	found, err := g.config.Resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("looking up %s: %w", host, err)
	}
	if len(found) > MaxAddrs {
		found = found[:MaxAddrs]
	}
	var fit []netip.Addr
	var refused error
	for _, addr := range found {
		addr = addr.Unmap() // net.Resolver gives IPv4 in IPv6 form
		if err := g.checkAddr(host, addr, port); err != nil {
			refused = err
			continue
		}
		fit = append(fit, addr)
	}
	switch {
	case fit != nil:
		return Interleave(fit), nil
	case refused != nil:
		return nil, refused
	}
	return nil, fmt.Errorf("looking up %s: it has no address", host)
}

// authority is the host and port of a URL that may be fetched at all.
func authority(u *url.URL) (string, uint16, error) {
	var port uint64
	switch u.Scheme {
	case "http":
		port = 80
	case "https":
		port = 443
	default:
		return "", 0, refuse("%q is no URL of http or https", shorten(u.Redacted()))
	}
	if u.User != nil {
		return "", 0, refuse("the URL of %s has a user in it", shorten(u.Host))
	}
	if u.Opaque != "" || u.Host == "" {
		return "", 0, refuse("%q has no host", shorten(u.String()))
	}
	if p := u.Port(); p != "" {
		var err error
		if port, err = strconv.ParseUint(p, 10, 16); err != nil || port == 0 {
			return "", 0, refuse("%q is not a port", shorten(p))
		}
	}
	host, err := cleanHost(u.Hostname())
	return host, uint16(port), err
}

// cleanHost is a host in the one form in which hosts are compared: a name as
// [Name] gives it, or an address.
func cleanHost(host string) (string, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.String(), nil
	}
	name, ok := Name(host)
	if !ok {
		return "", refuse("%q is not a host name", shorten(host))
	}
	return name, nil
}

// shorten cuts what may come from anywhere for an error.
func shorten(s string) string {
	const most = 100
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
