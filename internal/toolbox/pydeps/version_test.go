package pydeps_test

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/toolbox/pydeps"
)

var versions = []string{
	"0", "0.0.1", "1", "1.0", "1.0.0", "1.0.1", "1.1", "1.2", "1.2.3", "1.2.3.4", "1.10", "2", "2.0", "2.2", "2.2.0", "2.2.1", "2.2.post3", "2.3", "10.0", "2024.1.1",
	"1.0a1", "1.0a2", "1.0.a.1", "1.0b1", "1.0rc1", "1.0c2", "1.0-rc.3", "1.0alpha", "1.0beta4", "1.0pre1", "1.0preview2", "1.0.dev0", "1.0.dev1", "1.0a1.dev2", "1.0.post1", "1.0-1", "1.0.rev2",
	"1.0.r3", "1.0post", "1.0.post1.dev3", "1.0rc1.post2", "1.0a1.post2.dev4", "1!0.5", "1!1.0", "2!1", "1.0+local", "1.0+local.1", "1.0+1", "1.0+2.a", "1.0+LOCAL-1", "1.1+abc", "v1.2", " 1.3 ",
	"1.2.3.dev4+abc", "1.0.0.0.0", "99999999999999999999.1", "2.2.dev1", "2.2a1", "2.3.dev1", "1.2.0rc1", "1.2.3rc1.dev1",
}

var ranges = []string{
	"", ">=1.0", ">1.0", "<1.0", "<=1.0", "==1.0", "!=1.0", "~=1.0", "~=2.2.0", "~=1.2.3", "~=2.2.post3", "~=1.0a1", "==1.*", "==1.0.*", "!=1.*", "!=1.2.*", "==2.2.*", "===1.0", "===1.0+local", "==1.0+local",
	"!=1.0+local.1", ">1.0.post1", ">1.0a1", "<1.0rc1", "<1.0.dev1", "<1.0.post2", ">=1.0.dev0", "<=1.0rc1", ">=1.0,<2", ">=1.0, <2, !=1.2", ">=1!0", "==1!1.*", ">=1.0,", "==1.0.0.0", ">=2024", "<2.2", "<2.3", ">1.2.3", "==1.0a1.*", "==1.0.post1.*",
	">1.0.dev0", "<1!0", "~=1!0.5", ">=99999999999999999999", "==1", "!=1.0a1", " >= 1.0 , < 3 ",
}

// TestAsPackaging compares with the implementation that pip uses.
func TestAsPackaging(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	const script = `
import glob, json, os, sys
try:
    import ensurepip
    wheels = sorted(glob.glob(os.path.join(os.path.dirname(ensurepip.__file__), "_bundled", "pip-*.whl")) + glob.glob("/usr/share/python-wheels/pip-*.whl"))
    sys.path[:0] = wheels[-1:]
except ImportError:
    pass
from pip._vendor.packaging.specifiers import SpecifierSet
from pip._vendor.packaging.version import Version
versions, ranges = json.load(sys.stdin)
print(json.dumps({
    "within": [[SpecifierSet(r).contains(v.strip(), prereleases=True) for r in ranges] for v in versions],
    "less": [[(Version(v) > Version(w)) - (Version(v) < Version(w)) for w in versions] for v in versions],
    "normal": [str(Version(v)) for v in versions],
}))`
	in, err := json.Marshal([][]string{versions, ranges})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, "-c", script)
	cmd.Stdin = strings.NewReader(string(in))
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, err.(*exec.ExitError).Stderr)
	}
	var want struct {
		Within [][]bool
		Less   [][]int
		Normal []string
	}
	if err := json.Unmarshal(out, &want); err != nil {
		t.Fatal(err)
	}
	compared := 0
	for i, v := range versions {
		for k, r := range ranges {
			compared++
			if got, err := pydeps.Within(v, r); err != nil || got != want.Within[i][k] {
				t.Errorf("%q in %q: got %v, %v, want %v", v, r, got, err, want.Within[i][k])
			}
		}
		for k, w := range versions {
			compared++
			if got, err := pydeps.Compare(v, w); err != nil || got != want.Less[i][k] {
				t.Errorf("%q to %q: got %d, %v, want %d", v, w, got, err, want.Less[i][k])
			}
		}
		if got := pydeps.Normal(v); got != want.Normal[i] {
			t.Errorf("%q is %q, want %q", v, got, want.Normal[i])
		}
	}
	t.Logf("%d comparisons", compared)
}

func TestSatisfied(t *testing.T) {
	for _, c := range []struct {
		version, within string
		want            bool
	}{
		{"1.0", "", true}, {"1.0a1", "", true}, {"1.0", "*", true}, {"1.0", "latest", true},
		{"1.5a1", ">=1.0", false}, {"1.5a1", ">=1.0a1", true}, {"1.5.dev1", ">=1.0,<2", false},
		{"1.2.3", "1.2.3", true}, {"1.2.4", "1.2.3", false},
		{"1.9", "^1.2", true}, {"2.0", "^1.2", false}, {"1.1", "^1.2", false}, {"0.3.9", "^0.3.1", true}, {"0.4", "^0.3.1", false}, {"0.0.3", "^0.0.3", true}, {"0.0.4", "^0.0.3", false},
		{"1.2.9", "~1.2.3", true}, {"1.3", "~1.2.3", false}, {"1.9", "~1", true}, {"2", "~1", false},
		{"1.2", "(>=1.0)", true},
	} {
		if got, err := pydeps.Satisfied(c.version, c.within); err != nil || got != c.want {
			t.Errorf("%q in %q: got %v, %v, want %v", c.version, c.within, got, err, c.want)
		}
	}
	for _, c := range [][2]string{{"", ">=1"}, {"x", ""}, {"1.0", "~=1"}, {"1.0", ">=1.*"}, {"1.0", "=>1"}, {"1.0", ">=1 <2"}, {"1.0", "===" + " "}, {"1.0", ">=1.0+local"}, {"1.0", "^x"}, {"1", "~"}} {
		if got, err := pydeps.Satisfied(c[0], c[1]); err == nil {
			t.Errorf("%q in %q: got %v and no error", c[0], c[1], got)
		}
	}
}

func TestRequirements(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"requests", "requests"},
		{"Requests_Toolbelt>=1,<2", "requests-toolbelt>=1,<2"},
		{"a.b [x, y-z] (>= 1.0)", "a-b[x,y-z]>=1.0"},
		{`tomli ; python_version < "3.11"`, `tomli ; python_version < "3.11"`},
		{"a~=1.2", "a~=1.2"},
		{"a @ https://x/y.whl", ""}, {"", ""}, {"-e .", ""}, {"a b", ""}, {"a>=", ""}, {"a==1;", ""}, {"a[", ""}, {"a[!]", ""}, {"a^1", ""}, {"a\x00", ""}, {"a;--index-url=x", ""}, {"a ~1", ""},
	} {
		got, err := pydeps.ParseRequirement(c.text)
		if (err == nil) != (c.want != "") || err == nil && got != c.want {
			t.Errorf("%q: got %q, %v, want %q", c.text, got, err, c.want)
		}
	}
	for text, want := range map[string]string{"^1.2": ">=1.2,<2", "~1.2": ">=1.2,<1.3", "1.0": "==1.0", "==1.*": "==1.*", "": "", ">=1, <2": ">=1,<2", "===x": "===x"} {
		if got, err := pydeps.RangeText(text); err != nil || got != want {
			t.Errorf("%q: got %q, %v, want %q", text, got, err, want)
		}
	}
}

func FuzzSatisfied(f *testing.F) {
	for i, v := range versions {
		f.Add(v, ranges[i%len(ranges)])
	}
	f.Add("1.0", "^1.2")
	f.Fuzz(func(t *testing.T, version, within string) {
		if n := pydeps.Normal(version); n != "" {
			if again := pydeps.Normal(n); again != n {
				t.Errorf("%q is %q, and that %q", version, n, again)
			}
			if c, err := pydeps.Compare(version, n); err != nil || c != 0 {
				t.Errorf("%q and its normal form %q: %d, %v", version, n, c, err)
			}
			if in, err := pydeps.Satisfied(version, "=="+n); err != nil || !in {
				t.Errorf("%q is not ==%s: %v", version, n, err)
			}
		}
		first, err := pydeps.Satisfied(version, within)
		if err != nil {
			return
		}
		// What is written for pip means the same.
		text, err := pydeps.RangeText(within)
		if err != nil {
			t.Fatal(err)
		}
		if second, err := pydeps.Satisfied(version, text); err != nil || second != first {
			t.Errorf("%q in %q is %v, in %q it is %v, %v", version, within, first, text, second, err)
		}
	})
}
