//go:build !linux

package worker

import (
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
)

// usage is what a worker's processes use now.
type usage struct {
	memory int64
	cpu    time.Duration
}

func use(p sandbox.Process) usage {
	now := p.Usage()
	return usage{memory: now.MemoryBytes, cpu: time.Duration(now.CPUMS * float64(time.Millisecond))}
}
