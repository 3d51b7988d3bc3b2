package toolindex

import (
	_ "embed"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

//go:embed synonyms.txt
var synonymsText string

// How much another word of a group counts.
const (
	sameWeight = 0.6
	nearWeight = 0.42
)

// synonyms is the table of words that mean the same.
type synonyms struct {
	of     map[string]*expression // by key
	groups []group
	// longest expression that begins with a word, in words.
	longest map[string]int
	maxHan  int // longest Chinese word, in characters
	english []string
}

// group is a line of the table.
type group struct{ same, near []*expression }

// expression is one entry of a group, and of others too.
type expression struct {
	key    string // its stems, joined with blanks
	terms  []string
	groups []int32
	vague  bool // only of words that say little: it can be asked with, not found by
}

// readSynonyms reads the table.
func readSynonyms(text string) *synonyms {
	t := &synonyms{of: map[string]*expression{}, longest: map[string]int{}}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		same, near, _ := strings.Cut(line, "|")
		t.groups = append(t.groups, group{t.expressions(same), t.expressions(near)})
	}
	for word := range t.of {
		first, _, several := strings.Cut(word, " ")
		t.longest[first] = max(t.longest[first], strings.Count(word, " ")+1)
		if isHan(word) {
			t.maxHan = max(t.maxHan, utf8.RuneCountInString(word))
		} else if !several {
			t.english = append(t.english, word)
		}
	}
	slices.Sort(t.english)
	return t
}

// expressions reads one half of the line that is to be the next group.
func (t *synonyms) expressions(text string) []*expression {
	var list []*expression
	add := func(e expression) {
		known := t.of[e.key]
		if known == nil {
			known = &e
			t.of[e.key] = known
		}
		if next := int32(len(t.groups)); !slices.Contains(known.groups, next) {
			known.groups = append(known.groups, next)
		}
		list = append(list, known)
	}
	for one := range strings.FieldsSeq(text) {
		if isHan(one) {
			add(expression{key: one, terms: hanWord(one)})
			continue
		}
		e := expression{vague: strings.Contains(one, "_")}
		words(one, func(w string, k kind) {
			if k == plainWord {
				e.vague = e.vague && (isStop(w) || isFaint(w))
				e.terms = append(e.terms, stem(w))
			}
		})
		e.key = strings.Join(e.terms, " ")
		add(e)
		if len(e.terms) > 1 { // "roll back" is written "rollback" too
			together := stem(strings.ReplaceAll(one, "_", ""))
			add(expression{key: together, terms: []string{together}})
		}
	}
	return slices.Clip(list)
}

// alike gives what may stand for an expression, with its weight.
func (t *synonyms) alike(key string, each func(other *expression, weight float64)) {
	e := t.of[key]
	if e == nil {
		return
	}
	give := func(list []*expression, weight float64) {
		for _, other := range list {
			if other != e && !other.vague {
				each(other, weight)
			}
		}
	}
	for _, g := range e.groups {
		if slices.Contains(t.groups[g].same, e) {
			give(t.groups[g].same, sameWeight)
			give(t.groups[g].near, nearWeight)
		} else {
			give(t.groups[g].same, nearWeight)
		}
	}
}

// hanWord are the terms that stand for a Chinese word in a text: its pairs.
func hanWord(word string) []string {
	var singles, pairs []string
	hanTerms(word, func(term string) {
		if utf8.RuneCountInString(term) == 1 {
			singles = append(singles, term)
		} else {
			pairs = append(pairs, term)
		}
	})
	if len(pairs) > 0 {
		return pairs
	}
	return singles
}

func isHan(s string) bool {
	c, _ := utf8.DecodeRuneInString(s)
	return unicode.Is(unicode.Han, c)
}

// segment takes a run of Chinese apart: the longest words of the table, and what
// is between them as it is.
func (t *synonyms) segment(run string) []string {
	var list []string
	runes := []rune(run)
	rest := 0
	for i := 0; i < len(runes); {
		n := min(t.maxHan, len(runes)-i)
		for ; n > 0; n-- {
			if _, known := t.of[string(runes[i:i+n])]; known {
				break
			}
		}
		if n == 0 && !isStop(string(runes[i])) {
			i++
			continue
		}
		if rest < i {
			list = append(list, string(runes[rest:i]))
		}
		if n > 0 {
			list = append(list, string(runes[i:i+n]))
		}
		if n == 4 { // nearly always two words of two: each says something by itself
			for _, half := range []string{string(runes[i : i+2]), string(runes[i+2 : i+4])} {
				if _, known := t.of[half]; known {
					list = append(list, half)
				}
			}
		}
		i += max(n, 1)
		rest = i
	}
	if rest < len(runes) {
		list = append(list, string(runes[rest:]))
	}
	return list
}
