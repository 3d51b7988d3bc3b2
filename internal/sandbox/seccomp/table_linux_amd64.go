package seccomp

import "golang.org/x/sys/unix"

const (
	architecture = "amd64"
	auditArch    = unix.AUDIT_ARCH_X86_64
	x32Bit       = 0x40000000

	dockerArchitecture = "SCMP_ARCH_X86_64"
)

var (
	modeArgsHere = []modeArg{{unix.SYS_CHMOD, 1}, {unix.SYS_CREAT, 1}, {unix.SYS_MKNOD, 1}, {unix.SYS_MKDIR, 1}}
	openArgsHere = []modeArg{{unix.SYS_OPEN, 2}}
)

var numbersHere = map[string]uintptr{
	"_sysctl":    unix.SYS__SYSCTL,
	"chmod":      unix.SYS_CHMOD,
	"chown":      unix.SYS_CHOWN,
	"ioperm":     unix.SYS_IOPERM,
	"iopl":       unix.SYS_IOPL,
	"lchown":     unix.SYS_LCHOWN,
	"modify_ldt": unix.SYS_MODIFY_LDT,
	"sysfs":      unix.SYS_SYSFS,
	"uselib":     unix.SYS_USELIB,
	"ustat":      unix.SYS_USTAT,
}
