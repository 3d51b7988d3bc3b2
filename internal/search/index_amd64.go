package search

import "golang.org/x/sys/cpu"

var hasAVX2 = cpu.X86.HasAVX2

// indexPairAVX2 is [indexPair] for n of at least 32.
//
//go:noescape
func indexPairAVX2(p *byte, n, d int, a0, a1, b0, b1 byte) int

// indexPair finds the first i below n where s[i] is a0 or a1 and s[i+d] is b0 or
// b1; -1 if there is none. s holds at least n+d bytes.
func indexPair(s []byte, n, d int, a0, a1, b0, b1 byte) int {
	if n >= 32 && hasAVX2 {
		_ = s[n+d-1]
		return indexPairAVX2(&s[0], n, d, a0, a1, b0, b1)
	}
	return indexPairGo(s, n, d, a0, a1, b0, b1)
}
