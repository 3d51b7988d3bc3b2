package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/toolyard/toolyard"
)

func newMan(p *program) *cobra.Command {
	return &cobra.Command{
		Use:   "man",
		Short: "Print the manual page",
		Example: "toolyard man | man -l -\n" +
			"toolyard man > /usr/local/share/man/man1/toolyard.1",
		Args: args(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			writeMan(p.stdout, c.Root())
			return nil
		},
	}
}

// writeMan writes the tree of commands as one page of man(7). cobra's own writer
// would bring a Markdown parser into every start of the program.
func writeMan(w io.Writer, root *cobra.Command) {
	fmt.Fprintf(w, ".TH TOOLYARD 1 \"\" \"toolyard %s\" \"User Commands\"\n", roff(toolyard.Version))
	fmt.Fprintf(w, ".SH NAME\ntoolyard \\- %s\n", roff(lowerFirst(root.Short)))
	fmt.Fprint(w, ".SH SYNOPSIS\n.B toolyard\n.I COMMAND\n[flags]\n")
	fmt.Fprintf(w, ".SH DESCRIPTION\n%s\n", roff(root.Long))
	fmt.Fprint(w, ".SH COMMANDS\n")
	for _, g := range root.Groups() {
		for _, c := range root.Commands() {
			if c.GroupID == g.ID {
				manCommand(w, c)
			}
		}
	}
	fmt.Fprint(w, ".SH FLAGS OF EVERY COMMAND\n")
	manFlags(w, root.PersistentFlags())
	fmt.Fprint(w, ".SH EXIT STATUS\n")
	for _, row := range exitCodes {
		fmt.Fprintf(w, ".TP\n.B %d\n%s\n", row.Code, roff(row.Meaning))
	}
	fmt.Fprint(w, ".SH ENVIRONMENT\n.TP\n.B TOOLYARD_HOME\nWhere records and settings are kept.\n"+
		".TP\n.B TOOLYARD_*\nAny setting of the configuration: TOOLYARD_SANDBOX__MEMORY is sandbox.memory.\n"+
		".TP\n.B NO_COLOR\nNo colours.\n")
}

func manCommand(w io.Writer, c *cobra.Command) {
	if !c.IsAvailableCommand() {
		return
	}
	if c.HasAvailableSubCommands() {
		for _, child := range c.Commands() {
			manCommand(w, child)
		}
		return
	}
	fmt.Fprintf(w, ".SS %s\n%s\n", roff(c.UseLine()), roff(text(c)))
	manFlags(w, localFlags(c))
	if c.Example != "" {
		fmt.Fprintf(w, ".PP\n.nf\n%s\n.fi\n", roff(c.Example))
	}
}

// text is the long description of a command, or the short one as a sentence.
func text(c *cobra.Command) string {
	if c.Long != "" {
		return c.Long
	}
	return c.Short + "."
}

func manFlags(w io.Writer, set *pflag.FlagSet) {
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		fmt.Fprintf(w, ".TP\n.B %s", roff(name))
		if f.Value.Type() != "bool" && value != "" {
			fmt.Fprintf(w, " %s", roff(value))
		}
		fmt.Fprintf(w, "\n%s\n", roff(usage))
	})
}

// roff escapes text: backslashes, hyphens, what is not ASCII, and lines that would
// be requests.
func roff(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\\':
			b.WriteString(`\e`)
		case r == '-':
			b.WriteString(`\-`)
		case r > unicode.MaxASCII:
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
	}
	lines := strings.Split(b.String(), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

func lowerFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}

// exitCodes are what the process may end with.
var exitCodes = []ExitCode{
	{exitOK, "Everything went well."},
	{exitFailed, "The tool failed, or its arguments did not fit."},
	{exitUsage, "The command line makes no sense."},
	{exitDenied, "A rule, a mode or a person denied the call."},
	{exitUnknown, "There is no such tool, or an id on the command line is not there. A file that is missing inside a tool is 1."},
	{exitNobody, "A person was needed and none could be asked."},
	{exitTimeout, "The time limit passed."},
	{exitInterrupted, "Interrupted."},
}
