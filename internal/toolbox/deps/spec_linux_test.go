package deps_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/toolbox/deps"
)

// TestSpecs installs what package.json can name besides a range.
func TestSpecs(t *testing.T) {
	s := serve(t, "hello@1.0.0", "hello@2.0.0", "@scope/pkg@1.5.0")
	s.add("needs", "1.0.0", map[string]string{"package.json": `{"name": "needs", "version": "1.0.0", "dependencies": {"hello": "^1.0.0"}}`, "index.js": "module.exports = 'needs ' + require('hello')"})
	for _, installer := range []string{deps.PNPM, deps.NPM} {
		t.Run(installer, func(t *testing.T) {
			t.Parallel()
			c := local(t, s)
			c.Installer = installer
			in := deps.New(c)
			for _, x := range []struct{ name, deps, script, want, say string }{
				{"tag", `"hello": "latest"`, "import h from 'hello'; console.log(h)", "hello@2.0.0", ""},
				{"alias", `"old": "npm:hello@1", "hello": "2"`, "import h from 'hello'; import o from 'old'; console.log(h, o)", "hello@2.0.0 hello@1.0.0", ""},
				{"scope", `"@scope/pkg": "^1.0.0"`, "import h from '@scope/pkg'; console.log(h)", "@scope/pkg@1.5.0", ""},
				{"two majors", `"needs": "1", "hello": "2"`, "import n from 'needs'; import h from 'hello'; console.log(n, h)", "needs hello@1.0.0 hello@2.0.0", ""},
				{"not named by the tool", `"needs": "1"`, "import h from 'hello'; console.log(h)", "hello@1.0.0", ""},
				{"a folder", `"mine": "file:./lib/mine"`, "import m from 'mine'; console.log(m)", "mine", ""},
				{"a folder outside", `"mine": "file:../mine"`, "", "", "the package at ../mine lies outside of the tool's folder"},
				{"a folder that is not there", `"mine": "./absent"`, "", "", "the package at absent cannot be used: no such file"},
				{"git", `"hello": "github:user/repo"`, "", "", "hello comes from github.com, which installs may not reach"},
				{"git by ssh", `"hello": "git+ssh://git@git.test/x.git#v1"`, "", "", "hello comes from git.test, which"},
				{"tarball elsewhere", `"hello": "https://files.test/hello.tgz"`, "", "", "hello comes from files.test, which"},
				{"tarball", `"hello": "` + s.URL + `/hello/-/hello-1.0.0.tgz"`, "import h from 'hello'; console.log(h)", "hello@1.0.0", ""},
				{"workspace", `"hello": "workspace:^"`, "", "", "works only inside of a workspace"},
			} {
				if x.say == "" && installer == deps.NPM && !strings.Contains("alias, two majors, a folder", x.name) {
					continue // npm takes a second each, and nothing of these is ours
				}
				dir := t.TempDir()
				put(t, dir, map[string]string{"package.json": `{"name": "x", "dependencies": {` + x.deps + `}}`, "tool.js": "",
					"lib/mine/package.json": `{"name": "mine", "version": "0.1.0"}`, "lib/mine/index.js": "module.exports = 'mine'", ".npmrc": "registry=http://evil.test/\n"})
				report, err := in.Install(t.Context(), deps.Request{Dir: dir})
				if x.say != "" {
					if e := failed(t, err); !strings.Contains(e.Message, x.say) {
						t.Errorf("%s: %q, want %q", x.name, e.Message, x.say)
					}
					continue
				}
				if err != nil {
					t.Errorf("%s: %v\n%v", x.name, err, failed(t, err).Err)
					continue
				}
				if got := node(t, dir, x.script); got != x.want {
					t.Errorf("%s: prints %q, want %q", x.name, got, x.want)
				}
				if !strings.Contains(strings.Join(report.Warnings, "\n"), "The tool's own .npmrc is not used") {
					t.Errorf("%s: warnings %q", x.name, report.Warnings)
				}
				if again, err := in.Install(t.Context(), deps.Request{Dir: dir}); err != nil || again.Changed {
					t.Errorf("%s: again %+v, %v", x.name, again, err)
				}
			}
		})
	}
}

// TestLocalPackageChanges installs anew when a package in the folder was edited.
func TestLocalPackageChanges(t *testing.T) {
	t.Parallel()
	s := serve(t)
	in := deps.New(local(t, s))
	dir := t.TempDir()
	put(t, dir, map[string]string{"package.json": `{"dependencies": {"mine": "file:lib"}}`, "lib/package.json": `{"name": "mine", "version": "0.1.0"}`, "lib/index.js": "module.exports = 'one'"})
	for _, want := range []string{"one", "second"} {
		put(t, dir, map[string]string{"lib/index.js": "module.exports = '" + want + "'"})
		if _, err := in.Install(t.Context(), deps.Request{Dir: dir}); err != nil {
			t.Fatalf("%v\n%v", err, failed(t, err).Err)
		}
		if got := node(t, dir, "import m from 'mine'; console.log(m)"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestSecrets lets a registry refuse a token, and looks for the token in all that
// is said.
func TestSecrets(t *testing.T) {
	t.Parallel()
	s := serve(t, "hello@1.0.0")
	s.breaks("hello", "401")
	for name, set := range map[string]func(c *deps.Config, rc string){
		"token": func(c *deps.Config, rc string) {
			put(t, rc, map[string]string{"npmrc": strings.TrimPrefix(s.URL, "http:") + "/:_authToken=npm_s3cret\n"})
		},
		"in address": func(c *deps.Config, rc string) {
			c.Registry = strings.Replace(s.URL, "http://", "http://user:npm_s3cret@", 1)
		},
		"environment": func(c *deps.Config, rc string) {
			c.Registry, c.Env = "", append(os.Environ(), "npm_config_registry="+strings.Replace(s.URL, "http://", "http://user:npm_s3cret@", 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, rc := local(t, s), t.TempDir()
			c.NPMRC = []string{filepath.Join(rc, "npmrc")}
			set(&c, rc)
			dir := t.TempDir()
			put(t, dir, manifestOf("1.0.0"))
			s.mu.Lock()
			s.auth = nil
			s.mu.Unlock()
			_, err := deps.New(c).Install(t.Context(), deps.Request{Dir: dir})
			e := failed(t, err)
			if all := e.Text() + e.Err.Error() + string(e.AppendJSON(nil)); strings.Contains(all, "s3cret") || !strings.Contains(e.Message, "does not let this machine have hello") {
				t.Errorf("it says %s", all)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if len(s.auth) == 0 || s.auth[0] == "" {
				t.Errorf("the registry got %q", s.auth)
			}
		})
	}
}

// TestFastest picks of several registries the one that answers.
func TestFastest(t *testing.T) {
	t.Parallel()
	s := serve(t, "hello@1.0.0")
	down := serve(t)
	down.Close()
	ill := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
	t.Cleanup(ill.Close)
	c := local(t, s)
	c.Registry, c.Registries = "", []string{down.URL, ill.URL, s.URL}
	dir := t.TempDir()
	put(t, dir, manifestOf("1.0.0"))
	report, err := deps.New(c).Install(t.Context(), deps.Request{Dir: dir})
	if err != nil || report.Registry != s.URL+"/" {
		t.Errorf("%+v, %v", report, err)
	}
}

// TestNoInstaller says what is missing.
func TestNoInstaller(t *testing.T) {
	s := serve(t, "hello@1.0.0")
	c := local(t, s)
	c.Program, c.Env = nil, []string{"PATH=" + t.TempDir()}
	dir := t.TempDir()
	put(t, dir, manifestOf("1.0.0"))
	for installer, say := range map[string]string{"": "pnpm is not on this machine", deps.Bun: "bun is not on this machine", "yarn": `there is no installer "yarn"`} {
		c.Installer = installer
		_, err := deps.New(c).Install(t.Context(), deps.Request{Dir: dir})
		if e := failed(t, err); e.Message != say {
			t.Errorf("%q: %q, want %q", installer, e.Message, say)
		}
	}
}
