package search

import (
	"context"
	"testing"
)

// BenchmarkGrep searches the Go source tree.
func BenchmarkGrep(b *testing.B) {
	src := goSource(b)
	for _, pattern := range []string{`zyxwvu`, `Errorf`, `func.*error`, `\w+Handler\b`, `[A-Z]{6,}_[A-Z]+`} {
		b.Run(pattern, func(b *testing.B) {
			p, err := Compile(pattern, PatternOptions{})
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				_, err := Grep(context.Background(), place(b, src), Options{}, GrepOptions{Pattern: p, Lines: true}, func(*File) error { return nil })
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
