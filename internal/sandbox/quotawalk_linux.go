//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolyard/toolyard/internal/process"
)

// diskWalk adds up what directories hold that was made or changed since the
// command began.
type diskWalk struct {
	since time.Time
	stop  func() bool // the answer is of no use any more
	full  func() bool // the answer is known
	seen  map[process.FileID]bool

	bytes   int64
	inodes  int64
	unknown bool // something new cannot be looked into
}

// visit is a directory to be read, below the root of the walk.
type visit struct {
	path string
	new  bool // changed since the command began
}

// dir looks through a directory, or at a file, and follows no symlink. What has
// changed comes first, so that a flood is found early however large the rest
// is.
func (w *diskWalk) dir(root string) {
	base, err := unix.Open(root, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return // it was removed
	}
	defer unix.Close(base)
	var st unix.Statx_t
	if unix.Statx(base, "", unix.AT_EMPTY_PATH, statxMask, &st) != nil {
		return
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		w.count(&st)
		return
	}
	fresh, stale := []visit{{".", true}}, []visit(nil)
	for len(fresh)+len(stale) > 0 && !w.stop() && !w.full() {
		from := &fresh
		if len(fresh) == 0 {
			from = &stale
		}
		next := (*from)[len(*from)-1]
		*from = (*from)[:len(*from)-1]
		for _, v := range w.read(base, next) {
			if v.new {
				fresh = append(fresh, v)
			} else {
				stale = append(stale, v)
			}
		}
	}
}

const statxMask = unix.STATX_TYPE | unix.STATX_CTIME | unix.STATX_BTIME | unix.STATX_BLOCKS | unix.STATX_NLINK | unix.STATX_INO

// read counts the entries of one directory and returns those to visit.
func (w *diskWalk) read(base int, v visit) []visit {
	fd, err := unix.Openat2(base, v.path, &unix.OpenHow{
		Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		gone := errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
		w.unknown = w.unknown || v.new && !gone
		return nil
	}
	defer unix.Close(fd)
	var below []visit
	var buffer [32 << 10]byte
	for !w.stop() && !w.full() {
		n, err := unix.ReadDirent(fd, buffer[:])
		if err != nil || n <= 0 {
			break
		}
		_, _, names := unix.ParseDirent(buffer[:n], -1, nil)
		for _, name := range names {
			var st unix.Statx_t
			if unix.Statx(fd, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC, statxMask, &st) != nil {
				continue
			}
			fresh := w.count(&st)
			if st.Mode&unix.S_IFMT == unix.S_IFDIR {
				below = append(below, visit{filepath.Join(v.path, name), fresh})
			}
		}
	}
	return below
}

// count adds one file or directory and reports whether it is new or changed. A
// file with several names counts once.
func (w *diskWalk) count(st *unix.Statx_t) bool {
	if !w.after(st.Ctime) {
		return false
	}
	if st.Nlink > 1 && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		id := process.FileID{Dev: unix.Mkdev(st.Dev_major, st.Dev_minor), Inode: st.Ino}
		if w.seen[id] {
			return true
		}
		w.seen[id] = true
	}
	w.bytes += int64(st.Blocks) * 512
	if st.Mask&unix.STATX_BTIME == 0 || w.after(st.Btime) {
		w.inodes++
	}
	return true
}

func (w *diskWalk) after(t unix.StatxTimestamp) bool {
	return !time.Unix(t.Sec, int64(t.Nsec)).Before(w.since)
}

// writableDirs lists the host's directories and files that a command may write
// to.
func (t *tree) writableDirs() []string {
	var dirs []string
	for _, p := range t.places {
		if p.access == readWrite && !inAny(p.source, dirs) {
			dirs = append(dirs, p.source)
		}
	}
	return dirs
}

func inAny(path string, dirs []string) bool {
	for _, dir := range dirs {
		if inside(path, dir) {
			return true
		}
	}
	return false
}

// mountsBelow lists the mount points in directories: what is mounted there is
// written to as well.
func mountsBelow(dirs []string) []string {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	var list []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		point := unescapeMount(fields[4])
		if inAny(point, dirs) {
			if info, err := os.Lstat(point); err == nil && info.Mode()&os.ModeSymlink == 0 {
				list = append(list, point)
			}
		}
	}
	return list
}

// unescapeMount undoes what proc_pid_mountinfo(5) does to blanks and backslashes.
var unescapeMount = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace
