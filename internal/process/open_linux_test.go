package process

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNameless: what a process holds of files without a name is found, open and
// mapped.
func TestNameless(t *testing.T) {
	const size = 1 << 20
	nameless := func() *os.File {
		f, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		if _, err := f.Write(bytes.Repeat([]byte{1}, size)); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(f.Name()); err != nil {
			t.Fatal(err)
		}
		return f
	}
	id := func(f *os.File) FileID {
		var st unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &st); err != nil {
			t.Fatal(err)
		}
		return FileID{uint64(st.Dev), st.Ino}
	}
	open, mapped := nameless(), nameless()
	was := id(mapped)
	data, err := unix.Mmap(int(mapped.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(data) }()
	mapped.Close()

	got := NamelessOf([]int{os.Getpid()})
	if n := got.Bytes[id(open)]; n < size {
		t.Errorf("the open file takes %d bytes, want %d", n, size)
	}
	if n := got.Bytes[was]; n != size || !got.Mapped[was] {
		t.Errorf("the mapped file takes %d bytes, mapped %v, want %d", n, got.Mapped[was], size)
	}
	if got.Hidden {
		t.Error("something is hidden in the process itself")
	}
}

// TestNamelessUnderWay: a descriptor in a socket, which nobody has received, is
// noticed.
func TestNamelessUnderWay(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	if err := unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(0), nil, 0); err != nil {
		t.Fatal(err)
	}
	if !NamelessOf([]int{os.Getpid()}).Hidden {
		t.Error("it was not noticed")
	}
}

// TestNamelessZombie: a process that has ended holds nothing and hides nothing.
func TestNamelessZombie(t *testing.T) {
	cmd := exec.Command("/bin/true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if got := NamelessOf([]int{cmd.Process.Pid}); got.Hidden || len(got.Bytes) > 0 {
		t.Errorf("got %+v", got)
	}
}
