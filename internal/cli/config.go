package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/tool"
)

func newConfig(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Check and show the configuration",
		Long: "Settings come from the file of your home, the trusted project's, the environment\n" +
			"(TOOLYARD_MODE, TOOLYARD_SANDBOX__MEMORY, …), flags, and the operator's\n" +
			"/etc/toolyard/managed.yaml; the later wins.",
		Args: cobra.ArbitraryArgs,
		RunE: p.noCommand,
	}
	c.AddCommand(newConfigCheck(p), newConfigShow(p), newConfigPath(p))
	return c
}

func newConfigCheck(p *program) *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Find what is wrong, with file, line and column",
		Args:  args(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			settings, db, err := p.record(c.Context(), openOptions{})
			if e, ok := errors.AsType[*tool.Error](err); ok && p.flags.json && len(e.Faults) > 0 {
				if err := p.printJSON(map[string]any{"ok": false, "faults": e.Faults}); err != nil {
					return err
				}
				return &ended{exitFailed}
			}
			if err != nil {
				return err
			}
			if err := db.Close(); err != nil {
				return err
			}
			rules, examples, err := testRules(settings.Config.Permissions)
			if err != nil {
				return err
			}
			if p.flags.json {
				return p.printJSON(struct {
					OK       bool      `json:"ok"`
					Files    []fileRow `json:"files"`
					Rules    int       `json:"rules"`
					Examples int       `json:"examples"`
				}{true, filesOf(settings), rules, examples})
			}
			p.printFiles(settings)
			fmt.Fprintf(p.stdout, "%s: %s, %s\n", p.out.green("ok"), count(rules, "rule"), count(examples, "example"))
			return nil
		},
	}
}

// fileRow is a file that was looked at.
type fileRow struct {
	Layer string `json:"layer"`
	Path  string `json:"path"`
	State string `json:"state"`
}

func filesOf(settings *config.Loaded) []fileRow {
	rows := []fileRow{}
	for _, f := range settings.Files {
		rows = append(rows, fileRow{f.Layer.String(), f.Path, string(f.State)})
	}
	return rows
}

func (p *program) printFiles(settings *config.Loaded) {
	var rows [][]string
	for _, f := range filesOf(settings) {
		rows = append(rows, []string{f.Layer, f.State, f.Path})
	}
	p.table(p.stdout, []column{{head: "LAYER", paint: p.out.dim}, {head: "STATE"}, {head: "FILE"}}, rows)
}

func newConfigShow(p *program) *cobra.Command {
	return &cobra.Command{
		Use:   "show",
		Short: "Show every setting in force and where it comes from",
		Args:  args(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			settings, db, err := p.record(c.Context(), openOptions{})
			if err != nil {
				return err
			}
			if err := db.Close(); err != nil {
				return err
			}
			if !p.flags.json {
				_, err = fmt.Fprint(p.stdout, settings.Show())
				return err
			}
			type row struct {
				Path   string `json:"path"`
				Value  string `json:"value"`
				Layer  string `json:"layer"`
				Origin string `json:"origin"`
			}
			rows := []row{}
			for _, e := range settings.Entries() {
				rows = append(rows, row{e.Path, e.Value, e.Origin.Layer.String(), e.Origin.String()})
			}
			return p.printJSON(rows)
		},
	}
}

func newConfigPath(p *program) *cobra.Command {
	return &cobra.Command{
		Use:   "path",
		Short: "Print where your configuration file is, or would be",
		Args:  args(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			path, err := p.configPath()
			if err != nil {
				return err
			}
			if p.flags.json {
				return p.printJSON(map[string]string{"path": path})
			}
			_, err = fmt.Fprintln(p.stdout, path)
			return err
		},
	}
}
