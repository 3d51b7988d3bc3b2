package toolyard_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/tool"
)

// open makes a Toolyard over a new workspace with files.
func open(t *testing.T, files map[string]string, change func(*toolyard.Config)) (*toolyard.Toolyard, string) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := toolyard.Config{Home: t.TempDir(), Workspaces: []string{dir}, Path: os.Getenv("PATH"), KeepJobs: true}
	if change != nil {
		change(&c)
	}
	yard, err := toolyard.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := yard.Close(); err != nil {
			t.Error(err)
		}
	})
	return yard, dir
}

func call(t *testing.T, yard *toolyard.Toolyard, name string, args map[string]any) *tool.Result {
	t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	return yard.Call(t.Context(), toolyard.Call{Tool: name, Arguments: raw})
}

func ok(t *testing.T, r *tool.Result) string {
	t.Helper()
	if r.IsError {
		t.Fatalf("%+v: %s", r.Err, r.TextContent())
	}
	return r.TextContent()
}

// TestJob does a whole job: look, edit, run, undo.
func TestJob(t *testing.T) {
	yard, dir := open(t, map[string]string{"src/a.txt": "one\ntwo\nthree\n", "b.txt": "b\n"}, func(c *toolyard.Config) {
		c.Permissions.Allow = []toolyard.Rule{{Text: "undo"}}
	})
	if text := ok(t, call(t, yard, "grep", map[string]any{"pattern": "tw."})); !strings.Contains(text, "src/a.txt:2:two") {
		t.Errorf("grep: %q", text)
	}
	if text := ok(t, call(t, yard, "glob", map[string]any{"pattern": "**/*.txt"})); !strings.Contains(text, "src/a.txt") {
		t.Errorf("glob: %q", text)
	}
	ok(t, call(t, yard, "read", map[string]any{"path": "src/a.txt"}))
	ok(t, call(t, yard, "edit", map[string]any{"file_path": "src/a.txt", "old_string": "two", "new_string": "TWO"}))
	if text := ok(t, call(t, yard, "bash", map[string]any{"command": "cat src/a.txt && echo made > c.txt && rm b.txt"})); !strings.Contains(text, "TWO") {
		t.Errorf("bash: %q", text)
	}
	ok(t, call(t, yard, "undo", map[string]any{"scope": "turn"}))
	for name, want := range map[string]string{"src/a.txt": "one\ntwo\nthree\n", "b.txt": "b\n"} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(got) != want {
			t.Errorf("%s after undo: %q, %v", name, got, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "c.txt")); !os.IsNotExist(err) {
		t.Errorf("c.txt is still there: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	yard, dir := open(t, map[string]string{"a.txt": "a\n", ".env": "S=1\n"}, func(c *toolyard.Config) {
		c.Permissions.Deny = []toolyard.Rule{{Text: "bash(curl *)"}}
	})
	for name, tt := range map[string]struct {
		tool string
		args map[string]any
		code tool.Code
	}{
		"outside":           {"read", map[string]any{"file_path": "/etc/passwd"}, tool.PermissionDenied},
		"unknown tool":      {"raed", nil, tool.ToolNotFound},
		"unknown argument":  {"read", map[string]any{"file_pth": "a.txt"}, tool.ValidationError},
		"denied command":    {"bash", map[string]any{"command": "true; curl x"}, tool.PermissionDenied},
		"protected":         {"write", map[string]any{"file_path": ".env", "content": "x", "mode": "append"}, tool.PermissionDenied},
		"not read":          {"edit", map[string]any{"file_path": "a.txt", "old_str": "a", "new_str": "b"}, tool.Conflict},
		"self-harm":         {"bash", map[string]any{"command": "rm -rf /"}, tool.PermissionDenied},
		"undo is asked for": {"undo", nil, tool.PermissionDenied},
	} {
		t.Run(name, func(t *testing.T) {
			r := call(t, yard, tt.tool, tt.args)
			if !r.IsError || r.Err == nil || r.Err.Code != tt.code {
				t.Errorf("got %+v %q, want %s", r.Err, r.TextContent(), tt.code)
			}
		})
	}
	if got, err := os.ReadFile(filepath.Join(dir, ".env")); err != nil || string(got) != "S=1\n" {
		t.Errorf(".env: %q, %v", got, err)
	}
}

func TestBatch(t *testing.T) {
	yard, _ := open(t, map[string]string{"a.txt": "a\n"}, nil)
	var calls []toolyard.Call
	for range 20 {
		calls = append(calls, toolyard.Call{Tool: "read", Arguments: json.RawMessage(`{"file_path":"a.txt"}`)})
	}
	seen := map[int]bool{}
	for i, r := range yard.ExecuteBatch(context.Background(), calls, tool.BatchOptions{}) {
		ok(t, r)
		seen[i] = true
	}
	if len(seen) != len(calls) {
		t.Errorf("%d of %d calls ended", len(seen), len(calls))
	}
}

// TestTools holds every built-in tool to the contract of tools.
func TestTools(t *testing.T) {
	yard, _ := open(t, nil, nil)
	specs := yard.Tools()
	want := []string{"bash", "batch_edit", "batch_read", "call_tool", "edit", "execute_batch", "glob", "grep", "job_input", "job_kill", "job_list", "job_output",
		"list", "multi_edit", "notebook_edit", "output_grep", "output_read", "patch", "preview_edit", "read", "tool_describe", "tool_search", "tool_stats", "undo", "write"}
	var got []string
	for _, spec := range specs {
		got = append(got, spec.Name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestBackground starts a job whose call ends: the job goes on.
func TestBackground(t *testing.T) {
	yard, _ := open(t, nil, nil)
	r := call(t, yard, "bash", map[string]any{"command": "read line; echo got $line", "run_in_background": true})
	ok(t, r)
	var out struct {
		JobID string `json:"job_id"`
	}
	if err := json.Unmarshal(r.Structured, &out); err != nil || out.JobID == "" {
		t.Fatalf("no job in %s: %v", r.Structured, err)
	}
	ok(t, call(t, yard, "job_input", map[string]any{"job_id": out.JobID, "input": "it\n"}))
	text := ok(t, call(t, yard, "job_output", map[string]any{"job_id": out.JobID, "wait": 10}))
	if !strings.Contains(text, "got it") {
		t.Errorf("the job printed %q", text)
	}
}

// TestOutputLimit: a command that prints more than may be stored is ended, and
// its result shows what it printed and says why it ended.
func TestOutputLimit(t *testing.T) {
	const stored = 1 << 20
	yard, _ := open(t, nil, func(c *toolyard.Config) { c.Output.Stored = stored })
	r := call(t, yard, "bash", map[string]any{"command": "echo first; yes again"})
	if r.Err == nil || r.Err.Code != tool.ResourceExhausted {
		t.Errorf("error %+v, want RESOURCE_EXHAUSTED", r.Err)
	}
	if r.Meta.Ending == nil || r.Meta.Ending.Reason != "output" {
		t.Errorf("ending %+v, want output", r.Meta.Ending)
	}
	for _, want := range []string{"first\nagain\n", "printed more than may be stored"} {
		if !strings.Contains(r.TextContent(), want) {
			t.Errorf("the result lacks %q: %.300s", want, r.TextContent())
		}
	}
	if r.Meta.OutputHandle == "" || !r.Meta.Truncated {
		t.Errorf("handle %q, truncated %v, want what was stored", r.Meta.OutputHandle, r.Meta.Truncated)
	}
}

// TestUndoFromGit changes a file that is too large to be copied, but that git
// has: undo takes its old content from there.
func TestUndoFromGit(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not there")
	}
	large := strings.Repeat("a line of a large file\n", 100_000)
	yard, dir := open(t, map[string]string{"large.txt": large}, func(c *toolyard.Config) {
		c.Permissions.Allow = []toolyard.Rule{{Text: "undo"}}
	})
	old := time.Now().Add(-time.Hour) // so that git's index is later and vouches for it
	if err := os.Chtimes(filepath.Join(dir, "large.txt"), old, old); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "-m", "first"}} {
		cmd := exec.Command(git, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	if text := ok(t, call(t, yard, "bash", map[string]any{"command": "echo small > large.txt"})); strings.Contains(text, "undo does not cover") {
		t.Errorf("bash: %s", text)
	}
	ok(t, call(t, yard, "undo", nil))
	got, err := os.ReadFile(filepath.Join(dir, "large.txt"))
	if err != nil || string(got) != large {
		t.Errorf("after undo: %d bytes, %v; want %d", len(got), err, len(large))
	}
}
