package tool

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// Defaults that stand where a Spec says nothing.
const (
	DefaultTimeout   = 30 * time.Second
	DefaultMaxOutput = 50 << 10 // bytes of text in one result
)

// Spec describes a tool: what the model reads, what the policy and the
// scheduler need to know. It is constant for the life of the tool.
type Spec struct {
	// Name is the tool's own name, without its source: "read". Letters, digits,
	// '_' and '-'.
	Name string
	// Source is where the tool comes from: empty for a built-in, else the name of
	// the toolbox, server or skill. "source:name" is the full name.
	Source string
	// Title is the name shown to a person. Empty means Name.
	Title string
	// Description is for the model: what it does, when to use it, when not.
	Description string
	// Manual is Markdown, usually embedded from <tool>.md.
	Manual string
	// Category is the family: "files", "shell".
	Category string
	// Version is a semantic version. Empty means "1.0.0".
	Version string
	// Tags are free words to look the tool up by.
	Tags []string

	// Input and Output are JSON Schemas (draft 2020-12). New derives them. A nil
	// Output means that Structured follows no schema.
	Input, Output *jsonschema.Schema
	// Definition is the Tool object of MCP as another server sent it. If it is set
	// clients see it unchanged but for its name, and arguments are checked but not
	// changed: no defaults, no aliases.
	Definition json.RawMessage
	// ArgumentAliases maps other accepted argument names to the schema's own, in
	// every object of Input that has the own name and not the alias.
	ArgumentAliases map[string]string

	Effects     Effects
	Destructive bool // may remove or overwrite
	Idempotent  bool // a second identical call changes nothing more
	OpenWorld   bool // reaches beyond this machine
	Repeatable  bool // polling is normal: no doom loop
	// ConcurrencySafe says that calls never disturb each other. A tool that is
	// neither this nor a [Resourcer] runs alone in its workspace.
	ConcurrencySafe bool
	// Cacheable opts in to the result cache. It counts only for idempotent tools
	// with no effect other than read and network.
	Cacheable bool
	// Default is the permission where no rule matches. Zero means Ask.
	Default Action

	// Timeout is how long one attempt may run. Zero means [DefaultTimeout];
	// negative means no limit.
	Timeout time.Duration
	// MaxTimeout is the ceiling of what a caller may ask for. Zero means 10 min.
	MaxTimeout time.Duration
	// MaxOutput is the text one result may hold, in bytes, before it is folded.
	// Zero means [DefaultMaxOutput].
	MaxOutput int
	// Pages says that the tool cuts its own output to MaxOutput and names the
	// next offset, so the executor does not fold it to head and tail.
	Pages bool

	Scope    Scope
	Requires []Requirement
	// Aliases are other names under which the tool may be called.
	Aliases []string

	Examples    []Example
	Scenarios   []string // when to use it
	Limitations []string
	Errors      []BusinessError
}

// TagShipped is the tag of a tool of the toolbox that comes with the program.
const TagShipped = "shipped"

// FullName is "source:name", or the bare name of a built-in.
func (s *Spec) FullName() string {
	if s.Source == "" {
		return s.Name
	}
	return s.Source + ":" + s.Name
}

// ReadOnly reports whether no effect changes anything outside the runtime.
func (s *Spec) ReadOnly() bool { return s.Effects&(Write|Execute) == 0 }

// Scope says who sees a tool.
type Scope uint8

const (
	ScopeSystem Scope = iota // every tenant
	ScopeTenant
	ScopeProject
)

// Requirement is another tool that must be present, and in which versions (a
// semantic version range; empty is any).
type Requirement struct {
	Tool    string
	Version string
}

// Example is one call with what it gives.
type Example struct {
	Title     string
	Arguments json.RawMessage
	Result    string
}

// BusinessError is a failure that the tool's author foresaw.
type BusinessError struct {
	Code        string
	Description string
	Match       string // a substring of the message
	Solution    string
	Retryable   bool
}

// Effects is the set of things that a tool may do.
type Effects uint8

const (
	Read     Effects = 1 << iota // reads the workspace
	Write                        // changes files
	Execute                      // starts programs
	Network                      // talks to other machines
	Interact                     // asks a person
	State                        // changes only the runtime's own records
)

var effectNames = []struct {
	bit  Effects
	name string
}{{Read, "read"}, {Write, "write"}, {Execute, "execute"}, {Network, "network"}, {Interact, "interact"}, {State, "state"}}

// Names lists the effects in a fixed order.
func (e Effects) Names() []string {
	var names []string
	for _, n := range effectNames {
		if e&n.bit != 0 {
			names = append(names, n.name)
		}
	}
	return names
}

func (e Effects) String() string { return strings.Join(e.Names(), ",") }

// ParseEffect turns "write" into Write.
func ParseEffect(name string) (Effects, error) {
	for _, n := range effectNames {
		if n.name == name {
			return n.bit, nil
		}
	}
	return 0, fmt.Errorf("no effect %q: read, write, execute, network, interact or state", name)
}

// MarshalJSON writes the list of names.
func (e Effects) MarshalJSON() ([]byte, error) {
	names := e.Names()
	if names == nil {
		names = []string{}
	}
	return json.Marshal(names)
}
