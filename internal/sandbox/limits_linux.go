//go:build amd64 || arm64

package sandbox

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolyard/toolyard/internal/launch"
	"github.com/toolyard/toolyard/internal/process"
	"github.com/toolyard/toolyard/internal/sandbox/cgroup"
	"github.com/toolyard/toolyard/tool"
)

// How often a running tree is held against its limits. The kernel's counters are
// cheap to read; without a group every process of the tree has to be looked at,
// less often the more there are.
const (
	meterInterval = 20 * time.Millisecond
	treeInterval  = 100 * time.Millisecond // at most
	treeShare     = 10                     // reading a tree takes a tenth of one processor at most
)

// meter measures a tree and says which limit it has reached.
type meter struct {
	group   *cgroup.Group // nil where there is none
	walk    bool          // the group does not count all that is limited
	profile *Profile
	tmp     []*os.File // tmpfs of the sandbox, where nothing else counts them
	cost    time.Duration
	peak    tool.Peaks
}

// newMeter gives a sandbox its group, which is born if its init is in it already.
// It returns the files by which init becomes a member otherwise.
func (s *Sandbox) newMeter(root *cgroup.Root, p *Profile, born *cgroup.Group) (*meter, []*os.File, error) {
	m := &meter{profile: p, walk: root == nil}
	if root == nil {
		return m, nil, nil
	}
	m.walk = p.Memory > 0 && !root.Has(cgroup.Memory) || p.PIDs > 0 && !root.Has(cgroup.PIDs) ||
		p.CPU > 0 && root.Version() == 1 && !root.Has(cgroup.CPUAcc)
	limits := cgroup.Limits{Memory: p.Memory, PIDs: p.PIDs, CPUShare: p.CPUShare, CountCPU: p.CPU > 0}
	if limits.PIDs > 0 {
		limits.PIDs++ // init
	}
	if born != nil {
		m.group = born
		return m, nil, born.Limit(limits)
	}
	group, files, err := s.groups.take(root, limits)
	if err != nil {
		return m, nil, err
	}
	m.group = group
	return m, files, nil
}

// join makes init a member of its group, first of all.
func (b *builder) join(m *meter) {
	b.boundPIDs = m.walk
	if m.group == nil || b.groupFiles == 0 {
		return
	}
	if m.group.Version() == 2 {
		b.cgroupFD = launch.FirstExtra
		return
	}
	b.section = launch.Init
	for i := range b.groupFiles {
		b.call("join the cgroup", unix.SYS_WRITE, num(launch.FirstExtra+i), b.str("0"), num(1))
	}
}

// read measures the tree below init and returns the limit that it has reached,
// as the reason of an ending, or "".
func (m *meter) read(init int) string {
	reason := ""
	limit := func(reached bool, name string) {
		if reached && reason == "" {
			reason = name
		}
	}
	p := m.profile
	if m.group != nil {
		s := m.group.Stat()
		m.keep(s.MemoryPeak, s.PIDsPeak-1, s.CPU)
		limit(s.OOMKills > 0, EndMemory)
		limit(s.PIDsRefused > 0, EndPIDs)
	}
	if m.walk {
		began := time.Now()
		u := process.Tree(init)
		memory := m.memory(u)
		m.keep(memory, u.Threads, u.CPU)
		m.cost = time.Since(began)
		limit(p.Memory > 0 && memory > p.Memory, EndMemory)
		limit(p.PIDs > 0 && u.Threads >= p.PIDs, EndPIDs)
	}
	limit(p.CPU > 0 && m.peak.CPUMS > milliseconds(p.CPU), EndCPU)
	return reason
}

// last notes the CPU time of a tree that is about to be killed: where no group
// counts it, it goes with the processes.
func (m *meter) last(init int) {
	if m.group == nil || !m.walk && m.profile.CPU <= 0 && m.group.Version() == 1 {
		m.keep(0, 0, process.Tree(init).CPU)
	}
}

// memory is what a tree holds where no group counts it: what its processes have
// mapped, what lies in its tmpfs, and files of memory that nobody has mapped.
func (m *meter) memory(u process.TreeUsage) int64 {
	beside := used(m.tmp) + process.NamelessOf(u.PIDs).OfMemory()
	if limit := m.profile.Memory; limit > 0 && u.Memory+beside > limit && u.Memory <= 8*limit {
		// What is shared counted once for each; now look closer.
		if once, ok := process.Proportional(u.PIDs); ok {
			return once + beside
		}
	}
	return u.Memory + beside
}

// end is the last reading, with what the kernel says about the command's own
// end.
func (m *meter) end(init int, status syscall.WaitStatus, usage process.Usage) string {
	reason := ""
	if m.group != nil {
		reason = m.read(init)
	}
	m.keep(usage.MaxRSS, 1, usage.CPU)
	if reason == "" && status.Signaled() {
		// A command can send itself both.
		switch {
		case status.Signal() == syscall.SIGXCPU && m.profile.CPU > 0 && m.peak.CPUMS >= milliseconds(m.profile.CPU):
			reason = EndCPU
		case status.Signal() == syscall.SIGXFSZ && m.profile.Disk > 0:
			reason = EndDisk
		}
	}
	return reason
}

func (m *meter) keep(memory int64, pids int, cpu time.Duration) {
	m.peak.MemoryBytes = max(m.peak.MemoryBytes, memory)
	m.peak.PIDs = max(m.peak.PIDs, pids)
	m.peak.CPUMS = max(m.peak.CPUMS, milliseconds(cpu))
}

func (m *meter) interval() time.Duration {
	return min(max(meterInterval, treeShare*m.cost), treeInterval)
}
