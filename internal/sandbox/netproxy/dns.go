package netproxy

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/netguard"
)

// Limits of the DNS server.
const (
	maxQueries   = 64   // answered at once by UDP; more are dropped, and asked again
	maxQuery     = 4096 // bytes
	dnsTCPIdle   = 10 * time.Second
	dnsWriteTime = 5 * time.Second
)

// serveDNS answers by UDP until the socket is closed.
func (p *Proxy) serveDNS(ctx context.Context, socket net.PacketConn) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	busy := make(chan struct{}, maxQueries)
	buf := make([]byte, maxQuery)
	for {
		n, from, err := socket.ReadFrom(buf)
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil && ctx.Err() != nil:
			return nil
		case err != nil:
			// An ICMP error of an earlier answer, for one; a broken socket would fail
			// without end.
			if !pause(ctx, acceptPause) {
				return nil
			}
			continue
		}
		select {
		case busy <- struct{}{}:
		default:
			continue
		}
		msg := append([]byte(nil), buf[:n]...)
		wg.Go(func() {
			defer func() { <-busy }()
			if answer := p.answer(ctx, msg, true); answer != nil {
				_, _ = socket.WriteTo(answer, from) // who is gone asks no more
			}
		})
	}
}

// serveDNSConn answers on one TCP connection, RFC 7766.
func (p *Proxy) serveDNSConn(ctx context.Context, c *client) {
	defer c.Close()
	for {
		_ = c.SetReadDeadline(time.Now().Add(dnsTCPIdle))
		var length [2]byte
		if _, err := io.ReadFull(c, length[:]); err != nil {
			return
		}
		n := int(binary.BigEndian.Uint16(length[:]))
		if n > maxQuery {
			return
		}
		msg := make([]byte, n)
		if _, err := io.ReadFull(c, msg); err != nil {
			return
		}
		answer := p.answer(ctx, msg, false)
		if answer == nil {
			return
		}
		_ = c.SetWriteDeadline(time.Now().Add(dnsWriteTime))
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return
		}
	}
}

// answer is the answer to one message, nil if there is none to give.
func (p *Proxy) answer(ctx context.Context, msg []byte, udp bool) []byte {
	q, answerable, err := parseQuery(msg)
	if !answerable {
		return nil
	}
	limit := 1<<16 - 1
	if udp {
		limit = q.size
	}
	switch {
	case err != nil:
		q.question, q.edns = nil, false
		return q.pack(reply{rcode: rcodeFormat}, limit)
	case q.opcode != 0:
		return q.pack(reply{rcode: rcodeNotImpl}, limit)
	case q.version != 0:
		return q.pack(reply{rcode: rcodeBadVers}, limit)
	case q.class != classIN && q.class != classANY:
		return q.pack(reply{rcode: rcodeRefused}, limit)
	}
	return q.pack(p.lookup(ctx, q), limit)
}

// lookup decides about a name. A name that may be reached has addresses that
// stand for it; of all other types it has no records. HTTPS and SVCB records in
// particular would bring addresses past the proxy, and keys to hide a name with.
func (p *Proxy) lookup(ctx context.Context, q query) reply {
	if addr, ok := reverseAddr(q.name); ok {
		if name, ok := p.fakes.name(addr); ok && q.kind == typePTR {
			return reply{ptr: name}
		}
		return reply{rcode: rcodeName}
	}
	name, ok := netguard.Name(q.name)
	if !ok {
		err := refuse("%q is not a host name", q.name)
		p.record(Decision{Protocol: "dns", Host: q.name, Rule: err.Error()})
		return reply{rcode: rcodeName, why: err.Error()}
	}
	if name == "localhost" || strings.HasSuffix(name, ".localhost") { // RFC 6761 §6.3
		if _, err := p.grantLookup(name); err != nil {
			return localhost(q.kind)
		}
	}
	t, err := p.grantLookup(name)
	if err == nil {
		_, err = p.addresses(ctx, t)
	}
	var notFound *net.DNSError
	switch {
	case isRefusal(err):
		p.record(Decision{Protocol: "dns", Host: name, Rule: err.Error()})
		return reply{rcode: rcodeName, why: err.Error()}
	case errors.Is(err, errNoAddress), errors.As(err, &notFound) && notFound.IsNotFound:
		return reply{rcode: rcodeName}
	case err != nil:
		return reply{rcode: rcodeServer}
	}
	if q.kind != typeA && q.kind != typeAAAA {
		return reply{}
	}
	v4, v6, ok := p.fakes.addrs(name)
	if !ok {
		return reply{rcode: rcodeServer}
	}
	p.record(Decision{Protocol: "dns", Host: name, Allowed: true, Rule: t.rule})
	switch {
	case q.kind == typeA:
		return reply{addr: v4}
	case !p.config.NoIPv6:
		return reply{addr: v6}
	}
	return reply{}
}

// localhost is what the name always means: the inside itself.
func localhost(kind uint16) reply {
	switch kind {
	case typeA:
		return reply{addr: netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	case typeAAAA:
		return reply{addr: netip.IPv6Loopback()}
	}
	return reply{}
}
