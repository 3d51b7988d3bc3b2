package yamlin

import (
	"strconv"
	"strings"
	"unicode/utf16"
)

// fold is what n line feeds between words of one text become.
func fold(n int) string {
	if n <= 1 {
		return " "
	}
	return strings.Repeat("\n", n-1)
}

// plainStart reads the first line of a text without quotes.
func (p *parser) plainStart(flow bool) (*node, *syntaxError) {
	c, next := p.peek(0), p.peek(1)
	bad := strings.IndexByte(",[]{}#&*!|>'\"%@`", c) >= 0
	if c == '-' || c == '?' || c == ':' {
		bad = blank(next) || flow && strings.IndexByte(",[]{}", next) >= 0
	}
	if bad && !p.eof() {
		return nil, p.fail(reserved, "a value that begins with %c must be in quotes", c)
	}
	n, err := p.newNode(plain, p.pos)
	if err != nil {
		return nil, err
	}
	n.text = p.plainLine(flow)
	return n, nil
}

// plainLine reads the part of a text without quotes that is in this line.
func (p *parser) plainLine(flow bool) string {
	start := p.pos
	for ; !p.eof(); p.pos++ {
		c := p.src[p.pos]
		if c == '\n' || c == '#' && p.pos > start && (p.src[p.pos-1] == ' ' || p.src[p.pos-1] == '\t') ||
			c == ':' && (blank(p.peek(1)) || flow && strings.IndexByte(",[]{}", p.peek(1)) >= 0) ||
			flow && strings.IndexByte(",[]{}", c) >= 0 {
			break
		}
	}
	text := strings.TrimRight(p.src[start:p.pos], " \t")
	if p.comment() {
		return text
	}
	p.pos = start + len(text)
	return text
}

// plainRest reads the further lines of a text without quotes: those indented
// more than what it belongs to.
func (p *parser) plainRest(n *node, parent, start int) *syntaxError {
	var text strings.Builder
	text.WriteString(n.text)
	defer func() { n.text = text.String() }()
	for {
		p.spaces()
		if p.comment() || p.eof() {
			p.skip()
			if p.end() || p.col() <= parent {
				return nil
			}
			return p.fail(badIndent, "this line is indented by %d spaces and belongs to nothing", p.col())
		}
		breaks := 0
		for p.peek(0) == '\n' {
			p.newline()
			p.spaces()
			breaks++
		}
		if p.eof() || p.end() || p.peek(0) == '#' || p.col() <= parent {
			p.skip()
			if !p.end() && p.col() > parent {
				return p.fail(badIndent, "this line is indented by %d spaces and belongs to nothing", p.col())
			}
			return nil
		}
		if lead := p.src[p.bol:p.pos]; len(lead)-len(strings.TrimLeft(lead, " ")) <= parent {
			return p.indented() // only tabs indent it enough
		}
		line := p.pos
		text.WriteString(fold(breaks))
		text.WriteString(p.plainLine(false))
		if p.colon() {
			return p.failAt(badIndent, line, "this line is indented by %d spaces, but the line above it is no key of it", p.col()-(p.pos-line)).since(start)
		}
	}
}

// quotedText reads a text in quotes. Its further lines must be indented more
// than parent.
func (p *parser) quotedText(parent int) (*node, *syntaxError) {
	n, err := p.newNode(quoted, p.pos)
	if err != nil {
		return nil, err
	}
	open, quote := p.pos, p.src[p.pos]
	p.pos++
	var text []byte
	keep := 0 // so many bytes are not trimmed as blanks before a line feed
	for {
		run := p.pos
		for run < len(p.src) && p.src[run] != quote && p.src[run] != '\n' && (p.src[run] != '\\' || quote == '\'') {
			run++
		}
		text = append(text, p.src[p.pos:run]...)
		p.pos = run
		if p.eof() {
			return nil, p.failAt(other, open, "the quote %c is never closed", quote)
		}
		switch p.src[p.pos] {
		case quote:
			p.pos++
			if quote == '\'' && p.peek(0) == '\'' {
				text = append(text, '\'')
				p.pos++
				continue
			}
			n.text = string(text)
			return n, nil
		case '\\':
			if text, err = p.escape(text, open, parent); err != nil {
				return nil, err
			}
			keep = len(text)
		case '\n':
			for len(text) > keep && (text[len(text)-1] == ' ' || text[len(text)-1] == '\t') {
				text = text[:len(text)-1]
			}
			breaks, err := p.quotedBreak(open, parent)
			if err != nil {
				return nil, err
			}
			text = append(text, fold(breaks)...)
			keep = len(text)
		}
	}
}

// quotedBreak goes over line feeds in quotes and counts them.
func (p *parser) quotedBreak(open, parent int) (int, *syntaxError) {
	breaks := 0
	for p.peek(0) == '\n' {
		p.newline()
		p.spaces()
		breaks++
	}
	if !p.eof() && p.col() <= parent || p.marker("---") || p.marker("...") {
		return 0, p.fail(other, "the text in quotes of line %d goes on here, but is not indented; use key: | for text of several lines", p.failAt(other, open, "").line)
	}
	return breaks, nil
}

var escapes = map[byte]string{
	'0': "\x00", 'a': "\a", 'b': "\b", 't': "\t", '\t': "\t", 'n': "\n", 'v': "\v", 'f': "\f", 'r': "\r",
	'e': "\x1b", ' ': " ", '"': `"`, '/': "/", '\\': `\`, 'N': "\u0085", '_': "\u00a0", 'L': "\u2028", 'P': "\u2029",
}

// escape reads what a backslash in double quotes begins.
func (p *parser) escape(text []byte, open, parent int) ([]byte, *syntaxError) {
	at, c := p.pos, p.peek(1)
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
	switch {
	case c == '\n':
		p.pos++
		breaks, err := p.quotedBreak(open, parent)
		if err != nil {
			return nil, err
		}
		return append(text, strings.Repeat("\n", breaks-1)...), nil
	case digits > 0:
		r, ok := p.hex(at+2, digits)
		p.pos += 2 + digits
		if ok && utf16.IsSurrogate(r) {
			ok = false
			if low, is := p.hex(p.pos+2, 4); is && strings.HasPrefix(p.src[p.pos:], `\u`) {
				if r = utf16.DecodeRune(r, low); r != '\uFFFD' {
					p.pos, ok = p.pos+6, true
				}
			}
		}
		if ok && r <= 0x10FFFF {
			return append(text, string(r)...), nil
		}
	default:
		if plain, ok := escapes[c]; ok {
			p.pos += 2
			return append(text, plain...), nil
		}
	}
	end := min(at+2, len(p.src))
	return nil, p.failAt(badEscape, at, "%s escapes nothing; write \\\\ for a backslash, or use single quotes", p.src[at:end]).since(open)
}

// hex reads digits at an offset.
func (p *parser) hex(at, digits int) (rune, bool) {
	if at+digits > len(p.src) {
		return 0, false
	}
	n, err := strconv.ParseUint(p.src[at:at+digits], 16, 32)
	return rune(n), err == nil && n <= 0x10FFFF
}

// blockScalar reads the text below | or >.
func (p *parser) blockScalar(parent, start int) (*node, *syntaxError) {
	n, err := p.newNode(quoted, p.pos)
	if err != nil {
		return nil, err
	}
	folded := p.peek(0) == '>'
	p.pos++
	indent, chomp := 0, byte(0)
	for {
		c := p.peek(0)
		if (c == '+' || c == '-') && chomp == 0 {
			chomp = c
		} else if c >= '1' && c <= '9' && indent == 0 {
			indent = max(parent, 0) + int(c-'0')
		} else {
			break
		}
		p.pos++
	}
	at := p.pos
	p.spaces()
	if !p.lineEnd() || p.peek(0) == '#' && p.pos == at {
		return nil, p.fail(reserved, "the text of | or > begins in the next line; put the value in quotes if this is text").since(start)
	}
	for !p.eof() && p.peek(0) != '\n' {
		p.pos++
	}
	if !p.eof() {
		p.newline()
	}
	lines, err := p.blockLines(parent, indent)
	if err != nil {
		return nil, err
	}
	n.text = join(lines, folded, chomp)
	p.skip()
	return n, nil
}

// blockLines reads lines that are indented by indent, or more than parent if
// that is 0, without their indentation.
func (p *parser) blockLines(parent, indent int) ([]string, *syntaxError) {
	var lines []string
	for !p.eof() {
		line, _, _ := strings.Cut(p.src[p.pos:], "\n")
		lead := len(line) - len(strings.TrimLeft(line, " "))
		empty := lead == len(line)
		if indent == 0 && !empty {
			if line[lead] == '\t' && lead <= parent {
				return nil, p.failAt(tabIndent, p.pos+lead, "a tab indents this line; YAML takes only spaces")
			}
			if lead <= parent || parent < 0 && p.end() {
				break
			}
			indent = lead
			if indent == 0 {
				indent = -1 // at column 0 of a document that is one text
			}
		}
		switch {
		case empty && (indent <= 0 || lead <= indent):
			lines = append(lines, "")
		case lead >= max(indent, 0) && !(indent <= 0 && p.end()):
			lines = append(lines, line[max(indent, 0):])
		case !empty && line[lead] == '\t':
			return nil, p.failAt(tabIndent, p.pos+lead, "a tab indents this line; YAML takes only spaces")
		default:
			return lines, nil
		}
		p.pos += len(line)
		if !p.eof() {
			p.newline()
		}
	}
	return lines, nil
}

// join makes the text of a block from its lines. A text that ends the whole
// input ends with a line feed as any other, also where the last one was lost.
func join(lines []string, folded bool, chomp byte) string {
	var b strings.Builder
	feed, trailing, blankBefore := false, 0, false
	for _, line := range lines {
		if line == "" {
			trailing++
			continue
		}
		blankNow := line[0] == ' ' || line[0] == '\t'
		switch {
		case feed && folded && !blankBefore && !blankNow:
			if trailing == 0 {
				b.WriteByte(' ')
			}
		case feed:
			b.WriteByte('\n')
		}
		for range trailing {
			b.WriteByte('\n')
		}
		trailing, feed, blankBefore = 0, true, blankNow
		b.WriteString(line)
	}
	if feed && chomp != '-' {
		b.WriteByte('\n')
	}
	if chomp == '+' {
		for range trailing {
			b.WriteByte('\n')
		}
	}
	return b.String()
}
