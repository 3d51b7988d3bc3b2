package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/tool"
)

// catalog is a list of tools that a test can change.
type catalog struct {
	mu      sync.Mutex
	specs   []*tool.Spec
	changes []func()
}

func (c *catalog) Specs() []*tool.Spec {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.specs)
}

func (c *catalog) Find(name string) (*tool.Spec, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.specs {
		if s.FullName() == name || slices.Contains(s.Aliases, name) {
			return s, nil
		}
	}
	return nil, tool.Errorf(tool.ToolNotFound, "there is no tool %q", name).WithHint("Did you mean echo?")
}

func (c *catalog) OnChange(f func()) { c.changes = append(c.changes, f) }

func (c *catalog) set(specs ...*tool.Spec) {
	c.mu.Lock()
	c.specs = specs
	c.mu.Unlock()
	for _, f := range c.changes {
		f()
	}
}

func spec(name string) *tool.Spec {
	return &tool.Spec{
		Name: name, Category: "test", Description: "does " + name, Effects: tool.Read,
		Input: &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"file": {Type: "string", Format: "path"}}},
	}
}

// calls is an executor made of a function. It keeps what it was asked.
type calls struct {
	f func(ctx context.Context, c executor.Call) *tool.Result

	mu   sync.Mutex
	seen []executor.Call
}

func (e *calls) Call(ctx context.Context, c executor.Call) *tool.Result {
	e.mu.Lock()
	e.seen = append(e.seen, c)
	e.mu.Unlock()
	return e.f(ctx, c)
}

func (e *calls) last() executor.Call {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.seen[len(e.seen)-1]
}

// echo answers with the name of the tool and its arguments.
func echo(_ context.Context, c executor.Call) *tool.Result {
	if c.Tool == "nothing" {
		return tool.ErrorResult(tool.Errorf(tool.ToolNotFound, "there is no tool %q", c.Tool).WithHint("Did you mean echo?"))
	}
	return tool.Text(c.Tool + string(c.Arguments))
}

// until waits until its context is done, and tells why it ended.
func until(started chan<- struct{}, ended chan<- error) func(context.Context, executor.Call) *tool.Result {
	return func(ctx context.Context, _ executor.Call) *tool.Result {
		started <- struct{}{}
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return tool.ErrorResult(tool.Errorf(tool.Cancelled, "cancelled"))
	}
}

// conn is the client's end of a stdio connection.
type conn struct {
	t    *testing.T
	s    *Server
	in   *io.PipeWriter
	out  *bufio.Reader
	done chan error
}

// dial starts a server on a pair of pipes.
func dial(t *testing.T, c Config) *conn {
	t.Helper()
	if c.Catalog == nil {
		c.Catalog = &catalog{specs: []*tool.Spec{spec("echo")}}
	}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	k := &conn{t: t, in: inW, out: bufio.NewReader(outR), done: make(chan error, 1)}
	s := New(c)
	k.s = s
	go func() {
		k.done <- s.ServeStdio(context.Background(), inR, outW)
		_ = outW.Close()
	}()
	t.Cleanup(func() {
		_ = inW.Close()
		go func() { _, _ = io.Copy(io.Discard, outR) }()
		if err := <-k.done; err != nil {
			t.Errorf("ServeStdio: %v", err)
		}
		if err := s.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return k
}

func (k *conn) send(lines ...string) {
	k.t.Helper()
	for _, line := range lines {
		if _, err := io.WriteString(k.in, line+"\n"); err != nil {
			k.t.Fatalf("sending %.80s: %v", line, err)
		}
	}
}

// next gives the next message.
func (k *conn) next() map[string]any {
	k.t.Helper()
	line, err := k.out.ReadBytes('\n')
	if err != nil {
		k.t.Fatalf("reading: %v", err)
	}
	var m map[string]any
	if err := json.Unmarshal(line, &m); err != nil {
		k.t.Fatalf("message %s: %v", line, err)
	}
	return m
}

const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"%s","capabilities":%s,"clientInfo":{"name":"test","version":"1"}}}`

// initialize does the handshake of a version.
func (k *conn) initialize(version, capabilities string) map[string]any {
	k.t.Helper()
	k.send(fmt.Sprintf(hello, version, capabilities))
	m := k.next()
	k.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return m
}

// at looks a value up: at(m, "error", "code").
func at(m any, path ...string) any {
	for _, p := range path {
		o, ok := m.(map[string]any)
		if !ok {
			return nil
		}
		m = o[p]
	}
	return m
}

func text(m any) string {
	content, _ := at(m, "result", "content").([]any)
	var b strings.Builder
	for _, c := range content {
		s, _ := at(c, "text").(string)
		b.WriteString(s)
	}
	return b.String()
}

const call2026 = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"%s"%s}}}`

func TestMessages(t *testing.T) {
	const caps = `,"io.modelcontextprotocol/clientCapabilities":{}`
	tests := []struct {
		name    string
		version string // of the handshake; "" for none
		send    string
		code    float64 // of the error; 0 means none
		has     string  // in the message of the error, or in the text of the result
		noID    bool
	}{
		{"call", "2025-11-25", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":1}}}`, 0, `echo{"a":1}`, false},
		{"call without arguments", "2024-11-05", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`, 0, "echo", false},
		{"arguments as a string are for the validator", "2025-06-18", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":"{}"}}`, 0, `echo"{}"`, false},
		{"escaped name", "2025-11-25", `{"jsonrpc":"2.0","id":1,"method":"tools\/call","params":{"name":"\u0065cho"}}`, 0, "echo", false},
		{"ping", "2025-11-25", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, 0, "", false},
		{"ping before initialize", "", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, 0, "", false},
		{"unknown method", "2025-11-25", `{"jsonrpc":"2.0","id":1,"method":"tools/run","params":{}}`, -32601, "tools/run", false},
		{"unknown tool", "2025-11-25", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nothing"}}`, -32602, "Did you mean echo?", false},
		{"no name", "2025-11-25", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{}}}`, -32602, "name", false},
		{"name is a number", "2025-11-25", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":3}}`, -32602, "name", false},
		{"no params", "2025-11-25", `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, -32602, "params", false},
		{"params is an array", "2025-11-25", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":["echo"]}`, -32602, "params", false},
		{"meta is no object", "2025-11-25", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","_meta":7}}`, -32602, "_meta", false},
		{"timeout makes no sense", "2025-11-25", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","_meta":{"toolyard/timeout":"soon"}}}`, -32602, "toolyard/timeout", false},
		{"foreign workspace", "2025-11-25", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","_meta":{"toolyard/workspace":"/etc"}}}`, -32602, "/etc", false},
		{"progress token is an object", "2025-11-25", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","_meta":{"progressToken":{}}}}`, -32602, "progressToken", false},
		{"a member twice", "2025-11-25", `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}`, -32600, "twice", false},
		{"name twice", "2025-11-25", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","name":"bash"}}`, -32602, "twice", false},
		{"garbage", "2025-11-25", `hello`, -32700, "JSON", true},
		{"half a message", "2025-11-25", `{"jsonrpc":"2.0","id":1,"method":"pi`, -32700, "JSON", true},
		{"a string", "2025-11-25", `"hello"`, -32600, "object", true},
		{"wrong version of JSON-RPC", "2025-11-25", `{"jsonrpc":"1.0","id":1,"method":"ping"}`, -32600, "2.0", false},
		{"id is null", "2025-11-25", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, -32600, "id", true},
		{"id is a fraction", "2025-11-25", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, -32600, "id", true},
		{"id is an object", "2025-11-25", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, -32600, "id", true},
		{"id is too large", "2025-11-25", `{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`, -32600, "2^53", true},
		{"method is a number", "2025-11-25", `{"jsonrpc":"2.0","id":1,"method":1}`, -32600, "method", false},
		{"neither call nor answer", "2025-11-25", `{"jsonrpc":"2.0","id":1}`, -32600, "method", false},
		{"call before initialize", "", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`, -32600, "initialize", false},
		{"list before initialize", "", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, -32600, "initialize", false},
		{"initialize twice", "2025-11-25", strings.Replace(fmt.Sprintf(hello, "2025-11-25", "{}"), `"id":0`, `"id":1`, 1), -32600, "initialize", false},
		{"batch where there are none", "2025-06-18", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, -32600, "batch", true},
		{"cursor of somebody else", "2025-11-25", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}`, -32602, "", false},
		{"stateless call", "", fmt.Sprintf(call2026, 1, "2026-07-28", caps), 0, "echo", false},
		{"stateless call without capabilities", "", fmt.Sprintf(call2026, 1, "2026-07-28", ""), -32602, "clientCapabilities", false},
		{"stateless call of a later version", "", fmt.Sprintf(call2026, 1, "2030-01-01", caps), -32022, "version", false},
		{"ping has gone", "", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"` + caps + `}}}`, -32601, "ping", false},
		{"discover", "", `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"` + caps + `}}}`, 0, "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := dial(t, Config{Executor: &calls{f: echo}})
			if tt.version != "" {
				k.initialize(tt.version, "{}")
			}
			k.send(tt.send)
			m := k.next()
			if got, _ := at(m, "error", "code").(float64); got != tt.code {
				t.Fatalf("code %v, want %v, in answer to %s: %v", got, tt.code, tt.send, m)
			}
			if wantID := any(1.0); !tt.noID && m["id"] != wantID {
				t.Errorf("id %v, want 1", m["id"])
			}
			got := text(m)
			if tt.code != 0 {
				got, _ = at(m, "error", "message").(string)
			}
			if !strings.Contains(got, tt.has) {
				t.Errorf("answer %q, want it to contain %q", got, tt.has)
			}
			// Whatever it was, the connection lives.
			k.send(`{"jsonrpc":"2.0","id":"after","method":"ping"}`)
			if m := k.next(); m["id"] != "after" || m["error"] != nil {
				t.Errorf("after %s a ping gets %v", tt.send, m)
			}
		})
	}
}

func TestNegotiatesVersions(t *testing.T) {
	for asked, want := range map[string]string{
		"2024-11-05": "2024-11-05", "2025-03-26": "2025-03-26", "2025-06-18": "2025-06-18", "2025-11-25": "2025-11-25",
		"1999-01-01": "2025-11-25", "2026-07-28": "2025-11-25", "": "2025-11-25",
	} {
		t.Run(asked, func(t *testing.T) {
			k := dial(t, Config{Executor: &calls{f: echo}, Version: "1.2.3"})
			m := k.initialize(asked, "{}")
			if got := at(m, "result", "protocolVersion"); got != want {
				t.Errorf("asked for %q, got %v, want %v", asked, got, want)
			}
			if got := at(m, "result", "serverInfo", "version"); got != "1.2.3" {
				t.Errorf("version of the server: %v", got)
			}
			instructions, _ := at(m, "result", "instructions").(string)
			if !strings.Contains(instructions, "test: echo") || len(instructions) >= 2048 {
				t.Errorf("instructions of %d bytes: %q", len(instructions), instructions)
			}
			for _, capability := range []string{"tools", "resources", "prompts", "logging"} {
				if at(m, "result", "capabilities", capability) == nil {
					t.Errorf("capability %s is not offered", capability)
				}
			}
			// Batches are of the version agreed on, not of the one asked for.
			k.send(`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`)
			line, err := k.out.ReadString('\n')
			if err != nil || strings.HasPrefix(line, "[") != (want < versionNoBatch) {
				t.Errorf("a batch is answered with %s, %v", line, err)
			}
		})
	}
}

func TestStatelessResultNamesTypeAndServer(t *testing.T) {
	k := dial(t, Config{Executor: &calls{f: echo}})
	k.send(fmt.Sprintf(call2026, 1, "2026-07-28", `,"io.modelcontextprotocol/clientCapabilities":{}`))
	m := k.next()
	if got := at(m, "result", "resultType"); got != "complete" {
		t.Errorf("resultType %v", got)
	}
	if got := at(m, "result", "_meta", "io.modelcontextprotocol/serverInfo", "name"); got != "toolyard" {
		t.Errorf("serverInfo %v", got)
	}
	if at(m, "result", "_meta", "toolyard/call") == nil {
		t.Error("_meta has no toolyard/call")
	}
}

func TestBatchBefore20250618(t *testing.T) {
	k := dial(t, Config{Executor: &calls{f: echo}})
	k.initialize("2025-03-26", "{}")
	k.send(`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":"b","method":"tools/call","params":{"name":"echo"}},` +
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}},{"jsonrpc":"2.0","id":3,"method":"nope"},7]`)
	line, err := k.out.ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var answers []map[string]any
	if err := json.Unmarshal(line, &answers); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	got := map[any]any{}
	for _, a := range answers {
		got[a["id"]] = at(a, "error", "code")
	}
	want := map[any]any{1.0: nil, "b": nil, 3.0: -32601.0, nil: -32600.0}
	if fmt.Sprint(got) != fmt.Sprint(want) || len(answers) != 4 {
		t.Errorf("answers %v, want %v", got, want)
	}
	k.send(`[]`)
	if m := k.next(); at(m, "error", "code") != -32600.0 {
		t.Errorf("empty batch: %v", m)
	}
	k.send(`[{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}]`, `{"jsonrpc":"2.0","id":9,"method":"ping"}`)
	if m := k.next(); m["id"] != 9.0 {
		t.Errorf("a batch of notifications was answered with %v", m)
	}
}

// TestCallsSentTogetherAreConcurrent, however fast the first is answered.
func TestCallsSentTogetherAreConcurrent(t *testing.T) {
	e := &calls{f: echo}
	k := dial(t, Config{Executor: e})
	k.initialize("2025-11-25", "{}")
	call := func(id int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"x"}}`, id)
	}
	k.send(call(1))
	k.next()
	if e.last().Concurrent {
		t.Error("a call sent alone counts as concurrent")
	}
	k.send(call(2) + "\n" + call(3))
	k.next()
	k.next()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.seen[1:] {
		if !c.Concurrent {
			t.Errorf("a call sent with another counts as alone: %+v", c)
		}
	}
}

func TestCallCarriesWhatTheClientSays(t *testing.T) {
	e := &calls{f: echo}
	k := dial(t, Config{Executor: e, Session: "ses_test", Workspaces: []string{"/a", "/b"}})
	k.initialize("2025-11-25", "{}")
	k.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"toolyard/turn":"t7","toolyard/timeout":"90s","toolyard/workspace":"/b"}}}`)
	k.next()
	c := e.last()
	if c.Session != "ses_test" || c.Turn != "t7" || c.Timeout.Seconds() != 90 || c.Workspace != "/b" || c.Origin != executor.OriginMCP || c.Asker != nil {
		t.Errorf("call %+v", c)
	}
	k.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x","_meta":{"toolyard/timeout":1500}}}`)
	k.next()
	if c := e.last(); c.Timeout.Milliseconds() != 1500 || c.Workspace != "/a" || c.Turn != "t7" {
		t.Errorf("call %+v", c)
	}
}

func TestPingDuringACall(t *testing.T) {
	started, ended := make(chan struct{}, 1), make(chan error, 1)
	k := dial(t, Config{Executor: &calls{f: until(started, ended)}})
	k.initialize("2025-11-25", "{}")
	k.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`)
	<-started
	k.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	if m := k.next(); m["id"] != 2.0 {
		t.Fatalf("got %v before the ping's answer", m)
	}
	k.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`)
	if m := k.next(); at(m, "error", "code") != -32600.0 {
		t.Fatalf("an id in use was answered with %v", m)
	}
	k.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"enough"}}`)
	if err := <-ended; !errors.Is(err, errCancelled) {
		t.Errorf("the call ended because of %v", err)
	}
	k.send(`{"jsonrpc":"2.0","id":3,"method":"ping"}`)
	if m := k.next(); m["id"] != 3.0 {
		t.Errorf("a cancelled call was answered with %v", m)
	}
}

func TestCallsWaitForReadyAndListsDoNot(t *testing.T) {
	ready := make(chan struct{})
	k := dial(t, Config{Executor: &calls{f: echo}, Ready: func(ctx context.Context) error {
		select {
		case <-ready:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}})
	// All at once, as a client does that does not wait for answers.
	k.send(fmt.Sprintf(hello, "2025-11-25", "{}"),
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	if m := k.next(); m["id"] != 0.0 {
		t.Fatalf("first came %v", m)
	}
	if m := k.next(); m["id"] != 2.0 {
		t.Fatalf("before readiness came %v", m)
	}
	close(ready)
	if m := k.next(); m["id"] != 1.0 || text(m) != "echo" {
		t.Errorf("the call got %v", m)
	}
}

func TestToolsOnTheWire(t *testing.T) {
	write := spec("write")
	write.Effects, write.Destructive, write.Idempotent, write.Title = tool.Write, true, true, "Write a file"
	write.Output = &jsonschema.Schema{Type: "object"}
	foreign := spec("search")
	foreign.Source, foreign.OpenWorld, foreign.Effects = "github", true, tool.Network
	k := dial(t, Config{Executor: &calls{f: echo}, Catalog: &catalog{specs: []*tool.Spec{foreign, write}}})
	k.initialize("2025-11-25", "{}")
	k.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	tools, _ := at(k.next(), "result", "tools").([]any)
	if len(tools) != 2 {
		t.Fatalf("%d tools", len(tools))
	}
	search, w := tools[0], tools[1]
	if got := at(search, "name"); got != "github__search" {
		t.Errorf("name %v", got)
	}
	wantSearch := map[string]any{"title": "search", "readOnlyHint": true, "destructiveHint": false, "idempotentHint": false, "openWorldHint": true}
	if got := at(search, "annotations"); fmt.Sprint(got) != fmt.Sprint(wantSearch) {
		t.Errorf("annotations %v, want %v", got, wantSearch)
	}
	wantWrite := map[string]any{"title": "Write a file", "readOnlyHint": false, "destructiveHint": true, "idempotentHint": true, "openWorldHint": false}
	if got := at(w, "annotations"); fmt.Sprint(got) != fmt.Sprint(wantWrite) {
		t.Errorf("annotations %v, want %v", got, wantWrite)
	}
	if at(w, "outputSchema") == nil || at(search, "outputSchema") != nil {
		t.Error("output schemas are wrong")
	}
	if got := at(w, "inputSchema", "properties", "file", "format"); got != nil {
		t.Errorf("format %v is on the wire", got)
	}
	if write.Input.Properties["file"].Format != "path" {
		t.Error("the tool's own schema was changed")
	}
}

func TestPages(t *testing.T) {
	var specs []*tool.Spec
	for i := range 450 {
		specs = append(specs, spec(fmt.Sprintf("t%03d", i)))
	}
	k := dial(t, Config{Executor: &calls{f: echo}, Catalog: &catalog{specs: specs}})
	k.initialize("2025-11-25", "{}")
	var sizes []int
	var names []string
	for cursor := ""; ; {
		k.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":%q}}`, cursor))
		m := k.next()
		tools, _ := at(m, "result", "tools").([]any)
		sizes = append(sizes, len(tools))
		for _, one := range tools {
			names = append(names, at(one, "name").(string))
		}
		if cursor, _ = at(m, "result", "nextCursor").(string); cursor == "" {
			break
		}
	}
	if !slices.Equal(sizes, []int{200, 200, 50}) || !slices.IsSorted(names) || len(slices.Compact(names)) != 450 {
		t.Errorf("pages of %v, %d names, sorted %v", sizes, len(names), slices.IsSorted(names))
	}
}
