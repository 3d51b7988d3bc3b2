package runtimes_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/toolbox/runtimes"
)

// npmRegistry is the one that this machine uses.
func npmRegistry(t *testing.T) string {
	t.Helper()
	need(t, "npm")
	out, err := exec.CommandContext(t.Context(), "npm", "config", "get", "registry").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// TestInstall fetches what ships as the default from the real registry, uses it,
// and takes it away again.
func TestInstall(t *testing.T) {
	s := box(t)
	dir := t.TempDir()
	c := runtimes.Config{Dir: dir + "/runtimes", Cache: dir + "/cache", Registry: npmRegistry(t), Runner: s}
	r := runtimes.New(c)
	if _, err := r.Node(t.Context()); err == nil || !strings.Contains(text(err), "toolyard runtime install node") {
		t.Errorf("without any Node: got %v", err)
	}
	pnpm, err := r.Pnpm(t.Context())
	if err != nil {
		t.Fatal(text(err))
	}
	got := run(t, s, r.Mounts(pnpm), nil, pnpm.Program, "--version")
	if got.Ending.Code != 0 || strings.TrimSpace(got.Output) != runtimes.DefaultPnpm {
		t.Errorf("pnpm ended %+v with %s", got.Ending, got.Output)
	}
	var last runtimes.Progress
	node, err := r.Install(t.Context(), "node", "", func(p runtimes.Progress) {
		if p.Done < last.Done {
			t.Errorf("progress went back from %+v to %+v", last, p)
		}
		last = p
	})
	if err != nil {
		t.Fatal(text(err))
	}
	if last.Done == 0 || last.Total != 0 && last.Done != last.Total {
		t.Errorf("progress ended with %+v", last)
	}
	got = run(t, s, r.Mounts(node), nil, node.Program, "-p", "process.version")
	if got.Ending.Code != 0 || strings.TrimSpace(got.Output) != "v"+runtimes.DefaultNode {
		t.Errorf("node ended %+v with %s", got.Ending, got.Output)
	}
	absent(t, s, r.Mounts(node), "sh", "ls", "node")

	c.Offline = true // all is there
	r = runtimes.New(c)
	for _, find := range []func(context.Context) (runtimes.Runtime, error){r.Node, r.Pnpm} {
		if found, err := find(t.Context()); err != nil || found.Source != runtimes.Managed || !found.Current {
			t.Errorf("got %+v, %v", found, err)
		}
	}
	if list := r.List(); len(list) != 2 || list[0].Program != node.Program || list[1].Program != pnpm.Program {
		t.Errorf("List: %+v", list)
	}
	if entries, err := filepath.Glob(dir + "/runtimes/*/.tmp-*"); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	if err := r.Remove(t.Context(), "node", ""); err != nil {
		t.Error(err)
	}
	if list := r.List(); len(list) != 1 || list[0].Name != "pnpm" {
		t.Errorf("after Remove: %+v", list)
	}
	if err := r.Remove(t.Context(), "node", "1.2.3"); err == nil {
		t.Error("what is not there was removed")
	}
}

// TestPathBeforeManaged finds the operator's own first.
func TestPathBeforeManaged(t *testing.T) {
	need(t, "node")
	s := box(t)
	r := open(t, s)
	first, err := r.Node(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want, err := exec.LookPath("node")
	if err != nil {
		t.Fatal(err)
	}
	if want, err = filepath.EvalSymlinks(want); err != nil || first.Program != want {
		t.Errorf("got %+v, want %s", first, want)
	}
	// The second answer comes from the file: there is no sandbox to ask in.
	dir := t.TempDir()
	asked := runtimes.New(runtimes.Config{Dir: dir, Cache: dir, Path: os.Getenv("PATH"), Home: home(t), Runner: s})
	if _, err := asked.Node(t.Context()); err != nil {
		t.Fatal(err)
	}
	kept := runtimes.New(runtimes.Config{Dir: dir, Cache: dir, Path: os.Getenv("PATH"), Home: home(t)})
	if got, err := kept.Node(t.Context()); err != nil || got.Program != first.Program || got.Version != first.Version {
		t.Errorf("got %+v, %v, want %+v", got, err, first)
	}
}

// TestShims finds the program behind the scripts of version managers, and passes
// by what is too old or broken.
func TestShims(t *testing.T) {
	need(t, "node")
	s := box(t)
	r := open(t, s)
	real, err := r.Node(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	script := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script(root+"/nodenv/shims/node", "#!/bin/sh\nexit 1\n")
	script(root+"/nodenv/version", "22.1.0\n")
	if err := os.MkdirAll(root+"/nodenv/versions/22.1.0/bin", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real.Program, root+"/nodenv/versions/22.1.0/bin/node"); err != nil {
		t.Fatal(err)
	}
	script(root+"/broken/node", "#!/bin/sh\necho no >&2; exit 3\n")
	script(root+"/old/node", "#!/bin/sh\necho '{\"version\": \"18.9.1\", \"program\": \""+real.Program+"\"}'\n")
	script(root+"/wrapper/node", "#!/bin/sh\nexec "+real.Program+" \"$@\"\n")
	find := func(dirs ...string) (runtimes.Runtime, error) {
		for i := range dirs {
			dirs[i] = root + "/" + dirs[i]
		}
		return runtimes.New(runtimes.Config{Path: strings.Join(dirs, ":"), Runner: s}).Node(t.Context())
	}
	for _, dirs := range [][]string{{"nodenv/shims"}, {"wrapper"}, {"broken", "old", "nothing", "wrapper"}} {
		if got, err := find(dirs...); err != nil || got.Program != real.Program || got.Version != real.Version {
			t.Errorf("%v: got %+v, %v", dirs, got, err)
		}
	}
	_, err = find("broken", "old")
	if got := text(err); !strings.Contains(got, "version 18.9.1") || !strings.Contains(got, "does not say its version") || !strings.Contains(got, "runtime install node") {
		t.Errorf("got %q", got)
	}
	script(root+"/nodenv/version", "system\n")
	if _, err := find("nodenv/shims"); err == nil {
		t.Error("a shim that leads to nothing was taken")
	}
}
