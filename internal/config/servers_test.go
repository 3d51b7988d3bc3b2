package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A project's servers count only once the project is trusted as it is, and may
// not open more than the operator's own.
func TestProjectServers(t *testing.T) {
	home, dir := t.TempDir(), t.TempDir()
	text := `{"mcpServers": {"team": {"command": "x", "trust": true, "sandbox": {"level": "L0"}}, "bad": {"args": []}}}`
	if err := os.WriteFile(filepath.Join(dir, ".mcp.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{Flags: Flags{Home: home}, Environ: []string{}, Managed: "-", Dir: dir}
	l := mustLoad(t, o)
	if len(l.Config.MCP.Servers) != 0 || !strings.Contains(strings.Join(l.Notes, "\n"), "is not trusted") {
		t.Errorf("not trusted: %v, notes %q", l.Config.MCP.Servers, l.Notes)
	}
	sum, err := Sum(dir)
	if err != nil || sum == "" {
		t.Fatalf("sum %q, %v", sum, err)
	}
	o.Trusted = func(string) (string, error) { return sum, nil }
	l = mustLoad(t, o)
	s, ok := l.Config.MCP.Servers["team"]
	if !ok || s.Trust || s.Sandbox.Level != "" || s.Workspace != dir {
		t.Errorf("trusted: %+v", l.Config.MCP.Servers)
	}
	if !slices.ContainsFunc(l.Notes, func(n string) bool { return strings.Contains(n, `"bad"`) }) {
		t.Errorf("notes: %q", l.Notes)
	}
	if err := os.WriteFile(filepath.Join(dir, ".mcp.json"), []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if l = mustLoad(t, o); len(l.Config.MCP.Servers) != 0 {
		t.Errorf("changed since: %v", l.Config.MCP.Servers)
	}
}
