package observe

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// memory keeps blobs in a map.
type memory struct {
	mu    sync.Mutex
	blobs map[string][]byte
}

func (m *memory) PutBlob(content []byte) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum := sha256.Sum256(content)
	hash := hex.EncodeToString(sum[:8])
	m.blobs[hash] = bytes.Clone(content)
	return hash, nil
}

func (m *memory) text(hash string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return string(m.blobs[hash])
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// seen is a change as the tests compare it.
type seen struct{ Path, Kind, Before, After string }

func run(t *testing.T, w *Watcher, blobs *memory, dir string, act func()) ([]seen, []string) {
	t.Helper()
	o, err := w.Begin(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	<-o.done // the copies, so that the outcome does not depend on who is faster
	act()
	changes, uncovered, err := o.End(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []seen
	for _, c := range changes {
		rel, err := filepath.Rel(dir, c.Path)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, seen{rel, c.Kind, blobs.text(c.Before) + c.BeforeLink, blobs.text(c.After) + c.AfterLink})
	}
	return got, uncovered
}

func TestChanges(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "kept.txt", "kept")
	write(t, dir, "same.txt", "same")
	write(t, dir, "changed.txt", "old")
	write(t, dir, "sub/gone.txt", "gone")
	write(t, dir, "mode.sh", "#!/bin/sh\n")
	write(t, dir, "node_modules/x.js", "x")
	if err := os.Symlink("kept.txt", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	blobs := &memory{blobs: map[string][]byte{}}
	w := New(Config{Blobs: blobs})
	got, uncovered := run(t, w, blobs, dir, func() {
		write(t, dir, "changed.txt", "new")
		write(t, dir, "same.txt", "same")
		write(t, dir, "made/new.txt", "made")
		write(t, dir, "node_modules/x.js", "y")
		if err := errors.Join(os.RemoveAll(filepath.Join(dir, "sub")), os.Chmod(filepath.Join(dir, "mode.sh"), 0o755),
			os.Remove(filepath.Join(dir, "link")), os.Symlink("changed.txt", filepath.Join(dir, "link"))); err != nil {
			t.Fatal(err)
		}
	})
	want := []seen{
		{"changed.txt", "write", "old", "new"},
		{"link", "write", "kept.txt", "changed.txt"},
		{"made/new.txt", "create", "", "made"},
		{"mode.sh", "mode", "", ""},
		{"sub/gone.txt", "delete", "gone", ""},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(uncovered) > 0 {
		t.Errorf("uncovered: %v", uncovered)
	}
	if got, _ := run(t, w, blobs, dir, func() {}); got != nil {
		t.Errorf("nothing happened, but got %v", got)
	}
}

func TestUncovered(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "large.bin", strings.Repeat("x", maxFile+1))
	blobs := &memory{blobs: map[string][]byte{}}
	got, uncovered := run(t, New(Config{Blobs: blobs}), blobs, dir, func() { write(t, dir, "large.bin", "y") })
	if got != nil || len(uncovered) != 1 || !strings.Contains(uncovered[0], "large.bin") {
		t.Errorf("got %v, %v; want large.bin named as not covered", got, uncovered)
	}
}

func TestGit(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not there")
	}
	for _, version := range []string{"2", "3", "4"} {
		t.Run("index version "+version, func(t *testing.T) {
			dir := t.TempDir()
			call := func(args ...string) []byte {
				t.Helper()
				cmd := exec.Command(git, append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...)
				out, err := cmd.Output()
				if err != nil {
					t.Fatalf("git %v: %v", args, err)
				}
				return out
			}
			call("init", "-q")
			large := strings.Repeat("line\n", maxFile/4)
			write(t, dir, "large.txt", large)
			write(t, dir, "a/b/c.txt", "c")
			write(t, dir, "a/b/d.txt", "d")
			call("add", ".")
			call("commit", "-q", "-m", "first")
			// An entry written in the same tick as the index proves nothing; then the
			// large file is not covered, and that is said.
			call("update-index", "--index-version", version)
			write(t, dir, "dirty.txt", "dirty")
			asked := 0
			blobs := &memory{blobs: map[string][]byte{}}
			w := New(Config{Blobs: blobs, GitBlobs: func(_ context.Context, _ string, hashes []string, _ int64, found func(string, []byte)) error {
				for _, hash := range hashes {
					asked++
					found(hash, call("cat-file", "blob", hash))
				}
				return nil
			}})
			root, err := os.OpenRoot(dir)
			if err != nil {
				t.Fatal(err)
			}
			index := readIndex(root)
			if len(index) != 3 {
				t.Fatalf("index has %d entries, want 3: %v", len(index), index)
			}
			racy := index["large.txt"].racy
			got, uncovered := run(t, w, blobs, dir, func() {
				write(t, dir, "large.txt", "small")
				write(t, dir, "a/b/c.txt", "C")
				write(t, dir, "dirty.txt", "clean")
			})
			want := []seen{{"a/b/c.txt", "write", "c", "C"}, {"dirty.txt", "write", "dirty", "clean"}}
			if !racy {
				want = append(want, seen{"large.txt", "write", large, "small"})
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if racy != (len(uncovered) > 0) || !racy && asked != 2 {
				t.Errorf("racy %v, git asked %d times, uncovered %v", racy, asked, uncovered)
			}
		})
	}
}

// TestLinkedFolder swaps a folder for a link to the outside while the watcher
// copies: nothing from outside is kept.
func TestLinkedFolder(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	write(t, outside, "secret.txt", "secret")
	write(t, dir, "sub/secret.txt", "public")
	blobs := &memory{blobs: map[string][]byte{}}
	o, err := New(Config{Blobs: blobs}).Begin(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.RemoveAll(filepath.Join(dir, "sub")), os.Symlink(outside, filepath.Join(dir, "sub"))); err != nil {
		t.Fatal(err)
	}
	if _, _, err := o.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, content := range blobs.blobs {
		if bytes.Contains(content, []byte("secret")) {
			t.Error("a file outside was copied")
		}
	}
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x01"))
	f.Add([]byte("DIRC\x00\x00\x00\x04\x00\x00\x00\x02" + strings.Repeat("\x00", 120)))
	f.Fuzz(func(t *testing.T, b []byte) {
		for name, e := range parseIndex(b, time.Time{}) {
			if len(e.hash) != 40 || strings.Contains(name, "\x00") {
				t.Errorf("entry %q with hash %q", name, e.hash)
			}
		}
	})
}
