package workspace_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/workspace"
)

func TestSmall(t *testing.T) {
	const limit = 10
	dir := t.TempDir()
	w := open(t, workspace.Config{Dir: dir})
	resolve := func(name, content string) *workspace.Path {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
		p, err := w.Resolve(name, workspace.Read)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for content, want := range map[string]bool{"": false, "a": true, strings.Repeat("a", limit-1): true, strings.Repeat("a", limit): false} {
		got, info, ok := resolve("f", content).Small(make([]byte, limit))
		if ok != want || ok && (string(got) != content || info.Size() != int64(len(content)) || info.Mode() != 0o640) {
			t.Errorf("%q: got %q, %v, %t, want ok %t", content, got, info, ok, want)
		}
	}

	swapped := resolve("s", "before")
	if err := os.Remove(filepath.Join(dir, "s")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("f", filepath.Join(dir, "s")); err != nil {
		t.Fatal(err)
	}
	if got, _, ok := swapped.Small(make([]byte, limit)); ok {
		t.Errorf("read %q through a symlink that was not there when the path was resolved", got)
	}
	fifo := resolve("p", "before")
	if err := os.Remove(filepath.Join(dir, "p")); err != nil {
		t.Fatal(err)
	}
	if err := mkfifo(filepath.Join(dir, "p")); err != nil {
		t.Fatal(err)
	}
	if _, _, ok := fifo.Small(make([]byte, limit)); ok {
		t.Error("read a FIFO that was a file when the path was resolved")
	}
}

// TestInfoIsThatOfStat compares what a resolved path says of the file with what
// the standard library does.
func TestInfoIsThatOfStat(t *testing.T) {
	dir := tree(t, "f", "d/f")
	for mode, name := range map[fs.FileMode]string{0o754 | fs.ModeSetuid: "f", 0o1 | fs.ModeSetgid | fs.ModeSticky | 0o700: "d"} {
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := mkfifo(filepath.Join(dir, "fifo")); err != nil {
		t.Fatal(err)
	}
	w := open(t, workspace.Config{Dir: dir, Read: []string{"/dev"}})
	for _, name := range []string{"f", "d", "fifo", "/dev/null"} {
		p, err := w.Resolve(name, workspace.Read)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.Lstat(p.Real)
		if err != nil {
			t.Fatal(err)
		}
		got := p.Info
		if got.Name() != want.Name() || got.Size() != want.Size() || got.Mode() != want.Mode() || got.IsDir() != want.IsDir() || !got.ModTime().Equal(want.ModTime()) {
			t.Errorf("%s: got %s, want %s", name, fs.FormatFileInfo(got), fs.FormatFileInfo(want))
		}
	}
}
