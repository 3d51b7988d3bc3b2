package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/tool"
)

func newCall(p *program) *cobra.Command {
	var whole, session string
	c := &cobra.Command{
		Use:   "call TOOL [key=value…] [--args JSON|-] [--session ID]",
		Short: "Run one tool",
		Long: "Runs one tool, the way an agent would: the same checks, rules, sandbox and record.\n\n" +
			"A value is JSON if the tool wants a number, a list or the like and it parses as\n" +
			"one, else a string. key=@file takes the value from a file, key=- from stdin.\n" +
			"Calls in one workspace share a session, so what one call read the next may edit.",
		Example: "toolyard call grep pattern='func New' path=internal\n" +
			"toolyard call edit file_path=go.mod old_str='go 1.26.0' new_str='go 1.26.1'\n" +
			"toolyard call bash command='go test ./...' timeout=120\n" +
			"toolyard call write file_path=notes.md content=- < notes.md\n" +
			"echo '{\"pattern\": \"**/*.go\"}' | toolyard call glob --args - --json",
		Args:              args(1, -1, "a tool; `toolyard tools` lists them"),
		ValidArgsFunction: p.completeCall,
		RunE: func(c *cobra.Command, args []string) error {
			return p.call(c.Context(), args[0], whole, session, args[1:])
		},
	}
	c.Flags().StringVar(&whole, "args", "", "all arguments as `JSON`; - reads them from stdin")
	c.Flags().StringVar(&session, "session", "", "the session `ID` to call in (default: yours in this workspace)")
	return c
}

// completeCall offers tools, then the arguments of the tool.
func (p *program) completeCall(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	y, err := p.open(c.Context(), openOptions{})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	defer y.close()
	var offers []cobra.Completion
	if len(args) == 0 {
		y.AwaitTools(c.Context())
		for _, s := range y.Tools() {
			offers = append(offers, cobra.CompletionWithDesc(s.FullName(), firstSentence(s.Description)))
		}
		return offers, cobra.ShellCompDirectiveNoFileComp
	}
	y.AwaitTool(c.Context(), args[0])
	spec := findSpec(y.Tools(), args[0])
	for _, a := range describeArguments(spec) {
		if !strings.Contains(a.name, ".") {
			offers = append(offers, cobra.CompletionWithDesc(a.name+"=", a.text))
		}
	}
	return offers, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
}

func (p *program) call(ctx context.Context, name, whole, session string, pairs []string) error {
	y, err := p.open(ctx, openOptions{})
	if err != nil {
		return err
	}
	defer y.close()
	y.AwaitTool(ctx, name)
	arguments, err := p.arguments(findSpec(y.Tools(), name), whole, pairs)
	if err != nil {
		return err
	}
	g := p.progress(name)
	result := y.Call(ctx, toolyard.Call{
		Tool: name, Arguments: arguments, Session: y.session(session), Workspace: y.workspace,
		Origin: "cli", Asker: p.asker(g, arguments), OnEvent: g.event,
	})
	g.end()
	if wasInterrupted(ctx) {
		if p.flags.json {
			_ = p.printResult(result)
		}
		return context.Cause(ctx)
	}
	if result.Err != nil && result.Err.Code == tool.ToolNotFound && result.Err.Hint == "" {
		result.Err.Hint = "`toolyard tools` lists them."
	}
	return p.printResult(result)
}

// dashedArguments moves arguments of a tool whose names begin with a dash
// (grep's -i=true, -C=2) behind "--", where they are no flags of ours: those that
// have one letter never take a value after "=".
func dashedArguments(args []string) []string {
	if !slices.Contains(args, "call") || slices.Contains(args, "--") {
		return args
	}
	var ours, tools []string
	for _, arg := range args {
		if len(arg) > 3 && arg[0] == '-' && arg[1] != '-' && arg[2] == '=' {
			tools = append(tools, arg)
		} else {
			ours = append(ours, arg)
		}
	}
	if tools == nil {
		return args
	}
	return append(append(ours, "--"), tools...)
}
