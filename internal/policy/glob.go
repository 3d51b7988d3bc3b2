package policy

import "strings"

// wildcard matches s against a pattern in which "*" is any run of bytes.
func wildcard(pattern, s string) bool {
	p, i := 0, 0
	star, mark := -1, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, i
			p++
		case p < len(pattern) && pattern[p] == s[i]:
			p++
			i++
		case star >= 0:
			mark++
			p, i = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// glob is a pattern of a whole string: "*" is any run, "\" makes the next
// character plain.
type glob struct {
	pieces []string // between the stars
}

func compileGlob(text string) glob {
	var g glob
	var piece strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text):
			i++
			piece.WriteByte(text[i])
		case text[i] == '*':
			g.pieces = append(g.pieces, piece.String())
			piece.Reset()
		default:
			piece.WriteByte(text[i])
		}
	}
	g.pieces = append(g.pieces, piece.String())
	return g
}

// match: the first piece begins s, the last ends it, the others come between in
// order. The leftmost place of each is always good enough.
func (g glob) match(s string) bool {
	last := len(g.pieces) - 1
	if last == 0 {
		return s == g.pieces[0]
	}
	s, ok := strings.CutPrefix(s, g.pieces[0])
	if !ok {
		return false
	}
	for _, piece := range g.pieces[1:last] {
		i := strings.Index(s, piece)
		if i < 0 {
			return false
		}
		s = s[i+len(piece):]
	}
	return strings.HasSuffix(s, g.pieces[last])
}

// escapeGlob makes text match only itself.
func escapeGlob(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`).Replace(text)
}
