package toolbox

import (
	"io/fs"
	"syscall"
)

// changed is when a file's content or attributes last changed, in nanoseconds,
// with its inode: a file put back with its old time and size still differs.
func changed(info fs.FileInfo) uint64 {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	return uint64(s.Ctim.Sec)*1e9 + uint64(s.Ctim.Nsec) ^ s.Ino<<1
}
