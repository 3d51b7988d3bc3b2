//go:build !linux || !(amd64 || arm64)

package docker

import (
	"context"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/tool"
)

// Runner runs commands in containers; on this system it refuses to.
type Runner struct{}

var _ sandbox.Runner = (*Runner)(nil)

// New makes a Runner.
func New(Config) *Runner { return &Runner{} }

// Probe says that there is nothing.
func (r *Runner) Probe(context.Context) sandbox.Report {
	return sandbox.Report{Layers: []string{}, Missing: []sandbox.Missing{{
		Layer: "docker", Reason: "the Docker driver looks into its containers, which only Linux lets it do", Fix: "Run Toolyard on Linux, on amd64 or arm64.",
	}}}
}

// Start refuses.
func (r *Runner) Start(ctx context.Context, _ sandbox.Cmd) (sandbox.Process, error) {
	return nil, tool.Errorf(tool.SandboxUnavailable, "commands cannot be run in containers on this system").
		WithHint("Run Toolyard on Linux.")
}

// Close does nothing.
func (r *Runner) Close() error { return nil }
