package policy

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/toolyard/toolyard/tool"
)

// pathSpec is a tool with one path argument.
func pathSpec(name string, effects tool.Effects, def tool.Action) *tool.Spec {
	return &tool.Spec{Name: name, Category: "files", Effects: effects, Default: def, Input: &jsonschema.Schema{
		Type: "object",
		Properties: map[string]*jsonschema.Schema{
			"file_path": {Type: "string", Format: "path"},
			"content":   {Type: "string"},
		},
		Required:      []string{"file_path"},
		PropertyOrder: []string{"file_path", "content"},
	}}
}

func args(t testing.TB, kv ...any) json.RawMessage {
	t.Helper()
	m := map[string]any{}
	for i := 0; i < len(kv); i += 2 {
		m[kv[i].(string)] = kv[i+1]
	}
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// given is a rule in a test's table: "user deny read(x)".
func given(t testing.TB, text string) Rule {
	t.Helper()
	parts := strings.SplitN(text, " ", 3)
	scope, err := ParseScope(parts[0])
	if err != nil {
		t.Fatal(err)
	}
	actions := map[string]tool.Action{"allow": tool.Allow, "ask": tool.Ask, "deny": tool.Deny}
	return mustRule(t, actions[parts[1]], parts[2], scope)
}

func givenPolicy(t testing.TB, rules ...string) *Policy {
	t.Helper()
	var list []Rule
	for _, text := range rules {
		list = append(list, given(t, text))
	}
	return mustPolicy(t, list...)
}

func TestScopes(t *testing.T) {
	const path = "src/a.go"
	tests := []struct {
		name  string
		rules []string
		def   tool.Action
		want  tool.Action
		by    string // the rule that decides; "" is the default
	}{
		{"nothing matches, default allow", nil, tool.Allow, tool.Allow, ""},
		{"nothing matches, default ask", nil, tool.Ask, tool.Ask, ""},
		{"nothing matches, default deny", []string{"user allow read"}, tool.Deny, tool.Deny, ""},
		{"an unset default asks", nil, 0, tool.Ask, ""},
		{"allow beats the default", []string{"user allow edit"}, tool.Ask, tool.Allow, "edit"},
		{"a weak deny beats a strong allow", []string{"built-in deny edit", "managed allow edit(src/**)"}, tool.Allow, tool.Deny, "edit"},
		{"a user deny beats a session allow", []string{"user deny edit(src/**)", "session allow edit"}, tool.Allow, tool.Deny, "edit(src/**)"},
		{"a session allow beats a user ask", []string{"user ask edit", "session allow edit(src/**)"}, tool.Ask, tool.Allow, "edit(src/**)"},
		{"a project ask beats a user allow", []string{"user allow edit", "project ask edit"}, tool.Allow, tool.Ask, "edit"},
		{"a user allow does not beat a project ask", []string{"project ask edit(src/**)", "user allow edit(src/a.go)"}, tool.Allow, tool.Ask, "edit(src/**)"},
		{"within one scope ask wins", []string{"user allow edit(src/a.go)", "user ask edit"}, tool.Allow, tool.Ask, "edit"},
		{"within one scope ask wins in either order", []string{"user ask edit", "user allow edit(src/a.go)"}, tool.Allow, tool.Ask, "edit"},
		{"a managed ask beats a session allow", []string{"managed ask edit", "session allow edit"}, tool.Allow, tool.Ask, "edit"},
		{"a managed allow beats a session ask", []string{"managed allow edit", "session ask edit"}, tool.Ask, tool.Allow, "edit"},
		{"built-in ask loses to a user allow", []string{"built-in ask edit", "user allow edit"}, tool.Ask, tool.Allow, "edit"},
		{"a rule for another path", []string{"user deny edit(test/**)"}, tool.Allow, tool.Allow, ""},
		{"a rule for another tool", []string{"user deny write"}, tool.Allow, tool.Allow, ""},
		{"by effect", []string{"user ask effect:write"}, tool.Allow, tool.Ask, "effect:write"},
		{"by another effect", []string{"user ask effect:network"}, tool.Allow, tool.Allow, ""},
		{"by effect and path", []string{"user deny effect:write(src/**)"}, tool.Allow, tool.Deny, "effect:write(src/**)"},
		{"by category", []string{"user ask category:files"}, tool.Allow, tool.Ask, "category:files"},
		{"by category and path", []string{"user deny category:files(*.go)"}, tool.Allow, tool.Deny, "category:files(*.go)"},
		{"everything", []string{"user ask *"}, tool.Allow, tool.Ask, "*"},
		{"part of the name", []string{"user ask ed*"}, tool.Allow, tool.Ask, "ed*"},
		{"another system's name", []string{"user deny Edit(src/**)"}, tool.Allow, tool.Deny, "Edit(src/**)"},
		{"the wire name", []string{"user deny mcp__toolyard__edit"}, tool.Allow, tool.Deny, "mcp__toolyard__edit"},
		{"by argument", []string{"user deny edit(content:*secret*)"}, tool.Allow, tool.Deny, "edit(content:*secret*)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := givenPolicy(t, tt.rules...).Check(Query{
				Spec:      pathSpec("edit", tool.Write, tt.def),
				Arguments: args(t, "file_path", path, "content", "my secret x"),
				Workspace: "/workspace",
			})
			if v.Action != tt.want || v.Rule != tt.by || v.Default != (tt.by == "") {
				t.Errorf("got %s by %q (default %t), want %s by %q", v.Action, v.Rule, v.Default, tt.want, tt.by)
			}
		})
	}
}

func TestAlwaysBeatsTheAskItAnswered(t *testing.T) {
	check := func(rules ...Rule) tool.Action {
		return checkBash(mustPolicy(t, rules...), tool.Allow, "git push").Action
	}
	always := func(scope Scope, overrides ...string) Rule {
		r := mustRule(t, tool.Allow, "bash(git push *)", scope)
		r.Overrides = overrides
		return r
	}
	ask := func(scope Scope, text string) Rule { return mustRule(t, tool.Ask, text, scope) }
	tests := []struct {
		name  string
		rules []Rule
		want  tool.Action
	}{
		{"same scope", []Rule{ask(User, "bash(git *)"), always(User, "bash(git *)")}, tool.Allow},
		{"a higher ask", []Rule{ask(Project, "bash(git *)"), always(User, "bash(git *)")}, tool.Allow},
		{"another ask stays", []Rule{ask(Project, "bash(git *)"), ask(Project, "bash(git push *)"), always(User, "bash(git *)")}, tool.Ask},
		{"both answered", []Rule{ask(Project, "bash(git *)"), ask(Project, "bash(git push *)"), always(User, "bash(git *)", "bash(git push *)")}, tool.Allow},
		{"managed asks stay", []Rule{ask(Managed, "bash(git *)"), always(Session, "bash(git *)")}, tool.Ask},
		{"denies stay", []Rule{mustRule(t, tool.Deny, "bash(git *)", BuiltIn), always(Session, "bash(git *)")}, tool.Deny},
	}
	for _, tt := range tests {
		if got := check(tt.rules...); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestPathPatterns(t *testing.T) {
	tests := []struct {
		pattern string
		yes, no string // paths, separated by blanks
	}{
		{"src/**", "src/a src/b/c ./src/a /workspace/src/a x/../src/a", "src a/src/b srcx/a src/../a /src/a ../src/a"},
		{"/src", "src src/a src/b/c", "x/src srcx"},
		{"src/a.go", "src/a.go", "x/src/a.go src/a.gox"},
		{"*.go", "a.go x/y/a.go .go", "a.gox a.go.txt"},
		{"vendor", "vendor vendor/x a/vendor/x", "vendored a/vendors"},
		{"vendor/", "vendor/x a/vendor/x", "vendored"},
		{"**/test/**", "test/x a/test/x a/b/test/c/d", "test a/test testx/y"},
		{"a/**/b", "a/b a/x/b a/x/y/b a/b/c", "b x/a/b"},
		{"/*.md", "README.md", "docs/README.md"},
		{"//etc/**", "/etc/passwd /etc/a/b /workspace/../etc/x", "etc/passwd /etc /workspace/etc/x"},
		{"//etc", "/etc /etc/passwd", "/etcx"},
		{"~/x", "~/x ~/x/y /home/me/x", "x ~/y"},
		{"~/.ssh/**", "~/.ssh/id /home/me/.ssh/a/b", ".ssh/id"},
		{"**", "a a/b .", "/etc/passwd"},
		{"a?c", "abc x/abc", "ac abbc a/c"},
		{"[ab].go", "a.go b.go", "c.go"},
		{"[!ab].go", "c.go", "a.go"},
		{`a\*`, "a*", "ab"},
		{"a b", "", "a"},
		{"src/*", "src/a src/a/b", "src"},
		{"*", "a a/b", ""},
	}
	for _, tt := range tests {
		for _, action := range []tool.Action{tool.Allow, tool.Deny} {
			p := mustPolicy(t, mustRule(t, action, "edit("+tt.pattern+")", User))
			check := func(path string) bool {
				v := p.Check(Query{Spec: pathSpec("edit", tool.Write, tool.Ask), Arguments: args(t, "file_path", path), Workspace: "/workspace", Home: "/home/me"})
				return v.Action == action
			}
			for _, path := range strings.Fields(tt.yes) {
				if !check(path) {
					t.Errorf("%s edit(%s) does not meet %s", action, tt.pattern, path)
				}
			}
			for _, path := range strings.Fields(tt.no) {
				if check(path) && !(action == tool.Deny && tt.pattern == "**") {
					t.Errorf("%s edit(%s) meets %s", action, tt.pattern, path)
				}
			}
		}
	}
}

func TestRealPath(t *testing.T) {
	links := map[string]string{"/workspace/link.go": "/workspace/src/a.go", "/workspace/out": "/etc/passwd", "/workspace/src/in.go": "/workspace/other/x.go"}
	real := func(path string) (string, error) {
		if path == "/workspace/broken" {
			return "", errors.New("no such file")
		}
		if to, ok := links[path]; ok {
			return to, nil
		}
		return path, nil
	}
	tests := []struct {
		rule, path string
		want       tool.Action
	}{
		{"user allow edit(src/**)", "src/a.go", tool.Allow},
		{"user allow edit(src/**)", "link.go", tool.Ask},  // the name given is not covered
		{"user allow edit(link.go)", "link.go", tool.Ask}, // the real path is not covered
		{"user allow edit(*.go)", "link.go", tool.Allow},
		{"user allow edit(src/**)", "src/in.go", tool.Ask},
		{"user deny edit(src/**)", "link.go", tool.Deny},
		{"user deny edit(link.go)", "link.go", tool.Deny},
		{"user deny edit(//etc/**)", "out", tool.Deny},
		{"user ask edit(//etc/**)", "out", tool.Ask},
		{"user allow edit(**)", "broken", tool.Ask},
		{"user allow edit", "broken", tool.Allow},
		{"user deny edit(broken)", "broken", tool.Deny},
	}
	for _, tt := range tests {
		v := givenPolicy(t, tt.rule).Check(Query{Spec: pathSpec("edit", tool.Write, tool.Ask), Arguments: args(t, "file_path", tt.path), Workspace: "/workspace", Real: real})
		if v.Action != tt.want {
			t.Errorf("%s on %s: got %s, want %s", tt.rule, tt.path, v.Action, tt.want)
		}
	}
	t.Run("words that are no paths", func(t *testing.T) {
		v := givenPolicy(t, "user deny read(**/.env)").Check(Query{Spec: bashSpec(tool.Allow), Workspace: "/workspace",
			Subjects: []tool.Subject{{Kind: tool.SubjectCommand, Value: "sed s/a/b/ x | grep -e a"}},
			Real:     func(string) (string, error) { return "", errors.New("no such file") }})
		if v.Action != tool.Allow {
			t.Errorf("got %s: %s", v.Action, v.Reason)
		}
	})
	t.Run("the workspace is a symlink", func(t *testing.T) {
		moved := func(path string) (string, error) { return strings.Replace(path, "/workspace", "/mnt/disk", 1), nil }
		v := givenPolicy(t, "user allow edit(src/**)").Check(Query{Spec: pathSpec("edit", tool.Write, tool.Ask), Arguments: args(t, "file_path", "src/a"), Workspace: "/workspace", Real: moved})
		if v.Action != tool.Allow {
			t.Errorf("got %s", v.Action)
		}
	})
}

func TestEveryPathCounts(t *testing.T) {
	spec := &tool.Spec{Name: "batch_edit", Effects: tool.Write, Default: tool.Ask, Input: &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{
		"edits":      {Type: "array", Items: &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"file_path": {Type: "string", Format: "path"}, "old": {Type: "string"}}}},
		"file_paths": {Type: "array", Format: "path", Items: &jsonschema.Schema{Type: "string"}},
		"dir":        {Type: "object", Properties: map[string]*jsonschema.Schema{"at": {Type: "string", Format: "path"}}},
	}}}
	tests := []struct {
		arguments string
		want      tool.Action
		parts     int
	}{
		{`{"edits": [{"file_path": "src/a"}, {"file_path": "src/b"}]}`, tool.Allow, 2},
		{`{"edits": [{"file_path": "src/a"}, {"file_path": "b"}]}`, tool.Ask, 2},
		{`{"edits": [{"file_path": "src/a"}, {"file_path": "src/secret"}]}`, tool.Deny, 2},
		{`{"file_paths": ["src/a", "src/b", "src/c"]}`, tool.Allow, 3},
		{`{"file_paths": ["src/a", "src/secret"], "edits": [{"file_path": "src/a"}]}`, tool.Deny, 3},
		{`{"dir": {"at": "src/x"}}`, tool.Allow, 1},
		{`{"dir": {"at": "other"}}`, tool.Ask, 1},
	}
	p := givenPolicy(t, "user allow batch_edit(src/**)", "user deny effect:write(secret)")
	for _, tt := range tests {
		v := p.Check(Query{Spec: spec, Arguments: []byte(tt.arguments), Workspace: "/workspace"})
		if v.Action != tt.want || len(v.Parts) != tt.parts {
			t.Errorf("%s: got %s with %d parts, want %s with %d", tt.arguments, v.Action, len(v.Parts), tt.want, tt.parts)
		}
	}
}

func TestDeniedReadsStopEveryReader(t *testing.T) {
	p := givenPolicy(t, "user deny read(**/.env)", "session allow *")
	for _, name := range []string{"read", "batch_read", "grep", "list", "export_artifact"} {
		v := p.Check(Query{Spec: pathSpec(name, tool.Read, tool.Allow), Arguments: args(t, "file_path", "sub/.env"), Workspace: "/workspace"})
		if v.Action != tool.Deny || v.Rule != "read(**/.env)" {
			t.Errorf("%s got %s by %q", name, v.Action, v.Rule)
		}
	}
	if v := p.Check(Query{Spec: pathSpec("grep", tool.Read, tool.Allow), Arguments: args(t, "file_path", "sub/env"), Workspace: "/workspace"}); v.Action != tool.Allow {
		t.Errorf("another file got %s", v.Action)
	}
}

func TestProtectedPaths(t *testing.T) {
	protectedPaths := strings.Fields(".git/hooks/pre-commit .git/config sub/.git/hooks/x .git/hooks .env .env.local .envrc a/b/.env.test .toolyard/config.yaml .toolyardignore sub/.toolyardignore .mcp.json .claude/settings.json " +
		".vscode/tasks.json .idea/x .bashrc ~/.bashrc ~/.profile ~/.zshrc .GIT/HOOKS/x .Env x/../.env ./.env /workspace/.env .git/modules/m/hooks/x .git/modules/m/config /other/.env")
	free := strings.Fields("a.go .git/HEAD .gitignore .github/workflows/x.yml env .environment/x/../../a hooks/x .git/info/exclude config vscode/x")
	check := func(p *Policy, path string, mode Mode) Verdict {
		return p.Check(Query{Spec: pathSpec("edit", tool.Write, tool.Allow), Arguments: args(t, "file_path", path), Workspace: "/workspace", Home: "/home/me", Mode: mode})
	}
	wide := givenPolicy(t, "managed allow edit(**)", "managed allow edit", "session allow *", "session allow effect:write", "user allow edit(*)")
	for _, path := range protectedPaths {
		for _, mode := range []Mode{Build, Trusted} {
			if v := check(wide, path, mode); v.Action != tool.Ask || !v.Protected {
				t.Errorf("%s in mode %s: got %s, want a protected ask", path, mode, v.Action)
			}
		}
	}
	for _, path := range free {
		if v := check(wide, path, Build); v.Action != tool.Allow {
			t.Errorf("%s: got %s (%s)", path, v.Action, v.Reason)
		}
	}
	read := wide.Check(Query{Spec: pathSpec("read", tool.Read, tool.Allow), Arguments: args(t, "file_path", ".env"), Workspace: "/workspace"})
	if read.Action != tool.Allow {
		t.Errorf("reading a protected path got %s", read.Action)
	}
	tests := []struct {
		rule, path string
		want       tool.Action
	}{
		{"user allow edit(.env.local)", ".env.local", tool.Allow},
		{"user allow edit(.env.local)", ".env", tool.Ask},
		{"user allow edit(.env*)", "a/.env.x", tool.Allow},
		{"user allow edit(**/.vscode/**)", "a/.vscode/x", tool.Allow},
		{"user allow edit(.git/hooks/**)", ".git/hooks/x", tool.Allow},
		{"user allow edit(.git/**)", ".git/hooks/x", tool.Ask},
		{"user allow edit(*env*)", ".env", tool.Ask},
		{"user allow edit(/.claude/**)", ".claude/x", tool.Allow},
		{"user allow effect:write(.mcp.json)", ".mcp.json", tool.Allow},
		{"user allow edit(~/.bashrc)", "~/.bashrc", tool.Allow},
		{"user deny edit(.env)", ".env", tool.Deny},
	}
	for _, tt := range tests {
		if v := check(givenPolicy(t, tt.rule), tt.path, Build); v.Action != tt.want {
			t.Errorf("%s on %s: got %s, want %s", tt.rule, tt.path, v.Action, tt.want)
		}
	}
	t.Run("named allow under a project ask", func(t *testing.T) {
		if v := check(givenPolicy(t, "user allow edit(.env)", "project ask edit"), ".env", Build); v.Action != tool.Ask {
			t.Errorf("got %s", v.Action)
		}
	})
	t.Run("a workspace below a protected name", func(t *testing.T) {
		for path, want := range map[string]tool.Action{"a.go": tool.Allow, ".env": tool.Ask, "../settings.json": tool.Ask} {
			v := givenPolicy(t).Check(Query{Spec: pathSpec("edit", tool.Write, tool.Allow), Arguments: args(t, "file_path", path), Workspace: "/home/me/.claude/trees/x"})
			if v.Action != want {
				t.Errorf("%s: got %s, want %s", path, v.Action, want)
			}
		}
	})
	t.Run("through a symlink", func(t *testing.T) {
		v := givenPolicy(t, "user allow edit(**)").Check(Query{Spec: pathSpec("edit", tool.Write, tool.Allow), Arguments: args(t, "file_path", "notes"), Workspace: "/workspace",
			Real: func(string) (string, error) { return "/workspace/.git/hooks/post-checkout", nil }})
		if v.Action != tool.Ask || !v.Protected {
			t.Errorf("got %s", v.Action)
		}
	})
	t.Run("from the shell", func(t *testing.T) {
		for _, command := range []string{"echo x > .env", "echo x >> .git/hooks/pre-commit", "tee .mcp.json", "cp x .vscode/tasks.json", "rm .bashrc", "cd .git && echo x > config", "cd .git/hooks && echo x > a", "sed -i s/a/b/ .env", "sh -c 'echo x > .env'", "ln -s x .claude"} {
			v := checkBash(givenPolicy(t, "managed allow bash"), tool.Allow, command)
			if v.Action != tool.Ask || !v.Protected {
				t.Errorf("%q got %s, want a protected ask", command, v.Action)
			}
		}
		if v := checkBash(givenPolicy(t, "user allow write(.env)"), tool.Allow, "echo x > .env"); v.Action != tool.Allow {
			t.Errorf("a rule that names the path: got %s", v.Action)
		}
	})
	t.Run("for the sandbox", func(t *testing.T) {
		allowed := givenPolicy(t, "user allow write(.vscode/**)", "user allow effect:write(.env.local)", "user allow *", "user allow write(.claude/**)", "managed deny write(.claude/**)").ProtectedAllowed("/workspace")
		for path, want := range map[string]bool{"/workspace/.vscode/x": true, "/workspace/.env.local": true, "/workspace/.env": false, "/workspace/.git/hooks": false, "/workspace/.claude/x": false} {
			if got := allowed(path); got != want {
				t.Errorf("ProtectedAllowed(%s) = %t, want %t", path, got, want)
			}
		}
	})
}

func TestModes(t *testing.T) {
	tests := []struct {
		mode    Mode
		effects tool.Effects
		rules   []string
		want    tool.Action
		refused bool
	}{
		{Plan, tool.Write, []string{"user allow *"}, tool.Deny, true},
		{Plan, tool.Execute | tool.Write, nil, tool.Deny, true},
		{Explore, tool.Network, nil, tool.Deny, true},
		{Explore, tool.Read | tool.Network, nil, tool.Deny, true},
		{Plan, tool.Read, nil, tool.Allow, false},
		{Plan, tool.State, nil, tool.Allow, false},
		{Explore, tool.Interact | tool.State, nil, tool.Allow, false},
		{Plan, tool.Read, []string{"user deny x"}, tool.Deny, false},
		{Plan, tool.Read, []string{"user ask x"}, tool.Ask, false},
		{Trusted, tool.Write, []string{"user ask x"}, tool.Allow, false},
		{Trusted, tool.Write, []string{"user deny x"}, tool.Deny, false},
		{Trusted, tool.Write, []string{"managed ask x"}, tool.Ask, false},
		{Build, tool.Write, []string{"user ask x"}, tool.Ask, false},
		{"", tool.Write, nil, tool.Allow, false},
	}
	for _, tt := range tests {
		v := givenPolicy(t, tt.rules...).Check(Query{Spec: &tool.Spec{Name: "x", Effects: tt.effects, Default: tool.Allow}, Mode: tt.mode})
		if v.Action != tt.want || v.Mode != tt.refused {
			t.Errorf("mode %q, effects %s, rules %v: got %s (mode %t), want %s (mode %t)", tt.mode, tt.effects, tt.rules, v.Action, v.Mode, tt.want, tt.refused)
		}
	}
}

func TestCoordinatorsAreJudgedByTheirCalls(t *testing.T) {
	for _, tt := range []struct {
		rules []string
		want  tool.Action
	}{
		{nil, tool.Allow},
		{[]string{"user ask *"}, tool.Allow},
		{[]string{"user ask category:meta"}, tool.Allow},
		{[]string{"user ask execute_batch"}, tool.Ask},
		{[]string{"user deny execute_batch"}, tool.Deny},
		{[]string{"user deny *"}, tool.Deny},
	} {
		p := givenPolicy(t, tt.rules...)
		spec := &tool.Spec{Name: "execute_batch", Category: "meta", Default: tool.Ask}
		if v := p.Check(Query{Spec: spec, Arguments: []byte(`{"calls":[]}`)}); v.Action != tt.want {
			t.Errorf("%v: got %s, want %s", tt.rules, v.Action, tt.want)
		}
	}
	own := &tool.Spec{Source: "mine", Name: "both", Default: tool.Ask}
	if v := givenPolicy(t).Check(Query{Spec: own, Coordinates: true}); v.Action != tool.Allow {
		t.Errorf("a coordinator of another source got %s", v.Action)
	}
	own.Name = "execute_batch"
	if v := givenPolicy(t).Check(Query{Spec: own}); v.Action != tool.Ask {
		t.Errorf("a tool that only has a coordinator's name got %s", v.Action)
	}
}

func TestRulesForOtherSources(t *testing.T) {
	spec := func(source, name string, effects tool.Effects) *tool.Spec {
		return &tool.Spec{Source: source, Name: name, Effects: effects, Default: tool.Ask}
	}
	tests := []struct {
		rule      string
		spec      *tool.Spec
		arguments string
		want      bool
	}{
		{"github:*", spec("github", "create_issue", tool.Network), `{}`, true},
		{"github:create_issue", spec("github", "create_issue", tool.Network), `{}`, true},
		{"github:create_*", spec("github", "create_issue", tool.Network), `{}`, true},
		{"github__create_issue", spec("github", "create_issue", tool.Network), `{}`, true},
		{"mcp__github__create_issue", spec("github", "create_issue", tool.Network), `{}`, true},
		{"mcp__github", spec("github", "create_issue", tool.Network), `{}`, true},
		{"github:*", spec("githubx", "create_issue", tool.Network), `{}`, false},
		{"github:*", spec("", "read", tool.Read), `{}`, false},
		{"read", spec("evil", "read", tool.Read), `{}`, false},
		{"toolbox:pdf-reader(method:read_pdf)", spec("toolbox", "pdf-reader", tool.Read), `{"method": "read_pdf", "x": 1}`, true},
		{"toolbox:pdf-reader(method:read_pdf)", spec("toolbox", "pdf-reader", tool.Read), `{"method": "write_pdf"}`, false},
		{"toolbox:pdf-reader(method:read_*)", spec("toolbox", "pdf-reader", tool.Read), `{"method": "read_x"}`, true},
		{"toolbox:pdf-reader(method:read_pdf)", spec("toolbox", "pdf-reader", tool.Read), `{}`, false},
		{"x:y(n:5)", spec("x", "y", 0), `{"n": 5}`, true},
		{"x:y(list:a*)", spec("x", "y", 0), `{"list": ["ab", "ac"]}`, true},
		{"x:y(list:a*)", spec("x", "y", 0), `{"list": ["ab", "b"]}`, false},
		{"web_scrape(domain:*.example.org)", spec("", "web_scrape", tool.Network), `{"url": "https://a.example.org/x"}`, true},
		{"web_scrape(domain:*.example.org)", spec("", "web_scrape", tool.Network), `{"url": "https://a.example.org.evil.com/x"}`, false},
		{"web_scrape(domain:*.example.org)", spec("", "web_scrape", tool.Network), `{"url": "https://a.example.org@evil.com/"}`, false},
		{"web_scrape(domain:*.example.org)", spec("", "web_scrape", tool.Network), `{"url": "https://evil.com/?a.example.org"}`, false},
		{"web_scrape(domain:*.example.org)", spec("", "web_scrape", tool.Network), `{"url": "https://evil.com\\.example.org/"}`, false},
		{"web_scrape(domain:example.org)", spec("", "web_scrape", tool.Network), `{"url": "HTTPS://EXAMPLE.ORG.:443/"}`, true},
		{"WebFetch(domain:example.org)", spec("", "web_scrape", tool.Network), `{"url": "http://example.org"}`, true},
		{"effect:read", spec("x", "y", tool.Read), `{}`, true},
		{"effect:read", spec("x", "y", tool.Read|tool.Network), `{}`, false}, // an allow by effect covers no other effect
		{"effect:network", spec("x", "y", tool.Read|tool.Network), `{}`, true},
		{"effect:write", spec("x", "y", tool.Write|tool.Execute), `{}`, false},
		{"effect:execute", spec("x", "y", tool.Write|tool.Execute), `{}`, true},
		{"effect:execute", spec("x", "y", tool.Execute|tool.Network), `{}`, false},
		{`x:y({"a":1,"b":*})`, spec("x", "y", 0), `{"b": 2, "a": 1}`, true},
	}
	for _, tt := range tests {
		p := mustPolicy(t, mustRule(t, tool.Allow, tt.rule, User))
		if v := p.Check(Query{Spec: tt.spec, Arguments: []byte(tt.arguments)}); (v.Action == tool.Allow) != tt.want {
			t.Errorf("allow %s, call %s(%s): got %s, want allowed %t", tt.rule, tt.spec.FullName(), tt.arguments, v.Action, tt.want)
		}
	}
}

func TestParseRuleRefuses(t *testing.T) {
	for _, text := range []string{"", " ", "(x)", "bash(", "bash(x", "bash()", "bash( )", "ba sh", "bash)x(", "effect:fly", "effect:", "category:", "edit(../x)", "edit(a/../b)", "bash(a\nb)", "bash(a\x00)", "read!", strings.Repeat("a", maxRule+1)} {
		_, err := ParseRule(tool.Allow, text, User, "x")
		if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != tool.ValidationError || e.Hint == "" {
			t.Errorf("ParseRule(%.40q): got %v, want a VALIDATION_ERROR with a hint", text, err)
		}
	}
	if _, err := ParseRule(0, "bash", User, "x"); err == nil {
		t.Error("a rule without an action is taken")
	}
}

func TestSelfTests(t *testing.T) {
	tests := []struct {
		rule            string
		action          tool.Action
		match, notMatch []string
		faults          int
	}{
		{"bash(go test *)", tool.Allow, []string{"go test ./...", "go test"}, []string{"go test; rm x", "go build"}, 0},
		{"bash(go test *)", tool.Allow, []string{"go build"}, nil, 1},
		{"bash(go test *)", tool.Allow, nil, []string{"go test"}, 1},
		{"bash(curl *)", tool.Deny, []string{"ls; curl x", "env curl x"}, []string{"ls"}, 0},
		{"Bash(git log:*)", tool.Allow, []string{"git log -1", "Bash(git log)"}, []string{"git push"}, 0},
		{"edit(src/**)", tool.Allow, []string{"src/a.go", "edit(src/b/c)"}, []string{"test/a.go"}, 0},
		{"edit(src/**)", tool.Allow, []string{"test/a.go"}, []string{"src/a.go"}, 2},
		{"read(//etc/**)", tool.Deny, []string{"/etc/passwd"}, []string{"etc/passwd"}, 0},
		{"effect:write(*.lock)", tool.Ask, []string{"a/b.lock"}, []string{"a"}, 0},
		{"web_scrape(domain:*.example.org)", tool.Allow, []string{"domain:a.example.org", "url:https://b.example.org/x"}, []string{"domain:example.com"}, 0},
		{"toolbox:pdf(method:read_*)", tool.Allow, []string{"method:read_x"}, []string{"method:write"}, 0},
		{"category:git", tool.Ask, []string{"anything"}, nil, 0},
	}
	for _, tt := range tests {
		r := mustRule(t, tt.action, tt.rule, User)
		r.Match, r.NotMatch = tt.match, tt.notMatch
		_, err := New([]Rule{r})
		got := 0
		if e, ok := errors.AsType[*tool.Error](err); ok {
			got = len(e.Faults)
		}
		if got != tt.faults {
			t.Errorf("%s match %q not_match %q: got %d faults (%v), want %d", tt.rule, tt.match, tt.notMatch, got, err, tt.faults)
		}
	}
}

func TestSuggestions(t *testing.T) {
	tests := []struct {
		command string
		want    []string
	}{
		{"git log --oneline", []string{"bash(git log *)"}},
		{"git log && curl -sS http://x | sh -e a.sh", []string{"bash(git log *)", "bash(curl -sS http://x)", "bash(sh -e a.sh)"}},
		{"npm run test:unit -- --watch", []string{"bash(npm run test:unit *)"}},
		{"rm -rf 'a b'", []string{"bash(rm -rf 'a b')"}},
		{"ls -l", []string{"bash(ls *)"}},
		{"find . -delete", []string{"bash(find . -delete)"}},
		{"sh -c 'rm x'", []string{"bash(rm x)"}},
		{"python -c 'print(1)'", []string{"bash(python -c print(1))"}},
		{"rm $X", nil},
		{"echo a > out.txt", []string{"bash(echo *)", "write(/out.txt)"}},
		{"PATH=. make x", []string{"bash(PATH=. make x)"}},
		{"git status; git status -s", []string{"bash(git status *)"}},
		{"ls (", nil},
	}
	for _, tt := range tests {
		v := checkBash(givenPolicy(t, "user ask bash"), tool.Ask, tt.command)
		if diff := cmp.Diff(tt.want, v.Suggest); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.command, diff)
			continue
		}
		if len(tt.want) == 0 {
			continue
		}
		var rules []Rule
		for _, text := range v.Suggest {
			r := mustRule(t, tool.Allow, text, User)
			r.Overrides = v.Overrides
			rules = append(rules, r)
		}
		if again := checkBash(givenPolicy(t, "user ask bash").With(rules...), tool.Ask, tt.command); again.Action != tool.Allow {
			t.Errorf("%q is still %s after always: %s", tt.command, again.Action, again.Reason)
		}
	}
	edit := func(p *Policy, path string) Verdict {
		return p.Check(Query{Spec: pathSpec("edit", tool.Write, tool.Ask), Arguments: args(t, "file_path", path), Workspace: "/workspace"})
	}
	for _, path := range []string{"src/a.go", ".env", "a*b", "/elsewhere/x"} {
		v := edit(givenPolicy(t, "project ask edit"), path)
		if len(v.Suggest) != 1 {
			t.Errorf("%s: suggested %q", path, v.Suggest)
			continue
		}
		r := mustRule(t, tool.Allow, v.Suggest[0], User)
		r.Overrides = v.Overrides
		if again := edit(givenPolicy(t, "project ask edit").With(r), path); again.Action != tool.Allow {
			t.Errorf("%s is still %s after always %s: %s", path, again.Action, v.Suggest[0], again.Reason)
		}
	}
	web := givenPolicy(t).Check(Query{Spec: &tool.Spec{Name: "web_scrape", Effects: tool.Network}, Arguments: args(t, "url", "https://a.example.org/x")})
	if diff := cmp.Diff([]string{"web_scrape(domain:a.example.org)"}, web.Suggest); diff != "" {
		t.Error(diff)
	}
	other := givenPolicy(t).Check(Query{Spec: &tool.Spec{Source: "github", Name: "create"}, Arguments: args(t, "title", "x")})
	if diff := cmp.Diff([]string{"github:create"}, other.Suggest); diff != "" {
		t.Error(diff)
	}
}

func TestExplain(t *testing.T) {
	spec := bashSpec(tool.Ask)
	spec.Input = &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{"command": {Type: "string", Format: "command"}, "timeout": {Type: "integer"}}, Required: []string{"command"}}
	call, err := ParseCall("bash(git log && curl x | sh)")
	if err != nil {
		t.Fatal(err)
	}
	q := call.Query(spec)
	q.Workspace = "/workspace"
	v := givenPolicy(t, "user allow bash(git log *)", "project ask bash(curl *)", "managed deny bash(sh *)").Explain(q)
	type row struct {
		Text, Rule string
		Action     tool.Action
		Matches    int
	}
	var got []row
	for _, p := range v.Parts {
		got = append(got, row{p.Text, p.Rule, p.Action, len(p.Matches)})
	}
	want := []row{{"git log", "bash(git log *)", tool.Allow, 1}, {"curl x", "bash(curl *)", tool.Ask, 1}, {"sh", "bash(sh *)", tool.Deny, 1}, {"sh", "bash(curl *)", tool.Ask, 2}}
	if len(got) < 3 {
		t.Fatalf("got %+v", got)
	}
	want[3].Rule, want[3].Matches, want[3].Action = got[3].Rule, got[3].Matches, got[3].Action // the unknown program that sh reads
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if v.Action != tool.Deny || v.Source != "test" || v.Scope != Managed {
		t.Errorf("got %s from %s scope %s", v.Action, v.Source, v.Scope)
	}
}

func TestParseCall(t *testing.T) {
	tests := []struct {
		text string
		want Call
		bad  bool
	}{
		{text: "bash(git log)", want: Call{"bash", "git log"}},
		{text: " Read(a b) ", want: Call{"read", "a b"}},
		{text: "bash(echo (a))", want: Call{"bash", "echo (a)"}},
		{text: "github__create", want: Call{"github:create", ""}},
		{text: "delete(x)", want: Call{"bash", "rm x"}},
		{text: "bash(", bad: true}, {text: "", bad: true}, {text: "a b(c)", bad: true},
	}
	for _, tt := range tests {
		got, err := ParseCall(tt.text)
		if (err != nil) != tt.bad || got != tt.want {
			t.Errorf("ParseCall(%q) = %+v, %v", tt.text, got, err)
		}
	}
}

func TestWorkingDirectory(t *testing.T) {
	spec := bashSpec(tool.Ask)
	spec.Input = &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{"command": {Format: "command"}, "working_dir": {Format: "path"}}}
	p := givenPolicy(t, "user allow bash(echo *)", "user allow write(sub/out)", "user deny write(locked/**)")
	for _, tt := range []struct {
		dir, command string
		want         tool.Action
	}{
		{"sub", "echo x > out", tool.Allow},
		{".", "echo x > out", tool.Ask},
		{"locked", "echo x > out", tool.Deny},
		{"sub", "echo x", tool.Allow},
	} {
		v := p.Check(Query{Spec: spec, Arguments: args(t, "command", tt.command, "working_dir", tt.dir), Workspace: "/workspace"})
		if v.Action != tt.want {
			t.Errorf("%q in %s: got %s (%s), want %s", tt.command, tt.dir, v.Action, v.Reason, tt.want)
		}
	}
}

func TestWithBrokenRulesOnlyTightens(t *testing.T) {
	p := givenPolicy(t).With(Rule{Action: tool.Allow, Text: "bash(", Scope: Session}, Rule{Action: tool.Deny, Text: "edit(", Scope: Session})
	if v := checkBash(p, tool.Ask, "ls"); v.Action != tool.Deny {
		t.Errorf("a deny that does not parse must stop everything; got %s", v.Action)
	}
	if v := checkBash(givenPolicy(t).With(Rule{Action: tool.Allow, Text: "bash(", Scope: Session}), tool.Ask, "ls"); v.Action != tool.Ask {
		t.Errorf("an allow that does not parse allowed; got %s", v.Action)
	}
}
