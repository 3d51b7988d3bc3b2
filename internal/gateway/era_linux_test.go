package gateway_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolyard/toolyard/internal/gateway"
	"github.com/toolyard/toolyard/tool"
)

// TestEras: a server that speaks both eras meets each client in its own.
func TestEras(t *testing.T) {
	var runs, opened atomic.Int64
	s := goServer(&runs)
	s.AddTool(&sdk.Tool{Name: "ask", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		answer, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: "sure?", RequestedSchema: json.RawMessage(`{"type":"object"}`)})
		if err != nil {
			return nil, err
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: answer.Action}}}, nil
	})
	get := func(*http.Request) *sdk.Server { return s }
	stateless, sessions := sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{Stateless: true}), sdk.NewStreamableHTTPHandler(get, nil)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Protocol-Version") == "2026-07-28" {
			stateless.ServeHTTP(w, r)
			return
		}
		if r.Method == http.MethodPost && r.Header.Get("Mcp-Session-Id") == "" {
			opened.Add(1)
		}
		sessions.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	y := remote(t, map[string]gateway.Server{"go": {Type: "http", URL: web.URL}})
	t.Cleanup(web.CloseClientConnections)
	y.start(t, "go")
	accept := func(r map[string]tool.InputRequest) (map[string]json.RawMessage, error) {
		out := map[string]json.RawMessage{}
		for key := range r {
			out[key] = json.RawMessage(`{"action":"accept","content":{}}`)
		}
		return out, nil
	}
	modern := &client{capabilities: `{"elicitation":{}}`, meta: `{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`, input: accept}
	older := &client{capabilities: `{"elicitation":{}}`, input: accept}
	silent := &client{capabilities: `{}`}

	if r := y.must(t, "go", "deploy", `{}`, &host{client: modern}); !strings.HasPrefix(r.TextContent(), "here") {
		t.Errorf("a stateless client: %s", r.TextContent())
	}
	y.must(t, "go", "echo", `{"word":"hi"}`, &host{client: silent})
	if n := opened.Load(); n != 0 {
		t.Errorf("%d sessions were opened before somebody needed one", n)
	}
	for range 2 {
		if r := y.must(t, "go", "ask", `{}`, &host{client: older}); r.TextContent() != "accept" {
			t.Errorf("a client of the session era: %s", r.TextContent())
		}
	}
	if n := opened.Load(); n != 1 {
		t.Errorf("%d sessions were opened, want one for all", n)
	}
	if got := y.status(t, "go"); got.State != gateway.Ready || got.Protocol != "2026-07-28" {
		t.Errorf("the server is known as %+v", got)
	}
	if err := y.Stop(t.Context(), "go"); err != nil {
		t.Fatal(err)
	}
	if got := y.status(t, "go"); got.State != gateway.Stopped {
		t.Errorf("stopped: %+v", got)
	}
}
