package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard"
)

func newKeys(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:   "keys",
		Short: "Make, list and end API keys for the server",
		Long: "An API key is sent as \"Authorization: Bearer\" to a server of this home. It can be bound\n" +
			"to a profile, to some tools, to reading, to a tenant and project, to a rate and to a\n" +
			"time. Its secret is shown once, when it is made; only a hash of it is kept. Sessions of\n" +
			"one key are out of reach of all others.",
		Example: "toolyard keys add --name ci --tools 'files,!effect:write' --expires 720h\n" +
			"toolyard keys list\n" +
			"toolyard keys remove 1f0c2a9b",
		Args: cobra.ArbitraryArgs,
		RunE: p.noCommand,
	}
	c.AddCommand(newKeysAdd(p), newKeysList(p), newKeysRemove(p))
	return c
}

func newKeysAdd(p *program) *cobra.Command {
	var k toolyard.APIKey
	var tools []string
	var expires time.Duration
	c := &cobra.Command{
		Use:   "add [--name NAME] [--tools PATTERNS] [--profile P] [--read-only] [--rate N] [--expires TIME]",
		Short: "Make a key and show it once",
		Long: "Makes a key and prints it. Without bounds it may make any call; it reaches the rest of\n" +
			"the API, such as rules and other callers' sessions, only with --admin.",
		Example: "toolyard keys add --name reader --read-only --rate 120",
		Args:    args(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			for _, list := range tools {
				k.Tools = append(k.Tools, strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })...)
			}
			if c.Flags().Changed("expires") {
				if expires <= 0 {
					return usagef("--expires does not take %s", expires).withHint("Say how long the key holds, such as 720h.")
				}
				k.Expires = time.Now().Add(expires).UTC().Truncate(time.Second)
			}
			return p.keysAdd(c.Context(), k)
		},
	}
	f := c.Flags()
	f.StringVar(&k.Name, "name", "", "a `NAME` to know it by")
	f.StringArrayVar(&tools, "tools", nil, "only tools that these `PATTERNS` mean, with commas between (repeatable)")
	f.StringVar(&k.Profile, "profile", "", "only tools of this `PROFILE`, shown as it says")
	f.BoolVar(&k.ReadOnly, "read-only", false, "only tools that change nothing")
	f.BoolVar(&k.Admin, "admin", false, "the whole API, like the token of the home")
	f.StringVar(&k.Tenant, "tenant", "", "calls are those of this `TENANT`")
	f.StringVar(&k.Project, "project", "", "calls are those of this `PROJECT`")
	f.IntVar(&k.Rate, "rate", 0, "at most `N` requests a minute")
	f.DurationVar(&expires, "expires", 0, "it ends after this `TIME`, such as 720h")
	return c
}

func (p *program) keysAdd(ctx context.Context, k toolyard.APIKey) error {
	y, err := p.open(ctx, openOptions{noWorkspace: true})
	if err != nil {
		return err
	}
	defer y.close()
	k, secret, err := y.AddAPIKey(ctx, k)
	if err != nil {
		return err
	}
	if p.flags.json {
		return p.printJSON(struct {
			toolyard.APIKey
			Key string `json:"key"`
		}{k, secret})
	}
	p.note("Key %s. It is shown this once:", k.ID)
	_, err = fmt.Fprintln(p.stdout, secret)
	return err
}

func newKeysList(p *program) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the keys",
		Long:    "Lists the keys and what binds them, the oldest first.",
		Example: "toolyard keys list --json",
		Args:    args(0, 0, ""),
		RunE:    func(c *cobra.Command, _ []string) error { return p.keysList(c.Context()) },
	}
}

func (p *program) keysList(ctx context.Context) error {
	y, err := p.open(ctx, openOptions{noWorkspace: true})
	if err != nil {
		return err
	}
	defer y.close()
	all, err := y.APIKeys(ctx)
	if err != nil {
		return err
	}
	if p.flags.json {
		return p.printJSON(all)
	}
	if len(all) == 0 {
		p.note("There are no API keys. `toolyard keys add` makes one.")
		return nil
	}
	rows := make([][]string, 0, len(all))
	for _, k := range all {
		rows = append(rows, []string{k.ID, k.Name, k.Created.Local().Format("2006-01-02 15:04"), keyEnd(k), keyBounds(k)})
	}
	p.table(p.stdout, []column{{head: "ID"}, {head: "NAME"}, {head: "MADE", paint: p.out.dim}, {head: "ENDS"}, {head: "BOUND TO"}}, rows)
	return nil
}

func keyEnd(k toolyard.APIKey) string {
	switch {
	case k.Expires.IsZero():
		return "never"
	case k.Expires.Before(time.Now()):
		return "has ended"
	}
	return k.Expires.Local().Format("2006-01-02 15:04")
}

// keyBounds says in one line what a key is bound to.
func keyBounds(k toolyard.APIKey) string {
	var bounds []string
	add := func(on bool, text string) {
		if on {
			bounds = append(bounds, text)
		}
	}
	add(k.Admin, "admin")
	add(k.ReadOnly, "read-only")
	add(k.Profile != "", "profile "+k.Profile)
	add(len(k.Tools) > 0, "tools "+strings.Join(k.Tools, ","))
	add(k.Tenant != "", "tenant "+k.Tenant)
	add(k.Project != "", "project "+k.Project)
	add(k.Rate > 0, strconv.Itoa(k.Rate)+"/min")
	return strings.Join(bounds, ", ")
}

func newKeysRemove(p *program) *cobra.Command {
	return &cobra.Command{
		Use:     "remove ID",
		Short:   "End a key",
		Long:    "Ends a key: servers of this home refuse it within a second.",
		Example: "toolyard keys remove 1f0c2a9b",
		Args:    args(1, 1, "the ID of a key"),
		RunE:    func(c *cobra.Command, args []string) error { return p.keysRemove(c.Context(), args[0]) },
	}
}

func (p *program) keysRemove(ctx context.Context, id string) error {
	y, err := p.open(ctx, openOptions{noWorkspace: true})
	if err != nil {
		return err
	}
	defer y.close()
	all, err := y.APIKeys(ctx)
	if err != nil {
		return err
	}
	for _, k := range all {
		if k.ID == id {
			return y.RemoveAPIKey(ctx, id)
		}
	}
	return &missing{what: "there is no API key " + oneLine(id, 40), hint: "`toolyard keys list` shows them."}
}
