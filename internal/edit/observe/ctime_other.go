//go:build unix && !linux

package observe

import (
	"syscall"
	"time"
)

func ctime(*syscall.Stat_t) time.Time { return time.Time{} }
