package deps

import (
	"slices"
	"strings"
	"testing"
)

func FuzzSource(f *testing.F) {
	for _, src := range []string{"import a from './a.js'", "export default {}", "const r = /[/'\"]/; require('./b')", "`${'./x'}`", "/*", "'\\", "#!", "import('./c')"} {
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src string) {
		for _, name := range imports(src) {
			if !strings.HasPrefix(name, "./") && !strings.HasPrefix(name, "../") {
				t.Errorf("%q is no relative module, in %q", name, src)
			}
		}
		// What comes before in a line of its own is seen all the same, if nothing in
		// it is left open.
		if got := imports("import './first.js'\n" + src); len(got) == 0 || got[0] != "./first.js" {
			t.Errorf("imports of %q: %v", src, got)
		}
		_ = isESM("tool.js", func() string { return src })
	})
}

func FuzzNPMRC(f *testing.F) {
	for _, text := range []string{"registry=https://x.test/", "//x.test/:_authToken=${T}", "; a\n@s:registry = \"http://y.test\"", "a", "=", "[x]\ny=z"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, s := range parseNPMRC(text, []string{"T=secret"}) {
			if strings.ContainsAny(s.key+s.value, "\n") {
				t.Errorf("%q holds a line feed", s)
			}
			r := &registry{}
			if address, err := r.add(s.value); err == nil && (strings.Contains(address, "@") && strings.Contains(strings.SplitN(address, "/", 4)[2], "@") || len(r.hosts) != 1) {
				t.Errorf("%q became %q at %v", s.value, address, r.hosts)
			}
		}
	})
}

func FuzzLock(f *testing.F) {
	f.Add([]byte(`{"lockfileVersion": 3, "packages": {"": {}, "node_modules/a": {"version": "1.0.0", "integrity": "sha512-x"}}}`), []byte("packages:\n\n  a@1.0.0:\n    resolution: {integrity: sha512-x}\n"))
	f.Add([]byte(`{"dependencies": {"a": {"version": "1", "dependencies": {}}}}`), []byte("packages:\n  '@b/c@1':\n"))
	f.Fuzz(func(t *testing.T, npm, pnpm []byte) {
		l, err := parseNPMLock(npm)
		if err != nil {
			return
		}
		m, err := ParseManifest([]byte(`{"dependencies": {"a": "1"}}`))
		if err != nil {
			t.Fatal(err)
		}
		_ = l.fits(m)
		want := l.integrities()
		err = l.compare(pnpm)
		for id, got := range pnpmIntegrities(pnpm) {
			if integrity, there := want[id]; there && sameHash(integrity, got) == -1 && err == nil {
				t.Errorf("%s: %s for %s is accepted", id, got, integrity)
			}
		}
	})
}

func FuzzSpec(f *testing.F) {
	for _, value := range []string{"^1", "npm:a@1", "npm:@s/a", "git+ssh://git@h.test/x.git#semver:^1", "github:u/r", "u/r#main", "file:../x", "https://h.test/x.tgz", "workspace:*", "latest", "git@h.test:x"} {
		f.Add("name", value)
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		s, err := parseSpec(name, value)
		if err != nil {
			return
		}
		if !validName(s.pkg) {
			t.Errorf("%q %q is of the package %q", name, value, s.pkg)
		}
		if s.kind == specRange && s.rng == nil {
			t.Errorf("%q %q has no range", name, value)
		}
		if s.kind == specGit && strings.ContainsAny(s.host(), "/@") {
			t.Errorf("%q is at %q", value, s.host())
		}
	})
}

func TestVersionIn(t *testing.T) {
	for text, want := range map[string]string{
		"git version 2.39.5":                         "2.39.5",
		"Docker version 20.10.24+dfsg1, build 297e1": "20.10.24",
		"Python 3.11.2":                              "3.11.2",
		"v20.20.2\n":                                 "20.20.2",
		"go version go1.26.1 linux/amd64":            "1.26.1",
		"tool 7":                                     "7.0.0",
		"Copyright 2024\ntool 1.2":                   "1.2.0",
		"GNU bash, version 5.2.15(1)-release":        "5.2.15",
		"x86_64 build 010.020.030":                   "10.20.30",
		"nothing":                                    "",
		"":                                           "",
	} {
		if got := versionIn(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestHosts(t *testing.T) {
	for value, want := range map[string]string{
		"user/repo": "github.com", "github:user/repo#main": "github.com", "gitlab:user/repo": "gitlab.com", "bitbucket:u/r": "bitbucket.org", "gist:0123abc": "gist.github.com",
		"git+https://token@h.test:8443/x.git": "h.test", "git+ssh://git@h.test/x.git#v1": "h.test", "git@h.test:user/x.git": "h.test", "git://h.test/x": "h.test", "https://h.test/x.git": "h.test",
	} {
		s, err := parseSpec("p", value)
		if err != nil || s.kind != specGit || s.host() != want {
			t.Errorf("%s: %+v, host %q, %v; want %q", value, s, s.host(), err, want)
		}
	}
}

func TestNPMRC(t *testing.T) {
	in := New(Config{NPMRC: []string{}, Env: []string{"NPM_TOKEN=abcdef"}})
	got := parseNPMRC("; comment\nregistry = \"https://r.test/npm\"\n@s:registry=http://s.test:4873/\n//s.test:4873/:_authToken=${NPM_TOKEN}\n//r.test/npm/:_password=${UNSET}\n//other.test/:_authToken=never\n", in.c.Env)
	want := []setting{{"registry", "https://r.test/npm"}, {"@s:registry", "http://s.test:4873/"}, {"//s.test:4873/:_authToken", "abcdef"}, {"//r.test/npm/:_password", "${UNSET}"}, {"//other.test/:_authToken", "never"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
