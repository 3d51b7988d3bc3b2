package meta

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"time"

	"github.com/toolyard/toolyard/tool"
)

//go:embed tool_stats.md
var toolStatsManual string

type toolStatsIn struct {
	Tool   string `json:"tool,omitempty" jsonschema:"one tool, all without it"`
	Window int64  `json:"window,omitempty" jsonschema:"seconds to look back, 0 means since the start; default=0; min=0; max=31536000"`
}

type toolStatsOut struct {
	Calls           int64        `json:"calls"`
	Errors          int64        `json:"errors"`
	TotalDurationMS float64      `json:"total_duration_ms"`
	MeanMS          float64      `json:"mean_ms"`
	P50MS           float64      `json:"p50_ms,omitempty"`
	P95MS           float64      `json:"p95_ms,omitempty"`
	Tools           []tool.Stats `json:"tools"`
}

func toolStats() tool.Tool {
	return tool.New(tool.Spec{
		Name: "tool_stats", Title: "Tool statistics",
		Description: "Tells how often tools were called, how often they failed and how long they took. Use it to find out what is slow or fails.",
		Manual:      toolStatsManual, Category: "meta", Effects: tool.State, Default: tool.Allow, Idempotent: true, ConcurrencySafe: true,
	}, readStats)
}

func readStats(_ context.Context, req *tool.Request, in toolStatsIn) (*tool.Result, toolStatsOut, error) {
	out := toolStatsOut{Tools: []tool.Stats{}}
	if req.Host == nil {
		return nil, out, tool.Errorf(tool.DependencyError, "there is no executor that counts calls")
	}
	catalog := req.Host.Catalog()
	if in.Tool != "" {
		spec, ok := catalog.Describe(in.Tool)
		if !ok {
			return nil, out, tool.Errorf(tool.ToolNotFound, "no tool %q", in.Tool).WithHint("Leave tool out to see all that were called.")
		}
		in.Tool = spec.FullName()
	}
	out.Tools = append(out.Tools, catalog.Stats(in.Tool, time.Duration(in.Window)*time.Second)...)
	for _, s := range out.Tools {
		out.Calls += s.Calls
		out.Errors += s.Errors
		out.TotalDurationMS += s.TotalDurationMS
	}
	if out.Calls > 0 {
		out.MeanMS = out.TotalDurationMS / float64(out.Calls)
	}
	if len(out.Tools) == 1 {
		out.P50MS, out.P95MS = out.Tools[0].P50MS, out.Tools[0].P95MS
	}
	return tool.Text(table(out)), out, nil
}

// table is what the model reads.
func table(out toolStatsOut) string {
	if out.Calls == 0 {
		return "No calls in that time that this runtime knows of."
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-24s %8s %8s %10s %10s %10s\n", "tool", "calls", "errors", "mean ms", "p50 ms", "p95 ms")
	for _, s := range out.Tools {
		fmt.Fprintf(&b, "%-24s %8d %8d %10.1f %10.1f %10.1f\n", s.Tool, s.Calls, s.Errors, s.MeanMS, s.P50MS, s.P95MS)
	}
	if len(out.Tools) > 1 {
		fmt.Fprintf(&b, "%-24s %8d %8d %10.1f\n", "all", out.Calls, out.Errors, out.MeanMS)
	}
	return b.String()
}
