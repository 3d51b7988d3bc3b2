package deps_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/toolbox/deps"
)

// TestSharedStore lets a tool, confined as tools are, try to write its packages,
// also by names that it makes for them where it may write; another tool has the
// same files. Where a script may write, and on request, the files are its own.
func TestSharedStore(t *testing.T) {
	t.Parallel()
	s := serve(t, "hello@1.0.0")
	c := local(t, s)
	names := func(dir string) uint64 {
		t.Helper()
		var info unix.Stat_t
		if err := unix.Stat(filepath.Join(dir, "node_modules/hello/index.js"), &info); err != nil {
			t.Fatal(err)
		}
		return uint64(info.Nlink)
	}
	install := func(c deps.Config, allow map[string]bool) string {
		t.Helper()
		dir := t.TempDir()
		put(t, dir, manifestOf("1.0.0"))
		put(t, dir, map[string]string{"data/kept": ""})
		if _, err := deps.New(c).Install(t.Context(), deps.Request{Dir: dir, Allow: allow}); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	mine, others := install(c, nil), install(c, nil)
	if n := names(mine); n < 2 {
		t.Logf("a file has %d names: this file system clones, or the store is on another", n)
	}
	before := text(t, others, "node_modules/hello/index.js")

	const script = `f=node_modules/hello/index.js; { echo bad >> $f; chmod 777 $f; ln $f data/x && echo bad >> data/x; ln -L $PWD/$f data/y && echo bad >> data/y; mv $f data/z; exec 3<>$f && echo bad >&3; exec 4<$f && echo bad >> /proc/self/fd/4; rm -rf node_modules; } 2>/dev/null; echo tried > data/kept`
	p, err := c.Runner.Start(t.Context(), sandbox.Cmd{
		Args: []string{"/bin/bash", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: mine,
		Profile: sandbox.Profile{Kind: "toolbox", Read: []string{mine}, Write: []string{filepath.Join(mine, "data")}, Mounts: sandbox.Toolchains("/usr/bin:/bin", "").Mounts},
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Wait(t.Context())
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if got := text(t, mine, "data/kept"); got != "tried\n" {
		t.Fatalf("it did not try: %q", got)
	}
	for _, dir := range []string{mine, others, install(c, nil)} {
		if got := text(t, dir, "node_modules/hello/index.js"); got != before {
			t.Errorf("a package became %q", got)
		}
	}

	copying := c
	copying.Copy = true
	for name, dir := range map[string]string{"on request": install(copying, nil), "with scripts": install(c, map[string]bool{"hello": true})} {
		if n := names(dir); n != 1 {
			t.Errorf("%s: a file has %d names", name, n)
		}
	}

	// What somebody outside of any sandbox writes in one folder does not get into
	// later installs.
	if err := os.WriteFile(filepath.Join(mine, "node_modules/hello/index.js"), []byte("module.exports = 'edited by hand'\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := text(t, install(c, nil), "node_modules/hello/index.js"); got != before {
		t.Errorf("a later install has %q", got)
	}
}
