package edit

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
)

// errNoBlob says that a content is not kept, or no longer.
var errNoBlob = errors.New("the old content is no longer kept")

// blobs keeps contents by hash, compressed. Files are written whole or not at
// all; several processes may share the directory.
type blobs struct {
	dir string
	max int64 // bytes of all compressed contents together

	mu    sync.Mutex
	total int64 // of the directory, as far as known; -1 before it was counted
}

func (b *blobs) file(hash string) string {
	return filepath.Join(b.dir, hash[:2], hash+".zst")
}

// put keeps content and returns its hash. It is durable when put returns.
func (b *blobs) put(content []byte) (string, error) {
	hash := Sum(content)
	name := b.file(hash)
	now := time.Now()
	if _, err := os.Stat(name); err == nil {
		return hash, os.Chtimes(name, now, now) // it is in use again: the last to be pruned
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return "", err
	}
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return "", err
	}
	packed := enc.EncodeAll(content, nil)
	if err := writeWhole(name, packed); err != nil {
		return "", err
	}
	return hash, b.grown(int64(len(packed)))
}

// get reads a content and checks it. errNoBlob if it is not there.
func (b *blobs) get(hash string) ([]byte, error) {
	if len(hash) < 2 || strings.ContainsAny(hash, "/\\.") {
		return nil, errNoBlob
	}
	packed, err := os.ReadFile(b.file(hash))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoBlob
	}
	if err != nil {
		return nil, err
	}
	dec, err := zstd.NewReader(bytes.NewReader(packed), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer dec.Close()
	content, err := io.ReadAll(dec)
	if err != nil {
		return nil, fmt.Errorf("kept content %s: %w", hash, err)
	}
	if Sum(content) != hash {
		return nil, fmt.Errorf("kept content %s is damaged", hash)
	}
	return content, nil
}

// grown counts what was added and drops the oldest contents beyond the limit.
func (b *blobs) grown(n int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.total >= 0 {
		b.total += n
	}
	if b.total >= 0 && b.total <= b.max {
		return nil
	}
	return b.prune(time.Time{})
}

// prune drops contents last used before a time, and then the oldest until
// nine tenths of the limit are left, if it is exceeded. b.mu is held.
func (b *blobs) prune(before time.Time) error {
	type kept struct {
		name string
		size int64
		used time.Time
	}
	var all []kept
	var total int64
	err := filepath.WalkDir(b.dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".zst") {
			return nil // what vanishes meanwhile was pruned by another process
		}
		if info, err := d.Info(); err == nil {
			all = append(all, kept{name, info.Size(), info.ModTime()})
			total += info.Size()
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, c kept) int { return cmp.Or(a.used.Compare(c.used), cmp.Compare(a.name, c.name)) })
	over := total > b.max
	for _, k := range all {
		if !k.used.Before(before) && !(over && total > b.max/10*9) {
			break
		}
		if err := os.Remove(k.name); err == nil || errors.Is(err, fs.ErrNotExist) {
			total -= k.size
		}
	}
	b.total = total
	return nil
}

// writeWhole writes a file of the runtime's own: all of it, or nothing, durably.
func writeWhole(name string, content []byte) error {
	temp := name + "." + token() + ".tmp"
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(temp, name)
	}
	if err != nil {
		os.Remove(temp)
		return err
	}
	dir, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	return syncDir(dir)
}

// token is a random part of a name.
func token() string {
	var b [6]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
