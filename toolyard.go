package toolyard

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/toolyard/toolyard/builtin"
	"github.com/toolyard/toolyard/builtin/shell"
	toolboxfamily "github.com/toolyard/toolyard/builtin/toolbox"
	"github.com/toolyard/toolyard/internal/artifact"
	"github.com/toolyard/toolyard/internal/edit"
	"github.com/toolyard/toolyard/internal/event"
	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/internal/gateway"
	"github.com/toolyard/toolyard/internal/policy"
	"github.com/toolyard/toolyard/internal/process"
	"github.com/toolyard/toolyard/internal/profile"
	"github.com/toolyard/toolyard/internal/question"
	"github.com/toolyard/toolyard/internal/registry"
	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/scheduler"
	"github.com/toolyard/toolyard/internal/secret"
	"github.com/toolyard/toolyard/internal/secret/vault"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/store/memory"
	"github.com/toolyard/toolyard/internal/toolbox"
	"github.com/toolyard/toolyard/tool"
)

// Version of the program; set when it is built.
var Version = "0.1.0-dev"

// Toolyard is a tool box, ready for calls. It is safe for concurrent use.
type Toolyard struct {
	config   Config
	mode     policy.Mode
	log      *slog.Logger
	tempHome bool // Home is ours to remove
	ownStore bool

	store      store.Store
	bus        *event.Bus
	registry   *registry.Registry
	scheduler  *scheduler.Scheduler
	executor   *executor.Executor
	artifacts  *artifact.Dir
	redactor   *secret.Redactor
	edit       *edit.Engine
	sandbox    sandbox.Runner
	jobs       *shell.Jobs
	rules      *rulebook
	workspaces *workspaces
	confine    *confiner
	sessions   *sessions
	desk       *question.Desk
	settings   *settings
	profiles   *profile.Set
	profile    *profile.Profile
	reloading  reloading
	toolbox    *toolbox.Box
	vault      *vault.Vault
	sources    *registry.Composite
	begun      sync.Once     // of the toolbox
	boxed      chan struct{} // closed when the toolbox's known tools are registered
	installers func() (*installers, error)
	conceal    func(name string, values map[string]string)
	gateway    *gateway.Gateway
	foreign    *registry.Composite // of the gateway's servers
	bridged    chan struct{}       // closed when their known tools are registered
	discovery  sync.Once

	loaded  chan struct{} // closed when the record has been read
	loadErr error         // why it could not be

	background context.Context // of what runs beside the calls
	stop       context.CancelFunc
	work       sync.WaitGroup
	closeOnce  sync.Once
	closeErr   error
}

// Call is one request to run a tool. Tool is needed, all else may be zero.
type Call struct {
	// Tool is any name of a tool: its own, an alias, source:tool.
	Tool      string
	Arguments json.RawMessage
	// ID of the call. Empty means that one is made.
	ID string
	// Session groups calls: what one has read another may edit. Empty means one
	// session for all calls of this Toolyard that name none.
	Session string
	// Turn groups the calls that `undo` takes back together. Empty means that a
	// pause of 10 minutes or an undo begins a new one.
	Turn string
	// Workspace is one of Config.Workspaces. Empty means the first.
	Workspace string
	// Timeout of one attempt. Zero means the tool's own.
	Timeout time.Duration
	// Origin is "cli" or "sdk" (also ""), for the record.
	Origin string
	// Asker stands in place of Config.Asker.
	Asker Asker
	// OnEvent gets the events of this call as they happen, one at a time.
	OnEvent func(tool.Event)
}

// New makes a Toolyard. It opens the workspaces' home, reads the record, and
// begins in the background to finish what an earlier process left half done. The
// caller closes it.
func New(c Config) (*Toolyard, error) {
	t := &Toolyard{config: c, store: c.Store, log: c.Log, loaded: make(chan struct{})}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	var err error
	if t.mode, err = policy.ParseMode(c.Mode); err != nil {
		return nil, err
	}
	if err := t.chooseProfile(); err != nil {
		return nil, err
	}
	if err := t.openHome(); err != nil {
		return nil, err
	}
	if t.store == nil {
		t.store, t.ownStore = memory.New(), true
	}
	t.background, t.stop = context.WithCancel(context.Background())
	if err := t.wire(); err != nil {
		t.stop()
		return nil, errors.Join(err, t.closeHome())
	}
	if c.Toolbox.Preload != "off" {
		t.beginToolbox()
	}
	t.beginGateway()
	t.work.Go(t.housekeeping)
	return t, nil
}

// load reads from the record what calls need.
func (t *Toolyard) load() {
	defer close(t.loaded)
	t.loadErr = func() error {
		if opened := t.config.Opened; opened != nil {
			if err := opened(t.background); err != nil {
				return err
			}
		}
		last, err := t.store.LastEventID(t.background)
		if err != nil {
			return fmt.Errorf("the record: %w", err)
		}
		t.bus.Resume(last)
		return t.rules.load(t.background)
	}()
}

// ready waits until calls can run, or says why they cannot.
func (t *Toolyard) ready(ctx context.Context) error {
	select {
	case <-t.loaded:
		return t.loadErr
	default:
	}
	select {
	case <-t.loaded:
		return t.loadErr
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t *Toolyard) openHome() error {
	if t.config.Home == "" {
		dir, err := os.MkdirTemp("", "toolyard-")
		if err != nil {
			return fmt.Errorf("home: %w", err)
		}
		t.config.Home, t.tempHome = dir, true
		return nil
	}
	home, err := filepath.Abs(t.config.Home)
	if err != nil {
		return fmt.Errorf("home: %w", err)
	}
	t.config.Home = home
	if err := os.MkdirAll(home, 0o700); err != nil {
		return tool.Errorf(tool.ExecutionError, "the home %s cannot be made: %v", home, err).
			WithHint("Choose another with --home DIR.")
	}
	return nil
}

func (t *Toolyard) closeHome() error {
	if !t.tempHome {
		return nil
	}
	return os.RemoveAll(t.config.Home)
}

// wire makes the parts and connects them.
func (t *Toolyard) wire() error {
	c := t.config
	var err error
	t.bus = event.New(0)
	t.redactor = secret.New()
	if t.vault, err = t.openVault(); err != nil {
		return err
	}
	t.registry = registry.New(registry.Config{Bus: t.bus})
	t.settings = newSettings(c.ToolSettings)
	t.scheduler = scheduler.New(scheduler.Config{Limits: t.settings.limits})
	if t.artifacts, err = artifact.Open(filepath.Join(c.Home, "artifacts"), t.store); err != nil {
		return err
	}
	t.edit = edit.New(edit.Config{
		Sessions: t.store, Journal: t.store, Blobs: filepath.Join(c.Home, "workspaces", "journal"), Strictness: c.Edit.Strictness,
	})
	if t.workspaces, err = openWorkspaces(c); err != nil {
		return err
	}
	if t.rules, err = newRulebook(c, t.store); err != nil {
		return err
	}
	level := sandbox.Level(c.Sandbox.MinLevel)
	ranges, err := networkSettings(c.Sandbox)
	if err != nil {
		return err
	}
	if t.sandbox, err = newSandbox(c.Sandbox, ranges, t.log); err != nil {
		return err
	}
	t.confine = newConfiner(c, level, t.rules.policy, t.workspaces)
	if c.KeepJobs {
		t.jobs = shell.NewJobs(shell.JobsConfig{
			Rows: t.store, Dir: filepath.Join(c.Home, "jobs"), Stored: c.Output.Stored, Runtime: process.Identity(), Bus: t.bus, Log: t.log,
		})
	}
	t.sessions = newSessions(t.store, t.mode)
	if err := t.newDesk(); err != nil {
		return err
	}
	if err := t.newExecutor(); err != nil {
		return err
	}
	t.rules.onChange(t.executor.SetPolicy)
	t.installers, t.conceal = sync.OnceValues(t.newInstallers), t.secrets()
	if c.Opened != nil {
		t.work.Go(t.load)
	} else if t.load(); t.loadErr != nil {
		return t.loadErr
	}
	if err := t.openToolbox(); err != nil {
		return err
	}
	if err := t.openGateway(); err != nil {
		return err
	}
	return t.addTools()
}

func (t *Toolyard) newExecutor() (err error) {
	c := t.config
	t.executor, err = executor.New(executor.Config{
		Registry: t.registry, Policy: t.rules.policy(), Scheduler: t.scheduler, Artifacts: t.artifacts, Redactor: t.redactor,
		Store: t.store, Bus: t.bus, Log: t.log,
		Tools: t.settings.tools(), MaxOutput: c.Output.Limit, Stored: c.Output.Stored, DoomLoop: c.DoomLoop,
		AskDeadline: c.Questions.Timeout, AuditStrict: c.Audit == "strict", Rate: c.Limits.CallsPerSecond, SessionRate: c.Limits.SessionCallsPerSecond,
		Home: c.UserHome, RealPath: t.workspaces.real, SaveRule: func(ctx context.Context, r store.Rule) error {
			_, err := t.SaveRule(ctx, r)
			return err
		},
	})
	return err
}

// addTools registers the built-in tools and those of the Config.
func (t *Toolyard) addTools() error {
	tools := builtin.Tools(builtin.Deps{
		Files: t.filesDeps(), Edit: t.editDeps(), Shell: t.shellDeps(), Artifacts: t.artifactsDeps(),
	})
	if t.toolbox != nil {
		tools = append(tools, toolboxfamily.Tools(t.toolboxFamily())...)
	}
	// One that cannot be had is listed as failed and stops nobody.
	for name, err := range t.registry.AddAll(t.background, append(tools, t.config.Tools...)) {
		t.log.Error("tool not loaded", "tool", name, "error", err)
	}
	for name, s := range t.config.ToolSettings {
		if s.Enabled == nil || *s.Enabled {
			continue
		}
		if err := t.registry.SetEnabled(name, false, "configuration"); err != nil {
			return err
		}
	}
	return nil
}

// housekeeping finishes what earlier processes left and keeps the record small.
// It ends with Close.
func (t *Toolyard) housekeeping() {
	ctx := t.background
	report := func(what string, err error) {
		if err != nil && ctx.Err() == nil {
			t.log.Warn(what, "error", err)
		}
	}
	if err := t.ready(ctx); err != nil {
		if ctx.Err() == nil {
			t.log.Error("no call can run", "error", err)
		}
		return
	}
	_, err := t.edit.Recover(ctx)
	report("recovering unfinished changes", err)
	_, err = t.store.LoseJobs(ctx, process.Alive)
	report("marking lost jobs", err)
	_, err = t.store.LoseTasks(ctx, process.Alive, "the process that ran it has ended before it was done")
	report("marking lost tasks", err)
	t.work.Go(func() { report("metrics", t.executor.Run(ctx)) })
	t.work.Go(func() { t.registry.RunHealth(ctx) })
	hourly := time.NewTicker(time.Hour)
	defer hourly.Stop()
	for {
		report("expiring questions", t.desk.Expire(ctx))
		report("pruning the record", t.prune(ctx))
		select {
		case <-hourly.C:
		case <-ctx.Done():
			return
		}
	}
}

func (t *Toolyard) prune(ctx context.Context) error {
	r := t.config.Retention
	if r == (Retention{}) {
		return nil
	}
	_, err := t.store.Prune(ctx, store.Retention{Calls: r.Calls, Journal: r.Journal, Artifacts: r.Artifacts})
	if err == nil && r.Artifacts > 0 {
		_, err = t.artifacts.Sweep(ctx)
	}
	if err == nil && r.Journal > 0 {
		err = t.edit.Prune(ctx, time.Now().Add(-r.Journal))
	}
	return err
}

// Close takes no more calls, lets those that run end (30 s) and those that wait
// for a person go at once, ends background jobs and flushes the record. A second
// Close does nothing.
func (t *Toolyard) Close() error {
	t.closeOnce.Do(func() {
		const drain = 30 * time.Second
		ctx, cancel := context.WithTimeout(context.Background(), drain)
		defer cancel()
		err := errors.Join(t.desk.Close(), t.executor.Close(ctx))
		if t.jobs != nil {
			err = errors.Join(err, t.jobs.Close())
		}
		t.stop()
		t.work.Wait()
		if t.loadErr != nil {
			err = nil // nothing has run, and each call was told why
		}
		err = errors.Join(err, t.registry.Close(ctx), t.closeToolbox(ctx), t.closeGateway(ctx), t.workspaces.close(), t.sandbox.Close())
		switch {
		case t.ownStore:
			err = errors.Join(err, t.store.Close())
		case t.loadErr == nil:
			err = errors.Join(err, t.store.Flush(ctx))
		}
		t.closeErr = errors.Join(err, t.closeHome())
	})
	return t.closeErr
}

// Call runs one call. It never returns nil: a failure is a result with IsError
// and Err set.
func (t *Toolyard) Call(ctx context.Context, c Call) *tool.Result {
	call, err := t.prepare(ctx, c)
	if err != nil {
		return tool.ErrorResult(err)
	}
	return t.run(ctx, call)
}

// ExecuteBatch runs calls, at most opts.MaxParallel (0 means 10) together, and
// yields index and result of each as it ends. Calls that touch the same thing
// run in order. Breaking off cancels what still runs.
func (t *Toolyard) ExecuteBatch(ctx context.Context, calls []Call, opts tool.BatchOptions) iter.Seq2[int, *tool.Result] {
	return func(yield func(int, *tool.Result) bool) {
		prepared := make([]executor.Call, len(calls))
		for i, c := range calls {
			call, err := t.prepare(ctx, c)
			if err != nil {
				for j := range calls {
					if !yield(j, tool.ErrorResult(err)) {
						return
					}
				}
				return
			}
			prepared[i] = t.judged(ctx, call)
		}
		for i, r := range t.executor.ExecuteBatch(ctx, prepared, opts) {
			if !yield(i, r) {
				return
			}
		}
	}
}

// prepare turns a call of this package into one of the executor.
func (t *Toolyard) prepare(ctx context.Context, c Call) (executor.Call, error) {
	if err := t.ready(ctx); err != nil {
		return executor.Call{}, err
	}
	workspace, err := t.workspaces.choose(c.Workspace)
	if err != nil {
		return executor.Call{}, err
	}
	call := executor.Call{
		Tool: c.Tool, Arguments: c.Arguments, ID: c.ID, Session: c.Session, Turn: c.Turn, Workspace: workspace,
		Timeout: c.Timeout, Origin: executor.OriginSDK, OnEvent: c.OnEvent, Mode: t.mode,
	}
	if c.Origin == "cli" {
		call.Origin = executor.OriginCLI
	}
	switch {
	case c.Asker != nil:
		call.Asker = c.Asker
	case t.config.Asker != nil:
		call.Asker = t.config.Asker
	}
	call.Session, call.Turn = t.sessions.enter(ctx, c.Session, c.Turn, string(call.Origin), workspace, c.Tool == "undo")
	return call, nil
}

// judged adds the rules that hold for the call's session and workspace, and who
// can be asked.
func (t *Toolyard) judged(ctx context.Context, c executor.Call) executor.Call {
	session, workspace := c.Session, c.Workspace
	// A person took their time; what was denied meanwhile, wherever, is denied.
	c.Renew = func(ctx context.Context) []policy.Rule { return t.rules.now(ctx, session, workspace) }
	c.Rules = t.rules.of(ctx, session, workspace)
	if c.Mode == "" {
		c.Mode = t.mode
	}
	if c.Allowed == nil && c.Origin != executor.OriginMCP { // the MCP server knows its sessions' profiles
		c.Allowed = t.profile.Allowed()
	}
	c.Asker = t.asker(c)
	return c
}

func (t *Toolyard) run(ctx context.Context, c executor.Call) *tool.Result {
	t.AwaitTool(ctx, c.Tool)
	r := t.executor.Call(ctx, t.judged(ctx, c))
	if r.Err != nil && r.Err.Code == tool.ToolNotFound && t.gateway != nil {
		if err := t.gateway.Missing(c.Tool); err != nil {
			return tool.ErrorResult(err)
		}
	}
	return r
}

// Tools lists the tools that can be called with Config.Profile, sorted by full
// name.
func (t *Toolyard) Tools() []*tool.Spec {
	var specs []*tool.Spec
	for _, e := range t.registry.Snapshot("", "") {
		if e.State == registry.Ready && t.profile.Allows(e.Spec) {
			specs = append(specs, e.Spec)
		}
	}
	return specs
}

// Store is the record.
func (t *Toolyard) Store() store.Store { return t.store }

// Jobs are the background commands; nil unless Config.KeepJobs.
func (t *Toolyard) Jobs() *shell.Jobs { return t.jobs }

// Workspaces are the real paths of the workspaces, the default first.
func (t *Toolyard) Workspaces() []string { return t.workspaces.names() }

// randomID makes "prefix_" and 16 hex digits.
func randomID(prefix string) string {
	var b [8]byte
	rand.Read(b[:]) // never fails, see crypto/rand
	return prefix + "_" + hex.EncodeToString(b[:])
}
