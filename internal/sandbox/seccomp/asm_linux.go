//go:build amd64 || arm64

package seccomp

import "golang.org/x/sys/unix"

// Offsets into struct seccomp_data, both architectures being little-endian:
// https://man7.org/linux/man-pages/man2/seccomp.2.html
const (
	offsetNR   = 0
	offsetArch = 4
	offsetArgs = 16
)

// Results of a filter.
const (
	allow = unix.SECCOMP_RET_ALLOW
	kill  = unix.SECCOMP_RET_KILL_PROCESS
)

func fail(errno unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(errno) }

// assembler builds a classic BPF program. Every rule ends in a return, so that
// jumps never leave the rule and fit their eight bits.
type assembler []unix.SockFilter

func (a *assembler) add(code uint16, jt, jf uint8, k uint32) {
	*a = append(*a, unix.SockFilter{Code: code, Jt: jt, Jf: jf, K: k})
}

func (a *assembler) load(offset uint32) { a.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 0, 0, offset) }

func (a *assembler) ret(result uint32) { a.add(unix.BPF_RET|unix.BPF_K, 0, 0, result) }

// jump compares the accumulator with k by op (BPF_JEQ, BPF_JGE, BPF_JSET) and
// skips jt or jf instructions.
func (a *assembler) jump(op uint16, k uint32, jt, jf int) {
	if jt > 255 || jf > 255 {
		panic("seccomp: a rule is too long for a jump")
	}
	a.add(unix.BPF_JMP|unix.BPF_K|op, uint8(jt), uint8(jf), k)
}

func (a *assembler) and(mask uint32) { a.add(unix.BPF_ALU|unix.BPF_K|unix.BPF_AND, 0, 0, mask) }

// arg loads the low half of argument n. The kernel takes flags, modes, socket
// families and ioctl numbers as 32 bits, so the high half must not matter.
func (a *assembler) arg(n int) { a.load(uint32(offsetArgs + 8*n)) }

// rule runs body for one system call. The body must return in every path.
func (a *assembler) rule(nr uintptr, body func(*assembler)) {
	var b assembler
	body(&b)
	a.jump(unix.BPF_JEQ, uint32(nr), 0, len(b))
	*a = append(*a, b...)
}

// always gives every call of nr the same result.
func (a *assembler) always(nr uintptr, result uint32) {
	a.rule(nr, func(b *assembler) { b.ret(result) })
}

// unless0 fails a call when any of the bits is set in argument n.
func (a *assembler) unless0(nr uintptr, n int, bits uint32, result uint32) {
	a.rule(nr, func(b *assembler) {
		b.arg(n)
		b.jump(unix.BPF_JSET, bits, 0, 1)
		b.ret(result)
		b.ret(allow)
	})
}
