package policy

import (
	"slices"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/tool"
)

func TestClosed(t *testing.T) {
	const ws, home = "/srv/app", "/home/u"
	paths := []string{ws + "/.env", ws + "/sub/.env", ws + "/keys", ws + "/keys/id", ws + "/main.go", home + "/.netrc"}
	tests := []struct {
		name  string
		rules []string // "action rule"
		mode  Mode
		want  []string
	}{
		{"no rule", nil, Build, nil},
		{"a rule without a path", []string{"deny read"}, Build, nil},
		{"any depth", []string{"deny read(**/.env)"}, Build, []string{ws + "/.env", ws + "/sub/.env"}},
		{"from the workspace", []string{"deny read(/.env)"}, Build, []string{ws + "/.env"}},
		{"a directory", []string{"deny read(keys)"}, Build, []string{ws + "/keys", ws + "/keys/id"}},
		{"what is in a directory", []string{"deny read(keys/**)"}, Build, []string{ws + "/keys/id"}},
		{"home", []string{"deny read(~/.netrc)"}, Build, []string{home + "/.netrc"}},
		{"the search's own rule", []string{"deny grep(**/.env)"}, Build, []string{ws + "/.env", ws + "/sub/.env"}},
		{"another tool's rule", []string{"deny write(**/.env)"}, Build, nil},
		{"by effect", []string{"deny effect:read(**/.env)"}, Build, []string{ws + "/.env", ws + "/sub/.env"}},
		{"asked", []string{"ask read(**/.env)"}, Build, []string{ws + "/.env", ws + "/sub/.env"}},
		{"asked, but trusted", []string{"ask read(**/.env)"}, Trusted, nil},
		{"denied, though trusted", []string{"deny read(/.env)"}, Trusted, []string{ws + "/.env"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := New(nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range tt.rules {
				verb, rule, _ := strings.Cut(text, " ")
				action := tool.Deny
				if verb == "ask" {
					action = tool.Ask
				}
				r, err := ParseRule(action, rule, User, "test")
				if err != nil {
					t.Fatal(err)
				}
				p = p.With(r)
			}
			closed := p.Closed("grep", ws, home, tt.mode)
			if (closed == nil) != (len(tt.rules) == 0 || tt.name == "a rule without a path" || tt.name == "another tool's rule") {
				t.Errorf("Closed is nil: %v", closed == nil)
			}
			denied := p.Denied(ws, home)
			for _, path := range paths {
				hides := slices.Contains(tt.want, path) && tt.rules[0][:4] == "deny" && tt.name != "the search's own rule"
				if got := denied != nil && denied(path); got != hides {
					t.Errorf("denied(%s) = %v, want %v", path, got, hides)
				}
				if got, want := closed != nil && closed(path), slices.Contains(tt.want, path); got != want {
					t.Errorf("closed(%s) = %v, want %v", path, got, want)
				}
			}
		})
	}
}
