//go:build amd64 || arm64

package launch

import (
	"syscall"
	"unsafe"
)

// Gate is the value of [Marker] that makes this program the init of a container
// which somebody else made. Its arguments are the paths of two FIFOs and the
// command. It waits until it has read a byte from the first, starts the command,
// sends each further byte as a signal to its process group, reaps, and ends with the command, which is then the end of all that the command
// started. So a driver that has containers made by a service can look at what was
// made before anything of the command runs.
//
// Into the second FIFO it writes records of [GateRecord] bytes.
const Gate = "gate"

const prSetDumpable = 4

// GateRecord is the size of a record: its kind (Running, Failed, Exited) in one
// byte and in four, little-endian, 0, the error's number, or the status as wait4
// gives it.
const GateRecord = 5

// gate never returns.
func gate() {
	args := arguments()
	if len(args) < 4 {
		exit(exitBroken)
	}
	records, err := syscall.Open(args[2], syscall.O_WRONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		exit(exitBroken)
	}
	orders, err := syscall.Open(args[1], syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		exit(exitBroken)
	}
	if _, passed := readByte(orders); !passed {
		exit(exitBroken)
	}
	// The driver has looked; the command is not to.
	syscall.RawSyscall6(syscall.SYS_PRCTL, prSetDumpable, 0, 0, 0, 0, 0)
	record := func(kind byte, value uint32) {
		_, _ = syscall.Write(records, []byte{kind, byte(value), byte(value >> 8), byte(value >> 16), byte(value >> 24)})
	}
	pid, err := startCommand(args[3:])
	if err != nil {
		errno, _ := err.(syscall.Errno)
		record(Failed, uint32(errno))
		exit(exitBroken)
	}
	ignoreSignals()
	record(Running, 0)
	go func() { // ends with the process
		for {
			signal, more := readByte(orders)
			if !more {
				return
			}
			_ = syscall.Kill(-pid, syscall.Signal(signal))
		}
	}()
	ended := waitFor(pid)
	// The rest goes before the record is written, so that nobody can add to it.
	_ = syscall.Kill(-1, syscall.SIGKILL)
	waitFor(0)
	record(Exited, uint32(ended))
	if ended.Signaled() {
		exit(128 + int(ended.Signal()))
	}
	exit(ended.ExitStatus())
}

// startCommand executes a command in a session of its own, or, if standard input
// is a terminal, in the foreground of the one that has it. A name without a slash is looked for in PATH.
func startCommand(args []string) (pid int, err error) {
	attr := syscall.ProcAttr{Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: true}}
	if isTerminal(0) {
		attr.Sys = &syscall.SysProcAttr{Foreground: true, Ctty: 0}
	}
	for _, variable := range syscall.Environ() {
		if len(variable) <= len(Marker) || variable[:len(Marker)+1] != Marker+"=" {
			attr.Env = append(attr.Env, variable)
		}
	}
	failed := error(syscall.ENOENT)
	for _, path := range places(args[0]) {
		pid, err := syscall.ForkExec(path, args, &attr)
		if err == nil {
			return pid, nil
		}
		if err != syscall.ENOENT && err != syscall.ENOTDIR {
			failed = err
		}
	}
	return 0, failed
}

// places are the paths at which a program may be.
func places(name string) []string {
	for _, c := range []byte(name) {
		if c == '/' {
			return []string{name}
		}
	}
	var list []string
	path, _ := syscall.Getenv("PATH")
	for start, i := 0, 0; i <= len(path); i++ {
		if i < len(path) && path[i] != ':' {
			continue
		}
		if dir := path[start:i]; dir != "" {
			list = append(list, dir+"/"+name)
		}
		start = i + 1
	}
	return list
}

func isTerminal(fd uintptr) bool {
	var termios [64]byte
	_, _, errno := syscall.RawSyscall(syscall.SYS_IOCTL, fd, syscall.TCGETS, addr(&termios))
	return errno == 0
}

// ignoreSignals keeps this process, which the kernel lets nobody kill from
// within, from dying of what the Go runtime handles. The command has been
// executed, so it does not inherit this.
func ignoreSignals() {
	action := struct {
		handler        uintptr
		flags          uint64
		restorer, mask uint64
	}{handler: 1} // SIG_IGN
	for signal := uintptr(1); signal <= 64; signal++ {
		if signal != uintptr(syscall.SIGCHLD) {
			syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, signal, uintptr(unsafe.Pointer(&action)), 0, sigSetBytes, 0, 0)
		}
	}
}

// waitFor reaps until the process has ended, or, if pid is 0, all have.
func waitFor(pid int) (ended syscall.WaitStatus) {
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil: // ECHILD: nobody is left
			return ended
		case got == pid:
			return status
		}
	}
}

func readByte(fd int) (byte, bool) {
	var one [1]byte
	for {
		n, err := syscall.Read(fd, one[:])
		if err != syscall.EINTR {
			return one[0], err == nil && n == 1
		}
	}
}

// arguments are those of this process; package os, which has them, is not
// initialised yet.
func arguments() []string {
	fd, err := syscall.Open("/proc/self/cmdline", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	var text []byte
	chunk := make([]byte, 16<<10)
	for {
		n, err := syscall.Read(fd, chunk)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n == 0 {
			break
		}
		text = append(text, chunk[:n]...)
	}
	_ = syscall.Close(fd)
	var args []string
	start := 0
	for i, c := range text {
		if c == 0 {
			args = append(args, string(text[start:i]))
			start = i + 1
		}
	}
	return args
}
