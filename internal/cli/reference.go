package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// CommandHelp is how one command is used, for the documentation.
type CommandHelp struct {
	Name    string // "toolyard policy explain"
	Group   string // the heading in the help of the program; "" below the first level
	Usage   string // "toolyard call TOOL [key=value…]"
	Short   string
	Long    string // "" where Short says all
	Example string // lines; "" if there are none
	Flags   []FlagHelp
}

// FlagHelp is one flag.
type FlagHelp struct {
	Name      string // "--session"
	Shorthand string // "-w"; "" if there is none
	Value     string // "ID"; "" of a switch
	Usage     string
}

// ExitCode is one way in which the program ends.
type ExitCode struct {
	Code    int
	Meaning string
}

// Reference lists every command in the order of the help, the program itself
// first, with the flags that every command takes.
func Reference() []CommandHelp {
	p := &program{}
	root := p.command()
	list := []CommandHelp{{
		Name: root.Name(), Usage: "toolyard COMMAND", Short: root.Short, Long: root.Long, Example: root.Example,
		Flags: flagsOf(root.PersistentFlags()),
	}}
	for _, g := range root.Groups() {
		for _, c := range root.Commands() {
			if c.GroupID == g.ID {
				list = appendHelp(list, c)
			}
		}
	}
	return list
}

// ExitCodes lists what the program ends with.
func ExitCodes() []ExitCode { return exitCodes }

func appendHelp(list []CommandHelp, c *cobra.Command) []CommandHelp {
	if !c.IsAvailableCommand() {
		return list
	}
	usage := c.UseLine()
	if c.HasAvailableSubCommands() {
		usage = c.CommandPath() + " COMMAND"
	}
	list = append(list, CommandHelp{
		Name: c.CommandPath(), Group: c.GroupID, Usage: usage, Short: c.Short, Long: c.Long, Example: c.Example,
		Flags: flagsOf(localFlags(c)),
	})
	for _, child := range c.Commands() {
		list = appendHelp(list, child)
	}
	return list
}

func flagsOf(set *pflag.FlagSet) []FlagHelp {
	var list []FlagHelp
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		help := FlagHelp{Name: "--" + f.Name, Value: value, Usage: usage}
		if f.Shorthand != "" {
			help.Shorthand = "-" + f.Shorthand
		}
		if f.Value.Type() == "bool" {
			help.Value = ""
		}
		list = append(list, help)
	})
	return list
}
