package upstream

import (
	"bytes"
	"encoding/json"
	"sync"
)

// The bounds of what waits for Config.Notification.
const (
	maxNotes     = 1024
	maxNoteBytes = 16 << 20
)

// note is a notification that belongs to no call. The method "" stands for
// Config.Renewed.
type note struct {
	method string
	params json.RawMessage
}

// idle reports whether a note may be lost without harm.
func (n note) idle() bool {
	return n.method == "notifications/message" || n.method == "notifications/progress"
}

// notes is the bounded queue before Config.Notification.
type notes struct {
	wake  chan struct{} // one place
	mu    sync.Mutex
	queue []note
	bytes int
}

// add puts n last. One that waits already, as list_changed does when many come,
// is not put twice. If there are too many, the oldest message of a log or of
// progress goes, else the oldest. It reports how many went.
func (q *notes) add(n note) (dropped int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !n.idle() {
		for _, old := range q.queue {
			if old.method == n.method && bytes.Equal(old.params, n.params) {
				return 0
			}
		}
	}
	q.queue = append(q.queue, n)
	q.bytes += len(n.params)
	for len(q.queue) > 1 && (len(q.queue) > maxNotes || q.bytes > maxNoteBytes) {
		at := 0
		for i, old := range q.queue {
			if old.idle() {
				at = i
				break
			}
		}
		q.bytes -= len(q.queue[at].params)
		q.queue = append(q.queue[:at], q.queue[at+1:]...)
		dropped++
	}
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return dropped
}

func (q *notes) take() []note {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.queue
	q.queue, q.bytes = nil, 0
	return all
}

// deliver hands notifications on until the connection ends.
func (c *Client) deliver() {
	for {
		select {
		case <-c.notes.wake:
		case <-c.ctx.Done():
			return
		}
		for _, n := range c.notes.take() {
			switch {
			case c.ctx.Err() != nil:
				return
			case n.method == "" && c.conf.Renewed != nil:
				c.conf.Renewed()
			case n.method != "" && c.conf.Notification != nil:
				c.conf.Notification(n.method, n.params)
			}
		}
	}
}

func (c *Client) note(method string, params json.RawMessage) {
	c.dropped.Add(c.notes.add(note{method, params}))
}
