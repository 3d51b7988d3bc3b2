package sandbox_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/sandbox/sandboxtest"
)

// waiting is a sandbox of level L2 for which one waits.
func waiting(t *testing.T, p sandbox.Profile) (*sandbox.Sandbox, int) {
	t.Helper()
	s := sandbox.New(sandbox.Config{})
	t.Cleanup(func() { s.Close() })
	if level := s.Probe(t.Context()).Level; !level.AtLeast(sandbox.L2) {
		t.Skip("there are no namespaces here, so that nothing is made ahead: ", level)
	}
	sandboxtest.Shell(t, s, p, "true")
	pids := s.AheadPIDs()
	if len(pids) != 1 {
		t.Fatalf("%v wait, want one", pids)
	}
	return s, pids[0]
}

// TestWaitingIsOutOfReach: a command of a weaker level, which shares the process
// IDs and the user with what waits, can neither look into it nor end it. So it
// is with a command of the same level.
func TestWaitingIsOutOfReach(t *testing.T) {
	_, pid := waiting(t, sandbox.Profile{})
	for _, level := range []sandbox.Level{sandbox.L2, sandbox.L1} {
		for _, c := range []struct{ name, script string }{
			{"its root", `import os; os.listdir("/proc/PID/root/"); print("reached")`},
			{"its temporary files", `open("/proc/PID/root/tmp/x", "w"); print("reached")`},
			{"its files", `import os; print(os.readlink("/proc/PID/fd/3")); print("reached")`},
			{"a file of its", `open("/proc/PID/fd/0"); print("reached")`},
			{"its control socket", `import os; fd = os.pidfd_open(PID); n = __import__("ctypes").CDLL(None).syscall(438, fd, 3, 0); print("reached" if n >= 0 else n)`},
			{"its memory", `open("/proc/PID/mem", "rb"); print("reached")`},
			{"its environment", `open("/proc/PID/environ", "rb").read(); print("reached")`},
			{"its namespaces", `import os; os.readlink("/proc/PID/ns/mnt"); print("reached")`},
			{"a trace", `import ctypes; n = ctypes.CDLL(None).ptrace(0x4206, PID, 0, 0); print("reached" if n == 0 else n)`},
			{"its limits", `import resource; resource.prlimit(PID, resource.RLIMIT_NOFILE, (1, 1)); print("reached")`},
			{"a signal", `import os; os.kill(PID, 9); print("reached")`},
			{"a signal that stops", `import os; os.kill(PID, 19); print("reached")`},
		} {
			t.Run(string(level)+"/"+c.name, func(t *testing.T) {
				s := sandbox.New(sandbox.Config{}.AtMost(level))
				defer s.Close()
				script := "python3 -I -S -c '" + strings.ReplaceAll(c.script, "PID", strconv.Itoa(pid)) + "' 2>&1 || echo refused"
				got := sandboxtest.Shell(t, s, sandbox.Profile{}, script)
				if got.Output == "" || strings.HasSuffix(got.Output, "reached") {
					t.Errorf("%s\n%s", script, got.Output)
				}
				if err := unix.Kill(pid, 0); err != nil {
					t.Errorf("what waited is gone: %v", err)
				}
			})
		}
	}
}

// TestWaitingServes: the command has what waited, with its own limits and the
// owner of the workspace as it is now.
func TestWaitingServes(t *testing.T) {
	t.Run("limits", func(t *testing.T) {
		ws := t.TempDir()
		s, _ := waiting(t, sandbox.Profile{Write: []string{ws}})
		got := sandboxtest.Shell(t, s, sandbox.Profile{Write: []string{ws}, Memory: 64 * sandbox.MiB},
			`python3 -I -S -c 'import time; x = b"x" * (300 << 20); time.sleep(20)'`)
		if got.Ending.Reason != sandbox.EndMemory {
			t.Errorf("ended %+v, want the limit of memory", got.Ending)
		}
		s.Ahead()
		got = sandboxtest.Shell(t, s, sandbox.Profile{Write: []string{ws}, PIDs: 20},
			`for i in $(seq 60); do sleep 5 & done 2>/dev/null; wait`)
		if got.Ending.Reason != sandbox.EndPIDs {
			t.Errorf("ended %+v, want the limit of processes", got.Ending)
		}
		s.Ahead()
		got = sandboxtest.Shell(t, s, sandbox.Profile{Write: []string{ws}, CPU: 100 * time.Millisecond}, `while :; do :; done`)
		if got.Ending.Reason != sandbox.EndCPU {
			t.Errorf("ended %+v, want the limit of processor time", got.Ending)
		}
	})
	t.Run("no more than it needs", func(t *testing.T) {
		s, _ := waiting(t, sandbox.Profile{})
		got := sandboxtest.Shell(t, s, sandbox.Profile{}, "ls /proc/self/fd | tr '\\n' ' '; grep -E 'CapEff|CapPrm|CapBnd|NoNewPrivs|Seccomp:' /proc/self/status | tr -d '\\n\\t '")
		if want := "0 1 2 3 CapPrm:0000000000000000CapEff:0000000000000000CapBnd:0000000000000000NoNewPrivs:1Seccomp:2"; got.Output != want {
			t.Errorf("got  %q\nwant %q", got.Output, want)
		}
	})
	if os.Getuid() != 0 {
		return // only root can give a folder away
	}
	t.Run("another owner", func(t *testing.T) {
		ws, err := os.MkdirTemp("/var/tmp", "sandboxtest")
		do(t, err)
		t.Cleanup(func() { os.RemoveAll(ws) })
		do(t, os.Chown(ws, 12345, 12345))
		s, _ := waiting(t, sandbox.Profile{Write: []string{ws}})
		for _, uid := range []int{23456, 0, 12345} {
			do(t, os.Chown(ws, uid, uid))
			got := sandboxtest.Shell(t, s, sandbox.Profile{Write: []string{ws}}, "touch made && stat -c %u made && rm made; id -u; tail -1 /etc/passwd | cut -d: -f3")
			if want := fmt.Sprintf("%d\n%d\n%d", uid, uid, uid); got.Output != want {
				t.Errorf("owner %d: got %q", uid, got.Output)
			}
			s.Ahead()
		}
	})
}

// waitingArg makes the test binary a runtime for which a sandbox waits.
const waitingArg = "sandboxtest-waiting"

func runtimeThatWaits() {
	s := sandbox.New(sandbox.Config{})
	p, err := s.Start(context.Background(), sandbox.Cmd{Args: []string{"/bin/true"}, Profile: sandbox.Profile{Read: sandboxtest.System()}})
	if err == nil {
		p.Wait(context.Background())
		err = p.Close()
	}
	fmt.Println(s.AheadPIDs(), err)
	select {}
}

// TestWaitingRuntimeKilled: what waits goes with the runtime, whatever ends it.
func TestWaitingRuntimeKilled(t *testing.T) {
	self, err := os.Executable()
	do(t, err)
	cmd := exec.Command(self, waitingArg)
	out, err := cmd.StdoutPipe()
	do(t, err, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	do(t, err)
	var pid int
	if n, _ := fmt.Sscanf(line, "[%d] <nil>", &pid); n != 1 {
		t.Skipf("nothing waits: %s", line)
	}
	if err := unix.Kill(pid, 0); err != nil {
		t.Fatal(err)
	}
	do(t, cmd.Process.Kill())
	_ = cmd.Wait()
	ended := func() bool {
		state, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		return err != nil || strings.Contains(string(state), ") Z ")
	}
	for deadline := time.Now().Add(20 * time.Second); !ended(); {
		if time.Now().After(deadline) {
			t.Fatalf("process %d waits on", pid)
		}
	}
	next := sandbox.New(sandbox.Config{})
	defer next.Close()
	next.Probe(t.Context())
	if left, _ := filepath.Glob(fmt.Sprintf("/sys/fs/cgroup/*/toolyard-%d-*", cmd.Process.Pid)); len(left) > 0 {
		t.Errorf("cgroups %v are left", left)
	}
}

// TestWaitingOrdinaryUser runs these tests, and those of what a sandbox shows that
// was made ahead, as a user without rights.
func TestWaitingOrdinaryUser(t *testing.T) {
	if os.Getuid() == 0 {
		asOrdinaryUser(t, "^TestAhead|^TestWaiting[^O]")
	}
}
