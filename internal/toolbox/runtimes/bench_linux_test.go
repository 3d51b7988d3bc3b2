package runtimes_test

import "testing"

// BenchmarkFound is what each start of a worker costs once a program is known.
func BenchmarkFound(b *testing.B) {
	r := openFor(b)
	for _, name := range []string{"node", "python3", "git", "chromium"} {
		b.Run(name, func(b *testing.B) {
			if _, err := r.Command(b.Context(), name); err != nil {
				b.Skip(err)
			}
			for b.Loop() {
				if _, err := r.Command(b.Context(), name); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
