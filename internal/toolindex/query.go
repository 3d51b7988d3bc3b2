package toolindex

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of a query: what is longer is a text, and its beginning says what it is
// about.
const (
	maxQuery = 1000 // bytes
	maxUnits = 32
)

// How much less a word counts that was not written as it stands.
const (
	oneSlip      = 0.8
	twoSlips     = 0.55
	beginsWord   = 0.45 // and more, the more of the word was written
	apartWeight  = 0.85 // one word written as two, or two as one
	faintWeight  = 0.35 // of a word as [isFaint] knows
	maxVariants  = 64   // of one unit
	maxBeginning = 24   // words that one beginning stands for
	minBeginning = 3    // letters
)

// token is a word of the query.
type token struct {
	raw, stem string
	han       bool
	at        int  // place among all words, those that say nothing too
	data      bool // what the tool would be given rather than what it does
}

// pieces cuts a query at blanks, and where Chinese begins or ends.
func pieces(query string, each func(piece string)) {
	for one := range strings.FieldsSeq(query) {
		begin, before := 0, false
		for i, c := range one {
			han := unicode.Is(unicode.Han, c)
			if i > 0 && han != before {
				each(one[begin:i])
				begin = i
			}
			before = han
		}
		each(one[begin:])
	}
}

// literal reports whether a piece of a query is data, what it is (the path of a file
// or the address of a page), and with what ending: what stands in it says little
// about the tool.
func literal(piece string) (of, ending string, data bool) {
	piece = strings.Trim(piece, "\"'`,;:()?!.")
	letter := func(c rune) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
	name, ending, dotted := cutLast(piece, ".")
	switch {
	case strings.Contains(piece, "://"), strings.HasPrefix(piece, "www."):
		return "url", "", true
	case strings.Contains(piece, "@"): // of a person
		return "", "", dotted
	case dotted && len(ending) <= 5 && strings.ContainsFunc(ending, letter) && strings.ContainsFunc(name, letter):
		if slices.Contains([]string{"com", "org", "net", "io", "dev", "cn"}, ending) {
			return "url", "", true
		}
		return "file", ending, true
	case strings.HasPrefix(piece, "/") && len(piece) > 1, strings.HasPrefix(piece, "./"), strings.HasPrefix(piece, "~/"):
		return "file", "", true
	}
	return "", "", false
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// says reports whether a word says anything about a tool.
func (t token) says() bool { return t.han || !isStop(t.raw) }

// key is how the table of synonyms writes an expression.
func key(tokens []token) string {
	parts := make([]string, len(tokens))
	for i, t := range tokens {
		parts[i] = t.stem
	}
	return strings.Join(parts, " ")
}

// parse turns a query into units.
func (x *Index) parse(s *snapshot, query string) parsed {
	if len(query) > maxQuery {
		query = strings.ToValidUTF8(query[:maxQuery], "")
	}
	p := parsed{exact: s.named(query)}
	tokens, all := x.tokens(query)
	for i := range tokens {
		u := unit{weight: 1}
		if tokens[i].data || isFaint(tokens[i].raw) {
			u.weight = faintWeight
		}
		x.say(s, &u, tokens, i)
		x.expressions(s, &u, tokens, i)
		x.expressions(s, &u, all, tokens[i].at)
		if len(u.variants) > 0 {
			p.units = append(p.units, u)
		}
	}
	for i := range all { // "who am I" says something, none of its words does
		for end := i + 2; end <= min(i+x.table.longest[all[i].stem], len(all)); end++ {
			if u := (unit{}); !slices.ContainsFunc(all[i:end], token.says) {
				x.expression(s, &u, key(all[i:end]))
				if len(u.variants) > 0 {
					u.weight = 1
					p.units = append(p.units, u)
				}
			}
		}
	}
	return p
}

// tokens takes a query apart, into the words without those that say nothing,
// unless there are only such, and into all.
func (x *Index) tokens(query string) (list, all []token) {
	add := func(t token) {
		t.at = len(all)
		all = append(all, t)
		again := slices.ContainsFunc(list, func(other token) bool { return other.stem == t.stem })
		if !again && t.says() {
			list = append(list, t)
		}
	}
	data, ending := false, ""
	take := func(w string, k kind) {
		if k != hanRun {
			add(token{raw: w, stem: stem(w), data: data && w != ending})
			return
		}
		for _, part := range x.table.segment(w) {
			if _, known := x.table.of[part]; known {
				add(token{raw: part, stem: part, han: true})
				continue
			}
			for _, pair := range hanWord(part) {
				add(token{raw: pair, stem: pair, han: true})
			}
		}
	}
	pieces(query, func(piece string) {
		var of string
		if of, ending, data = literal(piece); of != "" {
			add(token{raw: of, stem: stem(of)})
		}
		words(piece, take)
	})
	if len(list) == 0 {
		return all[:min(len(all), maxUnits)], all
	}
	return list[:min(len(list), maxUnits)], all
}

// say gathers the ways to say the token at i.
func (x *Index) say(s *snapshot, u *unit, tokens []token, i int) {
	t := tokens[i]
	if t.han {
		s.add(u, 1, hanWord(t.raw)...)
		x.alike(s, u, t.stem, 1)
		return
	}
	s.add(u, 1, t.stem)
	x.alike(s, u, t.stem, 1)
	for _, j := range []int{i - 1, i} { // with the word before, or after
		if j >= 0 && j+1 < len(tokens) && !tokens[j].han && !tokens[j+1].han {
			s.add(u, apartWeight, stem(tokens[j].raw+tokens[j+1].raw))
		}
	}
	if len(u.variants) > 0 && s.known(t.stem) {
		return
	}
	s.apart(u, t.raw)
	s.beginnings(u, t)
	if len(u.variants) == 0 {
		for _, word := range bare(t) {
			for _, slip := range s.slips(word, x.table.english) {
				s.add(u, slip.weight, slip.text)
				x.alike(s, u, slip.text, slip.weight)
			}
			if len(u.variants) > 0 {
				return
			}
		}
	}
}

// bare are the forms in which a misspelt word may be near to a known one: its stem,
// and where the slip is in what makes the stem ("metting"), the word without its
// ending.
func bare(t token) []string {
	forms := []string{t.stem}
	for _, ending := range []string{"ing", "ed", "es", "s"} {
		if w, ok := strings.CutSuffix(t.raw, ending); ok && w != t.stem {
			forms = append(forms, w)
			break
		}
	}
	return forms
}

// alike adds the words of the groups that a word is in.
func (x *Index) alike(s *snapshot, u *unit, key string, weight float64) {
	x.table.alike(key, func(other *expression, fits float64) { s.add(u, weight*fits, other.terms...) })
}

// expressions adds what is said by the expressions that the token is part of:
// to "pull request" belongs "pr".
func (x *Index) expressions(s *snapshot, u *unit, tokens []token, i int) {
	for first := max(0, i-3); first <= i; first++ {
		longest := x.table.longest[tokens[first].stem]
		for end := max(i+1, first+2); end <= min(first+longest, len(tokens)); end++ {
			x.expression(s, u, key(tokens[first:end]))
		}
	}
}

func (x *Index) expression(s *snapshot, u *unit, key string) {
	if x.table.of[key] != nil {
		u.weight = 1 // "keep an eye" says more than its words
		x.alike(s, u, key, 1)
	}
}

func (s *snapshot) known(stem string) bool {
	_, there := s.terms[stem]
	return there
}

// add adds a variant, if its terms are anywhere.
func (s *snapshot) add(u *unit, weight float64, terms ...string) {
	if weight < leastWeight || len(u.variants) >= maxVariants || len(terms) == 0 {
		return
	}
	v := variant{weight: weight}
	for _, t := range terms {
		at, there := s.terms[t]
		if !there {
			return
		}
		v.terms = append(v.terms, at)
	}
	for i, old := range u.variants {
		if slices.Equal(old.terms, v.terms) {
			u.variants[i].weight = max(old.weight, weight)
			return
		}
	}
	u.variants = append(u.variants, v)
}

// apart adds two words that were written as one.
func (s *snapshot) apart(u *unit, raw string) {
	const least = 3
	for i := least; i+least <= len(raw); i++ {
		if s.known(stem(raw[:i])) && s.known(stem(raw[i:])) {
			s.add(u, apartWeight, stem(raw[:i]), stem(raw[i:]))
		}
	}
}

// beginnings adds the words that the token begins.
func (s *snapshot) beginnings(u *unit, t token) {
	if len(t.raw) < minBeginning {
		return
	}
	for _, begun := range []string{t.raw, t.stem} {
		at, _ := slices.BinarySearchFunc(s.sorted, begun, func(t term, text string) int { return strings.Compare(t.text, text) })
		for n := 0; at < len(s.sorted) && n < maxBeginning && strings.HasPrefix(s.sorted[at].text, begun); n, at = n+1, at+1 {
			text := s.sorted[at].text
			s.add(u, beginsWord+(1-beginsWord)*float64(len(begun))/float64(len(text))*0.8, text)
		}
		if len(u.variants) > 0 || len(t.stem) < minBeginning {
			return
		}
	}
}

// slip is a word that may have been meant.
type slip struct {
	text   string
	weight float64
}

// maxSlips is how many words may have been meant by one.
const maxSlips = 8

// slips finds the words that are one slip of the pen away, or two if the word is
// long and none is nearer.
func (s *snapshot) slips(word string, more []string) []slip {
	n := len(word)
	if n < 4 || strings.ContainsFunc(word, unicode.IsDigit) || word[0] >= utf8.RuneSelf {
		return nil
	}
	most := 1
	if n >= 7 {
		most = 2
	}
	set := letters(word)
	var found [3][]slip
	try := func(text string, its uint32) {
		if d := len(text) - n; d > most || -d > most || unlike(set, its) > 2*most || len(text) < 3 {
			return
		}
		if d := distance(word, text, most); d <= most {
			found[d] = append(found[d], slip{text, []float64{1, oneSlip, twoSlips}[d]})
		}
	}
	for _, t := range s.sorted {
		try(t.text, t.letters)
	}
	for _, text := range more {
		if !s.known(text) {
			try(text, letters(text))
		}
	}
	for _, list := range found {
		if len(list) > 0 {
			return s.likely(list)
		}
	}
	return nil
}

// likely keeps the words that were most likely meant: of equally near ones those
// that are common.
func (s *snapshot) likely(list []slip) []slip {
	common := func(one slip) float64 {
		const unseen = 2 // tools, for a word of the table
		if at, there := s.terms[one.text]; there {
			return float64(len(s.postings[at]))
		}
		return unseen
	}
	slices.SortStableFunc(list, func(a, b slip) int { return cmp.Compare(common(b), common(a)) })
	list = list[:min(len(list), maxSlips)]
	for i := range list {
		list[i].weight *= 0.4 + 0.6*math.Log1p(common(list[i]))/math.Log1p(common(list[0]))
	}
	return list
}

// distance is how many letters must be added, left out, changed or swapped with
// their neighbour to make b of a; more than most if it is more (optimal string
// alignment).
func distance(a, b string, most int) int {
	const longest = maxWord + 3
	var rows [3][longest]int
	if len(a) >= longest || len(b) >= longest {
		return most + 1
	}
	before, last, row := &rows[0], &rows[1], &rows[2]
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		least := i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
			least = min(least, row[j])
		}
		if least > most+1 {
			return most + 1
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// named finds the documents whose name the query is, or has in it.
func (s *snapshot) named(query string) map[int32]float64 {
	found := map[int32]float64{}
	for one := range strings.FieldsSeq(query) {
		one = strings.Trim(one, "\"'`.,;()?!")
		if !strings.ContainsAny(one, "_-:") && strings.ToLower(one[min(len(one), 1):]) == one[min(len(one), 1):] {
			continue // an ordinary word
		}
		for _, doc := range s.names[squash(one)] {
			found[doc] = namedBonus
		}
	}
	for _, doc := range s.names[squash(query)] {
		found[doc] = exactBonus
	}
	return found
}
