package mcp

import (
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard/tool"
)

const (
	methodProgress = "notifications/progress"
	// progressBurst is how many progress notifications of a call there are at most in
	// progressSpan.
	progressBurst = 4
	progressSpan  = time.Second
	// maxProgressText bounds the message of one, in bytes.
	maxProgressText = 300
)

// progress turns a call's events into progress notifications, at most four a
// second. What comes when there were as many is joined into the next one. A nil progress does
// nothing.
type progress struct {
	token  json.RawMessage
	notify func(method string, params []byte)

	mu      sync.Mutex
	timer   *time.Timer // runs while something may not be sent yet
	pending bool
	stopped bool
	counted bool // the tool reports numbers of its own
	value   float64
	sent    float64                  // the last value sent; progress must rise
	last    [progressBurst]time.Time // when the last ones were sent, in a ring
	next    int
	total   float64
	message string
}

func newProgress(token json.RawMessage, notify func(string, []byte)) *progress {
	if token == nil || notify == nil {
		return nil
	}
	return &progress{token: token, notify: notify, sent: -1}
}

// follow goes on towards another exchange of the same call; with a nil notify
// there is none, and nothing is sent.
func (p *progress) follow(token json.RawMessage, notify func(string, []byte)) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.token, p.notify = token, notify
}

// event takes an event of the call.
func (p *progress) event(e tool.Event) {
	switch e.Type {
	case tool.EventCallOutput:
		text, _ := e.Data["text"].(string)
		p.update(func() {
			if !p.counted {
				p.value += float64(len(text))
			}
			if line := lastLine(text); line != "" {
				p.message = line
			}
		})
	case tool.EventCallProgress:
		p.update(func() {
			p.counted = true
			p.value = number(e.Data["progress"])
			p.total = number(e.Data["total"])
			if m, ok := e.Data["message"].(string); ok {
				p.message = cutText(m, maxProgressText)
			}
		})
	}
}

// note sends a message of our own, such as that a person is being asked.
func (p *progress) note(message string) {
	if p == nil {
		return
	}
	p.update(func() {
		p.value = max(p.value, p.sent+1)
		p.message = message
	})
}

// update changes what is to be told and tells it when that is due.
func (p *progress) update(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return
	}
	change()
	if p.timer != nil {
		p.pending = true
		return
	}
	p.send()
}

// send tells the present state and starts a pause if that is due; p is locked.
func (p *progress) send() {
	p.pending = false
	if p.value <= p.sent || p.token == nil || p.notify == nil {
		return
	}
	p.sent = p.value
	b := append([]byte(`{"progressToken":`), p.token...)
	b = strconv.AppendFloat(append(b, `,"progress":`...), p.value, 'f', -1, 64)
	if p.total > 0 {
		b = strconv.AppendFloat(append(b, `,"total":`...), p.total, 'f', -1, 64)
	}
	if p.message != "" {
		b = appendString(append(b, `,"message":`...), p.message)
	}
	p.notify(methodProgress, append(b, '}'))
	p.last[p.next] = time.Now()
	p.next = (p.next + 1) % progressBurst
	wait := progressSpan - time.Since(p.last[p.next])
	if wait <= 0 {
		return
	}
	p.timer = time.AfterFunc(wait, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.timer = nil
		if p.pending && !p.stopped {
			p.send()
		}
	})
}

// stop ends the notifications; none is sent after it returns.
func (p *progress) stop() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	if p.timer != nil {
		p.timer.Stop()
	}
}

// lastLine is the last line of text that is not blank.
func lastLine(text string) string {
	text = strings.TrimRight(text, " \t\r\n")
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		text = text[i+1:]
	}
	return cutText(strings.TrimSpace(text), maxProgressText)
}

func number(v any) float64 {
	switch n := v.(type) {
	case float64:
		return n
	case int:
		return float64(n)
	case int64:
		return float64(n)
	}
	return 0
}
