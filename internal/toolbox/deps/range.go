package deps

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// Range is a set of versions in npm's syntax: alternatives with ||, each a hyphen
// range or comparators that all must hold, with ^, ~, x and missing parts.
//
// Masterminds' own constraints are not used: they read ~1 otherwise than npm,
// take pre-releases in by another rule, and accept what npm refuses.
// See https://github.com/npm/node-semver#ranges.
type Range struct {
	text string
	any  [][]comparator
}

// comparator is one bound. A nil version matches everything if op is "", and
// nothing if it is "none".
type comparator struct {
	op string // "", "<", "<=", ">", ">=", "=", "none"
	v  *semver.Version
}

// maxRange bounds the text of a range, in bytes, as npm does.
const maxRange = 256

// ParseRange reads a range of versions. The empty text is any version.
func ParseRange(text string) (*Range, error) {
	r := &Range{text: strings.TrimSpace(text)}
	if len(text) > maxRange {
		return nil, fmt.Errorf("range of %d bytes, at most %d", len(text), maxRange)
	}
	for part := range strings.SplitSeq(text, "||") {
		set, err := parseSet(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("%q is no range of versions: %w", r.text, err)
		}
		r.any = append(r.any, set)
	}
	// As npm does: where one alternative is any version, only that is left, and
	// pre-releases that another one names are out.
	if slices.ContainsFunc(r.any, func(set []comparator) bool { return len(set) == 0 }) {
		r.any = [][]comparator{nil}
	}
	return r, nil
}

// String is the text that was parsed.
func (r *Range) String() string { return r.text }

// Has reports whether the version, such as "1.2.3-beta.1", is in the range. A
// pre-release is only where a bound of the same three numbers names one.
func (r *Range) Has(version string) bool {
	v, err := parseVersion(version)
	if err != nil {
		return false
	}
	for _, set := range r.any {
		if within(set, v) {
			return true
		}
	}
	return false
}

func within(set []comparator, v *semver.Version) bool {
	for _, c := range set {
		if !c.has(v) {
			return false
		}
	}
	if v.Prerelease() == "" {
		return true
	}
	for _, c := range set {
		if c.v != nil && c.v.Prerelease() != "" && c.v.Major() == v.Major() && c.v.Minor() == v.Minor() && c.v.Patch() == v.Patch() {
			return true
		}
	}
	return false
}

func (c comparator) has(v *semver.Version) bool {
	switch c.op {
	case "":
		return true
	case "none":
		return false
	}
	n := v.Compare(c.v)
	switch c.op {
	case "<":
		return n < 0
	case "<=":
		return n <= 0
	case ">":
		return n > 0
	case ">=":
		return n >= 0
	}
	return n == 0
}

func parseVersion(text string) (*semver.Version, error) {
	return semver.StrictNewVersion(strings.TrimLeft(strings.TrimSpace(text), "v="))
}

func parseSet(text string) ([]comparator, error) {
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return nil, nil
	}
	if len(fields) == 3 && fields[1] == "-" {
		return parseHyphen(fields[0], fields[2])
	}
	var set []comparator
	op := ""
	for _, field := range fields {
		o, rest := cutOperator(field)
		if o != "" && op != "" {
			return nil, fmt.Errorf("%q follows another operator", field)
		}
		if op = op + o; rest == "" {
			if op == "" {
				return nil, fmt.Errorf("%q is no version", field)
			}
			continue
		}
		more, err := desugar(op, rest)
		if err != nil {
			return nil, err
		}
		set, op = append(set, more...), ""
	}
	if op != "" {
		return nil, fmt.Errorf("%q is not followed by a version", op)
	}
	return set, nil
}

func cutOperator(text string) (op, rest string) {
	for _, op := range []string{"<=", ">=", "~>", "<", ">", "=", "^", "~"} {
		if rest, ok := strings.CutPrefix(text, op); ok {
			return op, rest
		}
	}
	return "", text
}

// partial is a version of which parts may be missing or x.
type partial struct {
	n   [3]uint64
	has int // how many numbers are there
	pre string
	// hole says that a number stands behind an x, equals that the text began with
	// an equals sign.
	hole, equals bool
}

func parsePartial(text string) (partial, error) {
	var p partial
	signs := len(text) - len(strings.TrimLeft(text, "v="))
	p.equals = strings.Contains(text[:signs], "=")
	text = text[signs:]
	text, _, _ = strings.Cut(text, "+")
	text, pre, hasPre := strings.Cut(text, "-")
	parts := strings.Split(text, ".")
	if len(parts) > 3 {
		return p, fmt.Errorf("%q has more than three numbers", text)
	}
	wild := false
	for i, part := range parts {
		if part == "x" || part == "X" || part == "*" {
			wild = true
			continue
		}
		n, err := strconv.ParseUint(part, 10, 53)
		if err != nil || len(part) > 1 && part[0] == '0' || part[0] == '+' {
			return p, fmt.Errorf("%q is no number of a version", part)
		}
		if p.hole = wild; !wild {
			p.n[i], p.has = n, i+1
		}
	}
	if hasPre {
		if p.has == 3 {
			p.pre = pre
		}
		if _, err := semver.StrictNewVersion("1.0.0-" + pre); err != nil {
			return p, fmt.Errorf("%q is no pre-release", pre)
		}
	}
	return p, nil
}

func (p partial) version() *semver.Version { return semver.New(p.n[0], p.n[1], p.n[2], p.pre, "") }

// floor is p with zeros for what is missing.
func (p partial) floor() comparator { return comparator{">=", p.version()} }

// below is the first version after all that share the first n numbers with p,
// its pre-releases left out.
func (p partial) below(n int) comparator {
	q := partial{}
	copy(q.n[:n], p.n[:n])
	q.n[n-1]++
	return comparator{"<", semver.New(q.n[0], q.n[1], q.n[2], "0", "")}
}

func desugar(op, text string) ([]comparator, error) {
	p, err := parsePartial(text)
	if err != nil {
		return nil, err
	}
	switch op {
	case "^":
		if p.has == 0 {
			return nil, nil
		}
		n := 1 // the first number that is not zero must not change
		for n < p.has && p.n[n-1] == 0 {
			n++
		}
		return []comparator{p.floor(), p.below(n)}, nil
	case "~", "~>":
		if p.has == 0 {
			return nil, nil
		}
		return []comparator{p.floor(), p.below(min(p.has, 2))}, nil
	}
	if p.hole || p.equals && p.has == 3 {
		return nil, fmt.Errorf("%q is no version", text)
	}
	switch op {
	case "", "=":
		switch p.has {
		case 0:
			return nil, nil
		case 3:
			return []comparator{{"=", p.version()}}, nil
		}
		return []comparator{p.floor(), p.below(p.has)}, nil
	}
	return bound(op, p), nil
}

// bound is <, <=, > or >= with a version that may lack parts.
func bound(op string, p partial) []comparator {
	if p.has == 0 {
		if op == "<" || op == ">" {
			return []comparator{{op: "none"}}
		}
		return nil
	}
	if p.has == 3 {
		return []comparator{{op, p.version()}}
	}
	switch op {
	case ">": // >1.2 is after all of 1.2
		next := p.below(p.has)
		return []comparator{{">=", semver.New(next.v.Major(), next.v.Minor(), next.v.Patch(), "", "")}}
	case "<=":
		return []comparator{p.below(p.has)}
	case "<":
		return []comparator{{"<", semver.New(p.n[0], p.n[1], p.n[2], "0", "")}}
	}
	return []comparator{p.floor()}
}

func parseHyphen(low, high string) ([]comparator, error) {
	from, err := parsePartial(low)
	if err != nil {
		return nil, err
	}
	to, err := parsePartial(high)
	if err != nil {
		return nil, err
	}
	var set []comparator
	if from.has > 0 {
		set = append(set, from.floor())
	}
	switch to.has {
	case 0:
		return set, nil
	case 3:
		return append(set, comparator{"<=", to.version()}), nil
	}
	return append(set, to.below(to.has)), nil
}
