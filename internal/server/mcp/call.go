package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/tool"
)

// channel is the way back to the client while a call runs.
type channel struct {
	// notify sends a notification; nil if there is no way to.
	notify func(method string, params []byte)
	// request asks the client something on the connection that the call came over,
	// see connection.request; nil if there is no way to.
	request func(ctx context.Context, method string, params []byte) (json.RawMessage, error)
}

// run runs one tools/call, or waits on for one that was parked. It gives the
// function that appends the result as JSON, or an error that is answered instead,
// with what that function then appends as its data, if it is not nil.
func (s *Server) run(ctx context.Context, sess *session, p *callParams, ch channel) (func([]byte) []byte, *wireError) {
	o := p.operation("tools/call", sess, ch)
	var wire *wireError
	if o.workspace, wire = s.workspace(sess, p.workspace); wire != nil {
		return nil, wire
	}
	v := s.viewIn(sess, p.view)
	s.taskable(&o, p.name, v)
	o.outlast = func() { // whoever asks us to run reuses its own
		kept := *p
		p = &kept
	}
	return s.operate(ctx, sess, &o, func(ctx context.Context, op *operation) (func([]byte) []byte, *wireError) {
		result, wire := s.result(ctx, sess, p, op, v)
		if wire != nil {
			return nil, wire
		}
		if data, wire := protocolError(result); wire != nil {
			return rawData(data), wire
		}
		op.result = result
		return s.encoder(p.version, result), nil
	})
}

// protocolError is the JSON-RPC error that a tool wants to be answered with; nil
// if there is none. Its error wraps one with a method WireError: another server's,
// passed on, or the protocol's own.
func protocolError(r *tool.Result) (data json.RawMessage, wire *wireError) {
	if r.Err == nil || r.Err.Err == nil {
		return nil, nil
	}
	var failed interface {
		error
		WireError() (code int64, message string, data json.RawMessage)
	}
	if !errors.As(r.Err.Err, &failed) {
		return nil, nil
	}
	code, message, data := failed.WireError()
	return data, &wireError{int(code), message}
}

// operation is the request as one that may ask its client.
func (p *callParams) operation(method string, sess *session, ch channel) operationParams {
	o := operationParams{
		method: method, subject: p.name, arguments: p.arguments, principal: p.principal, version: p.version,
		capabilities: p.able, meta: p.meta, state: p.state, responses: p.responses, token: p.token, ch: ch,
	}
	o.logLevel = p.logLevel
	if p.version < versionStateless {
		o.capabilities, o.logLevel = sess.declared(), sess.level()
	}
	return o
}

// encoder gives the function that appends r as a client of a version reads it.
func (s *Server) encoder(version string, r *tool.Result) func([]byte) []byte {
	if version >= versionStateless {
		return func(b []byte) []byte { return appendStateless(b, r, s.info) }
	}
	return r.AppendJSON
}

// result runs one call in a session.
func (s *Server) result(ctx context.Context, sess *session, p *callParams, op *operation, v *view) (*tool.Result, *wireError) {
	caller := s.callers.of(p.principal)
	if sess.caller != nil {
		caller = *sess.caller
	}
	call := executor.Call{
		Tool:      p.name,
		Arguments: p.arguments,
		ID:        op.call,
		Session:   sess.id,
		Mode:      s.config.Mode,
		Rules:     s.config.Rules,
		Timeout:   p.timeout,
		Origin:    executor.OriginMCP,
		Client:    op,
		Tenant:    caller.Tenant,
		Project:   caller.Project,
		Allowed:   bothAllow(v.allowed, caller.Allowed),

		Concurrent: p.concurrent, Unread: p.unread,
	}
	var wire *wireError
	if call.Workspace, wire = s.workspace(sess, p.workspace); wire != nil {
		return nil, wire
	}
	if err := s.config.Ready(ctx); err != nil {
		return tool.ErrorResult(err), nil
	}
	call.Turn = sess.enter(p.turn, s.config.Now())
	s.record(ctx, sess)

	if op.progress != nil || op.logs() != "" {
		call.OnEvent = op.event
	}
	if op.able.form {
		call.Asker = &asker{op}
	}
	result := s.config.Executor.Call(ctx, call)

	switch offered := s.toolIn(v, p.name); {
	case offered == nil && result.Err != nil && result.Err.Code == tool.ToolNotFound:
		return nil, &wireError{codeInvalidParams, result.Err.Text()}
	case offered != nil && offered.spec.FullName() == "undo" && !result.IsError:
		sess.undone()
	}
	return result, nil
}

// workspace finds the root for a call: the one named in the request, else the
// session's.
func (s *Server) workspace(sess *session, named string) (string, *wireError) {
	if named == "" {
		sess.mu.Lock()
		defer sess.mu.Unlock()
		return sess.workspace, nil
	}
	if !slices.Contains(s.config.Workspaces, named) {
		known := strings.Join(s.config.Workspaces, ", ")
		if known == "" {
			known = "none"
		}
		return "", &wireError{codeInvalidParams, metaWorkspace + ": " + named + " is not a workspace of this server. Named are: " + known}
	}
	return named, nil
}

// receive stands before the SDK's own handlers.
func (s *Server) receive(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		switch r := req.(type) {
		case *sdk.CallToolRequest:
			return s.slowCall(ctx, r)
		case *sdk.ListToolsRequest:
			if s.config.Settled != nil {
				s.settle(ctx)
			}
			return s.listTools(r, s.viewFor(s.sessionBySDK(r.Session), r.Extra))
		case *sdk.ListResourcesRequest:
			return s.listResources(ctx, r)
		case *sdk.ListResourceTemplatesRequest:
			return s.listTemplates(ctx, r)
		case *sdk.ListPromptsRequest:
			return s.listPrompts(ctx, r)
		case *sdk.ReadResourceRequest:
			if u := s.config.Upstream; u != nil && !s.ours(r.Params.URI) {
				return s.foreign(ctx, relayed{
					method: method, subject: r.Params.URI, params: r.Params, meta: r.Params.Meta, state: r.Params.RequestState, responses: r.Params.InputResponses,
					session: r.Session, extra: r.Extra, version: r.ProtocolVersion(), cacheable: true,
				}, u.Read)
			}
		case *sdk.GetPromptRequest:
			if u := s.config.Upstream; u != nil {
				return s.foreign(ctx, relayed{
					method: method, subject: r.Params.Name, params: r.Params, meta: r.Params.Meta, state: r.Params.RequestState, responses: r.Params.InputResponses,
					session: r.Session, extra: r.Extra, version: r.ProtocolVersion(),
				}, u.Prompt)
			}
		case *sdk.CompleteRequest:
			if u := s.config.Upstream; u != nil {
				return s.foreign(ctx, relayed{
					method: method, params: r.Params, meta: r.Params.Meta, session: r.Session, extra: r.Extra, version: r.ProtocolVersion(),
				}, u.Complete)
			}
		case *sdk.SubscriptionsListenRequest:
			// It subscribes by requests of its own, which do not tell whose they are.
			ctx = context.WithValue(ctx, viewKey{}, s.viewFor(s.sessionBySDK(r.Session), r.Extra))
		//lint:ignore SA1019 clients of the session era use it
		case *sdk.ServerRequest[*sdk.SetLoggingLevelParams]:
			if u := s.config.Upstream; u != nil {
				defer func() { u.SetLevel(s.lowestLevel()) }() // after the next
			}
			if sess := s.sessionBySDK(r.Session); sess != nil {
				defer s.followLogs(sess, string(r.Params.Level))
			}
		case *sdk.ServerRequest[*sdk.InitializeParams]:
			result, err := next(ctx, method, req)
			if err != nil {
				return nil, withCode(codeInvalidRequest, err)
			}
			if answer, ok := result.(*sdk.InitializeResult); ok {
				s.connected(r, answer.ProtocolVersion)
			}
			s.instruct(result, s.viewFor(s.sessionBySDK(r.Session), r.Extra))
			return result, nil
		case *sdk.ServerRequest[*sdk.DiscoverParams]:
			result, err := next(ctx, method, req)
			if err == nil {
				s.instruct(result, s.viewFor(s.sessionBySDK(r.Session), r.Extra))
				return result, nil
			}
			return nil, withCode(codeInternal, err)
		}
		result, err := next(ctx, method, req)
		if err != nil {
			return nil, withCode(codeInternal, err)
		}
		return result, nil
	}
}

// withCode gives err a JSON-RPC code if it has none; the SDK would send 0. It
// takes away data that is not JSON, which the SDK writes for a URI with control
// characters (ResourceNotFoundError quotes it as Go does): it cannot be encoded,
// and the SDK would give the whole connection up.
func withCode(code int64, err error) error {
	if wire := asWire(err); wire != nil && wire.Code != 0 {
		if wire.Data != nil && !json.Valid(wire.Data) {
			return &jsonrpc.Error{Code: wire.Code, Message: wire.Message}
		}
		return err
	}
	return &jsonrpc.Error{Code: code, Message: err.Error()}
}

// wireResult is a CallToolResult that is already encoded.
type wireResult struct {
	sdk.ResultBase
	body json.RawMessage
}

// MarshalJSON gives the encoded result.
func (r *wireResult) MarshalJSON() ([]byte, error) { return r.body, nil }

// slowCall answers a tools/call that came through the SDK.
func (s *Server) slowCall(ctx context.Context, r *sdk.CallToolRequest) (sdk.Result, error) {
	p := callParams{name: r.Params.Name, arguments: r.Params.Arguments, state: r.Params.RequestState}
	if string(p.arguments) == "null" {
		p.arguments = nil
	}
	if p.name == "" {
		return nil, &jsonrpc.Error{Code: codeInvalidParams, Message: "tools/call: name is missing"}
	}
	sess, err := s.through(&p, "tools/call", r.Params.Meta, r.Params.InputResponses, r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer sess.hold(cancel)()
	encode, wire := s.run(ctx, sess, &p, channel{
		notify:  func(method string, params []byte) { notify(ctx, r.Session, method, params) },
		request: askSDK(r.Session),
	})
	if wire != nil {
		return nil, wire.forSDK(encode)
	}
	return &wireResult{body: encode(nil)}, nil
}

// through completes p with what came along with a request through the SDK, and
// finds its session.
func (s *Server) through(p *callParams, method string, meta sdk.Meta, responses sdk.InputResponseMap, r *sdk.CallToolRequest) (*session, error) {
	if len(responses) > 0 {
		p.responses = appendJSON(nil, responses)
	}
	if len(meta) > 0 {
		raw, err := json.Marshal(meta)
		if err == nil {
			err = p.parseMeta(raw)
		}
		if err != nil {
			return nil, &jsonrpc.Error{Code: codeInvalidParams, Message: method + ": " + err.Error()}
		}
	}
	if r.Extra != nil {
		p.principal = principal(r.Extra.Header)
	}
	sess := s.sessionOf(r, p)
	p.view = s.viewFor(sess, r.Extra)
	return sess, nil
}

// forSDK is e with the data that data appends, if it is not nil.
func (e *wireError) forSDK(data func([]byte) []byte) error {
	wire := &jsonrpc.Error{Code: int64(e.code), Message: e.message}
	if data != nil {
		wire.Data = data(nil)
	}
	return wire
}

// notify sends a progress notification through the SDK, which routes it to the
// stream of the request that ctx belongs to.
func notify(ctx context.Context, ss *sdk.ServerSession, method string, params []byte) {
	switch method {
	case methodMessage:
		logTo(ctx, ss, params)
		return
	case methodProgress:
	default:
		return
	}
	var p sdk.ProgressNotificationParams
	if json.Unmarshal(params, &p) == nil {
		_ = ss.NotifyProgress(ctx, &p) // a client that is gone is noticed elsewhere
	}
}
