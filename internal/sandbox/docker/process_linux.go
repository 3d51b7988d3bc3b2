//go:build amd64 || arm64

package docker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/tool"
)

// How long the daemon may take.
const (
	killTimeout   = 10 * time.Second // to kill
	closeTimeout  = 30 * time.Second // to report that all are gone
	retryInterval = 500 * time.Millisecond
	retries       = 20 // of a daemon that is restarted
)

// container is a Process in a container.
type container struct {
	runner  *Runner
	id      string
	pid     int // of its init, as this machine sees it
	began   time.Time
	meta    tool.SandboxMeta
	profile sandbox.Profile
	layout  *sandbox.Layout
	gate    *gate
	streams *streams
	spaces  []string   // namespaces that are its own
	tmp     []*os.File // tmpfs that are its own

	ended chan struct{} // closed when the command has ended and result is set
	gone  chan struct{} // closed when nothing of the container runs
	stops []func() bool // what to call when the command has ended
	kills sync.WaitGroup

	mu     sync.Mutex
	meter  *meter
	clock  *time.Timer // reads the meter
	reason string      // why it was killed; the first one counts
	killed bool
	result sandbox.Result
	err    error // what Close returns
	closed bool
}

func (p *container) PTY() *os.File { return p.streams.pty() }

func (p *container) PID() int { return p.pid }

func (p *container) Done() <-chan struct{} { return p.ended }

func (p *container) Wait(ctx context.Context) sandbox.Result {
	select {
	case <-p.ended:
	case <-ctx.Done():
		select {
		case <-p.ended:
		default:
			return sandbox.Result{Peaks: p.Usage(), Sandbox: p.meta}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	result := p.result
	result.Violations = slices.Clone(result.Violations)
	return result
}

// Signal goes to the command's process group.
func (p *container) Signal(sig syscall.Signal) error {
	select {
	case <-p.ended:
		return nil
	default:
		return p.gate.signal(sig)
	}
}

// Kill ends all processes of the container.
func (p *container) Kill(reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reason == "" {
		p.reason = reason
	}
	p.killLocked()
}

func (p *container) killLocked() {
	select {
	case <-p.ended:
		return // with all the rest
	default:
	}
	if p.killed {
		return
	}
	p.killed = true
	p.kills.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
		defer cancel()
		err := p.runner.kill(ctx, p.id, int(syscall.SIGKILL))
		if err != nil {
			p.runner.config.Log.Warn("docker: killing a container", "id", p.id, "error", err)
			p.mu.Lock()
			p.killed = false
			p.mu.Unlock()
		}
	})
}

// kill sends a signal to a container's init. One that has ended is no error.
func (r *Runner) kill(ctx context.Context, id string, signal int) error {
	err := r.client.call(ctx, http.MethodPost, "/containers/"+id+"/kill", url.Values{"signal": {strconv.Itoa(signal)}}, nil, nil)
	if is(err, http.StatusNotFound) || is(err, http.StatusConflict) {
		return nil
	}
	return err
}

// Close kills what is left and returns when it is gone.
func (p *container) Close() error {
	p.Kill(sandbox.EndKilled)
	p.streams.finish()
	select {
	case <-p.gone:
	case <-time.After(closeTimeout):
		return fmt.Errorf("docker: the daemon does not say that container %s has ended", p.id)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	p.streams.close()
	return p.err
}

// Usage is what the command uses now, or used if it has ended.
func (p *container) Usage() tool.Peaks {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.ended:
		return p.result.Peaks
	default:
	}
	p.meter.read()
	peaks := p.meter.peak
	peaks.WallMS = milliseconds(time.Since(p.began))
	return peaks
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// begin makes a container and starts the command in it.
func (r *Runner) begin(ctx context.Context, cmd *sandbox.Cmd, m *measured) (*container, error) {
	if _, err := r.private(); err != nil {
		return nil, tool.Errorf(tool.Internal, "making a directory for containers: %v", err)
	}
	plan, err := r.plan(ctx, cmd, m)
	if err != nil {
		return nil, err
	}
	p, err := r.prepare(ctx, cmd, m, plan)
	if err != nil {
		plan.layout.Close()
		return nil, err
	}
	return p, nil
}

// prepare makes the container of a plan and starts the command in it.
func (r *Runner) prepare(ctx context.Context, cmd *sandbox.Cmd, m *measured, plan *plan) (*container, error) {
	sources, err := openSources(plan.places)
	if err != nil {
		return nil, err
	}
	gate, err := r.newGate()
	if err != nil {
		return nil, tool.Errorf(tool.Internal, "making a container's gate: %v", err)
	}
	request, err := r.request(plan, m, gate)
	if err != nil {
		gate.close()
		return nil, err
	}
	p := &container{
		runner: r, meta: m.meta(), profile: cmd.Profile, layout: plan.layout,
		gate: gate, ended: make(chan struct{}), gone: make(chan struct{}), meter: &meter{profile: &cmd.Profile, client: r.client},
	}
	if p.id, err = r.create(ctx, request, plan); err != nil {
		gate.close()
		return nil, err
	}
	p.meter.id = p.id
	if err := p.launch(ctx, cmd, sources); err != nil {
		p.discard()
		return nil, asToolError(err)
	}
	return p, nil
}

// asToolError keeps errors that are for the model, and says of others that the
// sandbox cannot be had.
func asToolError(err error) error {
	var e *tool.Error
	if errors.As(err, &e) {
		return err
	}
	if is(err, http.StatusBadRequest) && strings.Contains(err.Error(), "bind source path does not exist") {
		return tool.Errorf(tool.Conflict, "what was to be mounted has gone while the command was being started: %v", err).WithHint("Try again.")
	}
	return tool.Errorf(tool.SandboxUnavailable, "the container could not be set up: %v", err).
		WithHint("Run toolyard doctor to see what the Docker daemon allows.")
}

func (r *Runner) create(ctx context.Context, request *createRequest, plan *plan) (string, error) {
	var made created
	err := r.client.call(ctx, http.MethodPost, "/containers/create", nil, request, &made)
	if is(err, http.StatusNotFound) && !plan.custom {
		// Somebody has removed the image since.
		r.mu.Lock()
		clear(r.images)
		r.mu.Unlock()
		if request.Image, err = r.image(ctx, root{plan.uid, plan.gid, plan.links}); err == nil {
			err = r.client.call(ctx, http.MethodPost, "/containers/create", nil, request, &made)
		}
	}
	if is(err, http.StatusNotFound) {
		return "", tool.Errorf(tool.SandboxUnavailable, "the Docker image %s is not there: %v", request.Image, err).
			WithHint("Pull or build the image that sandbox.image names, or leave the setting empty to use the machine's own programs.")
	}
	if err != nil {
		return "", asToolError(err)
	}
	return made.ID, nil
}

// discard removes a container in the background.
func (r *Runner) discard(id string) {
	r.work.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanTimeout)
		defer cancel()
		if err := r.remove(ctx, id); err != nil {
			r.config.Log.Warn("docker: removing a container", "id", id, "error", err)
		}
	})
}

// discard gives up a container whose command has not begun.
func (p *container) discard() {
	p.runner.discard(p.id)
	if p.streams != nil {
		p.streams.abort()
	}
	for _, f := range p.tmp {
		f.Close()
	}
	p.gate.close()
	p.meter.close()
}

// launch starts the container, whose command waits at the gate until all has been
// looked at.
func (p *container) launch(ctx context.Context, cmd *sandbox.Cmd, sources *sources) error {
	var err error
	if p.streams, err = p.runner.attach(ctx, p.id, cmd); err != nil {
		return err
	}
	// The answer's header says that the daemon watches; its body comes with the end.
	waiting, stop := context.WithCancel(context.Background())
	answer, err := p.runner.client.request(waiting, http.MethodPost, "/containers/"+p.id+"/wait", url.Values{"condition": {"next-exit"}}, nil, "")
	if err != nil {
		stop()
		return err
	}
	running := false
	defer func() {
		if !running {
			stop()
			answer.Body.Close()
		}
	}()
	if r := p.runner; r.config.beforeStart != nil {
		r.config.beforeStart()
	}
	p.began = time.Now()
	if err := p.runner.client.call(ctx, http.MethodPost, "/containers/"+p.id+"/start", nil, nil, nil); err != nil {
		return err
	}
	var state inspected
	if err := p.runner.client.call(ctx, http.MethodGet, "/containers/"+p.id+"/json", nil, nil, &state); err != nil {
		return err
	}
	if !state.State.Running {
		return fmt.Errorf("the container ended with %d before its command began %s", state.State.ExitCode, state.State.Error)
	}
	p.pid = state.State.Pid
	if cmd.TTY != nil {
		if err := p.streams.resize(ctx); err != nil {
			return err
		}
	}
	if err := sources.verify(p.pid); err != nil {
		return err
	}
	p.meter.open(p.pid, !p.runner.config.noCgroup)
	p.watchDisk()
	p.spaces = differing(p.pid)
	if err := p.gate.open(ctx, cmd.Args[0]); err != nil {
		return err
	}
	running = true
	if r := p.runner; r.config.begun != nil {
		r.config.begun()
	}
	p.watched(ctx, stop, answer)
	return nil
}

// watchDisk holds what is written against its limits, with what lies on the
// container's own tmpfs.
func (p *container) watchDisk() {
	for _, dir := range []string{"/tmp", "/dev/shm"} {
		fd, err := unix.Open(fmt.Sprintf("/proc/%d/root%s", p.pid, dir), unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		if err != nil {
			continue
		}
		var fs unix.Statfs_t
		if unix.Fstatfs(fd, &fs) != nil || fs.Type != unix.TMPFS_MAGIC {
			unix.Close(fd) // it is one of the machine's, and counted as such
			continue
		}
		p.tmp = append(p.tmp, os.NewFile(uintptr(fd), dir))
	}
	p.layout.Watch(p.pid, p.tmp, func() { p.Kill(sandbox.EndDisk) })
}

// closeDisk ends the watch.
func (p *container) closeDisk() {
	p.layout.Close()
	for _, f := range p.tmp {
		f.Close()
	}
	p.tmp = nil
}

// watched starts what ends the command and what waits for its end.
func (p *container) watched(ctx context.Context, stop context.CancelFunc, answer *http.Response) {
	p.stops = append(p.stops, context.AfterFunc(ctx, func() { p.Kill(sandbox.EndKilled) }))
	if wall := p.profile.Wall; wall > 0 {
		timer := time.AfterFunc(wall-time.Since(p.began), func() { p.Kill(sandbox.EndWall) })
		p.stops = append(p.stops, timer.Stop)
	}
	p.mu.Lock()
	p.clock = time.AfterFunc(p.meter.interval(), p.check)
	p.holdLocked()
	p.mu.Unlock()
	go func() {
		defer stop()
		p.watch(answer)
	}()
}

// check holds the container against its limits, again and again while it lives.
func (p *container) check() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.ended:
		return
	default:
	}
	p.holdLocked()
	p.clock.Reset(p.meter.interval())
}

// holdLocked ends the container if it is over a limit.
func (p *container) holdLocked() {
	if reason := p.meter.read(); reason != "" {
		if p.reason == "" {
			p.reason = reason
		}
		p.killLocked()
	}
}

// watch reports the end of the command, with which the whole container ends, and
// cleans up.
func (p *container) watch(answer *http.Response) {
	var exit waited
	err := decode(answer, &exit)
	state := inspected{}
	for try := 0; try < retries; try++ {
		ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
		failed := p.runner.client.call(ctx, http.MethodGet, "/containers/"+p.id+"/json", nil, nil, &state)
		cancel()
		if failed == nil && !state.State.Running || is(failed, http.StatusNotFound) {
			break
		}
		err = errors.Join(err, failed)
		time.Sleep(retryInterval)
	}
	code := exit.StatusCode
	if err != nil {
		code = state.State.ExitCode
		if state.State.Running {
			p.mu.Lock()
			p.err = fmt.Errorf("docker: container %s was lost: %w", p.id, err)
			p.mu.Unlock()
			code = 128 + int(syscall.SIGKILL)
		}
	}
	p.finish(code, state.State.OOMKilled)
	p.closeDisk()
	p.streams.wait()
	p.mu.Lock()
	p.result.Violations = append(p.result.Violations, p.layout.Violations()...)
	p.meter.close()
	p.mu.Unlock()
	p.kills.Wait()
	p.gate.close()
	p.runner.discard(p.id)
	close(p.gone)
}

// finish fixes the result.
func (p *container) finish(code int, oom bool) {
	for _, stop := range p.stops {
		stop()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clock.Stop()
	if p.reason == "" {
		p.reason = p.meter.read()
	}
	if p.reason == "" && oom {
		p.reason = sandbox.EndMemory
	}
	if p.reason == "" && p.layout.Exceeded() {
		p.reason = sandbox.EndDisk
	}
	status, ok := p.gate.status(code)
	if !ok {
		status = syscall.WaitStatus(code << 8)
		if code > 128 && p.reason != "" { // killed before it could write
			status = syscall.WaitStatus(code - 128)
		}
	}
	p.result = sandbox.Result{Ending: ending(status, p.reason, &p.profile), Sandbox: p.meta, Peaks: p.meter.peak, Violations: p.layout.Violations()}
	p.result.Peaks.WallMS = milliseconds(time.Since(p.began))
	close(p.ended)
}

// ending reads what the container's init has recorded, or, if it could not, the
// exit code.
func ending(status syscall.WaitStatus, reason string, p *sandbox.Profile) tool.Ending {
	e := tool.Ending{Reason: sandbox.EndExit, Code: status.ExitStatus()}
	if status.Signaled() {
		e = tool.Ending{Reason: sandbox.EndSignal, Code: exitCode(status), Signal: unix.SignalName(status.Signal())}
		// The kernel's word for a limit, where there is one.
		switch sig := status.Signal(); {
		case sig == syscall.SIGXCPU && p.CPU > 0:
			e.Reason = sandbox.EndCPU
		case sig == syscall.SIGXFSZ && p.Disk > 0:
			e.Reason = sandbox.EndDisk
		}
	}
	if reason != "" {
		e.Reason = reason
	}
	return e
}
