package pkgs_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/toolbox/pkgs"
	"github.com/toolyard/toolyard/tool"
)

// TestReaders: whoever takes the current version reads one version, file by file,
// while others are switched to, edits are snapped and accepted, and old versions
// are taken away.
func TestReaders(t *testing.T) {
	box := newCrashing(t)
	const readers, updates = 50, 24
	var done atomic.Bool
	var seen [2]atomic.Int64
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			// Each reader is like a process of its own.
			p, err := pkgs.Open(pkgs.Config{Home: box.home})
			if err != nil {
				t.Error(err)
				return
			}
			// Often, but so that there is something left of the machine.
			tick := time.NewTicker(10*time.Millisecond + rand.N(10*time.Millisecond))
			defer tick.Stop()
			for ; !done.Load(); <-tick.C {
				v, err := p.Current("hello")
				if err != nil {
					t.Error(err)
					return
				}
				got := map[string]string{}
				for _, file := range []string{"hello.tool.js", "package.json", "node_modules/dep/index.js", "lib/words.js"} {
					text, err := os.ReadFile(v.Path(file))
					if err != nil {
						t.Errorf("version %d: %v", v.Number, err)
					}
					got[file] = string(text)
				}
				i := 0
				if strings.Contains(got["hello.tool.js"], "2.0.0") {
					i = 1
				}
				seen[i].Add(1)
				for file, want := range shape([]string{"1.0.0", "2.0.0"}[i]) {
					if have, ok := got[file]; ok && have != want {
						t.Errorf("version %d is mixed: %v", v.Number, got)
					}
				}
				// The folder that the user sees always has its data.
				if _, err := os.Stat(filepath.Join(v.Seen, "data", "storage.json")); err != nil {
					t.Error(err)
				}
				v.Close()
			}
		})
	}
	for i := range updates {
		version := []string{"2.0.0", "1.0.0"}[i%2]
		f, err := box.Fetch(t.Context(), filepath.Join(box.src, version), nil)
		if err != nil {
			t.Fatal(err)
		}
		if i%5 == 4 {
			_, err = box.Rollback(t.Context(), "hello", 0)
		} else {
			_, err = box.Update(t.Context(), "hello", f, pkgs.UpdateOptions{Hooks: withDependencies(version)})
		}
		if err != nil {
			t.Error(err)
		}
		f.Close()
		if v, err := box.Snapshot(t.Context(), "hello"); err != nil {
			t.Error(err)
		} else {
			if err := box.Accept(t.Context(), v); err != nil {
				t.Error(err)
			}
			v.Close()
		}
	}
	done.Store(true)
	wg.Wait()
	if seen[0].Load() == 0 || seen[1].Load() == 0 {
		t.Errorf("only one version was seen: %d, %d", seen[0].Load(), seen[1].Load())
	}
	t.Logf("%d reads of version 1.0.0, %d of 2.0.0", seen[0].Load(), seen[1].Load())
	if _, err := box.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	if versions, err := filepath.Glob(filepath.Join(box.home, ".state", "versions", "hello", "*.json")); err != nil || len(versions) > 8 {
		t.Errorf("versions are left: %v, %v", versions, err)
	}
}

// TestFolderHasNoGaps: a reader of the folder itself, who does not take a version,
// may see two versions, but never a file missing that both have.
func TestFolderHasNoGaps(t *testing.T) {
	box := newCrashing(t)
	var done atomic.Bool
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for !done.Load() {
				for _, file := range []string{"hello.tool.js", "package.json", "node_modules/dep/index.js", "lib/words.js", "data/storage.json", ".env", "run.log"} {
					if _, err := os.ReadFile(filepath.Join(box.Dir("hello"), file)); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	for i := range 20 {
		version := []string{"2.0.0", "1.0.0"}[i%2]
		f, err := box.Fetch(t.Context(), filepath.Join(box.src, version), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := box.Update(t.Context(), "hello", f, pkgs.UpdateOptions{Hooks: withDependencies(version)}); err != nil {
			t.Error(err)
		}
		f.Close()
	}
	done.Store(true)
	wg.Wait()
}

// TestTwoInstalls: one of many installs of the same name is done, the others are
// refused; different tools do not wait for each other.
func TestTwoInstalls(t *testing.T) {
	p := open(t, nil)
	src := plant(t, t.TempDir(), hello("1.0.0"))
	var wg sync.WaitGroup
	var installed, refused atomic.Int64
	for i := range 8 {
		other := plant(t, filepath.Join(t.TempDir(), "x"), map[string]string{fmt.Sprintf("other%d.tool.js", i): ""})
		wg.Go(func() {
			f, err := p.Fetch(t.Context(), src, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			_, err = p.Install(t.Context(), f, pkgs.Hooks{})
			switch e := tool.AsError(err); {
			case e == nil:
				installed.Add(1)
			case e.Code == tool.Conflict && strings.Contains(e.Text(), "there is a tool hello already"):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
		wg.Go(func() {
			f, err := p.Fetch(t.Context(), other, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			if _, err = p.Install(t.Context(), f, pkgs.Hooks{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if installed.Load() != 1 || refused.Load() != 7 {
		t.Errorf("%d were installed and %d refused", installed.Load(), refused.Load())
	}
	list, err := p.List()
	if err != nil || len(list) != 9 {
		t.Errorf("listed %d, %v", len(list), err)
	}
	noStage(t, p)
}

// TestBusy: while one operation takes its time another on the same tool is
// refused, whatever the case of its name, and what runs goes on.
func TestBusy(t *testing.T) {
	p := open(t, func(c *pkgs.Config) { c.Wait = 20 * time.Millisecond })
	install(t, p, plant(t, t.TempDir(), hello("1.0.0")))
	f := fetch(t, p, plant(t, t.TempDir(), hello("2.0.0")))
	upper := fetch(t, p, plant(t, t.TempDir(), map[string]string{"HELLO.tool.js": ""}))
	_, err := p.Update(t.Context(), "hello", f, pkgs.UpdateOptions{Hooks: pkgs.Hooks{Dependencies: func(ctxt context.Context, _ string) error {
		_, err := p.Rollback(ctxt, "hello", 0)
		wantError(t, err, tool.Conflict, fmt.Sprintf("hello is busy: update by process %d is under way", os.Getpid()))
		wantError(t, p.Remove(ctxt, "hello", true), tool.Conflict, "is busy")
		_, err = p.Install(ctxt, upper, pkgs.Hooks{})
		wantError(t, err, tool.Conflict, "is busy")
		for _, get := range []func() (*pkgs.Version, error){
			func() (*pkgs.Version, error) { return p.Current("hello") },
			func() (*pkgs.Version, error) { return p.Snapshot(ctxt, "hello") },
		} {
			v, err := get()
			if err != nil || v.Number != 1 {
				t.Errorf("while it is updated: %+v, %v", v, err)
				continue
			}
			v.Close()
		}
		return nil
	}}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Install(t.Context(), upper, pkgs.Hooks{})
	wantError(t, err, tool.Conflict, "HELLO differs only by case from the tool hello")
}

// TestEdits: what the user changes is a version of its own, is kept when the tool
// is replaced, and can be rolled back to.
func TestEdits(t *testing.T) {
	p := open(t, nil)
	v1, v2 := plant(t, t.TempDir(), hello("1.0.0")), plant(t, t.TempDir(), hello("2.0.0"))
	install(t, p, v1)
	snap := func() *pkgs.Version {
		t.Helper()
		v, err := p.Snapshot(t.Context(), "hello")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { v.Close() })
		return v
	}
	current := func() string {
		t.Helper()
		v, err := p.Current("hello")
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		return tree(t, v.Dir)["lib/words.js"]
	}
	if v := snap(); v.Number != 1 || v.File != "hello.tool.js" || v.Module() != filepath.Join(p.Dir("hello"), "hello.tool.js") {
		t.Errorf("a snapshot of what was installed: %+v", v)
	}
	plant(t, p.Dir("hello"), map[string]string{"lib/words.js": "broken", ".git/HEAD": "ref", "data/x": "x"})
	if edited, err := p.Edited("hello"); err != nil || !edited {
		t.Errorf("edited: %v, %v", edited, err)
	}
	broken := snap()
	if got := current(); !strings.Contains(got, "1.0.0") || broken.Number == 1 {
		t.Errorf("before it was accepted %q runs, the edit is version %d", got, broken.Number)
	}
	plant(t, p.Dir("hello"), map[string]string{"lib/words.js": "mine"})
	mine := snap()
	if err := p.Accept(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	if got := current(); got != "mine" {
		t.Errorf("after it was accepted %q runs", got)
	}
	if got := tree(t, broken.Dir)["lib/words.js"]; got != "broken" {
		t.Errorf("the version that is still open has %q", got)
	}
	verified, err := p.Verify(t.Context(), "hello")
	if err != nil || verified.OK || cmp.Diff([]string{"lib/words.js"}, verified.Changed) != "" || verified.Added != nil || verified.Missing != nil {
		t.Errorf("verify: %+v, %v", verified, err)
	}

	f := fetch(t, p, v2)
	_, err = p.Update(t.Context(), "hello", f, pkgs.UpdateOptions{})
	wantError(t, err, tool.Conflict, "hello was changed since it was installed")
	in, err := p.Update(t.Context(), "hello", f, pkgs.UpdateOptions{Force: true})
	if err != nil || in.Version != "2.0.0" || in.Replaced == nil || in.Replaced.Version != "1.0.0" {
		t.Fatalf("updated: %+v, %v", in, err)
	}
	if diff := cmp.Diff(installedTree("2.0.0", map[string]string{".git/": "", ".git/HEAD": "ref", "data/x": "x"}), tree(t, p.Dir("hello"))); diff != "" {
		t.Errorf("updated (-want +got):\n%s", diff)
	}
	again, err := p.Update(t.Context(), "hello", f, pkgs.UpdateOptions{})
	if err != nil || again.Replaced != nil || again.Number != in.Number {
		t.Errorf("updated to the same: %+v, %v", again, err)
	}
	for _, want := range []string{"mine", "1.0.0"} {
		if _, err := p.Rollback(t.Context(), "hello", 0); err != nil {
			t.Fatal(err)
		}
		if got := tree(t, p.Dir("hello"))["lib/words.js"]; !strings.Contains(got, want) || got != current() {
			t.Errorf("rolled back to %q, %q runs, want %s", got, current(), want)
		}
	}
	_, err = p.Rollback(t.Context(), "hello", 0)
	wantError(t, err, tool.NotFound, "there is no earlier version of hello")
	if _, err := p.Rollback(t.Context(), "hello", in.Number); err != nil || !strings.Contains(current(), "2.0.0") {
		t.Errorf("forward again: %q, %v", current(), err)
	}
	_, err = p.Rollback(t.Context(), "hello", 99)
	wantError(t, err, tool.NotFound, "there is no version 99 of hello")
	list, err := p.List()
	if err != nil || len(list) != 1 || list[0].Release.Version != "2.0.0" || len(list[0].Earlier) != 2 {
		t.Errorf("listed %+v, %v", list, err)
	}
}

// TestByHand: a folder that was put there is a tool without any record, until it
// is accepted or replaced.
func TestByHand(t *testing.T) {
	p := open(t, nil)
	plant(t, p.Dir("hello"), map[string]string{"hello.tool.js": "by hand", "data/x": "x"})
	plant(t, p.Dir("nothing"), map[string]string{"README": ""})
	_, err := p.Current("hello")
	wantError(t, err, tool.NotFound, "no version that was accepted")
	v, err := p.Snapshot(t.Context(), "hello")
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if diff := cmp.Diff(map[string]string{"hello.tool.js": "by hand", "data/": "", "logs/": ""}, tree(t, v.Dir)); diff != "" {
		t.Errorf("the snapshot (-want +got):\n%s", diff)
	}
	list, err := p.List()
	if err != nil || len(list) != 1 || list[0].Release != nil {
		t.Errorf("listed %+v, %v", list, err)
	}
	_, err = p.Source("hello")
	wantError(t, err, tool.ParameterError, "nobody knows where hello came from")
	_, err = p.Verify(t.Context(), "hello")
	wantError(t, err, tool.ParameterError, "by hand")
	f := fetch(t, p, plant(t, t.TempDir(), hello("1.0.0")))
	_, err = p.Install(t.Context(), f, pkgs.Hooks{})
	wantError(t, err, tool.Conflict, "there is a tool hello already")
	_, err = p.Update(t.Context(), "hello", f, pkgs.UpdateOptions{})
	wantError(t, err, tool.Conflict, "by hand")
	if _, err := p.Update(t.Context(), "hello", f, pkgs.UpdateOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(installedTree("1.0.0", map[string]string{"data/x": "x"}), tree(t, p.Dir("hello"))); diff != "" {
		t.Errorf("replaced (-want +got):\n%s", diff)
	}
	if _, err := p.Rollback(t.Context(), "hello", 0); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, p.Dir("hello")); got["hello.tool.js"] != "by hand" || got["package.json"] != "" || got["data/x"] != "x" {
		t.Errorf("rolled back: %v", got)
	}
	_, err = p.Update(t.Context(), "nothing", f, pkgs.UpdateOptions{})
	wantError(t, err, tool.ParameterError, "the package is the tool hello, not nothing")
}

// TestRemove: data stay and are found again, unless they are purged.
func TestRemove(t *testing.T) {
	src := plant(t, t.TempDir(), hello("1.0.0"))
	p := open(t, nil)
	wantError(t, p.Remove(t.Context(), "hello", false), tool.NotFound, "there is no tool hello")
	install(t, p, src)
	plant(t, p.Dir("hello"), own())
	running, err := p.Current("hello")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Remove(t.Context(), "hello", false); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(filepath.Join(running.Dir, "hello.tool.js")); err != nil {
		t.Errorf("what runs: %v", err)
	}
	running.Close()
	if kept, err := p.Kept(); err != nil || cmp.Diff([]string{"hello"}, kept) != "" {
		t.Errorf("kept %v, %v", kept, err)
	}
	if list, err := p.List(); err != nil || len(list) > 0 {
		t.Errorf("listed %v, %v", list, err)
	}
	if _, err := p.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(p.Dir(".state/versions/*/*")); len(left) > 0 {
		t.Errorf("versions are left: %v", left)
	}
	if in := install(t, p, src); !in.Found {
		t.Errorf("installed again: %+v", in)
	}
	if diff := cmp.Diff(installedTree("1.0.0", own()), tree(t, p.Dir("hello"))); diff != "" {
		t.Errorf("installed again (-want +got):\n%s", diff)
	}
	if err := p.Remove(t.Context(), "hello", false); err != nil {
		t.Fatal(err)
	}
	if err := p.Remove(t.Context(), "hello", true); err != nil { // what was kept
		t.Fatal(err)
	}
	in := install(t, p, src)
	if diff := cmp.Diff(installedTree("1.0.0", nil), tree(t, p.Dir("hello"))); diff != "" || in.Found {
		t.Errorf("after a purge (-want +got):\n%s", diff)
	}
	if running, err = p.Current("hello"); err != nil {
		t.Fatal(err)
	}
	if err := p.Remove(t.Context(), "hello", true); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(running.Path("hello.tool.js")); err != nil {
		t.Errorf("what runs: %v", err)
	}
	running.Close()
	if _, err := p.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{"hello", ".state/kept/hello", ".state/hello.json", ".state/versions/hello"} {
		if _, err := os.Lstat(p.Dir(gone)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", gone, err)
		}
	}
	target := plant(t, t.TempDir(), maps.Clone(hello("1.0.0")))
	if err := os.Symlink(target, p.Dir("hello")); err != nil {
		t.Fatal(err)
	}
	_, err = p.Update(t.Context(), "hello", fetch(t, p, src), pkgs.UpdateOptions{Force: true})
	wantError(t, err, tool.Conflict, "is a link to "+target)
	if err := p.Remove(t.Context(), "hello", true); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, target); got["package.json"] != hello("1.0.0")["package.json"] {
		t.Errorf("what the link led to: %v", got)
	}
}
