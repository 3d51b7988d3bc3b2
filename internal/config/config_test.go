package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	toolyard "github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/gateway"
	"github.com/toolyard/toolyard/internal/policy"
	"github.com/toolyard/toolyard/tool"
)

// write puts a file below dir and returns its path.
func write(t testing.TB, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// loadText loads a user's file of this content and nothing else.
func loadText(t testing.TB, content string) (*Loaded, error) {
	t.Helper()
	home := t.TempDir()
	write(t, home, "config.yaml", content)
	return Load(Options{Flags: Flags{Home: home}, Environ: []string{}, Managed: "-", Dir: t.TempDir()})
}

func mustLoad(t testing.TB, o Options) *Loaded {
	t.Helper()
	l, err := Load(o)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return l
}

func faultsOf(t testing.TB, err error) []tool.Fault {
	t.Helper()
	e, ok := errors.AsType[*tool.Error](err)
	if !ok || e.Code != tool.ValidationError {
		t.Fatalf("got %v, want a VALIDATION_ERROR", err)
	}
	return e.Faults
}

func TestDefaults(t *testing.T) {
	t.Setenv("HOME", "/home/nobody")
	home, dir := t.TempDir(), t.TempDir()
	l := mustLoad(t, Options{Flags: Flags{Home: home}, Environ: []string{"PATH=/bin:/usr/bin"}, Managed: "-", Dir: dir})
	want := toolyard.Config{
		Home:         home,
		Workspaces:   []string{dir},
		Mode:         "build",
		Profile:      "auto",
		ToolSettings: map[string]toolyard.ToolSettings{},
		Edit:         toolyard.Edit{Strictness: "strict"},
		Shell:        toolyard.Shell{Carry: "off"},
		DoomLoop:     "ask",
		Questions:    toolyard.Questions{Timeout: 50 * time.Second, Keep: time.Hour},
		Output:       toolyard.Output{Limit: toolyard.DefaultOutputLimit, Stored: toolyard.DefaultOutputStored},
		Sandbox:      toolyard.Sandbox{Driver: "local", MinLevel: "L1", Memory: toolyard.DefaultMemory},
		Toolbox:      toolyard.Toolbox{On: true, Preload: "metadata", Idle: 5 * time.Minute, LogRetention: 3 * time.Hour, Installer: "pnpm", Environ: []string{"PATH=/bin:/usr/bin"}},
		MCP:          toolyard.MCP{On: true, Discover: true, Environ: []string{"PATH=/bin:/usr/bin"}},
		Auth:         toolyard.Auth{Mode: "token"},
		Audit:        "group",
		Retention:    toolyard.Retention{Calls: 30 * day, Journal: 7 * day, Artifacts: 30 * day},
		UserHome:     "/home/nobody",
		Path:         "/bin:/usr/bin",
	}
	if diff := cmp.Diff(want, l.Config); diff != "" {
		t.Error(diff)
	}
	if l.LogLevel != "info" {
		t.Errorf("log level %q", l.LogLevel)
	}
	if len(l.Origins) != 0 {
		t.Errorf("defaults have origins: %v", l.Origins)
	}
	serve := mustLoad(t, Options{Flags: Flags{Home: home}, Environ: []string{}, Managed: "-", Dir: dir, NoWorkspace: true})
	if len(serve.Config.Workspaces) != 0 {
		t.Errorf("serve has workspaces %v", serve.Config.Workspaces)
	}
}

func TestEverySetting(t *testing.T) {
	l, err := loadText(t, `
mode: plan
permissions:
  allow: ["bash(go test *)", {rule: "edit(src/**)", match: [src/a.go], not_match: [go.mod]}]
  ask: ["category:git"]
  deny: ["read(**/.env)"]
tools:
  bash: {enabled: true, timeout: 120s, retry: {attempts: 1, base: 500, cap: 10s}, concurrency: {safe: true, max: 4, queue: 64}, output: {maxBytes: 50KiB}}
  Read: {cache: false, priority: -5}
edit: {strictness: anchored}
directories: {read: [/srv/data], write: [/srv/out/]}
shell: {carry: off}
doomLoop: refuse
questions: {timeout: 2d, keep: 1w, webhook: "https://hook.test/q"}
output: {limit: 1MiB, stored: 1.5GiB}
sandbox: {driver: docker, image: "tools:1", minLevel: L2, network: [registry.npmjs.org, "git.test:9418=10.0.0.1"], memory: 512 MiB, allowRanges: [10.1.0.0/16, 203.0.113.7]}
toolbox: {enabled: false, preload: workers, idle: 1m, logRetention: 1d, registry: "https://npm.test/", installer: npm, offline: true, pythonIndex: "https://pypi.test/simple", pythonWheels: /srv/wheels, variables: [HTTP_TOKEN]}
mcpServers: {files: {command: npx, args: [-y, server, /srv], env: {PORT: 80, T: "${secret:T}"}, timeout: 90s, disabled: false}, far: {url: "https://mcp.test/", headers: {A: b}, alwaysAllow: [x], sandbox: {memory: 512MiB}}}
gateway: {enabled: false, discover: false}
audit: strict
auth: {mode: oauth, issuer: "https://as.test", audience: "https://a.test/mcp", scopes: [tools], readScope: look, allow: [10.0.0.0/8], rate: 600}
tls: {cert: /c.pem, key: /k.pem}
limits: {calls_per_second: 100, sessionCallsPerSecond: 2.5}
retention: {calls: 90d, journal: 2w, artifacts: 0}
log: {level: debug}
workspaces: [/srv/app]
profile: small
profiles: {small: {tools: [files, "toolbox:*"], mode: search}}
`)
	if err != nil {
		t.Fatal(err)
	}
	yes, no := true, false
	got := l.Config
	got.Home, got.UserHome, got.Path, got.GitExcludes, got.Toolbox.Environ = "", "", "", "", nil
	got.MCP.Environ = nil
	for _, list := range []*[]toolyard.Rule{&got.Permissions.Allow, &got.Permissions.Ask, &got.Permissions.Deny} {
		for i := range *list {
			(*list)[i].Source = (*list)[i].Source[strings.LastIndex((*list)[i].Source, "/")+1:]
		}
	}
	want := toolyard.Config{
		Workspaces: []string{"/srv/app"},
		Mode:       "plan",
		Profile:    "small",
		Profiles:   map[string]toolyard.Profile{"small": {Tools: []string{"files", "toolbox:*"}, Mode: "search"}},
		Permissions: toolyard.Permissions{
			Allow: []toolyard.Rule{{Text: "bash(go test *)", Scope: "user", Source: "config.yaml:4"}, {Text: "edit(src/**)", Match: []string{"src/a.go"}, NotMatch: []string{"go.mod"}, Scope: "user", Source: "config.yaml:4"}},
			Ask:   []toolyard.Rule{{Text: "category:git", Scope: "user", Source: "config.yaml:5"}},
			Deny:  []toolyard.Rule{{Text: "read(**/.env)", Scope: "user", Source: "config.yaml:6"}},
		},
		ToolSettings: map[string]toolyard.ToolSettings{
			"bash": {Enabled: &yes, Timeout: 2 * time.Minute, Retry: toolyard.Retry{Attempts: 1, Base: 500 * time.Millisecond, Cap: 10 * time.Second},
				Concurrency: toolyard.Concurrency{Safe: &yes, Max: 4, Queue: 64}, MaxOutput: 50 << 10},
			"read": {Cache: &no, Concurrency: toolyard.Concurrency{Priority: -5}},
		},
		Edit:        toolyard.Edit{Strictness: "anchored"},
		Directories: toolyard.Directories{Read: []string{"/srv/data"}, Write: []string{"/srv/out"}},
		Shell:       toolyard.Shell{Carry: "off"},
		DoomLoop:    "refuse",
		Questions:   toolyard.Questions{Timeout: 2 * day, Keep: 7 * day, Webhook: "https://hook.test/q"},
		Output:      toolyard.Output{Limit: 1 << 20, Stored: 3 << 29},
		Sandbox:     toolyard.Sandbox{Driver: "docker", Image: "tools:1", MinLevel: "L2", Memory: 512 << 20, Network: []string{"registry.npmjs.org", "git.test:9418=10.0.0.1"}, AllowRanges: []string{"10.1.0.0/16", "203.0.113.7"}},
		Toolbox: toolyard.Toolbox{Preload: "workers", Idle: time.Minute, LogRetention: day, Registry: "https://npm.test/", Installer: "npm", Offline: true,
			Index: "https://pypi.test/simple", Wheels: "/srv/wheels"},
		MCP: toolyard.MCP{Servers: map[string]toolyard.MCPServer{
			"files": {Type: "stdio", Command: "npx", Args: []string{"-y", "server", "/srv"}, Env: map[string]string{"PORT": "80", "T": "${secret:T}"}, Timeout: gateway.Duration(90 * time.Second), Enabled: &yes},
			"far":   {Type: "http", URL: "https://mcp.test/", Headers: map[string]string{"A": "b"}, Sandbox: gateway.Sandbox{Memory: 512 << 20}},
		}},
		Auth:      toolyard.Auth{Mode: "oauth", Issuer: "https://as.test", Audience: "https://a.test/mcp", Scopes: []string{"tools"}, ReadScope: "look", Allow: []string{"10.0.0.0/8"}, Rate: 600},
		TLS:       toolyard.TLS{Cert: "/c.pem", Key: "/k.pem"},
		Audit:     "strict",
		Limits:    toolyard.Limits{CallsPerSecond: 100, SessionCallsPerSecond: 2.5},
		Retention: toolyard.Retention{Calls: 90 * day, Journal: 14 * day},
	}
	for name, s := range got.MCP.Servers {
		s.From = ""
		got.MCP.Servers[name] = s
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if l.LogLevel != "debug" {
		t.Errorf("log level %q", l.LogLevel)
	}
}

func TestNamesOfOtherSystems(t *testing.T) {
	yes := true
	tests := []struct {
		text  string
		want  toolyard.ToolSettings
		notes int
	}{
		{"{retryAttempts: 3}", toolyard.ToolSettings{Retry: toolyard.Retry{Attempts: 3}}, 0},
		{"{retryAttempts: 0}", toolyard.ToolSettings{Retry: toolyard.Retry{Attempts: 1}}, 0},
		{"{isConcurrencySafe: true, maxConcurrentCalls: 2, queueSize: 9}", toolyard.ToolSettings{Concurrency: toolyard.Concurrency{Safe: &yes, Max: 2, Queue: 9}}, 0},
		{"{requiredCapabilities: [network]}", toolyard.ToolSettings{}, 1},
		{"{enableMetrics: false, enableTracing: true}", toolyard.ToolSettings{}, 2},
		{"{output: {max_bytes: 1KiB}}", toolyard.ToolSettings{MaxOutput: 1024}, 0},
		{"{timeout: 1500}", toolyard.ToolSettings{Timeout: 1500 * time.Millisecond}, 0},
	}
	for _, tt := range tests {
		l, err := loadText(t, "tools:\n  bash: "+tt.text+"\n")
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		if diff := cmp.Diff(tt.want, l.Config.ToolSettings["bash"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.text, diff)
		}
		if len(l.Notes) != tt.notes {
			t.Errorf("%s: notes %q, want %d", tt.text, l.Notes, tt.notes)
		}
	}
	for text, want := range map[string]string{"low": "L1", "standard": "L2", "high": "L2"} {
		l, err := loadText(t, "tools: {bash: {securityLevel: "+text+"}}\n")
		if err != nil || l.Config.Sandbox.MinLevel != want {
			t.Errorf("securityLevel %s: level %s, %v", text, l.Config.Sandbox.MinLevel, err)
		}
	}
	l, err := loadText(t, "tools: {edit: {allowedPaths: [src/**], forbiddenPaths: [secret, 'b/**']}}\n")
	if err != nil {
		t.Fatal(err)
	}
	var rules []policy.Rule
	for action, list := range map[tool.Action][]toolyard.Rule{tool.Allow: l.Config.Permissions.Allow, tool.Ask: l.Config.Permissions.Ask, tool.Deny: l.Config.Permissions.Deny} {
		for _, r := range list {
			scope, err := policy.ParseScope(r.Scope)
			if err != nil {
				t.Fatal(err)
			}
			rules = append(rules, policy.Rule{Action: action, Text: r.Text, Scope: scope})
		}
	}
	p, err := policy.New(rules)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]tool.Action{"src/a": tool.Allow, "src/secret": tool.Deny, "b/x": tool.Deny, "other": tool.Ask} {
		v := p.Check(policy.Query{Spec: &tool.Spec{Name: "edit", Effects: tool.Write, Default: tool.Allow}, Workspace: "/w", Subjects: []tool.Subject{{Kind: tool.SubjectPath, Value: path, Write: true}}})
		if v.Action != want {
			t.Errorf("edit of %s: got %s, want %s", path, v.Action, want)
		}
	}
}

func TestFaults(t *testing.T) {
	tests := []struct {
		name, content string
		want          []string // "line:col: path: expected X, got Y", in parts that must be there
	}{
		{"unknown key", "mdoe: plan\n", []string{`:1:1: mdoe: expected a known key (did you mean mode?), got "mdoe"`}},
		{"unknown nested key", "sandbox:\n  memroy: 1GiB\n", []string{`:2:3: sandbox.memroy: expected a known key (did you mean memory?)`}},
		{"unknown key of a tool", "tools:\n  bash:\n    timout: 3s\n", []string{`:3:5: tools.bash.timout: expected a known key (did you mean timeout?)`}},
		{"unknown and like nothing", "frobnicate: 1\n", []string{`:1:1: frobnicate: expected a known key, got "frobnicate"`}},
		{"keys of parts that are not there", "hooks: []\n", []string{":1:1: hooks"}},
		{"mcp server without a command", "mcpServers:\n  a: {args: [x]}\n", []string{`:2:3: mcpServers.a: expected a command or a url`}},
		{"mcp server with an unknown key", "mcpServers:\n  a:\n    command: x\n    conmand: y\n", []string{`:4:5: mcpServers.a.conmand: expected a key of an MCP server (did you mean command?)`}},
		{"mcp server with a bad nested value", "mcpServers:\n  a:\n    command: x\n    sandbox:\n      memory: lots\n  b: {command: y, timeout: soon}\n",
			[]string{`:5:7: mcpServers.a.sandbox.memory: expected a size such as 512MiB, got "lots"`, `mcpServers.b.timeout: expected a time such as 30s`}},
		{"mcp servers as a list", "mcpServers: [a]\n", []string{`mcpServers: expected a mapping of MCP servers by name`}},
		{"foreign names only in tools", "retryAttempts: 3\n", []string{":1:1: retryAttempts"}},
		{"bad word", "mode: yolo\n", []string{`:1:7: mode: expected one of build, plan, explore, trusted, got "yolo"`}},
		{"bad size", "output: {limit: 50KB}\n", []string{`:1:17: output.limit: expected a size such as 50KiB`, `got "50KB"`}},
		{"size too small", "sandbox:\n  memory: 5\n", []string{`:2:11: sandbox.memory: expected a size`, "at least 1MiB"}},
		{"bad time", "retention: {calls: soon}\n", []string{`retention.calls: expected a time`, `"soon"`}},
		{"negative time", "retention: {calls: -3d}\n", []string{`retention.calls: expected a time`}},
		{"bad number", "tools: {bash: {concurrency: {max: many}}}\n", []string{"tools.bash.concurrency.max: expected a whole number, at least 1"}},
		{"negative rate", "limits: {callsPerSecond: -1}\n", []string{"limits.callsPerSecond: expected a number, 0 or more"}},
		{"host", "sandbox:\n  network: [ok.test, 'no host']\n", []string{`:2:`, `sandbox.network: expected host[:port]`, `"no host"`}},
		{"all among hosts", "sandbox: {network: all of them}\n", []string{`sandbox.network: expected a list of hosts, or all, got "all of them"`}},
		{"host that is a mapping", "sandbox: {network: [{a: b}]}\n", []string{"sandbox.network: expected a list of hosts"}},
		{"range", "sandbox: {allowRanges: [10.0.0.0/99]}\n", []string{"sandbox.allowRanges: expected an address or a range", `"10.0.0.0/99"`}},
		{"bad bool", "tools: {bash: {enabled: yes}}\n", []string{"tools.bash.enabled: expected true or false"}},
		{"list for a word", "mode: [plan]\n", []string{"mode: expected one of", "got a list"}},
		{"word for a list", "directories: {read: /srv}\n", []string{"directories.read: expected a list", `"/srv"`}},
		{"mapping for a word", "mode: {a: b}\n", []string{"mode: expected one of", "got a mapping"}},
		{"word for a mapping", "sandbox: L2\n", []string{`sandbox: expected a mapping of settings, got "L2"`}},
		{"list at the top", "- a\n", []string{"expected a mapping of settings, got a list"}},
		{"bad rule", "permissions:\n  deny:\n    - read\n    - 'bash('\n", []string{":4:7: permissions.deny: expected a permission rule", "closing parenthesis"}},
		{"rule that is no text", "permissions: {allow: [[a]]}\n", []string{"permissions.allow: expected a list of permission rules, got a list"}},
		{"rule with an unknown key", "permissions: {allow: [{rule: a, macth: [b]}]}\n", []string{"permissions.allow: expected a list of permission rules"}},
		{"rule whose example fails", "permissions:\n  allow:\n    - {rule: 'bash(go test *)', match: ['go build']}\n", []string{`:3:8: permissions.allow: "bash(go test *)": expected to match "go build", got no match`}},
		{"tool's name", "tools: {'a b': {timeout: 1}}\n", []string{`expected the name of a tool, got "a b"`}},
		{"security level", "tools: {bash: {securityLevel: extreme}}\n", []string{"tools.bash.securityLevel: expected low, standard or high"}},
		{"effects", "tools: {x: {requiredCapabilities: [fly]}}\n", []string{"tools.x.requiredCapabilities: expected a list of effects: read, write"}},
		{"paths of another system", "tools: {edit: {forbiddenPaths: ['../x']}}\n", []string{"tools.edit.forbiddenPaths: expected a list of path patterns"}},
		{"not YAML", "a: [b\n", []string{"expected YAML"}},
		{"the same key twice", "mode: plan\nmode: build\n", []string{":2:1: expected YAML"}},
		{"two documents", "mode: plan\n---\nmode: build\n", []string{"expected one document"}},
		{"merge key", "x: &a {}\n<<: *a\n", []string{"a merge (<<)"}},
		{"tabs", "sandbox:\n\tmemory: 1GiB\n", []string{"expected YAML"}},
		{"all at once", "mode: yolo\nsandbox: {memory: lots}\nfoo: 1\n", []string{"mode:", "sandbox.memory:", "foo:"}},
		{"too deep", strings.Repeat("[", 100), []string{"expected YAML"}},
		{"too long", "# " + strings.Repeat("x", maxFile), []string{"at most 64 KiB"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := loadText(t, tt.content)
			var text strings.Builder
			for _, f := range faultsOf(t, err) {
				text.WriteString(f.String() + "\n")
			}
			for _, want := range tt.want {
				if !strings.Contains(text.String(), want) {
					t.Errorf("no %q in:\n%s", want, text.String())
				}
			}
			if e := tool.AsError(err); e.Hint == "" || !strings.Contains(e.Message, "the configuration is wrong") {
				t.Errorf("message %q, hint %q", e.Message, e.Hint)
			}
		})
	}
}

func TestLayers(t *testing.T) {
	home, dir, managedDir := t.TempDir(), t.TempDir(), t.TempDir()
	write(t, home, "config.yaml", "mode: plan\nlog: {level: warn}\ndoomLoop: off\nsandbox: {memory: 1GiB}\npermissions: {allow: [a], deny: [u]}\noutput: {limit: 1KiB, stored: 1MiB}\ndirectories: {read: ["+dir+", /abs]}\n")
	write(t, dir, ".toolyard/config.yaml", "mode: explore\nsandbox: {memory: 512MiB}\npermissions: {allow: [b]}\nlog: {level: error}\noutput: {limit: 2KiB}\ndirectories: {read: [sub, /abs/below, /other]}\n")
	managed := write(t, managedDir, "managed.yaml", "sandbox: {minLevel: L2}\npermissions: {ask: [m], deny: [n]}\nmode: build\n")
	sum, err := Sum(dir)
	if err != nil {
		t.Fatal(err)
	}
	options := Options{
		Flags:   Flags{Home: home, Mode: "trusted", Allow: []string{"d"}, Deny: []string{"e"}, Set: map[string]string{"limits.callsPerSecond": "3", "directories.write": "/x, /y"}},
		Environ: []string{"TOOLYARD_SANDBOX__MIN_LEVEL=L0", "TOOLYARD_LOG__LEVEL=debug", "TOOLYARD_TOOLS__WEB_SEARCH__TIMEOUT=9s", "TOOLYARD_PERMISSIONS__ALLOW=c(x, y)\nc2", "TOOLYARD_DIRECTORIES__READ=[/a, '/b,c']", "TOOLYARD_MASTER_KEY=x", "PATH=/bin", "TOOLYARD_OUTPUT__LIMIT=3KiB"},
		Dir:     dir,
		Managed: managed,
		Trusted: func(string) (string, error) { return sum, nil },
	}
	l := mustLoad(t, options)
	got := map[string]any{}
	for _, e := range l.Entries() {
		if e.Origin.Layer != BuiltIn {
			got[e.Path] = e.Value + " from " + e.Origin.Layer.String()
		}
	}
	want := map[string]any{
		"mode":                     "build from managed",
		"log.level":                "debug from environment",
		"doomLoop":                 "off from user",
		"sandbox.memory":           "512MiB from project",
		"sandbox.minLevel":         "L2 from managed",
		"directories.write":        "[/x, /y] from flags",
		"permissions.allow":        `[a, b, "c(x, y)", c2, d] from flags`,
		"permissions.ask":          "[m] from managed",
		"permissions.deny":         "[u, e, n] from managed",
		"output.limit":             "3KiB from environment",
		"output.stored":            "1MiB from user",
		"limits.callsPerSecond":    "3 from flags",
		"directories.read":         `[/a, "/b,c"] from environment`,
		"tools.web_search.timeout": "9s from environment",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	scopes := ""
	for _, r := range append(append(l.Config.Permissions.Allow, l.Config.Permissions.Ask...), l.Config.Permissions.Deny...) {
		scopes += r.Text + "=" + r.Scope + " "
	}
	if want := "a=user b=project c(x, y)=session c2=session d=session m=managed u=user e=session n=managed "; scopes != want {
		t.Errorf("scopes %q, want %q", scopes, want)
	}
	options.Environ = []string{}
	l = mustLoad(t, options)
	if diff := cmp.Diff([]string{filepath.Join(dir, "sub"), "/abs/below"}, l.Config.Directories.Read); diff != "" {
		t.Errorf("directories of the project's file: %s", diff)
	}
	if o := l.Origins["sandbox.memory"]; o.File != filepath.Join(dir, ".toolyard/config.yaml") || o.Line != 2 {
		t.Errorf("origin of sandbox.memory: %+v", o)
	}
	if o := l.Origins["mode"].String(); o != managed+":3" {
		t.Errorf("origin of mode: %s", o)
	}
}

func TestTrust(t *testing.T) {
	home, dir := t.TempDir(), t.TempDir()
	write(t, dir, ".toolyard/config.yaml", "mode: trusted\n")
	sum, err := Sum(dir)
	if err != nil || len(sum) != 64 {
		t.Fatalf("Sum: %q, %v", sum, err)
	}
	load := func(trusted func(string) (string, error)) *Loaded {
		return mustLoad(t, Options{Flags: Flags{Home: home}, Environ: []string{}, Managed: "-", Dir: dir, Trusted: trusted})
	}
	pinned := func(s string) func(string) (string, error) {
		return func(asked string) (string, error) {
			if asked != dir {
				t.Errorf("asked about %s", asked)
			}
			return s, nil
		}
	}
	state := func(l *Loaded) FileState {
		for _, f := range l.Files {
			if f.Layer == ProjectFile {
				return f.State
			}
		}
		return "none"
	}
	if l := load(pinned(sum)); l.Config.Mode != "trusted" || state(l) != Read || len(l.Notes) != 0 {
		t.Errorf("trusted: mode %s, file %s, notes %v", l.Config.Mode, state(l), l.Notes)
	}
	for name, trusted := range map[string]func(string) (string, error){
		"never trusted": pinned(""), "another content": pinned(strings.Repeat("0", 64)), "no record": nil,
		"record fails": func(string) (string, error) { return sum, errors.New("database is locked") },
	} {
		if l := load(trusted); l.Config.Mode != "build" || state(l) != Untrusted || len(l.Notes) != 1 {
			t.Errorf("%s: mode %s, file %s, notes %v", name, l.Config.Mode, state(l), l.Notes)
		}
	}
	write(t, dir, ".toolyard/config.yaml", "mode: trusted\nbroken: [")
	if l := load(pinned(sum)); l.Config.Mode != "build" || state(l) != Untrusted {
		t.Errorf("a changed file is read: mode %s", l.Config.Mode)
	}
	write(t, dir, ".toolyard/config.yaml", "mode: trusted\n")
	if again, _ := Sum(dir); again != sum {
		t.Errorf("the same content has another sum")
	}
	write(t, dir, ".toolyard/skills/x/SKILL.md", "# x")
	if l := load(pinned(sum)); state(l) != Untrusted {
		t.Errorf("a new skill leaves the workspace trusted")
	}
	if err := os.RemoveAll(filepath.Join(dir, ".toolyard")); err != nil {
		t.Fatal(err)
	}
	if l := load(pinned("")); state(l) != Absent || len(l.Notes) != 0 {
		t.Errorf("without a file: %s %v", state(l), l.Notes)
	}
	if err := os.Symlink(home, filepath.Join(dir, ".toolyard")); err != nil {
		t.Fatal(err)
	}
	outside := write(t, t.TempDir(), "config.yaml", "mode: trusted\n")
	if err := os.Remove(filepath.Join(dir, ".toolyard")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, ".toolyard"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, ".toolyard/config.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, err := Sum(dir); err == nil {
		t.Error("a symlink can be trusted")
	}
	if l := load(pinned("")); state(l) != Untrusted || l.Config.Mode != "build" {
		t.Errorf("a symlink: %s, mode %s", state(l), l.Config.Mode)
	}
}

func TestProjectMayNotSetTheOperatorsSettings(t *testing.T) {
	for _, content := range []string{"workspaces: [/]\n", "audit: normal\n", "retention: {calls: 1d}\n", "sandbox: {driver: docker}\n", "sandbox: {image: mine}\n", "questions: {webhook: \"http://127.0.0.1/\"}\n", "questions: {keep: 9d}\n"} {
		dir := t.TempDir()
		write(t, dir, ".toolyard/config.yaml", content)
		sum, err := Sum(dir)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Load(Options{Flags: Flags{Home: t.TempDir()}, Environ: []string{}, Managed: "-", Dir: dir, Trusted: func(string) (string, error) { return sum, nil }})
		if f := faultsOf(t, err); !strings.Contains(f[0].Got, "only the operator") {
			t.Errorf("%q: %v", content, f)
		}
	}
}

func TestDockerHost(t *testing.T) {
	const host = "unix:///run/user/1000/docker.sock"
	l := mustLoad(t, Options{Flags: Flags{Home: t.TempDir()}, Environ: []string{"DOCKER_HOST=" + host, "TOOLYARD_SANDBOX__DRIVER=docker"}, Managed: "-", Dir: t.TempDir()})
	if got := l.Config.Sandbox; got.DockerHost != host || got.Driver != "docker" {
		t.Errorf("got %+v, want docker at %s", got, host)
	}
}

// TestProjectOnlyNarrows: what a trusted workspace asks for is cut to what was
// granted.
func TestProjectOnlyNarrows(t *testing.T) {
	const user = "sandbox: {minLevel: L2, memory: 1GiB, network: ['*.example.org', 'db.test:5432=10.0.0.1'], allowRanges: [10.0.0.0/8]}\n"
	for _, c := range []struct {
		name, user, project string
		want                toolyard.Sandbox
		note                string // "" for none
	}{
		{"nothing said", user, "mode: build\n", toolyard.Sandbox{Driver: "local", MinLevel: "L2", Memory: 1 << 30, Network: []string{"*.example.org", "db.test:5432=10.0.0.1"}, AllowRanges: []string{"10.0.0.0/8"}}, ""},
		{"less of all", user, "sandbox: {memory: 512MiB, network: [a.example.org], allowRanges: [10.1.0.0/16]}\n",
			toolyard.Sandbox{Driver: "local", MinLevel: "L2", Memory: 512 << 20, Network: []string{"a.example.org"}, AllowRanges: []string{"10.1.0.0/16"}}, ""},
		{"a host more", user, "sandbox: {network: [a.example.org, evil.test]}\n",
			toolyard.Sandbox{Driver: "local", MinLevel: "L2", Memory: 1 << 30, Network: []string{"a.example.org"}, AllowRanges: []string{"10.0.0.0/8"}}, "sandbox.network asks for more than the user granted; left out: evil.test"},
		{"another address for a host", user, "sandbox: {network: ['db.test:5432=127.0.0.1']}\n",
			toolyard.Sandbox{Driver: "local", MinLevel: "L2", Memory: 1 << 30, Network: []string{}, AllowRanges: []string{"10.0.0.0/8"}}, "left out: db.test:5432=127.0.0.1"},
		{"all", user, "sandbox: {network: all}\n",
			toolyard.Sandbox{Driver: "local", MinLevel: "L2", Memory: 1 << 30, Network: []string{"*.example.org", "db.test:5432=10.0.0.1"}, AllowRanges: []string{"10.0.0.0/8"}}, "left out: all"},
		{"a range more", user, "sandbox: {allowRanges: [10.1.0.0/16, 127.0.0.0/8]}\n",
			toolyard.Sandbox{Driver: "local", MinLevel: "L2", Memory: 1 << 30, Network: []string{"*.example.org", "db.test:5432=10.0.0.1"}, AllowRanges: []string{"10.1.0.0/16"}}, "left out: 127.0.0.0/8"},
		{"more memory", user, "sandbox: {memory: 2GiB}\n",
			toolyard.Sandbox{Driver: "local", MinLevel: "L2", Memory: 1 << 30, Network: []string{"*.example.org", "db.test:5432=10.0.0.1"}, AllowRanges: []string{"10.0.0.0/8"}}, "sandbox.memory asks for more than the user granted; it stays 1GiB"},
		{"a lower level", user, "sandbox: {minLevel: L0}\n",
			toolyard.Sandbox{Driver: "local", MinLevel: "L2", Memory: 1 << 30, Network: []string{"*.example.org", "db.test:5432=10.0.0.1"}, AllowRanges: []string{"10.0.0.0/8"}}, "it stays L2"},
		{"from nothing", "", "sandbox: {network: [a.test], allowRanges: [127.0.0.1]}\n", toolyard.Sandbox{Driver: "local", MinLevel: "L1", Memory: 4 << 30, Network: []string{}, AllowRanges: []string{}}, "left out: a.test"},
		{"a name within all", "sandbox: {network: all}\n", "sandbox: {network: [a.test, 'b.test=127.0.0.1', 127.0.0.1]}\n",
			toolyard.Sandbox{Driver: "local", MinLevel: "L1", Memory: 4 << 30, Network: []string{"a.test"}}, "left out: b.test=127.0.0.1, 127.0.0.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, home := t.TempDir(), t.TempDir()
			write(t, home, "config.yaml", c.user)
			write(t, dir, ".toolyard/config.yaml", c.project)
			sum, err := Sum(dir)
			if err != nil {
				t.Fatal(err)
			}
			l, err := Load(Options{Flags: Flags{Home: home}, Environ: []string{}, Managed: "-", Dir: dir, Trusted: func(string) (string, error) { return sum, nil }})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, l.Config.Sandbox); diff != "" {
				t.Error(diff)
			}
			if notes := strings.Join(l.Notes, "\n"); c.note == "" && notes != "" || !strings.Contains(notes, c.note) {
				t.Errorf("notes %q, want %q", notes, c.note)
			}
		})
	}
}

func TestEnvironmentAndFlagFaults(t *testing.T) {
	tests := []struct {
		name  string
		env   string
		flags Flags
		want  string
	}{
		{"unknown variable", "TOOLYARD_MOED=plan", Flags{}, "environment TOOLYARD_MOED: expected a known setting (did you mean mode?)"},
		{"unknown nested variable", "TOOLYARD_SANDBOX__MEMROY=1GiB", Flags{}, "did you mean sandbox.memory?"},
		{"a group", "TOOLYARD_SANDBOX=L1", Flags{}, "a setting below sandbox"},
		{"bad value", "TOOLYARD_MODE=yolo", Flags{}, `environment TOOLYARD_MODE: mode: expected one of build, plan, explore, trusted, got "yolo"`},
		{"bad flag", "", Flags{Mode: "yolo"}, `--mode: mode: expected one of`},
		{"bad rule", "", Flags{Deny: []string{"bash("}}, "--deny: permissions.deny: expected a permission rule"},
		{"bad set", "", Flags{Set: map[string]string{"a.b": "c"}}, "--set a.b: expected a known setting"},
		{"missing file", "", Flags{File: "nowhere.yaml"}, "nowhere.yaml: expected a file that can be read, got no such file or directory"},
	}
	for _, tt := range tests {
		o := Options{Flags: tt.flags, Environ: []string{tt.env}, Managed: "-", Dir: t.TempDir()}
		o.Flags.Home = t.TempDir()
		_, err := Load(o)
		if f := faultsOf(t, err); len(f) != 1 || !strings.Contains(f[0].String(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, f, tt.want)
		}
	}
}

func TestHome(t *testing.T) {
	t.Setenv("HOME", "/home/me")
	dir := t.TempDir()
	for _, tt := range []struct{ flag, env, want string }{
		{"", "", "/home/me/.toolyard"},
		{"", "/srv/ty", "/srv/ty"},
		{"/srv/flag", "/srv/ty", "/srv/flag"},
		{"rel", "", filepath.Join(dir, "rel")},
		{"~/x", "", "/home/me/x"},
	} {
		l := mustLoad(t, Options{Flags: Flags{Home: tt.flag}, Environ: []string{"TOOLYARD_HOME=" + tt.env}, Managed: "-", Dir: dir})
		if l.Home != tt.want || l.Config.Home != tt.want {
			t.Errorf("flag %q, environment %q: got %s, want %s", tt.flag, tt.env, l.Home, tt.want)
		}
	}
}

func TestManagedFileThatCannotBeReadStopsTheStart(t *testing.T) {
	dir := t.TempDir()
	_, err := Load(Options{Flags: Flags{Home: t.TempDir()}, Environ: []string{}, Managed: dir, Dir: dir})
	if f := faultsOf(t, err); len(f) != 1 || !strings.HasPrefix(f[0].Path, dir) {
		t.Errorf("got %v", f)
	}
}

// The commented example, with its comment marks off, is the default.
func TestExample(t *testing.T) {
	var active strings.Builder
	for line := range strings.Lines(Example()) {
		rest, ok := strings.CutPrefix(line, "#")
		if trimmed := strings.TrimSpace(rest); ok && !strings.HasPrefix(rest, " S") && !strings.HasPrefix(trimmed, "#") && !strings.HasPrefix(rest, " take") && !strings.HasPrefix(rest, " `") {
			active.WriteString(rest)
		} else if !ok && trimmed != "" {
			t.Errorf("an active line: %q", line)
		}
	}
	l, err := loadText(t, active.String())
	if err != nil {
		t.Fatalf("%v\n%s", err, active.String())
	}
	plain, err := loadText(t, "")
	if err != nil {
		t.Fatal(err)
	}
	if l.Config.ToolSettings["bash"].Timeout != 2*time.Minute {
		t.Errorf("the example for a tool is not read: %+v", l.Config.ToolSettings)
	}
	plain.Config.ToolSettings, plain.Config.Home = l.Config.ToolSettings, l.Config.Home
	plain.Config.Workspaces = l.Config.Workspaces
	if diff := cmp.Diff(plain.Config, l.Config, cmp.Transformer("empty", func(s []string) []string { return append([]string{}, s...) })); diff != "" {
		t.Errorf("the example differs from the defaults:\n%s", diff)
	}
	if _, err := loadText(t, Example()); err != nil {
		t.Errorf("the example as it is: %v", err)
	}
	for _, k := range Keys() {
		if k.Doc == "" || !strings.HasSuffix(k.Doc, ".") || !strings.Contains(Reference(), "`"+strings.Replace(k.Path, "*", "<name>", 1)+"`") {
			t.Errorf("%s is not documented", k.Path)
		}
	}
}

// What Show prints can be loaded again and gives the same.
func TestShow(t *testing.T) {
	l, err := loadText(t, "mode: plan\ndirectories: {read: ['/a b', /c]}\nsandbox: {memory: 1GiB}\npermissions: {deny: ['read(**/.env)', \"bash(echo \\\"a\\\" *)\"]}\ntools: {bash: {timeout: 90s, concurrency: {max: 2}}, 'toolbox:pdf.v2': {enabled: false, output: {maxBytes: 3}}}\n")
	if err != nil {
		t.Fatal(err)
	}
	text := l.Show()
	again, err := loadText(t, text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	strip := func(l *Loaded) toolyard.Config {
		c := l.Config
		c.Home, c.Workspaces = "", nil
		for i := range c.Permissions.Deny {
			c.Permissions.Deny[i].Source = ""
		}
		return c
	}
	if diff := cmp.Diff(strip(l), strip(again), cmp.Transformer("empty", func(s []string) []string { return append([]string{}, s...) })); diff != "" {
		t.Errorf("%s\n%s", diff, text)
	}
	for _, want := range []string{"mode: plan  # ", "config.yaml:1", "doomLoop: ask  # built-in", "  bash:\n    timeout: 90s"} {
		if !strings.Contains(strings.ReplaceAll(text, "1m30s", "90s"), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestGitExcludes(t *testing.T) {
	tests := []struct {
		name   string
		config string // ~/.gitconfig
		want   string // below home
	}{
		{"nothing set", "", ""},
		{"set", "[user]\n\tname = x\n[core]\n\tautocrlf = input\n\texcludesFile = ~/my.ignore # mine\n", "my.ignore"},
		{"in quotes", "[Core]\nEXCLUDESFILE=\"~/my.ignore\"\n", "my.ignore"},
		{"in another section", "[color]\nexcludesFile = ~/my.ignore\n", ""},
		{"of a subsection", "[core \"x\"]\nexcludesFile = ~/my.ignore\n", ""},
		{"not there", "[core]\nexcludesFile = ~/nowhere\n", ""},
	}
	for _, tt := range tests {
		home := t.TempDir()
		write(t, home, ".gitconfig", tt.config)
		write(t, home, "my.ignore", "*.log\n")
		want := ""
		if tt.want != "" {
			want = filepath.Join(home, tt.want)
		}
		if got := gitExcludes(home, ""); got != want {
			t.Errorf("%s: got %q, want %q", tt.name, got, want)
		}
	}
	home := t.TempDir()
	want := write(t, home, ".config/git/ignore", "*.log\n")
	if got := gitExcludes(home, ""); got != want {
		t.Errorf("git's default: got %q, want %q", got, want)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("mode: plan\npermissions: {allow: [a, {rule: b, match: [c]}]}\ntools: {bash: {timeout: 1s}}\n")
	f.Add(Example())
	f.Add("a: &x [*x]\nb: *x\n<<: *x")
	f.Add("sandbox: !!str {memory: |\n 1GiB\n}")
	f.Add("? [a]\n: b\n")
	f.Add("\ufeffmode: plan\r\n")
	f.Fuzz(func(t *testing.T, content string) {
		r := &reader{loaded: &Loaded{Origins: map[string]Origin{}}, tree: newTree(), from: origin{layer: UserFile, file: "/x", name: "x", dir: "/"}}
		r.loaded.Config.ToolSettings = map[string]toolyard.ToolSettings{}
		r.yaml([]byte(content))
		for _, fault := range r.faults {
			if fault.Expected == "" || fault.Path == "" {
				t.Errorf("%q: an empty fault %+v", content, fault)
			}
		}
		if len(r.faults) > 0 {
			return
		}
		again := &reader{loaded: &Loaded{Origins: map[string]Origin{}}, tree: r.tree, from: r.from}
		again.loaded.Config.ToolSettings = map[string]toolyard.ToolSettings{}
		again.builtIn()
		again.yaml([]byte(content))
		shown := again.loaded.Show()
		again.yaml([]byte(shown))
		if len(again.faults) > 0 {
			t.Errorf("%q is shown as\n%s\nwhich is wrong: %v", content, shown, again.faults)
		}
	})
}

// TestToolboxEnvironment: tools see the variables that are named, and no other.
func TestToolboxEnvironment(t *testing.T) {
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "config.yaml"), []byte("toolbox: {variables: [A, B]}"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := mustLoad(t, Options{Flags: Flags{Home: home}, Environ: []string{"PIP_INDEX_URL=https://p.test", "A=x=y", "C=z"}, Managed: "-", Dir: t.TempDir()})
	if got := l.Config.Toolbox; got.Index != "https://p.test" {
		t.Errorf("got index %q", got.Index)
	} else if diff := cmp.Diff(map[string]string{"A": "x=y"}, got.Variables); diff != "" {
		t.Error(diff)
	}
}

func TestProfiles(t *testing.T) {
	home := t.TempDir()
	load := func(t *testing.T, yaml string, flags Flags, environ ...string) (*Loaded, error) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(home, "config.yaml"), []byte(yaml), 0o600); err != nil {
			t.Fatal(err)
		}
		flags.Home = home
		return Load(Options{Flags: flags, Environ: append(environ, "HOME="+home), Dir: home, Managed: "-"})
	}
	const two = "profiles:\n  small: {tools: [files, git, \"toolbox:*\", \"!write\"], mode: full}\n  empty:\n"
	l, err := load(t, two, Flags{Profile: "small"}, "TOOLYARD_PROFILES__CI__TOOLS=read,grep")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]toolyard.Profile{
		"small": {Tools: []string{"files", "git", "toolbox:*", "!write"}, Mode: "full"}, "empty": {}, "ci": {Tools: []string{"read", "grep"}},
	}
	if diff := cmp.Diff(want, l.Config.Profiles); diff != "" || l.Config.Profile != "small" {
		t.Errorf("profile %q (-want +got)\n%s", l.Config.Profile, diff)
	}
	if text := l.Show(); !strings.Contains(text, "profiles:\n") || !strings.Contains(text, "  small:\n") || !strings.Contains(text, `tools: [files, git, "toolbox:*", "!write"]`) {
		t.Errorf("shown as\n%s", text)
	}
	if l, err = load(t, "", Flags{}); err != nil || l.Config.Profile != "auto" {
		t.Errorf("the default is %q, %v", l.Config.Profile, err)
	}
	for _, c := range []struct {
		name, yaml string
		flags      Flags
		want       string
	}{
		{"unknown", two, Flags{Profile: "smal"}, `--profile: expected the name of a profile (did you mean small?): auto, empty, full, search, small, got "smal"`},
		{"unknown in the file", two + "profile: smll\n", Flags{}, "config.yaml:4: profile: expected the name of a profile (did you mean small?)"},
		{"a mode", "profiles: {x: {mode: some}}\n", Flags{}, "profiles.x.mode: expected one of full, search, auto"},
		{"a key", "profiles: {x: {tool: [read]}}\n", Flags{}, "did you mean tools?"},
		{"a pattern", "profiles: {x: {tools: [\"read(x)\"]}}\n", Flags{}, `"read(x)" is no pattern of tools`},
		{"no list", "profiles: {x: {tools: 3}}\n", Flags{}, "profiles.x.tools: expected a list of texts"},
	} {
		_, err := load(t, c.yaml, c.flags)
		var text string
		if e := tool.AsError(err); e != nil {
			for _, f := range e.Faults {
				text += f.String() + "\n"
			}
		}
		if !strings.Contains(text, c.want) {
			t.Errorf("%s: %v\n%s\nwant %s", c.name, err, text, c.want)
		}
	}
}
