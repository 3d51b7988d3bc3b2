package executor_test

import (
	"context"
	"encoding/json"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/tool"
)

func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := function(tool.Spec{Effects: tool.Read, ConcurrencySafe: true, Timeout: -1}, func(_ context.Context, req *tool.Request, in echoIn) (*tool.Result, error) {
			time.Sleep(time.Duration(in.N) * time.Millisecond)
			req.Report(tool.Usage{Peaks: tool.Peaks{MemoryBytes: int64(in.N) << 20, CPUMS: 2}, ReadBytes: 10})
			if in.N%10 == 0 {
				return nil, tool.Errorf(tool.NotFound, "no")
			}
			return tool.Text("x"), nil
		})
		b := newBench(t, func(c *executor.Config) { c.DoomLoop = "off" }, x)
		for i := range 100 {
			b.Call(t.Context(), executor.Call{Tool: "t", Session: "s", Arguments: args(echoIn{N: i + 1})})
		}
		b.Call(t.Context(), executor.Call{Tool: "t", Arguments: []byte(`{"n":"x"}`)})
		b.Call(t.Context(), executor.Call{Tool: "made up"})
		list := b.Stats("t", 0)
		if len(list) != 1 {
			t.Fatalf("Stats = %+v", list)
		}
		s := list[0]
		near := func(got, want float64) bool { return math.Abs(got-want) <= 0.07*want }
		if s.Calls != 100 || s.Errors != 10 || s.TotalDurationMS != 5050 || s.MeanMS != 50.5 || !near(s.P50MS, 50) || !near(s.P95MS, 95) {
			t.Errorf("stats = %+v", s)
		}
		if len(b.Stats("nothing", 0)) != 0 || len(b.Stats("", 0)) != 1 {
			t.Error("Stats lists tools that were never run")
		}
		for _, m := range b.MetricsSnapshot(0) {
			switch {
			case m.Tool == "t" && (m.OK != 90 || m.Failed != 10 || m.Refused != 1 || m.Codes[tool.ValidationError] != 1 || m.Classes()["parameter_error"] != 10 ||
				m.MemoryPeak != 100<<20 || m.CPUMS != 200 || m.ReadBytes != 1000 || m.Latency.MaxMS != 100 || m.Concurrent != 1 || m.Running != 0):
				t.Errorf("counts = %+v", m.Counts)
			case m.Tool == "unknown" && m.Refused != 1:
				t.Errorf("counts = %+v", m.Counts)
			case m.Tool != "t" && m.Tool != "unknown":
				t.Errorf("tool %q is counted", m.Tool)
			}
		}
		time.Sleep(10 * time.Minute)
		if list := b.Stats("t", 5*time.Minute); len(list) != 0 {
			t.Errorf("stats of the last 5 minutes = %+v", list)
		}
		if list := b.Stats("t", time.Hour); len(list) != 1 || list[0].Calls != 100 {
			t.Errorf("stats of the last hour = %+v", list)
		}
	})
}

func TestMetricsAreStoredByMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil, echo())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- b.Run(ctx) }()
		for range 3 {
			b.Call(t.Context(), executor.Call{Tool: "echo"})
			time.Sleep(time.Minute)
		}
		cancel()
		<-done
		b.store.mu.Lock()
		defer b.store.mu.Unlock()
		if len(b.store.metrics) != 3 {
			t.Errorf("%d rows, want one a minute", len(b.store.metrics))
		}
		for _, row := range b.store.metrics {
			var c executor.Counts
			if err := json.Unmarshal(row.Body, &c); err != nil || c.Calls != 1 || c.Latency.Count != 1 || row.Tool != "echo" || row.Minute.Second() != 0 {
				t.Errorf("row %+v: %+v, %v", row, c, err)
			}
		}
	})
}

func TestHistogramBounds(t *testing.T) {
	last := 0.0
	for i := range 256 {
		if b := executor.Bound(i); b <= last {
			t.Fatalf("Bound(%d) = %g after %g", i, b, last)
		} else {
			last = b
		}
	}
	if last < 3600_000 {
		t.Errorf("the last bound is %g ms", last)
	}
}
