package validate

import (
	"encoding/json"
	"regexp"

	"github.com/google/jsonschema-go/jsonschema"
)

// schema is a JSON Schema made ready: references resolved, patterns compiled,
// constants parsed.
type schema struct {
	src   *jsonschema.Schema
	res   *resource
	never bool // false: nothing fits
	any   bool // true: everything fits

	ref        *schema
	dynamicRef *schema // where it leads without a dynamic scope
	dynamic    string  // the anchor to look for in the dynamic scope; "" is none

	types kind // 0 is any
	enum  *constants
	konst *constants

	number              bool // has a keyword about numbers
	pattern             *pattern
	minLength           int
	maxLength           int // -1 is none
	prefix              []*schema
	items               *schema
	contains            *schema
	minContains         int
	maxContains         int // -1 is none
	minItems, maxItems  int // -1 is none for max
	minMembers          int
	maxMembers          int // -1 is none
	unevaluatedItems    *schema
	members             map[string]*member
	patterns            []patternMember
	additional          *schema
	names               *schema
	unevaluated         *schema
	required            []string // all of them, in order
	requiredBits        uint64   // of the first 64
	requiredMore        []string // the rest
	dependentRequired   map[string][]string
	dependentSchemas    map[string]*schema
	allOf, anyOf, oneOf []*schema
	not                 *schema
	cond, then, els     *schema

	inPlaceToo bool // has a keyword that applies a schema to the same value

	// For aliases and defaults.
	flat          []*schema // s and what applies to the same value, whatever branch
	own           []string  // names of properties in flat, in order
	alias         map[string]string
	ownDefaults   []defaultMember
	touches       bool // an alias may apply here or below
	defaultsBelow bool // a default may apply here or below
}

// member is what an object's schema says about one name.
type member struct {
	schema *schema // nil if the name is only required
	bit    uint64  // in requiredBits; 0 if not required
}

type patternMember struct {
	pattern *pattern
	schema  *schema
}

type pattern struct {
	text string
	re   *regexp.Regexp // nil: cannot be expressed in Go
}

func (p *pattern) match(s string) bool { return p.re == nil || p.re.MatchString(s) }

// constants are the values of enum or const.
type constants struct {
	docs []doc
	text map[string]bool // if all are strings
}

type defaultMember struct {
	key  string
	text string
	kind kind
}

// resource is a schema with an identity of its own ($id).
type resource struct {
	uri      string
	root     *schema
	pointers map[string]*schema
	anchors  map[string]*schema
	dynamic  map[string]*schema
}

func (s *schema) inPlace() []*schema {
	var list []*schema
	add := func(more ...*schema) {
		for _, m := range more {
			if m != nil {
				list = append(list, m)
			}
		}
	}
	add(s.ref, s.dynamicRef)
	add(s.allOf...)
	add(s.anyOf...)
	add(s.oneOf...)
	add(s.cond, s.then, s.els)
	for _, d := range s.dependentSchemas {
		add(d)
	}
	return list
}

// below are the schemas of members and items.
func (s *schema) below() []*schema {
	list := append([]*schema(nil), s.prefix...)
	for _, m := range s.members {
		list = append(list, m.schema)
	}
	for _, p := range s.patterns {
		list = append(list, p.schema)
	}
	list = append(list, s.items, s.additional, s.unevaluated, s.unevaluatedItems)
	kept := list[:0]
	for _, m := range list {
		if m != nil {
			kept = append(kept, m)
		}
	}
	return kept
}

func parseConstants(values []any) (*constants, error) {
	c := &constants{text: map[string]bool{}}
	for _, v := range values {
		raw, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		d := doc{}
		if err := d.parse(string(raw)); err != nil {
			return nil, err
		}
		if n := &d.nodes[0]; n.kind != kindString {
			c.text = nil
		} else if c.text != nil {
			c.text[n.str()] = true
		}
		c.docs = append(c.docs, d)
	}
	return c, nil
}

func (c *constants) has(d *doc, at int32) bool {
	n := &d.nodes[at]
	if c.text != nil {
		return n.kind == kindString && c.text[n.str()]
	}
	for i := range c.docs {
		if d.equal(at, &c.docs[i], 0) {
			return true
		}
	}
	return false
}
