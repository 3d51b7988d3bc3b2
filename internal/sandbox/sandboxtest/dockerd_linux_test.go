package sandboxtest

import (
	"os"
	"strings"
	"testing"
)

// TestDockerd runs a program of the machine in a container of an empty image,
// and looks at what a daemon leaves behind.
func TestDockerd(t *testing.T) {
	var dir string
	t.Run("run", func(t *testing.T) {
		d := Dockerd(t)
		dir = d.dir
		if n := len(Carriers(dir)); n < 2 {
			t.Errorf("%d processes carry the directory's name, want dockerd and its containerd", n)
		}
		args := []string{"run", "--rm", "--network", "none"}
		for _, s := range System() {
			args = append(args, "--volume", s+":"+s+":ro")
		}
		out, err := d.CLI(t.Context(), append(args, d.EmptyImage(t), "/bin/bash", "-c", "echo pid $$")...).CombinedOutput()
		if strings.TrimSpace(string(out)) != "pid 1" {
			t.Errorf("got %q, %v, want the first process of a container\n%s", out, err, d.tail())
		}
	})
	if dir == "" {
		t.Skip(NoDockerd())
	}
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", dir, err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), dir) {
		t.Errorf("mounts are left below %s: %v", dir, err)
	}
	if left := Carriers(dir); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}
