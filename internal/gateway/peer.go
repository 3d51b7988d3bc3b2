package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolyard/toolyard/internal/gateway/upstream"
	"github.com/toolyard/toolyard/tool"
)

// Defaults and bounds of one server.
const (
	defaultTimeout      = 60 * time.Second
	defaultStartTimeout = 60 * time.Second
	defaultIdle         = 10 * time.Minute
	defaultConcurrency  = 16
	maxWaiting          = 256 // calls of one server that wait for their turn
	maxTries            = 5
	firstBackoff        = 500 * time.Millisecond
	lastBackoff         = 30 * time.Second
	// stable is how long a server must have run for its failures to be forgotten.
	stable = 30 * time.Second
	// pingEvery is how often a quiet server is asked whether it is there, and
	// pingTime how long it may take.
	pingEvery = 30 * time.Second
	pingTime  = 10 * time.Second
)

// peer is one server, with all that is known of it. It outlives its processes.
type peer struct {
	g       *Gateway
	name    string
	entry   Server
	source  *source
	log     *ring
	metrics metrics
	slots   chan struct{}
	waiting atomic.Int64
	asked   sampled

	mu       sync.Mutex
	state    State
	cause    string
	since    time.Time
	link     *link
	attempt  *attempt
	tries    int       // failures in a row
	next     time.Time // when it may be tried again
	retry    *time.Timer
	inFlight int
	idle     *time.Timer
	held     map[string]int // resources that are subscribed to
	closed   bool
	again    bool // what it offers is being asked again
	more     bool // and is to be once more
	seen     seen
	twin     *peer // the server in the session era, see era.go; nil until it is needed

	parent *peer // of a twin
}

// attempt is a start that runs; everybody who needs the server waits for it.
type attempt struct {
	done   chan struct{}
	err    error
	cancel context.CancelFunc
}

// link is a connection to the running server.
type link struct {
	client *upstream.Client
	guest  *guest // its process; nil if it is elsewhere
	since  time.Time
	stop   context.CancelFunc // of what runs beside
	once   sync.Once
	lost   error // why it ended by itself; the peer's lock guards it
	stale  bool  // what it offers changed while it was started; likewise
	gone   chan struct{}
	sick   atomic.Int32 // pings in a row without an answer
	// leveling has one place: who tells the server the log level. level is what it
	// was told; nil for nothing.
	leveling chan struct{}
	level    atomic.Pointer[string]
	// follows are the resources that are followed; the peer's lock guards it.
	follows map[string]*upstream.Subscription
}

func newPeer(g *Gateway, name string, s Server) *peer {
	n := s.Concurrency
	if n == 0 {
		n = defaultConcurrency
	}
	p := &peer{g: g, name: name, entry: s, slots: make(chan struct{}, n), state: Stopped, since: g.config.Now(), held: map[string]int{}}
	p.log = newRing(g.logPath(name), g.config.Redact)
	p.source = &source{peer: p, changes: make(chan struct{}, 1), tools: map[string]*remote{}}
	if !s.On() {
		p.state = Disabled
	}
	return p
}

// to changes the state and tells. The lock is held.
func (p *peer) to(state State, cause string) {
	if p.state == state && p.cause == cause {
		return
	}
	from := p.state
	p.state, p.cause, p.since = state, cause, p.g.config.Now()
	if p.parent != nil {
		return
	}
	p.g.tellState(p.name, from, state, cause)
}

// down is the error for who needs a server that cannot be had. The lock is held.
func (p *peer) down() error {
	text := fmt.Sprintf("the MCP server %s is %s", p.name, p.state)
	if p.cause != "" {
		text += ": " + p.cause
	}
	err := tool.Errorf(tool.ConnectionError, "%s", text).WithDetail("server", p.name).WithDetail("state", string(p.state))
	if p.state == Failed || p.state == Disabled || p.closed {
		// Nothing mends it but a person: trying again is of no use.
		err.RetryAfter = time.Hour
		return err.WithHint("Look at toolyard gateway logs %s, then start it with: toolyard gateway start %s", p.name, p.name)
	}
	err.Retryable = true
	if wait := p.next.Sub(p.g.config.Now()); wait > 0 {
		err.RetryAfter = wait
	}
	return err.WithHint("It is tried again by itself. Call again in a moment.")
}

// use gives the connection, started if it must be. release is called when the
// caller needs it no more.
func (p *peer) use(ctx context.Context) (l *link, release func(), err error) {
	for {
		p.mu.Lock()
		switch {
		case p.closed || p.state == Disabled || p.state == Failed:
			err := p.down()
			p.mu.Unlock()
			return nil, nil, err
		case p.link != nil:
			l := p.link
			p.inFlight++
			if p.idle != nil {
				p.idle.Stop()
			}
			p.mu.Unlock()
			return l, sync.OnceFunc(p.release), nil
		case p.attempt == nil && p.g.config.Now().Before(p.next):
			err := p.down()
			p.mu.Unlock()
			return nil, nil, err
		}
		a := p.begin()
		p.mu.Unlock()
		if err := a.wait(ctx); err != nil {
			return nil, nil, err
		}
	}
}

func (a *attempt) wait(ctx context.Context) error {
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *peer) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inFlight--
	p.rest()
}

// rest begins to wait for the server's end where nobody needs it. The lock is
// held.
func (p *peer) rest() {
	idle := time.Duration(p.entry.IdleTimeout)
	if idle == 0 {
		idle = defaultIdle
	}
	if p.inFlight > 0 || p.link == nil || idle < 0 {
		return
	}
	l := p.link
	if p.idle != nil {
		p.idle.Stop()
	}
	p.idle = time.AfterFunc(idle, func() {
		p.mu.Lock()
		unused := p.link == l && p.inFlight == 0 && len(p.held) == 0
		if unused {
			p.link = nil
			p.to(Stopped, "nobody used it for "+idle.String())
		}
		p.mu.Unlock()
		if unused {
			l.close()
		}
	})
}

// begin joins the start that runs, or begins one. The lock is held.
func (p *peer) begin() *attempt {
	if p.attempt != nil {
		return p.attempt
	}
	if p.retry != nil {
		p.retry.Stop()
		p.retry = nil
	}
	limit := time.Duration(p.entry.StartTimeout)
	if limit == 0 {
		limit = defaultStartTimeout
	}
	ctx, cancel := context.WithCancel(p.g.background)
	a := &attempt{done: make(chan struct{}), cancel: cancel}
	p.attempt = a
	p.to(Starting, "")
	p.metrics.starts.Add(1)
	p.g.work.Go(func() {
		defer cancel()
		l, trouble, err := p.connect(ctx, limit)
		p.started(a, l, trouble, err)
	})
	return a
}

// started takes in how a start ended.
func (p *peer) started(a *attempt, l *link, trouble string, err error) {
	p.mu.Lock()
	if err == nil && l.lost != nil {
		err = l.lost
	}
	stopped := p.attempt != a || p.closed
	if p.attempt == a {
		p.attempt = nil
	}
	switch {
	case stopped && err == nil:
		err = p.down()
	case stopped:
	case err != nil:
		p.failed(err)
		down := p.down().(*tool.Error)
		down.Err = err
		if cause := tool.AsError(err); cause.Code != tool.ConnectionError && cause.Code != tool.TimeoutError {
			down.Hint = cause.Hint // what it takes to mend the entry
		}
		err = down
	default:
		p.link = l
		if trouble != "" {
			p.to(Degraded, trouble)
		} else {
			p.to(Ready, "")
		}
		p.rest()
		if l.stale {
			defer p.refetch(l)
		}
		l = nil
	}
	a.err = err
	p.mu.Unlock()
	close(a.done)
	if l != nil {
		l.close()
	}
}

// failed notes a failure, and when it is tried again. The lock is held.
func (p *peer) failed(err error) {
	p.tries++
	cause := reason(err)
	if p.tries >= maxTries || hopeless(err) {
		p.next = time.Time{}
		p.to(Failed, cause)
		return
	}
	wait := min(firstBackoff<<(p.tries-1), lastBackoff)
	p.next = p.g.config.Now().Add(wait)
	p.to(Starting, fmt.Sprintf("try %d of %d failed: %s", p.tries, maxTries, cause))
	if p.retry != nil {
		p.retry.Stop()
	}
	p.retry = time.AfterFunc(wait, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.next = time.Time{}
		if !p.closed && p.link == nil && p.state == Starting && p.g.background.Err() == nil {
			p.begin()
		}
	})
}

// hopeless reports whether a failure is the entry's, so that no further try can
// help.
func hopeless(err error) bool {
	var e *tool.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case tool.ParameterError, tool.ValidationError, tool.SandboxUnavailable, tool.PermissionDenied:
		return true
	}
	return false
}

func reason(err error) string {
	var e *tool.Error
	text := err.Error()
	if errors.As(err, &e) {
		text = e.Message
	}
	const longest = 500
	if len(text) > longest {
		text = text[:longest] + "…"
	}
	return text
}

// ended takes in that a connection ended by itself.
func (p *peer) ended(l *link, err error) {
	p.mu.Lock()
	l.lost = err
	if p.link != l {
		p.mu.Unlock()
		return
	}
	p.link = nil
	if p.idle != nil {
		p.idle.Stop()
	}
	p.metrics.restarts.Add(1)
	if p.g.config.Now().Sub(l.since) >= stable {
		p.tries = 0
	}
	if p.inFlight > 0 || len(p.held) > 0 || p.tries >= maxTries-1 {
		p.failed(err)
	} else {
		// Nobody needs it now: the next call starts it, not at once.
		p.tries++
		p.next = p.g.config.Now().Add(min(firstBackoff<<(p.tries-1), lastBackoff))
		p.to(Stopped, "it ended: "+reason(err))
	}
	p.mu.Unlock()
	l.close()
}

// end stops the server, if it runs, and waits until all of it is gone.
func (p *peer) end(state State, cause string, forGood bool) {
	p.mu.Lock()
	p.closed = p.closed || forGood
	l, a := p.link, p.attempt
	p.link, p.attempt = nil, nil
	if p.retry != nil {
		p.retry.Stop()
	}
	if p.idle != nil {
		p.idle.Stop()
	}
	p.tries, p.next = 0, time.Time{}
	if p.state != Disabled {
		p.to(state, cause)
	}
	p.mu.Unlock()
	if a != nil {
		a.cancel()
		<-a.done
	}
	if l != nil {
		l.close()
	}
	p.endTwin(forGood)
	if forGood && p.parent == nil {
		p.log.close()
	}
}

// close ends the connection and the process, once; all wait for it.
func (l *link) close() {
	l.once.Do(func() {
		l.stop()
		_ = l.client.Close()
		if l.guest != nil {
			l.guest.end()
		}
		close(l.gone)
	})
	<-l.gone
}

// watch asks a quiet server now and then whether it is there. It ends with ctx.
func (p *peer) watch(ctx context.Context, l *link) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			p.ping(ctx, l)
		}
	}
}

// ping asks a server whether it is there. One that does not answer is degraded,
// then ended. An error is an answer.
func (p *peer) ping(ctx context.Context, l *link) {
	limited, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	_, err := l.client.Call(limited, upstream.Request{Method: "ping"})
	var answered *upstream.Error
	p.mu.Lock()
	current := p.link == l
	if err == nil || errors.As(err, &answered) {
		l.sick.Store(0)
		if current && p.state == Degraded && p.cause == notAnswering {
			p.to(Ready, "")
		}
		p.mu.Unlock()
		return
	}
	n := l.sick.Add(1)
	if current && ctx.Err() == nil {
		p.to(Degraded, notAnswering)
	}
	p.mu.Unlock()
	if current && ctx.Err() == nil && n >= 2 {
		p.ended(l, tool.Errorf(tool.ConnectionError, "it hung: %d pings had no answer", n))
	}
}

const notAnswering = "it does not answer"

// turn waits until one more call of this server may run.
func (p *peer) turn(ctx context.Context) (release func(), err error) {
	done := func() { <-p.slots }
	select {
	case p.slots <- struct{}{}:
		return done, nil
	default:
	}
	if p.waiting.Add(1) > maxWaiting {
		p.waiting.Add(-1)
		return nil, tool.Errorf(tool.QueueFull, "%d calls of the MCP server %s wait already", maxWaiting, p.name).
			WithHint("Call again when some have ended.")
	}
	defer p.waiting.Add(-1)
	select {
	case p.slots <- struct{}{}:
		return done, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
