package edit_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/edit"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/text"
	"github.com/toolyard/toolyard/tool"
)

func wantError(t *testing.T, err error, code tool.Code, parts ...string) *tool.Error {
	t.Helper()
	var e *tool.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want a %s", err, code)
	}
	if e.Code != code {
		t.Fatalf("got %s: %s; want %s", e.Code, e.Text(), code)
	}
	for _, part := range parts {
		if !strings.Contains(e.Text(), part) {
			t.Errorf("%q is not in %q", part, e.Text())
		}
	}
	return e
}

func wantLayer(t *testing.T, e *tool.Error, layer, layerCode int) {
	t.Helper()
	if e.Details["layer"] != layer || e.Details["behavior"] != "ask" {
		t.Errorf("details %v, want layer %d", e.Details, layer)
	}
	if code, ok := e.Details["layer_code"]; layerCode > 0 && code != layerCode || layerCode == 0 && ok {
		t.Errorf("layer_code %v, want %d", code, layerCode)
	}
}

func TestLayers(t *testing.T) {
	f := newFixture(t, edit.Config{})
	f.write("seen.txt", "one\ntwo\ntwo\n")
	f.see("seen.txt")
	f.write("unseen.txt", "one\n")
	f.write("stale.txt", "one\n")
	f.see("stale.txt")
	f.write("stale.txt", "One\n")
	f.write("bin", "\x00\x01\x02\x00\x00\x00")
	f.see("bin")
	f.write("n.ipynb", `{"cells": []}`)
	f.see("n.ipynb")
	f.write("dir/x", "x")
	f.write("empty", "")
	tests := []struct {
		name, file string
		edit       edit.Replacement
		code       tool.Code
		layer      int
		layerCode  int
		text       string
	}{
		{"same", "seen.txt", edit.Replacement{Old: "a", New: "a"}, tool.ParameterError, 1, 1, "nothing would change"},
		{"create over content", "seen.txt", edit.Replacement{Old: "", New: "x"}, tool.Conflict, 3, 3, "already exists"},
		{"no such file", "sen.txt", edit.Replacement{Old: "a", New: "b"}, tool.NotFound, 5, 4, "seen.txt"},
		{"notebook", "n.ipynb", edit.Replacement{Old: "a", New: "b"}, tool.ParameterError, 6, 5, "notebook_edit"},
		{"binary", "bin", edit.Replacement{Old: "a", New: "b"}, tool.ParameterError, 6, 5, "binary"},
		{"directory", "dir", edit.Replacement{Old: "a", New: "b"}, tool.ParameterError, 6, 5, "directory"},
		{"not read", "unseen.txt", edit.Replacement{Old: "one", New: "b"}, tool.Conflict, 7, 6, "File has not been read yet. Read it first before writing to it."},
		{"changed", "stale.txt", edit.Replacement{Old: "One", New: "b"}, tool.Conflict, 8, 7, "File has been modified since read, either by the user or by a linter. Read it again before attempting to write it."},
		{"absent", "seen.txt", edit.Replacement{Old: "three", New: "b"}, tool.NotFound, 9, 8, "not found"},
		{"not unique", "seen.txt", edit.Replacement{Old: "two", New: "b"}, tool.Conflict, 9, 9, "occurs 2 times in seen.txt, at lines 2, 3"},
		{"count", "seen.txt", edit.Replacement{Old: "two", New: "b", Expected: 3}, tool.Conflict, 9, 9, "expected_replacements is 3"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := f.engine.Apply(t.Context(), f.origin, f.path(test.file), test.edit)
			wantLayer(t, wantError(t, err, test.code, test.text), test.layer, test.layerCode)
		})
	}
	for _, outside := range []string{"../x", "/etc/passwd"} {
		_, err := edit.Resolve(f.ws, outside)
		wantLayer(t, wantError(t, err, tool.PermissionDenied, "outside the workspace"), 2, 2)
	}
	_, err := edit.Resolve(f.ws, "new/")
	wantLayer(t, wantError(t, err, tool.ParameterError, "names a directory"), 4, 0)
	if _, err := f.engine.Apply(t.Context(), f.origin, f.path("empty"), edit.Replacement{New: "now\n"}); err != nil {
		t.Errorf("creating where an empty file is: %v", err)
	}
	if got := f.read("empty"); got != "now\n" {
		t.Errorf("got %q", got)
	}
}

func TestContentDecidesNotTheClock(t *testing.T) {
	f := newFixture(t, edit.Config{})
	f.write("a.txt", "one\n")
	f.see("a.txt")
	name := filepath.Join(f.dir, "a.txt")
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(name, later, later); err != nil {
		t.Fatal(err)
	}
	if _, err := f.engine.Apply(t.Context(), f.origin, f.path("a.txt"), edit.Replacement{Old: "one", New: "two"}); err != nil {
		t.Errorf("a touch counts as a change: %v", err)
	}
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	f.write("a.txt", "twx\n") // same size, same time
	if err := os.Chtimes(name, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	_, err = f.engine.Apply(t.Context(), f.origin, f.path("a.txt"), edit.Replacement{Old: "twx", New: "three"})
	wantLayer(t, wantError(t, err, tool.Conflict, "File has been modified since read"), 8, 7)
}

func TestAnchored(t *testing.T) {
	f := newFixture(t, edit.Config{Strictness: edit.Anchored})
	f.write("a.txt", "one\ntwo\n")
	r, err := f.engine.Apply(t.Context(), f.origin, f.path("a.txt"), edit.Replacement{Old: "one", New: "1"})
	if err != nil || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "had not been read") {
		t.Fatalf("unseen: %+v, %v", r, err)
	}
	f.write("a.txt", "1\n  two  \nthree\n")
	r, err = f.engine.Apply(t.Context(), f.origin, f.path("a.txt"), edit.Replacement{Old: "three", New: "3"})
	if err != nil || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "has other changes") {
		t.Fatalf("changed: %+v, %v", r, err)
	}
	f.write("a.txt", "1\n  two  \nfour\n")
	_, err = f.engine.Apply(t.Context(), f.origin, f.path("a.txt"), edit.Replacement{Old: "two\nfour", New: "2\n4"})
	wantLayer(t, wantError(t, err, tool.Conflict, "matches it only with differences in"), 8, 7)
	_, err = f.engine.Write(t.Context(), f.origin, f.path("a.txt"), "x", false)
	wantLayer(t, wantError(t, err, tool.Conflict), 8, 7)
	if _, err = f.engine.Write(t.Context(), f.origin, f.path("a.txt"), "x", true); err != nil {
		t.Errorf("appending: %v", err)
	}
}

func TestUnseenLinesAreSaid(t *testing.T) {
	f := newFixture(t, edit.Config{})
	var content strings.Builder
	for i := range 100 {
		fmt.Fprintf(&content, "line %d\n", i+1)
	}
	f.write("a.txt", content.String())
	saw := func(from, to int) {
		err := f.engine.Saw(t.Context(), f.origin.Session, f.path("a.txt"), edit.Sight{Hash: edit.Sum([]byte(f.read("a.txt"))), Lines: []store.LineRange{{From: from, To: to}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	do := func(old, new string) []string {
		t.Helper()
		r, err := f.engine.Apply(t.Context(), f.origin, f.path("a.txt"), edit.Replacement{Old: old, New: new})
		if err != nil {
			t.Fatal(err)
		}
		return r.Notes
	}
	saw(1, 10)
	saw(11, 20)
	if notes := do("line 15\nline 16\n", "line 15\nnew a\nnew b\nline 16\n"); notes != nil {
		t.Errorf("seen lines: %v", notes)
	}
	if notes := do("line 20\n", "LINE 20\n"); notes != nil {
		t.Errorf("lines that moved: %v", notes)
	}
	if notes := do("new a", "NEW A"); notes != nil {
		t.Errorf("lines of its own: %v", notes)
	}
	if notes := do("line 50\n", "LINE 50\n"); len(notes) != 1 || !strings.Contains(notes[0], "52") {
		t.Errorf("unseen lines: %v", notes)
	}
}

func TestMissReport(t *testing.T) {
	f := newFixture(t, edit.Config{})
	f.write("s.py", "import os\n\ndef total(items):\n\tsubtotal = sum(items)\n\treturn subtotal\n")
	f.see("s.py")
	_, err := f.engine.Apply(t.Context(), f.origin, f.path("s.py"), edit.Replacement{
		Old: "def total(items):\n    subtotal = sum(item)\n    return subtotal\n", New: "def total(items):\n\treturn 0\n",
	})
	e := wantError(t, err, tool.NotFound, "lines 3-5", "line 4 is the first that differs", "→subtotal = sum(items)", "····subtotal = sum(item)")
	first := e.Details["first_divergence"].(map[string]any)
	if first["line"] != 4 || first["old_str_line"] != 2 {
		t.Errorf("first divergence: %v", first)
	}
	if e.Details["already_applied"] != false {
		t.Errorf("already_applied: %v", e.Details)
	}
	_, err = f.engine.Apply(t.Context(), f.origin, f.path("s.py"), edit.Replacement{Old: "def total(items):\n    subtotal = sum(items)\n    return total\n", New: "x"})
	if first := wantError(t, err, tool.NotFound).Details["first_divergence"].(map[string]any); first["line"] != 5 {
		t.Errorf("only the words of line 5 differ: %v", first)
	}
	_, err = f.engine.Apply(t.Context(), f.origin, f.path("s.py"), edit.Replacement{Old: "subtotal = add(items)", New: "subtotal = sum(items)"})
	e = wantError(t, err, tool.NotFound, "subtotal = sum(items)", "already_applied")
	if e.Details["already_applied"] != true {
		t.Errorf("already_applied: %v", e.Details)
	}
}

// TestBytesStay edits one word and compares every other byte.
func TestBytesStay(t *testing.T) {
	long := strings.Repeat("填充 text\n", 2000)
	tests := []struct {
		name     string
		encoding text.Encoding
		content  string
		old, new string
	}{
		{"mixed endings", text.Encoding{}, "a\r\nb\nc old\r\nd\n\re\r", "old", "new"},
		{"no final newline", text.Encoding{}, "a\nold", "old", "new"},
		{"bom", text.Encoding{Name: text.UTF8, BOM: true}, "old\nb\n", "old", "new"},
		{"utf-16le", text.Encoding{Name: text.UTF16LE, BOM: true}, "ab\r\n世界 old\r\n", "old", "新 new"},
		{"utf-16be without mark", text.Encoding{Name: text.UTF16BE}, "plain text old\r\nmore\r\n", "old", "new"},
		{"gbk", text.Encoding{Name: text.GB18030}, long + "你好，世界 old 测试\n" + long, "old", "新的"},
		{"big5", text.Encoding{Name: text.Big5}, "這是一個 old 測試，請問您要什麼\n", "old", "新"},
		{"shift-jis", text.Encoding{Name: text.ShiftJIS}, "これは old テストです\n", "old", "新しい"},
		{"euc-kr", text.Encoding{Name: text.EUCKR}, "안녕하세요 old 세계입니다\n", "old", "새로운"},
		{"latin-1", text.Encoding{Name: text.Latin1}, "Crème brûlée old à la carte\n", "old", "né"},
		{"invalid utf-8", text.Encoding{}, "größe schön \xff über old \xc3 ähnlich öfter\n", "old", "new"},
		{"emoji and controls", text.Encoding{}, "😀 old \x1b[0m\tx\v\n", "old", "👍"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, edit.Config{})
			encode := func(s string) string {
				b, err := test.encoding.Encode(s)
				if err != nil {
					t.Fatal(err)
				}
				return string(b)
			}
			before, after, _ := strings.Cut(test.content, test.old)
			raw := string(test.encoding.Mark()) + encode(test.content)
			want := string(test.encoding.Mark()) + encode(before) + encode(test.new) + encode(after)
			f.write("f", raw)
			f.see("f")
			r, err := f.engine.Apply(t.Context(), f.origin, f.path("f"), edit.Replacement{Old: test.old, New: test.new})
			if err != nil {
				t.Fatal(err)
			}
			if got := f.read("f"); got != want {
				t.Errorf("got  % x\nwant % x", got[:min(len(got), 100)], want[:min(len(want), 100)])
			}
			if r.MatchedWith != edit.MatchExact {
				t.Errorf("matched with %s", r.MatchedWith)
			}
		})
	}
}

func TestEncodingLacksCharacter(t *testing.T) {
	f := newFixture(t, edit.Config{})
	f.write("f", "Cr\xe8me br\xfbl\xe9e old\n")
	f.see("f")
	_, err := f.engine.Apply(t.Context(), f.origin, f.path("f"), edit.Replacement{Old: "old", New: "世"})
	wantLayer(t, wantError(t, err, tool.ParameterError, "iso-8859-1", "世"), 1, 1)
	_, err = f.engine.Write(t.Context(), f.origin, f.path("f"), "世", true)
	wantError(t, err, tool.ParameterError, "世")
	if got := f.read("f"); got != "Cr\xe8me br\xfbl\xe9e old\n" {
		t.Errorf("the file changed: %q", got)
	}
}

func TestLineEndings(t *testing.T) {
	tests := []struct{ name, file, old, new, want string }{
		{"new lines take the ending around", "a\r\nb\r\n", "a", "a\nx", "a\r\nx\r\nb\r\n"},
		{"each its own", "a\r\nb\nc\r\n", "a\nb\nc", "A\nB\nC", "A\r\nB\nC\r\n"},
		{"unchanged lines keep theirs", "a\r\nb\nc\r\nd\n", "a\nb\nc\nd\n", "a\nb\nX\nd\n", "a\r\nb\nX\r\nd\n"},
		{"the ending is the edit", "a\r\nb\r\n", "a\r\nb\r\n", "a\nb\n", "a\nb\n"},
		{"a match may not cut CRLF", "a\r\nb\r\n", "\nb", "\nc", "a\r\nc\r\n"},
		{"last line without ending", "a\nb", "b\n", "c\nd\n", "a\nc\nd"},
		{"no line ending in the file", "a", "a", "b\r\nc", "b\r\nc"},
		{"trailing blanks stay", "a  \nb\t\nc\n", "a\nb\nc", "a\nB\nc", "a  \nB\t\nc\n"},
		{"typographic text stays", "say(“hi”) – it’s\n", `say("hi") - it's`, `say("ho") - it's`, "say(“ho”) – it’s\n"},
		{"overlapping matches are two", "aaa\n", "aa", "b", ""},
		{"tabs for spaces", "if x:\n\tfoo()\n\tbar()\n", "if x:\n    foo()\n", "if x:\n    if y:\n        foo()\n", "if x:\n\tif y:\n\t\tfoo()\n\tbar()\n"},
		{"spaces for tabs", "if x:\n  foo()\n  bar()\n", "if x:\n\tfoo()\n", "if x:\n\tif y:\n\t\tfoo()\n", "if x:\n  if y:\n    foo()\n  bar()\n"},
		{"whole line goes with its indentation", "    a\nb\n", "a\n", "", "b\n"},
		{"literal dollars", "k\n", "k", `$1\1&${x}`, "$1\\1&${x}\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, edit.Config{})
			f.write("f", test.file)
			f.see("f")
			r, err := f.engine.Apply(t.Context(), f.origin, f.path("f"), edit.Replacement{Old: test.old, New: test.new})
			if test.want == "" {
				wantError(t, err, tool.Conflict, "2 times")
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := f.read("f"); got != test.want {
				t.Errorf("got %q, want %q (matched with %s)", got, test.want, r.MatchedWith)
			}
		})
	}
}

func TestTooLarge(t *testing.T) {
	f := newFixture(t, edit.Config{MaxFile: 100})
	f.write("f", strings.Repeat("x", 101))
	f.write("g", strings.Repeat("y", 99))
	f.see("g")
	_, err := f.engine.Apply(t.Context(), f.origin, f.path("f"), edit.Replacement{Old: "x", New: "y"})
	wantError(t, err, tool.ResourceExhausted, "101 bytes", "100")
	_, err = f.engine.Apply(t.Context(), f.origin, f.path("g"), edit.Replacement{Old: strings.Repeat("y", 99), New: strings.Repeat("z", 200)})
	wantError(t, err, tool.ResourceExhausted, "200 bytes")
	_, err = f.engine.Write(t.Context(), f.origin, f.path("g"), "abc", true)
	wantError(t, err, tool.ResourceExhausted)
}

func TestJournalFullChangesNothing(t *testing.T) {
	f := newFixture(t, edit.Config{})
	f.write("f", "one\n")
	f.see("f")
	f.journal.full = true
	_, err := f.engine.Apply(t.Context(), f.origin, f.path("f"), edit.Replacement{Old: "one", New: "two"})
	wantError(t, err, tool.ResourceExhausted, "journal")
	if got := f.read("f"); got != "one\n" {
		t.Errorf("the file changed: %q", got)
	}
	f.noTemps()
}

func TestLockWaitEndsWithContext(t *testing.T) {
	f := newFixture(t, edit.Config{})
	f.write("f", "one\n")
	f.see("f")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(tool.ErrTimeout)
	if _, err := f.engine.Apply(ctx, f.origin, f.path("f"), edit.Replacement{Old: "one", New: "two"}); !errors.Is(err, tool.ErrTimeout) {
		t.Errorf("got %v", err)
	}
	if got := f.read("f"); got != "one\n" {
		t.Errorf("the file changed: %q", got)
	}
}

func TestResultSaysWhatHappened(t *testing.T) {
	f := newFixture(t, edit.Config{MaxDiff: 400})
	f.write("f", "a\r\nb\r\nc\r\n")
	f.see("f")
	r, err := f.engine.Apply(t.Context(), f.origin, f.path("f"), edit.Replacement{Old: "b", New: "x\ny"})
	if err != nil {
		t.Fatal(err)
	}
	const want = "--- a/f\n+++ b/f\n@@ -1,3 +1,4 @@\n a\r\n-b\r\n+x\r\n+y\r\n c\r\n"
	if r.Diff.Text != want || r.Diff.Insertions != 2 || r.Diff.Deletions != 1 || r.Replacements != 1 {
		t.Errorf("diff %q, %+v", r.Diff.Text, r)
	}
	if r.Hash != edit.Sum([]byte(f.read("f"))) || r.Path != "f" {
		t.Errorf("%+v", r)
	}
	r, err = f.engine.Write(t.Context(), f.origin, f.path("f"), strings.Repeat("long line\n", 200), false)
	if err != nil || !r.Diff.Cut || len(r.Diff.Text) > 500 || !strings.Contains(r.Diff.Text, "more lines of the diff are not shown") {
		t.Errorf("%d bytes of diff, cut %v, %v", len(r.Diff.Text), r.Diff.Cut, err)
	}
}
