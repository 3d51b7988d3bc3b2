package netproxy

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"

	"github.com/toolyard/toolyard/internal/netguard"
)

// DNS numbers, https://www.iana.org/assignments/dns-parameters.
const (
	typeA     = 1
	typePTR   = 12
	typeAAAA  = 28
	typeOPT   = 41
	classIN   = 1
	classANY  = 255
	optionEDE = 15 // RFC 8914
	edeBlock  = 15 // "Blocked"

	rcodeOK       = 0
	rcodeFormat   = 1
	rcodeServer   = 2
	rcodeName     = 3
	rcodeNotImpl  = 4
	rcodeRefused  = 5
	rcodeBadVers  = 16
	headerLen     = 12
	maxUDPAnswer  = 1232 // what we say that we take, and send at most
	plainUDP      = 512  // what a client takes that says nothing
	maxWireName   = 255
	answerSeconds = 30 // a fake address is cheap to ask for again
)

var errMessage = errors.New("malformed DNS message")

// query is one question.
type query struct {
	id       uint16
	recurse  bool
	opcode   byte
	question []byte // as it came: name, type, class; case is repeated (0x20)
	name     string // labels with dots, as they came; invalid bytes as '?'
	kind     uint16
	class    uint16
	edns     bool
	version  byte
	size     int // of the largest answer by UDP
}

// parseQuery reads a query. If the header can be read but the rest cannot, it
// gives what an answer of "malformed" needs together with the error.
func parseQuery(msg []byte) (q query, answerable bool, err error) {
	if len(msg) < headerLen || msg[2]&0x80 != 0 { // too short, or an answer: nothing is said to those
		return q, false, errMessage
	}
	q.id = binary.BigEndian.Uint16(msg)
	q.opcode = msg[2] >> 3 & 15
	q.recurse = msg[2]&1 != 0
	q.size = plainUDP
	count := func(i int) int { return int(binary.BigEndian.Uint16(msg[4+2*i:])) }
	if q.opcode != 0 {
		return q, true, nil
	}
	if count(0) != 1 || count(1) != 0 || count(2) != 0 {
		return q, true, errMessage
	}
	name, rest, ok := parseLabels(msg[headerLen:])
	if !ok || len(rest) < 4 {
		return q, true, errMessage
	}
	q.name = name
	q.kind, q.class = binary.BigEndian.Uint16(rest), binary.BigEndian.Uint16(rest[2:])
	q.question = msg[headerLen : len(msg)-len(rest)+4]
	rest = rest[4:]
	for range count(3) {
		if rest, ok = q.additional(rest); !ok {
			return q, true, errMessage
		}
	}
	return q, true, nil
}

// additional reads one record after the question; only EDNS means something.
func (q *query) additional(msg []byte) (rest []byte, ok bool) {
	name, rest, ok := parseLabels(msg)
	if !ok || len(rest) < 10 {
		return nil, false
	}
	length := int(binary.BigEndian.Uint16(rest[8:]))
	if len(rest) < 10+length {
		return nil, false
	}
	if binary.BigEndian.Uint16(rest) == typeOPT {
		if name != "" || q.edns {
			return nil, false
		}
		q.edns = true
		q.size = min(max(int(binary.BigEndian.Uint16(rest[2:])), plainUDP), maxUDPAnswer)
		q.version = rest[5]
	}
	return rest[10+length:], true
}

// parseLabels reads a name without compression, which has nothing to point at in
// a query. A byte that cannot be part of a host name becomes '?', a dot inside
// of a label too, so that two different names never look the same.
func parseLabels(msg []byte) (name string, rest []byte, ok bool) {
	var b strings.Builder
	for i := 0; ; {
		if i >= len(msg) || i >= maxWireName {
			return "", nil, false
		}
		n := int(msg[i])
		i++
		if n == 0 {
			return b.String(), msg[i:], true
		}
		if n > netguard.MaxLabel || i+n >= len(msg) {
			return "", nil, false
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		for _, c := range msg[i : i+n] {
			if c <= ' ' || c >= 0x7f || c == '.' {
				c = '?'
			}
			b.WriteByte(c)
		}
		i += n
	}
}

// reply is an answer to a query.
type reply struct {
	rcode int
	addr  netip.Addr // an A or AAAA record
	ptr   string     // a PTR record
	why   string     // an extended error, for clients that speak EDNS
}

// pack writes the answer in at most limit bytes; what does not fit is left out
// and the client told to come by TCP.
func (q query) pack(r reply, limit int) []byte {
	var answer []byte
	record := func(kind uint16, data []byte) {
		answer = append(answer, 0xc0, headerLen) // the name of the question
		answer = binary.BigEndian.AppendUint16(answer, kind)
		answer = binary.BigEndian.AppendUint16(answer, classIN)
		answer = binary.BigEndian.AppendUint32(answer, answerSeconds)
		answer = binary.BigEndian.AppendUint16(answer, uint16(len(data)))
		answer = append(answer, data...)
	}
	switch {
	case r.addr.Is4():
		record(typeA, r.addr.AsSlice())
	case r.addr.Is6():
		record(typeAAAA, r.addr.AsSlice())
	case r.ptr != "":
		record(typePTR, packName(r.ptr))
	}
	answers := len(answer) / max(len(answer), 1)
	msg := make([]byte, headerLen, headerLen+len(q.question)+len(answer)+64)
	msg = append(msg, q.question...)
	opt := q.packOPT(r, limit-len(msg)-len(answer))
	truncated := len(msg)+len(answer)+len(opt) > limit
	if truncated {
		answer, answers = nil, 0
		opt = q.packOPT(reply{rcode: r.rcode}, limit)
	}
	msg = append(append(msg, answer...), opt...)
	binary.BigEndian.PutUint16(msg, q.id)
	msg[2] = 0x80 | q.opcode<<3 // an answer
	if truncated {
		msg[2] |= 2
	}
	if q.recurse {
		msg[2] |= 1
	}
	msg[3] = 0x80 | byte(r.rcode&15) // recursion is available
	if q.question != nil {
		msg[5] = 1
	}
	msg[7] = byte(answers)
	if opt != nil {
		msg[11] = 1
	}
	return msg
}

// packOPT writes the EDNS record, with the reason if there is room for it.
func (q query) packOPT(r reply, room int) []byte {
	if !q.edns {
		return nil
	}
	opt := []byte{0, 0, typeOPT}
	opt = binary.BigEndian.AppendUint16(opt, maxUDPAnswer)
	opt = append(opt, byte(r.rcode>>4), 0, 0, 0)
	var options []byte
	if r.why != "" && room >= len(opt)+2+6+len(r.why) {
		options = binary.BigEndian.AppendUint16(options, optionEDE)
		options = binary.BigEndian.AppendUint16(options, uint16(2+len(r.why)))
		options = binary.BigEndian.AppendUint16(options, edeBlock)
		options = append(options, r.why...)
	}
	opt = binary.BigEndian.AppendUint16(opt, uint16(len(options)))
	return append(opt, options...)
}

// packName writes a clean name.
func packName(name string) []byte {
	var b []byte
	for label := range strings.SplitSeq(name, ".") {
		b = append(b, byte(len(label)))
		b = append(b, label...)
	}
	return append(b, 0)
}

// reverseAddr reads the address out of the name of a PTR question.
func reverseAddr(name string) (netip.Addr, bool) {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if digits, ok := strings.CutSuffix(name, ".in-addr.arpa"); ok {
		parts := strings.Split(digits, ".")
		if len(parts) != 4 {
			return netip.Addr{}, false
		}
		addr, err := netip.ParseAddr(parts[3] + "." + parts[2] + "." + parts[1] + "." + parts[0])
		return addr, err == nil
	}
	nibbles, ok := strings.CutSuffix(name, ".ip6.arpa")
	if !ok || len(nibbles) != 63 {
		return netip.Addr{}, false
	}
	var b [16]byte
	for i := range 32 {
		if i > 0 && nibbles[2*i-1] != '.' {
			return netip.Addr{}, false
		}
		v := strings.IndexByte("0123456789abcdef", nibbles[2*i])
		if v < 0 {
			return netip.Addr{}, false
		}
		b[15-i/2] |= byte(v) << (4 * (i % 2))
	}
	return netip.AddrFrom16(b), true
}
