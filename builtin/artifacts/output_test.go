package artifacts_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/builtin/artifacts"
	"github.com/toolyard/toolyard/internal/artifact"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

// rows is store.Artifacts in memory, as far as reading needs it.
type rows map[string]store.Artifact

func (r rows) PutArtifact(_ context.Context, a store.Artifact) error { r[a.ID] = a; return nil }

func (r rows) Artifact(_ context.Context, id string) (store.Artifact, error) {
	if a, ok := r[id]; ok {
		return a, nil
	}
	return store.Artifact{}, store.ErrNotFound
}

func (rows) ListArtifacts(context.Context, string, int) ([]store.Artifact, error) { return nil, nil }
func (rows) DeleteArtifact(context.Context, string) error                         { return nil }
func (rows) ArtifactsWithHash(context.Context, string) (int64, error)             { return 1, nil }

// yard is the family over one kept output.
type yard struct {
	dir   *artifact.Dir
	tools map[string]tool.Tool
	id    string
}

func newYard(t testing.TB, output io.Reader) *yard {
	t.Helper()
	dir, err := artifact.Open(t.TempDir(), rows{})
	if err != nil {
		t.Fatal(err)
	}
	dir.SetQuota(0)
	a, err := dir.Put(t.Context(), artifact.Meta{Session: "s"}, output, 0)
	if err != nil {
		t.Fatal(err)
	}
	y := &yard{dir: dir, tools: map[string]tool.Tool{}, id: a.ID}
	for _, x := range artifacts.Tools(artifacts.Deps{Artifacts: dir}) {
		y.tools[x.Spec().Name] = x
	}
	return y
}

// call runs a tool of session s with at most 2000 bytes of output.
func (y *yard) call(t testing.TB, name string, arguments map[string]any) (string, map[string]any, *tool.Error) {
	t.Helper()
	if arguments["handle"] == nil {
		arguments["handle"] = y.id
	}
	raw, err := json.Marshal(arguments)
	if err != nil {
		t.Fatal(err)
	}
	r, err := y.tools[name].Call(t.Context(), &tool.Request{Arguments: raw, Session: "s", MaxOutput: 2000})
	if err != nil {
		return "", nil, tool.AsError(err)
	}
	var out map[string]any
	if err := json.Unmarshal(r.Structured, &out); err != nil {
		t.Fatal(err)
	}
	return r.TextContent(), out, nil
}

func numbers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "row %d\n", i+1)
	}
	return b.String()
}

func TestOutputRead(t *testing.T) {
	tests := []struct {
		name   string
		output string
		args   map[string]any
		want   string
		out    string // keys that must be there
	}{
		{"all", "a\nb\n", map[string]any{}, "a\nb\n[lines 1 to 2; the end]\n", `{"lines_returned":2,"offset":0,"total_bytes":4,"total_lines":2}`},
		{"no final line end", "a\nb", map[string]any{}, "a\nb\n[lines 1 to 2; the end]\n", `{"lines_returned":2,"offset":0,"total_bytes":3,"total_lines":2}`},
		{"a window", numbers(9), map[string]any{"offset": 3, "limit": 2}, "row 4\nrow 5\n[lines 4 to 5; go on with offset 5]\n", `{"lines_returned":2,"next_offset":5,"offset":3,"total_bytes":54}`},
		{"the last window", numbers(9), map[string]any{"offset": 7, "limit": 2}, "row 8\nrow 9\n[lines 8 to 9; the end]\n", `{"lines_returned":2,"offset":7,"total_bytes":54,"total_lines":9}`},
		{"crlf", "a\r\nb\r\n", map[string]any{"limit": 1}, "a\n[lines 1 to 1; go on with offset 1]\n", `{"lines_returned":1,"next_offset":1,"offset":0,"total_bytes":6}`},
		{"invalid", "a\xffb\n", map[string]any{}, "a\uFFFDb\n[lines 1 to 1; the end]\n", `{"lines_returned":1,"offset":0,"total_bytes":4,"total_lines":1}`},
		{"empty", "", map[string]any{}, "[lines 0 to 0; the end]\n", `{"lines_returned":0,"offset":0,"total_bytes":0,"total_lines":0}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			y := newYard(t, strings.NewReader(test.output))
			text, out, err := y.call(t, "output_read", test.args)
			if err != nil {
				t.Fatal(err)
			}
			raw, _ := json.Marshal(out)
			if text != test.want || string(raw) != test.out {
				t.Errorf("text %q, out %s\nwant %q, %s", text, raw, test.want, test.out)
			}
		})
	}
}

func TestOutputReadPagesThroughEverything(t *testing.T) {
	text := numbers(1000) + strings.Repeat("long ", 1000) + "\n" + strings.Repeat("ü", 3<<20) + "\nlast\n"
	y := newYard(t, strings.NewReader(text))
	var all strings.Builder
	offset, pages := 0.0, 0
	for {
		page, out, err := y.call(t, "output_read", map[string]any{"offset": offset})
		if err != nil {
			t.Fatal(err)
		}
		if len(page) > 2200 {
			t.Fatalf("a page of %d bytes", len(page))
		}
		all.WriteString(page[:strings.LastIndex(page, "[lines")])
		pages++
		next, more := out["next_offset"].(float64)
		if !more {
			if out["total_lines"].(float64) != 1003 {
				t.Errorf("total_lines = %v", out["total_lines"])
			}
			break
		}
		if next <= offset {
			t.Fatalf("next_offset %v after %v", next, offset)
		}
		offset = next
	}
	if got := all.String(); !strings.HasPrefix(got, numbers(1000)) || !strings.HasSuffix(got, "last\n") || strings.Count(got, "\n") != 1003 {
		t.Errorf("%d pages with %d lines", pages, strings.Count(got, "\n"))
	}
}

func TestOutputGrep(t *testing.T) {
	y := newYard(t, strings.NewReader(numbers(30)))
	tests := []struct {
		name string
		args map[string]any
		want string
	}{
		{"plain", map[string]any{"pattern": "row 2$"}, "2:row 2\n"},
		{"context", map[string]any{"pattern": "row (5|7|20)$", "context_lines": 1}, "4-row 4\n5:row 5\n6-row 6\n7:row 7\n8-row 8\n--\n19-row 19\n20:row 20\n21-row 21\n"},
		{"nothing", map[string]any{"pattern": "col"}, "No line matches (30 lines searched)."},
		{"anchors", map[string]any{"pattern": "^row 3[01]?$"}, "3:row 3\n30:row 30\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			text, _, err := y.call(t, "output_grep", test.args)
			if err != nil {
				t.Fatal(err)
			}
			if text != test.want {
				t.Errorf("text %q, want %q", text, test.want)
			}
		})
	}
}

func TestOutputGrepBounds(t *testing.T) {
	long := strings.Repeat("x", 100_000) + "NEEDLE" + strings.Repeat("y", 100_000)
	y := newYard(t, strings.NewReader(long+"\n"+strings.Repeat("a line of text\n", 10_000)))
	text, _, err := y.call(t, "output_grep", map[string]any{"pattern": "NEEDLE"})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text, "NEEDLE") || len(text) > 2200 {
		t.Errorf("%d bytes, %.100q", len(text), text)
	}
	text, out, err := y.call(t, "output_grep", map[string]any{"pattern": "of"})
	if err != nil {
		t.Fatal(err)
	}
	if out["truncated"] != true || len(text) > 2200 || !strings.Contains(text, "full") {
		t.Errorf("out %v, %d bytes", out, len(text))
	}
	if _, _, err := y.call(t, "output_grep", map[string]any{"pattern": "(?<x"}); err == nil || err.Code != tool.ParameterError {
		t.Errorf("a broken pattern: %v", err)
	}
}

func TestHandlesOfOthersAreNotFound(t *testing.T) {
	y := newYard(t, strings.NewReader("x"))
	other, err := y.dir.Put(t.Context(), artifact.Meta{Session: "other"}, strings.NewReader("secret"), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"output_read", "output_grep"} {
		for _, handle := range []string{other.ID, "artifact://" + other.ID, "art_none", "../../etc/passwd"} {
			if _, _, err := y.call(t, name, map[string]any{"handle": handle, "pattern": "x"}); err == nil || err.Code != tool.NotFound {
				t.Errorf("%s of %s: %v, want NOT_FOUND", name, handle, err)
			}
		}
	}
	if _, _, err := y.call(t, "output_read", map[string]any{"offset": 5}); err == nil || err.Code != tool.ParameterError {
		t.Errorf("an offset past the end: %v", err)
	}
}

// endless gives n bytes of lines, and none of them kept.
type endless struct{ n int64 }

func (e *endless) Read(p []byte) (int, error) {
	if e.n <= 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), e.n)
	for i := range p[:n] {
		p[i] = 'x'
		if i%64 == 63 {
			p[i] = '\n'
		}
	}
	e.n -= n
	return int(n), nil
}

func TestLongOutputsNeedLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("short: 1 GB is read")
	}
	y := newYard(t, &endless{1 << 30})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	text, _, err := y.call(t, "output_read", map[string]any{"offset": 16_000_000, "limit": 2})
	if err != nil || !strings.Contains(text, "lines 16000001 to 16000002") {
		t.Errorf("%q, %v", text, err)
	}
	if text, _, err = y.call(t, "output_grep", map[string]any{"pattern": "yy"}); err != nil || !strings.Contains(text, "16777216 lines searched") {
		t.Errorf("%q, %v", text, err)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 {
		t.Errorf("%d MiB were allocated", used>>20)
	}
}
