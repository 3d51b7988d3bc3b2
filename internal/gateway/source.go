package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/toolyard/toolyard/internal/registry"
	"github.com/toolyard/toolyard/tool"
)

// source is the tools of one server, as the registry takes them: those of the
// last list that is known, whether it runs or not.
type source struct {
	peer    *peer
	changes chan struct{}

	mu    sync.Mutex
	tools map[string]*remote // by the hash of what they are made of
}

var (
	_ registry.Source  = (*source)(nil)
	_ registry.Changer = (*source)(nil)
)

func (s *source) Name() string             { return s.peer.name }
func (s *source) Changes() <-chan struct{} { return s.changes }

// offer tells that the list may be another.
func (p *peer) offer() {
	select {
	case p.source.changes <- struct{}{}:
	default:
	}
	p.g.changed("tools")
}

// List gives the tools. It never waits for the server.
func (s *source) List(ctx context.Context) ([]tool.Tool, error) {
	if err := s.peer.g.ready(ctx); err != nil {
		return nil, err
	}
	p := s.peer
	p.mu.Lock()
	raw, pins, held, off := p.seen.Tools, p.seen.pins, p.seen.held, p.state == Disabled || p.closed
	var offered []definition
	if !off {
		for _, item := range raw {
			name := textOf(item, "name")
			if !p.entry.Tools.offers(name) {
				continue
			}
			d := definition{name: name, raw: item}
			if h, withheld := held[name]; withheld {
				d.withheld, d.was = h.why, pins[name].Definition
			}
			offered = append(offered, d)
		}
	}
	p.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := make(map[string]*remote, len(offered))
	taken := map[string]bool{}
	tools := make([]tool.Tool, 0, len(offered))
	for _, d := range offered {
		local := p.entry.localName(d.name)
		if taken[local] { // two names that differ only in what cannot be shown
			local = withHash(local, d.name)
		}
		taken[local] = true
		key := local + "\x00" + d.withheld + "\x00" + string(d.raw)
		t := s.tools[key]
		if t == nil {
			t = newRemote(p, d, local)
		}
		kept[key] = t
		tools = append(tools, t)
	}
	s.tools = kept
	return tools, nil
}

// definition is one tool as a server defines it.
type definition struct {
	name     string // the server's own
	raw      json.RawMessage
	withheld string // why it is; "" if it is not
	was      json.RawMessage
}

// offers reports whether the filter lets a tool pass.
func (t Tools) offers(name string) bool {
	return (len(t.Allow) == 0 || match(t.Allow, name)) && !match(t.Deny, name)
}

// maxLocal is how long the own part of a tool's name is: see tool.Spec.
const maxLocal = 64

// localName is how a tool of a server is called here.
func (s Server) localName(name string) string {
	if to, renamed := s.Tools.Rename[name]; renamed {
		return to
	}
	clean := strings.Map(func(c rune) rune {
		if c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			return c
		}
		return '_'
	}, name)
	if clean == name && len(name) <= maxLocal {
		return name
	}
	return withHash(clean, name)
}

// withHash makes a name unique that had to be changed.
func withHash(clean, name string) string {
	sum := sha256.Sum256([]byte(name))
	hash := "_" + hex.EncodeToString(sum[:4])
	return clean[:min(len(clean), maxLocal-len(hash))] + hash
}

// shown are the parts of a definition that are read here.
type shown struct {
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Input       json.RawMessage `json:"inputSchema"`
	Output      json.RawMessage `json:"outputSchema"`
	Annotations struct {
		Title       string `json:"title"`
		ReadOnly    bool   `json:"readOnlyHint"`
		Destructive *bool  `json:"destructiveHint"`
		Idempotent  bool   `json:"idempotentHint"`
		OpenWorld   *bool  `json:"openWorldHint"`
	} `json:"annotations"`
	Execution struct {
		TaskSupport string `json:"taskSupport"`
	} `json:"execution"`
}

// read reads a definition leniently: a part that is not what it should be counts
// as missing and spoils no other.
func read(raw json.RawMessage) shown {
	var s shown
	for _, part := range []struct {
		key string
		to  any
	}{{"title", &s.Title}, {"description", &s.Description}, {"inputSchema", &s.Input}, {"outputSchema", &s.Output}, {"annotations", &s.Annotations}, {"execution", &s.Execution}} {
		if m := get(raw, part.key); m != nil {
			_ = json.Unmarshal(m, part.to)
		}
	}
	return s
}

// The longest that calls run, whatever progress they report.
const (
	maxCall    = 30 * time.Minute
	maxCeiling = 2 * time.Hour
)

// specOf is what a definition says, in the program's own words. Without a word
// of the operator's nothing that a server says of itself opens more than reading.
func (p *peer) specOf(d definition, local string) *tool.Spec {
	s := read(d.raw)
	e := p.entry
	spec := &tool.Spec{
		Name: local, Source: e.Prefix(p.name), Title: s.Title, Description: s.Description, Category: "mcp", Tags: []string{"mcp", p.name},
		Definition: d.raw, ConcurrencySafe: true, Timeout: maxCall, MaxTimeout: maxCeiling, Default: tool.Ask,
		Effects: tool.Read | tool.Write | tool.Execute, Destructive: s.Annotations.Destructive == nil || *s.Annotations.Destructive,
		Idempotent: s.Annotations.Idempotent || s.Annotations.ReadOnly,
	}
	if spec.Title == "" {
		spec.Title = s.Annotations.Title
	}
	if s.Annotations.ReadOnly {
		spec.Effects, spec.Destructive, spec.Default = tool.Read, false, tool.Allow
	}
	if e.Trust {
		spec.Default = tool.Allow
	}
	open := s.Annotations.OpenWorld == nil || *s.Annotations.OpenWorld
	if e.Type != transportStdio || len(e.Sandbox.Network) > 0 && open {
		spec.Effects |= tool.Network
		spec.OpenWorld = open
	}
	if text, ok := e.Tools.Description[d.name]; ok {
		spec.Description = text
		spec.Definition = with(d.raw, "description", quote(text))
	}
	spec.Input = schemaOf(s.Input)
	if len(s.Output) > 0 {
		var out jsonschema.Schema
		if json.Unmarshal(s.Output, &out) == nil {
			spec.Output = &out
		}
	}
	return spec
}

// schemaOf reads an input schema. One that is none takes any object: the server
// checks for itself.
func schemaOf(raw json.RawMessage) *jsonschema.Schema {
	var s jsonschema.Schema
	if len(raw) == 0 || json.Unmarshal(raw, &s) != nil {
		return &jsonschema.Schema{Type: "object"}
	}
	if s.Type == "" && len(s.Types) == 0 {
		s.Type = "object"
	}
	return &s
}
