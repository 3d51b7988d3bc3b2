package upstream

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds how deep a message may be nested, as encoding/json does.
const maxDepth = 10_000

var (
	errJSON      = errors.New("the message is not JSON")
	errNotObject = errors.New("the message is not an object")
	errTwice     = errors.New("a member of the message stands twice")
	errVersion   = errors.New(`jsonrpc is not "2.0"`)
	errShape     = errors.New("the message is neither a request nor an answer")
	errID        = errors.New("the id is neither a string nor a number")
)

// message is the top level of a JSON-RPC message. The raw values point into the
// bytes that were parsed; nil means that the member is absent.
type message struct {
	id, params, result, err json.RawMessage
	method                  string
	version                 bool // jsonrpc is "2.0"
}

// parse reads one message: it checks that data is JSON and finds the members of
// the envelope in one pass.
func parse(data []byte) (message, error) {
	var m message
	fault := error(nil)
	end := object(data, space(data, 0), 0, func(key []byte, start, end int) {
		value := json.RawMessage(data[start:end:end])
		var to *json.RawMessage
		switch string(key) {
		case `"jsonrpc"`:
			m.version = string(value) == `"2.0"`
			return
		case `"id"`:
			to = &m.id
		case `"method"`:
			if m.method != "" {
				fault = errTwice
			}
			m.method = Unquote(value)
			if m.method == "" {
				fault = errShape
			}
			return
		case `"params"`:
			to = &m.params
		case `"result"`:
			to = &m.result
		case `"error"`:
			to = &m.err
		default:
			return
		}
		if *to != nil {
			fault = errTwice
		}
		*to = value
	})
	switch {
	case end == notObject:
		return m, errNotObject
	case end < 0 || space(data, end) != len(data):
		return m, errJSON
	case fault != nil:
		return m, fault
	case !m.version:
		return m, errVersion
	case m.method == "" && m.result == nil && m.err == nil:
		return m, errShape
	}
	if m.err != nil && string(m.err) == "null" {
		m.err = nil // some servers send both
	}
	if m.id != nil && m.method != "" && !validID(m.id) {
		return m, errID
	}
	return m, nil
}

// validID accepts what MCP allows and what it should have allowed: any string or
// number that is not absurdly long.
func validID(id json.RawMessage) bool {
	return len(id) <= 1024 && (id[0] == '"' || id[0] == '-' || id[0] >= '0' && id[0] <= '9')
}

// number is the id of one of our calls; false if it can be none.
func number(id json.RawMessage) (int64, bool) {
	if len(id) == 0 || len(id) > 20 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(id), 10, 64)
	return n, err == nil && n > 0
}

// clean gives data with what is not UTF-8 replaced, so that no broken text goes
// on to a client.
func clean(data []byte) []byte {
	if utf8.Valid(data) {
		return data
	}
	return bytes.ToValidUTF8(data, []byte("\uFFFD"))
}

// Members calls visit for each member of the object raw, in their order; an
// error may come after some. The values point into raw.
func Members(raw json.RawMessage, visit func(key string, value json.RawMessage)) error {
	end := object(raw, space(raw, 0), 0, func(key []byte, start, end int) { visit(Unquote(key), raw[start:end:end]) })
	return whole(raw, end)
}

// Elements gives the elements of the array raw. They point into raw.
func Elements(raw json.RawMessage) ([]json.RawMessage, error) {
	var all []json.RawMessage
	end := array(raw, space(raw, 0), 0, func(start, end int) { all = append(all, raw[start:end:end]) })
	if err := whole(raw, end); err != nil {
		return nil, err
	}
	return all, nil
}

// whole is the error of a value that does not end with data.
func whole(data []byte, end int) error {
	if end == notObject {
		return errNotObject
	}
	if end < 0 || space(data, end) != len(data) {
		return errJSON
	}
	return nil
}

// notObject is what object returns where none begins.
const notObject = -2

// object checks the object that begins at i and calls visit for each member,
// with its raw key and the place of its value. It gives the index after the
// object; negative if there is none.
func object(data []byte, i, depth int, visit func(key []byte, start, end int)) int {
	if i >= len(data) || data[i] != '{' {
		return notObject
	}
	if depth > maxDepth {
		return -1
	}
	i = space(data, i+1)
	if i < len(data) && data[i] == '}' {
		return i + 1
	}
	for {
		end := text(data, i)
		if end < 0 {
			return -1
		}
		key := data[i:end]
		if i = space(data, end); i >= len(data) || data[i] != ':' {
			return -1
		}
		i = space(data, i+1)
		if end = value(data, i, depth+1); end < 0 {
			return -1
		}
		if visit != nil {
			visit(key, i, end)
		}
		if i = space(data, end); i >= len(data) {
			return -1
		}
		switch data[i] {
		case '}':
			return i + 1
		case ',':
			i = space(data, i+1)
		default:
			return -1
		}
	}
}

// array is object for an array.
func array(data []byte, i, depth int, visit func(start, end int)) int {
	if i >= len(data) || data[i] != '[' || depth > maxDepth {
		return -1
	}
	i = space(data, i+1)
	if i < len(data) && data[i] == ']' {
		return i + 1
	}
	for {
		end := value(data, i, depth+1)
		if end < 0 {
			return -1
		}
		if visit != nil {
			visit(i, end)
		}
		if i = space(data, end); i >= len(data) {
			return -1
		}
		switch data[i] {
		case ']':
			return i + 1
		case ',':
			i = space(data, i+1)
		default:
			return -1
		}
	}
}

// value gives the index after the value that begins at i; negative if it is not
// JSON.
func value(data []byte, i, depth int) int {
	if i >= len(data) {
		return -1
	}
	switch c := data[i]; c {
	case '{':
		return object(data, i, depth, nil)
	case '[':
		return array(data, i, depth, nil)
	case '"':
		return text(data, i)
	case 't':
		return literal(data, i, "true")
	case 'f':
		return literal(data, i, "false")
	case 'n':
		return literal(data, i, "null")
	default:
		return figure(data, i)
	}
}

func literal(data []byte, i int, word string) int {
	if end := i + len(word); end <= len(data) && string(data[i:end]) == word {
		return end
	}
	return -1
}

// text gives the index after the string that begins at i.
func text(data []byte, i int) int {
	if i >= len(data) || data[i] != '"' {
		return -1
	}
	for i++; i < len(data); i++ {
		for len(data)-i >= 8 && ordinary(binary.LittleEndian.Uint64(data[i:])) {
			i += 8
		}
		if i >= len(data) {
			return -1
		}
		switch c := data[i]; {
		case c == '"':
			return i + 1
		case c < 0x20:
			return -1
		case c == '\\':
			if i++; i >= len(data) {
				return -1
			}
			switch data[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				for range 4 {
					if i++; i >= len(data) || !hex(data[i]) {
						return -1
					}
				}
			default:
				return -1
			}
		}
	}
	return -1
}

// ordinary reports whether none of eight bytes of a string is a quote, a backslash
// or a control character.
func ordinary(word uint64) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	none := func(c uint64) uint64 { // has a high bit where word has the byte c
		v := word ^ ones*c
		return (v - ones) & ^v
	}
	return (none('"')|none('\\')|(word-ones*0x20)&^word)&highs == 0
}

func hex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// figure gives the index after the number that begins at i.
func figure(data []byte, i int) int {
	if i < len(data) && data[i] == '-' {
		i++
	}
	switch {
	case i >= len(data):
		return -1
	case data[i] == '0':
		i++
	default:
		if i = digits(data, i); i < 0 {
			return -1
		}
	}
	if i < len(data) && data[i] == '.' {
		if i = digits(data, i+1); i < 0 {
			return -1
		}
	}
	if i < len(data) && (data[i] == 'e' || data[i] == 'E') {
		i++
		if i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		i = digits(data, i)
	}
	return i
}

// digits gives the index after at least one digit at i.
func digits(data []byte, i int) int {
	start := i
	for i < len(data) && data[i] >= '0' && data[i] <= '9' {
		i++
	}
	if i == start {
		return -1
	}
	return i
}

func space(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\t' || data[i] == '\n' || data[i] == '\r') {
		i++
	}
	return i
}

// member is the raw value of a member of the object in data; nil if there is
// none.
func member(data json.RawMessage, name string) (found json.RawMessage) {
	object(data, space(data, 0), 0, func(key []byte, start, end int) {
		if found == nil && Unquote(key) == name {
			found = data[start:end:end]
		}
	})
	return found
}

// Unquote decodes a JSON string; "" if raw is none.
func Unquote(raw []byte) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	inner := raw[1 : len(raw)-1]
	if utf8.Valid(inner) {
		if bytes.IndexByte(inner, '\\') < 0 {
			return string(inner)
		}
		if s, ok := unescape(inner); ok {
			return s
		}
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// unescape decodes the inside of a JSON string. It leaves surrogates, and what is
// no string, to encoding/json.
func unescape(inner []byte) (string, bool) {
	var b strings.Builder
	b.Grow(len(inner))
	for {
		i := bytes.IndexByte(inner, '\\')
		if i < 0 {
			b.Write(inner)
			return b.String(), true
		}
		b.Write(inner[:i])
		if inner = inner[i+1:]; len(inner) == 0 {
			return "", false
		}
		switch c := inner[0]; c {
		case '"', '\\', '/':
			b.WriteByte(c)
		case 'b':
			b.WriteByte('\b')
		case 'f':
			b.WriteByte('\f')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 't':
			b.WriteByte('\t')
		case 'u':
			if len(inner) < 5 {
				return "", false
			}
			r, err := strconv.ParseUint(string(inner[1:5]), 16, 16)
			if err != nil || utf16.IsSurrogate(rune(r)) {
				return "", false
			}
			b.WriteRune(rune(r))
			inner = inner[4:]
		default:
			return "", false
		}
		inner = inner[1:]
	}
}

// wireError reads an error object. What is not one becomes one that says so.
func wireError(raw json.RawMessage) *Error {
	e := &Error{Code: CodeInternal}
	end := object(raw, 0, 0, func(key []byte, start, end int) {
		v := raw[start:end:end]
		switch string(key) {
		case `"code"`:
			if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
				e.Code = n
			}
		case `"message"`:
			e.Message = Unquote(v)
		case `"data"`:
			e.Data = v
		}
	})
	if end < 0 {
		e.Message = Unquote(raw)
		e.Data = raw
	}
	if e.Message == "" {
		e.Message = "the server gave no message"
	}
	return e
}

// tailID finds the id at the end of a message that was too long to be kept:
// some servers write it last.
func tailID(tail []byte) (int64, bool) {
	tail = bytes.TrimRight(tail, " \t\r\n")
	if len(tail) == 0 || tail[len(tail)-1] != '}' {
		return 0, false
	}
	tail = bytes.TrimRight(tail[:len(tail)-1], " \t\r\n")
	i := len(tail)
	for i > 0 && tail[i-1] >= '0' && tail[i-1] <= '9' {
		i--
	}
	id := tail[i:]
	rest := bytes.TrimRight(tail[:i], " \t\r\n")
	rest, ok := bytes.CutSuffix(rest, []byte(":"))
	if !ok || !bytes.HasSuffix(bytes.TrimRight(rest, " \t\r\n"), []byte(`"id"`)) {
		return 0, false
	}
	return number(id)
}

// headID finds the id and the method at the beginning of a message that was too
// long to be kept.
func headID(head []byte) (id int64, method bool) {
	object(head, space(head, 0), 0, func(key []byte, start, end int) {
		switch string(key) {
		case `"id"`:
			if end < len(head) { // else it may be cut
				id, _ = number(head[start:end])
			}
		case `"method"`:
			method = true
		}
	})
	return id, method
}
