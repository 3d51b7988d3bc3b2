//go:build amd64 || arm64

package toolyard_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/sandbox/sandboxtest"
)

// TestDocker: bash in a container, with the toolchains of this machine.
func TestDocker(t *testing.T) {
	daemon := sandboxtest.Dockerd(t)
	yard, dir := open(t, map[string]string{"in": "text\n", ".env": "SECRET=1\n", "script": "echo x > .env\n"}, func(c *toolyard.Config) {
		c.Sandbox = toolyard.Sandbox{Driver: "docker", DockerHost: "unix://" + daemon.Socket}
	})
	r := call(t, yard, "bash", map[string]any{"command": "cat in > out; git init -q .; bash script; pwd; touch ~/file; ls -a /"})
	if got := r.TextContent(); !strings.Contains(got, dir+"\n") || !strings.Contains(got, ".toolyard") || !strings.Contains(got, ".env: Read-only file system") {
		t.Errorf("got %q, want the workspace, a container's root and a refusal", got)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "out")); string(text) != "text\n" || err != nil {
		t.Errorf("made %q, %v", text, err)
	}
	if r.Meta.Sandbox == nil || r.Meta.Sandbox.Level != "docker" {
		t.Errorf("meta %+v, want the level docker", r.Meta)
	}
	found := false
	for _, c := range yard.Doctor(t.Context()) {
		found = found || c.Name == "sandbox" && c.Status == "ok" && strings.HasPrefix(c.Detail, "driver docker, level docker: container, ")
	}
	if !found {
		t.Errorf("the doctor says %+v, want the driver", yard.Doctor(t.Context()))
	}
}

func TestSandboxDriver(t *testing.T) {
	for _, c := range []struct {
		name string
		set  toolyard.Sandbox
		want string
	}{
		{"unknown", toolyard.Sandbox{Driver: "podman"}, `"podman"`},
		{"an image without containers", toolyard.Sandbox{Image: "debian:13"}, `"debian:13"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			yard, err := toolyard.New(toolyard.Config{Home: t.TempDir(), Sandbox: c.set})
			if err == nil {
				yard.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s refused", err, c.want)
			}
		})
	}
}
