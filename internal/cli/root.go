package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/toolyard/toolyard/internal/policy"
	"github.com/toolyard/toolyard/internal/validate"
	"github.com/toolyard/toolyard/tool"
)

// flags are those that every command takes.
type flags struct {
	home, config     string
	workspaces       []string
	mode, profile    string
	allow, ask, deny []string
	logLevel         string
	json, quiet      bool
}

// group is a heading of the help.
type group struct {
	title    string
	commands []func(*program) *cobra.Command
}

// groups lists the commands. To add one: a file with its constructor, and a line
// here.
func groups() []group {
	return []group{
		{"Connect an agent", []func(*program) *cobra.Command{newConnect, newMCP, newServe}},
		{"Get started", []func(*program) *cobra.Command{newDemo, newInit, newDoctor}},
		{"Use tools yourself", []func(*program) *cobra.Command{newTools, newCall, newBatch, newJobs, newUndo}},
		{"Your own tools", []func(*program) *cobra.Command{newToolbox, newRuntime}},
		{"Other MCP servers", []func(*program) *cobra.Command{newGateway}},
		{"Run a command safely", []func(*program) *cobra.Command{newSandbox}},
		{"See what happened", []func(*program) *cobra.Command{newLog, newStats}},
		{"Decide what is allowed", []func(*program) *cobra.Command{newApprove, newPolicy, newTrust, newKeys, newSecrets, newConfig}},
		{"The program itself", []func(*program) *cobra.Command{newVersion, newCompletion, newMan}},
	}
}

// command makes the whole command tree.
func (p *program) command() *cobra.Command {
	cobra.EnableCommandSorting = false // the order of groups is meant
	root := &cobra.Command{
		Use:   "toolyard",
		Short: "A safe, fast tool box for AI agents",
		Long: "Toolyard gives an AI agent file, search, edit and shell tools that do not damage\n" +
			"files: every call is checked, permitted, confined, recorded, and can be undone.",
		Example: "toolyard demo                                  see it work, offline\n" +
			"toolyard mcp --workspace ~/src/app             what an MCP client starts\n" +
			"toolyard call read file_path=go.mod            run one tool yourself\n" +
			"toolyard log --follow                          watch what an agent does",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE:          p.noCommand,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			return p.flags.check()
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(newHelp(p))
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	root.SetIn(p.stdin)
	p.addFlags(root.PersistentFlags())
	for _, g := range groups() {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, newCommand := range g.commands {
			c := newCommand(p)
			c.GroupID = g.title
			root.AddCommand(c)
		}
	}
	prepare(root)
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { p.help(c) })
	return root
}

func (p *program) addFlags(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&p.flags.home, "home", "", "where records, settings and the sandbox's homes are kept (`DIR`; default $TOOLYARD_HOME, else ~/.toolyard)")
	f.StringVar(&p.flags.config, "config", "", "the configuration `FILE` (default config.yaml in the home)")
	f.StringArrayVarP(&p.flags.workspaces, "workspace", "w", nil, "a `DIR` that tools may work in; repeatable, the first is the default (default: here)")
	f.StringVar(&p.flags.mode, "mode", "", "`MODE` build, plan, explore (both read only) or trusted (nothing is asked)")
	f.StringVar(&p.flags.profile, "profile", "", "the `NAME` of a profile: which tools may be called and are shown (default auto: all of them)")
	f.StringArrayVar(&p.flags.allow, "allow", nil, "allow what a `RULE` says, for this run; repeatable: --allow 'bash(go test *)'")
	f.StringArrayVar(&p.flags.ask, "ask", nil, "ask about what a `RULE` says, for this run; repeatable")
	f.StringArrayVar(&p.flags.deny, "deny", nil, "deny what a `RULE` says, for this run; repeatable")
	f.StringVar(&p.flags.logLevel, "log-level", "", "what is logged to stderr: `LEVEL` debug, info, warn or error (default warn; serve: info)")
	f.BoolVar(&p.flags.json, "json", false, "print JSON")
	f.BoolVarP(&p.flags.quiet, "quiet", "q", false, "no progress and no notes")
}

// check refuses values that no setting takes, before anything is opened. What
// comes from files and the environment is checked where it is read.
func (f *flags) check() error {
	modes := policy.Modes()
	names := make([]string, len(modes))
	for i, m := range modes {
		names[i] = string(m)
	}
	if err := oneOf("mode", f.mode, names...); err != nil {
		return err
	}
	if err := oneOf("log-level", f.logLevel, "debug", "info", "warn", "error"); err != nil {
		return err
	}
	for _, set := range []struct {
		flag   string
		action tool.Action
		rules  []string
	}{{"--allow", tool.Allow, f.allow}, {"--ask", tool.Ask, f.ask}, {"--deny", tool.Deny, f.deny}} {
		for _, rule := range set.rules {
			if err := checkRule(set.action, rule, policy.Session); err != nil {
				return err
			}
		}
	}
	for _, dir := range f.workspaces {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return usagef("--workspace %s is not a directory", oneLine(dir, 200))
		}
	}
	return nil
}

// checkRule refuses a rule that does not parse.
func checkRule(action tool.Action, rule string, scope policy.Scope) error {
	_, err := policy.ParseRule(action, rule, scope, "command line")
	if e := tool.AsError(err); e != nil {
		return usagef("%s", e.Message).withHint("%s", e.Hint)
	}
	return nil
}

// prepare gives every command of the tree the same manners.
func prepare(c *cobra.Command) {
	c.DisableFlagsInUseLine = true
	c.Flags().SortFlags = false
	c.SetFlagErrorFunc(flagError)
	c.InitDefaultHelpFlag()
	c.Flags().Lookup("help").Usage = "show this"
	for _, child := range c.Commands() {
		prepare(child)
	}
}

// noCommand is what a command does that only has subcommands.
func (p *program) noCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		p.help(c)
		if c.HasParent() {
			return &ended{exitUsage}
		}
		return nil
	}
	return unknownCommand(c, args[0])
}

func unknownCommand(c *cobra.Command, name string) error {
	var names []string
	for _, child := range c.Commands() {
		if child.IsAvailableCommand() {
			names = append(names, child.Name())
		}
	}
	err := usagef("there is no command %q", strings.TrimSpace(strings.TrimPrefix(c.CommandPath(), c.Root().Name())+" "+oneLine(name, 40)))
	if nearest, near := validate.Nearest(name, names); near {
		return err.withHint("Did you mean `%s %s`?", c.CommandPath(), nearest)
	}
	return err.withHint("`%s --help` lists them.", c.CommandPath())
}

// commandName is the name of a command without the program's, for messages that
// begin with that.
func commandName(c *cobra.Command) string {
	if name, ok := strings.CutPrefix(c.CommandPath(), c.Root().Name()+" "); ok {
		return name
	}
	return "toolyard"
}

// flagError turns what pflag says into a usage error that names the nearest flag.
func flagError(c *cobra.Command, err error) error {
	help := fmt.Sprintf("`%s --help` lists the flags.", c.CommandPath())
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		name := "--" + unknown.GetSpecifiedName()
		if s := unknown.GetSpecifiedShortnames(); s != "" {
			name = "-" + unknown.GetSpecifiedName()
		}
		e := usagef("%s has no flag %s", commandName(c), name)
		if nearest, near := validate.Nearest(unknown.GetSpecifiedName(), names); near && len(name) > 2 {
			return e.withHint("Did you mean --%s?", nearest)
		}
		return e.withHint("%s", help)
	}
	if value, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return usagef("--%s needs a value", value.GetFlag().Name).withHint("%s", help)
	}
	if value, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return usagef("--%s does not take %q", value.GetFlag().Name, value.GetValue()).withHint("%s", help)
	}
	return usagef("%v", err).withHint("%s", help)
}

// args refuses fewer than least positional arguments, and more than most if that
// is not negative. names says what is needed.
func args(least, most int, names string) cobra.PositionalArgs {
	return func(c *cobra.Command, given []string) error {
		switch {
		case len(given) < least:
			return usagef("%s needs %s", commandName(c), names).withHint("Usage: %s", c.UseLine())
		case most >= 0 && len(given) > most:
			extra := usagef("%s takes no further argument %q", commandName(c), oneLine(given[most], 40))
			if most == 0 && c.HasAvailableSubCommands() {
				return unknownCommand(c, given[0])
			}
			return extra.withHint("Usage: %s", c.UseLine())
		}
		return nil
	}
}

// oneOf refuses a value that is not one of those named.
func oneOf(flag, value string, names ...string) error {
	if value == "" || slices.Contains(names, value) {
		return nil
	}
	err := usagef("--%s does not take %q", flag, oneLine(value, 40))
	if nearest, near := validate.Nearest(value, names); near {
		return err.withHint("Did you mean %s? It takes %s.", nearest, strings.Join(names, ", "))
	}
	return err.withHint("It takes %s.", strings.Join(names, ", "))
}
