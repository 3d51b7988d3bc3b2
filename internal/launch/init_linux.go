//go:build amd64 || arm64

package launch

import "syscall"

// become is the life of init: prepare, start the command, then reap until
// nothing is left or the control socket says that it is over. It never returns.
//
//go:nosplit
//go:norace
func become() {
	message.Kind = 0
	message.Status = 0
	settle()
	dup(ControlSlot, ControlFD, syscall.O_CLOEXEC)
	if program.head.Supervise != 0 {
		syscall.RawSyscall6(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0, 0, 0, 0)
	}
	if op, errno := run(Init); errno != 0 {
		fail(op, errno)
	}
	if program.head.More != 0 {
		more()
		if op, errno := run(Init); errno != 0 {
			fail(op, errno)
		}
	}
	signals, _, errno := syscall.RawSyscall6(sysSignalfd, ^uintptr(0), addr(&childSet), sigSetBytes,
		syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0, 0)
	if errno != 0 {
		fail(CloneOp, errno)
	}
	pid := int(start())
	if pid < 0 {
		fail(CloneOp, syscall.Errno(-pid))
	}
	command = pid
	if op, errno := run(Guard); errno != 0 {
		fail(op, errno)
	}
	if message.Kind == Failed {
		report(Failed, message.Op, syscall.Errno(message.Errno))
	} else {
		report(Running, 0, 0)
	}
	pollFDs[0] = pollFD{fd: int32(signals), events: pollIn}
	pollFDs[1] = pollFD{fd: ControlFD, events: pollIn}
	for {
		reap()
		syscall.RawSyscall6(syscall.SYS_PPOLL, addr(&pollFDs), 2, 0, 0, 0, 0)
		if pollFDs[1].revents != 0 {
			obey()
		}
		if pollFDs[0].revents != 0 {
			syscall.RawSyscall(syscall.SYS_READ, signals, addr(&drain), 128)
		}
	}
}

// settle makes the descriptors that came for the command its first three.
//
//go:nosplit
//go:norace
func settle() {
	for slot := uintptr(StdinSlot); slot <= StderrSlot; slot++ {
		dup(slot, slot-StdinSlot, 0)
	}
}

// more waits, for as long as it takes, for the rest of a program. The end of
// the socket says that there will be none.
//
//go:nosplit
//go:norace
func more() {
	report(Ready, 0, 0)
	for {
		expect()
		n, _, errno := syscall.RawSyscall(syscall.SYS_RECVMSG, ControlFD, addr(&incoming.head), msgCmsgCloexec)
		if errno == syscall.EINTR {
			continue
		}
		if errno != 0 || n != 1 {
			quit(0)
		}
		break
	}
	syscall.RawSyscall(syscall.SYS_MUNMAP, program.base, uintptr(program.head.Size), 0)
	if !load(ControlFD) {
		quit(exitBroken)
	}
	settle()
	syscall.RawSyscall(syscall.SYS_CLOSE, ControlSlot, 0, 0)
	message.Kind = 0
	message.Status = 1
}

//go:nosplit
//go:norace
func dup(from, to, flags uintptr) {
	syscall.RawSyscall(syscall.SYS_DUP3, from, to, flags)
	syscall.RawSyscall(syscall.SYS_CLOSE, from, 0, 0)
}

// start makes the process of the command. It shares this process's memory, and
// this process stands still, until it has executed or failed.
//
//go:nosplit
//go:norace
func start() uintptr {
	pid := vfork(syscall.CLONE_VFORK | syscall.CLONE_VM | uintptr(syscall.SIGCHLD))
	if pid == 0 {
		execute()
	}
	return pid
}

// execute becomes the command. A failure is left for init to report: descriptor
// 3 may be the command's own by then.
//
//go:nosplit
//go:norace
func execute() {
	if op, errno := run(Child); errno != 0 {
		message.Kind, message.Op, message.Errno = Failed, op, int32(errno)
		exit(exitBroken)
	}
	if program.head.Path == 0 {
		exit(0)
	}
	syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, sigSetMask, addr(&emptySet), 0, sigSetBytes, 0, 0)
	blob := program.blob
	_, _, errno := syscall.RawSyscall(syscall.SYS_EXECVE,
		blob+uintptr(program.head.Path), blob+uintptr(program.head.Argv), blob+uintptr(program.head.Envp))
	message.Kind, message.Op, message.Errno = Failed, ExecOp, int32(errno)
	exit(127)
}

// reap collects what has ended, reports the command's end, and exits after the
// last process.
//
//go:nosplit
//go:norace
func reap() {
	for {
		pid, _, errno := syscall.RawSyscall6(syscall.SYS_WAIT4, ^uintptr(0), addr(&status), syscall.WNOHANG, addr(&rusage), 0, 0)
		if errno == syscall.EINTR {
			continue
		}
		if errno != 0 { // ECHILD: nobody is left
			report(Empty, 0, 0)
			exit(0)
		}
		if pid == 0 {
			return
		}
		if int(pid) == command && !ended {
			ended = true
			message.Status = uint32(status)
			message.Rusage = rusage
			report(Exited, 0, 0)
		}
	}
}

// obey reads one request from the runtime.
//
//go:nosplit
//go:norace
func obey() {
	got, _, errno := syscall.RawSyscall(syscall.SYS_READ, ControlFD, addr(&request), 2)
	switch {
	case errno == syscall.EINTR || errno == syscall.EAGAIN:
	case errno == 0 && got == 2 && request[0] == SignalRequest:
		if !ended { // afterwards the number may be somebody else's
			syscall.RawSyscall(syscall.SYS_KILL, uintptr(-command), uintptr(request[1]), 0)
		}
	default:
		quit(0)
	}
}

//go:nosplit
//go:norace
func fail(op int32, errno syscall.Errno) {
	report(Failed, op, errno)
	quit(exitBroken)
}

// quit ends the sandbox. In a pid namespace the kernel kills all that is left
// when its init exits; elsewhere it is done here.
//
//go:nosplit
//go:norace
func quit(code int) {
	if program.head.Supervise != 0 {
		killAll()
	}
	exit(code)
}
