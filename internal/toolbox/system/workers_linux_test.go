package system_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/toolyard/toolyard/tool"
)

func TestFilesystemInTheSandbox(t *testing.T) {
	t.Parallel()
	c := confine(t, "filesystem", nil, nil)
	call := func(method string, params map[string]any, wants ...string) *tool.Result {
		t.Helper()
		all := map[string]any{"method": method}
		for name, value := range params {
			all[name] = value
		}
		return c.says(all, wants...)
	}
	data := filepath.Join(c.dir, "data")
	call("list_allowed_directories", nil, data)
	call("write_file", map[string]any{"path": "deep/a.txt", "content": "one\ntwo\n"}, `"created":true`)
	call("edit_file", map[string]any{"path": "deep/a.txt", "edits": []any{map[string]any{"oldText": "two", "newText": "$& zwei"}}}, `+$& zwei`)
	call("read_text_file", map[string]any{"path": "deep/a.txt", "tail": 1}, "$& zwei")
	call("write_file", map[string]any{"path": "empty", "content": ""}, `"bytesWritten":0`)
	call("move_file", map[string]any{"source": "deep/a.txt", "destination": "other/b.txt"}, `"to":"other/b.txt"`)
	call("move_file", map[string]any{"source": "deep", "destination": "elsewhere/deep"}, `"from":"deep"`)
	call("move_file", map[string]any{"source": "empty", "destination": "other/b.txt"}, "failed: ", "already exists")
	call("search_files", map[string]any{"path": ".", "pattern": "*.txt"}, filepath.Join(data, "other/b.txt"))
	call("list_directory", map[string]any{"path": "other"}, `[{"name":"b.txt","type":"file"}]`)
	call("get_file_info", map[string]any{"path": "other/b.txt"}, `"encoding":"utf-8"`)
	call("read_text_file", map[string]any{"path": "/etc/passwd"}, "failed: ", "outside the allowed directories", "configure ALLOWED_DIRECTORIES")
	call("read_text_file", map[string]any{"path": "../filesystem.tool.js"}, "failed: ", "outside the allowed directories")
	call("read_text_file", map[string]any{"path": "none"}, "failed: ", "no such file or directory: none")
	call("read_text_file", nil, "failed: ", "path")
	if err := os.Symlink("/etc/passwd", filepath.Join(data, "link")); err != nil {
		t.Fatal(err)
	}
	call("read_text_file", map[string]any{"path": "link"}, "failed: ", "outside the allowed directories")
	png := []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR")
	if err := os.WriteFile(filepath.Join(data, "p.png"), png, 0o644); err != nil {
		t.Fatal(err)
	}
	r := call("read_media_file", map[string]any{"path": "p.png"}, `"mimeType":"image/png"`)
	if r == nil || len(r.Content) == 0 || r.Content[0].Kind != tool.KindImage || !bytes.Equal(r.Content[0].Data, png) {
		t.Errorf("read_media_file gave %+v, want the image", r)
	}
}

func TestTodolistInTheSandbox(t *testing.T) {
	t.Parallel()
	c := confine(t, "todolist", nil, nil)
	c.says(map[string]any{"method": "add_task", "content": "写下来", "due_date": "tomorrow"}, `"content":"写下来"`)
	c.says(map[string]any{"method": "batch_tasks", "operations": []any{map[string]any{"action": "delete", "task_id": "none"}}}, "failed: ", "task not found")
	c.says(map[string]any{"method": "list_tasks"}, `"total":1`)
	c.says(map[string]any{"method": "list_tasks", "limit": 0}, "failed: ", "limit")
	if raw, err := os.ReadFile(filepath.Join(c.dir, "data", "storage.json")); err != nil || !bytes.Contains(raw, []byte("写下来")) {
		t.Errorf("storage.json has %s (%v), want the task", raw, err)
	}
}

func TestThinkingInTheSandbox(t *testing.T) {
	t.Parallel()
	c := confine(t, "thinking", nil, nil)
	c.says(map[string]any{"thought": "first", "totalThoughts": 2}, "Thought 1 of 2 (50%) noted")
	r := c.says(map[string]any{"method": "add_thought", "thought": "second"}, "Thought 2 of 2")
	if r == nil || !bytes.Contains(r.Structured, []byte(`"thoughtHistoryLength":2`)) {
		t.Errorf("the second thought gave %+v, want it as data too", r)
	}
	c.says(map[string]any{"method": "revise_thought", "thoughtNumber": 9, "newThought": "x"}, "failed: ", "thought 9 not found", "get_thoughts")
}

func TestFileReaderInTheSandbox(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "http://other.test/", http.StatusFound)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=gbk")
		_, _ = w.Write([]byte("\xd6\xd0\xce\xc4")) // a client that is gone shows in the test
	}))
	t.Cleanup(server.Close)
	c := confine(t, "file-reader", []string{"site.test:80=" + server.Listener.Addr().String()}, nil)
	c.says(map[string]any{"method": "read_file", "url": "http://site.test/a"}, `"content":"中文"`, `"encoding":"gbk"`)
	c.says(map[string]any{"url": "http://other.test/a"}, "failed: ", "other.test", "grant file-reader --net other.test")
	c.says(map[string]any{"url": "http://site.test/away"}, "failed: ", "grant file-reader --net other.test")
	if err := os.WriteFile(filepath.Join(c.dir, "data", "a.csv"), []byte("\xd0\xd5\xc3\xfb,n\n\xd5\xc5\xc8\xfd,1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c.says(map[string]any{"url": "a.csv"}, `"columns":["姓名","n"]`, `"rows":[["张三","1"]]`)
	c.says(map[string]any{"url": "/etc/passwd"}, "failed: ", "outside the allowed directories")
	png := []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x05\x00\x00\x00\x06")
	if err := os.WriteFile(filepath.Join(c.dir, "data", "p.png"), png, 0o644); err != nil {
		t.Fatal(err)
	}
	r := c.says(map[string]any{"url": "p.png"}, `"width":5`)
	if r == nil || len(r.Content) == 0 || r.Content[0].Kind != tool.KindImage || !bytes.Equal(r.Content[0].Data, png) {
		t.Errorf("an image gave %+v, want it", r)
	}
	c = confine(t, "file-reader", nil, nil)
	c.says(map[string]any{"url": "https://example.org/a.txt"}, "failed: ", "grant file-reader --net example.org")
}
