package edit

import (
	"strings"
)

// How a text was found, in the order tried: each overlooks more than the one
// before.
const (
	MatchExact       = "exact"
	MatchEndings     = "line endings"
	MatchBlanks      = "trailing blanks"
	MatchPunctuation = "unicode punctuation"
	MatchIndentation = "indentation"
)

// Replacement is one text to be replaced by another. Both are taken literally.
type Replacement struct {
	Old, New string
	// All replaces every occurrence; otherwise Old must occur once.
	All bool
	// Expected is how many occurrences there must be; more than one implies All.
	// Zero asserts nothing.
	Expected int
}

// region is a match: text[start:end].
type region struct{ start, end int }

// found is the outcome of a search.
type found struct {
	with    string
	regions []region
	splices []splice // rising, disjoint
}

const (
	// maxRegions bounds the occurrences that are counted when only one is wanted.
	maxRegions = 1000
	// maxAll bounds the occurrences that are replaced at once.
	maxAll = 1_000_000
)

// search finds r.Old in t and works out what to change. It returns no regions
// if nothing was found, and regions without splices if the match is not unique.
func search(t string, r Replacement) found {
	all := r.All || r.Expected > 1
	f := searchLevels(t, r, all)
	if indentOf(r.Old) == "" && f.with != MatchIndentation {
		wholeLines(t, &f)
	}
	return f
}

// wholeLines extends what is cut out of t from the first word of a line to the
// end of one by the blanks before it, which would otherwise become part of the
// line after.
func wholeLines(t string, f *found) {
	starts := map[int]bool{}
	for _, m := range f.regions {
		starts[m.start] = true
	}
	for i, s := range f.splices {
		if s.text != "" || s.end == s.start || t[s.end-1] != '\n' || !starts[s.start] {
			continue
		}
		line := strings.LastIndexByte(t[:s.start], '\n') + 1
		if strings.Trim(t[line:s.start], " \t") == "" {
			f.splices[i].start = line
		}
	}
}

// searchLevels tries one level after the other.
func searchLevels(t string, r Replacement, all bool) found {
	if f := searchExact(t, r, all); len(f.regions) > 0 {
		return f
	}
	levels := []struct {
		with string
		how  fold
	}{
		{MatchEndings, foldEndings},
		{MatchBlanks, foldEndings | foldBlanks},
		{MatchPunctuation, foldEndings | foldBlanks | foldPunctuation},
	}
	for _, level := range levels {
		if level.how != foldEndings && strings.TrimSpace(r.Old) == "" {
			break // nothing but blanks: looser levels would match anything
		}
		if f := searchFolded(t, r, all, level.how); len(f.regions) > 0 {
			f.with = level.with
			return f
		}
	}
	if strings.TrimSpace(r.Old) == "" {
		return found{}
	}
	return searchIndented(t, r, all)
}

// searchExact finds the very bytes. A match that would cut a CRLF in two is
// none.
func searchExact(t string, r Replacement, all bool) found {
	f := found{with: MatchExact}
	whole := func(s region) bool {
		return !cutsEnding(t, s.start) && !cutsEnding(t, s.end)
	}
	f.regions = occurrences(t, r.Old, all, whole)
	if len(f.regions) == 0 || len(f.regions) > 1 && !all {
		return f
	}
	if plainEndings(r.Old) == plainEndings(r.New) {
		// The line endings are the edit.
		for _, m := range f.regions {
			f.splices = append(f.splices, shrink(t, splice{m.start, m.end, r.New}))
		}
		return f
	}
	if all && strings.Contains(r.Old, "\n") && strings.Contains(t, "\r\n") {
		// In a file of mixed line endings "all" means all that look the same.
		if more := searchFolded(t, r, all, foldEndings); len(more.regions) > len(f.regions) {
			more.with = MatchEndings
			return more
		}
	}
	steps := script(r.Old, r.New)
	for _, m := range f.regions {
		for _, s := range steps {
			s.start, s.end = s.start+m.start, s.end+m.start
			s.text = adaptEndings(s.text, t, s.start, s.end)
			f.splices = append(f.splices, s)
		}
	}
	return f
}

// cutsEnding reports that an offset lies inside a CRLF.
func cutsEnding(t string, at int) bool {
	return at > 0 && at < len(t) && t[at] == '\n' && t[at-1] == '\r'
}

func plainEndings(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }

// occurrences finds old in t: all that do not overlap if every one is wanted,
// otherwise also overlapping ones, since each of them could be meant.
func occurrences(t, old string, all bool, ok func(region) bool) []region {
	var out []region
	for at := 0; at <= len(t)-len(old); {
		i := strings.Index(t[at:], old)
		if i < 0 {
			break
		}
		m := region{at + i, at + i + len(old)}
		at = m.start + 1
		if !ok(m) {
			continue
		}
		out = append(out, m)
		if all {
			at = m.end
			if len(out) > maxAll {
				break
			}
		} else if len(out) >= maxRegions {
			break
		}
	}
	return out
}

// searchFolded finds old with differences overlooked.
func searchFolded(t string, r Replacement, all bool, how fold) found {
	old, new := r.Old, r.New
	ft, fo := foldText(t, how), foldText(old, how)
	if how&foldBlanks != 0 {
		// Blanks at the end of old's lines say nothing about the file's, nor do
		// the same ones in new.
		cut := fo.cut
		old, new = dropBlanks(old, new, how)
		fo = foldText(old, how)
		fo.cut = cut
	}
	f := matchFolded(ft, fo, t, old, new, all, false)
	if len(f.regions) > 0 || !strings.HasSuffix(old, "\n") || t == "" || strings.HasSuffix(t, "\n") {
		return f
	}
	// The last line of the file has no line ending, old has one.
	old, new = bare(old), strings.TrimSuffix(strings.TrimSuffix(new, "\n"), "\r")
	if strings.TrimSpace(old) == "" {
		return f
	}
	return matchFolded(ft, foldText(old, how), t, old, new, all, true)
}

// dropBlanks takes the blanks at the end of old's lines away, and from those
// lines of new that are lines of old.
func dropBlanks(old, new string, how fold) (string, string) {
	was := map[string]bool{}
	var a, b strings.Builder
	for _, line := range lines(old) {
		was[bare(line)] = true
		a.WriteString(trimBlanks(bare(line), how) + ending(line))
	}
	for _, line := range lines(new) {
		if was[bare(line)] {
			line = trimBlanks(bare(line), how) + ending(line)
		}
		b.WriteString(line)
	}
	return a.String(), b.String()
}

// matchFolded finds fo in ft and maps the changes back. atEnd wants a match at
// the end of the text only.
func matchFolded(ft, fo *folded, t, old, new string, all, atEnd bool) found {
	var f found
	at := occurrences(ft.text, fo.text, all, func(m region) bool {
		if fo.cut && m.end < len(ft.text) && ft.text[m.end] != '\n' {
			return false // its blanks at the end say that the line ends there
		}
		return (!atEnd || m.end == len(ft.text)) && ft.start(m.start) >= 0 && ft.end(m.end) >= 0
	})
	for _, m := range at {
		f.regions = append(f.regions, region{ft.start(m.start), ft.end(m.end)})
	}
	if len(at) == 0 || len(at) > 1 && !all {
		return f
	}
	steps := script(old, new)
	for _, m := range at {
		for _, s := range steps {
			from, to := m.start+fo.from(s.start), m.start+fo.from(s.end)
			mapped := splice{text: s.text}
			if from == to && from > m.start {
				mapped.start = ft.end(from)
				mapped.end = mapped.start
			} else {
				mapped.start = ft.start(from)
				mapped.end = max(mapped.start, ft.end(to))
				if from == to {
					mapped.end = mapped.start
				}
			}
			mapped.text = adaptEndings(mapped.text, t, mapped.start, mapped.end)
			if mapped.start == mapped.end && mapped.text == "" {
				continue
			}
			f.splices = append(f.splices, mapped)
		}
	}
	return f
}

// applySplices puts the splices into t.
func applySplices(t string, splices []splice) string {
	if len(splices) == 0 {
		return t
	}
	var out strings.Builder
	at := 0
	for _, s := range splices {
		out.WriteString(t[at:s.start])
		out.WriteString(s.text)
		at = s.end
	}
	out.WriteString(t[at:])
	return out.String()
}
