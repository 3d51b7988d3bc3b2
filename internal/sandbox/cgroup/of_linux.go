package cgroup

import (
	"fmt"
	"os"
	"slices"
)

// Of is the group of a process, which somebody else made: for [Group.Stat] and
// [Group.Close] only.
func Of(pid int) (*Group, error) {
	mounts, err := readMounts("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	paths, err := readOwn(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return nil, err
	}
	r := &Root{v1: map[string]string{}}
	for _, m := range mounts {
		if m.kind != "cgroup" {
			continue
		}
		for _, controller := range []string{Memory, PIDs, CPU, CPUAcc} {
			path, member := paths[controller]
			if member && slices.Contains(m.options, controller) {
				r.v1[controller] = m.place(path)
				r.have = append(r.have, controller)
			}
		}
	}
	if len(r.have) == 0 {
		for _, m := range mounts {
			if path, member := paths[""]; member && m.kind == "cgroup2" {
				r.v2, r.have = m.place(path), []string{Memory, PIDs, CPU}
			}
		}
	}
	g := &Group{root: r, files: map[string]*os.File{}}
	if g.read(PIDs, "pids.current") == nil {
		_ = g.Close()
		return nil, fmt.Errorf("the cgroup of process %d is not visible here", pid)
	}
	return g, nil
}

// Close lets go of the group's files.
func (g *Group) Close() error {
	for _, f := range g.files {
		if f != nil {
			f.Close()
		}
	}
	clear(g.files)
	return nil
}
