// Package config turns files, environment variables and flags into a
// [toolyard.Config]. It is the only reader of the environment. It does not know
// what the settings do; it knows their names, what they take, and who may set
// them.
//
// Later layers win: built-in, the user's file, the trusted project's, the
// environment, flags, the managed file. Lists replace, except permission rules,
// which add up and carry the scope of their layer. Merging is our own, over the
// YAML tree, because every fault and every origin is told with its line and
// column, and the names that other systems use depend on where they stand; a
// merge of plain maps loses both.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	toolyard "github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/policy"
	"github.com/toolyard/toolyard/tool"
)

// ManagedFile is the operator's file, which nothing loosens.
const ManagedFile = "/etc/toolyard/managed.yaml"

// Layer is who gave a setting.
type Layer int

// The layers, from weak to strong.
const (
	BuiltIn Layer = iota
	UserFile
	ProjectFile
	Environment
	FlagLayer
	ManagedLayer
)

func (l Layer) String() string {
	return [...]string{"built-in", "user", "project", "environment", "flags", "managed"}[l]
}

// scope is that of the layer's permission rules. What the person starting
// toolyard says holds for this session.
func (l Layer) scope() policy.Scope {
	return [...]policy.Scope{policy.BuiltIn, policy.User, policy.Project, policy.Session, policy.Session, policy.Managed}[l]
}

// Options say what to load. The zero value loads the default files and the
// process's environment.
type Options struct {
	Flags Flags
	// Environ is the environment as os.Environ gives it. Nil means the process's.
	Environ []string
	// Dir is where relative names start, and the workspace if none is named.
	// Empty means the current directory.
	Dir string
	// NoWorkspace leaves Config.Workspaces empty if none is named (serve).
	NoWorkspace bool
	// Managed is the operator's file. Empty means [ManagedFile]; "-" means none.
	Managed string
	// Trusted gives the sum at which a directory was trusted, or "". Nil trusts
	// none. See [Sum].
	Trusted func(dir string) (sum string, err error)
}

// Flags are the global flags of the command line (surface.md §1).
type Flags struct {
	Home             string
	File             string // --config
	Workspaces       []string
	Mode             string
	Profile          string
	LogLevel         string
	Allow, Ask, Deny []string
	// Set are further settings by path, as text: {"sandbox.memory": "1GiB"}.
	Set map[string]string
}

// Origin is where a setting got its value.
type Origin struct {
	Layer        Layer
	Name         string // to show: the file, "environment", "--mode"
	File         string // absolute; "" if none
	Line, Column int    // 0 if none
}

func (o Origin) String() string {
	switch {
	case o.Line > 0:
		return fmt.Sprintf("%s:%d", o.Name, o.Line)
	case o.Name != "":
		return o.Name
	}
	return o.Layer.String()
}

// File is a configuration file that was looked at.
type File struct {
	Layer Layer
	Path  string
	State FileState
}

// FileState says what became of a file.
type FileState string

// The states of files.
const (
	Read      FileState = "read"
	Absent    FileState = "absent"
	Untrusted FileState = "untrusted" // its content was not looked at
)

// Loaded is a configuration with where it came from.
type Loaded struct {
	Config toolyard.Config
	// Home is Config.Home, absolute.
	Home string
	// LogLevel is debug, info, warn or error.
	LogLevel string
	// Origins are by path ("tools.bash.timeout"); what is not in it is built in.
	Origins map[string]Origin
	// Files are those that were looked at, in the order of the layers.
	Files []File
	// Notes are sentences for the person: a project's file that is not trusted, a
	// setting of another system that means nothing here.
	Notes []string
	// passOn are the variables of the environment that tools may see.
	passOn []string
}

// Load reads the configuration. The error is a VALIDATION_ERROR with one fault
// for everything that is wrong in any layer; the Loaded is then what could be
// read, for display only.
func Load(o Options) (*Loaded, error) {
	if o.Environ == nil {
		o.Environ = os.Environ()
	}
	if o.Dir == "" {
		dir, err := os.Getwd()
		if err != nil {
			return nil, tool.Errorf(tool.ExecutionError, "the current directory is not known: %v", err).WithHint("Change to a directory that exists.")
		}
		o.Dir = dir
	}
	l := &Loaded{Origins: map[string]Origin{}}
	l.Config.ToolSettings = map[string]toolyard.ToolSettings{}
	r := &reader{loaded: l, tree: newTree()}
	r.builtIn()
	home, err := o.home()
	if err != nil {
		return nil, err
	}
	l.Home, l.Config.Home = home, home
	l.Config.Path = o.env("PATH")
	l.Config.Sandbox.DockerHost = o.env("DOCKER_HOST")
	if userHome, err := os.UserHomeDir(); err == nil {
		l.Config.UserHome = userHome
		l.Config.GitExcludes = gitExcludes(userHome, o.env("XDG_CONFIG_HOME"))
	}
	r.userFile(o)
	workspaces := o.workspaces(l)
	if len(workspaces) > 0 {
		r.project(workspaces[0], o.Trusted)
	}
	r.environment(o)
	r.flags(o)
	r.managed(o)
	r.toolbox(o)
	r.profiles()
	l.Config.MCP.Environ = o.Environ
	if len(l.Config.Workspaces) == 0 && !o.NoWorkspace {
		l.Config.Workspaces = []string{o.Dir}
	}
	return l, r.err()
}

// err sums the faults up.
func (r *reader) err() error {
	if len(r.faults) == 0 {
		return nil
	}
	err := tool.Errorf(tool.ValidationError, "the configuration is wrong: %s", r.faults[0]).
		WithHint("Correct it and start again; `toolyard config check` lists every fault, `toolyard config show` what is in force.")
	if n := len(r.faults); n > 1 {
		err.Message += fmt.Sprintf(" (and %d more)", n-1)
	}
	err.Faults = r.faults
	if !slices.ContainsFunc(r.faults, func(f tool.Fault) bool { return !strings.HasPrefix(f.Path, "--") }) {
		return err.WithDetail("source", "flags")
	}
	return err
}

// builtIn sets every default of the table.
func (r *reader) builtIn() {
	r.from = origin{layer: BuiltIn, name: "built-in"}
	for _, k := range globalKeys() {
		if k.Default == "[]" || k.Default == "{}" || k.Default == `""` || k.Default == "" {
			continue
		}
		if !k.assign(k.at(r.loaded), value{text: k.Default}, r.from) {
			panic("config: the default of " + k.Path + " is not what it takes") // a mistake in the table
		}
	}
}

// home is where everything is kept.
func (o Options) home() (string, error) {
	home := o.Flags.Home
	if home == "" {
		home = o.env("TOOLYARD_HOME")
	}
	if home == "" {
		home = "~/.toolyard"
	}
	dir, ok := absolute(home, o.Dir)
	if !ok {
		return "", tool.Errorf(tool.ParameterError, "the home directory %q is not known", home).
			WithHint("Set HOME, TOOLYARD_HOME or --home to a directory.")
	}
	return dir, nil
}

func (o Options) env(name string) string {
	for _, pair := range o.Environ {
		if key, text, ok := strings.Cut(pair, "="); ok && key == name {
			return text
		}
	}
	return ""
}

// UserFile is the path of the user's file.
func (o Options) userFile(home string) (path string, named bool) {
	if o.Flags.File == "" {
		return filepath.Join(home, "config.yaml"), false
	}
	path, ok := absolute(o.Flags.File, o.Dir)
	if !ok {
		path = o.Flags.File
	}
	return path, true
}

func (r *reader) userFile(o Options) {
	path, named := o.userFile(r.loaded.Home)
	r.file(UserFile, path, filepath.Dir(path), named)
}

func (r *reader) managed(o Options) {
	path := cmp.Or(o.Managed, ManagedFile)
	if path == "-" {
		return
	}
	r.file(ManagedLayer, path, filepath.Dir(path), false)
}

// file reads one file. A file that is not there is a fault only if it was
// named.
func (r *reader) file(layer Layer, path, dir string, needed bool) {
	r.from = origin{layer: layer, file: path, name: path, dir: dir}
	content, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !needed:
		r.loaded.Files = append(r.loaded.Files, File{layer, path, Absent})
		return
	case err != nil:
		var cause *fs.PathError
		if errors.As(err, &cause) {
			err = cause.Err
		}
		r.faults = append(r.faults, tool.Fault{Path: path, Expected: "a file that can be read", Got: err.Error()})
		return
	}
	r.loaded.Files = append(r.loaded.Files, File{layer, path, Read})
	r.yaml(content)
}

// workspaces are the directories that the session will work in, to find the
// project's file: what flags and the environment name wins over the user's
// file.
func (o Options) workspaces(l *Loaded) []string {
	for _, list := range [][]string{o.Flags.Workspaces, splitList(o.env("TOOLYARD_WORKSPACES"))} {
		var dirs []string
		for _, each := range list {
			if dir, ok := absolute(each, o.Dir); ok {
				dirs = append(dirs, dir)
			}
		}
		if len(dirs) > 0 {
			return dirs
		}
	}
	if len(l.Config.Workspaces) > 0 {
		return l.Config.Workspaces
	}
	if o.NoWorkspace {
		return nil
	}
	return []string{o.Dir}
}

// flags sets what the command line says.
func (r *reader) flags(o Options) {
	flag := func(name, path string, v value) {
		r.from = origin{layer: FlagLayer, name: name, dir: o.Dir}
		r.byPath(path, v)
	}
	if len(o.Flags.Workspaces) > 0 {
		flag("--workspace", "workspaces", listOf(o.Flags.Workspaces))
	}
	for _, f := range []struct{ name, path, text string }{{"--mode", "mode", o.Flags.Mode}, {"--profile", "profile", o.Flags.Profile}, {"--log-level", "log.level", o.Flags.LogLevel}} {
		if f.text != "" {
			flag(f.name, f.path, value{text: f.text})
		}
	}
	for _, f := range []struct {
		name, path string
		list       []string
	}{{"--allow", "permissions.allow", o.Flags.Allow}, {"--ask", "permissions.ask", o.Flags.Ask}, {"--deny", "permissions.deny", o.Flags.Deny}} {
		if len(f.list) > 0 {
			flag(f.name, f.path, listOf(f.list))
		}
	}
	for _, path := range slices.Sorted(keysOf(o.Flags.Set)) {
		flag("--set "+path, path, value{text: o.Flags.Set[path]})
	}
}

func listOf(items []string) value {
	v := value{kind: list}
	for _, item := range items {
		v.list = append(v.list, value{text: item})
	}
	return v
}
