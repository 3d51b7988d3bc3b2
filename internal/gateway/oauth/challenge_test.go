package oauth_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/gateway/oauth"
)

func TestChallenges(t *testing.T) {
	type params = map[string]string
	for _, c := range []struct {
		name    string
		lines   []string
		schemes []string
		params  []params
	}{
		{"nothing", nil, nil, nil},
		{"empty", []string{"", " , "}, nil, nil},
		{"a scheme alone", []string{"Bearer"}, []string{"bearer"}, []params{{}}},
		{"one", []string{`Bearer resource_metadata="https://a.test/x", scope="a b"`}, []string{"bearer"}, []params{{"resource_metadata": "https://a.test/x", "scope": "a b"}}},
		{"no blank after the comma", []string{`Bearer a="1",b="2"`}, []string{"bearer"}, []params{{"a": "1", "b": "2"}}},
		{"names in any case", []string{`BEARER Error="x"`}, []string{"bearer"}, []params{{"error": "x"}}},
		{"blanks around =", []string{`Bearer a = "1"`}, []string{"bearer"}, []params{{"a": "1"}}},
		{"tokens", []string{`Bearer error=invalid_token, scope=a`}, []string{"bearer"}, []params{{"error": "invalid_token", "scope": "a"}}},
		{"an unquoted URL", []string{`Bearer resource_metadata=https://a.test/x, error=y`}, []string{"bearer"}, []params{{"resource_metadata": "https://a.test/x", "error": "y"}}},
		{"escaped", []string{`Bearer a="x\"y\\z"`}, []string{"bearer"}, []params{{"a": `x"y\z`}}},
		{"a comma in quotes", []string{`Bearer a="x, Basic b=c"`}, []string{"bearer"}, []params{{"a": "x, Basic b=c"}}},
		{"no end of quotes", []string{`Bearer a="x`}, []string{"bearer"}, []params{{"a": "x"}}},
		{"two in a line", []string{`Basic realm="r", Bearer a="1"`}, []string{"basic", "bearer"}, []params{{"realm": "r"}, {"a": "1"}}},
		{"two lines", []string{`Basic realm="r"`, `Bearer a="1"`}, []string{"basic", "bearer"}, []params{{"realm": "r"}, {"a": "1"}}},
		{"data", []string{`Negotiate YWJj==, Bearer a="1"`}, []string{"negotiate", "bearer"}, []params{{}, {"a": "1"}}},
		{"twice", []string{`Bearer a="1", a="2"`}, []string{"bearer"}, []params{{"a": "1"}}},
		{"rubbish", []string{`"x", Bearer a="1"`}, []string{"", "bearer"}, []params{{}, {"a": "1"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			schemes, got := oauth.Challenges(c.lines)
			if diff := cmp.Diff(c.schemes, schemes); diff != "" {
				t.Errorf("%q: schemes (-want +got)\n%s", c.lines, diff)
			}
			if diff := cmp.Diff(c.params, got); diff != "" {
				t.Errorf("%q: parameters (-want +got)\n%s", c.lines, diff)
			}
		})
	}
}

func FuzzChallenges(f *testing.F) {
	for _, s := range []string{`Bearer a="1", b=2`, `Basic YQ==, Bearer`, `Bearer a="\`, `,,=`, `a=b`, strings.Repeat("a ", 100)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		schemes, params := oauth.Challenges([]string{s, s})
		if len(schemes) > 32 {
			t.Errorf("%d challenges", len(schemes))
		}
		for i, p := range params {
			if len(p) > 32 {
				t.Errorf("%d parameters", len(p))
			}
			for name := range p {
				if name == "" || name != strings.ToLower(name) || strings.ContainsAny(name, " ,=\"") {
					t.Errorf("%q: %s has a parameter %q", s, schemes[i], name)
				}
			}
		}
	})
}
