//go:build unix

package search

import "syscall"

// nonBlock keeps an open of a FIFO from waiting for its other end.
const nonBlock = syscall.O_NONBLOCK
