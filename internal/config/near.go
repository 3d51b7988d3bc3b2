package config

// nearest is the name most like key, or "" if none is like it.
func nearest(key string, names []string) string {
	best, distance := "", 1+len(key)/3
	for _, name := range names {
		if name == "*" {
			continue
		}
		if d := editDistance(fold(key), fold(name)); d <= distance {
			best, distance = name, d-1
		}
	}
	return best
}

// editDistance counts the letters to insert, delete, replace or swap.
func editDistance(a, b string) int {
	const longest = 64
	if len(a) > longest || len(b) > longest {
		return longest
	}
	before, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	var twoBefore []int
	for i := 1; i <= len(a); i++ {
		twoBefore, before, row = before, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(row[j-1]+1, before[j]+1, before[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], twoBefore[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
