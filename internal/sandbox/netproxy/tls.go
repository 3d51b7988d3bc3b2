package netproxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// carryTLS serves a connection that begins with a ClientHello. It owns to.
func (r *run) carryTLS(ctx context.Context, c *client, t target, to net.Conn, via string) {
	h, err := c.hello()
	switch {
	case err == nil:
		err = checkHello(h, t)
	case !saidTooMuch(err):
		closeConn(to)
		return // it is gone, or silent
	default:
		err = refuse("%s: %v", t, err)
	}
	if err != nil {
		closeConn(to)
		r.refuseInside(c, "tls", t, err)
		return
	}
	if r.inject[t.host] != nil && sameName(h.name, t.host) && !h.hasECH {
		r.openTLS(ctx, c, &origin{target: t, via: via, to: to, tls: true})
		return
	}
	to, err = r.connect(ctx, t, to, via, "tls")
	if err != nil {
		c.reset()
		return
	}
	if !t.name() {
		relay(c, to)
		return
	}
	r.relayTLS(c, to, t, h)
}

func closeConn(c net.Conn) {
	if c != nil {
		c.Close()
	}
}

// saidTooMuch tells a client that says what cannot be understood from one that
// says nothing more.
func saidTooMuch(err error) bool {
	for _, e := range []error{errNotHello, errBadHello, errBigHello, errHello} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// hello reads ahead until the ClientHello is there.
func (c *client) hello() (hello, error) {
	_ = c.SetReadDeadline(time.Now().Add(helloTimeout))
	defer c.SetReadDeadline(time.Time{})
	for {
		h, need, err := parseHello(c.head)
		if err != nil || need == 0 {
			return h, err
		}
		if err := c.peek(need); err != nil {
			return h, err
		}
	}
}

// checkHello checks that a ClientHello says the name that was granted. Encrypted
// Client Hello is refused even if the name outside is right: a server may go by
// the one inside, and what is only for show cannot be told from what is not.
func checkHello(h hello, t target) error {
	switch {
	case !t.name():
		return nil
	case h.name == "":
		return refuse("%s: TLS without a server name (SNI) is not allowed", t)
	case !sameName(h.name, t.host):
		return refuse("%s: TLS for %q in a connection to %s is not allowed", t, shorten(h.name), t.host)
	case h.hasECH:
		return refuse("%s: Encrypted Client Hello is not allowed: it can hide another name (Chromium: --disable-features=EncryptedClientHello; Firefox: security.tls.ech.grease_probability = 0)", t)
	}
	return nil
}

// sameName compares in any case; a name has no letters but ASCII's, of which some
// others are another case too.
func sameName(name, host string) bool { return len(name) == len(host) && strings.EqualFold(name, host) }

// relayTLS relays a TLS connection. A server may ask for a second ClientHello
// (RFC 8446 §4.1.4), which some let name another host than the first: until the
// server has said that it does not, every handshake record is looked at.
func (r *run) relayTLS(c *client, to net.Conn, t target, first hello) {
	defer tie(c, to)()
	var settled atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := passAnswer(c, to, &settled); err != nil {
			c.Close()
			return
		}
		pass(c, to)
	})
	wg.Go(func() {
		if err := c.passHellos(to, t, first, &settled); err != nil {
			if isRefusal(err) {
				r.decide("tls", t, "", err)
			}
			c.reset()
			return
		}
		pass(to, c)
	})
	wg.Wait()
}

// passAnswer passes on the beginning of what the server says, and settles
// whether it takes another ClientHello before the client can know.
func passAnswer(c *client, from net.Conn, settled *atomic.Bool) error {
	buf := make([]byte, serverHelloStart)
	n, err := io.ReadAtLeast(from, buf, 1)
	for err == nil && n < len(buf) && buf[0] == recordHandshake {
		var k int
		k, err = from.Read(buf[n:])
		n += k
	}
	if n > 0 {
		if !asksAgain(buf[:n]) {
			settled.Store(true)
		}
		if _, err := c.Write(buf[:n]); err != nil {
			return err
		}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil // pass sees the end too
	}
	return err
}

// passHellos passes on the first ClientHello and, as long as it is not settled
// that no other can come, whatever follows, record by record.
func (c *client) passHellos(to net.Conn, t target, first hello, settled *atomic.Bool) error {
	length := first.length
	for hellos := 1; ; {
		if _, err := to.Write(c.head[:length]); err != nil {
			return err
		}
		c.head = c.head[length:]
		if settled.Load() || hellos > 1 {
			return nil
		}
		err := c.peek(recordHeader)
		switch {
		case settled.Load() || (errors.Is(err, io.EOF) && len(c.head) == 0):
			return nil
		case err != nil:
			return err
		}
		if c.head[0] != recordHandshake {
			length = recordHeader + int(c.head[3])<<8 + int(c.head[4])
			if length > recordHeader+maxRecord {
				return errBadHello
			}
			if err := c.peek(length); err != nil {
				return err
			}
			continue
		}
		h, err := c.hello()
		if settled.Load() {
			return nil
		}
		if err != nil {
			return refuse("%s: a second handshake message is not a ClientHello", t)
		}
		if err := checkHello(h, t); err != nil {
			return err
		}
		length = h.length
		hellos++
	}
}

// openTLS opens a connection to a host with an injection, with a certificate of
// the proxy's own, and serves what is in it.
func (r *run) openTLS(ctx context.Context, c *client, o *origin) {
	fail := func(err error) {
		closeConn(o.to)
		c.reset()
		r.logError(ctx, "opening TLS", o.target, err)
	}
	inner := tls.Server(c, &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return r.ca.leaf(o.target.host) },
		NextProtos:     []string{"http/1.1"},
		MinVersion:     tls.VersionTLS12,
	})
	shake, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	if err := inner.HandshakeContext(shake); err != nil {
		fail(err)
		return
	}
	r.serveHTTPOn(inner, c, o)
}
