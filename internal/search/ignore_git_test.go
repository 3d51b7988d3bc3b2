package search

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// git runs git in dir with nothing of the person's configuration.
func git(t testing.TB, dir, stdin string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "HOME=/nonexistent", "XDG_CONFIG_HOME=/nonexistent")
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.Output()
	if exit, ok := err.(*exec.ExitError); ok && exit.ExitCode() == 1 && args[0] != "init" {
		err = nil // nothing is ignored
	}
	if err != nil {
		t.Fatalf("git %q: %v", args, err)
	}
	return string(out)
}

func plant(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// gitSees lists what git check-ignore --no-index does not call ignored.
func gitSees(t testing.TB, dir string, args ...string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.Name() == ".git" {
			return fs.SkipDir
		}
		if rel, _ := filepath.Rel(dir, path); rel != "." {
			all = append(all, filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	out := git(t, dir, strings.Join(all, "\x00")+"\x00", append(args, "check-ignore", "--no-index", "-z", "--stdin")...)
	ignored := map[string]bool{}
	for name := range strings.SplitSeq(out, "\x00") {
		ignored[name] = true
	}
	all = slices.DeleteFunc(all, func(name string) bool { return ignored[name] })
	slices.SortFunc(all, byComponent)
	return all
}

// byComponent is the walk's order.
func byComponent(a, b string) int {
	return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/"))
}

func walkSees(t testing.TB, dir string, o Options) []string {
	t.Helper()
	all := []string{}
	_, err := Walk(context.Background(), place(t, dir), o, func(v *Visit) error {
		all = append(all, v.Path())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// matrix is a tree whose ignore files use everything that gitignore(5) has.
var matrix = map[string]string{
	".gitignore": strings.Join([]string{
		"# a comment", "", "*.log", "!keep.log", "build/", "/rooted", "doc/frotz", "/sub/only.txt", "foo/**", "**/deep", "a/**/z",
		`\#hash`, `\!bang`, "trail   ", `space\ `, "[abc].txt", "[!a-y].md", "qu?stion", `lit\*eral`, "dir/*", "!dir/stay", "closed/",
		"!closed/open", "x/*/y", "**/mid/**/end", "abc**/ghi", "*.t[mx]p", "[[:digit:]]num", "tab\t", "*/shallow", "[]]brk", `[\]]esc`,
		"negdir/", "!negdir/", "**", "!**/", "!*.*", "!/[a-z]*", "*.log", "!keep.log", "build/", "doc/frotz", "node", "!sub/node", "crlf\r", "UPPER", "é", "star*mid*end", "[a-", "t[^x]t", "{a,b}.br", "/**/slash", "last",
	}, "\n"),
	"sub/.gitignore":        "!wanted.log\n/here\nlocal\n*.bak\n!important.bak\nnested/**/x\n",
	"sub/deeper/.gitignore": "*\n!.gitignore\n!visible\n!inner/\n",
	"bom/.gitignore":        "\xef\xbb\xbffirst\nsecond",
	"empty/.gitignore":      "",
	"onlyneg/.gitignore":    "!*.log\n",
}

var matrixPaths = strings.Fields(`
	a.log keep.log x/a.log x/keep.log build/a build/b/c sub/build sub/build2/build/x rooted sub/rooted/x doc/frotz sub/doc/frotz doc/a
	sub/only.txt only.txt foo/a foo/b/c sub/foo/a deep x/deep x/q/deep a/z a/b/z a/b/c/z a/zz/q #hash !bang trail space a.txt b.txt d.txt sub/c.txt
	a.md z.md qustion question quXstion qu/stion lit*eral litXeral dir/a dir/stay dir/b/c closed/open closed/x x/1/y x/1/2/y x/y mid/end q/mid/end
	mid/1/2/end q/mid/r/end abc/ghi abcd/ghi abcd/e/ghi abc/d/e/ghi a.tmp a.txp a.tsp 1num xnum tab one/shallow one/two/shallow shallow ]brk brk ]esc esc
	negdir/a node sub/node x/node crlf UPPER upper é sub/é starXmidXend starmidend starmiend [a- tat txt t/t a.br {a,b}.br slash one/slash one/two/slash last lastx
	sub/a.log sub/wanted.log sub/q/wanted.log sub/here sub/q/here sub/local/x sub/q/local sub/a.bak sub/important.bak sub/nested/x sub/nested/y/x sub/nested/y/z
	sub/deeper/a sub/deeper/visible sub/deeper/inner/a sub/deeper/inner/visible bom/first bom/second bom/third empty/a empty/a.log onlyneg/a.log onlyneg/b.txt
	.hidden .hid/den Z1 9 A.B mixed.Case mixed/dir.with.dots/file.name.ext x.y/.z info-excluded q/info-excluded global-excluded q/global-excluded global/deep/file`)

func TestIgnoreAsGit(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir, matrix)
	for _, name := range matrixPaths {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); err != nil {
			if err := os.WriteFile(path, []byte("text\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	global := filepath.Join(t.TempDir(), "excludes")
	if err := os.WriteFile(global, []byte("global-excluded\n/global/deep\n!a.log\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "", "init", "-q")
	plant(t, dir, map[string]string{".git/info/exclude": "info-excluded\nkeep.log\n"})
	o := Options{ExcludesFile: global}
	want := gitSees(t, dir, "-c", "core.excludesFile="+global)
	if len(matrixPaths) < 120 || len(want) < 40 {
		t.Fatalf("%d paths, git sees %d: too few to tell anything", len(matrixPaths), len(want))
	}
	if d := cmp.Diff(want, walkSees(t, dir, o)); d != "" {
		t.Errorf("-git +ours:\n%s", d)
	}
	// A search that begins further down knows what stands above.
	for _, below := range []string{"sub", "sub/deeper", "x", "a/b"} {
		at := place(t, filepath.Join(dir, below))
		at.Boundary = ""
		var got []string
		if _, err := Walk(context.Background(), at, o, func(v *Visit) error {
			got = append(got, below+"/"+v.Path())
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		var part []string
		for _, name := range want {
			if strings.HasPrefix(name, below+"/") {
				part = append(part, name)
			}
		}
		if d := cmp.Diff(part, got); d != "" {
			t.Errorf("from %s: -git +ours:\n%s", below, d)
		}
	}
	t.Run("without a repository", func(t *testing.T) {
		if err := os.Remove(filepath.Join(dir, ".git", "info", "exclude")); err != nil {
			t.Fatal(err)
		}
		want := gitSees(t, dir)
		if err := os.RemoveAll(filepath.Join(dir, ".git")); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, walkSees(t, dir, Options{})); d != "" {
			t.Errorf("-git +ours:\n%s", d)
		}
	})
}

// Random ignore files over a fixed tree.
func TestIgnoreAsGitRandomly(t *testing.T) {
	dir := t.TempDir()
	for _, name := range strings.Fields("a bb ab abc a.b b/a b/b b/ab c/a/b c/a/a/b c/b/a/ab d/d/d/d .a .b/a a-b a] a[ a!b *x ?y c/*z") {
		plant(t, dir, map[string]string{name: ""})
	}
	git(t, dir, "", "init", "-q")
	r := rand.New(rand.NewPCG(3, 4))
	atoms := []string{"a", "b", "*", "**", "/", "?", "[ab]", "[!a]", "!", "\\", " ", "**/", "/**", "d", "c/", ".", "[", "]", "a*", "-", "[a-c]", "[[:alpha:]]", "\\*", "#"}
	for range 250 {
		var content strings.Builder
		for range 1 + r.IntN(4) {
			for range 1 + r.IntN(5) {
				content.WriteString(atoms[r.IntN(len(atoms))])
			}
			content.WriteByte('\n')
		}
		files := map[string]string{".gitignore": content.String(), "c/.gitignore": "!" + atoms[r.IntN(len(atoms))] + "\n"}
		plant(t, dir, files)
		if d := cmp.Diff(gitSees(t, dir), walkSees(t, dir, Options{})); d != "" {
			t.Fatalf("%q: -git +ours:\n%s", files, d)
		}
	}
}

// A repository in a repository has rules of its own, as to ripgrep.
func TestNestedRepository(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir, map[string]string{".gitignore": "*.log\n", "a.log": "", "in/.git/info/exclude": "secret\n", "in/b.log": "", "in/secret": "", "in/.gitignore": "*.tmp\n", "in/c.tmp": "", "work/.git": "gitdir: ../in/.git\n", "work/secret": "", "work/x": ""})
	want := []string{".gitignore", "in", "in/.gitignore", "in/b.log", "work", "work/.git", "work/x"}
	if d := cmp.Diff(want, walkSees(t, dir, Options{})); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestClosed(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir, map[string]string{
		".toolyardignore": "secret/\n*.key\n/top\n!ok.key\n", ".gitignore": "!secret/\n!*.key\n", "in/.toolyardignore": "local\n!*.key\n", "secret/a": "",
		"a.key": "", "in/a.key": "", "in/ok.key": "", "in/local": "", "local": "", "top": "", "in/top": "", "in/secret/b": "", "x": "",
	})
	closed := ToolyardIgnore(dir)
	tests := []struct {
		path string
		dir  bool
		want bool
	}{
		{".", true, false}, {"x", false, false}, {"secret", true, true}, {"secret", false, false}, {"secret/a", false, true}, {"secret/q/r", false, true},
		{"a.key", false, true}, {"in/a.key", false, true}, {"in/ok.key", false, false}, {"in/local", false, true}, {"local", false, false},
		{"top", false, true}, {"in/top", false, false}, {"in/secret/b", false, true}, {"in", true, false}, {"missing/dir/b.key", false, true},
	}
	for _, tt := range tests {
		if got := closed(tt.path, tt.dir); got != tt.want {
			t.Errorf("closed(%q, %v) = %v, want %v", tt.path, tt.dir, got, tt.want)
		}
	}
	want := []string{".gitignore", ".toolyardignore", "in", "in/.toolyardignore", "in/ok.key", "in/top", "local", "x"}
	if d := cmp.Diff(want, walkSees(t, dir, Options{})); d != "" {
		t.Errorf("walk: -want +got:\n%s", d)
	}
	if got := walkSees(t, dir, Options{Glob: "*.key"}); slices.Contains(got, "a.key") {
		t.Errorf("a glob opens what is closed: %v", got)
	}
	at := place(t, filepath.Join(dir, "secret"))
	at.Boundary = place(t, dir).Path
	if _, err := Walk(context.Background(), at, Options{}, func(*Visit) error { return nil }); err == nil {
		t.Error("a search inside a closed directory is allowed")
	}
	plant(t, dir, map[string]string{".toolyardignore": "x\nlonger\n"})
	if closed("a.key", false) || !closed("x", false) {
		t.Error("a change of the file is not seen")
	}
	if err := os.Remove(filepath.Join(dir, ".toolyardignore")); err != nil {
		t.Fatal(err)
	}
	if closed("x", false) {
		t.Error("the file is gone but still counts")
	}
}

func FuzzIgnore(f *testing.F) {
	f.Add([]byte("*.log\n!a/b\n[a-\n**/x"), "a/b/x.log", true)
	f.Add([]byte("a**/b\n\\"), "ax/b", false)
	f.Fuzz(func(t *testing.T, content []byte, path string, dir bool) {
		if len(content) > 200 || len(path) > 60 || path == "" || strings.HasSuffix(path, "/") {
			return
		}
		list := parsePatterns(content)
		name := path[strings.LastIndexByte(path, '/')+1:]
		got := list.match(path, name, dir)
		// The same one by one, with no index over the patterns.
		want := undecided
		for i := range list.all {
			p := &list.all[i]
			if (p.dirOnly && !dir) || !p.match(path, name) {
				continue
			}
			if want = excluded; p.negative {
				want = included
			}
		}
		if got != want {
			t.Fatalf("%q of %q: %v, want %v", content, path, got, want)
		}
		if bytes.Count(content, []byte("\n"))+1 < len(list.all) {
			t.Fatalf("%d patterns in %q", len(list.all), content)
		}
	})
}

func ExampleToolyardIgnore() {
	closed := ToolyardIgnore("/nonexistent")
	fmt.Println(closed("a/b", false))
	// Output: false
}
