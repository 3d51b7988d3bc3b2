//go:build !linux

package process

import "os"

// started tells only whether there is such a process.
func started(pid int) string {
	p, err := os.FindProcess(pid)
	if err != nil {
		return "gone"
	}
	defer p.Release()
	return "there"
}
