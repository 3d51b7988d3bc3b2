package files

import (
	"fmt"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// A file in one piece and byte by byte give the same window.
func TestWindowInPieces(t *testing.T) {
	texts := map[string]string{
		"empty": "", "a line": "one\n", "no newline at the end": "one\ntwo", "carriage returns": "one\r\ntwo\r\n\r\n",
		"blank lines": "\n\n\n", "not UTF-8": "a\xff\nb\xe4\xb8\nc\n", "long": strings.Repeat("漢", 2001) + "\nshort\n" + strings.Repeat("x", 9000) + "\n",
		"just short enough": strings.Repeat("x", 2000) + "\n" + strings.Repeat("ä", 2000) + "\n", "many": strings.Repeat("a line\n", 1200),
	}
	for name, text := range texts {
		for _, raw := range []bool{false, true} {
			for _, limit := range []int{5, 60, 1000, 50 << 10} {
				for _, skip := range []int{0, 1, 1100} {
					t.Run(fmt.Sprintf("%s, raw %v, limit %d, skip %d", name, raw, limit, skip), func(t *testing.T) {
						make := func() *window { return &window{raw: raw, limit: limit, skip: skip, want: 1000} }
						whole, pieces := make(), make()
						whole.all([]byte(text))
						if err := pieces.from(iotest.OneByteReader(strings.NewReader(text)), 0); err != nil {
							t.Fatal(err)
						}
						if diff := cmp.Diff(shape(pieces), shape(whole)); diff != "" {
							t.Errorf("in one piece it is different (-pieces +whole):\n%s", diff)
						}
					})
				}
			}
		}
	}
}

func shape(w *window) map[string]any {
	return map[string]any{
		"text": w.text.String(), "total": w.total, "lines": w.lines, "full": w.full, "invalid": w.invalid, "cut": w.cut, "broken": w.broken,
	}
}
