package mcp

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

// closer makes a reader an artifact's data.
type closer struct{ *bytes.Reader }

func (closer) Close() error { return nil }

// reader answers calls of read with two lines a page.
func reader(_ context.Context, c executor.Call) *tool.Result {
	var in struct {
		Path   string `json:"file_path"`
		Offset int    `json:"offset"`
		Raw    bool   `json:"raw"`
	}
	if err := json.Unmarshal(c.Arguments, &in); err != nil || c.Tool != "read" {
		return tool.ErrorResult(tool.Errorf(tool.ValidationError, "not what read takes"))
	}
	switch filepath.Base(in.Path) {
	case "secret.env":
		return tool.ErrorResult(tool.Errorf(tool.PermissionDenied, "read(**/.env) denies it").WithHint("Ask for something else."))
	case "image.png", "zip.md":
		if in.Raw {
			return &tool.Result{Content: []tool.Content{{Kind: tool.KindText, Text: "a binary file"}}, Structured: []byte(`{"kind":"binary"}`)}
		}
		if filepath.Base(in.Path) == "zip.md" {
			return tool.Text("a binary file")
		}
		return &tool.Result{Content: []tool.Content{{Kind: tool.KindImage, Data: []byte("PNG"), MIME: "image/png"}}}
	case "gone.txt":
		return tool.ErrorResult(tool.Errorf(tool.NotFound, "no file gone.txt"))
	}
	lines := 5
	if filepath.Base(in.Path) == "huge.txt" {
		lines = 1 << 20
	}
	r := &tool.Result{Content: []tool.Content{{Kind: tool.KindText}}}
	n := min(2, lines-in.Offset)
	for i := range n {
		r.Content[0].Text += fmt.Sprintf("line %d %s\n", in.Offset+i, strings.Repeat("x", lines>>8))
	}
	r.Structured = fmt.Appendf(nil, `{"total_lines":%d,"offset":%d,"lines_returned":%d,"kind":"text"}`, lines, in.Offset, n)
	r.Content = append(r.Content, tool.Content{Kind: tool.KindText, Text: "(a remark)"})
	return r
}

func TestResources(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"b.go", "a file.md", ".hidden"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	artifacts := map[string][]byte{"art_text": []byte("log"), "art_data": {0xff, 0}, "art_huge": make([]byte, maxResource+1)}
	kinds := map[string]string{"art_text": "text/plain", "art_data": "application/zip", "art_huge": "text/plain"}
	k := dial(t, Config{
		Executor: &calls{f: reader}, Workspaces: []string{dir}, Session: "ses_r",
		Catalog: &catalog{specs: []*tool.Spec{spec("read")}},
		ListArtifacts: func(_ context.Context, session string, _ int) ([]store.Artifact, error) {
			return []store.Artifact{{ID: "art_text", Name: "log of " + session, MIME: "text/plain", Size: 3}}, nil
		},
		OpenArtifact: func(_ context.Context, id string) (io.ReadSeekCloser, store.Artifact, error) {
			data, ok := artifacts[id]
			if !ok {
				return nil, store.Artifact{}, tool.Errorf(tool.NotFound, "no artifact %s", id)
			}
			return closer{bytes.NewReader(data)}, store.Artifact{ID: id, Name: id, MIME: kinds[id], Size: int64(len(data))}, nil
		},
	})
	k.initialize("2025-11-25", "{}")

	k.send(`{"jsonrpc":"2.0","id":1,"method":"resources/list"}`)
	m := k.next()
	var got []string
	list, _ := at(m, "result", "resources").([]any)
	for _, r := range list {
		got = append(got, fmt.Sprint(at(r, "name"), " ", at(r, "uri")))
	}
	want := []string{"a file.md " + fileURI(filepath.Join(dir, "a file.md")), "b.go " + fileURI(filepath.Join(dir, "b.go")), "log of ses_r artifact://art_text"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("resources %q, want %q", got, want)
	}
	k.send(`{"jsonrpc":"2.0","id":2,"method":"resources/templates/list"}`)
	if templates, _ := at(k.next(), "result", "resourceTemplates").([]any); len(templates) != 2 {
		t.Errorf("templates %v", templates)
	}

	lines := func(n int) (s string) {
		for i := range n {
			s += fmt.Sprintf("line %d \n", i)
		}
		return s
	}
	tests := []struct {
		uri, text, blob string
		code            float64
		message         string
	}{
		{uri: fileURI(filepath.Join(dir, "a file.md")), text: lines(5)},
		{uri: fileURI(filepath.Join(dir, "sub", "deep.txt")), text: lines(5)},
		{uri: fileURI(filepath.Join(dir, "image.png")), blob: "PNG"},
		{uri: fileURI(filepath.Join(dir, "zip.md")), code: -32602, message: "binary"},
		{uri: fileURI(filepath.Join(dir, "gone.txt")), code: -32602, message: "not found"},
		{uri: fileURI(filepath.Join(dir, "secret.env")), code: -32602, message: "denies"},
		{uri: fileURI(filepath.Join(dir, "huge.txt")), code: -32602, message: "larger than"},
		{uri: "file:///etc/passwd", code: -32602, message: "not found"},
		{uri: fileURI(dir) + "/../x", code: -32602, message: "not found"},
		{uri: "file://elsewhere/etc/passwd", code: -32602, message: ""},
		{uri: "artifact://art_text", text: "log"},
		{uri: "artifact://art_data", blob: "\xff\x00"},
		{uri: "artifact://art_huge", code: -32602, message: "larger than"},
		{uri: "artifact://art_none", code: -32602, message: "not found"},
		{uri: "ftp://x", code: -32602, message: "not found"},
	}
	for _, tt := range tests {
		t.Run(tt.uri, func(t *testing.T) {
			k.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":%q}}`, tt.uri))
			m := k.next()
			if code, _ := at(m, "error", "code").(float64); code != tt.code {
				t.Fatalf("code %v, want %v: %.300v", code, tt.code, m)
			}
			if message, _ := at(m, "error", "message").(string); !strings.Contains(strings.ToLower(message), tt.message) {
				t.Errorf("message %q, want %q", message, tt.message)
			}
			if tt.code != 0 {
				return
			}
			contents, _ := at(m, "result", "contents").([]any)
			if len(contents) != 1 {
				t.Fatalf("contents %v", contents)
			}
			if got, _ := at(contents[0], "text").(string); got != tt.text {
				t.Errorf("text %q, want %q", got, tt.text)
			}
			blob, _ := at(contents[0], "blob").(string)
			if got, err := base64.StdEncoding.DecodeString(blob); err != nil || string(got) != tt.blob {
				t.Errorf("blob %q, %v, want %q", got, err, tt.blob)
			}
		})
	}
}

func TestTurns(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := newSession("s", "", now)
	first := s.enter("", now)
	if again := s.enter("", now.Add(turnPause)); again != first {
		t.Errorf("after %v the turn is %q, was %q", turnPause, again, first)
	}
	second := s.enter("", now.Add(2*turnPause+time.Second))
	if second == first {
		t.Error("a long pause does not begin a new turn")
	}
	s.undone()
	third := s.enter("", now.Add(2*turnPause+2*time.Second))
	if third == second {
		t.Error("an undo does not begin a new turn")
	}
	if named := s.enter("mine", now); named != "mine" {
		t.Errorf("named turn %q", named)
	}
	if after := s.enter("", now.Add(time.Second)); after != "mine" {
		t.Errorf("after a named turn comes %q", after)
	}
}

func TestUndoBeginsATurn(t *testing.T) {
	e := &calls{f: echo}
	k := dial(t, Config{Executor: e, Catalog: &catalog{specs: []*tool.Spec{spec("echo"), spec("undo")}}})
	k.initialize("2025-11-25", "{}")
	var turns []string
	for i, name := range []string{"echo", "undo", "echo"} {
		k.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q}}`, i+1, name))
		k.next()
		turns = append(turns, e.last().Turn)
	}
	if turns[0] != turns[1] || turns[1] == turns[2] {
		t.Errorf("turns %v", turns)
	}
}

// TestResourceWithAnOddName: the SDK writes the name of what it does not find as
// Go quotes it, which is not always JSON. That once ended the connection.
func TestResourceWithAnOddName(t *testing.T) {
	k := dial(t, Config{Executor: &calls{f: echo}})
	k.initialize("2025-11-25", "{}")
	for _, name := range []string{"file:///a\x7fb", "file:///a\\u0001b", "toolyard://\x7f", "\x7f"} {
		k.send(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"` + name + `"}}`)
		if m := k.next(); m["id"] != 1.0 || m["error"] == nil {
			t.Errorf("%q: %v", name, m)
		}
		k.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
		if m := k.next(); m["id"] != 2.0 || m["error"] != nil {
			t.Errorf("after %q: %v", name, m)
		}
	}
}
