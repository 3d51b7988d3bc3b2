package worker

import (
	"context"
	"errors"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/tool"
)

// call runs one call. over says whether the worker is done with it; if not, rest
// waits until it is.
func (w *worker) call(ctx context.Context, c *Call, l Limits) (result *Result, rest func(), err *tool.Error) {
	a := &active{call: c, done: make(chan frame, 1), left: l.Output}
	a.ctx, a.stop = context.WithCancel(ctx)
	defer a.stop()
	if l.CPU > 0 && w.stale() {
		w.sample() // or what it did on its own meanwhile would count for this call
	}
	a.began = time.Now()
	before := w.begin(a)
	defer a.close()
	maxResult := l.Result
	if most := w.pool.config.Frame - maxHeader; maxResult < 0 || maxResult > most {
		maxResult = most
	}
	switch err := w.in.write(&header{Type: typeCall, ID: a.id, Name: c.Name, Max: maxResult}, orNull(c.Args)); {
	case errors.Is(err, errTooLarge):
		w.forget(a)
		return nil, nil, tool.Errorf(tool.ParameterError, "arguments of %d bytes are larger than a tool can be given", len(c.Args))
	case err != nil:
		w.forget(a)
		w.fail(tool.Errorf(tool.SandboxTerminated, "sending a call to its worker: %v", err))
		return nil, nil, errNotSent
	}

	f, err := w.wait(ctx, a, l, before.cpu)
	if err != nil {
		w.forget(a)
		return nil, nil, w.began(err)
	}
	if f == nil { // ctx has ended
		return nil, func() { w.abandon(a) }, w.began(stopped(ctx))
	}
	for _, s := range w.outputs {
		s.finish()
	}
	w.forget(a)
	switch {
	case f.Type == typeError:
		if f.Error.Kind == KindHeap {
			w.taint("out of memory")
		}
		return nil, nil, w.began(f.Error.toolError())
	case f.Type == typeGone:
		return nil, nil, w.began(w.whyGone(f))
	case f.Type == typeCancelled:
		return nil, nil, w.began(tool.Errorf(tool.Cancelled, "the tool cancelled its own call"))
	case len(f.Body) > maxResult:
		err := faulty(errors.New("a result that is larger than the call allows"))
		w.fail(err)
		return nil, nil, w.began(err)
	}
	return &Result{Value: f.Body, Took: time.Since(a.began), Dropped: a.close(), PID: w.process.PID()}, nil, nil
}

// errNotSent says that a worker was gone before it could be given a call.
var errNotSent = tool.Errorf(tool.SandboxTerminated, "the tool's process was gone before it could be called").
	WithHint("Call again; a new process takes its place.")

func orNull(args []byte) []byte {
	if len(args) == 0 {
		return []byte("null")
	}
	return args
}

// begin enters a call and tells what the worker had used before.
func (w *worker) begin(a *active) usage {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next++
	a.id = w.next
	w.pending[a.id] = a
	return w.used
}

func (w *worker) forget(a *active) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pending, a.id)
	if time.Since(a.began) > longCall {
		w.sampled = time.Time{}
	}
}

// close keeps hooks from being called any more and tells how much was dropped.
func (a *active) close() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	return a.dropped
}

// began marks that the tool's code may have had an effect.
func (w *worker) began(err *tool.Error) *tool.Error {
	copied := *err
	copied.Began = true
	return &copied
}

// wait returns how the call went, an error if it was ended, or nothing if ctx has
// ended.
func (w *worker) wait(ctx context.Context, a *active, l Limits, cpu time.Duration) (*frame, *tool.Error) {
	var wall, tick <-chan time.Time
	if l.Wall > 0 {
		timer := time.NewTimer(l.Wall)
		defer timer.Stop()
		wall = timer.C
	}
	if l.CPU > 0 {
		ticker := time.NewTicker(cpuInterval)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case f := <-a.done:
			return &f, nil
		case <-w.dead:
			select {
			case f := <-a.done: // its last word
				return &f, nil
			default:
			}
			return nil, w.cause
		case <-ctx.Done():
			return nil, nil
		case <-wall:
			err := wallReached(l.Wall)
			w.fail(err)
			return nil, err
		case <-tick:
			if now := w.sample(); now.cpu-cpu > l.CPU {
				err := cpuReached(l.CPU)
				w.fail(err)
				return nil, err
			}
		}
	}
}

// sample measures the worker.
func (w *worker) sample() usage {
	now := use(w.process)
	w.mu.Lock()
	defer w.mu.Unlock()
	// What has ended and was not reaped by the worker is not counted any more.
	now.cpu = max(now.cpu, w.used.cpu)
	w.used, w.sampled = now, time.Now()
	return now
}

// abandon tells the worker to stop a call and waits until it has; a worker that
// does not is killed.
func (w *worker) abandon(a *active) {
	kill := func() {
		w.fail(tool.Errorf(tool.SandboxTerminated, "a cancelled call did not stop within %s", w.pool.config.Grace))
	}
	timer := time.AfterFunc(w.pool.config.Grace, kill)
	defer timer.Stop()
	if err := w.in.write(&header{Type: typeCancel, ID: a.id}, nil); err != nil {
		kill()
	}
	select {
	case <-a.done:
		for _, s := range w.outputs {
			s.finish()
		}
	case <-w.dead:
	}
	w.forget(a)
}

// whyGone says why the process of a call ended where only that one has. Where the
// kernel killed it, the sandbox may be about to say that memory was the reason.
func (w *worker) whyGone(f *frame) *tool.Error {
	if f.Text != "SIGKILL" {
		return gone(f)
	}
	select {
	case <-w.dead:
		return w.cause
	case <-time.After(w.pool.config.Grace):
		w.taint("its process was killed")
		return ended(sandbox.Result{}, &w.pool.config.Profile, w.outputs[1].last())
	}
}

func (w *worker) taint(why string) {
	w.mu.Lock()
	w.tainted = why
	w.mu.Unlock()
}

// A worker that is used a lot is measured this often, and after each call that
// was long enough for the measuring not to matter.
const (
	sampleInterval = 200 * time.Millisecond
	longCall       = 5 * time.Millisecond
)

// due reports whether the worker is to be measured before its next call.
func (w *worker) due() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.sampled) > sampleInterval
}

// staleAfter is for how long what was measured last will do as the beginning of a
// call.
const staleAfter = time.Second

func (w *worker) stale() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.sampled.IsZero() && time.Since(w.sampled) > staleAfter
}

// overran reports whether the call that has just ended ran into the limit of
// processes. The next one must not get a worker that dies of it.
func (w *worker) overran() bool {
	p, ok := w.process.(interface{ Refused() bool })
	return ok && p.Refused()
}

// spent says why the worker should not run another call; "" if it may.
func (w *worker) spent() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	limit := w.pool.config.Profile.Memory
	switch {
	case w.cause != nil:
		return w.cause.Message
	case w.tainted != "":
		return w.tainted
	case limit > 0 && w.used.memory > limit/2:
		return "it has grown over half of its memory limit"
	}
	return ""
}
