package edit

import (
	"encoding/hex"

	"github.com/zeebo/xxh3"
)

// Sum is the hash of a file's content by which the runtime knows it: xxh3 with
// 128 bits, in hex. It tells versions of a file apart; it is no signature.
func Sum(b []byte) string {
	sum := xxh3.Hash128(b).Bytes()
	return hex.EncodeToString(sum[:])
}

// Summer computes [Sum] of a stream.
type Summer struct{ h *xxh3.Hasher128 }

// NewSum starts an empty sum.
func NewSum() *Summer { return &Summer{h: xxh3.New128()} }

// Write adds b. It never fails.
func (s *Summer) Write(b []byte) (int, error) { return s.h.Write(b) }

// Sum is the hash of all that was written.
func (s *Summer) Sum() string {
	sum := s.h.Sum128().Bytes()
	return hex.EncodeToString(sum[:])
}
