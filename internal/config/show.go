package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	toolyard "github.com/toolyard/toolyard"
)

// Entry is one setting in force.
type Entry struct {
	Path   string
	Value  string // as a file would say it
	Origin Origin
}

// Entries lists every setting in force, in the order of the table; of tools only
// what is set.
func (l *Loaded) Entries() []Entry {
	var all []Entry
	for _, k := range globalKeys() {
		all = append(all, Entry{k.Path, k.format(k.at(l)), l.Origins[k.Path]})
	}
	for _, name := range slices.Sorted(maps.Keys(l.Config.Profiles)) {
		p := l.Config.Profiles[name]
		for _, k := range profileKeys() {
			path := strings.Replace(k.Path, "*", name, 1)
			if from, set := l.Origins[path]; set {
				all = append(all, Entry{path, k.format(k.profile(&p)), from})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.Config.ToolSettings)) {
		t := l.Config.ToolSettings[name]
		for _, k := range toolKeys() {
			path := strings.Replace(k.Path, "*", name, 1)
			if from, set := l.Origins[path]; set {
				all = append(all, Entry{path, k.format(k.tool(&t)), from})
			}
		}
	}
	return all
}

// Show is the configuration in force as a file would say it, each line with
// where it comes from.
func (l *Loaded) Show() string {
	var b strings.Builder
	var open []string
	for _, e := range l.Entries() {
		path := splitPath(e.Path)
		common := 0
		for common < len(open) && common < len(path)-1 && open[common] == path[common] {
			common++
		}
		for i := common; i < len(path)-1; i++ {
			fmt.Fprintf(&b, "%s%s:\n", strings.Repeat("  ", i), quoteKey(path[i]))
		}
		open = path[:len(path)-1]
		fmt.Fprintf(&b, "%s%s: %s  # %s\n", strings.Repeat("  ", len(path)-1), path[len(path)-1], e.Value, e.Origin)
	}
	return b.String()
}

// splitPath cuts a path into names; a tool's name may hold dots.
func splitPath(path string) []string {
	if rest, ok := strings.CutPrefix(path, "profiles."); ok {
		if i := strings.LastIndexByte(rest, '.'); i > 0 {
			return []string{"profiles", rest[:i], rest[i+1:]}
		}
	}
	rest, ok := strings.CutPrefix(path, "tools.")
	if !ok {
		return strings.Split(path, ".")
	}
	for _, k := range toolKeys() {
		if name, found := strings.CutSuffix(rest, strings.TrimPrefix(k.Path, "tools.*")); found {
			return append([]string{"tools", name}, strings.Split(strings.TrimPrefix(k.Path, "tools.*."), ".")...)
		}
	}
	return strings.Split(path, ".")
}

func quoteKey(name string) string {
	if strings.ContainsAny(name, ":*#\"' ") {
		return strconv.Quote(name)
	}
	return name
}

// format writes the value behind a key's pointer as a file would say it.
func (k *Key) format(at any) string {
	switch v := at.(type) {
	case *string:
		return quoteText(*v)
	case **bool:
		if *v == nil {
			return ""
		}
		return strconv.FormatBool(**v)
	case *bool:
		return strconv.FormatBool(*v)
	case *int:
		if k.kind == size {
			return formatSize(int64(*v))
		}
		return strconv.Itoa(*v)
	case *float64:
		return strconv.FormatFloat(*v, 'g', -1, 64)
	case *time.Duration:
		return formatDuration(*v)
	case *int64:
		return formatSize(max(*v, 0))
	case *[]string:
		return formatList(*v)
	case *map[string]toolyard.MCPServer:
		return formatServers(*v)
	case *[]toolyard.Rule:
		items := make([]string, len(*v))
		for i, r := range *v {
			items[i] = r.Text
		}
		return formatList(items)
	}
	return ""
}

func formatList(items []string) string {
	quoted := make([]string, len(items))
	for i, item := range items {
		quoted[i] = quoteText(item)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// quoteText quotes what YAML could take for something else.
func quoteText(s string) string {
	if s == "" || strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-/.") != "" || s[0] == '-' || s[0] == '.' || s[0] >= '0' && s[0] <= '9' {
		return strconv.Quote(s)
	}
	return s
}

// Example is a commented configuration file with every setting at its default,
// for `toolyard init`.
func Example() string {
	var b strings.Builder
	b.WriteString("# Settings of Toolyard. Every line that begins with \"#\" and a name is the default;\n# take the \"#\" away to change it. `toolyard config check` finds mistakes,\n# `toolyard config show` tells what is in force and where it comes from.\n")
	section := ""
	for _, k := range globalKeys() {
		top, rest, nested := strings.Cut(k.Path, ".")
		if top != section {
			b.WriteString("\n")
			if nested {
				fmt.Fprintf(&b, "#%s:\n", top)
			}
			section = top
		}
		indent, name := "", top
		if nested {
			indent, name = "  ", rest
		}
		for _, line := range wrap(k.document(), 78-len(indent)) {
			fmt.Fprintf(&b, "#%s# %s\n", indent, line)
		}
		fmt.Fprintf(&b, "#%s%s: %s\n", indent, name, k.Default)
	}
	b.WriteString("\n#tools:\n#  # Settings of one tool, by its full name. Each is left at the tool's own unless it\n#  # is set. Dots below stand for nesting. For example:\n#  bash:\n#    timeout: 120s\n")
	for _, k := range toolKeys() {
		for _, line := range wrap(strings.TrimPrefix(k.Path, "tools.*.")+": "+k.document(), 76) {
			fmt.Fprintf(&b, "#    # %s\n", line)
		}
	}
	return b.String()
}

// document is the key's documentation with what it takes.
func (k *Key) document() string {
	if len(k.Words) == 0 {
		return k.Doc
	}
	return k.Doc + " One of " + strings.Join(k.Words, ", ") + "."
}

// Reference is the table of all settings in Markdown, for the documentation.
func Reference() string {
	var b strings.Builder
	b.WriteString("| setting | takes | default | what it does |\n|---|---|---|---|\n")
	for _, k := range Keys() {
		takes := k.Kind()
		if len(k.Words) > 0 {
			takes = strings.Join(k.Words, " · ")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", strings.Replace(k.Path, "*", "<name>", 1), takes, code(k.Default), strings.ReplaceAll(k.Doc, "|", `\|`))
	}
	return b.String()
}

func code(text string) string {
	if text == "" {
		return "the tool's own"
	}
	return "`" + text + "`"
}

// wrap breaks text into lines of at most width bytes.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
