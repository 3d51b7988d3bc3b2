package question

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/store"
)

// Who watches tells other processes so by a setting that has to be renewed.
const (
	watcherPrefix = "question.watcher/"
	beatEvery     = 3 * time.Second
	beatHolds     = 15 * time.Second // a busy machine may be late
)

// Watch says that somebody looks at the pending questions from now on, so that a
// question waits for them: a console, a terminal, a long poll. Other processes on
// the same store know it too when Watch returns. release ends it; it may be called
// more than once.
func (d *Desk) Watch() (release func()) {
	w := &d.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.here.Add(1) == 1 && d.begin() {
		ctx, cancel := context.WithCancel(context.Background())
		d.beat(ctx)
		ended := make(chan struct{})
		go func() { // counted by begin; ends with stop or Close
			defer d.work.Done()
			defer close(ended)
			d.keepBeating(ctx)
		}()
		w.stop = func() { cancel(); <-ended }
	}
	var once sync.Once
	return func() { once.Do(d.unwatch) }
}

func (d *Desk) unwatch() {
	w := &d.watch
	w.mu.Lock()
	defer w.mu.Unlock() // a Watch that comes now begins when this one has ended
	if w.here.Add(-1) == 0 && w.stop != nil {
		w.stop()
		w.stop = nil
	}
}

// begin counts a piece of work that Close waits for, unless it has begun.
func (d *Desk) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closing {
		d.work.Add(1)
	}
	return !d.closing
}

// beat says that this process watches.
func (d *Desk) beat(ctx context.Context) {
	until := d.config.Now().Add(beatHolds).UTC().Format(time.RFC3339Nano)
	if err := d.config.Rows.PutSetting(ctx, d.name, until); err != nil && ctx.Err() == nil {
		d.config.Log.Warn("other processes do not know that somebody watches", "err", err)
	}
}

func (d *Desk) keepBeating(ctx context.Context) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
			d.beat(ctx)
			continue
		case <-ctx.Done():
		case <-d.closed:
		}
		break
	}
	if err := d.config.Rows.DeleteSetting(context.WithoutCancel(ctx), d.name); err != nil && !errors.Is(err, store.ErrNotFound) {
		d.config.Log.Warn("other processes take it that somebody watches", "err", err)
	}
}

// watched says whether somebody looks at the pending questions, here or in
// another process.
func (d *Desk) watched(ctx context.Context) bool {
	if d.watch.here.Load() > 0 {
		return true
	}
	beats, err := d.config.Rows.ListSettings(ctx, watcherPrefix)
	if err != nil {
		return false
	}
	now := d.config.Now()
	for name, value := range beats {
		until, err := time.Parse(time.RFC3339Nano, value)
		identity, _, _ := strings.Cut(strings.TrimPrefix(name, watcherPrefix), "/")
		if err == nil && now.Before(until) && (d.config.Alive == nil || identity == "" || d.config.Alive(identity)) {
			return true
		}
		// Left behind by a process that was killed.
		_ = d.config.Rows.DeleteSetting(ctx, name)
	}
	return false
}

// Await gives the questions that f selects, with a name for the state of the
// list, as soon as that is another than version; when ctx is done, the list as it
// is then. An empty version waits for a list that is not empty. Who waits watches.
func (d *Desk) Await(ctx context.Context, f store.QuestionFilter, version string) ([]store.Question, string, error) {
	if ctx.Err() == nil {
		defer d.Watch()()
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		d.mu.Lock()
		changed := d.changed
		d.mu.Unlock()
		rows, err := d.List(context.WithoutCancel(ctx), f)
		if err != nil {
			return nil, "", err
		}
		now := versionOf(rows)
		if ctx.Err() != nil || version == "" && len(rows) > 0 || version != "" && now != version {
			return rows, now, nil
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-d.closed:
			return rows, now, nil
		case <-ctx.Done():
		}
	}
}

// versionOf names the state of a list.
func versionOf(rows []store.Question) string {
	h := sha256.New()
	for _, q := range rows {
		fmt.Fprintln(h, q.ID, q.State, q.Deadline.UnixMicro())
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// join enters a call that waits for a question; quit leaves. While anybody waits,
// one goroutine looks for answers that other processes have taken.
func (d *Desk) join(id string) *waiter {
	w := &waiter{id, make(chan struct{}, 1)}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting[id] == nil {
		d.waiting[id] = map[*waiter]struct{}{}
	}
	d.waiting[id][w] = struct{}{}
	if d.stopPoll == nil {
		ctx, cancel := context.WithCancel(context.Background())
		d.work.Go(func() { d.poll(ctx) })
		d.stopPoll = cancel
	}
	return w
}

func (d *Desk) quit(w *waiter) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if delete(d.waiting[w.id], w); len(d.waiting[w.id]) == 0 {
		delete(d.waiting, w.id)
	}
	if len(d.waiting) == 0 && d.stopPoll != nil {
		d.stopPoll()
		d.stopPoll = nil
	}
}

// poll wakes those whose question is no longer pending, until ctx is done.
func (d *Desk) poll(ctx context.Context) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		ids, err := d.config.Rows.PendingQuestions(ctx)
		if err != nil {
			continue // what waits goes on waiting until its deadline
		}
		pending := make(map[string]bool, len(ids))
		for _, id := range ids {
			pending[id] = true
		}
		d.mu.Lock()
		for id, all := range d.waiting {
			if !pending[id] {
				ringAll(all)
			}
		}
		d.mu.Unlock()
	}
}

// wake lets those look who wait for a question here.
func (d *Desk) wake(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ringAll(d.waiting[id])
}

func ringAll(all map[*waiter]struct{}) {
	for w := range all {
		select {
		case w.ring <- struct{}{}:
		default: // it has been told
		}
	}
}
