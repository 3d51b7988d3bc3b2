package cgroup

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Controllers that a sandbox uses. Memory and PIDs are what makes a group worth
// having; the others are taken where they are.
const (
	Memory = "memory"
	PIDs   = "pids"
	CPU    = "cpu"
	CPUAcc = "cpuacct"
)

// Root is where groups are made: below this process's own, so that they never
// get more than it has.
type Root struct {
	v2   string            // directory, "" if version 1 is used
	v1   map[string]string // controller → directory
	have []string
}

// Find looks for places where this process may make groups. The reason is why
// there are none, or why some controller is missing.
func Find() (root *Root, reason string) {
	mounts, err := readMounts("/proc/self/mountinfo")
	if err != nil {
		return nil, err.Error()
	}
	own, err := readOwn("/proc/self/cgroup")
	if err != nil {
		return nil, err.Error()
	}
	v2, reason2 := find2(mounts, own)
	if v2 != nil && slices.Contains(v2.have, Memory) && slices.Contains(v2.have, PIDs) {
		return v2, ""
	}
	v1, reason1 := find1(mounts, own)
	if v1 != nil {
		return v1, reason1
	}
	if reason2 == "" {
		reason2 = reason1
	}
	return nil, reason2
}

// Has reports whether a controller can be used.
func (r *Root) Has(controller string) bool { return r != nil && slices.Contains(r.have, controller) }

// Version is 1 or 2.
func (r *Root) Version() int {
	if r.v2 != "" {
		return 2
	}
	return 1
}

// LimitsSwap reports whether a limit of memory holds for what is swapped out:
// because the kernel counts it, or because there is no swap.
func (r *Root) LimitsSwap() bool {
	swaps, _ := os.ReadFile("/proc/swaps")
	if bytes.Count(swaps, []byte("\n")) < 2 || !r.Has(Memory) { // a heading and a line for each
		return true
	}
	file := filepath.Join(r.v1[Memory], "memory.memsw.limit_in_bytes")
	if r.v2 != "" {
		// The root group has no such file, so its children are asked.
		found, _ := filepath.Glob(filepath.Join(r.v2, "*", "memory.swap.max"))
		if len(found) > 0 {
			return true
		}
		file = filepath.Join(r.v2, "memory.swap.max")
	}
	_, err := os.Stat(file)
	return err == nil
}

// mount is one cgroup file system.
type mount struct {
	root, dir string
	kind      string // "cgroup" or "cgroup2"
	options   []string
}

// place is the directory of a group's path in the mount.
func (m mount) place(path string) string {
	if m.root != "/" {
		path = strings.TrimPrefix(path, m.root)
	}
	return filepath.Join(m.dir, path)
}

// readMounts reads the cgroup lines of a mountinfo file: proc_pid_mountinfo(5).
func readMounts(file string) ([]mount, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var mounts []mount
	for s := bufio.NewScanner(f); s.Scan(); {
		left, right, ok := strings.Cut(s.Text(), " - ")
		fields, rest := strings.Fields(left), strings.Fields(right)
		if !ok || len(fields) < 5 || len(rest) < 3 || (rest[0] != "cgroup" && rest[0] != "cgroup2") {
			continue
		}
		mounts = append(mounts, mount{root: fields[3], dir: fields[4], kind: rest[0], options: strings.Split(rest[2], ",")})
	}
	return mounts, nil
}

// readOwn maps each controller, and "" for version 2, to this process's group.
func readOwn(file string) (map[string]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	own := map[string]string{}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for c := range strings.SplitSeq(parts[1], ",") {
			own[c] = parts[2]
		}
	}
	return own, nil
}

func find1(mounts []mount, own map[string]string) (*Root, string) {
	r := &Root{v1: map[string]string{}}
	reason := "no cgroup file system is mounted"
	for _, controller := range []string{Memory, PIDs, CPU, CPUAcc} {
		for _, m := range mounts {
			path, member := own[controller]
			if m.kind != "cgroup" || !member || !slices.Contains(m.options, controller) {
				continue
			}
			dir := m.place(path)
			if err := writable(dir); err != nil {
				reason = err.Error()
				continue
			}
			r.v1[controller] = dir
			r.have = append(r.have, controller)
		}
	}
	if !r.Has(Memory) && !r.Has(PIDs) {
		return nil, reason
	}
	for _, controller := range []string{Memory, PIDs} {
		if !r.Has(controller) {
			return r, "the controller " + controller + " is missing: " + reason
		}
	}
	return r, ""
}

func find2(mounts []mount, own map[string]string) (*Root, string) {
	path, member := own[""]
	for _, m := range mounts {
		if m.kind != "cgroup2" || !member {
			continue
		}
		dir := m.place(path)
		if err := writable(dir); err != nil {
			return nil, err.Error()
		}
		available, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
		if err != nil {
			return nil, err.Error()
		}
		r := &Root{v2: dir}
		for _, c := range strings.Fields(string(available)) {
			if c == Memory || c == PIDs || c == CPU {
				r.have = append(r.have, c)
			}
		}
		if len(r.have) == 0 {
			return nil, "the cgroup of this process has no controllers"
		}
		if err := delegate(dir, r.have); err != nil {
			return nil, err.Error()
		}
		return r, ""
	}
	return nil, "no cgroup file system is mounted"
}

// delegate gives the controllers to the groups below dir. A group with
// processes in it may not do so, so that this process moves to one below, as
// https://systemd.io/CGROUP_DELEGATION asks of whoever gets a subtree.
func delegate(dir string, controllers []string) error {
	control := filepath.Join(dir, "cgroup.subtree_control")
	enabled, err := os.ReadFile(control)
	if err != nil {
		return err
	}
	var missing []string
	for _, c := range controllers {
		if !slices.Contains(strings.Fields(string(enabled)), c) {
			missing = append(missing, "+"+c)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	enable := []byte(strings.Join(missing, " "))
	if os.WriteFile(control, enable, 0) == nil {
		return nil
	}
	leaf := filepath.Join(dir, "toolyard-runtime")
	if err := os.Mkdir(leaf, 0o755); err != nil && !os.IsExist(err) {
		return err
	}
	pid := []byte(fmt.Sprint(os.Getpid()))
	if err := os.WriteFile(filepath.Join(leaf, "cgroup.procs"), pid, 0); err != nil {
		return err
	}
	if err := os.WriteFile(control, enable, 0); err != nil {
		// Others live in this group too: it is not ours to divide.
		_ = os.WriteFile(filepath.Join(dir, "cgroup.procs"), pid, 0)
		_ = os.Remove(leaf)
		return err
	}
	return nil
}

// writable tries to make a group in dir.
func writable(dir string) error {
	probe := filepath.Join(dir, prefix()+"probe")
	if err := os.Mkdir(probe, 0o755); err != nil && !os.IsExist(err) {
		return err
	}
	return os.Remove(probe)
}
