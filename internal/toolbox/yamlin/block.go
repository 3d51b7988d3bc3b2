package yamlin

import "strings"

// place is what stands before a value.
type place uint8

const (
	atStart place = iota // nothing: it is the document
	afterKey
	afterDash
)

// properties are what may stand before a value.
type properties struct {
	anchor   string
	anchorAt int
	tag      string
	tagAt    int
}

func (q properties) any() bool { return q.anchor != "" || q.tag != "" }

// start is where the first of them stands.
func (q properties) start() int {
	if q.tag == "" || q.anchor != "" && q.anchorAt < q.tagAt {
		return q.anchorAt
	}
	return q.tagAt
}

// value reads a value that belongs to what is at column parent, and goes on to
// the first character behind it that is no comment.
func (p *parser) value(parent int, where place) (*node, *syntaxError) {
	if p.depth++; p.depth > maxDepth {
		return nil, p.fail(limit, "values are nested more than %d deep", maxDepth)
	}
	defer func() { p.depth-- }()
	p.spaces()
	props, err := p.properties(false)
	if err != nil {
		return nil, err
	}
	inline, beside := where == afterKey, props // what stands in the line of the value
	if p.lineEnd() {
		at := p.pos
		p.skip()
		col := p.col()
		if p.end() || col <= parent && !(where == afterKey && col == parent && p.dash()) {
			n, err := p.newNode(plain, at)
			if err != nil {
				return nil, err
			}
			return n, p.decorate(n, props)
		}
		if err := p.indented(); err != nil {
			return nil, err
		}
		inline, beside = false, properties{}
		if !props.any() {
			if props, err = p.properties(false); err != nil {
				return nil, err
			}
			beside = props
		}
	}
	n, err := p.content(parent, where, inline, beside)
	if err != nil {
		return nil, err
	}
	return n, p.decorate(n, props)
}

// content reads a value whose first character stands here. inline says that a
// key stands before it in the line.
func (p *parser) content(parent int, where place, inline bool, props properties) (*node, *syntaxError) {
	start, col := p.pos, p.col()
	if props.any() {
		start = props.start()
	}
	switch c := p.peek(0); {
	case p.dash():
		if inline {
			return nil, p.fail(listOnKey, "a list cannot begin in the line of its key; put the first item in the next line")
		}
		if where != atStart {
			if err := p.indented(); err != nil {
				return nil, err
			}
		}
		return p.sequence(col)
	case c == '?' && blank(p.peek(1)):
		return nil, p.fail(reserved, "keys with ? are not taken here; put the value in quotes if text is meant")
	case c == '|' || c == '>':
		return p.blockScalar(parent, start)
	case c == '[' || c == '{':
		return p.flowValue(start)
	case c == '*':
		return p.alias(start)
	case c == '"' || c == '\'':
		n, err := p.quotedText(parent)
		if err != nil {
			return nil, err
		}
		return p.keyOr(n, start, col, inline, props, func() *syntaxError {
			return p.finish(afterQuote, start, "there is text after the closing quote")
		})
	}
	n, err := p.plainStart(false)
	if err != nil {
		return nil, err.since(start)
	}
	return p.keyOr(n, start, col, inline, props, func() *syntaxError { return p.plainRest(n, parent, start) })
}

// keyOr turns n into the first key of a mapping if a colon follows; else it is
// the value, and rest reads what is left of it.
func (p *parser) keyOr(n *node, start, col int, inline bool, props properties, rest func() *syntaxError) (*node, *syntaxError) {
	if !p.colon() {
		return n, rest()
	}
	if inline {
		return nil, p.fail(nestedColon, "a value with \": \" in it must be in quotes").since(start)
	}
	if props.any() {
		return nil, p.failAt(reserved, start, "a key can have neither anchor nor tag here")
	}
	if err := p.indented(); err != nil {
		return nil, err
	}
	return p.mapping(col, n)
}

// colon goes over blanks to a colon that ends a key, if there is one.
func (p *parser) colon() bool {
	at := p.pos
	for at < len(p.src) && (p.src[at] == ' ' || p.src[at] == '\t') {
		at++
	}
	if at >= len(p.src) || p.src[at] != ':' || at+1 < len(p.src) && !blank(p.src[at+1]) {
		return false
	}
	p.pos = at
	return true
}

// dash reports whether an item of a list begins here.
func (p *parser) dash() bool { return p.peek(0) == '-' && blank(p.peek(1)) }

// finish takes the end of the line behind a value and goes on.
func (p *parser) finish(kind mistake, start int, what string) *syntaxError {
	at := p.pos
	p.spaces()
	if !p.lineEnd() || p.peek(0) == '#' && p.pos == at {
		return p.fail(kind, "%s", what).since(start)
	}
	p.skip()
	return nil
}

// mapping reads the pairs at a column; the position is on the first key's colon.
func (p *parser) mapping(col int, key *node) (*node, *syntaxError) {
	m, err := p.newNode(mapping, key.at)
	if err != nil {
		return nil, err
	}
	seen := map[string]int{}
	for {
		if err := p.once(seen, key); err != nil {
			return nil, err
		}
		p.pos++ // the colon
		v, err := p.value(col, afterKey)
		if err != nil {
			return nil, err
		}
		m.keys, m.items = append(m.keys, key), append(m.items, v)
		if p.end() || p.col() < col {
			return m, nil
		}
		if err := p.indented(); err != nil {
			return nil, err
		}
		if p.col() > col {
			return nil, p.fail(badIndent, "this line is indented by %d spaces, its neighbours by %d", p.col(), col)
		}
		if key, err = p.key(); err != nil {
			return nil, err
		}
	}
}

// once refuses a key that was there before.
func (p *parser) once(seen map[string]int, key *node) *syntaxError {
	if line, twice := seen[key.text]; twice {
		return p.failAt(other, key.at, "the key %q stands here again; it was in line %d", short(key.text), line)
	}
	seen[key.text] = p.line
	return nil
}

func short(s string) string {
	const longest = 60
	if len(s) > longest {
		return strings.ToValidUTF8(s[:longest], "") + "…"
	}
	return s
}

// key reads a further key of a mapping up to its colon.
func (p *parser) key() (*node, *syntaxError) {
	start := p.pos
	var n *node
	var err *syntaxError
	switch c := p.peek(0); {
	case p.dash():
		return nil, p.fail(badIndent, "an item of a list stands among keys; indent it like its list")
	case c == '?' && blank(p.peek(1)):
		return nil, p.fail(reserved, "keys with ? are not taken here")
	case c == '"' || c == '\'':
		n, err = p.quotedText(p.col())
	case c == '[' || c == '{':
		return nil, p.fail(reserved, "a key must be text")
	default:
		n, err = p.plainStart(false)
	}
	if err != nil {
		return nil, err.since(start)
	}
	if !p.colon() {
		return nil, p.failAt(noColon, start, "a key with \": \" behind it must stand here")
	}
	return n, nil
}

// sequence reads the items at a column; the position is on the first dash.
func (p *parser) sequence(col int) (*node, *syntaxError) {
	s, err := p.newNode(sequence, p.pos)
	if err != nil {
		return nil, err
	}
	for {
		p.pos++ // the dash
		v, err := p.value(col, afterDash)
		if err != nil {
			return nil, err
		}
		s.items = append(s.items, v)
		if p.end() || p.col() < col {
			return s, nil
		}
		if err := p.indented(); err != nil {
			return nil, err
		}
		if p.col() > col {
			return nil, p.fail(badIndent, "this line is indented by %d spaces, the list by %d", p.col(), col)
		}
		if !p.dash() {
			return s, nil
		}
	}
}

// properties reads an anchor and a tag.
func (p *parser) properties(flow bool) (properties, *syntaxError) {
	var q properties
	for {
		at := p.pos
		switch c := p.peek(0); {
		case c == '&' && q.anchor == "":
			p.pos++
			if q.anchor, q.anchorAt = p.name(flow), at; q.anchor == "" {
				return q, p.failAt(reserved, at, "a value that begins with & must be in quotes")
			}
		case c == '!' && q.tag == "":
			if q.tag, q.tagAt = p.name(flow), at; !knownTag(q.tag) {
				return q, p.failAt(reserved, at, "the tag %s is not known; put the value in quotes if text is meant", short(q.tag))
			}
		default:
			return q, nil
		}
		p.spaces()
	}
}

// decorate gives a value its anchor and tag.
func (p *parser) decorate(n *node, q properties) *syntaxError {
	if q.tag != "" {
		if n.tag != "" || !tagFits(q.tag, n) {
			return p.failAt(reserved, q.tagAt, "the value is no %s", q.tag)
		}
		n.tag = q.tag
	}
	if q.anchor != "" {
		p.anchors[q.anchor] = &anchor{node: n, at: q.anchorAt, used: p.anchors[q.anchor] != nil && p.anchors[q.anchor].used}
	}
	return nil
}

// alias reads *name.
func (p *parser) alias(start int) (*node, *syntaxError) {
	n, err := p.aliasName(false)
	if err != nil {
		return nil, err
	}
	if p.colon() {
		return nil, p.failAt(reserved, start, "an alias cannot be a key here")
	}
	return n, p.finish(reserved, start, "there is text after the alias; put the value in quotes if text is meant")
}

func (p *parser) aliasName(flow bool) (*node, *syntaxError) {
	at := p.pos
	p.pos++
	name := p.name(flow)
	a := p.anchors[name]
	if a == nil {
		return nil, p.failAt(reserved, at, "*%s refers to nothing; put the value in quotes if text is meant", short(name))
	}
	a.used = true
	return a.node, nil
}
