package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/sandbox/docker"
	"github.com/toolyard/toolyard/tool"
)

// The exit codes of `sandbox run` that are not the command's.
const (
	exitOwnFailure = 125
	exitNoExecute  = 126
	exitNotFound   = 127
	exitKilled     = 128 + 9
)

// sandboxReport is the last line of stderr with --json, whatever happens.
type sandboxReport struct {
	Sandbox    tool.SandboxMeta    `json:"sandbox"`
	Ending     tool.Ending         `json:"ending"`
	Peaks      tool.Peaks          `json:"peaks"`
	Violations []sandbox.Violation `json:"violations"`
	Error      *reportedError      `json:"error,omitempty"`
}

// reportedError is why a command did not run. Its ending has the reason "exit" if
// it could not be executed, as in a shell, else "error".
type reportedError struct {
	Code    string `json:"code,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// runSandboxed runs a command and passes on how it ended.
func (p *program) runSandboxed(ctx context.Context, cmd sandbox.Cmd) error {
	box := runner(cmd.Profile)
	defer box.Close()
	// Signals are the command's, so none of them ends the context: it would kill.
	ctx = context.WithoutCancel(ctx)
	result, err := p.runIn(ctx, box, cmd)
	if err != nil {
		return &sandboxError{err, box.Probe(ctx)}
	}
	if p.flags.json {
		// A line of its own, whatever the command has printed last: it might have
		// begun one that looks like the report.
		_, _ = io.WriteString(p.stderr, "\n")
		p.printReport(sandboxReport{Sandbox: result.Sandbox, Ending: result.Ending, Peaks: result.Peaks, Violations: result.Violations})
	} else {
		p.sayEnding(cmd.Profile.Defaults(), result)
	}
	if result.Ending.Code != exitOK {
		return &ended{result.Ending.Code}
	}
	return nil
}

// runner is what runs a command: this machine's kernel, or a container for it
// where the level is docker.
func runner(p sandbox.Profile) sandbox.Runner {
	if p.MinLevel == sandbox.Docker {
		return docker.New(docker.Config{Host: os.Getenv("DOCKER_HOST")})
	}
	return sandbox.New(sandbox.Config{AllowRanges: namedRanges(p.Network), Once: true})
}

// namedRanges are the addresses that a network names: what may be reached there
// by address may be by a granted name as well, which is how a mirror in a private
// range is granted.
func namedRanges(n sandbox.Network) []netip.Prefix {
	entries, err := n.Entries()
	if err != nil {
		return nil // Start says so
	}
	var ranges []netip.Prefix
	for _, e := range entries {
		if e.Host == "" && e.Port == 0 {
			ranges = append(ranges, e.Prefix)
		}
	}
	return ranges
}

// runIn runs a command to its end and to that of all that it started.
func (p *program) runIn(ctx context.Context, box sandbox.Runner, cmd sandbox.Cmd) (sandbox.Result, error) {
	streams, err := p.streams(&cmd)
	if err != nil {
		return sandbox.Result{}, err
	}
	defer streams.close()
	signals := catchSignals()
	defer signals.stop()
	process, err := box.Start(ctx, cmd)
	if err != nil {
		return sandbox.Result{}, err
	}
	defer process.Close()
	signals.forward(process)
	if err := streams.run(process); err != nil {
		return sandbox.Result{}, err
	}
	process.Wait(ctx)
	// What the command left behind still holds its streams: it goes first.
	process.Kill(sandbox.EndKilled)
	streams.finish()
	if err := process.Close(); err != nil {
		return sandbox.Result{}, err
	}
	// Once more: what happened to protected paths is known at the very end.
	result := process.Wait(ctx)
	if streams.failed != nil {
		return result, fmt.Errorf("passing on what the command printed: %w", streams.failed)
	}
	if streams.cut {
		result.Ending.Reason = sandbox.EndOutput // it may have ended before that was seen
	}
	if result.Ending.Code == exitOK && result.Ending.Reason != sandbox.EndExit {
		// A command that a limit ended has not succeeded, whatever what was left of it
		// said.
		result.Ending.Code = exitKilled
	}
	return result, nil
}

// printReport prints the one line of --json, which is the last of stderr.
func (p *program) printReport(r sandboxReport) {
	if r.Violations == nil {
		r.Violations = []sandbox.Violation{}
	}
	if r.Sandbox.Layers == nil {
		r.Sandbox.Layers = []string{}
	}
	if r.Sandbox.Missing == nil {
		r.Sandbox.Missing = []string{}
	}
	enc := json.NewEncoder(p.stderr)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(r) // nowhere is left to say that stderr is gone
}

// sayEnding tells a person what the exit code does not: that a limit ended the
// command, what it was kept from, and that the sandbox was a weaker one.
func (p *program) sayEnding(profile sandbox.Profile, r sandbox.Result) {
	if text := endingText(profile, r.Ending.Reason); text != "" {
		p.complain("ended by "+r.Ending.Reason+": "+text, "")
	}
	const most = 10 // violations that are shown
	var said []string
	for _, v := range r.Violations {
		line := v.Rule
		if !strings.HasPrefix(line, v.Kind+":") {
			line = v.Kind + ": " + v.Target + ": " + v.Rule
		}
		if slices.Contains(said, line) {
			continue
		}
		if len(said) == most {
			p.complain("more was refused; --json lists it", "")
			break
		}
		said = append(said, line)
		p.complain(line, "")
	}
	if level := sandbox.Level(r.Sandbox.Level); p.errTTY && !level.AtLeast(sandbox.L2b) {
		p.note("toolyard: this machine gives level %s, which stops less than L2: `toolyard doctor` says what and why", level)
	}
}

// endingText says which limit an ending was; "" if it was none.
func endingText(p sandbox.Profile, reason string) string {
	switch reason {
	case sandbox.EndWall:
		return fmt.Sprintf("it took longer than %s (--wall)", p.Wall)
	case sandbox.EndCPU:
		return fmt.Sprintf("it used more than %s of CPU time (--cpu)", p.CPU)
	case sandbox.EndMemory:
		return fmt.Sprintf("it used more than %s (--memory)", bytesText(p.Memory))
	case sandbox.EndPIDs:
		return fmt.Sprintf("it had more than %d processes and threads (--pids)", p.PIDs)
	case sandbox.EndDisk:
		return fmt.Sprintf("it wrote more than %s (--disk)", bytesText(p.Disk))
	case sandbox.EndOutput:
		return fmt.Sprintf("it printed more than %s (--output)", bytesText(p.Output))
	case sandbox.EndKilled:
		return "it was told to end twice"
	}
	return ""
}

// sandboxError is why a command did not run, with what was measured.
type sandboxError struct {
	err    error
	report sandbox.Report
}

func (e *sandboxError) Error() string { return e.err.Error() }
func (e *sandboxError) Unwrap() error { return e.err }

// exitOfRun ends `sandbox run` after a failure of its own.
func (p *program) exitOfRun(err error, args []string) int {
	code := codeOfStart(err)
	what, hint := words(err)
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	if !p.flags.json && !slices.Contains(args, "--json") { // it may stand behind the flag that is wrong
		p.complain(what, hint)
		return code
	}
	r := sandboxReport{Ending: tool.Ending{Reason: "error", Code: code}, Error: &reportedError{Message: what, Hint: hint}}
	if code == exitNoExecute || code == exitNotFound {
		r.Ending.Reason = sandbox.EndExit
	}
	if e, ok := errors.AsType[*tool.Error](err); ok {
		r.Error.Code = string(e.Code)
	}
	if e, ok := errors.AsType[*sandboxError](err); ok {
		r.Sandbox = tool.SandboxMeta{Level: string(e.report.Level), Layers: e.report.Layers}
		for _, m := range e.report.Missing {
			r.Sandbox.Missing = append(r.Sandbox.Missing, m.Layer)
		}
	}
	p.printReport(r)
	return code
}

// codeOfStart is the exit code of a command that did not run.
func codeOfStart(err error) int {
	if _, ok := errors.AsType[*usageError](err); ok {
		return exitUsage
	}
	e, ok := errors.AsType[*tool.Error](err)
	switch {
	case !ok:
		return exitOwnFailure
	case e.Code == tool.ParameterError:
		return exitUsage
	case e.Code == tool.NotFound && errors.Is(e.Err, fs.ErrNotExist):
		return exitNotFound
	case e.Code == tool.NotFound:
		return exitNoExecute
	}
	return exitOwnFailure
}
