// Package event is the bus: whoever does something publishes, whoever watches
// subscribes. It does not know what the events mean and keeps none on disk.
package event

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolyard/toolyard/tool"
)

// Bounds of the bus.
const (
	recent  = 4096 // events kept for a subscriber that resumes
	backlog = 1024 // events that wait for one slow subscriber
)

// Bus hands events to subscribers. The zero value is not usable; see [New].
type Bus struct {
	mu   sync.Mutex
	last uint64
	ring []tool.Event // the newest recent events, oldest first from start
	from int
	subs map[*Subscription]struct{}
}

// New makes a bus whose first event has the ID after last.
func New(last uint64) *Bus {
	return &Bus{last: last, subs: map[*Subscription]struct{}{}}
}

// Resume goes on after last, as [New] does, where that is known only later. What
// has been published until then is no longer kept.
func (b *Bus) Resume(last uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if last > b.last {
		b.last, b.ring, b.from = last, nil, 0
	}
}

// Publish gives e its ID and time (if unset) and hands it to the subscribers
// that want it. It never waits: a subscriber that is a backlog behind loses
// events, which [Subscription.Lost] counts. It returns the event as sent.
func (b *Bus) Publish(e tool.Event) tool.Event {
	if e.Time.IsZero() {
		e.Time = time.Now().UTC()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last++
	e.ID = b.last
	if len(b.ring) < recent {
		b.ring = append(b.ring, e)
	} else {
		b.ring[b.from] = e
		b.from = (b.from + 1) % recent
	}
	for s := range b.subs {
		s.offer(e)
	}
	return e
}

// Last is the ID of the newest event.
func (b *Bus) Last() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}

// Subscribe starts a subscription to the events that want says yes to (nil
// means all), beginning with the kept ones whose ID is above after. complete
// says whether all of those were still kept; if not, the rest is in the store.
// Pass [Bus.Last] as after to get only what is new. want must be quick and must
// not call the bus.
func (b *Bus) Subscribe(after uint64, want func(tool.Event) bool) (s *Subscription, complete bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	kept := 0 // all of them must fit before the first is received
	if after < b.last {
		kept = int(min(b.last-after, uint64(len(b.ring))))
	}
	s = &Subscription{bus: b, want: want, c: make(chan tool.Event, backlog+kept)}
	complete = after >= b.last
	for i := range b.ring {
		e := b.ring[(b.from+i)%len(b.ring)]
		if e.ID == after+1 {
			complete = true
		}
		if e.ID > after {
			s.offer(e)
		}
	}
	b.subs[s] = struct{}{}
	return s, complete
}

// Subscription is one subscriber's queue.
type Subscription struct {
	bus  *Bus
	want func(tool.Event) bool
	c    chan tool.Event
	lost atomic.Uint64
}

// offer queues e; the bus is locked.
func (s *Subscription) offer(e tool.Event) {
	if s.want != nil && !s.want(e) {
		return
	}
	select {
	case s.c <- e:
	default:
		s.lost.Add(1)
	}
}

// C is where the events arrive. It is closed by Close.
func (s *Subscription) C() <-chan tool.Event { return s.c }

// Lost is how many events this subscriber was too slow for.
func (s *Subscription) Lost() uint64 { return s.lost.Load() }

// Close ends the subscription. It may be called more than once.
func (s *Subscription) Close() {
	s.bus.mu.Lock()
	defer s.bus.mu.Unlock()
	if _, open := s.bus.subs[s]; open {
		delete(s.bus.subs, s)
		close(s.c)
	}
}
