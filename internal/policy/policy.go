// Package policy decides whether a call may run: allow, ask or deny, and why.
// It is pure: it runs nothing, asks nobody and keeps no records. It knows
// specs, arguments and paths as strings; it does not know the executor, the
// sandbox or the file system, except through [Query.Real].
//
// A [Policy] is a list of rules. [Policy.Check] cuts a call into parts (each
// path, each simple command of a shell line, each redirection) and judges every
// part by itself; the strongest answer is the verdict.
//
// # Rules
//
// A rule names tools and, in parentheses, which of their calls:
//
//	bash(go test *)            one simple command; a trailing " *" or ":*" also matches nothing
//	edit(src/**)               a path, as gitignore writes it: //x absolute, ~/x home, /x and x/y from the workspace, x at any depth
//	web_scrape(domain:*.a.org) an argument, or the host of a URL
//	github:*                   all tools of a source
//	effect:write(*.lock)       all tools with an effect
//	category:git               a family
//
// Names are literal: edit(src/**) is not about write. The group of all writers
// is effect:write(src/**). Two groups are looser, for safety: what read(…)
// denies or asks about, no other reading tool gets either; and a redirection of
// the shell is judged as write(path) or read(path), as are the operands of
// well-known programs such as tee and cat, if that makes the verdict stricter.
//
// An allow rule is strict: it covers a command only if all its words are known,
// and never a substitution, a redirection, or a word that makes a program run
// another one, unless the rule spells that word out (see hazards). Ask and deny
// rules are loose: through wrappers, by base name, and where the command is not
// known but could be what a rule denies, somebody is asked.
package policy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/toolyard/toolyard/tool"
)

// Mode is how freely a session works.
type Mode string

// The modes. The empty Mode is Build.
const (
	Build   Mode = "build"
	Plan    Mode = "plan"    // refuses write, execute and network
	Explore Mode = "explore" // refuses write, execute and network
	Trusted Mode = "trusted" // asks become allows; denies stay
)

// Modes lists every mode, for flags and configuration.
func Modes() []Mode { return []Mode{Build, Plan, Explore, Trusted} }

// ParseMode turns text into a mode; "" is Build.
func ParseMode(text string) (Mode, error) {
	if text == "" {
		return Build, nil
	}
	if m := Mode(text); slices.Contains(Modes(), m) {
		return m, nil
	}
	return "", tool.Errorf(tool.ParameterError, "no mode %q", text).WithHint("Use build, plan, explore or trusted.")
}

// Scope is where a rule was given. A higher scope wins between ask and allow.
type Scope int

// The scopes, from weak to strong.
const (
	BuiltIn Scope = iota
	User
	Project
	Session
	Managed
)

var scopeNames = [...]string{"built-in", "user", "project", "session", "managed"}

func (s Scope) String() string {
	if s < 0 || int(s) >= len(scopeNames) {
		return "unknown"
	}
	return scopeNames[s]
}

// ParseScope turns "user" into User.
func ParseScope(text string) (Scope, error) {
	if i := slices.Index(scopeNames[:], text); i >= 0 {
		return Scope(i), nil
	}
	return 0, tool.Errorf(tool.ParameterError, "no scope %q", text).WithHint("Use user, project, session or managed.")
}

// Policy is a list of rules, ready to judge. It never changes and is safe for
// concurrent use.
type Policy struct {
	rules   []*Rule
	once    sync.Once
	version string
}

// Version is a hash of the rules: policies of the same rules, in the same order,
// have the same version.
func (p *Policy) Version() string {
	p.once.Do(func() {
		h := sha256.New()
		for _, r := range p.rules {
			fmt.Fprintf(h, "%d %d %q %q\n", r.Action, r.Scope, r.Text, r.Overrides)
		}
		p.version = hex.EncodeToString(h.Sum(nil)[:8])
	})
	return p.version
}

// New makes a policy of rules and runs their self-tests. The error is a
// VALIDATION_ERROR that names every rule whose self-test failed. Rules made
// without [ParseRule] are parsed here.
func New(rules []Rule) (*Policy, error) {
	p := &Policy{}
	var faults []tool.Fault
	for _, r := range rules {
		if !r.parsed {
			parsed, err := ParseRule(r.Action, r.Text, r.Scope, r.Source)
			if err != nil {
				faults = append(faults, tool.Fault{Path: place(r), Expected: "a rule", Got: err.Error()})
				continue
			}
			parsed.Match, parsed.NotMatch, parsed.Overrides = r.Match, r.NotMatch, r.Overrides
			r = parsed
		}
		faults = append(faults, r.selfTest()...)
		p.rules = append(p.rules, &r)
	}
	if len(faults) > 0 {
		err := tool.Errorf(tool.ValidationError, "%s: expected %s, got %s", faults[0].Path, faults[0].Expected, faults[0].Got).
			WithHint("Correct the rule, or its match and not_match examples.")
		err.Faults = faults
		return nil, err
	}
	return p, nil
}

// With is a copy of p with more rules. Rules that do not parse, or whose
// self-tests fail, only tighten: an ask or deny among them stops everything, an
// allow is left out. Use [ParseRule] first to report them.
func (p *Policy) With(rules ...Rule) *Policy {
	more := &Policy{rules: slices.Clip(slices.Clone(p.rules))}
	for _, r := range rules {
		if !r.parsed {
			parsed, err := ParseRule(r.Action, r.Text, r.Scope, r.Source)
			if err != nil {
				if r.Action == tool.Allow {
					continue
				}
				parsed = Rule{Action: r.Action, Text: r.Text, Scope: r.Scope, Source: r.Source, parsed: true, sel: selector{kind: selAny}}
			}
			parsed.Overrides = r.Overrides
			r = parsed
		}
		more.rules = append(more.rules, &r)
	}
	return more
}

// Rules lists the rules, highest scope first, in the order given within one.
func (p *Policy) Rules() []Rule {
	rules := make([]Rule, 0, len(p.rules))
	for _, r := range p.rules {
		rules = append(rules, *r)
	}
	slices.SortStableFunc(rules, func(a, b Rule) int { return cmp.Compare(b.Scope, a.Scope) })
	return rules
}

// Query is one call to judge.
type Query struct {
	Spec      *tool.Spec
	Arguments json.RawMessage // validated, aliases resolved, defaults applied
	// Subjects are what rules are matched against. Nil: found from the schema,
	// properties of format "path" and "command".
	Subjects []tool.Subject
	// Coordinates says that the tool only calls others (tool.Coordinator), which
	// are judged instead of it: it is denied by a deny rule, asked for by an ask
	// rule that names it, else allowed.
	Coordinates bool
	// Workspace is the root that relative paths and patterns start from; Home is
	// what "~" means. Empty: such patterns match nothing.
	Workspace, Home string
	Mode            Mode
	// Real gives the absolute path with no symlink of an absolute path, which
	// need not exist. Nil: paths are matched on the given name only. If it fails,
	// no allow rule with a pattern matches that path.
	Real func(path string) (string, error)

	unasked bool // nobody will be asked, so nothing need be suggested
}

// Verdict is what the policy says about a call.
type Verdict struct {
	Action tool.Action
	// Mode says that the session's mode refused the call: MODE_DENIED.
	Mode bool
	// Rule, Source and Scope are of the rule that decided; empty if the tool's
	// default did.
	Rule, Source string
	Scope        Scope
	// Reason is a sentence part for people: "bash(curl *) denies curl x".
	Reason  string
	Default bool // no rule matched; the tool's default decided
	// Protected says that a protected path is behind an ask.
	Protected bool
	Parts     []Part
	// Suggest are the narrowest allow rules that would have let the asked parts
	// run, one a part. Empty where no narrow rule can.
	Suggest []string
	// Overrides are the ask rules that an "always" answers, to be stored with the
	// rules of Suggest (Rule.Overrides).
	Overrides []string
}

// Part is one thing a call does that is judged by itself.
type Part struct {
	Kind         PartKind
	Text         string // the command, the path, the arguments
	Action       tool.Action
	Rule, Source string
	Scope        Scope
	Reason       string
	Default      bool
	Protected    bool
	// Matches are all rules that met the part; only [Policy.Explain] fills them.
	Matches []Match

	sticky bool // an ask that mode trusted does not lift
}

// Match is one rule that met a part.
type Match struct {
	Action       tool.Action
	Rule, Source string
	Scope        Scope
	// Maybe says that the part could turn out to be what the rule forbids.
	Maybe bool
	// Overridden says that an "always" has answered this ask rule.
	Overridden bool
}

// PartKind says what a part is.
type PartKind string

// The kinds of parts.
const (
	PartCall    PartKind = "call"    // the whole call
	PartCommand PartKind = "command" // one simple command
	PartRead    PartKind = "read"    // a path that is read
	PartWrite   PartKind = "write"   // a path that is written
	PartText    PartKind = "text"    // a string, or the arguments
	PartSyntax  PartKind = "syntax"  // a command line that does not parse
)

// coordinators are the built-ins whose inner calls are judged (core.md §4).
var coordinators = []string{"toolm", "call_tool", "compose", "execute_batch", "run_script"}

// Check judges a call. It does not block, unless q.Real does.
func (p *Policy) Check(q Query) Verdict { return p.check(q, false) }

func (p *Policy) check(q Query, trace bool) Verdict {
	c := &call{Query: &q, policy: p, trace: trace, name: q.Spec.FullName()}
	c.base = q.Workspace
	c.def = q.Spec.Default
	if c.def < tool.Allow || c.def > tool.Deny {
		c.def = tool.Ask
	}
	coordinates := q.Coordinates || q.Spec.Source == "" && slices.Contains(coordinators, q.Spec.Name)
	c.rules = make([]*Rule, 0, len(p.rules))
	for _, r := range p.rules {
		if r.sel.meets(q.Spec, r.Action) {
			if coordinates && r.Action == tool.Ask && (r.sel.kind != selName || r.sel.glob) {
				continue
			}
			c.rules = append(c.rules, r)
		}
	}
	if coordinates {
		c.def = tool.Allow
		if q.Spec.Name == "delegate" && q.Spec.Source == "" {
			c.def = tool.Ask
		}
	}
	if v, refused := c.refusedByMode(); refused {
		return v
	}
	c.judgeAll()
	return c.verdict()
}

// refusedByMode is the verdict of plan and explore. A deny rule is the same in
// every mode, so the mode's answer, which says how to get out, comes first.
func (c *call) refusedByMode() (Verdict, bool) {
	if c.Mode != Plan && c.Mode != Explore {
		return Verdict{}, false
	}
	refused := c.Spec.Effects & (tool.Write | tool.Execute | tool.Network)
	if refused == 0 {
		return Verdict{}, false
	}
	return Verdict{
		Action: tool.Deny,
		Mode:   true,
		Reason: "mode " + string(c.Mode) + " refuses tools that " + refusedVerbs(refused),
	}, true
}

func refusedVerbs(e tool.Effects) string {
	text := ""
	for _, v := range []struct {
		bit  tool.Effects
		verb string
	}{{tool.Write, "change files"}, {tool.Execute, "start programs"}, {tool.Network, "use the network"}} {
		if e&v.bit == 0 {
			continue
		}
		if text != "" {
			text += " or "
		}
		text += v.verb
	}
	return text
}

// verdict sums the parts up: the strongest decides.
func (c *call) verdict() Verdict {
	v := Verdict{Parts: c.parts}
	var top *Part
	for i := range c.parts {
		part := &c.parts[i]
		if part.Action == tool.Ask && c.Mode == Trusted && !part.sticky {
			part.Action, part.Reason = tool.Allow, "mode trusted"
		}
		if top == nil || part.Action > top.Action || part.Action == top.Action && top.Default && !part.Default {
			top = part
		}
	}
	v.Action, v.Rule, v.Source, v.Scope = top.Action, top.Rule, top.Source, top.Scope
	v.Reason, v.Default = top.Reason, top.Default
	for _, part := range c.parts {
		if part.Action != tool.Ask {
			continue
		}
		v.Protected = v.Protected || part.Protected
		if part.Rule != "" && part.Scope != Managed && !slices.Contains(v.Overrides, part.Rule) {
			v.Overrides = append(v.Overrides, part.Rule)
		}
	}
	if v.Action == tool.Ask && !c.unasked {
		v.Suggest = c.suggest()
	}
	return v
}
