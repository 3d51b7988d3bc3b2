package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

// decision is how a question is to be answered, from the flags.
type decision struct {
	once, always, reject bool
	reason, option, text string
	list                 bool
}

func newApprove(p *program) *cobra.Command {
	var d decision
	c := &cobra.Command{
		Use:   "approve [ID] [--once|--always|--reject [--reason TEXT]|--option ID|--text TEXT] [--list]",
		Short: "Answer what calls wait for: permissions and other questions",
		Long: "Without an ID, on a terminal, shows each question as it comes, with the exact call,\n" +
			"until q or Ctrl-C; while it runs, calls of every toolyard on this home wait for your\n" +
			"answer instead of being refused. Piped, or with --list, it lists what is pending.\n\n" +
			"With an ID it answers that question. If its call has given up meanwhile, the same\n" +
			"call made again passes, once. --always saves the rules that the question shows. With\n" +
			"no flag it asks you on a terminal, and elsewhere allows the call once.",
		Example: "toolyard approve\n" +
			"toolyard approve perm_1f0c2a9b\n" +
			"toolyard approve perm_1f0c2a9b --always\n" +
			"toolyard approve perm_1f0c2a9b --reject --reason 'use the staging host'\n" +
			"toolyard approve deci_77aa01ce --option blue-green",
		Args:              args(0, 1, "the ID of a question"),
		ValidArgsFunction: p.completeQuestions,
		RunE: func(c *cobra.Command, args []string) error {
			if err := d.check(len(args) > 0); err != nil {
				return err
			}
			id := ""
			if len(args) > 0 {
				id = args[0]
			}
			return p.approve(c.Context(), id, d)
		},
	}
	f := c.Flags()
	f.BoolVar(&d.once, "once", false, "allow this call")
	f.BoolVar(&d.always, "always", false, "allow this call, and save the rules that the question shows")
	f.BoolVar(&d.reject, "reject", false, "refuse")
	f.StringVar(&d.reason, "reason", "", "why it is refused, as `TEXT` for the model")
	f.StringVar(&d.option, "option", "", "choose the option with this `ID`")
	f.StringVar(&d.text, "text", "", "answer with a `TEXT`")
	f.BoolVar(&d.list, "list", false, "list what is pending and end")
	return c
}

// check refuses flags that contradict each other.
func (d decision) check(named bool) error {
	chosen := 0
	for _, on := range []bool{d.once, d.always, d.reject, d.option != "", d.text != "" && d.option == ""} {
		if on {
			chosen++
		}
	}
	switch {
	case chosen > 1:
		return usagef("give one answer: --once, --always, --reject, --option or --text")
	case d.reason != "" && !d.reject:
		return usagef("--reason belongs to --reject")
	case chosen > 0 && !named:
		return usagef("which question? give its ID").withHint("`toolyard approve --list` lists them.")
	case d.list && named:
		return usagef("--list takes no ID")
	}
	return nil
}

// answer is the one that the flags name; false if they name none.
func (d decision) answer() (tool.Answer, bool) {
	a := tool.Answer{Option: d.option, Text: d.text, By: userName()}
	switch {
	case d.once:
		a.Option = "once"
	case d.always:
		a.Option = "always"
	case d.reject:
		a.Option, a.Text = "reject", d.reason
	}
	return a, a.Option != "" || a.Text != ""
}

func (p *program) completeQuestions(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	y, err := p.open(c.Context(), openOptions{noWorkspace: true})
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer y.close()
	rows, _ := y.Questions(c.Context(), store.QuestionFilter{State: "pending"})
	var offers []cobra.Completion
	for _, q := range rows {
		offers = append(offers, cobra.CompletionWithDesc(q.ID, oneLine(q.Title, 60)))
	}
	return offers, cobra.ShellCompDirectiveNoFileComp
}

func (p *program) approve(ctx context.Context, id string, d decision) error {
	y, err := p.open(ctx, openOptions{noWorkspace: true})
	if err != nil {
		return err
	}
	defer y.close()
	if id != "" {
		return p.approveOne(ctx, y, id, d)
	}
	ask := p.approver()
	if d.list || ask == nil || p.flags.json {
		return p.listQuestions(ctx, y)
	}
	return p.approveAll(ctx, y, ask)
}

// approver is the terminal of a person who answers questions of other processes;
// nil if there is none.
func (p *program) approver() *asker {
	a, _ := p.asker(nil, nil).(*asker)
	if a != nil {
		a.whole = true
	}
	return a
}

// listQuestions prints what is pending, the oldest first.
func (p *program) listQuestions(ctx context.Context, y *yard) error {
	rows, err := y.Questions(ctx, store.QuestionFilter{State: "pending", Limit: 1000})
	if err != nil {
		return err
	}
	slices.Reverse(rows)
	if p.flags.json {
		return p.printJSON(rows)
	}
	if len(rows) == 0 {
		p.note("No question is waiting.")
		return nil
	}
	cells := make([][]string, len(rows))
	for i, q := range rows {
		cells[i] = []string{q.ID, q.Kind, q.Created.Local().Format(time.TimeOnly), durationText(time.Until(q.Deadline).Truncate(time.Second)),
			oneLine(printable(q.Title), 60), oneLine(argumentsText(shownArguments(q), 200), 100)}
	}
	p.table(p.stdout, []column{
		{head: "QUESTION", paint: p.out.cyan}, {head: "KIND"}, {head: "ASKED", paint: p.out.dim}, {head: "LEFT", right: true}, {head: "ABOUT"}, {head: "ARGUMENTS"},
	}, cells)
	return nil
}

// shownArguments are the arguments of the call that a question is about.
func shownArguments(q store.Question) json.RawMessage {
	var details struct {
		Arguments json.RawMessage `json:"arguments"`
	}
	_ = json.Unmarshal(q.Details, &details) // a question of another kind has none
	return details.Arguments
}

// approveOne answers one question: as the flags say, as the person says, or, where
// nobody can be asked, with the yes that the command's name is.
func (p *program) approveOne(ctx context.Context, y *yard, id string, d decision) error {
	q, err := y.Question(ctx, id)
	if err != nil {
		return notThere(err)
	}
	a, given := d.answer()
	if !given && q.State == "pending" {
		if ask := p.approver(); ask != nil && !p.flags.json {
			if a, err = ask.about(ctx, y, q); errors.Is(err, tool.ErrNoChannel) {
				return nil // the terminal was closed
			} else if err != nil && !errors.Is(err, errSettled) {
				return err
			} else if a.Option == later {
				return nil
			}
		} else if a, _ = (decision{once: true}).answer(); !slices.ContainsFunc(q.Options, func(o tool.Option) bool { return o.ID == a.Option }) {
			return usagef("%s needs an answer", q.ID).withHint("%s", howToAnswer(q))
		}
	}
	err = y.Answer(ctx, id, a)
	if err != nil {
		return notThere(err)
	}
	if q, err = y.Question(ctx, id); err != nil {
		return err
	}
	if p.flags.json {
		return p.printJSON(q)
	}
	said := q.Option
	if said == "" {
		said = "answered"
	}
	fmt.Fprintf(p.stdout, "%s %s: %s\n", p.out.cyan(q.ID), said, oneLine(printable(q.Title), 100))
	return nil
}

// howToAnswer says which flags a question takes.
func howToAnswer(q store.Question) string {
	if len(q.Options) == 0 {
		return "Add --text TEXT."
	}
	ids := make([]string, len(q.Options))
	for i, o := range q.Options {
		ids[i] = o.ID
	}
	return "Add --option with one of " + strings.Join(ids, ", ") + "."
}

// notThere makes an unknown ID end the program with 4.
func notThere(err error) error {
	if e, ok := errors.AsType[*tool.Error](err); ok && e.Code == tool.NotFound {
		return &missing{what: e.Message, hint: e.Hint}
	}
	return err
}

// errSettled says that a question was answered elsewhere while it was shown.
var errSettled = errors.New("the question was answered elsewhere")

// later is the option that leaves a question to somebody else.
const later = "later"

// about shows a question and waits for the person's answer, or until somebody
// else has given one.
func (a *asker) about(ctx context.Context, y *yard, row store.Question) (tool.Answer, error) {
	ctx, settled := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(followEach)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if now, err := y.Question(ctx, row.ID); err == nil && now.State != "pending" {
					settled(errSettled)
				}
			}
		}
	}()
	defer func() { settled(nil); <-done }()
	a.arguments = shownArguments(row)
	q := tool.Question{
		ID: row.ID, Kind: row.Kind, Title: row.Title + " (" + row.ID + ")", Text: row.Text, Default: row.Default, Options: slices.Clone(row.Options),
		Details: map[string]any{},
	}
	_ = json.Unmarshal(row.Details, &q.Details) // made by us; what is not there is not shown
	if row.Workspace != "" {
		q.Title += " in " + row.Workspace
	}
	if len(q.Options) > 0 {
		q.Options = append(q.Options, tool.Option{ID: later, Label: "Later"})
	}
	return a.Ask(ctx, q)
}

// approveAll shows each question as it comes, until the person ends it.
func (p *program) approveAll(ctx context.Context, y *yard, ask *asker) error {
	defer y.WatchQuestions()()
	passed := map[string]bool{} // left for later
	waiting := store.QuestionFilter{State: "pending", Limit: 1000}
	version, idle := "", false
	for {
		rows, err := y.Questions(ctx, waiting)
		if err != nil {
			return served(ctx, err)
		}
		rows = slices.DeleteFunc(rows, func(q store.Question) bool { return passed[q.ID] })
		if len(rows) == 0 {
			if !idle {
				p.note("Waiting for questions; q ends.")
				idle = true
			}
			var over bool
			if version, over, err = ask.idle(ctx, y, waiting, version); over || err != nil {
				return served(ctx, err)
			}
			continue
		}
		idle = false
		q := rows[len(rows)-1] // the oldest
		a, err := ask.about(ctx, y, q)
		switch {
		case errors.Is(err, errSettled):
			p.note("%s has been settled elsewhere.", q.ID)
			continue
		case errors.Is(err, tool.ErrNoChannel):
			return nil // the terminal was closed
		case err != nil:
			return served(ctx, err)
		case a.Option == later:
			passed[q.ID] = true
			continue
		}
		if err := y.Answer(ctx, q.ID, a); err != nil {
			what, hint := words(err)
			p.complain(what, hint)
			passed[q.ID] = true
		}
	}
}

// idle waits until the list of questions is another, and reports whether the
// person has ended it.
func (a *asker) idle(ctx context.Context, y *yard, f store.QuestionFilter, version string) (_ string, over bool, err error) {
	a.mu.Lock()
	a.read()
	a.mu.Unlock()
	const round = 30 * time.Second
	waiting, cancel := context.WithTimeout(ctx, round)
	defer cancel()
	type news struct {
		version string
		err     error
	}
	came := make(chan news, 1)
	go func() { // ends with waiting
		_, version, err := y.AwaitQuestions(waiting, f, version)
		came <- news{version, err}
	}()
	for {
		select {
		case n := <-came:
			if ctx.Err() != nil {
				return "", true, context.Cause(ctx)
			}
			return n.version, false, n.err
		case line, open := <-a.lines:
			if !open || strings.HasPrefix(strings.TrimSpace(strings.ToLower(line)), "q") {
				cancel()
				<-came
				return "", true, nil
			}
		}
	}
}
