//go:build amd64 || arm64

package docker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolyard/toolyard/internal/launch"
	"github.com/toolyard/toolyard/internal/process"
	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/tool"
)

// cleanTimeout is how long the daemon may take to remove a container.
const cleanTimeout = 30 * time.Second

// Runner runs commands in containers. It is safe for concurrent use.
type Runner struct {
	config    Config
	client    *client
	clientErr error
	work      sync.WaitGroup // removals

	probeOnce sync.Mutex // one probe at a time
	mu        sync.Mutex
	probed    *measured
	dir       string // private, for what is mounted into every container
	count     int    // FIFOs made
	images    map[string]string
}

var _ sandbox.Runner = (*Runner)(nil)

// New makes a Runner. It asks the daemon nothing; the first Start probes.
func New(c Config) *Runner {
	if c.Executable == "" {
		c.Executable = "/proc/self/exe"
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	r := &Runner{config: c, images: map[string]string{}}
	r.client, r.clientErr = newClient(c.Host)
	return r
}

// Probe measures, in a container, what protects a command. Containers that a
// runtime left behind are removed. The answer is kept.
func (r *Runner) Probe(ctx context.Context) sandbox.Report { return r.measure(ctx).report }

// Start runs a command in a container, as [sandbox.Sandbox.Start] does.
func (r *Runner) Start(ctx context.Context, cmd sandbox.Cmd) (sandbox.Process, error) {
	if len(cmd.Args) == 0 || cmd.Args[0] == "" {
		return nil, tool.Errorf(tool.ParameterError, "no command to run")
	}
	cmd.Profile = cmd.Profile.Defaults()
	if mode := cmd.Profile.Network.Mode; mode != sandbox.NetworkNone {
		return nil, tool.Errorf(tool.SandboxUnavailable, "network %q cannot be granted to a command in a container", mode).
			WithHint("Run the command without a network, use a tool that fetches, or set sandbox.driver to local.")
	}
	switch {
	case cmd.Control != nil:
		return nil, tool.Errorf(tool.SandboxUnavailable, "a command in a container cannot be given a socket of its starter's").
			WithHint("Set sandbox.driver to local for tools that stay warm.")
	case cmd.TTY != nil && (cmd.Stdin != nil || cmd.Stdout != nil || cmd.Stderr != nil):
		return nil, tool.Errorf(tool.ParameterError, "a command in a container has a terminal or streams, not both")
	}
	m := r.measure(ctx)
	for _, floor := range []sandbox.Level{cmd.Profile.MinLevel, r.config.MinLevel} {
		if floor == "" {
			continue
		}
		if err := m.report.Require(floor); err != nil {
			return nil, err
		}
	}
	if m.report.Level == "" {
		return nil, m.report.Require(sandbox.Docker)
	}
	p, err := r.begin(ctx, &cmd, m)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Close waits until the containers of closed processes are removed.
func (r *Runner) Close() error {
	r.work.Wait()
	if r.client != nil {
		r.client.close()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	dir := r.dir
	r.dir = ""
	if dir == "" {
		return nil
	}
	return os.RemoveAll(dir)
}

// dirMark surrounds the owner's identity in the name of a private directory.
const dirMark = "toolyard-docker-"

// private is the directory for what is mounted into containers, made once.
func (r *Runner) private() (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dir != "" {
		return r.dir, nil
	}
	dir, err := os.MkdirTemp("", dirMark+process.Identity()+dirMark)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, emptyFile), nil, 0); err != nil {
		return "", err
	}
	if err := os.Mkdir(filepath.Join(dir, emptyDir), 0); err != nil {
		return "", err
	}
	for name, text := range etcFiles {
		mode := os.FileMode(0o644)
		if text == "" {
			mode = 0
		}
		path := filepath.Join(dir, filepath.Base(name))
		if err := errors.Join(os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)); err != nil {
			return "", err
		}
	}
	r.dir = dir
	return dir, nil
}

// What is mounted over what a profile hides. Nobody can open it.
const (
	emptyFile = "file"
	emptyDir  = "dir"
)

// etcFiles stand where the daemon would put its own, which tell of the machine.
// What has no text cannot be read.
var etcFiles = map[string]string{
	"/etc/hosts":       "127.0.0.1 localhost sandbox\n::1 localhost\n",
	"/etc/hostname":    "sandbox\n",
	"/etc/resolv.conf": "",
}

// sweepDirs removes the private directories of runtimes that are dead.
func sweepDirs() {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), dirMark+"*"))
	for _, dir := range left {
		owner, _, ok := strings.Cut(strings.TrimPrefix(filepath.Base(dir), dirMark), dirMark)
		info, err := os.Lstat(dir)
		if ok && err == nil && info.IsDir() && !process.Alive(owner) {
			_ = os.RemoveAll(dir)
		}
	}
}

// gate is what stands between the start of a container and that of its command:
// see [launch.Gate].
type gate struct {
	pass, records *os.File
}

func (r *Runner) newGate() (*gate, error) {
	dir, err := r.private()
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.count++
	base := filepath.Join(dir, fmt.Sprint("gate", r.count))
	r.mu.Unlock()
	g := &gate{}
	if g.pass, err = fifo(base+".pass", 0o444); err != nil {
		return nil, err
	}
	if g.records, err = fifo(base+".records", 0o666); err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

func fifo(path string, mode os.FileMode) (*os.File, error) {
	if err := unix.Mkfifo(path, uint32(mode)); err != nil {
		return nil, err
	}
	err := os.Chmod(path, mode) // whatever the umask says
	fd := -1
	if err == nil {
		// For both, so that neither side waits for the other to open it.
		fd, err = unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	}
	if err != nil {
		_ = os.Remove(path)
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// open lets the command begin, and returns when it runs or why it does not.
func (g *gate) open(ctx context.Context, name string) error {
	stop := context.AfterFunc(ctx, func() { _ = g.records.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := g.pass.Write([]byte{1}); err != nil {
		return err
	}
	var record [launch.GateRecord]byte
	if _, err := io.ReadFull(g.records, record[:]); err != nil {
		return err
	}
	if record[0] == launch.Failed {
		errno := syscall.Errno(binary.LittleEndian.Uint32(record[1:]))
		return tool.Errorf(tool.NotFound, "cannot execute %s in the sandbox: %v", name, errno).
			WithHint("Check the name, and that its directory is among those that the sandbox may read.")
	}
	return nil
}

// signal has the container's init send a signal to the command's process group.
func (g *gate) signal(sig syscall.Signal) error {
	_, err := g.pass.Write([]byte{byte(sig)})
	if errors.Is(err, os.ErrClosed) {
		return nil // it has ended
	}
	return err
}

// status is how the command ended, if its last record says so and fits the exit
// code of the container: the command may have written there as well.
func (g *gate) status(code int) (syscall.WaitStatus, bool) {
	buf, n := make([]byte, 64<<10), 0 // all that fits
	err := control(g.records, func(fd int) (err error) {
		n, err = unix.Read(fd, buf) // nothing is still to come
		return err
	})
	if err != nil || n < launch.GateRecord {
		return 0, false
	}
	last := buf[n-launch.GateRecord : n]
	status := syscall.WaitStatus(binary.LittleEndian.Uint32(last[1:]))
	return status, last[0] == launch.Exited && exitCode(status) == code
}

func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

func (g *gate) close() {
	for _, f := range []*os.File{g.pass, g.records} {
		if f != nil {
			f.Close()
			_ = os.Remove(f.Name())
		}
	}
}

// executable is the path of this program for the daemon.
func (r *Runner) executable() (string, error) {
	path, err := filepath.EvalSymlinks(r.config.Executable)
	if err == nil {
		return path, nil
	}
	// It has been replaced since it was started.
	dir, err := r.private()
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "toolyard")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	content, err := os.ReadFile(r.config.Executable)
	if err != nil {
		return "", err
	}
	return path, os.WriteFile(path, content, 0o755)
}
