// Package tooltest is the contract that every tool passes. A tool's test is a
// call of [Test] plus what is special about the tool. It is for tests only and
// knows no particular tool.
package tooltest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/google/jsonschema-go/jsonschema"
	oracle "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/toolyard/toolyard/internal/validate"
	"github.com/toolyard/toolyard/tool"
)

// Options of the contract. The zero value works for a tool that needs nothing
// but a workspace.
type Options struct {
	// Workspace is the directory that calls get; empty means an empty one of the
	// test's own.
	Workspace string
	// Host is what calls reach back through; nil is none.
	Host tool.Host
	// Arguments is a valid call, for the checks that need one. nil means the
	// first example of the spec; without either those checks use {}.
	Arguments json.RawMessage
	// Within is how soon a call must return: with bad arguments, or when its
	// context is done. Zero means 5 s.
	Within time.Duration
	// Open says that the tool takes arguments that its schema does not name.
	Open bool
}

// Test fails t for each point of the contract that the tool breaks.
func Test(t *testing.T, one tool.Tool, o Options) {
	t.Helper()
	if o.Workspace == "" {
		o.Workspace = t.TempDir()
	}
	for _, problem := range Check(t.Context(), one, o) {
		t.Errorf("%s: %s", nameOf(one), problem)
	}
}

// TestAll runs Test for each tool, and checks that no two answer to one name.
// options gives the Options of a tool by its name; nil means the zero value.
func TestAll(t *testing.T, tools []tool.Tool, options func(name string) Options) {
	t.Helper()
	for _, one := range tools {
		t.Run(nameOf(one), func(t *testing.T) {
			var o Options
			if options != nil {
				o = options(nameOf(one))
			}
			Test(t, one, o)
		})
	}
	for _, problem := range Collisions(tools) {
		t.Error(problem)
	}
}

func nameOf(one tool.Tool) string {
	if spec := one.Spec(); spec != nil {
		return spec.FullName()
	}
	return "a tool without a spec"
}

// Collisions lists the names and aliases that more than one tool answers to.
func Collisions(tools []tool.Tool) []string {
	owner := map[string]string{}
	var problems []string
	for _, one := range tools {
		for _, name := range append([]string{one.Spec().FullName()}, one.Spec().Aliases...) {
			if other, taken := owner[name]; taken {
				problems = append(problems, fmt.Sprintf("both %s and %s answer to %q", other, nameOf(one), name))
			}
			owner[name] = nameOf(one)
		}
	}
	return problems
}

// Check lists what of the contract the tool breaks.
func Check(ctx context.Context, one tool.Tool, o Options) []string {
	if o.Within == 0 {
		o.Within = 5 * time.Second
	}
	if o.Workspace == "" {
		dir, err := os.MkdirTemp("", "tooltest")
		if err != nil {
			return []string{err.Error()}
		}
		defer func() { _ = os.RemoveAll(dir) }() // what a call left open on some systems
		o.Workspace = dir
	}
	spec := one.Spec()
	if spec == nil {
		return []string{"Spec is nil"}
	}
	c := &checker{tool: one, spec: spec, options: o}
	if one.Spec() != spec {
		c.problem("Spec gives another value each time")
	}
	c.words()
	c.flags()
	c.schemas()
	if len(c.problems) > 0 {
		return c.problems // calls would only repeat it
	}
	v, err := validate.Compile(spec)
	if err != nil {
		c.problem("%v", err)
		return c.problems
	}
	valid := c.examples(v)
	c.abilities(valid)
	c.badArguments(ctx)
	c.cancelled(ctx, valid)
	return c.problems
}

type checker struct {
	tool     tool.Tool
	spec     *tool.Spec
	options  Options
	problems []string
}

func (c *checker) problem(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

var (
	namePattern = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,48}$`)
	lowerCase   = regexp.MustCompile(`^[a-z]`)
)

func (c *checker) words() {
	s := c.spec
	for _, name := range append([]string{s.Name}, s.Aliases...) {
		if !namePattern.MatchString(name) {
			c.problem("the name %q is not of 1 to 48 letters, digits, '_' and '-'", name)
		}
	}
	seen := map[string]bool{s.Name: true}
	for _, alias := range s.Aliases {
		if seen[alias] {
			c.problem("the alias %q stands twice", alias)
		}
		seen[alias] = true
	}
	description := strings.TrimSpace(s.Description)
	switch {
	case description == "":
		c.problem("there is no description")
	case lowerCase.MatchString(description) && s.Source == "":
		c.problem("the description does not begin with a capital: %.40q", description)
	}
	if s.Category == "" {
		c.problem("there is no category")
	}
	if s.Version != "" {
		if _, err := semver.NewVersion(s.Version); err != nil {
			c.problem("version %q: %v", s.Version, err)
		}
	}
	for _, need := range s.Requires {
		if need.Version == "" {
			continue
		}
		if _, err := semver.NewConstraint(need.Version); err != nil {
			c.problem("requires %s %q: %v", need.Tool, need.Version, err)
		}
	}
	for _, e := range s.Errors {
		if e.Code == "" || e.Description == "" || e.Solution == "" {
			c.problem("the business error %+v lacks code, description or solution", e)
		}
	}
}

func (c *checker) flags() {
	s := c.spec
	if coordinator, ok := c.tool.(tool.Coordinator); s.Effects == 0 && !(ok && coordinator.Coordinates()) {
		c.problem("no effects are set") // a coordinator has those of its inner calls
	}
	if s.Effects&^(tool.Read|tool.Write|tool.Execute|tool.Network|tool.Interact|tool.State) != 0 {
		c.problem("effects %08b hold an unknown one", s.Effects)
	}
	if s.Destructive && s.ReadOnly() && s.Effects&tool.State == 0 {
		c.problem("it is destructive, but neither writes nor executes")
	}
	if s.Cacheable && (!s.Idempotent || s.Effects&^(tool.Read|tool.Network) != 0) {
		c.problem("it is cacheable, but not idempotent with effects of read and network only")
	}
	if s.Default > tool.Deny {
		c.problem("default action %d", s.Default)
	}
	if s.Timeout > 0 && s.MaxTimeout > 0 && s.Timeout > s.MaxTimeout {
		c.problem("timeout %s is above its ceiling %s", s.Timeout, s.MaxTimeout)
	}
	if s.MaxOutput < 0 {
		c.problem("max output %d", s.MaxOutput)
	}
}

func (c *checker) schemas() {
	if c.spec.Input == nil {
		c.problem("there is no input schema")
		return
	}
	for name, schema := range map[string]*jsonschema.Schema{"input": c.spec.Input, "output": c.spec.Output} {
		if schema == nil {
			continue
		}
		if schema.Type != "object" {
			c.problem("the %s schema is not of type object", name)
		}
		if err := draft2020(schema); err != nil {
			c.problem("the %s schema is no valid draft 2020-12: %v", name, err)
			return
		}
	}
	if !c.options.Open && (c.spec.Input.AdditionalProperties == nil || c.spec.Input.AdditionalProperties.Not == nil) {
		c.problem("the input schema takes arguments that it does not name")
	}
	own := map[string]bool{}
	c.properties(c.spec.Input, "", own)
	for _, alias := range slices.Sorted(maps.Keys(c.spec.ArgumentAliases)) {
		if target := c.spec.ArgumentAliases[alias]; !own[target] {
			c.problem("the argument alias %q means %q, which no object has", alias, target)
		}
	}
}

// draft2020 holds a schema against the meta-schema and compiles it, with another
// implementation than ours.
func draft2020(s *jsonschema.Schema) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	doc, err := oracle.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	compiler := oracle.NewCompiler()
	compiler.DefaultDraft(oracle.Draft2020)
	if err := compiler.AddResource("mem:///schema.json", doc); err != nil {
		return err
	}
	_, err = compiler.Compile("mem:///schema.json")
	return err
}

// properties checks those of an object and below: each says what it is, and its
// default fits.
func (c *checker) properties(s *jsonschema.Schema, path string, own map[string]bool) {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p, where := s.Properties[name], strings.TrimPrefix(path+"."+name, ".")
		own[name] = true
		if p.Description == "" && path == "" {
			c.problem("the argument %s has no description", where)
		}
		if p.Default != nil {
			v, err := validate.CompileSchema(p.CloneSchemas())
			if err != nil {
				c.problem("the argument %s: %v", where, err)
			} else if faults := v.Check(p.Default); faults != nil {
				c.problem("the default of %s does not fit: %v", where, faults)
			}
		}
		if p.Default != nil && slices.Contains(s.Required, name) {
			c.problem("the argument %s is required and has a default", where)
		}
		c.properties(p, where, own)
		if p.Items != nil {
			c.properties(p.Items, where+"[]", own)
		}
	}
}

// examples validates the examples and gives the arguments of a valid call.
func (c *checker) examples(v *validate.Validator) json.RawMessage {
	valid := json.RawMessage("{}")
	for i, e := range slices.Backward(c.spec.Examples) {
		args, _, err := v.Arguments(e.Arguments)
		if err != nil {
			c.problem("example %d (%s): %v", i, e.Title, err)
			continue
		}
		valid = args
	}
	if c.options.Arguments == nil {
		return valid
	}
	args, _, err := v.Arguments(c.options.Arguments)
	if err != nil {
		c.problem("the arguments of the test: %v", err)
		return valid
	}
	return args
}

func (c *checker) request(args json.RawMessage) *tool.Request {
	return &tool.Request{Arguments: args, Session: "tooltest", Conversation: "tooltest", CallID: "tooltest",
		Workspace: c.options.Workspace, Host: c.options.Host}
}

// abilities asks what the executor asks before each call.
func (c *checker) abilities(valid json.RawMessage) {
	ask := func(name string, do func(*tool.Request)) {
		if ended, failure := within(c.options.Within, func() { do(c.request(valid)) }); failure != "" {
			c.problem("%s panics: %s", name, failure)
		} else if !ended {
			c.problem("%s blocks", name)
		}
	}
	if a, ok := c.tool.(tool.Resourcer); ok {
		ask("Resources", func(r *tool.Request) { a.Resources(r) })
	}
	if a, ok := c.tool.(tool.Validator); ok {
		ask("Validate", func(r *tool.Request) { a.Validate(r) })
	}
	if a, ok := c.tool.(tool.PermissionSubject); ok {
		ask("Subjects", func(r *tool.Request) { a.Subjects(r) })
	}
	if a, ok := c.tool.(tool.Timeouter); ok {
		ask("CallTimeout", func(r *tool.Request) { a.CallTimeout(r) })
	}
}

// badArguments calls with what a validator would have refused: an embedder may
// call a tool without one.
func (c *checker) badArguments(ctx context.Context) {
	bad := []string{``, `null`, `[]`, `"x"`, `7`, `{`, `{"a":`, "\xff", `{"no_such_argument":1}`, strings.Repeat(`[`, 1000)}
	for _, name := range slices.Sorted(maps.Keys(c.spec.Input.Properties)) {
		key, err := json.Marshal(name)
		if err != nil {
			c.problem("argument %q: %v", name, err)
			continue
		}
		for _, value := range []string{`null`, `{}`, `[]`, `[null]`, `""`, `"\u0000"`, `-1`, `1e300`, `true`} {
			bad = append(bad, fmt.Sprintf("{%s:%s}", key, value))
		}
	}
	for _, args := range bad {
		c.call(ctx, fmt.Sprintf("with arguments %.60s", args), json.RawMessage(args))
	}
}

// call runs one call whose context ends a little before it must be over.
func (c *checker) call(ctx context.Context, when string, args json.RawMessage) {
	ctx, cancel := context.WithTimeout(ctx, c.options.Within/2)
	defer cancel()
	var result *tool.Result
	var err error
	ended, failure := within(c.options.Within, func() { result, err = c.tool.Call(ctx, c.request(args)) })
	switch {
	case failure != "":
		c.problem("Call panics %s: %s", when, failure)
	case !ended:
		c.problem("Call does not return in %s %s", c.options.Within, when)
	case result == nil && err == nil:
		c.problem("Call gives neither a result nor an error %s", when)
	case result != nil && result.IsError && len(result.Content) == 0 && result.Err == nil:
		c.problem("Call fails without saying why %s", when)
	}
}

func (c *checker) cancelled(ctx context.Context, valid json.RawMessage) {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	c.call(ctx, "when its context is done", valid)
}

// within runs do on a goroutine of its own and waits at most so long. One that
// does not end is left behind: the test has failed anyway.
func within(limit time.Duration, do func()) (ended bool, failure string) {
	done := make(chan string, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Sprintf("%v\n%s", p, debug.Stack())
				return
			}
			done <- ""
		}()
		do()
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case failure = <-done:
		return true, failure
	case <-timer.C:
		return false, ""
	}
}
