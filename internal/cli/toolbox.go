package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard/internal/toolbox"
	"github.com/toolyard/toolyard/internal/toolbox/pkgs"
	"github.com/toolyard/toolyard/tool"
)

func newToolbox(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:   "toolbox COMMAND",
		Short: "The tools that you write yourself, in JavaScript or Python",
		Long: "A folder in the toolbox is a tool: toolbox/NAME/NAME.tool.js or NAME.tool.py in the\n" +
			"home. It is there within a second of being saved, runs in a sandbox of its own, and has\n" +
			"nothing but its own data until you grant it more.",
		Example: "toolyard toolbox new hello --lang js\ntoolyard call toolbox:hello\ntoolyard toolbox validate hello",
		RunE:    p.noCommand,
		Args:    cobra.ArbitraryArgs,
	}
	c.AddCommand(
		newToolboxList(p), newToolboxNew(p), newToolboxValidate(p), newToolboxTest(p), newToolboxInstall(p), newToolboxUpdate(p),
		newToolboxRollback(p), newToolboxRemove(p), newToolboxVerify(p), newToolboxPack(p), newToolboxMigrate(p),
		newToolboxGrant(p), newToolboxGrants(p), newToolboxRevoke(p),
	)
	return c
}

// box opens the runtime with its toolbox. The caller closes the yard.
func (p *program) box(ctx context.Context) (*yard, *toolbox.Box, error) {
	y, err := p.open(ctx, openOptions{noWorkspace: true})
	if err != nil {
		return nil, nil, err
	}
	b := y.Toolbox()
	if b == nil {
		y.close()
		return nil, nil, &hinted{fmt.Errorf("the toolbox is switched off"), "Set toolbox.enabled to true in the configuration."}
	}
	return y, b, nil
}

// withBox runs f with the toolbox; an unknown tool is something that is not there.
func (p *program) withBox(ctx context.Context, f func(*toolbox.Box) error) error {
	y, b, err := p.box(ctx)
	if err != nil {
		return err
	}
	defer y.close()
	err = f(b)
	if e := tool.AsError(err); e != nil && e.Code == tool.ToolNotFound {
		return &missing{e.Message, e.Hint}
	}
	return err
}

func newToolboxList(p *program) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the tools, with those that could not be loaded and why", Args: args(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			return p.withBox(c.Context(), func(b *toolbox.Box) error {
				b.Load(c.Context())
				list, err := b.Summaries(c.Context())
				if err != nil {
					return err
				}
				if p.flags.json {
					if list == nil {
						list = []toolbox.Summary{}
					}
					return p.printJSON(list)
				}
				p.printTools(list)
				return nil
			})
		},
	}
}

func (p *program) printTools(list []toolbox.Summary) {
	if len(list) == 0 {
		p.note("The toolbox is empty. Make a tool with `toolyard toolbox new NAME`.")
		return
	}
	cells := make([][]string, len(list))
	for i, s := range list {
		text := firstSentence(s.Description)
		if s.Error != "" {
			text = s.Error
		} else if len(s.Asks) > 0 {
			text = "asks for: " + strings.Join(s.Asks, ", ")
		}
		cells[i] = []string{s.Name, s.Version, s.State, string(s.Language), string(s.Kind), printable(text)}
	}
	p.table(p.stdout, []column{
		{head: "NAME", paint: p.out.cyan}, {head: "VERSION"}, {head: "STATE", paint: p.out.status}, {head: "LANG", paint: p.out.dim},
		{head: "FROM", paint: p.out.dim}, {head: ""},
	}, cells)
}

func newToolboxNew(p *program) *cobra.Command {
	var lang, author string
	c := &cobra.Command{
		Use: "new NAME [--lang js|py]", Short: "Make a tool from a template, with a test",
		Example: "toolyard toolbox new hello --lang py", Args: args(1, 1, "NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			return p.withBox(c.Context(), func(b *toolbox.Box) error {
				dir, files, err := b.Create(c.Context(), args[0], lang, author)
				if err != nil {
					return err
				}
				if p.flags.json {
					return p.printJSON(map[string]any{"name": args[0], "dir": dir, "files": files})
				}
				for _, file := range files {
					fmt.Fprintln(p.stdout, filepath.Join(dir, file))
				}
				p.note("Try it with `toolyard call toolbox:%s`; it is picked up whenever you save.", args[0])
				return nil
			})
		},
	}
	c.Flags().StringVar(&lang, "lang", "js", "`LANGUAGE` js or py")
	c.Flags().StringVar(&author, "author", "", "`NAME` that stands in the tool")
	return c
}

// installFlags are those of install and update.
type installFlags struct{ yes, force, strict bool }

func (f *installFlags) add(c *cobra.Command, force bool) {
	c.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	c.Flags().BoolVar(&f.strict, "strict", false, "what the validator warns of is an error where it can be")
	if force {
		c.Flags().BoolVar(&f.force, "force", false, "replace the tool although it was changed since it was installed")
	}
}

func (f *installFlags) options(p *program, g *progress) toolbox.InstallOptions {
	return toolbox.InstallOptions{
		Force: f.force, Strict: f.strict, Progress: g.stage,
		Confirm: func(ctx context.Context, proposal toolbox.Proposal) error {
			g.pause()
			defer g.resume()
			return p.confirmInstall(ctx, proposal, f.yes)
		},
	}
}

// confirmInstall shows what is about to be installed, and asks.
func (p *program) confirmInstall(ctx context.Context, proposal toolbox.Proposal, yes bool) error {
	lines := proposal.Lines()
	if !p.flags.quiet && !p.flags.json {
		for _, line := range lines {
			fmt.Fprintln(p.stderr, "  "+printable(line))
		}
	}
	if yes {
		return nil
	}
	a := p.asker(nil, nil)
	if a == nil {
		return tool.Errorf(tool.PermissionDenied, "installing %s has to be confirmed, and nobody can be asked", proposal.Name).
			WithHint("Add --yes to agree.").WithDetail("reason", "no_channel")
	}
	answer, err := a.Ask(ctx, tool.Question{
		Kind: "decision", Title: "Install " + proposal.Name + "?",
		Options: []tool.Option{{ID: "yes", Label: "Install it"}, {ID: "no", Label: "Leave everything as it is"}}, Default: "no",
	})
	if err != nil {
		return err
	}
	if answer.Option != "yes" {
		return tool.Errorf(tool.PermissionDenied, "%s was not installed: you said no", proposal.Name)
	}
	return nil
}

func newToolboxInstall(p *program) *cobra.Command {
	var f installFlags
	c := &cobra.Command{
		Use: "install SOURCE", Short: "Install a tool from a folder, an archive, npm, git or a bundle",
		Long: "SOURCE is a folder, a .zip, .tar, .tgz or .mcpb file or its URL, the name of an npm\n" +
			"package (name@version), or the URL of a git repository (#branch, tag or commit). The\n" +
			"tool is fetched, validated, shown, and put in place in one step; what it asks for is\n" +
			"listed and not granted.",
		Example: "toolyard toolbox install ./my-tool\ntoolyard toolbox install https://example.org/my-tool.git#v1.2.0 --yes",
		Args:    args(1, 1, "SOURCE"),
		RunE: func(c *cobra.Command, args []string) error {
			return p.withBox(c.Context(), func(b *toolbox.Box) error {
				g := p.progress("install")
				installed, err := b.Install(c.Context(), args[0], f.options(p, g))
				g.end()
				return p.installed(installed, err)
			})
		},
	}
	f.add(c, false)
	return c
}

func newToolboxUpdate(p *program) *cobra.Command {
	var f installFlags
	c := &cobra.Command{
		Use: "update NAME [SOURCE]", Short: "Replace a tool by a newer version of it",
		Long: "Fetches the tool from where it was installed, or from SOURCE, and switches to it in one\n" +
			"step. Calls that run finish on the old version; what fails leaves the old one in place.",
		Example: "toolyard toolbox update my-tool", Args: args(1, 2, "NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			return p.withBox(c.Context(), func(b *toolbox.Box) error {
				source := ""
				if len(args) > 1 {
					source = args[1]
				}
				g := p.progress("update")
				installed, err := b.Update(c.Context(), args[0], source, f.options(p, g))
				g.end()
				return p.installed(installed, err)
			})
		},
	}
	f.add(c, true)
	return c
}

// installed tells what is in the toolbox now.
func (p *program) installed(in *pkgs.Installed, err error) error {
	if e := tool.AsError(err); e != nil {
		if report, ok := e.Details["report"].(string); ok && !p.flags.json {
			fmt.Fprint(p.stderr, report)
		}
	}
	if err != nil {
		return err
	}
	if p.flags.json {
		return p.printJSON(in)
	}
	text := "installed"
	if in.Replaced != nil {
		text = "replaces " + in.Replaced.Version
	}
	fmt.Fprintf(p.stdout, "%s %s %s in %s\n", p.out.cyan(in.Name), in.Version, text, in.Dir)
	for _, left := range in.Left {
		p.note("left out: %s", left)
	}
	return nil
}

func newToolboxRollback(p *program) *cobra.Command {
	var number int
	c := &cobra.Command{
		Use: "rollback NAME [--to N]", Short: "Put an earlier version of a tool back", Example: "toolyard toolbox rollback my-tool", Args: args(1, 1, "NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			return p.withBox(c.Context(), func(b *toolbox.Box) error {
				installed, err := b.Rollback(c.Context(), args[0], number)
				return p.installed(installed, err)
			})
		},
	}
	c.Flags().IntVar(&number, "to", 0, "`NUMBER` of the version; without it the one before")
	return c
}

func newToolboxRemove(p *program) *cobra.Command {
	var purge bool
	c := &cobra.Command{
		Use: "remove NAME [--purge]", Short: "Take a tool out of the toolbox; its data stay", Example: "toolyard toolbox remove my-tool --purge", Args: args(1, 1, "NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			return p.withBox(c.Context(), func(b *toolbox.Box) error {
				if err := b.Remove(c.Context(), args[0], purge); err != nil {
					return err
				}
				if p.flags.json {
					return p.printJSON(map[string]any{"name": args[0], "removed": true, "purged": purge})
				}
				kept := ", its data are kept"
				if purge {
					kept = ", with its data"
				}
				_, err := fmt.Fprintf(p.stdout, "%s is removed%s\n", args[0], kept)
				return err
			})
		},
	}
	c.Flags().BoolVar(&purge, "purge", false, "delete its data too")
	return c
}

func newToolboxVerify(p *program) *cobra.Command {
	return &cobra.Command{
		Use: "verify NAME", Short: "Compare a tool's files with what was installed", Example: "toolyard toolbox verify my-tool", Args: args(1, 1, "NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			return p.withBox(c.Context(), func(b *toolbox.Box) error {
				v, err := b.Verify(c.Context(), args[0])
				if err != nil {
					return err
				}
				if p.flags.json {
					err = p.printJSON(v)
				} else {
					p.printVerified(v)
				}
				if err == nil && !v.OK {
					err = &ended{exitFailed}
				}
				return err
			})
		},
	}
}

func (p *program) printVerified(v *pkgs.Verified) {
	if v.OK {
		fmt.Fprintf(p.stdout, "%s %s is what was installed (%s)\n", v.Name, v.Release.Version, v.Release.Integrity)
		return
	}
	for _, set := range []struct {
		what  string
		files []string
	}{{"changed", v.Changed}, {"missing", v.Missing}, {"added", v.Added}, {"damaged in the kept version", v.Damaged}} {
		for _, file := range set.files {
			fmt.Fprintf(p.stdout, "%s: %s\n", p.out.yellow(set.what), file)
		}
	}
}

func newToolboxPack(p *program) *cobra.Command {
	var out string
	c := &cobra.Command{
		Use: "pack NAME|DIR [-o FILE]", Short: "Write a tool as an archive that `install` takes", Example: "toolyard toolbox pack my-tool -o my-tool.tgz", Args: args(1, 1, "NAME or DIR"),
		RunE: func(c *cobra.Command, args []string) error {
			return p.withBox(c.Context(), func(b *toolbox.Box) error {
				packed, err := b.Pack(c.Context(), args[0], out)
				if err != nil {
					return err
				}
				if p.flags.json {
					return p.printJSON(packed)
				}
				_, err = fmt.Fprintf(p.stdout, "%s (%s, %d files)\n%s\n", packed.Path, bytesText(packed.Size), len(packed.Files), packed.Integrity)
				return err
			})
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "", "the `FILE`, or a directory for it (default: here)")
	return c
}

func newToolboxMigrate(p *program) *cobra.Command {
	var overwrite bool
	c := &cobra.Command{
		Use: "migrate [DIR]", Short: "Copy the tools of the Prompt Manager, with their data and settings",
		Long: "Copies the tools in DIR (default ~/.prompt-manager) into the toolbox, with .env, data and\n" +
			"package.json. Nothing is deleted or changed there.",
		Example: "toolyard toolbox migrate\ntoolyard toolbox migrate ~/backup/.prompt-manager",
		Args:    args(0, 1, ""),
		RunE: func(c *cobra.Command, args []string) error {
			return p.withBox(c.Context(), func(b *toolbox.Box) error {
				dir := ""
				if len(args) > 0 {
					dir = args[0]
				}
				report, err := b.Migrate(c.Context(), dir, overwrite)
				if err != nil {
					return err
				}
				if p.flags.json {
					return p.printJSON(report)
				}
				cells := make([][]string, len(report.Tools))
				for i, m := range report.Tools {
					text := strings.Join(m.Copied, ", ")
					if m.Reason != "" {
						text = m.Reason
					}
					cells[i] = []string{m.Name, string(m.Status), m.From, printable(text)}
				}
				p.table(p.stdout, []column{{head: "NAME", paint: p.out.cyan}, {head: "STATUS", paint: p.out.status}, {head: "FROM", paint: p.out.dim}, {head: ""}}, cells)
				return nil
			})
		},
	}
	c.Flags().BoolVar(&overwrite, "overwrite", false, "replace tools of the same name; they can be rolled back to")
	return c
}
