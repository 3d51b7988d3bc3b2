package search

import (
	"bytes"
	"errors"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/toolyard/toolyard/tool"
)

// Pattern is what grep looks for. It is safe for concurrent use.
type Pattern struct {
	prog *syntax.Prog
	lits []lit
	also [][]byte // what each matching line holds besides
	// whole says that to find the one literal is to match.
	whole bool
	// spans is set in multi-line mode: what finds matches over several lines.
	spans *regexp.Regexp
}

// PatternOptions change how a pattern is read. The zero value is a regular
// expression that minds case and is matched line by line.
type PatternOptions struct {
	Literal    bool // the text stands for itself
	IgnoreCase bool
	Multiline  bool // a match may hold newlines
}

// Compile prepares a pattern. Errors are *tool.Error with code PARAMETER_ERROR
// that show the place.
func Compile(text string, o PatternOptions) (*Pattern, error) {
	if !utf8.ValidString(text) {
		return nil, tool.Errorf(tool.ParameterError, "the pattern is not UTF-8")
	}
	flags := syntax.Perl &^ syntax.OneLine
	if o.IgnoreCase {
		flags |= syntax.FoldCase
	}
	source := text
	if o.Literal {
		source = regexp.QuoteMeta(text)
	}
	// The text as it was written is parsed first, so that a fault is shown in it.
	if _, err := syntax.Parse(source, flags); err != nil {
		return nil, badPattern(text, err)
	}
	parsed, err := syntax.Parse(unicodeClasses(source), flags)
	if err != nil {
		return nil, badPattern(text, err)
	}
	if !o.Multiline && wantsNewline(parsed) {
		return nil, tool.Errorf(tool.ParameterError, "the pattern holds a newline, but lines are matched one by one").
			WithHint("Set multiline: true to match over several lines.")
	}
	p := &Pattern{}
	var also []string
	p.lits, also, p.whole = literals(parsed)
	for _, text := range also {
		p.also = append(p.also, []byte(text))
	}
	if p.prog, err = syntax.Compile(parsed.Simplify()); err != nil {
		return nil, badPattern(text, err)
	}
	if o.Multiline {
		prefix := "(?m)"
		if o.IgnoreCase {
			prefix = "(?mi)"
		}
		if p.spans, err = regexp.Compile(prefix + unicodeClasses(source)); err != nil {
			return nil, badPattern(text, err)
		}
		p.whole = false
	}
	return p, nil
}

// wantsNewline reports whether the text of re names a newline.
func wantsNewline(re *syntax.Regexp) bool {
	if re.Op == syntax.OpLiteral && strings.ContainsRune(string(re.Rune), '\n') {
		return true
	}
	for _, sub := range re.Sub {
		if wantsNewline(sub) {
			return true
		}
	}
	return false
}

// badPattern shows where an expression is wrong.
func badPattern(text string, err error) error {
	why, at := err.Error(), -1
	if e, ok := errors.AsType[*syntax.Error](err); ok {
		why = e.Code.String()
		if e.Expr != "" && e.Code != syntax.ErrMissingParen && e.Code != syntax.ErrLarge && e.Code != syntax.ErrNestingDepth {
			at = strings.LastIndex(text, e.Expr)
		}
		switch e.Code {
		case syntax.ErrMissingParen:
			at = openParen(text)
		case syntax.ErrUnexpectedParen:
			at = strayParen(text)
		case syntax.ErrInvalidPerlOp:
			why = "RE2 has no look-around and no back-references: " + e.Expr
		case syntax.ErrMissingBracket:
			at = strings.Index(text, e.Expr)
		}
	}
	hint := "The syntax is RE2. Put a backslash before a character that stands for itself, or set literal: true to search the text as it is."
	if at < 0 {
		return tool.Errorf(tool.ParameterError, "the pattern %q is not a valid regular expression: %s", text, why).WithHint("%s", hint)
	}
	return tool.Errorf(tool.ParameterError, "the pattern is not a valid regular expression: %s at position %d\n  %s\n  %s^", why, utf8.RuneCountInString(text[:at])+1,
		strings.ReplaceAll(text, "\n", " "), strings.Repeat(" ", utf8.RuneCountInString(text[:at]))).
		WithHint("%s", hint).WithDetail("position", utf8.RuneCountInString(text[:at])+1)
}

// parens calls each for every parenthesis that groups.
func parens(text string, each func(i int, open bool)) {
	inClass := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case inClass:
			inClass = c != ']'
		case c == '[':
			inClass = true
			if i+1 < len(text) && text[i+1] == '^' {
				i++
			}
			if i+1 < len(text) && text[i+1] == ']' {
				i++
			}
		case c == '(' || c == ')':
			each(i, c == '(')
		}
	}
}

// openParen is the last parenthesis that nothing closes.
func openParen(text string) int {
	var stack []int
	parens(text, func(i int, open bool) {
		if open {
			stack = append(stack, i)
		} else if len(stack) > 0 {
			stack = stack[:len(stack)-1]
		}
	})
	if len(stack) == 0 {
		return -1
	}
	return stack[len(stack)-1]
}

// strayParen is the first closing parenthesis that nothing opened.
func strayParen(text string) int {
	depth, at := 0, -1
	parens(text, func(i int, open bool) {
		if open {
			depth++
		} else if depth--; depth < 0 && at < 0 {
			at = i
		}
	})
	return at
}

// finder finds matching lines in buffers. It belongs to one goroutine.
type finder struct {
	p       *Pattern
	auto    *automaton
	needles *needles
}

func newFinder(p *Pattern, done func() bool) *finder {
	f := &finder{p: p}
	if !p.whole {
		f.auto = newAutomaton(p.prog, done)
	}
	if len(p.lits) > 0 {
		f.needles = newNeedles(p.lits)
	}
	return f
}

// next finds the first matching line of data at or after pos, which is at the
// beginning of a line. end is the index of its newline, or len(data).
func (f *finder) next(data []byte, pos int) (start, end int, ok bool) {
	if f.needles == nil {
		return f.auto.next(data, pos)
	}
	for pos < len(data) {
		i := f.needles.index(data, pos)
		if i < 0 {
			return 0, 0, false
		}
		start, end = lineStart(data, i, pos), lineEnd(data, i)
		if f.p.whole || (f.p.holdsAlso(data[start:end]) && f.auto.line(data[start:end])) {
			return start, end, true
		}
		pos = end + 1
	}
	return 0, 0, false
}

// holdsAlso reports whether a line has the further literals.
func (p *Pattern) holdsAlso(line []byte) bool {
	for _, text := range p.also {
		if !bytes.Contains(line, text) {
			return false
		}
	}
	return true
}
