package shell

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/workspace"
	"github.com/toolyard/toolyard/tool"
)

//go:embed bash.md
var bashManual string

const (
	defaultTimeout = 300 // seconds
	maxTimeout     = 600 // seconds
	// afterwards is what a call may take beside its command: the start, the looks
	// at the workspace, the end of the tree.
	afterwards = 30 * time.Second
	// maxStored is how much one command may print where nothing else is set.
	maxStored = 1 << 30
)

// pastDeadline ends a write that waits.
var pastDeadline = time.Unix(1, 0)

type bashIn struct {
	Command     string `json:"command" jsonschema:"the command, as bash -c takes it; minLength=1; format=command"`
	Timeout     int    `json:"timeout,omitempty" jsonschema:"seconds until it is moved to the background or killed; default=300; min=1; max=600"`
	WorkingDir  string `json:"working_dir,omitempty" jsonschema:"directory inside the workspace, its root if not given; format=path"`
	Background  bool   `json:"run_in_background,omitempty" jsonschema:"return at once with a job id"`
	TTY         bool   `json:"tty,omitempty" jsonschema:"run on a terminal, for programs that want one"`
	OnTimeout   string `json:"on_timeout,omitempty" jsonschema:"what happens at the timeout; default=background; enum=background|kill"`
	Description string `json:"description,omitempty" jsonschema:"what the command is for, in a few words"`
}

type bashOut struct {
	ExitCode    *int   `json:"exit_code,omitempty" jsonschema:"of the command, missing while it runs"`
	StdoutBytes int64  `json:"stdout_bytes" jsonschema:"bytes printed to stdout"`
	StderrBytes int64  `json:"stderr_bytes" jsonschema:"bytes printed to stderr"`
	Status      string `json:"status" jsonschema:"whether it runs on; enum=exited|running|killed"`
	JobID       string `json:"job_id,omitempty" jsonschema:"the job that it became"`
}

// bash is the tool with what a call needs to know before it runs.
type bash struct {
	tool.Tool
	deps  Deps
	carry *carry
}

var (
	_ tool.Timeouter = (*bash)(nil)
	_ tool.Validator = (*bash)(nil)
	_ tool.Permitter = (*bash)(nil)
)

func newBash(d Deps) tool.Tool {
	b := &bash{deps: d, carry: newCarry(d.Carry)}
	b.Tool = tool.New(tool.Spec{
		Name:  "bash",
		Title: "Run a command",
		Description: "Runs a shell command in the workspace, confined by a kernel sandbox: it can write only inside the workspace, /tmp and its own home, and " + reach(d.Network) + ". " +
			"Use it to build, test and run programs. To read, search and change files use read, grep, glob and edit: they are faster and exact. " +
			"A command that exceeds its timeout goes on as a background job (see job_output).",
		Manual:          bashManual,
		Category:        "shell",
		Effects:         tool.Execute | tool.Write,
		Default:         tool.Allow,
		Destructive:     true,
		ConcurrencySafe: true,
		Timeout:         defaultTimeout*time.Second + afterwards,
		MaxTimeout:      maxTimeout*time.Second + afterwards,
		Limitations: []string{
			networkLimit(d.Network),
			"Protected paths such as .git/hooks and .env are read-only unless a rule opens them for write.",
		},
	}, b.run)
	return b
}

// CallTimeout leaves the limit of the command to the tool itself.
func (b *bash) CallTimeout(req *tool.Request) time.Duration {
	in, err := tool.Arguments[bashIn](req)
	if err != nil || in.Timeout == 0 {
		return 0
	}
	return time.Duration(in.Timeout)*time.Second + afterwards
}

// Validate refuses what cannot be meant.
func (b *bash) Validate(req *tool.Request) []tool.Fault {
	in, err := tool.Arguments[bashIn](req)
	if err != nil {
		return nil
	}
	if i := strings.IndexByte(in.Command, 0); i >= 0 {
		return []tool.Fault{{Path: "command", Expected: "a command without NUL bytes", Got: fmt.Sprintf("a NUL at byte %d", i)}}
	}
	if in.Background && b.deps.Jobs == nil {
		return []tool.Fault{{Path: "run_in_background", Expected: "false: this runtime ends with the call and keeps no jobs", Got: "true"}}
	}
	return nil
}

// Permit asks about each command where there is no sandbox.
func (b *bash) Permit(ctx context.Context, _ *tool.Request, verdict tool.Action) (tool.Action, string) {
	if b.deps.Ask != nil && b.deps.Ask(ctx) {
		return max(verdict, tool.Ask), "there is no sandbox on this machine, and the operator allows running without one"
	}
	return verdict, ""
}

func (b *bash) run(ctx context.Context, req *tool.Request, in bashIn) (*tool.Result, bashOut, error) {
	if b.deps.Harm != nil {
		if reason, harmful := b.deps.Harm(in.Command); harmful {
			return nil, bashOut{}, tool.Errorf(tool.PermissionDenied, "the command is refused: %s", reason).
				WithHint("Say more exactly what is to be removed or written, inside the workspace.")
		}
	}
	ws, err := b.deps.Workspace(req.Workspace)
	if err != nil {
		return nil, bashOut{}, err
	}
	confinement, err := b.deps.Confine(ctx, req)
	if err != nil {
		return nil, bashOut{}, err
	}
	dir, err := workingDir(ws, in.WorkingDir)
	if err != nil {
		return nil, bashOut{}, err
	}
	state := b.carry.before(req, in.WorkingDir, ws, confinement)
	if state.dir != "" {
		dir = state.dir
	}
	confinement.Env = append(confinement.Env, state.env...)

	var observation Observation
	if b.deps.Observe != nil {
		if observation, err = b.deps.Observe(ctx, req, ws.Dir()); err != nil {
			return nil, bashOut{}, err
		}
	}
	end := func() []string {
		if observation == nil {
			return nil
		}
		return observation.End(context.WithoutCancel(ctx), req)
	}
	sp := newSpool(b.deps.spoolPath(req.CallID), b.deps.stored())
	args := []string{confinement.Shell, "-c", in.Command}
	if state.script != "" {
		args = []string{confinement.Shell, "-c", state.script, "bash", in.Command}
	}
	var output tool.OutputWriter
	if !in.Background && req.Host != nil {
		if output, err = req.Host.Output(ctx); err != nil {
			return nil, bashOut{}, err
		}
		sp.attach(output)
	}
	cmd, err := start(ctx, b.deps, confinement, options{args: args, dir: dir, tty: in.TTY, input: in.Background || in.TTY, spool: sp})
	if err != nil {
		sp.detach()
		if output != nil {
			_, closeErr := output.Close()
			err = errors.Join(err, closeErr)
		}
		end()
		return nil, bashOut{}, tool.AsError(err)
	}
	if in.Background {
		return b.background(ctx, req, in, cmd, end)
	}
	return b.foreground(ctx, req, in, cmd, output, end, state)
}

// workingDir resolves working_dir to a directory.
func workingDir(ws *workspace.Workspace, name string) (string, error) {
	if name == "" {
		name = "."
	}
	p, err := ws.Resolve(name, workspace.Read)
	if err != nil {
		return "", err
	}
	switch {
	case !p.Exists():
		return "", tool.Errorf(tool.NotFound, "working_dir %s does not exist", p.Display).WithHint("Use list to see the directories.")
	case !p.Info.IsDir():
		return "", tool.Errorf(tool.ParameterError, "working_dir %s is not a directory", p.Display).WithHint("Use list to see the directories.")
	}
	return p.Real, nil
}

// background returns at once; the job goes on.
func (b *bash) background(ctx context.Context, req *tool.Request, in bashIn, cmd *command, end func() []string) (*tool.Result, bashOut, error) {
	id, err := b.deps.Jobs.adopt(ctx, req, in.Command, cmd, end)
	if err != nil {
		cmd.kill("killed")
		<-cmd.done
		end()
		return nil, bashOut{}, err
	}
	text := fmt.Sprintf("started as job %s. Use job_output to read what it prints, job_input to write to it, job_kill to end it.", id)
	return tool.Text(text), bashOut{Status: "running", JobID: id}, nil
}

// foreground waits for the command, its time limit, or the end of the call.
func (b *bash) foreground(ctx context.Context, req *tool.Request, in bashIn, cmd *command, output tool.OutputWriter, end func() []string, state carried) (*tool.Result, bashOut, error) {
	limit := time.Duration(in.Timeout) * time.Second
	if limit == 0 {
		limit = defaultTimeout * time.Second
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	timedOut := false
	select {
	case <-cmd.done:
	case <-ctx.Done():
		cmd.kill("killed")
		<-cmd.done
	case <-timer.C:
		timedOut = true
		if in.OnTimeout != "kill" && b.deps.Jobs != nil {
			return b.moveToBackground(ctx, req, in, cmd, output, end, limit)
		}
		cmd.kill("wall")
		<-cmd.done
	}
	cmd.spool.detach()
	defer cmd.spool.discard()
	summary, err := closeOutput(output, cmd.spool)
	if err != nil {
		return nil, bashOut{}, err
	}
	notes := end()
	b.carry.after(req, state)
	reportUsage(req, cmd.result)
	if ctx.Err() != nil && !timedOut {
		result := tool.Text(summary.Text)
		return result, bashOut{}, context.Cause(ctx)
	}
	return finish(in, cmd, summary, notes, limit)
}

// moveToBackground turns a command that took too long into a job. It is not an
// error.
func (b *bash) moveToBackground(ctx context.Context, req *tool.Request, in bashIn, cmd *command, output tool.OutputWriter, end func() []string, limit time.Duration) (*tool.Result, bashOut, error) {
	cmd.spool.detach()
	id, err := b.deps.Jobs.adopt(ctx, req, in.Command, cmd, end)
	if err != nil {
		cmd.kill("wall")
		<-cmd.done
		end()
		_, closeErr := closeOutput(output, cmd.spool)
		cmd.spool.discard()
		return nil, bashOut{}, errors.Join(err, closeErr)
	}
	summary, err := closeOutput(output, cmd.spool)
	if err != nil {
		return nil, bashOut{}, err
	}
	_, counts := cmd.spool.total()
	text := joinText(summary.Text, fmt.Sprintf("[still running after %s; it goes on as job %s: job_output reads what comes, job_kill ends it]", limit, id))
	out := bashOut{Status: "running", JobID: id, StdoutBytes: counts["stdout"], StderrBytes: counts["stderr"]}
	return withSummary(tool.Text(text), summary), out, nil
}

// closeOutput ends the call's output. Without a host the spool is all there is.
func closeOutput(output tool.OutputWriter, sp *spool) (tool.OutputSummary, error) {
	if output != nil {
		summary, err := output.Close()
		if errors.Is(err, tool.ErrOutputLimit) {
			err = nil // the command was ended for it, which the result says
		}
		return summary, err
	}
	size, counts := sp.total()
	buf := make([]byte, min(size, tool.DefaultMaxOutput))
	n, _, err := sp.readAt(buf, size-int64(len(buf)))
	if err != nil && size > 0 {
		return tool.OutputSummary{}, err
	}
	return tool.OutputSummary{Text: strings.ToValidUTF8(string(buf[:n]), "\uFFFD"), Bytes: counts, Truncated: int64(n) < size}, nil
}

func withSummary(r *tool.Result, s tool.OutputSummary) *tool.Result {
	r.Meta.Truncated, r.Meta.OutputHandle = s.Truncated, s.Handle
	return r
}

// joinText puts parts on lines of their own, without the empty ones.
func joinText(parts ...string) string {
	var kept []string
	for _, part := range parts {
		if part = strings.TrimRight(part, "\n"); part != "" {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, "\n")
}

// spoolPath is where the output of a call's command goes if it becomes a job.
func (d Deps) spoolPath(callID string) string {
	if d.Jobs == nil {
		return ""
	}
	return filepath.Join(d.Jobs.config.Dir, "call-"+callID)
}

func (d Deps) stored() int64 {
	if d.Jobs != nil {
		return d.Jobs.config.Stored
	}
	return maxStored
}
