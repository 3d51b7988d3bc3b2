package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// binary is the built program, made once by TestMain.
var binary string

func TestMain(m *testing.M) {
	attackHelper()
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "toolyard-bin-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "toolyard")
		if runtime.GOOS == "windows" {
			binary += ".exe"
		}
		if out, err := exec.Command("go", "build", "-o", binary, "../../cmd/toolyard").CombinedOutput(); err != nil {
			panic(string(out))
		}
		return m.Run()
	}())
}

// TestScripts runs testdata/script/*.txtar through the built program. In a
// script, `code N command…` wants that exit code, [namespaces] says that the
// sandbox has some, and $SERVER is the address of a web server.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "../../testdata/script",
		Setup: func(e *testscript.Env) error {
			home, err := os.MkdirTemp("", "toolyard-home-")
			if err != nil {
				return err
			}
			e.Defer(func() { os.RemoveAll(home) })
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprintf(w, "you asked for %s\n", r.URL.Path)
			}))
			e.Defer(web.Close)
			e.Setenv("SERVER", web.Listener.Addr().String())
			e.Setenv("TOOLYARD_HOME", home)
			e.Setenv("PATH", filepath.Dir(binary)+string(os.PathListSeparator)+e.Getenv("PATH"))
			return nil
		},
		Cmds:      map[string]func(*testscript.TestScript, bool, []string){"code": code},
		Condition: condition,
	})
}

// namespaces reports whether the sandbox has namespaces here: level L2 or L2b.
var namespaces = sync.OnceValue(func() bool {
	return exec.Command(binary, "sandbox", "run", "--level", "L2b", "--", "true").Run() == nil
})

// condition knows [namespaces].
func condition(name string) (bool, error) {
	if name != "namespaces" {
		return false, fmt.Errorf("there is no condition %q", name)
	}
	return namespaces(), nil
}

func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N command…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		failed, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = failed.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// TestInterrupt: Ctrl-C cancels the call with its processes and ends with 130.
func TestInterrupt(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs signals and /proc: only on Linux")
	}
	dir := t.TempDir()
	number := "8" + strconv.Itoa(os.Getpid()) + "." + strconv.FormatInt(time.Now().UnixNano(), 10)
	cmd := exec.Command(binary, "--home", t.TempDir(), "call", "bash", "command=touch started; sleep "+number)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the command to start", func() bool {
		_, err := os.Stat(filepath.Join(dir, "started"))
		return err == nil && sleeping(t, number)
	})
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	failed, ok := errors.AsType[*exec.ExitError](err)
	if !ok || failed.ExitCode() != 130 {
		t.Errorf("ended with %v, want exit code 130; stderr: %s", err, stderr.String())
	}
	if got, want := stderr.String(), "toolyard: interrupted\n"; got != want {
		t.Errorf("stderr %q, want %q", got, want)
	}
	if sleeping(t, number) {
		t.Error("the call's process is still there")
	}
}

// sleeping reports whether some process sleeps a number.
func sleeping(t *testing.T, number string) bool {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range lines {
		if raw, err := os.ReadFile(path); err == nil && string(raw) == "sleep\x00"+number+"\x00" {
			return true
		}
	}
	return false
}

// TestServe: the first line of stdout says where it listens; SIGTERM ends it
// well.
func TestServe(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs SIGTERM: not on Windows")
	}
	home := t.TempDir()
	cmd := exec.Command(binary, "--home", home, "serve", "--addr", "127.0.0.1:0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 4096)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	got := string(line[:n])
	if !strings.HasPrefix(got, `{"url":"http://127.0.0.1:`) || !strings.HasSuffix(got, `"token_file":"`+filepath.Join(home, "token")+"\"}\n") {
		t.Errorf("first line %q, want {\"url\", \"token_file\"}", got)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("serve ended with %v after SIGTERM, want no error", err)
	}
}

// TestFollow: calls of other processes appear as they end, once each.
func TestFollow(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs SIGINT: not on Windows")
	}
	home, dir := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("hello\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	toolyard := func(args ...string) {
		t.Helper()
		cmd := exec.Command(binary, append([]string{"--home", home, "--workspace", dir}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("toolyard %v: %v\n%s", args, err, out)
		}
	}
	toolyard("call", "read", "file_path=a.txt", "limit=1")
	output, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	cmd := exec.Command(binary, "--home", home, "log", "--follow")
	cmd.Stdout = output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	shown := func(text string) int {
		t.Helper()
		content, err := os.ReadFile(output.Name())
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(content), text)
	}
	waitFor(t, "the call of before", func() bool { return shown("limit=1") == 1 })
	toolyard("call", "read", "file_path=a.txt", "limit=2")
	toolyard("call", "bash", "command=sleep 0.6")
	waitFor(t, "the call that reads", func() bool { return shown("limit=2") > 0 })
	waitFor(t, "the call that took long", func() bool { return shown("sleep 0.6") > 0 })
	toolyard("call", "read", "file_path=a.txt", "limit=3")
	waitFor(t, "the last call", func() bool { return shown("limit=3") > 0 })
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if failed, ok := errors.AsType[*exec.ExitError](cmd.Wait()); !ok || failed.ExitCode() != 130 {
		t.Errorf("Ctrl-C ended it with %v, want exit code 130", failed)
	}
	for _, text := range []string{"limit=1", "limit=2", "sleep 0.6", "limit=3"} {
		if n := shown(text); n != 1 {
			t.Errorf("%s was shown %d times, want once", text, n)
		}
	}
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
