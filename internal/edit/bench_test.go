package edit_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/edit"
)

// BenchmarkApply edits one word in files of several sizes, with the journal.
func BenchmarkApply(b *testing.B) {
	for _, size := range []int{4 << 10, 1 << 20, 32 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			f := newFixture(b, edit.Config{Strictness: edit.Anchored})
			line := "a line of text that fills the file with something\r\n"
			f.write("f", strings.Repeat(line, size/2/len(line))+"the word 000000 here\n"+strings.Repeat(line, size/2/len(line)))
			p := f.path("f")
			i := 0
			for b.Loop() {
				if _, err := f.engine.Apply(b.Context(), f.origin, p, edit.Replacement{Old: fmt.Sprintf("word %06d", i), New: fmt.Sprintf("word %06d", i+1)}); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}
