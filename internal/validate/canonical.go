package validate

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// Canonical writes JSON in one form for all ways to write the same value: names
// sorted, no blanks, numbers without needless digits, strings with the fewest
// escapes. It is what cache keys and the doom loop compare. Empty input is {}.
func Canonical(raw json.RawMessage) ([]byte, error) {
	text := string(raw)
	if blank(text) {
		return []byte("{}"), nil
	}
	d := doc{nodes: make([]node, 0, 16)}
	if err := d.parse(text); err != nil {
		return nil, argumentsError(err)
	}
	return d.canonical(make([]byte, 0, len(text)), 0), nil
}

func (d *doc) canonical(b []byte, at int32) []byte {
	n := &d.nodes[at]
	switch n.kind {
	case kindNumber:
		return appendNumber(b, n.text)
	case kindString:
		return appendString(b, n.str())
	case kindArray:
		b = append(b, '[')
		for i, c := int32(0), n.first; i < n.count; i, c = i+1, d.nodes[c].next {
			if i > 0 {
				b = append(b, ',')
			}
			b = d.canonical(b, c)
		}
		return append(b, ']')
	case kindObject:
		members := make([]int32, 0, n.count)
		for i, c := int32(0), n.first; i < n.count; i, c = i+1, d.nodes[c].next {
			members = append(members, c)
		}
		slices.SortFunc(members, func(x, y int32) int { return strings.Compare(d.nodes[x].key, d.nodes[y].key) })
		b = append(b, '{')
		for i, c := range members {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(b, d.nodes[c].key)
			b = append(b, ':')
			b = d.canonical(b, c)
		}
		return append(b, '}')
	}
	return append(b, n.text...)
}

// encode writes the document as it is now: values as they came, aliases under
// their own names, defaults added.
func (d *doc) encode(b []byte) []byte { return d.appendNode(b, 0) }

func (d *doc) appendNode(b []byte, at int32) []byte {
	n := &d.nodes[at]
	opening, closing := byte('{'), byte('}')
	switch n.kind {
	case kindObject:
	case kindArray:
		opening, closing = '[', ']'
	default:
		return append(b, n.text...)
	}
	b = append(b, opening)
	written := false
	for i, c := int32(0), n.first; i < n.count; i, c = i+1, d.nodes[c].next {
		child := &d.nodes[c]
		if child.dropped {
			continue
		}
		if written {
			b = append(b, ',')
		}
		written = true
		if n.kind == kindObject {
			b = appendString(b, child.key)
			b = append(b, ':')
		}
		b = d.appendNode(b, c)
	}
	return append(b, closing)
}

const hexDigits = "0123456789abcdef"

// appendString writes a JSON string with the fewest escapes.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			b = utf8.AppendRune(b, r)
			i += n
			continue
		}
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\t':
			b = append(b, `\t`...)
		case c == '\r':
			b = append(b, `\r`...)
		case c < ' ':
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			b = append(b, c)
		}
		i++
	}
	return append(b, '"')
}

// equal compares a value with one of another document, numbers by value.
func (d *doc) equal(at int32, other *doc, there int32) bool {
	a, b := &d.nodes[at], &other.nodes[there]
	if a.kind != b.kind || a.count != b.count {
		return false
	}
	switch a.kind {
	case kindString:
		if !a.escaped && !b.escaped {
			return a.text == b.text
		}
		return a.str() == b.str()
	case kindNumber:
		return a.text == b.text || parseDecimal(a.text) == parseDecimal(b.text)
	case kindArray:
		x, y := a.first, b.first
		for range a.count {
			if !d.equal(x, other, y) {
				return false
			}
			x, y = d.nodes[x].next, other.nodes[y].next
		}
		return true
	case kindObject:
		for i, c := int32(0), a.first; i < a.count; i, c = i+1, d.nodes[c].next {
			twin, ok := other.member(there, d.nodes[c].key)
			if !ok || !d.equal(c, other, twin) {
				return false
			}
		}
		return true
	}
	return a.text == b.text
}

// member finds a member by its name.
func (d *doc) member(object int32, key string) (int32, bool) {
	n := &d.nodes[object]
	for i, c := int32(0), n.first; i < n.count; i, c = i+1, d.nodes[c].next {
		if d.nodes[c].key == key && !d.nodes[c].dropped {
			return c, true
		}
	}
	return 0, false
}
