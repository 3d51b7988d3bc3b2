package oauth

import (
	"slices"
	"strings"
)

// Bounds of a header WWW-Authenticate.
const (
	maxHeader     = 16 << 10 // bytes of all its lines
	maxChallenges = 16
	maxParams     = 32
)

// params are what a challenge says, by name in lower case. Of a name that comes
// twice the first one counts.
type params map[string]string

// challenge is one way in which a server wants to be asked.
type challenge struct {
	scheme string // in lower case
	params params
}

// bearer is what the first challenge for a bearer token says.
func bearer(all []challenge) params {
	for _, c := range all {
		if c.scheme == "bearer" {
			return c.params
		}
	}
	return nil
}

// parseChallenges reads the lines of WWW-Authenticate (RFC 9110 §11.6.1). Several
// challenges may stand in one line, and one be spread over several parameters,
// both with commas between. What does not fit is left out: a server that cannot
// write the header has well-known places as well.
func parseChallenges(lines []string) []challenge {
	var all []challenge
	size := 0
	for _, line := range lines {
		if size += len(line); size > maxHeader {
			break
		}
		p := &headerParser{rest: line}
		for p.next() && len(all) < maxChallenges {
			all = append(all, p.challenge())
		}
	}
	return all
}

type headerParser struct{ rest string }

// next skips what is between challenges.
func (p *headerParser) next() bool {
	p.rest = strings.TrimLeft(p.rest, " \t,")
	return p.rest != ""
}

func (p *headerParser) challenge() challenge {
	c := challenge{params: params{}}
	c.scheme = strings.ToLower(p.token())
	if c.scheme == "" {
		p.skip() // no token at all: leave this element out
		return c
	}
	for {
		before := p.rest
		p.rest = strings.TrimLeft(p.rest, " \t,")
		name, value, ok := p.param()
		if !ok {
			if strings.HasPrefix(before, " ") && !strings.Contains(before[:len(before)-len(p.rest)], ",") && p.rest != "" {
				p.skip() // "Basic dGVzdA==": data in place of parameters
			}
			return c
		}
		if _, known := c.params[name]; !known && len(c.params) < maxParams {
			c.params[name] = value
		}
	}
}

// param reads name=value or name="value". If there is none, nothing is read.
func (p *headerParser) param() (name, value string, ok bool) {
	start := p.rest
	name = strings.ToLower(p.token())
	p.rest = strings.TrimLeft(p.rest, " \t")
	if name == "" || !strings.HasPrefix(p.rest, "=") {
		p.rest = start
		return "", "", false
	}
	p.rest = strings.TrimLeft(p.rest[1:], " \t")
	if strings.HasPrefix(p.rest, `"`) {
		return name, p.quoted(), true
	}
	if value = p.token(); value == "" {
		if strings.HasPrefix(p.rest, "=") { // the padding of data
			p.rest = start
			return "", "", false
		}
		// An unquoted URL or scope is a common mistake, and clear.
		i := strings.IndexAny(p.rest, ", \t")
		if i < 0 {
			i = len(p.rest)
		}
		value, p.rest = p.rest[:i], p.rest[i:]
		return name, value, true
	}
	if i := strings.IndexAny(p.rest, ", \t"); i != 0 && p.rest != "" {
		if i < 0 {
			i = len(p.rest)
		}
		value, p.rest = value+p.rest[:i], p.rest[i:]
	}
	return name, value, true
}

// quoted reads a quoted string; one that does not end, ends with the line.
func (p *headerParser) quoted() string {
	var b strings.Builder
	i := 1
	for ; i < len(p.rest) && p.rest[i] != '"'; i++ {
		if p.rest[i] == '\\' && i+1 < len(p.rest) {
			i++
		}
		b.WriteByte(p.rest[i])
	}
	p.rest = p.rest[min(i+1, len(p.rest)):]
	return b.String()
}

// token reads a token of RFC 9110 §5.6.2; "" if none stands here.
func (p *headerParser) token() string {
	i := 0
	for i < len(p.rest) && tokenByte(p.rest[i]) {
		i++
	}
	t := p.rest[:i]
	p.rest = p.rest[i:]
	return t
}

// skip leaves out everything up to the next comma.
func (p *headerParser) skip() {
	if i := strings.IndexByte(p.rest, ','); i >= 0 {
		p.rest = p.rest[i:]
	} else {
		p.rest = ""
	}
}

func tokenByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// fields are the scopes of a list, each once, in order.
func fields(list string) []string { return union(nil, strings.Fields(list)) }

// union puts what is new behind what is there.
func union(there, more []string) []string {
	all := slices.Clone(there)
	for _, s := range more {
		if len(all) < maxScopes && scopeToken(s) && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// scopeToken reports whether s can be one scope, RFC 6749 §3.3.
func scopeToken(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return s != ""
}

// subset reports whether all has every one of some.
func subset(some, all []string) bool {
	for _, s := range some {
		if !slices.Contains(all, s) {
			return false
		}
	}
	return true
}
