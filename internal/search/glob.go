package search

import (
	"container/heap"
	"context"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
)

// GlobFile is a file that a glob found.
type GlobFile struct {
	Path    string // below the place
	Size    int64
	ModTime time.Time
}

// GlobPattern is a pattern of [doublestar.Match], taken apart: "*" stops at a
// slash, "**" as a whole component is any number of directories, "{a,b}" is
// either.
type GlobPattern struct {
	text string
	// suffix is set for the usual "**/*.ext": what the name must end with. It is
	// valid UTF-8: of what is not, doublestar compares U+FFFD.
	suffix string
	// literal components of the text: directories that are named.
	named []string
	// depth is how many components a match has; 0 is any number.
	depth int
}

// SplitGlob cuts a pattern into the literal directory that it begins with ("" if
// none) and the rest.
func SplitGlob(pattern string) (dir, rest string) {
	dir, rest = doublestar.SplitPattern(pattern)
	if dir == "." && !strings.HasPrefix(pattern, "./") {
		dir = ""
	}
	return dir, rest
}

// CompileGlob prepares a pattern. The error is a *tool.Error that shows the
// place.
func CompileGlob(pattern string) (*GlobPattern, error) {
	if at, why := globFault(pattern); why != "" {
		return nil, badGlob(pattern, at, why)
	}
	g := &GlobPattern{text: strings.TrimPrefix(pattern, "./")}
	if rest, ok := strings.CutPrefix(g.text, "**/*"); ok && rest != "" && utf8.ValidString(rest) && !strings.ContainsAny(rest, "*?[]{}\\/,\uFFFD") {
		g.suffix = rest
	}
	parts := strings.Split(g.text, "/")
	if !strings.ContainsAny(g.text, "{") {
		g.depth = len(parts)
	}
	for _, p := range parts {
		if strings.Contains(p, "**") {
			g.depth = 0
		}
		g.named = append(g.named, strings.FieldsFunc(p, func(r rune) bool { return strings.ContainsRune("{},", r) })...)
	}
	return g, nil
}

// globFault finds what is wrong with a pattern; why is "" if nothing is.
func globFault(pattern string) (at int, why string) {
	var braces []int
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			if i++; i >= len(pattern) {
				return i - 1, "a backslash protects nothing"
			}
		case '[':
			end := classEnd(pattern, i)
			if end < 0 {
				return i, "this bracket is not closed"
			}
			if !doublestar.ValidatePattern(pattern[i : end+1]) {
				return i, "this character class is malformed"
			}
			i = end
		case '{':
			braces = append(braces, i)
		case '}':
			if len(braces) == 0 {
				return i, "this brace closes nothing"
			}
			braces = braces[:len(braces)-1]
		}
	}
	if len(braces) > 0 {
		return braces[len(braces)-1], "this brace is not closed"
	}
	if !doublestar.ValidatePattern(pattern) {
		return 0, "the pattern is malformed"
	}
	return 0, ""
}

// Match reports whether a path below the place matches.
func (g *GlobPattern) Match(path string) bool {
	if g.suffix != "" {
		return strings.HasSuffix(path, g.suffix)
	}
	return doublestar.MatchUnvalidated(g.text, path)
}

// GlobReport sums a glob up.
type GlobReport struct {
	Report
	Total int // files that match, shown or not
}

// Glob finds the files that match, newest first, ties by path; symlinks are left
// out, as by ripgrep. It gives at most limit of them (zero means all) and
// remembers no more.
func Glob(ctx context.Context, at Place, o Options, g *GlobPattern, limit int) ([]GlobFile, GlobReport, error) {
	o.Named = append(slices.Clone(o.Named), g.named...)
	o.MaxDepth = g.depth
	var found newest
	report := GlobReport{}
	walked, err := Walk(ctx, at, o, func(v *Visit) error {
		if v.kind != kindFile || !g.Match(v.path) {
			return nil
		}
		m, err := v.dir.stat(v.Name)
		if err != nil {
			return nil // gone since
		}
		report.Total++
		f := GlobFile{Path: v.path, Size: m.size, ModTime: m.mtime}
		if limit > 0 && len(found) == limit {
			if !f.before(found[0]) {
				return nil
			}
			f.Path = v.Path()
			found[0] = f
			heap.Fix(&found, 0)
			return nil
		}
		f.Path = v.Path()
		heap.Push(&found, f)
		return nil
	})
	report.Report = walked
	slices.SortFunc(found, func(a, b GlobFile) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	return found, report, err
}

// before is the order of the result.
func (f GlobFile) before(other GlobFile) bool {
	if !f.ModTime.Equal(other.ModTime) {
		return f.ModTime.After(other.ModTime)
	}
	return f.Path < other.Path
}

// newest is a heap with the last of the result on top.
type newest []GlobFile

func (n newest) Len() int           { return len(n) }
func (n newest) Less(i, j int) bool { return n[j].before(n[i]) }
func (n newest) Swap(i, j int)      { n[i], n[j] = n[j], n[i] }
func (n *newest) Push(x any)        { *n = append(*n, x.(GlobFile)) }
func (n *newest) Pop() any {
	last := (*n)[len(*n)-1]
	*n = (*n)[:len(*n)-1]
	return last
}
