package policy

import "strings"

// foreign are tool names of other systems (catalogue.md). To add one: a row
// here and in the catalogue.
var foreign = map[string]string{
	"file_read": "read", "Read": "read",
	"file_write": "write", "Write": "write",
	"Edit": "edit", "MultiEdit": "multi_edit", "NotebookEdit": "notebook_edit", "apply_patch": "patch",
	"Glob": "glob", "find": "glob", "Grep": "grep", "LS": "list", "list_directory": "list",
	"Bash": "bash", "execute": "bash", "run_command": "bash", "delete": "bash",
	"TodoRead": "todoread", "TodoWrite": "todowrite",
	"WebSearch": "web_search", "WebFetch": "web_scrape",
	"Task": "delegate",
}

// ForeignName gives our name for a tool name of another system.
func ForeignName(name string) (string, bool) {
	ours, ok := foreign[name]
	return ours, ok
}

// NormaliseName turns a name as clients and other systems write it into
// "source:tool", or the bare name of a built-in: mcp__server__tool,
// server__tool, toolyard:read and Read are understood.
func NormaliseName(name string) string {
	if rest, ok := strings.CutPrefix(name, "mcp__"); ok {
		server, inner, found := strings.Cut(rest, "__")
		if !found {
			inner = "*"
		}
		name = server + ":" + inner
	} else if source, inner, ok := strings.Cut(name, "__"); ok && source != "" && inner != "" && !strings.Contains(source, ":") {
		name = source + ":" + inner
	}
	if inner, ok := strings.CutPrefix(name, "toolyard:"); ok {
		name = inner
	}
	if ours, ok := foreign[name]; ok {
		return ours
	}
	return name
}
