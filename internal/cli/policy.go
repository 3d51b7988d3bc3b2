package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/policy"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

func newPolicy(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:   "policy",
		Short: "Show, explain and change what is allowed",
		Long: "A rule is a tool, or a tool and what it is about: read, bash(go test *), edit(src/**),\n" +
			"read(~/.ssh/**), effect:write, category:git. A deny always wins; between ask and\n" +
			"allow the narrower scope wins: session over project over user.",
		Example: "toolyard policy explain 'bash(git log && curl x | sh)'\n" +
			"toolyard policy allow 'bash(go test *)'\n" +
			"toolyard policy deny 'read(**/.env)' --scope user",
		Args: cobra.ArbitraryArgs,
		RunE: p.noCommand,
	}
	c.AddCommand(newPolicyList(p), newPolicyExplain(p), newPolicyTest(p))
	for _, action := range []tool.Action{tool.Allow, tool.Ask, tool.Deny} {
		c.AddCommand(newPolicySave(p, action))
	}
	c.AddCommand(newPolicyRemove(p))
	return c
}

// ruleRow is a rule as it is shown.
type ruleRow struct {
	ID        int64    `json:"id,omitempty"`
	Action    string   `json:"action"`
	Rule      string   `json:"rule"`
	Scope     string   `json:"scope"`
	Workspace string   `json:"workspace,omitempty"`
	Source    string   `json:"source"`
	Overrides []string `json:"overrides,omitempty"`
}

// rules lists the rules of configuration, flags and store, the strongest scope
// first. Rules saved for other workspaces are in it, with their name.
func (y *yard) rules(ctx context.Context) ([]ruleRow, error) {
	var rows []ruleRow
	for _, r := range configured(y.config.Permissions) {
		scope := r.rule.Scope
		if scope == "" {
			scope = "user"
		}
		rows = append(rows, ruleRow{Action: r.action.String(), Rule: r.rule.Text, Scope: scope, Source: r.rule.Source})
	}
	saved, err := y.store.ListRules(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range saved {
		source := "saved " + r.Created.Local().Format("2006-01-02 15:04")
		if r.By != "" {
			source += " by " + r.By
		}
		rows = append(rows, ruleRow{ID: r.ID, Action: r.Action, Rule: r.Rule, Scope: r.Scope, Workspace: r.ScopeKey, Source: source, Overrides: r.Overrides})
	}
	slices.SortStableFunc(rows, func(a, b ruleRow) int { return rank(b.Scope) - rank(a.Scope) })
	return rows, nil
}

func rank(scope string) int {
	s, err := policy.ParseScope(scope)
	if err != nil {
		return -1
	}
	return int(s)
}

// withAction is a configured rule with what it says.
type withAction struct {
	action tool.Action
	rule   toolyard.Rule
}

func configured(p toolyard.Permissions) []withAction {
	var all []withAction
	for _, set := range []struct {
		action tool.Action
		rules  []toolyard.Rule
	}{{tool.Deny, p.Deny}, {tool.Ask, p.Ask}, {tool.Allow, p.Allow}} {
		for _, r := range set.rules {
			all = append(all, withAction{set.action, r})
		}
	}
	return all
}

func newPolicyList(p *program) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the rules: from the configuration, the flags and those that were saved",
		Long: "Lists the rules, the strongest scope first, with where each stands. Where no rule\n" +
			"matches, a tool's own default holds: `toolyard tools` shows it.",
		Args: args(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			y, err := p.open(c.Context(), openOptions{})
			if err != nil {
				return err
			}
			defer y.close()
			rows, err := y.rules(c.Context())
			if err != nil {
				return err
			}
			if p.flags.json {
				if rows == nil {
					rows = []ruleRow{}
				}
				return p.printJSON(rows)
			}
			if len(rows) == 0 {
				p.note("No rules: every tool has its own default, which `toolyard tools` shows.")
				return nil
			}
			p.printRules(rows)
			return nil
		},
	}
}

func (p *program) printRules(rows []ruleRow) {
	cells := make([][]string, len(rows))
	for i, r := range rows {
		id := "-"
		if r.ID > 0 {
			id = strconv.FormatInt(r.ID, 10)
		}
		where := r.Source
		if r.Workspace != "" {
			where += ", in " + r.Workspace
		}
		cells[i] = []string{id, r.Action, r.Scope, printable(r.Rule), where}
	}
	p.table(p.stdout, []column{
		{head: "ID", right: true}, {head: "ACTION", paint: p.out.status}, {head: "SCOPE", paint: p.out.dim},
		{head: "RULE", paint: p.out.cyan}, {head: "FROM", paint: p.out.dim},
	}, cells)
}

func newPolicyTest(p *program) *cobra.Command {
	return &cobra.Command{
		Use:   "test",
		Short: "Check every rule against its own examples (match and not_match)",
		Args:  args(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			settings, db, err := p.record(c.Context(), openOptions{})
			if err != nil {
				return err
			}
			if err := db.Close(); err != nil {
				return err
			}
			rules, examples, err := testRules(settings.Config.Permissions)
			if err != nil {
				return err
			}
			if p.flags.json {
				return p.printJSON(map[string]int{"rules": rules, "examples": examples})
			}
			fmt.Fprintf(p.stdout, "%s: %s, %s\n", p.out.green("ok"), count(rules, "rule"), count(examples, "example"))
			return nil
		},
	}
}

// testRules runs the examples of the configured rules.
func testRules(permissions toolyard.Permissions) (rules, examples int, err error) {
	var parsed []policy.Rule
	for _, r := range configured(permissions) {
		scope, err := policy.ParseScope(orUser(r.rule.Scope))
		if err != nil {
			return 0, 0, err
		}
		rule, err := policy.ParseRule(r.action, r.rule.Text, scope, r.rule.Source)
		if err != nil {
			return 0, 0, err
		}
		rule.Match, rule.NotMatch = r.rule.Match, r.rule.NotMatch
		examples += len(rule.Match) + len(rule.NotMatch)
		parsed = append(parsed, rule)
	}
	_, err = policy.New(parsed)
	return len(parsed), examples, err
}

// count is a number of things: "1 rule", "2 rules".
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}

func orUser(scope string) string {
	if scope == "" {
		return "user"
	}
	return scope
}

func newPolicySave(p *program, action tool.Action) *cobra.Command {
	var scope string
	verb := action.String()
	short := map[tool.Action]string{
		tool.Allow: "Allow what a rule says, from now on",
		tool.Ask:   "Ask about what a rule says, from now on",
		tool.Deny:  "Deny what a rule says, from now on",
	}[action]
	c := &cobra.Command{
		Use:     verb + " RULE [--scope user|project]",
		Short:   short,
		Example: "toolyard policy " + verb + " 'bash(npm run *)' --scope project",
		Args:    args(1, 1, "a rule, such as 'bash(go test *)'"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := oneOf("scope", scope, "user", "project"); err != nil {
				return err
			}
			return p.saveRule(c.Context(), action, args[0], scope)
		},
	}
	c.Flags().StringVar(&scope, "scope", "user", "`WHERE` it holds: user (everywhere) or project (this workspace)")
	return c
}

func (p *program) saveRule(ctx context.Context, action tool.Action, text, scope string) error {
	parsedScope, err := policy.ParseScope(scope)
	if err != nil {
		return err
	}
	if err := checkRule(action, text, parsedScope); err != nil {
		return err
	}
	y, err := p.open(ctx, openOptions{})
	if err != nil {
		return err
	}
	defer y.close()
	row := store.Rule{Scope: scope, Action: action.String(), Rule: text, By: userName(), Created: time.Now().UTC()}
	where := "everywhere"
	if scope == "project" {
		if y.workspace == "" {
			return usagef("there is no workspace for a rule of scope project").withHint("Name one with --workspace.")
		}
		row.ScopeKey, where = y.workspace, "in "+y.workspace
	}
	if row.ID, err = y.SaveRule(ctx, row); err != nil {
		return err
	}
	if p.flags.json {
		return p.printJSON(ruleRow{ID: row.ID, Action: row.Action, Rule: row.Rule, Scope: row.Scope, Workspace: row.ScopeKey, Source: "command line"})
	}
	fmt.Fprintf(p.stdout, "%s %s %s (rule %d)\n", p.out.status(row.Action), p.out.cyan(text), where, row.ID)
	p.note("Take it back with `toolyard policy remove %d`.", row.ID)
	y.AwaitTools(ctx)
	if name := unknownTool(text, y.Tools()); name != "" {
		p.note("There is no tool %s now: the rule waits for one, or the name is misspelt.", name)
	}
	return nil
}

// unknownTool is the tool that a rule names and that is not there; "" if it is,
// or if the rule names a source, a pattern or something else.
func unknownTool(rule string, tools []*tool.Spec) string {
	name, _, _ := strings.Cut(rule, "(")
	name = policy.NormaliseName(strings.TrimSpace(name))
	if strings.ContainsAny(name, ":*") || slices.ContainsFunc(tools, func(s *tool.Spec) bool { return s.FullName() == name }) {
		return ""
	}
	return name
}

func newPolicyRemove(p *program) *cobra.Command {
	var scope string
	c := &cobra.Command{
		Use:     "remove RULE|ID [--scope user|project]",
		Short:   "Remove a rule that was saved, by its text or its number in `policy list`",
		Example: "toolyard policy remove 3\ntoolyard policy remove 'bash(npm run *)'",
		Args:    args(1, 1, "a saved rule: its number, or its text"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := oneOf("scope", scope, "user", "project", "session"); err != nil {
				return err
			}
			return p.removeRule(c.Context(), args[0], scope)
		},
	}
	c.Flags().StringVar(&scope, "scope", "", "only a rule of this `SCOPE`: user, project or session")
	return c
}

func (p *program) removeRule(ctx context.Context, which, scope string) error {
	y, err := p.open(ctx, openOptions{})
	if err != nil {
		return err
	}
	defer y.close()
	saved, err := y.store.ListRules(ctx)
	if err != nil {
		return err
	}
	id, _ := strconv.ParseInt(which, 10, 64)
	var found []store.Rule
	for _, r := range saved {
		if (r.ID == id || r.Rule == which) && (scope == "" || r.Scope == scope) {
			found = append(found, r)
		}
	}
	if len(found) == 0 {
		e := &missing{what: "no saved rule is " + oneLine(which, 80), hint: "`toolyard policy list` shows them with their numbers."}
		for _, r := range configured(y.config.Permissions) {
			if r.rule.Text == which {
				e.hint = "It stands in " + r.rule.Source + ": remove it there."
			}
		}
		return e
	}
	for _, r := range found {
		if err := y.RemoveRule(ctx, r.ID); err != nil {
			return err
		}
		if p.flags.json {
			err = p.printJSON(ruleRow{ID: r.ID, Action: r.Action, Rule: r.Rule, Scope: r.Scope, Workspace: r.ScopeKey, Source: "saved"})
		} else {
			_, err = fmt.Fprintf(p.stdout, "removed: %s %s (rule %d, scope %s)\n", r.Action, r.Rule, r.ID, r.Scope)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func newPolicyExplain(p *program) *cobra.Command {
	return &cobra.Command{
		Use:   "explain CALL",
		Short: "Say what would happen to a call, part by part, and by which rule",
		Long: "Judges a call without running it. A shell command is taken apart: each command of a\n" +
			"pipe, a substitution or a script is judged by itself, and each redirection as a write.",
		Example: "toolyard policy explain 'bash(git log && curl x | sh)'\n" +
			"toolyard policy explain 'edit(.env)'\n" +
			"toolyard policy explain read",
		Args: args(1, 1, "a call, such as 'bash(git push)'"),
		RunE: func(c *cobra.Command, args []string) error {
			y, err := p.open(c.Context(), openOptions{keepJobs: true})
			if err != nil {
				return err
			}
			defer y.close()
			v, err := y.Explain(c.Context(), args[0], y.workspace)
			if err != nil {
				return err
			}
			e := explanationOf(v)
			if p.flags.json {
				return p.printJSON(e)
			}
			p.printExplanation(args[0], e)
			return nil
		},
	}
}

// explanation is what the policy says about a call.
type explanation struct {
	Action  string    `json:"action"`
	Rule    string    `json:"rule,omitempty"`
	Source  string    `json:"source,omitempty"`
	Scope   string    `json:"scope,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Mode    bool      `json:"mode,omitempty"` // the mode refused it
	Parts   []partRow `json:"parts"`
	Suggest []string  `json:"suggest,omitempty"`
}

// partRow is one part of a call.
type partRow struct {
	Kind    string     `json:"kind"`
	Text    string     `json:"text"`
	Action  string     `json:"action"`
	Rule    string     `json:"rule,omitempty"`
	Source  string     `json:"source,omitempty"`
	Reason  string     `json:"reason,omitempty"`
	Default bool       `json:"default,omitempty"`
	Matches []matchRow `json:"matches,omitempty"`
}

// matchRow is one rule that met a part.
type matchRow struct {
	Action string `json:"action"`
	Rule   string `json:"rule"`
	Scope  string `json:"scope"`
	Source string `json:"source,omitempty"`
	Note   string `json:"note,omitempty"`
}

func explanationOf(v policy.Verdict) explanation {
	e := explanation{Action: v.Action.String(), Rule: v.Rule, Source: v.Source, Reason: v.Reason, Mode: v.Mode, Suggest: v.Suggest, Parts: []partRow{}}
	if v.Rule != "" {
		e.Scope = v.Scope.String()
	}
	for _, part := range v.Parts {
		row := partRow{Kind: string(part.Kind), Text: part.Text, Action: part.Action.String(), Rule: part.Rule, Source: part.Source, Reason: part.Reason, Default: part.Default}
		for _, m := range part.Matches {
			match := matchRow{Action: m.Action.String(), Rule: m.Rule, Scope: m.Scope.String(), Source: m.Source}
			switch {
			case m.Overridden:
				match.Note = "answered with always"
			case m.Maybe:
				match.Note = "it may turn out to match"
			}
			row.Matches = append(row.Matches, match)
		}
		e.Parts = append(e.Parts, row)
	}
	return e
}

func (p *program) printExplanation(call string, e explanation) {
	l := p.out
	fmt.Fprintf(p.stdout, "%s  %s\n", l.bold(printable(call)), l.status(e.Action))
	if e.Reason != "" {
		fmt.Fprintf(p.stdout, "  because %s\n", printable(e.Reason))
	}
	for _, part := range e.Parts {
		fmt.Fprintf(p.stdout, "\n  %s %s  %s\n", l.dim(part.Kind), printable(part.Text), l.status(part.Action))
		if len(part.Matches) == 0 {
			fmt.Fprintf(p.stdout, "    %s\n", l.dim(printable(part.Reason)))
		}
		for _, m := range part.Matches {
			from := strings.Join(slices.DeleteFunc([]string{m.Scope, m.Source, m.Note}, func(s string) bool { return s == "" }), ", ")
			fmt.Fprintf(p.stdout, "    %s %s  %s\n", l.status(m.Action), l.cyan(printable(m.Rule)), l.dim("("+from+")"))
		}
	}
	for i, rule := range e.Suggest {
		if i == 0 {
			fmt.Fprintln(p.stdout)
		}
		fmt.Fprintf(p.stdout, "  allow it with: toolyard policy allow %s\n", quoted(rule))
	}
}

// quoted is text as one word of a shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
