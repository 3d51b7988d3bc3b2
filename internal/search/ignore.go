package search

import (
	"bytes"
	"strings"
)

// patterns is one gitignore file, parsed. It decides as git's dir.c does: the
// last pattern that matches wins.
type patterns struct {
	all []pattern
	// What most patterns are, so that a file needs no look at them one by one:
	// plain names, and "*.ext" by its extension. The value is the index of the
	// last such pattern in all.
	names map[string][]int
	exts  map[string][]int
	// rest are the indexes of the others, rising.
	rest []int
}

// pattern is one line of a gitignore file.
type pattern struct {
	text     string // without "!", a leading and a trailing "/"
	prefix   int    // how many bytes of text stand for themselves
	negative bool
	dirOnly  bool
	nameOnly bool // no slash: compared with the last component
	endsWith bool // "*literal"
}

// globSpecial are the characters that end a pattern's literal prefix.
const globSpecial = "*?[\\"

// parsePatterns reads the content of a gitignore file.
func parsePatterns(content []byte) *patterns {
	content = bytes.TrimPrefix(content, []byte("\xef\xbb\xbf"))
	list := &patterns{}
	for len(content) > 0 {
		line, rest, _ := bytes.Cut(content, []byte("\n"))
		content = rest
		list.add(string(bytes.TrimSuffix(line, []byte("\r"))))
	}
	return list
}

// add parses one line. Blank lines and comments are no patterns.
func (l *patterns) add(line string) {
	if line == "" || line[0] == '#' {
		return
	}
	line, _, _ = strings.Cut(line, "\x00") // a C string to git
	line = trimBlanks(line)
	if text, negative := strings.CutPrefix(line, "!"); negative {
		l.addPattern(pattern{text: text, negative: true})
		return
	}
	l.addText(line)
}

// addText adds a pattern whose first character has no meaning of its own.
func (l *patterns) addText(text string) { l.addPattern(pattern{text: text}) }

func (l *patterns) addPattern(p pattern) {
	if strings.HasSuffix(p.text, "/") {
		p.dirOnly, p.text = true, p.text[:len(p.text)-1]
	}
	p.nameOnly = !strings.Contains(p.text, "/")
	p.endsWith = strings.HasPrefix(p.text, "*") && !strings.ContainsAny(p.text[1:], globSpecial)
	p.text = strings.TrimPrefix(p.text, "/")
	if p.prefix = strings.IndexAny(p.text, globSpecial); p.prefix < 0 {
		p.prefix = len(p.text)
	}
	l.index(p)
}

func (l *patterns) index(p pattern) {
	i := len(l.all)
	l.all = append(l.all, p)
	switch {
	case p.nameOnly && p.prefix == len(p.text):
		if l.names == nil {
			l.names = map[string][]int{}
		}
		l.names[p.text] = append(l.names[p.text], i)
	case p.nameOnly && p.endsWith && strings.LastIndexByte(p.text, '.') == 1:
		if l.exts == nil {
			l.exts = map[string][]int{}
		}
		l.exts[p.text[1:]] = append(l.exts[p.text[1:]], i)
	default:
		l.rest = append(l.rest, i)
	}
}

// trimBlanks removes trailing spaces that no backslash protects.
func trimBlanks(s string) string {
	end := -1
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case ' ':
			if end < 0 {
				end = i
			}
		case '\\':
			i++
			if i >= len(s) {
				return s
			}
			end = -1
		default:
			end = -1
		}
	}
	if end >= 0 {
		return s[:end]
	}
	return s
}

// verdict is what a list of patterns says of one path.
type verdict int8

const (
	undecided verdict = iota
	excluded
	included // by a negative pattern
)

// match decides about a path below the list's directory; name is its last
// component.
func (l *patterns) match(path, name string, dir bool) verdict {
	best := -1
	last := func(indexes []int) {
		for i := len(indexes) - 1; i >= 0; i-- {
			if at := indexes[i]; dir || !l.all[at].dirOnly {
				best = max(best, at)
				return
			}
		}
	}
	if l.names != nil {
		last(l.names[name])
	}
	if l.exts != nil {
		if dot := strings.LastIndexByte(name, '.'); dot >= 0 {
			last(l.exts[name[dot:]])
		}
	}
	for i := len(l.rest) - 1; i >= 0 && l.rest[i] > best; i-- {
		if p := &l.all[l.rest[i]]; (dir || !p.dirOnly) && p.match(path, name) {
			best = l.rest[i]
			break
		}
	}
	switch {
	case best < 0:
		return undecided
	case l.all[best].negative:
		return included
	}
	return excluded
}

func (p *pattern) match(path, name string) bool {
	switch {
	case p.nameOnly && p.prefix == len(p.text):
		return p.text == name
	case p.nameOnly && p.endsWith:
		return strings.HasSuffix(name, p.text[1:])
	case p.nameOnly:
		return wildmatch(p.text, name, false)
	}
	// The literal beginning is cut off before the glob is matched, so "a**/b" is
	// "a" and then "**/b": a corner where git's answer depends on it.
	if len(path) < p.prefix || path[:p.prefix] != p.text[:p.prefix] {
		return false
	}
	return wildmatch(p.text[p.prefix:], path[p.prefix:], true)
}
