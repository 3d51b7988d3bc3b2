package pkgs_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/toolyard/toolyard/internal/toolbox/pkgs"
)

func ctx() context.Context { return context.Background() }

// dependencies installs one into a folder, with the version in it.
func dependencies(version string) func(context.Context, string) error {
	return func(_ context.Context, dir string) error {
		if err := os.MkdirAll(filepath.Join(dir, "node_modules", "dep"), 0o755); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, "node_modules", "dep", "index.js"), []byte("dep "+version), 0o644)
	}
}

// versionTree reads a version as a sandbox sees it, without the data.
func versionTree(t testing.TB, v *pkgs.Version) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, m := range v.Mounts() {
		rel, err := filepath.Rel(v.Seen, m.Target)
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range tree(t, m.Source) {
			files[filepath.Join(rel, name)+name[len(filepath.Clean(name)):]] = text
		}
	}
	return files
}

// memory is a temporary directory in memory where there is one: a process that is
// killed leaves the same behind there, and nobody waits for a disk.
func memory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "pkgs-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
