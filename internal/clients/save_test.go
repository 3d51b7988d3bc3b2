package clients_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/toolyard/toolyard/internal/clients"
)

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestSaveMakesFileAndFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "mcp.json")
	backup, err := clients.Save(path, nil, []byte("{}"), filepath.Join(t.TempDir(), "backups"), 0o600)
	if err != nil || backup != "" {
		t.Fatalf("Save = %q, %v, want no copy", backup, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, want 0600", info.Mode())
	}
}

func TestSaveKeepsModeAndCopy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcp.json")
	write(t, path, "old", 0o640)
	backup, err := clients.Save(path, []byte("old"), []byte("new"), filepath.Join(t.TempDir(), "backups"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if got := content(t, path); got != "new" {
		t.Errorf("content %q, want new", got)
	}
	if got := content(t, backup); got != "old" {
		t.Errorf("copy %q, want old", got)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, want 0640", info.Mode())
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".toolyard-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files %v are left, %v", left, err)
	}
}

// Dotfiles are often links into a repository: the file there changes, and the
// link stays one.
func TestSaveFollowsLinks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need rights on Windows")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "dotfiles", "settings.json")
	write(t, file, "old", 0o644)
	for _, c := range []struct{ name, target string }{{"absolute", file}, {"relative", "../dotfiles/settings.json"}} {
		t.Run(c.name, func(t *testing.T) {
			write(t, file, "old", 0o644)
			link := filepath.Join(dir, c.name, "settings.json")
			if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(c.target, link); err != nil {
				t.Fatal(err)
			}
			if _, err := clients.Save(link, []byte("old"), []byte("new"), filepath.Join(dir, "backups"), 0o600); err != nil {
				t.Fatal(err)
			}
			if got, err := os.Readlink(link); err != nil || got != c.target {
				t.Errorf("the link leads to %q, %v, want %q", got, err, c.target)
			}
			if got := content(t, file); got != "new" {
				t.Errorf("the file has %q, want new", got)
			}
		})
	}
	t.Run("to nothing", func(t *testing.T) {
		link := filepath.Join(dir, "dangling.json")
		if err := os.Symlink("nowhere/settings.json", link); err != nil {
			t.Fatal(err)
		}
		if _, err := clients.Save(link, nil, []byte("new"), filepath.Join(dir, "backups"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := content(t, filepath.Join(dir, "nowhere", "settings.json")); got != "new" {
			t.Errorf("the file has %q, want new", got)
		}
	})
	t.Run("in circles", func(t *testing.T) {
		a, b := filepath.Join(dir, "a.json"), filepath.Join(dir, "b.json")
		if err := errors.Join(os.Symlink(b, a), os.Symlink(a, b)); err != nil {
			t.Fatal(err)
		}
		if _, err := clients.Save(a, nil, []byte("new"), filepath.Join(dir, "backups"), 0o600); err == nil {
			t.Error("no error, want one")
		}
	})
}

// A client may write its file while the person looks at the diff.
func TestSaveLeavesWhatOthersWrote(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcp.json")
	write(t, path, "theirs", 0o644)
	for _, old := range []string{"before", ""} {
		if _, err := clients.Save(path, []byte(old), []byte("ours"), filepath.Join(t.TempDir(), "backups"), 0o600); !errors.Is(err, clients.ErrChanged) {
			t.Errorf("error %v, want ErrChanged", err)
		}
	}
	if got := content(t, path); got != "theirs" {
		t.Errorf("content %q, want theirs", got)
	}
}
