package netproxy

import (
	"encoding/binary"
	"errors"
	"slices"
)

// TLS numbers, RFC 8446.
const (
	recordChange    = 20
	recordAlert     = 21
	recordHandshake = 22
	recordHeader    = 5
	maxPlain        = 1 << 14 // bytes of an unencrypted record
	maxRecord       = maxPlain + 2048

	messageClientHello = 1
	messageServerHello = 2

	extensionName = 0
	extensionECH  = 0xfe0d
	alertDenied   = 49

	maxExtensions = 128 // browsers send about 20
)

// hello is what a ClientHello says about where it wants to go.
type hello struct {
	name   string // as it came
	hasECH bool   // it hides, or pretends to hide, another name
	length int    // bytes on the wire, record headers included
}

var (
	errNotHello = errors.New("it does not begin with a TLS ClientHello")
	errBadHello = errors.New("its TLS ClientHello is malformed")
	errBigHello = errors.New("its TLS ClientHello is too large")
)

// parseHello reads a ClientHello, which may be spread over several records. If b
// holds only its beginning, need is how many bytes there must be at least.
//
// It is stricter than a server has to be: what could be read in two ways (an
// extension twice, two names, bytes left over) is malformed, so that no server
// finds another name in it.
func parseHello(b []byte) (h hello, need int, err error) {
	var message []byte
	for at := 0; ; {
		if at+recordHeader > maxHello {
			return h, 0, errBigHello
		}
		if len(b) < at+recordHeader {
			if at == 0 && len(b) > 0 && b[0] != recordHandshake {
				return h, 0, errNotHello
			}
			return h, at + recordHeader, nil
		}
		size := int(binary.BigEndian.Uint16(b[at+3:]))
		if b[at] != recordHandshake || b[at+1] != 3 {
			return h, 0, errNotHello
		}
		if size == 0 || size > maxPlain {
			return h, 0, errBadHello
		}
		end := at + recordHeader + size
		if end > maxHello {
			return h, 0, errBigHello
		}
		part := b[at+recordHeader : min(end, len(b))]
		if at == 0 && len(part) > 0 && part[0] != messageClientHello {
			return h, 0, errNotHello
		}
		if len(b) < end {
			return h, end, nil
		}
		message = append(message, part...)
		at = end
		if len(message) < 4 {
			continue
		}
		length := int(message[1])<<16 | int(message[2])<<8 | int(message[3])
		switch {
		case length > maxHello:
			return h, 0, errBigHello
		case len(message) > 4+length:
			return h, 0, errBadHello
		case len(message) == 4+length:
			h, ok := parseHelloBody(message[4:])
			if !ok {
				return hello{}, 0, errBadHello
			}
			h.length = at
			return h, 0, nil
		}
	}
}

// cut takes n bytes off the front.
func cut(b *[]byte, n int) ([]byte, bool) {
	if n < 0 || len(*b) < n {
		return nil, false
	}
	front := (*b)[:n]
	*b = (*b)[n:]
	return front, true
}

// cutVector takes off a length of so many bytes, and what it is the length of.
func cutVector(b *[]byte, bytes int) ([]byte, bool) {
	size, ok := cut(b, bytes)
	if !ok {
		return nil, false
	}
	n := 0
	for _, c := range size {
		n = n<<8 | int(c)
	}
	return cut(b, n)
}

func parseHelloBody(b []byte) (h hello, ok bool) {
	version, ok := cut(&b, 2)
	if !ok || version[0] != 3 {
		return h, false
	}
	if _, ok := cut(&b, 32); !ok { // random
		return h, false
	}
	if session, ok := cutVector(&b, 1); !ok || len(session) > 32 {
		return h, false
	}
	if suites, ok := cutVector(&b, 2); !ok || len(suites) < 2 || len(suites)%2 != 0 {
		return h, false
	}
	if compression, ok := cutVector(&b, 1); !ok || len(compression) == 0 {
		return h, false
	}
	if len(b) == 0 {
		return h, true // no extensions, as in TLS 1.0
	}
	extensions, ok := cutVector(&b, 2)
	if !ok || len(b) != 0 {
		return h, false
	}
	var seen []uint16
	for len(extensions) > 0 {
		id, ok := cut(&extensions, 2)
		if !ok {
			return h, false
		}
		kind := binary.BigEndian.Uint16(id)
		data, ok := cutVector(&extensions, 2)
		if !ok || slices.Contains(seen, kind) || len(seen) == maxExtensions {
			return h, false
		}
		seen = append(seen, kind)
		switch {
		case kind == extensionName:
			if h.name, ok = parseServerName(data); !ok {
				return h, false
			}
		case hides(kind):
			h.hasECH = true
		}
	}
	return h, true
}

// hides reports whether an extension is Encrypted ClientHello (RFC 9849), one of
// its drafts that were in use, or ESNI before it.
func hides(kind uint16) bool { return kind == 0xffce || (kind >= 0xfe08 && kind <= extensionECH) }

// parseServerName reads the extension of RFC 6066 §3: one host name, no more.
func parseServerName(b []byte) (string, bool) {
	list, ok := cutVector(&b, 2)
	if !ok || len(b) != 0 {
		return "", false
	}
	kind, ok := cut(&list, 1)
	if !ok || kind[0] != 0 {
		return "", false
	}
	name, ok := cutVector(&list, 2)
	if !ok || len(list) != 0 || len(name) == 0 {
		return "", false
	}
	return string(name), true
}

// retryRandom is the random of a ServerHello that asks for another ClientHello,
// RFC 8446 §4.1.3.
var retryRandom = [32]byte{
	0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
	0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
}

// serverHelloStart is how much of a server's first record asksAgain looks at.
const serverHelloStart = recordHeader + 4 + 2 + 32

// asksAgain reports whether a server, whose first bytes these are, may take
// another ClientHello. In doubt it may.
func asksAgain(b []byte) bool {
	if len(b) > 0 && b[0] != recordHandshake {
		return false // an alert, or no TLS
	}
	if len(b) < serverHelloStart || b[recordHeader] != messageServerHello {
		return true
	}
	return [32]byte(b[serverHelloStart-32:serverHelloStart]) == retryRandom
}
