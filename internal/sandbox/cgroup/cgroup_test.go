//go:build linux

package cgroup

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadOwn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cgroup")
	if err := os.WriteFile(file, []byte("9:name=systemd:/\n5:cpu,cpuacct:/a:b\n4:memory:/x/y\n0::/user.slice\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := readOwn(file)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"name=systemd": "/", "cpu": "/a:b", "cpuacct": "/a:b", "memory": "/x/y", "": "/user.slice"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestPlace(t *testing.T) {
	for _, c := range []struct{ root, path, want string }{
		{"/", "/", "/m"},
		{"/", "/a/b", "/m/a/b"},
		{"/docker/1", "/docker/1", "/m"},
		{"/docker/1", "/docker/1/x", "/m/x"},
	} {
		if got := (mount{root: c.root, dir: "/m"}).place(c.path); got != c.want {
			t.Errorf("place of %s in a mount of %s: got %s, want %s", c.path, c.root, got, c.want)
		}
	}
}

// TestGroup makes a group, puts a process in it by its own hand, and removes it.
func TestGroup(t *testing.T) {
	root, reason := Find()
	if root == nil {
		t.Skip("no cgroup can be made here: ", reason)
	}
	g, err := root.New("test", Limits{Memory: 64 << 20, PIDs: 10})
	if err != nil {
		t.Fatal(err)
	}
	files, err := g.Born()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		f.Close()
	}
	if root.Version() == 1 {
		tasks := filepath.Join(g.dir(PIDs), "tasks")
		cmd := exec.Command("/bin/sh", "-c", fmt.Sprintf("echo 0 > %s; echo in; read x", tasks))
		in, _ := cmd.StdinPipe()
		out, _ := cmd.StdoutPipe()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 3)); err != nil {
			t.Fatal(err)
		}
		if got := g.Stat(); got.PIDs != 1 {
			t.Errorf("%d members, want the one that joined", got.PIDs)
		}
		g.Kill()
		if err := cmd.Wait(); err == nil {
			t.Error("the member outlived Kill")
		}
		in.Close()
	}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
	for _, dir := range g.dirs {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is still there", dir)
		}
	}
}

// TestSweep finds a group that a dead process left.
func TestSweep(t *testing.T) {
	root, reason := Find()
	if root == nil {
		t.Skip("no cgroup can be made here: ", reason)
	}
	base := root.v2
	if base == "" {
		base = root.v1[PIDs]
	}
	dead := filepath.Join(base, mark+"999999999-1-left")
	mine := filepath.Join(base, prefix()+"mine")
	for _, dir := range []string{dead, mine} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Remove(dir) })
	}
	if n := root.Sweep(); n < 1 {
		t.Errorf("swept %d groups, want at least the one of a dead process", n)
	}
	if _, err := os.Stat(dead); err == nil {
		t.Error("the group of a dead process is still there")
	}
	if _, err := os.Stat(mine); err != nil {
		t.Error("the group of a living process was removed")
	}
}
