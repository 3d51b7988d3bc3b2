//go:build amd64 || arm64

package sandbox

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/toolyard/toolyard/internal/launch"
	"github.com/toolyard/toolyard/internal/process"
	"github.com/toolyard/toolyard/tool"
)

// local is a Process of this machine's kernel.
type local struct {
	sandbox  *Sandbox
	programs [2]*program // the second is what follows a footing
	control  *os.File
	init     *process.Child
	began    time.Time
	sendErr  error // of sending the program, where init may say what was wrong
	unread   bool  // init ended before it read its program
	meta     tool.SandboxMeta
	profile  Profile
	guard    *guard
	quota    *quota // nil where nothing is to be watched
	pty      *os.File
	early    []*launch.Message // how the command ended, where that came before the launcher's own message
	network  *network          // nil where there is none
	tmp      string            // removed at the end; "" if there is none

	ended chan struct{} // closed when the command has ended and result is set
	gone  chan struct{} // closed when nothing of the tree is left
	stops []func() bool // what to call when the command has ended

	mu     sync.Mutex
	meter  *meter
	clock  *time.Timer // reads the meter
	reason string      // why it was killed; the first one counts
	result Result
	killed bool
	reaped bool
	closed bool
}

func (p *local) PTY() *os.File { return p.pty }

func (p *local) PID() int { return p.init.PID }

func (p *local) Done() <-chan struct{} { return p.ended }

func (p *local) Wait(ctx context.Context) Result {
	select {
	case <-p.ended:
	case <-ctx.Done():
		select {
		case <-p.ended:
		default:
			return Result{Peaks: p.Usage(), Sandbox: p.meta}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.result
}

func (p *local) Signal(sig syscall.Signal) error {
	_, err := p.control.Write([]byte{launch.SignalRequest, byte(sig)})
	return err
}

func (p *local) Kill(reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reason == "" {
		p.reason = reason
	}
	p.killLocked()
}

func (p *local) killLocked() {
	if p.reaped {
		return
	}
	select {
	case <-p.ended: // it is known what the command used
	default:
		if !p.killed {
			p.killed = true
			p.meter.last(p.init.PID)
		}
	}
	if p.programs[0].supervise {
		// Init kills what it has gathered before it goes itself.
		_, _ = p.control.Write([]byte{launch.KillRequest})
		return
	}
	_ = p.init.Signal(syscall.SIGKILL)
}

func (p *local) Close() error {
	p.Kill(EndKilled)
	<-p.gone
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	if p.pty != nil {
		p.pty.Close()
	}
	if p.tmp != "" {
		if err := os.RemoveAll(p.tmp); err != nil {
			p.sandbox.config.Log.Warn("sandbox", "error", err)
		}
	}
	return p.control.Close()
}

// Usage is what the command uses now, or used if it has ended.
func (p *local) Usage() tool.Peaks {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.ended:
		return p.result.Peaks
	default:
	}
	if !p.reaped {
		p.meter.read(p.init.PID)
	}
	peaks := p.meter.peak
	peaks.WallMS = milliseconds(time.Since(p.began))
	return peaks
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// start launches a command at the level that was measured.
func (s *Sandbox) start(ctx context.Context, cmd Cmd, m *measured) (*local, error) {
	t, err := newTree(&cmd.Profile)
	if err != nil {
		return nil, err
	}
	if uid, gid := identityOf(t); uid != os.Getuid() && cmd.Profile.Home != "" {
		if err := os.Lchown(cmd.Profile.Home, uid, gid); err != nil {
			return nil, tool.Errorf(tool.Internal, "giving the private home to the workspace's owner: %v", err)
		}
	}
	cmd.Args = append([]string{findProgram(cmd.Args[0], cmd.Env)}, cmd.Args[1:]...)
	if m.variant.level != L1 {
		return s.begin(ctx, &cmd, m, t, false)
	}
	tmp, err := privateTmp(t)
	if err != nil {
		return nil, err
	}
	if home := lookupEnv(cmd.Env, "HOME"); home == "/tmp" || home == "/dev/shm" {
		// Those are the machine's here.
		cmd.Env = append(slices.DeleteFunc(slices.Clone(cmd.Env), func(v string) bool { return strings.HasPrefix(v, "HOME=") }), "HOME="+tmp)
	}
	cmd.Env = append(slices.Clone(cmd.Env), "TMPDIR="+tmp)
	p, err := s.begin(ctx, &cmd, m, t, false)
	if err != nil {
		_ = os.RemoveAll(tmp)
		return nil, err
	}
	return p, nil
}

// privateTmp is what stands for /tmp where that is the machine's: a directory
// that goes with the command.
func privateTmp(t *tree) (string, error) {
	tmp, err := os.MkdirTemp("", tmpMark+process.Identity()+tmpMark)
	if err == nil {
		tmp, err = filepath.EvalSymlinks(tmp)
	}
	if err != nil {
		return "", tool.Errorf(tool.Internal, "making a directory for temporary files: %v", err)
	}
	if uid, gid := identityOf(t); uid != os.Getuid() {
		if err := os.Lchown(tmp, uid, gid); err != nil {
			return "", tool.Errorf(tool.Internal, "giving away a directory for temporary files: %v", err)
		}
	}
	t.places = append(t.places, place{source: tmp, target: tmp, access: readWrite, dir: true})
	t.tmp = tmp
	return tmp, nil
}

// tmpMark surrounds the owner's identity in the name of a private directory.
const tmpMark = "toolyard-tmp-"

// sweepTmp removes the private directories of runtimes that are dead.
func sweepTmp() {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), tmpMark+"*"))
	for _, dir := range left {
		owner, _, ok := strings.Cut(strings.TrimPrefix(filepath.Base(dir), tmpMark), tmpMark)
		info, err := os.Lstat(dir)
		if ok && err == nil && info.IsDir() && !process.Alive(owner) {
			_ = os.RemoveAll(dir)
		}
	}
}

// begin launches a command, or nothing at all if it is only a probe.
func (s *Sandbox) begin(ctx context.Context, cmd *Cmd, m *measured, t *tree, probing bool) (*local, error) {
	l := &launching{sandbox: s, cmd: cmd, measured: m, tree: t}
	p, err := l.run(ctx, probing)
	closeAll(l.files)
	if l.unread { // nothing has run
		p, err = l.run(ctx, probing)
		closeAll(l.files)
	}
	if m.groups != nil && !s.config.Once && !(m.variant.staged() && m.groups.Version() == 2) {
		s.groups.prepare(m.groups)
	}
	return p, err
}

// letGo closes what was open to measure the command.
func (p *local) letGo() {
	p.quota.close()
	for _, f := range p.meter.tmp {
		f.Close()
	}
	p.meter.tmp = nil
}

// await reads messages until the command runs or has failed to. The launcher's
// message and that of init may come in either order.
func (p *local) await(cmd *Cmd) error {
	var failed error
	for running := false; p.init == nil || !running && failed == nil; {
		m, files, err := receive(p.control, p.network.sockets())
		if err != nil {
			// A reset says that what was sent has not been read.
			p.unread = errors.Is(err, unix.ECONNRESET) || errors.Is(p.sendErr, unix.EPIPE) || errors.Is(p.sendErr, unix.ECONNRESET)
			if failed == nil {
				failed = tool.Errorf(tool.Internal, "the sandbox ended before its command began: %v", err)
			}
			return failed
		}
		switch m.Kind {
		case launch.Started:
			if p.init, err = process.Adopt(int(m.PID)); err != nil {
				return tool.Errorf(tool.Internal, "%v", err)
			}
		case terminalMessage:
			p.pty = files[0]
		case tmpMessage:
			p.meter.tmp = append(p.meter.tmp, files[0])
		case networkMessage:
			if err := p.network.serve(files); err != nil {
				return tool.Errorf(tool.Internal, "taking over the sandbox's network: %v", err)
			}
		case launch.Running:
			running = true
		case launch.Exited, launch.Empty: // the launcher was slower than the whole command
			p.early = append(p.early, m)
		case launch.Failed:
			failed = p.failure(m, cmd)
		}
	}
	return failed
}

func (p *local) failure(m *launch.Message, cmd *Cmd) error {
	errno := syscall.Errno(m.Errno)
	if m.Op == launch.ExecOp {
		return tool.Errorf(tool.NotFound, "cannot execute %s in the sandbox: %v", cmd.Args[0], errno).
			WithHint("Check the name, and that its directory is among those that the sandbox may read.")
	}
	return tool.Errorf(tool.SandboxUnavailable, "the sandbox could not be set up: %s: %v", p.programs[m.Status&1].name(m.Op), errno).
		WithHint("Run toolyard doctor to see what this machine allows.")
}

// Refused reports whether the kernel has refused the tree a process because of
// its limit, a moment before the next look at all limits does. The tree is then
// killed. It is cheap.
func (p *local) Refused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped || p.meter.group == nil || p.meter.group.PIDsRefused() == 0 {
		return false
	}
	if p.reason == "" {
		p.reason = EndPIDs
	}
	p.killLocked()
	return true
}

// check holds the tree against its limits, again and again while it lives.
func (p *local) check() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return
	}
	if reason := p.meter.read(p.init.PID); reason != "" {
		if p.reason == "" {
			p.reason = reason
		}
		p.killLocked()
		return
	}
	p.clock.Reset(p.meter.interval())
}

// watch reports the end of the command and then of the whole tree.
func (p *local) watch() {
	empty := false
	for !empty {
		m, err := p.report()
		if err != nil {
			break
		}
		switch m.Kind {
		case launch.Exited:
			if p.quota.reached(true) {
				p.Kill(EndDisk)
			}
			p.finish(syscall.WaitStatus(m.Status), process.UsageOf(&m.Rusage))
		case launch.Empty:
			empty = true
		}
	}
	var status syscall.WaitStatus
	var usage process.Usage
	if !empty {
		status, usage, _ = p.init.Wait()
	}
	p.mu.Lock()
	if !empty && p.killed && !status.Signaled() {
		status = syscall.WaitStatus(syscall.SIGKILL) // init killed the tree, and ended by itself
	}
	p.reaped = true
	p.clock.Stop()
	p.mu.Unlock()
	if !empty {
		p.finish(status, usage)
		if p.meter.group != nil {
			p.meter.group.Kill() // whoever outlived an init that was killed
		}
	}
	p.letGo()
	p.network.close()
	p.mu.Lock()
	p.result.Violations = append(p.result.Violations, p.guard.check()...)
	p.noteNetwork()
	p.mu.Unlock()
	if empty {
		// Only init is left, on its way out: the kernel takes apart its namespaces,
		// for which nobody has to wait.
		p.sandbox.groups.giveAfter(p.meter.group, func() { _, _, _ = p.init.Wait() })
	} else {
		p.sandbox.groups.give(p.meter.group)
	}
	close(p.gone)
}

// report is the next message of init.
func (p *local) report() (*launch.Message, error) {
	if len(p.early) > 0 {
		m := p.early[0]
		p.early = p.early[1:]
		return m, nil
	}
	m, _, err := receive(p.control, 1)
	return m, err
}

// finish fixes the result, once.
func (p *local) finish(status syscall.WaitStatus, usage process.Usage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.ended:
		return
	default:
	}
	for _, stop := range p.stops {
		stop()
	}
	if reason := p.meter.end(p.init.PID, status, usage); p.reason == "" {
		p.reason = reason
	}
	p.result = Result{Ending: ending(status, p.reason), Sandbox: p.meta, Peaks: p.meter.peak, Violations: p.guard.check()}
	p.result.Peaks.WallMS = milliseconds(time.Since(p.began))
	if status.Signaled() && status.Signal() == syscall.SIGSYS {
		p.result.Violations = append(p.result.Violations, Violation{
			"seccomp", "a system call of a foreign architecture", "only the machine's own system calls exist in the sandbox",
		})
	}
	p.noteNetwork()
	close(p.ended)
}

func ending(status syscall.WaitStatus, reason string) tool.Ending {
	e := tool.Ending{Reason: EndExit, Code: status.ExitStatus()}
	if status.Signaled() {
		e = tool.Ending{Reason: EndSignal, Code: 128 + int(status.Signal()), Signal: unix.SignalName(status.Signal())}
	}
	if reason != "" {
		e.Reason = reason
	}
	return e
}

// receive reads one message, with the descriptors that came beside it: at most
// the number given.
func receive(control *os.File, most int) (*launch.Message, []*os.File, error) {
	m := new(launch.Message)
	rest := unsafe.Slice((*byte)(unsafe.Pointer(m)), unsafe.Sizeof(*m))
	var files []*os.File
	raw, err := control.SyscallConn()
	if err != nil {
		return nil, nil, err
	}
	oob := make([]byte, unix.CmsgSpace(4*most))
	for len(rest) > 0 {
		var n, oobn, flags int
		var readErr error
		err := raw.Read(func(fd uintptr) bool {
			n, oobn, flags, _, readErr = unix.Recvmsg(int(fd), rest, oob, unix.MSG_CMSG_CLOEXEC)
			return !errors.Is(readErr, unix.EAGAIN)
		})
		switch {
		case err != nil:
		case readErr != nil:
			err = readErr
		case n == 0:
			err = io.EOF
		case oobn > 0:
			files, err = filesFrom(oob[:oobn])
			if flags&unix.MSG_CTRUNC != 0 {
				err = errors.New("some of its descriptors are lost")
			}
		}
		if err != nil {
			closeAll(files)
			return nil, nil, err
		}
		rest = rest[n:]
	}
	if carries := m.Kind == terminalMessage || m.Kind == tmpMessage || m.Kind == networkMessage; carries && len(files) == 0 {
		return nil, nil, errors.New("a message came without its descriptors")
	}
	return m, files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

func filesFrom(oob []byte) ([]*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(messages) == 0 {
		return nil, err
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, err
	}
	var files []*os.File
	for _, fd := range fds {
		if nonblock := unix.SetNonblock(fd, true); !errors.Is(nonblock, unix.EBADF) { // opened as a path only
			err = errors.Join(err, nonblock)
		}
		files = append(files, os.NewFile(uintptr(fd), "passed"))
	}
	return files, err
}
