package deps_test

import (
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/toolbox/deps"
)

func integrity(s *npmServer, name, version string) string {
	digest := sha512.Sum512(tarball(s.packages[name][version]))
	return "sha512-" + base64.StdEncoding.EncodeToString(digest[:])
}

// npmLockOf is a package-lock.json without addresses, as npm writes it where it is
// told to leave them out.
func npmLockOf(root, name, version, integrity string) string {
	return fmt.Sprintf(`{"name": "x", "lockfileVersion": 3, "requires": true, "packages": {
		"": {"name": "x", "dependencies": {%s}},
		"node_modules/%s": {"version": %q, "integrity": %q}}}`, root, name, version, integrity)
}

// TestPackageLock holds installers to npm's lockfile.
func TestPackageLock(t *testing.T) {
	const manifest = `{"name": "x", "dependencies": {"hello": "^1.0.0"}}`
	for _, installer := range []string{deps.PNPM, deps.NPM} {
		t.Run(installer, func(t *testing.T) {
			t.Parallel()
			s := serve(t, "hello@1.0.0", "hello@1.1.0", "hello@1.2.0", "more@1.0.0")
			c := local(t, s)
			c.Installer = installer
			in := deps.New(c)
			for _, x := range []struct{ name, lock, want, fails, keeps string }{
				{"fits", npmLockOf(`"hello": "^1.0.0"`, "hello", "1.1.0", integrity(s, "hello", "1.1.0")), "hello@1.1.0", "", ""},
				{"older form", fmt.Sprintf(`{"name": "x", "lockfileVersion": 1, "requires": true, "dependencies": {"hello": {"version": "1.1.0", "resolved": "%s/hello/-/hello-1.1.0.tgz", "integrity": %q}}}`, s.URL, integrity(s, "hello", "1.1.0")), "hello@1.1.0", "", ""},
				{"for another range", npmLockOf(`"hello": "~1.0.0"`, "hello", "1.0.0", integrity(s, "hello", "1.0.0")), "hello@1.0.0", "", map[string]string{deps.PNPM: "pnpm-lock.yaml", deps.NPM: "package-lock.json"}[installer]},
				{"another content", npmLockOf(`"hello": "^1.0.0"`, "hello", "1.1.0", integrity(s, "hello", "1.2.0")), "", "promise", ""},
				{"not JSON", "{", "", "package-lock.json is not valid: line 1, column 2", ""},
			} {
				dir := t.TempDir()
				put(t, dir, map[string]string{"package.json": manifest, "package-lock.json": x.lock, "tool.js": ""})
				report, err := in.Install(t.Context(), deps.Request{Dir: dir})
				if x.fails != "" {
					if e := failed(t, err); !strings.Contains(e.Message, x.fails) {
						t.Errorf("%s: %q, want %q\ncause: %v", x.name, e.Message, x.fails, e.Err)
					}
					continue
				}
				if err != nil {
					t.Errorf("%s: %v\n%v", x.name, err, failed(t, err).Err)
					continue
				}
				if got := node(t, dir, "import h from 'hello'; console.log(h)"); got != x.want {
					t.Errorf("%s: installed %s, want %s", x.name, got, x.want)
				}
				if x.keeps == "" && text(t, dir, "package-lock.json") != x.lock {
					t.Errorf("%s: the author's lockfile became\n%s", x.name, text(t, dir, "package-lock.json"))
				}
				if _, err := os.Stat(filepath.Join(dir, "pnpm-lock.yaml")); (err == nil) != (x.keeps == "pnpm-lock.yaml") {
					t.Errorf("%s: pnpm-lock.yaml: %v", x.name, err)
				}
				if again, err := in.Install(t.Context(), deps.Request{Dir: dir}); err != nil || again.Changed {
					t.Errorf("%s: again: %+v, %v", x.name, again, err)
				}
				if want := map[bool]string{true: x.keeps, false: "package-lock.json"}[x.keeps != ""]; report.Lockfile != want {
					t.Errorf("%s: the lockfile is %s, want %s", x.name, report.Lockfile, want)
				}
			}
		})
	}
}

// TestWithoutRegistry installs from a lockfile and a filled store, with nobody to
// ask, and sees what changes make an install.
func TestWithoutRegistry(t *testing.T) {
	t.Parallel()
	s := serve(t, "hello@1.0.0", "hello@1.1.0", "more@1.0.0")
	in := deps.New(local(t, s))
	dir := t.TempDir()
	put(t, dir, map[string]string{"tool.js": "", "package.json": `{"name": "x", "dependencies": {"hello": "1.0.0"}, "devDependencies": {"absent": "1"}}`})
	install := func(changed bool, want string) {
		t.Helper()
		report, err := in.Install(t.Context(), deps.Request{Dir: dir})
		if err != nil {
			t.Fatalf("%v\n%v", err, failed(t, err).Err)
		}
		if got := strings.TrimSpace(text(t, dir, "node_modules/hello/index.js")); report.Changed != changed || !strings.Contains(got, want) {
			t.Errorf("changed %v, installed %s, want %s", report.Changed, got, want)
		}
	}
	install(true, "1.0.0")
	// Another range is another version.
	put(t, dir, map[string]string{"package.json": `{"name": "x", "dependencies": {"hello": "^1.1.0"}}`})
	install(true, "1.1.0")
	put(t, dir, map[string]string{"package.json": "{\"name\": \"y\", \"version\": \"9.9.9\",\n \"dependencies\": {\"hello\": \"^1.1.0\"}}"})
	install(false, "1.1.0")
	s.Close()
	for _, damage := range []func() error{
		func() error { return os.RemoveAll(filepath.Join(dir, "node_modules")) },
		func() error { return os.RemoveAll(filepath.Join(dir, "node_modules/hello")) },
		func() error {
			file := filepath.Join(dir, "node_modules/hello/package.json")
			if err := os.Remove(file); err != nil { // it may be a link into the store
				return err
			}
			return os.WriteFile(file, []byte(`{"name": "hello", "version": "1.0.0"}`), 0o644)
		},
		func() error { return os.Mkdir(filepath.Join(dir, "node_modules/strange"), 0o755) },
		func() error { return os.Remove(filepath.Join(dir, "node_modules/.toolyard.json")) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		install(true, "1.1.0")
		install(false, "1.1.0")
	}
	put(t, dir, map[string]string{"package.json": `{"name": "x"}`})
	report, err := in.Install(t.Context(), deps.Request{Dir: dir})
	if err != nil || !report.Changed {
		t.Errorf("without dependencies: %+v, %v", report, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules")); err == nil {
		t.Error("node_modules is still there although nothing is needed")
	}
}
