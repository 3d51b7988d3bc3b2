package pkgs_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/toolbox/pkgs"
)

// FuzzRepository: git gets nothing that it takes for an option or another
// protocol, and what is remembered has no password and means the same.
func FuzzRepository(f *testing.F) {
	for _, s := range []string{
		"https://example.org/x.git#v1", "git+https://u:p@example.org:8443/x", "ssh://git@example.org/x", "git@example.org:x/y.git#main",
		"git+file:///", "git+ext::sh -c x", "ssh://-oProxyCommand=x/y", "https://[::1]:1/x", "git@h:~u/x", "https://h/x#-x",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		where, remembered, host, ref, err := pkgs.ParseRepository(source)
		if err != nil {
			return
		}
		u, err := url.Parse(where)
		if err != nil || u.Scheme != "https" && u.Scheme != "ssh" && u.Scheme != "file" || strings.HasPrefix(u.Host, "-") || u.Scheme != "file" && host == "" {
			t.Fatalf("%q became %q: %v", source, where, err)
		}
		if strings.HasPrefix(ref, "-") || strings.ContainsAny(ref, ":^~*?[ \\") {
			t.Errorf("%q has the ref %q", source, ref)
		}
		if r, err := url.Parse(strings.TrimPrefix(remembered, "git+")); err == nil && r.User != nil {
			if _, has := r.User.Password(); has {
				t.Errorf("%q is remembered as %q", source, remembered)
			}
		}
		if _, again, _, ref2, err := pkgs.ParseRepository(remembered); err != nil || again != remembered || ref2 != ref {
			t.Errorf("%q is remembered as %q, and that as %q: %v", source, remembered, again, err)
		}
	})
}

// FuzzPackageJSON: what is made of any package.json is one, with the name and
// the file that it is to have, and making it again changes nothing.
func FuzzPackageJSON(f *testing.F) {
	for _, s := range []string{"", "{}", `{"version": 1, "dependencies": []}`, `{"dependencies": {"a": "<1"}, "x": "\u2028"}`, "[]", "null", `{"a":1}{`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		made, err := pkgs.SystemPackage([]byte(text), "x", "x.tool.js", map[string]string{"dep": "^1"})
		if err != nil {
			return
		}
		var object struct {
			Name, Version, Description, Main, Type string
			Private                                bool
			Dependencies                           map[string]any
		}
		if err := json.Unmarshal(made, &object); err != nil || object.Name != "@toolyard/x" || object.Main != "x.tool.js" || object.Type != "module" ||
			!object.Private || object.Version == "" || object.Description == "" || object.Dependencies["dep"] == nil {
			t.Fatalf("%q became %s: %v", text, made, err)
		}
		again, err := pkgs.SystemPackage(made, "x", "x.tool.js", nil)
		if err != nil || string(again) != string(made) {
			t.Errorf("%s became %s: %v", made, again, err)
		}
	})
}
