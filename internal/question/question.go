// Package question puts questions to people and keeps them: a question is a row
// of the store, outlives whoever asks it, is shown to everybody who can answer,
// and is answered once. It knows no protocol and no screen, and does not know
// what an answer permits.
package question

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolyard/toolyard/internal/event"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

// The states of a question.
const (
	Pending   = "pending"
	Answered  = "answered"
	Cancelled = "cancelled"
	Expired   = "expired"
)

// The kinds of questions.
const (
	Permission    = "permission"
	DoomLoop      = "doom_loop"
	Confirmation  = "confirmation"
	Risk          = "risk"
	Clarification = "clarification"
	Decision      = "decision"
	Env           = "env"
)

// The options of a permission question.
const (
	optionAlways = "always"
	optionReject = "reject"
)

// Types of the events of the bus.
const (
	EventAsked    = "question_asked"    // id, kind, title, deadline
	EventAnswered = "question_answered" // id, kind, option, by
	EventExpired  = "question_expired"  // id, kind, state: expired or cancelled
)

// DefaultKeep is how long a question that nobody could be shown can be answered.
const DefaultKeep = time.Hour

// Bounds.
const (
	maxWaiting = 1000      // questions of this process that wait, and as many that only lie there
	maxTitle   = 1 << 10   // bytes
	maxText    = 16 << 10  // bytes, also of an answer
	maxOptions = 64        // of one question
	maxLabel   = 1 << 10   // bytes of an option's texts
	maxDetails = 128 << 10 // bytes
	maxListed  = 1000      // questions of one list

	pollEvery = 250 * time.Millisecond // while something waits
	withdraw  = 2 * time.Second        // how long a channel may take to withdraw a question
)

// Rows are what a Desk keeps things in.
type Rows interface {
	store.Questions
	store.Settings
}

// Config is what a Desk works with. Only Rows is needed.
type Config struct {
	Rows Rows
	// Bus gets question_asked, question_answered and question_expired. Nil: none.
	Bus *event.Bus
	// Keep is how long a question that nobody could be shown can be answered.
	// Zero means [DefaultKeep].
	Keep time.Duration
	// Webhook is an http or https URL that each question is posted to, as JSON.
	// Whoever gets it answers over the HTTP API. Empty: none.
	Webhook string
	// Client posts to Webhook. Nil means one that follows no redirects.
	Client *http.Client
	// Always saves what an "always" answer allows beyond its call, where the answer
	// does not come over the asker's own channel. Nil leaves it to the asker.
	Always func(ctx context.Context, q store.Question) error
	// Identity names this process to others, and Alive says whether the process of
	// such a name is there. Without them every process is taken for alive.
	Identity string
	Alive    func(identity string) bool
	// Log gets what goes wrong. Nil discards.
	Log *slog.Logger
	// Now is the time. Nil means [time.Now].
	Now func() time.Time
}

// Desk keeps questions and brings their answers back. It is safe for concurrent
// use. Several desks, in several processes, may share the rows: each sees the
// answers that another has taken within a quarter of a second.
type Desk struct {
	config Config
	name   string // of this desk among those who watch
	closed chan struct{}
	work   sync.WaitGroup

	mu       sync.Mutex
	closing  bool
	waiting  map[string]map[*waiter]struct{} // by question
	count    int                             // of waiting, all together
	stopPoll func()                          // nil while nothing waits
	kept     []string                        // questions that nobody waits for, oldest first
	changed  chan struct{}                   // closed, and made anew, when a question of this desk changes

	watch watch
}

// watch is who looks at the questions here.
type watch struct {
	here atomic.Int64 // how many do

	mu   sync.Mutex // held while the store is told; nothing else waits for it
	stop func()     // nil while nobody watches
}

// waiter is one call that waits for an answer.
type waiter struct {
	id   string
	ring chan struct{} // there may be news
}

// New makes a Desk. The caller closes it.
func New(c Config) *Desk {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Keep <= 0 {
		c.Keep = DefaultKeep
	}
	if c.Client == nil {
		c.Client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return &Desk{
		config: c, name: watcherPrefix + c.Identity + "/" + newID(""), closed: make(chan struct{}),
		waiting: map[string]map[*waiter]struct{}{}, changed: make(chan struct{}),
	}
}

// Close lets those who wait go, as if nobody could be asked, and leaves their
// questions pending for whoever asks again. A second Close does nothing.
func (d *Desk) Close() error {
	d.mu.Lock()
	if !d.closing {
		d.closing = true
		close(d.closed)
	}
	d.mu.Unlock()
	d.work.Wait()
	return nil
}

// From is what asks.
type From struct {
	Session, Workspace, Tenant string
}

// Asker is a channel to a person. It returns soon after ctx is done, and
// [tool.ErrNoChannel] if nobody can be reached.
type Asker interface {
	Ask(ctx context.Context, q tool.Question) (tool.Answer, error)
}

// asked is an error about a question that is kept.
type asked struct {
	id  string
	err error
}

func (e *asked) Error() string { return e.err.Error() }
func (e *asked) Unwrap() error { return e.err }

// QuestionID is the ID of the question.
func (e *asked) QuestionID() string { return e.id }

// prefixes of IDs by kind.
func prefix(kind string) string {
	switch kind {
	case Permission, DoomLoop:
		return "perm_"
	case Decision, Confirmation, Risk:
		return "deci_"
	case Env:
		return "env_"
	}
	return "clar_"
}

// newID makes the prefix and 8 hex digits.
func newID(prefix string) string {
	var b [4]byte
	rand.Read(b[:]) // never fails, see crypto/rand
	return prefix + hex.EncodeToString(b[:])
}

// rowOf is q as it is kept, within the bounds.
func (d *Desk) rowOf(q tool.Question, from From) store.Question {
	now := d.config.Now().UTC().Truncate(time.Microsecond)
	row := store.Question{
		Kind: q.Kind, Session: from.Session, Call: q.Call, Tool: q.Tool, Workspace: from.Workspace,
		Title: cut(q.Title, maxTitle), Text: cut(q.Text, maxText), Default: q.Default, Fresh: q.Fresh,
		Created: now, Deadline: now.Add(q.Deadline), State: Pending,
	}
	if q.Binding != "" {
		// An answer to one kind of question is none to another.
		row.Binding = q.Kind + " " + q.Binding
	}
	for _, o := range q.Options[:min(len(q.Options), maxOptions)] {
		row.Options = append(row.Options, tool.Option{ID: o.ID, Label: cut(o.Label, maxLabel), Description: cut(o.Description, maxLabel)})
	}
	if len(q.Details) > 0 {
		if b, err := json.Marshal(q.Details); err == nil && len(b) <= maxDetails {
			row.Details = b
		} else {
			row.Details = json.RawMessage(`{"left_out":"the details are too long to be kept"}`)
		}
	}
	return row
}

// DefaultDeadline is how long a question that names no deadline waits.
const DefaultDeadline = 50 * time.Second

// cut keeps at most n bytes of text, at the border of a character.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	const mark = " […]"
	n -= len(mark)
	for n > 0 && text[n]&0xc0 == 0x80 {
		n--
	}
	return text[:n] + mark
}

// put inserts a row under a new ID.
func (d *Desk) put(ctx context.Context, row store.Question) (store.Question, error) {
	const tries = 8 // IDs are short: of a million questions some meet
	var err error
	for range tries {
		row.ID = newID(prefix(row.Kind))
		if err = d.config.Rows.PutQuestion(ctx, row); !errors.Is(err, store.ErrExists) {
			break
		}
	}
	return row, err
}

// tell publishes an event about a question.
func (d *Desk) tell(kind string, q store.Question, data map[string]any) {
	d.mu.Lock()
	close(d.changed)
	d.changed = make(chan struct{})
	d.mu.Unlock()
	if d.config.Bus == nil {
		return
	}
	data["id"], data["kind"] = q.ID, q.Kind
	d.config.Bus.Publish(tool.Event{Type: kind, Session: q.Session, CallID: q.Call, Tool: q.Tool, Data: data})
}
