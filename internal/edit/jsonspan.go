package edit

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// span is a JSON value and where it stands in the text.
type span struct {
	start, end int
	// kind is the first byte of the value: { [ " or that of a number or word.
	kind    byte
	members []member // of an object, in order
	items   []*span  // of a list
}

// member is one key of an object.
type member struct {
	name  string
	start int // of the key
	value *span
}

// get finds a member; nil if there is none. Of several, the last counts, as in
// encoding/json.
func (s *span) get(name string) *span {
	for i := len(s.members) - 1; i >= 0; i-- {
		if s.members[i].name == name {
			return s.members[i].value
		}
	}
	return nil
}

// text decodes a string value; "" if it is none.
func (s *span) text(raw []byte) string {
	var v string
	if s == nil || json.Unmarshal(raw[s.start:s.end], &v) != nil {
		return ""
	}
	return v
}

// maxDepth is how deep JSON may be nested.
const maxDepth = 500

// parseSpans finds the values of a JSON text.
func parseSpans(raw []byte) (*span, error) {
	if !json.Valid(raw) {
		var v any
		return nil, json.Unmarshal(raw, &v)
	}
	p := &spanParser{raw: raw}
	return p.value(0)
}

// spanParser walks text that is known to be valid.
type spanParser struct {
	raw []byte
	at  int
}

func (p *spanParser) blank() {
	for p.at < len(p.raw) && bytes.IndexByte([]byte(" \t\r\n"), p.raw[p.at]) >= 0 {
		p.at++
	}
}

func (p *spanParser) value(depth int) (*span, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested deeper than %d levels", maxDepth)
	}
	p.blank()
	s := &span{start: p.at, kind: p.raw[p.at]}
	var err error
	switch s.kind {
	case '{', '[':
		err = p.list(s, depth)
	case '"':
		p.str()
	default:
		for p.at < len(p.raw) && bytes.IndexByte([]byte(",]} \t\r\n"), p.raw[p.at]) < 0 {
			p.at++
		}
	}
	s.end = p.at
	return s, err
}

// list reads an object or a list.
func (p *spanParser) list(s *span, depth int) error {
	p.at++
	for {
		p.blank()
		if c := p.raw[p.at]; c == '}' || c == ']' {
			p.at++
			return nil
		} else if c == ',' {
			p.at++
			continue
		}
		m := member{start: p.at}
		if s.kind == '{' {
			p.str()
			if err := json.Unmarshal(p.raw[m.start:p.at], &m.name); err != nil {
				return err
			}
			p.blank()
			p.at++ // the colon
		}
		v, err := p.value(depth + 1)
		if err != nil {
			return err
		}
		if m.value = v; s.kind == '{' {
			s.members = append(s.members, m)
		} else {
			s.items = append(s.items, v)
		}
	}
}

func (p *spanParser) str() {
	for p.at++; p.raw[p.at] != '"'; p.at++ {
		if p.raw[p.at] == '\\' {
			p.at++
		}
	}
	p.at++
}
