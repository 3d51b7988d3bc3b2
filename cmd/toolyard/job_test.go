package main_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestJob does what an agent does, over MCP with the built program, on a real
// module: find, read, break, test, take back, test.
func TestJob(t *testing.T) {
	dir := realModule(t)
	before := tree(t, dir)
	s := start(t, dir, "--allow", "undo")

	found := s.call("grep", map[string]any{"pattern": `func \(v \*Version\) LessThan\(`, "-n": true})
	if want := "version.go:"; !strings.Contains(found, want) {
		t.Fatalf("grep found %q, want %q in it", found, want)
	}
	read := s.call("read", map[string]any{"file_path": "version.go"})
	const old = "return v.Compare(o) < 0\n"
	if !strings.Contains(read, strings.TrimSpace(old)) {
		t.Fatalf("read does not show %q", old)
	}
	function := "func (v *Version) LessThan(o *Version) bool {\n\t"
	s.call("edit", map[string]any{"file_path": "version.go", "old_str": function + old, "new_str": function + "return v.Compare(o) > 0\n"})
	if cmp.Equal(before, tree(t, dir)) {
		t.Fatal("the edit changed nothing")
	}

	tests := map[string]any{"command": "go test -run 'LessThan' .", "timeout": 600}
	failing := s.callFailing("bash", tests)
	for _, want := range []string{"--- FAIL: TestLessThan", "version_test.go:", "exit code 1"} {
		if !strings.Contains(failing, want) {
			t.Errorf("the failing test says %q, want %q in it", failing, want)
		}
	}
	if undone := s.call("undo", map[string]any{"scope": "turn"}); !strings.Contains(undone, "version.go") {
		t.Errorf("undo says %q, want version.go in it", undone)
	}
	if passing := s.call("bash", tests); !strings.Contains(passing, "ok") {
		t.Errorf("the passing test says %q, want ok in it", passing)
	}
	if diff := cmp.Diff(before, tree(t, dir)); diff != "" {
		t.Errorf("the tree is not as it was (-before +after):\n%s", diff)
	}
}

// TestPingDuringCall: a long command does not keep the server from answering.
func TestPingDuringCall(t *testing.T) {
	s := start(t, t.TempDir())
	marker := uniqueSleep()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = s.session.CallTool(ctx, &mcp.CallToolParams{Name: "bash", Arguments: map[string]any{"command": "sleep " + marker}})
	}()
	waitFor(t, "the command to run", func() bool { return len(processesWith(t, marker)) > 0 })
	began := time.Now()
	if err := s.session.Ping(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("ping took %s while a command ran", took)
	}
	cancel() // the client's notifications/cancelled
	<-ended
	waitFor(t, "the cancelled command to be gone", func() bool { return len(processesWith(t, marker)) == 0 })
}

// TestClientGone: however the client or the server goes, no process of a call
// stays.
func TestClientGone(t *testing.T) {
	cases := []struct {
		name string
		end  func(s *server)
	}{
		{"the client's end of the pipes closes", func(s *server) { s.closePipes() }},
		{"the server is killed", func(s *server) { _ = s.cmd.Process.Kill() }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := start(t, t.TempDir())
			marker := uniqueSleep()
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				// A daemon of the command must go as well.
				_, _ = s.session.CallTool(context.WithoutCancel(t.Context()), &mcp.CallToolParams{
					Name: "bash", Arguments: map[string]any{"command": "setsid sleep " + marker + " & sleep " + marker},
				})
			}()
			waitFor(t, "both commands to run", func() bool { return len(processesWith(t, marker)) >= 2 })
			c.end(s)
			_ = s.cmd.Wait() // killed, or ended by the end of its input
			waitFor(t, "every process of the call to be gone", func() bool { return len(processesWith(t, marker)) == 0 })
			<-ended
		})
	}
}

// server is a running `toolyard mcp` with a client.
type server struct {
	t          *testing.T
	binary     string
	home       string
	cmd        *exec.Cmd
	session    *mcp.ClientSession
	closePipes func()
}

func start(t *testing.T, workspace string, flags ...string) *server {
	t.Helper()
	binary, home := program(t), t.TempDir()
	cmd := exec.Command(binary, append([]string{"mcp", "--home", home, "--workspace", workspace}, flags...)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, binary: binary, home: home, cmd: cmd, closePipes: func() { in.Close(); out.Close() }}
	client := mcp.NewClient(&mcp.Implementation{Name: "job-test", Version: "1"}, nil)
	if s.session, err = client.Connect(t.Context(), &mcp.IOTransport{Reader: out, Writer: in}, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.closePipes()
		_ = cmd.Wait() // some tests kill it
	})
	return s
}

// call calls a tool that should work and gives its text.
func (s *server) call(name string, arguments map[string]any) string {
	s.t.Helper()
	return s.do(name, arguments, false)
}

// callFailing calls a tool that should fail.
func (s *server) callFailing(name string, arguments map[string]any) string {
	s.t.Helper()
	return s.do(name, arguments, true)
}

func (s *server) do(name string, arguments map[string]any, failing bool) string {
	s.t.Helper()
	r, err := s.session.CallTool(s.t.Context(), &mcp.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		s.t.Fatalf("%s: %v", name, err)
	}
	var text string
	for _, c := range r.Content {
		if block, ok := c.(*mcp.TextContent); ok {
			text += block.Text
		}
	}
	if r.IsError != failing {
		s.t.Fatalf("%s %v: isError %v, want %v: %s", name, arguments, r.IsError, failing, text)
	}
	return text
}

// program builds the program once a test.
func program(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "toolyard")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return binary
}

// realModule copies a published module out of the module cache, writable.
func realModule(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/Masterminds/semver/v3").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	from, to := strings.TrimSpace(string(out)), t.TempDir()
	err = filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(path, from))
		if d.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// tree is every path below dir with its mode and the sum of its content.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		line := info.Mode().String()
		if info.Mode().IsRegular() {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum := sha256.Sum256(content)
			line += " " + hex.EncodeToString(sum[:])
		}
		found[strings.TrimPrefix(path, dir)] = line
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// uniqueSleep is a number of seconds that no other process sleeps.
func uniqueSleep() string {
	return fmt.Sprintf("9%d.%d", os.Getpid(), time.Now().UnixNano())
}

// processesWith lists the processes whose command line has a word.
func processesWith(t *testing.T, word string) []string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc: only on Linux")
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, path := range lines {
		raw, err := os.ReadFile(path) // a process that has ended has none
		if err != nil {
			continue
		}
		args := strings.Split(strings.TrimRight(string(raw), "\x00"), "\x00")
		if len(args) == 2 && args[0] == "sleep" && args[1] == word {
			found = append(found, path)
		}
	}
	return found
}

// waitFor polls until done, or fails after a while.
func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	const limit = 30 * time.Second
	deadline := time.After(limit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-deadline:
			t.Fatalf("waited %s for %s", limit, what)
		case <-tick.C:
		}
	}
}

// TestJobs: `toolyard jobs` reaches the background commands of a runtime that
// serves an agent.
func TestJobs(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir)
	started := s.call("bash", map[string]any{"command": "echo hello; read line; echo got $line; sleep 1000", "run_in_background": true})
	id := regexp.MustCompile(`job_[0-9a-f]+`).FindString(started)
	if id == "" {
		t.Fatalf("bash in the background says %q, want a job's id in it", started)
	}
	jobs := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(s.binary, append([]string{"--home", s.home, "jobs"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("toolyard jobs %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	waitFor(t, "the runtime to listen", func() bool { return strings.Contains(jobs(), id+"  running") })
	if info, err := os.Stat(filepath.Join(s.home, "run", strconv.Itoa(s.cmd.Process.Pid)+".sock")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v; want mode 0600", info, err)
	}
	jobs(id, "--input", "there\n")
	waitFor(t, "the job to answer", func() bool { return strings.Contains(jobs(id), "hello\ngot there\n") })
	if got := jobs(id, "--kill"); !strings.HasPrefix(got, id+" killed") {
		t.Errorf("jobs --kill says %q, want %s killed", got, id)
	}
	if got := jobs(id); !strings.Contains(got, "got there") {
		t.Errorf("the output of the killed job is %q, want what it printed", got)
	}

	left := regexp.MustCompile(`job_[0-9a-f]+`).FindString(s.call("bash", map[string]any{"command": "sleep 1000", "run_in_background": true}))
	s.closePipes()
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("mcp ended with %v after its input ended, want no error", err)
	}
	if got := jobs(); !strings.Contains(got, left+"  killed") {
		t.Errorf("after the end of its runtime jobs says %q, want %s killed", got, left)
	}
}
