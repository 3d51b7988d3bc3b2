package toolbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/registry"
	"github.com/toolyard/toolyard/internal/toolbox"
	"github.com/toolyard/toolyard/tool"
)

// floor is a box with a registry around it, as the program has.
type floor struct {
	b   *toolbox.Box
	reg *registry.Registry
	all *registry.Composite
}

// serve registers the tools of a box and keeps them current, with the watcher if
// run is set.
func serve(t *testing.T, b *toolbox.Box, run bool) *floor {
	t.Helper()
	f := &floor{b: b, reg: registry.New(registry.Config{})}
	f.all = registry.NewComposite(f.reg, nil)
	f.all.Add(b)
	b.Load(t.Context())
	f.all.Sync(t.Context())
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { f.all.Run(ctx) })
	if run {
		work.Go(func() { b.Run(ctx) })
	}
	t.Cleanup(func() { cancel(); work.Wait() })
	return f
}

// call calls a tool as the executor does.
func (f *floor) call(ctx context.Context, name, args string, req tool.Request) (*tool.Result, error) {
	h, err := f.reg.Acquire("toolbox:" + name)
	if err != nil {
		return nil, err
	}
	defer h.Release()
	req.Arguments, req.CallID = json.RawMessage(args), "call_1"
	return h.Tool.Call(ctx, &req)
}

// wait polls until done, or fails after a while.
func wait(t *testing.T, limit time.Duration, what string, done func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !done() {
		if time.Since(began) > limit {
			t.Fatalf("waited %s for %s", limit, what)
		}
		<-time.After(5 * time.Millisecond)
	}
	return time.Since(began)
}

// language is what the tests of this file need of one.
type language struct {
	name, file string
	// parts is a tool whose answer is made of its module, of a second one, and of a
	// file that each call reads; all hold the number of the version.
	parts func(n int) map[string]string
	// whole is the same in one file.
	whole func(n int) string
}

var languages = []language{
	{
		name: "js", file: "tool.js",
		parts: func(n int) map[string]string {
			return map[string]string{
				"tool.js": fmt.Sprintf(`import { b } from './lib.js'
import { readFileSync } from 'node:fs'
export default {
  getMetadata () { return { id: 'sw', name: 'Switched', description: 'Says its version.', version: '1.0.%[1]d' } },
  getSchema () { return { parameters: { type: 'object', properties: {} } } },
  async execute () {
    await new Promise(resolve => setTimeout(resolve, 5))
    return { a: %[1]d, b, c: Number(readFileSync(new URL('./part.txt', import.meta.url), 'utf8')) }
  }
}
`, n),
				"lib.js": fmt.Sprintf("export const b = %d\n", n), "part.txt": fmt.Sprint(n),
			}
		},
		whole: func(n int) string {
			return fmt.Sprintf(`export default {
  getMetadata () { return { id: 'sw', name: 'Switched', description: 'Says its version.', version: '1.0.%[1]d' } },
  execute () { return { a: %[1]d, b: %[1]d, c: %[1]d } }
}
`, n)
		},
	},
	{
		name: "py", file: "tool.py",
		parts: func(n int) map[string]string {
			return map[string]string{
				"tool.py": fmt.Sprintf(`import os
import time
from number import b


def get_metadata():
    return {"id": "sw", "name": "Switched", "description": "Says its version.", "version": "1.0.%[1]d"}


def get_schema():
    return {"parameters": {"type": "object", "properties": {}}}


def execute(params, ctx):
    time.sleep(0.005)
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "part.txt")) as f:
        return {"a": %[1]d, "b": b, "c": int(f.read())}
`, n),
				"lib/number.py": fmt.Sprintf("b = %d\n", n), "part.txt": fmt.Sprint(n),
			}
		},
		whole: func(n int) string {
			return fmt.Sprintf(`def get_metadata():
    return {"id": "sw", "name": "Switched", "description": "Says its version.", "version": "1.0.%[1]d"}


def execute(params, ctx):
    return {"a": %[1]d, "b": %[1]d, "c": %[1]d}
`, n)
		},
	},
}

// folderOf writes a version into a folder of its own.
func folderOf(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "sw")
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// save writes a file as an editor does: beside it, and then in its place.
func save(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+"~", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+"~", path); err != nil {
		t.Fatal(err)
	}
}

// crowd calls a tool from many sides until it is told to stop.
type crowd struct {
	calls, mixed atomic.Int64
	seen         sync.Map // versions
	mu           sync.Mutex
	errs         []error
}

func (c *crowd) run(t *testing.T, f *floor, callers int, session func(i int) string) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	for i := range callers {
		work.Go(func() {
			for ctx.Err() == nil {
				// A call that has begun is waited for.
				r, err := f.call(context.WithoutCancel(ctx), "sw", `{}`, tool.Request{Session: session(i)})
				if err != nil {
					c.mu.Lock()
					c.errs = append(c.errs, err)
					c.mu.Unlock()
					return
				}
				c.calls.Add(1)
				var v struct{ A, B, C int }
				if err := json.Unmarshal(r.Structured, &v); err != nil || v.A == 0 || v.A != v.B || v.B != v.C {
					c.mixed.Add(1)
				}
				c.seen.Store(v.A, true)
			}
		})
	}
	return func() { cancel(); work.Wait() }
}

// await waits until somebody has seen a version, or a call failed.
func (c *crowd) await(t *testing.T, version int) {
	t.Helper()
	wait(t, time.Minute, fmt.Sprintf("version %d to be in use", version), func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, ok := c.seen.Load(version)
		return ok || len(c.errs) > 0
	})
}

func (c *crowd) check(t *testing.T, versions ...int) {
	t.Helper()
	for i, err := range c.errs {
		if i == 5 {
			t.Errorf("and %d more", len(c.errs)-i)
			break
		}
		t.Errorf("a call failed: %v (%s)", err, tool.AsError(err).Code)
	}
	if n := c.mixed.Load(); n > 0 {
		t.Errorf("%d of %d answers are of two versions", n, c.calls.Load())
	}
	for _, v := range versions {
		if _, ok := c.seen.Load(v); !ok {
			t.Errorf("nobody saw version %d", v)
		}
	}
	t.Logf("%d calls", c.calls.Load())
}

// TestSwitch: whoever calls while a tool is updated and rolled back gets an
// answer, of one version or of the other.
func TestSwitch(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name              string
		language          int
		callers, switches int
		own               bool // a session each
	}{
		{"js, 50 callers in one session", 0, 50, 10, false},
		{"js, 50 sessions", 0, 50, 4, true},
		{"py, 8 callers in one session", 1, 8, 4, false},
		{"py, 8 sessions", 1, 8, 2, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			l := languages[c.language]
			b := open(t, t.TempDir(), nil)
			sources := []string{folderOf(t, l.parts(1)), folderOf(t, l.parts(2))}
			if _, err := b.Install(t.Context(), sources[0], toolbox.InstallOptions{}); err != nil {
				t.Fatal(err)
			}
			f := serve(t, b, false)
			session := func(i int) string {
				if c.own {
					return fmt.Sprint("session ", i)
				}
				return "one"
			}
			var crowd crowd
			stop := crowd.run(t, f, c.callers, session)
			defer stop()
			crowd.await(t, 1)
			for i := range c.switches {
				var err error
				if i%2 == 0 {
					_, err = b.Update(t.Context(), "sw", sources[1], toolbox.InstallOptions{})
				} else {
					_, err = b.Rollback(t.Context(), "sw", 0)
				}
				if err != nil {
					t.Fatalf("switch %d: %v", i, err)
				}
				if i == 0 {
					crowd.await(t, 2)
				}
				before := crowd.calls.Load()
				wait(t, time.Minute, "calls after the switch", func() bool {
					crowd.mu.Lock()
					defer crowd.mu.Unlock()
					return crowd.calls.Load() > before+int64(c.callers)/2 || len(crowd.errs) > 0
				})
			}
			stop()
			crowd.check(t, 1, 2)
		})
	}
}

// TestSwitchByHand: the same while its file is edited and the watcher takes the
// edits in.
func TestSwitchByHand(t *testing.T) {
	t.Parallel()
	for i, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			home := t.TempDir()
			b := open(t, home, nil, "sw/"+l.file, l.whole(1))
			f := serve(t, b, true)
			callers, edits := []int{50, 8}[i], []int{10, 4}[i]
			var crowd crowd
			stop := crowd.run(t, f, callers, func(int) string { return "one" })
			defer stop()
			crowd.await(t, 1)
			for n := range edits {
				save(t, filepath.Join(home, "toolbox/sw", l.file), l.whole(n+2))
				crowd.await(t, n+2)
			}
			stop()
			crowd.check(t, 1, edits+1)
		})
	}
}

// TestEditSeen: an edit is in use within a second of being saved; a broken one
// keeps the last good version, and is told, also after a restart.
func TestEditSeen(t *testing.T) {
	t.Parallel()
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			home := t.TempDir()
			path := filepath.Join(home, "toolbox/sw", l.file)
			b := open(t, home, nil, "sw/"+l.file, l.whole(1))
			f := serve(t, b, true)
			answer := func(f *floor, want int) func() bool {
				return func() bool {
					r, err := f.call(t.Context(), "sw", `{}`, tool.Request{Session: "s"})
					if err != nil {
						t.Fatal(err)
					}
					return strings.HasPrefix(string(r.Structured), fmt.Sprintf(`{"a":%d,`, want))
				}
			}
			wait(t, 30*time.Second, "the first version", answer(f, 1))
			// The watcher may still be starting: the first edit is to be seen, the second
			// is measured.
			save(t, path, l.whole(2))
			wait(t, 40*time.Second, "the first edit", answer(f, 2))
			save(t, path, l.whole(3))
			t.Logf("an edit was in use %s after it was saved", wait(t, 30*time.Second, "the edit", answer(f, 3)).Round(time.Millisecond))

			save(t, path, "this is ( no program")
			broken := func(b *toolbox.Box) func() bool {
				return func() bool {
					s, err := b.Summary(t.Context(), "sw")
					return err == nil && s.State == toolbox.StateReady && s.Error != "" && s.Version == "1.0.3"
				}
			}
			wait(t, 30*time.Second, "the broken edit to be told", broken(b))
			if !answer(f, 3)() {
				t.Error("a broken edit: want the last good version")
			}
			again := open(t, home, nil)
			after := serve(t, again, false)
			if !answer(after, 3)() {
				t.Error("a broken edit after a restart: want the last good version")
			}
			if !broken(again)() {
				s, err := again.Summary(t.Context(), "sw")
				t.Errorf("after a restart: got %+v %v, want what is wrong with the edit", s, err)
			}
			save(t, path, l.whole(4))
			wait(t, 30*time.Second, "the mended edit", answer(f, 4))
		})
	}
}

// asking is a host that answers questions as it is told.
type asking struct {
	attachments
	answer string
	asked  []tool.Question
	nobody bool
}

func (h *asking) Ask(_ context.Context, q tool.Question) (tool.Answer, error) {
	h.asked = append(h.asked, q)
	if h.nobody {
		return tool.Answer{}, tool.ErrNoChannel
	}
	return tool.Answer{Option: h.answer, By: "somebody"}, nil
}

const wishing = `import { readFileSync } from 'node:fs'
export default {
  getMetadata () { return { id: 'wishing', name: 'Wishing', description: 'Reads a file.', version: '1.0.0' } },
  getSchema () { return { parameters: { type: 'object', properties: { path: { type: 'string' } } }, environment: { type: 'object', properties: { COLOUR: { type: 'string', default: 'none' } } } } },
  getRuntimeConfig () { return { allowedDirectories: [%q], maxMemory: 600 } },
  execute ({ path }) { return path ? readFileSync(path, 'utf8') : this.api.environment.get('COLOUR') + ' ' + process.env.COLOUR }
}
`

// TestConfigured: what is configured counts from the next call on, whoever wrote
// it.
func TestConfigured(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	b := open(t, home, nil, "wishing/tool.js", fmt.Sprintf(wishing, "data"))
	f := serve(t, b, false)
	colour := func() string {
		r, err := f.call(t.Context(), "wishing", `{}`, tool.Request{Session: "s"})
		if err != nil {
			t.Fatal(err)
		}
		return r.TextContent()
	}
	if got := colour(); got != "none none" {
		t.Errorf("got %q, want the default", got)
	}
	env := filepath.Join(home, "toolbox/wishing/.env")
	if err := os.WriteFile(env, []byte("COLOUR=red\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := colour(); got != "red red" {
		t.Errorf("got %q, want what was written by hand", got)
	}
	_, err := b.Configure(t.Context(), "wishing", func(map[string]string) (map[string]string, error) {
		return map[string]string{"COLOUR": "blue"}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := colour(); got != "blue blue" {
		t.Errorf("got %q, want what was configured", got)
	}
	if err := os.Remove(env); err != nil {
		t.Fatal(err)
	}
	if got := colour(); got != "none none" {
		t.Errorf("got %q, want the default", got)
	}
}

// TestGrants: a tool that wants more asks once; the answer holds for its files as
// they are.
func TestGrants(t *testing.T) {
	t.Parallel()
	home, outside := t.TempDir(), t.TempDir()
	path := filepath.Join(outside, "file")
	if err := os.WriteFile(path, []byte("outside"), 0o644); err != nil {
		t.Fatal(err)
	}
	source := fmt.Sprintf(wishing, outside)
	b := open(t, home, nil, "wishing/tool.js", source)
	f := serve(t, b, false)
	args := fmt.Sprintf(`{"path":%q}`, path)
	read := func(f *floor, h tool.Host) (string, error) {
		t.Helper()
		r, err := f.call(t.Context(), "wishing", args, tool.Request{Session: "s", Host: h})
		if err != nil {
			return "", err
		}
		return r.TextContent(), nil
	}

	nobody := &asking{nobody: true}
	for range 2 {
		_, err := read(f, nobody)
		if err == nil || !strings.Contains(tool.AsError(err).Hint, "toolyard toolbox grant wishing --write "+outside) {
			t.Fatalf("with nobody to ask: %v (%+v), want an error that names the grant", err, tool.AsError(err))
		}
	}
	if _, err := os.Stat(filepath.Join(home, "toolbox/.state/wishing.grants.json")); err == nil {
		t.Error("something is stored though nobody answered")
	}

	refuses := &asking{answer: "deny"}
	for range 2 {
		if got, err := read(f, refuses); err == nil {
			t.Errorf("refused, it read %q", got)
		}
	}
	if len(refuses.asked) != 1 {
		t.Errorf("asked %d times, want once", len(refuses.asked))
	} else if q := refuses.asked[0]; !strings.Contains(q.Text, outside) || !strings.Contains(q.Text, "600 MiB") {
		t.Errorf("the question is %q, want what the tool asks for", q.Text)
	}

	agrees := &asking{answer: "allow"}
	save(t, filepath.Join(home, "toolbox/wishing/tool.js"), source+"// changed\n")
	if _, _, err := b.Lookup(t.Context(), "wishing"); err != nil {
		t.Fatal(err)
	}
	f.all.Sync(t.Context())
	for range 2 {
		if got, err := read(f, agrees); err != nil || got != "outside" {
			t.Errorf("granted: %q %v", got, err)
		}
	}
	if len(agrees.asked) != 1 {
		t.Errorf("asked %d times, want once for the changed files", len(agrees.asked))
	}
	stored, err := os.ReadFile(filepath.Join(home, "toolbox/.state/wishing.grants.json"))
	if err != nil || strings.Count(string(stored), `"granted": true`) != 1 || !strings.Contains(string(stored), `"by": "somebody"`) {
		t.Errorf("stored %s %v", stored, err)
	}

	// Another process knows the answer, without asking.
	after := serve(t, open(t, home, nil), false)
	if got, err := read(after, nobody); err != nil || got != "outside" {
		t.Errorf("after a restart: %q %v", got, err)
	}

	save(t, filepath.Join(home, "toolbox/wishing/tool.js"), source+"// changed again\n")
	if _, _, err := b.Lookup(t.Context(), "wishing"); err != nil {
		t.Fatal(err)
	}
	f.all.Sync(t.Context())
	if got, err := read(f, refuses); err == nil {
		t.Errorf("changed files have what the earlier ones were granted: %q", got)
	}
	if err := b.Grant("wishing", toolbox.Grant{Read: []string{outside}}); err != nil {
		t.Fatal(err)
	}
	if got, err := read(f, nobody); err != nil || got != "outside" {
		t.Errorf("granted by the operator: %q %v", got, err)
	}
	if err := b.Revoke("wishing", toolbox.Grant{}); err != nil {
		t.Fatal(err)
	}
	if got, err := read(f, nobody); err == nil {
		t.Errorf("revoked, it read %q", got)
	}
}
