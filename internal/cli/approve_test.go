package cli_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// home is one toolyard home and workspace that several processes use.
type sharedHome struct {
	t         *testing.T
	home, dir string
	env       []string
}

func newSharedHome(t *testing.T, env ...string) *sharedHome {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell in the sandbox: not on Windows")
	}
	return &sharedHome{t, t.TempDir(), t.TempDir(), env}
}

func (h *sharedHome) command(args ...string) *exec.Cmd {
	cmd := exec.Command(binary, append([]string{"--home", h.home, "--ask", "bash(echo *)"}, args...)...)
	cmd.Dir, cmd.Env = h.dir, append(os.Environ(), h.env...)
	return cmd
}

// run gives stdout and the exit code.
func (h *sharedHome) run(args ...string) (string, int) {
	h.t.Helper()
	out, err := h.command(args...).Output()
	if failed, ok := err.(*exec.ExitError); ok {
		return string(out) + string(failed.Stderr), failed.ExitCode()
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return string(out), 0
}

// asked is a question as the webhook and the API give it.
type asked struct {
	ID, State, Tool string
	Details         struct{ Arguments struct{ Command string } }
}

// TestApproveAcrossProcesses: a call in one process waits for somebody who hears
// of it by webhook; another process answers.
func TestApproveAcrossProcesses(t *testing.T) {
	questions := make(chan asked, 8)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var q asked
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Error(err)
		}
		questions <- q
	}))
	defer hook.Close()
	h := newSharedHome(t, "TOOLYARD_QUESTIONS__WEBHOOK="+hook.URL, "TOOLYARD_QUESTIONS__TIMEOUT=10m")
	call := []string{"call", "bash", "command=echo ran >> log && echo done"}
	lines := func() int {
		b, err := os.ReadFile(filepath.Join(h.dir, "log"))
		if err != nil {
			return 0
		}
		return bytes.Count(b, []byte("\n"))
	}
	start := func() (*exec.Cmd, *bytes.Buffer, asked) {
		t.Helper()
		cmd, out := h.command(call...), &bytes.Buffer{}
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, out, <-questions
	}

	// Answered while the call waits.
	cmd, out, q := start()
	if !strings.HasPrefix(q.ID, "perm_") || q.Tool != "bash" || !strings.Contains(q.Details.Arguments.Command, "ran >> log") {
		t.Errorf("posted was %+v", q)
	}
	if said, code := h.run("approve", q.ID); code != 0 || !strings.Contains(said, "once") {
		t.Fatalf("approve: %s, %d", said, code)
	}
	if err := cmd.Wait(); err != nil || out.String() != "done\n" || lines() != 1 {
		t.Fatalf("the call: %v, %q, %d runs", err, out, lines())
	}

	// Answered after the asking process was killed: the same call passes once.
	cmd, _, q = start()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	if lines() != 1 {
		t.Fatal("it has run before it was approved")
	}
	if said, code := h.run("approve", q.ID, "--once"); code != 0 {
		t.Fatalf("approve: %s, %d", said, code)
	}
	if said, code := h.run(call...); code != 0 || lines() != 2 {
		t.Fatalf("the call made again: %s, %d, %d runs", said, code, lines())
	}
	cmd, out, q = start() // a second time it asks again
	if said, code := h.run("approve", q.ID, "--reject", "--reason", "enough"); code != 0 {
		t.Fatalf("approve: %s, %d", said, code)
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(out.String(), "enough") || lines() != 2 {
		t.Errorf("the third call: %v, %q, %d runs", err, out, lines())
	}
}

// TestApproveOverHTTP: who waits for questions over the API is asked about the
// calls of other processes; so is who follows the events.
func TestApproveOverHTTP(t *testing.T) {
	h := newSharedHome(t, "TOOLYARD_QUESTIONS__TIMEOUT=10m")
	server := h.command("serve", "--addr", "127.0.0.1:0")
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		_ = server.Wait()
	}()
	var where struct {
		URL       string `json:"url"`
		TokenFile string `json:"token_file"`
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil || json.Unmarshal(line, &where) != nil {
		t.Fatalf("%q, %v", line, err)
	}
	token, err := os.ReadFile(where.TokenFile)
	if err != nil {
		t.Fatal(err)
	}
	do := func(method, path, body string) (int, []byte) {
		r, err := http.NewRequest(method, where.URL+"/api/v1"+path, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return 0, nil
		}
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
		r.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Error(err)
			return 0, nil
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Error(err)
		}
		return resp.StatusCode, text
	}

	// Nobody looks: refused at once. The question is there for who comes.
	if said, code := h.run("call", "bash", "command=echo one"); code != 5 {
		t.Fatalf("nobody looks: %s, %d", said, code)
	}
	var list struct{ Questions []asked }
	if _, text := do("GET", "/questions?state=pending", ""); json.Unmarshal(text, &list) != nil || len(list.Questions) != 1 {
		t.Fatalf("pending: %s", text)
	}
	if status, text := do("POST", "/questions/"+list.Questions[0].ID+"/answer", `{"option":"reject"}`); status != 200 {
		t.Fatalf("answer: %d %s", status, text)
	}

	// Somebody waits for questions.
	answered := make(chan int, 1)
	go func() {
		var list struct{ Questions []asked }
		_, text := do("GET", "/questions?state=pending&wait=1m", "")
		if err := json.Unmarshal(text, &list); err != nil || len(list.Questions) != 1 {
			t.Errorf("waited for: %s, %v", text, err)
			answered <- 0
			return
		}
		status, _ := do("POST", "/questions/"+list.Questions[0].ID+"/answer", `{"option":"once"}`)
		answered <- status
	}()
	waitFor(t, "the call to be asked about", func() bool {
		said, code := h.run("call", "bash", "command=echo two") // 5 while nobody watches yet
		return code == 0 && said == "two\n"
	})
	if status := <-answered; status != 200 {
		t.Errorf("the answer: %d", status)
	}
}
