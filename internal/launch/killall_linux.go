//go:build amd64 || arm64

package launch

import (
	"syscall"
	"unsafe"
)

var (
	procPath  = [...]byte{'/', 'p', 'r', 'o', 'c', 0}
	entries   [4096]byte
	statPath  [32]byte
	statLine  [512]byte
	ownPID    int
	procFD    uintptr
	napLength = syscall.Timespec{Nsec: 1e6}

	// doomed has a bit for every process number that was found to descend from
	// this process, in one look through /proc.
	doomed [maxPID / 64]uint64
)

// maxPID is the kernel's own bound, PID_MAX_LIMIT.
const maxPID = 1 << 22

// killAll kills every descendant and returns when none is left. This process is
// a subreaper: a child of a process that was killed becomes its own child, so
// that nothing that forked, daemonised or changed its session is lost.
//
//go:nosplit
//go:norace
func killAll() {
	pid, _, _ := syscall.RawSyscall(syscall.SYS_GETPID, 0, 0, 0)
	ownPID = int(pid)
	for {
		killDescendants()
		for {
			pid, _, errno := syscall.RawSyscall6(syscall.SYS_WAIT4, ^uintptr(0), addr(&status), syscall.WNOHANG, 0, 0, 0)
			if errno == syscall.ECHILD {
				return
			}
			if errno == 0 && pid == 0 {
				break
			}
		}
		syscall.RawSyscall(syscall.SYS_NANOSLEEP, addr(&napLength), 0, 0)
	}
}

// killDescendants looks through /proc once. It comes in the order of process
// numbers, so that parents come before their children, and before those that
// they make meanwhile: one look nearly always gets a fork bomb whole.
//
//go:nosplit
//go:norace
func killDescendants() {
	const readDir = syscall.O_RDONLY | syscall.O_DIRECTORY | syscall.O_CLOEXEC
	fd, _, errno := syscall.RawSyscall6(syscall.SYS_OPENAT, 0, addr(&procPath), readDir, 0, 0, 0)
	if errno != 0 {
		return
	}
	procFD = fd
	for {
		n, _, errno := syscall.RawSyscall(syscall.SYS_GETDENTS64, procFD, addr(&entries), uintptr(len(entries)))
		if errno != 0 || n == 0 {
			break
		}
		for at := uintptr(0); at < n; {
			entry := unsafe.Add(unsafe.Pointer(&entries), at)
			at += uintptr(*(*uint16)(unsafe.Add(entry, 16)))
			pid := uint(decimal(unsafe.Add(entry, 19)))
			if pid == 0 || pid >= maxPID {
				continue
			}
			doomed[pid/64] &^= 1 << (pid % 64)
			parent := uint(parentOf(int(pid)))
			if parent < maxPID && (int(parent) == ownPID || doomed[parent/64]>>(parent%64)&1 != 0) {
				doomed[pid/64] |= 1 << (pid % 64)
				syscall.RawSyscall(syscall.SYS_KILL, uintptr(pid), uintptr(syscall.SIGKILL), 0)
			}
		}
	}
	syscall.RawSyscall(syscall.SYS_CLOSE, procFD, 0, 0)
}

// decimal reads a whole name as a number; 0 if it is none.
//
//go:nosplit
//go:norace
func decimal(name unsafe.Pointer) int {
	n := 0
	for i := uintptr(0); i < 10; i++ {
		c := *(*byte)(unsafe.Add(name, i))
		if c == 0 {
			return n
		}
		if c < '0' || c > '9' {
			return 0
		}
		n = n*10 + int(c-'0')
	}
	return 0
}

// parentOf reads the fourth field of /proc/<pid>/stat, which follows the last
// parenthesis: the name between them may hold anything. Its masks spare bounds
// checks, whose panics would need more stack than there is.
//
//go:nosplit
//go:norace
func parentOf(pid int) int {
	end := 0
	for n := pid; n > 0; n /= 10 {
		end++
	}
	for i, n := end-1, pid; i >= 0; i, n = i-1, n/10 {
		statPath[i&31] = byte('0' + n%10)
	}
	for i, c := range [...]byte{'/', 's', 't', 'a', 't', 0} {
		statPath[(end+i)&31] = c
	}
	fd, _, errno := syscall.RawSyscall6(syscall.SYS_OPENAT, procFD, addr(&statPath), syscall.O_RDONLY|syscall.O_CLOEXEC, 0, 0, 0)
	if errno != 0 {
		return 0
	}
	n, _, errno := syscall.RawSyscall6(syscall.SYS_READ, fd, addr(&statLine), uintptr(len(statLine)), 0, 0, 0)
	syscall.RawSyscall6(syscall.SYS_CLOSE, fd, 0, 0, 0, 0, 0)
	if errno != 0 {
		return 0
	}
	last := 0
	for i := 0; i < int(n) && i < len(statLine); i++ {
		if statLine[i&511] == ')' {
			last = i
		}
	}
	parent := 0
	for i := last + 4; i < int(n) && i < len(statLine); i++ { // ") S 123 "
		c := statLine[i&511]
		if c < '0' || c > '9' {
			break
		}
		parent = parent*10 + int(c-'0')
	}
	return parent
}
