package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/toolbox"
)

// grantFlags are what can be granted and taken back.
type grantFlags struct {
	read, write, net, scripts []string
	memory                    string
	time                      time.Duration
}

func (f *grantFlags) add(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.read, "read", nil, "a `DIR` that it may read; repeatable")
	c.Flags().StringArrayVar(&f.write, "write", nil, "a `DIR` that it may read and write; repeatable")
	c.Flags().StringArrayVar(&f.net, "net", nil, "an `ENTRY` that it may reach: host, host:port, *.host, or all; repeatable")
	c.Flags().StringVar(&f.memory, "memory", "", "`SIZE` of its memory, such as 1GiB")
	c.Flags().DurationVar(&f.time, "time", 0, "`TIME` that one call may take, such as 2m")
	c.Flags().StringArrayVar(&f.scripts, "scripts", nil, "a `PACKAGE` whose install scripts may run; repeatable")
}

func (f *grantFlags) grant() (toolbox.Grant, error) {
	g := toolbox.Grant{Network: f.net, Time: f.time, Scripts: f.scripts}
	for _, set := range []struct {
		from []string
		to   *[]string
	}{{f.read, &g.Read}, {f.write, &g.Write}} {
		for _, dir := range set.from {
			if !strings.HasPrefix(dir, "~") {
				abs, err := filepath.Abs(dir)
				if err != nil {
					return g, err
				}
				dir = abs
			}
			*set.to = append(*set.to, dir)
		}
	}
	if f.memory != "" {
		n, ok := sandbox.ParseSize(f.memory)
		if !ok || n <= 0 {
			return g, usagef("--memory %s is no size", oneLine(f.memory, 40)).withHint("Write 512MiB or 2GiB.")
		}
		g.Memory = n
	}
	if f.time < 0 {
		return g, usagef("--time %s is less than nothing", f.time)
	}
	return g, nil
}

func newToolboxGrant(p *program) *cobra.Command {
	var f grantFlags
	c := &cobra.Command{
		Use: "grant NAME [--read DIR] [--write DIR] [--net ENTRY] [--memory SIZE] [--time TIME]", Short: "Give a tool more than its own data, before it asks",
		Example: "toolyard toolbox grant reader --read ~/Documents\ntoolyard toolbox grant weather --net api.example.org", Args: args(1, 1, "NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			g, err := f.grant()
			if err != nil {
				return err
			}
			if g.IsZero() {
				return usagef("nothing to grant").withHint("Name it: --read DIR, --write DIR, --net ENTRY, --memory SIZE, --time TIME, --scripts PACKAGE.")
			}
			return p.withBox(c.Context(), func(b *toolbox.Box) error {
				if _, _, err := b.Lookup(c.Context(), args[0]); err != nil && !b.Has(args[0]) {
					return err
				}
				if err := b.Grant(args[0], g); err != nil {
					return err
				}
				return p.showGrants(b, args[0])
			})
		},
	}
	f.add(c)
	return c
}

func newToolboxRevoke(p *program) *cobra.Command {
	var f grantFlags
	c := &cobra.Command{
		Use: "revoke NAME [--read DIR] …", Short: "Take back what a tool was granted: what is named, or everything",
		Example: "toolyard toolbox revoke reader --read ~/Documents", Args: args(1, 1, "NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			g, err := f.grant()
			if err != nil {
				return err
			}
			return p.withBox(c.Context(), func(b *toolbox.Box) error {
				if err := b.Ready(c.Context()); err != nil {
					return err
				}
				if err := b.Revoke(args[0], g); err != nil {
					return err
				}
				return p.showGrants(b, args[0])
			})
		},
	}
	f.add(c)
	return c
}

func newToolboxGrants(p *program) *cobra.Command {
	return &cobra.Command{
		Use: "grants [NAME]", Short: "Show what tools were granted, and what they ask for beyond that", Example: "toolyard toolbox grants reader", Args: args(0, 1, ""),
		RunE: func(c *cobra.Command, args []string) error {
			return p.withBox(c.Context(), func(b *toolbox.Box) error {
				b.Load(c.Context())
				if len(args) > 0 {
					return p.showGrants(b, args[0])
				}
				list, err := b.Summaries(c.Context())
				if err != nil {
					return err
				}
				names := make([]string, len(list))
				for i, s := range list {
					names[i] = s.Name
				}
				return p.showGrants(b, names...)
			})
		},
	}
}

// grantRow is what one tool has and asks for.
type grantRow struct {
	Name    string        `json:"name"`
	Granted toolbox.Grant `json:"granted"`
	Asks    toolbox.Grant `json:"asks"`
}

func (p *program) showGrants(b *toolbox.Box, names ...string) error {
	rows := []grantRow{}
	for _, name := range names {
		given, asked, err := b.Grants(name)
		if err != nil {
			return err
		}
		rows = append(rows, grantRow{name, given, asked})
	}
	if p.flags.json {
		return p.printJSON(rows)
	}
	for _, r := range rows {
		lines := r.Granted.Lines()
		if len(lines) == 0 {
			lines = []string{"nothing beyond its own data"}
		}
		fmt.Fprintf(p.stdout, "%s\n", p.out.cyan(r.Name))
		for _, line := range lines {
			fmt.Fprintf(p.stdout, "  %s\n", printable(line))
		}
		for _, line := range r.Asks.Lines() {
			fmt.Fprintf(p.stdout, "  %s %s\n", p.out.yellow("asks for"), printable(line))
		}
	}
	return nil
}
