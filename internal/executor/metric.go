package executor

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

// Bounds of the counters.
const (
	kept     = 61  // minutes per tool
	maxTools = 512 // tools counted by name; further ones are counted as "other"
)

// meter counts calls per tool: since the start, and by minute for an hour.
type meter struct {
	mu    sync.Mutex
	tools map[string]*counters
}

// counters are those of one tool.
type counters struct {
	mu      sync.Mutex
	total   Counts
	minutes [kept]minute
	running int
}

// minute is a slot of the ring; at is the Unix minute that it holds.
type minute struct {
	at      int64
	counts  *Counts // nil until something was counted
	flushed bool
}

// Counts are the counters of one tool over a time.
type Counts struct {
	Calls   int64 `json:"calls"` // that reached the tool or the cache
	OK      int64 `json:"ok"`
	Failed  int64 `json:"failed"`
	Refused int64 `json:"refused"` // not in Calls

	Latency Histogram `json:"latency"`

	CPUMS      float64 `json:"cpu_ms,omitempty"`
	MemoryPeak int64   `json:"memory_peak,omitempty"`
	MemorySum  int64   `json:"memory_sum,omitempty"` // of Measured calls
	Measured   int64   `json:"measured,omitempty"`
	ReadBytes  int64   `json:"read_bytes,omitempty"`
	WriteBytes int64   `json:"write_bytes,omitempty"`

	Concurrent    int64 `json:"concurrent"` // most at once
	ConcurrentSum int64 `json:"concurrent_sum"`
	Waited        int64 `json:"waited,omitempty"`

	Codes       map[tool.Code]int64 `json:"codes,omitempty"`
	CacheHits   int64               `json:"cache_hits,omitempty"`
	Retries     int64               `json:"retries,omitempty"`
	BytesIn     int64               `json:"bytes_in,omitempty"`
	BytesOut    int64               `json:"bytes_out,omitempty"`
	TokensSaved int64               `json:"tokens_saved,omitempty"` // folded bytes / 4
}

// ToolMetrics are the counters of one tool since the start.
type ToolMetrics struct {
	Tool    string
	Running int
	Counts
}

// sample is what one call adds.
type sample struct {
	code     tool.Code // "" if it succeeded
	refused  bool
	took     time.Duration
	usage    tool.Usage
	running  int
	waited   bool
	cached   bool
	retries  int
	in, out  int64
	foldedBy int64
}

func (c *Counts) add(s *sample) {
	if s.code != "" {
		if c.Codes == nil {
			c.Codes = map[tool.Code]int64{}
		}
		c.Codes[s.code]++
	}
	c.BytesIn += s.in
	c.BytesOut += s.out
	if s.refused {
		c.Refused++
		return
	}
	c.Calls++
	if s.code == "" {
		c.OK++
	} else {
		c.Failed++
	}
	c.Latency.add(s.took)
	if p := s.usage.Peaks; p != (tool.Peaks{}) {
		c.Measured++
		c.CPUMS += p.CPUMS
		c.MemorySum += p.MemoryBytes
		c.MemoryPeak = max(c.MemoryPeak, p.MemoryBytes)
	}
	c.ReadBytes += s.usage.ReadBytes
	c.WriteBytes += s.usage.WriteBytes
	c.Concurrent = max(c.Concurrent, int64(s.running))
	c.ConcurrentSum += int64(s.running)
	if s.waited {
		c.Waited++
	}
	if s.cached {
		c.CacheHits++
	}
	c.Retries += int64(s.retries)
	c.TokensSaved += s.foldedBy / 4
}

// merge adds the counters of another time.
func (c *Counts) merge(o *Counts) {
	c.Calls += o.Calls
	c.OK += o.OK
	c.Failed += o.Failed
	c.Refused += o.Refused
	c.Latency.merge(&o.Latency)
	c.CPUMS += o.CPUMS
	c.MemoryPeak = max(c.MemoryPeak, o.MemoryPeak)
	c.MemorySum += o.MemorySum
	c.Measured += o.Measured
	c.ReadBytes += o.ReadBytes
	c.WriteBytes += o.WriteBytes
	c.Concurrent = max(c.Concurrent, o.Concurrent)
	c.ConcurrentSum += o.ConcurrentSum
	c.Waited += o.Waited
	for code, n := range o.Codes {
		if c.Codes == nil {
			c.Codes = map[tool.Code]int64{}
		}
		c.Codes[code] += n
	}
	c.CacheHits += o.CacheHits
	c.Retries += o.Retries
	c.BytesIn += o.BytesIn
	c.BytesOut += o.BytesOut
	c.TokensSaved += o.TokensSaved
}

func newMeter() *meter { return &meter{tools: map[string]*counters{}} }

// of finds the counters of a tool, or makes them.
func (m *meter) of(name string) *counters {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.tools[name]
	if c == nil {
		if len(m.tools) >= maxTools {
			if name = "other"; m.tools[name] != nil {
				return m.tools[name]
			}
		}
		c = &counters{}
		m.tools[name] = c
	}
	return c
}

// wrap is the metric stage.
func (m *meter) wrap(next handler) handler {
	return func(ctx context.Context, c *call) *tool.Result {
		counters := m.of(c.name)
		counters.mu.Lock()
		counters.running++
		running := counters.running
		counters.mu.Unlock()
		r := next(ctx, c)
		counters.finish(c.sample(r, running))
		return r
	}
}

func (c *call) sample(r *tool.Result, running int) *sample {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &sample{
		refused: !c.ran.Load() && !r.Meta.Cached, took: time.Since(c.started), usage: c.usage, running: running, waited: c.waited > 0,
		cached: r.Meta.Cached, retries: len(c.retried), in: int64(len(c.in.Arguments)), out: textBytes(r), foldedBy: c.folded,
	}
	switch {
	case r.Err != nil:
		s.code = r.Err.Code
	case r.IsError:
		s.code = tool.ExecutionError
	}
	return s
}

func (c *counters) finish(s *sample) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	c.count(s)
}

// count adds a sample; mu is held.
func (c *counters) count(s *sample) {
	c.total.add(s)
	now := time.Now().Unix() / 60
	slot := &c.minutes[now%kept]
	if slot.at != now || slot.counts == nil {
		*slot = minute{at: now, counts: &Counts{}}
	}
	slot.flushed = false
	slot.counts.add(s)
}

// refused counts a call that was not let in. An unknown name counts as
// "unknown": names that callers make up must not fill the table.
func (m *meter) refused(name string, code tool.Code) {
	if name == "" {
		name = "unknown"
	}
	c := m.of(name)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count(&sample{code: code, refused: true})
}

// window sums up the minutes of a tool that touch the last d; zero means since
// the start, and more than an hour is answered with all there is.
func (c *counters) window(d time.Duration) (Counts, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var sum Counts
	if d <= 0 || d > (kept-1)*time.Minute {
		sum.merge(&c.total)
		return sum, c.running
	}
	first := time.Now().Add(-d).Unix() / 60
	for i := range c.minutes {
		if slot := &c.minutes[i]; slot.counts != nil && slot.at >= first {
			sum.merge(slot.counts)
		}
	}
	return sum, c.running
}

// names lists the tools that were counted.
func (m *meter) names(name string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if name != "" {
		if m.tools[name] == nil {
			return nil
		}
		return []string{name}
	}
	return slices.Sorted(maps.Keys(m.tools))
}

// stats sums up calls; see [Executor.Stats].
func (m *meter) stats(name string, window time.Duration) []tool.Stats {
	list := []tool.Stats{}
	for _, n := range m.names(name) {
		c, _ := m.of(n).window(window)
		if c.Calls == 0 {
			continue
		}
		list = append(list, tool.Stats{
			Tool: n, Calls: c.Calls, Errors: c.Failed, TotalDurationMS: c.Latency.SumMS, MeanMS: c.Latency.Mean(),
			P50MS: c.Latency.Quantile(0.5), P95MS: c.Latency.Quantile(0.95),
		})
	}
	return list
}

func (m *meter) snapshot(window time.Duration) []ToolMetrics {
	var list []ToolMetrics
	for _, n := range m.names("") {
		c, running := m.of(n).window(window)
		list = append(list, ToolMetrics{Tool: n, Running: running, Counts: c})
	}
	slices.SortFunc(list, func(a, b ToolMetrics) int { return cmp.Compare(a.Tool, b.Tool) })
	return list
}

// flush writes the minutes that have changed since the last time.
func (m *meter) flush(ctx context.Context, to store.Metrics) error {
	var rows []store.Metric
	var done []*counters
	for _, n := range m.names("") {
		c := m.of(n)
		c.mu.Lock()
		for i := range c.minutes {
			slot := &c.minutes[i]
			if slot.counts == nil || slot.flushed {
				continue
			}
			body, err := json.Marshal(slot.counts)
			if err != nil {
				c.mu.Unlock()
				return err
			}
			slot.flushed = true
			rows = append(rows, store.Metric{Tool: n, Minute: time.Unix(slot.at*60, 0).UTC(), Body: body})
			done = append(done, c)
		}
		c.mu.Unlock()
	}
	if len(rows) == 0 {
		return nil
	}
	err := to.PutMetrics(ctx, rows)
	if err == nil {
		return nil
	}
	for i, c := range done { // they are due again
		at := rows[i].Minute.Unix() / 60
		c.mu.Lock()
		if slot := &c.minutes[at%kept]; slot.at == at {
			slot.flushed = false
		}
		c.mu.Unlock()
	}
	return err
}

// Classes sums up Codes by class.
func (c *Counts) Classes() map[string]int64 {
	classes := map[string]int64{}
	for code, n := range c.Codes {
		classes[strings.ToLower(code.Class())] += n
	}
	return classes
}
