// Package clients knows the configuration files in which MCP clients list the
// servers they start: where they are, what stands in them, and how one entry is
// written without touching anything else in the file. It is not allowed to know
// what a server is, to read the environment, or to start anything.
//
// A client is data ([All]); a file is edited as text, never parsed and written
// anew, so that comments, order, indentation, line ends and a byte order mark
// stay as their owner left them:
//
//	c, _ := clients.Find("zed")
//	place, _ := c.Place(machine, clients.User)
//	old, _ := os.ReadFile(place.Path)
//	new, err := place.Put(old, entry)
//	err = clients.Save(place.Path, old, new, backups, 0o600)
package clients

import (
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Scope says for whom a file counts.
type Scope string

// The scopes.
const (
	User    Scope = "user"    // every project of the user
	Project Scope = "project" // whoever works in the project
	Local   Scope = "local"   // the user in this project; only Claude Code has it
)

// Machine says where a user's files are. Only OS and Home are needed; what is
// empty has the default of the system.
type Machine struct {
	OS      string // as runtime.GOOS says it
	Home    string // the user's home directory
	Project string // the project's directory, absolute; "" for none

	AppData       string // %APPDATA% of Windows
	XDGConfigHome string // $XDG_CONFIG_HOME
	CodexHome     string // $CODEX_HOME
	ClaudeDir     string // $CLAUDE_CONFIG_DIR
	GeminiHome    string // $GEMINI_CLI_HOME, which takes the place of the home
}

// xdg is where programs keep their settings that do so on every system in the
// way of Linux.
func (m Machine) xdg(elements ...string) string {
	dir := m.XDGConfigHome
	if dir == "" {
		dir = m.join(m.Home, ".config")
	}
	return m.join(append([]string{dir}, elements...)...)
}

// settings is where programs keep their settings that follow the system.
func (m Machine) settings(elements ...string) string {
	var dir string
	switch m.OS {
	case "darwin":
		dir = m.join(m.Home, "Library", "Application Support")
	case "windows":
		if dir = m.AppData; dir == "" {
			dir = m.join(m.Home, "AppData", "Roaming")
		}
	default:
		return m.xdg(elements...)
	}
	return m.join(append([]string{dir}, elements...)...)
}

// join joins a path in the way of the machine's system, which in tests need not
// be this one.
func (m Machine) join(elements ...string) string {
	if m.OS == "windows" && filepath.Separator != '\\' {
		return strings.ReplaceAll(path.Join(elements...), "/", `\`)
	}
	if m.OS != "windows" && filepath.Separator != '/' {
		return filepath.ToSlash(filepath.Join(elements...))
	}
	return filepath.Join(elements...)
}

// Entry is a server as a client's file has it, in words of no client.
type Entry struct {
	Name     string            `json:"name"`
	Type     string            `json:"type"` // stdio, http, sse or ws
	Command  string            `json:"command,omitempty"`
	Args     []string          `json:"args,omitempty"`
	Env      map[string]string `json:"env,omitempty"`
	Cwd      string            `json:"cwd,omitempty"`
	URL      string            `json:"url,omitempty"`
	Headers  map[string]string `json:"headers,omitempty"`
	Disabled bool              `json:"disabled,omitempty"` // switched off in the client
}

// Clone is a copy that shares nothing.
func (e Entry) Clone() Entry {
	e.Args, e.Env, e.Headers = slices.Clone(e.Args), maps.Clone(e.Env), maps.Clone(e.Headers)
	return e
}

// Client is a program that starts MCP servers.
type Client struct {
	Name  string // as on the command line: claude-code
	Title string // as its maker writes it: Claude Code
	// ReadOnly says that its file is read and never written.
	ReadOnly bool
	// Starts says in which directory it starts a server of a scope: "project" if
	// that is the project's, "" if nobody knows. Variable is what it replaces by the
	// project's directory in arguments, "" for nothing.
	Starts   func(Scope) string
	Variable func(Scope) string
	// Next says what a person has to do in the client after the entry is written.
	Next func(m Machine, s Scope) []string
	// Signs are paths whose existence says that the client is on this machine,
	// and Program is the command it is started by, "" for none.
	Signs   func(m Machine) []string
	Program string

	places  func(m Machine) []Place
	dialect dialect
}

// Place is a list of servers in a file.
type Place struct {
	Client *Client
	Path   string
	Scope  Scope
	Format Format
	// Keys lead from the root of the document to the list.
	Keys []string
}

// Format is how a file is written.
type Format string

// The formats.
const (
	JSON  Format = "json"
	JSONC Format = "jsonc" // JSON with comments and trailing commas
	TOML  Format = "toml"
)

// Places lists where the client looks on m, what counts most first. A project's
// are among them if m has one. The files need not be there.
func (c *Client) Places(m Machine) []Place {
	var found []Place
	for _, p := range c.places(m) {
		if p.Scope != User && m.Project == "" {
			continue
		}
		p.Client = c
		found = append(found, p)
	}
	return found
}

// Place gives where an entry of a scope is written; of several files, the first
// for which exists is true, else the last. ok is false if the client has none of
// that scope.
func (c *Client) Place(m Machine, s Scope, exists func(path string) bool) (p Place, ok bool) {
	for _, candidate := range c.Places(m) {
		if candidate.Scope != s {
			continue
		}
		if exists != nil && exists(candidate.Path) {
			return candidate, true
		}
		p, ok = candidate, true
	}
	return p, ok
}

// Find gives the client with a name.
func Find(name string) (*Client, bool) {
	all := All()
	i := slices.IndexFunc(all, func(c *Client) bool { return c.Name == name })
	if i < 0 {
		return nil, false
	}
	return all[i], true
}

// Names lists the clients; writable leaves out those whose file is only read.
func Names(writable bool) []string {
	var names []string
	for _, c := range All() {
		if !writable || !c.ReadOnly {
			names = append(names, c.Name)
		}
	}
	return names
}
