//go:build amd64 || arm64

package launch

import "syscall"

// Magic begins every program.
const Magic = 0x4c594f54

// ControlFD is, in the launcher, the socket over which it is handed descriptors,
// and in init the control socket of the one launch.
const ControlFD = 3

// The descriptors of one launch come beside a single byte, in this order, and
// get these numbers.
const (
	ControlSlot = ControlFD + 1 + iota // a stream socket: the program, then reports and requests
	StdinSlot
	StdoutSlot
	StderrSlot
	// FirstExtra is the first of those that the program's calls use.
	FirstExtra

	// MaxExtras is how many of them there may be.
	MaxExtras = 8
)

// The sections of a program, in the order in which they run.
const (
	// Init runs in the clone, the init of the sandbox.
	Init = iota
	// Child runs in the process that becomes the command. It shares the memory
	// of init until it executes.
	Child
	// Guard runs in init once the command runs.
	Guard
	Sections
)

// Header begins a program. After it come the ops of all sections, NumRelocs
// offsets (uint32, padded to 8 bytes), then the blob: strings, structs and
// arrays that ops point into.
type Header struct {
	Magic     uint32
	Size      uint32 // bytes of the whole program with this header
	NumOps    [Sections]uint32
	NumRelocs uint32
	// Supervise makes init a subreaper that kills all that descends from it: for
	// a sandbox without a pid namespace of its own.
	Supervise uint32
	// More says that this program is only the beginning: once its Init section has
	// run, init reports Ready and waits for the rest on the control socket, where it
	// comes as a launch does: a byte with descriptors beside it, the first of no
	// meaning, then a program.
	More uint32
	// Clone holds the namespace flags of the clone.
	Clone uint64
	// Path, Argv and Envp are blob offsets. A Path of 0 makes the command exit
	// with 0 instead of executing anything.
	Path, Argv, Envp uint32
	// CgroupFD is the descriptor of a cgroup (v2) to be born in, 0 for none.
	CgroupFD uint32
}

// The kinds of an argument, two bits each in Op.Kinds, the first argument's
// lowest.
const (
	Imm  = 0 // the value itself
	Addr = 1 // the address of an offset into the blob
	Load = 2 // the int32 at an offset into the blob
)

// Op is one system call.
type Op struct {
	NR    uint32
	Kinds uint32
	Args  [6]uint64
	// Store is a blob offset at which the result is kept as an int32, 0 for none.
	Store uint32
	// Errno is an error that counts as success; AnyErrno takes every one.
	Errno uint16
	// Soft reports a failure and goes on.
	Soft uint16
}

// AnyErrno in Op.Errno ignores every failure without a report.
const AnyErrno = 0xffff

// The kinds of a Message.
const (
	Started = 1 // init was made, with this PID as the launcher sees it
	Failed  = 2 // the call Op of the program failed with Errno: nothing runs
	Soft    = 3 // the same, but it was allowed to
	Running = 4 // the command was executed
	Exited  = 5 // the command ended with Status, as wait4 gives it
	Ready   = 6 // the beginning is made, and init waits for the rest
	Empty   = 7 // nothing is left but init, which is about to exit
)

// ExecOp is the Op of a Failed message whose execve failed, CloneOp that of one
// where a process could not be made.
const (
	ExecOp  = -1
	CloneOp = -2
)

// Message is one report on the control socket, in the machine's byte order.
type Message struct {
	Kind   uint32
	Op     int32 // index over all sections
	Errno  int32
	Status uint32 // of Exited; of Failed and Soft which program it was, 0 or 1
	PID    int32
	_      int32
	Rusage syscall.Rusage
}

// The requests that init reads from the control socket: one byte, and for
// SignalRequest the signal's number as a second one. The end of the stream is a
// KillRequest.
const (
	SignalRequest = 's'
	KillRequest   = 'k'
)
