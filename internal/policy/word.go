package policy

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// word is one word of a command as far as it is known before the shell runs.
type word struct {
	text    string // unquoted; unknown stands for what is not known
	dynamic bool   // holds unknown
	glob    bool   // file names may be put in its place
	source  string // as written; "" where it is not known
}

const unknownText = string(rune(unknown))

// maxBraces bounds how many words one brace expansion may give.
const maxBraces = 64

// words reads one word of the source: one word, or several if it holds braces.
func (a *analysis) words(w *syntax.Word) []word {
	if !a.posix && hasBrace(w) {
		split := &syntax.Word{Parts: append([]syntax.WordPart(nil), w.Parts...)}
		if syntax.SplitBraces(split) {
			return a.braces(split)
		}
		if looksLikeBraces(w) { // bash may see an expansion where the parser sees none
			return []word{{text: unknownText, dynamic: true}}
		}
	}
	return []word{a.word(w)}
}

func (a *analysis) braces(split *syntax.Word) []word {
	tooMany := []word{{text: unknownText, dynamic: true}}
	if countBraces(split) > maxBraces {
		return tooMany
	}
	var all []word
	for each, err := range expand.BracesSeq(nil, split) {
		if err != nil {
			return tooMany
		}
		all = append(all, a.word(each))
	}
	return all
}

// looksLikeBraces reports whether the unquoted text of w holds a brace and a
// comma or two dots.
func looksLikeBraces(w *syntax.Word) bool {
	text := ""
	for _, part := range w.Parts {
		if lit, ok := part.(*syntax.Lit); ok {
			text += lit.Value
		}
	}
	return strings.Contains(text, ",") || strings.Contains(text, "..")
}

func hasBrace(w *syntax.Word) bool {
	for _, part := range w.Parts {
		if lit, ok := part.(*syntax.Lit); ok && strings.Contains(lit.Value, "{") {
			return true
		}
	}
	return false
}

// countBraces says how many words a brace expansion gives, at least. Sequences
// count as too many: {1..9} names nothing that a rule could spell out.
func countBraces(w *syntax.Word) int {
	n := 1
	for _, part := range w.Parts {
		brace, ok := part.(*syntax.BraceExp)
		if !ok {
			continue
		}
		if brace.Sequence {
			return maxBraces + 1
		}
		sum := 0
		for _, e := range brace.Elems {
			sum += countBraces(e)
		}
		if n *= sum; n > maxBraces {
			return n
		}
	}
	return n
}

// word reads one word with no braces to expand.
func (a *analysis) word(w *syntax.Word) word {
	if w == nil {
		return word{}
	}
	if len(w.Parts) == 1 {
		if lit, ok := w.Parts[0].(*syntax.Lit); ok && !strings.ContainsAny(lit.Value, `\*?[`) {
			return word{text: lit.Value}
		}
	}
	var out word
	var b strings.Builder
	for _, part := range w.Parts {
		a.wordPart(part, &b, &out)
	}
	out.text = b.String()
	if out.dynamic {
		out.source = a.of(w)
	}
	return out
}

func (a *analysis) wordPart(part syntax.WordPart, b *strings.Builder, out *word) {
	dynamic := func() {
		b.WriteByte(unknown)
		out.dynamic = true
	}
	switch part := part.(type) {
	case *syntax.Lit:
		out.glob = unquote(part.Value, b) || out.glob
	case *syntax.SglQuoted:
		text, ok := part.Value, true
		if part.Dollar {
			text, ok = ansiC(text)
		}
		if !ok {
			dynamic()
			return
		}
		b.WriteString(text)
	case *syntax.DblQuoted:
		if part.Dollar { // a translation, which is looked up when it runs
			dynamic()
		}
		for _, inner := range part.Parts {
			if lit, ok := inner.(*syntax.Lit); ok {
				unquoteDouble(lit.Value, b)
				continue
			}
			a.wordPart(inner, b, out)
		}
	case *syntax.ExtGlob:
		out.glob = true
		dynamic()
	default: // parameter, command, arithmetic, process substitution
		a.expansion(part)
		dynamic()
	}
}

// unquote takes the backslashes off an unquoted literal and reports whether an
// unquoted glob character is in it.
func unquote(s string, b *strings.Builder) (glob bool) {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			if i+1 < len(s) {
				i++
			}
		case '*', '?', '[':
			glob = true
		}
		b.WriteByte(s[i])
	}
	return glob
}

func unquoteDouble(s string, b *strings.Builder) {
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("$`\"\\\n", s[i+1]) >= 0 {
			i++
			if s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
}

// ansiC decodes $'…'. What bash and others read differently is not decoded.
func ansiC(s string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		i++
		if i >= len(s) {
			return "", false
		}
		if plain := strings.IndexByte(`abeEfnrtv\'"?`, s[i]); plain >= 0 {
			b.WriteByte("\a\b\x1b\x1b\f\n\r\t\v\\'\"?"[plain])
			continue
		}
		n, ok := escapeCode(s, i, &b)
		if !ok {
			return "", false
		}
		i += n - 1
	}
	text := b.String()
	return text, utf8.ValidString(text) && !strings.ContainsAny(text, "\x00\x01\x02")
}

// escapeCode decodes \x41, \101, \u0041 or \U00000041 at s[i:] and says how many
// bytes of it there were.
func escapeCode(s string, i int, b *strings.Builder) (int, bool) {
	base, from, longest := 16, i+1, 2
	switch s[i] {
	case 'x':
	case 'u':
		longest = 4
	case 'U':
		longest = 8
	case '0', '1', '2', '3', '4', '5', '6', '7':
		base, from, longest = 8, i, 3
	default:
		return 0, false
	}
	end := from
	for end < len(s) && end-from < longest {
		if _, err := strconv.ParseUint(s[end:end+1], base, 8); err != nil {
			break
		}
		end++
	}
	code, err := strconv.ParseUint(s[from:end], base, 32)
	if err != nil {
		return 0, false
	}
	if longest > 3 {
		b.WriteRune(rune(code))
	} else {
		b.WriteByte(byte(code))
	}
	return end - i, true
}
