package policy

import (
	"fmt"
	"strings"

	"github.com/toolyard/toolyard/tool"
)

// maxRule is the longest rule text, in bytes.
const maxRule = 4096

// Rule is one permission rule. Make it with [ParseRule].
type Rule struct {
	Action tool.Action
	// Text is the rule as it was written: "bash(git log *)".
	Text  string
	Scope Scope
	// Source is where it stands: "config.yaml:12", "--allow".
	Source string
	// Match and NotMatch are examples (commands, paths, or whole calls) that the
	// rule must and must not meet. They run when the policy is made.
	Match, NotMatch []string
	// Overrides are the texts of the ask rules that this allow answered and
	// therefore beats, whatever their scope but managed.
	Overrides []string

	parsed bool
	sel    selector
	pat    pattern
}

// selector says which tools a rule is about.
type selector struct {
	kind   selKind
	name   string // full name, or category
	glob   bool   // name holds a "*"
	effect tool.Effects
}

type selKind uint8

const (
	selName selKind = iota + 1
	selEffect
	selCategory
	selAny
)

// pattern says which calls of those tools. The zero pattern is all of them.
type pattern struct {
	given bool
	text  string
	key   string // "key" of "key:glob", if the pattern has that form
	value glob   // of key
	whole glob   // of a text subject
	path  *pathPattern
	shell *shellPattern
}

// all reports whether the pattern excludes nothing.
func (p *pattern) all() bool { return !p.given || p.text == "*" }

// ParseRule reads a rule: tool, source:tool, source:*, effect:write,
// category:git, each with an optional (pattern). Names of other systems and wire
// names are normalised. Errors are VALIDATION_ERROR.
func ParseRule(action tool.Action, text string, scope Scope, source string) (Rule, error) {
	r := Rule{Action: action, Text: text, Scope: scope, Source: source}
	bad := func(format string, args ...any) (Rule, error) {
		return Rule{}, tool.Errorf(tool.ValidationError, "the rule %q %s", shorten(text), fmt.Sprintf(format, args...)).
			WithHint(`Rules look like bash(go test *), edit(src/**), github:*, effect:write or category:git.`)
	}
	if action < tool.Allow || action > tool.Deny {
		return bad("has no action")
	}
	text = strings.TrimSpace(text)
	if len(text) > maxRule {
		return bad("is longer than %d bytes", maxRule)
	}
	if i := strings.IndexFunc(text, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }); i >= 0 {
		return bad("holds the control character %q", text[i])
	}
	name, pat, hasPattern := strings.Cut(text, "(")
	if hasPattern {
		var closed bool
		if pat, closed = strings.CutSuffix(pat, ")"); !closed {
			return bad("has no closing parenthesis at its end")
		}
		if strings.TrimSpace(pat) == "" {
			return bad("has an empty pattern; leave the parentheses out to mean every call")
		}
	}
	name = strings.TrimSpace(name)
	if err := r.sel.parse(name); err != nil {
		return bad("%v", err)
	}
	if name == "delete" {
		if !hasPattern {
			pat = "*"
		}
		if hasPattern && action != tool.Allow {
			pat = "*" + pat // whatever the options before it
		}
		pat, hasPattern = "rm "+pat, true
	}
	if hasPattern {
		if err := r.pat.parse(pat); err != nil {
			return bad("%v", err)
		}
	}
	r.parsed = true
	return r, nil
}

func (s *selector) parse(name string) error {
	if name == "" {
		return fmt.Errorf("names no tool")
	}
	if effect, ok := strings.CutPrefix(name, "effect:"); ok {
		bit, err := tool.ParseEffect(effect)
		s.kind, s.effect = selEffect, bit
		return err
	}
	if category, ok := strings.CutPrefix(name, "category:"); ok {
		if category == "" || !nameChars(category) {
			return fmt.Errorf("names no category")
		}
		s.kind, s.name = selCategory, category
		return nil
	}
	if !nameChars(name) {
		return fmt.Errorf("holds a character that no tool's name has")
	}
	name = NormaliseName(name)
	if name == "*" {
		s.kind = selAny
		return nil
	}
	s.kind, s.name, s.glob = selName, name, strings.Contains(name, "*")
	return nil
}

func nameChars(name string) bool {
	return !strings.ContainsFunc(name, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("_-.:*/@", c))
	})
}

func (p *pattern) parse(text string) error {
	p.given, p.text = true, strings.TrimSpace(text)
	if key, value, ok := strings.Cut(p.text, ":"); ok && isKey(key) && value != "" {
		p.key, p.value = key, compileGlob(value)
	}
	p.whole = compileGlob(p.text)
	var err error
	if p.path, err = parsePathPattern(p.text); err != nil {
		return err
	}
	p.shell, err = parseShellPattern(p.text)
	return err
}

func isKey(s string) bool {
	for i, c := range []byte(s) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
		if !letter && (i == 0 || !(c >= '0' && c <= '9' || c == '-' || c == '.')) {
			return false
		}
	}
	return s != ""
}

// meets reports whether a rule of this selector is about spec. An allow by
// effect is only for tools that do nothing else: reading and own records are
// always included, and running a program includes the writing that it does. An
// ask or a deny is for every tool that has the effect.
func (s *selector) meets(spec *tool.Spec, action tool.Action) bool {
	switch s.kind {
	case selAny:
		return true
	case selEffect:
		if spec.Effects&s.effect == 0 {
			return false
		}
		if action != tool.Allow {
			return true
		}
		covered := s.effect | tool.Read | tool.State
		if s.effect == tool.Execute {
			covered |= tool.Write
		}
		return spec.Effects&^covered == 0
	case selCategory:
		return s.name == spec.Category
	}
	if !s.glob {
		return s.named(spec)
	}
	if spec.Source == "" {
		return wildcard(s.name, spec.Name)
	}
	return wildcard(s.name, spec.Source+":"+spec.Name)
}

func (s *selector) named(spec *tool.Spec) bool {
	if spec.Source == "" {
		return s.name == spec.Name
	}
	n := len(spec.Source)
	return len(s.name) == n+1+len(spec.Name) && s.name[n] == ':' && s.name[:n] == spec.Source && s.name[n+1:] == spec.Name
}

// String is the rule with its name normalised.
func (r Rule) String() string {
	name := r.sel.name
	switch r.sel.kind {
	case selAny:
		name = "*"
	case selEffect:
		name = "effect:" + r.sel.effect.String()
	case selCategory:
		name = "category:" + name
	}
	if r.pat.given {
		return name + "(" + r.pat.text + ")"
	}
	return name
}

// selfTest runs the rule's examples.
func (r *Rule) selfTest() []tool.Fault {
	var faults []tool.Fault
	for _, example := range r.Match {
		if !r.meetsExample(example) {
			faults = append(faults, tool.Fault{Path: place(*r), Expected: "to match " + fmt.Sprintf("%q", example), Got: "no match"})
		}
	}
	for _, example := range r.NotMatch {
		if r.meetsExample(example) {
			faults = append(faults, tool.Fault{Path: place(*r), Expected: "not to match " + fmt.Sprintf("%q", example), Got: "a match"})
		}
	}
	return faults
}

// exampleRoot is the workspace that self-tests are run in.
const exampleRoot = "/workspace"

// meetsExample reports whether a policy of this rule alone would decide about
// the example.
func (r *Rule) meetsExample(example string) bool {
	call, err := ParseCall(example)
	if err != nil || NormaliseName(call.Tool) != r.sel.name {
		call = Call{Tool: r.sel.name, Value: example}
	}
	spec := &tool.Spec{Name: call.Tool, Default: tool.Allow}
	if source, name, ok := strings.Cut(NormaliseName(call.Tool), ":"); ok {
		spec.Source, spec.Name = source, strings.ReplaceAll(name, "*", "x")
	} else {
		spec.Name = strings.ReplaceAll(NormaliseName(call.Tool), "*", "x")
	}
	if r.Action == tool.Allow {
		spec.Default = tool.Ask
	}
	spec.Effects = r.sel.effect
	if r.sel.kind == selCategory {
		spec.Category, spec.Name = r.sel.name, "example"
	}
	q := Query{Spec: spec, Workspace: exampleRoot, Home: "/home/example"}
	q.Subjects, q.Arguments = r.exampleSubjects(call)
	verdict := (&Policy{rules: []*Rule{r}}).Check(q)
	return verdict.Action == r.Action && verdict.Rule == r.Text
}

// pathTools are the built-ins whose pattern is a path, for self-tests and
// examples that come without a spec.
var pathTools = map[string]bool{
	"read": true, "batch_read": true, "write": true, "edit": true, "multi_edit": true, "notebook_edit": true,
	"glob": true, "grep": true, "list": true, "patch": true, "undo": true, "edit_by_ast": true, "batch_edit": true,
	"preview_edit": true, "export_artifact": true, "import_file": true,
}

func (r *Rule) exampleSubjects(call Call) ([]tool.Subject, []byte) {
	name := NormaliseName(call.Tool)
	writes := r.sel.effect&tool.Write != 0 || name == "write" || name == "edit"
	switch {
	case name == "bash" || r.sel.effect&tool.Execute != 0:
		return []tool.Subject{{Kind: tool.SubjectCommand, Value: call.Value}}, nil
	case pathTools[name] || r.sel.effect&(tool.Read|tool.Write) != 0:
		return []tool.Subject{{Kind: tool.SubjectPath, Value: call.Value, Write: writes}}, nil
	}
	args := call.arguments(r.pat.key)
	return []tool.Subject{{Kind: tool.SubjectText, Value: call.Value}}, args
}

func place(r Rule) string {
	where := fmt.Sprintf("%s %q", r.Action, shorten(r.Text))
	if r.Source != "" {
		where = r.Source + ": " + where
	}
	return where
}

// shorten cuts what is absurdly long for a message.
func shorten(s string) string {
	const longest = 200
	if len(s) <= longest {
		return s
	}
	return strings.ToValidUTF8(s[:longest], "") + "…"
}
