//go:build amd64 || arm64

package docker

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/sandbox/cgroup"
	"github.com/toolyard/toolyard/tool"
)

// How often a container is held against its limits: by the kernel's counters, or
// by the daemon's, which cost it some milliseconds each time.
const (
	groupInterval      = 20 * time.Millisecond
	statisticsInterval = 250 * time.Millisecond
)

// meter measures a container. It is guarded by the container's mutex.
type meter struct {
	client  *client
	id      string
	profile *sandbox.Profile
	group   *cgroup.Group // nil if it cannot be seen
	peak    tool.Peaks
}

// open finds the control group of the container's init, which waits at the gate,
// and measures it: a short command may take the group with it before it is read
// again. The threads that the init has by then are not the command's.
func (m *meter) open(pid int, groups bool) {
	if groups {
		if group, err := cgroup.Of(pid); err == nil {
			m.group = group
		}
	}
	s, _ := m.stat()
	m.peak = tool.Peaks{MemoryBytes: s.MemoryPeak, CPUMS: milliseconds(s.CPU), PIDs: 1}
}

func (m *meter) close() {
	if m.group != nil {
		_ = m.group.Close()
	}
}

func (m *meter) interval() time.Duration {
	if m.group == nil {
		return statisticsInterval
	}
	return groupInterval
}

// read measures, and returns the limit that was reached as the reason of an
// ending, or "".
func (m *meter) read() string {
	s, refused := m.stat()
	s.PIDs-- // its init
	m.peak.MemoryBytes = max(m.peak.MemoryBytes, s.MemoryPeak)
	m.peak.PIDs = max(m.peak.PIDs, s.PIDs)
	m.peak.CPUMS = max(m.peak.CPUMS, milliseconds(s.CPU))
	switch p := m.profile; {
	case s.OOMKills > 0:
		return sandbox.EndMemory
	case refused, p.PIDs > 0 && s.PIDs > p.PIDs:
		return sandbox.EndPIDs
	case p.CPU > 0 && s.CPU > p.CPU:
		return sandbox.EndCPU
	}
	return ""
}

func (m *meter) stat() (s cgroup.Stat, refused bool) {
	if m.group != nil {
		s = m.group.Stat()
		return s, s.PIDsRefused > 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), statisticsInterval*4)
	defer cancel()
	var got statistics
	err := m.client.call(ctx, http.MethodGet, "/containers/"+m.id+"/stats", url.Values{"stream": {"0"}, "one-shot": {"1"}}, nil, &got)
	if err != nil {
		return s, false // it has ended, or the next reading tells
	}
	s = cgroup.Stat{
		MemoryPeak: max(got.Memory.Max, got.Memory.Usage), PIDs: int(got.PIDs.Current), CPU: time.Duration(got.CPU.Usage.Total),
	}
	return s, got.PIDs.Limit > 0 && got.PIDs.Limit <= uint64(max(got.PIDs.Current, 0))
}
