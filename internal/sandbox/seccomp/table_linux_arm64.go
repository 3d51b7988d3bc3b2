package seccomp

import "golang.org/x/sys/unix"

const (
	architecture = "arm64"
	auditArch    = unix.AUDIT_ARCH_AARCH64
	x32Bit       = 0

	dockerArchitecture = "SCMP_ARCH_AARCH64"
)

var (
	modeArgsHere, openArgsHere []modeArg

	numbersHere map[string]uintptr
)
