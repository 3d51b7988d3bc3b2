package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// FileID is one file of the machine.
type FileID struct {
	Dev, Inode uint64
}

// Nameless is what processes hold of files that have no name any more.
type Nameless struct {
	// Bytes has what each takes on its file system. Of a file that is mapped and
	// not open only the length of the mapping can be known.
	Bytes map[FileID]int64
	// Mapped has those that are mapped, whose pages count as some process's own.
	Mapped map[FileID]bool
	// Hidden says that some may be held where they cannot be seen: descriptors
	// under way in a socket, or a process that may not be looked into.
	Hidden bool
}

// NamelessOf looks through the descriptors and the mappings of processes.
func NamelessOf(pids []int) Nameless {
	n := Nameless{Bytes: map[FileID]int64{}, Mapped: map[FileID]bool{}}
	for _, pid := range pids {
		n.open(pid)
		n.mapped(pid)
	}
	return n
}

func (n *Nameless) open(pid int) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrPermission) && hasMemory(pid) {
		n.Hidden = true
	}
	for _, e := range entries {
		var st unix.Stat_t
		if unix.Stat(dir+"/"+e.Name(), &st) != nil {
			continue
		}
		switch {
		case st.Mode&unix.S_IFMT == unix.S_IFSOCK:
			n.Hidden = n.Hidden || underWay(pid, e.Name())
		case st.Nlink == 0:
			n.Bytes[FileID{uint64(st.Dev), st.Ino}] = st.Blocks * 512
		}
	}
}

// hasMemory reports whether a process has not begun to exit. One that has belongs
// to root in /proc, whoever it was.
func hasMemory(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	return err == nil && !strings.HasPrefix(string(text), "0 ")
}

// underWay reports whether a socket holds descriptors that nobody has received:
// scm_fds in its fdinfo, since Linux 5.13.
func underWay(pid int, fd string) bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%s", pid, fd))
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "scm_fds:"); ok {
			return strings.TrimSpace(value) != "0"
		}
	}
	return false
}

func (n *Nameless) mapped(pid int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return
	}
	lengths := map[FileID]int64{}
	for line := range strings.Lines(string(text)) {
		if id, length, ok := parseMapping(line); ok {
			lengths[id] += length
		}
	}
	for id, length := range lengths {
		n.Mapped[id] = true
		if _, open := n.Bytes[id]; !open {
			n.Bytes[id] = length
		}
	}
}

// parseMapping reads a line of proc_pid_maps(5) about a file without a name.
func parseMapping(line string) (id FileID, length int64, ok bool) {
	f := strings.Fields(line)
	if len(f) < 6 || f[len(f)-1] != "(deleted)" {
		return id, 0, false
	}
	var numbers [5]uint64
	from, to, _ := strings.Cut(f[0], "-")
	major, minor, _ := strings.Cut(f[3], ":")
	for i, field := range []string{from, to, major, minor} {
		n, err := strconv.ParseUint(field, 16, 64)
		if err != nil {
			return id, 0, false
		}
		numbers[i] = n
	}
	inode, err := strconv.ParseUint(f[4], 10, 64)
	if err != nil || numbers[1] < numbers[0] {
		return id, 0, false
	}
	return FileID{unix.Mkdev(uint32(numbers[2]), uint32(numbers[3])), inode}, int64(numbers[1] - numbers[0]), true
}

// OfMemory adds up what files of memory (memfd_create(2)) hold that no process
// has mapped: nothing else counts it.
func (n Nameless) OfMemory() int64 {
	fd, err := unix.MemfdCreate("", unix.MFD_CLOEXEC)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return 0
	}
	sum := int64(0)
	for id, bytes := range n.Bytes {
		if id.Dev == uint64(st.Dev) && !n.Mapped[id] {
			sum += bytes
		}
	}
	return sum
}
