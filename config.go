package toolyard

import (
	"context"
	"log/slog"
	"time"

	"github.com/toolyard/toolyard/internal/gateway"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

// Defaults of Config.
const (
	DefaultOutputLimit  = tool.DefaultMaxOutput // bytes
	DefaultOutputStored = 1 << 30               // bytes
	DefaultMemory       = 4 << 30               // bytes
)

// Config is everything that a Toolyard can be told. The zero value works: no
// workspace, records in memory, every tool with its default permission. New
// copies it.
type Config struct {
	// Home is the directory for artifacts, journals, job output and the private
	// homes of workspaces. Empty means a temporary directory that Close removes.
	Home string
	// Workspaces are the directories that calls may work in. The first is used
	// where a call names none. Empty means that file tools and bash are refused.
	Workspaces []string
	// Mode is build (also ""), plan, explore or trusted.
	Mode string
	// Permissions are rules over the tools' own defaults.
	Permissions Permissions
	// ToolSettings change single tools, by full name.
	ToolSettings map[string]ToolSettings
	// Profiles say which tools a session may call and is shown, by name. There are
	// auto, full and search besides, with every tool.
	Profiles map[string]Profile
	// Profile is that of sessions that name none. Empty means auto.
	Profile string
	Edit    Edit
	// Directories are granted beside the workspaces.
	Directories Directories
	Shell       Shell
	// DoomLoop is what happens when calls go round in circles: ask (also ""),
	// refuse or off.
	DoomLoop string
	// Questions is how people are asked.
	Questions Questions
	Output    Output
	Sandbox   Sandbox
	Toolbox   Toolbox
	MCP       MCP
	// Auth is how callers over HTTP prove who they are, and TLS what is spoken there.
	Auth Auth
	TLS  TLS
	// Audit is "group" (also ""): records are committed together, at most 10 ms
	// late; or "strict": the start of a call that writes or executes is on disk
	// before the call begins.
	Audit     string
	Retention Retention
	Limits    Limits

	// Store keeps the record. Nil keeps it in memory. Close does not close it.
	Store store.Store
	// Opened waits until Store can be used, or says why it cannot. New does not
	// wait for it; calls do, and fail with its error. Nil means that Store is open.
	Opened func(ctx context.Context) error
	// Tools are further tools, beside the built-in ones.
	Tools []tool.Tool
	// Asker puts permission and other questions to a person, where the caller of
	// a call brings none. Whoever watches ([Toolyard.WatchQuestions]) and the
	// webhook are asked as well. With none of them, what would have to be asked is
	// refused, and can be answered later ([Toolyard.Answer]).
	Asker Asker
	// UserHome is what "~" stands for in paths and rules. Empty means that "~" is
	// refused.
	UserHome string
	// GitExcludes is git's core.excludesFile: patterns that count in every
	// workspace. Empty means none.
	GitExcludes string
	// Path is the operator's PATH: its directories are readable in the sandbox.
	Path string
	// KeepJobs lets commands run on in the background after their call. Without it
	// such a command is refused, and one that exceeds its time is killed.
	KeepJobs bool
	// Log receives what a person who runs the program should know. Nil discards.
	Log *slog.Logger
}

// Asker puts a question to a person and waits for the answer. It returns
// [tool.ErrNoChannel] if nobody can be asked. It must be safe for concurrent use.
type Asker interface {
	Ask(ctx context.Context, q tool.Question) (tool.Answer, error)
}

// Questions settings.
type Questions struct {
	// Timeout is how long a question waits that names no time of its own, as for a
	// permission. Zero means 50 s.
	Timeout time.Duration
	// Keep is how long a question can be answered that nobody could be shown, and
	// how long an answer waits for its call to be made again. Zero means 1 hour.
	Keep time.Duration
	// Webhook is the URL that each question is posted to as JSON; it is answered
	// over the HTTP API or with [Toolyard.Answer]. Empty means none.
	Webhook string
}

// Auth is how callers over HTTP prove who they are. API keys are taken besides.
type Auth struct {
	// Mode is token (also ""), oauth or none. [ServeConfig.Auth] goes before it.
	Mode string
	// Issuer is the authorization server of mode oauth, Audience the URL of /mcp as
	// clients know it, Scopes what a token must have.
	Issuer, Audience string
	Scopes           []string
	// ReadScope is enough for tools that change nothing. Empty means that there is
	// no such scope.
	ReadScope string
	// Allow names hosts and addresses beside the issuer's own that its keys may come
	// from: see docs/security.md.
	Allow []string
	// Rate is how many requests a minute one address may make. Zero is no bound.
	Rate int
}

// TLS is the certificate that is served with.
type TLS struct {
	// Cert and Key are files in PEM. They are read again when they change.
	Cert, Key string
}

// Permissions are rules such as "bash(go test *)", by action.
type Permissions struct {
	Allow, Ask, Deny []Rule
}

// Rule is one permission rule with where it comes from.
type Rule struct {
	// Text is the rule: tool, tool(pattern), source:tool, effect:write,
	// category:git.
	Text string
	// Match and NotMatch are calls that the rule must and must not meet, checked
	// when it is loaded.
	Match, NotMatch []string
	// Scope is user (also ""), project, session or managed.
	Scope string
	// Source is shown to people: "config.yaml:12", "--allow".
	Source string
}

// Profile is a choice of tools.
type Profile struct {
	// Tools are patterns: a tool's name, a family, source:*, category:name,
	// effect:name, names with "*", or one of them with "!" in front to leave it out.
	// None means every tool.
	Tools []string
	// Mode is how many of them a session is shown: full, all; search, those that
	// find and call the others; auto (also ""), all up to 30, else those of search
	// and the most needed. What is not shown can be called all the same.
	Mode string
}

// ToolSettings change one tool. Zero fields keep the tool's own values.
type ToolSettings struct {
	// Enabled switches the tool off where it is false.
	Enabled *bool
	// Timeout of one attempt.
	Timeout time.Duration
	Retry   Retry
	// Concurrency limits calls side by side.
	Concurrency Concurrency
	// MaxOutput is the text of one result, in bytes, before it is folded.
	MaxOutput int
	// Cache turns the result cache on or off for a tool that may be cached.
	Cache *bool
}

// Retry is how failed attempts are repeated.
type Retry struct {
	// Attempts counts all runs. Zero means 1 and the retries of the error's code.
	Attempts int
	// Base is the first delay, doubled each time. Zero means 1 s.
	Base time.Duration
	// Cap is the longest delay. Zero means 30 s.
	Cap time.Duration
}

// Concurrency of one tool.
type Concurrency struct {
	// Safe says that calls do not disturb each other. Nil keeps the tool's word.
	Safe *bool
	// Max is how many run at once. Zero means no limit of its own.
	Max int
	// Queue is how many wait. Zero means 64.
	Queue int
	// Priority: higher goes first among waiting calls.
	Priority int
}

// Edit settings.
type Edit struct {
	// Strictness is strict (also ""): a file must have been read and be unchanged
	// since; or anchored: an exact and unique match is enough.
	Strictness string
}

// Directories granted beside the workspaces; a written one is read as well.
type Directories struct {
	Read, Write []string
}

// Shell settings.
type Shell struct {
	// Carry is what a session's next command starts with: off (also ""), cwd or
	// env.
	Carry string
}

// Output settings.
type Output struct {
	// Limit is the text of one result before it is folded. Zero means 50 KiB.
	Limit int
	// Stored is how much of one call's output is kept. Zero means 1 GiB.
	Stored int64
}

// Sandbox settings for bash.
type Sandbox struct {
	// Driver is local (also ""): the kernel of this machine; or docker: a container
	// for each command, made by a Docker daemon on this machine.
	Driver string
	// Image is what containers are made of. It must be there; nothing is pulled.
	// Empty means an empty one, in which the machine's own programs are visible.
	Image string
	// DockerHost is the daemon as "unix:///path". Empty means
	// unix:///var/run/docker.sock.
	DockerHost string
	// MinLevel is the weakest level that is accepted: L2, L1 (also "") or L0. With
	// L0 a machine that offers no sandbox runs commands without, and each is asked
	// about.
	MinLevel string
	// Memory of one command. Zero means 4 GiB.
	Memory int64
	// Network are the hosts that commands may reach: "host[:port][=ADDRESS[:port]]",
	// "*.host[:port]", "ADDRESS:port", or the one word "all" for every public
	// address. Empty means no network. A host without a port stands for 80 and 443.
	Network []string
	// AllowRanges are special addresses (private, loopback, …), or ranges of them,
	// that a granted host may resolve to.
	AllowRanges []string
}

// Toolbox settings: the user's own tools, in Home/toolbox.
type Toolbox struct {
	// On offers them. Without it no folder is looked at.
	On bool
	// Preload is what is done at the start: metadata (also "") asks every tool what
	// it is, beside the calls; off asks at the first need; workers starts a worker
	// of each as well.
	Preload string
	// Idle is how long a worker stays that nobody uses. Zero means 5 minutes.
	Idle time.Duration
	// LogRetention is how long entries of a tool's run.log stay. Zero means 3 hours.
	LogRetention time.Duration
	// Registry is the npm registry. Empty means what .npmrc and Environ say, else
	// npm's own.
	Registry string
	// Environ is the operator's environment, for npm's settings in it; tools never
	// see it.
	Environ []string
	// Installer of npm packages: pnpm (also ""), npm or bun.
	Installer string
	// Offline installs from what has been fetched before.
	Offline bool
	// Wheels is a directory of Python packages that stands in for an index, and
	// Index the URL of one. Empty means PyPI.
	Wheels, Index string
	// Variables of the operator that tools see which declare them.
	Variables map[string]string
	// Language of pages where a call says none: en (also "") or zh.
	Language string
}

// MCP settings: other MCP servers, whose tools are offered as ours.
type MCP struct {
	// On offers them. Without it no server is known.
	On bool
	// Servers by name. Those that `toolyard gateway add` wrote into Home/mcp.json
	// come with them.
	Servers map[string]MCPServer
	// Discover starts servers that have never been seen when a client comes, so that
	// their tools are known.
	Discover bool
	// Environ holds the variables that entries may name as ${VAR}, as NAME=value.
	// Servers see none of them otherwise.
	Environ []string
	// Secret gives what entries may name as ${secret:NAME}. Nil means what
	// [Toolyard.SetSecret] keeps.
	Secret func(ctx context.Context, name string) (string, error)
}

// MCPServer is one entry of mcpServers.
type MCPServer = gateway.Server

// Retention is how long records are kept. Zero keeps them for ever.
type Retention struct {
	Calls, Journal, Artifacts time.Duration
}

// Limits on calls. Zero means none.
type Limits struct {
	// CallsPerSecond of all sessions together, and of each.
	CallsPerSecond, SessionCallsPerSecond float64
}
