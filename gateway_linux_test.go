package toolyard_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/tool"
)

// TestGateway: another server's tools are called, judged and reloaded as ours.
func TestGateway(t *testing.T) {
	script, err := filepath.Abs("internal/gateway/testdata/server.py")
	if err != nil {
		t.Fatal(err)
	}
	entry := func(change func(*toolyard.MCPServer)) toolyard.MCPServer {
		s := toolyard.MCPServer{Type: "stdio", Command: "/usr/bin/python3", Args: []string{script, "good"}}
		change(&s)
		return s
	}
	var config toolyard.Config
	yard, dir := open(t, map[string]string{"a.txt": "alpha"}, func(c *toolyard.Config) {
		c.MCP = toolyard.MCP{On: true, Environ: []string{"WHO=Ada"}, Servers: map[string]toolyard.MCPServer{
			"plain": entry(func(s *toolyard.MCPServer) {
				s.Permissions.Allow, s.Permissions.Deny = []string{"read", "env"}, []string{"fail"}
				s.Env = map[string]string{"GREETING": "hello ${WHO}"}
			}),
			"wrong": entry(func(s *toolyard.MCPServer) { s.Permissions.Allow = []string{"read("} }),
		}}
		config = *c
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	yard.AwaitTool(ctx, "plain:echo")
	if text := ok(t, call(t, yard, "plain:echo", map[string]any{"a": 1})); !strings.Contains(text, `"a": 1`) {
		t.Errorf("echo: %s", text)
	}
	if text := ok(t, call(t, yard, "plain__read", map[string]any{"path": filepath.Join(dir, "a.txt")})); text != "alpha" {
		t.Errorf("read: %s", text)
	}
	if text := ok(t, call(t, yard, "plain:env", nil)); !strings.Contains(text, "hello Ada") {
		t.Errorf("env: %s", text)
	}
	if r := call(t, yard, "plain:fail", nil); r.Err == nil || r.Err.Code != tool.PermissionDenied {
		t.Errorf("what is denied: %+v", r.Err)
	}
	if r := call(t, yard, "plain:write", map[string]any{"path": "x"}); r.Err == nil || r.Err.Details["reason"] != "no_channel" {
		t.Errorf("what must be asked: %+v", r.Err)
	}
	list, err := yard.Gateway().List(ctx)
	if err != nil || len(list) != 2 || list[1].Problem == "" {
		t.Errorf("list: %+v, %v", list, err)
	}

	other := config
	other.MCP.Servers = map[string]toolyard.MCPServer{"second": entry(func(*toolyard.MCPServer) {})}
	if _, err := yard.Reload(ctx, other); err != nil {
		t.Fatal(err)
	}
	if r := call(t, yard, "plain:echo", nil); r.Err == nil || r.Err.Code != tool.ToolNotFound {
		t.Errorf("a server that is gone: %+v", r)
	}
	yard.AwaitTool(ctx, "second:echo")
	ok(t, call(t, yard, "second:echo", nil))
}
