package toolyard

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/policy"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

// rulesFresh is how old the saved rules may be when a call is judged: another
// process may have saved one.
const rulesFresh = time.Second

// rulebook is the rules in force: those of the Config, and those that people
// saved. It is safe for concurrent use.
type rulebook struct {
	rows store.Rules

	mu      sync.Mutex
	own     *policy.Policy // of the Config's rules
	servers []policy.Rule  // of the entries of other MCP servers
	renewed bool           // own has changed since base was made of it
	loaded  time.Time
	saved   []store.Rule
	base    *policy.Policy
	scoped  map[[2]string][]policy.Rule // by session and workspace
	changed func(*policy.Policy)
}

// newRulebook makes one of the rules of a Config; load adds the saved ones.
func newRulebook(c Config, rows store.Rules) (*rulebook, error) {
	own, err := rulesIn(c)
	if err != nil {
		return nil, err
	}
	return &rulebook{rows: rows, own: own, base: own, scoped: map[[2]string][]policy.Rule{}}, nil
}

// rulesIn is the policy of a Config's own rules.
func rulesIn(c Config) (*policy.Policy, error) {
	var fixed []policy.Rule
	for _, group := range []struct {
		action tool.Action
		rules  []Rule
	}{{tool.Allow, c.Permissions.Allow}, {tool.Ask, c.Permissions.Ask}, {tool.Deny, c.Permissions.Deny}} {
		for _, r := range group.rules {
			scope := policy.User
			if r.Scope != "" {
				var err error
				if scope, err = policy.ParseScope(r.Scope); err != nil {
					return nil, err
				}
			}
			parsed, err := policy.ParseRule(group.action, r.Text, scope, r.Source)
			if err != nil {
				return nil, err
			}
			parsed.Match, parsed.NotMatch = r.Match, r.NotMatch
			fixed = append(fixed, parsed)
		}
	}
	return policy.New(fixed)
}

// configured lists the Config's rules, in any scope.
func (b *rulebook) configured() []policy.Rule {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.own.Rules()
}

// replace puts the rules of another Config in force, if all of them can be.
func (b *rulebook) replace(ctx context.Context, c Config) error {
	own, err := rulesIn(c)
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.own, b.renewed = own, true
	b.mu.Unlock()
	return b.load(ctx)
}

// setServers puts the rules of other MCP servers' entries in force.
func (b *rulebook) setServers(ctx context.Context, rules []policy.Rule) error {
	b.mu.Lock()
	b.servers, b.renewed = rules, true
	b.mu.Unlock()
	return b.load(ctx)
}

// load reads the saved rules and, if they changed, makes the policy anew. It is
// called before the first call.
func (b *rulebook) load(ctx context.Context) error {
	saved, err := b.rows.ListRules(ctx)
	if err != nil {
		return fmt.Errorf("saved rules: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.loaded = time.Now()
	if !b.renewed && reflect.DeepEqual(saved, b.saved) {
		return nil
	}
	b.renewed = false
	user := slices.Clone(b.servers)
	for _, row := range saved {
		if row.Scope == policy.User.String() {
			user = append(user, ruleOf(row))
		}
	}
	b.saved, b.base, b.scoped = saved, b.own.With(user...), map[[2]string][]policy.Rule{}
	if b.changed != nil {
		b.changed(b.base)
	}
	return nil
}

// ruleOf makes a rule of a row. One that no longer parses only tightens: see
// [policy.Policy.With].
func ruleOf(row store.Rule) policy.Rule {
	var action tool.Action
	switch row.Action {
	case "allow":
		action = tool.Allow
	case "ask":
		action = tool.Ask
	default:
		action = tool.Deny
	}
	scope, err := policy.ParseScope(row.Scope)
	if err != nil {
		scope = policy.User
	}
	source := fmt.Sprintf("saved rule %d", row.ID)
	if row.By != "" {
		source += " by " + row.By
	}
	r, err := policy.ParseRule(action, row.Rule, scope, source)
	if err != nil {
		r = policy.Rule{Action: action, Text: row.Rule, Scope: scope, Source: source}
	}
	r.Overrides = row.Overrides
	return r
}

// policy is what holds for every call.
func (b *rulebook) policy() *policy.Policy {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.base
}

func (b *rulebook) onChange(f func(*policy.Policy)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.changed = f
}

// of gives the saved rules that hold for a session and a workspace only, always
// the same slice while they do not change.
func (b *rulebook) of(ctx context.Context, session, workspace string) []policy.Rule {
	b.mu.Lock()
	stale := time.Since(b.loaded) > rulesFresh
	b.mu.Unlock()
	if stale {
		// With the store out of reach the rules known so far go on to hold.
		_ = b.load(ctx)
	}
	return b.known(session, workspace)
}

// now is of with what other processes have saved until now.
func (b *rulebook) now(ctx context.Context, session, workspace string) []policy.Rule {
	_ = b.load(ctx) // as in of
	return b.known(session, workspace)
}

// known is of without a look at the store.
func (b *rulebook) known(session, workspace string) []policy.Rule {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := [2]string{session, workspace}
	rules, known := b.scoped[key]
	if known {
		return rules
	}
	for _, row := range b.saved {
		if row.Scope == policy.Project.String() && row.ScopeKey == workspace || row.Scope == policy.Session.String() && row.ScopeKey == session {
			rules = append(rules, ruleOf(row))
		}
	}
	const most = 4096 // sessions; they are remembered again when they are back
	if len(b.scoped) >= most {
		clear(b.scoped)
	}
	b.scoped[key] = rules
	return rules
}

// SaveRule saves a rule and puts it in force. The rule is checked first; it may
// be of scope user, project (ScopeKey is a workspace) or session.
func (t *Toolyard) SaveRule(ctx context.Context, r store.Rule) (int64, error) {
	action, err := parseAction(r.Action)
	if err != nil {
		return 0, err
	}
	scope, err := policy.ParseScope(r.Scope)
	if err != nil {
		return 0, err
	}
	if scope != policy.User && scope != policy.Project && scope != policy.Session {
		return 0, tool.Errorf(tool.ParameterError, "a rule of scope %s cannot be saved", scope).WithHint("Use user, project or session.")
	}
	if _, err := policy.ParseRule(action, r.Rule, scope, ""); err != nil {
		return 0, err
	}
	if r.Created.IsZero() {
		r.Created = time.Now().UTC()
	}
	id, err := t.store.PutRule(ctx, r)
	if err != nil {
		return 0, fmt.Errorf("saving the rule: %w", err)
	}
	return id, t.rules.load(ctx)
}

// RemoveRule deletes a saved rule.
func (t *Toolyard) RemoveRule(ctx context.Context, id int64) error {
	if err := t.store.DeleteRule(ctx, id); err != nil {
		return fmt.Errorf("rule %d: %w", id, err)
	}
	return t.rules.load(ctx)
}

// Rules lists the rules that hold in a workspace, highest scope first.
func (t *Toolyard) Rules(ctx context.Context, workspace string) []policy.Rule {
	_ = t.ready(ctx) // the rules known so far hold
	return t.rules.policy().With(t.rules.of(ctx, "", workspace)...).Rules()
}

// Explain judges a call, written as "bash(git log && curl x)" or
// "edit(src/a.go)", without running it.
func (t *Toolyard) Explain(ctx context.Context, call, workspace string) (policy.Verdict, error) {
	parsed, err := policy.ParseCall(call)
	if err != nil {
		return policy.Verdict{}, err
	}
	handle, err := t.registry.Acquire(parsed.Tool)
	if err != nil {
		return policy.Verdict{}, err
	}
	defer handle.Release()
	q := parsed.Query(handle.Spec)
	return t.explain(ctx, q, handle.Tool, workspace)
}

func (t *Toolyard) explain(ctx context.Context, q policy.Query, of tool.Tool, workspace string) (policy.Verdict, error) {
	if err := t.ready(ctx); err != nil {
		return policy.Verdict{}, err
	}
	root, err := t.workspaces.choose(workspace)
	if err != nil {
		return policy.Verdict{}, err
	}
	q.Workspace, q.Home, q.Mode = root, t.config.UserHome, t.mode
	q.Real = func(path string) (string, error) { return t.workspaces.real(root, path) }
	if c, ok := of.(tool.Coordinator); ok {
		q.Coordinates = c.Coordinates()
	}
	if s, ok := of.(tool.PermissionSubject); ok && q.Arguments != nil {
		q.Subjects = s.Subjects(&tool.Request{Arguments: q.Arguments, Workspace: root})
	}
	return t.rules.policy().With(t.rules.of(ctx, "", root)...).Explain(q), nil
}

func parseAction(text string) (tool.Action, error) {
	for _, a := range []tool.Action{tool.Allow, tool.Ask, tool.Deny} {
		if a.String() == text {
			return a, nil
		}
	}
	return 0, tool.Errorf(tool.ParameterError, "no action %q", text).WithHint("Use allow, ask or deny.")
}
