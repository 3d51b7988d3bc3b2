package search

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// needRG finds ripgrep.
func needRG(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("rg")
	if err != nil {
		t.Skip("ripgrep is not installed")
	}
	return path
}

// goSource is the source tree of the Go that runs the tests.
func goSource(t testing.TB) string {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skip("the go command is not installed")
	}
	return filepath.Join(strings.TrimSpace(string(root)), "src")
}

// place opens a directory for a search.
func place(t testing.TB, dir string) Place {
	t.Helper()
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(real)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return Place{Dir: f, Path: real, Boundary: real}
}

// asRG prints what was found as rg -n --no-heading does.
func asRG(f *File, groups bool) string {
	var b strings.Builder
	last := 0
	for _, l := range f.Lines {
		sep := byte('-')
		if l.Match {
			sep = ':'
		}
		if groups && last > 0 && l.Number > last+1 {
			b.WriteString("--\n")
		}
		last = l.Number
		fmt.Fprintf(&b, "%s%c%d%c%s\n", f.Path, sep, l.Number, sep, l.Text)
	}
	if f.Binary >= 0 {
		fmt.Fprintf(&b, "%s: WARNING: stopped searching binary file after match (found \"\\0\" byte around offset %d)\n", f.Path, f.Binary)
	}
	return b.String()
}

func ours(t testing.TB, dir, pattern string, po PatternOptions, o Options, g GrepOptions) string {
	t.Helper()
	var err error
	if g.Pattern, err = Compile(pattern, po); err != nil {
		t.Fatal(err)
	}
	g.Lines = true
	var out strings.Builder
	groups := g.Before+g.After > 0
	_, err = Grep(context.Background(), place(t, dir), o, g, func(f *File) error {
		if groups && out.Len() > 0 {
			out.WriteString("--\n")
		}
		out.WriteString(asRG(f, groups))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func rg(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command(needRG(t), append([]string{"--no-config", "--hidden", "--no-require-git", "--sort", "path", "-n", "--no-heading", "-g", "!.git"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if exit, ok := err.(*exec.ExitError); ok && exit.ExitCode() == 1 && len(out) == 0 {
		err = nil
	}
	if err != nil {
		t.Fatalf("rg %q: %v", args, err)
	}
	return strings.ReplaceAll(string(bytes.ToValidUTF8(out, []byte("?"))), "\r\n", "\n")
}

func sameOutput(t *testing.T, got, want string) {
	t.Helper()
	got = string(bytes.ToValidUTF8([]byte(got), []byte("?")))
	if got == want {
		return
	}
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range b { // lines are kept up to a bound
		if i < len(a) && len(a[i]) > keepLine && strings.HasPrefix(b[i], a[i]) {
			b[i] = a[i]
		}
	}
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			t.Fatalf("%d lines, ripgrep has %d (-ripgrep +ours):\n%s", len(a), len(b),
				cmp.Diff(b[min(i, len(b)):min(i+4, len(b))], a[min(i, len(a)):min(i+4, len(a))]))
		}
	}
}

func TestGrepAsRipgrep(t *testing.T) {
	src := goSource(t)
	tests := []struct {
		dir, pattern string
		po           PatternOptions
		o            Options
		before       int
		after        int
	}{
		{pattern: `Errorf`},
		{pattern: `zyxwvut`},
		{pattern: `TODO`},
		{pattern: `goroutine leak`},
		{pattern: `func.*error`},
		{pattern: `err != nil`},
		{pattern: `\w+Handler\b`},
		{pattern: `foo|bar|baz`},
		{pattern: `(?i)todo\(\w+\)`},
		{pattern: `^package main$`},
		{pattern: `^\s*return nil, err$`},
		{pattern: `\bunsafe\.Pointer\b`},
		{pattern: `https?://[a-z.]+/`},
		{pattern: `[A-Z]{6,}_[A-Z]+`, dir: "cmd"},
		{pattern: `\d{4}-\d{2}-\d{2}`, dir: "time"},
		{pattern: `x*y+z?`, dir: "regexp"},
		{pattern: `^$`, dir: "net/http"},
		{pattern: `.`, dir: "sort"},
		{pattern: `\.$`, dir: "os"},
		{pattern: `[^\x00-\x7F]`},
		{pattern: `é|ü|ß`},
		{pattern: `\p{Greek}`},
		{pattern: `\p{Han}+`},
		{pattern: `日本語`},
		{pattern: `\bé`, dir: "unicode"},
		{pattern: `\w+é\w*`, dir: "strings"},
		{pattern: `\W\W\W\W\W`, dir: "encoding"},
		{pattern: `\S+@\S+`, dir: "net"},
		{pattern: `\D\d\D\d\D`, dir: "math"},
		{pattern: `a.c`, po: PatternOptions{Literal: true}},
		{pattern: `f(x)`, po: PatternOptions{Literal: true}},
		{pattern: `[]byte{`, po: PatternOptions{Literal: true}},
		{pattern: `kelvin`, po: PatternOptions{IgnoreCase: true}},
		{pattern: `MASK`, po: PatternOptions{IgnoreCase: true}, dir: "crypto"},
		{pattern: `straße`, po: PatternOptions{IgnoreCase: true}},
		{pattern: `readall`, po: PatternOptions{IgnoreCase: true}},
		{pattern: `s`, po: PatternOptions{IgnoreCase: true}, dir: "sort"},
		{pattern: `ΣΊΣΥΦΟΣ`, po: PatternOptions{IgnoreCase: true}},
		{pattern: `func \(.*\) String\(\) string`, before: 2, after: 3},
		{pattern: `panic\(`, before: 1, dir: "bytes"},
		{pattern: `panic\(`, after: 1, dir: "bytes"},
		{pattern: `import`, before: 5, after: 5, dir: "go"},
		{pattern: `}`, before: 1, after: 1, dir: "errors"},
		{pattern: `Printf`, o: Options{Glob: "*_test.go"}},
		{pattern: `Printf`, o: Options{Glob: "!*_test.go"}, dir: "fmt"},
		{pattern: `main`, o: Options{Glob: "*.{s,h}"}},
		{pattern: `Printf`, o: Options{Glob: "cmd/go/**/*.go"}},
		{pattern: `the`, o: Options{Type: "md"}},
		{pattern: `MOVQ`, o: Options{Type: "asm"}, dir: "runtime"},
		{pattern: `func \w+\(\n`, po: PatternOptions{Multiline: true}, dir: "cmd"},
		{pattern: `\{\n\n`, po: PatternOptions{Multiline: true}, dir: "net"},
		{pattern: `(?s)/\*.{0,40}Copyright.*?\*/`, po: PatternOptions{Multiline: true}, dir: "cmd/go"},
		{pattern: `if err != nil \{\n\s+return err\n`, po: PatternOptions{Multiline: true}, dir: "net", before: 1, after: 1},
		{pattern: `PK`, dir: "archive"},
		{pattern: `the `},
		{pattern: `e`, dir: "image"},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s in %s", tt.pattern, tt.dir), func(t *testing.T) {
			dir := filepath.Join(src, tt.dir)
			var args []string
			add := func(on bool, a ...string) {
				if on {
					args = append(args, a...)
				}
			}
			add(tt.po.Literal, "-F")
			add(tt.po.IgnoreCase, "-i")
			add(tt.po.Multiline, "-U")
			add(tt.before > 0, "-B", fmt.Sprint(tt.before))
			add(tt.after > 0, "-A", fmt.Sprint(tt.after))
			add(tt.o.Glob != "", "-g", tt.o.Glob)
			add(tt.o.Type != "", "-t", tt.o.Type)
			want := rg(t, dir, append(args, "-e", tt.pattern)...)
			got := ours(t, dir, tt.pattern, tt.po, tt.o, GrepOptions{Before: tt.before, After: tt.after})
			sameOutput(t, got, want)
		})
	}
}
