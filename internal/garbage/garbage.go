// Package garbage sets how much garbage may grow before it is collected. It
// knows nothing of the program.
package garbage

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// What is allowed. Most of what a call allocates is small and short-lived: the
// less is live, the cheaper a collection, and the more garbage is worth waiting
// for. But nobody wants tens of megabytes of it in each of his servers.
const (
	usual = 100       // percent over what is live: Go's own, and ours where much is live
	most  = 250       // where next to nothing is
	small = 10 << 20  // bytes that the heap may always have
	limit = 512 << 20 // bytes of the process; near it garbage is collected sooner
)

// Pace adjusts the collector after each collection, until the process ends.
// GOGC and GOMEMLIMIT count if they are set.
func Pace() {
	if debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(limit)
	}
	if old := debug.SetGCPercent(most); old != usual {
		debug.SetGCPercent(old)
		return
	}
	p := &pace{percent: most, sample: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}
	p.again(nil)
}

type pace struct {
	percent int
	sample  []metrics.Sample
}

// mark is found dead by each collection.
type mark struct{ _ [16]byte }

// again makes a mark whose end sets the next pace. The runtime calls it from one
// goroutine at a time.
func (p *pace) again(*mark) {
	metrics.Read(p.sample)
	if live := p.sample[0].Value.Uint64(); live > 0 {
		if percent := percentFor(live); abs(percent-p.percent) > p.percent/10 {
			p.percent = percent
			debug.SetGCPercent(percent)
		}
	}
	runtime.SetFinalizer(&mark{}, p.again)
}

// percentFor is the garbage allowed over live bytes.
func percentFor(live uint64) int {
	if live >= small/2 {
		return usual
	}
	return int(min(most, (small-live)*100/live))
}

// startTime is how long a start may take until the pages that it touched are
// given back.
const startTime = 40 * time.Millisecond

// TrimSoon gives back, once the program has started, the pages of its own file
// that only the start needed. A server that lives for long calls it when it
// begins to serve.
func TrimSoon() { time.AfterFunc(startTime, trim) }

func abs(n int) int { return max(n, -n) }
