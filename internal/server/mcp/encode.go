package mcp

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/toolyard/toolyard/tool"
)

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string. Unlike encoding/json it leaves <, >
// and & alone, which would cost the model tokens. Invalid UTF-8 becomes U+FFFD.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			switch {
			case r == utf8.RuneError && size == 1:
				b = append(append(b, s[start:i]...), "\ufffd"...)
				i++
				start = i
			case r == '\u2028' || r == '\u2029': // line ends to JavaScript
				b = append(append(b, s[start:i]...), `\u202`...)
				b = append(b, hexDigits[r&0xf])
				i += size
				start = i
			default:
				i += size
			}
			continue
		}
		b = append(b, s[start:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
		}
		i++
		start = i
	}
	return append(append(b, s[start:]...), '"')
}

// appendStateless appends r as a CallToolResult of the stateless era, which
// names its type and the server.
func appendStateless(b []byte, r *tool.Result, serverInfo json.RawMessage) []byte {
	b = append(b, `{"resultType":"complete"`...)
	start := len(b)
	b = r.AppendJSON(b) // {…"_meta":{…}}
	b[start] = ','
	b = append(b[:len(b)-2], `,"io.modelcontextprotocol/serverInfo":`...)
	b = append(b, serverInfo...)
	return append(b, "}}"...)
}

// appendJSON appends v as encoding/json writes it; null if it cannot.
func appendJSON(b []byte, v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		return append(b, "null"...)
	}
	return append(b, data...)
}

// appendAnswer appends the response to a request. A nil id is null. With an
// error, result appends its data; nil is an error without any.
func appendAnswer(b []byte, id json.RawMessage, result func([]byte) []byte, err *wireError) []byte {
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	if id == nil {
		id = json.RawMessage("null")
	}
	b = append(b, id...)
	if err != nil {
		return append(appendError(append(b, `,"error":`...), err, result), '}')
	}
	return append(result(append(b, `,"result":`...)), '}')
}

// appendError appends a JSON-RPC error object. data appends its data, if it is
// not nil.
func appendError(b []byte, err *wireError, data func([]byte) []byte) []byte {
	b = strconv.AppendInt(append(b, `{"code":`...), int64(err.code), 10)
	b = appendString(append(b, `,"message":`...), err.message)
	if data != nil {
		b = data(append(b, `,"data":`...))
	}
	return append(b, '}')
}
