package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolyard/toolyard/tool"
)

// What a server may ask its client (MCP, multi round-trip requests).
const (
	methodElicit = "elicitation/create"
	methodSample = "sampling/createMessage"
	methodRoots  = "roots/list"
)

// extensionTasks is the name of the tasks extension (SEP-2663).
const extensionTasks = "io.modelcontextprotocol/tasks"

// abilities are what a client has declared that it can be asked.
type abilities struct {
	form, url, sampling, roots bool
	tasks                      bool // it knows the tasks extension
}

// any reports whether anything may outlast one exchange of a stateless client.
func (a abilities) any() bool { return a.asks() || a.tasks }

// asks reports whether the client can be asked anything.
func (a abilities) asks() bool { return a.form || a.url || a.sampling || a.roots }

// of reports whether the client can be asked r.
func (a abilities) of(r tool.InputRequest) bool {
	switch r.Method {
	case methodElicit:
		if elicitMode(r.Params) == "url" {
			return a.url
		}
		return a.form
	case methodSample:
		return a.sampling
	case methodRoots:
		return a.roots
	}
	return false
}

// parseAbilities reads a ClientCapabilities object.
func parseAbilities(capabilities json.RawMessage) (a abilities) {
	_ = eachMember(capabilities, func(key string, value []byte) error {
		if value[0] != '{' {
			return nil
		}
		switch key {
		case "sampling":
			a.sampling = true
		case "roots":
			a.roots = true
		case "elicitation":
			_ = eachMember(value, func(mode string, value []byte) error {
				a.form = a.form || mode == "form" && value[0] == '{'
				a.url = a.url || mode == "url" && value[0] == '{'
				return nil
			})
			a.form = a.form || !a.url // no mode is form (MCP, elicitation)
		case "extensions":
			_ = eachMember(value, func(name string, value []byte) error {
				a.tasks = a.tasks || name == extensionTasks && value[0] == '{'
				return nil
			})
		}
		return nil
	})
	return a
}

// elicitMode is the mode of the params of elicitation/create.
func elicitMode(params json.RawMessage) string {
	mode := "form"
	_ = eachMember(params, func(key string, value []byte) error {
		if key == "mode" {
			mode = unquote(value)
		}
		return nil
	})
	return mode
}

// ask is one thing that a client is asked.
type ask struct {
	key      string // the client's answer comes under it
	as       string // the asker's own key
	request  tool.InputRequest
	given    bool   // an answer that came along with the request counts
	question string // its ID, if it is durable
	binding  string // of [tool.Question]
	fresh    bool   // of [tool.Question]
	deadline time.Time
	why      string // what was wrong with the last answer
	schema   *jsonschema.Resolved
	resolved bool

	done     chan struct{} // closed when there is a response or an err
	response json.RawMessage
	err      error
}

// params are what the client is sent: those of the request, and what was wrong
// with its last answer.
func (a *ask) params() json.RawMessage {
	if a.why == "" || a.request.Method != methodElicit {
		return a.request.Params
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(a.request.Params, &members) != nil {
		return a.request.Params
	}
	message := unquote(members["message"]) + "\n\n(The last answer did not fit: " + a.why + ")"
	members["message"] = appendString(nil, strings.TrimSpace(message))
	return appendJSON(nil, members)
}

// misfit says what is wrong with a response; "" if nothing is.
func (a *ask) misfit(response json.RawMessage) string {
	if value0(response) != '{' {
		return "it is not an object"
	}
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(response, &members); err != nil {
		return err.Error()
	}
	switch a.request.Method {
	case methodElicit:
		return a.misfitForm(members)
	case methodSample:
		for _, key := range []string{"role", "content", "model"} {
			if members[key] == nil {
				return key + " is missing"
			}
		}
	case methodRoots:
		var roots []struct{ URI string }
		if members["roots"] == nil || json.Unmarshal(members["roots"], &roots) != nil {
			return "roots is not a list of roots"
		}
	}
	return ""
}

func (a *ask) misfitForm(members map[string]json.RawMessage) string {
	switch action := unquote(members["action"]); action {
	case "decline", "cancel":
		return ""
	case "accept":
	default:
		return "action is none of accept, decline and cancel"
	}
	if elicitMode(a.request.Params) != "form" {
		return ""
	}
	content := map[string]any{}
	if raw := members["content"]; raw != nil && json.Unmarshal(raw, &content) != nil {
		return "content is not an object"
	}
	if content == nil {
		return "content is null"
	}
	schema := a.form()
	if schema == nil {
		return ""
	}
	if err := schema.Validate(content); err != nil {
		return cutText(err.Error(), maxProgressText)
	}
	return ""
}

// form is the schema of an elicitation's answer; nil if it has none that can be
// checked.
func (a *ask) form() *jsonschema.Resolved {
	if a.resolved {
		return a.schema
	}
	a.resolved = true
	var params struct{ RequestedSchema *jsonschema.Schema }
	if json.Unmarshal(a.request.Params, &params) == nil && params.RequestedSchema != nil {
		if schema, err := params.RequestedSchema.Resolve(nil); err == nil {
			a.schema = schema
		}
	}
	return a.schema
}

// parseResponses reads inputResponses; nil if it is no object.
func parseResponses(raw json.RawMessage) map[string]json.RawMessage {
	if value0(raw) != '{' {
		return nil
	}
	responses := map[string]json.RawMessage{}
	if json.Unmarshal(raw, &responses) != nil {
		return nil
	}
	return responses
}

// misfitError is an answer that does not fit what was asked for.
type misfitError string

func (e misfitError) Error() string { return string(e) }

// sdkMisfit begins the SDK's error about such an answer.
const sdkMisfit = "elicitation result content does not match requested schema: "

// askSDK asks the client of an SDK session, on the stream of the request that ctx
// belongs to.
func askSDK(ss *sdk.ServerSession) func(context.Context, string, []byte) (json.RawMessage, error) {
	return func(ctx context.Context, method string, params []byte) (json.RawMessage, error) {
		if params == nil {
			params = []byte("{}")
		}
		switch method {
		case methodElicit:
			return askTyped(ctx, params, ss.Elicit)
		case methodSample:
			//lint:ignore SA1019 clients of the session era have it
			return askTyped(ctx, params, ss.CreateMessageWithTools)
		case methodRoots:
			//lint:ignore SA1019 clients of the session era have it
			return askTyped(ctx, params, ss.ListRoots)
		}
		return nil, fmt.Errorf("%w: clients do not take %s", tool.ErrNoChannel, method)
	}
}

func askTyped[P, R any](ctx context.Context, params []byte, send func(context.Context, *P) (R, error)) (json.RawMessage, error) {
	typed := new(P)
	if err := json.Unmarshal(params, typed); err != nil {
		return nil, err
	}
	result, err := send(ctx, typed)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil && strings.HasPrefix(err.Error(), sdkMisfit):
		return nil, misfitError(strings.TrimPrefix(err.Error(), sdkMisfit))
	case err != nil:
		return nil, err
	}
	raw, err := json.Marshal(result)
	if err != nil {
		return nil, errors.New("the client's answer cannot be read")
	}
	return raw, nil
}
