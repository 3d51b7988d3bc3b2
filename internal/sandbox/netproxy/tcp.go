package netproxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// Waits of a connection whose protocol is not known.
const (
	// serverFirst is how long a client may be silent, at a port that is neither
	// HTTP's nor TLS's, until the server is given the chance to speak first.
	serverFirst = 100 * time.Millisecond
	// turnAwayTime is how long a refusal waits to see in which protocol it is to be
	// said.
	turnAwayTime = 2 * time.Second
)

// serveTransparent serves a connection from a program that knows of no proxy.
func (r *run) serveTransparent(ctx context.Context, c *client, port uint16) {
	local, err := netip.ParseAddrPort(c.LocalAddr().String())
	if err != nil {
		c.reset()
		return
	}
	t, err := r.grant(local.Addr().Unmap().String(), port)
	if err != nil {
		r.decide("tcp", target{host: local.Addr().Unmap().String(), port: port}, "", err)
		r.turnAway(c, port, err)
		return
	}
	r.carry(ctx, c, t, nil, "")
}

// carry serves a connection to a target that was granted, and looks at what the
// client says to it. To is the connection to the target if there is one already:
// it owns that. Via is the protocol that the grant was recorded under, "" if it
// was not yet.
func (r *run) carry(ctx context.Context, c *client, t target, to net.Conn, via string) {
	if !t.name() && r.inject[t.host] == nil {
		r.carryRaw(ctx, c, t, to, via)
		return
	}
	strict := t.port == 80 || t.port == 443
	wait := helloTimeout
	if !strict {
		wait = serverFirst
	}
	_ = c.SetReadDeadline(time.Now().Add(wait))
	err := c.peek(1)
	_ = c.SetReadDeadline(time.Time{})
	if errors.Is(err, os.ErrDeadlineExceeded) && !strict {
		r.carryLate(ctx, c, t, to, via)
		return
	}
	kind := kindOther
	if err == nil {
		kind, err = c.sniff()
	}
	if err != nil {
		closeConn(to)
		if saidTooMuch(err) {
			r.refuseInside(c, "tcp", t, refuse("%s: %v", t, err))
		}
		return
	}
	r.carryKind(ctx, c, t, to, via, kind)
}

// carryKind goes on with a connection whose protocol is known. It owns to.
func (r *run) carryKind(ctx context.Context, c *client, t target, to net.Conn, via string, kind kind) {
	switch {
	case kind == kindTLS:
		r.carryTLS(ctx, c, t, to, via)
	case kind == kindHTTP:
		r.serveHTTP(c, &origin{target: t, via: via, to: to})
	case t.name() && (t.port == 80 || t.port == 443):
		if to != nil {
			to.Close()
		}
		r.refuseInside(c, "tcp", t, refuse("%s is for TLS and HTTP only: what is neither does not say its host", t))
	default:
		r.carryRaw(ctx, c, t, to, via)
	}
}

// carryRaw relays without a look at it.
func (r *run) carryRaw(ctx context.Context, c *client, t target, to net.Conn, via string) {
	to, err := r.connect(ctx, t, to, via, "tcp")
	if err != nil {
		c.reset()
		return
	}
	relay(c, to)
}

// connect dials if that was not done yet, and records it.
func (r *run) connect(ctx context.Context, t target, to net.Conn, via, protocol string) (net.Conn, error) {
	if to != nil {
		return to, nil
	}
	to, err := r.dial(ctx, t)
	if via != "" {
		return to, err
	}
	switch {
	case err == nil:
		r.decide(protocol, t, to.RemoteAddr().String(), nil)
	case isRefusal(err):
		r.decide(protocol, t, "", err)
	default:
		r.decide(protocol, t, "", nil)
	}
	return to, err
}

// carryLate serves a connection whose client waits for the server to speak. When
// the client does speak, what it says is looked at as at the beginning.
func (r *run) carryLate(ctx context.Context, c *client, t target, to net.Conn, via string) {
	to, err := r.connect(ctx, t, to, via, "tcp")
	if err != nil {
		c.reset()
		return
	}
	untie := tie(c, to)
	defer untie()
	var spoke atomic.Bool
	answered := make(chan struct{})
	go func() { // ends with to, which untie closes; waited for below
		defer close(answered)
		copyMarked(c, to, &spoke)
	}()
	heard := make(chan error, 1)
	go func() { heard <- c.peek(1) }() // ends with c; waited for below
	select {
	case err = <-heard:
	case <-answered: // the server has ended it before the client said anything
		c.Close()
		<-heard
		return
	}
	kind := kindOther
	if err == nil {
		kind, err = c.sniff()
	}
	if err == nil && kind != kindOther && t.name() && spoke.Load() {
		// STARTTLS and its like say something else before.
		err = refuse("%s: TLS or HTTP where the server spoke first", t)
		r.decide("tcp", t, "", err)
	}
	switch {
	case err != nil:
		untie()
		<-answered
	case kind != kindOther:
		to.Close()
		<-answered
		r.carryKind(ctx, c, t, nil, "late", kind)
	default:
		pass(to, c)
		<-answered
	}
}

// copyMarked copies answers to the client and marks that there were any.
func copyMarked(c *client, from net.Conn, spoke *atomic.Bool) {
	buf := make([]byte, copyBuffer)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			spoke.Store(true)
			if _, err := c.Write(buf[:n]); err != nil {
				from.Close()
				return
			}
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				_ = c.CloseWrite()
			}
			return
		}
	}
}

// kind is what a client's first bytes are.
type kind int

const (
	kindOther kind = iota
	kindTLS
	kindHTTP
)

// maxRequestLine is how long a line can be that is looked at for being HTTP, in
// bytes.
const maxRequestLine = 32 << 10

// sniff reads ahead until it is clear what the client speaks. The first byte
// must have been read.
func (c *client) sniff() (kind, error) {
	_ = c.SetReadDeadline(time.Now().Add(helloTimeout))
	defer c.SetReadDeadline(time.Time{})
	for {
		kind, more := guess(c.head)
		if !more {
			return kind, nil
		}
		if err := c.more(); err != nil {
			return kindOther, err
		}
	}
}

// guess says what the first bytes are, or that more are needed for that.
func guess(b []byte) (k kind, more bool) {
	if len(b) == 0 {
		return kindOther, true
	}
	if b[0] == recordHandshake {
		if len(b) == 1 {
			return kindOther, true
		}
		if b[1] == 3 {
			return kindTLS, false
		}
		return kindOther, false
	}
	line := bytes.TrimLeft(b, "\r\n") // servers overlook empty lines, RFC 9112 §2.2
	line, _, whole := bytes.Cut(line, []byte("\n"))
	method, rest, spaced := bytes.Cut(line, []byte(" "))
	const maxMethod = 32
	if len(method) > maxMethod || (len(method) > 0 && !validToken(string(method))) {
		return kindOther, false
	}
	// git's own protocol begins like a long word, and has a NUL soon. It must not
	// matter in how many pieces that comes.
	if bytes.IndexByte(line, 0) >= 0 {
		return kindOther, false
	}
	if !whole {
		return kindOther, len(b) < maxRequestLine
	}
	if i := bytes.LastIndexByte(bytes.TrimRight(rest, "\r "), ' '); spaced && i >= 0 {
		if version := strings.ToUpper(string(rest[i+1:])); strings.HasPrefix(version, "HTTP/1") {
			return kindHTTP, false
		}
	}
	return kindOther, false
}

// validToken reports whether s is a token of HTTP, RFC 9110 §5.6.2.
func validToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

// refuseInside records and says a refusal of what a client said in a connection
// that was granted.
func (r *run) refuseInside(c *client, protocol string, t target, err error) {
	r.decide(protocol, t, "", err)
	r.turnAway(c, t.port, err)
}

// turnAway says a refusal in the client's own terms, as far as it has any: HTTP
// with the sentence, an alert of TLS, otherwise a reset.
func (r *run) turnAway(c *client, port uint16, err error) {
	if port == 80 || port == 443 {
		_ = c.SetReadDeadline(time.Now().Add(turnAwayTime))
		_ = c.peek(1)
	}
	switch {
	case len(c.head) > 0 && c.head[0] == recordHandshake:
		_, _ = c.Write([]byte{recordAlert, 3, 3, 0, 2, 2, alertDenied})
		c.lingering()
	case len(c.head) > 0 && validToken(string(c.head[:1])) && port == 80:
		_, _ = c.Write(forbidden(err.Error()))
		c.lingering()
	default:
		c.reset()
	}
}
