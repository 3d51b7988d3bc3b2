package toolyard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/internal/policy"
	"github.com/toolyard/toolyard/internal/process"
	"github.com/toolyard/toolyard/internal/question"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

func (t *Toolyard) newDesk() error {
	c := t.config.Questions
	if c.Webhook != "" {
		if err := question.CheckWebhook(c.Webhook); err != nil {
			return err
		}
	}
	t.desk = question.New(question.Config{
		Rows: t.store, Bus: t.bus, Keep: c.Keep, Webhook: c.Webhook, Always: t.saveAnswer,
		Identity: process.Identity(), Alive: process.Alive, Log: t.log,
	})
	return nil
}

// deskAsker asks through the desk, on behalf of one call and those that it makes.
type deskAsker struct {
	desk *question.Desk
	from question.From
	own  question.Asker // the caller's own channel; may be nil
}

func (a deskAsker) Ask(ctx context.Context, q tool.Question) (tool.Answer, error) {
	return a.desk.Ask(ctx, q, a.from, a.own)
}

// asker is who is asked about a call: its own channel and everybody else.
func (t *Toolyard) asker(c executor.Call) executor.Asker {
	if already, ok := c.Asker.(deskAsker); ok {
		return already
	}
	a := deskAsker{desk: t.desk, from: question.From{Session: c.Session, Workspace: c.Workspace, Tenant: c.Tenant}}
	if c.Asker != nil {
		a.own = c.Asker
	}
	return a
}

// saveAnswer saves the rules of an "always" that was answered elsewhere than over
// the caller's own channel, as the executor does for those.
func (t *Toolyard) saveAnswer(ctx context.Context, q store.Question) error {
	var details struct {
		Suggest   []string `json:"suggest"`
		Overrides []string `json:"overrides"`
	}
	if err := json.Unmarshal(q.Details, &details); err != nil {
		return fmt.Errorf("the rules of %s: %w", q.ID, err)
	}
	row := store.Rule{Scope: policy.Project.String(), ScopeKey: q.Workspace, Action: "allow", Overrides: details.Overrides, By: q.By}
	if q.Workspace == "" {
		row.Scope, row.ScopeKey = policy.Session.String(), q.Session
	}
	var errs []error
	for _, rule := range details.Suggest {
		if strings.Contains(rule, "[redacted") {
			errs = append(errs, tool.Errorf(tool.ParameterError, "the rule %s names a secret and cannot be saved", rule).
				WithHint("The call may run; save a wider rule with `toolyard policy allow`."))
			continue
		}
		row.Rule = rule
		if _, err := t.SaveRule(ctx, row); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Questions lists what people are and were asked, the newest first, at most
// 1,000.
func (t *Toolyard) Questions(ctx context.Context, f store.QuestionFilter) ([]store.Question, error) {
	if err := t.ready(ctx); err != nil {
		return nil, err
	}
	return t.desk.List(ctx, f)
}

// Question finds one question; NOT_FOUND if there is none.
func (t *Toolyard) Question(ctx context.Context, id string) (store.Question, error) {
	if err := t.ready(ctx); err != nil {
		return store.Question{}, err
	}
	return t.desk.Get(ctx, id)
}

// Answer answers a question in the name of a person, whichever process asks it.
// If nobody waits for it any more, the same call, made again, takes the answer,
// once. An "always" saves its rules. The error is NOT_FOUND, CONFLICT if the
// question is no longer pending, or PARAMETER_ERROR if the answer does not fit.
func (t *Toolyard) Answer(ctx context.Context, id string, a tool.Answer) error {
	if err := t.ready(ctx); err != nil {
		return err
	}
	return t.desk.Answer(ctx, id, a)
}

// WatchQuestions says that somebody looks at [Toolyard.Questions] from now on, so
// that calls of any process on the same store wait for an answer instead of being
// refused. release ends it; the caller must call it.
func (t *Toolyard) WatchQuestions() (release func()) { return t.desk.Watch() }

// AwaitQuestions is Questions as soon as the list is another than version names,
// with the name of what it is then; for an empty version, as soon as it is not
// empty. When ctx is done it gives the list as it is. Who waits watches.
func (t *Toolyard) AwaitQuestions(ctx context.Context, f store.QuestionFilter, version string) ([]store.Question, string, error) {
	if err := t.ready(ctx); err != nil {
		return nil, "", err
	}
	return t.desk.Await(ctx, f, version)
}

// questionsAPI is the questions as the HTTP API wants them.
type questionsAPI struct{ yard *Toolyard }

func (q questionsAPI) Question(ctx context.Context, id string) (store.Question, error) {
	return q.yard.Question(ctx, id)
}

func (q questionsAPI) Answer(ctx context.Context, id string, a tool.Answer) error {
	return q.yard.Answer(ctx, id, a)
}

func (q questionsAPI) Watch() (release func()) { return q.yard.WatchQuestions() }

// linger is how long who has waited for questions still counts as somebody who
// watches: until the next request is there.
const linger = 5 * time.Second

// Await lists at once where wait is zero.
func (q questionsAPI) Await(ctx context.Context, f store.QuestionFilter, version string, wait time.Duration) ([]store.Question, string, error) {
	if wait > 0 {
		release := q.yard.WatchQuestions()
		defer func() { time.AfterFunc(linger, release) }()
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return q.yard.AwaitQuestions(ctx, f, version)
}
