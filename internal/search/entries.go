package search

import (
	"io/fs"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// kind is what a directory entry is.
type kind uint8

const (
	kindFile kind = iota
	kindDir
	kindLink
	kindOther // FIFO, socket, device
)

// entry is one name in a directory.
type entry struct {
	name string // followed by a NUL byte in memory where the system needs one
	kind kind
}

// meta is what stat says of an entry, a symlink not followed.
type meta struct {
	size  int64
	mode  fs.FileMode
	mtime time.Time
}

// sortEntries sorts by the names' bytes.
func sortEntries(list []entry) {
	slices.SortFunc(list, func(a, b entry) int { return strings.Compare(a.name, b.name) })
}

// directory is an open directory that several goroutines read files from. The
// last one to release it closes it.
type directory struct {
	handle
	path string // below the walk's start, with a trailing slash; "" is the start
	refs atomic.Int32
}

func newDirectory(h handle, path string) *directory {
	d := &directory{handle: h, path: path}
	d.refs.Store(1)
	return d
}

func (d *directory) retain() { d.refs.Add(1) }

func (d *directory) release() {
	if d.refs.Add(-1) == 0 {
		d.handle.close()
	}
}
