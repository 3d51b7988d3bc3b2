package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
)

// kind is one sort of call and how it must end.
type kind struct {
	name    string
	args    []string
	profile sandbox.Profile
	reason  string // "" is any
	timeout time.Duration
	missing bool // the program does not exist
}

// kinds is what the calls go through in turn: mostly what ends by itself, and
// some of each that does not. To add a kind: a line here and how often.
func kinds(dir string) []kind {
	minimal := sandbox.Profile{Read: []string{"/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache"}}
	full := sandbox.Profile{Mounts: sandbox.Toolchains(os.Getenv("PATH"), os.Getenv("HOME")).Mounts}
	write, wall, memory := minimal, minimal, minimal
	write.Write = []string{dir}
	write.Disk, write.Inodes = 64*sandbox.MiB, 1000
	wall.Wall = 50 * time.Millisecond
	memory.Memory = 24 * sandbox.MiB
	shell := func(script string) []string { return []string{"/bin/sh", "-c", script} }
	rows := []struct {
		times int
		kind
	}{
		{60, kind{name: "true", args: []string{"/bin/true"}, profile: minimal, reason: sandbox.EndExit}},
		{20, kind{name: "true with toolchains", args: []string{"/bin/true"}, profile: full, reason: sandbox.EndExit}},
		{5, kind{name: "daemon left", args: shell("setsid sleep 600 & (sleep 600 &); exit 0"), profile: minimal, reason: sandbox.EndExit}},
		{5, kind{name: "files", args: shell("echo x > " + filepath.Join(dir, "file") + "; rm " + filepath.Join(dir, "file")), profile: write, reason: sandbox.EndExit}},
		{3, kind{name: "wall", args: shell("trap '' TERM; sleep 600"), profile: wall, reason: sandbox.EndWall}},
		{2, kind{name: "memory", args: shell("head -c 60000000 /dev/zero | tail -c 60000000 > /dev/null"), profile: memory, reason: sandbox.EndMemory}},
		{2, kind{name: "missing", args: []string{"/bin/no-such-program"}, profile: minimal, missing: true}},
		{3, kind{name: "cancelled", args: shell("sleep 600"), profile: minimal, timeout: 40 * time.Millisecond}},
	}
	var list []kind
	for left := true; left; { // spread, so that no second has only one kind
		left = false
		for i := range rows {
			if rows[i].times > 0 {
				rows[i].times--
				list = append(list, rows[i].kind)
				left = true
			}
		}
	}
	return list
}

func (k kind) call(ctx context.Context, box *sandbox.Sandbox) error {
	if k.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, k.timeout)
		defer cancel()
	}
	p, err := box.Start(ctx, sandbox.Cmd{Args: k.args, Env: []string{"PATH=/usr/bin:/bin"}, Profile: k.profile})
	switch {
	case err != nil && (k.missing || k.timeout > 0):
		return nil
	case err != nil:
		return err
	}
	defer p.Close()
	if k.missing {
		return fmt.Errorf("it was started")
	}
	got := p.Wait(context.WithoutCancel(ctx)).Ending
	if k.reason != "" && got.Reason != k.reason {
		return fmt.Errorf("ended by %+v, want %s", got, k.reason)
	}
	return nil
}
