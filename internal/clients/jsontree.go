package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxDepth bounds how deep a document nests.
const maxDepth = 500

// SyntaxError says where a file does not parse. Line and Column count from 1,
// the column in characters.
type SyntaxError struct {
	Line, Column int
	Reason       string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Reason)
}

// syntaxAt makes an error for an offset of data.
func syntaxAt(data []byte, offset int, format string, args ...any) *SyntaxError {
	before := data[:min(max(offset, 0), len(data))]
	line := bytes.Count(before, []byte{'\n'}) + 1
	start := bytes.LastIndexByte(before, '\n') + 1
	if start == 0 && bytes.HasPrefix(before, bom) {
		start = len(bom)
	}
	start = min(start, len(before))
	return &SyntaxError{line, utf8.RuneCount(before[start:]) + 1, fmt.Sprintf(format, args...)}
}

var bom = []byte("\xef\xbb\xbf")

// node is a value of a JSON document, with where it stands.
type node struct {
	kind       byte // { [ " or the first byte of a number or a word
	start, end int
	members    []member
	items      []*node
	comma      bool // a comma stands after the last member or item
}

// member is a key of an object. comma is where the comma after it stands, -1 if
// there is none.
type member struct {
	key        string
	start, end int // of the key
	value      *node
	comma      int
}

// last gives the member that counts: of two with the same key, the later.
func (n *node) last(key string) *member {
	for i := len(n.members) - 1; i >= 0; i-- {
		if n.members[i].key == key {
			return &n.members[i]
		}
	}
	return nil
}

// parser reads a document and remembers every offset.
type parser struct {
	data    []byte
	at      int
	relaxed bool // comments and trailing commas are allowed
	depth   int
}

// parseJSON reads a document. A blank one gives nil.
func parseJSON(data []byte, relaxed bool) (*node, error) {
	p := &parser{data: data, relaxed: relaxed}
	if bytes.HasPrefix(data, bom) {
		p.at = len(bom)
	}
	for at := p.at; at < len(data); {
		r, size := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && size <= 1 {
			return nil, syntaxAt(data, at, "this is not UTF-8")
		}
		at += size
	}
	if err := p.space(); err != nil {
		return nil, err
	}
	if p.at == len(data) {
		return nil, nil
	}
	root, err := p.value()
	if err != nil {
		return nil, err
	}
	if err := p.space(); err != nil {
		return nil, err
	}
	if p.at < len(data) {
		return nil, p.unexpected("the end")
	}
	return root, nil
}

func (p *parser) unexpected(wanted string) error {
	if p.at >= len(p.data) {
		return syntaxAt(p.data, p.at, "the file ends where %s should be", wanted)
	}
	r, _ := utf8.DecodeRune(p.data[p.at:])
	return syntaxAt(p.data, p.at, "%q stands where %s should be", r, wanted)
}

// space skips white space and comments.
func (p *parser) space() error {
	for p.at < len(p.data) {
		switch c := p.data[p.at]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			p.at++
		case c == '/' && p.relaxed && bytes.HasPrefix(p.data[p.at:], []byte("//")):
			p.at = lineEnd(p.data, p.at)
		case c == '/' && p.relaxed && bytes.HasPrefix(p.data[p.at:], []byte("/*")):
			end := bytes.Index(p.data[p.at+2:], []byte("*/"))
			if end < 0 {
				return syntaxAt(p.data, p.at, "the comment does not end")
			}
			p.at += end + 4
		case c == '/' && !p.relaxed:
			return syntaxAt(p.data, p.at, "the client reads no comments in this file")
		default:
			return nil
		}
	}
	return nil
}

// lineEnd is the offset of the end of a line, before its line end.
func lineEnd(data []byte, at int) int {
	for at < len(data) && data[at] != '\n' && data[at] != '\r' {
		at++
	}
	return at
}

func (p *parser) value() (*node, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, syntaxAt(p.data, p.at, "the document nests deeper than %d", maxDepth)
	}
	defer func() { p.depth-- }()
	if p.at >= len(p.data) {
		return nil, p.unexpected("a value")
	}
	n := &node{kind: p.data[p.at], start: p.at}
	var err error
	switch n.kind {
	case '{':
		err = p.object(n)
	case '[':
		err = p.array(n)
	case '"':
		err = p.text()
	default:
		err = p.word()
	}
	n.end = p.at
	return n, err
}

// text reads a string.
func (p *parser) text() error {
	start := p.at
	for p.at++; p.at < len(p.data); p.at++ {
		switch c := p.data[p.at]; {
		case c == '\\':
			p.at++
		case c == '"':
			p.at++
			if !json.Valid(p.data[start:p.at]) {
				return syntaxAt(p.data, start, "the string has an escape that JSON does not know")
			}
			return nil
		case c < ' ':
			return syntaxAt(p.data, p.at, "the string does not end on its line")
		}
	}
	p.at = len(p.data)
	return syntaxAt(p.data, start, "the string does not end")
}

// word reads a number, true, false or null.
func (p *parser) word() error {
	start := p.at
	for p.at < len(p.data) && (isWord(p.data[p.at])) {
		p.at++
	}
	if word := p.data[start:p.at]; len(word) == 0 || !json.Valid(word) {
		p.at = start
		return p.unexpected("a value")
	}
	return nil
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '+' || c == '-' || c == '.'
}

// step reads what separates two parts of a list: a comma, or the end. comma is
// -1 for the end; done says that the list is closed.
func (p *parser) step(n *node, closing byte) (comma int, done bool, err error) {
	if err := p.space(); err != nil {
		return -1, false, err
	}
	comma = -1
	if p.at < len(p.data) && p.data[p.at] == ',' {
		comma = p.at
		p.at++
		if err := p.space(); err != nil {
			return -1, false, err
		}
	}
	if p.at < len(p.data) && p.data[p.at] == closing {
		if n.comma = comma >= 0; n.comma && !p.relaxed {
			return -1, false, syntaxAt(p.data, comma, "a comma stands before the end of the list")
		}
		p.at++
		return comma, true, nil
	}
	if comma < 0 {
		return -1, false, p.unexpected("a comma or '" + string(closing) + "'")
	}
	return comma, false, nil
}

func (p *parser) object(n *node) error {
	p.at++
	if err := p.space(); err != nil {
		return err
	}
	if p.at < len(p.data) && p.data[p.at] == '}' {
		p.at++
		return nil
	}
	for {
		if p.at >= len(p.data) || p.data[p.at] != '"' {
			return p.unexpected("a key in double quotes")
		}
		m := member{start: p.at}
		if err := p.text(); err != nil {
			return err
		}
		m.end = p.at
		if err := json.Unmarshal(p.data[m.start:m.end], &m.key); err != nil {
			return syntaxAt(p.data, m.start, "%v", err)
		}
		if err := p.space(); err != nil {
			return err
		}
		if p.at >= len(p.data) || p.data[p.at] != ':' {
			return p.unexpected("a colon")
		}
		p.at++
		if err := p.space(); err != nil {
			return err
		}
		var err error
		if m.value, err = p.value(); err != nil {
			return err
		}
		comma, done, err := p.step(n, '}')
		if err != nil {
			return err
		}
		m.comma = comma
		n.members = append(n.members, m)
		if done {
			return nil
		}
	}
}

func (p *parser) array(n *node) error {
	p.at++
	if err := p.space(); err != nil {
		return err
	}
	if p.at < len(p.data) && p.data[p.at] == ']' {
		p.at++
		return nil
	}
	for {
		item, err := p.value()
		if err != nil {
			return err
		}
		n.items = append(n.items, item)
		if _, done, err := p.step(n, ']'); done || err != nil {
			return err
		}
	}
}

// decode gives the value of n as encoding/json would.
func (n *node) decode(data []byte) any {
	switch n.kind {
	case '{':
		object := make(map[string]any, len(n.members))
		for _, m := range n.members {
			object[m.key] = m.value.decode(data)
		}
		return object
	case '[':
		list := make([]any, len(n.items))
		for i, item := range n.items {
			list[i] = item.decode(data)
		}
		return list
	}
	dec := json.NewDecoder(strings.NewReader(string(data[n.start:n.end])))
	dec.UseNumber()
	var value any
	if dec.Decode(&value) != nil {
		return nil
	}
	return value
}
