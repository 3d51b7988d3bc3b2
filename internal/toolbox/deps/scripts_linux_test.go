package deps_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/toolyard/toolyard/internal/toolbox/deps"
)

// scripted is a registry with a package whose script tells what it can do.
func scripted(t *testing.T) *npmServer {
	s := serve(t, "plain@1.0.0")
	s.add("builds", "1.0.0", map[string]string{
		"package.json": `{"name": "builds", "version": "1.0.0", "main": "index.js", "license": "MIT", "scripts": {"postinstall": "node build.js", "preinstall": "echo first > order", "test": "never"}}`,
		"build.js": `const fs = require('fs'), http = require('http');
const can = f => { try { f(); return true } catch { return false } };
const found = { event: process.env.npm_lifecycle_event, order: fs.readFileSync('order', 'utf8').trim(), cwd: process.cwd().endsWith('node_modules/builds'),
  tool: can(() => fs.writeFileSync('../../package.json', 'x')), cache: can(() => fs.readdirSync(process.env.CACHE || '` + "CACHE" + `')), token: JSON.stringify(process.env).includes('s3cret') || can(() => fs.readFileSync('../../../home/.npmrc')) };
http.get('REGISTRY/plain', r => { found.network = true; r.destroy(); done() }).on('error', () => { found.network = false; done() });
function done() { fs.writeFileSync('built.json', JSON.stringify(found)) }`,
	})
	return s
}

func TestScripts(t *testing.T) {
	t.Parallel()
	s := scripted(t)
	c := local(t, s)
	rc := filepath.Join(t.TempDir(), "npmrc")
	host := strings.TrimPrefix(s.URL, "http:")
	if err := os.WriteFile(rc, []byte("; mine\n"+host+"/:_authToken=${TOKEN}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.NPMRC, c.Env = []string{rc}, append(os.Environ(), "TOKEN=s3cret-token")
	build := s.packages["builds"]["1.0.0"]
	build["build.js"] = strings.NewReplacer("REGISTRY", s.URL, "'CACHE'", "'"+c.Cache+"'").Replace(build["build.js"])
	in := deps.New(c)
	dir := t.TempDir()
	put(t, dir, map[string]string{"tool.js": ""})
	req := deps.Request{Dir: dir, Definition: define(dir, "builds@1", "plain@1")}
	want := []deps.Script{{Package: "builds", Version: "1.0.0", Commands: []deps.ScriptCommand{{Name: "preinstall", Command: "echo first > order"}, {Name: "postinstall", Command: "node build.js"}}}}
	install := func(changed bool) {
		t.Helper()
		report, err := in.Install(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, report.Scripts, cmpopts.IgnoreUnexported(deps.Script{})); diff != "" || report.Changed != changed {
			t.Errorf("changed %v; scripts (-want +got):\n%s", report.Changed, diff)
		}
	}
	built := filepath.Join(dir, "node_modules/builds/built.json")
	install(true)
	if _, err := os.Stat(built); err == nil {
		t.Error("the script ran without consent")
	}
	install(false)
	if got := s.auth; len(got) == 0 || got[0] != "Bearer s3cret-token" {
		t.Errorf("the registry got %q", got)
	}

	req.Allow, want[0].Ran = map[string]bool{"builds": true, "plain": true}, true
	install(true)
	const found = `{"event":"postinstall","order":"first","cwd":true,"tool":false,"cache":false,"token":false,"network":%v}`
	if got, want := text(t, built), strings.ReplaceAll(found, "%v", "false"); got != want {
		t.Errorf("the script found\n%s, want\n%s", got, want)
	}
	install(false)

	req.ScriptHosts, req.Force = []string{strings.TrimPrefix(s.URL, "http://")}, true
	install(true)
	if got, want := text(t, built), strings.ReplaceAll(found, "%v", "true"); got != want {
		t.Errorf("with a network the script found\n%s, want\n%s", got, want)
	}

	req.Allow, req.Force, want[0].Ran = map[string]bool{"builds": true, "builds@1.0.0": false}, false, false
	install(true)
	if _, err := os.Stat(built); err == nil {
		t.Error("what the script made is still there after the consent was withdrawn")
	}
	clean(t, dir)
}

func TestScriptFails(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.add("bad", "2.0.0", map[string]string{"package.json": `{"name": "bad", "version": "2.0.0", "scripts": {"install": "echo no compiler >&2; exit 3"}}`})
	dir := t.TempDir()
	put(t, dir, map[string]string{"tool.js": ""})
	_, err := deps.New(local(t, s)).Install(t.Context(), deps.Request{Dir: dir, Definition: define(dir, "bad@2"), Allow: map[string]bool{"bad@2.0.0": true}})
	if e := failed(t, err); e.Message != "the install script of bad@2.0.0 failed: no compiler" {
		t.Errorf("message %q", e.Message)
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules")); err == nil {
		t.Error("something was installed")
	}
	clean(t, dir)
}
