package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/toolyard/toolyard/tool"
)

func newSecrets(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:   "secrets",
		Short: "Keep values that configurations name as ${secret:NAME}",
		Long: "A secret is kept encrypted in the home and written into the configuration by its name:\n" +
			"an entry of mcpServers says ${secret:NAME} in its env, headers or url. Its value is never\n" +
			"shown again. The key is master.key in the home, or TOOLYARD_MASTER_KEY.",
		Example: "toolyard secrets set GITHUB_TOKEN\n" +
			"toolyard secrets list\n" +
			"toolyard secrets remove GITHUB_TOKEN",
		Args: cobra.ArbitraryArgs,
		RunE: p.noCommand,
	}
	c.AddCommand(
		&cobra.Command{
			Use:   "set NAME",
			Short: "Keep a value, in place of the one before",
			Long: "Reads the value from standard input and keeps it; on a terminal it asks, and does not\n" +
				"show what is typed. One line end after it does not belong to it.",
			Example: "printf %s \"$TOKEN\" | toolyard secrets set GITHUB_TOKEN",
			Args:    args(1, 1, "the name of a secret"),
			RunE:    func(c *cobra.Command, args []string) error { return p.secretsSet(c.Context(), args[0]) },
		},
		&cobra.Command{
			Use:     "list",
			Short:   "List the names",
			Long:    "Lists the names of what is kept, never a value.",
			Example: "toolyard secrets list --json",
			Args:    args(0, 0, ""),
			RunE:    func(c *cobra.Command, _ []string) error { return p.secretsList(c.Context()) },
		},
		&cobra.Command{
			Use:     "remove NAME",
			Short:   "Forget a value",
			Long:    "Forgets a value. Whatever names it cannot be started any more.",
			Example: "toolyard secrets remove GITHUB_TOKEN",
			Args:    args(1, 1, "the name of a secret"),
			RunE:    func(c *cobra.Command, args []string) error { return p.secretsRemove(c.Context(), args[0]) },
		},
		&cobra.Command{
			Use:   "rotate",
			Short: "Encrypt everything with a new key",
			Long: "Makes a new key and encrypts everything with it. Where TOOLYARD_MASTER_KEY holds the key,\n" +
				"the new one is read from standard input: 32 bytes in hex or base64; set the variable to\n" +
				"it afterwards.",
			Example: "toolyard secrets rotate",
			Args:    args(0, 0, ""),
			RunE:    func(c *cobra.Command, _ []string) error { return p.secretsRotate(c.Context()) },
		},
	)
	return c
}

// secretInput reads a value from standard input, without showing it.
func (p *program) secretInput(prompt string) (string, error) {
	if p.inTTY {
		fmt.Fprint(p.stderr, prompt)
		value, err := term.ReadPassword(int(p.stdin.Fd()))
		fmt.Fprintln(p.stderr)
		return string(value), err
	}
	value, err := readAll(p.stdin, "stdin")
	return strings.TrimSuffix(strings.TrimSuffix(value, "\n"), "\r"), err
}

func (p *program) secretsSet(ctx context.Context, name string) error {
	y, err := p.open(ctx, openOptions{noWorkspace: true})
	if err != nil {
		return err
	}
	defer y.close()
	value, err := p.secretInput("Value of " + oneLine(name, 60) + ": ")
	if err != nil {
		return err
	}
	if err := y.SetSecret(ctx, name, value); err != nil {
		return err
	}
	p.note("%s is kept. Write ${secret:%s} where it is wanted.", name, name)
	return nil
}

func (p *program) secretsList(ctx context.Context) error {
	y, err := p.open(ctx, openOptions{noWorkspace: true})
	if err != nil {
		return err
	}
	defer y.close()
	names, err := y.Secrets()
	if err != nil {
		return err
	}
	if p.flags.json {
		return p.printJSON(names)
	}
	if len(names) == 0 {
		p.note("There are no secrets. `toolyard secrets set NAME` keeps one.")
	}
	for _, name := range names {
		fmt.Fprintln(p.stdout, name)
	}
	return nil
}

func (p *program) secretsRemove(ctx context.Context, name string) error {
	y, err := p.open(ctx, openOptions{noWorkspace: true})
	if err != nil {
		return err
	}
	defer y.close()
	err = y.RemoveSecret(ctx, name)
	if e, ok := errors.AsType[*tool.Error](err); ok && e.Code == tool.NotFound {
		return &missing{what: e.Message, hint: e.Hint}
	}
	return err
}

func (p *program) secretsRotate(ctx context.Context) error {
	y, err := p.open(ctx, openOptions{noWorkspace: true})
	if err != nil {
		return err
	}
	defer y.close()
	next := ""
	if y.KeyGiven() {
		if next, err = p.secretInput("New key: "); err != nil {
			return err
		}
	}
	if err := y.RotateSecrets(ctx, next); err != nil {
		return err
	}
	p.note("Everything is encrypted with the new key.")
	return nil
}
