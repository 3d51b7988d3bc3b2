package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard/internal/store"
)

func newStats(p *program) *cobra.Command {
	return &cobra.Command{
		Use:     "stats [TOOL]",
		Short:   "Show how often tools are called, how long they take and how they fail",
		Long:    "Sums up the record of calls (the last 100,000): a line a tool, the most called first.",
		Example: "toolyard stats\ntoolyard stats bash --json",
		Args:    args(0, 1, ""),
		RunE: func(c *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			return p.stats(c.Context(), name)
		},
	}
}

// toolStats sums up the calls of one tool. Times are in milliseconds and of calls
// that ran.
type toolStats struct {
	Tool      string           `json:"tool"`
	Calls     int64            `json:"calls"`
	OK        int64            `json:"ok"`
	Errors    int64            `json:"errors"`
	Refused   int64            `json:"refused"`
	Cancelled int64            `json:"cancelled"`
	MeanMS    float64          `json:"mean_ms"`
	P50MS     float64          `json:"p50_ms"`
	P95MS     float64          `json:"p95_ms"`
	P99MS     float64          `json:"p99_ms"`
	MaxMS     float64          `json:"max_ms"`
	BytesIn   int64            `json:"bytes_in"`
	BytesOut  int64            `json:"bytes_out"`
	Codes     map[string]int64 `json:"codes,omitempty"`
	Last      time.Time        `json:"last"`
}

func (p *program) stats(ctx context.Context, name string) error {
	y, err := p.open(ctx, openOptions{keepJobs: true})
	if err != nil {
		return err
	}
	defer y.close()
	if name != "" {
		if spec := findSpec(y.Tools(), name); spec != nil {
			name = spec.FullName()
		}
	}
	rows, err := readCalls(ctx, y.store, store.CallFilter{Tool: name}, recordMax)
	if err != nil {
		return err
	}
	if name != "" && len(rows) == 0 && findSpec(y.Tools(), name) == nil {
		e := &missing{what: "there is no tool " + oneLine(name, 60), hint: "`toolyard tools` lists them."}
		if nearest := nearestTool(y.Tools(), name); nearest != "" {
			e.hint = "Did you mean " + nearest + "?"
		}
		return e
	}
	all := sumUp(rows)
	if p.flags.json {
		return p.printJSON(all)
	}
	if len(all) == 0 {
		p.note("No calls.")
		return nil
	}
	p.printStats(all, name != "")
	return nil
}

// sumUp makes statistics of calls, the most called tool first.
func sumUp(rows []store.Call) []toolStats {
	byTool := map[string]*toolStats{}
	times := map[string][]float64{}
	for _, c := range rows {
		s := byTool[c.Tool]
		if s == nil {
			s = &toolStats{Tool: c.Tool}
			byTool[c.Tool] = s
		}
		s.Calls++
		s.BytesIn += c.BytesIn
		s.BytesOut += c.BytesOut
		if c.Started.After(s.Last) {
			s.Last = c.Started
		}
		switch c.Status {
		case "ok":
			s.OK++
		case "error", "lost":
			s.Errors++
		case "refused":
			s.Refused++
		case "cancelled":
			s.Cancelled++
		}
		if c.Code != "" {
			if s.Codes == nil {
				s.Codes = map[string]int64{}
			}
			s.Codes[c.Code]++
		}
		if c.Status == "ok" || c.Status == "error" {
			times[c.Tool] = append(times[c.Tool], c.DurationMS)
		}
	}
	all := make([]toolStats, 0, len(byTool))
	for name, s := range byTool {
		s.fill(times[name])
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b toolStats) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Tool, b.Tool))
	})
	return all
}

// fill sets the times.
func (s *toolStats) fill(ms []float64) {
	if len(ms) == 0 {
		return
	}
	slices.Sort(ms)
	var sum float64
	for _, v := range ms {
		sum += v
	}
	// The nearest rank: the smallest value that at least q of all do not exceed.
	at := func(q float64) float64 { return round3(ms[max(0, int(math.Ceil(q*float64(len(ms))))-1)]) }
	s.MeanMS, s.P50MS, s.P95MS, s.P99MS, s.MaxMS = round3(sum/float64(len(ms))), at(0.50), at(0.95), at(0.99), at(1)
}

func round3(v float64) float64 { return math.Round(v*1000) / 1000 }

func (p *program) printStats(all []toolStats, one bool) {
	ms := func(v float64) string { return durationText(time.Duration(v * float64(time.Millisecond))) }
	rows := make([][]string, len(all))
	for i, s := range all {
		rows[i] = []string{s.Tool, fmt.Sprint(s.Calls), fmt.Sprint(s.OK), fmt.Sprint(s.Errors), fmt.Sprint(s.Refused),
			ms(s.MeanMS), ms(s.P50MS), ms(s.P95MS), ms(s.MaxMS), bytesText(s.BytesOut)}
	}
	p.table(p.stdout, []column{
		{head: "TOOL", paint: p.out.cyan}, {head: "CALLS", right: true}, {head: "OK", right: true}, {head: "ERRORS", right: true},
		{head: "REFUSED", right: true}, {head: "MEAN", right: true}, {head: "P50", right: true}, {head: "P95", right: true},
		{head: "MAX", right: true}, {head: "OUT", right: true},
	}, rows)
	if !one || len(all[0].Codes) == 0 {
		return
	}
	for _, code := range slices.Sorted(maps.Keys(all[0].Codes)) {
		fmt.Fprintf(p.stdout, "  %d × %s\n", all[0].Codes[code], code)
	}
}
