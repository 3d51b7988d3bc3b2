package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/toolyard/toolyard/internal/gateway/upstream"
	"github.com/toolyard/toolyard/tool"
)

// resultOf makes a result of a CallToolResult without losing anything of it.
func resultOf(raw json.RawMessage) (*tool.Result, error) {
	members, err := membersOf(raw)
	if err != nil {
		return nil, tool.Errorf(tool.ExecutionError, "the answer is no result of a tool: %v", err)
	}
	r := &tool.Result{Foreign: &tool.Foreign{}}
	var others []member
	for _, m := range members {
		switch m.key {
		case "content":
			blocks, err := upstream.Elements(m.value)
			if err != nil && string(m.value) != "null" {
				return nil, tool.Errorf(tool.ExecutionError, "the answer's content is no list")
			}
			for _, block := range blocks {
				r.Content = append(r.Content, contentOf(block))
			}
		case "structuredContent":
			if string(m.value) != "null" {
				r.Structured = m.value
			}
		case "isError":
			_ = json.Unmarshal(m.value, &r.IsError) // what is no boolean is false
		case "_meta":
			r.Foreign.Meta = metaOf(m.value)
		case "resultType", "requestState", "inputRequests", "task": // belong to each connection
		default:
			others = append(others, m)
		}
	}
	r.Foreign.Members = appendMembers(nil, others)
	if r.IsError {
		text := r.TextContent()
		if text == "" {
			text = "the server says that the tool failed, and not why"
		}
		const longest = 2000
		if len(text) > longest {
			text = text[:longest] + "…"
		}
		r.Err = &tool.Error{Code: tool.Classify(text), Message: text, Began: true}
	}
	return r, nil
}

// metaOf is the members of a _meta but for those that belong to one connection,
// and those that this program writes itself.
func metaOf(raw json.RawMessage) []byte {
	members, err := membersOf(raw)
	if err != nil {
		return nil
	}
	var kept []member
	for _, m := range members {
		switch {
		case strings.HasPrefix(m.key, "toolyard/"), m.key == "io.modelcontextprotocol/serverInfo":
		default:
			kept = append(kept, m)
		}
	}
	return appendMembers(nil, kept)
}

// contentOf is one block; what is not understood is passed on all the same.
func contentOf(raw json.RawMessage) tool.Content {
	c := tool.Content{Raw: raw}
	var resource json.RawMessage
	read := func(key string, value json.RawMessage) {
		switch key {
		case "type":
			c.Kind = tool.ContentKind(upstream.Unquote(value))
		case "text":
			c.Text = upstream.Unquote(value)
		case "mimeType":
			c.MIME = upstream.Unquote(value)
		case "uri":
			c.URI = upstream.Unquote(value)
		case "name":
			c.Name = upstream.Unquote(value)
		case "resource":
			resource = value
		}
	}
	_ = upstream.Members(raw, read) // the block itself is passed on, whatever it is
	if c.Kind == tool.KindResource {
		kind, name := c.Kind, c.Name
		c.URI, c.MIME, c.Text = "", "", ""
		_ = upstream.Members(resource, read)
		c.Kind, c.Name = kind, name
	}
	return c
}

// codeURLElicitation is the error of a server that wants its user to visit a URL
// first (MCP 2025-11-25).
const codeURLElicitation = -32042

// codeMissingCapability is the error of a server that needs of its client what
// that has not declared (MCP 2026-07-28).
const codeMissingCapability = -32021

// failure makes an error of what an exchange ended with; what names the thing.
func failure(err error, what string) error {
	var answered *upstream.Error
	if !errors.As(err, &answered) {
		var e *tool.Error
		if errors.As(err, &e) {
			return e
		}
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		return tool.Errorf(tool.ExecutionError, "%s: %v", what, err)
	}
	code := tool.Classify(answered.Message)
	switch answered.Code {
	case upstream.CodeInvalidParams:
		code = tool.ParameterError
	case upstream.CodeMethodNotFound:
		code = tool.NotFound
	case codeURLElicitation:
		code = tool.PermissionDenied
	}
	e := tool.Errorf(code, "%s: %s", what, answered.Message).WithDetail("jsonrpc_code", answered.Code)
	if len(answered.Data) > 0 {
		e = e.WithDetail("jsonrpc_data", answered.Data)
	}
	e.Began, e.Err = true, answered
	if answered.Code == codeURLElicitation || answered.Code == codeMissingCapability {
		e.Err = wire(answered) // a client acts on it
	}
	if answered.Code == codeURLElicitation {
		return e.WithHint("A person has to visit the address in details first.")
	}
	return e.WithHint("It is the server's own answer; toolyard gateway logs may say more.")
}

// sent marks an error of a request that the server may have seen: it must not be
// made again by itself.
func sent(err error) error {
	var e *tool.Error
	if errors.As(err, &e) {
		if was, ok := e.Details["sent"].(bool); ok && !was {
			return err
		}
		e.Began = true
		return err
	}
	var answered *upstream.Error
	if errors.As(err, &answered) {
		return err
	}
	return fmt.Errorf("%w", err)
}
