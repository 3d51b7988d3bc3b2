package mcp

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// reopen opens the pipe that in is once more, so that waiting for the client
// parks a goroutine. A read of stdin itself blocks a thread, which Go's monitor
// has to replace each time: that is a tenth of the processor time of a busy
// connection. Setting stdin itself to non-blocking would change it for every
// process that shares it. It gives nil where in is no pipe; a socket cannot be
// opened so. The caller closes the file.
func reopen(in io.Reader) *os.File {
	f, ok := in.(*os.File)
	if !ok {
		return nil
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&fs.ModeNamedPipe == 0 {
		return nil
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return nil
	}
	var again *os.File
	_ = conn.Control(func(fd uintptr) {
		if again, err = os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fd), os.O_RDONLY|syscall.O_NONBLOCK, 0); err != nil {
			again = nil // no /proc, or the pipe of another user
		}
	})
	return again
}
