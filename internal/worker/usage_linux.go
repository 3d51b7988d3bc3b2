package worker

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
)

// usage is what a worker's processes use now.
type usage struct {
	memory int64 // bytes that no other process shares
	cpu    time.Duration
}

// clockTick is sysconf(_SC_CLK_TCK), which is 100 on every Linux that Go knows.
const clockTick = 10 * time.Millisecond

// maxProcesses bounds one look at a tree.
const maxProcesses = 256

// use reads the processes below the one that holds the tree, one by one: the
// group's counters hold caches of files and only ever rise to their peak. Where
// the processes cannot be seen the peaks must do.
func use(p sandbox.Process) usage {
	root := p.PID()
	if root == 0 {
		return peaks(p)
	}
	children, err := childrenOf(root)
	if err != nil {
		return peaks(p)
	}
	var u usage
	page := int64(os.Getpagesize())
	for i := 0; i < len(children) && i < maxProcesses; i++ {
		pid := children[i]
		if f := statm(pid); len(f) > 2 {
			u.memory += (number(f[1]) - number(f[2])) * page
		}
		u.cpu += cpuOf(pid)
		if below, err := childrenOf(pid); err == nil {
			children = append(children, below...)
		}
	}
	return u
}

func peaks(p sandbox.Process) usage {
	now := p.Usage()
	return usage{memory: now.MemoryBytes, cpu: time.Duration(now.CPUMS * float64(time.Millisecond))}
}

// childrenOf reads proc_pid_task(5), children.
func childrenOf(pid int) ([]int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil, err
	}
	var list []int
	for _, f := range strings.Fields(string(text)) {
		if n, err := strconv.Atoi(f); err == nil {
			list = append(list, n)
		}
	}
	return list, nil
}

func statm(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(text))
}

// cpuOf is the CPU time of a process and of those that it has reaped,
// proc_pid_stat(5), fields 14 to 17.
func cpuOf(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(f) < 15 {
		return 0
	}
	return time.Duration(number(f[11])+number(f[12])+number(f[13])+number(f[14])) * clockTick
}

func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}
