package search

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
)

// tree is a directory of files for grep.
func tree(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	plant(t, dir, files)
	return dir
}

func utf16Text(s string, big bool) string {
	var b bytes.Buffer
	for _, u := range append([]uint16{0xfeff}, utf16.Encode([]rune(s))...) {
		if big {
			b.Write([]byte{byte(u >> 8), byte(u)})
		} else {
			b.Write([]byte{byte(u), byte(u >> 8)})
		}
	}
	return b.String()
}

// Files that ripgrep treats in a way of its own. The one with the long line comes
// last: ripgrep keeps the buffer that has grown for it, and where its buffers end
// decides what it searches of a binary file.
func TestGrepOddFilesAsRipgrep(t *testing.T) {
	zeros := strings.Repeat("\x00", 10)
	filler := strings.Repeat("a line of the file that fills it\n", 4000) // 132,000 bytes
	var big strings.Builder
	for i := range 300_000 {
		fmt.Fprintf(&big, "line %d of a file that is larger than a window\n", i)
	}
	dir := tree(t, map[string]string{
		"crlf.txt": "needle\r\nhay\r\nneedle two\r\n", "nofinal.txt": "hay\nneedle", "empty.txt": "", "only-newlines.txt": "\n\n\n",
		"nul-first.bin": "needle\n" + zeros, "nul-late.bin": "needle early\n" + filler + "needle\n" + zeros + "\nneedle after\n",
		"nul-mid.bin": filler + zeros + "needle\n", "le.txt": utf16Text("hay\nneedle é\n", false), "be.txt": utf16Text("needle 🎈\n", true),
		"bom.txt": "\xef\xbb\xbfneedle with bom\n", "latin1.txt": "needle caf\xe9\nna\xefve needle\n", "big.txt": big.String() + "needle at the end", "zz-long.txt": strings.Repeat("x", 700_000) + "needle" + strings.Repeat("y", 100) + "\nneedle\n",
		"sub dir/file name.txt": "needle\n", ".hidden/x": "needle\n", "ignored.txt": "needle\n", ".gitignore": "ignored.txt\n", "a/b.txt": "needle\n", "a.txt": "needle\n", "a-b.txt": "needle\n",
	})
	for _, tt := range []struct {
		pattern       string
		po            PatternOptions
		before, after int
	}{
		{pattern: "needle"},
		{pattern: "^needle"},
		{pattern: "needle$"},
		{pattern: "n[^x]edle"},
		{pattern: "NEEDLE", po: PatternOptions{IgnoreCase: true}},
		{pattern: "needle", before: 2, after: 1},
		{pattern: "line 1234[0-9] ", before: 1},
		{pattern: "[0-9]99998 of|[0-9]99999 of", after: 2},
		{pattern: "caf."},
		{pattern: `\bna`},
		{pattern: "é|🎈"},
		{pattern: "", po: PatternOptions{Literal: true}},
		{pattern: "^$"},
		{pattern: `hay\r?\nneedle`, po: PatternOptions{Multiline: true}},
		{pattern: "fills it", after: 1},
	} {
		t.Run(fmt.Sprintf("%q %d %d", tt.pattern, tt.before, tt.after), func(t *testing.T) {
			args := []string{"-B", fmt.Sprint(tt.before), "-A", fmt.Sprint(tt.after), "-e", tt.pattern}
			if tt.po.IgnoreCase {
				args = append(args, "-i")
			}
			if tt.po.Multiline {
				args = append(args, "-U")
			}
			sameOutput(t, ours(t, dir, tt.pattern, tt.po, Options{}, GrepOptions{Before: tt.before, After: tt.after}), rg(t, dir, args...))
		})
	}
}

// The first matches in the order of the paths are told of, and the same ones on
// every run, although several files are searched at a time.
func TestGrepFirstLines(t *testing.T) {
	files := map[string]string{}
	for i := range 300 {
		files[fmt.Sprintf("d%d/f%03d.txt", i%7, i)] = strings.Repeat("needle\n", 1+i%5)
	}
	dir := tree(t, files)
	all := ours(t, dir, "needle", PatternOptions{}, Options{}, GrepOptions{})
	lines := strings.SplitAfter(all, "\n")
	for _, n := range []int{1, 7, 100, 898, 899, 900, 901} {
		p, err := Compile("needle", PatternOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		report, err := Grep(context.Background(), place(t, dir), Options{}, GrepOptions{Pattern: p, Lines: true, MaxLines: n}, func(f *File) error {
			got.WriteString(asRG(f, false))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		total := len(lines) - 1
		if want := strings.Join(lines[:min(n, total)], ""); got.String() != want {
			t.Errorf("first %d: %q, want %q", n, got.String(), want)
		}
		if report.Matches != min(n, total) || report.Truncated != (n < total) {
			t.Errorf("first %d of %d: %+v", n, total, report)
		}
	}
}

func TestGrepEnds(t *testing.T) {
	files := map[string]string{}
	for i := range 400 {
		files[fmt.Sprintf("d%02d/f%d.txt", i%50, i)] = "needle\n"
	}
	dir := tree(t, files)
	p, err := Compile("needle", PatternOptions{})
	if err != nil {
		t.Fatal(err)
	}
	g := GrepOptions{Pattern: p, Lines: true}
	t.Run("by the context", func(t *testing.T) {
		cause := errors.New("stop")
		ctx, cancel := context.WithCancelCause(context.Background())
		_, err := Grep(ctx, place(t, dir), Options{}, g, func(*File) error { cancel(cause); return nil })
		if !errors.Is(err, cause) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("by emit", func(t *testing.T) {
		cause := errors.New("full")
		if _, err := Grep(context.Background(), place(t, dir), Options{}, g, func(*File) error { return cause }); !errors.Is(err, cause) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("by the budget", func(t *testing.T) {
		g := g
		g.Budget = time.Nanosecond
		report, err := Grep(context.Background(), place(t, dir), Options{}, g, func(*File) error { return nil })
		if err != nil || !report.Partial {
			t.Errorf("%+v %v", report, err)
		}
	})
	t.Run("by the budget inside a file", func(t *testing.T) {
		// So many states that each step is computed anew.
		p, err := Compile(`a.{600}\d\d`, PatternOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(5, 6))
		var b strings.Builder
		for range 3 << 20 {
			b.WriteByte("ab"[r.IntN(2)])
		}
		text := b.String()
		begin := time.Now()
		report, err := Grep(context.Background(), place(t, tree(t, map[string]string{"a": text})), Options{},
			GrepOptions{Pattern: p, Budget: 100 * time.Millisecond}, func(*File) error { return nil })
		if took := time.Since(begin); err != nil || !report.Partial || took > 5*time.Second {
			t.Errorf("%+v %v after %v", report, err, took)
		}
	})
	t.Run("no budget left over", func(t *testing.T) {
		g := g
		g.Budget = time.Hour
		report, err := Grep(context.Background(), place(t, dir), Options{}, g, func(*File) error { return nil })
		if err != nil || report.Partial || report.Searched != 400 || report.Matches != 400 {
			t.Errorf("%+v %v", report, err)
		}
	})
}

func TestGrepNamedFile(t *testing.T) {
	dir := tree(t, map[string]string{"a.bin": "needle\x00needle\n", "b.txt": "x\nneedle\nneedle\n"})
	p, err := Compile("needle", PatternOptions{})
	if err != nil {
		t.Fatal(err)
	}
	search := func(name string, max int) (*File, GrepReport) {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		found, report, err := GrepFile(context.Background(), f, name, GrepOptions{Pattern: p, Lines: true, MaxLines: max})
		if err != nil {
			t.Fatal(err)
		}
		return found, report
	}
	if f, _ := search("a.bin", 0); f == nil || f.Binary != 6 || f.Lines != nil {
		t.Errorf("binary: %+v", f)
	}
	if f, r := search("b.txt", 1); len(f.Lines) != 1 || f.Lines[0].Number != 2 || !r.Truncated {
		t.Errorf("one of two: %+v %+v", f, r)
	}
}

func TestCompileFaults(t *testing.T) {
	tests := []struct {
		pattern string
		caret   string // what stands above the caret
	}{
		{"foo(bar", "(bar"}, {"foo)bar", ")bar"}, {"[a-", "[a-"}, {"x[z-a]", "z-a"}, {"a**", "**"}, {`(?P<n`, ""}, {"é(x", "(x"},
		{`a(?=b)`, "(?=b)"}, {`a{1001}`, "{1001}"}, {`\1`, `\1`}, {"*a", "*a"},
	}
	for _, tt := range tests {
		_, err := Compile(tt.pattern, PatternOptions{})
		if err == nil {
			t.Errorf("%q: no error", tt.pattern)
			continue
		}
		lines := strings.Split(err.Error(), "\n")
		if tt.caret == "" {
			continue
		}
		if len(lines) != 3 {
			t.Errorf("%q: no place in %q", tt.pattern, err)
			continue
		}
		at := len([]rune(lines[2])) - 1
		if got := string([]rune(lines[1])[at:]); !strings.HasPrefix(got, tt.caret) {
			t.Errorf("%q: the caret is at %q, want %q", tt.pattern, got, tt.caret)
		}
	}
	if _, err := Compile("a\nb", PatternOptions{}); err == nil {
		t.Error("a newline is taken without multiline")
	}
}

func TestTypes(t *testing.T) {
	if n := len(Types()); n < 40 {
		t.Errorf("%d types", n)
	}
	for name, files := range map[string]string{"go": "a.go", "py": "a.py", "ts": "a.ts a.tsx", "make": "Makefile x.mk", "cpp": "a.cpp a.hh", "docker": "Dockerfile", "md": "README.md"} {
		m, err := newTypeMatcher(name)
		if err != nil {
			t.Fatal(err)
		}
		for f := range strings.FieldsSeq(files) {
			if !m.match(f) || m.match("x.unknown") {
				t.Errorf("type %s: %s", name, f)
			}
		}
	}
	if _, err := newTypeMatcher("nosuch"); err == nil {
		t.Error("an unknown type is taken")
	}
}
