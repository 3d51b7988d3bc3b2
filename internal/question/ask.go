package question

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

// errWithdrawn is the cause that ends a channel whose question another has
// answered.
var errWithdrawn = errors.New("the question has been answered elsewhere")

// Ask keeps q, shows it to own (which may be nil), to everybody who watches and
// to the webhook, and waits for the first answer; the others are withdrawn. An
// answer that came too late for an earlier question with the same Binding is
// taken at once, and only once.
//
// The error is [tool.ErrNoChannel] if there is nobody to show it to. The question
// then stays pending for Config.Keep, so that it can be answered by its ID and
// counts for the next one with the same Binding. It is [tool.ErrNoAnswer] if the
// deadline passes, or ctx ends with that cause, and q has no Default. Both errors
// have a method QuestionID.
func (d *Desk) Ask(ctx context.Context, q tool.Question, from From, own Asker) (tool.Answer, error) {
	if err := d.enter(); err != nil {
		return tool.Answer{}, err
	}
	defer d.leave()
	if q.Deadline <= 0 {
		q.Deadline = DefaultDeadline
	}
	ctx, cancel := context.WithTimeoutCause(ctx, q.Deadline, tool.ErrNoAnswer)
	defer cancel()
	for {
		a, again, err := d.ask(ctx, q, from, own)
		if !again {
			return a, err
		}
		if ctx.Err() != nil {
			return tool.Answer{}, context.Cause(ctx)
		}
	}
}

// enter counts a question of this process; leave ends it.
func (d *Desk) enter() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closing {
		return tool.ErrNoChannel
	}
	if d.count >= maxWaiting {
		return tool.Errorf(tool.ResourceExhausted, "%d questions are waiting for a person already", d.count).
			WithHint("Have those answered first: `toolyard approve` lists them.")
	}
	d.count++
	d.work.Add(1)
	return nil
}

func (d *Desk) leave() {
	d.mu.Lock()
	d.count--
	d.mu.Unlock()
	d.work.Done()
}

// ask is one round of Ask. again says that the answer has gone to an equal
// question, so that this one has to be asked anew.
func (d *Desk) ask(ctx context.Context, q tool.Question, from From, own Asker) (_ tool.Answer, again bool, _ error) {
	row := d.rowOf(q, from)
	if a, ok := d.late(ctx, row); ok {
		return a, false, nil
	}
	row, err := d.keep(ctx, row)
	switch {
	case errors.Is(err, store.ErrSettled):
		return tool.Answer{}, true, nil
	case err != nil && ctx.Err() != nil:
		return tool.Answer{}, false, context.Cause(ctx)
	case err != nil:
		// What cannot be kept can still be asked, by who is there.
		d.config.Log.Error("a question is not kept", "err", err)
		if own == nil {
			return tool.Answer{}, false, fmt.Errorf("%w: the question cannot be kept: %v", tool.ErrNoChannel, err)
		}
		a, err := own.Ask(ctx, q)
		return a, false, err
	}
	q.ID = row.ID
	w := d.join(row.ID)
	defer d.quit(w)
	d.tell(EventAsked, row, map[string]any{"title": row.Title, "deadline": row.Deadline, "fresh": row.Fresh})
	return d.wait(ctx, q, row, own, w)
}

// late takes an answer that came after an equal question had gone.
func (d *Desk) late(ctx context.Context, row store.Question) (tool.Answer, bool) {
	if row.Binding == "" {
		return tool.Answer{}, false
	}
	old, err := d.config.Rows.TakeAnswer(ctx, row.Binding, row.Created)
	if err != nil {
		if !errors.Is(err, store.ErrNotFound) {
			d.config.Log.Error("an earlier answer cannot be read", "err", err)
		}
		return tool.Answer{}, false
	}
	return answerOf(old), true
}

func answerOf(q store.Question) tool.Answer {
	return tool.Answer{Option: q.Option, Text: q.Answer, By: q.By}
}

// keep puts the row into the store, or takes up a pending one that is equal and
// that nobody here waits for.
func (d *Desk) keep(ctx context.Context, row store.Question) (store.Question, error) {
	if row.Binding == "" {
		return d.put(ctx, row)
	}
	const few = 16
	equal, err := d.config.Rows.ListQuestions(ctx, store.QuestionFilter{State: Pending, Binding: row.Binding, Limit: few})
	if err != nil {
		return row, err
	}
	for _, old := range equal {
		if d.waitedFor(old.ID) || old.Deadline.Before(row.Created) {
			continue
		}
		if old.Deadline.Before(row.Deadline) {
			if err := d.config.Rows.ExtendQuestion(ctx, old.ID, row.Deadline); err != nil {
				return row, err
			}
			old.Deadline = row.Deadline
		}
		return old, nil
	}
	return d.put(ctx, row)
}

func (d *Desk) waitedFor(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.waiting[id]) > 0
}

// said is what a channel came back with.
type said struct {
	answer tool.Answer
	err    error
}

// wait shows the question and waits for what comes first.
func (d *Desk) wait(ctx context.Context, q tool.Question, row store.Question, own Asker, w *waiter) (_ tool.Answer, again bool, _ error) {
	var fromOwn chan said
	if own != nil {
		fromOwn = make(chan said, 1)
		asking, stop := context.WithCancelCause(ctx)
		ended := make(chan struct{})
		d.work.Go(func() {
			defer close(ended)
			a, err := own.Ask(asking, q)
			fromOwn <- said{a, err}
		})
		defer func() { // what it shows is gone before the call goes on
			stop(errWithdrawn)
			late := time.NewTimer(withdraw)
			defer late.Stop()
			select {
			case <-ended:
			case <-late.C:
			}
		}()
	}
	posted := d.post(row)
	reachable := func() bool { return fromOwn != nil || posted != nil || d.watched(ctx) }
	if !reachable() {
		return tool.Answer{}, false, d.abandon(ctx, row)
	}
	for {
		select {
		case s := <-fromOwn:
			fromOwn = nil
			switch {
			case s.err == nil:
				return d.accept(ctx, row, s.answer)
			case errors.Is(s.err, tool.ErrNoChannel) && !reachable():
				return tool.Answer{}, false, d.abandon(ctx, row)
			case errors.Is(s.err, tool.ErrNoChannel), ctx.Err() != nil:
				// Others may answer; the end of ctx is looked at below.
			default:
				d.withdraw(ctx, row, s.err)
				return tool.Answer{}, false, s.err
			}
		case err := <-posted:
			posted = nil
			if err != nil && !reachable() {
				return tool.Answer{}, false, d.abandon(ctx, row)
			} else if err == nil {
				posted = make(chan error) // somebody has it
			}
		case <-w.ring:
			if a, again, over, err := d.look(ctx, q, row); over {
				return a, again, err
			}
		case <-d.closed:
			return tool.Answer{}, false, d.abandon(ctx, row)
		case <-ctx.Done():
			return d.end(ctx, q, row)
		}
	}
}

// accept settles the question with the answer of its own channel, unless somebody
// was faster.
func (d *Desk) accept(ctx context.Context, row store.Question, a tool.Answer) (_ tool.Answer, again bool, _ error) {
	row.State, row.Option, row.Answer, row.By, row.Used = Answered, a.Option, cut(a.Text, maxText), a.By, true
	if row.Kind == Env {
		row.Answer = "" // values are no record
	}
	switch err := d.settle(ctx, row); {
	case errors.Is(err, store.ErrSettled):
		return d.taken(ctx, row.ID)
	case err != nil:
		d.config.Log.Error("an answer is not kept", "question", row.ID, "err", err)
	}
	return a, false, nil
}

// look reads the row and reports whether the question is over.
func (d *Desk) look(ctx context.Context, q tool.Question, row store.Question) (_ tool.Answer, again, over bool, _ error) {
	now, err := d.config.Rows.Question(ctx, row.ID)
	if err != nil {
		if errors.Is(err, store.ErrNotFound) {
			return tool.Answer{}, false, true, fmt.Errorf("%w: the question is no longer there", tool.ErrNoChannel)
		}
		return tool.Answer{}, false, false, nil // looked at again with the next tick
	}
	switch now.State {
	case Pending:
		return tool.Answer{}, false, false, nil
	case Answered:
		a, again, err := d.taken(ctx, row.ID)
		return a, again, true, err
	case Expired:
		a, err := unanswered(q, row)
		return a, false, true, err
	}
	return tool.Answer{}, true, true, nil
}

// taken takes the answer that somebody else has given. An answer that permits
// one thing reaches one call; others hold for all who waited for it.
func (d *Desk) taken(ctx context.Context, id string) (_ tool.Answer, again bool, _ error) {
	ctx = context.WithoutCancel(ctx) // an answer that was given counts
	q, err := d.config.Rows.TakeQuestion(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		if q, err = d.config.Rows.Question(ctx, id); err == nil && (q.State != Answered || single(q)) {
			return tool.Answer{}, true, nil
		}
	}
	if err != nil {
		return tool.Answer{}, false, fmt.Errorf("the answer to %s: %w", id, err)
	}
	return answerOf(q), false, nil
}

// single tells an answer that permits something once.
func single(q store.Question) bool {
	switch q.Kind {
	case Permission, DoomLoop, Confirmation, Risk:
		return q.Option != optionAlways && q.Option != optionReject
	}
	return false
}

// keepUntil is the deadline of what lies there.
func (d *Desk) keepUntil() time.Time {
	return d.config.Now().UTC().Add(d.config.Keep).Truncate(time.Microsecond)
}

// abandon leaves the question pending, for Config.Keep, as nobody can be shown it
// now. Without a binding no answer could ever be used.
func (d *Desk) abandon(ctx context.Context, row store.Question) error {
	ctx = context.WithoutCancel(ctx)
	if row.Binding == "" {
		d.withdraw(ctx, row, tool.ErrNoChannel)
		return tool.ErrNoChannel
	}
	if err := d.config.Rows.ExtendQuestion(ctx, row.ID, d.keepUntil()); err != nil && !errors.Is(err, store.ErrSettled) {
		d.config.Log.Error("a question is not kept", "question", row.ID, "err", err)
	}
	d.mu.Lock()
	d.kept = append(slices.DeleteFunc(d.kept, func(id string) bool { return id == row.ID }), row.ID)
	oldest := ""
	if len(d.kept) > maxWaiting {
		oldest, d.kept = d.kept[0], slices.Clone(d.kept[1:])
	}
	d.mu.Unlock()
	if oldest != "" {
		if old, err := d.config.Rows.Question(ctx, oldest); err == nil && old.State == Pending {
			d.withdraw(ctx, old, errors.New("too many questions"))
		}
	}
	return &asked{row.ID, tool.ErrNoChannel}
}

// settledBy is the cause of a context that ends because the answer to another
// question covers this one.
type settledBy interface {
	error
	SettledBy() (id, by string)
}

// end is where ctx ends before an answer.
func (d *Desk) end(ctx context.Context, q tool.Question, row store.Question) (_ tool.Answer, again bool, _ error) {
	cause := context.Cause(ctx)
	other, covered := errors.AsType[settledBy](cause)
	switch {
	case covered:
		id, by := other.SettledBy()
		row.State, row.Option, row.By, row.Used = Answered, optionAlways, answering(by, id), true
	case errors.Is(cause, tool.ErrNoAnswer), errors.Is(cause, context.DeadlineExceeded):
		row.State = Expired
		if q.Default != "" {
			row.Option, row.By = q.Default, "default"
		}
	default:
		row.State, row.By = Cancelled, cause.Error()
	}
	err := d.settle(ctx, row)
	switch {
	case errors.Is(err, store.ErrSettled): // an answer at the last moment counts
		a, again, err := d.taken(ctx, row.ID)
		if again || err != nil {
			return tool.Answer{}, false, cause
		}
		return a, false, nil
	case err != nil:
		d.config.Log.Error("the end of a question is not kept", "question", row.ID, "err", err)
	}
	if row.State == Expired {
		a, err := unanswered(q, row)
		return a, false, err
	}
	return tool.Answer{}, false, cause
}

// unanswered is what holds if nobody answers: the default if there is one, no to
// what has to be confirmed, and else nothing. Never the first option.
func unanswered(q tool.Question, row store.Question) (tool.Answer, error) {
	if q.Default != "" {
		return tool.Answer{Option: q.Default, By: "default"}, nil
	}
	if row.Kind == Confirmation || row.Kind == Risk {
		if slices.ContainsFunc(q.Options, func(o tool.Option) bool { return o.ID == optionReject }) {
			return tool.Answer{Option: optionReject, Text: tool.ErrNoAnswer.Error(), By: "default"}, nil
		}
	}
	return tool.Answer{}, &asked{row.ID, tool.ErrNoAnswer}
}

// withdraw cancels a question; why is kept.
func (d *Desk) withdraw(ctx context.Context, row store.Question, why error) {
	row.State, row.Option, row.By = Cancelled, "", cut(why.Error(), maxLabel)
	if err := d.settle(ctx, row); err != nil && !errors.Is(err, store.ErrSettled) {
		d.config.Log.Error("a question is not withdrawn", "question", row.ID, "err", err)
	}
}

// settle ends a question durably, as its state says, and tells everybody.
func (d *Desk) settle(ctx context.Context, row store.Question) error {
	row.Answered = d.config.Now().UTC().Truncate(time.Microsecond)
	if err := d.config.Rows.SettleQuestion(context.WithoutCancel(ctx), row); err != nil {
		return err
	}
	d.wake(row.ID)
	if row.State == Answered {
		d.tell(EventAnswered, row, map[string]any{"option": row.Option, "by": row.By})
		if row.Option == optionAlways && row.Kind == Permission {
			d.cover(context.WithoutCancel(ctx), row)
		}
	} else {
		d.tell(EventExpired, row, map[string]any{"state": row.State})
	}
	return nil
}
