package docgen

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/toolyard/toolyard/internal/sandbox/seccomp"
)

// seccompRules is the table of system calls that the sandbox refuses.
func seccompRules() (string, error) {
	var b strings.Builder
	for _, c := range seccomp.Rules() {
		fmt.Fprintf(&b, "## %s\n\n| system calls | when | answer | because |\n|---|---|---|---|\n", c.Name)
		for _, r := range c.Rules {
			calls := make([]string, len(r.Calls))
			for i, name := range r.Calls {
				calls[i] = name
				if name != "every call" {
					calls[i] = code(name)
				}
			}
			when := r.When
			if when == "" {
				when = "always"
			}
			if r.Shared {
				when += ", at L1"
			}
			if r.Only != "" {
				when += " (" + r.Only + ")"
			}
			answer := r.Answer
			if answer != "killed" {
				answer = code(answer)
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", strings.Join(calls, ", "), escape(when), answer, escape(r.Reason))
		}
		b.WriteString("\n")
	}
	return b.String(), nil
}

// systemCall is a line of the tables of golang.org/x/sys: a name and a number.
var systemCall = regexp.MustCompile(`(?m)^\tSYS_([A-Z0-9_]+)\s+= (\d+)$`)

// containerProfile is the Docker seccomp profile, with the names of all system
// calls from the tables of golang.org/x/sys.
func containerProfile() ([]byte, error) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys").Output()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, architecture := range []string{"amd64", "arm64"} {
		table, err := os.ReadFile(filepath.Join(string(bytes.TrimSpace(dir)), "unix", "zsysnum_linux_"+architecture+".go"))
		if err != nil {
			return nil, err
		}
		for _, m := range systemCall.FindAllSubmatch(table, -1) {
			if n, err := strconv.Atoi(string(m[2])); err != nil || n <= seccomp.LastKnown {
				name := strings.ToLower(string(m[1]))
				if name == "fstatat" { // the package's own name
					name = "newfstatat"
				}
				names = append(names, name)
			}
		}
	}
	if len(names) < 600 {
		return nil, fmt.Errorf("only %d system calls", len(names))
	}
	return seccomp.ContainerJSON(names)
}
