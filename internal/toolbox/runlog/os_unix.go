//go:build unix

package runlog

import "syscall"

const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
