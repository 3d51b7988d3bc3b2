package process

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Child is a process that this one can wait for, found by its number: a launcher
// or what a launcher left behind as our child.
type Child struct {
	PID   int
	pidfd int
}

// Spawn executes path with nothing but the environment and the descriptors
// given; files[i] becomes descriptor i. The caller keeps the files.
func Spawn(path string, argv, env []string, files []*os.File) (*Child, error) {
	attr := &syscall.ProcAttr{Env: env, Files: make([]uintptr, len(files))}
	for i, f := range files {
		attr.Files[i] = f.Fd()
	}
	pid, err := syscall.ForkExec(path, argv, attr)
	if err != nil {
		return nil, fmt.Errorf("executing %s: %w", path, err)
	}
	return Adopt(pid)
}

// Adopt takes a child of this process that it did not start with Spawn.
func Adopt(pid int) (*Child, error) {
	// The number cannot be reused before we wait, so the descriptor is the
	// right one.
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("watching process %d: %w", pid, err)
	}
	return &Child{PID: pid, pidfd: fd}, nil
}

// Signal sends a signal to the process, and never to another one that got its
// number. Sending to one that has ended is no error. It must not be called after
// Wait.
func (c *Child) Signal(sig syscall.Signal) error {
	err := unix.PidfdSendSignal(c.pidfd, unix.Signal(sig), nil, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// Wait blocks until the process has ended, reaps it and tells what it and all
// that it reaped have used.
func (c *Child) Wait() (syscall.WaitStatus, Usage, error) {
	defer unix.Close(c.pidfd)
	for {
		var status syscall.WaitStatus
		var usage syscall.Rusage
		_, err := syscall.Wait4(c.PID, &status, 0, &usage)
		if err == syscall.EINTR {
			continue
		}
		return status, UsageOf(&usage), err
	}
}

// Usage is what processes have used.
type Usage struct {
	CPU time.Duration
	// MaxRSS is the memory of the largest single process, in bytes.
	MaxRSS int64
}

// UsageOf reads the parts of a Rusage that count here.
func UsageOf(r *syscall.Rusage) Usage {
	return Usage{
		CPU:    time.Duration(r.Utime.Nano() + r.Stime.Nano()),
		MaxRSS: r.Maxrss << 10,
	}
}
