package netproxy

import (
	"context"

	"github.com/toolyard/toolyard/internal/netguard"
)

// For tests of the outside.
var (
	ParseHello = parseHello
	ParseQuery = parseQuery
	ParseSocks = parseSocks
	Guess      = guess
	AsksAgain  = asksAgain
)

const (
	KindHTTP = kindHTTP
	KindTLS  = kindTLS
)

func (h hello) Name() string { return h.name }
func (h hello) ECH() bool    { return h.hasECH }
func (h hello) Length() int  { return h.length }

func (q query) Name() string { return q.name }

func (q socksRequest) Address() (string, uint16) { return q.host, q.port }

// Granted decides as for a connection.
func Granted(p *Proxy, host string, port uint16) error {
	_, err := p.grant(host, port)
	return err
}

// DialFresh connects without the memory of an answer.
func DialFresh(p *Proxy, ctx context.Context, host string, port uint16) {
	p.resolved.mu.Lock()
	p.resolved.answers = nil
	p.resolved.mu.Unlock()
	t, err := p.grant(host, port)
	if err != nil {
		return
	}
	if c, err := p.dial(ctx, t); err == nil {
		c.Close()
	}
}

// Answer is the answer to one DNS message.
func Answer(p *Proxy, msg []byte, udp bool) []byte { return p.answer(context.Background(), msg, udp) }

// CleanName checks a name.
var CleanName = netguard.Name

// SplitAuthority splits a Host header.
var SplitAuthority = splitAuthority

// Pack answers a question with a name, in so many bytes.
func Pack(msg []byte, name string, limit int) []byte {
	q, _, _ := parseQuery(msg)
	return q.pack(reply{ptr: name}, limit)
}
