package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"unicode/utf8"
)

// JSON-RPC error codes that this package answers itself.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeInvalidParams  = -32602
	codeInternal       = -32603
	codeBusy           = -32000 // implementation-defined: too many calls in flight
)

// wireError is a JSON-RPC error object.
type wireError struct {
	code    int
	message string
}

func (e *wireError) Error() string { return e.message }

// frame is the top level of one JSON-RPC message. The raw values point into
// the bytes that were parsed; nil means that the member is absent.
type frame struct {
	id     json.RawMessage // a string or an integer
	method string
	params json.RawMessage // an object
	result json.RawMessage
	err    json.RawMessage
	call   bool // has a method
}

// notJSON says what is wrong with a message, and where.
func notJSON(data []byte) string {
	const what = "the message is not JSON"
	var value json.RawMessage
	syntax, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(data, &value))
	switch {
	case !ok:
		return what
	case syntax.Offset >= int64(len(bytes.TrimSpace(data))) && value0(data) == '{':
		return what + ": it was cut off at byte " + strconv.FormatInt(syntax.Offset, 10)
	}
	return what + ": " + syntax.Error() + " at byte " + strconv.FormatInt(syntax.Offset, 10)
}

// request reports whether f wants an answer.
func (f *frame) request() bool { return f.call && f.id != nil }

// parseFrame reads one message. On an error the frame still holds the id where
// one could be read, so that the answer can name it.
func parseFrame(data []byte) (f frame, err *wireError) {
	if !json.Valid(data) {
		return f, &wireError{codeParse, notJSON(data)}
	}
	version := ""
	fault := ""
	walkErr := eachMember(data, func(key string, value []byte) error {
		switch key {
		case "jsonrpc":
			version = unquote(value)
		case "id":
			if !validID(value) {
				fault = "id is neither a string nor an integer"
				return nil
			}
			f.id = value
		case "method":
			if value[0] != '"' {
				fault = "method is not a string"
				return nil
			}
			f.method, f.call = unquote(value), true
		case "params":
			f.params = value
		case "result":
			f.result = value
		case "error":
			f.err = value
		}
		return nil
	})
	switch {
	case errors.Is(walkErr, errNotObject) && value0(data) == '[':
		return f, &wireError{codeInvalidRequest, "batches of messages are not supported"}
	case errors.Is(walkErr, errNotObject):
		return f, &wireError{codeInvalidRequest, "the message is not an object"}
	case walkErr != nil:
		return f, &wireError{codeInvalidRequest, walkErr.Error()}
	case fault != "":
		return f, &wireError{codeInvalidRequest, fault}
	case version != "2.0":
		return f, &wireError{codeInvalidRequest, `jsonrpc is not "2.0"`}
	case !f.call && f.id == nil:
		return f, &wireError{codeInvalidRequest, "the message has neither a method nor an id"}
	case !f.call && f.result == nil && f.err == nil:
		return f, &wireError{codeInvalidRequest, "the message has neither a method nor a result"}
	case f.call && f.params != nil && f.params[0] != '{' && string(f.params) != "null":
		return f, &wireError{codeInvalidParams, "params is not an object"}
	}
	if string(f.params) == "null" {
		f.params = nil
	}
	return f, nil
}

// validID accepts a string or an integer, as MCP demands.
func validID(raw []byte) bool {
	if raw[0] == '"' {
		return true
	}
	_, err := strconv.ParseInt(string(raw), 10, 64)
	return err == nil
}

// looseID finds the id in the first bytes of a message that was too long to be
// kept; nil if it does not stand there.
func looseID(head []byte) json.RawMessage {
	var id json.RawMessage
	_ = eachMember(head, func(key string, value []byte) error {
		if key == "id" && json.Valid(value) && validID(value) {
			id = bytes.Clone(value)
		}
		return nil
	})
	return id
}

var (
	errNotObject = errors.New("not an object")
	errCut       = errors.New("the message is cut off")
	errTwice     = errors.New("a member stands twice")
)

// maxMembers bounds how many members of an object are checked for doubles.
const maxMembers = 64

// eachMember calls visit for each member of the object in data, in order, with
// its key and raw value. data must be valid JSON, or the beginning of it: then
// what is complete is visited and errCut returned. A key that stands twice is
// an error: two readers of the message could see different things.
func eachMember(data []byte, visit func(key string, value []byte) error) error {
	i := space(data, 0)
	if i >= len(data) || data[i] != '{' {
		return errNotObject
	}
	var seen [maxMembers]string
	n := 0
	i = space(data, i+1)
	if i < len(data) && data[i] == '}' {
		return nil
	}
	for {
		i = space(data, i)
		end := skipString(data, i)
		if end < 0 {
			return errCut
		}
		key := unquote(data[i:end])
		for _, s := range seen[:min(n, maxMembers)] {
			if s == key {
				return errTwice
			}
		}
		if n < maxMembers {
			seen[n] = key
		}
		n++
		i = space(data, end)
		if i >= len(data) || data[i] != ':' {
			return errCut
		}
		i = space(data, i+1)
		end = skipValue(data, i)
		if end < 0 {
			return errCut
		}
		if err := visit(key, data[i:end:end]); err != nil {
			return err
		}
		i = space(data, end)
		if i >= len(data) {
			return errCut
		}
		if data[i] == '}' {
			return nil
		}
		if data[i] != ',' {
			return errCut
		}
		i++
	}
}

// eachElement calls visit for each element of the array in data, which must be
// valid JSON.
func eachElement(data []byte, visit func(value []byte)) {
	i := space(data, space(data, 0)+1)
	for i < len(data) && data[i] != ']' {
		end := skipValue(data, i)
		if end < 0 {
			return
		}
		visit(data[i:end:end])
		if i = space(data, end); i < len(data) && data[i] == ',' {
			i = space(data, i+1)
		}
	}
}

func space(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\t' || data[i] == '\n' || data[i] == '\r') {
		i++
	}
	return i
}

// value0 is the first byte of the JSON value in data.
func value0(data []byte) byte {
	if i := space(data, 0); i < len(data) {
		return data[i]
	}
	return 0
}

// skipString gives the index after the string that begins at i; -1 if none
// ends there.
func skipString(data []byte, i int) int {
	if i >= len(data) || data[i] != '"' {
		return -1
	}
	for i++; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

// skipValue gives the index after the value that begins at i; -1 if it is cut.
func skipValue(data []byte, i int) int {
	if i >= len(data) {
		return -1
	}
	switch data[i] {
	case '"':
		return skipString(data, i)
	case '{', '[':
		depth := 0
		for i < len(data) {
			switch data[i] {
			case '"':
				if i = skipString(data, i); i < 0 {
					return -1
				}
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
			i++
			if depth == 0 {
				return i
			}
		}
		return -1
	}
	for i < len(data) {
		switch data[i] {
		case ',', '}', ']', ' ', '\t', '\n', '\r':
			return i
		}
		i++
	}
	return i
}

// unquote decodes a JSON string; "" if raw is none.
func unquote(raw []byte) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	inner := raw[1 : len(raw)-1]
	if s := common(inner); s != "" {
		return s
	}
	if bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner)
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// common is b as a string that needs no memory, if it is a word that nearly every
// call has; else "".
func common(b []byte) string {
	switch string(b) {
	case "jsonrpc":
		return "jsonrpc"
	case "2.0":
		return "2.0"
	case "id":
		return "id"
	case "method":
		return "method"
	case "tools/call":
		return "tools/call"
	case "params":
		return "params"
	case "name":
		return "name"
	case "version":
		return "version"
	case "arguments":
		return "arguments"
	case "_meta":
		return "_meta"
	case "progressToken":
		return "progressToken"
	case metaVersion:
		return metaVersion
	case versionStateless:
		return versionStateless
	case metaClient:
		return metaClient
	case metaCapabilities:
		return metaCapabilities
	}
	return ""
}
