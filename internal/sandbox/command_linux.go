//go:build amd64 || arm64

package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/toolyard/toolyard/internal/launch"
	"github.com/toolyard/toolyard/internal/process"
)

// command ends every program: what the process of the command does last.
func (b *builder) command(cmd *Cmd) {
	if cmd.TTY != nil {
		b.tty = true
		b.terminal(cmd.TTY)
	}
	b.section = launch.Child
	b.call("start a session", unix.SYS_SETSID)
	if cmd.TTY != nil {
		for fd, other := range []*os.File{cmd.Stdin, cmd.Stdout, cmd.Stderr} {
			if other == nil {
				b.call("connect the terminal", unix.SYS_DUP3, load(b.fd+12), num(fd), num(0))
			}
		}
		b.call("take the terminal", unix.SYS_IOCTL, load(b.fd+12), num(unix.TIOCSCTTY), num(0))
	}
	b.call("set the umask", unix.SYS_UMASK, num(0o022))
	dir := cmd.Dir
	if dir == "" {
		dir = "/"
	}
	b.call("enter "+dir, unix.SYS_CHDIR, b.str(dir))
	b.child()
	b.rlimits() // the command's: the set-up itself needs more files than it may have
	if b.ownControl {
		// Last of all: until here descriptor 3 is where soft failures are reported.
		b.call("pass the control descriptor", unix.SYS_DUP3, num(parkedControl), num(3), num(0))
	}
	env := b.network.environment(cleanEnv(cmd.Env))
	b.path = b.cstring(cmd.Args[0])
	b.argv = b.array(cmd.Args)
	b.envp = b.array(env)

	b.section = launch.Guard
	if cmd.TTY != nil {
		b.call("close the terminal", unix.SYS_CLOSE, load(b.fd+12))
	}
	b.call("close the command's files", unix.SYS_CLOSE_RANGE, num(0), num(2), num(0))
	if b.ownControl {
		b.call("close the command's control descriptor", unix.SYS_CLOSE, num(parkedControl))
	}
}

// parkedControl is where the command's Control waits while the sandbox is set
// up: right above init's own, where the descriptors of the set-up are not.
const parkedControl = launch.ControlFD + 1

// park takes the command's Control out of the descriptors that came along, of
// which it is the one after the files of the group.
func (b *builder) park() {
	came := launch.FirstExtra + b.groupFiles
	b.section = launch.Init
	b.ownControl = true
	b.call("keep the control descriptor", unix.SYS_DUP3, num(came), num(parkedControl), num(unix.O_CLOEXEC))
	b.call("close the control descriptor's first number", unix.SYS_CLOSE, num(came))
}

// firstOfSetUp is the lowest descriptor that the set-up may have left open.
func (b *builder) firstOfSetUp() int {
	if b.ownControl {
		return parkedControl + 1
	}
	return launch.ControlFD + 1
}

// rlimits are per process, so they are the second line behind the cgroup.
func (b *builder) rlimits() {
	set := func(resource int, value uint64) {
		limit := unix.Rlimit{Cur: value, Max: value}
		b.call("limit resource", unix.SYS_PRLIMIT64, num(0), num(resource), at(object(b.program, &limit)), num(0))
	}
	set(unix.RLIMIT_CORE, 0)
	if n := b.profile.Files; n > 0 {
		set(unix.RLIMIT_NOFILE, uint64(n))
	}
	if n := b.profile.Disk; n > 0 {
		set(unix.RLIMIT_FSIZE, uint64(n))
	}
	if n := b.profile.PIDs; n > 0 && b.boundPIDs {
		// It counts all processes of the user, so it is only what stands between a
		// fork bomb and the machine until the tree has been counted: some room above
		// the limit, or the tree would never be seen to pass it.
		const room = 64
		set(unix.RLIMIT_NPROC, uint64(process.Threads(os.Getuid())+n+room))
	}
	if d := b.profile.CPU; d > 0 {
		set(unix.RLIMIT_CPU, uint64(d.Seconds())+1)
	}
}

// terminal opens a pair in the sandbox's own /dev/pts and sends the master's end
// to the runtime. Slots: b.fd+8 the master, b.fd+12 the other end.
func (b *builder) terminal(t *TTY) {
	master, peer := b.fd+8, b.fd+12
	size := unix.Winsize{Row: t.Rows, Col: t.Columns}
	if size.Row == 0 || size.Col == 0 {
		size = unix.Winsize{Row: 24, Col: 80}
	}
	var unlock int32
	const ptmx = "/dev/ptmx"
	b.section = launch.Init
	b.call("open a terminal", unix.SYS_OPENAT, num(0), b.str(ptmx), num(unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)).store(master)
	b.call("unlock the terminal", unix.SYS_IOCTL, load(master), num(uint32(unix.TIOCSPTLCK)), at(object(b.program, &unlock)))
	b.call("open the terminal's other end", unix.SYS_IOCTL, load(master), num(uint32(unix.TIOCGPTPEER)), num(unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)).store(peer)
	b.call("size the terminal", unix.SYS_IOCTL, load(master), num(uint32(unix.TIOCSWINSZ)), at(object(b.program, &size)))
	b.sendFD(master, terminalMessage)
	b.call("close the terminal's master", unix.SYS_CLOSE, load(master))
}

// sendFD passes a descriptor to the runtime.
func (b *builder) sendFD(slot, kind uint32) {
	slots, send := b.passage("pass the descriptor on", kind, 1)
	// The number is not known before: a duplicate's is stored where it is sent from.
	b.call("note the descriptor", unix.SYS_FCNTL, load(slot), num(unix.F_DUPFD_CLOEXEC), num(0)).store(slots[0])
	send()
	b.call("close the copy", unix.SYS_CLOSE, load(slots[0]))
}

// passage prepares a message that carries n descriptors to the runtime. The
// calls that open them store their results in the slots, which are in the message
// itself; send adds the call that sends it.
func (b *builder) passage(name string, kind uint32, n int) (slots []uint32, send func()) {
	control := make([]byte, unix.CmsgSpace(4*n))
	head := (*unix.Cmsghdr)(unsafe.Pointer(&control[0]))
	head.Level, head.Type = unix.SOL_SOCKET, unix.SCM_RIGHTS
	head.SetLen(unix.CmsgLen(4 * n))
	where := b.data(control)
	for i := range n {
		slots = append(slots, where+uint32(unix.CmsgLen(0)+4*i))
	}
	iov := unix.Iovec{Len: uint64(unsafe.Sizeof(launch.Message{}))}
	vec := object(b.program, &iov)
	b.pointAt(vec, object(b.program, &launch.Message{Kind: kind}))
	message := unix.Msghdr{Iovlen: 1, Controllen: uint64(len(control))}
	msg := object(b.program, &message)
	b.pointAt(msg+uint32(unsafe.Offsetof(message.Iov)), vec)
	b.pointAt(msg+uint32(unsafe.Offsetof(message.Control)), where)
	return slots, func() {
		b.call(name, unix.SYS_SENDMSG, num(launch.ControlFD), at(msg), num(unix.MSG_NOSIGNAL))
	}
}

// The Kind of a message that carries descriptors.
const (
	terminalMessage = 100 + iota // a terminal
	tmpMessage                   // a tmpfs of the sandbox, to be measured
	networkMessage               // the sockets of a network, in the order of network.addresses
)

// findProgram looks a bare name up in the PATH of env.
func findProgram(name string, env []string) string {
	if strings.Contains(name, "/") {
		return name
	}
	for _, dir := range filepath.SplitList(lookupEnv(env, "PATH")) {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return name
}
