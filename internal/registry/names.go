package registry

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/tool"
)

// otherNames are the tool names of other systems. To add one: a row here and in
// the catalogue.
var otherNames = map[string]string{
	"file_read":      "read",
	"Read":           "read",
	"file_write":     "write",
	"Write":          "write",
	"Edit":           "edit",
	"MultiEdit":      "multi_edit",
	"Glob":           "glob",
	"find":           "glob",
	"Grep":           "grep",
	"LS":             "list",
	"list_directory": "list",
	"Bash":           "bash",
	"execute":        "bash",
	"run_command":    "bash",
	"TodoRead":       "todoread",
	"TodoWrite":      "todowrite",
	"WebSearch":      "web_search",
	"WebFetch":       "web_scrape",
	"Task":           "delegate",
	"NotebookEdit":   "notebook_edit",
	"apply_patch":    "patch",
	"delete":         "bash", // rm
}

// Known gives our name of a tool that another system names so.
func Known(name string) (ours string, ok bool) {
	ours, ok = otherNames[name]
	return ours, ok
}

// OtherNames lists the names that other systems have for a tool of ours, sorted.
func OtherNames(ours string) []string {
	var names []string
	for name, known := range otherNames {
		if known == ours {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// WireName is the name of a tool on the wire: see [tool.WireName].
func WireName(fullName string) string { return tool.WireName(fullName) }

// spellings are the ways in which a client may write a name on the wire, the
// plain one first.
func spellings(name string) []string {
	list := []string{name}
	for _, prefix := range []string{"mcp__toolyard__", "mcp__", "toolyard__", "toolyard:"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && rest != "" {
			list = append(list, rest)
		}
	}
	return list
}

// Translate turns the arguments of a tool of another system into those of the
// tool that stands for it, where the names alone do not do it: delete of a file
// is bash with rm. Other arguments are given back as they are.
func Translate(name string, arguments json.RawMessage) json.RawMessage {
	if name[strings.LastIndexAny(name, ":_")+1:] != "delete" {
		return arguments
	}
	var in map[string]any
	if json.Unmarshal(arguments, &in) != nil || len(in) != 1 {
		return arguments
	}
	for _, key := range []string{"file_path", "path", "target_file"} {
		path, ok := in[key].(string)
		if !ok || path == "" || strings.ContainsRune(path, 0) {
			continue
		}
		if path[0] == '-' {
			path = "./" + path
		}
		command, err := json.Marshal(map[string]string{"command": "rm '" + strings.ReplaceAll(path, "'", `'\''`) + "'"})
		if err == nil {
			return command
		}
	}
	return arguments
}
