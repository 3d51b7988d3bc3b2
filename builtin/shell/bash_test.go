package shell

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/store/memory"
	"github.com/toolyard/toolyard/internal/workspace"
	"github.com/toolyard/toolyard/tool"
)

// yard is the family over one workspace with a real sandbox.
type yard struct {
	dir   string
	jobs  *Jobs
	tools map[string]tool.Tool
	calls int
}

func newYard(t *testing.T, change func(*Deps)) *yard {
	t.Helper()
	dir, home := t.TempDir(), t.TempDir()
	box := sandbox.New(sandbox.Config{})
	if report := box.Probe(t.Context()); !report.Level.AtLeast(sandbox.L1) {
		t.Skipf("no sandbox on this system: %+v", report.Missing)
	}
	ws, err := workspace.Open(workspace.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Close() })
	y := &yard{dir: ws.Dir(), tools: map[string]tool.Tool{}}
	y.jobs = NewJobs(JobsConfig{Rows: memory.New(), Dir: t.TempDir(), Runtime: "test"})
	t.Cleanup(func() {
		if err := y.jobs.Close(); err != nil {
			t.Error(err)
		}
	})
	d := Deps{
		Workspace: func(string) (*workspace.Workspace, error) { return ws, nil },
		Start:     box.Start,
		Confine: func(context.Context, *tool.Request) (Confinement, error) {
			return Confinement{
				Profile: sandbox.Profile{Kind: "bash", Write: []string{ws.Dir()}, Home: home, Mounts: sandbox.Toolchains("/usr/bin:/bin", "").Mounts, MinLevel: sandbox.L1},
				Env:     []string{"PATH=/usr/bin:/bin", "HOME=" + home},
				Home:    home, Shell: "/bin/bash",
			}, nil
		},
		Jobs: y.jobs,
	}
	if change != nil {
		change(&d)
	}
	for _, tl := range Tools(d) {
		y.tools[tl.Spec().Name] = tl
	}
	return y
}

// call runs a tool as the executor would, with the output kept in memory.
func (y *yard) call(ctx context.Context, t *testing.T, name string, args map[string]any) (*tool.Result, map[string]any) {
	t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	y.calls++
	req := &tool.Request{Arguments: raw, Session: "s", CallID: fmt.Sprint("c", y.calls), Workspace: y.dir, Host: &host{}}
	// The context of a call ends with the call, as the executor does it.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	result, err := y.tools[name].Call(ctx, req)
	if err != nil {
		e := tool.AsError(err)
		if result == nil {
			result = tool.ErrorResult(e)
		}
		result.IsError, result.Err = true, e
	}
	structured := map[string]any{}
	if result.Structured != nil {
		if err := json.Unmarshal(result.Structured, &structured); err != nil {
			t.Fatal(err)
		}
	}
	return result, structured
}

// host keeps what a call prints.
type host struct{ tool.Host }

func (h *host) Output(context.Context) (tool.OutputWriter, error) {
	return &kept{bytes: map[string]int64{}}, nil
}
func (h *host) Report(tool.Usage) {}
func (h *host) Emit(tool.Event)   {}

type kept struct {
	mu    sync.Mutex
	text  strings.Builder
	bytes map[string]int64
}

func (k *kept) Stream(name string) io.Writer { return stream{k, name} }
func (k *kept) Close() (tool.OutputSummary, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return tool.OutputSummary{Text: k.text.String(), Bytes: k.bytes}, nil
}

type stream struct {
	kept *kept
	name string
}

func (s stream) Write(b []byte) (int, error) {
	s.kept.mu.Lock()
	defer s.kept.mu.Unlock()
	s.kept.bytes[s.name] += int64(len(b))
	return s.kept.text.Write(b)
}

func TestBash(t *testing.T) {
	y := newYard(t, nil)
	if err := os.WriteFile(filepath.Join(y.dir, "a.txt"), []byte("alpha\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(y.dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name    string
		args    map[string]any
		says    string
		isError bool
		code    tool.Code
		exit    float64
	}{
		{"output", map[string]any{"command": "cat a.txt; echo two >&2"}, "alpha", false, "", 0},
		{"nothing printed", map[string]any{"command": "true"}, "(no output)", false, "", 0},
		{"failure", map[string]any{"command": "echo why; exit 3"}, "why\n[exit code 3]", true, tool.ExecutionError, 3},
		{"1 is an answer", map[string]any{"command": "grep nothing a.txt"}, "(no output)", false, "", 1},
		{"1 is a failure", map[string]any{"command": "false"}, "[exit code 1]", true, tool.ExecutionError, 1},
		{"1 of what came before grep", map[string]any{"command": "false && grep nothing a.txt"}, "[exit code 1]", true, tool.ExecutionError, 1},
		{"not found", map[string]any{"command": "no-such-program"}, "not found", true, tool.ExecutionError, 127},
		{"signal", map[string]any{"command": "kill -SEGV $$"}, "SEGV", true, tool.ExecutionError, 139},
		{"working directory", map[string]any{"command": "pwd", "working_dir": "sub"}, "/sub", false, "", 0},
		{"private home", map[string]any{"command": "echo x > ~/y && cat ~/y"}, "x", false, "", 0},
		{"no variables of ours", map[string]any{"command": "env | grep -c ^GO; :"}, "0", false, "", 0},
		{"no network", map[string]any{"command": "cat /proc/net/dev | grep -v lo: | grep -c :; :"}, "0", false, "", 0},
		{"nothing outside", map[string]any{"command": "ls /root /home 2>&1; echo x > /etc/x"}, "", true, tool.ExecutionError, 1},
		{"both streams in order", map[string]any{"command": "echo a; sleep 0.05; echo b >&2; sleep 0.05; echo c"}, "a\nb\nc", false, "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			result, out := y.call(t.Context(), t, "bash", tt.args)
			if result.IsError != tt.isError || !strings.Contains(result.TextContent(), tt.says) {
				t.Errorf("isError %v, text %q; want %v and %q", result.IsError, result.TextContent(), tt.isError, tt.says)
			}
			if tt.code != "" && (result.Err == nil || result.Err.Code != tt.code) {
				t.Errorf("error %+v, want %s", result.Err, tt.code)
			}
			if out["exit_code"] != tt.exit {
				t.Errorf("exit_code %v, want %v", out["exit_code"], tt.exit)
			}
		})
	}
}

func TestBashRefuses(t *testing.T) {
	y := newYard(t, func(d *Deps) {
		d.Harm = func(command string) (string, bool) { return "it would remove everything", command == "rm -rf /" }
	})
	if err := os.WriteFile(filepath.Join(y.dir, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		args map[string]any
		code tool.Code
	}{
		"self-harm":           {map[string]any{"command": "rm -rf /"}, tool.PermissionDenied},
		"outside":             {map[string]any{"command": "true", "working_dir": "/etc"}, tool.PermissionDenied},
		"missing directory":   {map[string]any{"command": "true", "working_dir": "none"}, tool.NotFound},
		"file as a directory": {map[string]any{"command": "true", "working_dir": "file"}, tool.ParameterError},
	} {
		t.Run(name, func(t *testing.T) {
			result, _ := y.call(t.Context(), t, "bash", tt.args)
			if result.Err == nil || result.Err.Code != tt.code || result.Err.Message == "" {
				t.Errorf("got %+v, want %s", result.Err, tt.code)
			}
		})
	}
}

// TestForegroundOnly returns when the command itself is done, and takes with it
// whatever it left behind.
func TestForegroundOnly(t *testing.T) {
	y := newYard(t, nil)
	y.call(t.Context(), t, "bash", map[string]any{"command": "true"}) // measures the sandbox
	start := time.Now()
	result, _ := y.call(t.Context(), t, "bash", map[string]any{"command": "sleep 71.25 & (setsid sleep 71.75 &) ; echo hi"})
	if took := time.Since(start); took > 30*time.Second || strings.TrimSpace(result.TextContent()) != "hi" {
		t.Errorf("took %s and said %q", took, result.TextContent())
	}
	for _, arg := range []string{"71.25", "71.75"} {
		if running(t, "sleep", arg) {
			t.Errorf("sleep %s still runs", arg)
		}
	}
}

// running looks for a process with exactly these arguments.
func running(t *testing.T, args ...string) bool {
	t.Helper()
	want := strings.Join(args, "\x00") + "\x00"
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if line, err := os.ReadFile(name); err == nil && string(line) == want {
			return true
		}
	}
	return false
}

func TestTimeout(t *testing.T) {
	y := newYard(t, nil)
	t.Run("moves on", func(t *testing.T) {
		result, out := y.call(t.Context(), t, "bash", map[string]any{"command": "echo start; read -t 3 <> <(:); sleep 1.5; echo end", "timeout": 1})
		id, _ := out["job_id"].(string)
		if result.IsError || out["status"] != "running" || id == "" || !strings.Contains(result.TextContent(), "start") {
			t.Fatalf("got %v %q", out, result.TextContent())
		}
		offset := 0.0
		text := ""
		for range 20 {
			part, job := y.call(t.Context(), t, "job_output", map[string]any{"job_id": id, "offset": int64(offset), "wait": 10})
			if part.IsError {
				t.Fatal(part.TextContent())
			}
			text += job["output"].(string)
			offset = job["next_offset"].(float64)
			if job["status"] != "running" {
				if job["status"] != "exited" || job["exit_code"] != 0.0 {
					t.Errorf("ended as %v", job)
				}
				break
			}
		}
		if text != "start\nend\n" {
			t.Errorf("the job printed %q", text)
		}
	})
	t.Run("kills", func(t *testing.T) {
		result, out := y.call(t.Context(), t, "bash", map[string]any{"command": "echo start; sleep 60", "timeout": 1, "on_timeout": "kill"})
		if !result.IsError || result.Err.Code != tool.TimeoutError || out["status"] != "killed" || !strings.Contains(result.TextContent(), "start") {
			t.Errorf("got %+v %v %q", result.Err, out, result.TextContent())
		}
	})
}

func TestCancelled(t *testing.T) {
	y := newYard(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	start := time.Now()
	result, _ := y.call(ctx, t, "bash", map[string]any{"command": "echo start; sleep 61"})
	if !result.IsError || time.Since(start) > 30*time.Second {
		t.Errorf("got %q after %s", result.TextContent(), time.Since(start))
	}
	if running(t, "sleep", "61") {
		t.Error("the command outlives its call")
	}
}

func TestJobs(t *testing.T) {
	y := newYard(t, nil)
	_, out := y.call(t.Context(), t, "bash", map[string]any{"command": "while read line; do echo got $line; done; echo done", "run_in_background": true})
	id, _ := out["job_id"].(string)
	if id == "" {
		t.Fatalf("no job: %v", out)
	}
	if result, _ := y.call(t.Context(), t, "job_input", map[string]any{"job_id": id, "input": "one\n"}); result.IsError {
		t.Fatal(result.TextContent())
	}
	_, job := y.call(t.Context(), t, "job_output", map[string]any{"job_id": id, "wait": 10})
	if job["output"] != "got one\n" || job["status"] != "running" {
		t.Errorf("got %v", job)
	}
	if _, far := y.call(t.Context(), t, "job_output", map[string]any{"job_id": id, "offset": 1000}); far["next_offset"] != 8.0 {
		t.Errorf("past the end: got %v, want to go on at 8", far)
	}
	if result, _ := y.call(t.Context(), t, "job_list", nil); !strings.Contains(result.TextContent(), id) {
		t.Errorf("job_list says %q", result.TextContent())
	}
	if _, killed := y.call(t.Context(), t, "job_kill", map[string]any{"job_id": id}); killed["status"] != "killed" {
		t.Errorf("got %v, want killed", killed)
	}
	if result, _ := y.call(t.Context(), t, "job_input", map[string]any{"job_id": id, "input": "x"}); !result.IsError {
		t.Error("a job that has ended took input")
	}
	_, job = y.call(t.Context(), t, "job_output", map[string]any{"job_id": id, "filter": "^got"})
	if job["output"] != "got one\n" || job["status"] != "killed" {
		t.Errorf("after the end: %v", job)
	}
	if result, _ := y.call(t.Context(), t, "job_output", map[string]any{"job_id": "job_none"}); result.Err == nil || result.Err.Code != tool.NotFound {
		t.Errorf("got %+v, want NOT_FOUND", result.Err)
	}
}

func TestTTY(t *testing.T) {
	y := newYard(t, nil)
	result, _ := y.call(t.Context(), t, "bash", map[string]any{"command": "test -t 0 && test -t 1 && echo terminal", "tty": true})
	if result.IsError || !strings.Contains(result.TextContent(), "terminal") {
		t.Errorf("got %q", result.TextContent())
	}
}

func TestCarry(t *testing.T) {
	y := newYard(t, func(d *Deps) { d.Carry = "env" })
	y.call(t.Context(), t, "bash", map[string]any{"command": "mkdir -p deep/er && cd deep/er && export COLOUR='dark blue' LD_PRELOAD=/x.so"})
	result, _ := y.call(t.Context(), t, "bash", map[string]any{"command": `pwd; echo "$COLOUR,$LD_PRELOAD"`})
	if !strings.Contains(result.TextContent(), "/deep/er\ndark blue,\n") && !strings.HasSuffix(result.TextContent(), "/deep/er\ndark blue,") {
		t.Errorf("got %q", result.TextContent())
	}
}

func TestOneIsAnswer(t *testing.T) {
	for command, want := range map[string]bool{
		"grep x y":                    true,
		"cat a | grep x":              true,
		"test -f x":                   true,
		"[ -f x ]":                    true,
		"[[ -f x ]]":                  true,
		"diff a b":                    true,
		"git diff --exit-code":        true,
		"git -C x diff --quiet":       true,
		"git diff":                    false,
		"cmp a b":                     true,
		"false":                       false,
		"make && grep x y":            false,
		"grep x y; make":              false,
		"! grep x y":                  false,
		"grep x y || make":            false,
		"/usr/bin/grep x y":           true,
		"if grep x y; then false; fi": false,
		"echo looking; grep x y":      true,
		"(cd x; grep y z)":            true,
		"unparsable ((":               false,
		"x() { grep a b; }; x":        false,
		"grep x y &":                  false,
		"diff a b | head":             false,
	} {
		if got := oneIsAnswer(command); got != want {
			t.Errorf("oneIsAnswer(%q) = %v, want %v", command, got, want)
		}
	}
}

func TestSpool(t *testing.T) {
	s := newSpool(filepath.Join(t.TempDir(), "out"), 3<<20)
	line := strings.Repeat("x", 1023) + "\n"
	for range 1500 {
		if err := s.write("stdout", []byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.persist(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 10)
	for _, offset := range []int64{0, 1020, 1500*1024 - 3} {
		n, from, err := s.readAt(buf, offset)
		if err != nil || from != offset || string(buf[:n]) != strings.Repeat(line, 3)[offset%1024:offset%1024+int64(n)] {
			t.Errorf("at %d: %q from %d, %v", offset, buf[:n], from, err)
		}
	}
	for range 2000 {
		if err := s.write("stderr", []byte(line)); err != nil {
			if err != tool.ErrOutputLimit {
				t.Fatal(err)
			}
			break
		}
	}
	if size, counts := s.total(); size != 3<<20 || counts["stdout"] != 1500*1024 {
		t.Errorf("size %d, counts %v", size, counts)
	}
	path := s.path
	s.release()
	if n, from, err := readFile(path, buf, 1020); err != nil || from != 1020 || string(buf[:n]) != "xxx\nxxxxxx" {
		t.Errorf("after the end: %q from %d, %v", buf[:n], from, err)
	}
	s.discard()
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("discard leaves %s", path)
	}
}
