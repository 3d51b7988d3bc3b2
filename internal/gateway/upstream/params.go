package upstream

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/toolyard/toolyard/tool"
)

// The members of _meta that belong to the two parties of a connection.
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaClientInfo   = "io.modelcontextprotocol/clientInfo"
	metaServerInfo   = "io.modelcontextprotocol/serverInfo"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaLogLevel     = "io.modelcontextprotocol/logLevel"
	metaSubscription = "io.modelcontextprotocol/subscriptionId"
	metaProgress     = "progressToken"
)

func reserved(key string) bool {
	switch key {
	case metaVersion, metaClientInfo, metaCapabilities, metaLogLevel, metaSubscription, metaProgress:
		return true
	}
	return false
}

// appendRequest appends a request (id > 0) or a notification to dst. own is what
// we say in _meta: complete members, separated by commas.
func appendRequest(dst []byte, id int64, method string, params, meta json.RawMessage, own []byte) ([]byte, error) {
	dst = append(dst, `{"jsonrpc":"2.0"`...)
	if id > 0 {
		dst = append(dst, `,"id":`...)
		dst = strconv.AppendInt(dst, id, 10)
	}
	dst = append(dst, `,"method":`...)
	dst = appendText(dst, method)
	start := len(dst)
	dst, err := appendParams(append(dst, `,"params":`...), params, meta, own)
	if err != nil {
		return nil, err
	}
	if len(dst) == start+len(`,"params":`) {
		dst = dst[:start]
	}
	return append(dst, '}'), nil
}

// appendParams appends params with the _meta that this connection needs. Nothing
// else of params changes but the place of line ends between its values.
func appendParams(dst []byte, params, meta json.RawMessage, own []byte) ([]byte, error) {
	if len(bytes.TrimSpace(params)) == 0 || string(bytes.TrimSpace(params)) == "null" {
		if len(meta) == 0 && len(own) == 0 {
			return dst, nil
		}
		params = json.RawMessage("{}")
	}
	begin := space(params, 0)
	metaAt, metaEnd, members, twice := 0, 0, 0, false
	end := object(params, begin, 0, func(key []byte, at, end int) {
		members++
		if isMeta(key) {
			twice = twice || metaEnd > 0
			metaAt, metaEnd = at, end
		}
	})
	if end < 0 || space(params, end) != len(params) || twice {
		return nil, tool.Errorf(tool.ParameterError, "params of the request are not one JSON object").WithHint("Send an object.")
	}
	from := len(dst)
	switch {
	case metaEnd > 0:
		dst = append(dst, params[begin:metaAt]...)
		old := params[metaAt:metaEnd]
		if old[0] != '{' {
			old = nil
		}
		dst = appendMeta(dst, meta, old, own)
		dst = append(dst, params[metaEnd:end]...)
	case len(meta) == 0 && len(own) == 0:
		dst = append(dst, params[begin:end]...)
	default:
		dst = append(dst, bytes.TrimRight(params[begin:end-1], " \t\r\n")...)
		if members > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `"_meta":`...)
		dst = appendMeta(dst, meta, nil, own)
		dst = append(dst, '}')
	}
	oneLine(dst[from:])
	return dst, nil
}

// appendMeta appends the members of first, those of second that first has not,
// and own.
func appendMeta(dst []byte, first, second json.RawMessage, own []byte) []byte {
	dst = append(dst, '{')
	start := len(dst)
	for i, from := range []json.RawMessage{first, second} {
		at := space(from, 0)
		object(from, at, 0, func(key []byte, at, end int) {
			name := Unquote(key)
			if reserved(name) || i == 1 && member(first, name) != nil {
				return
			}
			if len(dst) > start {
				dst = append(dst, ',')
			}
			dst = append(dst, key...)
			dst = append(dst, ':')
			dst = append(dst, from[at:end]...)
		})
	}
	if len(own) > 0 {
		if len(dst) > start {
			dst = append(dst, ',')
		}
		dst = append(dst, own...)
	}
	return append(dst, '}')
}

// oneLine makes line ends, which stand only between values, blanks: on stdio a
// line is a message.
func oneLine(data []byte) {
	for i, c := range data {
		if c == '\n' || c == '\r' {
			data[i] = ' '
		}
	}
}

// ownMeta is what a request says of us in _meta: a progress token, and in the
// stateless era who we are.
func (c *Client) ownMeta(dst []byte, id int64, r *Request, modern string) []byte {
	add := func(key string, value []byte) {
		if len(dst) > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '"')
		dst = append(dst, key...)
		dst = append(dst, '"', ':')
		dst = append(dst, value...)
	}
	if r.Progress != nil {
		add(metaProgress, strconv.AppendInt(nil, id, 10))
	}
	if modern == "" {
		return dst
	}
	add(metaVersion, appendText(nil, modern))
	add(metaClientInfo, orObject(r.ClientInfo, c.conf.Info))
	add(metaCapabilities, orObject(r.Capabilities, c.conf.Capabilities))
	if r.LogLevel != "" {
		add(metaLogLevel, appendText(nil, r.LogLevel))
	}
	return dst
}

// orObject is a if it is a JSON object, else b.
func orObject(a, b json.RawMessage) json.RawMessage {
	if end := object(a, space(a, 0), 0, nil); end > 0 && space(a, end) == len(a) {
		return a
	}
	return b
}

// isMeta reports whether a raw key is _meta, however it is written.
func isMeta(key []byte) bool {
	return string(key) == `"_meta"` || len(key) > len(`"_meta"`) && Unquote(key) == "_meta"
}

// appendText appends s as a JSON string.
func appendText(dst []byte, s string) []byte {
	plain := utf8.ValidString(s)
	for i := 0; plain && i < len(s); i++ {
		plain = s[i] >= 0x20 && s[i] != '"' && s[i] != '\\'
	}
	if plain {
		dst = append(dst, '"')
		dst = append(dst, s...)
		return append(dst, '"')
	}
	b, _ := json.Marshal(s) // a string always marshals
	return append(dst, b...)
}

// answer is our answer to a request of the server.
func answer(id, result json.RawMessage, e *Error) []byte {
	dst := make([]byte, 0, 64+len(id)+len(result))
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	if e == nil {
		dst = append(dst, `,"result":`...)
		if value(result, space(result, 0), 0) < 0 {
			result = json.RawMessage("{}")
		}
		at := len(dst)
		dst = append(dst, result...)
		oneLine(dst[at:])
		return append(dst, '}')
	}
	dst = append(dst, `,"error":{"code":`...)
	dst = strconv.AppendInt(dst, e.Code, 10)
	dst = append(dst, `,"message":`...)
	dst = appendText(dst, e.Message)
	if len(e.Data) > 0 {
		dst = append(dst, `,"data":`...)
		at := len(dst)
		dst = append(dst, e.Data...)
		oneLine(dst[at:])
	}
	return append(dst, '}', '}')
}

// withoutSubscription takes the id of our listening request out of params: it
// means nothing to anybody else.
func withoutSubscription(params json.RawMessage) json.RawMessage {
	meta := member(params, "_meta")
	if meta == nil || member(meta, metaSubscription) == nil {
		return params
	}
	out := make([]byte, 0, len(params))
	out = append(out, '{')
	object(params, space(params, 0), 0, func(key []byte, at, end int) {
		piece := params[at:end]
		if isMeta(key) {
			kept := append([]byte(nil), '{')
			object(piece, 0, 0, func(key []byte, at, end int) {
				if Unquote(key) == metaSubscription {
					return
				}
				if len(kept) > 1 {
					kept = append(kept, ',')
				}
				kept = append(append(append(kept, key...), ':'), piece[at:end]...)
			})
			if len(kept) == 1 {
				return
			}
			piece = append(kept, '}')
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, key...), ':'), piece...)
	})
	return append(out, '}')
}
