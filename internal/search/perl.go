package search

import (
	"fmt"
	"strings"
	"sync"
	"unicode"
)

// isWord reports whether r is a word character as Unicode's TR18 and ripgrep
// have it: letters, marks, decimal digits, connectors and joiners.
func isWord(r rune) bool {
	if r < 0x80 {
		return r == '_' || (r >= '0' && r <= '9') || (r|0x20 >= 'a' && r|0x20 <= 'z')
	}
	return unicode.In(r, wordTables...)
}

var wordTables = []*unicode.RangeTable{
	unicode.L, unicode.Nl, unicode.Other_Alphabetic, unicode.M, unicode.Nd, unicode.Pc, unicode.Join_Control,
}

// wordInside and wordOutside are \w and \W written as the inside of a bracketed
// class, made on first use (a few kilobytes).
var wordInside, wordOutside = classText(isWord)

func classText(in func(rune) bool) (inside, outside func() string) {
	both := sync.OnceValue(func() [2]string {
		var text [2]strings.Builder
		from, was := rune(0), in(0)
		write := func(to rune) {
			side := 0
			if !was {
				side = 1
			}
			fmt.Fprintf(&text[side], `\x{%x}-\x{%x}`, from, to)
		}
		for r := rune(1); r <= unicode.MaxRune; r++ {
			if now := in(r); now != was {
				write(r - 1)
				from, was = r, now
			}
		}
		write(unicode.MaxRune)
		return [2]string{text[0].String(), text[1].String()}
	})
	return func() string { return both()[0] }, func() string { return both()[1] }
}

// White space of Unicode, and what is not, as the inside of a class.
const (
	spaceInside  = `\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}`
	spaceOutside = `\x00-\x08\x0e-\x1f\x21-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff}`
)

// unicodeClasses rewrites \w, \d, \s and their opposites, which are ASCII's in
// RE2, into what they are in Unicode. Everything else stays as it is.
func unicodeClasses(pattern string) string {
	if !strings.Contains(pattern, `\`) {
		return pattern
	}
	var out strings.Builder
	inClass, classStart := false, 0
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		switch {
		case c == '\\' && i+1 < len(pattern):
			i++
			if pattern[i] == 'Q' && !inClass {
				end := strings.Index(pattern[i:], `\E`)
				if end < 0 {
					end = len(pattern) - i
				}
				out.WriteString(pattern[i-1 : i+end])
				i += end - 1
				continue
			}
			if text := perlClass(pattern[i]); text == "" {
				out.WriteString(pattern[i-1 : i+1])
			} else if inClass {
				out.WriteString(text)
			} else {
				out.WriteString("[" + text + "]")
			}
			continue
		case c == '[' && !inClass:
			inClass, classStart = true, i
			if i+1 < len(pattern) && pattern[i+1] == '^' {
				out.WriteByte(c)
				i++
				c, classStart = '^', i
			}
		case c == '[' && inClass && strings.HasPrefix(pattern[i:], "[:"):
			if end := strings.Index(pattern[i:], ":]"); end > 0 {
				out.WriteString(pattern[i : i+end+2])
				i += end + 1
				continue
			}
		case c == ']' && inClass && i > classStart+1:
			inClass = false
		}
		out.WriteByte(c)
	}
	return out.String()
}

func perlClass(c byte) string {
	switch c {
	case 'd':
		return `\p{Nd}`
	case 'D':
		return `\P{Nd}`
	case 's':
		return spaceInside
	case 'S':
		return spaceOutside
	case 'w':
		return wordInside()
	case 'W':
		return wordOutside()
	}
	return ""
}
