package executor

import (
	"encoding/json"
	"math"
	"math/bits"
	"time"
)

// Buckets of a Histogram: fine bits after the first one, from 1 µs up.
const (
	fine    = 3
	buckets = 32 << fine // up to about 2 hours
)

// Histogram counts durations. A quantile is right within 7 %. The zero value is
// empty.
type Histogram struct {
	Count   int64
	SumMS   float64
	MaxMS   float64
	Buckets [buckets]int64 // durations below [Bound] of their number
}

// histogramJSON is a Histogram in the store.
type histogramJSON struct {
	Count   int64         `json:"count"`
	SumMS   float64       `json:"sum_ms"`
	MaxMS   float64       `json:"max_ms"`
	Buckets map[int]int64 `json:"buckets,omitempty"`
}

// MarshalJSON writes only the buckets that hold something.
func (h *Histogram) MarshalJSON() ([]byte, error) {
	out := histogramJSON{h.Count, h.SumMS, h.MaxMS, map[int]int64{}}
	for i, n := range h.Buckets {
		if n > 0 {
			out.Buckets[i] = n
		}
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (h *Histogram) UnmarshalJSON(raw []byte) error {
	var in histogramJSON
	if err := json.Unmarshal(raw, &in); err != nil {
		return err
	}
	*h = Histogram{Count: in.Count, SumMS: in.SumMS, MaxMS: in.MaxMS}
	for i, n := range in.Buckets {
		if i >= 0 && i < buckets {
			h.Buckets[i] = n
		}
	}
	return nil
}

func (h *Histogram) add(d time.Duration) {
	ms := float64(d) / float64(time.Millisecond)
	h.Count++
	h.SumMS += ms
	h.MaxMS = max(h.MaxMS, ms)
	h.Buckets[bucketOf(d)]++
}

func (h *Histogram) merge(o *Histogram) {
	h.Count += o.Count
	h.SumMS += o.SumMS
	h.MaxMS = max(h.MaxMS, o.MaxMS)
	for i, n := range o.Buckets {
		h.Buckets[i] += n
	}
}

// Mean is the mean in milliseconds; 0 of none.
func (h *Histogram) Mean() float64 {
	if h.Count == 0 {
		return 0
	}
	return h.SumMS / float64(h.Count)
}

// Quantile is the duration in milliseconds below which the share q lies; 0 of
// none.
func (h *Histogram) Quantile(q float64) float64 {
	rank := int64(math.Ceil(q * float64(h.Count)))
	var seen int64
	for i, n := range h.Buckets {
		if seen += n; n > 0 && seen >= rank {
			low := 0.0
			if i > 0 {
				low = Bound(i - 1)
			}
			return min((low+Bound(i))/2, h.MaxMS)
		}
	}
	return 0
}

func bucketOf(d time.Duration) int {
	us := uint64(max(d.Microseconds(), 0))
	if us < 1<<fine {
		return int(us)
	}
	shift := bits.Len64(us) - fine - 1
	return min((shift+1)<<fine+int(us>>shift)&(1<<fine-1), buckets-1)
}

// Bound is the upper bound of a bucket in milliseconds.
func Bound(bucket int) float64 {
	if bucket < 1<<fine {
		return float64(bucket+1) / 1000
	}
	shift := bucket>>fine - 1
	return float64(uint64(1<<fine+bucket&(1<<fine-1)+1)<<shift) / 1000
}
