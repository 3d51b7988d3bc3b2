package pkgs_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/toolyard/toolyard/internal/toolbox/pkgs"
	"github.com/toolyard/toolyard/tool"
)

// TestDiskFull: whenever the disk fills up during an update, the old version and
// the data are whole, and the error says what it was. It mounts a small file
// system of its own, in a process with mounts of its own.
func TestDiskFull(t *testing.T) {
	if os.Getenv("PKGS_TEST_FULL") == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestDiskFull$", "-test.v")
		cmd.Env = append(os.Environ(), "PKGS_TEST_FULL="+t.TempDir())
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
		if os.Getuid() != 0 {
			cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
		}
		out, err := cmd.CombinedOutput()
		if err != nil && strings.Contains(err.Error(), "operation not permitted") {
			t.Skip("mounts of one's own need root or user namespaces")
		}
		if err != nil || !bytes.Contains(out, []byte("--- PASS: TestDiskFull")) {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	dir := os.Getenv("PKGS_TEST_FULL")
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(dir, "toolbox")
	p := open(t, func(c *pkgs.Config) { c.Home = home })
	src := t.TempDir() // on another file system
	for _, version := range []string{"1.0.0", "2.0.0"} {
		files := shape(version)
		files["lib/large.js"] = strings.Repeat(version, 20_000)
		plant(t, filepath.Join(src, version), files)
	}
	want := shape("1.0.0")
	want["lib/large.js"] = strings.Repeat("1.0.0", 20_000)
	for name, text := range own() {
		want[name] = text
	}
	f := fetch(t, p, filepath.Join(src, "1.0.0"))
	if _, err := p.Install(t.Context(), f, withDependencies("1.0.0")); err != nil {
		t.Fatal(err)
	}
	f.Close()
	plant(t, p.Dir("hello"), own())
	failed := map[string]bool{}
	for free := 0; ; free += 4096 {
		if free > 2<<20 {
			t.Fatal("it never fits")
		}
		fill(t, dir, free)
		var where string
		f, err := p.Fetch(t.Context(), filepath.Join(src, "2.0.0"), nil)
		if err != nil {
			where = "fetch"
		} else {
			where = "update"
			_, err = p.Update(t.Context(), "hello", f, pkgs.UpdateOptions{Hooks: withDependencies("2.0.0")})
			f.Close()
		}
		if err == nil {
			break
		}
		failed[where] = true
		if e := tool.AsError(err); e.Code != tool.ResourceExhausted && !strings.Contains(e.Text(), "no space left") || e.Hint == "" && e.Code == tool.ResourceExhausted {
			t.Fatalf("%d bytes free, %s: %v (%s)", free, where, err, e.Code)
		}
		os.Remove(filepath.Join(dir, "fill"))
		if diff := cmp.Diff(want, tree(t, p.Dir("hello"))); diff != "" {
			t.Fatalf("%d bytes free, %s (-want +got):\n%s", free, where, diff)
		}
		if _, err := p.Recover(t.Context()); err != nil {
			t.Fatal(err)
		}
		noStage(t, p)
		if v, err := p.Verify(t.Context(), "hello"); err != nil || !v.OK {
			t.Fatalf("%d bytes free, %s: verify: %+v, %v", free, where, v, err)
		}
	}
	if !failed["fetch"] || !failed["update"] {
		t.Errorf("it failed in %v", failed)
	}
	if got := tree(t, p.Dir("hello")); got["hello.tool.js"] != "tool 2.0.0" || got["data/storage.json"] == "" {
		t.Errorf("after all: %v", got)
	}
}

// fill leaves so many bytes free.
func fill(t *testing.T, dir string, free int) {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	n := int(st.Bavail)*int(st.Bsize) - free
	if n < 0 {
		return
	}
	if err := os.WriteFile(filepath.Join(dir, "fill"), make([]byte, n), 0o600); err != nil {
		t.Fatal(err)
	}
}
