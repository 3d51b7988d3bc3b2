package files

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/edit"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/workspace"
	"github.com/toolyard/toolyard/tool"
)

func TestGlobTool(t *testing.T) {
	b := newBench(t, map[string]string{
		"top.py": "", "src/a.py": "", "src/deep/b.py": "", "node_modules/x/c.py": "", ".toolyardignore": "closed/\n", "closed/d.py": "", "with\nbreak.txt": "",
	})
	if got := b.text("glob", `{"pattern":"*.py"}`); got != "top.py" {
		t.Errorf("*.py: %q", got)
	}
	got := b.text("glob", `{"pattern":"**/*.py"}`)
	want(t, got, "top.py", "src/a.py", "src/deep/b.py")
	not(t, got, "node_modules", "closed")
	want(t, b.text("glob", `{"pattern":"src/**/*.py"}`), "src/a.py", "src/deep/b.py")
	want(t, b.text("glob", `{"pattern":"deep/*.py","path":"src"}`), "src/deep/b.py")
	want(t, b.text("glob", `{"pattern":"`+b.dir+`/src/*.py"}`), "src/a.py")
	want(t, b.text("glob", `{"pattern":"node_modules/**/*.py"}`), "node_modules/x/c.py")
	want(t, b.text("glob", `{"pattern":"*.txt"}`), `"with\nbreak.txt"`)
	want(t, b.text("glob", `{"pattern":"**/*.py","exclude":["deep/"],"max_results":1}`), "1 more")
	want(t, b.text("glob", `{"pattern":"*.rs"}`), "No files match", "**/*.rs")
	want(t, b.text("glob", `{"pattern":"nosuch/*.rs"}`), "its directory does not exist")
	want(t, b.fails(tool.ParameterError, "glob", `{"pattern":"src/[a"}`), "position 5", "\n  src/[a\n      ^")
	want(t, b.fails(tool.PermissionDenied, "glob", `{"pattern":"../*.py"}`), "outside the workspace")
	want(t, b.fails(tool.PermissionDenied, "glob", `{"pattern":"/etc/*"}`), "outside the workspace")
	want(t, b.fails(tool.NotFound, "glob", `{"pattern":"*","path":"srcs"}`), "no such file or directory")
	r, err := b.call("glob", `{"pattern":"**/*.py","max_results":2}`)
	if err != nil {
		t.Fatal(err)
	}
	if out := structured[globOut](t, r); len(out.Files) != 2 || out.Total != 3 || !out.Truncated {
		t.Errorf("structured: %+v", out)
	}
}

func TestGrepTool(t *testing.T) {
	b := newBench(t, map[string]string{
		"a.txt": "hay\nneedle two\nhay\nhay\nneedle three\n", "src/app.ts": "needle src\n", "node_modules/p/i.ts": "needle dep\n", "b.go": "needle go\r\n",
		"bin": "needle\x00", "long.txt": "needle " + strings.Repeat("x", 3000) + "\n", "bad.txt": "needle \xff\n",
	})
	tests := []struct{ args, want string }{
		{`{"pattern":"needle t"}`, "a.txt:2:needle two\na.txt:5:needle three"},
		{`{"pattern":"needle t","-n":false}`, "a.txt:needle two\na.txt:needle three"},
		{`{"pattern":"needle t","-C":1}`, "a.txt-1-hay\na.txt:2:needle two\na.txt-3-hay\na.txt-4-hay\na.txt:5:needle three"},
		{`{"pattern":"needle t","-A":1}`, "a.txt:2:needle two\na.txt-3-hay\n--\na.txt:5:needle three"},
		{`{"pattern":"NEEDLE GO","-i":true}`, "b.go:1:needle go"},
		{`{"pattern":"needle","glob":"**/*.ts"}`, "src/app.ts:1:needle src"},
		{`{"pattern":"needle","glob":"*.{ts,go}"}`, "b.go:1:needle go\nsrc/app.ts:1:needle src"},
		{`{"pattern":"needle","type":"go"}`, "b.go:1:needle go"},
		{`{"pattern":"needle","path":"src"}`, "src/app.ts:1:needle src"},
		{`{"pattern":"needle","path":"src/app.ts"}`, "src/app.ts:1:needle src"},
		{`{"pattern":"needle","path":"bin"}`, "bin: binary file matches (NUL byte at offset 6)"},
		{`{"pattern":"needle","path":"bad.txt"}`, "bad.txt:1:needle \uFFFD"},
		{`{"pattern":"needle","output":"files","exclude":["*.txt"]}`, "b.go\nsrc/app.ts"},
		{`{"pattern":"needle","output":"count","exclude":["*.t?t","*.ts"]}`, "b.go:1"},
		{`{"pattern":"needle","output":"count","path":"a.txt"}`, "a.txt:2"},
		{`{"pattern":"two\nhay","multiline":true}`, "a.txt:2:needle two\na.txt:3:hay"},
		{`{"pattern":"needle","path":"node_modules"}`, "node_modules/p/i.ts:1:needle dep"},
		{`{"pattern":"hay","offset":1}`, "a.txt:3:hay\na.txt:4:hay"},
	}
	for _, tt := range tests {
		if d := cmp.Diff(tt.want, b.text("grep", tt.args)); d != "" {
			t.Errorf("%s: -want +got:\n%s", tt.args, d)
		}
	}
	want(t, b.text("grep", `{"pattern":"needle","path":"long.txt"}`), "long.txt:1:needle "+strings.Repeat("x", 1993)+"… [line cut, 1,007 more characters]")
	want(t, b.text("grep", `{"pattern":"hay","max_results":1}`), "a.txt:1:hay\n(1 matching line shown, there are more. Go on with offset=1")
	want(t, b.text("grep", `{"pattern":"nothing like it"}`), "No matches (6 files searched)")
	want(t, b.text("grep", `{"pattern":"hay$","glob":"*.nosuch"}`), "No file fits glob")
	want(t, b.fails(tool.ParameterError, "grep", `{"pattern":"a(b"}`), "not a valid regular expression", "\n  a(b\n   ^")
	want(t, b.fails(tool.ParameterError, "grep", `{"pattern":"["}`), "regular expression")
	want(t, b.fails(tool.ParameterError, "grep", `{"pattern":"x","type":"golangs"}`), "no file type")
	want(t, b.fails(tool.NotFound, "grep", `{"pattern":"x","path":"nosuch"}`), "no such file")
}

// The offsets that are named lead through all matches, each once, and every page
// keeps to the limit.
func TestGrepPagesOn(t *testing.T) {
	files := map[string]string{}
	for i := range 40 {
		files[fmt.Sprintf("f%02d.txt", i)] = strings.Repeat("a needle in a haystack\nhay\n", 10)
	}
	b := newBench(t, files)
	b.limit = 3000
	seen := map[string]int{}
	offset := 0
	for range 500 {
		r, err := b.call("grep", fmt.Sprintf(`{"pattern":"needle","max_results":90,"-A":1,"offset":%d}`, offset))
		if err != nil {
			t.Fatal(err)
		}
		if n := len(r.TextContent()); n > b.limit {
			t.Fatalf("%d bytes, limit %d", n, b.limit)
		}
		out := structured[grepOut](t, r)
		for _, m := range out.Matches {
			seen[fmt.Sprintf("%s:%d", m.Path, m.Line)]++
		}
		if !out.Truncated {
			break
		}
		if out.NextOffset <= offset {
			t.Fatalf("next offset %d after %d", out.NextOffset, offset)
		}
		offset = out.NextOffset
	}
	if len(seen) != 400 {
		t.Errorf("%d of 400 matches seen", len(seen))
	}
	for at, n := range seen {
		if n != 1 {
			t.Errorf("%s seen %d times", at, n)
		}
	}
}

// sightings is a store of what sessions have seen.
type sightings struct {
	store.Sessions
	rows map[string]store.Seen
}

func (s *sightings) PutSeen(_ context.Context, row store.Seen) error {
	s.rows[filepath.Base(row.Path)] = row
	return nil
}

func (s *sightings) Seen(_ context.Context, _, path string) (store.Seen, error) {
	if row, ok := s.rows[filepath.Base(path)]; ok {
		return row, nil
	}
	return store.Seen{}, store.ErrNotFound
}

// Only the lines that were really shown count as seen.
func TestSeen(t *testing.T) {
	content := "one\nneedle\nthree\nfour\nneedle\nsix\n"
	b := newBench(t, map[string]string{"a.txt": content, "b.txt": content, "c.txt": content, "d.txt": "needle\n"})
	ws, err := workspace.Open(workspace.Config{Dir: b.dir})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	rows := &sightings{rows: map[string]store.Seen{}}
	d := Deps{Workspace: func(string) (*workspace.Workspace, error) { return ws, nil }, Edit: edit.New(edit.Config{Sessions: rows})}
	for _, tl := range Tools(d) {
		b.tools[tl.Spec().Name] = tl
	}
	b.text("read", `{"file_path":"a.txt","offset":1,"limit":2}`)
	b.text("read", `{"file_path":"b.txt"}`)
	b.text("grep", `{"pattern":"needle","-A":1,"glob":"c.txt"}`)
	b.text("grep", `{"pattern":"needle","glob":"d.txt","output":"files"}`)
	for name, want := range map[string][]store.LineRange{"a.txt": {{From: 2, To: 3}}, "b.txt": nil, "c.txt": {{From: 2, To: 3}, {From: 5, To: 6}}} {
		row := rows.rows[name]
		if row.Hash != edit.Sum([]byte(content)) || row.Size != int64(len(content)) || row.Whole != (name == "b.txt") {
			t.Errorf("%s: %+v", name, row)
		}
		if d := cmp.Diff(want, row.Lines); d != "" {
			t.Errorf("%s: -want +got:\n%s", name, d)
		}
	}
	if _, ok := rows.rows["d.txt"]; ok {
		t.Error("a name alone counts as seen")
	}
}

func TestListTool(t *testing.T) {
	b := newBench(t, map[string]string{
		"b.txt": "12345", "a/x/y.go": "package y\n", "a/z.md": strings.Repeat("x", 3000), ".hidden": "", "node_modules/left.js": "", ".gitignore": "*.log\n", "x.log": "", "empty/.keep": "",
	})
	if err := os.Symlink("b.txt", filepath.Join(b.dir, "link")); err != nil {
		t.Skip("no symlinks here")
	}
	at := time.Date(2024, 2, 3, 4, 5, 0, 0, time.UTC)
	if err := os.Chtimes(filepath.Join(b.dir, "b.txt"), at, at); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ args, want string }{
		{`{}`, "./\n  a/\n  b.txt  5 B\n  empty/\n  link -> b.txt"},
		{`{"recursive":true}`, "./\n  a/\n    x/\n      y.go  10 B\n    z.md  2.9 KiB\n  b.txt  5 B\n  empty/\n  link -> b.txt"},
		{`{"recursive":true,"max_depth":2,"path":"a"}`, "a/\n  x/\n    y.go  10 B\n  z.md  2.9 KiB"},
		{`{"include_hidden":true,"exclude":["a","link","empty"]}`, "./\n  .gitignore  6 B\n  .hidden  0 B\n  b.txt  5 B"},
		{`{"detailed":true,"exclude":["a","link","empty"]}`, "./\n-rw-r--r-- 2024-02-03 04:05   b.txt  5 B"},
		{`{"path":"empty"}`, "empty/\n(nothing to list: the directory is empty, or what is in it is hidden or ignored)"},
		{`{"path":"node_modules"}`, "node_modules/\n  left.js  0 B"},
	}
	for _, tt := range tests {
		if d := cmp.Diff(tt.want, b.text("list", tt.args)); d != "" {
			t.Errorf("%s: -want +got:\n%s", tt.args, d)
		}
	}
	want(t, b.fails(tool.ParameterError, "list", `{"path":"b.txt"}`), "is a file, not a directory")
	want(t, b.fails(tool.ParameterError, "list", `{"offset":50}`), "past the end")
	r, err := b.call("list", `{"path":"a"}`)
	if err != nil {
		t.Fatal(err)
	}
	want(t, string(r.Structured), `{"path":"a/z.md","type":"file","size":3000}`)
}

func TestListPagesOn(t *testing.T) {
	files := map[string]string{}
	for i := range 300 {
		files[fmt.Sprintf("directory%d/a file with a long name %03d.txt", i%4, i)] = ""
	}
	b := newBench(t, files)
	b.limit = 2500
	seen, offset := map[string]bool{}, 0
	for range 100 {
		r, err := b.call("list", fmt.Sprintf(`{"recursive":true,"offset":%d}`, offset))
		if err != nil {
			t.Fatal(err)
		}
		if n := len(r.TextContent()); n > b.limit {
			t.Fatalf("%d bytes, limit %d", n, b.limit)
		}
		out := structured[listOut](t, r)
		for _, e := range out.Entries {
			if seen[e.Path] {
				t.Errorf("%s twice", e.Path)
			}
			seen[e.Path] = true
		}
		if !out.Truncated {
			break
		}
		offset = out.NextOffset
	}
	if len(seen) != 304 {
		t.Errorf("%d of 304 entries", len(seen))
	}
}

// The three tools agree about what there is.
func TestToolsAgree(t *testing.T) {
	files := map[string]string{".gitignore": "*.log\n!keep.log\nout/\n", "sub/.gitignore": "local\n", ".toolyardignore": "private\n"}
	for _, n := range []string{"a.log", "keep.log", "out/x", "sub/local", "sub/b.log", "sub/c", "private", "sub/private/d", "e.txt", ".venv/f", "node_modules/g", "h/.hid"} {
		files[n] = "needle\n"
	}
	b := newBench(t, files)
	for _, n := range []string{".gitignore", ".toolyardignore", "sub/.gitignore"} {
		b.write(n, files[n]+"# needle\n")
	}
	r, err := b.call("glob", `{"pattern":"**"}`)
	if err != nil {
		t.Fatal(err)
	}
	globbed := map[string]bool{}
	for _, f := range structured[globOut](t, r).Files {
		globbed[f] = true
	}
	grepped := map[string]bool{}
	for f := range strings.SplitSeq(b.text("grep", `{"pattern":"needle","output":"files"}`), "\n") {
		grepped[f] = true
	}
	listed := map[string]bool{}
	r, err = b.call("list", `{"recursive":true,"include_hidden":true}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range structured[listOut](t, r).Entries {
		if e.Type == "file" {
			listed[e.Path] = true
		}
	}
	wanted := map[string]bool{".gitignore": true, ".toolyardignore": true, "sub/.gitignore": true, "keep.log": true, "sub/c": true, "e.txt": true, "h/.hid": true}
	for name, got := range map[string]map[string]bool{"glob": globbed, "grep": grepped, "list": listed} {
		if d := cmp.Diff(wanted, got); d != "" {
			t.Errorf("%s: -want +got:\n%s", name, d)
		}
	}
}

func TestSchemas(t *testing.T) {
	b := newBench(t, nil)
	for name, args := range map[string][]string{
		"grep": {"pattern", "path", "-i", "-n", "-C", "-A", "-B", "glob", "type", "multiline", "literal", "output", "max_results", "exclude"},
		"glob": {"pattern", "path", "max_results", "exclude"}, "read": {"file_path", "offset", "limit", "pages", "raw"},
		"batch_read": {"file_paths", "offset", "limit", "stop_on_error"}, "list": {"path", "recursive", "include_hidden", "detailed", "max_depth", "exclude"},
	} {
		s := b.tools[name].Spec()
		for _, a := range args {
			if s.Input.Properties[a] == nil {
				t.Errorf("%s has no argument %s", name, a)
			}
		}
		if _, err := json.Marshal(s.Input); err != nil {
			t.Error(err)
		}
	}
	for alias, name := range map[string]string{"case_insensitive": "-i", "context_lines": "-C", "glob_pattern": "glob"} {
		if got := b.tools["grep"].Spec().ArgumentAliases[alias]; got != name {
			t.Errorf("alias %s is %q, want %q", alias, got, name)
		}
	}
	if got := b.tools["read"].Spec().ArgumentAliases["path"]; got != "file_path" {
		t.Errorf("alias path is %q", got)
	}
}
