package edit

import "strings"

// indentOf is the blanks that a line begins with.
func indentOf(line string) string {
	return line[:len(line)-len(strings.TrimLeft(line, " \t"))]
}

// searchIndented finds whole lines whose indentation (and trailing blanks and
// line endings) differ from old's, and indents the replacement as the file is.
func searchIndented(t string, r Replacement, all bool) found {
	f := found{with: MatchIndentation}
	old := lines(r.Old)
	content := make([]string, len(old))
	for i, line := range old {
		content[i] = strings.Trim(bare(line), " \t")
	}
	file := lines(t)
	starts := make([]int, len(file)+1)
	for i, line := range file {
		starts[i+1] = starts[i] + len(line)
	}
	var at []int
	for i := 0; i+len(old) <= len(file); i++ {
		if !sameLines(file[i:i+len(old)], content) {
			continue
		}
		at = append(at, i)
		f.regions = append(f.regions, region{starts[i], starts[i+len(old)]})
		if all {
			i += len(old) - 1
		} else if len(at) >= maxRegions {
			break
		}
	}
	if len(at) == 0 || len(at) > 1 && !all {
		return f
	}
	for _, i := range at {
		splices, ok := reindent(t, file[i:i+len(old)], starts[i:i+len(old)+1], old, r)
		if !ok {
			return found{}
		}
		f.splices = append(f.splices, splices...)
	}
	return f
}

func sameLines(file, content []string) bool {
	for i := range content {
		if strings.Trim(bare(file[i]), " \t") != content[i] {
			return false
		}
	}
	return true
}

// reindent works out the change of matched lines. It is not ok if the new
// lines' indentation cannot be told from what is there.
func reindent(t string, file []string, starts []int, old []string, r Replacement) ([]splice, bool) {
	replacement := lines(r.New)
	base := newIndents(old, file, replacement)
	var splices []splice
	for _, h := range compare(old, replacement) {
		var out strings.Builder
		for j := h.c; j < h.d; j++ {
			line := replacement[j]
			if strings.Trim(bare(line), " \t") == "" {
				out.WriteString(ending(line))
				continue
			}
			k := -1 // the old line that this one stands for
			if h.d-h.c == h.b-h.a {
				k = h.a + j - h.c
			}
			indent, ok := base.of(indentOf(line), k)
			if !ok {
				return nil, false
			}
			line = strings.TrimLeft(line, " \t")
			if k >= 0 && blanksAtEnd(old[k]) == blanksAtEnd(line) {
				// The edit is not about the blanks at the end: the file's stay.
				line = strings.TrimRight(bare(line), " \t") + blanksAtEnd(file[k]) + ending(line)
			}
			out.WriteString(indent + line)
		}
		s := splice{starts[h.a], starts[h.b], out.String()}
		// The last lines of old and new may have no ending where the file's has.
		if h.b == len(old) && h.b > h.a && ending(old[h.b-1]) == "" {
			last := file[h.b-1]
			s.end -= len(ending(last))
			if k := len(old) - 1; h.d-h.c != h.b-h.a || blanksAtEnd(old[k]) != blanksAtEnd(replacement[h.d-1]) {
				s.end -= len(blanksAtEnd(last))
			}
		} else if h.b == len(old) && h.b > h.a && ending(file[h.b-1]) == "" {
			s.text = strings.TrimSuffix(strings.TrimSuffix(s.text, "\n"), "\r")
		}
		if h.a == len(old) && len(old) > 0 && ending(old[len(old)-1]) == "" {
			return nil, false
		}
		s.text = adaptEndings(s.text, t, s.start, s.end)
		splices = append(splices, shrink(t, s))
	}
	return splices, true
}

// blanksAtEnd is the blanks before a line's ending.
func blanksAtEnd(line string) string {
	line = bare(line)
	return line[len(strings.TrimRight(line, " \t")):]
}

// indents maps the indentation that old's lines have to what the file has.
type indents struct {
	old, file []string // by line of old; "" and blank lines have blank set
	blank     []bool
	uniform   bool // no old indentation stands for two of the file's
	asFile    bool // the replacement is already written as the file is
	unit      int  // spaces to a tab
}

func newIndents(old, file, replacement []string) indents {
	in := indents{uniform: true}
	seen := map[string]string{}
	first := -1
	for i := range old {
		o, f := indentOf(bare(old[i])), indentOf(bare(file[i]))
		blank := strings.Trim(bare(old[i]), " \t") == ""
		in.old, in.file, in.blank = append(in.old, o), append(in.file, f), append(in.blank, blank)
		if blank {
			continue
		}
		if first < 0 {
			first = i
		}
		if was, ok := seen[o]; ok && was != f {
			in.uniform = false
		}
		seen[o] = f
		in.learnUnit(o, f)
	}
	for _, line := range replacement {
		if strings.Trim(bare(line), " \t") == "" {
			continue
		}
		is := indentOf(bare(line))
		in.asFile = first >= 0 && is != in.old[first] && is == in.file[first]
		break
	}
	if in.unit == 0 {
		in.unit = 4
	}
	return in
}

// learnUnit finds how many spaces stand for a tab from one pair.
func (in *indents) learnUnit(a, b string) {
	if strings.Trim(a, " ") != "" {
		a, b = b, a
	}
	if in.unit == 0 && a != "" && b != "" && strings.Trim(a, " ") == "" && strings.Trim(b, "\t") == "" && len(a)%len(b) == 0 {
		in.unit = len(a) / len(b)
	}
}

// of gives the file's indentation for a new line indented by is; k is the line
// of old that it stands for, or -1.
func (in *indents) of(is string, k int) (string, bool) {
	if in.asFile {
		return is, true
	}
	if k >= 0 && !in.blank[k] && !in.uniform {
		if indent, ok := in.shift(is, k); ok {
			return indent, true
		}
	}
	if !in.uniform {
		return "", false
	}
	best := -1
	for i := range in.old {
		if in.blank[i] || !strings.HasPrefix(is, in.old[i]) {
			continue
		}
		if best < 0 || len(in.old[i]) > len(in.old[best]) {
			best = i
		}
	}
	if best >= 0 {
		return in.shift(is, best)
	}
	for i := range in.old { // less than any: take off what the nearest has more
		if !in.blank[i] && (best < 0 || len(in.old[i]) < len(in.old[best])) {
			best = i
		}
	}
	if best < 0 {
		return "", false
	}
	return in.shift(is, best)
}

// shift moves an indentation as line i of old moved to the file's.
func (in *indents) shift(is string, i int) (string, bool) {
	o, f := in.old[i], in.file[i]
	if rest, ok := strings.CutPrefix(is, o); ok {
		return f + in.like(rest, f), true
	}
	if less, ok := strings.CutPrefix(o, is); ok {
		return strings.CutSuffix(f, in.like(less, f))
	}
	return "", false
}

// like writes an indentation with tabs or spaces as the file does in line f.
func (in *indents) like(rest, f string) string {
	switch {
	case f == "" || rest == "":
		// Nothing to go by in this line: what the others have.
		for _, other := range in.file {
			if other != "" && rest != "" {
				return in.like(rest, other)
			}
		}
	case strings.Trim(f, "\t") == "" && strings.Trim(rest, " ") == "" && len(rest)%in.unit == 0:
		return strings.Repeat("\t", len(rest)/in.unit)
	case strings.Trim(f, " ") == "":
		return strings.ReplaceAll(rest, "\t", strings.Repeat(" ", in.unit))
	}
	return rest
}
