// Package system carries the tools that ship with the program, as the folders
// that are synchronised into the toolbox. It knows nothing of how they are
// installed or run; to the runtime they are tools like all others.
//
// To add a tool, put its folder here: <name>/<name>.tool.js with package.json,
// README.md and tests. What is in the folder itself and in its lib/ is carried.
// A file that several tools need is in shared/ once, at the place that it has in
// their folders; usersOf names them. So a tool is run and tested where FS was
// written to, not here: go test -run OwnTests/filesystem.
package system

import (
	"embed"
	"io/fs"
	"sync"
)

// sharedDir is the folder that is no tool.
const sharedDir = "shared"

// node_modules, data and the like of a folder that was worked in stay out.
//
//go:embed */*.js */*.json */*.md */lib
var folders embed.FS

// usersOf names, for each file of shared/, the tools that it is shown in.
func usersOf() map[string][]string {
	return map[string][]string{
		"harness.js":      {"file-reader", "filesystem", "thinking", "todolist"},
		"lib/encoding.js": {"file-reader", "filesystem"},
		"lib/fail.js":     {"file-reader", "filesystem", "pdf-reader", "playwright", "thinking", "todolist"},
		"lib/paths.js":    {"file-reader", "filesystem"},
		"lib/text.js":     {"file-reader", "filesystem"},
	}
}

var embedded = sync.OnceValue(func() *tree {
	t, err := newTree(folders, sharedDir, usersOf())
	if err != nil {
		panic("system: the embedded folders are wrong: " + err.Error())
	}
	return t
})

// FS holds one folder a tool, named like the tool, each complete in itself. It is
// read-only and safe for concurrent use.
func FS() fs.FS { return embedded() }

// Names are the tools in FS, sorted.
func Names() []string {
	var names []string
	for _, e := range embedded().dirs["."] {
		names = append(names, e.Name())
	}
	return names
}
