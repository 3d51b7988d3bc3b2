package deps_test

import (
	"maps"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/toolbox/definition"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// define makes a definition with packages.
func define(dir string, packages ...string) *definition.Definition {
	d := &definition.Definition{Name: "it", Dir: dir, File: "tool.js", Language: definition.JavaScript}
	for _, p := range packages {
		at := strings.LastIndex(p, "@")
		d.Dependencies = append(d.Dependencies, definition.Dependency{Kind: definition.Package, Name: p[:at], Range: p[at+1:]})
	}
	return d
}
