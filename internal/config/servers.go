package config

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	toolyard "github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/gateway"
	"github.com/toolyard/toolyard/tool"
)

// servers reads mcpServers. An entry that is wrong is a fault of its own; the
// others are read.
func (r *reader) servers(k *Key, full string, node ast.Node) {
	if node == nil || node.Type() == ast.NullType {
		return
	}
	pairs, ok := pairsOf(node)
	if !ok {
		r.fault(node, full, k.expected(), r.value(node, 0).got())
		return
	}
	for _, pair := range pairs {
		name := keyText(pair.Key)
		path := join(full, name)
		entry := r.resolve(pair.Value)
		if entry == nil || entry.Type() == ast.NullType {
			r.fault(pair.Key, path, "a command or a url", "nothing")
			continue
		}
		raw, err := json.Marshal(r.plain(entry, 0))
		if err != nil {
			r.fault(entry, path, "an MCP server", "what cannot be read")
			continue
		}
		s, notes, err := gateway.ParseServer(name, raw)
		line, col := positionOf(pair.Key)
		for _, note := range notes {
			if unknown, _, isUnknown := strings.Cut(note, " is not known"); isUnknown {
				at := r.at(entry, []string{unknown})
				expected := "a key of an MCP server"
				if near := nearest(unknown, gateway.EntryKeys()); near != "" {
					expected += " (did you mean " + near + "?)"
				}
				r.fault(at, join(path, unknown), expected, strconv.Quote(unknown))
				continue
			}
			r.note(r.from.place(line) + ": " + path + ": " + note)
		}
		if err != nil {
			for _, f := range tool.AsError(err).Faults {
				at, where := ast.Node(pair.Key), path
				if f.Path != "" {
					at, where = r.at(entry, strings.Split(f.Path, ".")), join(path, f.Path)
				}
				r.fault(at, where, f.Expected, f.Got)
			}
			continue
		}
		r.server(name, path, s, Origin{Layer: r.from.layer, File: r.from.file, Name: r.from.name, Line: line, Column: col})
	}
}

// server takes an entry in. A project's may not say that it is trusted, nor that
// the sandbox be weaker than what the operator's own entries get.
func (r *reader) server(name, path string, s gateway.Server, where Origin) {
	s.From = r.from.place(where.Line)
	if r.from.layer == ProjectFile {
		s.Workspace = r.from.dir
		if s.Trust {
			s.Trust = false
			r.note(path + ".trust has no effect in a project's file")
		}
		if s.Sandbox.Level != "" && !strings.EqualFold(s.Sandbox.Level, "L2") {
			s.Sandbox.Level = ""
			r.note(path + ".sandbox.level cannot be lowered in a project's file")
		}
		if len(s.Permissions.Allow) > 0 && s.Prefix(name) == "" {
			s.Permissions.Allow = nil
			r.note(path + ".permissions.allow has no effect in a project's file without a namespace")
		}
	}
	to := &r.loaded.Config.MCP.Servers
	if *to == nil {
		*to = map[string]toolyard.MCPServer{}
	}
	(*to)[name] = s
	r.loaded.Origins["mcpServers"] = where
}

// mcpFile reads a project's .mcp.json.
func (r *reader) mcpFile(file, dir string, content []byte) {
	r.from = origin{layer: ProjectFile, file: file, name: file, dir: dir}
	r.loaded.Files = append(r.loaded.Files, File{ProjectFile, file, Read})
	parsed, err := gateway.Parse(content, file)
	if err != nil {
		r.note(tool.AsError(err).Message)
		return
	}
	for _, note := range parsed.Notes {
		r.note(file + ": " + note)
	}
	// It is other programs' file: what is wrong in it keeps nobody from starting.
	for _, name := range slices.Sorted(maps.Keys(parsed.Errs)) {
		r.note(file + ": " + tool.AsError(parsed.Errs[name]).Message)
	}
	for _, name := range slices.Sorted(maps.Keys(parsed.Servers)) {
		r.server(name, join("mcpServers", name), parsed.Servers[name], Origin{Layer: ProjectFile, File: file, Name: file})
	}
}

// plain is a node as JSON knows values.
func (r *reader) plain(n ast.Node, depth int) any {
	n = r.resolve(n)
	if r.nodes++; n == nil || r.nodes > maxNodes || depth > maxDepth {
		return nil
	}
	if pairs, ok := pairsOf(n); ok {
		m := make(map[string]any, len(pairs))
		for _, pair := range pairs {
			m[keyText(pair.Key)] = r.plain(pair.Value, depth+1)
		}
		return m
	}
	switch n := n.(type) {
	case *ast.NullNode:
		return nil
	case *ast.SequenceNode:
		list := make([]any, len(n.Values))
		for i, item := range n.Values {
			list[i] = r.plain(item, depth+1)
		}
		return list
	case *ast.BoolNode:
		return n.Value
	case *ast.IntegerNode:
		return n.Value
	case *ast.FloatNode:
		return n.Value
	}
	return r.value(n, depth).text
}

// at finds the node of a key inside an entry, or the nearest above it.
func (r *reader) at(n ast.Node, path []string) ast.Node {
	found := n
	for _, name := range path {
		pairs, ok := pairsOf(r.resolve(n))
		if !ok {
			break
		}
		i := slices.IndexFunc(pairs, func(p *ast.MappingValueNode) bool { return keyText(p.Key) == name })
		if i < 0 {
			break
		}
		found, n = pairs[i].Key, pairs[i].Value
	}
	return found
}

// formatServers writes entries in one line, without the values of variables and
// headers.
func formatServers(all map[string]toolyard.MCPServer) string {
	if len(all) == 0 {
		return "{}"
	}
	items := make([]string, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		raw, err := json.Marshal(all[name].Masked())
		if err != nil {
			continue
		}
		items = append(items, quoteText(name)+": "+string(raw))
	}
	return "{" + strings.Join(items, ", ") + "}"
}
