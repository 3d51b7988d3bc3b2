package yamlin

import "strings"

// flowValue reads a list or mapping in brackets within a block.
func (p *parser) flowValue(start int) (*node, *syntaxError) {
	n, err := p.flow()
	if err != nil {
		return nil, err.since(start)
	}
	if p.colon() {
		return nil, p.failAt(afterFlow, p.pos, "a list or mapping cannot be a key").since(start)
	}
	return n, p.finish(afterFlow, start, "there is text after the closing bracket")
}

// flow reads a value inside brackets, or the brackets themselves.
func (p *parser) flow() (*node, *syntaxError) {
	if p.depth++; p.depth > maxDepth {
		return nil, p.fail(limit, "values are nested more than %d deep", maxDepth)
	}
	defer func() { p.depth-- }()
	props, err := p.properties(true)
	if err != nil {
		return nil, err
	}
	if props.any() {
		p.skip()
	}
	var n *node
	switch c := p.peek(0); {
	case c == '[':
		n, err = p.flowSequence()
	case c == '{':
		n, err = p.flowMapping()
	case c == '*':
		n, err = p.aliasName(true)
	case c == '"' || c == '\'':
		n, err = p.quotedText(-1)
	case props.any() && strings.IndexByte(",]}", c) >= 0:
		n, err = p.newNode(plain, p.pos)
	default:
		n, err = p.flowPlain()
	}
	if err != nil {
		return nil, err
	}
	return n, p.decorate(n, props)
}

// flowPlain reads text without quotes inside brackets, which may go over lines.
func (p *parser) flowPlain() (*node, *syntaxError) {
	n, err := p.plainStart(true)
	if err != nil {
		return nil, err
	}
	var text strings.Builder
	text.WriteString(n.text)
	defer func() { n.text = text.String() }()
	for p.peek(0) == '\n' {
		breaks, pos, line, bol := 0, p.pos, p.line, p.bol
		for p.peek(0) == '\n' {
			p.newline()
			p.spaces()
			breaks++
		}
		if p.eof() || strings.IndexByte(",[]{}:#\"'", p.peek(0)) >= 0 {
			p.pos, p.line, p.bol = pos, line, bol
			return n, nil
		}
		text.WriteString(fold(breaks))
		text.WriteString(p.plainLine(true))
	}
	return n, nil
}

func (p *parser) flowSequence() (*node, *syntaxError) {
	open := p.pos
	s, err := p.newNode(sequence, open)
	if err != nil {
		return nil, err
	}
	p.pos++
	for {
		p.skip()
		switch p.peek(0) {
		case ']':
			p.pos++
			return s, nil
		case ',':
			return nil, p.fail(afterFlow, "a value is missing before the comma").since(open)
		case 0:
			return nil, p.failAt(afterFlow, open, "the bracket [ is never closed")
		}
		v, err := p.flow()
		if err != nil {
			return nil, err.since(open)
		}
		p.skip()
		if p.flowColon(v) {
			if v, err = p.flowPair(v); err != nil {
				return nil, err.since(open)
			}
		}
		s.items = append(s.items, v)
		if err := p.flowNext(']', open); err != nil {
			return nil, err
		}
	}
}

// flowNext takes the comma behind a value, or leaves the closing bracket.
func (p *parser) flowNext(closing byte, open int) *syntaxError {
	p.skip()
	switch p.peek(0) {
	case ',':
		p.pos++
		return nil
	case closing:
		return nil
	case 0:
		return p.failAt(afterFlow, open, "the bracket %c is never closed", p.src[open])
	}
	return p.fail(afterFlow, "a comma or %c must stand here", closing).since(open)
}

// flowColon reports whether a colon here makes key a key.
func (p *parser) flowColon(key *node) bool {
	next := p.peek(1)
	return p.peek(0) == ':' && (blank(next) || strings.IndexByte(",[]{}", next) >= 0 || key.kind == quoted)
}

// flowPair is a mapping of one pair, [a: b].
func (p *parser) flowPair(key *node) (*node, *syntaxError) {
	if key.kind == mapping || key.kind == sequence {
		return nil, p.fail(afterFlow, "a list or mapping cannot be a key")
	}
	m, err := p.newNode(mapping, key.at)
	if err != nil {
		return nil, err
	}
	v, err := p.flowPairValue()
	if err != nil {
		return nil, err
	}
	m.keys, m.items = []*node{key}, []*node{v}
	return m, nil
}

// flowPairValue reads what stands behind the colon.
func (p *parser) flowPairValue() (*node, *syntaxError) {
	p.pos++
	p.skip()
	if c := p.peek(0); c == ',' || c == '}' || c == ']' {
		return p.newNode(plain, p.pos)
	}
	return p.flow()
}

func (p *parser) flowMapping() (*node, *syntaxError) {
	open := p.pos
	m, err := p.newNode(mapping, open)
	if err != nil {
		return nil, err
	}
	p.pos++
	seen := map[string]int{}
	for {
		p.skip()
		switch p.peek(0) {
		case '}':
			p.pos++
			return m, nil
		case ',':
			return nil, p.fail(afterFlow, "a value is missing before the comma").since(open)
		case 0:
			return nil, p.failAt(afterFlow, open, "the bracket { is never closed")
		}
		key, err := p.flow()
		if err != nil {
			return nil, err.since(open)
		}
		if key.kind == mapping || key.kind == sequence {
			return nil, p.failAt(afterFlow, key.at, "a list or mapping cannot be a key").since(open)
		}
		if err := p.once(seen, key); err != nil {
			return nil, err
		}
		p.skip()
		var v *node
		if p.flowColon(key) {
			v, err = p.flowPairValue()
		} else {
			v, err = p.newNode(plain, p.pos)
		}
		if err != nil {
			return nil, err.since(open)
		}
		m.keys, m.items = append(m.keys, key), append(m.items, v)
		if err := p.flowNext('}', open); err != nil {
			return nil, err
		}
	}
}
