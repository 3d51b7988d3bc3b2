package search

import (
	"strings"

	"github.com/toolyard/toolyard/tool"
)

// override is a glob as of ripgrep's -g: gitignore syntax with braces, turned
// around.
type override struct {
	list *patterns
	only bool // shows what matches; else hides it
}

// newOverride reads a glob; nil for "".
func newOverride(glob string) (*override, error) {
	if glob == "" {
		return nil, nil
	}
	text, negated := strings.CutPrefix(glob, "!")
	texts, err := expandBraces(strings.TrimPrefix(text, "./"))
	if err != nil {
		return nil, err
	}
	o := &override{list: &patterns{}, only: !negated}
	for _, t := range texts {
		o.list.addText(t)
	}
	return o, nil
}

// match: included, excluded, or undecided for a directory that may hold what is
// wanted. The path is tried below the place and below the boundary, since
// either may be meant.
func (o *override) match(below, boundary, name string, dir bool) verdict {
	hit := o.list.match(below, name, dir) != undecided ||
		(boundary != "" && o.list.match(boundary, name, dir) != undecided)
	switch {
	case hit && o.only:
		return included
	case hit:
		return excluded
	case o.only && !dir:
		return excluded
	}
	return undecided
}

// expandBraces writes out "{a,b}". A brace that a backslash protects or that
// stands in a class is itself.
func expandBraces(glob string) ([]string, error) {
	open, depth := -1, 0
	var commas []int
	for i := 0; i < len(glob); i++ {
		switch glob[i] {
		case '\\':
			i++
		case '[':
			if end := classEnd(glob, i); end > 0 {
				i = end
			}
		case '{':
			if depth++; depth == 1 {
				open, commas = i, nil
			}
		case ',':
			if depth == 1 {
				commas = append(commas, i)
			}
		case '}':
			if depth == 0 {
				return nil, badGlob(glob, i, "this brace closes nothing")
			}
			if depth--; depth == 0 {
				return expandAt(glob, open, i, commas)
			}
		}
	}
	if depth > 0 {
		return nil, badGlob(glob, open, "this brace is not closed")
	}
	return []string{glob}, nil
}

func expandAt(glob string, open, end int, commas []int) ([]string, error) {
	var all []string
	from := open + 1
	for _, to := range append(commas, end) {
		texts, err := expandBraces(glob[:open] + glob[from:to] + glob[end+1:])
		if err != nil {
			return nil, err
		}
		if all = append(all, texts...); len(all) > maxExpandedGlob {
			return nil, tool.Errorf(tool.ParameterError, "the glob %q stands for more than %d patterns", glob, maxExpandedGlob).
				WithHint("Use fewer alternatives in braces.")
		}
		from = to + 1
	}
	return all, nil
}

// classEnd is the index of the "]" of the class that begins at i; -1 if none.
func classEnd(glob string, i int) int {
	for j := i + 2; j < len(glob); j++ {
		switch glob[j] {
		case '\\':
			j++
		case ']':
			return j
		}
	}
	return -1
}

// badGlob shows where a glob is wrong.
func badGlob(glob string, at int, why string) error {
	return tool.Errorf(tool.ParameterError, "bad pattern: %s at position %d\n  %s\n  %s^", why, at+1, glob, strings.Repeat(" ", len([]rune(glob[:at])))).
		WithHint("Patterns use * (stops at /), **, ?, [a-z] and {a,b}; put a backslash before a character that stands for itself.").
		WithDetail("position", at+1)
}
