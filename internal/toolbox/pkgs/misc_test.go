package pkgs_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/toolbox/pkgs"
	"github.com/toolyard/toolyard/tool"
)

// TestUndo: a switch that fails in its middle is undone, and what was there goes
// on to be there.
func TestUndo(t *testing.T) {
	for _, two := range []bool{false, true} {
		for _, at := range []string{"put node_modules", "put package.json", "put hello.tool.js"} {
			t.Run(fmt.Sprintf("%s_%v", strings.ReplaceAll(at, " ", "_"), two), func(t *testing.T) {
				box := newCrashing(t)
				if two {
					box.NoExchange()
				}
				before := tree(t, box.Dir("hello"))
				record, _, err := box.Record("hello")
				if err != nil {
					t.Fatal(err)
				}
				box.SetStep(func(what string) {
					if what != at {
						return
					}
					// Somebody takes away what is to be put there.
					there, err := filepath.Glob(box.Dir(".staging/*/put/" + strings.TrimPrefix(at, "put ")))
					if err != nil || len(there) != 1 || os.RemoveAll(there[0]) != nil {
						t.Errorf("nothing was broken: %v, %v", there, err)
					}
				})
				f := fetch(t, box.Packages, filepath.Join(box.src, "2.0.0"))
				_, err = box.Update(t.Context(), "hello", f, pkgs.UpdateOptions{Hooks: withDependencies("2.0.0")})
				box.SetStep(nil)
				wantError(t, err, tool.Internal, "the version before is back")
				if diff := cmp.Diff(before, tree(t, box.Dir("hello"))); diff != "" {
					t.Errorf("the folder (-before +after):\n%s", diff)
				}
				after, _, err := box.Record("hello")
				if diff := cmp.Diff(record, after); diff != "" || err != nil {
					t.Errorf("the record (-before +after):\n%s, %v", diff, err)
				}
				f.Close()
				box.whole(t, "undone", false)
			})
		}
	}
}

// TestLostStage: what was prepared for a switch is gone when it is to be
// finished; the version itself is not.
func TestLostStage(t *testing.T) {
	box := newCrashing(t)
	for step := 1; ; step++ {
		died, where := box.kill(t, "update", step, 0)
		if !died {
			t.Fatal("it never came to the folder")
		}
		if strings.Contains(where, "step: put package.json") {
			break
		}
		if _, err := box.Recover(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll(box.Dir(".staging")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(box.Dir(".staging"), 0o700); err != nil {
		t.Fatal(err)
	}
	box.whole(t, "without its stage", false)
}

// TestRecord: what cannot be read is said, and hides no other tool.
func TestRecord(t *testing.T) {
	p := open(t, nil)
	src := plant(t, t.TempDir(), hello("1.0.0"))
	install(t, p, src)
	plant(t, p.Dir("."), map[string]string{"other/tool.js": "", ".state/other.json": "{", ".state/journal/other.json": `{"name": "hello", "stage": "../../x", "record": {}}`})
	if _, err := p.Current("other"); err == nil || !strings.Contains(err.Error(), "reading the record of other") {
		t.Errorf("a broken record: %v", err)
	}
	if list, err := p.List(); err != nil || len(list) != 2 {
		t.Errorf("listed %v, %v", list, err)
	}
	if _, err := p.Recover(t.Context()); err == nil || !strings.Contains(err.Error(), "makes no sense") {
		t.Errorf("a journal of another tool: %v", err)
	}
	for _, name := range []string{"", "..", ".state", "a/b", "con", strings.Repeat("x", 65)} {
		if _, err := p.Current(name); tool.AsError(err).Code != tool.ParameterError {
			t.Errorf("%q: %v", name, err)
		}
		if _, err := p.Snapshot(t.Context(), name); tool.AsError(err).Code != tool.ParameterError {
			t.Errorf("%q: %v", name, err)
		}
		if err := p.Remove(t.Context(), name, true); tool.AsError(err).Code != tool.ParameterError {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestVerify names what differs.
func TestVerify(t *testing.T) {
	p := open(t, nil)
	install(t, p, plant(t, t.TempDir(), hello("1.0.0")))
	plant(t, p.Dir("hello"), map[string]string{
		"lib/words.js": "changed", "added.js": "", "package-lock.json": "{}", "node_modules/x/y.js": "", "data/x": "", ".env": "", ".env-1.tmp": "", ".deps-1/x": "",
		"package.json": `{"version": "1.0.0", "name": "hello", "type": "module", "dependencies": {"x": "1"}}`,
	})
	if err := os.Remove(filepath.Join(p.Dir("hello"), "hello.tool.js")); err != nil {
		t.Fatal(err)
	}
	plant(t, p.Dir(".state/versions/hello/1"), map[string]string{"lib/words.js": "tampered"})
	v, err := p.Verify(t.Context(), "hello")
	if err != nil {
		t.Fatal(err)
	}
	got := []any{v.OK, v.Changed, v.Missing, v.Added, v.Damaged}
	want := []any{false, []string{"lib/words.js"}, []string{"hello.tool.js"}, []string{"added.js"}, []string{"lib/words.js"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestLateDependencies: dependencies that are installed into the folder after the
// tool was are a version of their own, and no edit.
func TestLateDependencies(t *testing.T) {
	p := open(t, nil)
	install(t, p, plant(t, t.TempDir(), hello("1.0.0")))
	unlock, err := p.Lock(t.Context(), "hello", "installing dependencies")
	if err != nil {
		t.Fatal(err)
	}
	plant(t, p.Dir("hello"), map[string]string{
		"package.json":      `{"name": "hello", "version": "1.0.0", "type": "module", "dependencies": {"dep": "1"}}`,
		"package-lock.json": "{}", "node_modules/dep/index.js": "dep 1",
	})
	unlock()
	snap := func() *pkgs.Version {
		t.Helper()
		v, err := p.Snapshot(t.Context(), "hello")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { v.Close() })
		return v
	}
	v := snap()
	if text, err := os.ReadFile(v.Path("node_modules/dep/index.js")); err != nil || string(text) != "dep 1" || v.Number != 2 {
		t.Errorf("version %d has %q, %v", v.Number, text, err)
	}
	if err := p.Accept(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	if edited, err := p.Edited("hello"); err != nil || edited {
		t.Errorf("edited: %v, %v", edited, err)
	}
	if r, err := p.Verify(t.Context(), "hello"); err != nil || !r.OK {
		t.Errorf("verify: %+v, %v", r, err)
	}
	plant(t, p.Dir("hello"), map[string]string{"lib/more.js": "x"})
	if more := snap(); more.Installed != v.Installed || more.Number == v.Number {
		t.Errorf("an edit has dependencies of its own: %+v", more)
	}
	if err := os.Remove(filepath.Join(p.Dir("hello"), "lib/more.js")); err != nil {
		t.Fatal(err)
	}
	in, err := p.Update(t.Context(), "hello", fetch(t, p, plant(t, t.TempDir(), hello("2.0.0"))), pkgs.UpdateOptions{})
	if err != nil || in.Replaced.Kind != pkgs.KindDirectory {
		t.Fatalf("updated: %+v, %v", in, err)
	}
	if got := tree(t, p.Dir("hello")); got["node_modules/dep/index.js"] != "" || got["package-lock.json"] != "" {
		t.Errorf("the new version has the old one's dependencies: %v", got)
	}
	if _, err := p.Rollback(t.Context(), "hello", 0); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, p.Dir("hello")); got["node_modules/dep/index.js"] != "dep 1" || got["package-lock.json"] != "{}" {
		t.Errorf("rolled back, without dependencies: %v", got)
	}
	if r, err := p.Verify(t.Context(), "hello"); err != nil || !r.OK {
		t.Errorf("verify: %+v, %v", r, err)
	}
}

// TestLinks: a toolbox that is reached by a link, and a tool that is one.
func TestLinks(t *testing.T) {
	real, outer := t.TempDir(), t.TempDir()
	if err := os.Symlink(real, filepath.Join(outer, "home")); err != nil {
		t.Fatal(err)
	}
	p := open(t, func(c *pkgs.Config) { c.Home = filepath.Join(outer, "home", "toolbox") })
	if want := filepath.Join(real, "toolbox", "x"); p.Dir("x") != want {
		t.Errorf("a tool would be in %s, want %s", p.Dir("x"), want)
	}
	work := plant(t, t.TempDir(), hello("1.0.0"))
	if err := os.Symlink(work, p.Dir("hello")); err != nil {
		t.Fatal(err)
	}
	v, err := p.Snapshot(t.Context(), "hello")
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if v.Seen != work || v.File != "hello.tool.js" || tree(t, v.Dir)["lib/words.js"] != hello("1.0.0")["lib/words.js"] {
		t.Errorf("the version is %+v", v)
	}
}

// TestPack: the same bytes for the same files, what a package has and has not,
// and the way back.
func TestPack(t *testing.T) {
	p := open(t, nil)
	dir, out := t.TempDir(), t.TempDir()
	content := hello("1.2.3")
	maps.Copy(content, map[string]string{
		"README.md": "read", "docs/a.md": "", "docs/b.tmp": "", "run.sh*": "#!/bin/sh", ".npmignore": "# no\n*.tmp\n/secret\nbuild/\n",
		"secret": "x", "lib/secret": "kept", "build/x.js": "", "node_modules/a.js": "", ".venv/x": "", "data/x": "", "logs/x": "", ".env": "KEY=1", "run.log": "", ".git/config": "",
	})
	plant(t, dir, content)
	k, err := p.Pack(t.Context(), dir, out)
	if err != nil {
		t.Fatal(err)
	}
	want := &pkgs.Packed{
		Path: filepath.Join(out, "hello-1.2.3.tgz"), Name: "hello", Version: "1.2.3", Integrity: k.Integrity, Size: k.Size,
		Files: []string{"README.md", "docs/a.md", "hello.tool.js", "lib/secret", "lib/words.js", "package.json", "run.sh"},
	}
	if diff := cmp.Diff(want, k); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	first, _ := os.ReadFile(k.Path)
	later := time.Now().Add(time.Hour)
	for name := range tree(t, dir) {
		if err := os.Chtimes(filepath.Join(dir, name), later, later); err != nil {
			t.Fatal(err)
		}
	}
	again, err := p.Pack(t.Context(), dir, filepath.Join(out, "again.tgz"))
	if err != nil {
		t.Fatal(err)
	}
	second, _ := os.ReadFile(again.Path)
	if !bytes.Equal(first, second) || len(first) == 0 || again.Integrity != k.Integrity {
		t.Error("the second time other bytes came out")
	}
	f := fetch(t, p, k.Path)
	if f.Name != "hello" || f.Version != "1.2.3" || f.Integrity != k.Integrity {
		t.Errorf("fetched %+v", f)
	}
	if info, err := os.Stat(filepath.Join(f.Dir, "run.sh")); err != nil || info.Mode() != 0o755 {
		t.Errorf("run.sh: %v, %v", info, err)
	}
	if entries, err := os.ReadDir(out); err != nil || len(entries) != 2 {
		t.Errorf("left: %v, %v", entries, err)
	}

	plant(t, dir, map[string]string{"package.json": `{"name": "hello", "files": ["lib", "./docs/*.md"]}`, "LICENSE": ""})
	k, err = p.Pack(t.Context(), dir, filepath.Join(out, "x.tgz"))
	if diff := cmp.Diff([]string{"LICENSE", "README.md", "docs/a.md", "hello.tool.js", "lib/secret", "lib/words.js", "package.json"}, k.Files); diff != "" || err != nil {
		t.Errorf("by files (-want +got):\n%s, %v", diff, err)
	}
	plant(t, dir, map[string]string{".npmignore": "!x"})
	_, err = p.Pack(t.Context(), dir, out)
	wantError(t, err, tool.ParameterError, "is not understood")
	_, err = p.Pack(t.Context(), filepath.Join(dir, "none"), out)
	wantError(t, err, tool.NotFound, "there is no folder")
	_, err = p.Pack(t.Context(), filepath.Join(dir, "lib"), out)
	wantError(t, err, tool.ParameterError, "has no tool")
}

func shipped(tools int) fstest.MapFS {
	f := fstest.MapFS{}
	for i := range tools {
		name := fmt.Sprintf("tool%d", i)
		f[name+"/"+name+".tool.js"] = &fstest.MapFile{Data: bytes.Repeat([]byte("// a line of a tool\n"), 2000)}
		f[name+"/README.md"] = &fstest.MapFile{Data: []byte("read")}
	}
	return f
}

// TestMigrateReplacesShipped: a tool that comes with the program makes place for
// the user's own of that name, which the next synchronisation leaves alone; one
// that the user has changed does not.
func TestMigrateReplacesShipped(t *testing.T) {
	p, tools := open(t, nil), shipped(2)
	sync := func() map[string]pkgs.Status {
		t.Helper()
		r, err := p.Sync(t.Context(), tools, pkgs.SyncOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]pkgs.Status{}
		for _, s := range r.Tools {
			got[s.Name] = s.Status
		}
		return got
	}
	sync()
	if got, want := sync(), map[string]pkgs.Status{"tool0": pkgs.StatusUnchanged, "tool1": pkgs.StatusUnchanged}; !cmp.Equal(got, want) {
		t.Errorf("nothing changed: got %v, want %v", got, want)
	}
	old := t.TempDir()
	plant(t, old, map[string]string{"toolbox/tool0/tool0.tool.js": "theirs", "toolbox/tool0/data/x": "data", "toolbox/tool1/tool1.tool.js": "theirs"})
	plant(t, p.Dir("tool1"), map[string]string{"own.js": "edited"})
	r, err := p.Migrate(t.Context(), old, pkgs.MigrateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]pkgs.Status{}
	for _, m := range r.Tools {
		got[m.Name] = m.Status
	}
	if want := map[string]pkgs.Status{"tool0": pkgs.StatusMigrated, "tool1": pkgs.StatusClash}; !cmp.Equal(got, want) {
		t.Errorf("migrated: got %v, want %v", got, want)
	}
	for file, want := range map[string]string{"tool0.tool.js": "theirs", "data/x": "data"} {
		if text, err := os.ReadFile(filepath.Join(p.Dir("tool0"), file)); err != nil || string(text) != want {
			t.Errorf("%s: got %q, %v, want %q", file, text, err, want)
		}
	}
	tools["tool0/tool0.tool.js"] = &fstest.MapFile{Data: []byte("export default { execute () { return 2 } }")}
	sync() // a newer one is shipped
	if text, err := os.ReadFile(filepath.Join(p.Dir("tool0"), "tool0.tool.js")); err != nil || string(text) != "theirs" {
		t.Errorf("after that: got %q, %v", text, err)
	}
}

// TestSyncFails: one tool that cannot be put there stops no other.
func TestSyncFails(t *testing.T) {
	p := open(t, nil)
	f := shipped(2)
	f["tool0/package.json"] = &fstest.MapFile{Data: []byte("{")}
	f["broken/README"] = &fstest.MapFile{}
	r, err := p.Sync(t.Context(), f, pkgs.SyncOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]pkgs.Status{}
	for _, s := range r.Tools {
		got[s.Name] = s.Status
	}
	if diff := cmp.Diff(map[string]pkgs.Status{"broken": pkgs.StatusFailed, "tool0": pkgs.StatusFailed, "tool1": pkgs.StatusAdded}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	noStage(t, p)
	var _ fs.FS = f
}

func BenchmarkSync(b *testing.B) {
	p, tools := open(b, nil), shipped(7)
	for b.Loop() {
		if _, err := p.Sync(b.Context(), tools, pkgs.SyncOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSnapshot is what an edit costs, and what it costs when nothing was
// edited, with so many files of dependencies.
func BenchmarkSnapshot(b *testing.B) {
	for _, files := range []int{0, 1000, 10000} {
		p := open(b, nil)
		plant(b, p.Dir("hello"), hello("1.0.0"))
		all := map[string]string{}
		for i := range files {
			all[fmt.Sprintf("node_modules/p%d/f%d.js", i/20, i)] = "x"
		}
		plant(b, p.Dir("hello"), all)
		snap := func(b *testing.B) {
			v, err := p.Snapshot(b.Context(), "hello")
			if err != nil {
				b.Fatal(err)
			}
			if err := p.Accept(b.Context(), v); err != nil {
				b.Fatal(err)
			}
			v.Close()
		}
		b.Run(fmt.Sprintf("edited-%d", files), func(b *testing.B) {
			n := 0
			for b.Loop() {
				n++
				plant(b, p.Dir("hello"), map[string]string{"lib/words.js": fmt.Sprint(n, files)})
				snap(b)
			}
		})
		b.Run(fmt.Sprintf("unchanged-%d", files), func(b *testing.B) {
			for b.Loop() {
				snap(b)
			}
		})
		b.Run(fmt.Sprintf("current-%d", files), func(b *testing.B) {
			for b.Loop() {
				v, err := p.Current("hello")
				if err != nil {
					b.Fatal(err)
				}
				v.Close()
			}
		})
	}
}
