package deps_test

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/toolbox/deps"
)

// TestReal installs from this machine's registry what tools really use.
func TestReal(t *testing.T) {
	t.Parallel()
	c := config(t)
	in := deps.New(c)
	for _, x := range []struct {
		name, source, script, want string
		packages                   []string
	}{
		{"lodash", "module.exports = { execute() {} }", "import _ from 'lodash'; console.log(_.chunk([1, 2, 3], 2).length)", "2", []string{"lodash@^4.17.0"}},
		{"native addon", "export default {}", "import { createCanvas } from '@napi-rs/canvas'; const c = createCanvas(2, 2); c.getContext('2d').fillRect(0, 0, 1, 1); console.log(c.toBuffer('image/png').subarray(1, 4).toString())", "PNG", []string{"@napi-rs/canvas@^0.1.60"}},
		{"esm only", "import x from 'p-limit'\nexport default {}", "import limit from 'p-limit'; console.log(await limit(1)(() => 'ran'))", "ran", []string{"p-limit@^6.0.0"}},
		{"old major", "", "import { createRequire } from 'module'; const r = createRequire(process.cwd() + '/'); console.log(r('is-number/package.json').version.split('.')[0], r('kind-of/package.json').version)", "6 6.0.3", []string{"is-number@^6.0.0", "kind-of@6.0.3"}},
		{"new major", "", "import { createRequire } from 'module'; const r = createRequire(process.cwd() + '/'); console.log(r('is-number/package.json').version.split('.')[0])", "7", []string{"is-number@^7.0.0"}},
	} {
		t.Run(strings.ReplaceAll(x.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			put(t, dir, map[string]string{"tool.js": x.source})
			began := time.Now()
			report, err := in.Install(t.Context(), deps.Request{Dir: dir, Definition: define(dir, x.packages...)})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("installed in %v: %d packages, scripts %v", time.Since(began), len(report.Packages), report.Scripts)
			if got := node(t, dir, x.script); got != x.want {
				t.Errorf("it prints %q, want %q", got, x.want)
			}
			if esm := strings.Contains(text(t, dir, "package.json"), `"type": "module"`); esm != strings.Contains(x.source, "export default") {
				t.Errorf("package.json is\n%s", text(t, dir, "package.json"))
			}
			if unmet, err := deps.Satisfied(dir); err != nil || len(unmet) > 0 {
				t.Errorf("unmet: %v %v", unmet, err)
			}
			if !report.Changed || report.Installer != deps.PNPM || report.Lockfile != "pnpm-lock.yaml" {
				t.Errorf("report %+v", report)
			}
			clean(t, dir)
			began = time.Now()
			again, err := in.Install(t.Context(), deps.Request{Dir: dir, Definition: define(dir, x.packages...)})
			if err != nil || again.Changed || len(again.Packages) != len(report.Packages) {
				t.Errorf("again: %+v, %v", again, err)
			}
			t.Logf("again in %v", time.Since(began))
		})
	}
}

// TestRealLock installs with pnpm what npm itself locked, a tree of many packages
// with versions that are not the newest, and compares what is there.
func TestRealLock(t *testing.T) {
	t.Parallel()
	c := config(t)
	dir := t.TempDir()
	put(t, dir, map[string]string{"package.json": `{"name": "x", "version": "1.0.0", "dependencies": {"rimraf": "3.0.0", "glob": "7.1.6", "minimatch": "3.0.4"}, "devDependencies": {"is-number": "6.0.0"}}`})
	cmd := exec.Command("npm", "install", "--package-lock-only", "--no-audit", "--no-fund", "--ignore-scripts")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm: %v\n%s", err, out)
	}
	var lock struct {
		Packages map[string]struct{ Version string }
	}
	if err := json.Unmarshal([]byte(text(t, dir, "package-lock.json")), &lock); err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for place, p := range lock.Packages {
		if name := place[strings.LastIndex(place, "/")+1:]; place != "" && name != "is-number" {
			want = append(want, name+"@"+p.Version)
		}
	}
	// Ranges as they are in life: wider than what is locked.
	for _, file := range []string{"package.json", "package-lock.json"} {
		wider := strings.NewReplacer(`"rimraf": "3.0.0"`, `"rimraf": "^3.0.0"`, `"glob": "7.1.6"`, `"glob": "^7.0.0"`, `"minimatch": "3.0.4"`, `"minimatch": "^3.0.0"`).Replace(text(t, dir, file))
		put(t, dir, map[string]string{file: wider})
	}
	report, err := deps.New(c).Install(t.Context(), deps.Request{Dir: dir})
	if err != nil {
		t.Fatalf("%v\n%v", err, failed(t, err).Err)
	}
	for _, p := range report.Packages {
		got = append(got, p.Name+"@"+p.Version)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" || report.Installer != deps.PNPM {
		t.Errorf("%s installed (-want +got):\n%s", report.Installer, diff)
	}
}
