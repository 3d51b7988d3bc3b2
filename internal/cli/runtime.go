package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard/internal/toolbox"
	"github.com/toolyard/toolyard/internal/toolbox/runtimes"
)

func newRuntime(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "runtime COMMAND", Short: "The Node and the installer that tools run with",
		Long: "Tools in JavaScript run on the node of your PATH if it is version 20 or newer, else on\n" +
			"one that is fetched once from the npm registry, with its integrity checked.",
		Example: "toolyard runtime list\ntoolyard runtime install node",
		RunE:    p.noCommand,
		Args:    cobra.ArbitraryArgs,
	}
	c.AddCommand(newRuntimeList(p), newRuntimeInstall(p))
	return c
}

func newRuntimeList(p *program) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List what tools run with", Args: args(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			return p.withBox(c.Context(), func(b *toolbox.Box) error {
				list := b.Runtimes(c.Context())
				if p.flags.json {
					return p.printJSON(list)
				}
				cells := make([][]string, len(list))
				for i, r := range list {
					state := string(r.Source)
					if r.Current {
						state += ", in use"
					}
					cells[i] = []string{r.Name, r.Version, state, r.Program}
				}
				if len(cells) == 0 {
					p.note("There is nothing that tools could run with. `toolyard runtime install node` fetches a Node.")
					return nil
				}
				p.table(p.stdout, []column{{head: "NAME", paint: p.out.cyan}, {head: "VERSION"}, {head: "FROM", paint: p.out.dim}, {head: "PROGRAM"}}, cells)
				return nil
			})
		},
	}
}

func newRuntimeInstall(p *program) *cobra.Command {
	var version string
	c := &cobra.Command{
		Use: "install node|pnpm [--version V]", Short: "Fetch a Node or a pnpm for tools", Example: "toolyard runtime install node", Args: args(1, 1, "node or pnpm"),
		RunE: func(c *cobra.Command, args []string) error {
			return p.withBox(c.Context(), func(b *toolbox.Box) error {
				g := p.progress("install " + args[0])
				rt, err := b.InstallRuntime(c.Context(), args[0], version, func(s runtimes.Progress) { g.stage(s.Text, s.Done, s.Total) })
				g.end()
				if err != nil {
					return err
				}
				if p.flags.json {
					return p.printJSON(rt)
				}
				_, err = fmt.Fprintf(p.stdout, "%s %s in %s\n", rt.Name, rt.Version, rt.Program)
				return err
			})
		},
	}
	c.Flags().StringVar(&version, "version", "", "`VERSION`; without it the one that this program was tried with")
	return c
}
