package toolyard

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/toolyard/toolyard/internal/search"
	"github.com/toolyard/toolyard/internal/workspace"
	"github.com/toolyard/toolyard/tool"
)

// workspaces are the directories that calls may work in. It is safe for
// concurrent use.
type workspaces struct {
	config Config
	roots  []string // real paths, the default first

	mu   sync.Mutex
	open map[string]*workspace.Workspace
}

// openWorkspaces checks that the named directories are there.
func openWorkspaces(c Config) (*workspaces, error) {
	w := &workspaces{config: c, open: map[string]*workspace.Workspace{}}
	for _, dir := range c.Workspaces {
		real, err := realDir(dir)
		if err != nil {
			return nil, tool.Errorf(tool.NotFound, "workspace %s: %v", dir, err).WithHint("Name a directory that exists with --workspace DIR.")
		}
		if !slices.Contains(w.roots, real) {
			w.roots = append(w.roots, real)
		}
	}
	if len(w.roots) > 0 {
		// Opening one finds granted directories that are missing, at the start.
		if _, err := w.get(w.roots[0]); err != nil {
			return nil, errors.Join(err, w.close())
		}
	}
	return w, nil
}

func realDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

func (w *workspaces) names() []string { return slices.Clone(w.roots) }

// choose gives the root that a call names: "" is the default, if there is one.
func (w *workspaces) choose(name string) (string, error) {
	if name == "" {
		if len(w.roots) == 0 {
			return "", nil
		}
		return w.roots[0], nil
	}
	if slices.Contains(w.roots, name) {
		return name, nil
	}
	if real, err := realDir(name); err == nil && slices.Contains(w.roots, real) {
		return real, nil
	}
	hint := "No workspace was named; start with --workspace DIR."
	if len(w.roots) > 0 {
		hint = "The workspaces are: " + strings.Join(w.roots, ", ") + "."
	}
	return "", tool.Errorf(tool.PermissionDenied, "%s is not one of the workspaces", name).WithHint("%s", hint)
}

// get opens the workspace with a root, once.
func (w *workspaces) get(root string) (*workspace.Workspace, error) {
	root, err := w.choose(root)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if open, ok := w.open[root]; ok {
		return open, nil
	}
	c := workspace.Config{Dir: root, Read: w.config.Directories.Read, Write: w.config.Directories.Write, Home: w.config.UserHome}
	if !w.ours(root) { // else the operator has put it there
		c.Own = w.home()
	}
	if root != "" {
		c.Ignored = search.ToolyardIgnore(root)
	}
	open, err := workspace.Open(c)
	if err != nil {
		return nil, fmt.Errorf("workspace %s: %w", root, err)
	}
	w.open[root] = open
	return open, nil
}

// around reports whether the runtime's own home lies in a directory.
func (w *workspaces) around(dir string) bool {
	rel, err := filepath.Rel(dir, w.home())
	return dir != "" && err == nil && filepath.IsLocal(rel)
}

// home is the real path of the runtime's own home.
func (w *workspaces) home() string {
	if real, err := filepath.EvalSymlinks(w.config.Home); err == nil {
		return real
	}
	return w.config.Home
}

// ours reports whether a real path is in the runtime's own home: the token, the
// record and what other sessions kept are no tool's to see, even in a workspace
// around it.
func (w *workspaces) ours(path string) bool {
	rel, err := filepath.Rel(w.home(), path)
	return err == nil && filepath.IsLocal(rel)
}

// real is the real path behind a name, for permission rules.
func (w *workspaces) real(root, name string) (string, error) {
	ws, err := w.get(root)
	if err != nil {
		return "", err
	}
	p, err := ws.Resolve(name, workspace.Read)
	if err != nil {
		return "", err
	}
	return p.Real, nil
}

func (w *workspaces) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var err error
	for _, open := range w.open {
		err = errors.Join(err, open.Close())
	}
	clear(w.open)
	return err
}
