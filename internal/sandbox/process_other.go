//go:build !linux || !(amd64 || arm64)

package sandbox

import (
	"context"
	"log/slog"
	"os"
	"syscall"

	"github.com/toolyard/toolyard/tool"
)

// local is a Process of this machine's kernel. There are none on this system.
type local struct{}

type groups struct{ log *slog.Logger }

type ahead struct{ log *slog.Logger }

type launcher struct{ executable string }

// Close does nothing.
func (s *Sandbox) Close() error { return nil }

func machineTrust() []string { return nil }

// measured is what a probe found.
type measured struct{ report Report }

func (s *Sandbox) measure(context.Context) *measured {
	return &measured{Report{Level: L0, Layers: []string{}, Missing: []Missing{{
		Layer: "kernel", Reason: "this system has no kernel sandbox that Toolyard knows how to use",
		Fix: "Run Toolyard on Linux 5.13 or newer, on amd64 or arm64.",
	}}}}
}

func (s *Sandbox) strongest() *measured { return nil }

func (s *Sandbox) start(context.Context, Cmd, *measured) (*local, error) {
	return nil, tool.Errorf(tool.SandboxUnavailable, "commands cannot be confined on this system").
		WithHint("Run Toolyard on Linux 5.13 or newer.")
}

func (p *local) Wait(context.Context) Result { return Result{} }
func (p *local) Done() <-chan struct{}       { return nil }
func (p *local) Kill(string)                 {}
func (p *local) Close() error                { return nil }
func (p *local) Signal(syscall.Signal) error { return nil }
func (p *local) Usage() tool.Peaks           { return tool.Peaks{} }
func (p *local) PTY() *os.File               { return nil }
func (p *local) PID() int                    { return 0 }
