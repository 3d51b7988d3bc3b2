package policy

import (
	"slices"

	"github.com/toolyard/toolyard/tool"
)

// judgement collects the rules that met one part, and concludes.
type judgement struct {
	kind      PartKind
	text      string
	def       tool.Action
	reason    string // why the part is special, if it is
	sticky    bool   // an ask by default stays in mode trusted
	where     []location
	protected protectedName // of the path, if it is written
	met       []meeting
}

// meeting is a rule that met the part.
type meeting struct {
	rule *Rule
	how  met
}

func (j *judgement) meet(r *Rule, how met) {
	if how != metNot {
		j.met = append(j.met, meeting{r, how})
	}
}

func (j *judgement) protect(part protectedName) { j.protected = part }

// conclude makes a part of what was collected: a deny of any scope wins; between
// ask and allow the higher scope wins, within one scope ask; an "always" beats
// the asks that it answered; nothing means the default. Over all that stand the
// protected paths and what may turn out to be forbidden.
func (j *judgement) conclude() Part {
	p := Part{Kind: j.kind, Text: j.text}
	var deny, maybe, winner, named *Rule
	for _, m := range j.met {
		r := m.rule
		switch {
		case r.Action == tool.Deny && m.how == metYes:
			if deny == nil || r.Scope > deny.Scope {
				deny = r
			}
		case r.Action == tool.Deny:
			if maybe == nil || r.Scope > maybe.Scope {
				maybe = r
			}
		case r.Action == tool.Ask && j.answered(r):
		default:
			if winner == nil || r.Scope > winner.Scope || r.Scope == winner.Scope && r.Action > winner.Action {
				winner = r
			}
		}
		if r.Action == tool.Allow && j.protected != nil && r.pat.given && r.pat.path.names(j.protected) {
			named = r
		}
	}
	by := func(r *Rule, action tool.Action, reason string) {
		p.Action, p.Rule, p.Source, p.Scope, p.Reason = action, r.Text, r.Source, r.Scope, reason
	}
	switch {
	case deny != nil:
		by(deny, tool.Deny, because(deny, j.text))
	case maybe != nil:
		by(maybe, tool.Ask, shorten(j.text)+" may turn out to be what deny "+maybe.Text+" forbids")
		p.sticky = true
	case winner != nil && winner.Action == tool.Ask:
		by(winner, tool.Ask, because(winner, j.text))
		p.sticky = winner.Scope == Managed
		p.Protected = j.protected != nil && named == nil
	case j.protected != nil && named == nil:
		p.Action, p.Protected, p.Reason = tool.Ask, true, shorten(j.text)+" is a protected path ("+j.protected.String()+")"
		p.Rule, p.Scope = "protected("+j.protected.String()+")", BuiltIn
	case winner != nil:
		by(winner, tool.Allow, because(winner, j.text))
	default:
		p.Action, p.Default, p.Reason, p.sticky = j.def, true, "no rule matches "+shorten(j.text), j.sticky
		if j.reason != "" {
			p.Reason = j.reason
		}
	}
	p.sticky = p.sticky || p.Protected
	return p
}

// answered reports whether an "always" of a person settled the ask rule r.
func (j *judgement) answered(r *Rule) bool {
	return r.Scope != Managed && slices.ContainsFunc(j.met, func(m meeting) bool {
		return m.rule.Action == tool.Allow && slices.Contains(m.rule.Overrides, r.Text)
	})
}

func (j *judgement) matches() []Match {
	list := make([]Match, 0, len(j.met))
	for _, m := range j.met {
		r := m.rule
		list = append(list, Match{Action: r.Action, Rule: r.Text, Source: r.Source, Scope: r.Scope,
			Maybe: m.how == metMaybe, Overridden: r.Action == tool.Ask && j.answered(r)})
	}
	return list
}

func (c *call) conclude(j *judgement, n note) {
	p := j.conclude()
	if c.trace {
		p.Matches = j.matches()
	}
	n.where = j.where
	c.add(p, n)
}

func because(r *Rule, text string) string {
	verb := " allows "
	switch r.Action {
	case tool.Ask:
		verb = " asks about "
	case tool.Deny:
		verb = " denies "
	}
	return r.Text + verb + shorten(text)
}
