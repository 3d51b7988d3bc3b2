// Package profile says which tools a session may call and which of those it is
// shown. It knows specs and names, not sessions and not calls.
package profile

import (
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/registry"
	"github.com/toolyard/toolyard/internal/validate"
	"github.com/toolyard/toolyard/tool"
)

// Mode is how many of its tools a session is shown.
type Mode string

// The modes.
const (
	Full   Mode = "full"   // all
	Search Mode = "search" // those that find and call the others
	Auto   Mode = "auto"   // all while they are few, else those of Search and the most needed
)

// Few is how many tools Auto shows whole.
const Few = 30

// Default is the profile that is used where none is named.
const Default = "auto"

// finders find and call the tools that are not shown. They call nothing that the
// session may not call itself.
var finders = []string{"tool_search", "tool_describe", "call_tool"}

// needed are shown beside them in mode Auto: what nearly every task begins with.
var needed = []string{
	"read", "write", "edit", "patch", "glob", "grep", "list", "bash", "todowrite", "execute_batch", "toolm", "search_prompts", "get_prompt",
}

// Definition is a profile as a person writes it.
type Definition struct {
	// Tools are patterns: see [New]. None means every tool.
	Tools []string
	// Mode is full, search or auto (also "").
	Mode string
}

// Set is the profiles that there are. It does not change.
type Set struct {
	profiles map[string]*Profile
}

// New makes the set of what was defined and the built-in profiles auto, full and
// search, which have every tool; a definition of the same name stands in their
// place. Patterns are
//
//	read, github:create_issue   a tool, in any spelling
//	files, category:files       a family
//	github:*, toolbox:*         all tools of a source
//	git_*, github:list_*        names, "*" being any run of characters
//	effect:write                tools with that effect
//	*                           every tool
//	!x                          not what x means; this beats all others
//
// Where only such exclusions stand everything else is in. A wrong definition is a
// VALIDATION_ERROR.
func New(defined map[string]Definition) (*Set, error) {
	s := &Set{profiles: map[string]*Profile{}}
	for _, mode := range []Mode{Auto, Full, Search} {
		s.profiles[string(mode)] = &Profile{name: string(mode), mode: mode}
	}
	for name, d := range defined {
		p, err := newProfile(name, d)
		if err != nil {
			return nil, err
		}
		s.profiles[name] = p
	}
	return s, nil
}

// Names lists the profiles, sorted.
func (s *Set) Names() []string {
	names := make([]string, 0, len(s.profiles))
	for name := range s.profiles {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Find gives a profile by its name, "" being [Default]. One that there is not is
// NOT_FOUND, with the nearest.
func (s *Set) Find(name string) (*Profile, error) {
	if name == "" {
		name = Default
	}
	if p := s.profiles[name]; p != nil {
		return p, nil
	}
	const longest = 80
	if len(name) > longest {
		name = strings.ToValidUTF8(name[:longest], "") + "…"
	}
	names := s.Names()
	err := tool.Errorf(tool.NotFound, "there is no profile %q", name).
		WithHint("There are %s. Others are defined under profiles in the configuration.", strings.Join(names, ", "))
	if near, close := validate.Nearest(name, names); near != "" && close {
		err = err.WithHint("Did you mean %s? There are %s.", near, strings.Join(names, ", ")).WithDetail("nearest", []string{near})
	}
	return nil, err
}

// Profile is which tools a session may call and how many of them it is shown. It
// is safe for concurrent use and does not change.
type Profile struct {
	name string
	mode Mode
	// parts must all let a tool in.
	parts []part
}

// part is one list of patterns, or a test.
type part struct {
	include, exclude []pattern
	test             func(*tool.Spec) bool
}

func newProfile(name string, d Definition) (*Profile, error) {
	if !isName(name) {
		return nil, tool.Errorf(tool.ValidationError, "%q is no name for a profile", name).
			WithHint("Use 1 to 64 letters, digits, '_', '-' and '.'.")
	}
	p := &Profile{name: name}
	switch p.mode = Mode(d.Mode); p.mode {
	case "":
		p.mode = Auto
	case Full, Search, Auto:
	default:
		return nil, tool.Errorf(tool.ValidationError, "profile %s: there is no mode %q", name, d.Mode).WithHint("Use full, search or auto.")
	}
	if len(d.Tools) == 0 {
		return p, nil
	}
	return p.Narrow(d.Tools)
}

// isName says whether a profile may have a name: it stands in URLs.
func isName(name string) bool {
	const most = 64
	return name != "" && len(name) <= most && name[0] != '.' &&
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") == ""
}

// Name is what the profile is called.
func (p *Profile) Name() string { return p.name }

// Mode is how many of its tools are shown.
func (p *Profile) Mode() Mode { return p.mode }

// Narrow gives the profile with only those of its tools that patterns let in.
func (p *Profile) Narrow(patterns []string) (*Profile, error) {
	var one part
	for _, text := range patterns {
		rest, excluded := strings.CutPrefix(text, "!")
		parsed, err := parse(rest)
		if err != nil {
			return nil, tool.Errorf(tool.ValidationError, "profile %s: %q is no pattern of tools", p.name, text).
				WithHint("Write a tool's name, a family, source:*, category:name, effect:name, or one of them with ! in front.")
		}
		if excluded {
			one.exclude = append(one.exclude, parsed)
		} else {
			one.include = append(one.include, parsed)
		}
	}
	return p.with(one), nil
}

// Only gives the profile with only those of its tools that allowed lets in. Nil
// lets in all.
func (p *Profile) Only(allowed func(*tool.Spec) bool) *Profile {
	if allowed == nil {
		return p
	}
	return p.with(part{test: allowed})
}

// And gives the profile with only those of its tools that another lets in too.
func (p *Profile) And(other *Profile) *Profile {
	if other == nil || other == p {
		return p
	}
	return p.with(other.parts...)
}

func (p *Profile) with(parts ...part) *Profile {
	narrowed := *p
	narrowed.parts = slices.Concat(p.parts, parts)
	return &narrowed
}

// Allowed is the test that executor.Call takes: nil if every tool may be called.
func (p *Profile) Allowed() func(*tool.Spec) bool {
	if len(p.parts) == 0 {
		return nil
	}
	return p.Allows
}

// Allows reports whether a session may call a tool. The tools that find and call
// others are in, unless they are excluded or everything is shown: what they call
// is judged by itself.
func (p *Profile) Allows(s *tool.Spec) bool {
	finder := p.mode != Full && isFinder(s)
	for _, one := range p.parts {
		if !one.allows(s, finder) {
			return false
		}
	}
	return true
}

func (p part) allows(s *tool.Spec, finder bool) bool {
	if p.test != nil {
		return finder || p.test(s)
	}
	for _, e := range p.exclude {
		if e.matches(s) && !(finder && e.broad()) {
			return false
		}
	}
	if finder || len(p.include) == 0 {
		return true
	}
	return slices.ContainsFunc(p.include, func(i pattern) bool { return i.matches(s) })
}

// Shown picks from the tools that there are those that a session is shown, in
// their order, and says whether it must search for the others. In mode auto that
// is so from more than [Few] tools on; those of the toolbox that come with the
// program do not count, so that a person's own tools are not hidden behind them.
func (p *Profile) Shown(specs []*tool.Spec) (shown []*tool.Spec, searching bool) {
	allowed := make([]*tool.Spec, 0, len(specs))
	count, found := 0, false
	for _, s := range specs {
		if !p.Allows(s) {
			continue
		}
		allowed = append(allowed, s)
		switch {
		case isFinder(s):
			found = true
		case !slices.Contains(s.Tags, tool.TagShipped):
			count++
		}
	}
	switch {
	case p.mode == Full:
		return allowed, false
	case p.mode == Auto && count <= Few:
		return slices.DeleteFunc(allowed, isFinder), false
	case !found: // those that would find the rest are switched off
		return allowed, false
	}
	return slices.DeleteFunc(allowed, func(s *tool.Spec) bool {
		return !isFinder(s) && !(p.mode == Auto && s.Source == "" && slices.Contains(needed, s.Name))
	}), true
}

func isFinder(s *tool.Spec) bool { return s.Source == "" && slices.Contains(finders, s.Name) }

// pattern is one entry of a list of tools.
type pattern struct {
	name     string // of a tool in full, in our spelling
	other    string // of a tool, as another system calls it
	glob     string // of a full name
	source   string
	category string
	effect   tool.Effects
	word     bool // name may also be a family or a source
	wire     bool // it may be a name on the wire
	all      bool
}

func parse(text string) (pattern, error) {
	text = strings.TrimSpace(text)
	kind, rest, prefixed := strings.Cut(text, ":")
	switch {
	case text == "" || strings.ContainsAny(text, " \t\n()!,"):
		return pattern{}, errPattern
	case text == "*":
		return pattern{all: true}, nil
	case prefixed && kind == "category" && rest != "":
		return pattern{category: rest}, nil
	case prefixed && kind == "effect":
		effect, err := tool.ParseEffect(rest)
		return pattern{effect: effect}, err
	case prefixed && rest == "*" && !strings.Contains(kind, "*"):
		return pattern{source: kind}, nil
	case prefixed && (kind == "" || rest == ""):
		return pattern{}, errPattern
	case strings.Contains(text, "*"):
		return pattern{glob: text, wire: strings.Contains(text, "__")}, nil
	}
	p := pattern{name: text, word: !prefixed}
	for _, prefix := range []string{"mcp__toolyard__", "toolyard__", "toolyard:", "mcp__"} {
		if own, ok := strings.CutPrefix(p.name, prefix); ok && own != "" {
			p.name = own
			break
		}
	}
	p.other, _ = registry.Known(p.name)
	p.wire = strings.Contains(p.name, "__") || len(p.name) >= longestWire
	return p, nil
}

// longestWire is the length of the names on the wire that were cut.
const longestWire = 48

var errPattern = tool.Errorf(tool.ValidationError, "not a pattern of tools")

// broad says that a pattern names no tool by itself.
func (p pattern) broad() bool { return p.name == "" }

func (p pattern) matches(s *tool.Spec) bool {
	switch full := s.FullName(); {
	case p.all:
		return true
	case p.effect != 0:
		return s.Effects&p.effect != 0
	case p.category != "":
		return strings.EqualFold(s.Category, p.category)
	case p.source != "":
		return s.Source == p.source || s.Source == "" && strings.EqualFold(s.Category, p.source)
	case p.glob != "":
		return match(p.glob, full) || p.wire && match(p.glob, tool.WireName(full))
	case p.name == full, p.wire && p.name == tool.WireName(full), slices.Contains(s.Aliases, p.name), p.other != "" && p.other == full:
		return true
	case p.word:
		return s.Source == p.name || strings.EqualFold(s.Category, p.name)
	}
	return false
}

// match reports whether text fits a pattern in which "*" is any run.
func match(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	rest, ok := strings.CutPrefix(text, parts[0])
	if !ok {
		return false
	}
	last := len(parts) - 1
	for _, part := range parts[1:last] {
		i := strings.Index(rest, part)
		if i < 0 {
			return false
		}
		rest = rest[i+len(part):]
	}
	return strings.HasSuffix(rest, parts[last])
}
