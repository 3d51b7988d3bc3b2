package toolyard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/sandbox/sandboxtest"
)

func TestMain(m *testing.M) {
	sandboxtest.Main()
	os.Exit(m.Run())
}

// TestBashAttacks runs the attack corpus through the tool bash. Each body is in
// a file, so that the policy has nothing to object to and the sandbox is alone.
func TestBashAttacks(t *testing.T) {
	box := sandbox.New(sandbox.Config{})
	report := box.Probe(t.Context())
	box.Close()
	corpus := sandboxtest.NewCorpus(t)
	corpus.Skip = func(a *sandboxtest.Attack) string {
		switch {
		case a.Needs != "":
			return "the tool gives no " + a.Needs
		case len(a.Net) > 0, len(a.Env) > 0, a.Stdin != "", len(a.Write) > 0, len(a.Limit) > 0:
			return "the tool's caller cannot set environment, standard input, directories or limits"
		case slices.ContainsFunc(a.Deny, func(p string) bool { return strings.HasPrefix(p, "$") }):
			return "denied paths lie in the workspace"
		case a.Category == "kernel-surface", a.Category == "environment", a.Category == "supply-chain":
			return "the same sandbox, attacked in its own tests"
		}
		return ""
	}
	corpus.Attack(t, sandboxtest.Through(report, func(ctx context.Context, c sandbox.Cmd) (sandbox.Result, error) { return bash(t, ctx, c) }), report.Level)
}

// bash runs one command by the tool.
func bash(t *testing.T, ctx context.Context, c sandbox.Cmd) (sandbox.Result, error) {
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
	script := "exec env"
	for _, word := range slices.Concat(c.Env, c.Args) {
		script += " " + quote(word)
	}
	f, err := os.CreateTemp(c.Dir, "run-*.sh")
	if err != nil {
		return sandbox.Result{}, err
	}
	if _, err := f.WriteString(script + "\n"); err != nil {
		return sandbox.Result{}, err
	}
	if err := f.Close(); err != nil {
		return sandbox.Result{}, err
	}
	config := toolyard.Config{
		Home: t.TempDir(), Workspaces: []string{c.Dir}, Path: os.Getenv("PATH"), KeepJobs: true, Mode: "trusted",
	}
	// What is granted besides the machine's programs: a directory, and the helper
	// in the test's own.
	for _, path := range c.Profile.Read[:2] {
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			path = filepath.Dir(path)
		}
		config.Directories.Read = append(config.Directories.Read, path)
	}
	for _, path := range c.Profile.Deny {
		config.Permissions.Deny = append(config.Permissions.Deny, toolyard.Rule{Text: "read(/" + path + ")"}, toolyard.Rule{Text: "read(/" + path + "/**)"})
	}
	yard, err := toolyard.New(config)
	if err != nil {
		return sandbox.Result{}, err
	}
	raw, err := json.Marshal(map[string]any{"command": "bash ./" + filepath.Base(f.Name()), "timeout": 60, "on_timeout": "kill"})
	if err != nil {
		return sandbox.Result{}, err
	}
	r := yard.Call(ctx, toolyard.Call{Tool: "bash", Arguments: raw})
	_, _ = c.Stdout.WriteString(r.TextContent())
	if r.Err != nil {
		fmt.Fprintf(c.Stdout, "\n%s: %s", r.Err.Code, r.Err.Message)
	}
	if err := yard.Close(); err != nil {
		return sandbox.Result{}, err
	}
	var result sandbox.Result
	if r.Meta.Ending != nil {
		result.Ending = *r.Meta.Ending
	}
	return result, nil
}
