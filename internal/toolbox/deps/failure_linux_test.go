package deps_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/toolbox/deps"
)

// local is a config with the registry of a test.
func local(t testing.TB, s *npmServer) deps.Config {
	c := config(t)
	c.NPMRC = []string{}
	c.Registry = s.URL + "/"
	return c
}

// TestFailures breaks the registry in each way and reads what is said, with both
// installers. What was installed before stays as it was.
func TestFailures(t *testing.T) {
	for _, x := range []struct {
		name, wanted, what, how string
		npm                     bool // npm is tried too, which takes a second or more
		say                     []string
	}{
		{"no such version", "hello@^9.0.0", "", "", true, []string{"no version of hello@^9.0.0 is in the registry", "that fits"}},
		{"no such package", "absent@^1.0.0", "", "", true, []string{"has no absent"}},
		{"packument 500", "hello@^1.0.0", "hello", "500", false, []string{"failed when it was asked for hello"}},
		{"packument 403", "hello@^1.0.0", "hello", "403", false, []string{"does not let this machine have hello"}},
		{"tarball 404", "hello@^1.0.0", "hello.tgz", "404", false, []string{"has no hello@1.2.0"}},
		{"tarball 500", "hello@^1.0.0", "hello.tgz", "500", false, []string{"failed when it was asked for hello@1.2.0"}},
		{"integrity", "hello@^1.0.0", "hello.tgz", "integrity", true, []string{"sent for hello@1.2.0 is not what its checksum promises"}},
		{"cut body", "hello@^1.0.0", "hello.tgz", "cut", true, []string{"broke off while it sent "}},
	} {
		for _, installer := range []string{deps.PNPM, deps.NPM} {
			if installer == deps.NPM && !x.npm {
				continue
			}
			t.Run(strings.ReplaceAll(x.name, " ", "_")+"/"+installer, func(t *testing.T) {
				t.Parallel()
				s := serve(t, "hello@1.2.0", "before@1.0.0")
				c := local(t, s)
				dir := t.TempDir()
				put(t, dir, map[string]string{"tool.js": ""})
				if _, err := deps.New(c).Install(t.Context(), deps.Request{Dir: dir, Definition: define(dir, "before@^1.0.0")}); err != nil {
					t.Fatal(err)
				}
				c.Installer = installer
				in := deps.New(c)
				manifest := text(t, dir, "package.json")
				s.breaks(x.what, x.how)
				_, err := in.Install(t.Context(), deps.Request{Dir: dir, Definition: define(dir, "before@^1.0.0", x.wanted)})
				e := failed(t, err)
				for _, say := range x.say {
					if !strings.Contains(e.Message, say) {
						t.Errorf("message %q, want %q in it (%v)\ncause: %v", e.Message, say, e.Details, e.Err)
					}
				}
				if strings.Contains(e.Message, "\n") {
					t.Errorf("message of several lines: %q", e.Message)
				}
				if got := text(t, dir, "node_modules/before/index.js"); !strings.Contains(got, "before@1.0.0") {
					t.Errorf("what was there before is %q", got)
				}
				if got := text(t, dir, "package.json"); got != manifest {
					t.Errorf("package.json became\n%s", got)
				}
				clean(t, dir)
				s.breaks(x.what, "")
				if !strings.HasPrefix(x.name, "no such") && installer == deps.PNPM {
					if _, err := in.Install(t.Context(), deps.Request{Dir: dir, Definition: define(dir, "before@^1.0.0", x.wanted)}); err != nil {
						t.Errorf("once the registry is well: %v", err)
					}
				}
			})
		}
	}
}

func TestRegistryDown(t *testing.T) {
	for _, installer := range []string{deps.PNPM, deps.NPM} {
		t.Run(installer, func(t *testing.T) {
			t.Parallel()
			s := serve(t, "hello@1.2.0")
			s.Close()
			c := local(t, s)
			c.Installer = installer
			dir := t.TempDir()
			put(t, dir, map[string]string{"tool.js": ""})
			_, err := deps.New(c).Install(t.Context(), deps.Request{Dir: dir, Definition: define(dir, "hello@1")})
			e := failed(t, err)
			if !strings.Contains(e.Message, "cannot be reached") || !e.Retryable {
				t.Errorf("error %+v (%v)", e, e.Err)
			}
		})
	}
}

// TestOffline installs from what an earlier install of another tool fetched.
func TestOffline(t *testing.T) {
	for _, installer := range []string{deps.PNPM, deps.NPM} {
		t.Run(installer, func(t *testing.T) {
			t.Parallel()
			s := serve(t, "hello@1.2.0", "other@1.0.0")
			c := local(t, s)
			c.Installer = installer
			in := deps.New(c)
			first := t.TempDir()
			put(t, first, map[string]string{"tool.js": ""})
			if _, err := in.Install(t.Context(), deps.Request{Dir: first, Definition: define(first, "hello@1")}); err != nil {
				t.Fatal(err)
			}
			s.Close()
			second := t.TempDir()
			put(t, second, map[string]string{"tool.js": ""})
			if _, err := in.Install(t.Context(), deps.Request{Dir: second, Definition: define(second, "hello@1"), Offline: true}); err != nil {
				t.Errorf("offline: %v", err)
			}
			_, err := in.Install(t.Context(), deps.Request{Dir: second, Definition: define(second, "hello@1", "other@1"), Offline: true})
			if e := failed(t, err); !strings.Contains(e.Message, "other@1 is not in the cache") && !strings.Contains(e.Message, "other is not in the cache") {
				t.Errorf("error %q (%v)", e.Message, e.Err)
			}
		})
	}
}

// TestLimit lets a registry hang for longer than an install may take, and a
// caller that gives up.
func TestLimit(t *testing.T) {
	t.Parallel()
	s := serve(t, "hello@1.2.0")
	s.breaks("hello", "hang")
	c := local(t, s)
	c.Limit = 400 * time.Millisecond
	dir := t.TempDir()
	put(t, dir, map[string]string{"tool.js": ""})
	req := deps.Request{Dir: dir, Definition: define(dir, "hello@1")}
	_, err := deps.New(c).Install(t.Context(), req)
	if e := failed(t, err); !strings.Contains(e.Message, "took longer than 400ms") {
		t.Errorf("error %q (%v)", e.Message, e.Err)
	}
	c.Limit = time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := deps.New(c).Install(ctx, req); err == nil || !strings.Contains(err.Error(), "cancelled") {
		t.Errorf("cancelled: %v", err)
	}
	clean(t, dir)
	if _, err := os.Stat(filepath.Join(dir, "node_modules")); err == nil {
		t.Error("something was installed")
	}
}

// TestPeers lets packages ask for versions that do not go together, which npm
// refuses.
func TestPeers(t *testing.T) {
	t.Parallel()
	s := serve(t, "hello@1.0.0", "hello@2.0.0")
	s.add("picky", "1.0.0", map[string]string{"package.json": `{"name": "picky", "version": "1.0.0", "peerDependencies": {"hello": "^1.0.0"}}`})
	c := local(t, s)
	c.Installer = deps.NPM
	dir := t.TempDir()
	put(t, dir, map[string]string{"package.json": `{"name": "x", "version": "1.0.0", "dependencies": {"hello": "2", "picky": "1"}}`})
	_, err := deps.New(c).Install(t.Context(), deps.Request{Dir: dir})
	if e := failed(t, err); !strings.Contains(e.Message, "do not go together: picky@1.0.0 wants hello@^1.0.0, and hello@2.0.0 is asked for") {
		t.Errorf("message %q\n%v", e.Message, e.Err)
	}
}
