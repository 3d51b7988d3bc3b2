package policy

import (
	"slices"

	"github.com/toolyard/toolyard/tool"
)

// Closed gives a test for the absolute real paths of files and directories:
// whether a rule with a path keeps read, or the searching tool named, from
// showing them without a question. A search asks it for each file, for a rule
// must not be got round by naming the directory above. It is nil if no rule
// could close anything.
func (p *Policy) Closed(search, workspace, home string, mode Mode) func(path string) bool {
	return p.keeps(Query{Workspace: workspace, Home: home, Mode: mode}, tool.Ask, "read", search)
}

// Denied gives a test for the absolute real paths of files and directories:
// whether a deny rule with a path keeps read from them. The sandbox hides them
// from commands. It is nil if no rule could deny anything.
func (p *Policy) Denied(workspace, home string) func(path string) bool {
	return p.keeps(Query{Workspace: workspace, Home: home}, tool.Deny, "read")
}

// keeps tests paths for a verdict of at least least on one of the readers.
func (p *Policy) keeps(q Query, least tool.Action, readers ...string) func(path string) bool {
	var specs []*tool.Spec
	var rules []*Rule
	for _, name := range readers {
		spec := &tool.Spec{Name: name, Category: "files", Effects: tool.Read, Default: tool.Allow}
		specs = append(specs, spec)
		for _, r := range p.rules {
			if r.Action >= least && r.pat.given && r.pat.path != nil && r.sel.meets(spec, r.Action) {
				rules = append(rules, r)
			}
		}
	}
	if len(rules) == 0 {
		return nil
	}
	return func(path string) bool {
		l, ok := locate(path, q.Workspace, q.Workspace, q.Home)
		if !ok {
			return true
		}
		where := []location{l}
		if !slices.ContainsFunc(rules, func(r *Rule) bool { return metAny(r, where) }) {
			return false
		}
		return slices.ContainsFunc(specs, func(spec *tool.Spec) bool {
			q := q
			q.Spec, q.Subjects = spec, []tool.Subject{{Kind: tool.SubjectPath, Value: path}}
			return p.Check(q).Action >= least
		})
	}
}
