package edit_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolyard/toolyard/internal/edit"
)

func mkfifo(t *testing.T, name string) {
	t.Helper()
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
}

func mountDisk(t *testing.T, dir string, size int) {
	t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Skip("needs the right to mount:", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

func remountReadOnly(t *testing.T, dir string) {
	t.Helper()
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
}

func TestAttributesAndOwnerSurvive(t *testing.T) {
	f := newFixture(t, edit.Config{})
	f.write("f", "one\n")
	name := filepath.Join(f.dir, "f")
	if err := unix.Setxattr(name, "user.note", []byte("kept"), 0); errors.Is(err, unix.ENOTSUP) {
		t.Skip("needs a file system with extended attributes")
	} else if err != nil {
		t.Fatal(err)
	}
	owner := os.Getuid()
	if owner == 0 {
		owner = 12345
		if err := os.Chown(name, owner, owner); err != nil {
			t.Fatal(err)
		}
	}
	f.see("f")
	f.edit("f", "one", "two")
	value := make([]byte, 100)
	n, err := unix.Getxattr(name, "user.note", value)
	if err != nil || !bytes.Equal(value[:n], []byte("kept")) {
		t.Errorf("attribute %q, %v", value[:max(n, 0)], err)
	}
	if got := f.stat("f").Sys().(*syscall.Stat_t).Uid; int(got) != owner {
		t.Errorf("owner %d, want %d", got, owner)
	}
}
