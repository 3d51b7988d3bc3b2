package pydeps

import (
	"cmp"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// version is one of PEP 440, normalised.
type version struct {
	epoch   *big.Int
	release []*big.Int
	pre     string // "a", "b" or "rc", "" for none
	preN    *big.Int
	post    *big.Int // nil for none
	dev     *big.Int // nil for none
	local   []string
}

// versionPattern is that of PEP 440, appendix B.
var versionPattern = lazy(`(?i)^\s*v?(?:(\d+)!)?(\d+(?:\.\d+)*)` +
	`(?:[-_.]?(alpha|a|beta|b|preview|pre|c|rc)[-_.]?(\d*))?` +
	`(?:-(\d+)|[-_.]?(post|rev|r)[-_.]?(\d*))?` +
	`(?:[-_.]?(dev)[-_.]?(\d*))?` +
	`(?:\+([a-z0-9]+(?:[-_.][a-z0-9]+)*))?\s*$`)

const maxVersion = 256 // bytes of a version, or of one clause of a range

func parseVersion(text string) (*version, error) {
	if len(text) > maxVersion {
		return nil, fmt.Errorf("version of %d bytes", len(text))
	}
	m := versionPattern().FindStringSubmatch(text)
	if m == nil {
		return nil, fmt.Errorf("%q is no version", text)
	}
	v := &version{epoch: number(m[1])}
	for part := range strings.SplitSeq(m[2], ".") {
		v.release = append(v.release, number(part))
	}
	switch pre := strings.ToLower(m[3]); pre {
	case "alpha", "a":
		v.pre = "a"
	case "beta", "b":
		v.pre = "b"
	case "c", "rc", "pre", "preview":
		v.pre = "rc"
	}
	if v.pre != "" {
		v.preN = number(m[4])
	}
	if m[5] != "" {
		v.post = number(m[5])
	} else if m[6] != "" {
		v.post = number(m[7])
	}
	if m[8] != "" {
		v.dev = number(m[9])
	}
	if m[10] != "" {
		v.local = strings.FieldsFunc(strings.ToLower(m[10]), func(c rune) bool { return strings.ContainsRune("-_.", c) })
	}
	return v, nil
}

func number(digits string) *big.Int {
	n := new(big.Int)
	n.SetString(digits, 10) // no digits are 0
	return n
}

// compare orders as PEP 440 says: dev < pre < none < post.
func (v *version) compare(w *version) int {
	return cmp.Or(v.comparePublic(w), compareLocal(v.local, w.local))
}

// comparePublic leaves the local part out.
func (v *version) comparePublic(w *version) int {
	return cmp.Or(v.epoch.Cmp(w.epoch), compareRelease(v.release, w.release), v.comparePre(w),
		compareOptional(v.post, w.post, -1), compareOptional(v.dev, w.dev, +1))
}

func compareRelease(a, b []*big.Int) int {
	for i := range max(len(a), len(b)) {
		if c := releasePart(a, i).Cmp(releasePart(b, i)); c != 0 {
			return c
		}
	}
	return 0
}

var zero = new(big.Int) // never changed

func releasePart(release []*big.Int, i int) *big.Int {
	if i < len(release) {
		return release[i]
	}
	return zero
}

func (v *version) comparePre(w *version) int {
	if c := cmp.Compare(v.preRank(), w.preRank()); c != 0 || v.pre == "" {
		return c
	}
	return v.preN.Cmp(w.preN)
}

// preRank puts a development release of nothing else before all pre-releases.
func (v *version) preRank() int {
	switch {
	case v.pre != "":
		return int(v.pre[0]-'a') + 1
	case v.post == nil && v.dev != nil:
		return 0
	}
	return 100
}

// compareOptional compares numbers of which one that is not there is lower
// (absent -1) or higher (absent +1) than all others.
func compareOptional(a, b *big.Int, absent int) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return absent
	case b == nil:
		return -absent
	}
	return a.Cmp(b)
}

func compareLocal(a, b []string) int {
	for i := range min(len(a), len(b)) {
		numA, numB := digits(a[i]), digits(b[i])
		var c int
		switch {
		case numA && numB:
			c = number(a[i]).Cmp(number(b[i]))
		case numA != numB && numA:
			c = 1 // numbers come after letters
		case numA != numB:
			c = -1
		default:
			c = cmp.Compare(a[i], b[i])
		}
		if c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

func digits(s string) bool {
	return strings.IndexFunc(s, func(c rune) bool { return c < '0' || c > '9' }) < 0
}

func (v *version) prerelease() bool { return v.pre != "" || v.dev != nil }

// clause is one comparison of a range: ">=1.2".
type clause struct {
	operator string
	version  *version
	wild     bool   // "==1.2.*"
	text     string // of "===", compared as it is
}

var operators = []string{"===", "==", "!=", "~=", "<=", ">=", "<", ">"}

// parseRange reads a PEP 440 version specifier: clauses with commas between.
// Besides, as other tools write them: nothing, "*" and "latest" are any version, a
// bare version is that one, "^1.2" is up to the next major version, "~1.2.3" up
// to the next minor one.
func parseRange(text string) ([]clause, error) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "(") && strings.HasSuffix(text, ")") {
		text = strings.TrimSpace(text[1 : len(text)-1])
	}
	if text == "" || text == "*" || strings.EqualFold(text, "latest") {
		return nil, nil
	}
	var clauses []clause
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue // a comma at the end is allowed
		}
		more, err := parseClause(part)
		if err != nil {
			return nil, err
		}
		clauses = append(clauses, more...)
	}
	return clauses, nil
}

func parseClause(text string) ([]clause, error) {
	if len(text) > maxVersion {
		return nil, fmt.Errorf("a range of %d bytes", len(text))
	}
	if rest, ok := strings.CutPrefix(text, "^"); ok {
		return upTo(rest, caretPart)
	}
	if rest, ok := strings.CutPrefix(text, "~"); ok && !strings.HasPrefix(rest, "=") {
		return upTo(rest, tildePart)
	}
	i := slices.IndexFunc(operators, func(o string) bool { return strings.HasPrefix(text, o) })
	c := clause{operator: "=="}
	rest := text
	if i >= 0 {
		c.operator = operators[i]
		rest = strings.TrimSpace(text[len(c.operator):])
	}
	if c.operator == "===" {
		if rest == "" || strings.ContainsAny(rest, " \t\n;") {
			return nil, fmt.Errorf("%q is no range of versions", text)
		}
		c.text = rest
		return []clause{c}, nil
	}
	if prefix, ok := strings.CutSuffix(rest, ".*"); ok && (c.operator == "==" || c.operator == "!=") {
		c.wild, rest = true, prefix
	}
	v, err := parseVersion(rest)
	if err != nil || c.wild && (v.local != nil || v.dev != nil) || c.operator == "~=" && len(v.release) < 2 ||
		v != nil && v.local != nil && c.operator != "==" && c.operator != "!=" {
		return nil, fmt.Errorf("%q is no range of versions", text)
	}
	c.version = v
	return []clause{c}, nil
}

// caretPart is the first number that is not 0, tildePart the second number: the
// one that must stay.
func caretPart(release []*big.Int) int {
	for i, n := range release {
		if n.Sign() != 0 {
			return i
		}
	}
	return len(release) - 1
}

func tildePart(release []*big.Int) int { return min(1, len(release)-1) }

func upTo(text string, part func([]*big.Int) int) ([]clause, error) {
	low, err := parseVersion(text)
	if err != nil || low.local != nil {
		return nil, fmt.Errorf("%q is no range of versions", text)
	}
	n := part(low.release)
	high := &version{epoch: low.epoch, release: slices.Clone(low.release[:n+1])}
	high.release[n] = new(big.Int).Add(high.release[n], big.NewInt(1))
	return []clause{{operator: ">=", version: low}, {operator: "<", version: high}}, nil
}

// Satisfied reports whether a version lies in a range, as PEP 440 compares them. A
// pre-release does so only where the range names one. The error says what of the
// two cannot be understood.
func Satisfied(installed, within string) (bool, error) {
	v, err := parseVersion(installed)
	if err != nil {
		return false, err
	}
	clauses, err := parseRange(within)
	if err != nil {
		return false, err
	}
	named := slices.ContainsFunc(clauses, func(c clause) bool { return c.version != nil && c.version.prerelease() || c.text != "" })
	for _, c := range clauses {
		if !c.holds(v, installed) {
			return false, nil
		}
	}
	return !v.prerelease() || named || len(clauses) == 0, nil
}

func (c *clause) holds(v *version, text string) bool {
	w := c.version
	switch c.operator {
	case "===":
		return strings.EqualFold(c.text, strings.TrimSpace(text))
	case "==":
		return c.equal(v)
	case "!=":
		return !c.equal(v)
	case "<=":
		return v.comparePublic(w) <= 0
	case ">=":
		return v.comparePublic(w) >= 0
	case "<":
		// Not a pre-release of the version itself, unless that is one.
		return v.comparePublic(w) < 0 && (w.prerelease() || !v.prerelease() || compareRelease(v.release, w.release) != 0 || v.epoch.Cmp(w.epoch) != 0)
	case ">":
		// Not a post-release of the version itself, unless that is one, nor a local one.
		same := compareRelease(v.release, w.release) == 0 && v.epoch.Cmp(w.epoch) == 0
		return v.comparePublic(w) > 0 && (!same || v.local == nil && (w.post != nil || v.post == nil))
	}
	// "~=2.2.1" is ">=2.2.1, ==2.2.*".
	prefix := clause{operator: "==", version: &version{epoch: w.epoch, release: w.release[:len(w.release)-1]}, wild: true}
	return v.comparePublic(w) >= 0 && prefix.equal(v)
}

func (c *clause) equal(v *version) bool {
	w := c.version
	if !c.wild {
		if w.local == nil {
			return v.comparePublic(w) == 0
		}
		return v.compare(w) == 0
	}
	if v.epoch.Cmp(w.epoch) != 0 {
		return false
	}
	for i, n := range w.release {
		if releasePart(v.release, i).Cmp(n) != 0 {
			return false
		}
	}
	switch {
	case w.pre == "" && w.post == nil:
		return true
	case w.post == nil:
		return v.pre == w.pre && v.preN.Cmp(w.preN) == 0
	}
	return v.comparePre(w) == 0 && compareOptional(v.post, w.post, -1) == 0
}

// lazy is a pattern that is compiled when it is first needed: all that a package
// makes at its start, each start of the program pays for.
func lazy(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}
