package validate

import (
	"slices"
	"strings"
)

// Nearest finds the candidate most like name: fewest letters changed, added,
// left out or swapped, where case, '_' and '-' count little. near says whether
// it is like enough to be what was meant. No candidates give "".
func Nearest(name string, candidates []string) (best string, near bool) {
	ranked := Rank(name, candidates)
	if len(ranked) == 0 {
		return "", false
	}
	best = ranked[0]
	cost := distance(name, best)
	return best, cost <= closeEnough(name, best)
}

// Rank orders the candidates, nearest first; equal ones by the alphabet.
func Rank(name string, candidates []string) []string {
	const longest = 64 // nobody means a name that long
	if len(name) > longest {
		name = name[:longest]
	}
	type scored struct {
		name string
		cost int
	}
	list := make([]scored, 0, len(candidates))
	for _, c := range candidates {
		list = append(list, scored{c, distance(name, c)})
	}
	slices.SortFunc(list, func(a, b scored) int {
		if a.cost != b.cost {
			return a.cost - b.cost
		}
		return strings.Compare(a.name, b.name)
	})
	names := make([]string, len(list))
	for i, s := range list {
		names[i] = s.name
	}
	return names
}

// weight makes one letter count more than one '_' or one capital.
const weight = 4

// closeEnough is the cost up to which two names are taken for each other: a
// third of the longer one.
func closeEnough(a, b string) int { return weight*max(1, (max(len(a), len(b))+1)/3) + 1 }

// distance is the optimal string alignment of the folded names, plus one if
// they differ only in case, '_' or '-'.
func distance(a, b string) int {
	if a == b {
		return 0
	}
	x, y := []rune(fold(a)), []rune(fold(b))
	rows := [3][]int{make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := 1; i <= len(x); i++ {
		before, last, now := rows[(i-1)%3], rows[i%3], rows[(i+1)%3]
		now[0] = i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			now[j] = min(last[j]+1, now[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				now[j] = min(now[j], before[j-2]+1)
			}
		}
	}
	return weight*rows[(len(x)+1)%3][len(y)] + 1
}

func fold(s string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(s))
}
