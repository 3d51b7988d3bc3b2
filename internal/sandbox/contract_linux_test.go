package sandbox_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/sandbox/sandboxtest"
)

func TestMain(m *testing.M) {
	sandboxtest.Main()
	if len(os.Args) == 4 && os.Args[1] == runtimeArg {
		runtime(sandbox.Level(os.Args[2]), os.Args[3])
	}
	if len(os.Args) == 2 && os.Args[1] == waitingArg {
		runtimeThatWaits()
	}
	if len(os.Args) == 7 && os.Args[1] == exhaustArg {
		most, _ := strconv.Atoi(os.Args[4])
		after, _ := strconv.Atoi(os.Args[5])
		exhaust(os.Args[2], os.Args[3], most, after, os.Args[6])
	}
	os.Exit(m.Run())
}

func TestContract(t *testing.T) {
	corpus := sandboxtest.NewCorpus(t)
	for _, level := range []sandbox.Level{sandbox.L2, sandbox.L2b, sandbox.L1} {
		t.Run(string(level), func(t *testing.T) {
			s := sandbox.New(sandbox.Config{}.AtMost(level))
			defer s.Close()
			corpus.Run(t, s, level)
		})
	}
}

func TestNetworkContract(t *testing.T) {
	for _, level := range []sandbox.Level{sandbox.L2, sandbox.L2b} {
		t.Run(string(level), func(t *testing.T) {
			sandboxtest.RunNetwork(t, func(c sandbox.Config) sandbox.Runner { return sandbox.New(c.AtMost(level)) }, level)
		})
	}
}

// ordinary is the user as whom the contract runs a second time.
const ordinary = "65534"

// TestContractOrdinaryUser runs TestContract once more as a user without rights.
func TestContractOrdinaryUser(t *testing.T) {
	asOrdinaryUser(t, "^TestContract$|^TestNetworkContract$|^TestRuntimeKilled$")
}

// asOrdinaryUser runs tests of this binary as a user without rights, who can make
// no cgroups.
func asOrdinaryUser(t *testing.T, tests string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("not root: the tests themselves have done it")
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		t.Skip("no setpriv")
	}
	dir, err := os.MkdirTemp("/tmp", "sandboxtest")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	binary := filepath.Join(dir, "sandbox.test")
	copyProgram(t, binary)
	scratch := filepath.Join(dir, "tmp")
	if err := os.Mkdir(scratch, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, scratch} {
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"--reuid", ordinary, "--regid", ordinary, "--clear-groups", "--inh-caps=-all", "--bounding-set=-all",
		binary, "-test.run", tests, "-test.v"}
	cmd := exec.CommandContext(t.Context(), setpriv, args...)
	cmd.Dir = scratch
	cmd.Env = []string{"PATH=/usr/bin:/bin", "TMPDIR=" + scratch, "HOME=" + scratch}
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}

func copyProgram(t *testing.T, to string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// runtimeArg makes the test binary a runtime that is to be killed.
const runtimeArg = "sandboxtest-runtime"

func runtime(level sandbox.Level, token string) {
	var network sandbox.Network
	if level.AtLeast(sandbox.L2b) {
		network = sandbox.NetworkOf([]string{"a.test"})
	}
	s := sandbox.New(sandbox.Config{}.AtMost(level))
	p, err := s.Start(context.Background(), sandbox.Cmd{
		Args: []string{"/bin/bash", "-c", "setsid sleep 987 & (sleep 987 & sleep 987) & echo ready; wait"},
		Env:  []string{"PATH=/usr/bin:/bin", token}, Stdout: os.Stdout, Profile: sandbox.Profile{Read: sandboxtest.System(), Network: network},
	})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	p.Wait(context.Background())
	os.Exit(0)
}

// TestRuntimeKilled kills a runtime so that it can do nothing about it.
func TestRuntimeKilled(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, level := range []sandbox.Level{sandbox.L2, sandbox.L1} {
		t.Run(string(level), func(t *testing.T) {
			token := fmt.Sprintf("SANDBOXTEST_RUNTIME=%d.%s", os.Getpid(), level)
			cmd := exec.Command(self, runtimeArg, string(level), token)
			cmd.Env = append(os.Environ(), token)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
				t.Fatalf("%q, %v", line, err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill() })
			for deadline := time.Now().Add(20 * time.Second); len(sandboxtest.Carriers(token)) < 4; { // the shell makes the last ones now
				if time.Now().After(deadline) {
					t.Fatalf("only %d processes before the kill", len(sandboxtest.Carriers(token)))
				}
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if left := sandboxtest.Gone(ctx, token); left != nil {
				t.Errorf("processes %v outlived the runtime", left)
			}
			// The next runtime finds what it could not clean up.
			next := sandbox.New(sandbox.Config{})
			defer next.Close()
			next.Probe(t.Context())
			groups, err := filepath.Glob(fmt.Sprintf("/sys/fs/cgroup/*/toolyard-%d-*", cmd.Process.Pid))
			if err != nil || len(groups) > 0 {
				t.Errorf("cgroups %v are left, %v", groups, err)
			}
			left, err := filepath.Glob(filepath.Join(os.TempDir(), fmt.Sprintf("toolyard-tmp-%d*", cmd.Process.Pid)))
			if err != nil || len(left) > 0 {
				t.Errorf("directories %v are left, %v", left, err)
			}
		})
	}
}

// TestForeignOwner: root works in somebody else's directory.
func TestForeignOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("not root")
	}
	for _, level := range []sandbox.Level{sandbox.L2, sandbox.L1} {
		t.Run(string(level), func(t *testing.T) {
			const uid = 12345
			ws, err := os.MkdirTemp("/var/tmp", "sandboxtest")
			if err != nil {
				t.Fatal(err)
			}
			home := filepath.Join(ws, "home")
			t.Cleanup(func() { os.RemoveAll(ws) })
			if err := os.Mkdir(home, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Chown(ws, uid, uid); err != nil {
				t.Fatal(err)
			}
			s := sandbox.New(sandbox.Config{}.AtMost(level))
			defer s.Close()
			got := sandboxtest.Shell(t, s, sandbox.Profile{Write: []string{ws}, Home: home},
				"echo x > made && echo x > home/made && stat -c '%u %g' made home/made && id -u && grep -E 'CapEff|CapBnd|NoNewPrivs|Groups' /proc/self/status | tr -d '\n\t '")
			want := "12345 12345\n12345 12345\n12345\nGroups:CapEff:0000000000000000CapBnd:0000000000000000NoNewPrivs:1"
			if got.Output != want {
				t.Errorf("got %q, want %q", got.Output, want)
			}
		})
	}
}
