package scheduler

import (
	"context"
	"sync"
	"time"
)

// Batch orders the calls of one batch: conflicting members run in the order of
// the list, the others side by side, and of those that may run the longest
// expected goes first. It only orders; each member still goes through
// [Scheduler.Acquire]. It is safe for concurrent use.
type Batch struct {
	max int

	mu      sync.Mutex
	members []batchMember
	running int
	left    int // not ended
	stopped bool
}

type batchMember struct {
	expected time.Duration
	blockers int
	blocks   []int // later members that wait for this one
	started  bool
	ended    bool
}

// Batch starts a batch of tasks, at most max of which run together; zero means
// Config.MaxParallel.
func (s *Scheduler) Batch(tasks []Task, max int) *Batch {
	if max <= 0 {
		max = s.config.MaxParallel
	}
	b := &Batch{max: max, members: make([]batchMember, len(tasks)), left: len(tasks)}
	entries := make([]entry, len(tasks))
	for i, t := range tasks {
		entries[i] = entry{task: t, writes: writes(t.Resources)}
		if b.members[i].expected = t.Expected; t.Expected == 0 {
			b.members[i].expected = s.Expected(t.Tool)
		}
		for j := range i {
			if conflict(&entries[j], &entries[i]) {
				b.members[i].blockers++
				b.members[j].blocks = append(b.members[j].blocks, i)
			}
		}
	}
	return b
}

// Next gives the member to start now. ok is false if none may start until
// another has ended, or ever.
func (b *Batch) Next() (index int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped || b.running >= b.max {
		return 0, false
	}
	best := -1
	for i := range b.members {
		m := &b.members[i]
		if m.started || m.blockers > 0 {
			continue
		}
		if best < 0 || m.expected > b.members[best].expected {
			best = i
		}
	}
	if best < 0 {
		return 0, false
	}
	b.members[best].started = true
	b.running++
	return best, true
}

// Done says that a started member has ended.
func (b *Batch) Done(index int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := &b.members[index]
	if !m.started || m.ended {
		return
	}
	m.ended = true
	b.running--
	b.left--
	for _, i := range m.blocks {
		b.members[i].blockers--
	}
}

// Stop lets no further member start.
func (b *Batch) Stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = true
}

// Unstarted lists the members that were never started, in order.
func (b *Batch) Unstarted() []int {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []int
	for i := range b.members {
		if !b.members[i].started {
			list = append(list, i)
		}
	}
	return list
}

// Run starts every member with call, each on a goroutine of its own, and
// returns when all that were started have ended. It starts no more once ctx is
// done or [Batch.Stop] was called.
func (b *Batch) Run(ctx context.Context, call func(index int)) {
	ended := make(chan int)
	running := 0
	for {
		for ctx.Err() == nil {
			i, ok := b.Next()
			if !ok {
				break
			}
			running++
			go func() {
				defer func() { ended <- i }()
				call(i)
			}()
		}
		if running == 0 {
			return
		}
		b.Done(<-ended)
		running--
	}
}
