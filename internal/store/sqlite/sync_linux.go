package sqlite

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncData waits until the disk has the file's content and length, but not its
// times, as SQLite does: that saves the file system's own journal a write.
func syncData(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return err
		}
	}
}
