package server

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/internal/server/mcp"
	"github.com/toolyard/toolyard/tool"
)

type same struct{ r *tool.Result }

func (s *same) Call(context.Context, executor.Call) *tool.Result { return s.r }

// nowhere takes an answer.
type nowhere struct {
	header http.Header
	status int
}

func (n *nowhere) Header() http.Header         { return n.header }
func (n *nowhere) WriteHeader(status int)      { n.status = status }
func (n *nowhere) Write(b []byte) (int, error) { return len(b), nil }

// BenchmarkCall is what lies between net/http and the executor: the guard, the
// table of paths and MCP.
func BenchmarkCall(b *testing.B) {
	const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello, world"},"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	c := Config{Auth: AuthNone, MCP: mcp.New(mcp.Config{Executor: &same{tool.Text("hello, world")}, Catalog: one{}})}
	g := &guard{config: c, bound: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8765}}
	handler := g.wrap(routes(c, b.Context(), nil))
	r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "http://127.0.0.1:8765/mcp", nil)
	if err != nil {
		b.Fatal(err)
	}
	r.RemoteAddr, r.ContentLength = "127.0.0.1:50000", int64(len(body))
	for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "echo"} {
		r.Header.Set(k, v)
	}
	b.ReportAllocs()
	for b.Loop() {
		one, w := *r, nowhere{header: http.Header{}, status: http.StatusOK}
		one.Body = io.NopCloser(strings.NewReader(body))
		if handler.ServeHTTP(&w, &one); w.status != http.StatusOK {
			b.Fatal(w.status)
		}
	}
}
