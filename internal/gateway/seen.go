package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/gateway/upstream"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

// Bounds of what a server lists.
const (
	maxTools   = 10_000
	maxOthers  = 20_000   // resources, templates, prompts, of each
	maxPages   = 1000     // of one list
	maxListed  = 32 << 20 // bytes of one list
	maxStored  = 48 << 20 // bytes of all that is kept of a server
	listTime   = 30 * time.Second
	listSettle = 100 * time.Millisecond // list_changed that come together are one
)

// lists is what a server said it offers, the last time it was asked.
type lists struct {
	// Of identifies the entry that was asked: what another one said is not used.
	Of           string            `json:"of"`
	At           time.Time         `json:"at"`
	Protocol     string            `json:"protocol,omitempty"`
	Info         json.RawMessage   `json:"info,omitempty"`
	Capabilities json.RawMessage   `json:"capabilities,omitempty"`
	Instructions string            `json:"instructions,omitempty"`
	Tools        []json.RawMessage `json:"tools,omitempty"`
	Resources    []json.RawMessage `json:"resources,omitempty"`
	Templates    []json.RawMessage `json:"templates,omitempty"`
	Prompts      []json.RawMessage `json:"prompts,omitempty"`
}

// seen is what is known of a server. The peer's lock guards it.
type seen struct {
	lists
	pins  map[string]pin
	held  map[string]heldTool // withheld, by the server's name for it
	notes []string            // about the last lists
}

type heldTool struct {
	why string
	now json.RawMessage
}

// identity is that of an entry's server.
func (s Server) identity() string {
	raw, _ := json.Marshal([]any{s.Type, s.Command, s.Args, s.URL}) // texts always marshal
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}

// The settings under which a server's lists and pins are kept.
func listSetting(name string) string { return "gateway:list:" + name }
func pinSetting(name string) string  { return "gateway:pins:" + name }

// load reads what earlier processes learned. What cannot be read counts as
// nothing but for pins: without them nothing may be approved by itself.
func (p *peer) load(ctx context.Context) error {
	settings := p.g.config.Settings
	if settings == nil {
		return nil
	}
	var known lists
	if text, err := settings.Setting(ctx, listSetting(p.name)); err == nil && text != "" {
		if json.Unmarshal([]byte(text), &known) != nil || known.Of != p.entry.identity() {
			known = lists{}
		}
	}
	pins := map[string]pin{}
	text, err := settings.Setting(ctx, pinSetting(p.name))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("approved definitions of %s: %w", p.name, err)
	}
	if text != "" {
		if err := json.Unmarshal([]byte(text), &pins); err != nil {
			return fmt.Errorf("approved definitions of %s: %w", p.name, err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen.lists, p.seen.pins = known, pins
	p.judge()
	return nil
}

// pinsAgain reads pins that another process may have changed.
func (p *peer) pinsAgain(ctx context.Context) {
	settings := p.g.config.Settings
	if settings == nil {
		return
	}
	text, err := settings.Setting(ctx, pinSetting(p.name))
	if err != nil || text == "" {
		return
	}
	pins := map[string]pin{}
	if json.Unmarshal([]byte(text), &pins) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen.pins = pins
	p.judge()
}

// keep writes what is known.
func (p *peer) keep(ctx context.Context, pins bool) {
	settings := p.g.config.Settings
	if settings == nil {
		return
	}
	p.mu.Lock()
	known, err := json.Marshal(p.seen.lists)
	approved, errPins := json.Marshal(p.seen.pins)
	p.mu.Unlock()
	if err == nil && len(known) <= maxStored {
		err = settings.PutSetting(ctx, listSetting(p.name), string(known))
	}
	if pins && errPins == nil {
		errPins = settings.PutSetting(ctx, pinSetting(p.name), string(approved))
	}
	if err := errors.Join(err, errPins); err != nil && ctx.Err() == nil {
		p.g.log.Warn("what an MCP server offers cannot be kept", "server", p.name, "error", err)
	}
}

// judge compares the tools with what is pinned, and reports whether pins came
// to it. The lock is held.
func (p *peer) judge() (pinnedNew bool) {
	s := &p.seen
	s.held = map[string]heldTool{}
	if s.pins == nil {
		s.pins = map[string]pin{}
	}
	if p.entry.Pin == PinOff {
		return false
	}
	first := len(s.pins) == 0
	for _, raw := range s.Tools {
		name := textOf(raw, "name")
		hash := hashOf(raw)
		known, ok := s.pins[name]
		switch {
		case ok && known.Hash == hash:
		case ok:
			s.held[name] = heldTool{quarantineChanged, raw}
		case !first && p.entry.Pin == PinStrict:
			s.held[name] = heldTool{quarantineNew, raw}
		default:
			s.pins[name] = pin{Hash: hash, Definition: raw, At: p.g.config.Now().UTC()}
			pinnedNew = true
			if !first {
				p.g.log.Info("an MCP server has a new tool", "server", p.name, "tool", name)
			}
		}
	}
	return pinnedNew
}

// has reports whether a server declares a capability.
func has(capabilities json.RawMessage, name string) bool {
	v := get(capabilities, name)
	return v != nil && string(v) != "null"
}

// fetch asks a server for all it offers. trouble is what could not be had.
func (p *peer) fetch(ctx context.Context, c *upstream.Client) (trouble string) {
	info := c.Server()
	p.mu.Lock()
	next := p.seen.lists
	p.mu.Unlock()
	next.Of, next.At, next.Protocol = p.entry.identity(), p.g.config.Now().UTC(), c.Version()
	next.Info, next.Capabilities, next.Instructions = info.Info, info.Capabilities, info.Instructions
	var notes, troubles []string
	for _, list := range []struct {
		capability, method, member string
		most                       int
		to                         *[]json.RawMessage
	}{
		{"tools", "tools/list", "tools", maxTools, &next.Tools}, {"resources", "resources/list", "resources", maxOthers, &next.Resources},
		{"resources", "resources/templates/list", "resourceTemplates", maxOthers, &next.Templates}, {"prompts", "prompts/list", "prompts", maxOthers, &next.Prompts},
	} {
		if !has(info.Capabilities, list.capability) {
			*list.to = nil
			continue
		}
		items, note, err := listAll(ctx, c, list.method, list.member, list.most)
		if note != "" {
			notes = append(notes, note)
		}
		var answered *upstream.Error
		switch {
		case errors.As(err, &answered) && answered.Code == upstream.CodeMethodNotFound:
			*list.to = nil // it declares more than it has
		case err != nil:
			troubles = append(troubles, list.method+": "+reason(err)) // the last known list stays
		default:
			*list.to = items
		}
	}
	next.Tools, notes = namedOnce(next.Tools, "tool", notes)
	next.Prompts, notes = namedOnce(next.Prompts, "prompt", notes)
	p.mu.Lock()
	before := p.seen.lists
	p.seen.lists, p.seen.notes = next, notes
	pins := p.judge()
	held := slices.Sorted(maps.Keys(p.seen.held))
	p.mu.Unlock()
	for _, note := range notes {
		p.log.add("note: " + note)
	}
	if len(held) > 0 {
		p.g.log.Warn("tools of an MCP server changed and are withheld until they are approved", "server", p.name, "tools", strings.Join(held, ", "),
			"approve", "toolyard gateway approve "+p.name)
	}
	p.keep(context.WithoutCancel(ctx), pins)
	if !same(before.Tools, next.Tools) || pins || len(held) > 0 {
		p.offer()
	}
	if !same(before.Resources, next.Resources) || !same(before.Templates, next.Templates) {
		p.g.changed("resources")
	}
	if !same(before.Prompts, next.Prompts) {
		p.g.changed("prompts")
	}
	return strings.Join(troubles, "; ")
}

func same(a, b []json.RawMessage) bool {
	return slices.EqualFunc(a, b, func(x, y json.RawMessage) bool { return bytes.Equal(x, y) })
}

// namedOnce leaves out what has no name and what has that of one before it.
func namedOnce(items []json.RawMessage, what string, notes []string) ([]json.RawMessage, []string) {
	there := map[string]bool{}
	return slices.DeleteFunc(items, func(raw json.RawMessage) bool {
		name := textOf(raw, "name")
		switch {
		case name == "" || len(name) > 1024:
			notes = append(notes, fmt.Sprintf("a %s without a usable name is left out", what))
			return true
		case there[name]:
			notes = append(notes, fmt.Sprintf("the %s %q is listed twice; the first counts", what, name))
			return true
		}
		there[name] = true
		return false
	}), notes[:min(len(notes), 50)]
}

// listAll reads all pages of a list.
func listAll(ctx context.Context, c *upstream.Client, method, name string, most int) (items []json.RawMessage, note string, err error) {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	params := json.RawMessage("{}")
	size, cursors := 0, map[string]bool{}
	for range maxPages {
		result, err := c.Call(ctx, upstream.Request{Method: method, Params: params})
		if err != nil {
			return nil, "", err
		}
		var page []json.RawMessage
		if err := json.Unmarshal(get(result, name), &page); err != nil {
			return nil, "", tool.Errorf(tool.ExecutionError, "the answer holds no list of %s", name)
		}
		size += len(result)
		for _, item := range page {
			if len(items) == most || size > maxListed {
				return items, fmt.Sprintf("%s lists more than is taken: only the first %d count", method, len(items)), nil
			}
			items = append(items, item)
		}
		cursor := textOf(result, "nextCursor")
		if cursor == "" {
			return items, "", nil
		}
		if cursors[cursor] {
			return items, method + " gives the same page again and again; the rest is left out", nil
		}
		cursors[cursor] = true
		params, _ = json.Marshal(map[string]string{"cursor": cursor})
	}
	return items, method + " has too many pages; the rest is left out", nil
}

// match reports whether a name fits one of the patterns.
func match(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return glob(pattern, name) })
}

// glob is path.Match without separators: * is any run, ? any character.
func glob(pattern, name string) bool {
	for len(pattern) > 0 {
		switch pattern[0] {
		case '*':
			for i := 0; i <= len(name); i++ {
				if glob(pattern[1:], name[i:]) {
					return true
				}
			}
			return false
		case '?':
			if name == "" {
				return false
			}
		default:
			if name == "" || pattern[0] != name[0] {
				return false
			}
		}
		pattern, name = pattern[1:], name[1:]
	}
	return name == ""
}
