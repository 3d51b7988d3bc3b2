//go:build amd64 || arm64

package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// guarded is a protected pattern, with what there was of it, below a directory that can be written.
type guarded struct {
	root    string // real path
	pattern string // relative, slash-separated, * in components
	found   []string
}

// protect makes what exists of the protected paths read-only mounts. A mount
// point cannot be renamed, removed or replaced from inside; so that the
// directories above it cannot be renamed away either (".git" with its hooks),
// each of those becomes a mount point as well, of itself.
//
// What does not exist cannot be mounted over without leaving a file on the host,
// Landlock cannot deny inside of what it allows, and a filter of system calls
// does not see paths. So a protected path that appears is taken away when the
// command ends, before anybody is told so, and reported: see guard.
func (t *tree) protect(p *Profile) {
	for _, pattern := range p.Protected {
		if filepath.IsAbs(pattern) {
			if above := covering(t.places, pattern); above != nil && above.access == readWrite && above.target == above.source {
				rel, _ := filepath.Rel(above.target, pattern)
				t.protectBelow(above.target, rel)
			}
			continue
		}
		for _, root := range t.writable(p) {
			t.protectBelow(root, pattern)
		}
	}
}

func (t *tree) protectBelow(root, pattern string) {
	if !filepath.IsLocal(pattern) || pattern == "." {
		return
	}
	found := matches(root, pattern)
	t.guarded = append(t.guarded, guarded{root, pattern, found})
	for _, path := range found {
		rel, _ := filepath.Rel(root, path)
		parents := []string{}
		for dir := filepath.Dir(rel); dir != "."; dir = filepath.Dir(dir) {
			parents = append(parents, filepath.Join(root, dir))
		}
		for _, dir := range slices.Backward(parents) {
			t.pin(dir, readWrite)
		}
		t.pin(path, readOnly)
	}
}

// pin mounts a path onto itself.
func (t *tree) pin(path string, a access) {
	for i := range t.places {
		if t.places[i].target == path {
			if a == readOnly {
				t.places[i].access = readOnly
			}
			return
		}
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&os.ModeSymlink != 0 {
		return
	}
	t.places = append(t.places, place{source: path, target: path, access: a, dir: info.IsDir(), within: true, id: identify(path)})
	slices.SortStableFunc(t.places, func(a, b place) int { return strings.Compare(a.target, b.target) })
}

// matches lists what exists of a pattern, without following symlinks. Where a
// component that should be a directory is something else, that is the match: the
// file .git of a worktree stands for .git/hooks.
func matches(root, pattern string) []string {
	found := []string{root}
	parts := strings.Split(pattern, "/")
	var ends []string
	for i, part := range parts {
		var next []string
		for _, dir := range found {
			for _, path := range children(dir, part) {
				info, err := os.Lstat(path)
				switch {
				case err != nil:
				case i == len(parts)-1, !info.IsDir():
					ends = append(ends, path)
				default:
					next = append(next, path)
				}
			}
		}
		found = next
	}
	return ends
}

// children lists the entries of dir that match one component of a pattern.
func children(dir, part string) []string {
	if !strings.ContainsAny(part, "*?[") {
		return []string{filepath.Join(dir, part)}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var paths []string
	for _, e := range entries {
		if ok, _ := filepath.Match(part, e.Name()); ok {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths
}
