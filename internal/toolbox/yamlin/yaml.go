package yamlin

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Bounds of a text. They hold whatever it is made of: what would grow beyond
// them by aliases is refused before it is built.
const (
	maxText  = 10_000_000 // bytes; a text this long is refused
	maxDepth = 64         // values inside values
	maxNodes = 200_000    // values, those of aliases counted each time
	maxJSON  = 2 * maxText
)

// mistake says what kind of fault a text has, so that a repair knows whether it
// is the one it mends.
type mistake uint8

const (
	other        mistake = iota
	tabIndent            // a tab where spaces indent
	badIndent            // a line indented as none of its neighbours
	noColon              // a line among keys that is no "key: value"
	nestedColon          // "a: b: c"
	reserved             // a value that begins with a character of YAML's own
	badEscape            // a backslash in double quotes that escapes nothing
	afterQuote           // text after a closing quote
	afterFlow            // text after a closing bracket
	listOnKey            // "a: - b"
	unusedAnchor         // &name that no *name refers to
	limit                // too much of something; never repaired
)

// syntaxError is a fault of the text with its place.
type syntaxError struct {
	kind mistake
	at   int // offset of the fault
	from int // offset where the value begins that has the fault
	line int // from 1
	col  int // from 1, in characters
	bol  int // offset of the line
	what string
	show string // the line itself
}

func (e *syntaxError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.line, e.col, e.what)
}

// nodeKind of a value in the text.
type nodeKind uint8

const (
	plain  nodeKind = iota // text without quotes, which may be a number, true or null
	quoted                 // text that is nothing else
	mapping
	sequence
)

// node is one value of the text.
type node struct {
	kind  nodeKind
	text  string
	tag   string
	at    int
	keys  []*node
	items []*node // values of keys, or the items
}

type anchor struct {
	node *node
	used bool
	at   int
}

// parser reads one text. Its position stands, between values, on the first
// character of what comes next.
type parser struct {
	src     string
	pos     int
	line    int
	bol     int
	depth   int
	nodes   int
	anchors map[string]*anchor
}

// parseYAML reads the one document of src, which is UTF-8 with line feeds only.
// A nil node is an empty text.
func parseYAML(src string) (*node, *syntaxError) {
	p := &parser{src: src, line: 1, anchors: map[string]*anchor{}}
	if err := p.characters(); err != nil {
		return nil, err
	}
	n, err := p.document()
	if err != nil {
		return nil, err
	}
	for name, a := range p.anchors {
		if !a.used {
			return nil, p.failAt(unusedAnchor, a.at, "&%s names a value that nothing refers to; put it in quotes if text is meant", name)
		}
	}
	return n, nil
}

// characters refuses what may not stand in YAML at all.
func (p *parser) characters() *syntaxError {
	for i := 0; i < len(p.src); {
		c := p.src[i]
		if c >= ' ' && c < utf8.RuneSelf || c == '\n' || c == '\t' {
			i++
			continue
		}
		if c < ' ' {
			return p.failAt(other, i, "the control character 0x%02X cannot stand in YAML; write \\x%02X in double quotes", c, c)
		}
		r, size := utf8.DecodeRuneInString(p.src[i:])
		if r == utf8.RuneError && size == 1 {
			return p.failAt(other, i, "the byte 0x%02X is not UTF-8", c)
		}
		i += size
	}
	return nil
}

// fail is a fault at the present place.
func (p *parser) fail(kind mistake, format string, args ...any) *syntaxError {
	return p.failAt(kind, p.pos, format, args...)
}

// failAt is a fault at an offset, with its line.
func (p *parser) failAt(kind mistake, at int, format string, args ...any) *syntaxError {
	at = min(at, len(p.src))
	bol := strings.LastIndexByte(p.src[:at], '\n') + 1
	show, _, _ := strings.Cut(p.src[bol:], "\n")
	return &syntaxError{
		kind: kind, at: at, from: at, bol: bol, show: show,
		line: strings.Count(p.src[:bol], "\n") + 1,
		col:  utf8.RuneCountInString(p.src[bol:at]) + 1,
		what: fmt.Sprintf(format, args...),
	}
}

// since says where the value with the fault begins.
func (e *syntaxError) since(from int) *syntaxError {
	e.from = from
	return e
}

func (p *parser) col() int { return p.pos - p.bol }

func (p *parser) eof() bool { return p.pos >= len(p.src) }

// peek is the character n after the present one; 0 behind the end.
func (p *parser) peek(n int) byte {
	if p.pos+n < len(p.src) {
		return p.src[p.pos+n]
	}
	return 0
}

// blank reports whether c ends a word; 0 is the end of the text.
func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == 0 }

// spaces skips blanks within the line.
func (p *parser) spaces() {
	for p.peek(0) == ' ' || p.peek(0) == '\t' {
		p.pos++
	}
}

// comment reports whether a comment begins here.
func (p *parser) comment() bool {
	return p.peek(0) == '#' && (p.pos == p.bol || p.src[p.pos-1] == ' ' || p.src[p.pos-1] == '\t')
}

// lineEnd reports whether nothing but a comment is left of the line.
func (p *parser) lineEnd() bool { return p.eof() || p.peek(0) == '\n' || p.comment() }

// newline goes to the next line; the position is on a line feed.
func (p *parser) newline() {
	p.pos++
	p.line++
	p.bol = p.pos
}

// skip goes over blanks, comments and line feeds to what comes next.
func (p *parser) skip() {
	for {
		p.spaces()
		if p.comment() {
			for !p.eof() && p.peek(0) != '\n' {
				p.pos++
			}
		}
		if p.peek(0) != '\n' {
			return
		}
		p.newline()
	}
}

// marker reports whether "---" or "..." stands here at the line's start.
func (p *parser) marker(text string) bool {
	return p.pos == p.bol && strings.HasPrefix(p.src[p.pos:], text) && blank(p.peek(len(text)))
}

// end reports whether the document ends here.
func (p *parser) end() bool { return p.eof() || p.marker("---") || p.marker("...") }

// indented refuses a tab before the present place of the line.
func (p *parser) indented() *syntaxError {
	if i := strings.IndexByte(p.src[p.bol:p.pos], '\t'); i >= 0 {
		return p.failAt(tabIndent, p.bol+i, "a tab indents this line; YAML takes only spaces")
	}
	return nil
}

func (p *parser) document() (*node, *syntaxError) {
	p.skip()
	for p.pos == p.bol && p.peek(0) == '%' {
		for !p.eof() && p.peek(0) != '\n' {
			p.pos++
		}
		p.skip()
		if p.peek(0) != '%' && !p.marker("---") {
			return nil, p.fail(other, "--- is missing after the directives")
		}
	}
	if p.marker("---") {
		p.pos += 3
		p.spaces()
		if p.lineEnd() {
			p.skip()
		}
	}
	if p.end() {
		return nil, p.documentEnd()
	}
	if err := p.indented(); err != nil {
		return nil, err
	}
	n, err := p.value(-1, atStart)
	if err != nil {
		return nil, err
	}
	return n, p.documentEnd()
}

// documentEnd refuses what stands behind the document.
func (p *parser) documentEnd() *syntaxError {
	for p.marker("...") || p.marker("---") {
		p.pos += 3
		p.skip()
	}
	if p.eof() {
		return nil
	}
	if p.pos > 3 && strings.HasPrefix(p.src[p.bol:], "---") || strings.Contains(p.src[:p.bol], "\n---") || strings.Contains(p.src[:p.bol], "\n...") {
		return p.fail(other, "a second document begins; one call is one document")
	}
	return p.fail(badIndent, "this line is indented less than the first one")
}

// newNode counts the values.
func (p *parser) newNode(kind nodeKind, at int) (*node, *syntaxError) {
	if p.nodes++; p.nodes > maxNodes {
		return nil, p.failAt(limit, at, "there are more than %d values", maxNodes)
	}
	return &node{kind: kind, at: at}, nil
}

// name reads the name of an anchor or alias, or a tag.
func (p *parser) name(flow bool) string {
	start := p.pos
	for !blank(p.peek(0)) && !(flow && strings.IndexByte(",[]{}", p.peek(0)) >= 0) {
		p.pos++
	}
	return p.src[start:p.pos]
}
