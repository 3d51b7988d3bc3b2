//go:build unix

package pkgs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/toolbox/pkgs"
	"github.com/toolyard/toolyard/tool"
)

// The tests below run operations in processes of their own that are killed. Such
// a process is this program with childWork in its environment.
const childWork = "PKGS_TEST_WORK"

func TestMain(m *testing.M) {
	if work := os.Getenv(childWork); work != "" {
		child(work)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// shapes are two versions of a tool that have as little in common as can be: a
// mix of them is seen.
func shape(version string) map[string]string {
	files := map[string]string{
		"hello.tool.js": "tool " + version, "package.json": `{"name": "hello", "version": "` + version + `"}`,
		"node_modules/": "", "node_modules/dep/": "", "node_modules/dep/index.js": "dep " + version, "lib/": "", "lib/words.js": "words " + version,
	}
	if version == "1.0.0" {
		files["only1.js"], files["both"] = "1.0.0", "file 1.0.0"
	} else {
		files["only2/"], files["only2/x.js"], files["both/"], files["both/x.js"] = "", "2.0.0", "", "2.0.0"
	}
	return files
}

// own is what is the user's in the folder of the tool.
func own() map[string]string {
	return map[string]string{"data/": "", "data/storage.json": `{"kept": true}`, "data/deep/": "", "data/deep/er": "x", "logs/": "", "logs/old": "log", ".env": "KEY=1", "run.log": "line"}
}

// withDependencies is how a version gets what is installed.
func withDependencies(version string) pkgs.Hooks {
	return pkgs.Hooks{Dependencies: dependencies(version)}
}

// child does what the test wants: for ever, or until a step.
func child(work string) {
	fail := func(err error) {
		if err != nil {
			fmt.Println("child:", err)
			os.Exit(3)
		}
	}
	home, src := os.Getenv("PKGS_TEST_HOME"), os.Getenv("PKGS_TEST_SRC")
	p, err := pkgs.Open(pkgs.Config{Home: home})
	fail(err)
	work, two := strings.CutSuffix(work, " by two renames")
	if two {
		p.NoExchange()
	}
	if n, err := strconv.Atoi(os.Getenv("PKGS_TEST_STEP")); err == nil {
		count := 0
		p.SetStep(func(what string) {
			if count++; count == n {
				fmt.Println("step:", what)
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		})
	}
	_, err = p.Recover(ctx())
	fail(err)
	once := os.Getenv("PKGS_TEST_STEP") != ""
	for {
		switch work {
		case "update":
			for _, version := range []string{"2.0.0", "1.0.0"} {
				f, err := p.Fetch(ctx(), filepath.Join(src, version), nil)
				fail(err)
				_, err = p.Update(ctx(), "hello", f, pkgs.UpdateOptions{Hooks: withDependencies(version)})
				fail(err)
				fail(f.Close())
			}
		case "rollback":
			_, err := p.Rollback(ctx(), "hello", 0)
			if e := tool.AsError(err); e != nil && e.Code == tool.NotFound {
				r, _, err := p.Record("hello")
				fail(err)
				_, err = p.Rollback(ctx(), "hello", r.Versions[len(r.Versions)-1].Number)
				fail(err)
			} else {
				fail(err)
			}
		case "install":
			r, _, err := p.Record("hello")
			fail(err)
			if _, err := os.Stat(p.Dir("hello")); err == nil || r != nil {
				fail(p.Remove(ctx(), "hello", false))
			}
			if once && r != nil {
				return
			}
			f, err := p.Fetch(ctx(), filepath.Join(src, "1.0.0"), nil)
			fail(err)
			_, err = p.Install(ctx(), f, withDependencies("1.0.0"))
			fail(err)
			fail(f.Close())
		}
		if once {
			return
		}
	}
}

// crashing is a toolbox whose operations are killed.
type crashing struct {
	*pkgs.Packages
	home, src string
}

func newCrashing(t *testing.T) *crashing {
	t.Helper()
	dir := memory(t)
	c := &crashing{home: filepath.Join(dir, "toolbox"), src: filepath.Join(dir, "src")}
	for _, version := range []string{"1.0.0", "2.0.0"} {
		plant(t, filepath.Join(c.src, version), shape(version))
	}
	c.Packages = open(t, func(o *pkgs.Config) { o.Home = c.home })
	f := fetch(t, c.Packages, filepath.Join(c.src, "1.0.0"))
	if _, err := c.Install(t.Context(), f, withDependencies("1.0.0")); err != nil {
		t.Fatal(err)
	}
	f.Close()
	plant(t, c.Dir("hello"), own())
	return c
}

// kill runs work and kills it: at a step if that is not 0, which it returns, else
// after a while.
func (c *crashing) kill(t *testing.T, work string, step int, after time.Duration) (died bool, where string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{childWork + "=" + work, "PKGS_TEST_HOME=" + c.home, "PKGS_TEST_SRC=" + c.src}
	if step > 0 {
		cmd.Env = append(cmd.Env, "PKGS_TEST_STEP="+strconv.Itoa(step))
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if step == 0 {
		timer := time.AfterFunc(after, func() { cmd.Process.Kill() })
		defer timer.Stop()
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return true, out.String()
	}
	if err != nil || step == 0 {
		t.Fatalf("%s ended by itself: %v\n%s", work, err, out.String())
	}
	return false, out.String()
}

// whole checks what is there after a crash: before anybody recovered it there is
// one whole version to run, and no data were lost; after, the folder is one whole
// version too.
func (c *crashing) whole(t *testing.T, when string, mayBeGone bool) {
	t.Helper()
	check := func(stage, dir string, got, with map[string]string) string {
		for _, version := range []string{"1.0.0", "2.0.0"} {
			want := shape(version)
			for name, text := range with {
				want[name] = text
			}
			if got["hello.tool.js"] == want["hello.tool.js"] {
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("%s, %s: %s is mixed (-want +got):\n%s", when, stage, dir, diff)
				}
				return version
			}
		}
		t.Fatalf("%s, %s: %s is no version: %v", when, stage, dir, got)
		return ""
	}
	empty := map[string]string{"data/": "", "logs/": ""}
	if v, err := c.Current("hello"); err == nil {
		check("before recovery", v.Dir, versionTree(t, v), empty)
		v.Close()
	} else if !mayBeGone || tool.AsError(err).Code != tool.NotFound {
		t.Fatalf("%s: nothing to run: %v", when, err)
	}
	place := c.Dir("hello")
	if _, err := os.Stat(place); errors.Is(err, fs.ErrNotExist) && mayBeGone {
		place = filepath.Join(c.home, ".state", "kept", "hello")
	}
	got := tree(t, place)
	for name, text := range own() {
		if have, ok := got[name]; !ok || have != text {
			t.Fatalf("%s: before recovery %s is %q in %s", when, name, have, place)
		}
	}
	if _, err := c.Recover(t.Context()); err != nil {
		t.Fatalf("%s: recovering: %v", when, err)
	}
	noStage(t, c.Packages)
	if _, err := os.Stat(c.Dir("hello")); errors.Is(err, fs.ErrNotExist) && mayBeGone {
		if diff := cmp.Diff(own(), tree(t, filepath.Join(c.home, ".state", "kept", "hello"))); diff != "" {
			t.Fatalf("%s: after a removal (-want +got):\n%s", when, diff)
		}
		return
	}
	after := check("after recovery", c.Dir("hello"), tree(t, c.Dir("hello")), own())
	v, err := c.Current("hello")
	if err != nil {
		t.Fatalf("%s: after recovery: %v", when, err)
	}
	defer v.Close()
	if now := check("after recovery", v.Dir, versionTree(t, v), empty); now != after {
		t.Fatalf("%s: the folder has %s, %s runs", when, after, now)
	}
	if journals, err := os.ReadDir(filepath.Join(c.home, ".state", "journal")); err != nil || len(journals) > 0 {
		t.Fatalf("%s: journals are left: %v, %v", when, journals, err)
	}
	if again, err := c.Recover(t.Context()); err != nil || len(again.Finished) > 0 || again.Swept > 0 {
		t.Fatalf("%s: recovering again: %+v, %v", when, again, err)
	}
	if verified, err := c.Verify(t.Context(), "hello"); err != nil || !verified.OK {
		t.Fatalf("%s: verify: %+v, %v", when, verified, err)
	}
}

// TestKillAtEachStep ends the process before each change that it makes to the
// disk.
func TestKillAtEachStep(t *testing.T) {
	for _, c := range []struct {
		work  string
		least int // steps
	}{{"update", 12}, {"update by two renames", 20}, {"rollback", 10}, {"install", 4}} {
		t.Run(strings.ReplaceAll(c.work, " ", "_"), func(t *testing.T) {
			t.Parallel()
			box := newCrashing(t)
			if c.work == "rollback" {
				f := fetch(t, box.Packages, filepath.Join(box.src, "2.0.0"))
				if _, err := box.Update(t.Context(), "hello", f, pkgs.UpdateOptions{Hooks: withDependencies("2.0.0")}); err != nil {
					t.Fatal(err)
				}
				f.Close()
			}
			steps := 0
			for misses := 0; misses < 2 && steps < 200; {
				steps++
				died, where := box.kill(t, c.work, steps, 0)
				box.whole(t, fmt.Sprintf("%s killed at %d, %s", c.work, steps, strings.TrimSpace(where)), c.work == "install")
				if !died {
					misses++
				}
			}
			if steps-2 < c.least {
				t.Errorf("%d steps, at least %d were expected", steps-2, c.least)
			}
			t.Logf("%d steps", steps-2)
		})
	}
}

// TestKillAtRandom ends the process at any instant.
func TestKillAtRandom(t *testing.T) {
	rounds := 52 // of each, so more than 200
	if testing.Short() {
		rounds = 10
	}
	for _, work := range []string{"update", "update by two renames", "rollback", "install"} {
		t.Run(strings.ReplaceAll(work, " ", "_"), func(t *testing.T) {
			t.Parallel()
			box := newCrashing(t)
			if work == "rollback" {
				f := fetch(t, box.Packages, filepath.Join(box.src, "2.0.0"))
				if _, err := box.Update(t.Context(), "hello", f, pkgs.UpdateOptions{Hooks: withDependencies("2.0.0")}); err != nil {
					t.Fatal(err)
				}
				f.Close()
			}
			for round := range rounds {
				after := 5*time.Millisecond + rand.N(80*time.Millisecond)
				box.kill(t, work, 0, after)
				box.whole(t, fmt.Sprintf("%s, round %d, killed after %v", work, round, after), work == "install")
			}
		})
	}
}
