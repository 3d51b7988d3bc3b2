//go:build amd64 || arm64

package seccomp

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// run is the names of system calls whose numbers follow each other.
type run struct {
	first uintptr
	names string // between blanks
}

// Names maps the numbers of this machine's system calls to their names, up to
// the newest that the filter knows.
func Names() map[uintptr]string {
	all := map[uintptr]string{}
	for _, r := range names {
		for i, name := range strings.Fields(r.names) {
			all[r.first+uintptr(i)] = name
		}
	}
	return all
}

const allBits = 0xffffffff

// masked compares the low half only, as the kernel does.
func masked(index uint, mask, value uint32) dockerArg {
	return dockerArg{index, uint64(mask), uint64(value), "SCMP_CMP_MASKED_EQ"}
}

// DockerJSON is what [Filter] refuses, for the --security-opt seccomp= of Docker
// and what is compatible with it, on this architecture. It is the other way round:
// nothing is allowed that is not listed, because that is how calls that are newer
// than the list fail with ENOSYS there. It is as strong as the filter, and refuses
// what Docker's own profile refuses besides; where it cannot give the same error
// it gives EPERM.
func DockerJSON(o Options) ([]byte, error) {
	all := Names()
	p := dockerProfile{DefaultAction: dockerErrno, DefaultErrnoRet: uint(unix.EPERM), ArchMap: []dockerArch{{dockerArchitecture, []string{}}}}
	special := p.special(o, all)

	denied := deniedNumbers(o)
	var allowed, unknown []string
	for nr, name := range all {
		if !slices.Contains(denied, nr) && !slices.Contains(special, nr) && !slices.Contains(closed, name) {
			allowed = append(allowed, name)
		}
	}
	for _, r := range byNumber {
		if r.answer == fail(unix.ENOSYS) {
			unknown = append(unknown, all[r.nr])
		}
	}
	slices.Sort(allowed)
	slices.Sort(unknown)
	if slices.Contains(unknown, "") {
		return nil, fmt.Errorf("seccomp: a system call that is to be absent has no name")
	}
	enosys := uint(unix.ENOSYS)
	p.Syscalls = append([]dockerRule{
		{Names: allowed, Action: dockerAllow},
		{Names: unknown, Action: dockerErrno, ErrnoRet: &enosys, Comment: "as on a kernel that does not have them"},
	}, p.Syscalls...)
	return json.MarshalIndent(p, "", "  ")
}

// deniedNumbers are the calls that are refused whatever their arguments are.
func deniedNumbers(o Options) []uintptr {
	var denied []uintptr
	for _, r := range byNumber {
		if o.Shared || !r.shared {
			denied = append(denied, r.nr)
		}
	}
	return denied
}

// special adds the rules that look at arguments and returns the calls that they
// are about. Several rules for one call add up; within one all arguments count.
func (p *dockerProfile) special(o Options, all map[uintptr]string) (calls []uintptr) {
	denied := deniedNumbers(o)
	allow := func(nr uintptr, comment string, args ...dockerArg) {
		if slices.Contains(denied, nr) {
			return
		}
		if !slices.Contains(calls, nr) {
			calls = append(calls, nr)
		}
		p.Syscalls = append(p.Syscalls, dockerRule{Names: []string{all[nr]}, Action: dockerAllow, Args: args, Comment: comment})
	}
	const namespaces, noSetID = "without a namespace", "without set-user-ID and set-group-ID"
	allow(unix.SYS_CLONE, namespaces, masked(0, nsFlags, 0))
	for _, m := range modeArgs {
		allow(m.nr, noSetID, masked(uint(m.arg), setID, 0))
	}
	for _, m := range openArgs {
		allow(m.nr, "that makes nothing", masked(uint(m.arg-1), creating, 0))
		allow(m.nr, noSetID, masked(uint(m.arg), setID, 0))
	}
	const tiocLinux = 0x541c
	for _, c := range others(unix.TIOCSTI, tiocLinux, unix.TIOCSETD) {
		allow(unix.SYS_IOCTL, "but TIOCSTI, TIOCLINUX and TIOCSETD", masked(1, c.mask, c.value))
	}
	for _, value := range []uint32{0, allBits} {
		allow(unix.SYS_PERSONALITY, "the ordinary one", masked(0, allBits, value))
	}
	pair := masked(0, allBits, unix.AF_UNIX)
	if o.Sockets == NoSockets {
		// Every type but datagrams: another bit than theirs is set, or theirs is not.
		for bit := uint32(1); bit < sockTypeMask; bit <<= 1 {
			allow(unix.SYS_SOCKETPAIR, "unix, no datagrams", pair, masked(1, bit, bit&^unix.SOCK_DGRAM))
		}
	} else {
		allow(unix.SYS_SOCKETPAIR, "unix", pair)
	}
	if o.Shared {
		for _, nr := range ownCalls {
			allow(nr, "its own", masked(0, allBits, 0))
		}
	}
	calls = append(calls, unix.SYS_SOCKET)
	if o.Sockets == OwnSockets {
		for _, s := range ownSockets() {
			allow(unix.SYS_SOCKET, s.name, masked(0, allBits, s.family), masked(1, sockTypeMask, s.kind), masked(2, allBits, s.protocol))
		}
	}
	return calls
}

type socketKind struct {
	name                   string
	family, kind, protocol uint32
}

// ownSockets are those of [OwnSockets], as [assembler.sockets] has them.
func ownSockets() []socketKind {
	list := []socketKind{
		{"unix", unix.AF_UNIX, unix.SOCK_STREAM, 0}, {"unix", unix.AF_UNIX, unix.SOCK_DGRAM, 0}, {"unix", unix.AF_UNIX, unix.SOCK_SEQPACKET, 0},
		{"NETLINK_ROUTE", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, {"NETLINK_ROUTE", unix.AF_NETLINK, unix.SOCK_DGRAM, unix.NETLINK_ROUTE},
	}
	for _, family := range []uint32{unix.AF_INET, unix.AF_INET6} {
		list = append(list,
			socketKind{"TCP", family, unix.SOCK_STREAM, 0}, socketKind{"TCP", family, unix.SOCK_STREAM, unix.IPPROTO_TCP},
			socketKind{"UDP", family, unix.SOCK_DGRAM, 0}, socketKind{"UDP", family, unix.SOCK_DGRAM, unix.IPPROTO_UDP})
	}
	return list
}

// cube is all numbers n with n & mask == value.
type cube struct{ mask, value uint32 }

// others covers every number but those given. A list of "not equal" would be
// shorter, but several comparisons of one argument in a rule are taken as
// alternatives.
func others(numbers ...uint32) []cube {
	var cubes []cube
	var split func(bit int, c cube)
	split = func(bit int, c cube) {
		if !slices.ContainsFunc(numbers, func(n uint32) bool { return n&c.mask == c.value }) {
			cubes = append(cubes, c)
			return
		}
		if bit < 0 {
			return
		}
		one := uint32(1) << bit
		split(bit-1, cube{c.mask | one, c.value})
		split(bit-1, cube{c.mask | one, c.value | one})
	}
	split(31, cube{})
	return cubes
}
