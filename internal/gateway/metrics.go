package gateway

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// samples is how many of the last calls' times are kept.
const samples = 512

// metrics counts what a server did. It is safe for concurrent use.
type metrics struct {
	calls, errors, starts, restarts, bytesIn, bytesOut, sampling atomic.Int64

	mu    sync.Mutex
	times []time.Duration
	at    int
}

func (m *metrics) call(took time.Duration, failed bool) {
	m.calls.Add(1)
	if failed {
		m.errors.Add(1)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.times) < samples {
		m.times = append(m.times, took)
		return
	}
	m.times[m.at] = took
	m.at = (m.at + 1) % samples
}

func (m *metrics) sum() Metrics {
	m.mu.Lock()
	sorted := slices.Sorted(slices.Values(m.times))
	m.mu.Unlock()
	quantile := func(q float64) float64 {
		if len(sorted) == 0 {
			return 0
		}
		return float64(sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]) / float64(time.Millisecond)
	}
	return Metrics{
		Calls: m.calls.Load(), Errors: m.errors.Load(), P50MS: quantile(0.5), P95MS: quantile(0.95), Starts: m.starts.Load(), Restarts: m.restarts.Load(),
		BytesIn: m.bytesIn.Load(), BytesOut: m.bytesOut.Load(), Sampling: m.sampling.Load(),
	}
}
