//go:build amd64 || arm64

package sandbox

import (
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolyard/toolyard/internal/process"
)

// quota bounds what a command adds to the machine's file systems, all files
// together. The kernel's own quotas would need a project number on every file
// of a workspace, which is the user's and not ours to mark; so the file systems
// are asked how much they hold, which costs a microsecond, and only when they
// have grown by more than the command may add are the directories looked
// through: others write on the same file systems.
type quota struct {
	allowances []*allowance
	since      time.Time
	init       int // the root of the command's processes; 0 before there is one
	tmp        []*os.File
	stopped    atomic.Bool
	done       chan struct{}
	watching   sync.WaitGroup

	mu sync.Mutex // one check at a time
}

// allowance is one pair of limits and the places that share it.
type allowance struct {
	bytes, inodes int64 // 0 or less is none
	dirs          []string
	systems       []*system
	next          time.Time // no walk before
}

// system is one file system, as it was at the start.
type system struct {
	file          *os.File // a path on it
	dev           uint64
	bytes, inodes int64
}

// How often the file systems are asked, and how often directories are looked
// through where a file system does not say what it holds (btrfs counts no inodes).
const (
	quotaInterval = 20 * time.Millisecond
	blindInterval = 200 * time.Millisecond
)

// clockSlack is how far behind the clock the times of a file system may be.
const clockSlack = 10 * time.Millisecond

// newQuota notes what the file systems hold before the command begins. It is nil
// where nothing is to be watched.
func newQuota(t *tree, p *Profile) (*quota, error) {
	q := &quota{since: time.Now().Add(-clockSlack), done: make(chan struct{})}
	if p.Disk > 0 || p.Inodes > 0 {
		q.allowances = append(q.allowances, &allowance{bytes: p.Disk, inodes: int64(p.Inodes), dirs: t.writableDirs()})
	}
	if t.tmp != "" {
		bytes, inodes := tmpLimits(p)
		q.allowances = append(q.allowances, &allowance{bytes: bytes, inodes: inodes, dirs: []string{t.tmp}})
	}
	if len(q.allowances) == 0 {
		return nil, nil
	}
	for _, a := range q.allowances {
		for _, dir := range append(a.dirs, mountsBelow(a.dirs)...) {
			file, err := openPath(dir)
			if err == nil {
				err = a.add(file)
			}
			if err != nil {
				q.close()
				return nil, err
			}
		}
	}
	return q, nil
}

// add notes what a file system holds. It takes over the file.
func (a *allowance) add(file *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		file.Close()
		return err
	}
	for _, s := range a.systems {
		if s.dev == uint64(st.Dev) {
			return file.Close()
		}
	}
	s := &system{file: file, dev: uint64(st.Dev)}
	s.bytes, s.inodes = holds(file)
	a.systems = append(a.systems, s)
	return nil
}

// holds is what a file system says that it holds, -1 where it does not say.
func holds(file *os.File) (bytes, inodes int64) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(file.Fd()), &st); err != nil {
		return -1, -1
	}
	bytes, inodes = -1, -1
	if st.Blocks > 0 {
		size := st.Frsize
		if size == 0 {
			size = st.Bsize
		}
		bytes = int64(st.Blocks-st.Bfree) * int64(size)
	}
	if st.Files > 0 {
		inodes = int64(st.Files - st.Ffree)
	}
	return bytes, inodes
}

// grown is by how much the file systems of an allowance hold more than at the
// start. Blind says that one of them does not tell.
func (a *allowance) grown() (bytes, inodes int64, blind bool) {
	for _, s := range a.systems {
		b, i := holds(s.file)
		blind = blind || b < 0 && a.bytes > 0 || i < 0 && a.inodes > 0
		bytes += max(b-s.bytes, 0)
		inodes += max(i-s.inodes, 0)
	}
	return bytes, inodes, blind
}

// suspicion is for which of the limits a walk is worth its cost.
type suspicion struct{ bytes, inodes bool }

// suspect compares the growth of the file systems with the limits. Others may
// have freed something meanwhile, so that an eighth less is enough, and at the
// end half of it.
func (a *allowance) suspect(bytes, inodes int64, last bool) suspicion {
	part := int64(8)
	if last {
		part = 2
	}
	return suspicion{
		bytes:  a.bytes > 0 && bytes >= a.bytes-a.bytes/part,
		inodes: a.inodes > 0 && inodes > a.inodes-a.inodes/part,
	}
}

// begin watches from now on: the directories, and the tmpfs of the sandbox if
// there are any. Exceeded is called once.
func (q *quota) begin(init int, tmp []*os.File, exceeded func()) {
	if q == nil {
		return
	}
	q.init, q.tmp = init, tmp
	q.watching.Go(func() {
		ticker := time.NewTicker(quotaInterval)
		defer ticker.Stop()
		for {
			select {
			case <-q.done:
				return
			case <-ticker.C:
			}
			if q.reached(false) {
				exceeded()
				return
			}
		}
	})
}

// reached reports whether the command has added more than it may. Last says that
// there will be no later look.
func (q *quota) reached(last bool) bool {
	if q == nil {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	ownBytes, ownInodes := q.own()
	for i, a := range q.allowances {
		bytes, inodes, blind := a.grown()
		w := &diskWalk{since: q.since, seen: map[process.FileID]bool{}, stop: q.stopped.Load}
		if i == 0 {
			w.bytes, w.inodes = ownBytes, ownInodes
			bytes, inodes = bytes+ownBytes, inodes+ownInodes
		}
		suspect := a.suspect(bytes, inodes, last)
		known := suspect.bytes || suspect.inodes
		if blind {
			suspect = suspicion{a.bytes > 0, a.inodes > 0}
		}
		began := time.Now()
		if suspect == (suspicion{}) || began.Before(a.next) && !last || q.stopped.Load() {
			continue
		}
		certain := a.bytes > 0 && bytes >= a.bytes || a.inodes > 0 && inodes > a.inodes
		if q.confirmed(a, w, suspect) || w.unknown && certain && !q.stopped.Load() {
			return true // what cannot be looked into was made so by the command
		}
		took := time.Since(began)
		a.next = time.Now().Add(took) // half of one processor at most
		if !known {
			a.next = a.next.Add(max(blindInterval, 9*took))
		}
	}
	return false
}

// own is what the tmpfs of the sandbox hold: all that is on them is the command's.
func (q *quota) own() (bytes, inodes int64) {
	for _, f := range q.tmp {
		b, i := holds(f)
		bytes += max(b, 0)
		inodes += max(i-1, 0) // its root
	}
	return bytes, inodes
}

// confirmed looks for what the file systems have grown by. What was there before
// and has been changed counts whole: how large it was is not known. So both have
// to say that the limit is passed, the file systems and what was found. Bytes
// reach it at the limit itself, because RLIMIT_FSIZE lets no single file past it.
func (q *quota) confirmed(a *allowance, w *diskWalk, suspect suspicion) bool {
	w.full = func() bool {
		return suspect.bytes && w.bytes >= a.bytes || suspect.inodes && w.inodes > a.inodes
	}
	if q.init > 0 && !w.full() {
		open := process.NamelessOf(process.Tree(q.init).PIDs)
		w.unknown = open.Hidden
		for _, size := range open.Bytes {
			w.bytes += size
			w.inodes++
		}
	}
	for _, dir := range a.dirs {
		if w.full() {
			return true
		}
		w.dir(dir)
	}
	return w.full()
}

// close ends the watch, with a walk that is under way, and waits for it. It is
// called once.
func (q *quota) close() {
	if q == nil {
		return
	}
	q.stopped.Store(true)
	close(q.done)
	q.watching.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, a := range q.allowances {
		for _, s := range a.systems {
			s.file.Close()
		}
		a.systems = nil
	}
}

// tmpLimits are those of /tmp: not more than all that may be written, and one
// file for every page of it.
func tmpLimits(p *Profile) (bytes, inodes int64) {
	bytes = p.Tmp
	if p.Disk > 0 && (bytes <= 0 || bytes > p.Disk) {
		bytes = p.Disk
	}
	inodes = maxTmpInodes
	if bytes > 0 {
		inodes = min(inodes, max(bytes/4096, minTmpInodes))
	}
	if p.Inodes > 0 {
		inodes = min(inodes, int64(p.Inodes))
	}
	return bytes, inodes
}

// The kernel holds about 1 KiB for every file of a tmpfs.
const (
	minTmpInodes = 1024
	maxTmpInodes = 256 << 10
)

// used is what the tmpfs of the sandbox hold, for where nothing else counts it.
func used(files []*os.File) int64 {
	sum := int64(0)
	for _, f := range files {
		bytes, inodes := holds(f)
		sum += max(bytes, 0) + max(inodes, 0)<<10
	}
	return sum
}

func openPath(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}
