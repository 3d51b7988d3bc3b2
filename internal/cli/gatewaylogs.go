package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard/internal/gateway"
	"github.com/toolyard/toolyard/tool"
)

// serverLines is how many lines of a log are looked at when it is followed.
const serverLines = 1000

func newGatewayLogs(p *program) *cobra.Command {
	var follow bool
	var lines int
	c := &cobra.Command{
		Use: "logs NAME [--follow] [--lines N]", Short: "Print what a server has written to stderr", Example: "toolyard gateway logs github --follow", Args: args(1, 1, "NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			if lines < 1 || lines > serverLines {
				return usagef("--lines takes 1 to %d", serverLines)
			}
			return p.serverLogs(c.Context(), args[0], lines, follow)
		},
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what it writes")
	c.Flags().IntVarP(&lines, "lines", "n", 50, "the last `N` lines")
	return c
}

func (p *program) serverLogs(ctx context.Context, name string, lines int, follow bool) error {
	doors, done, err := p.gateways(ctx)
	if err != nil {
		return err
	}
	defer done()
	want := lines
	if follow {
		want = serverLines
	}
	seen := map[int][]string{}
	for first := true; ; first = false {
		known := false
		for _, d := range doors {
			var now []string
			if now, err = d.Logs(ctx, name, want); wasInterrupted(ctx) {
				return context.Cause(ctx)
			} else if err != nil {
				continue
			}
			known = true
			news := after(seen[d.pid], now)
			if seen[d.pid] = now; first && len(news) > lines {
				news = news[len(news)-lines:]
			}
			if err := p.printLog(d.pid, len(doors), news); err != nil {
				return err
			}
		}
		if !known {
			return unknownServer(err)
		}
		if !follow {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(followEach):
		}
	}
}

// after gives the lines that have come since the last look: both are the ends of
// the same log.
func after(before, now []string) []string {
	for n := min(len(before), len(now)); n > 0; n-- {
		if slices.Equal(before[len(before)-n:], now[:n]) {
			return now[n:]
		}
	}
	return now
}

func (p *program) printLog(pid, running int, lines []string) error {
	for _, line := range lines {
		if p.flags.json {
			if err := p.printJSON(map[string]any{"runtime": pid, "line": line}); err != nil {
				return err
			}
			continue
		}
		if p.outTTY {
			line = printable(line)
		}
		if running > 1 {
			line = p.out.dim(fmt.Sprintf("%d ", pid)) + line
		}
		if _, err := fmt.Fprintln(p.stdout, line); err != nil {
			return err
		}
	}
	return nil
}

func newGatewayApprove(p *program) *cobra.Command {
	var all, yes bool
	c := &cobra.Command{
		Use: "approve NAME [TOOL…] [--all] [--yes]", Short: "Let tools through whose definition has changed",
		Long: "A server whose description of a tool changes could turn a model against you, so the\n" +
			"tool is withheld until you have looked at what is different. Shows it and asks. Without\n" +
			"TOOL it is about all that are withheld; --all does not ask for each.",
		Example: "toolyard gateway approve github\ntoolyard gateway approve github create_issue --yes",
		Args:    args(1, -1, "NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			return p.approveTools(c.Context(), args[0], args[1:], all, yes)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "all that are withheld, with one question")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return c
}

func (p *program) approveTools(ctx context.Context, name string, tools []string, all, yes bool) error {
	if all && len(tools) > 0 {
		return usagef("name tools, or --all")
	}
	detail, err := p.inspectServer(ctx, name)
	if err != nil {
		return err
	}
	var held []gateway.ToolInfo
	for _, t := range detail.ToolList {
		if t.Quarantined != "" && (len(tools) == 0 || slices.Contains(tools, t.Name) || slices.Contains(tools, t.FullName)) {
			held = append(held, t)
		}
	}
	for _, want := range tools {
		if !slices.ContainsFunc(detail.ToolList, func(t gateway.ToolInfo) bool { return t.Name == want || t.FullName == want }) {
			return &missing{fmt.Sprintf("%s has no tool %q", name, oneLine(want, 60)), "`toolyard gateway inspect " + name + "` lists them."}
		}
	}
	if len(held) == 0 {
		if p.flags.json {
			return p.printJSON([]gateway.Approved{})
		}
		p.note("Nothing of %s is withheld.", name)
		return nil
	}
	approve, err := p.chooseTools(ctx, name, held, all, yes)
	if err != nil || len(approve) == 0 {
		return err
	}
	return p.letThrough(ctx, name, approve)
}

// chooseTools shows each difference and asks: for each tool, or once.
func (p *program) chooseTools(ctx context.Context, name string, held []gateway.ToolInfo, all, yes bool) ([]string, error) {
	var chosen []string
	for _, t := range held {
		if !p.flags.json {
			fmt.Fprintf(p.stdout, "%s  %s\n", p.out.cyan(t.FullName), p.out.yellow(t.Quarantined))
			for _, warning := range t.Warnings {
				fmt.Fprintln(p.stdout, p.out.red("  "+printable(warning)))
			}
			fmt.Fprint(p.stdout, p.out.diff(printable(t.Diff)))
		}
		if !yes && !all {
			if err := p.agree(ctx, "Approve "+t.FullName+" as it is now?", "Approve it", "approving "+t.FullName); err != nil {
				if e := tool.AsError(err); e != nil && e.Details["reason"] == nil && e.Code == tool.PermissionDenied {
					continue // said no; there may be more
				}
				return nil, err
			}
		}
		chosen = append(chosen, t.Name)
	}
	if all && !yes {
		if err := p.agree(ctx, fmt.Sprintf("Approve %d tools of %s as they are now?", len(held), name), "Approve them", "approving them"); err != nil {
			return nil, err
		}
	}
	return chosen, nil
}

// letThrough approves in each gateway: what was approved is in the record, where
// all see it, and each is told so that it does at once.
func (p *program) letThrough(ctx context.Context, name string, tools []string) error {
	doors, done, err := p.gateways(ctx)
	if err != nil {
		return err
	}
	defer done()
	var last error
	approved := []gateway.Approved{}
	for _, d := range doors {
		list, err := d.Approve(ctx, name, gateway.Approval{Tools: tools})
		if err != nil {
			last = unknownServer(err)
		}
		for _, a := range list {
			if !slices.ContainsFunc(approved, func(b gateway.Approved) bool { return a.Tool == b.Tool }) {
				approved = append(approved, a)
			}
		}
	}
	if len(approved) == 0 && last != nil {
		return last
	}
	if p.flags.json {
		return p.printJSON(approved)
	}
	for _, a := range approved {
		fmt.Fprintf(p.stdout, "%s is approved\n", a.Tool)
	}
	return nil
}
