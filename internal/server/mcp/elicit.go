package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard/tool"
)

// askedEvery is how often a waiting client is told that a person is asked, so
// that it does not give the request up.
const askedEvery = 10 * time.Second

// kindSecret is the kind of the questions for values that the client must not see.
const kindSecret = "env"

// optionReject is the option that stands for a refusal.
const optionReject = "reject"

// asker puts questions to the person behind an MCP client, as a form.
type asker struct{ op *operation }

// Ask shows q and waits for the answer until ctx is done.
func (a *asker) Ask(ctx context.Context, q tool.Question) (tool.Answer, error) {
	if q.Kind == kindSecret {
		return tool.Answer{}, fmt.Errorf("%w: a secret is never asked for in a form", tool.ErrNoChannel)
	}
	defer a.op.remind(ctx)()
	one := &ask{key: q.ID, question: q.ID, binding: q.Binding, fresh: q.Fresh, request: tool.InputRequest{Method: methodElicit}}
	if one.key == "" {
		one.key = "question-" + randomID(4)
	}
	one.as = one.key
	one.request.Params = appendJSON(nil, map[string]any{"mode": "form", "message": message(q), "requestedSchema": form(q)})
	err := a.op.put(ctx, []*ask{one})
	switch {
	case ctx.Err() != nil:
		return tool.Answer{}, context.Cause(ctx)
	case err != nil:
		return tool.Answer{}, err
	case one.err != nil:
		return tool.Answer{}, fmt.Errorf("%w: the client did not show the question: %w", tool.ErrNoChannel, one.err)
	}
	given, err := parseAnswer(one.response)
	if err != nil {
		return tool.Answer{}, err
	}
	if given.Option == optionReject && !slices.ContainsFunc(q.Options, func(o tool.Option) bool { return o.ID == optionReject }) {
		return tool.Answer{}, errDeclined
	}
	return given, nil
}

// maxShown bounds what a person is shown of a call's arguments, in bytes.
const maxShown = 4 << 10

// message is what a person reads above the form: the question, and of a
// permission exactly what would run and which rule would be saved.
func message(q tool.Question) string {
	var parts []string
	for _, part := range []string{q.Title, q.Text} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	name, _ := q.Details["tool"].(string)
	if v := q.Details["arguments"]; v != nil && name != "" {
		arguments, ok := v.(string)
		if !ok {
			arguments = string(appendJSON(nil, v))
		}
		shown := cutText(arguments, maxShown)
		if len(shown) < len(arguments) {
			shown += fmt.Sprintf(" … (%d bytes more)", len(arguments)-len(shown))
		}
		parts = append(parts, "It would run: "+name+" "+shown)
	}
	if rules, ok := q.Details["suggest"].([]string); ok && len(rules) > 0 {
		parts = append(parts, "“Always allow” saves the rule: allow "+strings.Join(rules, ", allow "))
	}
	return strings.Join(parts, "\n\n")
}

// form is the schema of the answer: one of the options and a free text. Forms
// are flat, with plain types only (MCP, elicitation).
func form(q tool.Question) json.RawMessage {
	properties := map[string]any{}
	required := []string{}
	text := map[string]any{"type": "string", "title": "Comment", "description": "A reason or a remark, if you like."}
	if len(q.Options) > 0 {
		ids := make([]string, len(q.Options))
		names := make([]string, len(q.Options))
		for i, o := range q.Options {
			ids[i], names[i] = o.ID, o.Label
			if names[i] == "" {
				names[i] = o.ID
			}
			if o.Description != "" {
				names[i] += " – " + o.Description
			}
		}
		choice := map[string]any{"type": "string", "title": "Answer", "enum": ids, "enumNames": names}
		if slices.Contains(ids, q.Default) {
			choice["default"] = q.Default
		}
		properties["answer"] = choice
		required = append(required, "answer")
	} else {
		text["title"], text["description"] = "Answer", "Your answer."
		required = append(required, "text")
	}
	properties["text"] = text
	return appendJSON(nil, map[string]any{"type": "object", "properties": properties, "required": required})
}

// parseAnswer reads what a person did with the form: an ElicitResult that fits
// it. Whoever declines has chosen to refuse.
func parseAnswer(raw json.RawMessage) (tool.Answer, error) {
	const by = "mcp client"
	var result struct {
		Action  string
		Content struct{ Answer, Text string }
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return tool.Answer{}, fmt.Errorf("the client's answer cannot be read: %w", err)
	}
	if result.Action != "accept" {
		return tool.Answer{Option: optionReject, Text: "the person chose " + result.Action, By: by}, nil
	}
	return tool.Answer{Option: result.Content.Answer, Text: result.Content.Text, By: by}, nil
}

// errDeclined says that a person saw the question and did not answer it.
var errDeclined = errors.New("the person declined to answer")
