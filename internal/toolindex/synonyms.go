package toolindex

import (
	_ "embed"
	"strings"
	"unicode"
	"unicode/utf8"
)

//go:embed synonyms.txt
var synonymsText string

// How much another word of a group counts.
var (
	sameWeight        = 0.6
	nearWeight        = 0.3
	translationWeight = 0.7
)

// synonyms is the table of words that mean the same.
type synonyms struct {
	// groups of a word or an expression: its stems, joined with blanks.
	of map[string][]member
	// longest expression that begins with a word, in words.
	longest map[string]int
	maxHan  int // longest Chinese word, in characters
	english []string
}

// member is one word of the groups of another.
type member struct {
	terms  []string
	weight float64
}

// readSynonyms reads the table.
func readSynonyms(text string) *synonyms {
	t := &synonyms{of: map[string][]member{}, longest: map[string]int{}}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		same, near, _ := strings.Cut(line, "|")
		t.group(expressions(same), expressions(near))
	}
	for word, list := range t.of {
		first, _, several := strings.Cut(word, " ")
		t.longest[first] = max(t.longest[first], strings.Count(word, " ")+1)
		if isHan(word) {
			t.maxHan = max(t.maxHan, utf8.RuneCountInString(word))
		} else if !several && len(list) > 0 {
			t.english = append(t.english, word)
		}
	}
	return t
}

// expression is one entry of a group.
type expression struct {
	key   string
	terms []string
	han   bool
	vague bool // only of words that say little: it can be asked with, not found by
}

func expressions(text string) []expression {
	var list []expression
	for one := range strings.FieldsSeq(text) {
		e := expression{han: isHan(one)}
		e.vague = strings.Contains(one, "_")
		words(one, func(w string, k kind) {
			if k == plainWord {
				e.vague = e.vague && (isStop(w) || isFaint(w))
				e.terms = append(e.terms, stem(w))
			}
		})
		e.key = strings.Join(e.terms, " ")
		if e.han {
			e.key, e.terms = one, hanWord(one)
		}
		list = append(list, e)
		if len(e.terms) > 1 && !e.han { // "roll back" is written "rollback" too
			together := stem(strings.ReplaceAll(one, "_", ""))
			list = append(list, expression{key: together, terms: []string{together}})
		}
	}
	return list
}

func (t *synonyms) group(same, near []expression) {
	for _, a := range same {
		for _, b := range same {
			t.link(a, b, sameWeight)
		}
		for _, b := range near {
			t.link(a, b, nearWeight)
		}
	}
	for _, a := range near {
		for _, b := range same {
			t.link(a, b, nearWeight)
		}
	}
}

// link lets b count where a is looked for. A word of the other language is a
// translation, and counts nearly in full.
func (t *synonyms) link(a, b expression, weight float64) {
	if a.key == b.key {
		if _, there := t.of[a.key]; !there {
			t.of[a.key] = nil // known, if only to take Chinese apart
		}
		return
	}
	if a.han != b.han {
		weight *= translationWeight / sameWeight
	}
	if b.vague {
		return
	}
	for i, m := range t.of[a.key] {
		if strings.Join(m.terms, " ") == strings.Join(b.terms, " ") {
			t.of[a.key][i].weight = max(m.weight, weight)
			return
		}
	}
	t.of[a.key] = append(t.of[a.key], member{b.terms, weight})
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
