package docgen

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/builtin/toolbox"
	"github.com/toolyard/toolyard/internal/registry"
	"github.com/toolyard/toolyard/tool"
)

// families gives the order of the families and a line about each. A family that
// is not listed is an error, so that a new one gets its line.
var families = []struct{ name, about string }{
	{"files", "Read, search and change files."},
	{"edit", "Changes across files."},
	{"shell", "Commands in the sandbox, and the jobs they become."},
	{"artifacts", "Output that was too long for its result."},
	{"toolbox", "The user's own tools, in JavaScript and Python."},
	{"meta", "Tools about tools."},
}

// specs lists the tools that the program offers, by family.
func specs() (map[string][]*tool.Spec, error) {
	yard, err := toolyard.New(toolyard.Config{KeepJobs: true})
	if err != nil {
		return nil, err
	}
	byFamily := map[string][]*tool.Spec{}
	all := yard.Tools()
	for _, t := range toolbox.Tools(toolbox.Deps{}) { // what is in a toolbox is not the program's
		all = append(all, t.Spec())
	}
	for _, spec := range all {
		if !slices.ContainsFunc(families, func(f struct{ name, about string }) bool { return f.name == spec.Category }) {
			err = fmt.Errorf("the family %q of %s is not in the list of families", spec.Category, spec.Name)
		}
		byFamily[spec.Category] = append(byFamily[spec.Category], spec)
	}
	return byFamily, errors.Join(err, yard.Close())
}

// toolTable is the overview: one line a tool.
func toolTable() (string, error) {
	byFamily, err := specs()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("| family | tool | does |\n|---|---|---|\n")
	for _, family := range families {
		for _, spec := range byFamily[family.name] {
			first, _, _ := strings.Cut(spec.Description, ". ")
			fmt.Fprintf(&b, "| %s | [`%s`](docs/reference/tools.md#%s) | %s. |\n", family.name, spec.Name, spec.Name, escape(strings.TrimSuffix(first, ".")))
		}
	}
	return b.String(), nil
}

// tools is the reference: everything that the specs say.
func tools() (string, error) {
	byFamily, err := specs()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, family := range families {
		fmt.Fprintf(&b, "## %s\n\n%s\n\n", family.name, family.about)
		for _, spec := range byFamily[family.name] {
			if err := writeTool(&b, spec); err != nil {
				return "", fmt.Errorf("%s: %w", spec.Name, err)
			}
		}
	}
	return b.String(), nil
}

func writeTool(b *strings.Builder, spec *tool.Spec) error {
	fmt.Fprintf(b, "### %s\n\n%s\n\n%s\n\n", spec.Name, escape(spec.Description), facts(spec))
	if rows := fieldRows(spec.Input, spec.ArgumentAliases); len(rows) > 0 {
		b.WriteString("| parameter | takes | default | meaning |\n|---|---|---|---|\n")
		for _, row := range rows {
			fmt.Fprintf(b, "| %s | %s | %s | %s |\n", row.names(), row.takes, row.standard, row.meaning)
		}
		b.WriteString("\n")
	} else {
		b.WriteString("It takes no parameters.\n\n")
	}
	if rows := fieldRows(spec.Output, nil); len(rows) > 0 {
		b.WriteString("| result | is | meaning |\n|---|---|---|\n")
		for _, row := range rows {
			fmt.Fprintf(b, "| %s | %s | %s |\n", code(row.path), row.kind, row.meaning)
		}
		b.WriteString("\n")
	}
	for _, limit := range spec.Limitations {
		fmt.Fprintf(b, "- %s\n", limit)
	}
	if len(spec.Limitations) > 0 {
		b.WriteString("\n")
	}
	for _, e := range spec.Examples {
		var indented bytes.Buffer
		if err := json.Indent(&indented, e.Arguments, "", "  "); err != nil {
			return fmt.Errorf("example %q: %w", e.Title, err)
		}
		fmt.Fprintf(b, "%s:\n\n```json\n%s\n```\n\n", e.Title, indented.String())
	}
	b.WriteString(manual(spec) + "\n\n")
	return nil
}

// manual is the tool's manual below the tool's own heading.
func manual(spec *tool.Spec) string {
	text := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(spec.Manual), "# "+spec.Name))
	var b strings.Builder
	fenced := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		if !fenced && strings.HasPrefix(line, "#") {
			line = "##" + line
		}
		b.WriteString(line)
	}
	return b.String()
}

// facts are what the policy and the scheduler go by.
func facts(spec *tool.Spec) string {
	var list []string
	add := func(name, value string) { list = append(list, name+": "+value) }
	effects := strings.Join(spec.Effects.Names(), ", ")
	if effects == "" {
		effects = "those of the calls in it"
	}
	add("Effects", effects)
	standard := spec.Default
	if standard == 0 {
		standard = tool.Ask
	}
	add("permission where no rule matches", standard.String())
	add("time limit", limit(spec))
	output := spec.MaxOutput
	if output == 0 {
		output = tool.DefaultMaxOutput
	}
	add("text in one result", fmt.Sprintf("%d KiB", output>>10))
	var traits []string
	for _, t := range []struct {
		has  bool
		name string
	}{{spec.Idempotent, "a second identical call changes nothing more"}, {spec.Destructive, "may remove or overwrite"}, {spec.Pages, "long output comes in pages"}} {
		if t.has {
			traits = append(traits, t.name)
		}
	}
	if len(traits) > 0 {
		list = append(list, strings.Join(traits, "; "))
	}
	var others []string
	for _, name := range slices.Concat(spec.Aliases, registry.OtherNames(spec.Name)) {
		if name == "delete" {
			continue // bash only in rules, where delete(x) is bash(rm x)
		}
		others = append(others, "`"+name+"`")
	}
	if len(others) > 0 {
		add("also called", strings.Join(others, ", "))
	}
	return strings.Join(list, " · ")
}

func limit(spec *tool.Spec) string {
	const ceiling = 10 * time.Minute // where a Spec names none
	if spec.Timeout < 0 {
		return "none of its own"
	}
	return duration(cmp.Or(spec.Timeout, tool.DefaultTimeout)) + ", on request up to " + duration(cmp.Or(spec.MaxTimeout, ceiling))
}

// duration is d in words that need no practice: 30 s, 5 min 30 s.
func duration(d time.Duration) string {
	minutes, seconds := int(d/time.Minute), int(d%time.Minute/time.Second)
	switch {
	case minutes == 0:
		return fmt.Sprintf("%d s", seconds)
	case seconds == 0:
		return fmt.Sprintf("%d min", minutes)
	}
	return fmt.Sprintf("%d min %d s", minutes, seconds)
}
