package search

import (
	"bytes"
	"slices"
)

// needle finds the first of a few literals, quickly: it looks for two bytes at
// their distance, many positions at a time, and compares the rest only there.
// At each of the two offsets the literals have at most two different bytes, so
// one pass serves for all of them.
type needle struct {
	texts []lit
	// What is looked for: a0 or a1 at offset first, b0 or b1 at d behind it.
	first, d       int
	a0, a1, b0, b1 byte
}

// newNeedle finds the rarest two bytes of the texts. ok is false if one pass
// cannot serve for all of them.
func newNeedle(texts ...lit) (n *needle, ok bool) {
	shortest := len(texts[0].text)
	for _, t := range texts {
		shortest = min(shortest, len(t.text))
	}
	n = &needle{texts: texts}
	best, second := -1, -1
	ranks := make([]int, shortest)
	for k := range shortest {
		lo, hi, fits := n.bytesAt(k)
		if ranks[k] = int(byteRank[lo]); hi != lo {
			ranks[k] = 14 + max(int(byteRank[lo]), int(byteRank[hi]))
		}
		switch {
		case !fits:
		case best < 0 || ranks[k] < ranks[best]:
			best, second = k, best
		case second < 0 || ranks[k] < ranks[second]:
			second = k
		}
	}
	if best < 0 {
		return nil, false
	}
	if second < 0 {
		second = best
	}
	n.first, n.d = min(best, second), max(best, second)-min(best, second)
	n.a0, n.a1, _ = n.bytesAt(n.first)
	n.b0, n.b1, _ = n.bytesAt(n.first + n.d)
	return n, true
}

// bytesAt are the bytes that the texts have at offset k; fits is false if they
// are more than two.
func (n *needle) bytesAt(k int) (lo, hi byte, fits bool) {
	var seen [4]byte
	count := 0
	add := func(c byte) {
		for _, have := range seen[:min(count, 2)] {
			if have == c {
				return
			}
		}
		seen[min(count, 3)] = c
		count++
	}
	for _, t := range n.texts {
		c := t.text[k]
		add(c)
		if t.fold && c >= 'a' && c <= 'z' {
			add(c - 'a' + 'A')
		}
	}
	if count == 1 {
		seen[1] = seen[0]
	}
	return seen[0], seen[1], count <= 2
}

// index finds the first occurrence in s at or after from; -1 if there is none.
func (n *needle) index(s []byte, from int) int {
	if len(n.texts) == 1 && len(n.texts[0].text) == 1 && n.a0 == n.a1 {
		if i := bytes.IndexByte(s[from:], n.a0); i >= 0 {
			return from + i
		}
		return -1
	}
	for {
		room := len(s) - from - n.first - n.d
		if room <= 0 {
			return -1
		}
		i := indexPair(s[from+n.first:], room, n.d, n.a0, n.a1, n.b0, n.b1)
		if i < 0 {
			return -1
		}
		from += i
		for _, t := range n.texts {
			if t.at(s[from:]) {
				return from
			}
		}
		from++
	}
}

// at reports whether s begins with the literal.
func (l *lit) at(s []byte) bool {
	if len(s) < len(l.text) {
		return false
	}
	if !l.fold {
		return string(s[:len(l.text)]) == l.text
	}
	for i := range len(l.text) {
		got := s[i]
		if got >= 'A' && got <= 'Z' {
			got += 'a' - 'A'
		}
		if got != l.text[i] {
			return false
		}
	}
	return true
}

// needles finds the nearest of any number of literals, with as few passes as
// will do. It remembers where each pass has come to in a buffer, so that a rare
// literal is not looked for again and again.
type needles struct {
	list []*needle
	next []int // where each occurs next; -1 not at all
	buf  *byte // of the buffer that next is about; nil none
	size int
}

func newNeedles(texts []lit) *needles {
	n := &needles{}
	for len(texts) > 0 {
		group, _ := newNeedle(texts[0]) // one text has at most two bytes an offset
		var rest []lit
		for _, t := range texts[1:] {
			if bigger, ok := newNeedle(append(slices.Clone(group.texts), t)...); ok {
				group = bigger
			} else {
				rest = append(rest, t)
			}
		}
		n.list = append(n.list, group)
		texts = rest
	}
	n.next = make([]int, len(n.list))
	return n
}

// reset forgets a buffer.
func (n *needles) reset() { n.buf = nil }

// index finds the first occurrence of any in s at or after from. Within one
// buffer from must not go back; call reset before another one.
func (n *needles) index(s []byte, from int) int {
	if len(n.list) == 1 {
		return n.list[0].index(s, from)
	}
	if len(s) == 0 {
		return -1
	}
	fresh := n.buf != &s[0] || n.size != len(s)
	n.buf, n.size = &s[0], len(s)
	best := -1
	for i, one := range n.list {
		if fresh || (n.next[i] >= 0 && n.next[i] < from) {
			n.next[i] = one.index(s, from)
		}
		if at := n.next[i]; at >= 0 && (best < 0 || at < best) {
			best = at
		}
	}
	return best
}

func indexPairGo(s []byte, n, d int, a0, a1, b0, b1 byte) int {
	for i := 0; i < n; i++ {
		if a0 == a1 {
			next := bytes.IndexByte(s[i:n], a0)
			if next < 0 {
				return -1
			}
			i += next
		} else if s[i] != a0 && s[i] != a1 {
			continue
		}
		if s[i+d] == b0 || s[i+d] == b1 {
			return i
		}
	}
	return -1
}
