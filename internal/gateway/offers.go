package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/gateway/upstream"
	"github.com/toolyard/toolyard/internal/registry"
	"github.com/toolyard/toolyard/tool"
)

// WireFailure is an error of a server that a client gets as the server sent it.
type WireFailure struct {
	Code    int64
	Message string
	Data    json.RawMessage
}

func (e *WireFailure) Error() string { return e.Message }

// WireError gives the parts of the JSON-RPC error.
func (e *WireFailure) WireError() (code int64, message string, data json.RawMessage) {
	return e.Code, e.Message, e.Data
}

// wire makes the error of a request other than a call of a tool.
func wire(err error) error {
	var answered *upstream.Error
	if errors.As(err, &answered) {
		return &WireFailure{answered.Code, answered.Message, answered.Data}
	}
	return err
}

// each calls f for every server that is on and within reach, in their order, with
// its lists.
func (g *Gateway) each(ctx context.Context, may func(*tool.Spec) bool, f func(p *peer, l lists)) {
	if g.ready(ctx) != nil {
		return
	}
	for _, p := range g.all() {
		p.mu.Lock()
		off, l := p.state == Disabled || p.closed, p.seen.lists
		p.mu.Unlock()
		if !off && p.within(may) {
			f(p, l)
		}
	}
}

// within reports whether a client that may call certain tools has anything of a
// server: all where may is nil, else nothing of one none of whose tools it may call.
func (p *peer) within(may func(*tool.Spec) bool) bool {
	if may == nil {
		return true
	}
	p.source.mu.Lock()
	defer p.source.mu.Unlock()
	for _, t := range p.source.tools {
		if may(t.spec) {
			return true
		}
	}
	return false
}

// Resources are the resources of all servers that a client has who may call
// certain tools: see [Gateway.OnNotification]. Nil means all. Of two with one URI
// the first server's counts.
func (g *Gateway) Resources(ctx context.Context, may func(*tool.Spec) bool) []json.RawMessage {
	return g.unique(ctx, may, "uri", func(l lists) []json.RawMessage { return l.Resources })
}

// Templates are the templates of resources of all servers, likewise.
func (g *Gateway) Templates(ctx context.Context, may func(*tool.Spec) bool) []json.RawMessage {
	return g.unique(ctx, may, "uriTemplate", func(l lists) []json.RawMessage { return l.Templates })
}

func (g *Gateway) unique(ctx context.Context, may func(*tool.Spec) bool, key string, of func(lists) []json.RawMessage) []json.RawMessage {
	var found []json.RawMessage
	owner := map[string]string{}
	g.each(ctx, may, func(p *peer, l lists) {
		for _, raw := range of(l) {
			id := textOf(raw, key)
			if first, taken := owner[id]; taken {
				g.clash(key+" "+id, first, p.name)
				continue
			}
			owner[id] = p.name
			found = append(found, raw)
		}
	})
	return found
}

// clash reports once that two servers offer the same.
func (g *Gateway) clash(what, first, second string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := what + "\x00" + second
	if g.clashes[key] || len(g.clashes) > 10_000 {
		return
	}
	g.clashes[key] = true
	g.log.Warn("two MCP servers offer the same; the first one's counts", "what", what, "first", first, "second", second)
}

// promptName is how a prompt of a server is called here: as a tool of that name
// would be on the wire.
func (p *peer) promptName(name string) string {
	prefix := p.entry.Prefix(p.name)
	if prefix == "" {
		return name
	}
	return registry.WireName(prefix + ":" + name)
}

// Prompts are the prompts of all servers, under the names that clients use.
func (g *Gateway) Prompts(ctx context.Context, may func(*tool.Spec) bool) []json.RawMessage {
	var found []json.RawMessage
	owner := map[string]string{}
	g.each(ctx, may, func(p *peer, l lists) {
		for _, raw := range l.Prompts {
			name := p.promptName(textOf(raw, "name"))
			if first, taken := owner[name]; taken {
				g.clash("prompt "+name, first, p.name)
				continue
			}
			owner[name] = p.name
			if name != textOf(raw, "name") {
				raw = with(raw, "name", quote(name))
			}
			found = append(found, raw)
		}
	})
	return found
}

// prompt finds whose a prompt is, and what its server calls it.
func (g *Gateway) prompt(ctx context.Context, may func(*tool.Spec) bool, name string) (found *peer, own string) {
	g.each(ctx, may, func(p *peer, l lists) {
		for _, raw := range l.Prompts {
			n := textOf(raw, "name")
			if found == nil && (p.promptName(n) == name || p.entry.Prefix(p.name)+":"+n == name) {
				found, own = p, n
			}
		}
	})
	return found, own
}

// resource finds whose a resource is: of the server that lists it, else of the
// first that has a template for it, else of the only one that has resources.
func (g *Gateway) resource(ctx context.Context, may func(*tool.Spec) bool, uri string) *peer {
	var listed, templated, only *peer
	count := 0
	g.each(ctx, may, func(p *peer, l lists) {
		if has(l.Capabilities, "resources") {
			count++
			only = p
		}
		for _, raw := range l.Resources {
			if listed == nil && textOf(raw, "uri") == uri {
				listed = p
			}
		}
		for _, raw := range l.Templates {
			if templated == nil && fits(textOf(raw, "uriTemplate"), uri) {
				templated = p
			}
		}
	})
	switch {
	case listed != nil:
		return listed
	case templated != nil:
		return templated
	case count == 1:
		return only
	}
	return nil
}

var expression = regexp.MustCompile(`\\\{[^{}]*\\\}`)

// fits reports whether a URI may be one of a template (RFC 6570): each expression
// stands for any text.
func fits(template, uri string) bool {
	if template == "" || len(template) > 4096 || len(uri) > 64<<10 {
		return false
	}
	if !strings.Contains(template, "{") {
		return template == uri
	}
	pattern := expression.ReplaceAllString(regexp.QuoteMeta(template), `(?s:.*)`)
	re, err := regexp.Compile("^" + pattern + "$")
	return err == nil && re.MatchString(uri)
}

// other makes a request that is no call of a tool.
func (p *peer) other(ctx context.Context, client tool.Client, method, name string, params json.RawMessage) (json.RawMessage, error) {
	members, err := membersOf(params)
	if err != nil {
		return nil, &WireFailure{Code: upstream.CodeInvalidParams, Message: "params are no object"}
	}
	kept := members[:0]
	for _, m := range members {
		if m.key != "_meta" && m.key != "inputResponses" && m.key != "requestState" {
			kept = append(kept, m)
		}
	}
	release, err := p.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	began := time.Now()
	x := &exchange{method: method, name: name, members: kept, client: client}
	raw, err := p.do(ctx, x)
	p.metrics.call(time.Since(began), err != nil)
	p.metrics.bytesIn.Add(int64(len(raw)))
	return raw, wire(err)
}

// Read answers resources/read.
func (g *Gateway) Read(ctx context.Context, may func(*tool.Spec) bool, client tool.Client, params json.RawMessage) (json.RawMessage, error) {
	uri := textOf(params, "uri")
	p := g.resource(ctx, may, uri)
	if p == nil {
		return nil, noResource(uri)
	}
	return p.other(ctx, client, "resources/read", uri, params)
}

// codeNoResource is what servers answer for a resource that is not there.
const codeNoResource = -32002

func noResource(uri string) error {
	return &WireFailure{Code: codeNoResource, Message: "there is no resource " + uri, Data: mustJSON(map[string]string{"uri": uri})}
}

// Prompt answers prompts/get.
func (g *Gateway) Prompt(ctx context.Context, may func(*tool.Spec) bool, client tool.Client, params json.RawMessage) (json.RawMessage, error) {
	name := textOf(params, "name")
	p, own := g.prompt(ctx, may, name)
	if p == nil {
		return nil, &WireFailure{Code: upstream.CodeInvalidParams, Message: "there is no prompt " + name}
	}
	return p.other(ctx, client, "prompts/get", own, with(params, "name", quote(own)))
}

// Complete answers completion/complete.
func (g *Gateway) Complete(ctx context.Context, may func(*tool.Spec) bool, client tool.Client, params json.RawMessage) (json.RawMessage, error) {
	ref := get(params, "ref")
	if name := textOf(ref, "name"); textOf(ref, "type") == "ref/prompt" {
		p, own := g.prompt(ctx, may, name)
		if p == nil {
			return nil, &WireFailure{Code: upstream.CodeInvalidParams, Message: "there is no prompt " + name}
		}
		return p.other(ctx, client, "completion/complete", own, with(params, "ref", with(ref, "name", quote(own))))
	}
	uri := textOf(ref, "uri")
	var p *peer
	g.each(ctx, may, func(one *peer, l lists) {
		for _, raw := range l.Templates {
			if p == nil && textOf(raw, "uriTemplate") == uri {
				p = one
			}
		}
	})
	if p == nil {
		if p = g.resource(ctx, may, uri); p == nil {
			return nil, noResource(uri)
		}
	}
	return p.other(ctx, client, "completion/complete", uri, params)
}

// Subscribe follows a resource, however many ask for it: its changes come to
// OnNotification. The server runs as long as somebody does.
func (g *Gateway) Subscribe(ctx context.Context, may func(*tool.Spec) bool, uri string) error {
	p := g.resource(ctx, may, uri)
	if p == nil {
		return noResource(uri)
	}
	l, release, err := p.use(ctx)
	if err != nil {
		return err
	}
	defer release()
	p.mu.Lock()
	p.held[uri]++
	first := p.held[uri] == 1
	p.mu.Unlock()
	if !first {
		return nil
	}
	if err := p.follows(ctx, l, uri); err != nil {
		p.mu.Lock()
		delete(p.held, uri)
		p.mu.Unlock()
		return wire(err)
	}
	return nil
}

// Unsubscribe ends what one Subscribe began.
func (g *Gateway) Unsubscribe(_ context.Context, uri string) error {
	for _, p := range g.all() {
		p.mu.Lock()
		n := p.held[uri]
		if n > 1 {
			p.held[uri]--
		} else {
			delete(p.held, uri)
		}
		l := p.link
		p.rest()
		p.mu.Unlock()
		if n == 0 {
			continue
		}
		if n == 1 && l != nil {
			p.leaves(l, uri)
		}
		return nil
	}
	return nil
}

// SetLevel says from which level on log messages are wanted, from all servers.
func (g *Gateway) SetLevel(level string) {
	g.mu.Lock()
	g.level = level
	g.mu.Unlock()
	for _, p := range g.all() {
		p.mu.Lock()
		both := []*peer{p, p.twin}
		p.mu.Unlock()
		for _, p := range both {
			if p == nil {
				continue
			}
			p.mu.Lock()
			l := p.link
			p.mu.Unlock()
			if l != nil {
				p.g.work.Go(func() { p.setLevel(p.g.background, l) })
			}
		}
	}
}

// logLevel is from which level on log messages are wanted; "" for none.
func (g *Gateway) logLevel() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.level
}

// setLevel tells a server of the session era the log level, if it has not been told
// yet. A call waits for it: its first messages would be lost otherwise.
func (p *peer) setLevel(ctx context.Context, l *link) {
	level := p.g.logLevel()
	if told := l.level.Load(); told != nil && *told == level {
		return
	}
	if level == "" || l.client.Stateless() || !has(l.client.Server().Capabilities, "logging") {
		return
	}
	select {
	case l.leveling <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-l.leveling }()
	level = p.g.logLevel()
	if told := l.level.Load(); told != nil && *told == level {
		return
	}
	l.level.Store(&level) // also of a server that does not answer: it is not waited for again
	ctx, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	if _, err := l.client.Call(ctx, upstream.Request{Method: "logging/setLevel", Params: mustJSON(map[string]string{"level": level})}); err != nil && ctx.Err() == nil {
		p.log.add("note: logging/setLevel: " + reason(err))
	}
}

// OnChange registers what is called, soon and without waiting, when a list has
// changed: "tools", "resources" or "prompts".
func (g *Gateway) OnChange(f func(kind string)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.onChange = append(g.onChange, f)
}

// OnNotification registers what is called for notifications/resources/updated and
// notifications/message, with who hears it: a client that may call certain tools
// has nothing of a server none of whose tools are among them.
func (g *Gateway) OnNotification(f func(hears func(may func(*tool.Spec) bool) bool, method string, params json.RawMessage)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.onNotification = append(g.onNotification, f)
}

func (g *Gateway) changed(kind string) {
	g.mu.Lock()
	all := g.onChange
	g.mu.Unlock()
	for _, f := range all {
		f(kind)
	}
}

func (p *peer) tell(method string, params json.RawMessage) {
	g, from := p.g, p
	if p.parent != nil {
		from = p.parent // which has the tools
	}
	g.mu.Lock()
	all := g.onNotification
	g.mu.Unlock()
	for _, f := range all {
		f(from.within, method, params)
	}
}

// notified takes what a server says beside its calls.
func (p *peer) notified(l *link, method string, params json.RawMessage) {
	if p.parent != nil && method != "notifications/message" {
		return // the connection by which the server is known hears it too
	}
	switch method {
	case "notifications/tools/list_changed", "notifications/resources/list_changed", "notifications/prompts/list_changed":
		p.refetch(l)
	case "notifications/resources/updated":
		p.tell(method, params)
	case "notifications/message":
		if textOf(params, "logger") == "" {
			params = with(params, "logger", quote(p.name))
		}
		p.tell(method, params)
	}
}

// refetch asks a server again what it offers: at once, and once more for all the
// reasons that came meanwhile.
func (p *peer) refetch(l *link) {
	if p.parent != nil {
		return // what it offers is known by the other connection
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.link != l:
		l.stale = true // once it has started
		return
	case p.again:
		p.more = true
		return
	}
	p.again = true
	p.g.work.Go(func() {
		for p.refetched(l) {
		}
	})
}

// refetched asks once, waits a little, and reports whether to ask once more.
func (p *peer) refetched(l *link) bool {
	ctx := p.g.background
	trouble := p.fetch(ctx, l.client)
	p.setLevel(ctx, l)
	p.mu.Lock()
	switch {
	case p.link != l:
	case trouble != "":
		p.to(Degraded, trouble)
	case p.state == Degraded && p.cause != notAnswering:
		p.to(Ready, "")
	}
	p.mu.Unlock()
	select {
	case <-time.After(listSettle):
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	once := p.more && p.link == l && ctx.Err() == nil
	p.more = false
	if !once {
		p.again = false
	}
	return once
}
