package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard/tool"
)

func newTools(p *program) *cobra.Command {
	var family string
	c := &cobra.Command{
		Use:   "tools [QUERY] [--family F]",
		Short: "List the tools, or show one",
		Long: "Lists the tools with what they do to the world and whether they are asked about.\n" +
			"QUERY says what you want to do, in English or Chinese, and lists the tools that fit\n" +
			"best; the name of a tool shows all about it.",
		Example: "toolyard tools\ntoolyard tools edit\ntoolyard tools 'change text in a file'\ntoolyard tools --family shell --json",
		Args:    args(0, 1, ""),
		RunE: func(c *cobra.Command, args []string) error {
			query := ""
			if len(args) > 0 {
				query = args[0]
			}
			return p.tools(c.Context(), query, family)
		},
	}
	c.Flags().StringVar(&family, "family", "", "only tools of a `FAMILY`: files, edit, shell, …")
	return c
}

func (p *program) tools(ctx context.Context, query, family string) error {
	y, err := p.open(ctx, openOptions{keepJobs: true})
	if err != nil {
		return err
	}
	defer y.close()
	y.AwaitTools(ctx)
	specs := y.Tools()
	if family != "" {
		var names []string
		for _, s := range specs {
			if !slices.Contains(names, s.Category) {
				names = append(names, s.Category)
			}
		}
		slices.Sort(names)
		if err := oneOf("family", family, names...); err != nil {
			return err
		}
		specs = slices.DeleteFunc(slices.Clone(specs), func(s *tool.Spec) bool { return s.Category != family })
	}
	exact := findSpec(specs, query)
	if query != "" {
		if exact != nil {
			specs = []*tool.Spec{exact}
		} else if specs = search(y, query, family); len(specs) == 0 {
			e := &missing{what: fmt.Sprintf("no tool matches %q", oneLine(query, 60)), hint: "`toolyard tools` lists them all."}
			if nearest := nearestTool(y.Tools(), query); nearest != "" {
				e.hint = "Did you mean " + nearest + "?"
			}
			return e
		}
	}
	switch {
	case p.flags.json:
		list := make([]toolRow, len(specs))
		for i, s := range specs {
			list[i] = rowOf(s)
		}
		return p.printJSON(list)
	case exact != nil:
		p.showTool(exact)
		return nil
	}
	p.listTools(specs)
	return nil
}

// toolRow is a tool as JSON.
type toolRow struct {
	Name         string             `json:"name"`
	Title        string             `json:"title,omitempty"`
	Family       string             `json:"family"`
	Description  string             `json:"description"`
	Effects      tool.Effects       `json:"effects"`
	Permission   string             `json:"permission"`
	Aliases      []string           `json:"aliases,omitempty"`
	InputSchema  *jsonschema.Schema `json:"input_schema"`
	OutputSchema *jsonschema.Schema `json:"output_schema,omitempty"`
}

func rowOf(s *tool.Spec) toolRow {
	return toolRow{s.FullName(), s.Title, s.Category, s.Description, s.Effects, permission(s), s.Aliases, s.Input, s.Output}
}

// permission is a tool's own default.
func permission(s *tool.Spec) string {
	if s.Default == 0 {
		return tool.Ask.String()
	}
	return s.Default.String()
}

// Bounds of what a query lists: what fits much worse than the best is noise.
const (
	maxFound   = 20
	worthShare = 0.3 // of the best score
)

// search finds the tools that fit a query, the best first.
func search(y *yard, query, family string) []*tool.Spec {
	var found []*tool.Spec
	var best float64
	for _, m := range y.Search(query, family, maxFound) {
		if best = max(best, m.Score); m.Score >= worthShare*best {
			found = append(found, m.Spec)
		}
	}
	return found
}

func (p *program) listTools(specs []*tool.Spec) {
	rows := make([][]string, len(specs))
	for i, s := range specs {
		rows[i] = []string{s.FullName(), s.Category, s.Effects.String(), permission(s), firstSentence(s.Description)}
	}
	p.table(p.stdout, []column{
		{head: "TOOL", paint: p.out.cyan}, {head: "FAMILY"}, {head: "EFFECTS", paint: p.out.dim},
		{head: "DEFAULT", paint: p.out.status}, {head: "WHAT IT DOES"},
	}, rows)
}

// firstSentence is the beginning of a description, on one line.
func firstSentence(text string) string {
	text = oneLine(text, 200)
	if i := strings.Index(text, ". "); i > 0 {
		text = text[:i+1]
	}
	return oneLine(text, 96)
}

// showTool prints all about one tool.
func (p *program) showTool(s *tool.Spec) {
	l := p.out
	fmt.Fprintf(p.stdout, "%s  %s · %s · %s\n\n%s\n", l.bold(s.FullName()), s.Category, s.Effects, l.status(permission(s)), s.Description)
	fmt.Fprintf(p.stdout, "\n%s\n", l.bold("Arguments"))
	rows := [][]string{}
	for _, a := range describeArguments(s) {
		rows = append(rows, []string{"  " + a.name, a.kind, a.text})
	}
	p.table(p.stdout, []column{{paint: l.cyan}, {paint: l.dim}, {}}, rows)
	if len(s.Aliases) > 0 {
		fmt.Fprintf(p.stdout, "\n%s %s\n", l.bold("Also called"), strings.Join(s.Aliases, ", "))
	}
	for i, e := range s.Examples {
		if i == 0 {
			fmt.Fprintf(p.stdout, "\n%s\n", l.bold("Examples"))
		}
		fmt.Fprintf(p.stdout, "  toolyard call %s --args '%s'\n", s.FullName(), compact(e.Arguments))
	}
	if s.Manual != "" {
		fmt.Fprintf(p.stdout, "\n%s\n", strings.TrimSpace(s.Manual))
	}
}

// argument is one argument of a tool, for people.
type argument struct {
	name, kind, text string
	required         bool
}

// describeArguments lists the arguments of a tool, the required ones first, those
// inside lists below their list.
func describeArguments(s *tool.Spec) []argument {
	if s == nil || s.Input == nil {
		return nil
	}
	return describeProperties(s.Input, "", s.ArgumentAliases)
}

func describeProperties(schema *jsonschema.Schema, prefix string, aliases map[string]string) []argument {
	names := slices.Clone(schema.Required)
	for _, name := range propertyOrder(schema) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	var list []argument
	for _, name := range names {
		property := schema.Properties[name]
		if property == nil {
			continue
		}
		list = append(list, describeProperty(property, prefix+name, slices.Contains(schema.Required, name), othersOf(name, aliases)))
		if items := property.Items; items != nil && len(items.Properties) > 0 {
			list = append(list, describeProperties(items, prefix+name+"[].", aliases)...)
		}
	}
	return list
}

func describeProperty(property *jsonschema.Schema, name string, required bool, others []string) argument {
	a := argument{name: name, required: required, text: property.Description}
	kinds := slices.DeleteFunc(slices.Clone(schemaTypes(property)), func(t string) bool { return t == "null" })
	a.kind = strings.Join(kinds, "|")
	if property.Items != nil {
		if of := schemaTypes(property.Items); len(of) > 0 {
			a.kind = "list of " + strings.Join(of, "|") + "s"
		}
	}
	if required {
		a.kind += ", required"
	}
	if len(property.Enum) > 0 {
		var values []string
		for _, v := range property.Enum {
			values = append(values, fmt.Sprint(v))
		}
		a.text += " (" + strings.Join(values, ", ") + ")"
	}
	if len(property.Default) > 0 && !slices.Contains([]string{`""`, "false", "null", "[]"}, string(property.Default)) {
		a.text += " (default " + defaultText(property.Default) + ")"
	}
	if len(others) > 0 {
		a.text += " [also " + strings.Join(others, ", ") + "]"
	}
	a.text = strings.TrimSpace(a.text)
	return a
}

func defaultText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// othersOf lists the other names of an argument.
func othersOf(name string, aliases map[string]string) []string {
	var others []string
	for alias, own := range aliases {
		if own == name {
			others = append(others, alias)
		}
	}
	slices.Sort(others)
	return others
}
