package gateway_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolyard/toolyard/internal/gateway"
	"github.com/toolyard/toolyard/internal/store/memory"
	"github.com/toolyard/toolyard/tool"
)

// remote opens a gateway to servers elsewhere: no sandbox is needed.
func remote(t *testing.T, servers map[string]gateway.Server) *yard {
	t.Helper()
	y := &yard{home: t.TempDir(), workspace: t.TempDir()}
	g, err := gateway.New(gateway.Config{Home: y.home, Workspaces: []string{y.workspace}, Servers: servers, Settings: memory.New()})
	if err != nil {
		t.Fatal(err)
	}
	y.Gateway = g
	t.Cleanup(func() { _ = g.Close(context.Background()) })
	return y
}

type said struct {
	Word string `json:"word"`
}

// goServer is a server made with the Go SDK. runs counts what its tool does.
func goServer(runs *atomic.Int64) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "go", Version: "1"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "echo", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}}, func(_ context.Context, _ *sdk.CallToolRequest, in said) (*sdk.CallToolResult, said, error) {
		return nil, in, nil
	})
	s.AddTool(&sdk.Tool{Name: "deploy", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if len(r.Params.InputResponses) == 0 {
			//lint:ignore SA1019 servers go on asking for roots
			return &sdk.CallToolResult{RequestState: "here", InputRequests: sdk.InputRequestMap{"sure": &sdk.ElicitParams{Message: "sure?"}, "where": &sdk.ListRootsParams{}}}, nil
		}
		runs.Add(1)
		raw, err := json.Marshal(r.Params.InputResponses)
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: r.Params.RequestState + string(raw)}}}, err
	})
	return s
}

func TestRemote(t *testing.T) {
	for name, options := range map[string]*sdk.StreamableHTTPOptions{"stateless": {Stateless: true}, "sessions": {}} {
		t.Run(name, func(t *testing.T) {
			var runs atomic.Int64
			s := goServer(&runs)
			var seen atomic.Value
			handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, options)
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				seen.Store(r.Header.Get("X-Key"))
				handler.ServeHTTP(w, r)
			}))
			t.Cleanup(web.Close)
			y := remote(t, map[string]gateway.Server{"go": {Type: "http", URL: web.URL, Headers: map[string]string{"X-Key": "v"}}})
			t.Cleanup(func() { web.CloseClientConnections() })
			y.start(t, "go")
			if r := y.must(t, "go", "echo", `{"word": "hi"}`, nil); string(r.Structured) != `{"word":"hi"}` || seen.Load() != "v" {
				t.Errorf("echo: %s, header %v", r.Structured, seen.Load())
			}
			asks := 0
			c := &client{capabilities: `{"elicitation":{}}`, input: func(r map[string]tool.InputRequest) (map[string]json.RawMessage, error) {
				asks++
				out := map[string]json.RawMessage{}
				for key := range r {
					out[key] = json.RawMessage(`{"action":"accept","content":{"ok":true}}`)
				}
				return out, nil
			}}
			if options.Stateless {
				c.meta = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`
			}
			r := y.must(t, "go", "deploy", `{}`, &host{client: c})
			if text := r.TextContent(); !strings.HasPrefix(text, "here") || !strings.Contains(text, "accept") || !strings.Contains(text, y.workspace) {
				t.Errorf("deploy: %s", text)
			}
			if runs.Load() != 1 || asks != 1 {
				t.Errorf("it ran %d times, asked %d times", runs.Load(), asks)
			}
			if options.Stateless {
				_, err := y.call(t, "go", "deploy", `{}`, nil)
				var e *tool.Error
				if e = tool.AsError(err); e == nil || runs.Load() != 1 {
					t.Errorf("with nobody to ask: %v, ran %d times", err, runs.Load())
				}
			}
			s.AddTool(&sdk.Tool{Name: "later", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				return &sdk.CallToolResult{}, nil
			})
			until(t, "the new tool", func() bool { return y.tools(t, "go")["later"] != nil })
			if got := y.status(t, "go"); got.State != gateway.Ready || got.Transport != "http" {
				t.Errorf("status: %+v", got)
			}
		})
	}
}

// fixture answers JSON-RPC over HTTP as a server of 2026-07-28 that makes a task
// of every call.
func fixture(t *testing.T, polls *atomic.Int64) string {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
		}
		body, _ := io.ReadAll(r.Body)
		if json.Unmarshal(body, &m) != nil || m.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		result := `{}`
		switch m.Method {
		case "server/discover":
			result = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"tasks","version":"1"}}`
		case "tools/list":
			result = `{"resultType":"complete","tools":[{"name":"long","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			result = `{"resultType":"task","taskId":"t1","status":"working","pollIntervalMs":50}`
		case "tasks/update":
			polls.Add(10)
		case "tasks/get":
			switch n := polls.Add(1); {
			case n == 1:
				result = `{"resultType":"complete","taskId":"t1","status":"working","pollIntervalMs":50}`
			case n < 10:
				result = `{"resultType":"complete","taskId":"t1","status":"input_required","pollIntervalMs":50,"inputRequests":{"k":{"method":"elicitation/create","params":{"message":"go on?"}}}}`
			default:
				result = `{"resultType":"complete","taskId":"t1","status":"completed","result":{"content":[{"type":"text","text":"after all"}],"odd":1}}`
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":` + result + `}`))
	}))
	t.Cleanup(web.Close)
	return web.URL
}

func TestTask(t *testing.T) {
	var polls atomic.Int64
	y := remote(t, map[string]gateway.Server{"tasks": {Type: "http", URL: fixture(t, &polls)}})
	y.start(t, "tasks")
	c := &client{capabilities: `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`, input: func(r map[string]tool.InputRequest) (map[string]json.RawMessage, error) {
		return map[string]json.RawMessage{"k": json.RawMessage(`{"action":"accept"}`)}, nil
	}}
	r := y.must(t, "tasks", "long", `{}`, &host{client: c})
	if r.TextContent() != "after all" || string(r.Foreign.Members) != `"odd":1` {
		t.Errorf("result: %s %s", r.TextContent(), r.Foreign.Members)
	}
}

func TestParseServer(t *testing.T) {
	tests := []struct {
		name, entry string
		want        string // in the fault; "" is none
		note        string
	}{
		{"a", `{"command": "x"}`, "", ""},
		{"a", `{"command": ["x", "y"], "environment": {"A": 1}}`, "", ""},
		{"a", `{"url": "https://x.test"}`, "", ""},
		{"a", `{"type": "streamable-http", "url": "${HOST}/mcp"}`, "", ""},
		{"a", `{"command": "x", "autoApprove": ["y"]}`, "", "autoApprove has no effect"},
		{"a", `{"command": "x", "comand": "y"}`, "", "did you mean command"},
		{"a", `{}`, "a command or a url", ""},
		{"a", `[]`, "an object", ""},
		{"a", `null`, "an object", ""},
		{"a b", `{"command": "x"}`, "a name of", ""},
		{"a", `{"url": "file:///etc/passwd"}`, "url", ""},
		{"a", `{"type": "ws", "url": "https://x.test"}`, "ws://", ""},
		{"a", `{"command": "x", "timeout": "soon"}`, "timeout", ""},
		{"a", `{"command": "x", "timeout": 1e300}`, "timeout", ""},
		{"a", `{"command": "x", "sandbox": {"netwrok": []}}`, "network", ""},
		{"a", `{"command": "x", "sandbox": {"network": ["not a host"]}}`, "sandbox.network", ""},
		{"a", `{"command": "x", "pin": "maybe"}`, "pin", ""},
		{"a", `{"command": "x", "tools": {"rename": {"a": "b c"}}}`, "tools.rename.a", ""},
	}
	for _, test := range tests {
		_, notes, err := gateway.ParseServer(test.name, json.RawMessage(test.entry))
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.entry, err, test.want)
		}
		if got := strings.Join(notes, "; "); !strings.Contains(got, test.note) || test.note == "" && got != "" {
			t.Errorf("%s: notes %q, want %q", test.entry, got, test.note)
		}
	}
}

func FuzzParseServer(f *testing.F) {
	f.Add("a", []byte(`{"command": "x", "args": ["y"], "env": {"A": "${B:-c}"}, "sandbox": {"memory": "1GiB", "network": "all"}}`))
	f.Add("b", []byte(`{"url": "wss://x.test", "tools": ["a*"], "sampling": true, "oauth": false, "pin": false, "timeout": "3d"}`))
	f.Fuzz(func(t *testing.T, name string, raw []byte) {
		s, _, err := gateway.ParseServer(name, raw)
		if err != nil {
			return
		}
		again, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := gateway.ParseServer(name, again); err != nil {
			t.Errorf("%s becomes %s: %v", raw, again, err)
		}
	})
}
