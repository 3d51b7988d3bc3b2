// Package edit changes files without damage: it finds what is to be replaced,
// leaves every other byte alone, writes durably or not at all, refuses what the
// session has not seen, and can take back what it did. It does not know
// permissions, prompts or tools.
//
// All writers go through one [Engine]. A change goes through nine layers
// (parameters, path, creation, existence, kind, forced read, unchanged since,
// match); what a layer refuses is a *tool.Error with details layer, layer_code
// and behavior. Every change is in the journal before the file changes, so
// that a process which dies at any moment leaves each file old or new, and
// [Engine.Recover] finishes or takes back what was half done.
package edit

import (
	"context"
	"path/filepath"
	"time"

	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

// Strictness of the layers 7 and 8.
const (
	// Strict refuses to change what the session has not seen as it is now.
	Strict = "strict"
	// Anchored accepts an edit whose text is found once in the current content,
	// and says that there were other changes.
	Anchored = "anchored"
)

// Defaults of [Config].
const (
	DefaultMaxFile  = 64 << 20 // bytes
	DefaultMaxBlobs = 1 << 30  // bytes
	DefaultMaxDiff  = 24 << 10 // bytes
	DefaultMaxSeen  = 4096     // records
)

// Config steers an engine. The zero value works: strict, for this process only,
// with no journal and so no undo.
type Config struct {
	// Sessions remembers what sessions have seen. Nil keeps it in memory, for the
	// last MaxSeen files.
	Sessions store.Sessions
	// Journal records changes. Nil means that nothing can be undone.
	Journal store.Journal
	// Blobs is the directory for old contents and lock files; processes that may
	// change the same files share it. It is made when needed. Empty is allowed
	// only without a Journal.
	Blobs string
	// Strictness is Strict (also if empty) or Anchored.
	Strictness string
	// MaxFile is the largest file, in bytes, that is changed. Zero means
	// DefaultMaxFile.
	MaxFile int64
	// MaxBlobs bounds the kept old contents, in bytes as compressed; the oldest
	// go first. Zero means DefaultMaxBlobs.
	MaxBlobs int64
	// MaxDiff bounds the diff in a result, in bytes. Zero means DefaultMaxDiff.
	MaxDiff int
	// MaxSeen bounds the records of seen files held in memory. Zero means
	// DefaultMaxSeen.
	MaxSeen int
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Engine changes files. It is safe for concurrent use.
type Engine struct {
	config Config
	blobs  *blobs
	locks  *locks
	seen   *seenCache
}

// New makes an engine. It touches no file and starts no goroutine.
func New(c Config) *Engine {
	if c.Strictness == "" {
		c.Strictness = Strict
	}
	if c.MaxFile == 0 {
		c.MaxFile = DefaultMaxFile
	}
	if c.MaxBlobs == 0 {
		c.MaxBlobs = DefaultMaxBlobs
	}
	if c.MaxDiff == 0 {
		c.MaxDiff = DefaultMaxDiff
	}
	if c.MaxSeen == 0 {
		c.MaxSeen = DefaultMaxSeen
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	e := &Engine{config: c, seen: newSeenCache(c.MaxSeen), locks: &locks{held: map[string]*held{}}}
	if c.Blobs != "" {
		e.blobs = &blobs{dir: filepath.Join(c.Blobs, "blobs"), max: c.MaxBlobs, total: -1}
		e.locks.dir = filepath.Join(c.Blobs, "locks")
	}
	return e
}

// Origin says on whose behalf files change.
type Origin struct {
	Call, Session, Turn, Workspace string
	// Strictness, if set, stands in place of the engine's for this change.
	Strictness string
}

// From is the origin of a request.
func From(req *tool.Request) Origin {
	return Origin{Call: req.CallID, Session: req.Session, Turn: req.Turn, Workspace: req.Workspace}
}

func (e *Engine) strictness(o Origin) string {
	if o.Strictness != "" {
		return o.Strictness
	}
	return e.config.Strictness
}

// Prune drops old contents that were last needed before a time, as the journal's
// retention says.
func (e *Engine) Prune(_ context.Context, before time.Time) error {
	if e.blobs == nil {
		return nil
	}
	e.blobs.mu.Lock()
	defer e.blobs.mu.Unlock()
	return e.blobs.prune(before)
}
