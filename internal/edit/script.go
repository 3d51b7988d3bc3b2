package edit

import (
	"strings"
	"unicode/utf8"
)

// splice replaces text[start:end] by text.
type splice struct {
	start, end int
	text       string
}

// lines cuts s after each line ending.
func lines(s string) []string {
	if s == "" {
		return nil
	}
	l := strings.SplitAfter(s, "\n")
	if l[len(l)-1] == "" {
		l = l[:len(l)-1]
	}
	return l
}

// ending is the line ending of a line, or "".
func ending(line string) string {
	switch {
	case strings.HasSuffix(line, "\r\n"):
		return "\r\n"
	case strings.HasSuffix(line, "\n"):
		return "\n"
	}
	return ""
}

// bare is a line without its ending.
func bare(line string) string { return line[:len(line)-len(ending(line))] }

// hunk says that lines [a, b) of the old text become lines [c, d) of the new.
type hunk struct{ a, b, c, d int }

// maxCompared bounds the table of the line comparison: beyond it one hunk
// stands for all between the first and the last difference.
const maxCompared = 4 << 20

// compare gives the differences of two lists of lines, fewest first come. Lines
// are equal that differ in their line ending only.
func compare(old, new []string) []hunk {
	equal := func(i, j int) bool {
		return old[i] == new[j] || bare(old[i]) == bare(new[j]) && (ending(old[i]) == "") == (ending(new[j]) == "")
	}
	head := 0
	for head < len(old) && head < len(new) && equal(head, head) {
		head++
	}
	tail := 0
	for tail < len(old)-head && tail < len(new)-head && equal(len(old)-1-tail, len(new)-1-tail) {
		tail++
	}
	n, m := len(old)-head-tail, len(new)-head-tail
	if n == 0 && m == 0 {
		return nil
	}
	if n == 0 || m == 0 || n*m > maxCompared {
		return []hunk{{head, head + n, head, head + m}}
	}
	// common[i][j] is the length of the longest common part of what follows.
	common := make([]int32, (n+1)*(m+1))
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			at := i*(m+1) + j
			if equal(head+i, head+j) {
				common[at] = common[at+m+2] + 1
			} else {
				common[at] = max(common[at+m+1], common[at+1])
			}
		}
	}
	var hunks []hunk
	i, j := 0, 0
	for i < n || j < m {
		if i < n && j < m && equal(head+i, head+j) {
			i, j = i+1, j+1
			continue
		}
		h := hunk{a: head + i, c: head + j}
		for (i < n || j < m) && !(i < n && j < m && equal(head+i, head+j)) {
			if j == m || i < n && common[(i+1)*(m+1)+j] >= common[i*(m+1)+j+1] {
				i++
			} else {
				j++
			}
		}
		h.b, h.d = head+i, head+j
		hunks = append(hunks, h)
	}
	return hunks
}

// script gives the splices that turn old into new, as small as they can be
// without cutting a character or a line ending.
func script(old, new string) []splice {
	a, b := lines(old), lines(new)
	starts := make([]int, len(a)+1)
	for i, line := range a {
		starts[i+1] = starts[i] + len(line)
	}
	var splices []splice
	for _, h := range compare(a, b) {
		text := strings.Join(b[h.c:h.d], "")
		splices = append(splices, shrink(old, splice{starts[h.a], starts[h.b], text}))
	}
	return splices
}

// shrink leaves out of s what stays the same at both ends.
func shrink(old string, s splice) splice {
	was := old[s.start:s.end]
	n := 0
	for n < len(was) && n < len(s.text) && was[n] == s.text[n] {
		n++
	}
	for n > 0 && (!boundary(was, n) || !boundary(s.text, n)) {
		n--
	}
	s.start, s.text, was = s.start+n, s.text[n:], was[n:]
	n = 0
	for n < len(was) && n < len(s.text) && was[len(was)-1-n] == s.text[len(s.text)-1-n] {
		n++
	}
	for n > 0 && (!boundary(was, len(was)-n) || !boundary(s.text, len(s.text)-n)) {
		n--
	}
	s.end, s.text = s.end-n, s.text[:len(s.text)-n]
	return s
}

// boundary reports that s may be cut at i.
func boundary(s string, i int) bool {
	if i <= 0 || i >= len(s) {
		return true
	}
	return utf8.RuneStart(s[i]) && !(s[i] == '\n' && s[i-1] == '\r')
}

// adaptEndings gives text, which replaces t[start:end], the line endings of the
// lines it replaces, one by one; further ones like the last of them, or like
// those around. In a text with no line ending it stays as it is.
func adaptEndings(text, t string, start, end int) string {
	if !strings.Contains(text, "\n") {
		return text
	}
	var own []string
	for _, line := range lines(t[start:end]) {
		if e := ending(line); e != "" {
			own = append(own, e)
		}
	}
	around := endingNear(t, start, end)
	if len(own) > 0 {
		around = own[len(own)-1]
	}
	if around == "" {
		return text
	}
	var out strings.Builder
	for i, line := range lines(text) {
		out.WriteString(bare(line))
		switch {
		case ending(line) == "":
		case i < len(own):
			out.WriteString(own[i])
		default:
			out.WriteString(around)
		}
	}
	return out.String()
}

// endingNear is the line ending of the line that t[end] is in, else of the one
// before t[start]; "" if there is none.
func endingNear(t string, start, end int) string {
	if i := strings.IndexByte(t[end:], '\n'); i >= 0 {
		return ending(t[max(0, end+i-1) : end+i+1])
	}
	if i := strings.LastIndexByte(t[:start], '\n'); i >= 0 {
		return ending(t[max(0, i-1) : i+1])
	}
	return ""
}
