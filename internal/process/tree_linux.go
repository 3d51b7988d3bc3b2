package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// TreeUsage is what the living descendants of a process use.
type TreeUsage struct {
	Memory  int64 // bytes resident; pages that are shared count once for each
	Threads int
	CPU     time.Duration // with what they, and the process itself, have reaped
	PIDs    []int
}

// clockTick is sysconf(_SC_CLK_TCK), which is 100 on every Linux that Go knows.
const clockTick = 10 * time.Millisecond

// row is what /proc/<pid>/stat says of a process.
type row struct {
	pid, parent, threads int
	cpu, reaped          time.Duration
	memory               int64
}

// readRow reads proc_pid_stat(5); fields are counted from the third, after the
// name, which may hold anything but ends at the last parenthesis.
func readRow(pid int) (row, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return row{}, false // it has ended meanwhile
	}
	f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(f) < 22 {
		return row{}, false
	}
	number := func(field int) int64 {
		n, _ := strconv.ParseInt(f[field-3], 10, 64)
		return n
	}
	return row{
		pid: pid, parent: int(number(4)), threads: int(number(20)), memory: number(24) * int64(os.Getpagesize()),
		cpu: time.Duration(number(14)+number(15)) * clockTick, reaped: time.Duration(number(16)+number(17)) * clockTick,
	}, true
}

// Tree adds up what the descendants of a process use, without itself. It costs
// a few reads for each of them where the kernel lists the children of a process
// (CONFIG_PROC_CHILDREN), else a reading of all of /proc.
func Tree(root int) TreeUsage {
	children := childrenOf
	if _, err := os.Stat("/proc/thread-self/children"); err != nil {
		all := table()
		children = func(pid int) []int { return all[pid] }
	}
	own, _ := readRow(root)
	u := TreeUsage{CPU: own.reaped}
	for queue := children(root); len(queue) > 0; queue = queue[1:] {
		r, alive := readRow(queue[0])
		if !alive {
			continue
		}
		u.Memory += r.memory
		u.Threads += r.threads
		u.CPU += r.cpu + r.reaped
		u.PIDs = append(u.PIDs, r.pid)
		queue = append(queue, children(r.pid)...)
	}
	return u
}

// childrenOf lists the children of all threads of a process.
func childrenOf(pid int) []int {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	tasks, _ := os.ReadDir(dir)
	var list []int
	for _, task := range tasks {
		text, _ := os.ReadFile(dir + "/" + task.Name() + "/children")
		for _, child := range strings.Fields(string(text)) {
			if n, err := strconv.Atoi(child); err == nil {
				list = append(list, n)
			}
		}
	}
	return list
}

// table maps every process of the machine to its children.
func table() map[int][]int {
	entries, _ := os.ReadDir("/proc")
	all := map[int][]int{}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if r, alive := readRow(pid); alive {
				all[r.parent] = append(all[r.parent], pid)
			}
		}
	}
	return all
}

// Proportional is the memory of processes with each shared page counted once,
// divided among those that share it; false if it may not be read.
func Proportional(pids []int) (int64, bool) {
	sum := int64(0)
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if os.IsPermission(err) {
			return 0, false
		}
		for line := range strings.Lines(string(text)) {
			if value, ok := strings.CutPrefix(line, "Pss:"); ok {
				n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
				sum += n << 10
			}
		}
	}
	return sum, true
}

// Threads counts the threads of a user on this machine, as RLIMIT_NPROC does.
func Threads(uid int) int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	count := 0
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != uid {
			continue
		}
		tasks, _ := os.ReadDir("/proc/" + e.Name() + "/task")
		count += max(len(tasks), 1)
	}
	return count
}
