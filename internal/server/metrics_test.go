package server

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/tool"
)

func TestMetricsAreWhatPrometheusReads(t *testing.T) {
	read := executor.ToolMetrics{Tool: "read", Running: 2}
	read.OK, read.Failed, read.Codes = 7, 3, map[tool.Code]int64{tool.NotFound: 2, tool.TimeoutError: 1}
	read.CPUMS = 1500
	read.Latency = executor.Histogram{Count: 10, SumMS: 2500, MaxMS: 900}
	for took, n := range map[float64]int64{2: 8, 800: 2} { // ms
		for i := range read.Latency.Buckets {
			if executor.Bound(i) > took {
				read.Latency.Buckets[i] = n
				break
			}
		}
	}
	odd := executor.ToolMetrics{Tool: "a\"b\\c\nd"}
	var out bytes.Buffer
	if err := Metrics(func(time.Duration) []executor.ToolMetrics { return []executor.ToolMetrics{read, odd} }, "1.2.3")(&out); err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(&out)
	if err != nil {
		t.Fatal(err)
	}
	value := func(name string, labels ...string) (float64, bool) {
		for _, m := range families[name].GetMetric() {
			all := ""
			for _, l := range m.GetLabel() {
				all += l.GetName() + "=" + l.GetValue() + ","
			}
			matches := true
			for _, l := range labels {
				matches = matches && strings.Contains(all, l+",")
			}
			if matches {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue(), true
			}
		}
		return 0, false
	}
	for _, want := range []struct {
		name   string
		labels []string
		value  float64
	}{
		{"toolyard_build_info", []string{"version=1.2.3"}, 1},
		{"toolyard_tool_calls_total", []string{"tool=read", "status=ok"}, 7},
		{"toolyard_tool_calls_total", []string{"tool=read", "status=error"}, 3},
		{"toolyard_tool_errors_total", []string{"tool=read", "code=NOT_FOUND", "class=parameter_error"}, 2},
		{"toolyard_tool_running", []string{"tool=read"}, 2},
		{"toolyard_tool_cpu_seconds_total", []string{"tool=read"}, 1.5},
		{"toolyard_tool_running", []string{"tool=a\"b\\c\nd"}, 0},
	} {
		if got, ok := value(want.name, want.labels...); !ok || got != want.value {
			t.Errorf("%s%v = %v (there: %v), want %v", want.name, want.labels, got, ok, want.value)
		}
	}
	h := families["toolyard_tool_duration_seconds"].GetMetric()[0].GetHistogram()
	if h.GetSampleCount() != 10 || h.GetSampleSum() != 2.5 {
		t.Errorf("histogram of %d, sum %v", h.GetSampleCount(), h.GetSampleSum())
	}
	for _, b := range h.GetBucket() {
		want := uint64(8)
		switch {
		case b.GetUpperBound() < .005:
			want = 0
		case b.GetUpperBound() >= 1:
			want = 10
		}
		if b.GetCumulativeCount() != want {
			t.Errorf("below %v s: %d, want %d", b.GetUpperBound(), b.GetCumulativeCount(), want)
		}
	}
}
