//go:build !unix

package cli

import (
	"os"
	"syscall"

	"github.com/toolyard/toolyard/internal/sandbox"
)

var caughtSignals = []os.Signal{syscall.SIGINT, syscall.SIGTERM}

func stops(syscall.Signal) bool { return false }

func pause(sandbox.Process) {}
