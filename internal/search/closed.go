package search

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// ToolyardIgnore gives the predicate of the .toolyardignore files in and below
// dir: whether a path, relative to dir and with slashes, is closed to tools. The
// syntax is that of .gitignore. A file further down can close more, never open
// what one above has closed; neither can a .gitignore.
//
// The files are read when they are needed, and again when their size, time or
// identity has changed. The predicate is safe for concurrent use.
func ToolyardIgnore(dir string) func(rel string, dir bool) bool {
	c := &closedFiles{dir: dir, files: map[string]closedFile{}}
	return c.closed
}

// maxClosedFiles bounds how many files of patterns are remembered.
const maxClosedFiles = 1024

type closedFiles struct {
	dir string

	mu    sync.Mutex
	files map[string]closedFile
}

// closedFile is one file as it was read.
type closedFile struct {
	info  fs.FileInfo
	mtime time.Time
	list  *patterns
}

func (c *closedFiles) closed(rel string, dir bool) bool {
	if rel == "" || rel == "." {
		return false
	}
	// Every directory on the way is asked for what lies directly and deeper
	// below it; a directory that is closed closes all in it.
	for base := 0; ; {
		if list := c.list(rel[:base]); list != nil && closes(list, rel[base:], dir) {
			return true
		}
		slash := strings.IndexByte(rel[base:], '/')
		if slash < 0 {
			return false
		}
		base += slash + 1
	}
}

// closes tells whether a list excludes path or a directory on the way to it.
func closes(list *patterns, path string, dir bool) bool {
	for end := 0; end < len(path); {
		isDir := true
		if slash := strings.IndexByte(path[end:], '/'); slash >= 0 {
			end += slash
		} else {
			end, isDir = len(path), dir
		}
		part := path[:end]
		if list.match(part, part[strings.LastIndexByte(part, '/')+1:], isDir) == excluded {
			return true
		}
		end++
	}
	return false
}

// list is the patterns of the file in a directory; nil if there are none.
func (c *closedFiles) list(below string) *patterns {
	path := filepath.Join(c.dir, filepath.FromSlash(below), closedName)
	info, err := os.Lstat(path)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil || !info.Mode().IsRegular() {
		delete(c.files, path)
		return nil
	}
	known, ok := c.files[path]
	if ok && known.info.Size() == info.Size() && known.mtime.Equal(info.ModTime()) && os.SameFile(known.info, info) {
		return known.list
	}
	if len(c.files) >= maxClosedFiles {
		clear(c.files)
	}
	known = closedFile{info: info, mtime: info.ModTime(), list: readPatterns(path)}
	c.files[path] = known
	return known.list
}
