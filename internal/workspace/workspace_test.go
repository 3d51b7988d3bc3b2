package workspace_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/workspace"
	"github.com/toolyard/toolyard/tool"
)

// tree makes files (name to content), directories (names with a final slash)
// and symlinks ("name -> target") below a new directory, and gives its real
// path.
func tree(t testing.TB, entries ...string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		name, target, link := strings.Cut(entry, " -> ")
		full := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(full), 0o755)
		switch {
		case err != nil:
		case link:
			err = os.Symlink(strings.ReplaceAll(target, "$DIR", dir), full)
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(full, 0o755)
		default:
			err = os.WriteFile(full, []byte(name), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func open(t testing.TB, c workspace.Config) *workspace.Workspace {
	t.Helper()
	w, err := workspace.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func TestResolve(t *testing.T) {
	dir := tree(t,
		"app/src/main.go", "app/src/deep/x", "app2/secret", "outside/secret", "granted/ok", "readonly/r", "home/h",
		"app/inner -> src/deep", "app/abs -> $DIR/app/src", "app/up -> ../app2/secret", "app/out -> $DIR/outside", "app/proc -> /proc/self/root",
		"app/toGranted -> $DIR/granted/ok", "app/dangling -> src/new.go", "app/danglingOut -> $DIR/outside/new", "app/loop1 -> loop2", "app/loop2 -> loop1",
		"app/through -> inner/../main.go", "app/new\nline", "app/sp ace", "app/ignored/f", "app/back -> .",
	)
	w := open(t, workspace.Config{
		Dir: filepath.Join(dir, "app"), Write: []string{filepath.Join(dir, "granted")}, Read: []string{filepath.Join(dir, "readonly")},
		Home:    filepath.Join(dir, "home"),
		Ignored: func(rel string, _ bool) bool { return strings.HasPrefix(rel, "ignored") },
	})
	const outside, missing, wrong = tool.PermissionDenied, tool.NotFound, tool.ParameterError
	tests := []struct {
		name, path string
		access     workspace.Access
		want       string // below dir; "" is an error
		code       tool.Code
		absent     bool
	}{
		{name: "plain", path: "src/main.go", access: workspace.Write, want: "app/src/main.go"},
		{name: "dots", path: "./src//deep/../main.go", want: "app/src/main.go"},
		{name: "absolute", path: dir + "/app/src/main.go", want: "app/src/main.go"},
		{name: "root", path: ".", want: "app"},
		{name: "new file", path: "src/a/b/c", access: workspace.Write, want: "app/src/a/b/c", absent: true},
		{name: "link inside", path: "inner/x", want: "app/src/deep/x"},
		{name: "absolute link inside", path: "abs/main.go", want: "app/src/main.go"},
		{name: "dotdot after a link goes where the link leads", path: "inner/../main.go", want: "app/src/main.go"},
		{name: "link with dotdot", path: "through", want: "app/src/main.go"},
		{name: "link to itself as a directory", path: "back/back/src/main.go", want: "app/src/main.go"},
		{name: "link to a granted directory", path: "toGranted", access: workspace.Write, want: "granted/ok"},
		{name: "dangling link inside", path: "dangling", access: workspace.Write, want: "app/src/new.go", absent: true},
		{name: "newline in a name", path: "new\nline", want: "app/new\nline"},
		{name: "space in a name", path: "sp ace", want: "app/sp ace"},
		{name: "granted for reading", path: dir + "/readonly/r", want: "readonly/r"},
		{name: "name that begins with dots", path: "..src", want: "app/..src", absent: true},

		{name: "empty", path: "", code: wrong},
		{name: "NUL", path: "a\x00b", code: wrong},
		{name: "dotdot", path: "../outside/secret", code: outside},
		{name: "many dotdots", path: strings.Repeat("../", 50) + "etc/passwd", code: outside},
		{name: "dotdot in the middle", path: "src/../../outside/secret", code: outside},
		{name: "absolute outside", path: "/etc/passwd", code: outside},
		{name: "sibling with the same prefix", path: dir + "/app2/secret", code: outside},
		{name: "sibling by dotdot", path: "../app2/secret", code: outside},
		{name: "link to a sibling", path: "up", code: outside},
		{name: "link to a directory outside", path: "out/secret", code: outside},
		{name: "link to /proc/self/root", path: "proc/etc/passwd", code: outside},
		{name: "/proc/self/root", path: "/proc/self/root" + dir + "/app/src/main.go", code: outside},
		{name: "/proc/self/cwd", path: "/proc/self/cwd/workspace.go", code: outside},
		{name: "dangling link that leaves", path: "danglingOut", access: workspace.Write, code: outside},
		{name: "loop", path: "loop1", code: wrong},
		{name: "write where only reading is granted", path: dir + "/readonly/r", access: workspace.Write, code: outside},
		{name: "home is not granted", path: "~/h", code: outside},
		{name: "ignored", path: "ignored/f", code: outside},
		{name: "ignored by another way", path: "src/../ignored/f", code: outside},
		{name: "a file as a directory", path: "src/main.go/x", code: missing},
		{name: "a file with a final slash", path: "src/main.go/", code: missing},
		{name: "dotdot after a missing name", path: "nothing/../src/main.go", code: missing},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p, err := w.Resolve(test.path, test.access)
			if test.code != "" {
				var e *tool.Error
				if !errors.As(err, &e) || e.Code != test.code {
					t.Fatalf("Resolve(%q) = %+v, %v; want %s", test.path, p, err, test.code)
				}
				if strings.Contains(e.Text(), "secret") && !strings.Contains(test.path, "secret") {
					t.Errorf("the error names a neighbour: %s", e.Text())
				}
				return
			}
			if err != nil {
				t.Fatalf("Resolve(%q): %v", test.path, err)
			}
			if want := filepath.Join(dir, test.want); p.Real != want {
				t.Errorf("Resolve(%q).Real = %q, want %q", test.path, p.Real, want)
			}
			if p.Exists() == test.absent {
				t.Errorf("Resolve(%q).Exists() = %v", test.path, p.Exists())
			}
		})
	}
}

// TestSwapRace swaps a directory for a symlink that leaves, while files are
// resolved and opened through it. What is read must never lie outside.
func TestSwapRace(t *testing.T) {
	dir := tree(t, "app/d/f", "app/keep/f", "outside/f")
	w := open(t, workspace.Config{Dir: filepath.Join(dir, "app")})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	d, link, aside := filepath.Join(dir, "app/d"), filepath.Join(dir, "app/l"), filepath.Join(dir, "app/aside")
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			os.Rename(d, aside)
			os.Symlink(filepath.Join(dir, "outside"), link)
			os.Rename(link, d)
			os.Remove(d)
			os.Rename(aside, d)
		}
	})
	defer wg.Wait()
	defer close(stop)
	opened := 0
	for range 3000 {
		p, err := w.Resolve("d/f", workspace.Read)
		if err != nil {
			continue
		}
		if f, err := p.Open(); err == nil {
			b := make([]byte, 100)
			n, _ := f.Read(b)
			f.Close()
			if string(b[:n]) != "app/d/f" {
				t.Fatalf("read %q", b[:n])
			}
			opened++
		}
		if b, _, ok := p.Small(make([]byte, 100)); ok && string(b) != "app/d/f" {
			t.Fatalf("read %q through Small", b)
		}
		if parent, _, err := p.Parent(false); err == nil {
			b, err := parent.ReadFile("f")
			parent.Close()
			if err == nil && string(b) != "app/d/f" {
				t.Fatalf("read %q through Parent", b)
			}
		}
	}
	if opened == 0 {
		t.Error("the race never let a file be opened")
	}
}

// TestParentRefusesSwappedDirectory: a directory that has become a symlink to
// another one inside the workspace is another place, and must be refused too.
func TestParentRefusesSwappedDirectory(t *testing.T) {
	dir := tree(t, "d/f", ".git/hooks/f")
	w := open(t, workspace.Config{Dir: dir})
	p, err := w.Resolve("d/f", workspace.Write)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "d"), filepath.Join(dir, "e")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(".git/hooks", filepath.Join(dir, "d")); err != nil {
		t.Fatal(err)
	}
	if parent, _, err := p.Parent(true); err == nil {
		parent.Close()
		t.Error("Parent followed a symlink that was not there when the path was resolved")
	}
}

func TestSpecialFilesNeverHang(t *testing.T) {
	dir := tree(t, "f")
	if err := mkfifo(filepath.Join(dir, "fifo")); err != nil {
		t.Skip("no FIFOs here:", err)
	}
	w := open(t, workspace.Config{Dir: dir, Read: []string{"/dev"}})
	for _, name := range []string{"fifo", "/dev/null", "/dev/zero", "."} {
		p, err := w.Resolve(name, workspace.Read)
		if err != nil {
			t.Fatal(err)
		}
		f, err := p.Open()
		if tool.AsError(err) == nil || tool.AsError(err).Code != tool.ParameterError {
			t.Errorf("Open(%q) = %v, %v", name, f, err)
		}
	}
}

func TestNear(t *testing.T) {
	dir := tree(t, "src/main.go", "src/mail.go", "cmd/main.go", "README.md", "docs/readme.txt", "node_modules/main.go", "secret/main.go", "src/config.yaml", ".git/main.go")
	w := open(t, workspace.Config{Dir: dir, Ignored: func(rel string, _ bool) bool { return strings.HasPrefix(rel, "secret") }})
	tests := []struct {
		name string
		want []string
	}{
		{"src/mian.go", []string{"src/main.go", "cmd/main.go", "src/mail.go"}},
		{"main.go", []string{"cmd/main.go", "src/main.go", "src/mail.go"}},
		{"src/readme.md", []string{"README.md", "docs/readme.txt"}},
		{"src/config.yml", []string{"src/config.yaml"}},
		{"entirely/different", nil},
		{dir + "/src/mian.go", []string{"src/main.go", "cmd/main.go", "src/mail.go"}},
	}
	for _, test := range tests {
		if diff := cmp.Diff(test.want, w.Near(test.name)); diff != "" {
			t.Errorf("Near(%q): %s", test.name, diff)
		}
	}
	p, err := w.Resolve("src/mian.go", workspace.Read)
	if err != nil {
		t.Fatal(err)
	}
	if e := p.NotFound(); !strings.Contains(e.Hint, "src/main.go") || e.Code != tool.NotFound {
		t.Errorf("NotFound: %s", e.Text())
	}
	var many []string
	for i := range 20 {
		many = append(many, fmt.Sprintf("d%d/main.go", i))
	}
	if n := len(open(t, workspace.Config{Dir: tree(t, many...)}).Near("main.go")); n != 5 {
		t.Errorf("%d near names, want 5", n)
	}
}

func TestProtected(t *testing.T) {
	yes := []string{
		".git/hooks/pre-commit", ".git/config", "sub/.git/hooks", ".git/modules/x/hooks/post-checkout", ".git/worktrees/w/config.worktree", ".GIT/Config",
		".env", "a/.env.local", ".envrc", ".toolyard/config.yaml", ".toolyard", ".toolyardignore", "a/.toolyardignore", ".mcp.json", ".claude/settings.json", "x/.vscode/tasks.json", ".idea/w.xml",
		".bashrc", "home/.zshrc", ".profile", ".bash_profile", ".zprofile", ".zshenv",
	}
	no := []string{"src/main.go", ".git/HEAD", ".git/objects/ab", "git/config", "env", "config", ".github/workflows/ci.yml", "vscode/x", "a.env", ".gitignore", "toolyard/x"}
	for _, rel := range yes {
		if !workspace.Protected(rel) {
			t.Errorf("Protected(%q) = false", rel)
		}
	}
	for _, rel := range no {
		if workspace.Protected(rel) {
			t.Errorf("Protected(%q) = true", rel)
		}
	}
}

func TestOpenErrors(t *testing.T) {
	dir := tree(t, "file")
	for _, bad := range []string{filepath.Join(dir, "file"), filepath.Join(dir, "missing")} {
		if w, err := workspace.Open(workspace.Config{Dir: bad}); err == nil {
			w.Close()
			t.Errorf("Open(%q) succeeded", bad)
		}
	}
}

// FuzzResolve asserts that what a name resolves to lies below a root, with no
// symlink in it.
func FuzzResolve(f *testing.F) {
	dir := tree(f, "app/src/main.go", "outside/secret", "app2/x", "app/in -> src", "app/out -> ../outside", "app/loop -> loop", "app/abs -> $DIR/app2", "granted/g",
		"app/g -> $DIR/granted", "granted/back -> $DIR/app/src")
	w := open(f, workspace.Config{Dir: filepath.Join(dir, "app"), Write: []string{filepath.Join(dir, "granted")}, Home: dir})
	roots := []string{filepath.Join(dir, "app"), filepath.Join(dir, "granted")}
	for _, seed := range []string{"src/main.go", "../outside", "in/../out/secret", "g/back/main.go", dir + "/app2/x", "~/app/src", "out", "loop/x", "/proc/self/root", "a/../../app2", "in/./../g//g"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		p, err := w.Resolve(name, workspace.Write)
		if err != nil {
			return
		}
		if !slices.ContainsFunc(roots, func(r string) bool { return p.Real == r || strings.HasPrefix(p.Real, r+"/") }) {
			t.Fatalf("Resolve(%q).Real = %q lies outside", name, p.Real)
		}
		if filepath.Clean(p.Real) != p.Real || strings.Contains(p.Rel, "..") && slices.Contains(strings.Split(p.Rel, "/"), "..") {
			t.Fatalf("Resolve(%q): Real %q, Rel %q", name, p.Real, p.Rel)
		}
		if p.Exists() {
			if real, err := filepath.EvalSymlinks(p.Real); err != nil || real != p.Real {
				t.Fatalf("Resolve(%q).Real = %q, which is %q, %v", name, p.Real, real, err)
			}
		}
	})
}

func BenchmarkResolve(b *testing.B) {
	dir := tree(b, "a/b/c/d/e/f.go", "a/link -> b")
	w := open(b, workspace.Config{Dir: dir})
	for _, name := range []string{"a/b/c/d/e/f.go", "a/link/c/d/e/f.go"} {
		b.Run(strings.ReplaceAll(name, "/", "_"), func(b *testing.B) {
			for b.Loop() {
				if _, err := w.Resolve(name, workspace.Read); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
