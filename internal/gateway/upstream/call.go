package upstream

import (
	"context"
	"encoding/json"
	"reflect"
	"sync"
	"sync/atomic"
	"time"
)

// The bounds of what waits for one caller.
const (
	maxCallEvents = 256
	maxCallBytes  = 8 << 20
)

// What has become of the request of a call.
const (
	queued    int32 = iota // the server has not seen it
	sent                   // the server may have seen it
	abandoned              // the server will not see it
)

// call is a request that waits for its answer.
type call struct {
	id     int64
	req    *Request
	client any // req.Client, if it can be compared
	state  atomic.Int32
	wake   chan struct{} // one place: there is something to take

	// ctx is that of the request's own HTTP exchange and cancel ends it; nil on a
	// stream for all. They are set before the call is entered.
	ctx    context.Context
	cancel context.CancelFunc
	// ack is called when the server agrees to a listening request; nil for others.
	ack func()

	mu     sync.Mutex
	events []callEvent
	bytes  int
	done   bool
	result json.RawMessage
	err    error

	// asking ends the questions of this call; made with the first.
	asking     context.Context
	stopAsking context.CancelFunc
}

// callEvent is a notification for the caller.
type callEvent struct {
	log    bool
	params json.RawMessage
}

func newCall(r *Request) *call {
	cl := &call{req: r, wake: make(chan struct{}, 1)}
	if r.Client != nil && reflect.ValueOf(r.Client).Comparable() {
		cl.client = r.Client
	}
	return cl
}

// own reports whether the call is made for nobody else: it asks nothing of
// anybody.
func (cl *call) own() bool { return cl.req.Client == nil && cl.req.Ask == nil }

// tell puts a notification before the caller; the oldest goes if there are too
// many. It reports how many went.
func (cl *call) tell(e callEvent) (dropped int64) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.done {
		return 0
	}
	cl.events = append(cl.events, e)
	cl.bytes += len(e.params)
	for len(cl.events) > 1 && (len(cl.events) > maxCallEvents || cl.bytes > maxCallBytes) {
		cl.bytes -= len(cl.events[0].params)
		cl.events = cl.events[1:]
		dropped++
	}
	cl.signal()
	return dropped
}

// finish gives the caller what came of the call. Only the first counts.
func (cl *call) finish(result json.RawMessage, err error) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.done {
		return
	}
	cl.done, cl.result, cl.err = true, result, err
	if cl.stopAsking != nil {
		cl.stopAsking()
	}
	cl.signal()
}

func (cl *call) signal() {
	select {
	case cl.wake <- struct{}{}:
	default:
	}
}

// take gives what has come since the last time.
func (cl *call) take() (events []callEvent, done bool, result json.RawMessage, err error) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	events, cl.events, cl.bytes = cl.events, nil, 0
	return events, cl.done, cl.result, cl.err
}

// over reports whether the call has ended.
func (cl *call) over() bool {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.done
}

// asked gives the context of a question of this call; false if the call has
// ended.
func (cl *call) asked(parent context.Context) (context.Context, bool) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.done {
		return nil, false
	}
	if cl.asking == nil {
		cl.asking, cl.stopAsking = context.WithCancel(parent)
	}
	return cl.asking, true
}

// seen marks that the server may see the request from now on; false if the
// caller has gone before.
func (cl *call) seen() bool { return cl.state.CompareAndSwap(queued, sent) }

// wasSent reports whether the server may have seen the request.
func (cl *call) wasSent() bool { return cl.state.Load() == sent }

// shadow is a call whose caller has gone while the server may still be at it. A
// question that comes then may be its, so it counts among the calls in flight
// for a while.
type shadow struct {
	client any
	own    bool
	until  time.Time
}

// shadowTime is how long a server that was told to stop may still ask.
const shadowTime = time.Minute
