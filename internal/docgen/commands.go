package docgen

import (
	"fmt"
	"strings"

	"github.com/toolyard/toolyard/internal/cli"
)

// commands is the help of every command, with the exit codes at the end.
func commands() (string, error) {
	var b strings.Builder
	for i, c := range cli.Reference() {
		title := strings.TrimPrefix(c.Name, "toolyard ")
		if i == 0 {
			title = "Flags of every command"
		}
		long := c.Long
		if long == "" {
			long = c.Short + "."
		}
		fmt.Fprintf(&b, "## %s\n\n```\n%s\n```\n\n", title, c.Usage)
		for paragraph := range strings.SplitSeq(long, "\n\n") {
			if strings.HasPrefix(paragraph, " ") { // something to copy
				fmt.Fprintf(&b, "```\n%s\n```\n\n", strings.TrimSpace(paragraph))
				continue
			}
			b.WriteString(escape(paragraph) + "\n\n")
		}
		if len(c.Flags) > 0 {
			b.WriteString("| flag | does |\n|---|---|\n")
			for _, f := range c.Flags {
				name := f.Name
				if f.Shorthand != "" {
					name = f.Shorthand + ", " + name
				}
				fmt.Fprintf(&b, "| %s | %s |\n", code(strings.TrimSpace(name+" "+f.Value)), escape(f.Usage))
			}
			b.WriteString("\n")
		}
		if c.Example != "" {
			fmt.Fprintf(&b, "```console\n%s\n```\n\n", strings.TrimSpace(c.Example))
		}
	}
	b.WriteString("## Exit codes\n\n| code | means |\n|---|---|\n")
	for _, e := range cli.ExitCodes() {
		fmt.Fprintf(&b, "| %d | %s |\n", e.Code, cell(e.Meaning))
	}
	return b.String(), nil
}
