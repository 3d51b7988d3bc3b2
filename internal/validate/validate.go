// Package validate decides whether the arguments of a call fit a tool's input
// schema: it repairs what did not parse, resolves aliases, checks, and fills in
// defaults. It knows schemas and JSON, and neither tools' meaning nor who calls.
package validate

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/toolyard/toolyard/tool"
)

// Validator checks arguments against one tool's input. It is safe for
// concurrent use and cheap to use often: make one per tool version.
type Validator struct {
	root      *schema
	foreign   bool // arguments are checked and not changed
	unchecked []string
	runs      sync.Pool
}

// Compile prepares the validator of a tool's input: Spec.Input with the
// argument aliases of the spec. A nil Input takes an empty object. It returns an
// error if the schema itself is broken: a reference that leads nowhere or out of
// the schema, a type that does not exist, a reference that goes round in a
// circle. Draft 2020-12 and, where $schema says so, draft 7 are understood.
//
// A tool with a Definition gets its arguments as they came: no aliases, no
// defaults. Where its schema is broken any object passes, since the server that
// sent it checks for itself.
func Compile(spec *tool.Spec) (*Validator, error) {
	input := spec.Input
	if input == nil {
		input = &jsonschema.Schema{Type: "object", AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}}}
	}
	if spec.Definition != nil {
		v, err := compile(input, nil)
		if err != nil {
			v, err = compile(&jsonschema.Schema{Type: "object"}, nil)
		}
		if v != nil {
			v.foreign = true
		}
		return v, err
	}
	v, err := compile(input, spec.ArgumentAliases)
	if err != nil {
		return nil, fmt.Errorf("input schema of %s: %w", spec.FullName(), err)
	}
	return v, nil
}

// CompileSchema prepares a validator of any JSON value: a tool's output, a
// configuration. Use it with [Validator.Check].
func CompileSchema(s *jsonschema.Schema) (*Validator, error) { return compile(s, nil) }

// Unchecked lists the patterns of the schema that Go's regular expressions
// cannot express (look-around, back-references); values are not held to them.
func (v *Validator) Unchecked() []string { return v.unchecked }

// Arguments makes the arguments of a call ready for the tool: it repairs what
// did not parse, resolves aliases at every object, checks the whole against the
// schema and applies defaults. Absent arguments and null are {}. If nothing had
// to change, args is raw itself. repaired says that the JSON was not valid as
// it came.
//
// err is a [*tool.Error] VALIDATION_ERROR; where the JSON was readable, its
// Faults are all that is wrong at once.
func (v *Validator) Arguments(raw json.RawMessage) (args json.RawMessage, repaired bool, err error) {
	r := v.run()
	defer v.release(r)
	text := string(raw)
	if blank(text) {
		text = "{}"
		raw = json.RawMessage("{}")
	}
	text, repaired, err = r.parseArguments(text)
	if err != nil {
		return nil, repaired, err
	}
	if repaired {
		r.changed = true
	}
	if r.doc.nodes[0].kind == kindNull {
		text = "{}"
		raw, r.changed = json.RawMessage("{}"), false
		if text, _, err = r.parseArguments(text); err != nil {
			return nil, repaired, err
		}
	}
	var out faults
	if v.root.touches && !v.foreign {
		r.rename(0, v.root, &out)
	}
	r.check(0, v.root, nil, &out)
	if r.spent() {
		return nil, repaired, tool.Errorf(tool.ValidationError, "the arguments are too deep or too many to check against the schema").
			WithHint("Send smaller or flatter arguments.")
	}
	if out.total > 0 {
		return nil, repaired, out.err()
	}
	if v.root.defaultsBelow && !v.foreign {
		r.defaults(0, v.root)
	}
	if !r.changed {
		return raw, repaired, nil
	}
	return r.doc.encode(make([]byte, 0, len(text)+128)), repaired, nil
}

// Check reports all faults of a JSON value, without repair, aliases or
// defaults. What is not JSON is one fault of the whole.
func (v *Validator) Check(raw json.RawMessage) []tool.Fault {
	r := v.run()
	defer v.release(r)
	if err := r.doc.parse(string(raw)); err != nil {
		return []tool.Fault{{Expected: "JSON", Got: err.Error()}}
	}
	var out faults
	r.check(0, v.root, nil, &out)
	if r.spent() {
		return []tool.Fault{{Expected: "a value that can be checked in bounded time", Got: "one too deep or too large for this schema"}}
	}
	return out.list
}

// run is the state of one validation. It is reused.
type run struct {
	doc     doc
	path    []step
	scope   []*resource // dynamic scope, for $dynamicRef
	depth   int
	steps   int
	limit   int
	over    bool
	changed bool
}

// step is one part of the path to the value at hand.
type step struct {
	key   string
	index int // of an item; -1 for a member
}

// Bounds of one validation, against schemas made to take forever.
const (
	maxDepth     = 200     // of the JSON
	maxRecursion = 4000    // schemas inside schemas
	stepsBase    = 1 << 21 // schemas applied, plus stepsPerNode for each value
	stepsPerNode = 64
	keepNodes    = 4096 // a run with more is not kept for the next call
)

func (v *Validator) run() *run {
	if r, ok := v.runs.Get().(*run); ok {
		return r
	}
	return &run{}
}

func (v *Validator) release(r *run) {
	if cap(r.doc.nodes) > keepNodes {
		return
	}
	clear(r.doc.nodes)
	clear(r.path[:cap(r.path)])
	*r = run{doc: doc{nodes: r.doc.nodes[:0]}, path: r.path[:0], scope: r.scope[:0]}
	v.runs.Put(r)
}

// enter counts one schema applied and says whether to go on.
func (r *run) enter() bool {
	if r.limit == 0 {
		r.limit = stepsBase + stepsPerNode*len(r.doc.nodes)
	}
	r.steps++
	r.depth++
	if r.steps > r.limit || r.depth > maxRecursion {
		r.over = true
	}
	return !r.over
}

func (r *run) spent() bool { return r.over }

func (r *run) pushKey(key string) { r.path = append(r.path, step{key: key, index: -1}) }
func (r *run) pushIndex(i int)    { r.path = append(r.path, step{index: i}) }
func (r *run) pop()               { r.path = r.path[:len(r.path)-1] }

// where writes the path: "edits[2].old_str".
func (r *run) where() string { return pathText(r.path) }

func pathText(path []step) string {
	var b strings.Builder
	for i, s := range path {
		switch {
		case s.index >= 0:
			fmt.Fprintf(&b, "[%d]", s.index)
		case !plainKey(s.key):
			fmt.Fprintf(&b, "[%q]", shorten(s.key))
		default:
			if i > 0 {
				b.WriteByte('.')
			}
			b.WriteString(s.key)
		}
	}
	return b.String()
}

func plainKey(key string) bool {
	if key == "" || len(key) > maxShown {
		return false
	}
	for _, c := range []byte(key) {
		if c <= ' ' || c == '.' || c == '[' || c == ']' || c == '"' || c >= 0x7f {
			return false
		}
	}
	return true
}

func blank(text string) bool {
	for i := range len(text) {
		switch text[i] {
		case ' ', '\t', '\n', '\r':
		default:
			return false
		}
	}
	return true
}
