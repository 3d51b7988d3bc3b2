package netproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/netguard"
)

// Limits of reaching out.
const (
	resolveTimeout = 5 * time.Second
	resolveKeep    = 5 * time.Second // how long an answer is used again
	maxResolved    = 512             // answers kept
)

// Resolver finds the addresses of a name; see [netguard.Resolver].
type Resolver = netguard.Resolver

// resolved keeps answers for the moment between a program's lookup and its
// connection.
type resolved struct {
	mu      sync.Mutex
	answers map[string]answer
}

type answer struct {
	addrs []netip.Addr
	until time.Time
}

func (r *resolved) get(name string) []netip.Addr {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ok := r.answers[name]
	if !ok || time.Now().After(a.until) {
		return nil
	}
	return a.addrs
}

func (r *resolved) put(name string, addrs []netip.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.answers == nil || len(r.answers) >= maxResolved {
		r.answers = map[string]answer{}
	}
	r.answers[name] = answer{addrs, time.Now().Add(resolveKeep)}
}

// addresses finds where a target is and leaves only what may be dialled. It is a
// refusal if there are addresses and none is left.
func (p *Proxy) addresses(ctx context.Context, t target) ([]netip.Addr, error) {
	switch {
	case t.at.IsValid():
		return []netip.Addr{t.at}, nil
	case t.addr.IsValid():
		if why := p.refuseAddr(t.addr); why != "" && !t.named {
			return nil, refuse("%s is not allowed: %s", t, why)
		}
		return []netip.Addr{t.addr}, nil
	}
	addrs := p.resolved.get(t.host)
	if addrs == nil {
		ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
		defer cancel()
		found, err := p.config.Resolver.LookupNetIP(ctx, "ip", t.host)
		if err != nil {
			return nil, fmt.Errorf("looking up %s: %w", t.host, err)
		}
		if len(found) > netguard.MaxAddrs {
			found = found[:netguard.MaxAddrs]
		}
		addrs = found
		if len(addrs) > 0 {
			p.resolved.put(t.host, addrs)
		}
	}
	var fit []netip.Addr
	why := ""
	for _, addr := range addrs {
		if w := p.refuseAddr(addr); w != "" && !p.named(addr, t.port) {
			why = w
			continue
		}
		fit = append(fit, addr)
	}
	switch {
	case fit != nil:
		return netguard.Interleave(fit), nil
	case why != "":
		return nil, refuse("%s is not allowed there: it is at %s, which only its own entry (%s=ADDRESS), an entry of that address or sandbox.allowRanges opens", t, why, t.host)
	}
	return nil, fmt.Errorf("looking up %s: %w", t.host, errNoAddress)
}

var errNoAddress = errors.New("it has no address")

// dial connects to a target: it resolves once, checks, and dials the addresses
// that it checked, by number. No other function of the package dials.
func (p *Proxy) dial(ctx context.Context, t target) (net.Conn, error) {
	addrs, err := p.addresses(ctx, t)
	if err != nil {
		return nil, err
	}
	port := t.port
	if t.atPort != 0 {
		port = t.atPort
	}
	return netguard.Race(ctx, p.config.Dial, addrs, port)
}
