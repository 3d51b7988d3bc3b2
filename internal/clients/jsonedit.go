package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// jsonDoc edits a JSON document as text: each step parses it, replaces one piece,
// and leaves all others as they are.
type jsonDoc struct {
	data    []byte
	relaxed bool
}

// style is how a document is written.
type style struct{ unit, eol string }

// styleOf finds the indentation of the first indented line and the line end of
// the first line.
func styleOf(data []byte) style {
	s := style{"  ", "\n"}
	if i := bytes.IndexByte(data, '\n'); i > 0 && data[i-1] == '\r' {
		s.eol = "\r\n"
	}
	root, err := parseJSON(data, true)
	if err != nil || root == nil {
		return s
	}
	for n := root; n.kind == '{' && len(n.members) > 0; n = n.members[0].value {
		if indent, own := ownLine(data, n.members[0].start); own && len(indent) > 0 {
			outer, _ := ownLine(data, lineStart(data, n.start)+len(indentAt(data, n.start)))
			if rest, ok := strings.CutPrefix(indent, outer); ok && rest != "" {
				s.unit = rest
			}
			break
		}
	}
	return s
}

func lineStart(data []byte, at int) int {
	start := bytes.LastIndexByte(data[:at], '\n') + 1
	if start == 0 && bytes.HasPrefix(data, bom) {
		start = len(bom)
	}
	return start
}

// indentAt is the white space that the line of an offset begins with.
func indentAt(data []byte, at int) string {
	start := lineStart(data, at)
	end := start
	for end < at && (data[end] == ' ' || data[end] == '\t') {
		end++
	}
	return string(data[start:end])
}

// ownLine gives the indentation of what stands first on its line.
func ownLine(data []byte, at int) (indent string, own bool) {
	indent = indentAt(data, at)
	return indent, lineStart(data, at)+len(indent) == at
}

// splice replaces data[from:to].
func splice(data []byte, from, to int, text string) []byte {
	out := make([]byte, 0, len(data)+len(text))
	out = append(out, data[:from]...)
	out = append(out, text...)
	return append(out, data[to:]...)
}

// find walks down keys as far as they are there: n is the last object, missing
// the keys that it and those below lack.
func (d *jsonDoc) find(keys []string) (n *node, missing []string, err error) {
	n, err = parseJSON(d.data, d.relaxed)
	if err != nil || n == nil {
		return nil, keys, err
	}
	for i, key := range keys {
		if n.kind != '{' {
			return nil, nil, syntaxAt(d.data, n.start, "%s is not an object", quotePath(keys[:i]))
		}
		m := n.last(key)
		if m == nil {
			return n, keys[i:], nil
		}
		n = m.value
	}
	return n, nil, nil
}

func quotePath(keys []string) string {
	if len(keys) == 0 {
		return "the document"
	}
	return fmt.Sprintf("%q", strings.Join(keys, "."))
}

// set gives the value at keys, making the objects on the way to it.
func (d *jsonDoc) set(keys []string, value any) error {
	for i := 1; i < len(keys); i++ { // a list that is null is none yet
		if n, missing, err := d.find(keys[:i]); err == nil && n != nil && len(missing) == 0 && n.kind == 'n' {
			for _, key := range slices.Backward(keys[i:]) {
				value = fields{{key, value}}
			}
			return d.set(keys[:i], value)
		}
	}
	n, missing, err := d.find(keys)
	if err != nil {
		return err
	}
	if n != nil && len(missing) == 0 {
		if !same(n.decode(d.data), value) {
			s := styleOf(d.data)
			text := s.render(value, indentAt(d.data, n.start), d.multiline())
			d.data = splice(d.data, n.start, n.end, text)
		}
		return nil
	}
	for i := len(missing) - 1; i > 0; i-- {
		value = fields{{missing[i], value}}
	}
	if n == nil { // a blank document
		s := styleOf(d.data)
		text := s.render(fields{{missing[0], value}}, "", true)
		at := len(d.data) - len(bytes.TrimLeft(d.data, " \t\r\n"))
		if bytes.HasPrefix(d.data, bom) {
			at = len(bom)
		}
		if rest := bytes.TrimSpace(d.data[at:]); len(rest) > 0 { // comments stay above
			d.data = append(append(bytes.TrimRight(d.data, " \t\r\n"), s.eol...), text+s.eol...)
			return nil
		}
		d.data = append(bytes.Clone(d.data[:at]), text+s.eol...)
		return nil
	}
	d.insert(n, missing[0], value)
	return nil
}

// multiline reports whether the document is written on more than one line.
func (d *jsonDoc) multiline() bool {
	return bytes.ContainsRune(bytes.TrimSpace(d.data), '\n') || len(bytes.TrimSpace(d.data)) <= len("{}")
}

// insert adds a member at the end of the object n.
func (d *jsonDoc) insert(n *node, key string, value any) {
	s := styleOf(d.data)
	if len(n.members) == 0 {
		d.insertFirst(n, key, value, s)
		return
	}
	last := n.members[len(n.members)-1]
	indent, own := ownLine(d.data, last.start)
	multi := own && bytes.ContainsRune(d.data[n.start:n.end], '\n')
	text := " " + s.member(key, value, indentAt(d.data, last.start), d.multiline())
	if !multi && !bytes.Contains(d.data[n.start:n.end], []byte(" ")) && !bytes.Contains(d.data[n.start:n.end], []byte("\n")) {
		text = text[1:]
	}
	if multi {
		text = s.eol + indent + s.member(key, value, indent, true)
	}
	at := last.value.end
	if n.comma {
		at = last.comma + 1
		text += ","
	}
	at = sameLine(d.data, at, n.end-1)
	d.data = splice(d.data, at, at, text)
	if !n.comma {
		d.data = splice(d.data, last.value.end, last.value.end, ",")
	}
}

func (d *jsonDoc) insertFirst(n *node, key string, value any, s style) {
	inside := d.data[n.start+1 : n.end-1]
	if !d.multiline() {
		d.data = splice(d.data, n.start+1, n.start+1, s.member(key, value, "", false))
		return
	}
	outer := indentAt(d.data, n.start)
	indent := outer + s.unit
	text := s.eol + indent + s.member(key, value, indent, true)
	if len(bytes.TrimSpace(inside)) == 0 { // nothing to keep but the brackets
		d.data = splice(d.data, n.start+1, n.end-1, text+s.eol+outer)
		return
	}
	if !bytes.ContainsRune(inside, '\n') {
		d.data = splice(d.data, n.end-1, n.end-1, s.eol+outer)
	}
	at := sameLine(d.data, n.start+1, n.end-1)
	d.data = splice(d.data, at, at, text)
}

// sameLine goes on from an offset over the spaces and comments of its line, but
// stays before the spaces at its end.
func sameLine(data []byte, at, limit int) int {
	end := at
	for at < limit {
		switch rest := data[at:limit]; {
		case rest[0] == ' ' || rest[0] == '\t':
			at++
		case bytes.HasPrefix(rest, []byte("//")):
			return lineEnd(data, at)
		case bytes.HasPrefix(rest, []byte("/*")):
			close := bytes.Index(rest[2:], []byte("*/"))
			if close < 0 || bytes.ContainsRune(rest[:close+2], '\n') {
				return end
			}
			at += close + 4
			end = at
		default:
			return end
		}
	}
	return end
}

// remove takes the value at keys away, with all of the same name.
func (d *jsonDoc) remove(keys []string) (bool, error) {
	for removed := false; ; removed = true {
		n, missing, err := d.find(keys[:len(keys)-1])
		if err != nil {
			return removed, err
		}
		if n == nil || len(missing) > 0 || n.kind != '{' {
			return removed, nil
		}
		key := keys[len(keys)-1]
		i := slices.IndexFunc(n.members, func(m member) bool { return m.key == key })
		if i < 0 {
			return removed, nil
		}
		d.removeMember(n, i)
	}
}

// removeMember takes out a member with its comma, and its line if nothing else
// stands there. Comments stay.
func (d *jsonDoc) removeMember(n *node, i int) {
	m := n.members[i]
	from, to := m.start, m.value.end
	if len(n.members) == 1 && m.comma < 0 && len(bytes.TrimSpace(d.data[n.start+1:from]))+len(bytes.TrimSpace(d.data[to:n.end-1])) == 0 {
		d.data = splice(d.data, n.start+1, n.end-1, "") // nothing but the brackets is left
		return
	}
	if m.comma >= 0 {
		// What stands between the value and the comma is kept.
		d.data = splice(d.data, m.comma, m.comma+1, "")
	} else if i > 0 {
		before := n.members[i-1].comma
		d.data = splice(d.data, before, before+1, "")
		from, to = from-1, to-1
	}
	start, end := lineStart(d.data, from), lineEnd(d.data, to)
	blankBefore := len(bytes.TrimSpace(d.data[start:from])) == 0
	blankAfter := len(bytes.TrimSpace(d.data[to:end])) == 0
	switch {
	case blankBefore && blankAfter && end < len(d.data):
		from, to = start, end+1
		if d.data[end] == '\r' && to < len(d.data) && d.data[to] == '\n' {
			to++
		}
	case blankAfter: // "a": 1, "b": 2 at the end of a line
		for from > start && (d.data[from-1] == ' ' || d.data[from-1] == '\t') {
			from--
		}
		to = end
	default:
		for to < end && (d.data[to] == ' ' || d.data[to] == '\t') {
			to++
		}
		if i > 0 && m.comma < 0 && to < end && d.data[to] == '}' { // { "a": 1 } keeps its space
			for from > start && d.data[from-1] == ' ' {
				from--
			}
			if d.data[to-1] == ' ' {
				to--
			}
		}
	}
	d.data = splice(d.data, from, to, "")
}

// member writes a key and its value.
func (s style) member(key string, value any, indent string, multi bool) string {
	colon := ": "
	if !multi {
		colon = ":"
	}
	return quote(key) + colon + s.render(value, indent, multi)
}

// render writes a value. indent is that of the line it begins on.
func (s style) render(value any, indent string, multi bool) string {
	switch v := value.(type) {
	case []string:
		parts := make([]string, len(v))
		for i, item := range v {
			parts[i] = quote(item)
		}
		if multi {
			return "[" + strings.Join(parts, ", ") + "]"
		}
		return "[" + strings.Join(parts, ",") + "]"
	case map[string]string:
		var list fields
		for _, key := range slices.Sorted(maps.Keys(v)) {
			list = append(list, field{key, v[key]})
		}
		return s.render(list, indent, multi)
	case fields:
		if len(v) == 0 {
			return "{}"
		}
		parts := make([]string, len(v))
		for i, f := range v {
			parts[i] = s.member(f.key, f.value, indent+s.unit, multi)
		}
		if !multi {
			return "{" + strings.Join(parts, ",") + "}"
		}
		inner := s.eol + indent + s.unit
		return "{" + inner + strings.Join(parts, ","+inner) + s.eol + indent + "}"
	case string:
		return quote(v)
	}
	raw, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("clients: %T cannot be written: %v", value, err)) // the dialects set only what can
	}
	return string(raw)
}

// quote writes a string as JSON, without the escapes of <, > and &.
func quote(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string can always be written
	return strings.TrimSuffix(b.String(), "\n")
}

// plain is a value as a decoder gives it.
func plain(value any) any {
	switch v := value.(type) {
	case []string:
		list := make([]any, len(v))
		for i, s := range v {
			list[i] = s
		}
		return list
	case map[string]string:
		object := make(map[string]any, len(v))
		for key, s := range v {
			object[key] = s
		}
		return object
	case fields:
		object := make(map[string]any, len(v))
		for _, f := range v {
			object[f.key] = plain(f.value)
		}
		return object
	case int:
		return json.Number(fmt.Sprint(v))
	}
	return value
}

// same reports whether a decoded value is what would be written.
func same(decoded, value any) bool { return reflect.DeepEqual(decoded, plain(value)) }
