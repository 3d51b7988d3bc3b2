package policy

import (
	"path"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/tool"
)

// call is one call being judged.
type call struct {
	*Query
	policy  *Policy
	trace   bool
	name    string
	def     tool.Action
	rules   []*Rule // that are about the tool
	base    string  // what relative paths start from
	decoded fields
	parts   []Part
	notes   []note // what suggest needs to know of each part
}

// note is what a part was made of.
type note struct {
	command *command
	where   []location
	tool    string
}

// met is how a rule met a part.
type met uint8

const (
	metNot   met = iota
	metMaybe     // it could, once what is unknown is known
	metYes
)

// judgeAll cuts the call into parts and judges each.
func (c *call) judgeAll() {
	list := c.Subjects
	if list == nil {
		list = subjects(c.Spec, c.args())
	}
	commands := slices.ContainsFunc(list, func(s tool.Subject) bool { return s.Kind == tool.SubjectCommand })
	for _, s := range list {
		switch s.Kind {
		case tool.SubjectCommand:
		case tool.SubjectPath:
			if commands {
				c.workingDir(s.Value)
				continue
			}
			c.judgePath(s.Value, s.Write)
		default:
			c.judgeText(s.Value)
		}
	}
	for _, s := range list {
		if s.Kind == tool.SubjectCommand {
			c.judgeLine(s.Value)
		}
	}
	if len(c.parts) == 0 {
		c.judgeText("")
	}
}

// workingDir is where a command starts: relative redirections begin there, and
// rules that forbid the path count.
func (c *call) workingDir(dir string) {
	l, ok := locate(dir, c.Workspace, c.Workspace, c.Home)
	if !ok {
		return
	}
	c.base = l.abs
	where := c.realToo(l, nil)
	for _, r := range c.rules {
		if r.Action == tool.Deny && r.pat.given && !r.pat.all() && r.pat.path != nil && metAny(r, where) && strings.Contains(r.pat.text, "/") {
			c.add(Part{Kind: PartRead, Text: dir, Action: tool.Deny, Rule: r.Text, Source: r.Source, Scope: r.Scope,
				Reason: because(r, dir)}, note{where: where})
			return
		}
	}
}

func (c *call) add(p Part, n note) {
	c.parts = append(c.parts, p)
	c.notes = append(c.notes, n)
}

// realToo adds where the path really is. The error, if there is one, is kept in
// failed.
func (c *call) realToo(l location, failed *bool) []location {
	where := []location{l}
	if c.Real == nil {
		return where
	}
	real, err := c.Real(l.abs)
	if err != nil {
		if failed != nil {
			*failed = true
		}
		return where
	}
	if real == l.abs {
		return where
	}
	r := location{abs: path.Clean(real)}
	r.rel, r.home = under(r.abs, c.Workspace), under(r.abs, c.Home)
	if r.rel == "" && l.rel != "" { // the workspace itself may be a symlink
		if root, err := c.Real(c.Workspace); err == nil {
			r.rel = under(r.abs, root)
		}
	}
	return append(where, r)
}

func metAny(r *Rule, where []location) bool {
	return slices.ContainsFunc(where, func(l location) bool { return r.pat.path.match(l, false) })
}

func metAll(r *Rule, where []location) bool {
	for _, l := range where {
		if !r.pat.path.match(l, true) {
			return false
		}
	}
	return len(where) > 0
}

// rulesOnPaths reports whether any rule could look at the path of a read.
func (c *call) rulesOnPaths() bool {
	return len(c.rules) > 0 || slices.ContainsFunc(c.policy.rules, func(r *Rule) bool { return r.pat.given })
}

// judgePath judges one path that the tool itself reads or writes.
func (c *call) judgePath(name string, write bool) {
	kind := PartRead
	if write {
		kind = PartWrite
	}
	j := judgement{kind: kind, text: name, def: c.def}
	l, ok := locate(name, c.base, c.Workspace, c.Home)
	failed := !ok
	switch {
	case ok && (write || c.rulesOnPaths()):
		j.where = c.realToo(l, &failed)
	case ok:
		j.where = []location{l} // nothing asks where it really is
	}
	for _, r := range c.rules {
		j.meet(r, c.meetsPath(r, j.where, failed))
	}
	shows := write && c.Spec.Source == "" && pathTools[c.Spec.Name]
	if kind == PartRead && c.Spec.Effects&tool.Read != 0 || shows {
		// A path that "read" may not have, no other reading tool may have. Nor may
		// the built-in writers, whose diffs and errors show what is in the file;
		// those are not asked about reading, only denied.
		for _, r := range c.policy.rules {
			if r.Action != tool.Allow && (r.Action == tool.Deny || !shows) && r.pat.given && r.sel.kind == selName && r.sel.name == "read" && !r.sel.named(c.Spec) && metAny(r, j.where) {
				j.meet(r, metYes)
			}
		}
	}
	if write {
		j.protect(protectedPart(j.where))
	}
	c.conclude(&j, note{})
}

// meetsPath says how a rule meets a path that is part of this call.
func (c *call) meetsPath(r *Rule, where []location, unknownPlace bool) met {
	if !r.pat.given {
		return metYes
	}
	if r.pat.key != "" && c.hasArgument(r.pat.key) {
		return c.meetsKey(r)
	}
	if r.Action == tool.Allow {
		return yes(!unknownPlace && metAll(r, where))
	}
	return yes(metAny(r, where))
}

func yes(ok bool) met {
	if ok {
		return metYes
	}
	return metNot
}

// hasArgument reports whether "key:glob" means an argument of this tool.
func (c *call) hasArgument(key string) bool {
	if key == "domain" {
		return true
	}
	if c.Spec.Input != nil {
		if _, ok := c.Spec.Input.Properties[key]; ok {
			return true
		}
	}
	_, ok := c.args().get(key)
	return ok
}

// meetsKey matches "key:glob": an allow needs all values to match, others one.
func (c *call) meetsKey(r *Rule) met {
	values := c.argument(r.pat.key)
	if r.Action == tool.Allow {
		return yes(len(values) > 0 && !slices.ContainsFunc(values, func(v string) bool { return !r.pat.value.match(v) }))
	}
	return yes(slices.ContainsFunc(values, r.pat.value.match))
}

// judgeText judges a call by a string, or by its arguments.
func (c *call) judgeText(text string) {
	j := judgement{kind: PartText, text: text, def: c.def}
	whole := text
	if text == "" {
		j.kind, j.text = PartCall, c.name
	}
	for _, r := range c.rules {
		switch {
		case !r.pat.given:
			j.meet(r, metYes)
		case r.pat.key != "" && c.hasArgument(r.pat.key):
			j.meet(r, c.meetsKey(r))
		default:
			if whole == "" {
				whole = canonical(c.Arguments)
			}
			j.meet(r, yes(r.pat.whole.match(whole)))
		}
	}
	c.conclude(&j, note{})
}
