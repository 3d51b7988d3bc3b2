package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard/internal/toolbox"
	validator "github.com/toolyard/toolyard/internal/toolbox/check"
)

func newToolboxValidate(p *program) *cobra.Command {
	var all, release, strict, junit bool
	var lang string
	c := &cobra.Command{
		Use: "validate [NAME|DIR|--all] [--release] [--strict] [--junit]", Short: "Check a tool through eleven layers, and against good practice",
		Long: "Looks at a tool of the toolbox, or at a folder anywhere, which need not be installed. Its\n" +
			"trials run in a throw-away copy without a network. The exit code is 1 if it is not valid.",
		Example: "toolyard toolbox validate hello\ntoolyard toolbox validate ./my-tool --release\ntoolyard toolbox validate --all --junit",
		Args:    args(0, 1, ""),
		RunE: func(c *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return usagef("name one tool or folder, or --all")
			}
			if junit && p.flags.json {
				return usagef("--junit and --json are two forms of the same report")
			}
			return p.withBox(c.Context(), func(b *toolbox.Box) error {
				o := validator.Options{Release: release, Strict: strict}
				var reports []*validator.Report
				var err error
				if all {
					reports, err = b.ValidateAll(c.Context(), o)
				} else {
					var r *validator.Report
					r, err = b.Validate(c.Context(), args[0], o)
					reports = []*validator.Report{r}
				}
				if err != nil {
					return err
				}
				return p.printReports(reports, all, junit, lang)
			})
		},
	}
	c.Flags().BoolVar(&all, "all", false, "every tool of the toolbox")
	c.Flags().BoolVar(&release, "release", false, "the checklist of a release as well")
	c.Flags().BoolVar(&strict, "strict", false, "a method that is missing is an error")
	c.Flags().BoolVar(&junit, "junit", false, "print JUnit XML")
	c.Flags().StringVar(&lang, "language", "en", "`LANGUAGE` of the report, en or zh")
	return c
}

func (p *program) printReports(reports []*validator.Report, all, junit bool, lang string) error {
	failed := 0
	for _, r := range reports {
		failed += r.Failed
	}
	switch {
	case junit:
		xml, err := validator.JUnit(reports...)
		if err != nil {
			return err
		}
		if _, err := p.stdout.Write(xml); err != nil {
			return err
		}
	case p.flags.json && all:
		if reports == nil {
			reports = []*validator.Report{}
		}
		if err := p.printJSON(reports); err != nil {
			return err
		}
	case p.flags.json:
		if err := p.printJSON(reports[0]); err != nil {
			return err
		}
	default:
		for _, r := range reports {
			if all {
				fmt.Fprintf(p.stdout, "%s\n", p.out.bold(r.Tool))
			}
			fmt.Fprint(p.stdout, r.Text(lang))
		}
		if all {
			fmt.Fprintln(p.stdout, validator.Sum(reports...))
		}
	}
	if failed > 0 {
		return &ended{exitFailed}
	}
	return nil
}

func newToolboxTest(p *program) *cobra.Command {
	return &cobra.Command{
		Use: "test NAME|DIR [FILE…]", Short: "Run the tests that a tool has of its own, in the sandbox",
		Long: "Runs them with node --test or unittest, or with jest, vitest or pytest where the tool\n" +
			"declares it, in a copy of the tool with scratch data and no network.",
		Example: "toolyard toolbox test hello", Args: args(1, -1, "NAME or DIR"),
		RunE: func(c *cobra.Command, args []string) error {
			return p.withBox(c.Context(), func(b *toolbox.Box) error {
				out := p.stdout
				if p.flags.json {
					out = p.stderr
				}
				done, err := b.Test(c.Context(), args[0], out, args[1:]...)
				if err != nil {
					return err
				}
				if p.flags.json {
					if err := p.printJSON(done); err != nil {
						return err
					}
				}
				switch {
				case done.Ending != "":
					p.complain("the tests ended by "+done.Ending, "They have 5 minutes and what every tool has.")
					return &ended{exitFailed}
				case !done.Passed:
					return &ended{exitFailed}
				}
				return nil
			})
		},
	}
}
