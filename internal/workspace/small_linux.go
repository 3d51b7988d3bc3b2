package workspace

import (
	"io/fs"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Small reads the whole of a regular file into buf, if that has room for more,
// with system calls and nothing around them: an [os.File] would cost as much
// again. It is not ok where there is anything special about the file, an empty
// one included; [Path.Open] is for those, and tells what it is.
func (p *Path) Small(buf []byte) (content []byte, info fs.FileInfo, ok bool) {
	if p.file == nil || p.Info == nil || !p.Info.Mode().IsRegular() {
		return nil, nil, false
	}
	fd, err := openBeneath(p.file, p.Rel, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return nil, nil, false
	}
	defer unix.Close(fd)
	info, err = stat(fd, p.Info.Name())
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 || info.Size() >= int64(len(buf)) {
		return nil, nil, false
	}
	// One byte more than there should be, to see the end.
	n, err := unix.Read(fd, buf[:info.Size()+1])
	if err != nil || int64(n) != info.Size() {
		return nil, nil, false
	}
	return buf[:n], info, true
}

// fileInfo is what fstat says of an open file.
type fileInfo struct {
	name string
	stat syscall.Stat_t
}

func stat(fd int, name string) (fs.FileInfo, error) {
	info := &fileInfo{name: name}
	for {
		if err := syscall.Fstat(fd, &info.stat); err != syscall.EINTR {
			return info, err
		}
	}
}

func (f *fileInfo) Name() string       { return f.name }
func (f *fileInfo) Size() int64        { return f.stat.Size }
func (f *fileInfo) IsDir() bool        { return f.Mode().IsDir() }
func (f *fileInfo) ModTime() time.Time { return time.Unix(f.stat.Mtim.Unix()) }
func (f *fileInfo) Sys() any           { return &f.stat }

// Mode is as that of [os.Stat].
func (f *fileInfo) Mode() fs.FileMode {
	mode := fs.FileMode(f.stat.Mode & 0o777)
	switch f.stat.Mode & syscall.S_IFMT {
	case syscall.S_IFBLK:
		mode |= fs.ModeDevice
	case syscall.S_IFCHR:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	case syscall.S_IFDIR:
		mode |= fs.ModeDir
	case syscall.S_IFIFO:
		mode |= fs.ModeNamedPipe
	case syscall.S_IFLNK:
		mode |= fs.ModeSymlink
	case syscall.S_IFSOCK:
		mode |= fs.ModeSocket
	}
	if f.stat.Mode&syscall.S_ISGID != 0 {
		mode |= fs.ModeSetgid
	}
	if f.stat.Mode&syscall.S_ISUID != 0 {
		mode |= fs.ModeSetuid
	}
	if f.stat.Mode&syscall.S_ISVTX != 0 {
		mode |= fs.ModeSticky
	}
	return mode
}
