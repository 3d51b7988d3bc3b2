//go:build unix

package cli

import (
	"os"
	"syscall"

	"github.com/toolyard/toolyard/internal/sandbox"
)

var caughtSignals = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
	syscall.SIGPIPE, syscall.SIGTSTP,
}

func stops(sig syscall.Signal) bool { return sig == syscall.SIGTSTP }

// pause stops the command and then this program, and goes on with both. The
// command has a session of its own, in which SIGTSTP stops nobody.
func pause(process sandbox.Process) {
	_ = process.Signal(syscall.SIGSTOP)
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	_ = process.Signal(syscall.SIGCONT)
}
