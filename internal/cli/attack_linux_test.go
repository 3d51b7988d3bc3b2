package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/sandbox/sandboxtest"
	"github.com/toolyard/toolyard/tool"
)

// attackHelper is for test processes that are a body of an attack.
func attackHelper() { sandboxtest.Main() }

// TestSandboxRunAttacks runs the attack corpus through `toolyard sandbox run`.
func TestSandboxRunAttacks(t *testing.T) {
	box := sandbox.New(sandbox.Config{})
	report := box.Probe(t.Context())
	box.Close()
	corpus := sandboxtest.NewCorpus(t)
	corpus.Skip = func(a *sandboxtest.Attack) string {
		switch {
		case a.Needs == "terminal":
			return "a terminal of its own is the tool's, not the program's"
		case slices.ContainsFunc(a.Limit, func(l string) bool { return strings.HasPrefix(l, "tmp=") }):
			return "it has no flag for the size of /tmp"
		case strings.HasPrefix(a.Stdin, "OUT"), a.Stdin == "RO":
			return "a directory is refused as standard input"
		}
		return ""
	}
	corpus.Attack(t, sandboxtest.Through(report, sandboxRun), report.Level)
}

// sandboxRun runs one command and believes the last line of stderr.
func sandboxRun(ctx context.Context, c sandbox.Cmd) (result sandbox.Result, err error) {
	args := []string{"sandbox", "run", "--json", "--cwd", c.Dir}
	for _, path := range c.Profile.Read {
		if _, err := os.Stat(path); err == nil {
			args = append(args, "--read", path)
		}
	}
	for _, path := range c.Profile.Write {
		args = append(args, "--write", path)
	}
	for _, path := range c.Profile.Deny {
		args = append(args, "--deny", path)
	}
	for _, e := range c.Env {
		args = append(args, "--env", e)
	}
	for flag, n := range map[string]int64{"--memory": c.Profile.Memory, "--pids": int64(c.Profile.PIDs), "--nofile": int64(c.Profile.Files), "--disk": c.Profile.Disk} {
		if n > 0 {
			args = append(args, flag, fmt.Sprint(n))
		}
	}
	if d := c.Profile.CPU; d > 0 {
		args = append(args, "--cpu", d.String())
	}
	if d := c.Profile.Wall; d > 0 {
		args = append(args, "--wall", d.String())
	}
	for _, entry := range c.Profile.Network.Domains {
		args = append(args, "--net", entry)
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, binary, append(append(args, "--"), c.Args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, c.Stdout, &stderr
	if c.Stdin == nil {
		cmd.Stdin = nil
	}
	_ = cmd.Run() // the report says how it ended
	if ctx.Err() != nil {
		return sandbox.Result{}, nil // a rival that is told to end, with no time to report
	}
	text := strings.TrimRight(stderr.String(), "\n")
	at := strings.LastIndexByte(text, '\n') + 1
	_, _ = c.Stdout.WriteString(text[:at])
	var r sandboxLine
	if err := json.Unmarshal([]byte(text[at:]), &r); err != nil {
		_, _ = c.Stdout.WriteString(text[at:])
		return sandbox.Result{}, fmt.Errorf("the last line of stderr is no report: %w", err)
	}
	return sandbox.Result{Ending: r.Ending, Peaks: r.Peaks, Sandbox: r.Sandbox, Violations: r.Violations}, nil
}

// sandboxLine is the line of --json.
type sandboxLine struct {
	Sandbox    tool.SandboxMeta    `json:"sandbox"`
	Ending     tool.Ending         `json:"ending"`
	Peaks      tool.Peaks          `json:"peaks"`
	Violations []sandbox.Violation `json:"violations"`
}
