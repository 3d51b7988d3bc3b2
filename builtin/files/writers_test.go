package files

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/edit"
	"github.com/toolyard/toolyard/internal/store/memory"
	"github.com/toolyard/toolyard/internal/workspace"
	"github.com/toolyard/toolyard/tool"
)

// yard is a workspace with the writers.
type yard struct {
	t     *testing.T
	dir   string
	deps  Deps
	tools map[string]tool.Tool
	calls int
}

func newYard(t *testing.T) *yard {
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
	y := &yard{t: t, dir: dir, tools: map[string]tool.Tool{}}
	y.deps = Deps{
		Workspace: func(string) (*workspace.Workspace, error) { return ws, nil },
		Edit:      edit.New(edit.Config{Sessions: rows, Journal: rows, Blobs: t.TempDir()}),
	}
	for _, w := range writers(y.deps) {
		y.tools[w.Spec().Name] = w
	}
	return y
}

func (y *yard) request(args map[string]any) *tool.Request {
	y.t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		y.t.Fatal(err)
	}
	y.calls++
	return &tool.Request{Arguments: raw, Session: "ses_1", Turn: "turn_1", CallID: "call_" + string(rune('a'+y.calls)), Workspace: y.dir}
}

func (y *yard) call(name string, args map[string]any) (*tool.Result, error) {
	y.t.Helper()
	return y.tools[name].Call(y.t.Context(), y.request(args))
}

// do is call for what must succeed; it returns the text and the data.
func (y *yard) do(name string, args map[string]any) (string, map[string]any) {
	y.t.Helper()
	r, err := y.call(name, args)
	if err != nil {
		y.t.Fatalf("%s %v: %v", name, args, err)
	}
	if r.IsError {
		y.t.Fatalf("%s %v: %s", name, args, r.TextContent())
	}
	var data map[string]any
	if err := json.Unmarshal(r.Structured, &data); err != nil {
		y.t.Fatal(err)
	}
	return r.TextContent(), data
}

func (y *yard) put(name, content string) {
	y.t.Helper()
	if err := os.WriteFile(filepath.Join(y.dir, name), []byte(content), 0o644); err != nil {
		y.t.Fatal(err)
	}
	ws, _ := y.deps.Workspace("")
	p, err := edit.Resolve(ws, name)
	if err != nil {
		y.t.Fatal(err)
	}
	if err := y.deps.Edit.Saw(y.t.Context(), "ses_1", p, edit.Sight{Hash: edit.Sum([]byte(content)), Whole: true}); err != nil {
		y.t.Fatal(err)
	}
}

func (y *yard) want(name, content string) {
	y.t.Helper()
	got, err := os.ReadFile(filepath.Join(y.dir, name))
	if err != nil || string(got) != content {
		y.t.Errorf("%s is %q (%v), want %q", name, got, err, content)
	}
}

func TestWrite(t *testing.T) {
	y := newYard(t)
	_, data := y.do("write", map[string]any{"file_path": "deep/u.txt", "content": "héllo 世界\r\nline\n"})
	y.want("deep/u.txt", "héllo 世界\r\nline\n")
	if data["created"] != true || data["bytes_written"] != 20.0 || data["hash"] != edit.Sum([]byte("héllo 世界\r\nline\n")) {
		t.Errorf("data = %v", data)
	}
	y.do("write", map[string]any{"file_path": "deep/u.txt", "content": "again\n"}) // its own write counts as seen
	y.want("deep/u.txt", "again\n")

	if err := os.WriteFile(filepath.Join(y.dir, "notes.md"), []byte("first\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := y.call("write", map[string]any{"file_path": "notes.md", "content": "x"})
	wantLayer(t, err, tool.Conflict, 7, 6, "File has not been read yet. Read it first before writing to it.")
	y.do("write", map[string]any{"file_path": "notes.md", "content": "second\n", "mode": "append"})
	y.want("notes.md", "first\nsecond\n")
}

func wantLayer(t *testing.T, err error, code tool.Code, layer, layerCode int, message string) {
	t.Helper()
	var e *tool.Error
	if !errors.As(err, &e) || e.Code != code || e.Details["layer"] != layer || !strings.HasPrefix(e.Message, message) || e.Details["behavior"] != "ask" {
		t.Fatalf("got %v %+v, want %s of layer %d: %s", err, e, code, layer, message)
	}
	if got, ok := e.Details["layer_code"]; ok && got != layerCode {
		t.Errorf("layer_code %v, want %d", got, layerCode)
	}
}

func TestEditAndMultiEdit(t *testing.T) {
	y := newYard(t)
	y.put("a.txt", "one\ntwo\nthree\n")
	text, data := y.do("edit", map[string]any{"file_path": "a.txt", "old_str": "two\n", "new_str": ""})
	y.want("a.txt", "one\nthree\n")
	if data["replacements"] != 1.0 || data["matched_with"] != "exact" || !strings.Contains(text, "--- a/a.txt") || !strings.Contains(text, "-two") {
		t.Errorf("text %q, data %v", text, data)
	}
	y.do("multi_edit", map[string]any{"file_path": "a.txt", "edits": []map[string]any{
		{"old_str": "one", "new_str": "1"}, {"old_str": "1\nthree", "new_str": "1\n3"},
	}})
	y.want("a.txt", "1\n3\n")
	_, err := y.call("multi_edit", map[string]any{"file_path": "a.txt", "edits": []map[string]any{
		{"old_str": "1", "new_str": "one"}, {"old_str": "absent", "new_str": "x"},
	}})
	wantLayer(t, err, tool.NotFound, 9, 8, "edit 2 of 2: old_str was not found in a.txt")
	y.want("a.txt", "1\n3\n")
	_, err = y.call("edit", map[string]any{"file_path": "../a.txt", "old_str": "1", "new_str": "x"})
	wantLayer(t, err, tool.PermissionDenied, 2, 2, "the path ../a.txt is outside the workspace")
	_, err = y.call("edit", map[string]any{"file_path": "../a.txt", "old_str": "1", "new_str": "1"})
	wantLayer(t, err, tool.ParameterError, 1, 1, "old_str and new_str are the same")
}

func TestNotebookEditAndUndo(t *testing.T) {
	y := newYard(t)
	const before = "{\n \"cells\": [\n  {\n   \"cell_type\": \"markdown\",\n   \"metadata\": {},\n   \"source\": [\n    \"# Hi\"\n   ]\n  }\n ],\n \"metadata\": {},\n \"nbformat\": 4,\n \"nbformat_minor\": 4\n}\n"
	y.put("n.ipynb", before)
	_, err := y.call("edit", map[string]any{"file_path": "n.ipynb", "old_str": "Hi", "new_str": "Ho"})
	wantLayer(t, err, tool.ParameterError, 6, 5, "n.ipynb is a Jupyter notebook")
	y.do("notebook_edit", map[string]any{"file_path": "n.ipynb", "cell_number": 0, "new_source": "# Ho\nagain"})
	y.want("n.ipynb", strings.Replace(before, "    \"# Hi\"\n", "    \"# Ho\\n\",\n    \"again\"\n", 1))
	text, data := y.do("undo", map[string]any{})
	y.want("n.ipynb", before)
	if len(data["restored"].([]any)) != 1 || !strings.Contains(text, "restored n.ipynb") {
		t.Errorf("text %q, data %v", text, data)
	}
	_, err = y.call("undo", map[string]any{})
	var e *tool.Error
	if !errors.As(err, &e) || e.Code != tool.NotFound {
		t.Errorf("a second undo: %v", err)
	}
}

func TestResourcesAreRealPaths(t *testing.T) {
	y := newYard(t)
	y.put("real.txt", "x")
	if err := os.Symlink("real.txt", filepath.Join(y.dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"write", "edit", "multi_edit", "notebook_edit"} {
		got := y.tools[name].(tool.Resourcer).Resources(y.request(map[string]any{"file_path": "link"}))
		want := tool.Resource{Key: filepath.Join(y.dir, "real.txt"), Access: tool.WriteAccess}
		if len(got) != 1 || got[0] != want {
			t.Errorf("%s: resources %v, want %v", name, got, want)
		}
	}
}

func TestSpecs(t *testing.T) {
	for _, w := range writers(newYard(t).deps) {
		s := w.Spec()
		want := tool.Allow
		if s.Name == "undo" {
			want = tool.Ask
		}
		if s.Default != want || s.Effects != tool.Write || s.Manual == "" || s.Input.Properties["file_path"].Format != "path" {
			t.Errorf("%s: default %s, effects %s, manual of %d bytes, file_path %+v", s.Name, s.Default, s.Effects, len(s.Manual), s.Input.Properties["file_path"])
		}
		if s.ArgumentAliases["path"] != "file_path" {
			t.Errorf("%s: aliases %v", s.Name, s.ArgumentAliases)
		}
	}
}
