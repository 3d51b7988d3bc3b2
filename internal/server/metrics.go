package server

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/executor"
)

// seconds are the bounds of the histogram of durations.
var seconds = []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}

// family is one metric with a value for each tool. To add one: a row in
// families.
type family struct {
	name, kind, help string
	value            func(m *executor.ToolMetrics) float64
}

func families() []family {
	ms := func(v float64) float64 { return v / 1000 }
	return []family{
		{"toolyard_tool_running", "gauge", "Calls that run now.", func(m *executor.ToolMetrics) float64 { return float64(m.Running) }},
		{"toolyard_tool_refused_total", "counter", "Calls refused before they reached the tool.", func(m *executor.ToolMetrics) float64 { return float64(m.Refused) }},
		{"toolyard_tool_waited_total", "counter", "Calls that waited for others.", func(m *executor.ToolMetrics) float64 { return float64(m.Waited) }},
		{"toolyard_tool_cache_hits_total", "counter", "Calls answered from the cache.", func(m *executor.ToolMetrics) float64 { return float64(m.CacheHits) }},
		{"toolyard_tool_retries_total", "counter", "Attempts after the first one.", func(m *executor.ToolMetrics) float64 { return float64(m.Retries) }},
		{"toolyard_tool_in_bytes_total", "counter", "Bytes of arguments.", func(m *executor.ToolMetrics) float64 { return float64(m.BytesIn) }},
		{"toolyard_tool_out_bytes_total", "counter", "Bytes of results.", func(m *executor.ToolMetrics) float64 { return float64(m.BytesOut) }},
		{"toolyard_tool_tokens_saved_total", "counter", "Tokens that folding kept from the model, at four bytes each.", func(m *executor.ToolMetrics) float64 { return float64(m.TokensSaved) }},
		{"toolyard_tool_concurrent_max", "gauge", "Most calls that ran at once.", func(m *executor.ToolMetrics) float64 { return float64(m.Concurrent) }},
		{"toolyard_tool_cpu_seconds_total", "counter", "Processor time of the calls' processes.", func(m *executor.ToolMetrics) float64 { return ms(m.CPUMS) }},
		{"toolyard_tool_memory_peak_bytes", "gauge", "Most memory that one call's processes held.", func(m *executor.ToolMetrics) float64 { return float64(m.MemoryPeak) }},
		{"toolyard_tool_read_bytes_total", "counter", "Block input of the calls' processes.", func(m *executor.ToolMetrics) float64 { return float64(m.ReadBytes) }},
		{"toolyard_tool_write_bytes_total", "counter", "Block output of the calls' processes.", func(m *executor.ToolMetrics) float64 { return float64(m.WriteBytes) }},
	}
}

// Metrics writes what an executor counted, in the text format of Prometheus,
// for [Config.Metrics]. The counters are the executor's own, so a client library
// with a registry of its own would only copy them.
func Metrics(snapshot func(window time.Duration) []executor.ToolMetrics, version string) func(w io.Writer) error {
	return func(w io.Writer) error {
		b := bufio.NewWriter(w)
		tools := snapshot(0)
		head(b, "toolyard_build_info", "gauge", "The program's version.")
		fmt.Fprintf(b, "toolyard_build_info{version=%s,go=%s} 1\n", quote(version), quote(runtime.Version()))
		head(b, "toolyard_goroutines", "gauge", "Goroutines of the program.")
		fmt.Fprintf(b, "toolyard_goroutines %d\n", runtime.NumGoroutine())
		head(b, "toolyard_tool_calls_total", "counter", "Calls that reached the tool or the cache.")
		for i := range tools {
			m := &tools[i]
			fmt.Fprintf(b, "toolyard_tool_calls_total{tool=%s,status=\"ok\"} %d\n", quote(m.Tool), m.OK)
			fmt.Fprintf(b, "toolyard_tool_calls_total{tool=%s,status=\"error\"} %d\n", quote(m.Tool), m.Failed)
		}
		head(b, "toolyard_tool_errors_total", "counter", "Calls that failed or were refused, by code.")
		for i := range tools {
			for _, code := range slices.Sorted(maps.Keys(tools[i].Codes)) {
				fmt.Fprintf(b, "toolyard_tool_errors_total{tool=%s,code=%s,class=%s} %d\n",
					quote(tools[i].Tool), quote(string(code)), quote(code.Class()), tools[i].Codes[code])
			}
		}
		for _, f := range families() {
			head(b, f.name, f.kind, f.help)
			for i := range tools {
				fmt.Fprintf(b, "%s{tool=%s} %s\n", f.name, quote(tools[i].Tool), strconv.FormatFloat(f.value(&tools[i]), 'g', -1, 64))
			}
		}
		head(b, "toolyard_tool_duration_seconds", "histogram", "How long calls took.")
		for i := range tools {
			histogram(b, &tools[i])
		}
		return b.Flush()
	}
}

func head(b *bufio.Writer, name, kind, help string) {
	fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// histogram writes the durations of one tool. A bucket of ours counts below a
// bound of Prometheus if all of it lies below.
func histogram(b *bufio.Writer, m *executor.ToolMetrics) {
	h := &m.Latency
	i, below := 0, int64(0)
	for _, bound := range seconds {
		for i < len(h.Buckets) && executor.Bound(i) <= bound*1000 {
			below += h.Buckets[i]
			i++
		}
		fmt.Fprintf(b, "toolyard_tool_duration_seconds_bucket{tool=%s,le=\"%g\"} %d\n", quote(m.Tool), bound, below)
	}
	fmt.Fprintf(b, "toolyard_tool_duration_seconds_bucket{tool=%s,le=\"+Inf\"} %d\n", quote(m.Tool), h.Count)
	fmt.Fprintf(b, "toolyard_tool_duration_seconds_sum{tool=%s} %s\n", quote(m.Tool), strconv.FormatFloat(h.SumMS/1000, 'g', -1, 64))
	fmt.Fprintf(b, "toolyard_tool_duration_seconds_count{tool=%s} %d\n", quote(m.Tool), h.Count)
}

var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// quote writes a label's value.
func quote(s string) string { return `"` + escapes.Replace(strings.ToValidUTF8(s, "\ufffd")) + `"` }
