package cli

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newHelp(p *program) *cobra.Command {
	return &cobra.Command{
		Use:    "help [COMMAND]",
		Short:  "Show how a command is used",
		Hidden: true,
		RunE: func(c *cobra.Command, args []string) error {
			target, rest, err := c.Root().Find(args)
			if err != nil || target == nil || len(rest) > 0 {
				return unknownCommand(c.Root(), strings.Join(args, " "))
			}
			p.help(target)
			return nil
		},
	}
}

// help prints how a command is used.
func (p *program) help(c *cobra.Command) { fmt.Fprint(p.stdout, helpText(c, p.out)) }

// helpText is how a command is used, for a terminal and for the documentation.
func helpText(c *cobra.Command, l look) string {
	var b strings.Builder
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	b.WriteString(text + "\n")
	section := func(title string) { fmt.Fprintf(&b, "\n%s\n", l.bold(title)) }
	section("Usage")
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s COMMAND\n", c.CommandPath())
	} else {
		fmt.Fprintf(&b, "  %s\n", c.UseLine())
	}
	if c.Example != "" {
		section("Examples")
		for line := range strings.Lines(c.Example) {
			b.WriteString("  " + line)
		}
		b.WriteString("\n")
	}
	writeCommands(&b, c, l, section)
	if local := flagLines(localFlags(c), l); local != "" {
		section("Flags")
		b.WriteString(local)
	}
	if !c.HasParent() {
		section("Flags of every command")
		b.WriteString(flagLines(c.PersistentFlags(), l))
		section("Exit codes")
		b.WriteString("  0 ok · 1 the tool failed · 2 usage · 3 denied · 4 no such tool or id\n" +
			"  5 a person was needed and none could be asked · 124 timeout · 130 interrupted\n")
	} else {
		fmt.Fprintf(&b, "\n%s\n", l.dim("Flags of every command (--home, --workspace, --mode, --allow, --json, …): toolyard --help"))
	}
	return b.String()
}

// writeCommands lists the subcommands under their groups.
func writeCommands(b *strings.Builder, c *cobra.Command, l look, section func(string)) {
	width := 0
	for _, child := range c.Commands() {
		width = max(width, len(child.Name()))
	}
	list := func(id string) {
		for _, child := range c.Commands() {
			if child.IsAvailableCommand() && child.GroupID == id {
				fmt.Fprintf(b, "  %s%s  %s\n", l.cyan(child.Name()), strings.Repeat(" ", width-len(child.Name())), child.Short)
			}
		}
	}
	for _, g := range c.Groups() {
		section(g.Title)
		list(g.ID)
	}
	if len(c.Groups()) == 0 && c.HasAvailableSubCommands() {
		section("Commands")
		list("")
	}
}

// localFlags are the flags of c alone, in the order in which they were made.
func localFlags(c *cobra.Command) *pflag.FlagSet {
	set := pflag.NewFlagSet(c.Name(), pflag.ContinueOnError)
	set.SortFlags = false
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if c.Root().PersistentFlags().Lookup(f.Name) != f {
			set.AddFlag(f)
		}
	})
	return set
}

// flagLines describes flags, one or more lines each.
func flagLines(set *pflag.FlagSet, l look) string {
	const margin, wide = 24, 100
	var b strings.Builder
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		name := "    --" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", --" + f.Name
		}
		plain := name
		painted := l.cyan(name)
		if f.Value.Type() != "bool" && value != "" {
			plain += " " + value
			painted += " " + value
		}
		if len(plain) > margin-2 {
			fmt.Fprintf(&b, "  %s\n  %s", painted, strings.Repeat(" ", margin))
		} else {
			fmt.Fprintf(&b, "  %s%s", painted, strings.Repeat(" ", margin-len(plain)))
		}
		b.WriteString(wrap(usage, wide-margin-2, "\n"+strings.Repeat(" ", margin+2)) + "\n")
	})
	return b.String()
}

// wrap breaks text into lines of at most width characters, joined by newline.
func wrap(text string, width int, newline string) string {
	var b strings.Builder
	at := 0
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case at+1+n > width:
			b.WriteString(newline)
			at = 0
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}
