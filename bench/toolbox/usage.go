package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func self() int { return os.Getpid() }

// cpu is the CPU time of this process, and that of all below it that live.
func cpu() (here, children time.Duration) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err == nil {
		here = time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	for _, pid := range below() {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		for _, file := range threads {
			text, _ := os.ReadFile(file) // one that has ended counts no more
			if f := strings.Fields(string(text)); len(f) > 0 {
				ns, _ := strconv.ParseInt(f[0], 10, 64)
				children += time.Duration(ns)
			}
		}
	}
	return here, children
}

// below are the processes below this one.
func below() []int {
	list := []int{self()}
	for i := 0; i < len(list); i++ {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", list[i]))
		for _, file := range files {
			text, _ := os.ReadFile(file)
			for _, f := range strings.Fields(string(text)) {
				if pid, err := strconv.Atoi(f); err == nil {
					list = append(list, pid)
				}
			}
		}
	}
	return list[1:]
}

// proportional is the memory of a process in bytes, what is shared counted in
// parts.
func proportional(pid int) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Pss:" {
			kilobytes, _ := strconv.ParseInt(f[1], 10, 64)
			return kilobytes << 10
		}
	}
	return 0
}
