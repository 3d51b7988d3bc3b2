package host

import (
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"

	"github.com/toolyard/toolyard/internal/toolbox/definition"
)

// Bounds of matching.
const (
	maxPattern = 2000 // bytes of a regular expression
	maxMatched = 8 << 10
)

// matches reports whether a message is of a business error. Its expression is
// JavaScript's or Python's; of its alternatives those count that Go can read, and
// of the others the text that they have without special characters.
func matches(e *definition.BusinessError, text string) bool {
	if e.Match == "" || len(e.Match) > maxPattern || text == "" {
		return false
	}
	if len(text) > maxMatched {
		text = text[:maxMatched]
	}
	flags := goFlags(e.Flags)
	if re := compile(flags, e.Match); re != nil {
		return re.MatchString(text)
	}
	for _, part := range alternatives(e.Match) {
		if re := compile(flags, part); re != nil {
			if re.MatchString(text) {
				return true
			}
			continue
		}
		if plain, ok := literal(part); ok && contains(text, plain, strings.Contains(flags, "i")) {
			return true
		}
	}
	return false
}

func contains(text, part string, fold bool) bool {
	if fold {
		text, part = strings.ToLower(text), strings.ToLower(part)
	}
	return strings.Contains(text, part)
}

// goFlags are those that mean the same here.
func goFlags(flags string) string {
	var known string
	for _, f := range "ims" {
		if strings.ContainsRune(flags, f) {
			known += string(f)
		}
	}
	return known
}

func compile(flags, source string) *regexp.Regexp {
	source = translate(source)
	if flags != "" {
		source = "(?" + flags + ")" + source
	}
	parsed, err := syntax.Parse(source, syntax.Perl)
	if err != nil || size(parsed) > maxProgram {
		return nil
	}
	re, err := regexp.Compile(source)
	if err != nil {
		return nil
	}
	return re
}

// maxProgram bounds what an expression becomes when its repeats are written out.
const maxProgram = 50_000

func size(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		n += size(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return min(n, 2*maxProgram)
}

// translate writes what JavaScript has and Go has not in Go's way.
func translate(source string) string {
	var out strings.Builder
	inClass := false
	for i := 0; i < len(source); i++ {
		c := source[i]
		switch {
		case c == '\\' && i+1 < len(source):
			i++
			i += escape(&out, source[i:])
		case c == '[' && !inClass:
			rest := source[i:]
			switch {
			case strings.HasPrefix(rest, "[^]"):
				out.WriteString(`[\s\S]`)
				i += 2
			case strings.HasPrefix(rest, "[]"):
				out.WriteString(`[^\s\S]`)
				i++
			default:
				inClass = true
				out.WriteByte(c)
				if strings.HasPrefix(rest, "[^") {
					out.WriteByte('^')
					i++
				}
			}
		case c == '[' && inClass:
			out.WriteString(`\[`)
		case c == ']' && inClass:
			inClass = false
			out.WriteByte(c)
		default:
			out.WriteByte(c)
		}
	}
	return out.String()
}

// escape writes the escape whose backslash was before rest and tells how many
// bytes beyond the first it took.
func escape(out *strings.Builder, rest string) int {
	hex := func(digits string) bool {
		n, err := strconv.ParseUint(digits, 16, 32)
		if err == nil {
			out.WriteString(`\x{` + strconv.FormatUint(n, 16) + "}")
		}
		return err == nil
	}
	c := rest[0]
	switch {
	case c == 'u' && strings.HasPrefix(rest, "u{"):
		if end := strings.IndexByte(rest, '}'); end > 2 && hex(rest[2:end]) {
			return end
		}
	case c == 'u' && len(rest) >= 5 && hex(rest[1:5]):
		return 4
	case c == 'x' && len(rest) >= 3 && hex(rest[1:3]):
		return 2
	case c == 'k' && strings.HasPrefix(rest, "k<"), c >= '1' && c <= '9':
		out.WriteString(`\` + string(c)) // a back reference: Go has none and says so
		return 0
	}
	if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
		if !strings.ContainsRune("dDwWsSbBnrtfvpP", rune(c)) {
			out.WriteByte(c) // means itself
			return 0
		}
	}
	if c >= 0x80 {
		out.WriteByte(c)
		return 0
	}
	out.WriteByte('\\')
	out.WriteByte(c)
	return 0
}

// alternatives splits at the bars that stand outside of all brackets.
func alternatives(source string) []string {
	var parts []string
	depth, inClass, start := 0, false, 0
	for i := 0; i < len(source); i++ {
		switch c := source[i]; {
		case c == '\\':
			i++
		case inClass:
			inClass = c != ']'
		case c == '[':
			inClass = true
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == '|' && depth == 0:
			parts = append(parts, source[start:i])
			start = i + 1
		}
	}
	return append(parts, source[start:])
}

// literal is the text of an expression that has nothing special in it.
func literal(source string) (string, bool) {
	var out strings.Builder
	for i := 0; i < len(source); i++ {
		c := source[i]
		if strings.IndexByte(`.*+?()[]{}^$|`, c) >= 0 {
			return "", false
		}
		if c == '\\' {
			i++
			if i == len(source) || source[i] >= '0' && source[i] <= '9' || source[i] >= 'a' && source[i] <= 'z' || source[i] >= 'A' && source[i] <= 'Z' {
				return "", false
			}
			c = source[i]
		}
		out.WriteByte(c)
	}
	return out.String(), out.Len() > 0
}
