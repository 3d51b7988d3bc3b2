package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolyard/toolyard/tool"
)

// Upstream is what other MCP servers offer besides tools, as raw JSON, so that
// fields nobody here knows reach the client. Its lists never wait for a server.
// All methods are safe for concurrent use. The functions given to OnChange and
// OnNotification are quick.
//
// may says which tools the client may call; nil means all. Of a server none of
// whose tools it may call a client has nothing else either.
type Upstream interface {
	// Resources, Templates and Prompts are the definitions under the names and URIs
	// that clients use, in a stable order.
	Resources(ctx context.Context, may func(*tool.Spec) bool) []json.RawMessage
	Templates(ctx context.Context, may func(*tool.Spec) bool) []json.RawMessage
	Prompts(ctx context.Context, may func(*tool.Spec) bool) []json.RawMessage
	// Read, Prompt and Complete answer resources/read, prompts/get and
	// completion/complete. client is whoever may be asked for more; it may be nil. An
	// error with a method WireError is passed on as it says.
	Read(ctx context.Context, may func(*tool.Spec) bool, client tool.Client, params json.RawMessage) (json.RawMessage, error)
	Prompt(ctx context.Context, may func(*tool.Spec) bool, client tool.Client, params json.RawMessage) (json.RawMessage, error)
	Complete(ctx context.Context, may func(*tool.Spec) bool, client tool.Client, params json.RawMessage) (json.RawMessage, error)
	// Subscribe and Unsubscribe follow a resource; a change comes as a notification.
	// Each Subscribe that went well is ended by one Unsubscribe.
	Subscribe(ctx context.Context, may func(*tool.Spec) bool, uri string) error
	Unsubscribe(ctx context.Context, uri string) error
	// SetLevel says from which level on log messages are wanted.
	SetLevel(level string)
	// OnChange registers what is called when a list has changed: "prompts" or
	// "resources". Tools change in the catalog.
	OnChange(func(kind string))
	// OnNotification registers what is called for notifications/resources/updated
	// and notifications/message, with who may hear it.
	OnNotification(func(hears func(may func(*tool.Spec) bool) bool, method string, params json.RawMessage))
}

// follow tells clients what the upstream tells.
func (s *Server) follow(u Upstream) {
	// The lists are ours; adding what stands for all of them makes the SDK tell
	// clients that they changed.
	u.OnChange(func(kind string) {
		switch kind {
		case "prompts":
			s.sdk.AddPrompt(&sdk.Prompt{Name: "changed"}, nil)
		case "resources":
			s.sdk.AddResource(&sdk.Resource{URI: "toolyard:changed", Name: "changed"}, nil)
		}
	})
	queue := make(chan notice, maxNotices)
	u.OnNotification(func(hears func(may func(*tool.Spec) bool) bool, method string, params json.RawMessage) {
		select {
		case queue <- notice{hears, method, params}:
		default: // clients that read so slowly do without
		}
	})
	s.work.Go(func() {
		for {
			select {
			case n := <-queue:
				s.pass(n)
			case <-s.background.Done():
				return
			}
		}
	})
}

// maxNotices is how many notifications of the upstream wait to be passed on.
const maxNotices = 256

// notice is a notification of the upstream.
type notice struct {
	hears  func(may func(*tool.Spec) bool) bool
	method string
	params json.RawMessage
}

// pass tells a notification to the clients that want it.
func (s *Server) pass(n notice) {
	switch n.method {
	case "notifications/resources/updated":
		p := &sdk.ResourceUpdatedNotificationParams{}
		if json.Unmarshal(n.params, p) == nil {
			_ = s.sdk.ResourceUpdated(s.background, p)
		}
	case methodMessage:
		for _, sess := range s.listeners() {
			if n.hears(s.viewIn(sess, nil).allowed) {
				logTo(s.background, sess.ss, n.params)
			}
		}
	}
}

// methodMessage is the notification of a log message.
const methodMessage = "notifications/message"

// listeners are the open sessions whose clients have set a log level.
func (s *Server) listeners() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*session
	for _, sess := range s.bySDK {
		sess.mu.Lock()
		if sess.logLevel != "" {
			list = append(list, sess)
		}
		sess.mu.Unlock()
	}
	return list
}

// lowestLevel is from which level on some client wants log messages; "" for none.
func (s *Server) lowestLevel() string {
	lowest := len(severities)
	for _, sess := range s.listeners() {
		lowest = min(lowest, slices.Index(severities, sess.level()))
	}
	if lowest == len(severities) {
		return ""
	}
	return severities[lowest]
}

// logTo sends a log message to a client, if its level lets it.
func logTo(ctx context.Context, ss *sdk.ServerSession, params json.RawMessage) {
	//lint:ignore SA1019 clients of the session era use it
	p := &sdk.LoggingMessageParams{}
	if json.Unmarshal(params, p) == nil {
		//lint:ignore SA1019 clients of the session era use it
		_ = ss.Log(ctx, p) // a client that is gone is noticed elsewhere
	}
}

// page answers a list method with one page of entries.
func (s *Server) page(method, member, version, cursor string, entries []json.RawMessage) (sdk.Result, error) {
	from := 0
	if cursor != "" {
		n, err := strconv.Atoi(cursor)
		if err != nil || n < 0 {
			return nil, &jsonrpc.Error{Code: codeInvalidParams, Message: method + ": the cursor is not one of ours"}
		}
		from = min(n, len(entries))
	}
	end := min(from+pageSize, len(entries))
	b := append([]byte(`{"`), member...)
	b = append(b, `":[`...)
	b = append(b, bytes.Join(toBytes(entries[from:end]), []byte(","))...)
	b = append(b, ']')
	if end < len(entries) {
		b = append(strconv.AppendInt(append(b, `,"nextCursor":"`...), int64(end), 10), '"')
	}
	if version >= versionStateless {
		ttl := listTTL.Milliseconds()
		if member == "resources" {
			ttl = 0 // files come and go unseen
		}
		b = fmt.Appendf(b, `,"ttlMs":%d,"cacheScope":"private","resultType":"complete","_meta":{%q:%s}`, ttl, sdk.MetaKeyServerInfo, s.info)
	}
	return &wireResult{body: append(b, '}')}, nil
}

func toBytes(list []json.RawMessage) [][]byte {
	out := make([][]byte, len(list))
	for i, m := range list {
		out[i] = m
	}
	return out
}

// encoded is v as JSON, for a list.
func encoded[T any](list []T) []json.RawMessage {
	out := make([]json.RawMessage, 0, len(list))
	for _, v := range list {
		if b, err := json.Marshal(v); err == nil {
			out = append(out, b)
		}
	}
	return out
}

// listTemplates lists our templates and those of the upstream.
func (s *Server) listTemplates(ctx context.Context, r *sdk.ListResourceTemplatesRequest) (sdk.Result, error) {
	all := encoded(s.templates())
	if u := s.config.Upstream; u != nil {
		all = append(all, u.Templates(ctx, s.viewFor(s.sessionBySDK(r.Session), r.Extra).allowed)...)
	}
	cursor := ""
	if r.Params != nil {
		cursor = r.Params.Cursor
	}
	return s.page("resources/templates/list", "resourceTemplates", r.ProtocolVersion(), cursor, all)
}

// listPrompts lists the prompts of the upstream.
func (s *Server) listPrompts(ctx context.Context, r *sdk.ListPromptsRequest) (sdk.Result, error) {
	var all []json.RawMessage
	if u := s.config.Upstream; u != nil {
		all = u.Prompts(ctx, s.viewFor(s.sessionBySDK(r.Session), r.Extra).allowed)
	}
	cursor := ""
	if r.Params != nil {
		cursor = r.Params.Cursor
	}
	return s.page("prompts/list", "prompts", r.ProtocolVersion(), cursor, all)
}

// ours reports whether a resource is one of this server's own.
func (s *Server) ours(uri string) bool {
	if strings.HasPrefix(uri, artifactScheme) {
		return true
	}
	name, err := filePath(uri)
	return err == nil && s.workspaceOf(name) != ""
}

// relayed is one request through the SDK: its params, and of them what the call of
// the upstream needs.
type relayed struct {
	method, subject string
	params          any
	meta            sdk.Meta
	state           string
	responses       sdk.InputResponseMap
	session         *sdk.ServerSession
	extra           *sdk.RequestExtra
	version         string
	cacheable       bool
}

// foreign answers a request with what the upstream says. The upstream may ask the
// client for more meanwhile.
func (s *Server) foreign(ctx context.Context, r relayed, ask func(ctx context.Context, may func(*tool.Spec) bool, client tool.Client, params json.RawMessage) (json.RawMessage, error)) (sdk.Result, error) {
	raw, err := json.Marshal(r.params)
	if err != nil {
		return nil, &jsonrpc.Error{Code: codeInternal, Message: err.Error()}
	}
	if err := s.config.Ready(ctx); err != nil {
		return nil, &jsonrpc.Error{Code: codeInternal, Message: tool.AsError(err).Text()}
	}
	// What a retry carries is for us; what it is about is the rest.
	raw = without(raw, "requestState", "inputResponses")
	p := callParams{name: r.subject, arguments: without(raw, "_meta"), state: r.state}
	sess, wire := s.through(&p, r.method, r.meta, r.responses, &sdk.CallToolRequest{Session: r.session, Extra: r.extra})
	if wire != nil {
		return nil, wire
	}
	may := s.viewFor(sess, r.extra).allowed
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer sess.hold(cancel)()
	o := p.operation(r.method, sess, channel{
		notify:  func(method string, params []byte) { notify(ctx, r.session, method, params) },
		request: askSDK(r.session),
	})
	encode, failed := s.operate(ctx, sess, &o, func(ctx context.Context, op *operation) (func([]byte) []byte, *wireError) {
		body, err := ask(ctx, may, op, raw)
		if err != nil {
			code, message, data := foreignError(err)
			if code == codeNoResource && r.version >= versionStateless {
				code = codeInvalidParams // SEP-2164
			}
			return rawData(data), &wireError{int(code), message}
		}
		body = ofEra(body, r.version, r.cacheable)
		return func(b []byte) []byte { return append(b, body...) }, nil
	})
	if failed != nil {
		return nil, failed.forSDK(encode)
	}
	return &wireResult{body: encode(nil)}, nil
}

// codeNoResource is the error of a resource that is not there, in the session era.
const codeNoResource = -32002

// without is an object without some of its members.
func without(object json.RawMessage, keys ...string) json.RawMessage {
	b := []byte{'{'}
	_ = eachMember(object, func(key string, value []byte) error {
		if !slices.Contains(keys, key) {
			b = append(append(append(appendString(b, key), ':'), value...), ',')
		}
		return nil
	})
	return append(bytes.TrimSuffix(b, []byte(",")), '}')
}

// ofEra is a raw result as a client of a version expects it: the stateless era
// wants the type of each result, and how long one may be kept that may be.
func ofEra(body json.RawMessage, version string, cacheable bool) json.RawMessage {
	body = bytes.TrimSpace(body)
	if version < versionStateless || len(body) < 2 || body[0] != '{' {
		return body
	}
	typed, cached := false, !cacheable
	_ = eachMember(body, func(key string, _ []byte) error {
		typed = typed || key == "resultType"
		cached = cached || key == "ttlMs"
		return nil
	})
	var more []byte
	if !typed {
		more = append(more, `"resultType":"complete",`...)
	}
	if !cached {
		more = append(more, `"ttlMs":0,"cacheScope":"private",`...)
	}
	if len(more) == 0 {
		return body
	}
	if len(bytes.TrimSpace(body[1:len(body)-1])) == 0 {
		more = bytes.TrimSuffix(more, []byte(","))
	}
	return append(append([]byte{'{'}, more...), body[1:]...)
}

// foreignError is an upstream's error on the wire, as it was sent where it was.
func foreignError(err error) (code int64, message string, data json.RawMessage) {
	var wire interface {
		WireError() (code int64, message string, data json.RawMessage)
	}
	if errors.As(err, &wire) {
		return wire.WireError()
	}
	e := tool.AsError(err)
	code = codeInternal
	if e.Code == tool.NotFound || e.Code == tool.ParameterError {
		code = codeInvalidParams
	}
	return code, e.Text(), appendJSON(nil, map[string]any{"code": e.Code})
}

// foreignFailure is foreignError for the SDK.
func foreignFailure(err error) error {
	code, message, data := foreignError(err)
	return &jsonrpc.Error{Code: code, Message: message, Data: data}
}
