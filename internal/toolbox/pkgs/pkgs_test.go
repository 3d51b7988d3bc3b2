package pkgs_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/toolbox/pkgs"
	"github.com/toolyard/toolyard/tool"
)

// open makes a toolbox in an empty directory.
func open(t testing.TB, change func(*pkgs.Config)) *pkgs.Packages {
	t.Helper()
	c := pkgs.Config{Home: filepath.Join(t.TempDir(), "toolbox"), Wait: 5 * time.Second}
	if change != nil {
		change(&c)
	}
	p, err := pkgs.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// plant writes files; a name that ends with / is a folder, one that ends with *
// may be executed.
func plant(t testing.TB, dir string, files map[string]string) string {
	t.Helper()
	for name, text := range files {
		full := filepath.Join(dir, strings.TrimSuffix(name, "*"))
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(full, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := fs.FileMode(0o644)
		if strings.HasSuffix(name, "*") {
			mode = 0o755
		}
		if err := os.WriteFile(full, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// tree reads all files of a folder.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		switch {
		case d.IsDir():
			if rel != "." {
				files[rel+"/"] = ""
			}
		case d.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(name)
			files[rel] = "→ " + to
			return err
		default:
			text, err := os.ReadFile(name)
			files[rel] = string(text)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// hello is a tool of some version.
func hello(version string) map[string]string {
	return map[string]string{
		"hello.tool.js": "export default { execute() { return '" + version + "' } }\n",
		"package.json":  `{"name": "hello", "version": "` + version + `", "type": "module"}` + "\n",
		"lib/words.js":  "export const version = '" + version + "'\n",
	}
}

// fetch gets a package that is closed with the test.
func fetch(t testing.TB, p *pkgs.Packages, source string) *pkgs.Fetched {
	t.Helper()
	f, err := p.Fetch(t.Context(), source, nil)
	if err != nil {
		t.Fatalf("fetching %s: %v", source, err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// install puts a folder into a toolbox.
func install(t testing.TB, p *pkgs.Packages, dir string) *pkgs.Installed {
	t.Helper()
	in, err := p.Install(t.Context(), fetch(t, p, dir), pkgs.Hooks{})
	if err != nil {
		t.Fatalf("installing %s: %v", dir, err)
	}
	return in
}

// want compares the error's code and a part of what it says.
func wantError(t testing.TB, err error, code tool.Code, part string) {
	t.Helper()
	e, ok := errors.AsType[*tool.Error](err)
	if !ok || e.Code != code || !strings.Contains(e.Text(), part) {
		t.Errorf("got %v (%v), want %s with %q", err, tool.AsError(err), code, part)
	}
}

// noStage checks that the staging area is empty.
func noStage(t testing.TB, p *pkgs.Packages) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(filepath.Dir(p.Dir("x")), ".staging"))
	if err != nil || len(entries) > 0 {
		t.Errorf("left in the staging area: %v, %v", entries, err)
	}
}

func zipped(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(files[name])); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func tarred(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		text := h.Uname // the content of a test's file
		h.Uname = ""
		h.Size = int64(len(text))
		if h.Mode == 0 && h.Typeflag != tar.TypeXGlobalHeader {
			h.Mode = 0o644
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func files(all map[string]string) []tar.Header {
	var headers []tar.Header
	for _, name := range slices.Sorted(maps.Keys(all)) {
		headers = append(headers, tar.Header{Name: name, Uname: all[name], Typeflag: tar.TypeReg})
	}
	return headers
}

func gzipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Write(b)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func prefixed(prefix string, files map[string]string) map[string]string {
	out := map[string]string{}
	for name, text := range files {
		out[prefix+name] = text
	}
	return out
}

// installedTree is what a folder has after hello was installed.
func installedTree(version string, own map[string]string) map[string]string {
	files := hello(version)
	files["lib/"], files["data/"], files["logs/"] = "", "", ""
	maps.Copy(files, own)
	return files
}

// TestInstallKinds: the same tool from each kind of file gives the same folder.
func TestInstallKinds(t *testing.T) {
	dir := t.TempDir()
	sources := map[string][]byte{
		"hello.zip":      zipped(t, hello("1.0.0")),
		"nested.zip":     zipped(t, prefixed("hello-main/", hello("1.0.0"))),
		"hello.tar":      tarred(t, files(hello("1.0.0"))...),
		"hello.tar.gz":   gzipped(t, tarred(t, files(prefixed("./", hello("1.0.0")))...)),
		"hello.tgz":      gzipped(t, tarred(t, files(prefixed("package/", hello("1.0.0")))...)),
		"really-zip.tgz": zipped(t, hello("1.0.0")),
		"hello.mcpb": zipped(t, func() map[string]string {
			f := hello("1.0.0")
			f["manifest.json"] = `{"name": "hello", "version": "1.0.0"}`
			return f
		}()),
	}
	plant(t, filepath.Join(dir, "folder"), hello("1.0.0"))
	names := slices.Sorted(maps.Keys(sources))
	for _, name := range names {
		plant(t, dir, map[string]string{name: string(sources[name])})
	}
	for _, name := range append(names, "folder") {
		t.Run(name, func(t *testing.T) {
			p := open(t, nil)
			f := fetch(t, p, filepath.Join(dir, name))
			if f.Name != "hello" || f.Version != "1.0.0" || f.File != "hello.tool.js" || filepath.Base(f.Dir) != "hello" {
				t.Errorf("fetched %+v", f)
			}
			in, err := p.Install(t.Context(), f, pkgs.Hooks{})
			if err != nil {
				t.Fatal(err)
			}
			want := installedTree("1.0.0", nil)
			if name == "hello.mcpb" {
				want["manifest.json"] = `{"name": "hello", "version": "1.0.0"}`
			}
			if diff := cmp.Diff(want, tree(t, p.Dir("hello"))); diff != "" {
				t.Errorf("the folder (-want +got):\n%s", diff)
			}
			if in.Number != 1 || in.Source != filepath.Join(dir, name) {
				t.Errorf("installed %+v", in)
			}
			f.Close()
			noStage(t, p)
			v, err := p.Verify(t.Context(), "hello")
			if err != nil || !v.OK {
				t.Errorf("verify: %+v, %v", v, err)
			}
		})
	}
}

// TestHooks: each is called with a folder that is named as the tool, in order,
// and one that fails leaves nothing.
func TestHooks(t *testing.T) {
	src := plant(t, t.TempDir(), hello("1.0.0"))
	for _, fails := range []string{"validate", "confirm", "dependencies", "test", ""} {
		t.Run("fails_"+fails, func(t *testing.T) {
			p := open(t, nil)
			var called []string
			call := func(name string) func(context.Context, string) error {
				return func(_ context.Context, dir string) error {
					if _, ok := pkgs.ToolFile(dir, filepath.Base(dir)); !ok || filepath.Base(dir) != "hello" {
						t.Errorf("%s: no tool in %s", name, dir)
					}
					called = append(called, name)
					if name == fails {
						return tool.Errorf(tool.DependencyError, "%s fails", name)
					}
					if name == "dependencies" {
						plant(t, dir, map[string]string{"node_modules/x/index.js": "x"})
					}
					return nil
				}
			}
			_, err := p.Install(t.Context(), fetch(t, p, src), pkgs.Hooks{
				Validate: call("validate"), Dependencies: call("dependencies"), TestLoad: call("test"),
				Confirm: func(ctx context.Context, q pkgs.Proposal) error { return call("confirm")(ctx, q.Dir) },
			})
			order := []string{"validate", "confirm", "dependencies", "test"}
			if fails == "" {
				if err != nil || !slices.Equal(called, order) {
					t.Fatalf("called %v, %v", called, err)
				}
				if got := tree(t, p.Dir("hello"))["node_modules/x/index.js"]; got != "x" {
					t.Errorf("the dependency is %q", got)
				}
				return
			}
			wantError(t, err, tool.DependencyError, fails+" fails")
			if i := slices.Index(order, fails); !slices.Equal(called, order[:i+1]) {
				t.Errorf("called %v", called)
			}
			if _, err := os.Stat(p.Dir("hello")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the folder is there: %v", err)
			}
			if _, known, err := p.Record("hello"); known || err != nil {
				t.Errorf("a record is there: %v", err)
			}
		})
	}
}

func TestSync(t *testing.T) {
	shipped := func(version string) fstest.MapFS {
		f := fstest.MapFS{}
		for name, text := range hello(version) {
			f["hello/"+name] = &fstest.MapFile{Data: []byte(text)}
		}
		f["snake/tool.py"] = &fstest.MapFile{Data: []byte("def execute(p, c): return 1\n")}
		return f
	}
	p := open(t, nil)
	statuses := func(f fs.FS, o pkgs.SyncOptions) map[string]pkgs.Status {
		t.Helper()
		r, err := p.Sync(t.Context(), f, o)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]pkgs.Status{}
		for _, s := range r.Tools {
			got[s.Name] = s.Status
			if s.Err != nil {
				t.Error(s.Err)
			}
		}
		return got
	}
	step := func(name string, f fs.FS, o pkgs.SyncOptions, hello, snake pkgs.Status) {
		t.Helper()
		if diff := cmp.Diff(map[string]pkgs.Status{"hello": hello, "snake": snake}, statuses(f, o)); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", name, diff)
		}
	}
	step("an empty toolbox", shipped("1.0.0"), pkgs.SyncOptions{Declared: func(_ context.Context, dir string) (map[string]string, error) {
		return map[string]string{"lodash": "^4"}, nil
	}}, pkgs.StatusAdded, pkgs.StatusAdded)
	got := tree(t, p.Dir("hello"))
	wantPackage := "{\n  \"name\": \"@toolyard/hello\",\n  \"version\": \"1.0.0\",\n  \"description\": \"The tool hello, shipped with toolyard\",\n" +
		"  \"main\": \"hello.tool.js\",\n  \"type\": \"module\",\n  \"private\": true,\n  \"dependencies\": {\n    \"lodash\": \"^4\"\n  }\n}\n"
	if diff := cmp.Diff(wantPackage, got["package.json"]); diff != "" {
		t.Errorf("package.json (-want +got):\n%s", diff)
	}
	for _, dir := range []string{"data/", "logs/"} {
		if _, ok := got[dir]; !ok {
			t.Errorf("no %s", dir)
		}
	}
	step("again", shipped("1.0.0"), pkgs.SyncOptions{}, pkgs.StatusUnchanged, pkgs.StatusUnchanged)

	// What installing dependencies writes is no edit.
	plant(t, p.Dir("hello"), map[string]string{
		"data/storage.json": "{}", "package-lock.json": "{}", "node_modules/lodash/index.js": "",
		"package.json": strings.Replace(wantPackage, `"^4"`, `"^4", "x": "1"`, 1),
	})
	step("a new version", shipped("1.1.0"), pkgs.SyncOptions{}, pkgs.StatusReplaced, pkgs.StatusUnchanged)
	got = tree(t, p.Dir("hello"))
	if got["data/storage.json"] != "{}" || !strings.Contains(got["lib/words.js"], "1.1.0") || got["node_modules/lodash/index.js"] != "" {
		t.Errorf("after the update: %v", got)
	}

	plant(t, p.Dir("hello"), map[string]string{"lib/words.js": "mine"})
	step("edited, the same version", shipped("1.1.0"), pkgs.SyncOptions{}, pkgs.StatusUnchanged, pkgs.StatusUnchanged)
	step("edited, another version", shipped("1.2.0"), pkgs.SyncOptions{}, pkgs.StatusEdited, pkgs.StatusUnchanged)
	if got := tree(t, p.Dir("hello"))["lib/words.js"]; got != "mine" {
		t.Errorf("the edit became %q", got)
	}
	if _, err := p.Rollback(t.Context(), "hello", 0); err != nil {
		t.Fatal(err)
	}
	step("the edit is undone", shipped("1.2.0"), pkgs.SyncOptions{}, pkgs.StatusReplaced, pkgs.StatusUnchanged)

	if err := p.Remove(t.Context(), "hello", false); err != nil {
		t.Fatal(err)
	}
	step("removed", shipped("1.2.0"), pkgs.SyncOptions{}, pkgs.StatusRemoved, pkgs.StatusUnchanged)
	step("wanted again", shipped("1.2.0"), pkgs.SyncOptions{Restore: []string{"hello"}}, pkgs.StatusAdded, pkgs.StatusUnchanged)
	if got := tree(t, p.Dir("hello"))["data/storage.json"]; got != "{}" {
		t.Errorf("the data are %q", got)
	}
	if err := os.RemoveAll(p.Dir("snake")); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	step("deleted by hand", shipped("1.2.0"), pkgs.SyncOptions{}, pkgs.StatusUnchanged, pkgs.StatusAdded)
	noStage(t, p)

	own := open(t, nil)
	p = own
	plant(t, p.Dir("hello"), map[string]string{"tool.js": "mine"})
	plant(t, p.Dir("Snake"), map[string]string{"tool.js": "mine"})
	step("the user's own", shipped("1.0.0"), pkgs.SyncOptions{}, pkgs.StatusForeign, pkgs.StatusForeign)
	if diff := cmp.Diff(map[string]string{"tool.js": "mine"}, tree(t, p.Dir("hello"))); diff != "" {
		t.Errorf("the user's own tool (-want +got):\n%s", diff)
	}
}

func TestMigrate(t *testing.T) {
	old := t.TempDir()
	secret := plant(t, t.TempDir(), map[string]string{"key": "secret"})
	plant(t, old, map[string]string{
		"toolbox/hello/hello.tool.js":            "export default {}",
		"toolbox/hello/package.json":             `{"name": "@prompt-manager/hello", "version": "3.0.0"}`,
		"toolbox/hello/.env":                     "KEY=value",
		"toolbox/hello/data/storage.json":        `{"a": 1}`,
		"toolbox/hello/data/deep/er":             "x",
		"toolbox/hello/node_modules/a/b.js":      "b",
		"toolbox/hello/run.log":                  "old",
		"toolbox/common/common.tool.js":          "const x = require('x')\nmodule.exports = { x }",
		"toolbox/empty/README.md":                "nothing",
		"toolbox/bad name/tool.js":               "",
		"toolbox/note.txt":                       "",
		"toolbox/mine/mine.tool.js":              "theirs",
		"tools/hello/hello.tool.js":              "older",
		"tools/ancient/ancient.tool.js":          "export default {}",
		"tools/ancient/data/file":                "kept",
		"prompts/x.md":                           "",
		"toolbox/linkedfile/linkedfile.tool.js/": "",
	})
	for from, to := range map[string]string{
		"toolbox/hello/out": secret, "toolbox/hello/data/out": filepath.Join(secret, "key"), "toolbox/hello/data/up": "../../../../key",
		"toolbox/hello/in.js": "hello.tool.js", "toolbox/linked": secret,
	} {
		if err := os.Symlink(to, filepath.Join(old, from)); err != nil {
			t.Fatal(err)
		}
	}
	before := tree(t, old)
	p := open(t, nil)
	plant(t, p.Dir("mine"), map[string]string{"tool.js": "mine", "data/x": "mine"})
	run := func(dir string, o pkgs.MigrateOptions) map[string]string {
		t.Helper()
		r, err := p.Migrate(t.Context(), dir, o)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, m := range r.Tools {
			rel, _ := filepath.Rel(old, m.From)
			got[rel] = string(m.Status) + ": " + m.Reason + " copied " + strings.Join(m.Copied, ",") + " made " + strings.Join(m.Made, ",")
		}
		return got
	}
	want := map[string]string{
		"toolbox/hello":      "migrated:  copied package.json,.env,data made logs",
		"toolbox/common":     "migrated:  copied  made package.json,data,logs",
		"toolbox/empty":      "skipped: it has no empty.tool.js copied  made ",
		"toolbox/bad name":   "skipped: its name is none that a tool may have copied  made ",
		"toolbox/note.txt":   "skipped: it is no folder copied  made ",
		"toolbox/mine":       "clash: there is a tool mine already; --overwrite puts this one in its place, and rollback takes it back copied  made ",
		"toolbox/linked":     "skipped: it is a symlink copied  made ",
		"toolbox/linkedfile": "skipped: it has no linkedfile.tool.js copied  made ",
		"tools/hello":        "clash: the same tool was found in " + old + "/toolbox/hello copied  made ",
		"tools/ancient":      "migrated:  copied data made package.json,logs",
	}
	if diff := cmp.Diff(want, run(old, pkgs.MigrateOptions{})); diff != "" {
		t.Errorf("the report (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, tree(t, old)); diff != "" {
		t.Errorf("the source changed (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{
		"hello.tool.js": "export default {}", "package.json": `{"name": "@prompt-manager/hello", "version": "3.0.0"}`, ".env": "KEY=value",
		"data/": "", "data/storage.json": `{"a": 1}`, "data/deep/": "", "data/deep/er": "x", "logs/": "", "in.js": "→ hello.tool.js",
	}, tree(t, p.Dir("hello"))); diff != "" {
		t.Errorf("hello (-want +got):\n%s", diff)
	}
	if info, err := os.Stat(filepath.Join(p.Dir("hello"), ".env")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode of .env: %v, %v", info, err)
	}
	if got := tree(t, p.Dir("common"))["package.json"]; !strings.Contains(got, `"type": "commonjs"`) {
		t.Errorf("package.json of a CommonJS tool: %s", got)
	}
	if diff := cmp.Diff(map[string]string{"tool.js": "mine", "data/": "", "data/x": "mine"}, tree(t, p.Dir("mine"))); diff != "" {
		t.Errorf("mine (-want +got):\n%s", diff)
	}
	for name, status := range run(filepath.Join(old, "toolbox"), pkgs.MigrateOptions{}) {
		if strings.HasPrefix(status, "migrated") {
			t.Errorf("the second time: %s %s", name, status)
		}
	}
	plant(t, old, map[string]string{"toolbox/mine/data/x": "theirs", "toolbox/mine/data/y": "theirs"})
	if got := run(old, pkgs.MigrateOptions{Overwrite: true})["toolbox/mine"]; !strings.HasPrefix(got, "migrated") {
		t.Errorf("overwriting: %s", got)
	}
	got := tree(t, p.Dir("mine"))
	if got["mine.tool.js"] != "theirs" || got["tool.js"] != "" || got["data/x"] != "mine" || got["data/y"] != "theirs" {
		t.Errorf("overwritten: %v", got)
	}
	if _, err := p.Rollback(t.Context(), "mine", 0); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, p.Dir("mine"))["tool.js"]; got != "mine" {
		t.Errorf("rolled back: %q", got)
	}
	noStage(t, p)
}
