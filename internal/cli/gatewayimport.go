package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard/internal/clients"
	"github.com/toolyard/toolyard/internal/gateway"
	"github.com/toolyard/toolyard/tool"
)

func newGatewayImport(p *program) *cobra.Command {
	var all, dry bool
	c := &cobra.Command{
		Use:   "import [CLIENT|FILE] [NAME…] [--all] [--dry-run]",
		Short: "Take over the servers of an MCP client",
		Long: "Reads the servers in the files of CLIENT (" + strings.Join(clients.Names(false), ", ") + "),\n" +
			"in FILE, or of every client of this machine, shows them, asks, and writes those that are\n" +
			"new into mcp.json of the home. The client's files stay as they are, and the entry of\n" +
			"this program is left out. What looks like a secret is not copied: ${secret:NAME} stands\n" +
			"for it, and NAME is told.",
		Example: "toolyard gateway import --dry-run\ntoolyard gateway import claude-code\ntoolyard gateway import ./.mcp.json memory",
		Args:    cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			return p.importServers(c.Context(), args, all, dry)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "all that are new, without a question")
	c.Flags().BoolVar(&dry, "dry-run", false, "show what would come in and change nothing")
	return c
}

// candidate is a server of a client, and what becomes of it.
type candidate struct {
	Name   string          `json:"name"` // here
	From   string          `json:"from"` // the file
	Client string          `json:"client,omitempty"`
	Status string          `json:"status"` // new, same, clash, ours or refused
	Entry  json.RawMessage `json:"entry,omitempty"`
	// Secrets are names that the entry refers to and whose values were not copied.
	Secrets []string `json:"secrets,omitempty"`
	Notes   []string `json:"notes,omitempty"`

	target string
}

// source is a file that servers are read from.
type source struct {
	client string
	place  clients.Place
}

func (p *program) importServers(ctx context.Context, args []string, all, dry bool) error {
	if all && len(args) > 1 {
		return usagef("name servers, or --all")
	}
	settings, err := p.settings(openOptions{noWorkspace: true}, nil)
	if err != nil {
		return err
	}
	m, err := p.machine()
	if err != nil {
		return err
	}
	sources, err := importSources(args, m)
	if err != nil {
		return err
	}
	path := gateway.FilePath(settings.Home)
	existing, err := gateway.ReadFile(path)
	if err != nil {
		return err
	}
	i := &importer{machine: m, taken: existing}
	for _, s := range sources {
		if err := i.read(s); err != nil {
			if len(args) > 0 {
				return notEdited(s.place.Path, err, "Correct the file: its client cannot read it either.")
			}
			p.note("%s is left out: %v", s.place.Path, err)
		}
	}
	if len(args) > 1 {
		if err := i.only(args[1:]); err != nil {
			return err
		}
	}
	return p.takeOver(ctx, i, settings.Home, all || len(args) > 1, dry)
}

// importSources lists the files to read.
func importSources(args []string, m clients.Machine) ([]source, error) {
	var found []source
	if len(args) == 0 {
		for _, c := range clients.All() {
			for _, place := range c.Places(m) {
				found = append(found, source{c.Name, place})
			}
		}
		return found, nil
	}
	if c, ok := clients.Find(args[0]); ok {
		for _, place := range c.Places(m) {
			found = append(found, source{c.Name, place})
		}
		return found, nil
	}
	if !strings.ContainsAny(args[0], `/\.`) && !isThere(args[0]) {
		return nil, noClient(args[0], clients.Names(false))
	}
	if !isThere(args[0]) {
		return nil, &missing{"there is no file " + oneLine(args[0], 200), "Name a client (" + strings.Join(clients.Names(false), ", ") + ") or a file with mcpServers."}
	}
	path, err := filepath.Abs(args[0])
	if err != nil {
		return nil, err
	}
	for _, place := range clients.Any(path) {
		found = append(found, source{"", place})
	}
	return found, nil
}

// importer decides what becomes of each server.
type importer struct {
	machine clients.Machine
	taken   gateway.Parsed // what is here already
	found   []*candidate
}

func (i *importer) read(s source) error {
	data, there, err := clients.Read(s.place.Path)
	if err != nil || !there {
		return err
	}
	entries, err := s.place.Entries(data)
	if err != nil {
		return err
	}
	for _, e := range entries {
		i.add(s, e)
	}
	return nil
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// add makes a candidate of an entry. One that another file has as well, word for
// word, is there once; another of the same name gets the client's behind it.
func (i *importer) add(s source, e clients.Entry) {
	c := &candidate{Name: strings.Trim(notInNames.ReplaceAllString(e.Name, "-"), "-._"), From: s.place.Path, Client: s.client, Status: "new"}
	if len(c.Name) > 64 {
		c.Name = c.Name[:64]
	}
	if isOurs(e) {
		c.Name, c.Status = e.Name, "ours"
		i.found = append(i.found, c)
		return
	}
	c.convert(e, i.machine, s.place.Scope)
	if j := i.index(c.Name); j >= 0 && s.client != "" {
		if reflect.DeepEqual(i.found[j].Entry, c.Entry) {
			return
		}
		c.Name += "-" + s.client
		if i.index(c.Name) >= 0 {
			return // of a file that counts less
		}
	}
	server, notes, err := gateway.ParseServer(c.Name, c.Entry)
	c.Notes = append(c.Notes, notes...)
	c.target = target(server)
	if old, there := i.taken.Servers[c.Name]; err != nil {
		what, _ := words(err)
		c.Status, c.Notes = "refused", append(c.Notes, what)
	} else if there {
		server.From = old.From
		if c.Status = "clash"; reflect.DeepEqual(old, server) {
			c.Status = "same"
		} else {
			c.Notes = append(c.Notes, "another server has this name here: "+oneLine(target(old), 80))
		}
	}
	i.found = append(i.found, c)
}

func (i *importer) index(name string) int {
	return slices.IndexFunc(i.found, func(c *candidate) bool { return c.Name == name && c.Status != "ours" })
}

// only keeps the servers with these names.
func (i *importer) only(names []string) error {
	var all []string
	for _, c := range i.found {
		all = append(all, c.Name)
	}
	for _, name := range names {
		if !slices.Contains(all, name) {
			e := &missing{fmt.Sprintf("there is no server %q in it", oneLine(name, 60)), "There are " + strings.Join(all, ", ") + "."}
			if len(all) == 0 {
				e.hint = "It has none."
			}
			return e
		}
	}
	i.found = slices.DeleteFunc(i.found, func(c *candidate) bool { return !slices.Contains(names, c.Name) })
	return nil
}

// convert writes the entry in our words: variables as ${NAME}, secrets by name.
func (c *candidate) convert(e clients.Entry, m clients.Machine, scope clients.Scope) {
	e = e.Clone()
	own := func(s string) string { return c.variables(s, m, scope) }
	out := gatewayEntry{Type: e.Type, Command: own(e.Command), Cwd: own(e.Cwd), URL: own(e.URL)}
	if e.Type == "stdio" {
		out.Type = ""
	}
	for _, arg := range e.Args {
		out.Args = append(out.Args, own(arg))
	}
	for key, value := range e.Env {
		e.Env[key] = c.conceal(key, own(value))
	}
	for key, value := range e.Headers {
		e.Headers[key] = c.conceal(key, own(value))
	}
	out.Env, out.Headers = e.Env, e.Headers
	if e.Disabled {
		off := false
		out.Enabled = &off
		c.Notes = append(c.Notes, "it is switched off there, and stays so")
	}
	slices.Sort(c.Secrets)
	c.Secrets = slices.Compact(c.Secrets)
	c.Entry, _ = json.Marshal(out) // texts only
}

var (
	clientVariable = regexp.MustCompile(`\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}|\{env:([A-Za-z_][A-Za-z0-9_]*)\}|^\$([A-Za-z_][A-Za-z0-9_]*)$`)
	inputVariable  = regexp.MustCompile(`\$\{(?:input|command):([^}]+)\}`)
)

// variables turns the clients' variables into ours.
func (c *candidate) variables(s string, m clients.Machine, scope clients.Scope) string {
	s = clientVariable.ReplaceAllStringFunc(s, func(match string) string {
		return "${" + strings.Trim(strings.Replace(match, "env:", "", 1), "${}") + "}"
	})
	s = inputVariable.ReplaceAllStringFunc(s, func(match string) string {
		name := secretName(inputVariable.FindStringSubmatch(match)[1])
		c.Secrets = append(c.Secrets, name)
		return "${secret:" + name + "}"
	})
	if strings.Contains(s, "${workspaceFolder}") {
		if scope == clients.User {
			c.Notes = append(c.Notes, "${workspaceFolder} is taken for "+m.Project)
		}
		s = strings.ReplaceAll(s, "${workspaceFolder}", m.Project)
	}
	return strings.ReplaceAll(s, "${userHome}", m.Home)
}

// secretKey are names of variables and headers that hold secrets.
var secretKey = regexp.MustCompile(`(?i)token|secret|password|passwd|passphrase|api[-_]?key|apikey|access[-_]?key|private[-_]?key|credential|authorization|auth$|cookie|(^|[-_])(key|pat|pwd|dsn)$`)

// secretValue are values that are secrets whatever they are called.
var secretValue = regexp.MustCompile(`^(sk-|ghp_|gho_|github_pat_|glpat-|xox[a-z]-|AKIA|AIza|eyJ[A-Za-z0-9_-]+\.eyJ)|://[^/\s:@]+:[^/\s@]+@`)

// conceal puts a reference in the place of a secret.
func (c *candidate) conceal(key, value string) string {
	if value == "" || strings.Contains(value, "${") || !secretKey.MatchString(key) && !secretValue.MatchString(value) {
		return value
	}
	name := secretName(key)
	if secretName(key) == "AUTHORIZATION" {
		name = secretName(c.Name + "_TOKEN")
	}
	c.Secrets = append(c.Secrets, name)
	if scheme, _, ok := strings.Cut(value, " "); ok && (strings.EqualFold(scheme, "bearer") || strings.EqualFold(scheme, "basic") || strings.EqualFold(scheme, "token")) {
		return scheme + " ${secret:" + name + "}"
	}
	return "${secret:" + name + "}"
}

var notInVariables = regexp.MustCompile(`[^A-Z0-9_]+`)

func secretName(key string) string {
	name := strings.Trim(notInVariables.ReplaceAllString(strings.ToUpper(key), "_"), "_")
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "S_" + name
	}
	return name
}

// takeOver shows what was found and writes what is new.
func (p *program) takeOver(ctx context.Context, i *importer, home string, sure, dry bool) error {
	var chosen []*candidate
	for _, c := range i.found {
		if c.Status == "new" {
			chosen = append(chosen, c)
		}
	}
	if !p.flags.json {
		p.printCandidates(i.found)
	}
	path := gateway.FilePath(home)
	if len(chosen) > 0 && !dry {
		if !sure {
			if err := p.agree(ctx, fmt.Sprintf("Take over %d of them?", len(chosen)), "Write them into "+path, fmt.Sprintf("taking over %d servers", len(chosen))); err != nil {
				if what, _ := words(err); strings.Contains(what, "nobody can be asked") {
					return withHint(err, "Add --all to take over all that are new, name some, or --dry-run to look.")
				}
				return err
			}
		}
		for _, c := range chosen {
			if err := gateway.WriteServer(ctx, path, c.Name, c.Entry); err != nil {
				return err
			}
		}
		p.tellGateways(ctx, home)
	}
	if p.flags.json {
		if i.found == nil {
			i.found = []*candidate{}
		}
		return p.printJSON(map[string]any{"servers": i.found, "imported": imported(chosen, dry), "path": path})
	}
	switch {
	case len(i.found) == 0:
		p.note("No servers were found.")
	case dry:
		p.note("%d would be written into %s.", len(chosen), path)
	case len(chosen) == 0:
		p.note("Nothing is new.")
	default:
		fmt.Fprintf(p.stdout, "%d taken over into %s\n", len(chosen), path)
	}
	p.noteSecrets(chosen)
	return nil
}

func imported(chosen []*candidate, dry bool) []string {
	names := []string{}
	for _, c := range chosen {
		if !dry {
			names = append(names, c.Name)
		}
	}
	return names
}

// noteSecrets says which values have to be put in.
func (p *program) noteSecrets(chosen []*candidate) {
	var names []string
	for _, c := range chosen {
		names = append(names, c.Secrets...)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		p.note("The value of %s was not copied: set it as a secret (`toolyard secrets set %s`), or write ${%s} in its place and set that variable.", name, name, name)
	}
}

func (p *program) printCandidates(found []*candidate) {
	if len(found) == 0 {
		return
	}
	rows := make([][]string, len(found))
	for i, c := range found {
		text := c.target
		if c.Status == "ours" {
			text = "this program"
		}
		rows[i] = []string{c.Name, c.Status, c.Client, oneLine(text, 80)}
	}
	p.table(p.stdout, []column{{head: "SERVER", paint: p.out.cyan}, {head: "STATUS", paint: p.out.status}, {head: "FROM", paint: p.out.dim}, {head: "TARGET"}}, rows)
	for _, c := range found {
		for _, note := range c.Notes {
			p.note("%s: %s", c.Name, note)
		}
	}
}

// withHint replaces what an error says to do.
func withHint(err error, hint string) error {
	if e := tool.AsError(err); e != nil {
		e.Hint = hint
	}
	return err
}
