//go:build unix

package observe

import (
	"io/fs"
	"syscall"
)

// stampOf takes a file's stamp.
func stampOf(info fs.FileInfo) stamp {
	s := stamp{size: info.Size(), mtime: info.ModTime(), mode: info.Mode()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.inode, s.ctime = st.Ino, ctime(st)
	}
	return s
}

// nonBlock keeps an open of a FIFO from waiting for its other end.
const nonBlock = syscall.O_NONBLOCK
