package validate

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// kind is the JSON type of a value, as a bit. A number that is whole has both
// kindNumber and kindInteger where a schema asks.
type kind uint8

const (
	kindNull kind = 1 << iota
	kindBool
	kindNumber
	kindString
	kindArray
	kindObject
	kindInteger
)

// node is one value of a document. Values keep their text, so numbers lose
// nothing.
type node struct {
	key     string // of a member, decoded
	text    string // of the value, as it stands in the source
	kind    kind
	escaped bool // a string with escapes
	dropped bool // an alias whose own name is there too
	first   int32
	last    int32
	next    int32 // sibling; 0 is none
	count   int32 // children
}

// doc is a parsed JSON text. nodes[0] is the whole.
type doc struct {
	nodes []node
	src   string
	pos   int
	depth int
}

// syntaxError is what is wrong with a JSON text.
type syntaxError struct {
	at      int
	cut     bool // the text ends too soon
	control bool // a raw newline, tab or carriage return in a string
	dup     string
	msg     string
}

func (e *syntaxError) Error() string { return e.msg }

func (d *doc) fail(at int, format string, args ...any) *syntaxError {
	return &syntaxError{at: at, msg: fmt.Sprintf(format, args...)}
}

// parse reads one JSON value and nothing after it.
func (d *doc) parse(src string) error {
	d.nodes, d.src, d.pos, d.depth = d.nodes[:0], src, 0, 0
	if !utf8.ValidString(src) {
		at := 0
		for at < len(src) {
			r, n := utf8.DecodeRuneInString(src[at:])
			if r == utf8.RuneError && n == 1 {
				break
			}
			at += n
		}
		return d.fail(at, "invalid UTF-8 at byte %d", at)
	}
	d.space()
	if _, err := d.value(""); err != nil {
		return err
	}
	d.space()
	if d.pos < len(src) {
		return d.fail(d.pos, "unexpected %s after the end at byte %d", shown(src[d.pos:]), d.pos)
	}
	return nil
}

func (d *doc) space() {
	for d.pos < len(d.src) {
		switch d.src[d.pos] {
		case ' ', '\t', '\n', '\r':
			d.pos++
		default:
			return
		}
	}
}

func (d *doc) cutOff() *syntaxError {
	return &syntaxError{at: len(d.src), cut: true, msg: fmt.Sprintf("cut off at byte %d", len(d.src))}
}

// value reads a value; the result is its index.
func (d *doc) value(key string) (int32, *syntaxError) {
	if d.pos >= len(d.src) {
		return 0, d.cutOff()
	}
	at := int32(len(d.nodes))
	start := d.pos
	d.nodes = append(d.nodes, node{key: key})
	var err *syntaxError
	k, escaped := kindNull, false
	switch c := d.src[d.pos]; {
	case c == '"':
		k = kindString
		escaped, err = d.skipString()
	case c == '{':
		k = kindObject
		err = d.object(at)
	case c == '[':
		k = kindArray
		err = d.array(at)
	case c == '-' || c >= '0' && c <= '9':
		k = kindNumber
		err = d.number()
	case c == 't':
		k, err = kindBool, d.word("true")
	case c == 'f':
		k, err = kindBool, d.word("false")
	case c == 'n':
		err = d.word("null")
	default:
		err = d.fail(d.pos, "unexpected %s at byte %d", shown(d.src[d.pos:]), d.pos)
	}
	if err != nil {
		return 0, err
	}
	n := &d.nodes[at]
	n.kind, n.escaped, n.text = k, escaped, d.src[start:d.pos]
	return at, nil
}

func (d *doc) word(w string) *syntaxError {
	rest := d.src[d.pos:]
	if strings.HasPrefix(rest, w) {
		d.pos += len(w)
		return nil
	}
	if strings.HasPrefix(w, rest) {
		return d.cutOff()
	}
	return d.fail(d.pos, "unexpected %s at byte %d", shown(rest), d.pos)
}

func (d *doc) down() *syntaxError {
	d.depth++
	if d.depth > maxDepth {
		return d.fail(d.pos, "nested more than %d deep at byte %d", maxDepth, d.pos)
	}
	d.pos++
	d.space()
	if d.pos >= len(d.src) {
		return d.cutOff()
	}
	return nil
}

// link makes child the last child of parent.
func (d *doc) link(parent, child int32) {
	p := &d.nodes[parent]
	if p.count == 0 {
		p.first = child
	} else {
		d.nodes[p.last].next = child
	}
	p.last = child
	p.count++
}

func (d *doc) array(at int32) *syntaxError {
	if err := d.down(); err != nil {
		return err
	}
	if d.src[d.pos] == ']' {
		d.pos++
		d.depth--
		return nil
	}
	for {
		d.space()
		child, err := d.value("")
		if err != nil {
			return err
		}
		d.link(at, child)
		more, err := d.after(']')
		if err != nil || !more {
			return err
		}
	}
}

// after reads the comma or the end after a member or an item.
func (d *doc) after(end byte) (more bool, err *syntaxError) {
	d.space()
	if d.pos >= len(d.src) {
		return false, d.cutOff()
	}
	switch d.src[d.pos] {
	case ',':
		d.pos++
		return true, nil
	case end:
		d.pos++
		d.depth--
		return false, nil
	}
	return false, d.fail(d.pos, "expected , or %c, found %s at byte %d", end, shown(d.src[d.pos:]), d.pos)
}

// fewMembers is how many members are compared one by one for doubles.
const fewMembers = 12

func (d *doc) object(at int32) *syntaxError {
	if err := d.down(); err != nil {
		return err
	}
	if d.src[d.pos] == '}' {
		d.pos++
		d.depth--
		return nil
	}
	var seen map[string]struct{}
	for {
		d.space()
		start := d.pos
		key, err := d.key()
		if err != nil {
			return err
		}
		if d.twice(at, key, &seen) {
			e := d.fail(start, "the name %q stands twice in one object, the second time at byte %d", shorten(key), start)
			e.dup = key
			return e
		}
		child, err := d.value(key)
		if err != nil {
			return err
		}
		d.link(at, child)
		more, err := d.after('}')
		if err != nil || !more {
			return err
		}
	}
}

// twice reports whether the object has the key already. A double name is
// refused, for two readers may take different ones: the policy the first, the
// tool the last.
func (d *doc) twice(at int32, key string, seen *map[string]struct{}) bool {
	o := &d.nodes[at]
	if o.count < fewMembers {
		for c, i := o.first, int32(0); i < o.count; i++ {
			if d.nodes[c].key == key {
				return true
			}
			c = d.nodes[c].next
		}
		return false
	}
	if *seen == nil {
		*seen = make(map[string]struct{}, 2*fewMembers)
		for c, i := o.first, int32(0); i < o.count; i++ {
			(*seen)[d.nodes[c].key] = struct{}{}
			c = d.nodes[c].next
		}
	}
	if _, ok := (*seen)[key]; ok {
		return true
	}
	(*seen)[key] = struct{}{}
	return false
}

func (d *doc) key() (string, *syntaxError) {
	if d.pos >= len(d.src) {
		return "", d.cutOff()
	}
	if d.src[d.pos] != '"' {
		return "", d.fail(d.pos, "expected a name in double quotes, found %s at byte %d", shown(d.src[d.pos:]), d.pos)
	}
	start := d.pos
	escaped, err := d.skipString()
	if err != nil {
		return "", err
	}
	key := d.src[start+1 : d.pos-1]
	if escaped {
		key = unquote(key)
	}
	d.space()
	if d.pos >= len(d.src) {
		return "", d.cutOff()
	}
	if d.src[d.pos] != ':' {
		return "", d.fail(d.pos, "expected : after a name, found %s at byte %d", shown(d.src[d.pos:]), d.pos)
	}
	d.pos++
	d.space()
	return key, nil
}

// skipString passes a string and checks its escapes.
func (d *doc) skipString() (escaped bool, err *syntaxError) {
	src := d.src
	i := d.pos + 1
	for i < len(src) {
		c := src[i]
		switch {
		case c == '"':
			d.pos = i + 1
			return escaped, nil
		case c == '\\':
			escaped = true
			n, err := d.escape(i)
			if err != nil {
				return false, err
			}
			i += n
		case c < ' ':
			e := d.fail(i, "raw control character %#02x in a string at byte %d", c, i)
			e.control = c == '\n' || c == '\t' || c == '\r'
			return false, e
		default:
			i++
		}
	}
	return false, d.cutOff()
}

// escape checks the escape at i and tells its length.
func (d *doc) escape(i int) (int, *syntaxError) {
	if i+1 >= len(d.src) {
		return 0, d.cutOff()
	}
	switch d.src[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2, nil
	case 'u':
		for j := i + 2; j < i+6; j++ {
			if j >= len(d.src) {
				return 0, d.cutOff()
			}
			if !isHex(d.src[j]) {
				return 0, d.fail(i, "invalid escape %s at byte %d", shown(d.src[i:]), i)
			}
		}
		return 6, nil
	}
	return 0, d.fail(i, "invalid escape %s at byte %d", shown(d.src[i:min(i+2, len(d.src))]), i)
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// Bounds of one number: arithmetic on it must stay cheap and exact.
const (
	maxDigits         = 1000
	maxExponentDigits = 6
)

func (d *doc) number() *syntaxError {
	src, i := d.src, d.pos
	digits := func() bool {
		from := i
		for i < len(src) && src[i] >= '0' && src[i] <= '9' {
			i++
		}
		return i > from
	}
	bad := func() *syntaxError {
		if i >= len(src) {
			return d.cutOff()
		}
		return d.fail(d.pos, "not a number: %s at byte %d", shown(src[d.pos:]), d.pos)
	}
	if src[i] == '-' {
		i++
	}
	if i < len(src) && src[i] == '0' {
		i++
	} else if !digits() {
		return bad()
	}
	if i < len(src) && src[i] == '.' {
		i++
		if !digits() {
			return bad()
		}
	}
	if i < len(src) && (src[i] == 'e' || src[i] == 'E') {
		i++
		if i < len(src) && (src[i] == '+' || src[i] == '-') {
			i++
		}
		from := i
		if !digits() {
			return bad()
		}
		if len(strings.TrimLeft(src[from:i], "0")) > maxExponentDigits {
			return d.fail(d.pos, "a number out of range at byte %d", d.pos)
		}
	}
	if i-d.pos > maxDigits {
		return d.fail(d.pos, "a number of more than %d digits at byte %d", maxDigits, d.pos)
	}
	d.pos = i
	return nil
}

// str is the decoded text of a string.
func (n *node) str() string {
	s := n.text[1 : len(n.text)-1]
	if n.escaped {
		return unquote(s)
	}
	return s
}

// unquote decodes the escapes of a string that was checked. A lone surrogate
// becomes U+FFFD, as in encoding/json.
func unquote(s string) string {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			b = append(b, s[i])
			i++
			continue
		}
		switch c := s[i+1]; c {
		case 'b':
			b = append(b, '\b')
		case 'f':
			b = append(b, '\f')
		case 'n':
			b = append(b, '\n')
		case 'r':
			b = append(b, '\r')
		case 't':
			b = append(b, '\t')
		case 'u':
			r := hex4(s[i+2:])
			i += 4
			if utf16.IsSurrogate(r) {
				low := rune(0)
				if i+7 < len(s) && s[i+2] == '\\' && s[i+3] == 'u' {
					low = hex4(s[i+4:])
				}
				if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
					i += 6
				}
			}
			b = utf8.AppendRune(b, r)
		default:
			b = append(b, c)
		}
		i += 2
	}
	return string(b)
}

func hex4(s string) rune {
	n, _ := strconv.ParseUint(s[:4], 16, 32)
	return rune(n)
}

// shown is the first character of text, for a message.
func shown(text string) string {
	for _, r := range text {
		return strconv.QuoteRune(r)
	}
	return "the end"
}
