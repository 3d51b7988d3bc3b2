package policy

import (
	"fmt"
	"math"
	"strings"
)

// The text of a simple command, as patterns see it: the unquoted words with a
// separator between, and a mark for what only the running shell will know.
const (
	sep     = '\x00' // between two words
	unknown = '\x01' // any text, any number of words
)

// shellPattern is the pattern of a command: words as a shell would read them,
// with "*" outside quotes for any run within one simple command.
type shellPattern struct {
	alternatives []alternative
}

// alternative is one form of a pattern. "git log *" has two: "git log" and
// "git log" with anything behind.
type alternative struct {
	glob  glob
	exact bool // the pattern as a whole holds no "*"
}

func parseShellPattern(text string) (*shellPattern, error) {
	raw, stars := patternWords(text)
	if raw == "" && len(stars) == 0 {
		return nil, fmt.Errorf("has an empty pattern")
	}
	pieces := make([]string, 0, len(stars)+1)
	from := 0
	for _, at := range stars {
		pieces = append(pieces, raw[from:at])
		from = at
	}
	pieces = append(pieces, raw[from:])
	p := &shellPattern{}
	add := func(pieces ...string) {
		p.alternatives = append(p.alternatives, alternative{glob{pieces}, len(stars) == 0})
	}
	add(pieces...)
	last := len(pieces) - 1
	if last == 0 || pieces[last] != "" {
		return p, nil
	}
	// A trailing " *" or ":*" also matches nothing; ":*" is other systems' way to
	// write " *" as well.
	before := pieces[last-1]
	if head, ok := strings.CutSuffix(before, string(sep)); ok && head != "" {
		add(append(append([]string{}, pieces[:last-1]...), head)...)
	} else if head, ok := strings.CutSuffix(before, ":"); ok && head != "" {
		front := append([]string{}, pieces[:last-1]...)
		add(append(front, head)...)
		add(append(append([]string{}, front...), head+string(sep), "")...)
	}
	return p, nil
}

// patternWords reads the pattern as words: the words joined with sep, and where
// in that the stars are.
func patternWords(text string) (string, []int) {
	var b strings.Builder
	var stars []int
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case ' ', '\t':
			if b.Len()+len(stars) > 0 && i+1 < len(text) && text[i+1] != ' ' && text[i+1] != '\t' {
				b.WriteByte(sep)
			}
		case '\\':
			if i+1 < len(text) {
				i++
			}
			b.WriteByte(text[i])
		case '\'', '"':
			end := strings.IndexByte(text[i+1:], c)
			if end < 0 {
				b.WriteByte(c)
				continue
			}
			b.WriteString(text[i+1 : i+1+end])
			i += end + 1
		case '*':
			if n := len(stars); n == 0 || stars[n-1] != b.Len() {
				stars = append(stars, b.Len())
			}
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), stars
}

// spelledAll is what a pattern with no "*" spells out.
const spelledAll = math.MaxInt

// match reports whether text is what the pattern says, and how many bytes from
// the start of text the pattern spells out.
func (p *shellPattern) match(text string) (spelled int, ok bool) {
	spelled = -1
	for _, a := range p.alternatives {
		if !a.glob.match(text) {
			continue
		}
		if a.exact {
			return spelledAll, true
		}
		spelled = max(spelled, len(a.glob.pieces[0]))
	}
	return spelled, spelled >= 0
}

// maybe reports whether text could be what the pattern says, once the unknown
// parts of it are known.
func (p *shellPattern) maybe(text string) bool {
	for _, a := range p.alternatives {
		if intersects(strings.Join(a.glob.pieces, "\x02"), text) {
			return true
		}
	}
	return false
}

// intersects reports whether there is a string that both patterns match; "\x02"
// is any run in a, unknown is any run in b.
func intersects(a, b string) bool {
	const star = '\x02'
	row := make([]bool, len(b)+1) // row[j]: a[i:] meets b[j:]
	row[len(b)] = true
	for j := len(b) - 1; j >= 0; j-- {
		row[j] = b[j] == unknown && row[j+1]
	}
	for i := len(a) - 1; i >= 0; i-- {
		next := row[len(b)] // a[i+1:] meets b[j+1:]
		row[len(b)] = a[i] == star && next
		for j := len(b) - 1; j >= 0; j-- {
			below := row[j] // a[i+1:] meets b[j:]
			switch {
			case a[i] == star:
				row[j] = below || row[j+1]
			case b[j] == unknown:
				row[j] = below || row[j+1]
			default:
				row[j] = a[i] == b[j] && next
			}
			next = below
		}
	}
	return row[0]
}
