package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Identity names this process for as long as the machine is up: its ID and when
// it started, since IDs are used again.
func Identity() string { return identity(os.Getpid()) }

// Alive reports whether the process that an [Identity] names is still there.
func Alive(id string) bool {
	pid, _, _ := strings.Cut(id, "@")
	n, err := strconv.Atoi(pid)
	return err == nil && n > 0 && identity(n) == id
}

func identity(pid int) string { return fmt.Sprintf("%d@%s", pid, started(pid)) }
