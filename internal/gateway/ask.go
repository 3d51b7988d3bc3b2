package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"sync"

	"github.com/toolyard/toolyard/internal/gateway/upstream"
	"github.com/toolyard/toolyard/tool"
)

// What a server may ask of its client.
const (
	methodElicit   = "elicitation/create"
	methodSampling = "sampling/createMessage"
	methodRoots    = "roots/list"
)

// The budget of a server that may use the client's model and says no other.
const (
	samplingCalls  = 20
	samplingTokens = 50_000
)

// codeRefused is our answer to what a server may not ask.
const codeRefused = -32001

// sampled counts what a server asked of the client's model.
type sampled struct {
	mu            sync.Mutex
	calls, tokens int
}

// take takes one request out of the budget, or says why it may not be.
func (p *peer) sample(params json.RawMessage) *upstream.Error {
	s := p.entry.Sampling
	if !s.Allowed {
		return &upstream.Error{Code: codeRefused, Message: "sampling is not allowed for this server"}
	}
	calls, tokens := s.Calls, s.Tokens
	if calls == 0 {
		calls = samplingCalls
	}
	if tokens == 0 {
		tokens = samplingTokens
	}
	var in struct {
		MaxTokens float64 `json:"maxTokens"`
	}
	if json.Unmarshal(params, &in) != nil || in.MaxTokens < 0 || in.MaxTokens > 1e9 {
		return &upstream.Error{Code: upstream.CodeInvalidParams, Message: "maxTokens is no number of tokens"}
	}
	asked := p.budget()
	asked.mu.Lock()
	defer asked.mu.Unlock()
	if asked.calls >= calls || asked.tokens+int(in.MaxTokens) > tokens {
		return &upstream.Error{Code: codeRefused, Message: fmt.Sprintf("the budget for sampling is used up: %d of %d requests, %d of %d tokens", asked.calls, calls, asked.tokens, tokens)}
	}
	asked.calls++
	asked.tokens += int(in.MaxTokens)
	p.metrics.sampling.Add(1)
	return nil
}

// tellsRoots reports whether a server is told of the workspaces as roots. One that
// was given directories on its command line is not: servers take roots in place of
// those.
func (p *peer) tellsRoots() bool {
	if len(p.g.workspaces(p.entry)) == 0 || p.entry.Sandbox.Workspaces == "none" {
		return false
	}
	for _, arg := range p.entry.Args {
		if path := p.g.expandHome(arg); filepath.IsAbs(path) && isDir(path) {
			return false
		}
	}
	return true
}

// roots is the answer to roots/list where the client has none.
func (p *peer) roots() json.RawMessage {
	type root struct {
		URI  string `json:"uri"`
		Name string `json:"name"`
	}
	list := []root{}
	if p.tellsRoots() {
		for _, dir := range p.g.workspaces(p.entry) {
			list = append(list, root{(&url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}).String(), filepath.Base(dir)})
		}
	}
	raw, _ := json.Marshal(map[string]any{"roots": list}) // texts always marshal
	return raw
}

// can reports whether the client behind an exchange can be asked such a thing.
func (x *exchange) can(method string) bool {
	if x.client == nil {
		return false
	}
	capability := map[string]string{methodElicit: "elicitation", methodSampling: "sampling", methodRoots: "roots"}[method]
	return capability != "" && has(x.client.Capabilities(), capability)
}

// answer answers a request that a server makes in the course of an exchange.
func (p *peer) answer(ctx context.Context, x *exchange, method string, params json.RawMessage) (json.RawMessage, *upstream.Error) {
	one := map[string]tool.InputRequest{"1": {Method: method, Params: params}}
	answers, refused := p.settle(x, one)
	if e := refused["1"]; e != nil {
		return nil, e
	}
	if a := answers["1"]; a != nil {
		return a, nil
	}
	got, err := p.put(ctx, x, one)
	switch {
	case errors.Is(err, tool.ErrNoChannel):
		if method == methodElicit {
			return json.RawMessage(`{"action":"cancel"}`), nil
		}
		return nil, &upstream.Error{Code: upstream.CodeMethodNotFound, Message: "the client cannot be asked this: " + method}
	case err != nil:
		return nil, &upstream.Error{Code: upstream.CodeInternal, Message: "the client gave no answer: " + reason(err)}
	}
	return got["1"], nil
}

// put puts requests to the client behind. The clock of the exchange stands.
func (p *peer) put(ctx context.Context, x *exchange, requests map[string]tool.InputRequest) (map[string]json.RawMessage, error) {
	for _, r := range requests {
		if !x.can(r.Method) {
			return nil, tool.ErrNoChannel
		}
	}
	shown := make(map[string]tool.InputRequest, len(requests))
	for key, r := range requests {
		if r.Method == methodElicit {
			r.Params = p.attributed(r.Params)
		}
		shown[key] = r
	}
	goOn := x.clock.stand()
	defer goOn()
	return x.client.Input(ctx, shown)
}

// settle answers what the client behind need not, or must not, be asked.
func (p *peer) settle(x *exchange, requests map[string]tool.InputRequest) (answers map[string]json.RawMessage, refused map[string]*upstream.Error) {
	answers, refused = map[string]json.RawMessage{}, map[string]*upstream.Error{}
	for key, r := range requests {
		switch r.Method {
		case methodRoots:
			if !x.can(methodRoots) {
				answers[key] = p.roots()
			}
		case methodSampling:
			if e := p.sample(r.Params); e != nil {
				refused[key] = e
			}
		case methodElicit:
			if wantsSecret(r) {
				p.g.log.Warn("a form that asks for a secret is not shown; a server may ask for one by URL", "server", p.name)
				answers[key] = json.RawMessage(`{"action":"decline"}`)
			}
		default:
			refused[key] = &upstream.Error{Code: upstream.CodeMethodNotFound, Message: "there is no " + r.Method}
		}
	}
	return answers, refused
}

// answers gives the inputResponses that a server of 2026-07-28 asked for: all of
// them, or an error.
func (p *peer) answers(ctx context.Context, x *exchange, requests map[string]tool.InputRequest) (json.RawMessage, error) {
	if len(requests) == 0 {
		return json.RawMessage("{}"), nil
	}
	answers, refused := p.settle(x, requests)
	for key, e := range refused {
		return nil, tool.Errorf(tool.PermissionDenied, "the MCP server %s asked for %s, which is refused: %s", p.name, requests[key].Method, e.Message).
			WithHint("It is allowed with sampling in the server's entry.")
	}
	rest := map[string]tool.InputRequest{}
	for key, r := range requests {
		if answers[key] == nil {
			rest[key] = r
		}
	}
	if len(rest) > 0 {
		got, err := p.put(ctx, x, rest)
		if errors.Is(err, tool.ErrNoChannel) {
			return nil, tool.Errorf(tool.PermissionDenied, "the MCP server %s needs an answer of a person, and nobody can be asked", p.name).
				WithDetail("reason", "no_channel").WithHint("Call it from a client that can be asked (elicitation).")
		}
		if err != nil {
			return nil, err
		}
		for key, a := range got {
			answers[key] = a
		}
	}
	raw, err := json.Marshal(answers)
	if err != nil {
		return nil, tool.Errorf(tool.ExecutionError, "the client's answer is no JSON: %v", err)
	}
	return raw, nil
}

// request answers a request of a server that belongs to no exchange.
func (p *peer) request(_ context.Context, method string, _ json.RawMessage) (json.RawMessage, *upstream.Error) {
	switch method {
	case methodRoots:
		return p.roots(), nil
	case methodElicit:
		return json.RawMessage(`{"action":"cancel"}`), nil
	case methodSampling:
		return nil, &upstream.Error{Code: codeRefused, Message: "no call of a client runs that this could belong to"}
	}
	return nil, &upstream.Error{Code: upstream.CodeMethodNotFound, Message: "there is no " + method}
}

// capabilities is what we say to a server of the session era that its client can
// do: whether the one behind a call can is seen when it is asked.
func (p *peer) capabilities() json.RawMessage {
	all := map[string]any{"elicitation": map[string]any{"form": struct{}{}, "url": struct{}{}}}
	if p.tellsRoots() {
		all["roots"] = struct{}{}
	}
	if p.entry.Sampling.Allowed {
		all["sampling"] = struct{}{}
	}
	raw, _ := json.Marshal(all) // always marshals
	return raw
}
