package upstream_test

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/gateway/upstream"
)

// TestEverythingServer is a conversation with the server that the SDK's own
// conformance is measured with, as a program of its own.
func TestEverythingServer(t *testing.T) {
	program := filepath.Join(t.TempDir(), "everything-server")
	if out, err := exec.Command("go", "build", "-o", program, "github.com/modelcontextprotocol/go-sdk/conformance/everything-server").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, tt := range []struct {
		name, version string
		config        func(t *testing.T) upstream.Config
	}{
		{"stdio", "2026-07-28", func(t *testing.T) upstream.Config { return upstream.Config{Stdio: start(t, program)} }},
		{"stdio, a session", "2025-11-25", func(t *testing.T) upstream.Config {
			return upstream.Config{Stdio: start(t, program), Session: true}
		}},
		{"http", "2026-07-28", func(t *testing.T) upstream.Config {
			return upstream.Config{HTTP: &upstream.HTTP{URL: listen(t, program, "-stateless=true")}}
		}},
		{"http, a session", "2025-11-25", func(t *testing.T) upstream.Config {
			return upstream.Config{HTTP: &upstream.HTTP{URL: listen(t, program, "-stateless=false")}}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conf := tt.config(t)
			conf.Capabilities = json.RawMessage(`{"sampling":{},"elicitation":{"form":{}}}`)
			c := dial(t, conf)
			if c.Version() != tt.version {
				t.Fatalf("version %s, want %s", c.Version(), tt.version)
			}
			converse(t, c, tt.name)
		})
	}
}

func converse(t *testing.T, c *upstream.Client, how string) {
	ctx := within(t)
	list, err := c.Call(ctx, upstream.Request{Method: "tools/list"})
	if err != nil {
		t.Fatal(err)
	}
	var tools struct {
		Tools []struct {
			Name        string
			InputSchema json.RawMessage
		}
	}
	if err := json.Unmarshal(list, &tools); err != nil || len(tools.Tools) < 20 {
		t.Fatalf("%d tools, %v", len(tools.Tools), err)
	}
	if !c.Stateless() {
		if _, err := c.Call(ctx, upstream.Request{Method: "logging/setLevel", Params: json.RawMessage(`{"level":"debug"}`)}); err != nil {
			t.Fatal(err)
		}
	}
	arguments := map[string]string{
		"test_sampling": `{"prompt":"p"}`, "test_elicitation": `{"message":"m"}`, "test_x_mcp_header": `{"region":"日本","verbose":true,"priority":3}`,
		"json_schema_2020_12_tool": `{"name":"n"}`,
	}
	progress, logs := 0, 0
	var asked atomic.Int64 // questions come side by side
	for _, tool := range tools.Tools {
		if strings.HasPrefix(tool.Name, "test_trigger") || strings.HasPrefix(tool.Name, "__") {
			continue
		}
		if tool.Name == "test_reconnection" && how == "http, a session" {
			continue // this server keeps no events to take a stream up again with
		}
		headers, err := upstream.HeadersOf(tool.InputSchema)
		if err != nil {
			t.Errorf("%s: %v", tool.Name, err)
		}
		args := arguments[tool.Name]
		if args == "" {
			args = "{}"
		}
		result, err := c.Call(ctx, upstream.Request{Method: "tools/call", Params: params(tool.Name, args), Headers: headers, LogLevel: "debug", Client: "c",
			Capabilities: json.RawMessage(`{"sampling":{},"elicitation":{"form":{}},"roots":{}}`),
			Progress:     func(json.RawMessage) { progress++ }, Log: func(json.RawMessage) { logs++ },
			Ask: func(_ context.Context, method string, _ json.RawMessage) (json.RawMessage, *upstream.Error) {
				asked.Add(1)
				return map[string]json.RawMessage{
					"elicitation/create":     json.RawMessage(`{"action":"decline"}`),
					"sampling/createMessage": json.RawMessage(`{"role":"assistant","content":{"type":"text","text":"hi"},"model":"m"}`),
				}[method], nil
			}})
		if _, answered := err.(*upstream.Error); err != nil && !answered {
			t.Errorf("%s: %v", tool.Name, err)
		} else if err == nil && !json.Valid(result) {
			t.Errorf("%s: %s", tool.Name, result)
		}
	}
	if progress < 3 || logs < 3 || !c.Stateless() && asked.Load() < 4 {
		t.Errorf("%d of progress, %d of the log, %d asked", progress, logs, asked.Load())
	}
	read, err := c.Call(ctx, upstream.Request{Method: "resources/read", Params: json.RawMessage(`{"uri":"test://static-text"}`)})
	if err != nil || !strings.Contains(string(read), "test://static-text") {
		t.Errorf("resource %s, %v", read, err)
	}
	if got := c.Counters(); got != (upstream.Counters{}) {
		t.Errorf("counters %+v", got)
	}
}

// start starts a program that speaks over its standard streams.
func start(t *testing.T, program string, args ...string) *upstream.Stdio {
	cmd := exec.Command(program, args...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return &upstream.Stdio{Stdin: in, Stdout: out}
}

// listen starts a program that speaks over HTTP and waits until it does.
func listen(t *testing.T, program string, args ...string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	start(t, program, append(args, "-http", address)...)
	for deadline := time.Now().Add(patience); ; {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			conn.Close()
			return "http://" + address
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
