//go:build !linux

package cli

import (
	"errors"
	"io"
	"os"

	"github.com/toolyard/toolyard/internal/sandbox"
)

// terminal is one that a command has for itself. There are none on this system.
type terminal struct {
	out  io.Writer
	size sandbox.TTY
}

func openTerminal(*os.File) *terminal { return nil }

func inForeground(*os.File) bool { return true }

func (t *terminal) run(*os.File) error {
	return errors.New("commands cannot be given a terminal on this system")
}
func (t *terminal) restore() {}
func (t *terminal) close()   {}
