package deps

import (
	"path"
	"strings"
	"unicode"
)

// maxSource bounds a source file that is looked through, in bytes.
const maxSource = 8 << 20

// token is a piece of JavaScript: a word, a string (its content), or one
// character of anything else.
type token struct {
	kind byte // 'w', 's' or 'p'
	text string
	// first says that nothing is before it in its statement, as far as that shows.
	first bool
}

// tokens reads JavaScript as far as it takes to find imports: comments, strings,
// templates and regular expressions are told from code. It never fails.
func tokens(src string) []token {
	var found []token
	i, first := 0, true
	regex := func() bool { // may a / begin a regular expression here?
		if len(found) == 0 {
			return true
		}
		last := found[len(found)-1]
		switch last.kind {
		case 'p':
			return !strings.Contains(")]}", last.text)
		case 'w':
			switch last.text {
			case "return", "typeof", "case", "in", "of", "delete", "void", "throw", "new", "else", "do", "yield", "await":
				return true
			}
		}
		return false
	}
	add := func(kind byte, text string) {
		found = append(found, token{kind, text, first})
		first = kind == 'p' && (text == ";" || text == "}" || text == "{")
	}
	for i < len(src) {
		c := src[i]
		switch {
		case c == '\n':
			first = true
			i++
		case c == ' ' || c == '\t' || c == '\r':
			i++
		case strings.HasPrefix(src[i:], "//") || i == 0 && strings.HasPrefix(src, "#!"):
			n := strings.IndexByte(src[i:], '\n')
			if n < 0 {
				return found
			}
			i += n
		case strings.HasPrefix(src[i:], "/*"):
			n := strings.Index(src[i+2:], "*/")
			if n < 0 {
				return found
			}
			i += n + 4
		case c == '"' || c == '\'' || c == '`':
			end := stringEnd(src, i)
			add('s', unescape(src[i+1:max(i+1, end-1)]))
			i = end
		case c == '/' && regex():
			i = regexEnd(src, i)
			add('p', ")") // what comes after it is no operand
		case c == '_' || c == '$' || c >= 0x80 || unicode.IsLetter(rune(c)) || unicode.IsDigit(rune(c)):
			end := i
			for end < len(src) && (src[end] == '_' || src[end] == '$' || src[end] >= 0x80 || unicode.IsLetter(rune(src[end])) || unicode.IsDigit(rune(src[end]))) {
				end++
			}
			add('w', src[i:end])
			i = end
		default:
			add('p', string(c))
			i++
		}
	}
	return found
}

// stringEnd is after the quote that ends the string at i; a plain string ends at
// its line too.
func stringEnd(src string, i int) int {
	quote := src[i]
	for i++; i < len(src); i++ {
		switch {
		case src[i] == '\\':
			i++
		case src[i] == quote:
			return i + 1
		case src[i] == '\n' && quote != '`':
			return i
		}
	}
	return len(src)
}

func regexEnd(src string, i int) int {
	class := false
	for i++; i < len(src); i++ {
		switch c := src[i]; {
		case c == '\\':
			i++
		case c == '\n':
			return i
		case c == '[':
			class = true
		case c == ']':
			class = false
		case c == '/' && !class:
			return i + 1
		}
	}
	return len(src)
}

// escapes are those that a path may have.
var escapes = strings.NewReplacer(`\\`, `\`, `\/`, `/`, `\'`, `'`, `\"`, `"`)

// unescape undoes them; others stay.
func unescape(text string) string { return escapes.Replace(text) }

// isESM reports whether a tool's file needs "type": "module" to load.
func isESM(file string, source func() string) bool {
	switch path.Ext(file) {
	case ".mjs", ".cjs":
		return false // their name says it
	}
	all := tokens(source())
	for i, t := range all {
		if !t.first || t.kind != 'w' || i+1 >= len(all) {
			continue
		}
		next := all[i+1]
		switch t.text {
		case "export":
			if next.kind == 'w' || next.text == "{" || next.text == "*" {
				return true
			}
		case "import":
			if next.kind != 'p' || next.text == "{" || next.text == "*" {
				return true
			}
		}
	}
	return false
}

// imports lists the relative modules that a source names, in order.
func imports(src string) []string {
	var found []string
	all := tokens(src)
	for i, t := range all {
		if t.kind != 's' || i == 0 || !strings.HasPrefix(t.text, "./") && !strings.HasPrefix(t.text, "../") {
			continue
		}
		before := all[i-1]
		call := before.kind == 'p' && before.text == "(" && i > 1
		if call {
			before = all[i-2]
		}
		if before.kind != 'w' {
			continue
		}
		switch before.text {
		case "import", "from", "require", "requireToolModule", "importToolModule":
			if call == (before.text != "from") || before.text == "import" {
				found = append(found, t.text)
			}
		}
	}
	return found
}
