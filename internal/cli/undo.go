package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

func newUndo(p *program) *cobra.Command {
	var file, session string
	var turn, dryRun bool
	c := &cobra.Command{
		Use:   "undo [ID] [--file PATH|--turn] [--dry-run]",
		Short: "Take back what a call, a turn or a bash command changed",
		Long: "Restores files as they were before a call: the last one of your session here, or the\n" +
			"call ID of anybody's (`toolyard log` shows them). A file that has been changed since\n" +
			"is left alone and named. Typing this is the permission for it.",
		Example: "toolyard undo --dry-run\ntoolyard undo call_1f2e3d4c5b6a7988\ntoolyard undo --file src/main.go\ntoolyard undo --turn",
		Args:    args(0, 1, ""),
		RunE: func(c *cobra.Command, args []string) error {
			in := undoArguments{DryRun: dryRun}
			switch {
			case file != "" && turn:
				return usagef("--file and --turn do not go together")
			case file != "":
				absolute, err := filepath.Abs(file)
				if err != nil {
					return err
				}
				in.Scope, in.File = "file", absolute
			case turn:
				in.Scope = "turn"
			}
			if len(args) > 0 {
				in.ID = args[0]
			}
			return p.undo(c.Context(), in, session)
		},
	}
	c.Flags().StringVar(&file, "file", "", "only a file: the last change to `PATH`")
	c.Flags().BoolVar(&turn, "turn", false, "everything of the last turn, or of the turn ID")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be restored and change nothing")
	c.Flags().StringVar(&session, "session", "", "whose last change, if no ID is given: a session `ID` (default: yours in this workspace)")
	return c
}

// undoArguments are those of the tool undo.
type undoArguments struct {
	ID     string `json:"id,omitempty"`
	Scope  string `json:"scope,omitempty"`
	File   string `json:"file_path,omitempty"`
	DryRun bool   `json:"dry_run,omitempty"`
}

func (p *program) undo(ctx context.Context, in undoArguments, session string) error {
	y, err := p.open(ctx, openOptions{})
	if err != nil {
		return err
	}
	defer y.close()
	arguments, err := json.Marshal(in)
	if err != nil {
		return err
	}
	result := y.Call(ctx, toolyard.Call{
		Tool: "undo", Arguments: arguments, Session: y.session(session), Workspace: y.workspace,
		Origin: "cli", Asker: consent{},
	})
	if wasInterrupted(ctx) {
		return context.Cause(ctx)
	}
	if result.Err == nil || result.Err.Code != tool.NotFound {
		return p.printResult(result)
	}
	if in.ID == "" && in.File == "" {
		y.nameLastChange(ctx, result.Err)
		result.Content = []tool.Content{{Kind: tool.KindText, Text: result.Err.Text()}}
	}
	err = p.printResult(result)
	if in.ID != "" {
		return &ended{exitUnknown}
	}
	return err
}

// nameLastChange says in the hint which change of anybody in this workspace is
// the last, since the caller's session has none.
func (y *yard) nameLastChange(ctx context.Context, err *tool.Error) {
	changes, e := y.store.ListChanges(ctx, store.ChangeFilter{Workspace: y.workspace, State: "done", Limit: 1})
	if e != nil || len(changes) == 0 {
		return
	}
	c := changes[0]
	what := "somebody"
	if s, e := y.store.Session(ctx, c.Session); e == nil {
		what = s.Client
	}
	err.Hint = fmt.Sprintf("The last change in this workspace is by %s, to %s: `toolyard undo %s`.", what, filepath.Base(c.Path), c.Call)
}
