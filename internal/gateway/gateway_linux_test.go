package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/event"
	"github.com/toolyard/toolyard/internal/gateway"
	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/store/memory"
	"github.com/toolyard/toolyard/tool"
)

// patience is how long something may take on a loaded machine.
const patience = 60 * time.Second

// program is the interpreter of the small server.
func program(t *testing.T) string {
	t.Helper()
	for _, path := range []string{"/usr/bin/python3", "/usr/local/bin/python3"} {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	t.Fatal("there is no python3")
	return ""
}

// yard is a gateway with its surroundings.
type yard struct {
	*gateway.Gateway
	home, workspace string
	settings        store.Settings
	bus             *event.Bus
}

// script is where the sandbox finds the small server.
func script(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("testdata/server.py")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// plain is an entry of the small server.
func plain(t *testing.T, mode string, more ...string) gateway.Server {
	return gateway.Server{Type: "stdio", Command: program(t), Args: append([]string{script(t), mode}, more...)}
}

// runner is one sandbox for all tests of a run.
func runner(t *testing.T) sandbox.Runner {
	t.Helper()
	box := sandbox.New(sandbox.Config{})
	t.Cleanup(func() { _ = box.Close() })
	return box
}

func open(t *testing.T, servers map[string]gateway.Server, change ...func(*gateway.Config)) *yard {
	t.Helper()
	y := &yard{home: t.TempDir(), workspace: t.TempDir(), settings: memory.New(), bus: event.New(0)}
	c := gateway.Config{
		Home: y.home, Servers: servers, Workspaces: []string{y.workspace}, Runner: runner(t), Settings: y.settings, Bus: y.bus,
		Path: os.Getenv("PATH"), UserHome: os.Getenv("HOME"),
	}
	for _, f := range change {
		f(&c)
	}
	y.home = c.Home
	if c.Settings != nil {
		y.settings = c.Settings
	}
	g, err := gateway.New(c)
	if err != nil {
		t.Fatal(err)
	}
	y.Gateway = g
	t.Cleanup(func() { _ = g.Close(context.Background()) })
	return y
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func (y *yard) tools(t *testing.T, server string) map[string]tool.Tool {
	t.Helper()
	for _, s := range y.Sources() {
		if s.Name() != server {
			continue
		}
		list, err := s.List(within(t))
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]tool.Tool{}
		for _, one := range list {
			found[one.Spec().Name] = one
		}
		return found
	}
	t.Fatalf("no source %s", server)
	return nil
}

// start starts a server and fails the test if it cannot be.
func (y *yard) start(t *testing.T, server string) {
	t.Helper()
	if err := y.Start(within(t), server); err != nil {
		logs, _ := y.Logs(within(t), server, 0)
		t.Fatalf("starting %s: %v\n%s", server, err, strings.Join(logs, "\n"))
	}
}

// host is what a call reaches back to.
type host struct {
	tool.Host
	client tool.Client
	mu     sync.Mutex
	events []tool.Event
}

func (h *host) Client() tool.Client { return h.client }
func (h *host) Emit(e tool.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

// client is an MCP client that gives the answers that it is told.
type client struct {
	capabilities, meta string
	input              func(map[string]tool.InputRequest) (map[string]json.RawMessage, error)
}

func (c *client) Capabilities() json.RawMessage { return json.RawMessage(c.capabilities) }
func (c *client) Meta() json.RawMessage         { return json.RawMessage(c.meta) }
func (c *client) Input(_ context.Context, r map[string]tool.InputRequest) (map[string]json.RawMessage, error) {
	return c.input(r)
}

func (y *yard) call(t *testing.T, server, name, args string, h *host) (*tool.Result, error) {
	t.Helper()
	one := y.tools(t, server)[name]
	if one == nil {
		t.Fatalf("%s has no tool %s", server, name)
	}
	req := &tool.Request{Arguments: json.RawMessage(args), Session: "s", CallID: "c"}
	if h != nil {
		req.Host = h
	}
	return one.Call(within(t), req)
}

func (y *yard) must(t *testing.T, server, name, args string, h *host) *tool.Result {
	t.Helper()
	r, err := y.call(t, server, name, args, h)
	if err != nil {
		logs, _ := y.Logs(within(t), server, 0)
		t.Fatalf("%s of %s: %v\n%s", name, server, err, strings.Join(logs, "\n"))
	}
	return r
}

func (y *yard) status(t *testing.T, server string) gateway.Status {
	t.Helper()
	list, err := y.List(within(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if s.Name == server {
			return s
		}
	}
	t.Fatalf("no server %s in %v", server, list)
	return gateway.Status{}
}

// until polls for something to become true.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("not in %s: %s", patience, what)
}

func code(err error) tool.Code {
	var e *tool.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func TestCall(t *testing.T) {
	y := open(t, map[string]gateway.Server{"plain": plain(t, "good")})
	y.start(t, "plain")
	one := y.tools(t, "plain")["echo"]
	if got := one.Spec(); got.FullName() != "plain:echo" || got.Default != tool.Allow || !got.Idempotent {
		t.Errorf("spec of echo: %s %v %v", got.FullName(), got.Default, got.Idempotent)
	}
	if !strings.Contains(string(one.Spec().Definition), `"x-ours": {"kept": [1, 2]}`) {
		t.Errorf("the definition lost something: %s", one.Spec().Definition)
	}
	if got := y.tools(t, "plain")["write"].Spec(); got.Default != tool.Ask || got.Effects&tool.Write == 0 {
		t.Errorf("spec of write: %v %v", got.Default, got.Effects)
	}
	h := &host{client: &client{capabilities: `{}`, meta: `{"toolyard/session":"x","traceparent":"00-1","progressToken":7}`}}
	r := y.must(t, "plain", "echo", `{"a": 1}`, h)
	wire, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"unheard":{"of":1}`, `"structuredContent":{"said":{"a":1}}`, `"unheard":[{"of":true}]`, `"theirs":1`, `traceparent`} {
		if !strings.Contains(string(wire), want) {
			t.Errorf("no %s in %s", want, wire)
		}
	}
	if strings.Contains(string(wire), "toolyard/session") {
		t.Errorf("the server saw what is ours: %s", wire)
	}
	weird := ""
	for name := range y.tools(t, "plain") {
		if strings.HasPrefix(name, "we_ird_name") {
			weird = name
		}
	}
	if r := y.must(t, "plain", weird, `{}`, nil); !strings.Contains(r.TextContent(), "we.ird/name") {
		t.Errorf("a name that had to be changed: %s", r.TextContent())
	}
	if s := y.status(t, "plain"); s.State != gateway.Ready || s.Server != "plain 1.2.3" || s.Tools != 16 || s.PID == 0 {
		t.Errorf("status: %+v", s)
	}
}

func TestFailures(t *testing.T) {
	y := open(t, map[string]gateway.Server{"plain": plain(t, "good")})
	y.start(t, "plain")
	r := y.must(t, "plain", "fail", `{}`, nil)
	if !r.IsError || r.Err == nil || r.Err.Code != tool.NotFound {
		t.Errorf("a failure of the tool: %+v", r)
	}
	_, err := y.call(t, "plain", "wrong", `{}`, nil)
	var e *tool.Error
	if !errors.As(err, &e) || e.Code != tool.ParameterError || e.Details["jsonrpc_code"] != int64(-32602) {
		t.Errorf("a JSON-RPC error: %v %v", err, e)
	}
	_, err = y.call(t, "plain", "crash", `{}`, nil)
	if !errors.As(err, &e) || e.Code != tool.ConnectionError || !e.Began {
		t.Errorf("a crash: %#v", err)
	}
	// It comes back by itself.
	until(t, "the server to be back", func() bool { _, err := y.call(t, "plain", "echo", `{}`, nil); return err == nil })
	d, err := y.Inspect(within(t), "plain")
	if err != nil {
		t.Fatal(err)
	}
	if d.Metrics.Restarts != 1 || d.Metrics.Calls < 4 {
		t.Errorf("metrics: %+v", d.Metrics)
	}
	if log := strings.Join(d.Log, "\n"); !strings.Contains(log, "about to crash") {
		t.Errorf("log: %s", log)
	}
}

func TestProgressAndLog(t *testing.T) {
	s := plain(t, "good")
	s.Timeout = gateway.Duration(3 * time.Second)
	y := open(t, map[string]gateway.Server{"plain": s})
	h := &host{client: &client{capabilities: `{}`}}
	y.start(t, "plain")
	// Each step begins the time anew: all together take longer.
	y.must(t, "plain", "slow", `{"steps": 10, "pause": 0.5}`, h)
	y.must(t, "plain", "log", `{}`, h)
	var kinds []string
	for _, e := range h.events {
		kinds = append(kinds, e.Type)
	}
	if !slices.Contains(kinds, tool.EventCallProgress) {
		t.Errorf("events: %v", h.events)
	}
	_, err := y.call(t, "plain", "hang", `{}`, h)
	if code(err) != tool.TimeoutError {
		t.Errorf("a call that hangs: %v", err)
	}
	if r := y.must(t, "plain", "echo", `{}`, nil); r.IsError {
		t.Errorf("beside a call that hangs: %v", r.TextContent())
	}
}

func TestAsks(t *testing.T) {
	allowed := plain(t, "good")
	allowed.Sampling = gateway.Sampling{Allowed: true, Calls: 1}
	y := open(t, map[string]gateway.Server{"plain": plain(t, "good"), "allowed": allowed})
	y.start(t, "plain")
	y.start(t, "allowed")
	var asked []string
	full := &client{capabilities: `{"elicitation":{},"sampling":{}}`, input: func(r map[string]tool.InputRequest) (map[string]json.RawMessage, error) {
		out := map[string]json.RawMessage{}
		for key, one := range r {
			asked = append(asked, one.Method)
			out[key] = json.RawMessage(`{"action":"accept","content":{"name":"Ada"}}`)
		}
		return out, nil
	}}
	if r := y.must(t, "plain", "ask", `{}`, &host{client: full}); !strings.Contains(r.TextContent(), "Ada") {
		t.Errorf("elicitation: %s", r.TextContent())
	}
	if r := y.must(t, "plain", "ask", `{}`, nil); !strings.Contains(r.TextContent(), "cancel") {
		t.Errorf("elicitation of nobody: %s", r.TextContent())
	}
	if r := y.must(t, "plain", "sample", `{}`, &host{client: full}); !strings.Contains(r.TextContent(), "not allowed") {
		t.Errorf("sampling that is not allowed: %s", r.TextContent())
	}
	if r := y.must(t, "allowed", "sample", `{}`, &host{client: full}); !strings.Contains(r.TextContent(), "Ada") {
		t.Errorf("sampling: %s", r.TextContent())
	}
	if r := y.must(t, "allowed", "sample", `{}`, &host{client: full}); !strings.Contains(r.TextContent(), "budget") {
		t.Errorf("sampling beyond the budget: %s", r.TextContent())
	}
	if want := []string{"elicitation/create", "sampling/createMessage"}; !slices.Equal(asked, want) {
		t.Errorf("the client was asked %v, want %v", asked, want)
	}
}

func TestRoots(t *testing.T) {
	s := plain(t, "good")
	y := open(t, map[string]gateway.Server{"plain": s})
	y.start(t, "plain")
	if r := y.must(t, "plain", "roots", `{}`, nil); !strings.Contains(r.TextContent(), "file://"+y.workspace) {
		t.Errorf("roots: %s", r.TextContent())
	}
	own := &client{capabilities: `{"roots":{}}`, input: func(r map[string]tool.InputRequest) (map[string]json.RawMessage, error) {
		out := map[string]json.RawMessage{}
		for key := range r {
			out[key] = json.RawMessage(`{"roots":[{"uri":"file:///theirs"}]}`)
		}
		return out, nil
	}}
	if r := y.must(t, "plain", "roots", `{}`, &host{client: own}); !strings.Contains(r.TextContent(), "file:///theirs") {
		t.Errorf("roots of the client: %s", r.TextContent())
	}
}

func TestConfined(t *testing.T) {
	s := plain(t, "good")
	granted := plain(t, "good")
	dir := t.TempDir()
	granted.Sandbox.Write = []string{dir}
	granted.Env = map[string]string{"GREETING": "${HELLO:-hi}", "API_TOKEN": "${secret:TOKEN}"}
	concealed := map[string]string{}
	y := open(t, map[string]gateway.Server{"plain": s, "granted": granted}, func(c *gateway.Config) {
		c.Secret = func(_ context.Context, name string) (string, error) { return "value-of-" + name, nil }
		c.Conceal = func(_ string, values map[string]string) { maps.Copy(concealed, values) }
	})
	y.start(t, "plain")
	y.start(t, "granted")
	inWorkspace := filepath.Join(y.workspace, "file")
	if err := os.WriteFile(inWorkspace, []byte("seen"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := func(p string) string { return `{"path": ` + strconv.Quote(p) + `}` }
	if r := y.must(t, "plain", "read", path(inWorkspace), nil); r.TextContent() != "seen" {
		t.Errorf("reading the workspace: %s", r.TextContent())
	}
	if r := y.must(t, "plain", "write", path(filepath.Join(y.workspace, "new")), nil); !r.IsError {
		t.Errorf("it wrote into the workspace")
	}
	if r := y.must(t, "plain", "read", path(filepath.Join(os.Getenv("HOME"), ".bashrc")), nil); !r.IsError {
		t.Errorf("it read the user's home")
	}
	if r := y.must(t, "plain", "read", path(filepath.Join(y.home, "mcp.json.lock")), nil); !r.IsError {
		t.Errorf("it read the runtime's home")
	}
	if r := y.must(t, "granted", "write", path(filepath.Join(dir, "new")), nil); r.IsError {
		t.Errorf("writing where it may: %s", r.TextContent())
	}
	env := y.must(t, "granted", "env", `{}`, nil).TextContent()
	for _, want := range []string{`"GREETING": "hi"`, `"API_TOKEN": "value-of-TOKEN"`} {
		if !strings.Contains(env, want) {
			t.Errorf("no %s in %s", want, env)
		}
	}
	if concealed["TOKEN"] != "value-of-TOKEN" {
		t.Errorf("concealed: %v", concealed)
	}
	d, err := y.Inspect(within(t), "granted")
	if err != nil || strings.Contains(string(d.Entry), "value-of") {
		t.Errorf("inspect shows %s, %v", d.Entry, err)
	}
	if d.Sandbox == nil || d.Sandbox.Level < "L2" || len(d.Sandbox.Layers) == 0 {
		t.Errorf("inspect says of the sandbox %+v", d.Sandbox)
	}
}

func TestNothingStays(t *testing.T) {
	y := open(t, map[string]gateway.Server{"plain": plain(t, "good")})
	y.start(t, "plain")
	y.must(t, "plain", "child", `{}`, nil)
	pid := y.status(t, "plain").PID
	tree := descendants(t, pid)
	if len(tree) < 2 {
		t.Fatalf("the tree of %d is %v", pid, tree)
	}
	if err := y.Stop(within(t), "plain"); err != nil {
		t.Fatal(err)
	}
	for _, one := range tree {
		if alive(one) {
			t.Errorf("process %d is still there", one)
		}
	}
	if s := y.status(t, "plain"); s.State != gateway.Stopped || s.Tools != 16 {
		t.Errorf("after stop: %+v", s)
	}
}

// descendants are a process and all below it.
func descendants(t *testing.T, root int) []int {
	t.Helper()
	found := []int{root}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	parents := map[int]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 {
			parents[pid], _ = strconv.Atoi(fields[1])
		}
	}
	for i := 0; i < len(found); i++ {
		for pid, parent := range parents {
			if parent == found[i] && !slices.Contains(found, pid) {
				found = append(found, pid)
			}
		}
	}
	return found
}

func alive(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}
