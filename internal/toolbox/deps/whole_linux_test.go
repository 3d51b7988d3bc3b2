package deps_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/toolbox/deps"
)

// helperVariable makes a test binary install once: JSON of a helper.
const helperVariable = "DEPS_TEST_HELPER"

type helper struct{ Dir, Cache, PNPM, Registry string }

func (h helper) run() int {
	box := sandbox.New(sandbox.Config{})
	defer box.Close()
	in := deps.New(deps.Config{Runner: box, Cache: h.Cache, Env: os.Environ(), Registry: h.Registry, NPMRC: []string{}, Limit: time.Minute,
		Program: func(_ context.Context, name string) (string, error) {
			if name == deps.PNPM {
				return h.PNPM, nil
			}
			return exec.LookPath(name)
		}})
	report, err := in.Install(context.Background(), deps.Request{Dir: h.Dir})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("changed", report.Changed)
	return 0
}

// other starts an install in a process of its own.
func (h helper) other(t *testing.T) (cmd *exec.Cmd, output *bytes.Buffer) {
	t.Helper()
	cmd = exec.Command(os.Args[0])
	text, _ := json.Marshal(h)
	cmd.Env = append(os.Environ(), helperVariable+"="+string(text))
	output = new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, output
}

// manifestOf is a package.json with one exact version.
func manifestOf(version string) map[string]string {
	return map[string]string{"package.json": `{"name": "x", "dependencies": {"hello": "` + version + `"}}`}
}

// TestKilled kills the process that installs, at moments of chance: node_modules
// is the old one or the new one, whole, and the next install cleans up.
func TestKilled(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, version := range []string{"1.0.0", "2.0.0"} {
		files := map[string]string{}
		for n := range 200 {
			files[fmt.Sprintf("lib/%d.js", n)] = version
		}
		s.add("hello", version, files)
	}
	c := local(t, s)
	pnpm, _ := pnpmProgram()
	dir := t.TempDir()
	h := helper{Dir: dir, Cache: c.Cache, PNPM: pnpm, Registry: c.Registry}
	put(t, dir, manifestOf("1.0.0"))
	in := deps.New(c)
	var took time.Duration
	for _, version := range []string{"2.0.0", "1.0.0"} { // both are in the store then
		put(t, dir, manifestOf(version))
		began := time.Now()
		if _, err := in.Install(t.Context(), deps.Request{Dir: dir}); err != nil {
			t.Fatal(err)
		}
		took = time.Since(began)
	}
	swept, switched, version := 0, 0, "1.0.0"
	for round := range 5 {
		next := map[string]string{"1.0.0": "2.0.0", "2.0.0": "1.0.0"}[version]
		put(t, dir, manifestOf(next))
		cmd, _ := h.other(t)
		timer := time.AfterFunc(time.Duration(rand.Int64N(int64(took)*2)), func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		timer.Stop()
		left, _ := filepath.Glob(filepath.Join(dir, ".deps-*"))
		near, _ := filepath.Glob(filepath.Join(c.Cache, "pnpm/staging/*"))
		if len(left)+len(near) > 0 {
			swept++
		}
		got := strings.Trim(text(t, dir, "node_modules/hello/package.json"), "{}")
		files, _ := filepath.Glob(filepath.Join(dir, "node_modules/hello/lib/*.js"))
		switch {
		case len(files) != 200 || !slices.ContainsFunc([]string{version, next}, func(v string) bool { return strings.Contains(got, v) }):
			t.Fatalf("round %d: %d files of %s", round, len(files), got)
		case strings.Contains(got, next):
			switched++
		}
		if _, err := in.Install(t.Context(), deps.Request{Dir: dir}); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		version = next
		if got := text(t, dir, "node_modules/hello/lib/7.js"); got != version {
			t.Fatalf("round %d: installed %s, want %s", round, got, version)
		}
		if near, _ := filepath.Glob(filepath.Join(c.Cache, "pnpm/staging/*")); len(near) > 0 {
			t.Errorf("round %d: left near the store: %v", round, near)
		}
		clean(t, dir)
	}
	t.Logf("of 5 kills %d left a directory, %d came after the switch", swept, switched)
}

// TestTogether installs into one folder from many goroutines and processes: one
// of them fetches.
func TestTogether(t *testing.T) {
	t.Parallel()
	s := serve(t, "hello@1.0.0", "world@1.0.0")
	c := local(t, s)
	pnpm, _ := pnpmProgram()
	dir := t.TempDir()
	put(t, dir, manifestOf("1.0.0"))
	in := deps.New(c)
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			cmd, out := helper{Dir: dir, Cache: c.Cache, PNPM: pnpm, Registry: c.Registry}.other(t)
			if err := cmd.Wait(); err != nil {
				t.Errorf("another process: %v: %s", err, out)
			}
		})
	}
	for range 20 {
		all.Go(func() {
			if _, err := in.Install(t.Context(), deps.Request{Dir: dir}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	s.mu.Lock()
	fetched := 0
	for _, path := range s.asked {
		if strings.HasSuffix(path, ".tgz") {
			fetched++
		}
	}
	s.mu.Unlock()
	if fetched != 1 {
		t.Errorf("the tarball was fetched %d times", fetched)
	}
	clean(t, dir)

	// Who gives up does not take the others along.
	s.breaks("world", "hang")
	put(t, dir, map[string]string{"package.json": `{"dependencies": {"world": "1"}}`})
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error, 1)
	go func() {
		_, err := in.Install(ctx, deps.Request{Dir: dir})
		gaveUp <- err
	}()
	asked := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.Contains(s.asked, "world")
	}
	for deadline := time.Now().Add(20 * time.Second); !asked() && time.Now().Before(deadline); {
		<-time.After(5 * time.Millisecond)
	}
	stays := make(chan error, 1)
	go func() {
		_, err := in.Install(t.Context(), deps.Request{Dir: dir})
		stays <- err
	}()
	s.breaks("world", "")
	cancel()
	if err := <-gaveUp; err == nil || !strings.Contains(err.Error(), "cancelled") {
		t.Errorf("who gave up got %v", err)
	}
	if err := <-stays; err != nil {
		t.Errorf("who stayed got %v", err)
	}
}

// TestDiskFull installs into a folder on a small file system of its own.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	s := serve(t, "hello@1.0.0")
	noise := make([]byte, 3<<20)
	for n := range noise {
		noise[n] = byte(rand.Uint32())
	}
	s.add("large", "1.0.0", map[string]string{"noise": string(noise)})
	for _, full := range []string{"folder", "cache"} {
		t.Run(full, func(t *testing.T) {
			dir, c := t.TempDir(), local(t, s)
			small := map[string]string{"folder": dir, "cache": c.Cache}[full]
			if err := os.MkdirAll(small, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mount("none", small, "tmpfs", 0, "size=2m"); err != nil {
				t.Logf("not applicable: a small file system cannot be mounted here: %v", err)
				return
			}
			t.Cleanup(func() { _ = unix.Unmount(small, unix.MNT_DETACH) })
			in := deps.New(c)
			put(t, dir, manifestOf("1.0.0"))
			if _, err := in.Install(t.Context(), deps.Request{Dir: dir}); err != nil {
				t.Fatal(err)
			}
			put(t, dir, map[string]string{"package.json": `{"dependencies": {"hello": "1.0.0", "large": "1.0.0"}}`})
			_, err := in.Install(t.Context(), deps.Request{Dir: dir})
			if e := failed(t, err); e.Message != "the disk is full" {
				t.Errorf("message %q (%v)", e.Message, e.Err)
			}
			if got := text(t, dir, "node_modules/hello/index.js"); !strings.Contains(got, "hello@1.0.0") {
				t.Errorf("what was there is %q", got)
			}
			clean(t, dir)
		})
	}
}
