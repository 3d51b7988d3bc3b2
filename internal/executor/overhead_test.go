package executor_test

import (
	"slices"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/tool"
)

// BenchmarkOverhead compares a tool called directly with the whole pipeline,
// with events and audit rows. The difference is the overhead of a call.
func BenchmarkOverhead(b *testing.B) {
	in := args(echoIn{Text: "hello", N: 3})
	b.Run("direct", func(b *testing.B) {
		x := echo()
		req := &tool.Request{Arguments: in}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := x.Call(b.Context(), req); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("pipeline", func(b *testing.B) {
		e := newBench(b, nil, echo())
		e.store.calls = nil
		call := executor.Call{Tool: "echo", Arguments: in, Session: "s", Origin: executor.OriginMCP}
		n := 0
		var took []time.Duration
		b.ReportAllocs()
		for b.Loop() {
			call.Arguments = args(echoIn{Text: "hello", N: n}) // the doom loop stage is on
			start := time.Now()
			if r := e.Call(b.Context(), call); r.IsError {
				b.Fatal(r.TextContent())
			}
			took = append(took, time.Since(start))
			n++
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
	})
}
