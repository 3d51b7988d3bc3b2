package netguard

import (
	"context"
	"net"
	"net/netip"
	"time"
)

// Limits of reaching out.
const (
	// MaxAddrs is how many addresses of one name are tried.
	MaxAddrs = 16
	// DialTimeout is how long one address may take.
	DialTimeout = 15 * time.Second
	dialStagger = 250 * time.Millisecond // until the next address is tried too, RFC 8305 §5
)

// Resolver finds the addresses of a name. [net.Resolver] is one. The name is
// whole (no search list applies) and has no trailing dot; network is "ip".
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// HostResolver asks as the host would, but for its search list.
type HostResolver struct{}

func (HostResolver) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, network, host+".")
	for i, addr := range addrs {
		addrs[i] = addr.Unmap() // it gives IPv4 in IPv6 form
	}
	return addrs, err
}

// Interleave puts the families of addresses in turn, beginning with that of the
// first.
func Interleave(addrs []netip.Addr) []netip.Addr {
	var first, second []netip.Addr
	for _, addr := range addrs {
		if addr.Is4() == addrs[0].Is4() {
			first = append(first, addr)
		} else {
			second = append(second, addr)
		}
	}
	var mixed []netip.Addr
	for i := range max(len(first), len(second)) {
		if i < len(first) {
			mixed = append(mixed, first[i])
		}
		if i < len(second) {
			mixed = append(mixed, second[i])
		}
	}
	return mixed
}

// Race dials addresses one after the other, each a moment after the one before
// or when that has failed, and gives the first connection (RFC 8305). There must
// be one address at least. Nothing that it began goes on when it returns.
func Race(ctx context.Context, dial func(ctx context.Context, network, addr string) (net.Conn, error), addrs []netip.Addr, port uint16) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		conn net.Conn
		err  error
	}
	results := make(chan result, len(addrs))
	var won net.Conn
	var failed []error
	started, pending := 0, 0
	start := func() {
		addr := netip.AddrPortFrom(addrs[started], port).String()
		started++
		pending++
		go func() { // ends with its dial, which ctx ends; Race waits for it
			ctx, cancel := context.WithTimeout(ctx, DialTimeout)
			defer cancel()
			conn, err := dial(ctx, "tcp", addr)
			results <- result{conn, err}
		}()
	}
	stagger := time.NewTimer(dialStagger)
	defer stagger.Stop()
	for start(); pending > 0; {
		select {
		case <-stagger.C:
			if won == nil && started < len(addrs) {
				start()
				stagger.Reset(dialStagger)
			}
		case r := <-results:
			pending--
			switch {
			case r.err != nil:
				failed = append(failed, r.err)
				if won == nil && started < len(addrs) && ctx.Err() == nil {
					start()
					stagger.Reset(dialStagger)
				}
			case won != nil:
				r.conn.Close()
			default:
				won = r.conn
				cancel()
			}
		}
	}
	if won == nil {
		return nil, failed[0]
	}
	return won, nil
}
