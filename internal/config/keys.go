package config

import (
	"slices"
	"strings"
	"time"

	toolyard "github.com/toolyard/toolyard"
)

// kind is what a value looks like.
type kind uint8

const (
	text kind = iota + 1
	word      // one of Words
	boolean
	integer
	number
	duration
	size
	texts
	words   // several of Words
	paths   // directories, made absolute
	rules   // permission rules
	hosts   // entries of a network, or the word all
	ranges  // addresses and ranges of addresses
	servers // entries of MCP servers, by name
)

// Key is one setting: what its documentation, the commented example and the
// loader are made of.
type Key struct {
	// Path is where it stands in the file. "*" is the name of a tool or a profile.
	Path string
	// Words are what it takes, if it takes words.
	Words []string
	// Default is written as in a file; "" for a tool's own.
	Default string
	// Doc says what it does, in sentences.
	Doc string

	kind kind
	min  float64
	at   func(l *Loaded) any
	tool func(t *toolyard.ToolSettings) any
	// profile is set where "*" is the name of a profile.
	profile func(p *toolyard.Profile) any
	// narrow is set where a project's file may only take away from what the layers
	// below granted. It returns what is left of asked, and what was cut in words.
	narrow func(granted, asked any) (left any, cut string)
}

// Keys lists every setting in the order of the file. To add one: a field in
// toolyard.Config, and a row here.
func Keys() []Key {
	return slices.Concat(globalKeys(), profileKeys(), toolKeys())
}

func profileKeys() []Key {
	type p = toolyard.Profile
	return []Key{
		{Path: "profiles.*.tools", kind: texts, profile: func(p *p) any { return &p.Tools },
			Doc: "The tools of the profile: names, families, source:* (github:*, toolbox:*), category:name, effect:name, names with *; with ! in front what is left out. Empty: every tool."},
		{Path: "profiles.*.mode", kind: word, Words: []string{"full", "search", "auto"}, profile: func(p *p) any { return &p.Mode },
			Doc: "How many of them a client is shown. full: all; search: tool_search, tool_describe and call_tool; auto: all up to 30, else those three and the most needed. What is not shown can be called all the same."},
	}
}

func globalKeys() []Key {
	type c = Loaded
	return []Key{
		{Path: "workspaces", kind: paths, Default: "[]", at: func(l *c) any { return &l.Config.Workspaces },
			Doc: "Directories that tools may work in; a call that names none works in the first. Empty: the current directory."},
		{Path: "mode", kind: word, Words: []string{"build", "plan", "explore", "trusted"}, Default: "build", at: func(l *c) any { return &l.Config.Mode },
			Doc: "How freely a session works. plan and explore refuse what writes, executes or uses the network; trusted does not ask."},
		{Path: "profile", kind: text, Default: "auto", at: func(l *c) any { return &l.Config.Profile },
			Doc: "The profile of sessions that name none: auto, full, search, or one of profiles. Only the operator can set it."},
		{Path: "permissions.allow", kind: rules, Default: "[]", at: func(l *c) any { return &l.Config.Permissions.Allow },
			Doc: "Calls that run without a question, such as \"bash(go test *)\" or {rule: \"edit(src/**)\", match: [src/a.go], not_match: [go.mod]}."},
		{Path: "permissions.ask", kind: rules, Default: "[]", at: func(l *c) any { return &l.Config.Permissions.Ask },
			Doc: "Calls for which a person is asked, such as \"category:git\"."},
		{Path: "permissions.deny", kind: rules, Default: "[]", at: func(l *c) any { return &l.Config.Permissions.Deny },
			Doc: "Calls that never run, such as \"read(**/.env)\". A deny beats every allow."},
		{Path: "edit.strictness", kind: word, Words: []string{"strict", "anchored"}, Default: "strict", at: func(l *c) any { return &l.Config.Edit.Strictness },
			Doc: "strict: a file must have been read, and not changed since, before it is edited. anchored: an exact and unique match is enough."},
		{Path: "directories.read", kind: paths, Default: "[]", at: func(l *c) any { return &l.Config.Directories.Read },
			narrow: fewerDirectories,
			Doc:    "Directories outside the workspace that may be read. A project's file can only take away from what the user granted."},
		{Path: "directories.write", kind: paths, Default: "[]", at: func(l *c) any { return &l.Config.Directories.Write },
			narrow: fewerDirectories,
			Doc:    "Directories outside the workspace that may be read and written. A project's file can only take away from what the user granted."},
		{Path: "shell.carry", kind: word, Words: []string{"off", "cwd", "env"}, Default: "off", at: func(l *c) any { return &l.Config.Shell.Carry },
			Doc: "What carries over from one bash command of a session to the next: nothing, the directory, or the directory and exported variables."},
		{Path: "doomLoop", kind: word, Words: []string{"ask", "refuse", "off"}, Default: "ask", at: func(l *c) any { return &l.Config.DoomLoop },
			Doc: "What happens when a model repeats the same call with the same result."},
		{Path: "questions.timeout", kind: duration, Default: "50s", at: func(l *c) any { return &l.Config.Questions.Timeout },
			Doc: "How long a permission, and any question that names no time of its own, waits for a person who can be asked. Like all settings of questions, only the operator can set it."},
		{Path: "questions.keep", kind: duration, Default: "1h", at: func(l *c) any { return &l.Config.Questions.Keep },
			Doc: "How long a question can still be answered that nobody could be shown, and how long its answer waits for the call to be made again."},
		{Path: "questions.webhook", kind: text, Default: "\"\"", at: func(l *c) any { return &l.Config.Questions.Webhook },
			Doc: "An http or https URL that every question is posted to, as JSON. The answer comes over the HTTP API or by toolyard approve. Empty: none."},
		{Path: "auth.mode", kind: word, Words: []string{"token", "oauth", "none"}, Default: "token", at: func(l *c) any { return &l.Config.Auth.Mode },
			Doc: "How callers over HTTP prove who they are: token, the one in the home; oauth, a token of auth.issuer; none, on a loopback address only. API keys are taken besides. Like all settings of auth and tls, only the operator can set it."},
		{Path: "auth.issuer", kind: text, Default: "\"\"", at: func(l *c) any { return &l.Config.Auth.Issuer },
			Doc: "The authorization server whose tokens are taken, letter by letter as they name it."},
		{Path: "auth.audience", kind: text, Default: "\"\"", at: func(l *c) any { return &l.Config.Auth.Audience },
			Doc: "The URL of /mcp as clients know it: tokens must be for it."},
		{Path: "auth.scopes", kind: texts, Default: "[]", at: func(l *c) any { return &l.Config.Auth.Scopes },
			Doc: "Scopes that a token must have, all of them."},
		{Path: "auth.readScope", kind: text, Default: "\"\"", at: func(l *c) any { return &l.Config.Auth.ReadScope },
			Doc: "A scope that is enough for tools that change nothing. Empty: none is."},
		{Path: "auth.allow", kind: texts, Default: "[]", at: func(l *c) any { return &l.Config.Auth.Allow },
			Doc: "Hosts, addresses and ranges that the issuer's keys may come from besides its own host and public addresses."},
		{Path: "auth.rate", kind: integer, Default: "0", at: func(l *c) any { return &l.Config.Auth.Rate },
			Doc: "Requests a minute that one address may make. 0: no bound."},
		{Path: "tls.cert", kind: text, Default: "\"\"", at: func(l *c) any { return &l.Config.TLS.Cert },
			Doc: "A certificate in PEM; with tls.key only HTTPS is spoken. Both are read again when they change."},
		{Path: "tls.key", kind: text, Default: "\"\"", at: func(l *c) any { return &l.Config.TLS.Key },
			Doc: "The certificate's private key."},
		{Path: "output.limit", kind: size, min: 1, Default: "50KiB", at: func(l *c) any { return &l.Config.Output.Limit },
			Doc: "Text of one result before it is folded. Nothing is lost: output_read and output_grep reach the rest."},
		{Path: "output.stored", kind: size, min: 1, Default: "1GiB", at: func(l *c) any { return &l.Config.Output.Stored },
			narrow: lessOutput,
			Doc:    "How much of one call's output is kept; a command that prints more is ended."},
		{Path: "sandbox.driver", kind: word, Words: []string{"local", "docker"}, Default: "local", at: func(l *c) any { return &l.Config.Sandbox.Driver },
			Doc: "What commands run in: local, the kernel of this machine; docker, a container for each, made by the daemon at DOCKER_HOST or /var/run/docker.sock. Only the operator can set it."},
		{Path: "sandbox.image", kind: text, Default: "\"\"", at: func(l *c) any { return &l.Config.Sandbox.Image },
			Doc: "The image of those containers. It must be there: nothing is pulled. Empty: an empty one, in which this machine's programs are visible. Only the operator can set it."},
		{Path: "sandbox.minLevel", kind: word, Words: []string{"L0", "L1", "L2"}, Default: "L1", at: func(l *c) any { return &l.Config.Sandbox.MinLevel },
			narrow: strongerLevel,
			Doc:    "The weakest sandbox that bash may run in. With L0 a machine that offers none runs commands without, and each is asked about."},
		{Path: "sandbox.network", kind: hosts, Default: "[]", at: func(l *c) any { return &l.Config.Sandbox.Network },
			narrow: fewerHosts,
			Doc:    "Hosts that commands may reach: host (its ports 80 and 443), host:port, *.host, host=ADDRESS:port for a name that has no address of its own, ADDRESS:port, or the one word all for every public address. Empty: commands have no network. A project's file can only take away from what the user granted. It needs sandbox level L2."},
		{Path: "sandbox.memory", kind: size, min: 1 << 20, Default: "4GiB", at: func(l *c) any { return &l.Config.Sandbox.Memory },
			narrow: lessMemory,
			Doc:    "Memory of one command and all that it starts."},
		{Path: "sandbox.allowRanges", kind: ranges, Default: "[]", at: func(l *c) any { return &l.Config.Sandbox.AllowRanges },
			narrow: fewerRanges,
			Doc:    "Special addresses (private, loopback, …) that a granted host may resolve to, such as 10.1.0.0/16 for a package mirror. Without it such a host is refused."},
		{Path: "toolbox.enabled", kind: boolean, Default: "true", at: func(l *c) any { return &l.Config.Toolbox.On },
			Doc: "Whether the tools in the toolbox folder of the home are offered. Like all settings of the toolbox, only the operator can set it."},
		{Path: "toolbox.preload", kind: word, Words: []string{"off", "metadata", "workers"}, Default: "metadata", at: func(l *c) any { return &l.Config.Toolbox.Preload },
			Doc: "What is done at the start: off, a tool is asked what it is when it is first needed; metadata, all are asked, beside the calls; workers, each has a worker started too."},
		{Path: "toolbox.idle", kind: duration, Default: "5m", at: func(l *c) any { return &l.Config.Toolbox.Idle },
			Doc: "How long a tool's worker stays that nobody calls."},
		{Path: "toolbox.logRetention", kind: duration, Default: "3h", at: func(l *c) any { return &l.Config.Toolbox.LogRetention },
			Doc: "How long entries of a tool's run.log stay."},
		{Path: "toolbox.registry", kind: text, Default: "\"\"", at: func(l *c) any { return &l.Config.Toolbox.Registry },
			Doc: "URL of the npm registry that tools' packages come from. Empty: that of ~/.npmrc or of the environment's npm_config_registry, else npm's own."},
		{Path: "toolbox.installer", kind: word, Words: []string{"pnpm", "npm", "bun"}, Default: "pnpm", at: func(l *c) any { return &l.Config.Toolbox.Installer },
			Doc: "What installs npm packages. pnpm is fetched once where it is not there; without it npm is used."},
		{Path: "toolbox.offline", kind: boolean, Default: "false", at: func(l *c) any { return &l.Config.Toolbox.Offline },
			Doc: "Whether tools' packages come only from what has been fetched before."},
		{Path: "toolbox.pythonIndex", kind: text, Default: "\"\"", at: func(l *c) any { return &l.Config.Toolbox.Index },
			Doc: "URL of the index that Python packages come from. Empty: PIP_INDEX_URL of the environment, else PyPI."},
		{Path: "toolbox.pythonWheels", kind: text, Default: "\"\"", at: func(l *c) any { return &l.Config.Toolbox.Wheels },
			Doc: "A directory of wheels that Python packages come from instead of an index."},
		{Path: "toolbox.variables", kind: texts, Default: "[]", at: func(l *c) any { return &l.passOn },
			Doc: "Variables of this program's environment that tools see which declare them, such as HTTP_TOKEN. All others are hidden from tools."},
		{Path: "mcpServers", kind: servers, Default: "{}", at: func(l *c) any { return &l.Config.MCP.Servers },
			Doc: "Other MCP servers by name, as MCP clients write them: {github: {command: npx, args: [-y, \"@scope/server\"], env: {TOKEN: \"${secret:NAME}\"}}} or {url: \"https://…\", headers: {…}}. What else an entry may say is in the documentation of the gateway. A later layer replaces an entry of the same name."},
		{Path: "gateway.enabled", kind: boolean, Default: "true", at: func(l *c) any { return &l.Config.MCP.On },
			Doc: "Whether the tools of other MCP servers are offered. Only the operator can set it."},
		{Path: "gateway.discover", kind: boolean, Default: "true", at: func(l *c) any { return &l.Config.MCP.Discover },
			Doc: "Whether a server that has never been seen is started when a client comes, so that its tools are known. Without it, it is started by toolyard gateway start, or by a call. Only the operator can set it."},
		{Path: "audit", kind: word, Words: []string{"group", "strict"}, Default: "group", at: func(l *c) any { return &l.Config.Audit },
			Doc: "strict: the start of a call that writes or executes is on disk before it runs. group: a crash can lose the last 10 ms of the record."},
		{Path: "limits.callsPerSecond", kind: number, Default: "0", at: func(l *c) any { return &l.Config.Limits.CallsPerSecond },
			Doc: "Calls a second over all sessions. 0: no limit."},
		{Path: "limits.sessionCallsPerSecond", kind: number, Default: "0", at: func(l *c) any { return &l.Config.Limits.SessionCallsPerSecond },
			Doc: "Calls a second of one session. 0: no limit."},
		{Path: "retention.calls", kind: duration, Default: "30d", at: func(l *c) any { return &l.Config.Retention.Calls },
			Doc: "How long calls and events are kept. 0: for ever."},
		{Path: "retention.journal", kind: duration, Default: "7d", at: func(l *c) any { return &l.Config.Retention.Journal },
			Doc: "How long file changes can be undone. 0: for ever."},
		{Path: "retention.artifacts", kind: duration, Default: "30d", at: func(l *c) any { return &l.Config.Retention.Artifacts },
			Doc: "How long artifacts and folded output are kept. 0: for ever."},
		{Path: "log.level", kind: word, Words: []string{"debug", "info", "warn", "error"}, Default: "info", at: func(l *c) any { return &l.LogLevel },
			Doc: "What is logged to standard error. Unless it is set, serve logs info and every other command warn."},
	}
}

func toolKeys() []Key {
	type t = toolyard.ToolSettings
	return []Key{
		{Path: "tools.*.enabled", kind: boolean, tool: func(t *t) any { return &t.Enabled },
			Doc: "Whether the tool is there at all."},
		{Path: "tools.*.timeout", kind: duration, tool: func(t *t) any { return &t.Timeout },
			Doc: "How long one attempt may run."},
		{Path: "tools.*.retry.attempts", kind: integer, min: 1, tool: func(t *t) any { return &t.Retry.Attempts },
			Doc: "How many runs there may be in all; 1: no retry."},
		{Path: "tools.*.retry.base", kind: duration, tool: func(t *t) any { return &t.Retry.Base },
			Doc: "The wait before the first retry."},
		{Path: "tools.*.retry.cap", kind: duration, tool: func(t *t) any { return &t.Retry.Cap },
			Doc: "The longest wait before a retry."},
		{Path: "tools.*.concurrency.safe", kind: boolean, tool: func(t *t) any { return &t.Concurrency.Safe },
			Doc: "Whether calls never disturb each other."},
		{Path: "tools.*.concurrency.max", kind: integer, min: 1, tool: func(t *t) any { return &t.Concurrency.Max },
			Doc: "How many calls run together."},
		{Path: "tools.*.concurrency.queue", kind: integer, min: 1, tool: func(t *t) any { return &t.Concurrency.Queue },
			Doc: "How many more calls may wait."},
		{Path: "tools.*.output.maxBytes", kind: size, min: 1, tool: func(t *t) any { return &t.MaxOutput },
			Doc: "Text of one result before it is folded."},
		{Path: "tools.*.cache", kind: boolean, tool: func(t *t) any { return &t.Cache },
			Doc: "Whether results are cached, for tools that may be."},
		{Path: "tools.*.priority", kind: integer, min: -100, tool: func(t *t) any { return &t.Concurrency.Priority },
			Doc: "Priority among calls that wait, -100 and up; higher goes first."},
	}
}

// foreign are names that other systems use inside tools.<name>, and the paths
// that they mean. Those that are no setting of ours are in [reader.alias].
var foreign = map[string]string{
	"retryattempts":      "retry.attempts",
	"isconcurrencysafe":  "concurrency.safe",
	"maxconcurrentcalls": "concurrency.max",
	"queuesize":          "concurrency.queue",
}

// securityLevels: another system's securityLevel as our level. "high" asks for
// no network as well.
var securityLevels = map[string]string{"low": "L1", "standard": "L2", "high": "L2"}

// tree is the keys by their names, to walk a file along.
type tree struct {
	key      *Key             // of a leaf
	children map[string]*tree // by folded name
	names    []string         // as written, in order
}

func newTree() *tree {
	root := &tree{}
	for _, k := range Keys() {
		at := root
		for name := range strings.SplitSeq(k.Path, ".") {
			at = at.child(name)
		}
		at.key = &k
	}
	return root
}

func (t *tree) child(name string) *tree {
	if t.children == nil {
		t.children = map[string]*tree{}
	}
	c, ok := t.children[fold(name)]
	if !ok {
		c = &tree{}
		t.children[fold(name)] = c
		t.names = append(t.names, name)
	}
	return c
}

// fold makes camelCase, snake_case and UPPER_CASE the same.
func fold(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))
}

// day is a unit that Go's durations lack.
const day = 24 * time.Hour
