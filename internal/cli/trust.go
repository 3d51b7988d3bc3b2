package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/store"
)

func newTrust(p *program) *cobra.Command {
	var remove bool
	c := &cobra.Command{
		Use:   "trust [DIR] [--remove]",
		Short: "Let a project's own .toolyard directory count",
		Long: "A project can bring settings, rules and skills in .toolyard. They count only once you\n" +
			"have trusted them, as they are then: any change asks again. Shows what there is and\n" +
			"trusts it, for DIR or the workspace.",
		Example: "toolyard trust\ntoolyard trust ~/src/app --remove",
		Args:    args(0, 1, ""),
		RunE: func(c *cobra.Command, args []string) error {
			dir := ""
			if len(args) > 0 {
				dir = args[0]
			}
			return p.trust(c.Context(), dir, remove)
		},
	}
	c.Flags().BoolVar(&remove, "remove", false, "trust it no longer")
	return c
}

func (p *program) trust(ctx context.Context, dir string, remove bool) error {
	settings, db, err := p.record(ctx, openOptions{})
	if err != nil {
		return err
	}
	defer db.Close()
	if dir == "" {
		dir = settings.Config.Workspaces[0]
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return usagef("%s is not a directory", dir)
	}
	state := "trusted"
	if remove {
		state = "not trusted"
		if err := db.DeleteSetting(ctx, config.TrustKey(dir)); errors.Is(err, store.ErrNotFound) {
			return &missing{what: dir + " is not trusted", hint: "There is nothing to remove."}
		} else if err != nil {
			return err
		}
	} else if err := p.pin(ctx, db, dir); err != nil {
		return err
	}
	if p.flags.json {
		return p.printJSON(map[string]any{"dir": dir, "trusted": !remove})
	}
	_, err = fmt.Fprintf(p.stdout, "%s is %s\n", dir, state)
	return err
}

// pin keeps the sum of what a project brings now, after showing it.
func (p *program) pin(ctx context.Context, db store.Settings, dir string) error {
	sum, err := config.Sum(dir)
	if err != nil {
		return err
	}
	if sum == "" {
		return &hinted{fmt.Errorf("%s brings nothing that needs trust", dir), "Trust is about .toolyard/config.yaml, .toolyard/skills and .toolyard/agents."}
	}
	file := filepath.Join(dir, config.Dir, "config.yaml")
	if content, err := os.ReadFile(file); err == nil && !p.flags.json {
		fmt.Fprintf(p.stdout, "%s\n%s\n", p.out.bold(file), printable(string(content)))
	}
	return db.PutSetting(ctx, config.TrustKey(dir), sum)
}
