package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard/internal/clients"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/edit"
	"github.com/toolyard/toolyard/internal/validate"
	"github.com/toolyard/toolyard/tool"
)

// maxDiff bounds a diff that is shown, in bytes.
const maxDiff = 64 << 10

// connectFlags are those of connect.
type connectFlags struct {
	project, print, remove, yes bool
	name, url                   string
	headers                     []string
}

func newConnect(p *program) *cobra.Command {
	var f connectFlags
	c := &cobra.Command{
		Use:   "connect CLIENT [--profile P] [--project] [--url URL] [--remove] [--print] [--yes]",
		Short: "Write this program into the configuration of an MCP client",
		Long: "CLIENT is " + strings.Join(clients.Names(true), ", ") + ". Shows what would change in\n" +
			"the client's file, asks, and changes only that: comments, order and layout stay, what it\n" +
			"was is kept in backups/ of the home, and a file that does not parse is left alone. The\n" +
			"entry starts this program as you run it now: --profile, --workspace, --mode, --allow,\n" +
			"--home and the like are written into it. Without --workspace it works in the project\n" +
			"that the client has open.",
		Example: "toolyard connect claude-code\n" +
			"toolyard connect vscode --project --yes\n" +
			"toolyard connect windsurf --workspace ~/src/app --mode plan\n" +
			"toolyard connect codex --url http://127.0.0.1:8765/mcp --header \"Authorization=Bearer $(cat ~/.toolyard/token)\"\n" +
			"toolyard connect zed --print",
		Args:      args(1, 1, "the name of a client: "+strings.Join(clients.Names(true), ", ")),
		ValidArgs: clients.Names(true),
		RunE: func(c *cobra.Command, args []string) error {
			return p.connect(c.Context(), args[0], f)
		},
	}
	c.Flags().BoolVar(&f.project, "project", false, "write the file of the project instead of yours")
	c.Flags().StringVar(&f.name, "name", "toolyard", "`NAME` of the entry")
	c.Flags().StringVar(&f.url, "url", "", "connect over HTTP to a `URL` of `toolyard serve`, instead of starting a process")
	c.Flags().StringArrayVar(&f.headers, "header", nil, "with --url: send a header, `KEY=VALUE`; repeatable")
	c.Flags().BoolVar(&f.remove, "remove", false, "take the entry out again")
	c.Flags().BoolVar(&f.print, "print", false, "print what to put into the file, and change nothing")
	c.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	return c
}

// connection is what connect does, as JSON.
type connection struct {
	Client  string         `json:"client"`
	Scope   clients.Scope  `json:"scope"`
	Path    string         `json:"path"`
	Entry   *clients.Entry `json:"entry,omitempty"`
	Snippet string         `json:"snippet,omitempty"`
	Diff    string         `json:"diff,omitempty"`
	Changed bool           `json:"changed"`
	Backup  string         `json:"backup,omitempty"`
	Notes   []string       `json:"notes,omitempty"`

	place    clients.Place
	machine  clients.Machine
	home     string
	old, new []byte
}

func (p *program) connect(ctx context.Context, client string, f connectFlags) error {
	c, err := p.plan(client, f)
	if err != nil {
		return err
	}
	if f.print {
		return p.printSnippet(c)
	}
	old, _, err := clients.Read(c.Path)
	if err != nil {
		return err
	}
	c.old = old
	if f.remove {
		c.new, err = c.place.Remove(old, f.name)
	} else {
		c.new, err = c.place.Put(old, *c.Entry)
	}
	if err != nil {
		return notEdited(c.Path, err, "The file is left as it is. Correct it there, or use --print and put the entry in by hand.")
	}
	c.Changed = string(c.new) != string(old)
	c.Diff = edit.DiffText(c.Path, c.Path, string(old), string(c.new), 3, maxDiff).Text
	if c.Changed {
		if err := p.confirmConnection(ctx, c, f); err != nil {
			return err
		}
		if c.Backup, err = clients.Save(c.Path, old, c.new, filepath.Join(c.home, "backups"), c.perm()); errors.Is(err, clients.ErrChanged) {
			return tool.Errorf(tool.Conflict, "%s was changed by somebody else meanwhile", c.Path).WithHint("Close %s and run this again.", c.place.Client.Title)
		} else if err != nil {
			return err
		}
	}
	return p.connected(c, f)
}

// notEdited explains why a client's file was left alone.
func notEdited(path string, err error, hint string) error {
	if at, ok := errors.AsType[*clients.SyntaxError](err); ok {
		return &hinted{fmt.Errorf("%s:%d:%d: %s", path, at.Line, at.Column, at.Reason), hint}
	}
	return &hinted{fmt.Errorf("%s: %w", path, err), hint}
}

// plan says what is to be written where.
func (p *program) plan(name string, f connectFlags) (*connection, error) {
	client, err := writableClient(name)
	if err != nil {
		return nil, err
	}
	if f.name == "" || strings.ContainsAny(f.name, "\x00\r\n") {
		return nil, usagef("--name needs a name")
	}
	settings, err := p.settings(openOptions{noWorkspace: true}, nil)
	if err != nil {
		return nil, err
	}
	m, err := p.machine()
	if err != nil {
		return nil, err
	}
	scope := clients.User
	if f.project {
		scope = clients.Project
	}
	place, ok := client.Place(m, scope, isThere)
	if !ok {
		return nil, usagef("%s has no file of a project", client.Title).withHint("Leave out --project.")
	}
	c := &connection{Client: client.Name, Scope: scope, Path: place.Path, place: place, machine: m, home: settings.Home}
	if f.remove {
		return c, nil
	}
	entry, err := p.entry(c, f, settings)
	if err != nil {
		return nil, err
	}
	c.Entry = &entry
	c.Notes = append(c.Notes, client.Next(m, scope)...)
	if f.project && entry.Type == "stdio" {
		c.Notes = append(c.Notes, "The program's path is that of this machine: whoever shares the file needs it there too.")
	}
	return c, nil
}

func writableClient(name string) (*clients.Client, error) {
	client, ok := clients.Find(name)
	if !ok {
		return nil, noClient(name, clients.Names(true))
	}
	if client.ReadOnly {
		return nil, usagef("%s is not one that this writes for", client.Title).withHint("`toolyard gateway import %s` reads its servers.", name)
	}
	return client, nil
}

func noClient(name string, names []string) error {
	err := usagef("there is no client %q", oneLine(name, 40))
	if nearest, near := validate.Nearest(name, names); near {
		return err.withHint("Did you mean %s? There are %s.", nearest, strings.Join(names, ", "))
	}
	return err.withHint("There are %s.", strings.Join(names, ", "))
}

// machine says where the files of this user are. The project is the first
// --workspace, else the current directory.
func (p *program) machine() (clients.Machine, error) {
	project := "."
	if len(p.flags.workspaces) > 0 {
		project = p.flags.workspaces[0]
	}
	project, err := filepath.Abs(project)
	if err != nil {
		return clients.Machine{}, err
	}
	if real, err := filepath.EvalSymlinks(project); err == nil {
		project = real // as clients name it
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return clients.Machine{}, &hinted{fmt.Errorf("your home directory is not known: %w", err), "Set HOME."}
	}
	return clients.Machine{
		OS: runtime.GOOS, Home: home, Project: project, AppData: os.Getenv("APPDATA"), XDGConfigHome: os.Getenv("XDG_CONFIG_HOME"),
		CodexHome: os.Getenv("CODEX_HOME"), ClaudeDir: os.Getenv("CLAUDE_CONFIG_DIR"), GeminiHome: os.Getenv("GEMINI_CLI_HOME"),
	}, nil
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// entry is what the client gets.
func (p *program) entry(c *connection, f connectFlags, settings *config.Loaded) (clients.Entry, error) {
	e := clients.Entry{Name: f.name, Type: "stdio"}
	if f.url != "" {
		return httpEntry(e, f)
	}
	if len(f.headers) > 0 {
		return e, usagef("--header needs --url")
	}
	program, err := ownPath()
	if err != nil {
		return e, &hinted{fmt.Errorf("this program does not know where it lies: %w", err), "Use --print and put its path in by hand."}
	}
	e.Command = program
	e.Args, err = p.passedOn(c, f, settings)
	return e, err
}

func httpEntry(e clients.Entry, f connectFlags) (clients.Entry, error) {
	if !strings.HasPrefix(f.url, "http://") && !strings.HasPrefix(f.url, "https://") {
		return e, usagef("--url does not take %q", oneLine(f.url, 80)).withHint("Write what `toolyard serve` prints, with /mcp behind it: http://127.0.0.1:8765/mcp.")
	}
	e.Type, e.URL = "http", f.url
	headers, err := pairs("header", f.headers)
	e.Headers = headers
	return e, err
}

// pairs reads KEY=VALUE flags.
func pairs(flag string, list []string) (map[string]string, error) {
	var found map[string]string
	for _, pair := range list {
		key, value, ok := strings.Cut(pair, "=")
		if key = strings.TrimSpace(key); !ok || key == "" {
			return nil, usagef("--%s does not take %q", flag, oneLine(pair, 40)).withHint("Write KEY=VALUE.")
		}
		if found == nil {
			found = map[string]string{}
		}
		found[key] = value
	}
	return found, nil
}

// ownPath is where this program is found: on PATH if that leads to it, so that an
// update that moves it behind a link does not break the entry.
func ownPath() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	if found := lookPath(filepath.Base(path)); found != "" && filepath.IsAbs(found) {
		a, errA := os.Stat(found)
		b, errB := os.Stat(path)
		if errA == nil && errB == nil && os.SameFile(a, b) {
			return found, nil
		}
	}
	return path, nil
}

// passedOn is the command line of the entry: mcp, with the global flags that were
// given here, and a workspace where the client does not start servers in the
// project.
func (p *program) passedOn(c *connection, f connectFlags, settings *config.Loaded) ([]string, error) {
	line := []string{"mcp"}
	add := func(flag string, values ...string) {
		for _, v := range values {
			if v != "" {
				line = append(line, "--"+flag, v)
			}
		}
	}
	// A client gives a server few of its variables, so TOOLYARD_HOME is passed too.
	if home, err := filepath.Abs(settings.Home); err != nil {
		return nil, err
	} else if home != filepath.Join(c.machine.Home, ".toolyard") {
		add("home", home)
	}
	if p.flags.config != "" {
		file, err := filepath.Abs(p.flags.config)
		if err != nil {
			return nil, err
		}
		add("config", file)
	}
	for _, dir := range p.flags.workspaces {
		dir, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		add("workspace", dir)
	}
	if len(p.flags.workspaces) == 0 {
		dir, err := c.workspace()
		if err != nil {
			return nil, err
		}
		add("workspace", dir)
	}
	add("profile", p.flags.profile)
	add("mode", p.flags.mode)
	add("allow", p.flags.allow...)
	add("ask", p.flags.ask...)
	add("deny", p.flags.deny...)
	add("log-level", p.flags.logLevel)
	return line, nil
}

// perm is the mode of a file that is made: a project's is for all who work there.
func (c *connection) perm() fs.FileMode {
	if c.Scope == clients.Project && c.Entry != nil && len(c.Entry.Headers) == 0 {
		return 0o644
	}
	return 0o600
}

// workspace is the one that the entry has to name; "" if the client starts
// servers in the project.
func (c *connection) workspace() (string, error) {
	client := c.place.Client
	if client.Starts(c.Scope) == "project" {
		return "", nil
	}
	if variable := client.Variable(c.Scope); variable != "" {
		return variable, nil
	}
	dir := c.machine.Project
	if dir == c.machine.Home || dir == filepath.Dir(dir) {
		return "", usagef("%s does not say which project is open, and %s would be the workspace", client.Title, dir).withHint("Name it: --workspace DIR.")
	}
	c.Notes = append(c.Notes, client.Title+" does not say which project is open, so tools work in "+dir+"; --workspace chooses another.")
	return dir, nil
}

func (p *program) printSnippet(c *connection) error {
	if c.Entry == nil {
		return usagef("--print and --remove do not go together")
	}
	snippet, err := c.place.Snippet(*c.Entry)
	if err != nil {
		return err
	}
	c.Snippet = string(snippet)
	if p.flags.json {
		return p.printJSON(c)
	}
	p.note("For %s:", c.Path)
	_, err = fmt.Fprint(p.stdout, c.Snippet)
	for _, note := range c.Notes {
		p.note("%s", note)
	}
	return err
}

// confirmConnection shows the diff and asks.
func (p *program) confirmConnection(ctx context.Context, c *connection, f connectFlags) error {
	if !p.flags.json && !p.flags.quiet {
		text := c.Diff
		if p.outTTY {
			text = p.out.diff(printable(text))
		}
		fmt.Fprint(p.stdout, text)
	}
	if f.yes {
		return nil
	}
	return p.agree(ctx, "Change "+c.Path+"?", "Change it", "Changing "+c.Path)
}

// agree asks the person at the terminal for a yes. what says in a refusal what
// would have been done.
func (p *program) agree(ctx context.Context, title, yes, what string) error {
	a := p.asker(nil, nil)
	if a == nil {
		return tool.Errorf(tool.PermissionDenied, "%s has to be confirmed, and nobody can be asked", lowerFirst(what)).
			WithHint("Add --yes to agree.").WithDetail("reason", "no_channel")
	}
	answer, err := a.Ask(ctx, tool.Question{
		Kind: "decision", Title: title, Default: "no",
		Options: []tool.Option{{ID: "yes", Label: yes}, {ID: "no", Label: "Leave everything as it is"}},
	})
	if err != nil {
		return err
	}
	if answer.Option != "yes" {
		return tool.Errorf(tool.PermissionDenied, "nothing was changed: you said no")
	}
	return nil
}

// connected tells what is so now.
func (p *program) connected(c *connection, f connectFlags) error {
	if p.flags.json {
		return p.printJSON(c)
	}
	title := c.place.Client.Title
	switch {
	case f.remove && !c.Changed:
		p.note("%s has no entry %q in %s.", title, f.name, c.Path)
	case f.remove:
		p.note("%s no longer starts %s.", title, f.name)
	case !c.Changed:
		p.note("%s is connected already: %s", title, c.Path)
	default:
		p.note("%s is connected: %s", title, c.Path)
		for _, note := range c.Notes {
			p.note("%s", note)
		}
		p.note("`toolyard doctor %s` looks whether it works.", c.Client)
	}
	if c.Backup != "" {
		p.note("What it was: %s", c.Backup)
	}
	return nil
}
