package meta

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/toolyard/toolyard/tool"
)

//go:embed tool_search.md
var toolSearchManual string

// Bounds of what one search tells, in bytes.
const (
	searchBudget      = 16 << 10 // of all schemas
	schemaBudget      = 2 << 10  // of one
	leastSchema       = 256      // of one, however many there are
	briefDescription  = 300
	briefExplanation  = 120 // of one argument
	shortExplanation  = 40
	maxSearched       = 50
	searchedByDefault = 10
)

type toolSearchIn struct {
	Query string `json:"query" alias:"q,text,keywords" jsonschema:"what the tool shall do, in your own words; minLength=1; maxLength=1000"`
	Limit int    `json:"limit,omitempty" alias:"max_results" jsonschema:"how many tools at most; default=10; min=1; max=50"`
}

type toolSearchOut struct {
	Tools []foundTool `json:"tools" jsonschema:"the best first"`
}

// foundTool is a tool as a search tells it: enough to call it.
type foundTool struct {
	Name        string          `json:"name" jsonschema:"what call_tool and tool_describe take"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema" jsonschema:"its arguments, shortened"`
	Score       float64         `json:"score" jsonschema:"how well it fits;; only those of one search can be compared"`
}

func toolSearch() tool.Tool {
	return tool.New(tool.Spec{
		Name: "tool_search", Title: "Find tools",
		Description: "Finds tools by what they do, among all that can be called here, also those that are not listed. " +
			"Say in a few words, in English or Chinese, what you want to do; the names, descriptions and arguments of the best come back, to be called with call_tool.",
		Manual: toolSearchManual, Category: "meta", Effects: tool.State, Default: tool.Allow, Idempotent: true, ConcurrencySafe: true, Repeatable: true,
		MaxOutput: 64 << 10,
		Aliases:   []string{"search_tools", "find_tools"},
		Examples:  []tool.Example{{Title: "Find a tool for a task", Arguments: json.RawMessage(`{"query":"open a pull request","limit":5}`)}},
	}, searchTools)
}

func searchTools(_ context.Context, req *tool.Request, in toolSearchIn) (*tool.Result, toolSearchOut, error) {
	out := toolSearchOut{Tools: []foundTool{}}
	if req.Host == nil {
		return nil, out, errNoHost
	}
	if in.Limit <= 0 {
		in.Limit = searchedByDefault
	}
	in.Limit = min(in.Limit, maxSearched)
	budget := min(schemaBudget, max(leastSchema, searchBudget/in.Limit))
	for _, m := range find(req.Host.Catalog(), in.Query, in.Limit) {
		out.Tools = append(out.Tools, foundTool{
			Name:        tool.WireName(m.Spec.FullName()),
			Description: brief(m.Spec.Description, briefDescription),
			Schema:      compact(m.Spec.Input, budget),
			Score:       round(m.Score),
		})
	}
	return tool.Text(foundText(out.Tools)), out, nil
}

// find asks the catalog, with scores where it has some.
func find(c tool.Catalog, query string, limit int) []tool.Match {
	var found []tool.Match
	if r, ok := c.(tool.Ranker); ok {
		// The tools that find others are found by everybody who has them: two more, so
		// that they can be left out.
		for _, m := range r.Rank(query, limit+len(finders)) {
			if !isFinder(m.Spec) {
				found = append(found, m)
			}
		}
	} else {
		for i, s := range c.Search(query, limit) {
			found = append(found, tool.Match{Spec: s, Score: 1 / float64(i+1)})
		}
	}
	return found[:min(limit, len(found))]
}

// finders are the tools of a search themselves.
var finders = [...]string{"tool_search", "tool_describe", "call_tool"}

func isFinder(s *tool.Spec) bool {
	for _, name := range finders {
		if s.FullName() == name {
			return true
		}
	}
	return false
}

// foundText is what the model reads.
func foundText(found []foundTool) string {
	if len(found) == 0 {
		return "No tool fits. Say it in other words, or more generally."
	}
	var b strings.Builder
	for i, f := range found {
		fmt.Fprintf(&b, "%d. %s — %s\n   %s\n", i+1, f.Name, f.Description, f.Schema)
	}
	b.WriteString("Call one with call_tool {name, arguments}; tool_describe {names} tells all about some.")
	return b.String()
}

func round(score float64) float64 { return float64(int(score*1000+0.5)) / 1000 }
