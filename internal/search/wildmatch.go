package search

import "strings"

// wildmatch reports whether text matches a glob of a gitignore file. It is a
// port of git's wildmatch.c (dowild), so that its corner cases are git's too:
// with pathname set, "*", "?" and classes stop at "/", and "**" between slashes
// matches any number of directories. Without it "*" matches everything.
func wildmatch(pattern, text string, pathname bool) bool {
	return dowild(pattern, 0, text, 0, pathname) == wildMatch
}

// What dowild returns. The two aborts let an outer "*" give up early instead of
// trying every position: without them some patterns take exponential time.
const (
	wildMatch = iota
	wildNoMatch
	wildAbortAll        // the text ended: no longer rest can match
	wildAbortToStarStar // only a "**" further out may go on
)

func dowild(pat string, p int, text string, t int, pathname bool) int {
	for ; p < len(pat); p, t = p+1, t+1 {
		c := pat[p]
		if t >= len(text) && c != '*' {
			return wildAbortAll
		}
		switch c {
		default:
			if text[t] != c {
				return wildNoMatch
			}
		case '\\':
			// The next character stands for itself. At the very end git compares
			// with NUL, which no text holds.
			p++
			if p >= len(pat) || text[t] != pat[p] {
				return wildNoMatch
			}
		case '?':
			if pathname && text[t] == '/' {
				return wildNoMatch
			}
		case '*':
			return wildStar(pat, p, text, t, pathname)
		case '[':
			next, matched, ok := wildClass(pat, p, text[t])
			if !ok {
				return wildAbortAll
			}
			p = next
			if !matched || (pathname && text[t] == '/') {
				return wildNoMatch
			}
		}
	}
	if t < len(text) {
		return wildNoMatch
	}
	return wildMatch
}

// wildStar matches from a "*" at p.
func wildStar(pat string, p int, text string, t int, pathname bool) int {
	matchSlash := !pathname
	first := p
	p++
	if p < len(pat) && pat[p] == '*' {
		for p < len(pat) && pat[p] == '*' {
			p++
		}
		switch {
		case !pathname:
		case (first == 0 || pat[first-1] == '/') &&
			(p >= len(pat) || pat[p] == '/' || (pat[p] == '\\' && p+1 < len(pat) && pat[p+1] == '/')):
			// "**/" also matches nothing: try to go on behind its slash.
			if p < len(pat) && pat[p] == '/' && dowild(pat, p+1, text, t, pathname) == wildMatch {
				return wildMatch
			}
			matchSlash = true
		default: // "a**b" is "a*b"
		}
	}
	if p >= len(pat) {
		// A trailing "**" matches everything, a trailing "*" up to the next slash.
		if !matchSlash && strings.IndexByte(text[t:], '/') >= 0 {
			return wildAbortToStarStar
		}
		return wildMatch
	}
	if !matchSlash && pat[p] == '/' {
		// One "*" followed by a slash: only the next slash can match.
		slash := strings.IndexByte(text[t:], '/')
		if slash < 0 {
			return wildAbortAll
		}
		return dowild(pat, p, text, t+slash, pathname)
	}
	for ; t < len(text); t++ {
		// Where a literal follows, jump to it.
		if c := pat[p]; c != '*' && c != '?' && c != '[' && c != '\\' {
			for t < len(text) && text[t] != c && (matchSlash || text[t] != '/') {
				t++
			}
			if t >= len(text) || text[t] != c {
				// git before 2.43 answers "no match" here, later ones abort; both
				// mean that this star cannot match.
				if t >= len(text) {
					return wildAbortAll
				}
				return wildAbortToStarStar
			}
		}
		if got := dowild(pat, p, text, t, pathname); got != wildNoMatch {
			if !matchSlash || got != wildAbortToStarStar {
				return got
			}
		} else if !matchSlash && text[t] == '/' {
			return wildAbortToStarStar
		}
	}
	return wildAbortAll
}

// wildClass matches c against the class that begins at pat[p]. next is the index
// of its "]". ok is false for a class that does not end.
func wildClass(pat string, p int, c byte) (next int, matched, ok bool) {
	p++
	at := func(i int) byte {
		if i < len(pat) {
			return pat[i]
		}
		return 0
	}
	negated := at(p) == '!' || at(p) == '^'
	if negated {
		p++
	}
	var prev byte
	for first := true; first || at(p) != ']'; first = false {
		ch := at(p)
		switch {
		case ch == 0:
			return 0, false, false
		case ch == '\\':
			p++
			if ch = at(p); ch == 0 {
				return 0, false, false
			}
			matched = matched || c == ch
		case ch == '-' && prev != 0 && at(p+1) != 0 && at(p+1) != ']':
			p++
			if ch = at(p); ch == '\\' {
				p++
				if ch = at(p); ch == 0 {
					return 0, false, false
				}
			}
			matched = matched || (c <= ch && c >= prev)
			ch = 0 // a range does not begin another one
		case ch == '[' && at(p+1) == ':':
			end := strings.IndexByte(pat[p+2:], ']')
			if end < 0 {
				return 0, false, false
			}
			end += p + 2
			if end-p-3 < 0 || pat[end-1] != ':' {
				// No ":]": a normal set that holds "[".
				matched = matched || c == '['
				break
			}
			in, known := posixClass(pat[p+2:end-1], c)
			if !known {
				return 0, false, false
			}
			matched = matched || in
			p, ch = end, 0
		default:
			matched = matched || c == ch
		}
		prev = ch
		p++
	}
	return p, matched != negated, true
}

// posixClass tells whether c is in [:name:].
func posixClass(name string, c byte) (in, known bool) {
	lower, upper, digit := c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9'
	switch name {
	case "alnum":
		return lower || upper || digit, true
	case "alpha":
		return lower || upper, true
	case "blank":
		return c == ' ' || c == '\t', true
	case "cntrl":
		return c < 0x20 || c == 0x7f, true
	case "digit":
		return digit, true
	case "graph":
		return c > 0x20 && c < 0x7f, true
	case "lower":
		return lower, true
	case "print":
		return c >= 0x20 && c < 0x7f, true
	case "punct":
		return c > 0x20 && c < 0x7f && !lower && !upper && !digit, true
	case "space":
		return c == ' ' || (c >= '\t' && c <= '\r'), true
	case "upper":
		return upper, true
	case "xdigit":
		return digit || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'), true
	}
	return false, false
}
