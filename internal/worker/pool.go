package worker

import (
	"context"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/toolyard/toolyard/tool"
)

// Pool keeps the workers of one tool for one session. It is safe for concurrent
// use. The caller closes it.
type Pool struct {
	config Config
	ctx    context.Context // ends with the pool
	cancel context.CancelFunc
	work   sync.WaitGroup // its goroutines

	install sync.Once
	program string // the host's file
	dir     string // removed at the end; "" if there is none
	broken  error  // of install

	mu       sync.Mutex
	workers  []*worker // those that start, idle or run calls
	idle     []*worker // that can take a call; the one used last is last
	queue    []*waiter // first come, first served
	starting int
	resting  int       // that are measured and can take a call at once after
	warm     int       // how many are wanted whatever the load is
	proven   bool      // the module has been loaded once
	failed   time.Time // when a start did not succeed, unless one has since
	demand   time.Time // until when a spare is kept
	clock    *time.Timer
	closed   bool
	inFlight int
	calm     chan struct{} // closed when it is closed and no call is left
}

// waiter is a call that waits for a worker.
type waiter struct {
	got chan grant // one
}

// grant is a worker, or why there is none.
type grant struct {
	worker *worker
	err    *tool.Error
}

// New makes a pool. It starts nothing.
func New(c Config) *Pool {
	p := &Pool{config: c.defaults(), calm: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Stats is what a pool has at one moment.
type Stats struct {
	Workers, Starting, Idle, Busy, Waiting int
}

// Stats counts.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Stats{Workers: len(p.workers), Starting: p.starting, Waiting: len(p.queue)}
	for _, w := range p.workers {
		if w.load > 0 {
			s.Busy++
		}
	}
	s.Idle = s.Workers - s.Starting - s.Busy
	return s
}

// Start starts the Warm workers and returns when they are ready, or with the
// error of the first that is not. From then on the pool keeps as many.
func (p *Pool) Start(ctx context.Context) error {
	p.mu.Lock()
	p.warm = p.config.Warm
	missing := p.warm - len(p.workers)
	var begun []chan *tool.Error
	for range missing {
		if p.closed {
			break
		}
		begun = append(begun, p.startLocked())
	}
	p.mu.Unlock()
	for _, started := range begun {
		select {
		case err := <-started:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return stopped(ctx)
		}
	}
	return nil
}

// Call runs one function in a worker that has nothing else to do, in the order
// in which calls came. The error is a *tool.Error: that of the tool's own code
// (with a [*Thrown] as its cause) or of what happened to its process, QUEUE_FULL,
// CANCELLED, TIMEOUT_ERROR or RESOURCE_EXHAUSTED where a limit was reached.
// When ctx ends Call returns at once, and the worker is told, and later killed if
// it does not stop.
func (p *Pool) Call(ctx context.Context, c Call) (*Result, error) {
	came := time.Now()
	result, err := p.call(ctx, &c, came)
	for range retries {
		if err != errNotSent {
			break
		}
		result, err = p.call(ctx, &c, came)
	}
	if err != nil {
		return nil, err
	}
	return result, nil
}

// retries is how often a call is given to another worker because the one that it
// got had ended meanwhile.
const retries = 3

func (p *Pool) call(ctx context.Context, c *Call, came time.Time) (*Result, *tool.Error) {
	w, err := p.acquire(ctx)
	if err != nil {
		return nil, err
	}
	waited := time.Since(came)
	p.mu.Lock()
	calls := w.calls
	p.mu.Unlock()
	result, rest, err := w.call(ctx, c, c.Limits.or(p.config.Limits))
	if rest != nil {
		p.work.Go(func() {
			rest()
			p.release(w)
		})
		return nil, err
	}
	if result != nil {
		result.Waited, result.Calls = waited, calls
	}
	p.release(w)
	return result, err
}

// acquire waits for a worker.
func (p *Pool) acquire(ctx context.Context) (*worker, *tool.Error) {
	if ctx.Err() != nil {
		return nil, stopped(ctx)
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, closedError()
	}
	if n := len(p.idle); n > 0 && len(p.queue) == 0 {
		w := p.idle[n-1]
		p.takeLocked(w)
		p.balanceLocked()
		p.mu.Unlock()
		return w, nil
	}
	if len(p.queue) >= p.config.Queue {
		p.mu.Unlock()
		return nil, tool.Errorf(tool.QueueFull, "%d calls of the tool are waiting already", p.config.Queue).
			WithHint("Call again when some have ended.")
	}
	me := &waiter{got: make(chan grant, 1)}
	p.queue = append(p.queue, me)
	if len(p.workers) > p.starting && len(p.queue) > p.resting {
		p.wantSpareLocked() // calls come faster than one after the other
	}
	p.balanceLocked()
	p.mu.Unlock()
	select {
	case g := <-me.got:
		return g.worker, g.err
	case <-ctx.Done():
		p.leave(me)
		return nil, stopped(ctx)
	}
}

func closedError() *tool.Error {
	return tool.Errorf(tool.SandboxTerminated, "the tool's workers have been closed")
}

// leave takes a waiter out of the queue, or gives back what it got meanwhile.
func (p *Pool) leave(me *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.queue, me); i >= 0 {
		p.queue = slices.Delete(p.queue, i, i+1)
		return
	}
	if g := <-me.got; g.worker != nil {
		p.giveLocked(g.worker)
	}
}

// takeLocked gives a call to an idle worker.
func (p *Pool) takeLocked(w *worker) {
	w.load++
	p.inFlight++
	if w.load >= p.config.Concurrent || !p.config.Host.concurrent() {
		p.idle = slices.DeleteFunc(p.idle, func(v *worker) bool { return v == w })
	}
}

// giveLocked takes a call from a worker, and gives it the next.
func (p *Pool) giveLocked(w *worker) {
	w.load--
	p.inFlight--
	if !w.retired {
		w.idleSince = time.Now()
		p.offerLocked(w)
	}
	p.balanceLocked()
	p.calmLocked()
}

func (p *Pool) calmLocked() {
	if p.closed && p.inFlight == 0 {
		select {
		case <-p.calm:
		default:
			close(p.calm)
		}
	}
}

// offerLocked makes a worker take from the queue, or idle.
func (p *Pool) offerLocked(w *worker) {
	if !slices.Contains(p.idle, w) {
		p.idle = append(p.idle, w)
	}
	for len(p.queue) > 0 && slices.Contains(p.idle, w) {
		first := p.queue[0]
		p.queue = slices.Delete(p.queue, 0, 1)
		p.takeLocked(w)
		first.got <- grant{worker: w}
	}
}

// release is the end of a call.
func (p *Pool) release(w *worker) {
	if w.spent() == "" && w.due() {
		// Not in the way of whoever waits for the result.
		p.mu.Lock()
		p.resting++
		p.mu.Unlock()
		p.work.Go(func() {
			w.sample()
			p.finish(w, 1)
		})
		return
	}
	p.finish(w, 0)
}

// finish is the end of a call and, if rested is 1, of the measuring after it.
func (p *Pool) finish(w *worker, rested int) {
	why := w.spent()
	if why == "" && w.overran() {
		why = "it has reached its limit of processes"
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resting -= rested
	w.calls++
	if why == "" && p.config.MaxCalls > 0 && w.calls >= p.config.MaxCalls {
		why = "it has had its number of calls"
	}
	if why != "" && !w.retired {
		p.config.Log.Debug("worker replaced", "module", p.config.Module, "reason", why)
		p.retireLocked(w)
		if !p.closed && len(p.workers) == 0 && p.failed.IsZero() {
			p.startLocked() // it takes its place, before somebody needs it
		}
	}
	p.giveLocked(w)
}

// failedPause is for how long nothing more is started after a start has failed,
// while there are workers at all.
const failedPause = time.Second

// wantSpareLocked keeps one worker more than is busy, for as long as an idle one
// stays.
func (p *Pool) wantSpareLocked() { p.demand = time.Now().Add(p.config.Idle) }

// balanceLocked starts what is missing.
func (p *Pool) balanceLocked() {
	if p.closed {
		return
	}
	busy := 0
	for _, w := range p.workers {
		if w.load > 0 {
			busy++
		}
	}
	each := 1
	if p.config.Host.concurrent() {
		each = p.config.Concurrent
	}
	want := busy + (max(len(p.queue)-p.resting, 0)+each-1)/each
	if p.failed.IsZero() {
		want = max(want, p.warm)
		if time.Now().Before(p.demand) {
			want = max(want, busy+1)
		}
	}
	for len(p.workers) < min(want, p.config.Max) {
		if !p.proven && p.starting > 0 {
			break // first see whether the module loads at all
		}
		if len(p.workers) > 0 && time.Since(p.failed) < failedPause {
			break // those that there are will do
		}
		p.startLocked()
	}
	p.armLocked()
}

// startLocked starts one worker. The channel tells how it went.
func (p *Pool) startLocked() chan *tool.Error {
	w := newWorker(p)
	p.workers = append(p.workers, w)
	p.starting++
	expect := len(p.queue) > 0
	done := make(chan *tool.Error, 1)
	p.work.Go(func() {
		err := p.installed()
		if err == nil {
			err = w.start(expect)
		}
		p.started(w, err)
		if err == nil {
			done <- nil
		} else {
			done <- tool.AsError(err)
		}
	})
	return done
}

// started enters a worker that is ready. If none can be had all who wait are told
// why: they wait for the same thing.
func (p *Pool) started(w *worker, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starting--
	if err == nil && w.spent() != "" {
		err = w.cause
	}
	if err == nil {
		p.proven, p.failed = true, time.Time{}
		w.idleSince = time.Now()
		if p.closed {
			p.retireLocked(w)
			return
		}
		p.offerLocked(w)
		p.balanceLocked()
		return
	}
	p.dropLocked(w)
	p.failed = time.Now()
	if len(p.workers) == 0 {
		for _, waiting := range p.queue {
			waiting.got <- grant{err: tool.AsError(err)}
		}
		p.queue = nil
	}
	p.config.Log.Warn("worker did not start", "module", p.config.Module, "error", err)
	p.balanceLocked()
}

func (p *Pool) dropLocked(w *worker) {
	w.retired = true
	p.workers = slices.DeleteFunc(p.workers, func(v *worker) bool { return v == w })
	p.idle = slices.DeleteFunc(p.idle, func(v *worker) bool { return v == w })
}

// retireLocked ends a worker that runs no call any more, in the background.
func (p *Pool) retireLocked(w *worker) {
	p.dropLocked(w)
	p.work.Go(func() { w.stop(p.config.Grace) })
}

// lost notes that a worker's process has ended.
func (p *Pool) lost(w *worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.retired || !slices.Contains(p.workers, w) {
		return
	}
	if w.load > 0 {
		return // its calls notice, and then it is replaced
	}
	if slices.Contains(p.idle, w) {
		p.retireLocked(w)
		p.balanceLocked()
	}
}

// armLocked sets the clock that looks after workers that idle.
func (p *Pool) armLocked() {
	if p.closed || len(p.workers) == 0 {
		return
	}
	if p.clock == nil {
		p.clock = time.AfterFunc(p.interval(), p.tick)
	}
}

func (p *Pool) interval() time.Duration {
	every := p.config.Idle / 4
	if p.config.Ping > 0 {
		every = min(every, p.config.Ping)
	}
	return max(every, time.Millisecond)
}

// tick ends workers that nobody uses and asks the others whether they live.
func (p *Pool) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clock = nil
	if p.closed {
		return
	}
	now := time.Now()
	for _, w := range slices.Clone(p.idle) {
		if w.load > 0 {
			continue
		}
		keep := p.warm
		if now.Before(p.demand) {
			keep = max(keep, 1)
		}
		if now.Sub(w.idleSince) >= p.config.Idle && len(p.workers) > keep {
			p.retireLocked(w)
			continue
		}
		if p.config.Ping > 0 && now.Sub(w.idleSince) >= p.config.Ping && now.Sub(w.pinged) >= p.config.Ping {
			w.pinged = now
			w.load++ // so that nobody else uses it
			p.inFlight++
			p.idle = slices.DeleteFunc(p.idle, func(v *worker) bool { return v == w })
			p.work.Go(func() { p.ask(w) })
		}
	}
	p.armLocked()
}

// ask pings a worker, measures it, and replaces it if need be. A worker that
// idles stays as idle as it was.
func (p *Pool) ask(w *worker) {
	since := w.idleSince
	if !w.ping() {
		w.fail(tool.Errorf(tool.SandboxTerminated, "the worker does not answer"))
	}
	w.sample()
	why := w.spent()
	p.mu.Lock()
	defer p.mu.Unlock()
	if why != "" && !w.retired {
		p.config.Log.Debug("worker replaced", "module", p.config.Module, "reason", why)
		p.retireLocked(w)
	}
	p.giveLocked(w)
	w.idleSince = since
}

// Close lets the calls that run end, until ctx does, and then ends the workers.
// When it returns no process and no goroutine of the pool is left. Calls that
// wait, and later ones, are refused.
func (p *Pool) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	for _, waiting := range p.queue {
		waiting.got <- grant{err: closedError()}
	}
	p.queue = nil
	if p.clock != nil {
		p.clock.Stop()
	}
	p.calmLocked()
	p.mu.Unlock()
	select {
	case <-p.calm:
	case <-ctx.Done():
		p.cancel()
		<-p.calm
	}
	p.mu.Lock()
	for _, w := range slices.Clone(p.workers) {
		if slices.Contains(p.idle, w) {
			p.retireLocked(w)
		} else {
			w.cancel() // it starts
		}
	}
	p.mu.Unlock()
	p.work.Wait()
	p.cancel()
	if p.dir != "" {
		return os.RemoveAll(p.dir)
	}
	return nil
}
