//go:build !amd64

package search

// indexPair finds the first i below n where s[i] is a0 or a1 and s[i+d] is b0 or
// b1; -1 if there is none. s holds at least n+d bytes.
func indexPair(s []byte, n, d int, a0, a1, b0, b1 byte) int {
	return indexPairGo(s, n, d, a0, a1, b0, b1)
}
