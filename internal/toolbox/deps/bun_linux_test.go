package deps_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/toolbox/deps"
)

// TestBun installs with bun: npm's lockfile is kept to, scripts do not run, and
// what goes wrong is said.
func TestBun(t *testing.T) {
	t.Parallel()
	bun, err := bunProgram()
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, "hello@1.0.0", "hello@1.1.0", "wrong@1.0.0")
	s.add("builds", "1.0.0", map[string]string{"package.json": `{"name": "builds", "version": "1.0.0", "scripts": {"postinstall": "echo ran > ran"}}`})
	s.breaks("wrong.tgz", "integrity")
	c := local(t, s)
	c.Installer = deps.Bun
	c.Program = func(_ context.Context, name string) (string, error) {
		if name == deps.Bun {
			return bun, nil
		}
		return exec.LookPath(name)
	}
	in := deps.New(c)
	dir := t.TempDir()
	put(t, dir, map[string]string{"package.json": `{"name": "x", "dependencies": {"hello": "^1.0.0", "builds": "1"}}`,
		"package-lock.json": strings.Replace(npmLockOf(`"hello": "^1.0.0", "builds": "1"`, "hello", "1.0.0", integrity(s, "hello", "1.0.0")), `"node_modules/hello": {`,
			`"node_modules/builds": {"version": "1.0.0", "resolved": "`+s.URL+`/builds/-/builds-1.0.0.tgz", "hasInstallScript": true, "integrity": "`+integrity(s, "builds", "1.0.0")+`"}, "node_modules/hello": {"resolved": "`+s.URL+`/hello/-/hello-1.0.0.tgz", `, 1)})
	report, err := in.Install(t.Context(), deps.Request{Dir: dir})
	if err != nil {
		t.Fatalf("%v\n%v", err, failed(t, err).Err)
	}
	if got := node(t, dir, "import h from 'hello'; import fs from 'fs'; console.log(h, fs.existsSync('node_modules/builds/ran'))"); got != "hello@1.0.0 false" || len(report.Scripts) != 1 {
		t.Errorf("it prints %q, scripts %v", got, report.Scripts)
	}
	if again, err := in.Install(t.Context(), deps.Request{Dir: dir}); err != nil || again.Changed {
		t.Errorf("again %+v, %v", again, err)
	}
	for wanted, say := range map[string]string{
		"hello@9":  "no version of hello@9 is in the registry",
		"absent@1": "has no absent",
		"wrong@1":  "is not what its checksum promises",
	} {
		name, version, _ := strings.Cut(wanted, "@")
		dir := t.TempDir()
		put(t, dir, map[string]string{"package.json": `{"dependencies": {"` + name + `": "` + version + `"}}`})
		_, err := in.Install(t.Context(), deps.Request{Dir: dir})
		if e := failed(t, err); !strings.Contains(e.Message, say) {
			t.Errorf("%s: %q, want %q\n%v", wanted, e.Message, say, e.Err)
		}
	}
	s.Close()
	other := t.TempDir()
	put(t, other, manifestOf("1.0.0"))
	if _, err := in.Install(t.Context(), deps.Request{Dir: other, Offline: true}); err != nil {
		t.Errorf("offline: %v\n%v", err, failed(t, err).Err)
	}
}
