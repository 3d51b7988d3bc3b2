package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Limits of a group. Zero or less means none.
type Limits struct {
	Memory   int64   // bytes, with what is swapped
	PIDs     int     // processes and threads
	CPUShare float64 // cores
	// CountCPU asks for Stat.CPU.
	CountCPU bool
}

// needs reports whether a controller of version 1 is worth a directory.
func (l Limits) needs(controller string) bool {
	switch controller {
	case CPU:
		return l.CPUShare > 0
	case CPUAcc:
		return l.CountCPU
	}
	return true
}

// Stat is what a group uses and used.
type Stat struct {
	Memory, MemoryPeak int64
	PIDs, PIDsPeak     int
	CPU                time.Duration // 0 where it is not counted
	OOMKills           int64         // processes killed for memory
	PIDsRefused        int64         // processes not made for want of a number
}

// Group is one control group. Its methods are for one goroutine at a time.
type Group struct {
	root  *Root
	name  string
	dirs  []string
	files map[string]*os.File // for Stat
}

// New makes a group below the root. The name must be unique among those of this
// process.
func (r *Root) New(name string, l Limits) (*Group, error) {
	g := &Group{root: r, name: prefix() + name, files: map[string]*os.File{}}
	err := g.make(l)
	if err == nil {
		err = g.Limit(l)
	}
	if err != nil {
		_ = g.Remove()
		return nil, err
	}
	return g, nil
}

func (g *Group) make(l Limits) error {
	if g.root.v2 != "" {
		g.dirs = []string{filepath.Join(g.root.v2, g.name)}
		return os.Mkdir(g.dirs[0], 0o755)
	}
	for _, controller := range g.root.have {
		if !l.needs(controller) {
			continue
		}
		dir := filepath.Join(g.root.v1[controller], g.name)
		if slices.Contains(g.dirs, dir) { // cpu,cpuacct are often one
			continue
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		g.dirs = append(g.dirs, dir)
	}
	return nil
}

// Limit sets the limits of a group that has none yet. CPUShare and CountCPU must
// be those that it was made with.
func (g *Group) Limit(l Limits) error {
	if l.Memory > 0 && g.root.Has(Memory) {
		if err := g.limitMemory(l.Memory); err != nil {
			return err
		}
	}
	if l.PIDs > 0 && g.root.Has(PIDs) {
		if err := g.set(PIDs, "pids.max", int64(l.PIDs)); err != nil {
			return err
		}
	}
	if l.CPUShare > 0 && g.root.Has(CPU) {
		quota := max(int64(l.CPUShare*period), minQuota)
		if g.root.v2 != "" {
			return os.WriteFile(filepath.Join(g.dir(CPU), "cpu.max"), fmt.Appendf(nil, "%d %d", quota, period), 0)
		}
		return g.set(CPU, "cpu.cfs_quota_us", quota)
	}
	return nil
}

// period is what a share is counted over, in microseconds: the kernel's default.
const period = 100_000

// minQuota is the least that the kernel takes, in microseconds.
const minQuota = 1000

// limitMemory limits memory with swap. The files for swap are not there where it
// is not counted, and then there is usually none.
func (g *Group) limitMemory(bytes int64) error {
	if g.root.v2 != "" {
		_ = g.set(Memory, "memory.swap.max", 0)
		_ = g.set(Memory, "memory.oom.group", 1)
		return g.set(Memory, "memory.max", bytes)
	}
	if err := g.set(Memory, "memory.limit_in_bytes", bytes); err != nil {
		return err
	}
	_ = g.set(Memory, "memory.memsw.limit_in_bytes", bytes)
	return nil
}

func (g *Group) dir(controller string) string {
	if g.root.v2 != "" {
		return filepath.Join(g.root.v2, g.name)
	}
	return filepath.Join(g.root.v1[controller], g.name)
}

func (g *Group) set(controller, file string, value int64) error {
	return os.WriteFile(filepath.Join(g.dir(controller), file), strconv.AppendInt(nil, value, 10), 0)
}

// Born opens what a process needs to be a member from its first instruction: in
// version 2 the directory, for CLONE_INTO_CGROUP; in version 1 the files into
// which it writes "0". A thread that moves itself so does not wait for the
// kernel's global lock, as everybody else does for milliseconds. The caller
// closes the files.
func (g *Group) Born() ([]*os.File, error) {
	var files []*os.File
	for _, dir := range g.dirs {
		flag := os.O_RDONLY
		if g.root.v2 == "" {
			dir, flag = filepath.Join(dir, "tasks"), os.O_WRONLY
		}
		f, err := os.OpenFile(dir, flag, 0)
		if err != nil {
			for _, f := range files {
				f.Close()
			}
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// Version is that of the root.
func (g *Group) Version() int { return g.root.Version() }

// Stat reads what the group uses.
func (g *Group) Stat() Stat {
	var s Stat
	if g.root.v2 != "" {
		s.Memory = g.number(Memory, "memory.current")
		s.MemoryPeak = g.number(Memory, "memory.peak")
		s.CPU = time.Duration(g.field(CPU, "cpu.stat", "usage_usec")) * time.Microsecond
		s.OOMKills = g.field(Memory, "memory.events", "oom_kill")
	} else {
		s.Memory = g.number(Memory, "memory.usage_in_bytes")
		s.MemoryPeak = g.number(Memory, "memory.max_usage_in_bytes")
		s.CPU = time.Duration(g.number(CPUAcc, "cpuacct.usage"))
		s.OOMKills = g.field(Memory, "memory.oom_control", "oom_kill")
	}
	s.PIDs = int(g.number(PIDs, "pids.current"))
	s.PIDsPeak = int(g.number(PIDs, "pids.peak"))
	s.PIDsRefused = g.PIDsRefused()
	s.MemoryPeak = max(s.MemoryPeak, s.Memory)
	s.PIDsPeak = max(s.PIDsPeak, s.PIDs)
	return s
}

// PIDsRefused is how often the limit of processes has refused one.
func (g *Group) PIDsRefused() int64 { return g.field(PIDs, "pids.events", "max") }

// number reads a file that holds one number; 0 if there is none.
func (g *Group) number(controller, file string) int64 {
	n, _ := strconv.ParseInt(string(bytes.TrimSpace(g.read(controller, file))), 10, 64)
	return n
}

// field reads one line "name value" of a file; 0 if there is none.
func (g *Group) field(controller, file, name string) int64 {
	for line := range bytes.Lines(g.read(controller, file)) {
		if value, ok := bytes.CutPrefix(line, []byte(name+" ")); ok {
			n, _ := strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64)
			return n
		}
	}
	return 0
}

// read reads a small file, which stays open for the next time.
func (g *Group) read(controller, file string) []byte {
	if !g.root.Has(controller) && controller != CPU {
		return nil
	}
	f, opened := g.files[file]
	if !opened {
		f, _ = os.Open(filepath.Join(g.dir(controller), file)) // nil where this kernel has no such file
		g.files[file] = f
	}
	if f == nil {
		return nil
	}
	var buf [512]byte
	n, _ := f.ReadAt(buf[:], 0)
	return buf[:n]
}

// Kill kills every member.
func (g *Group) Kill() {
	for _, dir := range g.dirs {
		killMembers(dir)
	}
}

// killMembers kills the members of the group at dir by cgroup.kill where there
// is one, else one by one, again until none is found: a fork may race with it.
func killMembers(dir string) {
	if os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0) == nil {
		return
	}
	for range 100 {
		members, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil || len(members) == 0 {
			return
		}
		for pid := range bytes.Lines(members) {
			if n, err := strconv.Atoi(string(bytes.TrimSpace(pid))); err == nil && n > 1 {
				_ = syscall.Kill(n, syscall.SIGKILL)
			}
		}
	}
}

// Remove removes the group, which must have no members that live.
func (g *Group) Remove() error {
	for _, f := range g.files {
		if f != nil {
			f.Close()
		}
	}
	clear(g.files)
	var errs []error
	for _, dir := range g.dirs {
		errs = append(errs, remove(dir))
	}
	return errors.Join(errs...)
}

// remove waits for members that have died and not yet left.
func remove(dir string) error {
	var err error
	for wait := time.Millisecond; wait < 2*time.Second; wait *= 2 {
		if err = syscall.Rmdir(dir); err == nil || errors.Is(err, syscall.ENOENT) {
			return nil
		}
		time.Sleep(wait)
	}
	return fmt.Errorf("removing the cgroup %s: %w", dir, err)
}

// Groups are named after the process that owns them, so that a later one can
// tell whose are left over: its number and, because numbers return, the time of
// its start.
const mark = "toolyard-"

func prefix() string { return fmt.Sprintf("%s%d-%d-", mark, os.Getpid(), startTime(os.Getpid())) }

// startTime is field 22 of /proc/<pid>/stat, in ticks since boot; 0 if there is
// no such process.
func startTime(pid int) uint64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 20 {
		return 0
	}
	n, _ := strconv.ParseUint(fields[19], 10, 64)
	return n
}

// Left is what this process leaves if it is killed: how the names of its groups
// begin, and the directories that they are in.
func (r *Root) Left() (prefixed string, dirs []string) {
	return prefix(), r.dirs()
}

// dirs are those in which groups are made, each once.
func (r *Root) dirs() []string {
	var dirs []string
	if r.v2 != "" {
		dirs = append(dirs, r.v2)
	}
	for _, dir := range r.v1 {
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// Sweep removes groups whose owners are dead, with what may still live in them.
// It returns how many there were.
func (r *Root) Sweep() int {
	swept := 0
	for _, dir := range r.dirs() {
		groups, _ := filepath.Glob(filepath.Join(dir, mark+"*-*-*"))
		for _, group := range groups {
			if owned(filepath.Base(group)) {
				continue
			}
			killMembers(group)
			if remove(group) == nil {
				swept++
			}
		}
	}
	return swept
}

// owned reports whether the process that a group is named after lives.
func owned(name string) bool {
	parts := strings.SplitN(strings.TrimPrefix(name, mark), "-", 3)
	if len(parts) != 3 {
		return true // not one of ours after all
	}
	pid, err1 := strconv.Atoi(parts[0])
	start, err2 := strconv.ParseUint(parts[1], 10, 64)
	return err1 != nil || err2 != nil || startTime(pid) == start
}
