package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// sandboxed is `toolyard sandbox run` with flags and a command, not yet started.
func sandboxed(t *testing.T, args ...string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	cmd = exec.CommandContext(ctx, binary, append([]string{"sandbox", "run"}, args...)...)
	cmd.Dir = t.TempDir()
	stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	return cmd, stdout, stderr
}

// exitCode is how a process ended; -1 if by a signal.
func exitCode(t *testing.T, err error) int {
	t.Helper()
	if err == nil {
		return 0
	}
	failed, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		t.Fatal(err)
	}
	return failed.ExitCode()
}

// uniqueNumber is a number of seconds that nothing else sleeps.
func uniqueNumber() string {
	return fmt.Sprintf("7%d.%d", os.Getpid(), time.Now().UnixNano())
}

// TestSandboxSignals: a signal is the command's; the second that asks to end
// kills.
func TestSandboxSignals(t *testing.T) {
	const loop = "echo ready; while :; do sleep 0.02; done"
	for _, c := range []struct {
		name   string
		script string
		signal syscall.Signal
		again  bool
		code   int
		stdout string
		stderr string
	}{
		{"SIGINT ends", loop, syscall.SIGINT, false, 130, "", ""},
		{"SIGTERM ends", loop, syscall.SIGTERM, false, 143, "", ""},
		{"SIGINT is caught", "trap 'echo caught; exit 9' INT; " + loop, syscall.SIGINT, false, 9, "caught\n", ""},
		{"SIGUSR1 is no end", "trap 'echo told; exit 4' USR1; echo ready; while :; do :; done", // it is sent to a sleep as well
			syscall.SIGUSR1, false, 4, "told\n", ""},
		{"the second SIGINT kills", "trap 'echo deaf' INT; " + loop, syscall.SIGINT, true, 137, "deaf\n", "toolyard: ended by killed: it was told to end twice\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cmd, _, stderr := sandboxed(t, "--", "sh", "-c", c.script)
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			cmd.Stdout = w
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			w.Close()
			ready := make([]byte, len("ready\n"))
			if _, err := io.ReadFull(r, ready); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			stdout := ""
			if c.again {
				said := make([]byte, len(c.stdout)) // the first was taken
				if _, err := io.ReadFull(r, said); err != nil {
					t.Fatal(err)
				}
				stdout = string(said)
				stop := make(chan struct{})
				defer close(stop)
				go func() { // one that comes at once is the same
					tick := time.NewTicker(30 * time.Millisecond)
					defer tick.Stop()
					for cmd.Process.Signal(c.signal) == nil {
						select {
						case <-stop:
							return
						case <-tick.C:
						}
					}
				}()
			}
			rest, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			stdout += string(rest)
			if got := exitCode(t, cmd.Wait()); got != c.code {
				t.Errorf("exit code %d, want %d", got, c.code)
			}
			if stdout != c.stdout || stderr.String() != c.stderr {
				t.Errorf("stdout %q, stderr %q; want %q, %q", stdout, stderr, c.stdout, c.stderr)
			}
		})
	}
}

// TestSandboxKilled: when the program is killed everything goes, daemons too, and
// its control groups.
func TestSandboxKilled(t *testing.T) {
	number := uniqueNumber()
	cmd, _, _ := sandboxed(t, "--", "sh", "-c", "setsid sleep "+number+" & sleep "+number)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the command to run", func() bool { return sleeping(t, number) })
	t.Logf("it has the control groups %q", controlGroups(t, cmd.Process.Pid))
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	waitFor(t, "everything to be gone", func() bool { return !sleeping(t, number) })
	waitFor(t, "the control groups to be gone", func() bool { return len(controlGroups(t, cmd.Process.Pid)) == 0 })
}

// controlGroups are those of a program's sandboxes.
func controlGroups(t *testing.T, pid int) []string {
	t.Helper()
	var found []string
	begins := fmt.Sprintf("toolyard-%d-", pid)
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // it went away meanwhile
		}
		if strings.HasPrefix(d.Name(), begins) {
			found = append(found, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestSandboxLeavesNothing: what the command leaves in its background ends with
// it, and does not keep the program from ending.
func TestSandboxLeavesNothing(t *testing.T) {
	for _, flags := range [][]string{{"--"}, {"--output", "1M", "--"}} {
		number := uniqueNumber()
		cmd, stdout, stderr := sandboxed(t, append(flags, "sh", "-c", "setsid sleep "+number+" & echo done")...)
		if got := exitCode(t, cmd.Run()); got != 0 || stdout.String() != "done\n" {
			t.Errorf("exit code %d, stdout %q, stderr %q", got, stdout, stderr)
		}
		if sleeping(t, number) {
			t.Error("the command's background process is still there")
		}
	}
}

// TestSandboxReaderGone: a command whose output nobody reads ends as it would
// outside, counted or not.
func TestSandboxReaderGone(t *testing.T) {
	for _, flags := range [][]string{{"--"}, {"--output", "1G", "--"}} {
		cmd, _, stderr := sandboxed(t, append(flags, "yes")...)
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stdout = w
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		w.Close()
		if _, err := io.ReadFull(r, make([]byte, 2)); err != nil {
			t.Fatal(err)
		}
		r.Close()
		if got := exitCode(t, cmd.Wait()); got != 128+int(syscall.SIGPIPE) || stderr.Len() > 0 {
			t.Errorf("%v: exit code %d, stderr %q; want 141", flags, got, stderr)
		}
	}
}

// TestSandboxStreams: much input comes out as it went in, counted or not, and
// both streams keep their order where they are one.
func TestSandboxStreams(t *testing.T) {
	input := bytes.Repeat([]byte("0123456789abcde\n"), 1<<18) // 4 MiB
	for _, flags := range [][]string{{"--"}, {"--output", "8M", "--"}} {
		cmd, stdout, stderr := sandboxed(t, append(flags, "cat")...)
		cmd.Stdin = bytes.NewReader(input)
		if got := exitCode(t, cmd.Run()); got != 0 || !bytes.Equal(stdout.Bytes(), input) || stderr.Len() > 0 {
			t.Errorf("%v: exit code %d, %d bytes of %d, stderr %q", flags, got, stdout.Len(), len(input), stderr)
		}
		both, err := os.Create(filepath.Join(t.TempDir(), "both"))
		if err != nil {
			t.Fatal(err)
		}
		defer both.Close()
		cmd, _, _ = sandboxed(t, append(flags, "sh", "-c", "echo 1; echo 2 >&2; echo 3")...)
		cmd.Stdout, cmd.Stderr = both, both
		if err := cmd.Run(); err != nil {
			t.Error(err)
		}
		if got, err := os.ReadFile(both.Name()); err != nil || string(got) != "1\n2\n3\n" {
			t.Errorf("%v: both streams are %q (%v)", flags, got, err)
		}
	}
}

// TestSandboxDescriptors: the command has three, whatever this program was
// started with, and none of them is a directory.
func TestSandboxDescriptors(t *testing.T) {
	dir, err := os.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	cmd, stdout, _ := sandboxed(t, "--", "sh", "-c", "ls /proc/$$/fd; ls /proc/$$/fd/5/")
	cmd.ExtraFiles = []*os.File{dir, dir, dir} // 3, 4, 5
	if got := exitCode(t, cmd.Run()); got == 0 {
		t.Errorf("a directory that was left open can be listed: %s", stdout)
	}
	for _, fd := range strings.Fields(stdout.String()) {
		if n, err := strconv.Atoi(fd); err == nil && n >= 3 && n < 10 { // a shell keeps its script at 10 or above
			t.Errorf("descriptor %s is open in the sandbox", fd)
		}
	}
	cmd, _, stderr := sandboxed(t, "--", "ls")
	cmd.Stdin = dir
	if got := exitCode(t, cmd.Run()); got != 2 || !strings.Contains(stderr.String(), "stdin is a directory") {
		t.Errorf("a directory for stdin: exit code %d, stderr %q; want 2", got, stderr)
	}
}

// console is a terminal with the program in its foreground.
type console struct {
	t      *testing.T
	master *os.File
	cmd    *exec.Cmd
	shown  bytes.Buffer
	modes  *unix.Termios // as they were
	peer   *os.File
}

func newConsole(t *testing.T, args ...string) *console {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no terminal can be made here: %v", err)
	}
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	peer, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 33, Col: 99}); err != nil {
		t.Fatal(err)
	}
	c := &console{t: t, master: master, peer: peer}
	if c.modes, err = unix.IoctlGetTermios(fd, unix.TCGETS); err != nil {
		t.Fatal(err)
	}
	c.cmd, _, _ = sandboxed(t, args...)
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = peer, peer, peer
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	t.Cleanup(func() { master.Close(); peer.Close() })
	return c
}

// until reads what is shown until it holds text.
func (c *console) until(text string) {
	c.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	buf := make([]byte, 4096)
	for !strings.Contains(c.shown.String(), text) {
		fds := []unix.PollFd{{Fd: int32(c.master.Fd()), Events: unix.POLLIN}}
		if n, err := unix.Poll(fds, 100); err != nil && err != unix.EINTR {
			c.t.Fatal(err)
		} else if n > 0 {
			n, err := c.master.Read(buf)
			c.shown.Write(buf[:n])
			if err != nil {
				c.t.Fatalf("%v; shown: %q, want %q", err, c.shown.String(), text)
			}
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("shown: %q, want %q", c.shown.String(), text)
		}
	}
}

func (c *console) write(keys string) {
	c.t.Helper()
	c.shown.Reset()
	if _, err := c.master.WriteString(keys); err != nil {
		c.t.Fatal(err)
	}
}

// TestSandboxTerminal: on a terminal the command has one of its own, with the
// size, the keys and job control of a terminal; afterwards it is as it was.
func TestSandboxTerminal(t *testing.T) {
	c := newConsole(t, "--", "sh", "-i")
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.write("stty size; tty; echo is-$((6*7))\n")
	c.until("is-42")
	for _, want := range []string{"33 99", "/dev/pts/"} {
		if !strings.Contains(c.shown.String(), want) {
			t.Errorf("shown: %q, want %q", c.shown.String(), want)
		}
	}
	number := uniqueNumber()
	c.write("sleep " + number + "\n")
	waitFor(t, "the command to run", func() bool { return sleeping(t, number) })
	c.write("\x03")
	waitFor(t, "Ctrl-C to end it", func() bool { return !sleeping(t, number) })
	c.write("echo code-$?\n")
	c.until("code-130")

	if err := unix.IoctlSetWinsize(int(c.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 20, Col: 60}); err != nil {
		t.Fatal(err)
	}
	c.write("until [ \"$(stty size)\" = '20 60' ]; do :; done; echo resized-$((1+1))\n")
	c.until("resized-2")

	c.write("sleep " + number + " &\nexit 5\n")
	if got := exitCode(t, c.cmd.Wait()); got != 5 {
		t.Errorf("exit code %d, want 5", got)
	}
	if sleeping(t, number) {
		t.Error("the background job is still there")
	}
	modes, err := unix.IoctlGetTermios(int(c.peer.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	if *modes != *c.modes {
		t.Errorf("the terminal's modes are %+v, want %+v", *modes, *c.modes)
	}
}

// TestSandboxTerminalError: stderr that goes elsewhere does so.
func TestSandboxTerminalError(t *testing.T) {
	c := newConsole(t, "--", "sh", "-c", "echo out; echo err >&2; tty")
	var stderr bytes.Buffer
	c.cmd.Stderr = &stderr
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.until("/dev/pts/")
	if got := exitCode(t, c.cmd.Wait()); got != 0 {
		t.Errorf("exit code %d", got)
	}
	if !strings.Contains(c.shown.String(), "out\r\n") || strings.Contains(c.shown.String(), "err") || stderr.String() != "err\n" {
		t.Errorf("shown %q, stderr %q", c.shown.String(), stderr.String())
	}
}
