package builtin_test

import (
	"context"
	"testing"

	"github.com/toolyard/toolyard/builtin"
	"github.com/toolyard/toolyard/builtin/artifacts"
	edittools "github.com/toolyard/toolyard/builtin/edit"
	"github.com/toolyard/toolyard/builtin/files"
	"github.com/toolyard/toolyard/builtin/shell"
	"github.com/toolyard/toolyard/internal/artifact"
	"github.com/toolyard/toolyard/internal/edit"
	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/store/memory"
	"github.com/toolyard/toolyard/internal/workspace"
	"github.com/toolyard/toolyard/tool"
	"github.com/toolyard/toolyard/tool/tooltest"
)

// TestContract holds every built-in tool to the contract that all tools pass.
func TestContract(t *testing.T) {
	ws, err := workspace.Open(workspace.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Close() })
	rows := memory.New()
	kept, err := artifact.Open(t.TempDir(), rows)
	if err != nil {
		t.Fatal(err)
	}
	open := func(string) (*workspace.Workspace, error) { return ws, nil }
	engine := edit.New(edit.Config{Sessions: rows, Journal: rows, Blobs: t.TempDir()})
	jobs := shell.NewJobs(shell.JobsConfig{Rows: rows, Dir: t.TempDir(), Runtime: "test"})
	t.Cleanup(func() { jobs.Close() })
	tools := builtin.Tools(builtin.Deps{
		Files: files.Deps{Workspace: open, Edit: engine},
		Edit:  edittools.Deps{Workspace: open, Edit: engine},
		Shell: shell.Deps{
			Workspace: open, Jobs: jobs,
			Start: func(context.Context, sandbox.Cmd) (sandbox.Process, error) {
				return nil, tool.Errorf(tool.SandboxUnavailable, "nothing runs in this test")
			},
			Confine: func(context.Context, *tool.Request) (shell.Confinement, error) {
				return shell.Confinement{Shell: "/bin/sh"}, nil
			},
		},
		Artifacts: artifacts.Deps{Artifacts: kept},
	})
	tooltest.TestAll(t, tools, nil)
}
