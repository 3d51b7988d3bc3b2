package process

import (
	"fmt"
	"os"
	"strings"
)

// started is when a process began, in ticks since the boot (proc_pid_stat(5),
// field 22), or "gone". A zombie is gone.
func started(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "gone"
	}
	// The name in field 2 may hold anything but ends at the last parenthesis.
	_, rest, _ := strings.Cut(string(stat[max(strings.LastIndexByte(string(stat), ')'), 0):]), " ")
	fields := strings.Fields(rest)
	const state, start = 0, 19 // fields 3 and 22
	if len(fields) <= start || fields[state] == "Z" || fields[state] == "X" {
		return "gone"
	}
	return fields[start]
}
