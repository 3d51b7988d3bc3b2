package profile_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/profile"
	"github.com/toolyard/toolyard/tool"
)

func tools() []*tool.Spec {
	return []*tool.Spec{
		{Name: "bash", Category: "shell", Effects: tool.Execute | tool.Write, Aliases: []string{"sh"}},
		{Name: "call_tool", Category: "meta"},
		{Name: "git_diff", Category: "git", Effects: tool.Read},
		{Name: "git_log", Category: "git", Effects: tool.Read},
		{Name: "create_issue", Source: "github", Effects: tool.Network},
		{Name: "list_issues", Source: "github", Effects: tool.Network},
		{Name: "read", Category: "files", Effects: tool.Read},
		{Name: "tool_describe", Category: "meta"},
		{Name: "tool_search", Category: "meta"},
		{Name: "pdf-reader", Source: "toolbox", Category: "toolbox", Effects: tool.Read},
		{Name: "write", Category: "files", Effects: tool.Write},
	}
}

func names(specs []*tool.Spec) string {
	var list []string
	for _, s := range specs {
		list = append(list, s.FullName())
	}
	return strings.Join(list, " ")
}

func TestAllows(t *testing.T) {
	const finders = "call_tool tool_describe tool_search"
	for _, c := range []struct {
		name     string
		patterns []string
		want     string
	}{
		{"nothing said", nil, "bash call_tool git_diff git_log github:create_issue github:list_issues read tool_describe tool_search toolbox:pdf-reader write"},
		{"a name", []string{"read"}, "read"},
		{"a name of another system", []string{"Bash", "Read"}, "bash read"},
		{"an alias", []string{"sh"}, "bash"},
		{"a client's spelling", []string{"mcp__toolyard__github__create_issue"}, "github:create_issue"},
		{"with its source", []string{"github:create_issue"}, "github:create_issue"},
		{"on the wire", []string{"github__list_issues"}, "github:list_issues"},
		{"a family", []string{"files"}, "read write"},
		{"a family, in any case", []string{"category:Git"}, "git_diff git_log"},
		{"a source", []string{"github:*", "toolbox:*"}, "github:create_issue github:list_issues toolbox:pdf-reader"},
		{"a source without a star", []string{"github"}, "github:create_issue github:list_issues"},
		{"names with a star", []string{"git_*", "github:create_*"}, "git_diff git_log github:create_issue"},
		{"an effect", []string{"effect:network"}, "github:create_issue github:list_issues"},
		{"exclusions beat", []string{"!write", "files"}, "read"},
		{"only exclusions", []string{"!effect:network", "!effect:execute", "!meta"}, "git_diff git_log read toolbox:pdf-reader write"},
		{"all but", []string{"*", "!github:*", "!bash", "!toolbox:*", "!git", "!tool_search"}, "call_tool read tool_describe write"},
		{"nothing there", []string{"docker:*"}, ""},
	} {
		s, err := profile.New(map[string]profile.Definition{"x": {Tools: c.patterns, Mode: "full"}, "y": {Tools: c.patterns}})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		full, _ := s.Find("x")
		auto, _ := s.Find("y")
		var got, unlisted []*tool.Spec
		for _, spec := range tools() {
			if full.Allows(spec) {
				got = append(got, spec)
			}
			if auto.Allows(spec) != full.Allows(spec) {
				unlisted = append(unlisted, spec)
			}
		}
		if diff := cmp.Diff(c.want, names(got)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", c.name, diff)
		}
		if left := names(unlisted); left != "" && !strings.Contains(finders, left) {
			t.Errorf("%s: mode auto differs in %s", c.name, left)
		}
		if none := full.Allowed() == nil; none != (len(c.patterns) == 0) {
			t.Errorf("%s: Allowed is nil: %v", c.name, none)
		}
	}
}

func TestShown(t *testing.T) {
	few := tools()
	many := append(tools(), make([]*tool.Spec, 0, 40)...)
	for i := range 40 {
		many = append(many, &tool.Spec{Name: fmt.Sprintf("t%02d", i), Source: "many"})
	}
	s, err := profile.New(map[string]profile.Definition{
		"none":  {Tools: []string{"!call_tool", "!tool_search", "!tool_describe"}},
		"small": {Tools: []string{"read", "many:t01"}},
		"big":   {Tools: []string{"read", "git", "many:*"}, Mode: "auto"},
	})
	if err != nil {
		t.Fatal(err)
	}
	const finders = "call_tool tool_describe tool_search"
	for _, c := range []struct {
		profile   string
		specs     []*tool.Spec
		want      string
		searching bool
	}{
		{"full", few, names(few), false},
		{"full", many, names(many), false},
		{"search", few, finders, true},
		{"search", many, finders, true},
		{"", few, "bash git_diff git_log github:create_issue github:list_issues read toolbox:pdf-reader write", false},
		{"auto", many, "bash call_tool read tool_describe tool_search write", true},
		{"small", many, "read many:t01", false},
		{"big", many, "call_tool read tool_describe tool_search", true},
		{"none", many[:12], "bash git_diff git_log github:create_issue github:list_issues read toolbox:pdf-reader write many:t00", false},
	} {
		p, err := s.Find(c.profile)
		if err != nil {
			t.Fatal(err)
		}
		shown, searching := p.Shown(c.specs)
		if diff := cmp.Diff(c.want, names(shown)); diff != "" || searching != c.searching {
			t.Errorf("%s of %d: searching %v (-want +got)\n%s", c.profile, len(c.specs), searching, diff)
		}
	}
	p, _ := s.Find("none")
	if shown, searching := p.Shown(many); searching || len(shown) != len(many)-3 {
		t.Errorf("without the tools that search everything is shown: got %d of %d", len(shown), len(many))
	}
}

func TestNarrowing(t *testing.T) {
	s, err := profile.New(map[string]profile.Definition{"small": {Tools: []string{"files", "git"}}})
	if err != nil {
		t.Fatal(err)
	}
	small, _ := s.Find("small")
	narrow, err := small.Narrow([]string{"read", "bash", "git_log"})
	if err != nil {
		t.Fatal(err)
	}
	key := small.Only(func(s *tool.Spec) bool { return s.Effects&tool.Write == 0 })
	all, _ := s.Find("full")
	for _, c := range []struct {
		name    string
		profile *profile.Profile
		want    string
	}{
		{"narrowed", narrow, "git_log read"},
		{"for a key", key, "git_diff git_log read"},
		{"both", narrow.And(key), "git_log read"},
		{"an unbounded one, bounded", all.And(small), "git_diff git_log read write"},
	} {
		var got []*tool.Spec
		for _, spec := range tools() {
			if spec.Category != "meta" && c.profile.Allows(spec) {
				got = append(got, spec)
			}
		}
		if diff := cmp.Diff(c.want, names(got)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", c.name, diff)
		}
	}
}

func TestWrongDefinitions(t *testing.T) {
	for _, c := range []struct {
		name string
		d    profile.Definition
	}{
		{"a b", profile.Definition{}},
		{"", profile.Definition{}},
		{"x", profile.Definition{Mode: "some"}},
		{"x", profile.Definition{Tools: []string{""}}},
		{"x", profile.Definition{Tools: []string{"!"}}},
		{"x", profile.Definition{Tools: []string{"read(src/**)"}}},
		{"x", profile.Definition{Tools: []string{"effect:none"}}},
		{"x", profile.Definition{Tools: []string{"github:"}}},
	} {
		if _, err := profile.New(map[string]profile.Definition{c.name: c.d}); err == nil || tool.AsError(err).Code != tool.ValidationError {
			t.Errorf("%q %+v: %v", c.name, c.d, err)
		}
	}
	s, err := profile.New(map[string]profile.Definition{"frontend": {}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Find("frontent")
	if e := tool.AsError(err); e == nil || e.Code != tool.NotFound || !strings.Contains(e.Hint, "Did you mean frontend?") {
		t.Errorf("an unknown profile: %v", err)
	}
}

func FuzzPattern(f *testing.F) {
	for _, p := range []string{"read", "github:*", "*", "a*b*c", "category:git", "mcp__x__y", "effect:write", "**", ":*"} {
		f.Add(p)
	}
	specs := tools()
	f.Fuzz(func(t *testing.T, text string) {
		s, err := profile.New(map[string]profile.Definition{"in": {Tools: []string{text}, Mode: "full"}, "out": {Tools: []string{"!" + text}, Mode: "full"}})
		if err != nil {
			return
		}
		in, _ := s.Find("in")
		out, _ := s.Find("out")
		for _, spec := range specs {
			if strings.HasPrefix(strings.TrimSpace(text), "!") {
				continue
			}
			if in.Allows(spec) == out.Allows(spec) {
				t.Fatalf("%q lets %s in and out", text, spec.FullName())
			}
		}
	})
}
