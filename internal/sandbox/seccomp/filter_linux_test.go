//go:build amd64 || arm64

package seccomp

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"
)

// eval runs a filter as the kernel does, for the instructions that the assembler
// makes.
func eval(t *testing.T, filter []unix.SockFilter, data [64]byte) uint32 {
	t.Helper()
	var a uint32
	for pc := 0; pc < len(filter); pc++ {
		in := filter[pc]
		jump := func(taken bool) {
			if taken {
				pc += int(in.Jt)
			} else {
				pc += int(in.Jf)
			}
		}
		switch in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			a = binary.LittleEndian.Uint32(data[in.K:])
		case unix.BPF_RET | unix.BPF_K:
			return in.K
		case unix.BPF_ALU | unix.BPF_K | unix.BPF_AND:
			a &= in.K
		case unix.BPF_JMP | unix.BPF_JA:
			pc += int(in.K)
		case unix.BPF_JMP | unix.BPF_K | unix.BPF_JEQ:
			jump(a == in.K)
		case unix.BPF_JMP | unix.BPF_K | unix.BPF_JGE:
			jump(a >= in.K)
		case unix.BPF_JMP | unix.BPF_K | unix.BPF_JSET:
			jump(a&in.K != 0)
		default:
			t.Fatalf("instruction %d has code %#x", pc, in.Code)
		}
	}
	t.Fatal("the filter has no end")
	return 0
}

func call(arch uint32, nr uint32, args ...uint64) (data [64]byte) {
	binary.LittleEndian.PutUint32(data[offsetNR:], nr)
	binary.LittleEndian.PutUint32(data[offsetArch:], arch)
	for i, arg := range args {
		binary.LittleEndian.PutUint64(data[offsetArgs+8*i:], arg)
	}
	return data
}

func TestFilter(t *testing.T) {
	const high = 1 << 40 // what the kernel does not look at must not matter
	eperm, enosys, eacces, family := fail(unix.EPERM), fail(unix.ENOSYS), fail(unix.EACCES), fail(unix.EAFNOSUPPORT)
	own, shared := Options{Sockets: OwnSockets}, Options{Shared: true}
	for _, c := range []struct {
		name string
		o    Options
		data [64]byte
		want uint32
	}{
		{"read", own, call(auditArch, unix.SYS_READ), allow},
		{"a foreign architecture", own, call(unix.AUDIT_ARCH_I386, unix.SYS_READ), kill},
		{"a system call of the future", own, call(auditArch, lastKnown+1), enosys},
		{"clone3", own, call(auditArch, unix.SYS_CLONE3), enosys},
		{"a thread", own, call(auditArch, unix.SYS_CLONE, unix.CLONE_VM|unix.CLONE_THREAD), allow},
		{"a namespace", own, call(auditArch, unix.SYS_CLONE, unix.CLONE_NEWUSER|unix.CLONE_VM), eperm},
		{"a namespace with high bits", own, call(auditArch, unix.SYS_CLONE, high|unix.CLONE_NEWNS), eperm},
		{"chmod 755", own, call(auditArch, unix.SYS_FCHMODAT, 0, 0, 0o755), allow},
		{"chmod u+s", own, call(auditArch, unix.SYS_FCHMODAT, 0, 0, 0o4755), eperm},
		{"fchmod g+s", own, call(auditArch, unix.SYS_FCHMOD, 3, 0o2755), eperm},
		{"create u+s", own, call(auditArch, unix.SYS_OPENAT, 0, 0, unix.O_CREAT, 0o4755), eperm},
		{"temporary u+s", own, call(auditArch, unix.SYS_OPENAT, 0, 0, unix.O_TMPFILE, 0o4755), eperm},
		{"open with rubbish for a mode", own, call(auditArch, unix.SYS_OPENAT, 0, 0, unix.O_DIRECTORY, 0o4755), allow},
		{"create 644", own, call(auditArch, unix.SYS_OPENAT, 0, 0, unix.O_CREAT, 0o644), allow},
		{"TIOCSTI", own, call(auditArch, unix.SYS_IOCTL, 0, unix.TIOCSTI), eperm},
		{"TIOCSTI with high bits", own, call(auditArch, unix.SYS_IOCTL, 0, high|unix.TIOCSTI), eperm},
		{"TIOCGWINSZ", own, call(auditArch, unix.SYS_IOCTL, 0, unix.TIOCGWINSZ), allow},
		{"TCP", own, call(auditArch, unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0), allow},
		{"TCP by number", own, call(auditArch, unix.SYS_SOCKET, unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_TCP), allow},
		{"MPTCP", own, call(auditArch, unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, 262), eacces},
		{"UDP", own, call(auditArch, unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, unix.IPPROTO_UDP), allow},
		{"UDPLITE", own, call(auditArch, unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE), eacces},
		{"raw IP", own, call(auditArch, unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP), eacces},
		{"unix", own, call(auditArch, unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_SEQPACKET, 0), allow},
		{"NETLINK_ROUTE", own, call(auditArch, unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE), allow},
		{"NETLINK_AUDIT", own, call(auditArch, unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT), eacces},
		{"vsock", own, call(auditArch, unix.SYS_SOCKET, unix.AF_VSOCK, unix.SOCK_STREAM, 0), eacces},
		{"packet", own, call(auditArch, unix.SYS_SOCKET, unix.AF_PACKET, unix.SOCK_RAW, 0), eacces},
		{"a pair", shared, call(auditArch, unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_STREAM, 0), allow},
		{"a pair of something else", shared, call(auditArch, unix.SYS_SOCKETPAIR, unix.AF_TIPC, unix.SOCK_STREAM, 0), family},
		{"a pair of datagrams", own, call(auditArch, unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_DGRAM, 0), allow},
		{"a pair of datagrams among others", shared, call(auditArch, unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0), eacces},
		{"own processors", shared, call(auditArch, unix.SYS_SCHED_SETAFFINITY, 0), allow},
		{"another's processors", shared, call(auditArch, unix.SYS_SCHED_SETAFFINITY, 7), eperm},
		{"another's shared memory", shared, call(auditArch, unix.SYS_SHMAT, 7), eperm},
		{"TCP without a network", shared, call(auditArch, unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, 0), eacces},
		{"unix without a network", shared, call(auditArch, unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_STREAM, 0), eacces},
		{"chmod among others' files", shared, call(auditArch, unix.SYS_FCHMODAT, 0, 0, 0o644), eperm},
		{"shared memory of the machine", shared, call(auditArch, unix.SYS_SHMGET), eperm},
		{"shared memory of its own", own, call(auditArch, unix.SYS_SHMGET), allow},
		{"own limits", shared, call(auditArch, unix.SYS_PRLIMIT64, 0), allow},
		{"another's limits", shared, call(auditArch, unix.SYS_PRLIMIT64, 7), eperm},
		{"personality query", own, call(auditArch, unix.SYS_PERSONALITY, 0xffffffff), allow},
		{"no address randomisation", own, call(auditArch, unix.SYS_PERSONALITY, 0x0040000), eperm},
		{"the last rule falls through", own, call(auditArch, unix.SYS_GETPID), allow},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := eval(t, Filter(c.o), c.data); got != c.want {
				t.Errorf("got %#x, want %#x", got, c.want)
			}
		})
	}
	if x32Bit != 0 {
		if got := eval(t, Filter(own), call(auditArch, x32Bit|1)); got != kill {
			t.Errorf("x32: got %#x, want %#x", got, kill)
		}
	}
	for _, r := range byNumber {
		if got := eval(t, Filter(shared), call(auditArch, uint32(r.nr))); got != r.answer {
			t.Errorf("system call %d: got %#x, want %#x", r.nr, got, r.answer)
		}
	}
}

// TestRules: what the documentation lists is what the filter refuses.
func TestRules(t *testing.T) {
	seen := map[string]bool{}
	used := map[uintptr]bool{}
	for _, n := range byNumber {
		used[n.nr] = true
	}
	for _, c := range Rules() {
		for _, r := range c.Rules {
			if r.Reason == "" || r.Answer == "" || len(r.Calls) == 0 {
				t.Errorf("%s: the rule %v lacks something", c.Name, r.Calls)
			}
			for _, name := range r.Calls {
				key := name + "/" + r.When
				if seen[key] && r.When == "" {
					t.Errorf("%s is listed twice", name)
				}
				seen[key] = true
			}
		}
	}
	for _, table := range []map[string]uintptr{numbers, numbersHere} {
		for name, nr := range table {
			if !seen[name+"/"] || !used[nr] {
				t.Errorf("the number of %s is used by no rule", name)
			}
		}
	}
	for _, want := range []string{"ptrace", "mount", "io_uring_setup", "bpf", "keyctl", "userfaultfd", "perf_event_open", "kexec_load", "clone3"} {
		if !seen[want+"/"] {
			t.Errorf("no rule refuses %s", want)
		}
	}
}

// TestTree: the search tree answers as the list of rules does, for every number
// and some arguments of each.
func TestTree(t *testing.T) {
	for _, o := range []Options{{}, {Sockets: OwnSockets}, {Shared: true}} {
		list := append(assembler{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offsetNR}}, rules(o)...)
		tree := Filter(o)
		for nr := uint32(0); nr <= lastKnown; nr++ {
			for _, arg := range []uint64{0, 1, 2, 16, 0o4755, 0o755, unix.TIOCSTI, unix.CLONE_NEWUSER, unix.O_CREAT, 0xffffffff} {
				data := call(auditArch, nr, arg, arg, arg, arg)
				if want, got := eval(t, list, data), eval(t, tree, data); got != want {
					t.Errorf("%+v: call %d with %#x: got %#x, want %#x", o, nr, arg, got, want)
				}
			}
		}
	}
}
