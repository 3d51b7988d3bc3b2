//go:build linux && (amd64 || arm64)

package search

import (
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// handle is an open directory. Everything below goes through openat with
// O_NOFOLLOW, so nothing can be swapped for a symlink on the way. System calls
// are made directly: package os allocates for each, and a search makes tens of
// thousands.
type handle struct{ fd int }

// reader is an open file.
type reader struct{ fd int }

// openHandle takes over nothing: f stays the caller's.
func openHandle(f *os.File) (handle, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return handle{}, err
	}
	fd, dupErr := -1, error(nil)
	err = raw.Control(func(from uintptr) {
		fd, dupErr = unix.FcntlInt(from, unix.F_DUPFD_CLOEXEC, 0)
	})
	if err == nil {
		err = dupErr
	}
	return handle{fd}, err
}

func (h handle) close() { syscall.Close(h.fd) }

func openat(fd int, name string, flags uintptr) (int, error) {
	for {
		got, _, errno := syscall.Syscall6(syscall.SYS_OPENAT, uintptr(fd), uintptr(unsafe.Pointer(unsafe.StringData(name))),
			flags|syscall.O_CLOEXEC|syscall.O_NOFOLLOW|unix.O_LARGEFILE, 0, 0, 0)
		if errno == 0 {
			return int(got), nil
		}
		if errno != syscall.EINTR {
			return -1, errno
		}
	}
}

// sub opens a directory in h. The name comes from entries.
func (h handle) sub(name string) (handle, error) {
	fd, err := openat(h.fd, name, syscall.O_RDONLY|syscall.O_DIRECTORY)
	return handle{fd}, err
}

// open opens a file in h without waiting. The name comes from entries.
func (h handle) open(name string) (reader, error) {
	fd, err := openat(h.fd, name, syscall.O_RDONLY|syscall.O_NONBLOCK)
	return reader{fd}, err
}

func (h handle) stat(name string) (meta, error) {
	var st syscall.Stat_t
	for {
		_, _, errno := syscall.Syscall6(sysFstatat, uintptr(h.fd), uintptr(unsafe.Pointer(unsafe.StringData(name))),
			uintptr(unsafe.Pointer(&st)), unix.AT_SYMLINK_NOFOLLOW, 0, 0)
		if errno == 0 {
			return metaOf(&st), nil
		}
		if errno != syscall.EINTR {
			return meta{}, errno
		}
	}
}

func metaOf(st *syscall.Stat_t) meta {
	mode := fs.FileMode(st.Mode & 0o777)
	switch st.Mode & syscall.S_IFMT {
	case syscall.S_IFDIR:
		mode |= fs.ModeDir
	case syscall.S_IFLNK:
		mode |= fs.ModeSymlink
	case syscall.S_IFREG:
	default:
		mode |= fs.ModeIrregular
	}
	if st.Mode&syscall.S_ISUID != 0 {
		mode |= fs.ModeSetuid
	}
	if st.Mode&syscall.S_ISGID != 0 {
		mode |= fs.ModeSetgid
	}
	if st.Mode&syscall.S_ISVTX != 0 {
		mode |= fs.ModeSticky
	}
	return meta{size: st.Size, mode: mode, mtime: time.Unix(st.Mtim.Unix())}
}

// entries reads the directory, in no order. buf is scratch of at least 4 KiB.
// The names stay valid as long as the entries.
func (h handle) entries(buf []byte, list []entry) ([]entry, error) {
	for {
		n, _, errno := syscall.Syscall(syscall.SYS_GETDENTS64, uintptr(h.fd), uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)))
		switch {
		case errno == syscall.EINTR:
			continue
		case errno != 0:
			return list, errno
		case n == 0:
			return list, nil
		}
		list = h.parse(buf[:n], list)
	}
}

// Offsets in struct linux_dirent64.
const (
	direntReclen = 16
	direntType   = 18
	direntName   = 19
)

func (h handle) parse(buf []byte, list []entry) []entry {
	names := string(buf) // one allocation for all names of the block
	for at := 0; at < len(names); {
		size := int(*(*uint16)(unsafe.Pointer(&buf[at+direntReclen])))
		typ := buf[at+direntType]
		begin := at + direntName
		end := begin
		for names[end] != 0 {
			end++
		}
		name := names[begin:end]
		at += size
		if name == "." || name == ".." {
			continue
		}
		list = append(list, entry{name, h.kindOf(typ, name)})
	}
	return list
}

func (h handle) kindOf(typ byte, name string) kind {
	switch typ {
	case syscall.DT_REG:
		return kindFile
	case syscall.DT_DIR:
		return kindDir
	case syscall.DT_LNK:
		return kindLink
	case syscall.DT_UNKNOWN: // some file systems do not say
		m, err := h.stat(name)
		switch {
		case err != nil:
			return kindOther
		case m.mode.IsRegular():
			return kindFile
		case m.mode.IsDir():
			return kindDir
		case m.mode&fs.ModeSymlink != 0:
			return kindLink
		}
	}
	return kindOther
}

func (r reader) close() { syscall.Close(r.fd) }

// read is io.Reader's.
func (r reader) read(p []byte) (int, error) {
	for {
		n, _, errno := syscall.Syscall(syscall.SYS_READ, uintptr(r.fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
		switch {
		case errno == syscall.EINTR:
			continue
		case errno != 0:
			return 0, errno
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		}
		return int(n), nil
	}
}

func (r reader) stat() (meta, error) {
	var st syscall.Stat_t
	if err := syscall.Fstat(r.fd, &st); err != nil {
		return meta{}, err
	}
	return metaOf(&st), nil
}

// readerOf reads from a file that stays the caller's.
func readerOf(f *os.File) reader { return reader{int(f.Fd())} }
