package mcp

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolyard/toolyard/internal/registry"
	"github.com/toolyard/toolyard/tool"
)

// maxInstructions bounds the server's instructions, in bytes.
const maxInstructions = 2000

// offered is one tool as clients see it.
type offered struct {
	name string // on the wire
	spec *tool.Spec
	// paramHeaders: some argument travels as an HTTP header too (SEP-2243).
	paramHeaders bool

	once    sync.Once
	encoded []byte // as it stands in tools/list
}

func newOffered(name string, spec *tool.Spec) *offered {
	return &offered{name: name, spec: spec, paramHeaders: hasParamHeaders(spec.Input)}
}

// json is the tool as it stands in tools/list, made when it is first listed; nil
// if it cannot be encoded.
func (o *offered) json() []byte {
	o.once.Do(func() {
		if o.spec.Definition != nil {
			o.encoded = renamed(o.spec.Definition, o.name)
			return
		}
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if enc.Encode(wireTool(o.name, o.spec)) == nil {
			o.encoded = bytes.TrimRight(b.Bytes(), "\n")
		}
	})
	return o.encoded
}

// renamed is the Tool object of another server, unchanged but for its name; nil if
// it is no object.
func renamed(definition json.RawMessage, name string) []byte {
	b := append([]byte(`{"name":`), quoted(name)...)
	err := eachMember(bytes.TrimSpace(definition), func(key string, value []byte) error {
		if key != "name" {
			b = append(append(append(append(b, ','), quoted(key)...), ':'), value...)
		}
		return nil
	})
	if err != nil {
		return nil
	}
	return append(b, '}')
}

// quoted is text as JSON.
func quoted(text string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // a string can always be encoded
	return bytes.TrimRight(b.Bytes(), "\n")
}

// changed notes that the catalog has changed and tells the clients a little
// later, together with what else changes until then.
func (s *Server) changed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.change != nil {
		return
	}
	s.change = time.AfterFunc(changeDelay, func() {
		s.mu.Lock()
		s.change = nil
		s.mu.Unlock()
		s.sync()
	})
}

// settle waits for the tools that are known at the start, before a list.
func (s *Server) settle(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(s.leaving, stop)()
	s.config.Settled(ctx)
	s.settled.Do(s.sync)
}

// sync brings the SDK's list of tools in line with the catalog. The SDK tells
// the clients if anything is different.
func (s *Server) sync() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	now := map[string]*offered{}
	var order []*offered
	defer func() { s.tools, s.sorted = now, order }()
	for _, spec := range s.config.Catalog.Specs() {
		name := registry.WireName(spec.FullName())
		if old := s.tools[name]; old != nil && old.spec == spec {
			now[name] = old
			order = append(order, old)
			continue
		}
		if spec.Input == nil || spec.Input.Type != "object" {
			s.config.Log.Error("tool is not offered: its input schema is not an object", "tool", spec.FullName())
			continue
		}
		now[name] = newOffered(name, spec)
		if err := s.offer(now[name]); err != nil {
			delete(now, name)
			s.config.Log.Error("tool is not offered", "tool", spec.FullName(), "err", err)
			continue
		}
		order = append(order, now[name])
	}
	slices.SortFunc(order, func(a, b *offered) int { return strings.Compare(a.name, b.name) })
	var gone []string
	for name := range s.tools {
		if now[name] == nil {
			gone = append(gone, name)
		}
	}
	if len(gone) > 0 {
		s.sdk.RemoveTools(gone...)
	}
}

// offer tells the SDK about a tool: its name, so that the SDK tells clients when
// the list has changed, and its schema only where the SDK checks headers by it.
// The list itself is ours, since the SDK decodes and encodes each schema many
// times. It panics on schemas that it cannot serve.
func (s *Server) offer(o *offered) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	t := &sdk.Tool{Name: o.name, InputSchema: &jsonschema.Schema{Type: "object"}}
	if o.paramHeaders {
		t.InputSchema = o.spec.Input
	}
	s.sdk.AddTool(t, unreached)
	return nil
}

// listTools answers tools/list with what a view shows, a page at a time, in the
// order of the names.
func (s *Server) listTools(r *sdk.ListToolsRequest, v *view) (sdk.Result, error) {
	after := ""
	if r.Params != nil && r.Params.Cursor != "" {
		name, err := base64.RawURLEncoding.DecodeString(r.Params.Cursor)
		if err != nil || !strings.HasPrefix(string(name), cursorMark) {
			return nil, &jsonrpc.Error{Code: codeInvalidParams, Message: "tools/list: the cursor is not one of ours"}
		}
		after = strings.TrimPrefix(string(name), cursorMark)
	}
	s.mu.Lock()
	all := s.sorted // not changed afterwards
	s.mu.Unlock()
	page, _ := v.shown(all)
	page = slices.DeleteFunc(page, func(o *offered) bool { return o.name <= after })
	more := len(page) > pageSize
	page = page[:min(len(page), pageSize)]

	b := []byte(`{"tools":[`)
	for _, o := range page {
		one := o.json()
		if one == nil {
			s.config.Log.Error("tool is not listed: its schema cannot be encoded", "tool", o.spec.FullName())
			continue
		}
		b = append(append(b, one...), ',')
	}
	b = append(bytes.TrimSuffix(b, []byte(",")), ']')
	if more {
		b = append(b, `,"nextCursor":"`...)
		b = base64.RawURLEncoding.AppendEncode(b, []byte(cursorMark+page[len(page)-1].name))
		b = append(b, '"')
	}
	if r.ProtocolVersion() >= versionStateless {
		b = fmt.Appendf(b, `,"ttlMs":%d,"cacheScope":"private","resultType":"complete","_meta":{%q:%s}`, listTTL.Milliseconds(), sdk.MetaKeyServerInfo, s.info)
	}
	return &wireResult{body: append(b, '}')}, nil
}

// cursorMark begins the cursors of tools/list, before the last name of the page.
const cursorMark = "after:"

// unreached is never called: [Server.receive] answers tools/call before the
// SDK looks for a handler.
func unreached(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	return nil, fmt.Errorf("tools/call has not been taken by the server")
}

// wireTool is spec in the words of MCP.
func wireTool(name string, spec *tool.Spec) *sdk.Tool {
	title := spec.Title
	if title == "" {
		title = spec.Name
	}
	readOnly := spec.ReadOnly()
	destructive := !readOnly && spec.Destructive
	openWorld := spec.OpenWorld
	t := &sdk.Tool{
		Name:        name,
		Title:       title,
		Description: spec.Description,
		InputSchema: wireSchema(spec.Input),
		Annotations: &sdk.ToolAnnotations{
			Title:           title,
			ReadOnlyHint:    readOnly,
			DestructiveHint: &destructive,
			IdempotentHint:  spec.Idempotent,
			OpenWorldHint:   &openWorld,
		},
	}
	if spec.Output != nil && spec.Output.Type == "object" {
		t.OutputSchema = wireSchema(spec.Output)
	}
	return t
}

// wireSchema is s without the formats that only the policy understands: some
// model APIs refuse a schema with a format that they do not know.
func wireSchema(s *jsonschema.Schema) *jsonschema.Schema {
	copied := s.CloneSchemas()
	stripFormats(copied)
	return copied
}

var standardFormats = []string{"date-time", "date", "time", "duration", "email", "uri", "uri-reference", "uuid", "hostname", "ipv4", "ipv6", "regex"}

func stripFormats(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if s.Format != "" && !slices.Contains(standardFormats, s.Format) {
		s.Format = ""
	}
	for _, sub := range s.Properties {
		stripFormats(sub)
	}
	for _, sub := range s.Defs {
		stripFormats(sub)
	}
	for _, sub := range slices.Concat(s.AnyOf, s.OneOf, s.AllOf, s.PrefixItems) {
		stripFormats(sub)
	}
	stripFormats(s.Items)
	stripFormats(s.AdditionalProperties)
}

// tool gives what is offered under a name as the client wrote it; nil if
// nothing is.
func (s *Server) tool(name string) *offered {
	s.mu.Lock()
	o := s.tools[name]
	s.mu.Unlock()
	if o != nil {
		return o
	}
	spec, err := s.config.Catalog.Find(name)
	if err != nil {
		return nil
	}
	return newOffered(registry.WireName(spec.FullName()), spec)
}

// toolIn is tool for a view: what it may not call is not there.
func (s *Server) toolIn(v *view, name string) *offered {
	if o := s.tool(name); o != nil && v.allows(o.spec) {
		return o
	}
	return nil
}

// cutText cuts text to at most limit bytes, at a line or else at a character.
func cutText(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	text = text[:limit]
	if i := strings.LastIndexByte(text, '\n'); i > limit/2 {
		return text[:i+1]
	}
	for !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return text
}
