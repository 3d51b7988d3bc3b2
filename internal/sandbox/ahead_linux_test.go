package sandbox_test

import (
	"bufio"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/sandbox/sandboxtest"
)

// TestAhead: what is made ahead for the next command shows it the machine as it
// is when the command begins, and nothing of the command before.
func TestAhead(t *testing.T) {
	for _, c := range []struct {
		name   string
		first  string // run once, so that the next sandbox is made ahead
		change func(t *testing.T, ws string)
		script string
		want   string
	}{
		{"nothing changed", "true", func(*testing.T, string) {}, "cat file", "old"},
		{"temporary files", "echo x > /tmp/left; echo x > /dev/shm/left; mkdir /tmp/dir", func(*testing.T, string) {}, "ls -d /tmp/left /tmp/dir /dev/shm/* 2>/dev/null", ""},
		{"processes", "setsid sleep 987 & sleep 987 & true", func(*testing.T, string) {}, "cat /proc/[0-9]*/comm | grep -c sleep", "0"},
		{"a changed file", "true", func(t *testing.T, ws string) { write(t, ws+"/file", "new") }, "cat file", "new"},
		{"a replaced file", "true", func(t *testing.T, ws string) { replace(t, ws+"/file", "new") }, "cat file", "new"},
		{"a replaced workspace", "true", func(t *testing.T, ws string) {
			if err := os.Rename(ws, ws+".old"); err != nil {
				t.Fatal(err)
			}
			write(t, ws+"/file", "another")
		}, "cat file; ls -A", "anotherfile"},
		{"a workspace made again", "true", func(t *testing.T, ws string) {
			if err := os.RemoveAll(ws); err != nil {
				t.Fatal(err)
			}
			write(t, ws+"/file", "again")
		}, "cat file; ls -A", "againfile"},
		{"a protected file replaced", "true", func(t *testing.T, ws string) { replace(t, ws+"/.git/config", "new") },
			"cat .git/config; echo evil 2>/dev/null > .git/config; cat .git/config", "newnew"},
		{"a protected file that appears", "true", func(t *testing.T, ws string) { write(t, ws+"/.mcp.json", "{}") },
			"echo evil 2>/dev/null > .mcp.json; cat .mcp.json", "{}"},
		{"a denied file replaced", "true", func(t *testing.T, ws string) { replace(t, ws+"/secret", "new") }, "cat secret 2>/dev/null || echo hidden", "hidden"},
		{"a denied file made again", "true", func(t *testing.T, ws string) {
			for range 3 { // the number of the file comes back
				if err := os.Remove(ws + "/secret"); err != nil {
					t.Fatal(err)
				}
				write(t, ws+"/secret", "new")
			}
		}, "cat secret 2>/dev/null || echo hidden", "hidden"},
		{"a denied file by another name and back", "true", func(t *testing.T, ws string) {
			for _, step := range []error{os.Link(ws+"/secret", ws+"/dir/other"), os.Remove(ws + "/secret"), os.Rename(ws+"/dir/other", ws+"/secret")} {
				if step != nil {
					t.Fatal(step)
				}
			}
		}, "cat secret 2>/dev/null || echo hidden", "hidden"},
		{"a denied directory that becomes another and comes back", "true", func(t *testing.T, ws string) {
			do(t, os.Rename(ws+"/private", ws+"/kept"), os.Mkdir(ws+"/private", 0o755), os.Remove(ws+"/private"), os.Rename(ws+"/kept", ws+"/private"))
		}, "cat private/key 2>/dev/null || echo hidden", "hidden"},
		{"a denied directory under another one", "true", func(t *testing.T, ws string) {
			do(t, os.Mkdir(ws+"/new", 0o755), os.Rename(ws+"/private", ws+"/new/private"), os.Rename(ws+"/new/private", ws+"/private"))
		}, "cat private/key new/private/key 2>/dev/null || echo hidden", "hidden"},
		{"a denied directory made again", "true", func(t *testing.T, ws string) {
			do(t, os.RemoveAll(ws+"/private"))
			write(t, ws+"/private/key", "new")
		}, "cat private/key 2>/dev/null || echo hidden", "hidden"},
		{"a denied path that appears", "true", func(t *testing.T, ws string) { write(t, ws+"/later", "new") }, "cat later 2>/dev/null || echo hidden", "hidden"},
		{"a denied symlink that becomes a file", "rm -f later; ln -s nothing later", func(t *testing.T, ws string) {
			do(t, os.Remove(ws+"/later"))
			write(t, ws+"/later", "new")
		}, "cat later 2>/dev/null || echo hidden", "hidden"},
		{"a protected directory that becomes a symlink", "true", func(t *testing.T, ws string) {
			do(t, os.Mkdir(ws+"/.claude", 0o755), os.Remove(ws+"/.claude"), os.Symlink("dir", ws+"/.claude"))
		}, "echo evil 2>/dev/null > dir/settings.json; rm -f .claude 2>/dev/null; mkdir .claude 2>/dev/null; echo evil 2>/dev/null > .claude/x; [ -d .claude ] && echo there", "there"},
		{"a protected file that becomes a directory", "true", func(t *testing.T, ws string) {
			do(t, os.Remove(ws+"/.git/config"), os.Mkdir(ws+"/.git/config", 0o755))
		}, "echo evil 2>/dev/null > .git/config/x; ls -A .git/config", ""},
		{"hooks that appear", "true", func(t *testing.T, ws string) { write(t, ws+"/.git/hooks/pre-commit", "old") },
			"echo evil 2>/dev/null > .git/hooks/pre-commit; cat .git/hooks/pre-commit; touch .git/hooks/x 2>/dev/null; ls .git/hooks", "oldpre-commit"},
		{"a directory of git made again", "true", func(t *testing.T, ws string) {
			do(t, os.RemoveAll(ws+"/.git"))
			write(t, ws+"/.git/config", "new")
		}, "mv .git .git2 2>/dev/null; echo evil 2>/dev/null > .git/config; cat .git/config", "new"},
		{"a hard link to a protected file", "true", func(t *testing.T, ws string) { do(t, os.Link(ws+"/.git/config", ws+"/.mcp.json")) },
			"echo evil 2>/dev/null > .mcp.json; echo evil 2>/dev/null > .git/config; cat .mcp.json", "old"},
		{"a server that appears", "true", func(t *testing.T, ws string) { listen(t, ws+"/sock") }, connects, "no"},
		{"a server that goes and comes back", "true", func(t *testing.T, ws string) {
			do(t, listen(t, ws+"/sock").Close())
			listen(t, ws+"/sock")
		}, connects, "no"},
		{"a server that was started in the workspace", "true", func(t *testing.T, ws string) { listenFrom(t, ws, "sock") }, connects, "no"},
		{"a mount that becomes read-only", "true", func(t *testing.T, ws string) {
			if os.Getuid() != 0 {
				do(t, os.Chmod(ws+"/dir", 0o555)) // nobody else can mount
				return
			}
			do(t, unix.Mount(ws+"/dir", ws+"/dir", "", unix.MS_BIND, ""))
			t.Cleanup(func() { _ = unix.Unmount(ws+"/dir", unix.MNT_DETACH) })
			do(t, unix.Mount("", ws+"/dir", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
		}, "(echo x > dir/x && echo written) 2>/dev/null || echo refused", "refused"},
		{"a mount", "true", func(t *testing.T, ws string) {
			if os.Getuid() != 0 {
				write(t, ws+"/dir/mounted", "") // nobody else can mount
				return
			}
			if err := unix.Mount("tmpfs", ws+"/dir", "tmpfs", 0, "size=1m"); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = unix.Unmount(ws+"/dir", unix.MNT_DETACH) })
			write(t, ws+"/dir/mounted", "")
		}, "ls dir", "mounted"},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			s := sandbox.New(sandbox.Config{})
			defer s.Close()
			if level := s.Probe(t.Context()).Level; !level.AtLeast(sandbox.L2) {
				t.Skip("there are no namespaces here, so that nothing is made ahead: ", level)
			}
			ws := filepath.Join(t.TempDir(), "ws")
			for name, text := range map[string]string{"file": "old", "secret": "secret", "private/key": "secret", ".git/config": "old", "dir/x": ""} {
				write(t, filepath.Join(ws, name), text)
			}
			if err := os.Remove(ws + "/dir/x"); err != nil {
				t.Fatal(err)
			}
			profile := sandbox.Profile{Write: []string{ws}, Deny: []string{"secret", "private", "later"}}
			sandboxtest.Shell(t, s, profile, c.first)
			if n := s.Ahead(); n != 1 {
				t.Fatalf("%d sandboxes wait, want one", n)
			}
			c.change(t, ws)
			if got := sandboxtest.Shell(t, s, profile, c.script); got.Output != c.want {
				t.Errorf("%s\ngot %q, want %q", c.script, got.Output, c.want)
			}
		})
	}
}

// TestAheadOther: a sandbox that was made ahead is for the same grants only.
func TestAheadOther(t *testing.T) {
	s := sandbox.New(sandbox.Config{})
	defer s.Close()
	ws := t.TempDir()
	write(t, ws+"/secret", "secret")
	for _, c := range []struct {
		name    string
		profile sandbox.Profile
		want    string
	}{
		{"writing", sandbox.Profile{Write: []string{ws}}, "secretwritten"},
		{"reading", sandbox.Profile{Read: []string{ws}}, "secretrefused"},
		{"hiding", sandbox.Profile{Write: []string{ws}, Deny: []string{"secret"}}, "written"},
		{"nothing", sandbox.Profile{}, "refused"},
		{"writing again", sandbox.Profile{Write: []string{ws}}, "secretwritten"},
	} {
		script := "cat " + ws + "/secret 2>/dev/null; (echo x > " + ws + "/made && echo written) 2>/dev/null || echo refused"
		got := sandboxtest.Shell(t, s, c.profile, script)
		if got.Output != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got.Output, c.want)
		}
		s.Ahead()
	}
}

// TestNothingAheadForOne: nothing is made for a command that will not come.
func TestNothingAheadForOne(t *testing.T) {
	s := sandbox.New(sandbox.Config{Once: true})
	defer s.Close()
	for range 2 {
		if got := sandboxtest.Shell(t, s, sandbox.Profile{}, "echo $((6*7))"); got.Output != "42" {
			t.Errorf("got %q, %+v", got.Output, got.Ending)
		}
		if n := s.Ahead(); n != 0 {
			t.Errorf("%d sandboxes wait", n)
		}
	}
}

// TestAheadKilled kills what waits: the next command does not need it.
func TestAheadKilled(t *testing.T) {
	s := sandbox.New(sandbox.Config{})
	defer s.Close()
	for range 3 {
		if got := sandboxtest.Shell(t, s, sandbox.Profile{}, "echo $((6*7))"); got.Output != "42" {
			t.Errorf("got %q, %+v", got.Output, got.Ending)
		}
		s.Ahead()
		s.KillAhead()
	}
}

// connects says whether anybody answers at the socket of the workspace.
const connects = `python3 -I -S -c 'import socket; socket.socket(socket.AF_UNIX).connect("sock"); print("connected")' 2>/dev/null || echo no`

func listen(t *testing.T, path string) net.Listener {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// listenFrom binds a name that is relative to a directory.
func listenFrom(t *testing.T, dir, name string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/usr/bin/python3", "-I", "-S", "-c", `
import socket, sys
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); print("listens", flush=True); sys.stdin.read()`, name)
	cmd.Dir = dir
	stdin, err := cmd.StdinPipe()
	do(t, err)
	out, err := cmd.StdoutPipe()
	do(t, err, cmd.Start())
	t.Cleanup(func() {
		stdin.Close()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "listens\n" {
		t.Fatal(line, err)
	}
}

// do fails the test if one of the steps has failed.
func do(t *testing.T, steps ...error) {
	t.Helper()
	if err := errors.Join(steps...); err != nil {
		t.Fatal(err)
	}
}

// TestAheadSwapped: something else stands where a directory was when its sandbox
// is made ahead, and the directory is back when a command comes.
func TestAheadSwapped(t *testing.T) {
	for _, name := range []string{"private", ".", ".git"} {
		t.Run(name, func(t *testing.T) {
			s := sandbox.New(sandbox.Config{})
			defer s.Close()
			if level := s.Probe(t.Context()).Level; !level.AtLeast(sandbox.L2) {
				t.Skip("there are no namespaces here, so that nothing is made ahead: ", level)
			}
			ws := filepath.Join(t.TempDir(), "ws")
			write(t, ws+"/private/key", "secret")
			write(t, ws+"/.git/config", "old")
			path := filepath.Join(ws, name)
			profile := sandbox.Profile{Write: []string{ws}, Deny: []string{"private"}}
			asked := profile
			asked.Read = sandboxtest.System()
			err := s.PrepareOver(t.Context(), asked, func() {
				do(t, os.Rename(path, path+".kept"))
				for _, file := range []string{ws + "/private/key", ws + "/.git/config"} {
					if _, err := os.Lstat(file); err != nil {
						write(t, file, "another")
					}
				}
			})
			do(t, err, os.RemoveAll(path), os.Rename(path+".kept", path))
			const script = "cat private/key 2>/dev/null || echo hidden; mv .git .git2 2>/dev/null; echo evil 2>/dev/null > .git/config; cat .git/config"
			if got := sandboxtest.Shell(t, s, profile, script); got.Output != "hidden\nold" {
				t.Errorf("got %q", got.Output)
			}
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// replace does what editors do: a new file over the old one.
func replace(t *testing.T, path, text string) {
	t.Helper()
	write(t, path+".new", text)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}
