package policy

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"
)

// pathPattern is a gitignore pattern: "//x" is absolute, "~/x" below the home
// directory, "/x" and "x/y" start at the workspace, "x" is at any depth. A
// pattern that meets a directory meets all that lies in it.
type pathPattern struct {
	anchor   anchor
	segments []string // "**" is any number of directories
	kinds    []segmentKind
}

// segmentKind says how a segment is matched, so that most need no search.
type segmentKind uint8

const (
	plain   segmentKind = iota
	starred             // "*" only
	classes             // "?", "[…]" or "\" as well
	deepest             // "**"
)

func kindOf(segment string) segmentKind {
	switch {
	case segment == "**":
		return deepest
	case strings.ContainsAny(segment, `?[\`):
		return classes
	case strings.Contains(segment, "*"):
		return starred
	}
	return plain
}

type anchor uint8

const (
	anywhere anchor = iota
	inWorkspace
	inHome
	atRoot
)

func parsePathPattern(text string) (*pathPattern, error) {
	p := &pathPattern{}
	rest := text
	switch {
	case strings.HasPrefix(text, "//"):
		p.anchor, rest = atRoot, text[2:]
	case text == "~" || strings.HasPrefix(text, "~/"):
		p.anchor, rest = inHome, strings.TrimPrefix(text[1:], "/")
	case strings.HasPrefix(text, "/"):
		p.anchor, rest = inWorkspace, text[1:]
	case strings.HasPrefix(text, "./"):
		p.anchor, rest = inWorkspace, text[2:]
	case strings.Contains(strings.TrimRight(text, "/"), "/"):
		p.anchor = inWorkspace
	}
	if strings.HasPrefix(rest, "**/") && p.anchor == inWorkspace && !strings.HasPrefix(text, "/") {
		p.anchor = anywhere
	}
	for segment := range strings.SplitSeq(rest, "/") {
		if segment == "" || segment == "." {
			continue
		}
		if segment == ".." {
			return nil, fmt.Errorf("holds \"..\", which no pattern may")
		}
		if n := len(p.segments); segment == "**" && n > 0 && p.segments[n-1] == "**" {
			continue
		}
		p.segments = append(p.segments, segment)
		p.kinds = append(p.kinds, kindOf(segment))
	}
	return p, nil
}

// location is a path as patterns see it: absolute and clean, and its part below
// the workspace and the home directory.
type location struct {
	abs  string
	rel  string // below the workspace; "." is the workspace itself; "" is outside
	home string // below the home directory; "" is outside
}

// locate reads a path as a tool would take it. ok is false for a path that
// cannot be told: relative with no base, or "~" with no home.
func locate(name, base, workspace, home string) (l location, ok bool) {
	name, base = filepath.ToSlash(name), filepath.ToSlash(base)
	workspace, home = filepath.ToSlash(workspace), filepath.ToSlash(home)
	switch {
	case name == "":
		return l, false
	case name == "~" || strings.HasPrefix(name, "~/"):
		if home == "" {
			return l, false
		}
		name = home + name[1:]
	case !strings.HasPrefix(name, "/") && filepath.VolumeName(name) == "":
		if base == "" {
			return l, false
		}
		name = base + "/" + name
	}
	l.abs = path.Clean(name)
	l.rel, l.home = under(l.abs, workspace), under(l.abs, home)
	return l, true
}

// under is the part of abs below dir, "." for dir itself, "" if outside.
func under(abs, dir string) string {
	if dir == "" {
		return ""
	}
	if abs == dir {
		return "."
	}
	if dir == "/" {
		return abs[1:]
	}
	if len(abs) > len(dir) && abs[len(dir)] == '/' && abs[:len(dir)] == dir {
		return abs[len(dir)+1:]
	}
	return ""
}

// match reports whether the pattern meets l. strict is for allow rules: a
// pattern for any depth then means any depth of the workspace, else of the
// whole path.
func (p *pathPattern) match(l location, strict bool) bool {
	var in string
	switch p.anchor {
	case atRoot:
		in = strings.TrimPrefix(l.abs, "/")
	case inHome:
		in = l.home
	case inWorkspace:
		in = l.rel
	default:
		in = l.rel
		if in == "" && !strict {
			in = strings.TrimPrefix(l.abs, "/")
		}
	}
	if in == "" {
		return p.anchor == atRoot && len(p.segments) == 0
	}
	if in == "." {
		return len(p.segments) == 0 || len(p.segments) == 1 && (p.segments[0] == "**" || p.segments[0] == "*")
	}
	if p.anchor == anywhere && (len(p.segments) == 0 || p.segments[0] != "**") {
		for {
			if p.matchNames(in) {
				return true
			}
			_, rest, more := strings.Cut(in, "/")
			if !more {
				return false
			}
			in = rest
		}
	}
	return p.matchNames(in)
}

// matchNames reports whether the segments meet name or a directory above it. A
// "**" takes as few names as it can; only the last one passed ever needs to take
// more, so the time is bounded by the product of the lengths.
func (p *pathPattern) matchNames(name string) bool {
	deep, from := -1, "" // the last "**" passed, and what it stood before
	for i := 0; i < len(p.segments); {
		if p.kinds[i] == deepest {
			if i == len(p.segments)-1 {
				return name != ""
			}
			deep, from = i, name
			i++
			continue
		}
		if name == "" {
			return false
		}
		var segment string
		segment, name, _ = strings.Cut(name, "/")
		switch {
		case matchSegment(p.segments[i], p.kinds[i], segment):
			i++
		case deep < 0:
			return false
		default:
			_, from, _ = strings.Cut(from, "/")
			i, name = deep+1, from
		}
	}
	return true
}

// matchSegment matches one name.
func matchSegment(pattern string, kind segmentKind, s string) bool {
	switch kind {
	case plain:
		return pattern == s
	case starred:
		return wildcard(pattern, s)
	}
	ok, err := path.Match(strings.ReplaceAll(pattern, "[!", "[^"), s)
	return ok && err == nil
}

// escapePath makes a path a pattern that meets only itself and what lies in it.
func escapePath(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name)
}
