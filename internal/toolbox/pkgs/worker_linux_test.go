package pkgs_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/toolbox/pkgs"
	"github.com/toolyard/toolyard/internal/worker"
)

// TestRunningVersion: a worker that runs one version goes on with it while the
// tool is updated, edited, removed: it loads the rest of its own version, and
// writes to the data that the next version reads.
func TestRunningVersion(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("no node")
	}
	s := sandbox.New(sandbox.Config{})
	t.Cleanup(func() { s.Close() })
	if report := s.Probe(t.Context()); !report.Level.AtLeast(sandbox.L2) {
		t.Skipf("level L2 cannot be had here, only %s: %v", report.Level, report.Missing)
	}
	source := func(version string) string {
		return plant(t, t.TempDir(), map[string]string{
			"hello.tool.js": `import fs from 'node:fs'
export default { async execute({ note }) {
	const words = await import('./lib/words.js')
	const dep = await import('dep')
	const dir = import.meta.dirname
	let before = ''
	try { before = fs.readFileSync(dir + '/data/note', 'utf8') } catch {}
	fs.writeFileSync(dir + '/data/note', note)
	let readonly = false
	try { fs.writeFileSync(dir + '/lib/words.js', 'changed') } catch { readonly = true }
	return { dir, words: words.version, dep: dep.default, before, readonly }
} }`,
			"lib/words.js": "export const version = '" + version + "'\n",
			"package.json": `{"name": "hello", "version": "` + version + `", "type": "module"}`,
		})
	}
	depend := func(version string) pkgs.Hooks {
		return pkgs.Hooks{Dependencies: func(_ context.Context, dir string) error {
			plant(t, dir, map[string]string{"node_modules/dep/index.js": "export default '" + version + "'", "node_modules/dep/package.json": `{"type": "module", "main": "index.js"}`})
			return nil
		}}
	}
	p := open(t, nil)
	if _, err := p.Install(t.Context(), fetch(t, p, source("1")), depend("1")); err != nil {
		t.Fatal(err)
	}
	pool := func() *worker.Pool {
		v, err := p.Current("hello")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { v.Close() })
		w := worker.New(worker.Config{
			Runner: s, Host: worker.Node{Program: node}, Module: v.Module(), Dir: v.Seen, Env: []string{"PATH=/usr/bin:/bin"},
			Profile: sandbox.Profile{
				Kind: "toolbox", Write: []string{filepath.Join(v.Seen, "data")},
				Mounts: append(sandbox.Toolchains("/usr/bin:/bin", "").Mounts, v.Mounts()...),
			},
		})
		t.Cleanup(func() {
			if err := w.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
		return w
	}
	type answer struct {
		Dir, Words, Dep, Before string
		Readonly                bool
	}
	call := func(w *worker.Pool, version, note, before string) {
		t.Helper()
		args, _ := json.Marshal(map[string]string{"note": note})
		r, err := w.Call(ctx(), worker.Call{Name: "execute", Args: args})
		if err != nil {
			t.Fatal(err)
		}
		var got answer
		if err := json.Unmarshal(r.Value, &got); err != nil {
			t.Fatal(err)
		}
		if want := (answer{p.Dir("hello"), version, version, before, true}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	old, lazy := pool(), pool()
	call(old, "1", "a", "")
	// Warm, but nothing of lib and dep is loaded.
	if err := lazy.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := lazy.Call(t.Context(), worker.Call{Name: "nothing"}); err == nil {
		t.Error("a function that is not there was called")
	}
	if _, err := p.Update(t.Context(), "hello", fetch(t, p, source("2")), pkgs.UpdateOptions{Hooks: depend("2")}); err != nil {
		t.Fatal(err)
	}
	recent := pool()
	call(recent, "2", "b", "a")
	call(lazy, "1", "c", "b")
	call(old, "1", "d", "c")
	// What is running does not see what the user types, either.
	if err := os.WriteFile(filepath.Join(p.Dir("hello"), "lib", "words.js"), []byte("{{{"), 0o644); err != nil {
		t.Fatal(err)
	}
	call(recent, "2", "e", "d")
	if err := p.Remove(t.Context(), "hello", false); err != nil {
		t.Fatal(err)
	}
	call(recent, "2", "f", "e")
	note, err := os.ReadFile(p.Dir(".state/kept/hello/data/note"))
	if err != nil || string(note) != "f" {
		t.Errorf("the data that were kept: %q, %v", note, err)
	}
}
