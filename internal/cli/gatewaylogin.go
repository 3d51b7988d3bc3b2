package cli

import (
	"context"

	"github.com/spf13/cobra"
)

func newGatewayLogin(p *program) *cobra.Command {
	var out bool
	c := &cobra.Command{
		Use:   "login NAME [--out]",
		Short: "Log in to a remote server that wants it",
		Long: "Prints an address to open in a browser, waits until you have logged in there, and keeps\n" +
			"the token encrypted in the home. What runs uses it from its next request on, and\n" +
			"refreshes it.",
		Example: "toolyard gateway login linear\n" +
			"toolyard gateway login linear --out",
		Args: args(1, 1, "the name of a server"),
		RunE: func(c *cobra.Command, args []string) error { return p.gatewayLogin(c.Context(), args[0], out) },
	}
	c.Flags().BoolVar(&out, "out", false, "forget the token and the registration instead")
	return c
}

func (p *program) gatewayLogin(ctx context.Context, name string, out bool) error {
	y, err := p.open(ctx, openOptions{})
	if err != nil {
		return err
	}
	defer y.close()
	if out {
		if err := y.LogoutServer(ctx, name); err != nil {
			return err
		}
		p.note("The log-in to %s is forgotten.", name)
		return nil
	}
	err = y.LoginServer(ctx, name, func(_ context.Context, url string) error {
		p.note("Open this address in a browser and log in. It waits 5 minutes.\n\n%s\n", url)
		return nil
	})
	if err == nil {
		p.note("Logged in to %s.", name)
	}
	return err
}
