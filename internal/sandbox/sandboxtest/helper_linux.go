package sandboxtest

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The first argument of a test binary that is not to test.
const (
	HelperArg = "sandboxtest-attack"
	VictimArg = "sandboxtest-victim"
)

// Main runs a body of an attack, or a victim, if the process is one, and then
// does not return. A TestMain calls it first.
func Main() {
	if len(os.Args) > 1 && os.Args[1] == VictimArg {
		victim()
	}
	if len(os.Args) < 3 || os.Args[1] != HelperArg {
		return
	}
	run := helpers()[os.Args[2]]
	if run == nil {
		run = visitor(os.Args[2])
	}
	if run == nil {
		fmt.Println("no function", os.Args[2])
		os.Exit(1)
	}
	err := run(os.Args[3:])
	var b broken
	switch {
	case errors.As(err, &b):
		fmt.Println("broken:", err)
		os.Exit(1)
	case err != nil:
		fmt.Println("refused:", err)
		os.Exit(refused)
	}
	os.Exit(succeeded)
}

// helpers are the functions that a "go:" body names. To add one: a line here.
func helpers() map[string]func(args []string) error {
	return map[string]func([]string) error{
		"syscall":    rawCall,
		"exists":     callExists,
		"socket":     socket,
		"clone":      cloneFlags,
		"handle":     openByHandle,
		"below":      openBelow,
		"enter":      openIn,
		"make":       makeBelow,
		"namespace":  enterNamespace,
		"queue":      readQueue,
		"io_uring":   ioUring,
		"descriptor": pidfdGet,
	}
}

// victim prints the signals that it gets.
func victim() {
	all := make(chan os.Signal, 16)
	signal.Notify(all)
	_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0)
	fmt.Println("lives")
	end := time.After(2 * time.Minute)
	for {
		select {
		case s := <-all:
			// The Go runtime sends itself SIGURG.
			if s != syscall.SIGURG && s != syscall.SIGCHLD {
				fmt.Println(s)
			}
		case <-end:
			os.Exit(0)
		}
	}
}

func attempt() { fmt.Println(mark) }

func number(text string) int {
	n, err := strconv.ParseInt(text, 0, 64)
	if err != nil {
		return -1
	}
	return int(n)
}

// rawCall makes a system call by name. An argument is a number, "buf" for 4 KiB
// of zeros, "bad" for an address that is none, or "=text" for a string. The call
// succeeded if the kernel did not refuse it: another error is one about its
// arguments.
func rawCall(args []string) error {
	if err := call(args); errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EAFNOSUPPORT) {
		return err
	}
	return nil
}

// callExists succeeds if the system call does.
func callExists(args []string) error {
	if err := call(args); err != nil {
		return err
	}
	return nil
}

func call(args []string) error {
	nr, ok := systemCalls()[args[0]]
	if !ok {
		return brokenf("no system call %q", args[0])
	}
	var a [6]uintptr
	buf := make([]byte, 4096)
	var keep [][]byte
	for i, arg := range args[1:] {
		switch {
		case arg == "buf":
			a[i] = uintptr(unsafe.Pointer(&buf[0]))
		case arg == "bad":
			a[i] = 1
		case strings.HasPrefix(arg, "="):
			text := append([]byte(arg[1:]), 0)
			keep = append(keep, text)
			a[i] = uintptr(unsafe.Pointer(&text[0]))
		default:
			a[i] = uintptr(number(arg))
		}
	}
	attempt()
	_, _, errno := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
	_ = keep
	if errno != 0 {
		return errno
	}
	return nil
}

// socket succeeds if a socket of a family, type and protocol can be made.
func socket(args []string) error {
	attempt()
	fd, err := unix.Socket(number(args[0]), number(args[1]), number(args[2]))
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// cloneFlags makes a process with the flags of clone(2).
func cloneFlags(args []string) error {
	attempt()
	p, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{Sys: &syscall.SysProcAttr{Cloneflags: uintptr(number(args[0]))}})
	if err != nil {
		return err
	}
	_, err = p.Wait()
	return err
}

// openBelow reads a file below the directory that is standard input.
func openBelow(args []string) error {
	attempt()
	fd, err := unix.Openat(0, args[0], unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	return printFile(fd)
}

// openIn goes to the directory that is standard input and reads a file there.
func openIn(args []string) error {
	attempt()
	if err := unix.Fchdir(0); err != nil {
		return err
	}
	fd, err := unix.Open(args[0], unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	return printFile(fd)
}

// makeBelow makes a directory in the one that is standard input.
func makeBelow(args []string) error {
	attempt()
	return unix.Mkdirat(0, args[0], 0o755)
}

// openByHandle opens a file of the host by the number of its inode, which needs
// no path: args are a directory of the same file system and the inode's number.
func openByHandle(args []string) error {
	handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, args[0], 0)
	attempt()
	if err != nil {
		return err
	}
	mount, err := unix.Open(args[1], unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	fd, err := unix.OpenByHandleAt(mount, handle, unix.O_RDONLY)
	if err != nil {
		return err
	}
	return printFile(fd)
}

func printFile(fd int) error {
	b := make([]byte, 256)
	n, err := unix.Read(fd, b)
	if err != nil {
		return err
	}
	fmt.Printf("%s\n", b[:n])
	return nil
}

// enterNamespace enters a namespace of a process and reads a file there.
func enterNamespace(args []string) error {
	fd, err := unix.PidfdOpen(number(args[0]), 0)
	attempt()
	if err != nil {
		return err
	}
	return unix.Setns(fd, number(args[1]))
}

// readQueue takes a message from a POSIX queue.
func readQueue(args []string) error {
	attempt()
	fd, err := openQueue(args[0], unix.O_RDWR|unix.O_NONBLOCK)
	if err != nil {
		return err
	}
	buf := make([]byte, 8192)
	n, _, errno := unix.Syscall6(unix.SYS_MQ_TIMEDRECEIVE, uintptr(fd), uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	fmt.Printf("%s\n", buf[:n])
	return nil
}

func openQueue(name string, flags int) (int, error) {
	path, err := unix.BytePtrFromString(name)
	if err != nil {
		return -1, err
	}
	fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(path)), uintptr(flags), 0o666, 0, 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

func sendQueue(fd int, text string) {
	b := []byte(text)
	_, _, _ = unix.Syscall6(unix.SYS_MQ_TIMEDSEND, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), 0, 0, 0)
}

func unlinkQueue(name string) {
	if path, err := unix.BytePtrFromString(name); err == nil {
		_, _, _ = unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(path)), 0, 0)
	}
}

func sendMessage(id int, text string) {
	message := append([]byte{1, 0, 0, 0, 0, 0, 0, 0}, text...)
	_, _, _ = unix.Syscall6(unix.SYS_MSGSND, uintptr(id), uintptr(unsafe.Pointer(&message[0])), uintptr(len(text)), 0, 0, 0)
}

func ioUring([]string) error {
	var params [120]byte
	attempt()
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&params)), 0)
	if errno != 0 {
		return errno
	}
	return unix.Close(int(fd))
}

// pidfdGet takes a descriptor of another process and reads it.
func pidfdGet(args []string) error {
	pid, err := unix.PidfdOpen(number(args[0]), 0)
	attempt()
	if err != nil {
		return err
	}
	fd, err := unix.PidfdGetfd(pid, number(args[1]), 0)
	if err != nil {
		return err
	}
	if _, err := unix.Seek(fd, 0, 0); err != nil {
		return err
	}
	return printFile(fd)
}

// openTerminal makes a terminal without a sandbox.
func openTerminal() (master, peer *os.File, err error) {
	master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, err
	}
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, master.Fd(), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return nil, nil, errno
	}
	return master, os.NewFile(fd, "terminal"), nil
}
