// Package shell is the family of tools that run commands: bash and the tools
// that watch its background jobs. Commands run in the sandbox; the family knows
// neither permissions nor what a sandbox is made of.
package shell

import (
	"context"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/workspace"
	"github.com/toolyard/toolyard/tool"
)

// Deps is what the family needs. Workspace, Start and Confine are required.
type Deps struct {
	// Workspace opens the workspace of a request.
	Workspace func(dir string) (*workspace.Workspace, error)
	// Start runs a command confined.
	Start func(ctx context.Context, cmd sandbox.Cmd) (sandbox.Process, error)
	// Confine gives the grant of a request: what its commands may touch and their
	// environment.
	Confine func(ctx context.Context, req *tool.Request) (Confinement, error)
	// Jobs keeps what runs on after its call. Nil refuses background commands,
	// and a command that exceeds its time is killed.
	Jobs *Jobs
	// Harm tells why a command is refused as obvious self-harm. Nil refuses none.
	Harm func(command string) (reason string, harmful bool)
	// Observe watches the workspace around a command, so that what it changes can
	// be undone. Nil observes nothing.
	Observe func(ctx context.Context, req *tool.Request, dir string) (Observation, error)
	// Carry is what a session's next command starts with: "off" (also ""), "cwd"
	// or "env" (the directory and the exported variables).
	Carry string
	// Network names what commands can reach, for the model: entries as in
	// [sandbox.Network], or the one word "all". Empty says that there is no network.
	Network []string
	// Ask says that without a sandbox each command is asked about: the operator
	// allows level L0 and nothing better can be had.
	Ask func(ctx context.Context) bool
}

// Confinement is what a request's commands may touch.
type Confinement struct {
	Profile sandbox.Profile
	// Env is the whole environment: HOME is the workspace's private home.
	Env []string
	// Home is the private home.
	Home string
	// Shell is the absolute path of bash, or of sh where there is no bash.
	Shell string
}

// Observation is a look at the workspace before a command.
type Observation interface {
	// End looks again and keeps what changed. It returns sentences on what undo
	// does not cover.
	End(ctx context.Context, req *tool.Request) []string
}

// Tools lists the family. To add a tool: a file with its constructor, a manual
// beside it, a line here.
func Tools(d Deps) []tool.Tool {
	tools := []tool.Tool{newBash(d)}
	if d.Jobs != nil {
		tools = append(tools,
			newJobList(d.Jobs),
			newJobOutput(d.Jobs),
			newJobInput(d.Jobs),
			newJobKill(d.Jobs),
		)
	}
	return tools
}
