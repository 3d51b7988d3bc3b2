package upstream_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolyard/toolyard/internal/gateway/upstream"
	"github.com/toolyard/toolyard/tool"
)

// patience is how long a test waits for what must happen.
const patience = 60 * time.Second

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// peer is a server of the SDK and what its tools have seen.
type peer struct {
	*sdk.Server
	blocked, freed chan struct{} // of the tool block
	stop           chan struct{} // ends it, for servers that do not hear of a cancellation
}

// newPeer makes a server that speaks only the versions given.
func newPeer(versions ...string) *peer {
	p := &peer{blocked: make(chan struct{}, 10), freed: make(chan struct{}, 10), stop: make(chan struct{})}
	p.Server = sdk.NewServer(&sdk.Implementation{Name: "peer", Version: "1"}, &sdk.ServerOptions{
		Instructions: "be kind", SupportedProtocolVersions: versions,
		SubscribeHandler:   func(context.Context, *sdk.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *sdk.UnsubscribeRequest) error { return nil },
	})
	add := func(name string, f func(context.Context, *sdk.CallToolRequest) (string, error)) {
		p.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`)},
			func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				text, err := f(ctx, r)
				if err != nil {
					return nil, err
				}
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil
			})
	}
	add("echo", func(_ context.Context, r *sdk.CallToolRequest) (string, error) {
		return string(r.Params.Arguments), nil
	})
	add("progress", func(ctx context.Context, r *sdk.CallToolRequest) (string, error) {
		for i := range 3 {
			if err := r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1)}); err != nil {
				return "", err
			}
		}
		//lint:ignore SA1019 servers still do it
		return "done", r.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "error", Data: "look"})
	})
	add("ask", func(ctx context.Context, r *sdk.CallToolRequest) (string, error) {
		answer, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: "sure?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}}})
		if err != nil {
			return "", err
		}
		return fmt.Sprint(answer.Action, answer.Content["name"]), nil
	})
	add("block", func(ctx context.Context, _ *sdk.CallToolRequest) (string, error) {
		p.blocked <- struct{}{}
		select {
		case <-ctx.Done():
		case <-p.stop:
		}
		p.freed <- struct{}{}
		return "", ctx.Err()
	})
	add("fail", func(context.Context, *sdk.CallToolRequest) (string, error) {
		return "", &jsonrpc.Error{Code: -32042, Message: "no", Data: json.RawMessage(`{"why":[1,2]}`)}
	})
	p.AddResource(&sdk.Resource{Name: "r", URI: "test://r"}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "test://r", Text: "r"}}}, nil
	})
	return p
}

// pipes connects p over two pipes.
func (p *peer) pipes(t testing.TB) *upstream.Stdio {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	session, err := p.Connect(context.Background(), &sdk.IOTransport{Reader: inR, Writer: outW}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return &upstream.Stdio{Stdin: inW, Stdout: outR}
}

// socket serves p over WebSocket.
func (p *peer) socket(t testing.TB) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"mcp"}})
		if err != nil {
			return
		}
		defer conn.CloseNow()
		if conn.Subprotocol() != "mcp" {
			t.Errorf("subprotocol %q", conn.Subprotocol())
		}
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		session, err := p.Connect(context.Background(), &sdk.IOTransport{Reader: inR, Writer: outW}, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer session.Close()
		go func() {
			for lines := bufio.NewScanner(outR); lines.Scan(); {
				if conn.Write(context.Background(), websocket.MessageText, lines.Bytes()) != nil {
					return
				}
			}
		}()
		conn.SetReadLimit(1 << 20)
		for {
			_, data, err := conn.Read(r.Context())
			if err != nil {
				_ = inW.Close()
				return
			}
			if _, err := inW.Write(append(data, '\n')); err != nil {
				return
			}
		}
	})
}

func serve(t testing.TB, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL
}

// transports are all the ways to a peer.
var transports = []struct {
	name    string
	eras    []string // the newest version of each
	connect func(t testing.TB, p *peer) upstream.Config
}{
	{"stdio", []string{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}, func(t testing.TB, p *peer) upstream.Config {
		return upstream.Config{Stdio: p.pipes(t)}
	}},
	{"websocket", []string{"2026-07-28", "2025-11-25", "2024-11-05"}, func(t testing.TB, p *peer) upstream.Config {
		return upstream.Config{WebSocket: &upstream.HTTP{URL: "ws" + strings.TrimPrefix(serve(t, p.socket(t)), "http")}}
	}},
	{"http stateless", []string{"2026-07-28", "2025-06-18"}, func(t testing.TB, p *peer) upstream.Config {
		return upstream.Config{HTTP: &upstream.HTTP{URL: serve(t, sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return p.Server },
			&sdk.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true}))}}
	}},
	{"http stateless json", []string{"2026-07-28"}, func(t testing.TB, p *peer) upstream.Config {
		return upstream.Config{HTTP: &upstream.HTTP{URL: serve(t, sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return p.Server },
			&sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true}))}}
	}},
	{"http sessions", []string{"2025-11-25", "2025-06-18", "2025-03-26"}, func(t testing.TB, p *peer) upstream.Config {
		return upstream.Config{HTTP: &upstream.HTTP{URL: serve(t, sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return p.Server },
			&sdk.StreamableHTTPOptions{EventStore: sdk.NewMemoryEventStore(nil)}))}}
	}},
	{"http sessions json", []string{"2025-11-25"}, func(t testing.TB, p *peer) upstream.Config {
		return upstream.Config{HTTP: &upstream.HTTP{URL: serve(t, sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return p.Server },
			&sdk.StreamableHTTPOptions{JSONResponse: true}))}}
	}},
	{"sse", []string{"2024-11-05", "2025-11-25"}, func(t testing.TB, p *peer) upstream.Config {
		return upstream.Config{SSE: &upstream.HTTP{URL: serve(t, sdk.NewSSEHandler(func(*http.Request) *sdk.Server { return p.Server }, nil))}}
	}},
	{"sse found by http", []string{"2024-11-05"}, func(t testing.TB, p *peer) upstream.Config {
		return upstream.Config{HTTP: &upstream.HTTP{URL: serve(t, sdk.NewSSEHandler(func(*http.Request) *sdk.Server { return p.Server }, nil))}}
	}},
}

func params(name, arguments string) json.RawMessage {
	return json.RawMessage(`{"name":"` + name + `","arguments":` + arguments + `}`)
}

func text(t testing.TB, result json.RawMessage) string {
	t.Helper()
	var r struct {
		Content []struct{ Text string }
		IsError bool
	}
	if err := json.Unmarshal(result, &r); err != nil || len(r.Content) == 0 {
		t.Fatalf("result %s: %v", result, err)
	}
	return r.Content[0].Text
}

// await waits until a channel brings something.
func await[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("%s did not come", what)
		panic("unreachable")
	}
}

func TestTransports(t *testing.T) {
	for _, tr := range transports {
		for _, version := range tr.eras {
			t.Run(tr.name+" "+version, func(t *testing.T) {
				p := newPeer(version)
				conf := tr.connect(t, p)
				t.Cleanup(func() { close(p.stop) })
				notes := make(chan string, 100)
				conf.Notification = func(method string, params json.RawMessage) { notes <- method + " " + string(params) }
				conf.Capabilities = json.RawMessage(`{"elicitation":{}}`)
				ctx := within(t)
				c, err := upstream.Connect(ctx, conf)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if got := c.Version(); got != version {
					t.Fatalf("version %s, want %s", got, version)
				}
				if got := c.Server(); got.Instructions != "be kind" || !strings.Contains(string(got.Info), `"peer"`) || !strings.Contains(string(got.Capabilities), "tools") {
					t.Errorf("server %+v", got)
				}
				t.Run("echo", func(t *testing.T) { testEcho(t, c) })
				if tr.name != "http stateless json" { // the SDK's server fails there
					t.Run("progress", func(t *testing.T) { testProgress(t, c, tr.name) })
				}
				t.Run("error", func(t *testing.T) { testError(t, c) })
				t.Run("cancel", func(t *testing.T) { testCancel(t, c, p, tr.name) })
				if !c.Stateless() && tr.name != "http stateless" {
					t.Run("ask", func(t *testing.T) { testAsk(t, c) })
				}
				if tr.name != "http stateless" || c.Stateless() {
					t.Run("changes", func(t *testing.T) { testChanges(t, c, p, notes) })
				}
				t.Run("many", func(t *testing.T) { testMany(t, c) })
				if n := c.Counters(); n != (upstream.Counters{}) {
					t.Errorf("counters of a good server: %+v", n)
				}
			})
		}
	}
}

func testEcho(t *testing.T, c *upstream.Client) {
	headers, err := upstream.HeadersOf(json.RawMessage(`{"properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	const arguments = `{"z":1, "region":"Zürich ", "big":12345678901234567890, "a":{"b":[]}}`
	result, err := c.Call(within(t), upstream.Request{Method: "tools/call", Params: params("echo", arguments), Headers: headers,
		Meta: json.RawMessage(`{"traceparent":"x","progressToken":"not ours","io.modelcontextprotocol/protocolVersion":"1999-01-01"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if got := text(t, result); got != arguments {
		t.Errorf("got %s, want %s", got, arguments)
	}
}

func testProgress(t *testing.T, c *upstream.Client, transport string) {
	ctx := within(t)
	if !c.Stateless() {
		if _, err := c.Call(ctx, upstream.Request{Method: "logging/setLevel", Params: json.RawMessage(`{"level":"debug"}`)}); err != nil {
			t.Fatal(err)
		}
	}
	var seen, logged []string
	_, err := c.Call(ctx, upstream.Request{Method: "tools/call", Params: params("progress", "{}"), LogLevel: "debug",
		Progress: func(p json.RawMessage) { seen = append(seen, string(p)) },
		Log:      func(p json.RawMessage) { logged = append(logged, string(p)) }})
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(transport, "json") {
		return // it has no way to come with the call
	}
	if len(seen) != 3 || !strings.Contains(seen[2], `"progress":3`) {
		t.Errorf("progress %q", seen)
	}
	if want := transport != "http stateless" || c.Stateless(); want && (len(logged) != 1 || !strings.Contains(logged[0], "look")) {
		t.Errorf("log %q", logged)
	}
}

func testError(t *testing.T, c *upstream.Client) {
	_, err := c.Call(within(t), upstream.Request{Method: "tools/call", Params: params("fail", "{}")})
	e, ok := errors.AsType[*upstream.Error](err)
	if !ok || e.Code != -32042 || e.Message != "no" || string(e.Data) != `{"why":[1,2]}` {
		t.Errorf("error %#v", err)
	}
	_, err = c.Call(within(t), upstream.Request{Method: "no/such"})
	if e, ok := errors.AsType[*upstream.Error](err); ok && e.Code != upstream.CodeMethodNotFound || err == nil {
		t.Errorf("error of an unknown method: %v", err)
	}
}

func testCancel(t *testing.T, c *upstream.Client, p *peer, transport string) {
	ctx, cancel := context.WithCancel(within(t))
	failed := make(chan error, 1)
	go func() {
		_, err := c.Call(ctx, upstream.Request{Method: "tools/call", Params: params("block", "{}")})
		failed <- err
	}()
	await(t, "the call", p.blocked)
	cancel()
	e, ok := errors.AsType[*tool.Error](await(t, "the end of the call", failed))
	if !ok || e.Code != tool.Cancelled || !e.Began || !errors.Is(e, context.Canceled) {
		t.Errorf("error %#v", e)
	}
	if !strings.HasPrefix(transport, "http stateless") || transport == "http stateless" && c.Stateless() {
		await(t, "the end at the server", p.freed)
	}
	if n := c.InFlight(); n != 0 {
		t.Errorf("%d calls in flight", n)
	}
}

func testAsk(t *testing.T, c *upstream.Client) {
	result, err := c.Call(within(t), upstream.Request{Method: "tools/call", Params: params("ask", "{}"), Client: "one",
		Ask: func(_ context.Context, method string, params json.RawMessage) (json.RawMessage, *upstream.Error) {
			if method != "elicitation/create" || !strings.Contains(string(params), "sure?") {
				t.Errorf("asked %s %s", method, params)
			}
			return json.RawMessage(`{"action":"accept","content":{"name":"Ada"}}`), nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	if got := text(t, result); got != "acceptAda" {
		t.Errorf("answer %q", got)
	}
	result, err = c.Call(within(t), upstream.Request{Method: "tools/call", Params: params("ask", "{}")})
	if err == nil && !strings.Contains(string(result), `"isError":true`) {
		t.Errorf("nobody was asked and it went on: %s", result)
	}
}

func testChanges(t *testing.T, c *upstream.Client, p *peer, notes chan string) {
	s, err := c.Listen(within(t), upstream.Subscriptions{Tools: true, URIs: []string{"test://r"}})
	if err != nil {
		t.Fatal(err)
	}
	p.AddTool(&sdk.Tool{Name: "new", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return nil, nil })
	for !strings.HasPrefix(await(t, "list_changed", notes), "notifications/tools/list_changed") {
	}
	if err := p.ResourceUpdated(context.Background(), &sdk.ResourceUpdatedNotificationParams{URI: "test://r"}); err != nil {
		t.Fatal(err)
	}
	for {
		n := await(t, "resources/updated", notes)
		if strings.Contains(n, "subscriptionId") {
			t.Errorf("our subscription leaks: %s", n)
		}
		if strings.HasPrefix(n, "notifications/resources/updated") {
			break
		}
	}
	s.Close()
}

func testMany(t *testing.T, c *upstream.Client) {
	var group sync.WaitGroup
	for i := range 64 {
		group.Go(func() {
			for j := range 10 {
				want := fmt.Sprintf(`{"n":"%d.%d"}`, i, j)
				result, err := c.Call(within(t), upstream.Request{Method: "tools/call", Params: params("echo", want)})
				if err != nil {
					t.Error(err)
				} else if got := text(t, result); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			}
		})
	}
	group.Wait()
}

func streamableHandler(p *peer) http.Handler {
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return p.Server }, nil)
}

func sseHandler(p *peer) http.Handler {
	return sdk.NewSSEHandler(func(*http.Request) *sdk.Server { return p.Server }, nil)
}
