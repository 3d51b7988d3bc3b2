package executor

import (
	"sync"
	"time"
)

// clock counts the time of one attempt. It stands while a person is asked, and
// with it the clocks of the calls that this one belongs to. The zero value is
// not running.
type clock struct {
	parent *clock

	mu     sync.Mutex
	timer  *time.Timer // nil if there is no limit
	left   time.Duration
	since  time.Time // when timer was last set going
	paused int
}

// start gives the attempt left; then expire is called in its own goroutine.
func (c *clock) start(left time.Duration, expire func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left, c.since = left, time.Now()
	c.timer = time.AfterFunc(left, expire)
	if c.paused > 0 {
		c.timer.Stop()
	}
}

// stop ends the attempt.
func (c *clock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}

// pause lets the clock stand until resume, also that of every caller.
func (c *clock) pause() {
	for ; c != nil; c = c.parent {
		c.mu.Lock()
		if c.paused++; c.paused == 1 && c.timer != nil && c.timer.Stop() {
			c.left -= time.Since(c.since)
		}
		c.mu.Unlock()
	}
}

func (c *clock) resume() {
	for ; c != nil; c = c.parent {
		c.mu.Lock()
		if c.paused--; c.paused == 0 && c.timer != nil {
			c.since = time.Now()
			c.timer.Reset(max(c.left, time.Millisecond))
		}
		c.mu.Unlock()
	}
}
