package question

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

// Answer answers a question in the name of a person. The error is NOT_FOUND,
// CONFLICT if it is no longer pending (it says who answered, and when), or
// PARAMETER_ERROR if there is no such option.
func (d *Desk) Answer(ctx context.Context, id string, a tool.Answer) error {
	q, err := d.Get(ctx, id)
	if err != nil {
		return err
	}
	return d.answer(ctx, q, a)
}

// AnswerByModel is Answer for a model, which may answer what a client without any
// channel to a person leaves to it: clarifications and plain decisions of its own
// session. Anything else is PERMISSION_DENIED.
func (d *Desk) AnswerByModel(ctx context.Context, session, id string, a tool.Answer) error {
	q, err := d.Get(ctx, id)
	if err != nil {
		return err
	}
	if q.Session != session {
		return notThere(id)
	}
	if !ModelMayAnswer(q.Kind) {
		return tool.Errorf(tool.PermissionDenied, "only a person can answer %s, a question about %s", id, q.Kind).
			WithHint("Ask the person to run `toolyard approve %s`.", id)
	}
	a.By = "model"
	return d.answer(ctx, q, a)
}

// ModelMayAnswer says whether a model may answer questions of a kind.
func ModelMayAnswer(kind string) bool { return kind == Clarification || kind == Decision }

func notThere(id string) error {
	return tool.Errorf(tool.NotFound, "there is no question %s", cut(id, 100)).WithHint("`toolyard approve --list` lists those that wait.")
}

func (d *Desk) answer(ctx context.Context, q store.Question, a tool.Answer) error {
	if q.State != Pending {
		return conflict(q)
	}
	if err := fits(q, a); err != nil {
		return err
	}
	if until := d.keepUntil(); q.Binding != "" && q.Deadline.Before(until) {
		q.Deadline = until // who asked may be gone: the answer given in time waits for the next one
	}
	q.State, q.Option, q.Answer, q.By = Answered, a.Option, a.Text, cut(a.By, maxLabel)
	always := q.Option == optionAlways && q.Kind == Permission && d.config.Always != nil
	// What it allows for good is a rule by then; the answer itself is not needed
	// later. Who waits for it now gets it all the same.
	q.Used = always
	err := d.settle(ctx, q)
	if errors.Is(err, store.ErrSettled) {
		if now, e := d.config.Rows.Question(ctx, q.ID); e == nil {
			return conflict(now)
		}
		return tool.Errorf(tool.Conflict, "%s has just been answered", q.ID)
	}
	if err != nil {
		return fmt.Errorf("answering %s: %w", q.ID, err)
	}
	if always {
		return d.config.Always(context.WithoutCancel(ctx), q)
	}
	return nil
}

// conflict says what became of a question.
func conflict(q store.Question) error {
	at := q.Answered.Local().Format(time.TimeOnly)
	switch q.State {
	case Expired:
		return tool.Errorf(tool.Conflict, "%s expired at %s", q.ID, q.Deadline.Local().Format(time.TimeOnly)).
			WithHint("The call has to be made again; then it asks anew.").WithDetail("state", q.State)
	case Cancelled:
		return tool.Errorf(tool.Conflict, "%s was withdrawn at %s: %s", q.ID, at, q.By).
			WithHint("The call has to be made again; then it asks anew.").WithDetail("state", q.State)
	}
	by := q.By
	if by == "" {
		by = "somebody"
	}
	return tool.Errorf(tool.Conflict, "%s was answered by %s at %s: %s", q.ID, by, at, orText(q)).
		WithHint("The first answer counts.").WithDetail("state", q.State).WithDetail("by", q.By).WithDetail("option", q.Option)
}

func orText(q store.Question) string {
	if q.Option != "" {
		return q.Option
	}
	return cut(q.Answer, 200)
}

// fits checks an answer against its question.
func fits(q store.Question, a tool.Answer) error {
	wrong := func(field, hint, format string, args ...any) error {
		e := tool.Errorf(tool.ParameterError, format, args...).WithHint("%s", hint)
		e.Field = field
		return e
	}
	ids := make([]string, len(q.Options))
	for i, o := range q.Options {
		ids[i] = o.ID
	}
	options := "Its options are " + strings.Join(ids, ", ") + "."
	if len(ids) == 0 {
		options = "Answer it with a text."
	}
	switch {
	case q.Kind == Env && a.Text != "":
		return wrong("text", "Set it in the secret store.", "the value of a variable cannot be given here: answers are kept in the record")
	case len(a.Text) > maxText:
		return wrong("text", "Say it shorter.", "the text has %d bytes, more than %d", len(a.Text), maxText)
	case a.Option != "" && !slices.Contains(ids, a.Option):
		return wrong("option", options, "%s has no option %q", q.ID, cut(a.Option, 100))
	case a.Option == "" && len(ids) > 0 && (a.Text == "" || !custom(q)):
		return wrong("option", options, "%s needs one of its options", q.ID)
	case a.Option == "" && a.Text == "":
		return wrong("text", options, "%s needs a text", q.ID)
	}
	return nil
}

// details are the members of Details that mean something here.
type details struct {
	AllowCustom bool     `json:"allow_custom"`
	Rule        string   `json:"rule"`
	Suggest     []string `json:"suggest"`
}

func detailsOf(q store.Question) (found details) {
	_ = json.Unmarshal(q.Details, &found) // what is not there is empty
	return found
}

// custom says that a question with options may be answered freely.
func custom(q store.Question) bool { return detailsOf(q).AllowCustom }

// cover settles the other pending questions that an "always" answer covers: those
// of the same workspace (without one, of the same session) that met the same rule
// and that no other rules would have allowed. The executor does the same, more
// exactly, for the calls of its own process.
func (d *Desk) cover(ctx context.Context, by store.Question) {
	given := detailsOf(by)
	if len(given.Suggest) == 0 {
		return
	}
	rows, err := d.config.Rows.ListQuestions(ctx, store.QuestionFilter{State: Pending, Limit: maxListed})
	if err != nil {
		d.config.Log.Error("pending questions cannot be read", "err", err)
		return
	}
	for _, q := range rows {
		same := q.Workspace == by.Workspace && (by.Workspace != "" || q.Session == by.Session)
		offered := slices.ContainsFunc(q.Options, func(o tool.Option) bool { return o.ID == optionAlways })
		asked := detailsOf(q)
		if q.ID == by.ID || q.Kind != Permission || !same || !offered || asked.Rule != given.Rule || len(asked.Suggest) == 0 {
			continue
		}
		if slices.ContainsFunc(asked.Suggest, func(rule string) bool { return !slices.Contains(given.Suggest, rule) }) {
			continue
		}
		q.State, q.Option, q.By, q.Used = Answered, optionAlways, answering(by.By, by.ID), true
		q.Answered = d.config.Now().UTC().Truncate(time.Microsecond)
		switch err := d.config.Rows.SettleQuestion(ctx, q); {
		case err == nil:
			d.wake(q.ID)
			d.tell(EventAnswered, q, map[string]any{"option": q.Option, "by": q.By})
		case !errors.Is(err, store.ErrSettled):
			d.config.Log.Error("a question is not settled", "question", q.ID, "err", err)
		}
	}
}

// answering says who answered a question by answering another.
func answering(by, id string) string {
	switch {
	case id == "":
		return by
	case by == "":
		return "the answer to " + id
	}
	return by + ", by the answer to " + id
}

// Get finds a question. One whose deadline has passed is expired by then. The
// error is NOT_FOUND.
func (d *Desk) Get(ctx context.Context, id string) (store.Question, error) {
	q, err := d.config.Rows.Question(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return q, notThere(id)
	}
	if err != nil {
		return q, fmt.Errorf("question %s: %w", id, err)
	}
	if d.overdue(q) {
		q = d.expire(ctx, q)
	}
	return q, nil
}

// List gives the questions that f selects, the newest first, at most 1,000.
// Those whose deadline has passed are expired by then.
func (d *Desk) List(ctx context.Context, f store.QuestionFilter) ([]store.Question, error) {
	if f.Limit > maxListed {
		f.Limit = maxListed
	}
	rows, err := d.config.Rows.ListQuestions(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("questions: %w", err)
	}
	found := rows[:0]
	for _, q := range rows {
		if d.overdue(q) {
			q = d.expire(ctx, q)
		}
		if f.State == "" || q.State == f.State {
			found = append(found, q)
		}
	}
	return found, nil
}

// Expire ends the pending questions whose deadline has passed and whose asker is
// gone. It is done for each list too; this keeps the record right where nobody
// looks.
func (d *Desk) Expire(ctx context.Context) error {
	_, err := d.List(ctx, store.QuestionFilter{State: Pending, Limit: maxListed})
	return err
}

func (d *Desk) overdue(q store.Question) bool {
	return q.State == Pending && q.Deadline.Before(d.config.Now())
}

func (d *Desk) expire(ctx context.Context, q store.Question) store.Question {
	over := q
	over.State = Expired
	if q.Default != "" {
		over.Option, over.By = q.Default, "default"
	}
	err := d.settle(ctx, over)
	if errors.Is(err, store.ErrSettled) {
		if now, err := d.config.Rows.Question(ctx, q.ID); err == nil {
			return now
		}
	}
	over.Answered = q.Deadline
	return over // also where the store is full: the deadline has passed
}
