package netproxy

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/toolyard/toolyard/internal/netguard"
)

// SOCKS numbers, RFC 1928 and https://www.openssh.org/txt/socks4a.protocol.
const (
	socks4 = 4
	socks5 = 5

	socksConnect = 1

	socks5OK          = 0
	socks5Failed      = 1
	socks5Denied      = 2 // not allowed by ruleset
	socks5Network     = 3
	socks5Host        = 4
	socks5Connection  = 5
	socks5Command     = 7
	socks5AddressType = 8
	socks5NoMethod    = 0xff

	socks4OK     = 0x5a
	socks4Denied = 0x5b

	maxSocks4User = 255 // bytes
)

var errSocks = errors.New("malformed SOCKS request")

// serveProxy serves a connection to the proxy port: the first byte says which
// protocol it is.
func (r *run) serveProxy(ctx context.Context, c *client) {
	_ = c.SetReadDeadline(time.Now().Add(helloTimeout))
	if err := c.peek(1); err != nil {
		return
	}
	switch c.head[0] {
	case socks4, socks5:
		r.serveSocks(ctx, c)
	default:
		_ = c.SetReadDeadline(time.Time{})
		r.serveHTTP(c, &origin{proxy: true})
	}
}

// socksRequest is what a client asks of a SOCKS proxy.
type socksRequest struct {
	version byte
	command byte
	kind    byte // of the address, SOCKS5
	host    string
	port    uint16
}

// serveSocks answers a request and carries what comes after it.
func (r *run) serveSocks(ctx context.Context, c *client) {
	if c.head[0] == socks5 {
		if err := c.greetSocks(); err != nil {
			return
		}
	}
	var req socksRequest
	for {
		q, length, err := parseSocks(c.head)
		if err != nil {
			return
		}
		if length <= len(c.head) {
			req, c.head = q, c.head[length:]
			break
		}
		if err := c.peek(length); err != nil {
			return
		}
	}
	_ = c.SetReadDeadline(time.Time{})
	if code := req.unsupported(); code != 0 {
		c.replySocks(req.version, code)
		c.lingering()
		return
	}
	protocol := "socks5"
	if req.version == socks4 {
		protocol = "socks4"
	}
	t, err := r.grant(req.host, req.port)
	if err != nil {
		t = target{host: req.host, port: req.port}
	}
	var to net.Conn
	if err == nil {
		to, err = r.dial(ctx, t)
	}
	if err != nil {
		if isRefusal(err) {
			r.decide(protocol, t, "", err)
		} else {
			r.decide(protocol, t, "", nil)
		}
		c.replySocks(req.version, socksCode(err))
		c.lingering()
		return
	}
	r.decide(protocol, t, to.RemoteAddr().String(), nil)
	if c.replySocks(req.version, socks5OK) != nil {
		to.Close()
		return
	}
	r.carry(ctx, c, t, to, protocol)
}

// greetSocks agrees on a method: none, or a name and password that mean nothing
// here, for clients that insist.
func (c *client) greetSocks() error {
	if err := c.peek(2); err != nil {
		return err
	}
	n := 2 + int(c.head[1])
	if err := c.peek(n); err != nil {
		return err
	}
	methods := c.head[2:n]
	c.head = c.head[n:]
	switch {
	case bytes.IndexByte(methods, 0) >= 0:
		_, err := c.Write([]byte{socks5, 0})
		return err
	case bytes.IndexByte(methods, 2) < 0:
		_, _ = c.Write([]byte{socks5, socks5NoMethod})
		c.lingering()
		return errSocks
	}
	if _, err := c.Write([]byte{socks5, 2}); err != nil {
		return err
	}
	// RFC 1929: version, name, password.
	if err := c.peek(2); err != nil {
		return err
	}
	n = 2 + int(c.head[1])
	if err := c.peek(n + 1); err != nil {
		return err
	}
	n += 1 + int(c.head[n])
	if err := c.peek(n); err != nil {
		return err
	}
	c.head = c.head[n:]
	_, err := c.Write([]byte{1, 0})
	return err
}

// parseSocks reads a request. If length is more than there is, it is how much
// there must be at least.
func parseSocks(b []byte) (q socksRequest, length int, err error) {
	if len(b) == 0 {
		return q, 1, nil
	}
	switch b[0] {
	case socks4:
		return parseSocks4(b)
	case socks5:
		return parseSocks5(b)
	}
	return q, 0, errSocks
}

func parseSocks5(b []byte) (q socksRequest, length int, err error) {
	if len(b) < 5 {
		return q, 5, nil
	}
	q.version, q.command, q.kind = b[0], b[1], b[3]
	size := 0
	switch q.kind {
	case 1:
		size = 4
	case 3:
		size = 1 + int(b[4])
	case 4:
		size = 16
	default:
		return q, 5, nil
	}
	length = 4 + size + 2
	if len(b) < length {
		return q, length, nil
	}
	address := b[4 : 4+size]
	if q.kind == 3 {
		q.host = string(address[1:])
	} else {
		addr, _ := netip.AddrFromSlice(address)
		q.host = addr.String()
	}
	q.port = binary.BigEndian.Uint16(b[length-2:])
	return q, length, nil
}

func parseSocks4(b []byte) (q socksRequest, length int, err error) {
	const fixed = 8
	if len(b) < fixed+1 {
		return q, fixed + 1, nil
	}
	q.version, q.command, q.port = b[0], b[1], binary.BigEndian.Uint16(b[2:])
	user, whole := terminated(b[fixed:])
	if user > maxSocks4User {
		return q, 0, errSocks
	}
	if !whole {
		return q, len(b) + 1, nil
	}
	length = fixed + user + 1
	if b[4] != 0 || b[5] != 0 || b[6] != 0 || b[7] == 0 {
		q.host = netip.AddrFrom4([4]byte(b[4:8])).String()
		return q, length, nil
	}
	name, whole := terminated(b[length:]) // SOCKS4a
	if name > netguard.MaxName+1 {
		return q, 0, errSocks
	}
	if !whole {
		return q, len(b) + 1, nil
	}
	q.host = string(b[length : length+name])
	return q, length + name + 1, nil
}

// terminated is how long the text at the beginning of b is, and whether its NUL is
// there.
func terminated(b []byte) (length int, whole bool) {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return i, true
	}
	return len(b), false
}

// unsupported is why a request cannot be understood, 0 if it can.
func (q socksRequest) unsupported() byte {
	switch {
	case q.command != socksConnect:
		return socks5Command
	case q.host == "":
		return socks5AddressType
	}
	return 0
}

// replySocks says what came of a request.
func (c *client) replySocks(version, code byte) error {
	if version == socks4 {
		answer := byte(socks4OK)
		if code != socks5OK {
			answer = socks4Denied
		}
		_, err := c.Write([]byte{0, answer, 0, 0, 0, 0, 0, 0})
		return err
	}
	_, err := c.Write([]byte{socks5, code, 0, 1, 0, 0, 0, 0, 0, 0})
	return err
}

// socksCode is what an error is in SOCKS5.
func socksCode(err error) byte {
	var lookup *net.DNSError
	switch {
	case isRefusal(err):
		return socks5Denied
	case errors.As(err, &lookup), errors.Is(err, errNoAddress), errors.Is(err, syscall.EHOSTUNREACH):
		return socks5Host
	case errors.Is(err, syscall.ECONNREFUSED):
		return socks5Connection
	case errors.Is(err, syscall.ENETUNREACH):
		return socks5Network
	}
	return socks5Failed
}
