//go:build amd64 || arm64

package seccomp

import (
	"slices"

	"golang.org/x/sys/unix"
)

// segment is a run of system calls, up to where the next one begins, with the
// same body.
type segment struct {
	from uint32
	body assembler
}

// tree turns a list of rules, each "is it this call? then its body", into a
// search tree: the kernel goes through a filter once for every system call there
// is when it is loaded (seccomp_cache_prepare), and through a list that took
// longer than most of a launch. Of two rules for one call the first counts.
func (a assembler) tree() assembler {
	bodies := map[uint32]assembler{}
	var numbers []uint32
	for len(a) > 1 { // the last is what holds for every other call
		head, size := a[0], int(a[0].Jf)
		if _, known := bodies[head.K]; !known {
			bodies[head.K] = a[1 : 1+size]
			numbers = append(numbers, head.K)
		}
		a = a[1+size:]
	}
	slices.Sort(numbers)
	segments := []segment{{0, a}}
	add := func(s segment) {
		last := &segments[len(segments)-1]
		switch {
		case slices.Equal(last.body, s.body):
		case last.from == s.from:
			last.body = s.body
		default:
			segments = append(segments, s)
		}
	}
	for _, nr := range numbers {
		add(segment{nr, bodies[nr]})
		if _, next := bodies[nr+1]; !next {
			add(segment{nr + 1, a})
		}
	}
	return search(segments)
}

// search finds the segment of the number in the accumulator and runs its body.
func search(segments []segment) assembler {
	if len(segments) == 1 {
		return segments[0].body
	}
	middle := len(segments) / 2
	below, above := search(segments[:middle]), search(segments[middle:])
	var a assembler
	if len(below) <= 255 {
		a.jump(unix.BPF_JGE, segments[middle].from, len(below), 0)
	} else {
		a.jump(unix.BPF_JGE, segments[middle].from, 0, 1)
		a.add(unix.BPF_JMP|unix.BPF_JA, 0, 0, uint32(len(below)))
	}
	return append(append(a, below...), above...)
}
