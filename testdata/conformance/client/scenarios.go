package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/toolyard/toolyard/internal/gateway/upstream"
)

// maxRounds bounds how often one request may ask for more input.
const maxRounds = 8

// peer is the connection and what the suite said about the scenario.
type peer struct {
	*upstream.Client
	context struct {
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
		Issuer       string `json:"issuer"`
		Calls        []struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"toolCalls"`
	}
	tools map[string]aTool
	names []string // of tools, in the server's order
}

type aTool struct {
	schema  json.RawMessage
	headers *upstream.ParamHeaders
}

// list reads the tools and leaves out those whose headers are not as the
// protocol demands, as the gateway does.
func list(ctx context.Context, p *peer) error {
	result, err := p.ask(ctx, upstream.Request{Method: "tools/list"})
	if err != nil {
		return err
	}
	var all struct {
		Tools []struct {
			Name        string          `json:"name"`
			InputSchema json.RawMessage `json:"inputSchema"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(result, &all); err != nil {
		return err
	}
	p.tools, p.names = map[string]aTool{}, nil
	for _, t := range all.Tools {
		headers, err := upstream.HeadersOf(t.InputSchema)
		if err != nil {
			slog.Info("a tool is left out", "tool", t.Name, "err", err)
			continue
		}
		p.tools[t.Name] = aTool{t.InputSchema, headers}
		p.names = append(p.names, t.Name)
	}
	return nil
}

// calling lists the tools and calls one.
func calling(name, arguments string) scenario {
	return func(ctx context.Context, p *peer) error {
		if err := list(ctx, p); err != nil {
			return err
		}
		if _, ok := p.tools[name]; !ok {
			return fmt.Errorf("the server has no tool %s", name)
		}
		return p.call(ctx, name, json.RawMessage(arguments))
	}
}

// callMany calls tools that may fail by design.
func callMany(names ...string) scenario {
	return func(ctx context.Context, p *peer) error {
		if err := list(ctx, p); err != nil {
			return err
		}
		for _, name := range names {
			if err := p.call(ctx, name, json.RawMessage(`{}`)); err != nil {
				slog.Info("a call failed", "tool", name, "err", err)
			}
		}
		return nil
	}
}

func callAll(ctx context.Context, p *peer) error {
	if err := list(ctx, p); err != nil {
		return err
	}
	for _, name := range p.names {
		if err := p.call(ctx, name, json.RawMessage(`{"region":"us-west1"}`)); err != nil {
			return err
		}
	}
	return nil
}

// suggestedCalls makes the calls that the suite names.
func suggestedCalls(ctx context.Context, p *peer) error {
	if err := list(ctx, p); err != nil {
		return err
	}
	for _, c := range p.context.Calls {
		if err := p.call(ctx, c.Name, c.Arguments); err != nil {
			return err
		}
	}
	return nil
}

// echoSchema sends a tool's schema back as it came.
func echoSchema(ctx context.Context, p *peer) error {
	if err := list(ctx, p); err != nil {
		return err
	}
	arguments, err := json.Marshal(map[string]json.RawMessage{"schema": p.tools["json_schema_2020_12_tool"].schema})
	if err != nil {
		return err
	}
	return p.call(ctx, "json_schema_echo", arguments)
}

// everyMethod uses each kind of list and the first thing in it.
func everyMethod(ctx context.Context, p *peer) error {
	if err := list(ctx, p); err != nil {
		return err
	}
	if len(p.names) == 0 {
		return errors.New("the server has no tools")
	}
	if err := p.call(ctx, p.names[0], json.RawMessage(`{}`)); err != nil {
		return err
	}
	for _, kind := range []struct{ list, items, key, use string }{
		{"resources/list", "resources", "uri", "resources/read"},
		{"prompts/list", "prompts", "name", "prompts/get"},
	} {
		result, err := p.ask(ctx, upstream.Request{Method: kind.list})
		if err != nil {
			return err
		}
		var lists map[string]json.RawMessage
		var items []map[string]json.RawMessage
		if err := errors.Join(json.Unmarshal(result, &lists), json.Unmarshal(lists[kind.items], &items)); err != nil {
			return err
		}
		if len(items) == 0 {
			return fmt.Errorf("%s is empty", kind.list)
		}
		params, err := json.Marshal(map[string]json.RawMessage{kind.key: items[0][kind.key]})
		if err != nil {
			return err
		}
		if _, err := p.ask(ctx, upstream.Request{Method: kind.use, Params: params}); err != nil {
			return err
		}
	}
	return nil
}

// call calls a tool.
func (p *peer) call(ctx context.Context, name string, arguments json.RawMessage) error {
	params, err := json.Marshal(map[string]any{"name": name, "arguments": arguments})
	if err != nil {
		return err
	}
	_, err = p.ask(ctx, upstream.Request{Method: "tools/call", Params: params, Headers: p.tools[name].headers})
	return err
}

// ask makes a request, and makes it again with what the server wants to know
// before it answers.
func (p *peer) ask(ctx context.Context, r upstream.Request) (json.RawMessage, error) {
	r.Ask = answer
	first := r.Params
	for range maxRounds {
		result, err := p.Call(ctx, r)
		if err != nil {
			return nil, err
		}
		var more struct {
			Type     string                     `json:"resultType"`
			State    json.RawMessage            `json:"requestState"`
			Requests map[string]json.RawMessage `json:"inputRequests"`
		}
		if err := json.Unmarshal(result, &more); err != nil || more.Type != "input_required" {
			return result, err
		}
		if r.Params, err = answered(ctx, first, more.State, more.Requests); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("the server never has enough")
}

// answered are the params of the next round.
func answered(ctx context.Context, params, state json.RawMessage, requests map[string]json.RawMessage) (json.RawMessage, error) {
	next := map[string]json.RawMessage{}
	if params != nil {
		if err := json.Unmarshal(params, &next); err != nil {
			return nil, err
		}
	}
	answers := map[string]json.RawMessage{}
	for id, raw := range requests {
		var r struct {
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
		}
		if err := json.Unmarshal(raw, &r); err != nil {
			return nil, err
		}
		got, failed := answer(ctx, r.Method, r.Params)
		if failed != nil {
			return nil, failed
		}
		answers[id] = got
	}
	if state != nil {
		next["requestState"] = state
	}
	var err error
	if next["inputResponses"], err = json.Marshal(answers); err != nil {
		return nil, err
	}
	return json.Marshal(next)
}

// answer is the person: every form is accepted as it is proposed.
func answer(_ context.Context, method string, params json.RawMessage) (json.RawMessage, *upstream.Error) {
	if method != "elicitation/create" {
		return nil, &upstream.Error{Code: upstream.CodeMethodNotFound, Message: "not offered: " + method}
	}
	var form struct {
		Schema struct {
			Properties map[string]struct {
				Type    any             `json:"type"`
				Default json.RawMessage `json:"default"`
			} `json:"properties"`
		} `json:"requestedSchema"`
	}
	if err := json.Unmarshal(params, &form); err != nil {
		return nil, &upstream.Error{Code: upstream.CodeInvalidParams, Message: err.Error()}
	}
	content := map[string]json.RawMessage{}
	for name, field := range form.Schema.Properties {
		switch {
		case field.Default != nil:
			content[name] = field.Default
		case field.Type == "boolean":
			content[name] = json.RawMessage("true")
		}
	}
	result, err := json.Marshal(map[string]any{"action": "accept", "content": content})
	if err != nil {
		return nil, &upstream.Error{Code: upstream.CodeInternal, Message: err.Error()}
	}
	return result, nil
}
