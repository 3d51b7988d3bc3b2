// Package artifact keeps data beyond the call that made it: a folder of files
// named by their content, and a row for each artifact that refers to one. It
// does not know calls, tools or protocols.
package artifact

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

// Scheme is how an artifact's URI begins; its ID follows.
const Scheme = "artifact://"

// DefaultQuota is how many bytes all artifacts together may take.
const DefaultQuota = 10 << 30

// sniffed is how much of the content tells its type.
const sniffed = 3 << 10

// Dir is a folder of artifacts. Contents lie in ab/abcdef…, the hexadecimal
// SHA-256; unfinished ones in tmp. It is safe for concurrent use, and several
// processes may use one folder.
type Dir struct {
	dir   string
	rows  store.Artifacts
	quota atomic.Int64
	used  atomic.Int64 // bytes on disk, with what is being written

	mu sync.Mutex // one change of rows and files at a time
}

// Open opens the folder, making it if need be. Files of writers that a crash
// cut off are removed once they are a day old.
func Open(dir string, rows store.Artifacts) (*Dir, error) {
	if err := os.MkdirAll(filepath.Join(dir, "tmp"), 0o700); err != nil {
		return nil, fmt.Errorf("artifact folder: %w", err)
	}
	d := &Dir{dir: dir, rows: rows}
	d.quota.Store(DefaultQuota)
	used, err := d.scan()
	if err != nil {
		return nil, fmt.Errorf("artifact folder: %w", err)
	}
	d.used.Store(used)
	return d, nil
}

// SetQuota changes how many bytes all artifacts together may take. Zero or less
// means no limit.
func (d *Dir) SetQuota(bytes int64) { d.quota.Store(bytes) }

// Used is how many bytes the folder holds.
func (d *Dir) Used() int64 { return d.used.Load() }

func (d *Dir) scan() (int64, error) {
	var used int64
	err := filepath.WalkDir(d.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return ignoreGone(err)
		}
		info, err := e.Info()
		if err != nil {
			return ignoreGone(err)
		}
		if filepath.Base(filepath.Dir(path)) == "tmp" && time.Since(info.ModTime()) > 24*time.Hour {
			return ignoreGone(os.Remove(path))
		}
		used += info.Size()
		return nil
	})
	return used, err
}

// ignoreGone is nil for a file that another process has removed.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Meta is what is known of an artifact before its data. An empty MIME is found
// from the content.
type Meta struct {
	Session, Call, Name, MIME string
}

// Create starts an artifact. The caller ends it with Commit or Abort.
func (d *Dir) Create(meta Meta) (*Writer, error) {
	f, err := os.CreateTemp(filepath.Join(d.dir, "tmp"), "w-")
	if err != nil {
		return nil, noSpace(err)
	}
	return &Writer{dir: d, meta: meta, file: f, buf: bufio.NewWriterSize(f, 64<<10), hash: sha256.New()}, nil
}

// Writer takes the data of one artifact. It is for one goroutine.
type Writer struct {
	dir  *Dir
	meta Meta
	file *os.File
	buf  *bufio.Writer
	hash hash.Hash
	head []byte
	size int64
	done bool
}

// Write adds data. It fails with RESOURCE_EXHAUSTED at the quota or when the
// disk is full.
func (w *Writer) Write(p []byte) (int, error) {
	if w.done {
		return 0, fs.ErrClosed
	}
	if quota := w.dir.quota.Load(); quota > 0 && w.dir.used.Load()+int64(len(p)) > quota {
		return 0, tool.Errorf(tool.ResourceExhausted, "the artifacts take all of their quota of %d bytes", quota).
			WithHint("Delete artifacts that are no longer needed (toolyard artifacts), or raise the quota.")
	}
	if room := sniffed - len(w.head); room > 0 {
		w.head = append(w.head, p[:min(room, len(p))]...)
	}
	n, err := w.buf.Write(p)
	w.hash.Write(p[:n])
	w.size += int64(n)
	w.dir.used.Add(int64(n))
	return n, noSpace(err)
}

// Size is how many bytes were written.
func (w *Writer) Size() int64 { return w.size }

// Abort drops what was written. After Commit it does nothing.
func (w *Writer) Abort() {
	if w.done {
		return
	}
	w.done = true
	w.dir.used.Add(-w.size)
	w.file.Close()
	os.Remove(w.file.Name())
}

// Commit keeps the data and writes its row.
func (w *Writer) Commit(ctx context.Context) (store.Artifact, error) {
	if w.done {
		return store.Artifact{}, fs.ErrClosed
	}
	err := w.buf.Flush()
	if errClose := w.file.Close(); err == nil {
		err = errClose
	}
	if err != nil {
		w.Abort()
		return store.Artifact{}, noSpace(err)
	}
	a := store.Artifact{
		ID: newID(), Session: w.meta.Session, Call: w.meta.Call, Name: w.meta.Name, MIME: w.meta.MIME,
		Size: w.size, SHA256: hex.EncodeToString(w.hash.Sum(nil)), Created: time.Now().UTC(),
	}
	if a.Name == "" {
		a.Name = a.ID
	}
	if a.MIME == "" {
		a.MIME = mimeOf(a.Name, w.head)
	}
	a.Category = category(a.Name, a.MIME)
	if err := w.dir.keep(ctx, w.file.Name(), a); err != nil {
		w.Abort()
		return store.Artifact{}, err
	}
	w.done = true
	return a, nil
}

// keep moves the file to its place and writes the row. The move overwrites a
// file with the same content, so that one which another process is about to
// delete is there again.
func (d *Dir) keep(ctx context.Context, temp string, a store.Artifact) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	path := d.path(a.SHA256)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return noSpace(err)
	}
	_, errStat := os.Stat(path)
	if err := os.Rename(temp, path); err != nil {
		return noSpace(err)
	}
	if errStat == nil {
		d.used.Add(-a.Size) // it was there already
	}
	if err := d.rows.PutArtifact(ctx, a); err != nil {
		d.removeUnused(context.WithoutCancel(ctx), a)
		d.used.Add(a.Size) // Abort takes it off
		return fmt.Errorf("row of artifact %s: %w", a.ID, err)
	}
	return nil
}

// Put keeps all of r, at most limit bytes of it (zero means no limit).
func (d *Dir) Put(ctx context.Context, meta Meta, r io.Reader, limit int64) (store.Artifact, error) {
	w, err := d.Create(meta)
	if err != nil {
		return store.Artifact{}, err
	}
	defer w.Abort()
	if limit > 0 {
		r = io.LimitReader(r, limit+1)
	}
	if _, err := io.Copy(w, r); err != nil {
		return store.Artifact{}, err
	}
	if limit > 0 && w.size > limit {
		return store.Artifact{}, tool.Errorf(tool.ResourceExhausted, "the artifact %q is larger than %d bytes", meta.Name, limit).
			WithHint("Export a part of it, or raise output.stored.")
	}
	return w.Commit(ctx)
}

// Reader reads one artifact.
type Reader struct {
	*os.File
	Artifact store.Artifact
}

// Open opens an artifact by its ID or URI. One that is not there is NOT_FOUND.
// It does not ask whose it is; see [Dir.OpenIn].
func (d *Dir) Open(ctx context.Context, id string) (*Reader, error) {
	id = ID(id)
	a, err := d.rows.Artifact(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, absent(id)
	}
	if err != nil {
		return nil, fmt.Errorf("artifact %s: %w", id, err)
	}
	f, err := os.Open(d.path(a.SHA256))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, tool.Errorf(tool.NotFound, "the data of artifact %s is gone", id).
			WithHint("Run the call that made it again.")
	}
	if err != nil {
		return nil, err
	}
	return &Reader{File: f, Artifact: a}, nil
}

// OpenIn opens an artifact of a session. One of another session is NOT_FOUND,
// as if it were not there.
func (d *Dir) OpenIn(ctx context.Context, session, id string) (*Reader, error) {
	r, err := d.Open(ctx, id)
	if err != nil {
		return nil, err
	}
	if r.Artifact.Session != session {
		r.Close()
		return nil, absent(ID(id))
	}
	return r, nil
}

func absent(id string) error {
	return tool.Errorf(tool.NotFound, "no artifact %q in this session", id).
		WithHint("Handles begin with art_ and stand in the result of the call that made them; they are deleted after the retention time.")
}

// Delete removes an artifact, and its data if nothing else refers to it.
func (d *Dir) Delete(ctx context.Context, id string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	a, err := d.rows.Artifact(ctx, ID(id))
	if errors.Is(err, store.ErrNotFound) {
		return absent(ID(id))
	}
	if err != nil {
		return err
	}
	if err := d.rows.DeleteArtifact(ctx, a.ID); err != nil {
		return err
	}
	d.removeUnused(ctx, a)
	return nil
}

// removeUnused removes the data of a if no row refers to it. If that cannot be
// told the data stays, and Sweep removes it later.
func (d *Dir) removeUnused(ctx context.Context, a store.Artifact) {
	if n, err := d.rows.ArtifactsWithHash(ctx, a.SHA256); err != nil || n > 0 {
		return
	}
	if os.Remove(d.path(a.SHA256)) == nil {
		d.used.Add(-a.Size)
	}
}

// Sweep removes data that no row refers to, such as after the store has pruned
// its rows, and reports how many bytes went. Data younger than an hour stays:
// another process may be about to write its row.
func (d *Dir) Sweep(ctx context.Context) (int64, error) {
	var freed int64
	err := filepath.WalkDir(d.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return ignoreGone(err)
		}
		name := filepath.Base(path)
		if len(name) != 2*sha256.Size || ctx.Err() != nil {
			return ctx.Err()
		}
		info, err := e.Info()
		if err != nil || time.Since(info.ModTime()) < time.Hour {
			return ignoreGone(err)
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		n, err := d.rows.ArtifactsWithHash(ctx, name)
		if err != nil || n > 0 {
			return err
		}
		if err := os.Remove(path); err != nil {
			return ignoreGone(err)
		}
		freed += info.Size()
		d.used.Add(-info.Size())
		return nil
	})
	return freed, err
}

func (d *Dir) path(sum string) string { return filepath.Join(d.dir, sum[:2], sum) }

// Ref is how an artifact is told to others.
func Ref(a store.Artifact) tool.ArtifactRef {
	return tool.ArtifactRef{ID: a.ID, URI: Scheme + a.ID, Name: a.Name, MIME: a.MIME, Size: a.Size, SHA256: a.SHA256}
}

// ID is the ID in a handle or URI.
func ID(handle string) string {
	if len(handle) > len(Scheme) && handle[:len(Scheme)] == Scheme {
		return handle[len(Scheme):]
	}
	return handle
}

// newID gives "art_" and 16 random hexadecimal digits.
func newID() string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return "art_" + hex.EncodeToString(b[:])
}

// noSpace turns a full disk into a *tool.Error.
func noSpace(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return tool.Errorf(tool.ResourceExhausted, "no space left for artifacts: %v", err).
			WithHint("Free space on the disk of the toolyard home.")
	}
	return err
}
