package deps_test

import (
	"bufio"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/toolbox/deps"
)

func TestRange(t *testing.T) {
	for _, x := range []struct{ text, in, out string }{
		{"", "1.2.3 0.0.0", "1.2.3-beta"},
		{"*", "1.2.3 0.0.0", "2.0.0-rc.1"},
		{"1.2.3", "1.2.3", "1.2.4 1.2.3-beta"},
		{"=1.2.3", "1.2.3", "1.2.2"},
		{"v1.2.3", "1.2.3", "1.2.2"},
		{"^1.2.3", "1.2.3 1.9.9", "1.2.2 2.0.0 2.0.0-alpha"},
		{"^0.2.3", "0.2.3 0.2.9", "0.3.0 0.2.2"},
		{"^0.0.3", "0.0.3", "0.0.4"},
		{"^0.0", "0.0.0 0.0.9", "0.1.0"},
		{"^0", "0.9.9", "1.0.0"},
		{"^1.x", "1.0.0 1.9.0", "2.0.0 0.9.0"},
		{"~1.2.3", "1.2.3 1.2.9", "1.3.0"},
		{"~1.2", "1.2.0 1.2.9", "1.3.0"},
		{"~1", "1.0.0 1.9.9", "2.0.0"},
		{"~> 1.2.3", "1.2.9", "1.3.0"},
		{"1.x", "1.0.0 1.9.9", "2.0.0"},
		{"1.2.*", "1.2.0", "1.3.0"},
		{"1", "1.0.0 1.9.9", "2.0.0-0"},
		{">=1.2 <2", "1.2.0 1.9.9", "2.0.0 1.1.9"},
		{"> 1.2", "1.3.0", "1.2.9"},
		{"<=1.2", "1.2.9", "1.3.0"},
		{"<1.2", "1.1.9", "1.2.0 1.2.0-beta"},
		{"1.2.3 - 2.3.4", "1.2.3 2.3.4", "2.3.5 1.2.2"},
		{"1.2 - 2.3", "1.2.0 2.3.9", "2.4.0"},
		{"^1.2.3-beta.2", "1.2.3-beta.4 1.2.3 1.5.0", "1.2.3-beta.1 1.2.4-beta.2"},
		{"<1.0.0 || >=2.3.1 <2.4.5 || >=2.5.2 <3.0.0", "0.9.0 2.3.1 2.6.0", "1.0.0 2.4.5 3.0.0"},
		{">=20", "20.10.24 100.0.0", "19.9.9"},
		{">*", "", "1.0.0"},
	} {
		r, err := deps.ParseRange(x.text)
		if err != nil {
			t.Errorf("%q: %v", x.text, err)
			continue
		}
		for _, v := range strings.Fields(x.in) {
			if !r.Has(v) {
				t.Errorf("%s is not in %q", v, x.text)
			}
		}
		for _, v := range strings.Fields(x.out) {
			if r.Has(v) {
				t.Errorf("%s is in %q", v, x.text)
			}
		}
	}
	for _, wrong := range []string{"latest", "1.2.3.4", "^^1", "><1", ">=", "1.2.x.y", "01.2.3", "1,2", "a || b", "1.2.3-", "-", "1 -", strings.Repeat("1 ", 200)} {
		if r, err := deps.ParseRange(wrong); err == nil {
			t.Errorf("%q is the range %v", wrong, r)
		}
	}
}

// TestRangeLikeNPM compares with the semver of npm itself, over all pairs.
func TestRangeLikeNPM(t *testing.T) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("no npm")
	}
	real, err := filepath.EvalSymlinks(npm)
	if err != nil {
		t.Fatal(err)
	}
	semver := filepath.Join(filepath.Dir(filepath.Dir(real)), "node_modules", "semver")
	var ranges, versions []string
	for _, n := range []string{"0", "0.0", "0.0.0", "0.0.1", "0.1", "0.1.2", "1", "1.x", "1.2", "1.2.x", "1.2.3", "1.2.3-beta.2", "1.2.3-0", "*", "x", "2.0.0-rc.1+build.5", "1.X.3", "v1.2", "01.2.3", "1.2.3.4", "", "latest", "1.2.3-01"} {
		for _, op := range []string{"", "=", "^", "~", "~>", "<", "<=", ">", ">=", "< ", "^v", "==", "<>"} {
			ranges = append(ranges, op+n)
		}
		for _, m := range []string{"1.2", "2", "2.3.4", "x", "1.2.3-beta"} {
			ranges = append(ranges, n+" - "+m, ">="+n+" <"+m, n+" || "+m, n+"||>"+m, n+"  "+m, ">"+n+" "+m)
		}
	}
	for _, core := range []string{"0.0.0", "0.0.1", "0.0.2", "0.1.0", "0.1.2", "0.2.0", "1.0.0", "1.2.0", "1.2.2", "1.2.3", "1.2.4", "1.3.0", "2.0.0", "2.3.4", "2.3.5", "3.0.0"} {
		for _, pre := range []string{"", "-0", "-alpha", "-beta", "-beta.2", "-beta.11", "-rc.1"} {
			versions = append(versions, core+pre)
		}
	}
	in, _ := json.Marshal(map[string]any{"ranges": ranges, "versions": versions})
	cmd := exec.Command("node", "-e", `
const semver = require(process.argv[1]); let text = '';
process.stdin.on('data', d => text += d).on('end', () => { const { ranges, versions } = JSON.parse(text);
for (const r of ranges) console.log(semver.validRange(r) === null ? 'invalid' : versions.map(v => semver.satisfies(v, r) ? 1 : 0).join('')) })`, semver)
	cmd.Stdin = strings.NewReader(string(in))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(strings.NewReader(string(out)))
	differ := 0
	for _, text := range ranges {
		lines.Scan()
		r, err := deps.ParseRange(text)
		if (err != nil) != (lines.Text() == "invalid") {
			t.Errorf("%q: we say %v, npm %q", text, err, lines.Text())
			continue
		}
		if err != nil {
			continue
		}
		for n, v := range versions {
			if got, want := r.Has(v), lines.Text()[n] == '1'; got != want {
				if differ++; differ < 30 {
					t.Errorf("%s in %q is %v, for npm %v", v, text, got, want)
				}
			}
		}
	}
}

func FuzzRange(f *testing.F) {
	for _, text := range []string{"", "^1.2.3-beta", "1.x || >=2 <3", "1 - 2", "~> 1", "<", "v1", "*-"} {
		f.Add(text, "1.2.3-beta")
	}
	f.Fuzz(func(t *testing.T, text, version string) {
		r, err := deps.ParseRange(text)
		if err != nil {
			return
		}
		has := r.Has(version)
		again, err := deps.ParseRange(r.String())
		if err != nil || again.Has(version) != has {
			t.Errorf("%q read again: %v, %v", r, again, err)
		}
		// A range and everything else hold what the range holds.
		if wider, err := deps.ParseRange(text + " || 7.7.7"); err == nil && has && !wider.Has(version) {
			t.Errorf("%q has %q, the wider %q has not", text, version, wider)
		}
	})
}
