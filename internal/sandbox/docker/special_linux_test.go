//go:build amd64 || arm64

package docker_test

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/sandbox/docker"
	"github.com/toolyard/toolyard/internal/sandbox/sandboxtest"
	"github.com/toolyard/toolyard/tool"
)

// containers lists what the daemon has of this test's process.
func containers(t *testing.T, filters ...string) []string {
	t.Helper()
	args := []string{"ps", "--all", "--quiet", "--no-trunc"}
	for _, f := range filters {
		args = append(args, "--filter", f)
	}
	out, err := daemon.CLI(t.Context(), args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

// wait polls until the condition holds.
func wait(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatalf("waited in vain: %s", what)
		case <-tick.C:
		}
	}
}

func TestUser(t *testing.T) {
	r := runner(t)
	const show = "id -u; id -G; grep -E 'CapEff|CapBnd|NoNewPrivs|Seccomp:' /proc/self/status | tr -d '\\n\\t '"
	const rights = "\nCapEff:0000000000000000CapBnd:0000000000000000NoNewPrivs:1Seccomp:2"
	t.Run("nothing to write", func(t *testing.T) {
		if got := sandboxtest.Shell(t, r, sandbox.Profile{}, show); got.Output != "1001\n1001"+rights {
			t.Errorf("got %q, want user 1001", got.Output)
		}
	})
	t.Run("somebody else's workspace", func(t *testing.T) {
		const uid = 12345
		ws := t.TempDir()
		home := filepath.Join(ws, "home")
		if err := errors.Join(os.Mkdir(home, 0o700), os.Chown(ws, uid, uid)); err != nil {
			t.Fatal(err)
		}
		got := sandboxtest.Shell(t, r, sandbox.Profile{Write: []string{ws}, Home: home}, "echo x > made && echo x > home/made && stat -c '%u %g' made home/made && "+show)
		if want := "12345 12345\n12345 12345\n12345\n12345" + rights; got.Output != want {
			t.Errorf("got %q, want %q", got.Output, want)
		}
	})
	t.Run("what only its owner may read", func(t *testing.T) {
		private := t.TempDir()
		file := filepath.Join(private, "file")
		if err := errors.Join(os.WriteFile(file, []byte("private"), 0o600), os.Chmod(private, 0o700), os.Chown(private, 4321, 4321), os.Chown(file, 4321, 4321)); err != nil {
			t.Fatal(err)
		}
		if got := sandboxtest.Shell(t, r, sandbox.Profile{Read: []string{private}}, "cat "+file+"; id -u"); got.Output != "private4321" {
			t.Errorf("got %q, want the file and its owner", got.Output)
		}
	})
}

func TestRefused(t *testing.T) {
	r := runner(t)
	ws := t.TempDir()
	for _, c := range []struct {
		name string
		cmd  sandbox.Cmd
		code tool.Code
		want string
	}{
		{"no command", sandbox.Cmd{}, tool.ParameterError, "no command"},
		{"domains", sandbox.Cmd{Args: []string{"true"}, Profile: sandbox.Profile{Network: sandbox.Network{Mode: sandbox.NetworkDomains, Domains: []string{"a.test"}}}}, tool.SandboxUnavailable, "network"},
		{"every address", sandbox.Cmd{Args: []string{"true"}, Profile: sandbox.Profile{Network: sandbox.Network{Mode: sandbox.NetworkAll}}}, tool.SandboxUnavailable, "network"},
		{"L3", sandbox.Cmd{Args: []string{"true"}, Profile: sandbox.Profile{MinLevel: sandbox.L3}}, tool.SandboxUnavailable, "L3"},
		{"little memory", sandbox.Cmd{Args: []string{"/usr/bin/true"}, Profile: sandbox.Profile{Memory: 1 << 20, Read: sandboxtest.System()}}, tool.ParameterError, "too little"},
		{"no such directory", sandbox.Cmd{Args: []string{"/usr/bin/true"}, Dir: filepath.Join(ws, "none"), Profile: sandbox.Profile{Write: []string{ws}, Read: sandboxtest.System()}}, tool.NotFound, "none"},
		{"a directory of the machine's", sandbox.Cmd{Args: []string{"/usr/bin/true"}, Dir: "/root", Profile: sandbox.Profile{Read: sandboxtest.System()}}, tool.NotFound, "/root"},
		{"a mount point that is not there", sandbox.Cmd{Args: []string{"/usr/bin/true"}, Profile: sandbox.Profile{Read: sandboxtest.System(), Mounts: []sandbox.Mount{{Source: ws, Target: "/usr/sandboxtest-new"}}}}, tool.ParameterError, "sandboxtest-new"},
		{"a program that is none", sandbox.Cmd{Args: []string{"/usr/share"}, Profile: sandbox.Profile{Read: sandboxtest.System()}}, tool.NotFound, "permission denied"},
		{"a name that is not in PATH", sandbox.Cmd{Args: []string{"no-such-program"}, Env: []string{"PATH=/usr/bin:/bin"}, Profile: sandbox.Profile{Read: sandboxtest.System()}}, tool.NotFound, "no-such-program"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := r.Start(t.Context(), c.cmd)
			if err == nil {
				p.Close()
				t.Fatal("it was started")
			}
			if e := tool.AsError(err); e.Code != c.code || !strings.Contains(e.Message, c.want) {
				t.Errorf("got %s %q, want %s with %q", e.Code, e.Message, c.code, c.want)
			}
		})
	}
	for _, made := range []string{filepath.Join(ws, "none"), "/usr/sandboxtest-new"} {
		if _, err := os.Lstat(made); err == nil {
			t.Errorf("%s was made on this machine", made)
		}
	}
	wait(t, "the containers of what was refused are removed", func() bool { return len(containers(t)) == 0 })
}

func TestNoDaemon(t *testing.T) {
	for _, c := range []struct{ name, host, reason string }{
		{"nobody listens", "unix://" + filepath.Join(t.TempDir(), "none"), "no Docker daemon answers"},
		{"another machine", "tcp://127.0.0.1:2375", "only unix"},
		{"a relative path", "unix://docker.sock", "only unix"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := docker.New(docker.Config{Host: c.host})
			defer r.Close()
			report := r.Probe(t.Context())
			if report.Level != "" || len(report.Missing) != 1 || !strings.Contains(report.Missing[0].Reason, c.reason) || report.Missing[0].Fix == "" {
				t.Errorf("got %+v, want %q and what to do", report, c.reason)
			}
			_, err := r.Start(t.Context(), sandbox.Cmd{Args: []string{"true"}, Profile: sandbox.Profile{MinLevel: sandbox.L0}})
			if e := tool.AsError(err); e == nil || e.Code != tool.SandboxUnavailable {
				t.Errorf("got %v, want SANDBOX_UNAVAILABLE", err)
			}
		})
	}
}

// TestSwapped: another command in the workspace puts symlinks in the way when
// everything has been looked at.
func TestSwapped(t *testing.T) {
	runner(t) // skips
	for _, c := range []struct {
		name string
		swap func(ws, secret string) error
	}{
		{"the workspace", func(ws, secret string) error {
			return errors.Join(os.Rename(ws, ws+"2"), os.Symlink(secret, ws))
		}},
		{"a directory around what is protected", func(ws, secret string) error {
			return errors.Join(os.Rename(ws+"/.git", ws+"/other"), os.Symlink(secret, ws+"/.git"))
		}},
		{"what is protected", func(ws, secret string) error {
			return errors.Join(os.Rename(ws+"/.git/hooks", ws+"/other"), os.Symlink(secret, ws+"/.git/hooks"))
		}},
		{"what is hidden", func(ws, secret string) error {
			return errors.Join(os.Rename(ws+"/private", ws+"/other"), os.Symlink(ws+"/src", ws+"/private"))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			secret, dir := t.TempDir(), t.TempDir()
			ws := filepath.Join(dir, "ws")
			if err := errors.Join(os.MkdirAll(ws+"/.git/hooks", 0o755), os.Mkdir(ws+"/private", 0o755), os.Mkdir(ws+"/src", 0o755), os.WriteFile(secret+"/secret", []byte("SECRET"), 0o644)); err != nil {
				t.Fatal(err)
			}
			swap := func() {}
			r := docker.New(docker.Config{Host: "unix://" + daemon.Socket}.BeforeStart(func() { swap() }))
			defer r.Close()
			if level := r.Probe(t.Context()).Level; level != sandbox.Docker {
				t.Fatalf("level %q", level)
			}
			out := filepath.Join(dir, "out")
			f, err := os.Create(out)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			swap = func() {
				if err := c.swap(ws, secret); err != nil {
					t.Error(err)
				}
			}
			p, err := r.Start(t.Context(), sandbox.Cmd{
				Args: []string{"/bin/bash", "-c", "cat " + ws + "/secret " + ws + "/.git/secret " + ws + "/.git/hooks/secret; echo ran"},
				Env:  []string{"PATH=/usr/bin:/bin"}, Stdout: f, Profile: sandbox.Profile{Write: []string{ws}, Deny: []string{"private"}, Read: sandboxtest.System()},
			})
			if err == nil {
				p.Wait(t.Context())
				p.Close()
			}
			text, readErr := os.ReadFile(out)
			if e := tool.AsError(err); err == nil || e.Code != tool.Conflict || readErr != nil || len(text) > 0 {
				t.Errorf("got %v and %q, %v, want it refused and nothing run", err, text, readErr)
			}
		})
	}
}

// TestStatistics: limits hold where only the daemon can count.
func TestStatistics(t *testing.T) {
	runner(t) // skips
	r := docker.New(docker.Config{Host: "unix://" + daemon.Socket}.WithoutCgroup())
	defer r.Close()
	if report := r.Probe(t.Context()); !slices.ContainsFunc(report.Missing, func(m sandbox.Missing) bool { return m.Layer == "counters" }) {
		t.Errorf("missing %+v, want the counters", report.Missing)
	}
	const spin = `end=$((SECONDS+20)); while [ $SECONDS -lt $end ]; do :; done`
	for _, c := range []struct {
		name    string
		profile sandbox.Profile
		script  string
		reason  string
	}{
		{"cpu", sandbox.Profile{CPU: 500 * time.Millisecond}, spin, sandbox.EndCPU},
		{"memory", sandbox.Profile{Memory: 64 * sandbox.MiB}, "head -c 300000000 /dev/zero | tail -c 300000000 > /dev/null", sandbox.EndMemory},
		{"pids", sandbox.Profile{PIDs: 16}, "for i in $(seq 100); do sleep 7 & done; wait", sandbox.EndPIDs},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := sandboxtest.Shell(t, r, c.profile, c.script); got.Ending.Reason != c.reason || c.name == "cpu" && got.Peaks.MemoryBytes <= 0 {
				t.Errorf("ended %+v with %+v, want %s\n%s", got.Ending, got.Peaks, c.reason, got.Output)
			}
		})
	}
}

// TestShort: a command that has ended before anybody looked was measured too.
func TestShort(t *testing.T) {
	runner(t) // skips
	over := func() {
		wait(t, "the container ends", func() bool { return len(containers(t, "status=running")) == 0 })
	}
	r := docker.New(docker.Config{Host: "unix://" + daemon.Socket}.Begun(over))
	defer r.Close()
	got := sandboxtest.Shell(t, r, sandbox.Profile{}, "exit 3")
	if got.Ending.Reason != sandbox.EndExit || got.Ending.Code != 3 || got.Peaks.MemoryBytes <= 0 || got.Peaks.PIDs != 1 {
		t.Errorf("ended %+v with %+v", got.Ending, got.Peaks)
	}
}

func TestStreams(t *testing.T) {
	r := runner(t)
	start := func(t *testing.T, script string, in, out *os.File) sandbox.Process {
		t.Helper()
		p, err := r.Start(t.Context(), sandbox.Cmd{
			Args: []string{"/bin/bash", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"}, Stdin: in, Stdout: out, Profile: sandbox.Profile{Read: sandboxtest.System()},
		})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	pipe := func(t *testing.T) (r, w *os.File) {
		t.Helper()
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close(); w.Close() })
		return r, w
	}
	t.Run("input of some size comes back", func(t *testing.T) {
		inR, inW := pipe(t)
		outR, outW := pipe(t)
		p := start(t, "cat", inR, outW)
		defer p.Close()
		inR.Close()
		outW.Close()
		sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<17) // 2 MiB
		go func() {
			_, _ = inW.Write(sent)
			inW.Close()
		}()
		got, err := io.ReadAll(outR)
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%d bytes came back of %d, %v", len(got), len(sent), err)
		}
		if e := p.Wait(t.Context()).Ending; e.Reason != sandbox.EndExit || e.Code != 0 {
			t.Errorf("ended %+v", e)
		}
	})
	t.Run("nobody reads", func(t *testing.T) {
		_, outW := pipe(t)
		p := start(t, "yes", nil, outW)
		began := time.Now()
		p.Kill(sandbox.EndOutput)
		if err := p.Close(); err != nil || time.Since(began) > 10*time.Second {
			t.Errorf("closed after %v, %v", time.Since(began), err)
		}
		if e := p.Wait(t.Context()).Ending; e.Reason != sandbox.EndOutput {
			t.Errorf("ended %+v", e)
		}
	})
	t.Run("input that never ends", func(t *testing.T) {
		inR, _ := pipe(t)
		outR, outW := pipe(t)
		p := start(t, "echo done", inR, outW)
		outW.Close()
		if text, err := io.ReadAll(outR); string(text) != "done\n" || err != nil {
			t.Errorf("got %q, %v", text, err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Run("a signal", func(t *testing.T) {
		outR, outW := pipe(t)
		p := start(t, "trap 'echo caught; exit 3' USR1; echo ready; while :; do sleep 0.05; done", nil, outW)
		defer p.Close()
		outW.Close()
		lines := bufio.NewScanner(outR)
		if !lines.Scan() || lines.Text() != "ready" {
			t.Fatalf("%q", lines.Text())
		}
		if err := p.Signal(syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		if e := p.Wait(t.Context()).Ending; !lines.Scan() || lines.Text() != "caught" || e.Code != 3 {
			t.Errorf("%q, ended %+v", lines.Text(), e)
		}
	})
}

func TestResize(t *testing.T) {
	r := runner(t)
	p, err := r.Start(t.Context(), sandbox.Cmd{
		Args: []string{"/bin/bash", "-c", "trap 'stty size' WINCH; stty size; echo ready; while :; do sleep 0.05; done"},
		Env:  []string{"PATH=/usr/bin:/bin"}, TTY: &sandbox.TTY{Columns: 90, Rows: 20}, Profile: sandbox.Profile{Read: sandboxtest.System()},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	lines := bufio.NewScanner(p.PTY())
	for _, want := range []string{"20 90", "ready"} {
		if !lines.Scan() || strings.TrimSpace(lines.Text()) != want {
			t.Fatalf("got %q, want %q", lines.Text(), want)
		}
	}
	raw, err := p.PTY().SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Control(func(fd uintptr) {
		err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: 44, Col: 133})
	})
	if err != nil {
		t.Fatal(err)
	}
	if !lines.Scan() || strings.TrimSpace(lines.Text()) != "44 133" {
		t.Errorf("got %q after the change, want 44 133", lines.Text())
	}
}

// image imports an image with a shell and what it loads.
func image(t *testing.T, name string, changes ...string) string {
	t.Helper()
	var content bytes.Buffer
	w := tar.NewWriter(&content)
	add := func(path, as string) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: as[1:], Mode: 0o755, Size: int64(len(data))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: "bin", Linkname: "usr/bin"}); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, program := range []string{"/bin/bash", "/bin/cat", self} {
		if program != self {
			add(program, strings.Replace(program, "/bin/", "/usr/bin/", 1))
		}
		out, _ := exec.Command("ldd", program).Output() // fails for a static one
		for _, field := range strings.Fields(string(out)) {
			if strings.HasPrefix(field, "/") && !seen[field] {
				seen[field] = true
				add(field, field)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	args := []string{"import"}
	for _, c := range changes {
		args = append(args, "--change", c)
	}
	cmd := daemon.CLI(t.Context(), append(args, "-", name)...)
	cmd.Stdin = &content
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return name
}

func TestImage(t *testing.T) {
	runner(t) // skips
	with := func(t *testing.T, name string) *docker.Runner {
		r := docker.New(docker.Config{Host: "unix://" + daemon.Socket, Image: name})
		t.Cleanup(func() { r.Close() })
		return r
	}
	t.Run("its own programs", func(t *testing.T) {
		r := with(t, image(t, "sandboxtest:shell", "USER 0", "ENTRYPOINT [\"/bin/false\"]", "HEALTHCHECK CMD false"))
		if report := r.Probe(t.Context()); report.Level != sandbox.Docker {
			t.Fatalf("%+v", report)
		}
		ws := t.TempDir()
		got := sandboxtest.Shell(t, r, sandbox.Profile{Write: []string{ws}, Mounts: sandbox.Toolchains("/usr/bin:/bin", "").Mounts},
			"/usr/bin/cat /etc/passwd; echo /usr/bin/*; echo x > made")
		if strings.Contains(got.Output, "/usr/bin/tar") || !strings.Contains(got.Output, "/usr/bin/bash /usr/bin/cat") {
			t.Errorf("got %q, want the image's two programs only", got.Output)
		}
		if text, err := os.ReadFile(filepath.Join(ws, "made")); string(text) != "x\n" || err != nil {
			t.Errorf("made %q, %v", text, err)
		}
		_, err := r.Start(t.Context(), sandbox.Cmd{Args: []string{"tar"}, Env: []string{"PATH=/usr/bin"}, Profile: sandbox.Profile{}})
		if e := tool.AsError(err); e == nil || e.Code != tool.NotFound {
			t.Errorf("got %v, want NOT_FOUND", err)
		}
	})
	for _, c := range []struct{ name, image, reason string }{
		{"not there", "sandboxtest:none", "is not there"},
		{"with a volume", "", "volumes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.image == "" {
				c.image = image(t, "sandboxtest:volume", "VOLUME /data")
			}
			report := with(t, c.image).Probe(t.Context())
			if report.Level != "" || len(report.Missing) != 1 || !strings.Contains(report.Missing[0].Reason, c.reason) {
				t.Errorf("got %+v, want %q", report, c.reason)
			}
		})
	}
}

// TestImageRemoved: somebody prunes what no container uses.
func TestImageRemoved(t *testing.T) {
	r := runner(t)
	for range 2 {
		if got := sandboxtest.Shell(t, r, sandbox.Profile{}, "echo ran"); got.Output != "ran" {
			t.Fatalf("got %q", got.Output)
		}
		wait(t, "the container is removed", func() bool { return len(containers(t)) == 0 })
		if out, err := daemon.CLI(t.Context(), "image", "prune", "--all", "--force").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
}

// runtimeArg makes the test binary a runtime that is to be killed.
const runtimeArg = "dockertest-runtime"

func runtimeMain(socket, token string) {
	r := docker.New(docker.Config{Host: "unix://" + socket})
	p, err := r.Start(context.Background(), sandbox.Cmd{
		Args: []string{"/bin/bash", "-c", "setsid sleep 988 & echo ready; wait"},
		Env:  []string{"PATH=/usr/bin:/bin", token}, Stdout: os.Stdout, Profile: sandbox.Profile{Read: sandboxtest.System()},
	})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	p.Wait(context.Background())
	os.Exit(0)
}

// TestRuntimeKilled: what a dead runtime leaves the next one removes, and
// nothing that belongs to a living one.
func TestRuntimeKilled(t *testing.T) {
	living := runner(t)
	token := fmt.Sprintf("SANDBOXTEST_DOCKER=%d.%d", os.Getpid(), time.Now().UnixNano())
	p, err := living.Start(t.Context(), sandbox.Cmd{
		Args: []string{"/bin/sleep", "988"}, Env: []string{"PATH=/usr/bin:/bin", token + ".living"}, Profile: sandbox.Profile{Read: sandboxtest.System()},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, runtimeArg, daemon.Socket, token+".dead")
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
	if n := len(sandboxtest.Carriers(token + ".dead")); n < 2 {
		t.Fatalf("only %d processes before the kill", n)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()

	next := docker.New(docker.Config{Host: "unix://" + daemon.Socket})
	defer next.Close()
	if level := next.Probe(t.Context()).Level; level != sandbox.Docker {
		t.Fatalf("level %q", level)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if left := sandboxtest.Gone(ctx, token+".dead"); left != nil {
		t.Errorf("processes %v of a dead runtime are left", left)
	}
	if len(sandboxtest.Carriers(token+".living")) == 0 {
		t.Error("the living runtime's command is gone")
	}
	if left := containers(t, "label=dev.toolyard.owner"); !slices.Contains(left, containerOf(t, p.PID())) {
		t.Errorf("containers %v, want that of the living runtime", left)
	}
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), fmt.Sprintf("toolyard-docker-%d@*", cmd.Process.Pid)))
	if err != nil || len(dirs) > 0 {
		t.Errorf("directories %v are left, %v", dirs, err)
	}
}

// containerOf finds the container of a process.
func containerOf(t *testing.T, pid int) string {
	t.Helper()
	for _, id := range containers(t) {
		out, err := daemon.CLI(t.Context(), "inspect", "--format", "{{.State.Pid}}", id).Output()
		if err == nil && strings.TrimSpace(string(out)) == fmt.Sprint(pid) {
			return id
		}
	}
	return ""
}

// TestTogether: commands side by side do not mix.
func TestTogether(t *testing.T) {
	r := runner(t)
	for i := range 4 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			ws := t.TempDir()
			got := sandboxtest.Shell(t, r, sandbox.Profile{Write: []string{ws}}, fmt.Sprintf("echo %d | tee made; exit %d", i, i))
			text, err := os.ReadFile(filepath.Join(ws, "made"))
			if got.Output != fmt.Sprint(i) || got.Ending.Code != i || string(text) != fmt.Sprintf("%d\n", i) || err != nil {
				t.Errorf("ended %+v with %q and %q, %v", got.Ending, got.Output, text, err)
			}
		})
	}
}
