package search

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWalkLeavesOut(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{"a": "", "src/node_modules/x/i.js": "", "src/x.js": "", ".hid/f": "", "node_modules": ""}
	for _, name := range leftOut {
		files["in/"+name+"/f"] = ""
	}
	plant(t, dir, files)
	want := []string{".hid", ".hid/f", "a", "in", "node_modules", "src", "src/x.js"}
	if d := cmp.Diff(want, walkSees(t, dir, Options{})); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if d := cmp.Diff([]string{"a", "in", "node_modules", "src", "src/x.js"}, walkSees(t, dir, Options{SkipHidden: true})); d != "" {
		t.Errorf("no hidden: -want +got:\n%s", d)
	}
	got := walkSees(t, dir, Options{Named: []string{"node_modules"}})
	if !slices.Contains(got, "src/node_modules/x/i.js") {
		t.Errorf("named, but left out: %v", got)
	}
	if got := walkSees(t, filepath.Join(dir, "src", "node_modules"), Options{}); !slices.Contains(got, "x/i.js") {
		t.Errorf("the path names it: %v", got)
	}
	if got := walkSees(t, dir, Options{MaxDepth: 1}); slices.Contains(got, "src/x.js") || !slices.Contains(got, "src") {
		t.Errorf("depth 1: %v", got)
	}
	if got := walkSees(t, dir, Options{Exclude: []string{"*.js", "/in"}}); slices.Contains(got, "src/x.js") || slices.Contains(got, "in") {
		t.Errorf("excluded: %v", got)
	}
}

func TestWalkFollowsNoSymlink(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	plant(t, outside, map[string]string{"secret": "needle"})
	plant(t, dir, map[string]string{"d/f": "needle", "line\nbreak": "needle", "bad\xffname": ""})
	for name, target := range map[string]string{"loop": ".", "d/up": "..", "out": outside, "out-file": filepath.Join(outside, "secret"), "dangling": "nowhere"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Skip("no symlinks here")
		}
	}
	want := []string{"bad\xffname", "d", "d/f", "d/up", "dangling", "line\nbreak", "loop", "out", "out-file"}
	if d := cmp.Diff(want, walkSees(t, dir, Options{})); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if got := ours(t, dir, "needle", PatternOptions{}, Options{}, GrepOptions{}); got != "d/f:1:needle\nline\nbreak:1:needle\n" {
		t.Errorf("grep: %q", got)
	}
}

// A directory that becomes a symlink between being listed and being opened is
// not entered, and a file is not read.
func TestWalkSwappedDirectory(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	plant(t, outside, map[string]string{"secret": "needle"})
	plant(t, dir, map[string]string{"d/f": "", "z": ""})
	var got []string
	report, err := Walk(context.Background(), place(t, dir), Options{}, func(v *Visit) error {
		got = append(got, v.Path())
		if v.Name == "d" {
			if err := os.Rename(filepath.Join(dir, "d"), filepath.Join(dir, "e")); err != nil {
				return err
			}
			return os.Symlink(outside, filepath.Join(dir, "d"))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"d", "z"}, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if report.Unreadable != 1 || !slices.Equal(report.Names, []string{"d"}) {
		t.Errorf("report: %+v", report)
	}
}

func TestWalkUnreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may read everything")
	}
	dir := t.TempDir()
	plant(t, dir, map[string]string{"a": "", "no/b": "", "z": ""})
	if err := os.Chmod(filepath.Join(dir, "no"), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(filepath.Join(dir, "no"), 0o755) })
	report, err := Walk(context.Background(), place(t, dir), Options{}, func(*Visit) error { return nil })
	if err != nil || report.Unreadable != 1 || report.Names[0] != "no" {
		t.Errorf("%+v %v", report, err)
	}
}

func TestWalkEnds(t *testing.T) {
	dir := t.TempDir()
	for i := range 200 {
		plant(t, dir, map[string]string{fmt.Sprintf("d%03d/f", i): ""})
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cause := errors.New("enough")
	seen := 0
	_, err := Walk(ctx, place(t, dir), Options{}, func(*Visit) error {
		if seen++; seen == 10 {
			cancel(cause)
		}
		return nil
	})
	if !errors.Is(err, cause) || seen > 200 {
		t.Errorf("%v after %d entries", err, seen)
	}
	if _, err := Walk(context.Background(), place(t, dir), Options{}, func(*Visit) error { return cause }); !errors.Is(err, cause) {
		t.Errorf("an error of visit: %v", err)
	}
}

func TestGlob(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir, map[string]string{"top.py": "", "src/a.py": "", "src/b.ts": "", "src/x/c.tsx": "", "node_modules/d.py": "", ".h/e.py": "", "ignored.py": "", ".gitignore": "ignored.py\n"})
	now := time.Now().Truncate(time.Second)
	for i, name := range []string{"src/x/c.tsx", "top.py", "src/a.py", "src/b.ts", ".h/e.py"} {
		at := now.Add(-time.Duration(i/2) * time.Hour) // two of the same time each
		if err := os.Chtimes(filepath.Join(dir, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		pattern string
		limit   int
		want    string
		total   int
	}{
		{"*.py", 0, "top.py", 1},
		{"**/*.py", 0, "top.py src/a.py .h/e.py", 3},
		{"**/*.py", 2, "top.py src/a.py", 3},
		{"**", 0, "src/x/c.tsx top.py src/a.py src/b.ts .h/e.py .gitignore", 6},
		{"**/*.{ts,tsx}", 0, "src/x/c.tsx src/b.ts", 2},
		{"src/*", 0, "src/a.py src/b.ts", 2},
		{"src/**/?.ts*", 1, "src/x/c.tsx", 2},
		{"node_modules/*.py", 0, "node_modules/d.py", 1},
		{"{node_modules,src}/*.py", 0, "node_modules/d.py src/a.py", 2},
		{"**/[!a].py", 0, ".h/e.py", 1},
		{"./*.py", 0, "top.py", 1},
	}
	for _, tt := range tests {
		g, err := CompileGlob(tt.pattern)
		if err != nil {
			t.Fatal(err)
		}
		files, report, err := Glob(context.Background(), place(t, dir), Options{}, g, tt.limit)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range files {
			got = append(got, f.Path)
		}
		// What has the time of the test itself comes first or last, by path.
		got = slices.DeleteFunc(got, func(s string) bool { return s == ".gitignore" })
		want := slices.DeleteFunc(strings.Fields(tt.want), func(s string) bool { return s == ".gitignore" })
		if d := cmp.Diff(want, got); d != "" || report.Total != tt.total {
			t.Errorf("%s: total %d, want %d, -want +got:\n%s", tt.pattern, report.Total, tt.total, d)
		}
	}
	for _, bad := range []string{"[a", "{a,b", "a}", `a\`} {
		if _, err := CompileGlob(bad); err == nil {
			t.Errorf("%s: no error", bad)
		} else if !strings.Contains(err.Error(), "position") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// Glob finds what ripgrep would search.
func TestGlobAsRipgrep(t *testing.T) {
	src := goSource(t)
	cmd := exec.Command(needRG(t), "--no-config", "--files", "--hidden", "--no-require-git", "--sort", "path")
	cmd.Dir = src
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	g, err := CompileGlob("**")
	if err != nil {
		t.Fatal(err)
	}
	files, report, err := Glob(context.Background(), place(t, src), Options{}, g, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		got = append(got, f.Path)
	}
	slices.SortFunc(got, byComponent)
	want := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(want) < 5000 || report.Total != len(want) || !slices.Equal(got, want) {
		t.Errorf("%d files, total %d, ripgrep has %d", len(got), report.Total, len(want))
	}
}
