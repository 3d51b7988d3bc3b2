//go:build amd64 || arm64

package launch

import (
	"syscall"
	"unsafe"
)

// The state of a launcher. It lives outside of the stack because the stack must
// not grow after the clone.
var (
	program struct { // addresses as numbers: a pointer would tell the collector
		head Header
		base uintptr
		ops  uintptr
		blob uintptr
	}
	incoming struct {
		head   messageHead
		vector [2]uintptr // struct iovec
		one    [8]byte
		rights [128]byte // a header of 16 bytes and 4 for each descriptor
	}
	message  Message
	request  [2]byte
	allSet   = ^uint64(0)
	emptySet uint64
	childSet = uint64(1) << (uint(syscall.SIGCHLD) - 1)
	pollFDs  [2]pollFD
	drain    [128]byte // one signalfd_siginfo
	status   int32
	rusage   syscall.Rusage
	command  int // pid of the command
	ended    bool
)

// cloneArgs is struct clone_args of clone3(2); what is not named is left zero.
type cloneArgs struct {
	flags  uint64
	_      [9]uint64
	cgroup uint64
}

// messageHead is struct msghdr with its addresses as numbers.
type messageHead struct {
	_               [2]uintptr // a name, and its length
	vector, vectors uintptr
	control, length uintptr
	_               uintptr
}

type pollFD struct {
	fd      int32
	events  int16
	revents int16
}

// Numbers that syscall does not have on every architecture.
const (
	pollIn      = 0x1
	pollHUP     = 0x10
	sigSetMask  = 2
	sigSetBytes = 8

	prSetChildSubreaper = 36
	sysCloseRange       = 436
	sysClone3           = 435
	closeAll            = 1<<31 - 1
	msgCmsgCloexec      = 0x40000000
	cloneIntoCgroup     = 0x200000000

	exitBroken = 125 // the set-up failed
)

func init() {
	if value, marked := syscall.Getenv(Marker); marked {
		if value == Gate {
			gate()
		}
		serve()
	}
}

// serve launches until its socket ends, and never returns.
func serve() {
	// Whatever this process was started with besides is nothing to pass on.
	syscall.RawSyscall(sysCloseRange, ControlFD+1, closeAll, 0)
	syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, sigSetMask, addr(&allSet), 0, sigSetBytes, 0, 0)
	for next() {
		if incoming.one[0] == Bye {
			exit(0)
		}
		if load(ControlSlot) {
			clone()
			syscall.RawSyscall(syscall.SYS_MUNMAP, program.base, uintptr(program.head.Size), 0)
		}
		syscall.RawSyscall(sysCloseRange, ControlFD+1, closeAll, 0)
	}
	tidy()
	exit(0)
}

// next waits for the descriptors of one launch. It allocates nothing, so that
// the launcher never grows, however long it lives.
func next() bool {
	for {
		expect()
		n, _, errno := syscall.Syscall(syscall.SYS_RECVMSG, ControlFD, addr(&incoming.head), msgCmsgCloexec)
		if errno == syscall.EINTR {
			continue
		}
		return errno == 0 && n == 1
	}
}

// expect prepares to receive one byte with descriptors.
//
//go:nosplit
//go:norace
func expect() {
	incoming.vector[0], incoming.vector[1] = addr(&incoming.one), 1
	incoming.head.vector, incoming.head.vectors = addr(&incoming.vector), 1
	incoming.head.control, incoming.head.length = addr(&incoming.rights), unsafe.Sizeof(incoming.rights)
}

// clone makes the init of one launch. CLONE_PARENT: the runtime, not the
// launcher, is the parent of init, so it learns of init's end from wait4 and gets
// its resource usage.
func clone() {
	flags := program.head.Clone | syscall.CLONE_PARENT
	var pid uintptr
	var errno syscall.Errno
	if program.head.CgroupFD != 0 {
		// With CLONE_PARENT the signal is that of this process, and giving one is
		// an error here.
		args := cloneArgs{flags: flags | cloneIntoCgroup, cgroup: uint64(program.head.CgroupFD)}
		pid, _, errno = syscall.RawSyscall(sysClone3, addr(&args), unsafe.Sizeof(args), 0)
	} else {
		pid, _, errno = syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(flags)|uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	}
	if errno == 0 && pid == 0 {
		become()
	}
	message.PID = int32(pid)
	if errno != 0 {
		reportOn(ControlSlot, Failed, CloneOp, errno)
		return
	}
	reportOn(ControlSlot, Started, 0, 0)
}

// load reads a program into memory of its own and points its pointers.
//
//go:nosplit
//go:norace
func load(from uintptr) bool {
	head := &program.head
	if !readFull(from, addr(head), unsafe.Sizeof(*head)) || head.Magic != Magic {
		return false
	}
	const readWrite, private = syscall.PROT_READ | syscall.PROT_WRITE, syscall.MAP_PRIVATE | syscall.MAP_ANON
	base, _, errno := syscall.RawSyscall6(syscall.SYS_MMAP, 0, uintptr(head.Size), readWrite, private, ^uintptr(0), 0)
	if errno != 0 {
		return false
	}
	program.base = base
	if !readFull(from, base, uintptr(head.Size)-unsafe.Sizeof(*head)) {
		syscall.RawSyscall(syscall.SYS_MUNMAP, base, uintptr(head.Size), 0)
		return false
	}
	count := uintptr(head.NumOps[Init]) + uintptr(head.NumOps[Child]) + uintptr(head.NumOps[Guard])
	program.ops = base
	relocs := base + count*unsafe.Sizeof(Op{})
	program.blob = relocs + (uintptr(head.NumRelocs)*4+7)&^7
	for i := uintptr(0); i < uintptr(head.NumRelocs); i++ {
		at := *(*uint32)(pointer(relocs + i*4))
		*(*uint64)(pointer(program.blob + uintptr(at))) += uint64(program.blob)
	}
	return true
}

//go:nosplit
//go:norace
func readFull(from, to, n uintptr) bool {
	for n > 0 {
		got, _, errno := syscall.RawSyscall(syscall.SYS_READ, from, to, n)
		if errno == syscall.EINTR {
			continue
		}
		if errno != 0 || got == 0 {
			return false
		}
		to += got
		n -= got
	}
	return true
}

// run makes the calls of one section and returns the index and the error of
// the one that failed.
//
//go:nosplit
//go:norace
func run(section int) (int32, syscall.Errno) {
	first := uint32(0)
	for i := 0; i < section; i++ {
		first += program.head.NumOps[i]
	}
	for i := first; i < first+program.head.NumOps[section]; i++ {
		op := (*Op)(pointer(program.ops + uintptr(i)*unsafe.Sizeof(Op{})))
		got, _, errno := syscall.RawSyscall6(uintptr(op.NR),
			value(op, 0), value(op, 1), value(op, 2), value(op, 3), value(op, 4), value(op, 5))
		switch {
		case errno == 0:
		case op.Errno == AnyErrno || op.Errno == uint16(errno):
		case op.Soft != 0:
			report(Soft, int32(i), errno)
		default:
			return int32(i), errno
		}
		if op.Store != 0 {
			if errno != 0 {
				got = ^uintptr(0)
			}
			*(*int32)(pointer(program.blob + uintptr(op.Store))) = int32(got)
		}
	}
	return 0, 0
}

//go:nosplit
//go:norace
func value(op *Op, i uint) uintptr {
	arg := uintptr(op.Args[i])
	switch op.Kinds >> (2 * i) & 3 {
	case Addr:
		return program.blob + arg
	case Load:
		return uintptr(*(*int32)(pointer(program.blob + arg)))
	}
	return arg
}

//go:nosplit
//go:norace
func report(kind uint32, op int32, errno syscall.Errno) { reportOn(ControlFD, kind, op, errno) }

//go:nosplit
//go:norace
func reportOn(fd uintptr, kind uint32, op int32, errno syscall.Errno) {
	message.Kind, message.Op, message.Errno = kind, op, int32(errno)
	syscall.RawSyscall6(syscall.SYS_SENDTO, fd, addr(&message), unsafe.Sizeof(message), syscall.MSG_NOSIGNAL, 0, 0)
}

//go:nosplit
//go:norace
func exit(code int) {
	for {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, uintptr(code), 0, 0)
	}
}

// addr is the address of a global as a system call wants it.
//
//go:nosplit
//go:norace
func addr[T any](v *T) uintptr { return uintptr(unsafe.Pointer(v)) }

// pointer turns an address that mmap returned into a pointer. The memory is not
// the collector's, so nothing can move or free it.
//
//go:nosplit
//go:norace
func pointer(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }
