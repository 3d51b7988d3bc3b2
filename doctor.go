package toolyard

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/toolyard/toolyard/internal/sandbox"
)

// Check is one thing that holds on this machine or does not.
type Check struct {
	Name   string `json:"name"`
	Status string `json:"status"` // ok, warn, fail
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"` // what to do about it
	// Items are the parts of a detail that is a list.
	Items []string `json:"items,omitempty"`
}

// Doctor looks at what the tools need: the sandbox, the home, the record, the
// workspaces, the programs.
func (t *Toolyard) Doctor(ctx context.Context) []Check {
	var checks []Check
	add := func(name, status, detail, fix string) {
		checks = append(checks, Check{Name: name, Status: status, Detail: detail, Fix: fix})
	}
	checks = append(checks, t.checkSandbox(ctx)...)
	add(t.checkHome())
	if _, err := t.store.LastEventID(ctx); err != nil {
		add("record", "fail", err.Error(), "Move the database away to begin a new record.")
	} else {
		add("record", "ok", "can be read", "")
	}
	if roots := t.workspaces.names(); len(roots) == 0 {
		add("workspace", "warn", "none", "Start with --workspace DIR.")
	} else {
		add("workspace", "ok", strings.Join(roots, ", "), "")
	}
	if name := firstShell(); name == "" {
		add("shell", "fail", "there is neither bash nor sh", "Install bash.")
	} else {
		add("shell", "ok", name, "")
	}
	chain := t.confine.toolchain()
	add("toolchains", "ok", "readable in the sandbox: "+strings.Join(chain.Path, ", "), "")
	return checks
}

// checkSandbox says what protects commands here, what is missing, and what is not
// stopped for that.
func (t *Toolyard) checkSandbox(ctx context.Context) []Check {
	report := t.sandbox.Probe(ctx)
	floor := t.confine.level
	if floor == "" {
		floor = sandbox.L1
	}
	check := Check{Name: "sandbox", Status: "ok", Detail: fmt.Sprintf("driver %s, level %s: %s",
		cmp.Or(t.config.Sandbox.Driver, "local"), cmp.Or(report.Level, "none"), strings.Join(report.Layers, ", "))}
	switch {
	case !report.Level.AtLeast(floor):
		check.Status, check.Fix = "fail", "bash is refused on this machine below level "+string(floor)+"; see what is missing."
	case !report.Level.AtLeast(sandbox.L2):
		check.Status = "warn"
	}
	checks := []Check{check}
	for _, m := range report.Missing {
		if m.Fix == "" {
			continue // it is among the gaps
		}
		checks = append(checks, Check{Name: "missing: " + m.Layer, Status: "warn", Detail: m.Reason, Fix: m.Fix})
	}
	if gaps := report.Gaps(); len(gaps) > 0 {
		checks = append(checks, Check{Name: "not stopped", Status: "warn", Detail: fmt.Sprintf("what level %s leaves open and L2 would not:", report.Level), Items: gaps})
	}
	return checks
}

func (t *Toolyard) checkHome() (name, status, detail, fix string) {
	file, err := os.CreateTemp(t.config.Home, ".doctor-*")
	if err != nil {
		return "home", "fail", err.Error(), "Make " + t.config.Home + " writable, or choose another with --home DIR."
	}
	file.Close()
	os.Remove(filepath.Clean(file.Name()))
	info, err := os.Stat(t.config.Home)
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		return "home", "warn", fmt.Sprintf("%s can be read by others (mode %v)", t.config.Home, info.Mode().Perm()), "chmod 700 " + t.config.Home
	}
	return "home", "ok", t.config.Home, ""
}
