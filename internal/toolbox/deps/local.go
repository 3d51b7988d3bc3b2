package deps

import (
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/tool"
)

// Local checks the files of its own that a tool depends on: they are in its
// folder, and none needs itself by way of others. The error is a *tool.Error
// with DEPENDENCY_ERROR.
func Local(dir string, d *definition.Definition) error {
	var names []string
	for _, dep := range d.Dependencies {
		if dep.Kind == definition.Local {
			names = append(names, dep.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return tool.Errorf(tool.DependencyError, "the tool's folder cannot be read: %v", reason(err)).WithHint("Check its permissions.")
	}
	defer root.Close()
	g := &localGraph{root: root, state: map[string]int{}}
	for _, name := range names {
		clean := path.Clean(strings.ReplaceAll(name, `\`, "/"))
		if path.IsAbs(clean) || clean == ".." || strings.HasPrefix(clean, "../") {
			return tool.Errorf(tool.DependencyError, "the local dependency %s lies outside of the tool's folder", name).
				WithHint("Put the file into the folder and name it as ./file.js.")
		}
		file, ok := g.resolve(clean)
		if !ok {
			return tool.Errorf(tool.DependencyError, "the local dependency %s is not there", name).
				WithHint("Add the file, or take it out of getDependencies.")
		}
		if cycle := g.visit(file); cycle != nil {
			return tool.Errorf(tool.DependencyError, "local dependencies form a circle: %s", strings.Join(cycle, " → ")).
				WithHint("Move what they share into a file of its own that imports neither.")
		}
	}
	return nil
}

// localGraph is which files of a folder import which.
type localGraph struct {
	root  *os.Root
	state map[string]int // 1 on the way, 2 done
	way   []string
}

// maxLocal bounds how many files are looked through.
const maxLocal = 2000

// resolve finds the file that a module name without package stands for.
func (g *localGraph) resolve(name string) (string, bool) {
	for _, candidate := range []string{name, name + ".js", name + ".mjs", name + ".cjs", name + ".json", name + "/index.js", name + "/index.mjs", name + "/index.cjs"} {
		if info, err := g.root.Stat(candidate); err == nil && info.Mode().IsRegular() {
			return candidate, true
		}
	}
	info, err := g.root.Stat(name)
	return name, err == nil && info.Mode().Type() == fs.ModeDir
}

// visit follows imports and returns the first circle.
func (g *localGraph) visit(file string) []string {
	switch {
	case g.state[file] == 2 || len(g.state) > maxLocal:
		return nil
	case g.state[file] == 1:
		var cycle []string
		for _, name := range g.way[slices.Index(g.way, file):] {
			cycle = append(cycle, "./"+name)
		}
		return append(cycle, "./"+file)
	}
	g.state[file] = 1
	g.way = append(g.way, file)
	source, _ := readIn(g.root, file, maxSource) // a directory imports nothing
	for _, name := range imports(string(source)) {
		target := path.Join(path.Dir(file), name)
		if strings.HasPrefix(target, "../") || strings.HasSuffix(target, ".json") {
			continue
		}
		if to, ok := g.resolve(target); ok && to != file {
			if cycle := g.visit(to); cycle != nil {
				return cycle
			}
		}
	}
	g.way = g.way[:len(g.way)-1]
	g.state[file] = 2
	return nil
}
