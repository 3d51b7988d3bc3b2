package meta

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/toolyard/toolyard/tool"
)

//go:embed tool_describe.md
var toolDescribeManual string

type toolDescribeIn struct {
	Names []string `json:"names" alias:"name,tools,tool" jsonschema:"names of tools, in any spelling; minItems=1; maxItems=20"`
}

type toolDescribeOut struct {
	Tools   []described `json:"tools" jsonschema:"those that there are, in the order of names"`
	Missing []missing   `json:"missing,omitempty" jsonschema:"names that nothing has"`
}

// described is all that can be told about a tool.
type described struct {
	Name         string             `json:"name" jsonschema:"what call_tool takes"`
	Title        string             `json:"title,omitempty"`
	Description  string             `json:"description"`
	InputSchema  *jsonschema.Schema `json:"inputSchema"`
	OutputSchema *jsonschema.Schema `json:"outputSchema,omitempty"`
	Effects      []string           `json:"effects" jsonschema:"what it does to the world: read, write, execute, network, interact, state"`
	Destructive  bool               `json:"destructive,omitempty" jsonschema:"it may remove or overwrite"`
	Permission   string             `json:"permission" jsonschema:"allow, or ask: a person is asked unless a rule says otherwise"`
	Manual       string             `json:"manual,omitempty" jsonschema:"Markdown"`
	Limitations  []string           `json:"limitations,omitempty"`
	Examples     []example          `json:"examples,omitempty"`
}

type example struct {
	Title     string          `json:"title,omitempty"`
	Arguments json.RawMessage `json:"arguments"`
}

type missing struct {
	Name    string   `json:"name"`
	Nearest []string `json:"nearest,omitempty" jsonschema:"names that are most like it"`
}

func toolDescribe() tool.Tool {
	return tool.New(tool.Spec{
		Name: "tool_describe", Title: "Describe tools",
		Description: "Tells all about tools: their arguments in full, what they return, examples and manual. " +
			"Use it when what tool_search has told is not enough to call a tool.",
		Manual: toolDescribeManual, Category: "meta", Effects: tool.State, Default: tool.Allow, Idempotent: true, ConcurrencySafe: true, Repeatable: true,
		MaxOutput: 128 << 10,
		Aliases:   []string{"describe_tool", "describe_tools"},
		Examples:  []tool.Example{{Title: "Two tools", Arguments: json.RawMessage(`{"names":["read","grep"]}`)}},
	}, describeTools)
}

func describeTools(_ context.Context, req *tool.Request, in toolDescribeIn) (*tool.Result, toolDescribeOut, error) {
	out := toolDescribeOut{Tools: []described{}}
	if req.Host == nil {
		return nil, out, errNoHost
	}
	catalog := req.Host.Catalog()
	var first error
	for _, name := range in.Names {
		spec, ok := catalog.Describe(name)
		if !ok {
			err := notFound(catalog, name)
			if first == nil {
				first = err
			}
			near, _ := tool.AsError(err).Details["nearest"].([]string)
			out.Missing = append(out.Missing, missing{name, near})
			continue
		}
		out.Tools = append(out.Tools, describe(spec))
	}
	if len(out.Tools) == 0 {
		return nil, out, first
	}
	return tool.Text(describedText(out)), out, nil
}

// notFound is the answer to a name that nothing has. A catalog may know the
// nearest ones.
func notFound(c tool.Catalog, name string) error {
	if n, ok := c.(interface{ NotFound(name string) error }); ok {
		return n.NotFound(name)
	}
	return tool.Errorf(tool.ToolNotFound, "there is no tool %q", name).WithHint("Find one with tool_search.")
}

func describe(s *tool.Spec) described {
	d := described{
		Name: tool.WireName(s.FullName()), Title: s.Title, Description: s.Description, InputSchema: s.Input, OutputSchema: s.Output,
		Effects: s.Effects.Names(), Destructive: s.Destructive, Permission: s.Default.String(), Manual: strings.TrimSpace(s.Manual), Limitations: s.Limitations,
	}
	if d.Effects == nil {
		d.Effects = []string{}
	}
	if s.Default == 0 {
		d.Permission = tool.Ask.String()
	}
	for _, e := range s.Examples {
		if json.Valid(e.Arguments) {
			d.Examples = append(d.Examples, example{e.Title, e.Arguments})
		}
	}
	return d
}

// describedText is what the model reads.
func describedText(out toolDescribeOut) string {
	var b strings.Builder
	for _, d := range out.Tools {
		fmt.Fprintf(&b, "# %s\n%s\n\nArguments: %s\n", d.Name, d.Description, encode(d.InputSchema))
		if d.OutputSchema != nil {
			fmt.Fprintf(&b, "Returns: %s\n", compact(d.OutputSchema, schemaBudget))
		}
		fmt.Fprintf(&b, "Effects: %s. Permission: %s.\n", strings.Join(d.Effects, ", "), d.Permission)
		for _, e := range d.Examples {
			fmt.Fprintf(&b, "Example: %s\n", e.Arguments)
		}
		for _, l := range d.Limitations {
			fmt.Fprintf(&b, "Limitation: %s\n", l)
		}
		if d.Manual != "" {
			fmt.Fprintf(&b, "\n%s\n", d.Manual)
		}
		b.WriteByte('\n')
	}
	for _, m := range out.Missing {
		fmt.Fprintf(&b, "There is no tool %q.", m.Name)
		if len(m.Nearest) > 0 {
			fmt.Fprintf(&b, " The nearest are %s.", strings.Join(m.Nearest, ", "))
		}
		b.WriteByte('\n')
	}
	return strings.TrimRight(b.String(), "\n")
}
