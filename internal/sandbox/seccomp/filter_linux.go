//go:build amd64 || arm64

package seccomp

import "golang.org/x/sys/unix"

// Options choose a filter.
type Options struct {
	// Sockets says which sockets may be made.
	Sockets Sockets
	// Shared says that the command shares the machine's process and IPC
	// namespaces, so that calls which reach other processes are refused as well.
	Shared bool
}

// Sockets is a set of socket families.
type Sockets int

const (
	// NoSockets leaves only socketpair. For a command in the machine's own
	// network namespace that has no network.
	NoSockets Sockets = iota
	// OwnSockets are TCP, UDP, unix and NETLINK_ROUTE: harmless in a network
	// namespace with nothing in it, and what is needed to reach a proxy there.
	OwnSockets
)

const (
	nsFlags = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
		unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWTIME
	setID = unix.S_ISUID | unix.S_ISGID

	// A tmpfile has O_DIRECTORY in it, which alone makes nothing.
	creating = unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY

	sockTypeMask = 0xf // without SOCK_CLOEXEC and SOCK_NONBLOCK
)

// Filter is the program for seccomp(2). Everything is allowed that is not
// refused here: the list is what reaches beyond the sandbox, weakens it, or is
// kernel surface that a command does not need.
func Filter(o Options) []unix.SockFilter {
	var a assembler
	a.load(offsetArch)
	a.jump(unix.BPF_JEQ, auditArch, 1, 0)
	a.ret(kill)
	a.load(offsetNR)
	if x32Bit != 0 {
		a.jump(unix.BPF_JGE, x32Bit, 0, 1)
		a.ret(kill)
	}
	a.jump(unix.BPF_JGE, lastKnown+1, 0, 1)
	a.ret(fail(unix.ENOSYS))
	return append(a, rules(o).tree()...)
}

// rules are tried in turn.
func rules(o Options) assembler {
	var a assembler
	for _, r := range byNumber {
		if o.Shared || !r.shared {
			a.always(r.nr, r.answer)
		}
	}
	if o.Shared {
		a.ownProcess()
	}
	a.clones()
	a.modes()
	a.terminals()
	a.sockets(o.Sockets)
	a.personalities()
	a.ret(allow)
	return a
}

func (a *assembler) clones() {
	a.unless0(unix.SYS_CLONE, 0, nsFlags, fail(unix.EPERM))
}

// modes keeps set-user-ID and set-group-ID bits off every file, in whichever
// way its mode is given: such a file in the workspace would be a trap for
// whoever runs it outside.
func (a *assembler) modes() {
	for _, m := range modeArgs {
		a.unless0(m.nr, m.arg, setID, fail(unix.EPERM))
	}
	for _, m := range openArgs {
		a.rule(m.nr, func(b *assembler) {
			b.arg(m.arg - 1)
			b.jump(unix.BPF_JSET, creating, 0, 3)
			b.arg(m.arg)
			b.jump(unix.BPF_JSET, setID, 0, 1)
			b.ret(fail(unix.EPERM))
			b.ret(allow)
		})
	}
}

// terminals refuses to put characters into a terminal's input, to paste from a
// console, and to change a line discipline.
func (a *assembler) terminals() {
	a.rule(unix.SYS_IOCTL, func(b *assembler) {
		const tiocLinux = 0x541c
		b.arg(1)
		b.jump(unix.BPF_JEQ, unix.TIOCSTI, 2, 0)
		b.jump(unix.BPF_JEQ, tiocLinux, 1, 0)
		b.jump(unix.BPF_JEQ, unix.TIOCSETD, 0, 1)
		b.ret(fail(unix.EPERM))
		b.ret(allow)
	})
}

// sockets lets only the families, types and protocols pass that are listed:
// MPTCP, UDPLITE, SCTP, raw, packet and vsock sockets would go around rules that
// were made for TCP and UDP.
func (a *assembler) sockets(s Sockets) {
	a.rule(unix.SYS_SOCKETPAIR, func(b *assembler) {
		b.arg(0)
		b.jump(unix.BPF_JEQ, unix.AF_UNIX, 1, 0)
		b.ret(fail(unix.EAFNOSUPPORT))
		if s == NoSockets {
			b.arg(1)
			b.and(sockTypeMask)
			b.jump(unix.BPF_JEQ, unix.SOCK_DGRAM, 0, 1)
			b.ret(fail(unix.EACCES))
		}
		b.ret(allow)
	})
	a.rule(unix.SYS_SOCKET, func(b *assembler) {
		if s == OwnSockets {
			b.family(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			b.family(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
			b.family(unix.AF_UNIX, unix.SOCK_SEQPACKET, 0)
			for _, family := range []uint32{unix.AF_INET, unix.AF_INET6} {
				b.family(family, unix.SOCK_STREAM, 0, unix.IPPROTO_TCP)
				b.family(family, unix.SOCK_DGRAM, 0, unix.IPPROTO_UDP)
			}
			b.family(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)
			b.family(unix.AF_NETLINK, unix.SOCK_DGRAM, unix.NETLINK_ROUTE)
		}
		b.ret(fail(unix.EACCES))
	})
}

// family allows sockets of one family, type and any of the protocols, and falls
// through otherwise.
func (a *assembler) family(family, kind uint32, protocols ...uint32) {
	a.arg(0)
	a.jump(unix.BPF_JEQ, family, 0, len(protocols)+5)
	a.arg(1)
	a.and(sockTypeMask)
	a.jump(unix.BPF_JEQ, kind, 0, len(protocols)+2)
	a.arg(2)
	for i, p := range protocols {
		last := i == len(protocols)-1
		if last {
			a.jump(unix.BPF_JEQ, p, 0, 1)
		} else {
			a.jump(unix.BPF_JEQ, p, len(protocols)-1-i, 0)
		}
	}
	a.ret(allow)
}

// personalities lets a process ask for its personality or have an ordinary one:
// others turn off address randomisation or make mappings executable.
func (a *assembler) personalities() {
	a.rule(unix.SYS_PERSONALITY, func(b *assembler) {
		b.arg(0)
		b.jump(unix.BPF_JEQ, 0, 2, 0)
		b.jump(unix.BPF_JEQ, 0xffffffff, 1, 0)
		b.ret(fail(unix.EPERM))
		b.ret(allow)
	})
}

// ownCalls have the process that they are about as their first argument.
var ownCalls = []uintptr{
	unix.SYS_PRLIMIT64, unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR,
}

// ownProcess keeps a process from changing the limits and the scheduling of
// others: 0 is itself.
func (a *assembler) ownProcess() {
	for _, nr := range ownCalls {
		a.rule(nr, func(b *assembler) {
			b.arg(0)
			b.jump(unix.BPF_JEQ, 0, 1, 0)
			b.ret(fail(unix.EPERM))
			b.ret(allow)
		})
	}
}
