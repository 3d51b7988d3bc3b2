package mcp

import (
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolyard/toolyard/internal/event"
	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/internal/policy"
	"github.com/toolyard/toolyard/internal/profile"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

// Bounds of the server.
const (
	pageSize       = 200
	changeDelay    = 100 * time.Millisecond // list changes are told together
	listTTL        = time.Minute            // how long a stateless client may keep a list
	maxInFlight    = 1024                   // calls of one connection that run or wait
	drainGrace     = 500 * time.Millisecond // answers still written after the client closed its end
	drainLimit     = 5 * time.Second        // then the connection is left
	turnPause      = 10 * time.Minute       // a longer pause begins a new turn
	maxStateless   = 4096                   // stateless sessions remembered for their turn
	sessionIdle    = 30 * time.Minute       // an HTTP session without requests ends
	maxSessions    = 1000                   // HTTP sessions at a time
	defaultVersion = "0.0.0-dev"
)

// Executor runs calls: [*executor.Executor].
type Executor interface {
	Call(ctx context.Context, c executor.Call) *tool.Result
}

// Catalog is the tools on offer. All methods are safe for concurrent use and
// never wait.
type Catalog interface {
	// Specs lists the tools that can be called now, sorted by full name.
	Specs() []*tool.Spec
	// Find gives the tool behind any spelling of its name, or a *tool.Error
	// TOOL_NOT_FOUND that names the nearest ones.
	Find(name string) (*tool.Spec, error)
	// OnChange registers a function that is called after the list has changed. It
	// is quick.
	OnChange(func())
}

// Config is what a Server works with. Executor and Catalog are needed.
type Config struct {
	Executor Executor
	Catalog  Catalog
	// Version is the server's version, told to clients. Empty means
	// "0.0.0-dev".
	Version string
	// Instructions for the model. Empty means a text that names the families of
	// what each session may call. It is cut to 2 KB.
	Instructions string
	// Profiles are those that a URL or an API key may name. Nil means the built-in
	// ones.
	Profiles *profile.Set
	// Profile is that of sessions that name none. Nil means the one called auto.
	Profile *profile.Profile
	// Caller tells what who sends a request may use: the name of a profile ("" for
	// none of its own) and a test (nil for all). Nil means that nobody is bound.
	Caller func(r *http.Request) (profile string, allowed func(*tool.Spec) bool)
	// Workspaces are the absolute roots that were named; the first is the default.
	Workspaces []string
	// Mode and Rules hold for all sessions of this server.
	Mode  policy.Mode
	Rules []policy.Rule
	// Session is the ID of the stdio session. Empty means a random one.
	Session string

	// Ready waits until calls can run. It is called before each call, so it must
	// be quick once it has succeeded. Lists and initialize do not wait for it.
	// Nil means that all is ready.
	Ready func(ctx context.Context) error
	// Settled waits until the tools that are known at the start are in the catalog.
	// It is called before each list of tools, so it must be quick once they are. Nil
	// means that they are there from the start.
	Settled func(ctx context.Context)
	// Sessions keeps a row for each session; used only after Ready. Nil keeps none.
	Sessions store.Sessions
	// Bus gets session_started and session_ended, and its warnings go to clients
	// that set a log level. Nil means neither.
	Bus *event.Bus
	// ListArtifacts and OpenArtifact are the artifacts offered as resources; used
	// only after Ready. Nil offers none.
	ListArtifacts func(ctx context.Context, session string, limit int) ([]store.Artifact, error)
	OpenArtifact  func(ctx context.Context, id string) (io.ReadSeekCloser, store.Artifact, error)
	// Stat describes the file at an absolute path below a workspace, as a tool of
	// that workspace would find it. Nil means that files cannot be subscribed to.
	Stat func(workspace, path string) (fs.FileInfo, error)
	// Upstream is what other MCP servers offer besides tools. Nil means nothing.
	Upstream Upstream
	// Closed gives a test for the files of a workspace that rules keep from being
	// shown; they are not listed. Nil, or a nil test, closes none.
	Closed func(workspace string) func(path string) bool

	// StateKey is the key that requestState is signed with, at least 16 bytes. It is
	// read once, when it is first needed, and outlives a restart. Nil means a random
	// one.
	StateKey func(ctx context.Context) ([]byte, error)
	// Questions takes answers to questions of a process that is gone. Nil means that
	// such a call asks again.
	Questions Questions
	// Tasks keeps calls that clients follow as tasks; used only after Ready. Nil
	// means that the tasks extension is not offered.
	Tasks store.Tasks
	// TaskAfter is how long a call runs before its client gets a task, if it knows
	// tasks. Zero means 5 s.
	TaskAfter time.Duration
	// TaskRequired says that a tool is only run as a task: clients that know none
	// are refused. Nil means none is.
	TaskRequired func(*tool.Spec) bool
	// Job follows a job that a call of a session has left running; false if it is
	// not there, is another session's or has ended. Nil means that there are none. It is asked about results with a
	// job_id whose client knows tasks.
	Job func(ctx context.Context, session, id string) (Job, bool)
	// Runtime names this process (its pid and start time) in what outlives it, and
	// Alive tells whether another one still runs. Nil means that none does.
	Runtime string
	Alive   func(runtime string) bool

	// Log gets what goes wrong on the wire. Nil discards.
	Log *slog.Logger
	// Now is the clock. Nil means time.Now.
	Now func() time.Time
}

// Server serves MCP on any number of connections. It is safe for concurrent
// use. Whoever made it calls [Server.Close] after the last connection.
type Server struct {
	config Config
	sdk    *sdk.Server
	info   json.RawMessage // our Implementation, as JSON

	// background is what outlives a request: HTTP calls of sessions, notices.
	background context.Context
	stop       context.CancelFunc
	work       sync.WaitGroup
	buffers    bufferPool
	sockets    tally        // WebSockets that are open
	assembled  atomic.Int64 // bytes of large messages that they are reading
	// streams is done when the streams that nobody waits for shall end.
	streams    context.Context
	endStreams context.CancelFunc

	callers    callers
	operations operations // what waits for clients, and tasks

	settled sync.Once // the first list has what was known at the start
	// leaving is done when the one client has sent all that it will: whatever can
	// be answered now is.
	leaving context.Context
	leave   context.CancelFunc

	view     *view    // of sessions that have none of their own
	views    sync.Map // of requests through the SDK, by the ID in their header
	lastView atomic.Uint64

	mu        sync.Mutex
	tools     map[string]*offered // by wire name
	sorted    []*offered          // by wire name; replaced, not changed
	change    *time.Timer         // a change of the list that waits to be told
	closed    bool
	stateless map[string]*session // by session ID
	http      map[string]*session // by Mcp-Session-Id
	bySDK     map[*sdk.ServerSession]*session
	watching  map[string]*watched // by URI
	following map[following]int   // how often
	polling   bool
}

// New makes a server. It registers the tools of the catalog and starts nothing.
func New(c Config) *Server {
	c.Workspaces, c.Rules = slices.Clone(c.Workspaces), slices.Clone(c.Rules)
	if c.Version == "" {
		c.Version = defaultVersion
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Ready == nil {
		c.Ready = func(context.Context) error { return nil }
	}
	if c.Profiles == nil {
		c.Profiles, _ = profile.New(nil) // no definition, no fault
	}
	if c.Profile == nil {
		c.Profile, _ = c.Profiles.Find(profile.Default) // it is always there
	}
	c.Instructions = cutText(c.Instructions, maxInstructions)
	s := &Server{
		config:    c,
		view:      newView(c.Profile),
		tools:     map[string]*offered{},
		stateless: map[string]*session{},
		http:      map[string]*session{},
		bySDK:     map[*sdk.ServerSession]*session{},
		watching:  map[string]*watched{},
		following: map[following]int{},
	}
	s.operations.init()
	s.background, s.stop = context.WithCancel(context.Background())
	s.streams, s.endStreams = context.WithCancel(s.background)
	impl := &sdk.Implementation{Name: "toolyard", Title: "Toolyard", Version: c.Version}
	s.info, _ = json.Marshal(impl)
	options := &sdk.ServerOptions{
		Instructions:       c.Instructions,
		PageSize:           pageSize,
		InitializedHandler: s.initialized,
		Capabilities: &sdk.ServerCapabilities{
			//lint:ignore SA1019 clients of the session era use it
			Logging:   &sdk.LoggingCapabilities{},
			Tools:     &sdk.ToolCapabilities{ListChanged: true},
			Resources: &sdk.ResourceCapabilities{},
			Prompts:   &sdk.PromptCapabilities{ListChanged: true},
		},
		SetCacheable: func(_ context.Context, r sdk.Request, c *sdk.Cacheable) {
			c.CacheScope = "private"
			if _, read := r.(*sdk.ReadResourceRequest); !read {
				c.TTLMs = int(listTTL.Milliseconds())
			}
		},
	}
	if c.Tasks != nil {
		options.Capabilities.AddExtension(extensionTasks, nil)
	}
	if c.Upstream != nil {
		options.Capabilities.Resources.ListChanged = true
		options.Capabilities.Completions = &sdk.CompletionCapabilities{}
	}
	if c.Stat != nil && len(c.Workspaces) > 0 || c.Upstream != nil {
		options.Capabilities.Resources.Subscribe = true
		options.SubscribeHandler, options.UnsubscribeHandler = s.subscribe, s.unsubscribe
	}
	s.sdk = sdk.NewServer(impl, options)
	s.sdk.AddReceivingMiddleware(s.receive)
	s.addTemplates()
	s.leaving, s.leave = context.WithCancel(s.background)
	s.sync()
	c.Catalog.OnChange(s.changed)
	if c.Upstream != nil {
		s.follow(c.Upstream)
	}
	return s
}

// EndStreams ends the streams on which HTTP clients only listen. Calls go on.
func (s *Server) EndStreams() { s.endStreams() }

// Close ends all sessions, cancels their calls and waits for them until ctx is
// done.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	if s.change != nil {
		s.change.Stop()
	}
	var open []*session
	for _, sess := range s.http {
		open = append(open, sess)
	}
	s.mu.Unlock()
	s.stop()
	for _, sess := range open {
		sess.cancelAll()
		s.work.Go(func() { _ = sess.ss.Close() })
	}
	done := make(chan struct{})
	go func() { s.work.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
