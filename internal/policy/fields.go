package policy

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"unicode/utf8"
)

// field is one argument.
type field struct {
	name string
	raw  json.RawMessage
}

// fields are the arguments of a call. Of two with one name the last counts, as
// for encoding/json.
type fields []field

func (f fields) get(name string) (json.RawMessage, bool) {
	for _, each := range slices.Backward(f) {
		if each.name == name {
			return each.raw, true
		}
	}
	return nil, false
}

// decodeFields cuts an object into its arguments. It only looks for where each
// ends, since the arguments have been validated and may be megabytes long; what
// is written in an unusual way is left to encoding/json. What is no object has no
// arguments.
func decodeFields(raw json.RawMessage) fields {
	if f, ok := cutFields(raw); ok {
		return f
	}
	var decoded map[string]json.RawMessage
	if json.Unmarshal(raw, &decoded) != nil {
		return fields{}
	}
	f := make(fields, 0, len(decoded))
	for _, name := range slices.Sorted(maps.Keys(decoded)) {
		f = append(f, field{name, decoded[name]})
	}
	return f
}

func cutFields(raw []byte) (fields, bool) {
	raw = bytes.TrimSpace(raw)
	if len(raw) < 2 || raw[0] != '{' || raw[len(raw)-1] != '}' {
		return nil, false
	}
	f := make(fields, 0, 8)
	rest := bytes.TrimLeft(raw[1:len(raw)-1], " \t\r\n")
	for len(rest) > 0 {
		if rest[0] != '"' {
			return nil, false
		}
		end := stringEnd(rest)
		if end < 0 || bytes.IndexByte(rest[:end], '\\') >= 0 || !utf8.Valid(rest[:end]) {
			return nil, false
		}
		name := string(rest[1 : end-1])
		rest = bytes.TrimLeft(rest[end:], " \t\r\n")
		if len(rest) == 0 || rest[0] != ':' {
			return nil, false
		}
		rest = bytes.TrimLeft(rest[1:], " \t\r\n")
		if end = valueEnd(rest); end <= 0 {
			return nil, false
		}
		f = append(f, field{name, bytes.TrimRight(rest[:end], " \t\r\n")})
		if rest = rest[end:]; len(rest) == 0 {
			break
		}
		if rest[0] != ',' {
			return nil, false
		}
		if rest = bytes.TrimLeft(rest[1:], " \t\r\n"); len(rest) == 0 {
			return nil, false
		}
	}
	return f, true
}

// stringEnd is where the string that s begins with ends, -1 if nowhere.
func stringEnd(s []byte) int {
	for i := 1; i < len(s); {
		quote := bytes.IndexByte(s[i:], '"')
		if quote < 0 {
			return -1
		}
		i += quote
		slashes := 0
		for s[i-1-slashes] == '\\' {
			slashes++
		}
		i++
		if slashes%2 == 0 {
			return i
		}
	}
	return -1
}

// valueEnd is where the value that s begins with is followed by a comma or
// nothing, -1 if brackets do not match.
func valueEnd(s []byte) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			end := stringEnd(s[i:])
			if end < 0 {
				return -1
			}
			i += end - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return -1
			}
		case ',':
			if depth == 0 {
				return i
			}
		}
	}
	if depth != 0 {
		return -1
	}
	return len(s)
}
