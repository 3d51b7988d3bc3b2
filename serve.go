package toolyard

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/toolyard/toolyard/builtin/shell"
	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/internal/policy"
	"github.com/toolyard/toolyard/internal/process"
	"github.com/toolyard/toolyard/internal/server"
	"github.com/toolyard/toolyard/internal/server/api"
	"github.com/toolyard/toolyard/internal/server/auth"
	"github.com/toolyard/toolyard/internal/server/mcp"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/workspace"
	"github.com/toolyard/toolyard/tool"
)

// ServeConfig says where [Toolyard.Serve] listens. The zero value is
// 127.0.0.1:8765 with a token.
type ServeConfig struct {
	// Addr is host:port; port 0 picks one.
	Addr string
	// Auth is token, oauth, or none, which only a loopback address may have. Empty
	// means Config.Auth.
	Auth string
	// Certificate and PrivateKey are files in PEM. Empty means Config.TLS.
	Certificate, PrivateKey string
	// InsecureHTTP speaks plain HTTP on an address that others can reach, behind a
	// proxy that does TLS.
	InsecureHTTP bool
	// Listening is called once, when the address is bound. tokenFile is "" without
	// a token.
	Listening func(url, tokenFile string)
}

// ServeMCP serves one MCP client over in and out, one JSON-RPC message a line,
// until in ends or ctx is done. The calls that still run are then cancelled. It
// may be used once.
func (t *Toolyard) ServeMCP(ctx context.Context, in io.Reader, out io.Writer) error {
	s := t.newMCP()
	err := s.ServeStdio(ctx, in, out)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(err, s.Close(closing))
}

func (t *Toolyard) newMCP() *mcp.Server {
	t.discover()
	c := mcp.Config{
		Closed: func(root string) func(string) bool {
			return t.closed(&tool.Request{Workspace: root}, "list")
		},
		Executor: door{t}, Catalog: catalog{mcp.FromRegistry(t.registry), t}, Settled: t.settled, Version: Version, Workspaces: t.workspaces.names(), Mode: t.mode,
		Ready: t.ready, Stat: t.stat, Sessions: t.store, Bus: t.bus, ListArtifacts: t.store.ListArtifacts, OpenArtifact: t.openArtifact, Log: t.log,
		StateKey: t.stateKey, Questions: t.desk, Tasks: t.store, Job: t.followJob, Runtime: process.Identity(), Alive: process.Alive,
		Profiles: t.profiles, Profile: t.profile,
		Caller: func(r *http.Request) (string, func(*tool.Spec) bool) {
			caller := auth.From(r.Context())
			return caller.Profile, caller.Allowed
		},
	}
	if t.gateway != nil {
		c.Upstream = t.gateway
	}
	return mcp.New(c)
}

// stateSetting is where the key for what clients bring back is kept.
const stateSetting = "mcp:state-key"

// stateKey is the key with which the state that clients bring back is signed. It
// is made once for a home.
func (t *Toolyard) stateKey(ctx context.Context) ([]byte, error) {
	if err := t.ready(ctx); err != nil {
		return nil, err
	}
	text, err := t.store.Setting(ctx, stateSetting)
	if errors.Is(err, store.ErrNotFound) {
		key := make([]byte, 32)
		rand.Read(key) // never fails, see crypto/rand
		if err := t.store.PutSetting(ctx, stateSetting, hex.EncodeToString(key)); err != nil {
			return nil, err
		}
		text, err = t.store.Setting(ctx, stateSetting) // another process may have made one too
	}
	if err != nil {
		return nil, err
	}
	return hex.DecodeString(text)
}

// followJob follows a background command for a client that knows tasks. What it
// printed last is the result, read as job_output reads it.
func (t *Toolyard) followJob(ctx context.Context, session, id string) (mcp.Job, bool) {
	if t.jobs == nil {
		return mcp.Job{}, false
	}
	done, ok := t.jobs.Follow(ctx, session, id)
	if !ok {
		return mcp.Job{}, false
	}
	const shown = 40 << 10 // bytes
	return mcp.Job{
		Done: done,
		Result: func() *tool.Result {
			row, err := t.store.Job(t.background, id)
			if err != nil {
				return tool.ErrorResult(err)
			}
			arguments, _ := json.Marshal(map[string]any{"job_id": id, "offset": max(0, row.Bytes-shown)})
			r := t.run(t.background, executor.Call{Tool: "job_output", Arguments: arguments, Session: session, Workspace: row.Workspace, Mode: t.mode, Origin: executor.OriginMCP})
			r.IsError = r.IsError || row.Status != "exited" || row.ExitCode != 0
			return r
		},
		Kill: func() { _, _ = t.jobs.Kill(t.background, shell.Caller{Session: session}, id) },
	}, true
}

// catalog is the registry once the toolbox's known tools are in it.
type catalog struct {
	mcp.Catalog
	yard *Toolyard
}

// toolboxTime is how long a client's list waits for the toolbox; what comes later
// is told by list_changed.
const toolboxTime = 5 * time.Second

// settled waits for the tools of the toolbox that are known. The first answer to
// a client does not.
func (t *Toolyard) settled(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, toolboxTime)
	defer cancel()
	t.awaitGateway(ctx)
	t.awaitToolbox(ctx)
}

// Find finds a tool by any of its names.
func (c catalog) Find(name string) (*tool.Spec, error) {
	ctx, cancel := context.WithTimeout(c.yard.background, toolboxTime)
	defer cancel()
	c.yard.AwaitTool(ctx, name)
	return c.Catalog.Find(name)
}

// door is where the servers' calls come in.
type door struct{ yard *Toolyard }

// Call runs a call with the rules of its session and workspace.
func (d door) Call(ctx context.Context, c executor.Call) *tool.Result {
	return d.yard.run(ctx, d.entered(ctx, c))
}

// entered notes the session and the turn of a call of the API. The MCP server
// keeps those of its clients itself.
func (d door) entered(ctx context.Context, c executor.Call) executor.Call {
	if c.Origin == executor.OriginAPI {
		c.Session, c.Turn = d.yard.sessions.enter(ctx, c.Session, c.Turn, "api", c.Workspace, c.Tool == "undo")
	}
	return c
}

// ExecuteBatch runs many, likewise.
func (d door) ExecuteBatch(ctx context.Context, calls []executor.Call, opts tool.BatchOptions) iter.Seq2[int, *tool.Result] {
	judged := make([]executor.Call, len(calls))
	for i, c := range calls {
		judged[i] = d.yard.judged(ctx, d.entered(ctx, c))
	}
	return d.yard.executor.ExecuteBatch(ctx, judged, opts)
}

// Cancel ends a running call.
func (d door) Cancel(callID string) bool { return d.yard.executor.Cancel(callID) }

// Running lists the calls in flight.
func (d door) Running() []store.Call { return d.yard.executor.Running() }

// Stats sums up calls.
func (d door) Stats(name string, window time.Duration) []tool.Stats {
	return d.yard.executor.Stats(name, window)
}

func (t *Toolyard) openArtifact(ctx context.Context, id string) (io.ReadSeekCloser, store.Artifact, error) {
	r, err := t.artifacts.Open(ctx, id)
	if err != nil {
		return nil, store.Artifact{}, err
	}
	return r, r.Artifact, nil
}

// stat describes a file of a workspace.
func (t *Toolyard) stat(root, path string) (fs.FileInfo, error) {
	ws, err := t.workspaces.get(root)
	if err != nil {
		return nil, err
	}
	p, err := ws.Resolve(path, workspace.Read)
	if err != nil {
		return nil, err
	}
	if !p.Exists() {
		return nil, p.NotFound()
	}
	return p.Info, nil
}

// Serve serves MCP, the HTTP API and metrics until ctx is done, then lets what
// runs end (30 s). It may be used once.
func (t *Toolyard) Serve(ctx context.Context, c ServeConfig) error {
	if err := t.ready(ctx); err != nil {
		return err
	}
	mode := cmp.Or(c.Auth, t.config.Auth.Mode)
	resource, err := t.resource(mode)
	if err != nil {
		return err
	}
	if c.Certificate == "" && c.PrivateKey == "" {
		c.Certificate, c.PrivateKey = t.config.TLS.Cert, t.config.TLS.Key
	}
	stop := t.keepEvents()
	err = server.Serve(ctx, server.Config{
		Keys: t.apiKeys(), Resource: resource, Rate: t.config.Auth.Rate, Certificate: c.Certificate, PrivateKey: c.PrivateKey, InsecureHTTP: c.InsecureHTTP,
		Addr: c.Addr, Auth: server.Auth(mode), Home: t.config.Home, MCP: t.newMCP(), API: t.newAPI(), Metrics: server.Metrics(t.executor.MetricsSnapshot, Version), Log: t.log,
		Listening: func(l server.Listening) {
			if c.Listening != nil {
				c.Listening(l.URL, l.TokenFile)
			}
		},
	})
	stop()
	return err
}

func (t *Toolyard) newAPI() http.Handler {
	c := api.Config{
		Executor: door{t}, Registry: t.registry, Store: t.store, Bus: t.bus, Policy: policyAPI{t}, Questions: questionsAPI{t}, OpenArtifact: t.openArtifact,
		SetLimits: t.setLimits, Workspaces: t.workspaces.names(), Mode: t.mode, Version: Version, Toolbox: t.toolbox, Gateway: t.gateway, Log: t.log,
	}
	if t.jobs != nil {
		c.Jobs = jobsAPI{t.jobs}
	}
	return api.New(c)
}

// keepEvents writes the bus to the record, so that a client can resume after a
// restart. The function it returns ends that.
func (t *Toolyard) keepEvents() (stop func()) {
	sub, _ := t.bus.Subscribe(t.bus.Last(), nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range sub.C() {
			body, err := json.Marshal(e)
			if err == nil {
				err = t.store.PutEvents(context.Background(), []store.Event{{ID: e.ID, Time: e.Time, Body: body}})
			}
			if err != nil {
				t.log.Warn("event not recorded", "event", e.Type, "error", err)
			}
		}
	}()
	return func() {
		sub.Close()
		<-done
	}
}

// setLimits changes the limits of a tool for the calls from now on.
func (t *Toolyard) setLimits(_ context.Context, name string, l api.Limits) error {
	t.settings.change(name, func(s *ToolSettings) {
		if l.TimeoutMS != nil {
			s.Timeout = milliseconds(*l.TimeoutMS)
		}
		if l.Attempts != nil {
			s.Retry.Attempts = *l.Attempts
		}
		if l.MaxOutput != nil {
			s.MaxOutput = *l.MaxOutput
		}
		if l.MaxParallel != nil {
			s.Concurrency.Max = *l.MaxParallel
		}
		if l.Queue != nil {
			s.Concurrency.Queue = *l.Queue
		}
	})
	t.executor.SetTools(t.settings.tools())
	return nil
}

// ServeJobs serves the background jobs and the gateway of this process on a Unix
// socket that only its owner can use, until ctx is done: how `toolyard jobs` and
// `toolyard gateway` reach them.
func (t *Toolyard) ServeJobs(ctx context.Context, socket string) error {
	if t.jobs == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(socket), 0o700); err != nil {
		return fmt.Errorf("jobs socket: %w", err)
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("jobs socket: %w", err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("jobs socket: %w", err)
	}
	// The folder is 0700, so nobody was faster than this.
	if err := os.Chmod(socket, 0o600); err != nil {
		return errors.Join(fmt.Errorf("jobs socket: %w", err), listener.Close())
	}
	all := t.newAPI()
	s := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/api/v1/jobs") && !strings.HasPrefix(r.URL.Path, "/api/v1/gateway") {
			http.NotFound(w, r)
			return
		}
		all.ServeHTTP(w, r)
	})}
	ended := context.AfterFunc(ctx, func() { s.Close() })
	defer ended()
	if err := s.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("jobs socket: %w", err)
	}
	return nil
}

// jobsAPI is the jobs as the HTTP API wants them. Who may use the API may see
// all jobs.
type jobsAPI struct{ jobs *shell.Jobs }

func (j jobsAPI) List(ctx context.Context, session string, limit int) ([]store.Job, error) {
	rows, err := j.jobs.List(ctx, shell.Caller{}, 1000)
	if err != nil {
		return nil, err
	}
	if limit <= 0 {
		limit = 100
	}
	found := []store.Job{}
	for _, row := range rows {
		if (session == "" || row.Session == session) && len(found) < limit {
			found = append(found, row)
		}
	}
	return found, nil
}

func (j jobsAPI) Output(ctx context.Context, id string, offset int64, limit int) (api.JobOutput, error) {
	o, err := j.jobs.Read(ctx, shell.Caller{}, id, offset, limit, 0)
	if err != nil {
		return api.JobOutput{}, err
	}
	out := api.JobOutput{Status: o.Job.Status, Output: strings.ToValidUTF8(string(o.Text), "\uFFFD"), NextOffset: o.Next}
	if o.Job.Status != "running" {
		out.ExitCode = &o.Job.ExitCode
	}
	return out, nil
}

func (j jobsAPI) Input(ctx context.Context, id, text string) error {
	return j.jobs.Write(ctx, shell.Caller{}, id, text)
}

func (j jobsAPI) Kill(ctx context.Context, id string) (store.Job, error) {
	return j.jobs.Kill(ctx, shell.Caller{}, id)
}

// policyAPI is the rules as the HTTP API wants them.
type policyAPI struct{ yard *Toolyard }

func (p policyAPI) Rules(ctx context.Context) ([]api.Rule, error) {
	saved, err := p.yard.store.ListRules(ctx)
	if err != nil {
		return nil, err
	}
	rules := []api.Rule{}
	for _, r := range p.yard.rules.configured() {
		rules = append(rules, api.Rule{Action: r.Action.String(), Rule: r.Text, Scope: r.Scope.String(), Source: r.Source})
	}
	for _, r := range saved {
		rules = append(rules, apiRule(r))
	}
	return rules, nil
}

func apiRule(r store.Rule) api.Rule {
	rule := api.Rule{ID: r.ID, Action: r.Action, Rule: r.Rule, Scope: r.Scope, Overrides: r.Overrides, Source: r.By}
	if r.Scope == policy.Project.String() {
		rule.Workspace = r.ScopeKey
	}
	return rule
}

func (p policyAPI) AddRule(ctx context.Context, r api.Rule) (api.Rule, error) {
	row := store.Rule{Action: r.Action, Rule: r.Rule, Scope: r.Scope, By: "api"}
	switch row.Scope {
	case "":
		row.Scope = policy.User.String()
	case policy.Project.String():
		root, err := p.yard.workspaces.choose(r.Workspace)
		if err != nil {
			return api.Rule{}, err
		}
		row.ScopeKey = root
	case policy.Session.String():
		return api.Rule{}, tool.Errorf(tool.ParameterError, "a rule of scope session cannot be saved over the API").WithHint("Use user or project.")
	}
	id, err := p.yard.SaveRule(ctx, row)
	if err != nil {
		return api.Rule{}, err
	}
	row.ID = id
	return apiRule(row), nil
}

func (p policyAPI) Explain(ctx context.Context, q api.Explain) (api.Explanation, error) {
	var v policy.Verdict
	var err error
	if q.Call != "" {
		v, err = p.yard.Explain(ctx, q.Call, q.Workspace)
	} else {
		v, err = p.yard.explainArguments(ctx, q.Tool, q.Arguments, q.Workspace)
	}
	if err != nil {
		return api.Explanation{}, err
	}
	e := api.Explanation{Action: v.Action.String(), Rule: v.Rule, Source: v.Source, Reason: v.Reason, Parts: []api.Part{}}
	for _, part := range v.Parts {
		e.Parts = append(e.Parts, api.Part{
			Kind: string(part.Kind), Text: part.Text, Action: part.Action.String(), Rule: part.Rule, Source: part.Source, Reason: part.Reason,
		})
	}
	return e, nil
}

// explainArguments judges a call given by name and arguments.
func (t *Toolyard) explainArguments(ctx context.Context, name string, arguments json.RawMessage, workspace string) (policy.Verdict, error) {
	handle, err := t.registry.Acquire(name)
	if err != nil {
		return policy.Verdict{}, err
	}
	defer handle.Release()
	args, _, err := handle.Validator.Arguments(arguments)
	if err != nil {
		return policy.Verdict{}, err
	}
	return t.explain(ctx, policy.Query{Spec: handle.Spec, Arguments: args}, handle.Tool, workspace)
}
