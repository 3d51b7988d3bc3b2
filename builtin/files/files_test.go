package files

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/edit"
	"github.com/toolyard/toolyard/internal/search"
	"github.com/toolyard/toolyard/internal/workspace"
	"github.com/toolyard/toolyard/tool"
)

// bench is a workspace with the family's tools on it.
type bench struct {
	t     testing.TB
	dir   string
	tools map[string]tool.Tool
	limit int
}

func newBench(t testing.TB, files map[string]string) *bench {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, dir: dir, tools: map[string]tool.Tool{}}
	for name, content := range files {
		b.write(name, content)
	}
	ws, err := workspace.Open(workspace.Config{Dir: dir, Ignored: search.ToolyardIgnore(dir)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Close() })
	engine := edit.New(edit.Config{})
	for _, tl := range Tools(Deps{Workspace: func(string) (*workspace.Workspace, error) { return ws, nil }, Edit: engine}) {
		b.tools[tl.Spec().Name] = tl
	}
	return b
}

func (b *bench) write(name, content string) {
	b.t.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// call runs a tool; args is JSON.
func (b *bench) call(name, args string) (*tool.Result, error) {
	b.t.Helper()
	return b.tools[name].Call(context.Background(), &tool.Request{
		Arguments: json.RawMessage(args), Session: "s1", Workspace: b.dir, MaxOutput: b.limit,
	})
}

// text is the text of a call that must succeed.
func (b *bench) text(name, args string) string {
	b.t.Helper()
	r, err := b.call(name, args)
	if err != nil {
		b.t.Fatalf("%s %s: %v", name, args, err)
	}
	return r.TextContent()
}

// fails is the error of a call that must fail with a code.
func (b *bench) fails(code tool.Code, name, args string) string {
	b.t.Helper()
	r, err := b.call(name, args)
	if err == nil {
		b.t.Fatalf("%s %s: got %q, want an error", name, args, r.TextContent())
	}
	if e := tool.AsError(err); e.Code != code {
		b.t.Fatalf("%s %s: got %s (%s), want %s", name, args, e.Code, e.Text(), code)
	}
	return tool.AsError(err).Text()
}

func want(t testing.TB, got string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(got, p) {
			t.Errorf("got %q, want it to contain %q", got, p)
		}
	}
}

func not(t testing.TB, got string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if strings.Contains(got, p) {
			t.Errorf("got %q, want it not to contain %q", got, p)
		}
	}
}

func structured[T any](t testing.TB, r *tool.Result) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(r.Structured, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestReaderSpecs(t *testing.T) {
	b := newBench(t, nil)
	for _, name := range []string{"read", "batch_read", "glob", "grep", "list"} {
		s := b.tools[name].Spec()
		if s.Effects != tool.Read || s.Default != tool.Allow || !s.Idempotent || !s.ConcurrencySafe {
			t.Errorf("%s: effects %v default %v idempotent %v safe %v", name, s.Effects, s.Default, s.Idempotent, s.ConcurrencySafe)
		}
		if s.Pages != (name != "glob") {
			t.Errorf("%s: Pages is %v", name, s.Pages)
		}
		if len(s.Manual) < 200 {
			t.Errorf("%s: no manual", name)
		}
	}
	for _, name := range []string{"read", "batch_read"} {
		r, ok := b.tools[name].(tool.Resourcer)
		if !ok {
			t.Fatalf("%s names no resources", name)
		}
		got := r.Resources(&tool.Request{Workspace: b.dir, Arguments: json.RawMessage(`{"file_path":"./b","file_paths":["./b"]}`)})
		if len(got) != 1 || got[0] != (tool.Resource{Key: filepath.Join(b.dir, "b"), Access: tool.ReadAccess}) {
			t.Errorf("%s: resources %v", name, got)
		}
	}
}
