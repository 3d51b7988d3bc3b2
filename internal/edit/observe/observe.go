// Package observe looks at a directory before and after somebody else changes
// it, so that the changes can be undone. It does not know who that is; it does
// not undo.
//
// Looking is a walk that takes each file's size, times and inode. The old
// content of what changed comes from git, where the file was as git's index
// says, or else from a copy that is made while the other one works. A copy
// counts only if the file is still what the walk saw.
package observe

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Bounds of one observation.
const (
	maxFile    = 1 << 20   // bytes of a file that is copied
	maxCopies  = 200 << 20 // bytes of all copies of one workspace
	maxEntries = 300_000   // files and links that are looked at
)

// skipped are folders that are not looked at: version control keeps its own
// history, the others are made anew by their tools.
var skipped = map[string]bool{
	".git": true, ".hg": true, ".svn": true, ".jj": true, ".bzr": true,
	"node_modules": true, "__pycache__": true, ".venv": true, "venv": true, ".tox": true,
	".mypy_cache": true, ".pytest_cache": true, ".ruff_cache": true, ".next": true, ".gradle": true,
}

// Blobs keeps content by its hash.
type Blobs interface {
	// PutBlob keeps content and returns its hash.
	PutBlob(content []byte) (hash string, err error)
}

// Config is what a Watcher needs. Blobs is required.
type Config struct {
	Blobs Blobs
	// GitBlobs reads blobs of the repository in dir and gives each to found; one
	// that is missing or larger than most bytes is left out. Nil means that git is
	// not asked.
	GitBlobs func(ctx context.Context, dir string, hashes []string, most int64, found func(hash string, content []byte)) error
}

// Watcher makes observations and remembers copies between them. It is safe for
// concurrent use.
type Watcher struct {
	config Config

	mu     sync.Mutex
	copies map[string]copied // by real path
	bytes  int64
}

// copied is a file's content as it was with a stamp.
type copied struct {
	stamp stamp
	hash  string
	size  int64
}

// New makes a watcher. It starts nothing.
func New(c Config) *Watcher { return &Watcher{config: c, copies: map[string]copied{}} }

// stamp is what tells that a file is still the same.
type stamp struct {
	size   int64
	mtime  time.Time
	ctime  time.Time
	inode  uint64
	mode   fs.FileMode
	target string // of a symlink
}

// Change is one file that is not as it was.
type Change struct {
	Path string // real, absolute
	// Kind is create, write, delete or mode.
	Kind string
	// Before is the hash of the old content among the blobs; After of the new.
	// Both are "" where there was none.
	Before, After         string
	BeforeMode, AfterMode fs.FileMode
	BeforeLink, AfterLink string
}

// Observation is a look at a directory. Call End once, from one goroutine.
type Observation struct {
	watcher *Watcher
	root    *os.Root // everything is reached from here: what is observed may swap folders for links
	dir     string
	before  map[string]stamp // by slash-separated path below dir, as all maps here
	index   map[string]indexed
	full    bool // whether all files are in before

	cancel context.CancelFunc
	done   chan struct{}
	copies map[string]string // hashes, complete when done is closed
}

// Begin walks dir, a real path, and starts copying what git does not have. The
// copying ends with End or with ctx.
func (w *Watcher) Begin(ctx context.Context, dir string) (*Observation, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	before, full, err := walk(ctx, root)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	o := &Observation{watcher: w, root: root, dir: dir, before: before, full: full, done: make(chan struct{}), copies: map[string]string{}}
	o.index = readIndex(root)
	ctx, o.cancel = context.WithCancel(ctx)
	go o.copyDirty(ctx)
	return o, nil
}

// copyDirty keeps the content of files that git's index does not vouch for. The
// newest come first: they are the likeliest to be changed again.
func (o *Observation) copyDirty(ctx context.Context) {
	defer close(o.done)
	paths := slices.SortedFunc(maps.Keys(o.before), func(a, b string) int {
		return o.before[b].mtime.Compare(o.before[a].mtime)
	})
	for _, path := range paths {
		if ctx.Err() != nil {
			return
		}
		s := o.before[path]
		if !s.mode.IsRegular() || s.size > maxFile || o.clean(path, s) {
			continue
		}
		if hash, ok := o.watcher.copy(o.root, o.dir, path, s); ok {
			o.copies[path] = hash
		}
	}
}

// copy keeps the content of path if it is still what s says.
func (w *Watcher) copy(root *os.Root, dir, path string, s stamp) (string, bool) {
	key := filepath.Join(dir, path)
	w.mu.Lock()
	known, ok := w.copies[key]
	room := w.bytes+s.size <= maxCopies
	w.mu.Unlock()
	if ok && known.stamp == s {
		return known.hash, true
	}
	if ok {
		room = room || w.bytes-known.size+s.size <= maxCopies
	}
	if !room {
		return "", false
	}
	content, ok := readStable(root, path, s)
	if !ok {
		return "", false
	}
	hash, err := w.config.Blobs.PutBlob(content)
	if err != nil {
		return "", false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bytes += s.size - w.copies[key].size
	w.copies[key] = copied{stamp: s, hash: hash, size: s.size}
	return hash, true
}

// readStable reads a file that is what s says before and after the reading.
func readStable(root *os.Root, path string, s stamp) ([]byte, bool) {
	file, err := root.OpenFile(filepath.FromSlash(path), os.O_RDONLY|nonBlock, 0)
	if err != nil {
		return nil, false
	}
	defer file.Close()
	same := func() bool {
		info, err := file.Stat()
		return err == nil && stampOf(info) == s
	}
	if !same() {
		return nil, false
	}
	content := make([]byte, s.size)
	if n, err := file.ReadAt(content, 0); int64(n) != s.size || err != nil && s.size > int64(n) {
		return nil, false
	}
	return content, same()
}

// End looks again. It returns what changed and, as sentences, what cannot be
// undone because its old content is not known.
func (o *Observation) End(ctx context.Context) (changes []Change, uncovered []string, err error) {
	o.cancel()
	<-o.done
	defer o.root.Close()
	after, _, err := walk(ctx, o.root)
	if err != nil {
		return nil, nil, err
	}
	if !o.full {
		uncovered = append(uncovered, fmt.Sprintf("undo does not cover this command fully: the workspace has more than %d files", maxEntries))
	}
	o.fetch(ctx, after)
	var lost []string
	for path, was := range o.before {
		is, exists := after[path]
		if exists && is == was {
			continue
		}
		change, known := o.change(path, was, is, exists)
		switch {
		case !known:
			lost = append(lost, path)
		case change.Kind != "":
			changes = append(changes, change)
		}
	}
	for path, is := range after {
		if _, was := o.before[path]; !was && o.full {
			changes = append(changes, Change{Path: o.real(path), Kind: "create", After: o.hashNow(path, is), AfterMode: is.mode, AfterLink: is.target})
		}
	}
	slices.SortFunc(changes, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	if len(lost) > 0 {
		uncovered = append(uncovered, o.describe(lost))
	}
	return changes, uncovered, nil
}

// change describes one file that is not what it was; known is false where its
// old content is lost.
func (o *Observation) change(path string, was, is stamp, exists bool) (c Change, known bool) {
	c = Change{Path: o.real(path), BeforeMode: was.mode, BeforeLink: was.target}
	if exists {
		c.AfterMode, c.AfterLink = is.mode, is.target
		c.After = o.hashNow(path, is)
		c.Kind = "write"
		if was.mode.IsRegular() && is.mode.IsRegular() && was.size == is.size && was.mtime.Equal(is.mtime) && was.inode == is.inode {
			if was.mode == is.mode {
				return Change{}, true // only its ctime: a link, or a rename and back
			}
			c.Kind, c.After = "mode", ""
			return c, true
		}
	} else {
		c.Kind = "delete"
	}
	if !was.mode.IsRegular() {
		return c, true
	}
	c.Before, known = o.copies[path]
	if known && c.Before == c.After && c.BeforeMode == c.AfterMode {
		return Change{}, true // written again with the same content
	}
	return c, known
}

// maxGit is how large a file's old content may be where git has it.
const maxGit = 64 << 20

// fetch takes from git, all at once, the old content of changed files that were
// not copied because git has them.
func (o *Observation) fetch(ctx context.Context, after map[string]stamp) {
	wanted := map[string][]string{} // paths by hash
	for path, was := range o.before {
		_, have := o.copies[path]
		if is, exists := after[path]; have || exists && is == was || !was.mode.IsRegular() || was.size > maxGit || !o.clean(path, was) {
			continue
		}
		wanted[o.index[path].hash] = append(wanted[o.index[path].hash], path)
	}
	if len(wanted) == 0 {
		return
	}
	// What git does not give stays unknown, and that is said.
	_ = o.watcher.config.GitBlobs(ctx, o.dir, slices.Sorted(maps.Keys(wanted)), maxGit, func(hash string, content []byte) {
		kept := ""
		for _, path := range wanted[hash] {
			if int64(len(content)) != o.before[path].size {
				continue // a filter or a line ending conversion: the blob is not the file
			}
			if kept == "" {
				var err error
				if kept, err = o.watcher.config.Blobs.PutBlob(content); err != nil {
					return
				}
			}
			o.copies[path] = kept
		}
	})
}

// clean reports whether git has the content of the file as it was.
func (o *Observation) clean(path string, s stamp) bool {
	if o.index == nil || o.watcher.config.GitBlobs == nil {
		return false
	}
	entry, ok := o.index[path]
	return ok && entry.size == uint32(s.size) && entry.mtime.Equal(s.mtime) && !entry.racy
}

// describe names the files whose old content is lost.
func (o *Observation) describe(lost []string) string {
	const shown = 5
	slices.Sort(lost)
	names := lost[:min(len(lost), shown)]
	more := ""
	if len(lost) > shown {
		more = fmt.Sprintf(" and %d more", len(lost)-shown)
	}
	return "undo does not cover " + strings.Join(names, ", ") + more + ": changed before a copy could be made, or too large"
}

// real is the absolute path of a name below the directory.
func (o *Observation) real(path string) string { return filepath.Join(o.dir, filepath.FromSlash(path)) }

// hashNow keeps the content of a small file as it is now and gives its hash.
func (o *Observation) hashNow(path string, s stamp) string {
	if !s.mode.IsRegular() || s.size > maxFile {
		return ""
	}
	content, ok := readStable(o.root, path, s)
	if !ok {
		return ""
	}
	hash, err := o.watcher.config.Blobs.PutBlob(content)
	if err != nil {
		return ""
	}
	return hash
}

// walk takes the stamp of every regular file and symlink below root.
func walk(ctx context.Context, root *os.Root) (seen map[string]stamp, full bool, err error) {
	seen = make(map[string]stamp, 1024)
	stop := errors.New("enough")
	err = fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && path == ".":
			return err
		case err != nil:
			return nil // unreadable: nobody confined can change it either
		case entry.IsDir():
			if path != "." && skipped[entry.Name()] {
				return fs.SkipDir
			}
			return nil
		case entry.Type()&^fs.ModeSymlink != 0:
			return nil
		case len(seen) >= maxEntries:
			return stop
		}
		info, err := entry.Info()
		if err != nil {
			return nil // gone since
		}
		s := stampOf(info)
		if entry.Type()&fs.ModeSymlink != 0 {
			if s.target, err = root.Readlink(filepath.FromSlash(path)); err != nil {
				return nil
			}
		}
		seen[path] = s
		return nil
	})
	if errors.Is(err, stop) {
		return seen, false, nil
	}
	return seen, true, err
}
