package search

import (
	"io"
	"os"
	"path/filepath"
	"strings"
)

// The files that hold patterns.
const (
	gitignoreName = ".gitignore"
	closedName    = ".toolyardignore"
	gitName       = ".git"
)

// maxPatternFile bounds one file of patterns, in bytes; what is over is not read.
const maxPatternFile = 4 << 20

// level is what one directory adds to the patterns that count in it and below.
// Directories that add nothing share their parent's level.
type level struct {
	parent *level
	base   int // length of the directory's absolute path with its slash
	git    *patterns
	closed *patterns
	// extra are info/exclude and the global file, in this order, at a
	// repository's top (or at the boundary, where there is no repository).
	extra []*patterns
	// top says that patterns from further up are not of this repository.
	top bool
}

// ignored decides about an absolute path in the directory of l. Both kinds of
// patterns are asked; closed says that .toolyardignore shuts the path, which
// nothing opens again.
func (l *level) ignored(path, name string, dir bool) (ignored verdict, shut bool) {
	decided, above := undecided, false
	for at := l; at != nil; at = at.parent {
		below := path[at.base:]
		if at.closed != nil && at.closed.match(below, name, dir) == excluded {
			return excluded, true
		}
		if above || decided != undecided {
			continue
		}
		if at.git != nil {
			decided = at.git.match(below, name, dir)
		}
		for _, list := range at.extra {
			if decided == undecided {
				decided = list.match(below, name, dir)
			}
		}
		above = at.top
	}
	return decided, false
}

// levels makes levels.
type levels struct {
	global *patterns // of core.excludesFile; may be nil
}

// startLevel is the level of the parent of dir, from what its ancestors hold:
// those up to the top of the repository that dir is in, and at least up to
// boundary. shut says that a .toolyardignore closes dir.
func (ls *levels) startLevel(dir, boundary string) (l *level, shut bool) {
	top := repositoryTop(dir)
	if boundary != "" && (top == "" || len(boundary) < len(top)) && within(dir, boundary) {
		top = boundary
	}
	if top == "" {
		top = dir
	}
	if repositoryTop(top) == "" && ls.global != nil {
		l = &level{base: baseOf(top), extra: []*patterns{ls.global}}
	}
	parents := chain(top, dir)
	for i, d := range parents {
		l = ls.below(l, d, readPatterns(filepath.Join(d, gitignoreName)), readPatterns(filepath.Join(d, closedName)), exists(filepath.Join(d, gitName)))
		child := dir
		if i+1 < len(parents) {
			child = parents[i+1]
		}
		if _, closed := l.ignored(child, filepath.Base(child), true); closed {
			shut = true
		}
	}
	return l, shut
}

// below is the level of directory dir under l.
func (ls *levels) below(l *level, dir string, git, closed *patterns, isTop bool) *level {
	if git == nil && closed == nil && !isTop {
		return l
	}
	next := &level{parent: l, base: baseOf(dir), git: git, closed: closed, top: isTop}
	if isTop {
		if list := readPatterns(excludeFile(dir)); list != nil {
			next.extra = append(next.extra, list)
		}
		if ls.global != nil {
			next.extra = append(next.extra, ls.global)
		}
	}
	return next
}

// excludeFile is the info/exclude of the repository whose top is dir, also where
// .git is a file that names the real place (a worktree, a submodule).
func excludeFile(dir string) string {
	git := filepath.Join(dir, gitName)
	if info, err := os.Lstat(git); err == nil && info.Mode().IsRegular() {
		content, err := readRegular(git, 4096)
		place, ok := strings.CutPrefix(string(content), "gitdir:")
		if err != nil || !ok {
			return ""
		}
		git = absoluteFrom(dir, strings.TrimSpace(place))
		if content, err = readRegular(filepath.Join(git, "commondir"), 4096); err == nil {
			git = absoluteFrom(git, strings.TrimSpace(string(content)))
		}
	}
	return filepath.Join(git, "info", "exclude")
}

func absoluteFrom(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// repositoryTop is the nearest directory at or above dir with a .git in it; ""
// if there is none.
func repositoryTop(dir string) string {
	for {
		if exists(filepath.Join(dir, gitName)) {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			return ""
		}
		dir = up
	}
}

// chain lists the directories from top down to the parent of dir.
func chain(top, dir string) []string {
	var dirs []string
	for d := dir; d != top && within(d, top); {
		d = filepath.Dir(d)
		dirs = append([]string{d}, dirs...)
	}
	return dirs
}

// within reports whether path is dir or lies below it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

func baseOf(dir string) int {
	if strings.HasSuffix(dir, "/") {
		return len(dir)
	}
	return len(dir) + 1
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// readPatterns reads a file of patterns by name; nil if there is none.
func readPatterns(path string) *patterns {
	if path == "" {
		return nil
	}
	content, err := readRegular(path, maxPatternFile)
	if err != nil || len(content) == 0 {
		return nil
	}
	return parsePatterns(content)
}

// readRegular reads at most limit bytes of a regular file and never waits.
func readRegular(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|nonBlock, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, os.ErrInvalid
	}
	return io.ReadAll(io.LimitReader(f, limit))
}
