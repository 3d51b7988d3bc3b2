package garbage

import (
	"bufio"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// trim gives back the pages of the program's own file that the start has
// touched and nothing may need again: half of what a Go program of this size
// has resident. What is needed comes back from the page cache, a few hundred
// page faults of a microsecond each.
func trim() {
	self, err := os.Executable()
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		// from-to perms offset dev inode path
		f := strings.Fields(lines.Text())
		if len(f) != 6 || f[5] != self || strings.Contains(f[1], "w") {
			continue // a page that was written must stay
		}
		first, last, _ := strings.Cut(f[0], "-")
		from, err1 := strconv.ParseUint(first, 16, 64)
		to, err2 := strconv.ParseUint(last, 16, 64)
		if err1 == nil && err2 == nil && to > from {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(from), uintptr(to-from), unix.MADV_DONTNEED)
		}
	}
}
