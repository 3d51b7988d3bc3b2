package worker

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/tool"
)

// worker is one process with a module in it.
type worker struct {
	pool     *Pool
	ctx      context.Context // of the process
	cancel   context.CancelFunc
	process  sandbox.Process
	socket   *os.File
	in       writer
	outputs  []*stream // stdout, stderr
	ready    chan *frame
	dead     chan struct{}  // closed when it can run nothing more and cause is set
	reading  chan struct{}  // closed when everything that it sent was handled
	work     sync.WaitGroup // its goroutines
	requests chan struct{}  // one for each request that is being answered

	// Of the pool, under its lock.
	load      int // calls
	calls     int // ever
	idleSince time.Time
	pinged    time.Time
	retired   bool

	mu      sync.Mutex
	next    uint64 // number of a call or a ping
	pending map[uint64]*active
	pings   map[uint64]chan struct{}
	cause   *tool.Error // why it ends; the first one counts
	tainted string      // why it must not run another call
	sampled time.Time
	used    usage
}

// active is a call that a worker runs.
type active struct {
	id   uint64
	call *Call
	done chan frame // one: how it went
	ctx  context.Context
	stop context.CancelFunc

	began   time.Time
	settled bool // under the worker's lock: done has got what it gets

	mu      sync.Mutex // one hook at a time, and none once it is over
	over    bool
	left    int
	dropped int
}

// Bounds of what a worker may ask.
const (
	maxRequests = 32 // at the same time
	pingTimeout = 2 * time.Second
	cpuInterval = 50 * time.Millisecond
)

// newWorker is a worker that is not started.
func newWorker(p *Pool) *worker {
	w := &worker{
		pool: p, ready: make(chan *frame, 1), dead: make(chan struct{}), reading: make(chan struct{}),
		requests: make(chan struct{}, maxRequests), pending: map[uint64]*active{}, pings: map[uint64]chan struct{}{},
	}
	w.ctx, w.cancel = context.WithCancel(p.ctx)
	return w
}

// start runs the process and returns when its module is loaded. After an error
// nothing of it is left.
func (w *worker) start(expect bool) error {
	c := &w.pool.config
	nonce := rand.Text()
	if err := w.launch(); err != nil {
		w.cancel()
		return err
	}
	w.work.Go(func() { w.read(&reader{from: bufio.NewReaderSize(w.socket, 16<<10), max: c.Frame, key: nonce}) })
	for _, s := range w.outputs {
		w.work.Go(s.run)
	}
	w.work.Go(w.supervise)
	hello, err := json.Marshal(greeting{
		Version: version, Module: c.Module, Adapter: c.Adapter, Setup: c.Setup, Max: c.Frame, Fresh: c.Host.fresh(), Expect: expect,
	})
	if err == nil {
		err = w.in.write(&header{Type: typeHello, Key: nonce}, hello)
	}
	if err != nil {
		w.fail(tool.Errorf(tool.Internal, "greeting a worker: %v", err))
	}
	timer := time.NewTimer(c.Ready)
	defer timer.Stop()
	select {
	case f := <-w.ready:
		if f.Error == nil {
			return nil
		}
		w.fail(f.Error.toolError())
	case <-w.dead:
	case <-timer.C:
		w.fail(tool.Errorf(tool.TimeoutError, "the tool's module was not loaded within %s", c.Ready).
			WithHint("Look at what the module does when it is loaded."))
	}
	w.stop(0)
	return w.cause
}

// launch starts the process with its socket and its pipes.
func (w *worker) launch() (err error) {
	c := &w.pool.config
	socket, theirs, err := pair()
	if err != nil {
		return tool.Errorf(tool.Internal, "making a worker's socket: %v", err)
	}
	files := []*os.File{socket}
	ends := []*os.File{theirs}
	defer func() {
		for _, f := range ends {
			f.Close()
		}
		if err != nil {
			for _, f := range files {
				f.Close()
			}
		}
	}()
	for _, name := range []string{"stdout", "stderr"} {
		r, end, err := os.Pipe()
		if err != nil {
			return tool.Errorf(tool.Internal, "making a worker's pipe: %v", err)
		}
		files, ends = append(files, r), append(ends, end)
		s, err := newStream(name, r, func(stream, text string) { w.line(Line{Stream: stream, Text: text}) })
		if err != nil {
			return tool.Errorf(tool.Internal, "making a worker's pipe: %v", err)
		}
		w.outputs = append(w.outputs, s)
	}
	profile := c.Profile
	own := []string{w.pool.program}
	if c.Adapter != "" {
		own = append(own, c.Adapter)
	}
	profile.Read = append(own, profile.Read...)
	w.process, err = c.Runner.Start(w.ctx, sandbox.Cmd{
		Args: c.Host.command(w.pool.program, &profile), Env: c.Env, Dir: c.Dir,
		Stdout: ends[1], Stderr: ends[2], Control: theirs, Profile: profile,
	})
	if err != nil {
		return err
	}
	w.socket = socket
	w.in = writer{to: socket, max: c.Frame}
	if err := unblock(theirs); err != nil {
		_ = w.process.Close()
		return tool.Errorf(tool.Internal, "preparing a worker's socket: %v", err)
	}
	return nil
}

// read handles what the worker sends, until it ends or breaks the protocol.
func (w *worker) read(r *reader) {
	defer close(w.reading)
	for {
		f, err := r.next()
		if err == nil {
			err = w.handle(&f)
		}
		if err == nil {
			continue
		}
		if errors.Is(err, errProtocol) {
			w.fail(faulty(err))
		}
		return // the end of the stream, or its reset: how the process ended says more
	}
}

func (w *worker) handle(f *frame) error {
	switch f.Type {
	case typeReady:
		select {
		case w.ready <- f:
		default:
			return fmt.Errorf("%w: ready for the second time", errProtocol)
		}
	case typeResult, typeError, typeCancelled, typeGone:
		w.settle(f)
	case typeProgress:
		w.hook(f.ID, func(a *active) {
			if a.call.OnProgress != nil {
				a.call.OnProgress(Progress{f.Done, f.Total, f.Text})
			}
		})
	case typeLog:
		w.log(f)
	case typeRequest:
		w.request(f)
	case typePong:
		w.mu.Lock()
		if pong, ok := w.pings[f.ID]; ok {
			delete(w.pings, f.ID)
			close(pong)
		}
		w.mu.Unlock()
	default:
		return fmt.Errorf("%w: a frame of type %.40q", errProtocol, f.Type)
	}
	return nil
}

// settle hands a call its outcome. A frame of a call that is over is late, and
// nothing more.
func (w *worker) settle(f *frame) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f.Type == typeError && f.Error == nil {
		f.Error = &Thrown{Message: "an error of which nothing is known"}
	}
	if f.Type == typeError && (f.ID == 0 || f.Error.Kind == KindLate) {
		// It was thrown where nobody waited: what else is broken is not known.
		w.tainted = f.Error.Error()
		if f.ID == 0 {
			select {
			case w.ready <- f: // it did not get as far as being ready
			default:
			}
			w.pool.config.Log.Warn("worker", "module", w.pool.config.Module, "error", w.tainted)
			return
		}
	}
	if a := w.pending[f.ID]; a != nil && !a.settled {
		a.settled = true
		a.done <- *f
	}
}

// hook runs f for a call that is not over.
func (w *worker) hook(id uint64, f func(*active)) {
	w.mu.Lock()
	a := w.pending[id]
	w.mu.Unlock()
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.over {
		f(a)
	}
}

func (w *worker) log(f *frame) {
	text := f.Text
	if len(text) > maxLogText {
		text = valid([]byte(text[:maxLogText]))
	}
	l := Line{Stream: "log", Level: f.Name, Text: text, Meta: f.Body}
	if f.ID == 0 {
		w.line(l)
		return
	}
	w.hook(f.ID, func(a *active) { a.line(l) })
}

// line hands on what was printed: to the one call that runs, else to the pool.
func (w *worker) line(l Line) {
	w.mu.Lock()
	var only *active
	for _, a := range w.pending {
		only = a
	}
	if len(w.pending) != 1 {
		only = nil
	}
	w.mu.Unlock()
	if only == nil {
		if w.pool.config.OnLine != nil {
			w.pool.config.OnLine(l)
		}
		return
	}
	only.mu.Lock()
	defer only.mu.Unlock()
	if !only.over {
		only.line(l)
	}
}

func (a *active) line(l Line) {
	size := len(l.Text) + len(l.Meta) + 1
	if a.left >= 0 {
		if size > a.left {
			a.dropped += size
			return
		}
		a.left -= size
	}
	if a.call.OnLine != nil {
		a.call.OnLine(l)
	}
}

// request answers the worker in a goroutine of its own.
func (w *worker) request(f *frame) {
	select {
	case w.requests <- struct{}{}:
	default:
		w.respond(f.ID, nil, tool.Errorf(tool.QueueFull, "more than %d requests at the same time", maxRequests))
		return
	}
	w.mu.Lock()
	a := w.pending[f.Call]
	w.mu.Unlock()
	ctx, answer := w.pool.ctx, w.pool.config.OnRequest
	if a != nil {
		ctx = a.ctx
		if a.call.OnRequest != nil {
			answer = a.call.OnRequest
		}
	}
	w.work.Go(func() {
		defer func() { <-w.requests }()
		if answer == nil {
			w.respond(f.ID, nil, tool.Errorf(tool.NotFound, "nothing answers %q here", f.Name))
			return
		}
		value, err := answer(ctx, f.Name, f.Body)
		w.respond(f.ID, value, err)
	})
}

func (w *worker) respond(id uint64, value json.RawMessage, err error) {
	h := &header{Type: typeResponse, ID: id}
	if err != nil {
		e := tool.AsError(err)
		h.Error, value = &Thrown{Name: "ToolError", Message: e.Text(), Code: string(e.Code)}, nil
	}
	err = w.in.write(h, value)
	if errors.Is(err, errTooLarge) {
		h.Error = &Thrown{Name: "ToolError", Message: "the answer is larger than a frame may be", Code: string(tool.ResourceExhausted)}
		err = w.in.write(h, nil)
	}
	if err != nil {
		w.fail(tool.Errorf(tool.SandboxTerminated, "answering a worker: %v", err))
	}
}

// fail ends the worker with a reason.
func (w *worker) fail(err *tool.Error) {
	w.mu.Lock()
	if w.cause == nil {
		w.cause = err
	}
	w.mu.Unlock()
	w.process.Kill(sandbox.EndKilled)
}

// supervise waits for the end of the process, says why, and takes what is left
// away.
func (w *worker) supervise() {
	select {
	case <-w.process.Done():
	case <-w.reading: // it has closed its socket: it exits, or it has lost its mind
		select {
		case <-w.process.Done():
		case <-time.After(w.pool.config.Grace):
			w.fail(faulty(fmt.Errorf("%w: it was closed", errProtocol)))
			<-w.process.Done()
		}
	}
	select {
	case <-w.reading:
	case <-time.After(w.pool.config.Grace): // something that it left holds the socket
	}
	result := w.process.Wait(context.Background())
	for _, s := range w.outputs {
		s.finish()
	}
	w.mu.Lock()
	if w.cause == nil || result.Ending.Reason == sandbox.EndMemory {
		w.cause = ended(result, &w.pool.config.Profile, w.outputs[1].last())
	}
	for id, pong := range w.pings {
		delete(w.pings, id)
		close(pong)
	}
	w.mu.Unlock()
	close(w.dead)
	w.pool.lost(w)
	if err := w.process.Close(); err != nil {
		w.pool.config.Log.Warn("worker", "error", err)
	}
	w.cancel()
	w.socket.Close()
	for _, s := range w.outputs {
		s.file.Close()
	}
}

// stop ends the worker: by the end of its socket, at which a host exits, and after
// a grace by force. It returns when nothing of it is left.
func (w *worker) stop(grace time.Duration) {
	if grace > 0 {
		w.mu.Lock()
		if w.cause == nil {
			w.cause = tool.Errorf(tool.SandboxTerminated, "the worker was ended")
		}
		w.mu.Unlock()
		hangUp(w.socket)
		select {
		case <-w.process.Done():
		case <-time.After(grace):
		}
	}
	w.process.Kill(sandbox.EndKilled)
	w.work.Wait()
}

// ping asks a worker that idles whether it lives.
func (w *worker) ping() bool {
	pong := make(chan struct{})
	w.mu.Lock()
	w.next++
	id := w.next
	w.pings[id] = pong
	w.mu.Unlock()
	if w.in.write(&header{Type: typePing, ID: id}, nil) != nil {
		return false
	}
	select {
	case <-pong:
		select {
		case <-w.dead:
			return false
		default:
			return true
		}
	case <-time.After(pingTimeout):
		return false
	}
}
