package server

import (
	"context"
	"net/http"
	"testing"

	"github.com/coder/websocket"

	"github.com/toolyard/toolyard/internal/server/mcp"
)

// TestSocketIsGuarded: a WebSocket is behind the same checks as everything else,
// and a page may offer its token as a subprotocol.
func TestSocketIsGuarded(t *testing.T) {
	r := start(t, Config{MCP: mcp.New(mcp.Config{Executor: &slow{}, Catalog: one{}}), Origins: []string{"https://tools.example"}})
	for _, tt := range []struct {
		name      string
		protocols []string
		header    http.Header
		want      int
	}{
		{"no token", []string{"mcp"}, nil, 401},
		{"header", []string{"mcp"}, http.Header{"Authorization": {"Bearer " + r.token}}, 101},
		{"wrong header", []string{"mcp"}, http.Header{"Authorization": {"Bearer no"}}, 401},
		{"offered", []string{"mcp", offeredToken + r.token}, nil, 101},
		{"offered first", []string{offeredToken + r.token, "mcp"}, nil, 101},
		{"offered alone", []string{offeredToken + r.token}, nil, 400},
		{"wrong offer", []string{"mcp", offeredToken + "no"}, nil, 401},
		{"empty offer", []string{"mcp", offeredToken}, nil, 401},
		{"a header holds", []string{"mcp", offeredToken + r.token}, http.Header{"Authorization": {"Bearer no"}}, 401},
		{"a page of ours", []string{"mcp", offeredToken + r.token}, http.Header{"Origin": {"https://tools.example"}}, 101},
		{"a page of others", []string{"mcp", offeredToken + r.token}, http.Header{"Origin": {"https://evil.example"}}, 403},
		{"a page without a name", []string{"mcp", offeredToken + r.token}, http.Header{"Origin": {"null"}}, 403},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ws, answer, err := websocket.Dial(t.Context(), r.URL+"/ws", &websocket.DialOptions{Subprotocols: tt.protocols, HTTPHeader: tt.header})
			if answer == nil {
				t.Fatal(err)
			}
			if answer.StatusCode != tt.want {
				t.Errorf("status %d, want %d", answer.StatusCode, tt.want)
			}
			if err == nil {
				if got := ws.Subprotocol(); got != "mcp" {
					t.Errorf("agreed on %q", got)
				}
				_ = ws.CloseNow()
			}
		})
	}
	// Nothing but a WebSocket takes a token from there.
	if status, _, _ := r.get(t, "/mcp", "Sec-WebSocket-Protocol", offeredToken+r.token); status != 401 {
		t.Errorf("/mcp takes it too: %d", status)
	}
	// It is told when the server stops.
	ws, _, err := websocket.Dial(t.Context(), r.URL+"/ws", &websocket.DialOptions{Subprotocols: []string{"mcp", offeredToken + r.token}})
	if err != nil {
		t.Fatal(err)
	}
	r.stop()
	if _, _, err := ws.Read(context.Background()); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("when the server stops: %v", err)
	}
}
