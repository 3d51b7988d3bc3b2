package edit_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	tools "github.com/toolyard/toolyard/builtin/edit"
	"github.com/toolyard/toolyard/internal/edit"
	"github.com/toolyard/toolyard/internal/store/memory"
	"github.com/toolyard/toolyard/internal/workspace"
	"github.com/toolyard/toolyard/tool"
)

type yard struct {
	t     *testing.T
	dir   string
	tools map[string]tool.Tool
}

func newYard(t *testing.T, files map[string]string) *yard {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ws, err := workspace.Open(workspace.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Close() })
	rows := memory.New()
	engine := edit.New(edit.Config{Sessions: rows, Journal: rows, Blobs: t.TempDir()})
	y := &yard{t: t, dir: dir, tools: map[string]tool.Tool{}}
	for _, tl := range tools.Tools(tools.Deps{Workspace: func(string) (*workspace.Workspace, error) { return ws, nil }, Edit: engine}) {
		y.tools[tl.Spec().Name] = tl
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		p, err := edit.Resolve(ws, name)
		if err != nil {
			t.Fatal(err)
		}
		if err := engine.Saw(t.Context(), "ses_1", p, edit.Sight{Hash: edit.Sum([]byte(content)), Whole: true}); err != nil {
			t.Fatal(err)
		}
	}
	return y
}

func (y *yard) call(name string, args any) (*tool.Result, error) {
	y.t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		y.t.Fatal(err)
	}
	return y.tools[name].Call(y.t.Context(), &tool.Request{Arguments: raw, Session: "ses_1", CallID: "call_1", Workspace: y.dir})
}

func (y *yard) want(name, content string) {
	y.t.Helper()
	got, err := os.ReadFile(filepath.Join(y.dir, name))
	if err != nil || string(got) != content {
		y.t.Errorf("%s is %q (%v), want %q", name, got, err, content)
	}
}

type one map[string]any

func TestBatchEdit(t *testing.T) {
	tests := []struct {
		name       string
		args       map[string]any
		isError    bool
		a, b       string
		successful int
		failed     int
		text       string
	}{
		{"two files", one{"edits": []one{
			{"file_path": "a.py", "old_str": "OLD", "new_str": "NEW"},
			{"file_path": "b.py", "old_str": "x", "new_str": "y"},
		}}, false, "NEW = 1\n", "y = 2\n", 2, 0, "Made 2 edits in 2 files."},
		{"chained edits of one file", one{"edits": []one{
			{"file_path": "a.py", "old_str": "OLD", "new_str": "MID"},
			{"file_path": "a.py", "old_str": "MID", "new_str": "NEW"},
		}}, false, "NEW = 1\n", "x = 2\n", 2, 0, "Made 2 edits in 1 files."},
		{"dry run simulates the chain", one{"dry_run": true, "edits": []one{
			{"file_path": "a.py", "old_str": "OLD", "new_str": "MID"},
			{"file_path": "a.py", "old_str": "MID", "new_str": "NEW"},
		}}, false, "OLD = 1\n", "x = 2\n", 2, 0, "+NEW = 1"},
		{"one fault stops all", one{"edits": []one{
			{"file_path": "a.py", "old_str": "OLD", "new_str": "NEW"},
			{"file_path": "b.py", "old_str": "absent", "new_str": "y"},
			{"file_path": "../c", "old_str": "absent", "new_str": "y"},
		}}, true, "OLD = 1\n", "x = 2\n", 1, 2, "Nothing was changed: 2 of 3 edits do not fit."},
		{"stop on error", one{"stop_on_error": true, "edits": []one{
			{"file_path": "b.py", "old_str": "absent", "new_str": "y"},
			{"file_path": "a.py", "old_str": "OLD", "new_str": "NEW"},
		}}, true, "OLD = 1\n", "x = 2\n", 0, 1, "The 1 edits after it were not checked."},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			y := newYard(t, map[string]string{"a.py": "OLD = 1\n", "b.py": "x = 2\n"})
			r, err := y.call("batch_edit", test.args)
			if err != nil {
				t.Fatal(err)
			}
			var out struct{ Total, Successful, Failed int }
			if err := json.Unmarshal(r.Structured, &out); err != nil {
				t.Fatal(err)
			}
			if r.IsError != test.isError || out.Successful != test.successful || out.Failed != test.failed || !strings.Contains(r.TextContent(), test.text) {
				t.Errorf("isError %v, %+v, text %s", r.IsError, out, r.TextContent())
			}
			y.want("a.py", test.a)
			y.want("b.py", test.b)
		})
	}
}

func TestPreviewEdit(t *testing.T) {
	y := newYard(t, map[string]string{"t.py": "line1\nline2\nline3\n"})
	r, err := y.call("preview_edit", one{"file_path": "t.py", "old_str": "line2", "new_str": "line2_mod"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--- a/", "+++ b/", "+line2_mod"} {
		if n := strings.Count(r.TextContent(), want); n != 1 {
			t.Errorf("%q occurs %d times in %q", want, n, r.TextContent())
		}
	}
	_, err = y.call("preview_edit", one{"file_path": "t.py", "old_str": "absent", "new_str": "z"})
	var e *tool.Error
	if !errors.As(err, &e) || e.Code != tool.NotFound || !strings.Contains(e.Message, "not found") {
		t.Errorf("absent text: %v", err)
	}
	y.want("t.py", "line1\nline2\nline3\n")
}

func TestResources(t *testing.T) {
	y := newYard(t, map[string]string{"a.py": "a", "b.py": "b"})
	raw, _ := json.Marshal(one{"edits": []one{{"file_path": "a.py"}, {"file_path": "./b.py"}}})
	got := y.tools["batch_edit"].(tool.Resourcer).Resources(&tool.Request{Arguments: raw})
	if len(got) != 2 || got[0].Key != filepath.Join(y.dir, "a.py") || got[1].Key != filepath.Join(y.dir, "b.py") || got[1].Access != tool.WriteAccess {
		t.Errorf("resources: %v", got)
	}
}
