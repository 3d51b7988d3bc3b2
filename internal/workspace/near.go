package workspace

import (
	"cmp"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Bounds of the search for near names.
const (
	maxNear        = 5
	maxNearEntries = 20_000
)

// Near gives up to 5 names of files in the workspace that resemble name, the
// nearest first: the same base name elsewhere, or one that differs in a few
// letters. It looks at a bounded number of entries, follows no symlink, and
// never names what lies outside or is ignored.
func (w *Workspace) Near(name string) []string {
	if w.config.Dir == "" {
		return nil
	}
	r := w.roots[0]
	name = filepath.ToSlash(name)
	for _, prefix := range []string{r.given, r.real} {
		if rest, ok := below(name, prefix); ok {
			name = rest
		}
	}
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	base := strings.ToLower(path.Base(name))
	type candidate struct {
		name  string
		score int
	}
	var found []candidate
	left := maxNearEntries
	w.visit(r.dir, &left, func(rel string) {
		if score, ok := nearness(strings.ToLower(path.Base(rel)), base); ok {
			if path.Dir(rel) != path.Dir(name) {
				score++
			}
			found = append(found, candidate{rel, score})
		}
	})
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(a.score-b.score, cmp.Compare(strings.Count(a.name, "/"), strings.Count(b.name, "/")), cmp.Compare(a.name, b.name))
	})
	var names []string
	for _, c := range found[:min(len(found), maxNear)] {
		names = append(names, c.name)
	}
	return names
}

// visit walks the tree level by level, so that what is near the root is seen
// before the budget is spent.
func (w *Workspace) visit(root *os.Root, left *int, file func(rel string)) {
	for queue := []string{"."}; len(queue) > 0; queue = queue[1:] {
		dir, err := root.Open(queue[0])
		if err != nil {
			continue
		}
		entries, _ := dir.ReadDir(*left)
		dir.Close()
		slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
		for _, entry := range entries {
			rel := path.Join(filepath.ToSlash(queue[0]), entry.Name())
			switch {
			case w.config.Ignored != nil && w.config.Ignored(rel, entry.IsDir()):
			case entry.IsDir():
				if !slices.Contains([]string{".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv"}, entry.Name()) {
					queue = append(queue, rel)
				}
			case entry.Type().IsRegular():
				file(rel)
			}
		}
		if *left -= len(entries); *left <= 0 {
			return
		}
	}
}

// nearness is how far two lower-case names are apart; ok if they are near.
func nearness(a, b string) (int, bool) {
	if a == b {
		return 0, true
	}
	stemA, stemB := strings.TrimSuffix(a, path.Ext(a)), strings.TrimSuffix(b, path.Ext(b))
	if stemA == stemB && stemA != "" {
		return 2, true
	}
	limit := 1 + len(b)/4
	if d := distance(a, b, limit); d <= limit {
		return 2 * d, true
	}
	if len(stemA) > 3 && len(stemB) > 3 && (strings.Contains(stemA, stemB) || strings.Contains(stemB, stemA)) {
		return 3 * limit, true
	}
	return 0, false
}

// distance is the number of changed, added, left out or swapped letters between
// a and b, or more than limit.
func distance(a, b string, limit int) int {
	if len(a) > 255 || len(b) > 255 || max(len(a), len(b))-min(len(a), len(b)) > limit {
		return limit + 1
	}
	var rows [3][257]int
	for j := range len(b) + 1 {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		now, last, before := &rows[i%3], &rows[(i+2)%3], &rows[(i+1)%3]
		now[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			now[j] = min(last[j]+1, now[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				now[j] = min(now[j], before[j-2]+1)
			}
		}
	}
	return rows[len(a)%3][len(b)]
}
