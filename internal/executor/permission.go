package executor

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolyard/toolyard/internal/policy"
	"github.com/toolyard/toolyard/internal/secret"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

// The options of a permission question.
const (
	optionOnce   = "once"
	optionAlways = "always"
	optionReject = "reject"
)

// asker puts questions on behalf of calls, with their clocks standing.
type asker struct {
	deadline time.Duration
	secrets  *secret.Redactor
	recorder *recorder
}

// stillAsking is how often a client hears that the call waits for a person.
const stillAsking = 10 * time.Second

// ask puts q to the person behind c. It returns tool.ErrNoChannel if there is
// none, and tool.ErrNoAnswer after the deadline.
func (a asker) ask(ctx context.Context, c *call, q tool.Question) (tool.Answer, error) {
	if c.in.Asker == nil {
		return tool.Answer{}, tool.ErrNoChannel
	}
	if q.Deadline <= 0 {
		q.Deadline = a.deadline
	}
	q.ID, q.Call, q.Tool = "", c.in.ID, c.name
	q.Title, q.Text, q.Details = a.secrets.String(q.Title), a.secrets.String(q.Text), a.secrets.Map(q.Details)
	if !a.secrets.Empty() {
		q.Options = slices.Clone(q.Options)
		for i, o := range q.Options {
			q.Options[i].Label, q.Options[i].Description = a.secrets.String(o.Label), a.secrets.String(o.Description)
		}
	}
	c.clock.pause()
	defer c.clock.resume()
	limited, cancel := context.WithTimeoutCause(ctx, q.Deadline, tool.ErrNoAnswer)
	defer cancel()
	defer a.progress(c)()
	answer, err := c.in.Asker.Ask(limited, q)
	switch {
	case err == nil:
		return answer, nil
	case ctx.Err() != nil:
		return tool.Answer{}, context.Cause(ctx)
	case limited.Err() != nil && !errors.Is(err, tool.ErrNoAnswer):
		return tool.Answer{}, tool.ErrNoAnswer
	}
	return tool.Answer{}, err
}

// questionID is the ID of the question that an error of an Asker is about; "" if
// it is not kept.
func questionID(err error) string {
	if kept, ok := errors.AsType[interface {
		error
		QuestionID() string
	}](err); ok {
		return kept.QuestionID()
	}
	return ""
}

// about adds to a refusal which question it is about.
func about(refused *tool.Error, asked error) *tool.Error {
	if id := questionID(asked); id != "" {
		return refused.WithDetail("question", id)
	}
	return refused
}

// progress tells the client of c that a person is asked, until stopped.
func (a asker) progress(c *call) (stop func()) {
	if !a.recorder.heard(c) {
		return func() {}
	}
	since, over := time.Now(), make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		tick := time.NewTicker(stillAsking)
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case <-tick.C:
				a.recorder.publish(c, tool.EventCallProgress, map[string]any{
					"progress": time.Since(since).Seconds(), "message": "waiting for a person's answer",
				})
			}
		}
	})
	return func() {
		close(over)
		ended.Wait()
	}
}

// grants are the rules that answers have given to one call, or one batch, and
// all that it calls. The next call gets them from the policy.
type grants struct {
	mu    sync.Mutex
	rules []policy.Rule
}

func (g *grants) add(rules []policy.Rule) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rules = append(g.rules[:len(g.rules):len(g.rules)], rules...)
}

func (g *grants) list() []policy.Rule {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.rules
}

// permission lets a call pass only if the policy, or a person, allows it.
type permission struct {
	policy   *atomic.Pointer[policy.Policy]
	home     string
	real     func(workspace, path string) (string, error) // may be nil
	save     func(ctx context.Context, r store.Rule) error
	ask      asker
	recorder *recorder
	log      *slog.Logger

	mu      sync.Mutex
	derived *lru[string, *derived]      // by session
	granted *lru[string, []policy.Rule] // by session; only without save
	pending map[*pending]struct{}
}

// derived is the policy of one session.
type derived struct {
	base    *policy.Policy
	rules   []policy.Rule
	granted int
	policy  *policy.Policy
}

// pending is a question that waits for an answer; settle ends it as allowed.
type pending struct {
	c      *call
	settle context.CancelCauseFunc
	own    bool // the tool itself wants the question, whatever the rules say
}

// settled ends a question that the answer about another call has settled.
type settled struct{ call, by string }

func (settled) Error() string { return "settled by another answer" }

// SettledBy says by which.
func (s settled) SettledBy() (call, by string) { return s.call, s.by }

func isSettled(err error) bool { _, ok := errors.AsType[settled](err); return ok }

func (s *permission) wrap(next handler) handler {
	return func(ctx context.Context, c *call) *tool.Result {
		if err := s.decide(ctx, c); err != nil {
			return refuse(err)
		}
		return next(ctx, c)
	}
}

// maxAsked is how often one call asks anew because the rules changed while a
// person was thinking.
const maxAsked = 3

func (s *permission) decide(ctx context.Context, c *call) error {
	for range maxAsked {
		asked, err := s.once(ctx, c)
		if err != nil || !asked {
			return err
		}
		s.renew(ctx, c)
		if s.of(c).Version() == c.askedUnder {
			return nil
		}
		// The answer was given under other rules. Those of now decide, together with
		// what the answer has allowed.
		if v := s.check(c); v.Action == tool.Deny {
			c.verdict, c.rule = v.Action, v.Rule
			return denied(c, v)
		} else if v.Action == tool.Allow || v.Rule == c.rule {
			return nil
		}
	}
	return tool.Errorf(tool.PermissionDenied, "the rules about %s changed each time a person was asked", c.name).
		WithHint("Try again once the rules stand.")
}

// renew gives the call the rules that hold for its session and workspace now.
func (s *permission) renew(ctx context.Context, c *call) {
	if c.in.Renew == nil {
		return
	}
	rules := c.in.Renew(ctx)
	s.mu.Lock() // another call's answer may be judging this one
	defer s.mu.Unlock()
	c.in.Rules = rules
}

// once judges the call under the rules of now and reports whether a person was
// asked.
func (s *permission) once(ctx context.Context, c *call) (asked bool, err error) {
	v, own := s.check(c), false
	if p, ok := c.handle.Tool.(tool.Permitter); ok && v.Action != tool.Deny {
		req := c.request()
		action, why := p.Permit(ctx, req, v.Action)
		if !bytes.Equal(req.Arguments, c.args) {
			// Narrowed arguments are new arguments: checked as any.
			if err := c.setArguments(req.Arguments); err != nil {
				return false, err
			}
			v = s.check(c)
		}
		if action > v.Action {
			v, own = policy.Verdict{Action: action, Rule: c.name, Reason: why}, true
		}
	}
	c.verdict, c.rule = v.Action, v.Rule
	switch v.Action {
	case tool.Allow:
		return false, nil
	case tool.Ask:
		return true, s.question(ctx, c, v, own)
	}
	return false, denied(c, v)
}

// check asks the policy about the call as it is now.
func (s *permission) check(c *call, more ...policy.Rule) policy.Verdict {
	q := policy.Query{
		Spec: c.spec, Arguments: c.args, Coordinates: c.coordinates,
		Workspace: c.in.Workspace, Home: s.home, Mode: c.in.Mode,
	}
	if p, ok := c.handle.Tool.(tool.PermissionSubject); ok {
		q.Subjects = p.Subjects(c.request())
	}
	if s.real != nil {
		q.Real = func(path string) (string, error) { return s.real(c.in.Workspace, path) }
	}
	rules := s.of(c)
	for _, list := range [][]policy.Rule{c.grants.list(), more} {
		if len(list) > 0 {
			rules = rules.With(list...)
		}
	}
	return rules.Check(q)
}

// of is the policy with the rules of the call's session.
func (s *permission) of(c *call) *policy.Policy {
	base := s.policy.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	granted, _ := s.granted.get(c.in.Session)
	if len(c.in.Rules) == 0 && len(granted) == 0 {
		return base
	}
	d, ok := s.derived.get(c.in.Session)
	if ok && d.base == base && d.granted == len(granted) && sameRules(d.rules, c.in.Rules) {
		return d.policy
	}
	d = &derived{base: base, rules: c.in.Rules, granted: len(granted), policy: base.With(append(granted[:len(granted):len(granted)], c.in.Rules...)...)}
	s.derived.put(c.in.Session, d)
	return d.policy
}

// sameRules compares lists of rules; usually they are one and the same slice.
func sameRules(a, b []policy.Rule) bool {
	if len(a) != len(b) || len(a) == 0 || &a[0] == &b[0] {
		return len(a) == len(b)
	}
	return slices.EqualFunc(a, b, func(x, y policy.Rule) bool {
		return x.Action == y.Action && x.Text == y.Text && x.Scope == y.Scope && x.Source == y.Source && slices.Equal(x.Overrides, y.Overrides)
	})
}

// denied is the refusal of a verdict.
func denied(c *call, v policy.Verdict) error {
	if v.Mode {
		return tool.Errorf(tool.ModeDenied, "%s", v.Reason).
			WithHint("Ask the person to switch to mode build, or do what needs no change.").
			WithDetail("mode", string(c.in.Mode))
	}
	err := tool.Errorf(tool.PermissionDenied, "%s is not allowed: %s", c.name, orRule(v)).
		WithHint("Do it another way, or ask the person to change the rule; `toolyard policy list` shows where it stands.")
	if v.Rule != "" {
		err = err.WithDetail("rule", v.Rule)
	}
	if v.Source != "" {
		err = err.WithDetail("source", v.Source)
	}
	return err
}

func orRule(v policy.Verdict) string {
	switch {
	case v.Reason != "":
		return v.Reason
	case v.Rule != "":
		return "rule " + v.Rule
	}
	return "no rule allows it"
}

// question asks a person about the call.
func (s *permission) question(ctx context.Context, c *call, v policy.Verdict, own bool) error {
	asking, settle := context.WithCancelCause(ctx)
	defer settle(nil)
	p := &pending{c, settle, own}
	s.mu.Lock()
	s.pending[p] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.pending, p)
		s.mu.Unlock()
	}()
	s.tell(c, tool.EventPermissionAsked, map[string]any{"rule": v.Rule, "reason": s.ask.secrets.String(v.Reason)})
	c.askedUnder = s.of(c).Version()
	answer, err := s.ask.ask(asking, c, questionOf(c, v))
	if err == nil || isSettled(err) {
		option := answer.Option
		if err != nil {
			option = optionAlways
		}
		s.tell(c, tool.EventPermissionReplied, map[string]any{"rule": v.Rule, "answer": option, "by": answer.By})
	}
	switch {
	case isSettled(err):
		return nil
	case ctx.Err() != nil:
		return cancelled(ctx, context.Cause(ctx))
	case errors.Is(err, tool.ErrNoChannel):
		return noChannel(c, v, questionID(err))
	case errors.Is(err, tool.ErrNoAnswer):
		return about(tool.Errorf(tool.PermissionTimeout, "nobody has allowed %s within %s", c.name, s.ask.deadline).
			WithHint("%s", "Try again when somebody is there, or have it allowed beforehand: "+commands(c, v)+".").
			WithDetail("rule", v.Rule), err)
	case err != nil:
		return tool.Errorf(tool.PermissionDenied, "nobody could be asked about %s: %v", c.name, err).WithHint("%s", "Have it allowed beforehand: "+commands(c, v)+".")
	}
	switch answer.Option {
	case optionOnce:
		return nil
	case optionAlways:
		s.always(ctx, c, v, answer.By)
		return nil
	}
	reason := answer.Text
	if reason == "" {
		reason = "without a reason"
	}
	return tool.Errorf(tool.PermissionDenied, "a person has refused %s: %s", c.name, reason).
		WithHint("Do what the person says, or do it another way.").WithDetail("reason", "rejected")
}

// binding names exactly this call under the rules it was asked under: tool and its
// version, arguments, session and workspace.
func (c *call) binding() string { return c.bindingOf(c.askedUnder) }

// bindingOf names exactly what this call asks.
func (c *call) bindingOf(asks ...string) string {
	return nameOf(append([]string{c.name, c.spec.Version, string(c.canonicalArguments()), c.in.Session, c.in.Workspace}, asks...)...)
}

// nameOf is a short name for a list of texts.
func nameOf(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d %s\n", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// ownBinding names a question of the tool, whatever the call's arguments are.
func (c *call) ownBinding(name string) string {
	return nameOf("own", c.name, c.in.Session, c.in.Workspace, name)
}

func (s *permission) tell(c *call, kind string, data map[string]any) {
	if s.recorder.heard(c) {
		s.recorder.publish(c, kind, data)
	}
}

// questionOf is what the person is shown.
func questionOf(c *call, v policy.Verdict) tool.Question {
	q := tool.Question{
		Kind: "permission", Title: "Allow " + c.name + "?", Text: v.Reason,
		Options: []tool.Option{{ID: optionOnce, Label: "Allow once"}},
		Details: map[string]any{"tool": c.name, "rule": v.Rule, "call_id": c.in.ID, "arguments": shown(c.args)},
		Binding: c.binding(), Fresh: c.parent == nil,
	}
	var parts []map[string]any
	for _, p := range v.Parts {
		if p.Action == tool.Ask {
			parts = append(parts, map[string]any{"kind": string(p.Kind), "text": cut(p.Text, maxInEvent), "rule": p.Rule, "reason": p.Reason})
		}
	}
	if len(parts) > 0 {
		q.Details["parts"] = parts
	}
	if v.Source != "" {
		q.Details["source"] = v.Source
	}
	if len(v.Suggest) > 0 {
		q.Details["suggest"] = v.Suggest
		if len(v.Overrides) > 0 {
			q.Details["overrides"] = v.Overrides
		}
		q.Options = append(q.Options, tool.Option{ID: optionAlways, Label: "Always allow", Description: strings.Join(v.Suggest, ", ")})
	}
	q.Options = append(q.Options, tool.Option{ID: optionReject, Label: "Refuse"})
	return q
}

// maxShown is how many bytes of a call's arguments a question shows.
const maxShown = 32 << 10

// shown is the arguments as a person sees them: as JSON, or the beginning of it.
func shown(args json.RawMessage) any {
	var v any
	if len(args) <= maxShown && json.Unmarshal(args, &v) == nil {
		return v
	}
	return fmt.Sprintf("%s (%d bytes in all)", cut(string(args), maxShown), len(args))
}

// noChannel is the refusal where nobody can be asked; id is the question if it
// can be answered later.
func noChannel(c *call, v policy.Verdict, id string) error {
	err := tool.Errorf(tool.PermissionDenied, "%s needs a person's permission and nobody can be asked", c.name).
		WithDetail("reason", "no_channel").WithDetail("rule", v.Rule)
	hint := ""
	if id != "" {
		err = err.WithDetail("question", id)
		hint = "Allow it once with: " + approve(id) + ", and make the same call again"
	}
	if len(v.Suggest) > 0 {
		if hint == "" {
			return err.WithHint("%s", "Allow it with: "+commands(c, v)+".")
		}
		return err.WithHint("%s", hint+"; or for good with: "+commands(c, v)+".")
	}
	// No rule would help: what has to be asked about is the reason itself.
	if v.Reason != "" {
		err.Message += ": " + v.Reason
	}
	if hint != "" {
		return err.WithHint("%s", hint+".")
	}
	return err.WithHint("Do it another way, or run it where a person can be asked.")
}

// approve is what a person types to answer a question.
func approve(id string) string { return "`toolyard approve " + id + "`" }

// commands are what a person types to allow the call.
func commands(c *call, v policy.Verdict) string {
	rules := v.Suggest
	if len(rules) == 0 {
		rules = []string{c.name}
	}
	lines := make([]string, len(rules))
	for i, r := range rules {
		lines[i] = "`toolyard policy allow '" + strings.ReplaceAll(r, "'", `'\''`) + "'`"
	}
	return strings.Join(lines, " and ")
}

// always keeps the narrowest rules that would have allowed the call, and
// settles every other question in their scope that they answer.
func (s *permission) always(ctx context.Context, c *call, v policy.Verdict, by string) {
	scope, key, within := policy.Session, c.in.Session, func(o *call) bool { return o.in.Session == c.in.Session }
	if c.in.Workspace != "" && s.save != nil {
		scope, key, within = policy.Project, c.in.Workspace, func(o *call) bool { return o.in.Workspace == c.in.Workspace }
	}
	var rules []policy.Rule
	for _, text := range v.Suggest {
		r, err := policy.ParseRule(tool.Allow, text, scope, "answer")
		if err == nil && s.save != nil {
			row := store.Rule{Scope: scope.String(), ScopeKey: key, Action: "allow", Rule: text, Overrides: v.Overrides, By: by, Created: time.Now().UTC()}
			err = s.save(context.WithoutCancel(ctx), row)
		}
		if err != nil {
			s.log.Error("the rule of an answer is not kept", "rule", text, "err", err)
			c.note(fmt.Sprintf("The rule %s could not be kept; it was allowed this once.", text))
			continue
		}
		r.Overrides = v.Overrides
		rules = append(rules, r)
	}
	if len(rules) == 0 {
		return
	}
	if s.save == nil {
		s.grant(c.in.Session, rules)
	} else {
		c.grants.add(rules)
	}
	s.mu.Lock()
	others := make([]*pending, 0, len(s.pending))
	for p := range s.pending {
		if p.c != c && !p.own && within(p.c) {
			others = append(others, p)
		}
	}
	s.mu.Unlock()
	for _, p := range others {
		if s.check(p.c, rules...).Action == tool.Allow {
			p.settle(settled{c.in.ID, by})
		}
	}
}

// maxGranted is how many rules one session may be given in memory.
const maxGranted = 256

// grant lets rules hold for a session.
func (s *permission) grant(session string, rules []policy.Rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held, _ := s.granted.get(session)
	if len(held)+len(rules) <= maxGranted {
		s.granted.put(session, append(held[:len(held):len(held)], rules...))
	}
}
