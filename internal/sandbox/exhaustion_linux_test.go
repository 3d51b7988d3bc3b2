package sandbox_test

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/sandbox/sandboxtest"
)

// exhaustion is one program that takes without end, and how it must end.
type exhaustion struct {
	name    string
	profile sandbox.Profile
	program string // of exhausters, or a script of bash if that has none
	steps   int    // its own cap
	after   int    // steps that the limit allows for certain
	dir     string // "" is the workspace
	output  int    // bytes after which the test kills it
	reason  string
	code    int // of an exit
	says    string
	within  time.Duration // of the limit
	notAt   sandbox.Level
}

// What the kernel counts must end within 50 ms of its limit, what only a watch
// sees within 250 ms. The room for a busy machine comes on top.
const (
	counted = 50 * time.Millisecond
	watched = 250 * time.Millisecond
	busy    = 750 * time.Millisecond
)

// exhaustions is the list. The caps are what the machine can bear if no limit
// holds: to add one, run it first with a tiny cap.
func exhaustions() []exhaustion {
	const (
		memory = 96 * sandbox.MiB
		disk   = 24 * sandbox.MiB
		gigs   = 4096 // steps of 1 MiB
		some   = 600
	)
	// Each process makes two more, ten generations long, and lives for 8 s.
	const forks = `b() { if [ $1 -gt 0 ]; then b $(($1-1)) & b $(($1-1)) & fi; exec sleep 8; }; b 10`
	const daemons = `trap '' TERM HUP INT
		for i in 1 2 3; do (setsid bash -c 'trap "" TERM HUP; (setsid sleep 20 &) ; sleep 20 & kill -STOP $!; sleep 20' >/dev/null 2>&1 &); done
		sleep 0.2; kill -STOP $$; sleep 20`
	return []exhaustion{
		{name: "fork bomb", profile: sandbox.Profile{PIDs: 48}, program: forks, reason: sandbox.EndPIDs},
		{name: "memory by heap", profile: sandbox.Profile{Memory: memory}, program: "heap", steps: gigs, after: 48, reason: sandbox.EndMemory, within: counted},
		{name: "memory by mmap", profile: sandbox.Profile{Memory: memory}, program: "mmap", steps: gigs, after: 48, reason: sandbox.EndMemory, within: counted},
		{name: "memory by tmpfs", profile: sandbox.Profile{Memory: memory}, program: "files", dir: "/dev/shm", steps: gigs, after: 48, reason: sandbox.EndMemory, within: counted, notAt: sandbox.L1},
		{name: "memory by one file of a tmpfs", profile: sandbox.Profile{Memory: memory}, program: "one file", dir: "/dev/shm", steps: gigs, after: 48, reason: sandbox.EndMemory, within: counted, notAt: sandbox.L1},
		{name: "memory without a file system", profile: sandbox.Profile{Memory: memory}, program: "memfd", steps: gigs, after: 48, reason: sandbox.EndMemory, within: counted},
		{name: "page cache", profile: sandbox.Profile{Memory: memory}, program: "one file", steps: 300, reason: sandbox.EndExit},
		{name: "disk by files", profile: sandbox.Profile{Disk: disk}, program: "files", steps: some, after: 24, reason: sandbox.EndDisk, within: watched},
		{name: "disk by one file", profile: sandbox.Profile{Disk: disk}, program: "one file", steps: some, after: 24, reason: sandbox.EndDisk, within: watched},
		{name: "disk by a deep tree", profile: sandbox.Profile{Disk: disk}, program: "deep", steps: some, after: 24, reason: sandbox.EndDisk, within: watched},
		{name: "disk by unlinked files", profile: sandbox.Profile{Disk: disk}, program: "unlinked", steps: some, after: 24, reason: sandbox.EndDisk, within: watched},
		{name: "disk by temporary files", profile: sandbox.Profile{Disk: disk}, program: "files", dir: "tmp", steps: some, after: 24, reason: sandbox.EndDisk, within: watched},
		{name: "temporary files", profile: sandbox.Profile{Tmp: disk}, program: "files", dir: "tmp", steps: some, says: "no space left", reason: sandbox.EndExit, notAt: sandbox.L1},
		{name: "temporary files of the machine", profile: sandbox.Profile{Tmp: disk}, program: "files", dir: "tmp", steps: some, after: 24, reason: sandbox.EndDisk, within: watched, notAt: sandbox.L2},
		{name: "hard links", profile: sandbox.Profile{Disk: disk, Inodes: 10}, program: "hard links", steps: 1000, reason: sandbox.EndExit},
		{name: "inodes", profile: sandbox.Profile{Inodes: 500}, program: "inodes", steps: 300, after: 5, reason: sandbox.EndDisk, within: watched},
		{name: "inodes of temporary files", profile: sandbox.Profile{Inodes: 500}, program: "inodes", dir: "tmp", steps: 300, reason: sandbox.EndDisk},
		{name: "descriptors", profile: sandbox.Profile{Files: 200}, program: "descriptors", steps: 5000, reason: sandbox.EndExit, says: "too many open files"},
		{name: "processor time", profile: sandbox.Profile{CPU: 300 * time.Millisecond}, program: "cpu", reason: sandbox.EndCPU},
		{name: "output", program: "output", steps: 10 << 10, output: 32 * sandbox.MiB, reason: sandbox.EndOutput},
		{name: "daemons", profile: sandbox.Profile{Wall: 500 * time.Millisecond}, program: daemons, reason: sandbox.EndWall},
	}
}

func TestExhaustion(t *testing.T) {
	if testing.Short() {
		t.Skip("not short: it takes a minute")
	}
	for _, level := range []sandbox.Level{sandbox.L2, sandbox.L1} {
		t.Run(string(level), func(t *testing.T) {
			first := sandbox.New(sandbox.Config{}.AtMost(level)) // what the test process itself keeps is there after it
			r := first.Probe(t.Context())
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			if r.Level != level {
				t.Skipf("level %s cannot be had here, only %s: %v", level, r.Level, r.Missing)
			}
			before := remains(t)
			if before.child {
				t.Error("another test has left a child, so that nothing can be said of this one's")
			}
			s := sandbox.New(sandbox.Config{}.AtMost(level))
			for _, e := range exhaustions() {
				if e.notAt == level {
					continue
				}
				t.Run(strings.ReplaceAll(e.name, " ", "_"), func(t *testing.T) { e.run(t, s, level, 1) })
			}
			t.Run("100_in_a_row", func(t *testing.T) {
				list := exhaustions()
				for i := range 100 {
					if e := list[i%len(list)]; e.notAt != level {
						e.run(t, s, level, 4)
					}
				}
			})
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if after := remains(t); after != before {
				t.Errorf("before %+v, after %+v", before, after)
			}
		})
	}
}

// TestCPUShare has two processes spin for a second where they may use a quarter
// of one processor.
func TestCPUShare(t *testing.T) {
	s := sandbox.New(sandbox.Config{})
	defer s.Close()
	if missing := s.Probe(t.Context()).Missing; slices.ContainsFunc(missing, func(m sandbox.Missing) bool { return m.Layer == "cpu share" }) {
		if os.Getuid() == 0 {
			t.Errorf("root cannot limit the share here: %v", missing)
		}
		return // said by the report, as it must
	}
	const spin = `while :; do :; done & while :; do :; done`
	got := sandboxtest.Shell(t, s, sandbox.Profile{CPUShare: 0.25, CPU: time.Minute, Wall: time.Second}, spin)
	if got.Ending.Reason != sandbox.EndWall || got.Peaks.CPUMS < 50 || got.Peaks.CPUMS > 450 {
		t.Errorf("ended by %s after %v ms of CPU time, want about 250", got.Ending.Reason, got.Peaks.CPUMS)
	}
}

// TestExhaustionOrdinaryUser does the same where nothing but limits of single
// processes and a watch can hold a command.
func TestExhaustionOrdinaryUser(t *testing.T) {
	if testing.Short() {
		t.Skip("not short: it takes a minute")
	}
	asOrdinaryUser(t, "^TestExhaustion$")
}

// run has the program run and checks its end. Scale makes its limits smaller.
func (e exhaustion) run(t *testing.T, s *sandbox.Sandbox, level sandbox.Level, scale int) {
	t.Helper()
	e.shrink(scale)
	ws, err := os.MkdirTemp("", "exhaustion")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(ws)
	stamp := filepath.Join(ws, "stamp")
	if err := os.WriteFile(stamp, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	token := fmt.Sprintf("SANDBOXTEST=%d.%d", os.Getpid(), time.Now().UnixNano())
	got := e.start(t, s, ws, stamp, token)

	if got.Ending.Reason != e.reason || e.reason == sandbox.EndExit && got.Ending.Code != e.code || !strings.Contains(got.text, e.says) {
		t.Errorf("%s: ended by %+v after %v with %q, want %s and %q", e.name, got.Ending, got.took, got.text, e.reason, e.says)
	}
	if got.took > 10*time.Second {
		t.Errorf("%s: it took %v", e.name, got.took)
	}
	if left := sandboxtest.Carriers(token); len(left) > 0 {
		t.Errorf("%s: processes %v are left", e.name, left)
	}
	late := got.late(stamp)
	if e.within > 0 && late > e.within+busy {
		t.Errorf("%s: ended %v after its limit, want %v", e.name, late, e.within)
	}
	// The program's own pages are the machine's, and count as resident.
	if limit := e.profile.Memory; limit > 0 && slices.Contains(got.Sandbox.Layers, "cgroup(1)") && got.Peaks.MemoryBytes > limit+16*sandbox.MiB {
		t.Errorf("%s: used %d bytes of %d", e.name, got.Peaks.MemoryBytes, limit)
	}
	if scale == 1 {
		t.Logf("%s %s: %s after %v, %v after the limit at most, peaks %+v", level, e.name, got.Ending.Reason, got.took.Round(time.Millisecond), late.Round(time.Millisecond), got.Peaks)
	}
}

// shrink divides limits and caps, for a program that is run often.
func (e *exhaustion) shrink(scale int) {
	if scale == 1 {
		return
	}
	e.profile.Memory /= 2 // the program itself needs some
	e.profile.Disk /= int64(scale)
	e.profile.Tmp /= int64(scale)
	e.profile.Inodes /= scale
	e.profile.Wall /= time.Duration(scale)
	e.output /= scale
	e.after /= scale
	if e.reason == sandbox.EndExit {
		e.steps /= scale
	}
	if e.program == "hard links" {
		e.profile.Inodes = 10
	}
	if e.program == "descriptors" {
		e.steps *= scale
	}
}

// ended is what came of a program.
type ended struct {
	sandbox.Result
	at   time.Time
	took time.Duration
	text string
}

// late is the time from the last step that was begun to the end.
func (e *ended) late(stamp string) time.Duration {
	text, _ := os.ReadFile(stamp)
	last, err := strconv.ParseInt(strings.TrimLeft(string(bytes.TrimSpace(text)), "0"), 10, 64)
	if err != nil {
		return 0
	}
	return e.at.Sub(time.Unix(0, last))
}

func (e exhaustion) start(t *testing.T, s *sandbox.Sandbox, ws, stamp, token string) ended {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, errs := pipe(t), pipe(t)
	defer out.r.Close()
	defer errs.r.Close()
	p := e.profile
	p.Read, p.Write = append(sandboxtest.System(), self), []string{ws}
	dir := e.dir
	if dir == "" {
		dir = ws
	}
	args := []string{"/bin/bash", "-c", e.program}
	if _, ours := exhausters[e.program]; ours || e.program == "cpu" {
		script := fmt.Sprintf(`d=%q; [ $d = tmp ] && d=${TMPDIR:-/tmp}; exec %q %s %q $d %d %d %q`,
			dir, self, exhaustArg, e.program, e.steps, e.after, stamp)
		args = []string{"/bin/bash", "-c", script}
	}
	began := time.Now()
	proc, err := s.Start(t.Context(), sandbox.Cmd{
		Args: args, Env: []string{"PATH=/usr/bin:/bin", "GOMAXPROCS=2", token}, Stdout: out.w, Stderr: errs.w, Profile: p,
	})
	out.w.Close()
	errs.w.Close()
	if err != nil {
		t.Fatalf("%s: %v", e.name, err)
	}
	said := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(io.LimitReader(errs.r, 4096))
		said <- string(text)
	}()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		total, buf := 0, make([]byte, 64<<10)
		for {
			n, err := out.r.Read(buf)
			if total += n; e.output > 0 && total > e.output {
				proc.Kill(sandbox.EndOutput)
			}
			if err != nil {
				return
			}
		}
	}()
	proc.Wait(t.Context())
	at := time.Now()
	if err := proc.Close(); err != nil {
		t.Errorf("%s: closing: %v", e.name, err)
	}
	<-drained
	return ended{proc.Wait(t.Context()), at, at.Sub(began), <-said}
}

type ends struct{ r, w *os.File }

func pipe(t *testing.T) ends {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return ends{r, w}
}

// remain counts what a sandbox could leave behind.
type remain struct {
	descriptors, cgroups, mounts, private int
	child                                 bool
}

func remains(t *testing.T) remain {
	t.Helper()
	r := remain{descriptors: descriptors(t)}
	mark := fmt.Sprintf("toolyard-%d-", os.Getpid())
	_ = filepath.WalkDir("/sys/fs/cgroup", func(_ string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), mark) {
			r.cgroups++
		}
		return nil
	})
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	r.mounts = strings.Count(string(mounts), "exhaustion") + strings.Count(string(mounts), "toolyard-")
	private, err := filepath.Glob(filepath.Join(os.TempDir(), fmt.Sprintf("toolyard-tmp-%d-*", os.Getpid())))
	if err != nil {
		t.Fatal(err)
	}
	r.private = len(private)
	r.child = unwaited(5 * time.Second)
	return r
}

// unwaited reports whether there is always a child that has ended and that nobody
// has waited for: another goroutine may be about to.
func unwaited(within time.Duration) bool {
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if err != nil || info.Signo == 0 {
			return false
		}
	}
	return true
}
