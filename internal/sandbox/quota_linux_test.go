//go:build amd64 || arm64

package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestQuota: what the command adds counts, and nothing that anybody else does.
func TestQuota(t *testing.T) {
	const limit = 4 * MiB
	large := bytes.Repeat([]byte("x"), 2*limit)
	write := func(t *testing.T, path string, data []byte) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		does func(t *testing.T, ws, other string)
		want bool
	}{
		{"nothing", func(*testing.T, string, string) {}, false},
		{"a little", func(t *testing.T, ws, _ string) { write(t, ws+"/a", large[:limit/4]) }, false},
		{"a large file", func(t *testing.T, ws, _ string) { write(t, ws+"/a", large) }, true},
		{"a deep file", func(t *testing.T, ws, _ string) { write(t, ws+"/old/a/b/c", large) }, true},
		{"an old file that grows", func(t *testing.T, ws, _ string) { write(t, ws+"/old/file", large) }, true},
		{"somebody else", func(t *testing.T, _, other string) { write(t, other+"/a", large) }, false},
		{"a symlink to somebody else", func(t *testing.T, ws, other string) {
			write(t, other+"/a", large)
			if err := os.Symlink(other, ws+"/link"); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"a sparse file", func(t *testing.T, ws, other string) {
			write(t, other+"/a", large)
			write(t, ws+"/a", nil)
			if err := os.Truncate(ws+"/a", 1<<30); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"many files", func(t *testing.T, ws, _ string) {
			for i := range 200 {
				write(t, fmt.Sprintf("%s/%d", ws, i), nil)
			}
		}, true},
		{"many files of somebody else", func(t *testing.T, _, other string) {
			for i := range 200 {
				write(t, fmt.Sprintf("%s/%d", other, i), nil)
			}
		}, false},
		{"a directory that cannot be looked into", func(t *testing.T, ws, _ string) {
			for i := range 30 {
				ws += fmt.Sprintf("/%0250d", i)
				if err := os.Mkdir(ws, 0o755); err != nil { // the last has a path that no call takes
					break
				}
			}
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			ws, other := t.TempDir(), t.TempDir()
			write(t, ws+"/old/file", []byte("old"))
			p := &Profile{Write: []string{ws}, Disk: limit, Inodes: 100}
			tree, err := newTree(p)
			if err != nil {
				t.Fatal(err)
			}
			q, err := newQuota(tree, p)
			if err != nil {
				t.Fatal(err)
			}
			defer q.close()
			c.does(t, ws, other)
			if got := q.reached(true); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// TestQuotaIdle: a workspace is not looked through for a command that writes
// nothing.
func TestQuotaIdle(t *testing.T) {
	ws := t.TempDir()
	p := &Profile{Write: []string{ws}, Disk: 1 << 40, Inodes: 1 << 30}
	tree, err := newTree(p)
	if err != nil {
		t.Fatal(err)
	}
	q, err := newQuota(tree, p)
	if err != nil {
		t.Fatal(err)
	}
	defer q.close()
	if q.reached(false) || !q.allowances[0].next.IsZero() {
		t.Error("the directories were looked through")
	}
	if allocated := testing.AllocsPerRun(100, func() { q.reached(false) }); allocated > 20 {
		t.Errorf("a look allocates %v times", allocated)
	}
}

func TestTmpLimits(t *testing.T) {
	for _, c := range []struct {
		name          string
		profile       Profile
		bytes, inodes int64
	}{
		{"default", Profile{}.Defaults(), 1 * GiB, 256 << 10},
		{"small", Profile{Tmp: 64 * MiB}, 64 * MiB, 16 << 10},
		{"tiny", Profile{Tmp: 4096}, 4096, 1024},
		{"unlimited", Profile{Tmp: -1}, -1, 256 << 10},
		{"less disk", Profile{Tmp: GiB, Disk: MiB}, MiB, 1024},
		{"unlimited but for the disk", Profile{Tmp: -1, Disk: MiB}, MiB, 1024},
		{"fewer inodes", Profile{Tmp: GiB, Inodes: 10}, GiB, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			if bytes, inodes := tmpLimits(&c.profile); bytes != c.bytes || inodes != c.inodes {
				t.Errorf("got %d bytes, %d inodes, want %d, %d", bytes, inodes, c.bytes, c.inodes)
			}
		})
	}
}
