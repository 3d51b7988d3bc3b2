package search

import (
	"regexp/syntax"
	"strings"
	"unicode"
)

// Bounds of the literals taken from an expression.
const (
	maxLiterals   = 8   // alternatives looked for at once
	maxLiteralLen = 128 // bytes of one
	maxAlso       = 3   // further literals that a line is looked through for
	rareEnough    = 210 // byteRank above which a one-byte literal is of no use
)

// lit is a literal: text, and whether case is ignored.
type lit struct {
	text string // lower case if fold
	fold bool
}

// facts are what is known of the text that a node of an expression matches.
type facts struct {
	// exact: the node matches one of these and nothing else, where nil means
	// that no such list is known. Anchors count as the empty text.
	exact []string
	// pure says that exact tells everything: no anchor was passed over.
	pure bool
	// required: every match holds one of these; nil if nothing is known.
	required []lit
	// also: every match holds each of these as well.
	also []string
}

// literals finds literals of which one must occur in every match of re. whole
// says that finding one is already a match. No literals means that none are
// known. also are literals that occur in each match besides.
func literals(re *syntax.Regexp) (list []lit, also []string, whole bool) {
	f := look(re)
	if f.exact != nil && useful(asLits(f.exact)) {
		if len(f.exact) == 1 || f.pure {
			return asLits(f.exact), nil, f.pure
		}
	}
	list = best(f.required, asLits(f.exact))
	for _, text := range f.also {
		if len(text) > 1 && len(also) < maxAlso && (len(list) != 1 || list[0].text != text) {
			also = append(also, text)
		}
	}
	return list, also, false
}

func asLits(texts []string) []lit {
	var list []lit
	for _, t := range texts {
		list = append(list, lit{text: t})
	}
	return list
}

func look(re *syntax.Regexp) facts {
	switch re.Op {
	case syntax.OpEmptyMatch:
		return facts{exact: []string{""}, pure: true}
	case syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText,
		syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return facts{exact: []string{""}}
	case syntax.OpLiteral:
		return lookLiteral(re)
	case syntax.OpCharClass:
		return lookClass(re)
	case syntax.OpCapture:
		return look(re.Sub[0])
	case syntax.OpPlus:
		f := look(re.Sub[0])
		return facts{required: best(f.required, asLits(f.exact))}
	case syntax.OpRepeat:
		if re.Min == 0 {
			return facts{}
		}
		f := look(re.Sub[0])
		return facts{required: best(f.required, asLits(f.exact))}
	case syntax.OpQuest:
		if f := look(re.Sub[0]); f.exact != nil && len(f.exact) < maxLiterals {
			return facts{exact: append(f.exact, ""), pure: f.pure}
		}
	case syntax.OpConcat:
		return lookConcat(re.Sub)
	case syntax.OpAlternate:
		return lookAlternate(re.Sub)
	}
	return facts{}
}

// lookLiteral takes a run of characters. With case ignored, it is cut where a
// character has more variants than two ASCII letters.
func lookLiteral(re *syntax.Regexp) facts {
	if re.Flags&syntax.FoldCase == 0 || !hasCase(re.Rune) {
		return facts{exact: []string{string(re.Rune)}, pure: true}
	}
	var runs []lit
	var run strings.Builder
	flush := func() {
		if run.Len() > 0 {
			runs = append(runs, lit{text: run.String(), fold: true})
			run.Reset()
		}
	}
	for _, r := range re.Rune {
		switch {
		case simpleCase(r):
			run.WriteRune(unicode.ToLower(r))
		default:
			flush()
		}
	}
	flush()
	var required []lit
	for _, r := range runs {
		required = best(required, []lit{r})
	}
	return facts{required: required}
}

// hasCase reports whether a character has a variant in another case.
func hasCase(runes []rune) bool {
	for _, r := range runes {
		if unicode.SimpleFold(r) != r {
			return true
		}
	}
	return false
}

// simpleCase reports whether all case variants of r are ASCII, or r has none.
func simpleCase(r rune) bool {
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		if f >= 0x80 || r >= 0x80 {
			return false
		}
	}
	return true
}

func lookClass(re *syntax.Regexp) facts {
	var texts []string
	for i := 0; i+1 < len(re.Rune); i += 2 {
		for r := re.Rune[i]; r <= re.Rune[i+1]; r++ {
			if len(texts) == 4 {
				return facts{}
			}
			texts = append(texts, string(r))
		}
	}
	return facts{exact: texts, pure: true}
}

// lookConcat joins neighbours that match fixed texts and keeps the best run.
func lookConcat(subs []*syntax.Regexp) facts {
	run, pure, broken := []string{""}, true, false
	var required []lit
	var also []string
	add := func(texts []string) {
		if len(texts) == 1 {
			also = append(also, texts[0])
		}
	}
	for _, sub := range subs {
		f := look(sub)
		also = append(also, f.also...)
		required = best(required, f.required)
		if f.exact != nil {
			if joined := cross(run, f.exact); joined != nil {
				run, pure = joined, pure && f.pure
				continue
			}
		}
		required, broken = best(required, asLits(run)), true
		add(run)
		if run = f.exact; run == nil {
			run = []string{""}
		}
	}
	if !broken {
		return facts{exact: run, pure: pure}
	}
	add(run)
	return facts{required: best(required, asLits(run)), also: also}
}

// cross is every text of a followed by every one of b; nil if that is too much.
func cross(a, b []string) []string {
	if len(a)*len(b) > maxLiterals {
		return nil
	}
	var all []string
	for _, x := range a {
		for _, y := range b {
			if len(x)+len(y) > maxLiteralLen {
				return nil
			}
			all = append(all, x+y)
		}
	}
	return all
}

func lookAlternate(subs []*syntax.Regexp) facts {
	all := facts{exact: []string{}, pure: true, required: []lit{}}
	for _, sub := range subs {
		f := look(sub)
		if f.exact == nil || all.exact == nil || len(all.exact)+len(f.exact) > maxLiterals {
			all.exact = nil
		} else {
			all.exact = append(all.exact, f.exact...)
			all.pure = all.pure && f.pure
		}
		need := best(f.required, asLits(f.exact))
		if need == nil || all.required == nil || len(all.required)+len(need) > maxLiterals {
			all.required = nil
		} else {
			all.required = append(all.required, need...)
		}
	}
	return all
}

// useful reports whether a search for list saves anything.
func useful(list []lit) bool {
	if len(list) == 0 || len(list) > maxLiterals {
		return false
	}
	for _, l := range list {
		if l.text == "" || strings.Contains(l.text, "\n") || (len(l.text) == 1 && byteRank[l.text[0]] > rareEnough) {
			return false
		}
	}
	return true
}

// best is the list that is cheaper to look for; nil if neither is of use.
func best(a, b []lit) []lit {
	switch {
	case !useful(b):
		if useful(a) {
			return a
		}
		return nil
	case !useful(a):
		return b
	case cost(b) < cost(a):
		return b
	}
	return a
}

// cost estimates how often a search for list stops: about the product of how
// common the two rarest bytes of each text are.
func cost(list []lit) int {
	total := 0
	for _, l := range list {
		first, second := 255, 255
		for i := range len(l.text) {
			if r := int(byteRank[l.text[i]]); r < first {
				first, second = r, first
			} else if r < second {
				second = r
			}
		}
		total += 64 + first + second - 4*min(len(l.text), 16)
	}
	return total
}
