package process

import (
	"os/exec"
	"testing"
)

func TestIdentity(t *testing.T) {
	if !Alive(Identity()) {
		t.Errorf("this process, %s, is not alive", Identity())
	}
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Skipf("no program sleep: %v", err)
	}
	id := identity(child.Process.Pid)
	if !Alive(id) {
		t.Errorf("%s is not alive", id)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err == nil {
		t.Error("killed, but no error")
	}
	for _, gone := range []string{id, "", "x", "0@1", "-1@2", "99999999@3"} {
		if Alive(gone) {
			t.Errorf("%q is alive", gone)
		}
	}
}
