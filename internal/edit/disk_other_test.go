//go:build !linux

package edit_test

import (
	"syscall"
	"testing"
)

func mkfifo(t *testing.T, name string) {
	t.Helper()
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
}

func mountDisk(t *testing.T, _ string, _ int) { t.Skip("needs Linux") }

func remountReadOnly(*testing.T, string) {}
