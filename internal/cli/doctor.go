package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/deploy"
	"github.com/toolyard/toolyard/internal/clients"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/sandbox"
)

func newDoctor(p *program) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "doctor [CLIENT]",
		Short: "Say what holds on this machine and what to do about the rest",
		Long: "Checks the home, the record, the configuration, the sandbox (by applying it), the\n" +
			"programs that tools use, and how a client would reach this. Where the sandbox is not\n" +
			"at full strength it says what is missing, why, how to have it, and what is not\n" +
			"stopped without. It fails only where something does not work.\n\n" +
			"The clients of this machine are looked at as well: whether they are connected, and\n" +
			"whether what they would start answers, which is tried. With CLIENT only that one.",
		Example: "toolyard doctor\n" +
			"toolyard doctor claude-code\n" +
			"toolyard doctor --print apparmor | sudo tee /etc/apparmor.d/toolyard\n" +
			"toolyard doctor --print seccomp > seccomp.json",
		Args:      args(0, 1, ""),
		ValidArgs: clients.Names(false),
		RunE: func(c *cobra.Command, args []string) error {
			if file != "" {
				return p.printFile(file)
			}
			if len(args) == 0 {
				return p.doctor(c.Context(), p.checks)
			}
			if _, ok := clients.Find(args[0]); !ok {
				return noClient(args[0], clients.Names(false))
			}
			return p.doctor(c.Context(), func(ctx context.Context) []check { return p.onlyClient(ctx, args[0]) })
		},
	}
	c.Flags().StringVar(&file, "print", "", "print a `FILE` for the machine instead: apparmor (a profile for Ubuntu 24.04 and later), seccomp (for Docker's --security-opt), systemd or systemd-user (a service)")
	return c
}

// printFile prints one of the files that are installed around the program. Those
// that name the program name this one.
func (p *program) printFile(name string) error {
	content := string(deploy.File(name))
	if content == "" {
		return oneOf("print", name, deploy.Names()...)
	}
	const installed = "/usr/local/bin/toolyard"
	path, err := os.Executable()
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err == nil && name == "apparmor" {
		content = strings.Replace(content, installed, strconv.Quote(path), 1)
	}
	if err == nil && name == "systemd" {
		content = strings.ReplaceAll(content, installed, path)
	}
	_, err = fmt.Fprint(p.stdout, content)
	return err
}

// check is one line of the doctor as JSON.
type check struct {
	Name   string `json:"name"`
	Status string `json:"status"` // ok, warn or fail
	Detail string `json:"detail,omitempty"`
	Fix    string `json:"fix,omitempty"`
	// Items are the parts of a detail that is a list.
	Items []string `json:"items,omitempty"`
}

func (p *program) doctor(ctx context.Context, look func(context.Context) []check) error {
	g := p.progress("looking")
	checks := look(ctx)
	g.end()
	failed := false
	for _, c := range checks {
		failed = failed || c.Status == "fail"
	}
	if p.flags.json {
		if err := p.printJSON(checks); err != nil {
			return err
		}
	} else {
		p.printChecks(checks)
	}
	if failed {
		return &ended{exitFailed}
	}
	return nil
}

// checks are those of the program around the runtime's own. A configuration that
// cannot be read is a check that failed, not the end.
func (p *program) checks(ctx context.Context) []check {
	checks := []check{{Name: "program", Status: "ok", Detail: programLine()}}
	if _, err := p.settings(openOptions{}, nil); err != nil {
		what, hint := words(err)
		return append(append(checks, check{Name: "configuration", Status: "fail", Detail: strings.ReplaceAll(what, "\n ", ";"), Fix: hint}), sandboxChecks(ctx)...)
	}
	settings, db, err := p.record(ctx, openOptions{})
	if err != nil {
		what, hint := words(err)
		return append(append(checks, check{Name: "record", Status: "fail", Detail: what, Fix: hint}), sandboxChecks(ctx)...)
	}
	checks = append(checks, configChecks(settings)...)
	y, err := p.start(settings, db, openOptions{keepJobs: true})
	if err != nil {
		what, hint := words(err)
		return append(checks, check{Name: "start", Status: "fail", Detail: what, Fix: hint})
	}
	defer y.close()
	for _, c := range y.Doctor(ctx) {
		checks = append(checks, checkOf(c))
	}
	return append(append(checks, gitCheck(), clientCheck(y.workspace)), p.onlyClient(ctx, "")...)
}

// onlyClient looks at one client, or with "" at those of this machine.
func (p *program) onlyClient(ctx context.Context, name string) []check {
	checks, err := p.clientChecks(ctx, name)
	if err != nil {
		what, hint := words(err)
		checks = append(checks, check{Name: "clients", Status: "fail", Detail: what, Fix: hint})
	}
	return checks
}

// configChecks says which files count.
func configChecks(settings *config.Loaded) []check {
	var checks []check
	var read []string
	for _, f := range settings.Files {
		switch f.State {
		case config.Read:
			read = append(read, f.Path)
		case config.Untrusted:
			checks = append(checks, check{Name: "trust", Status: "warn", Detail: f.Path + " is not trusted, so it does not count", Fix: "Look at it, then run `toolyard trust`."})
		}
	}
	detail := "no file; everything is at its default"
	if len(read) > 0 {
		detail = strings.Join(read, ", ")
	}
	return append([]check{{Name: "configuration", Status: "ok", Detail: detail}}, checks...)
}

func checkOf(c toolyard.Check) check { return check(c) }

// sandboxChecks is what this machine's kernel gives commands, where the runtime
// that would say so cannot be started.
func sandboxChecks(ctx context.Context) []check {
	box := sandbox.New(sandbox.Config{})
	defer box.Close()
	report := box.Probe(ctx)
	first := check{Name: "sandbox", Status: "ok", Detail: "level none"}
	if report.Level != "" {
		first.Detail = fmt.Sprintf("level %s: %s", report.Level, strings.Join(report.Layers, ", "))
	}
	if !report.Level.AtLeast(sandbox.L2) {
		first.Status, first.Items = "warn", report.Gaps()
	}
	checks := []check{first}
	for _, m := range report.Missing {
		if m.Fix != "" {
			checks = append(checks, check{Name: "missing: " + m.Layer, Status: "warn", Detail: m.Reason, Fix: m.Fix})
		}
	}
	return checks
}

func programLine() string {
	b := thisBuild()
	line := b.Version + ", " + b.Go + ", " + b.OS + "/" + b.Arch
	if path, err := os.Executable(); err == nil {
		line += ", " + path
	}
	return line
}

// gitCheck says whether git is there. Nothing needs it; with it undo finds the
// old content of what a command changed without having copied it.
func gitCheck() check {
	if path := lookPath("git"); path != "" {
		return check{Name: "git", Status: "ok", Detail: path}
	}
	return check{Name: "git", Status: "warn", Detail: "not on PATH", Fix: "Install git, so that undo can restore tracked files of any size after bash."}
}

// clientCheck says how a client would start this program.
func clientCheck(workspace string) check {
	path, err := os.Executable()
	if err != nil {
		return check{Name: "client", Status: "warn", Detail: fmt.Sprintf("this program does not know where it lies: %v", err), Fix: "Give clients its absolute path."}
	}
	detail := fmt.Sprintf("an MCP client starts: %s mcp --workspace %s", path, workspace)
	if found := lookPath(filepath.Base(path)); found == "" {
		return check{Name: "client", Status: "ok", Detail: detail, Fix: "It is not on PATH, so give clients the whole path."}
	}
	return check{Name: "client", Status: "ok", Detail: detail}
}

// lookPath finds a program on PATH; "" if it is not there.
func lookPath(name string) string {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}

func (p *program) printChecks(checks []check) {
	marks := map[string]string{"ok": p.out.green("✓"), "warn": p.out.yellow("!"), "fail": p.out.red("✗")}
	width := 0
	for _, c := range checks {
		width = max(width, len(c.Name))
	}
	margin := fmt.Sprintf("\n%*s", width+5, "")
	bad := 0
	for i, c := range checks {
		if i+1 < len(checks) && checks[i+1].Fix == c.Fix {
			c.Fix = "" // said once, below the last that it mends
		}
		fmt.Fprintf(p.stdout, "%s %s  %s\n", marks[c.Status], p.out.bold(fmt.Sprintf("%-*s", width, c.Name)), wrap(printable(c.Detail), 100-width, margin[:len(margin)-1]))
		for _, item := range c.Items {
			fmt.Fprintf(p.stdout, "  %*s  - %s\n", width, "", wrap(printable(item), 98-width, margin+" "))
		}
		if c.Fix != "" {
			fmt.Fprintf(p.stdout, "  %*s  %s %s\n", width, "", p.out.dim("→"), wrap(printable(c.Fix), 98-width, margin+" "))
		}
		if c.Status == "fail" {
			bad++
		}
	}
	switch bad {
	case 0:
		fmt.Fprintln(p.stdout, "\nReady.")
	default:
		fmt.Fprintf(p.stdout, "\n%d of %d checks failed.\n", bad, len(checks))
	}
}
