package executor

import (
	"context"

	"github.com/toolyard/toolyard/internal/secret"
	"github.com/toolyard/toolyard/tool"
)

// redact takes secret values out of what a tool returned, before anything
// around it stores or shows it.
type redact struct{ secrets *secret.Redactor }

func (s *redact) wrap(next handler) handler {
	return func(ctx context.Context, c *call) *tool.Result {
		r := next(ctx, c)
		s.result(r)
		c.redacted = true
		return r
	}
}

// result redacts r in place; the blocks are copied first, for the tool may have
// kept them.
func (s *redact) result(r *tool.Result) {
	if s.secrets.Empty() {
		return
	}
	content := make([]tool.Content, len(r.Content))
	for i, b := range r.Content {
		b.Text, b.URI, b.Name = s.secrets.String(b.Text), s.secrets.String(b.URI), s.secrets.String(b.Name)
		b.Raw = s.secrets.JSON(b.Raw)
		if b.Kind == tool.KindResource {
			b.Data = s.secrets.Bytes(b.Data)
		}
		content[i] = b
	}
	r.Content = content
	r.Structured = s.secrets.JSON(r.Structured)
	if r.Foreign != nil {
		r.Foreign = &tool.Foreign{Members: s.members(r.Foreign.Members), Meta: s.members(r.Foreign.Meta)}
	}
	r.Err = s.failure(r.Err)
	for i, n := range r.Meta.Notes {
		r.Meta.Notes[i] = s.secrets.String(n)
	}
}

// members redacts `"key":value` pairs.
func (s *redact) members(b []byte) []byte {
	if len(b) == 0 {
		return b
	}
	object := s.secrets.JSON(append(append([]byte{'{'}, b...), '}'))
	return object[1 : len(object)-1]
}

func (s *redact) failure(e *tool.Error) *tool.Error {
	if e == nil {
		return nil
	}
	clean := *e
	clean.Message, clean.Hint = s.secrets.String(e.Message), s.secrets.String(e.Hint)
	clean.Field = s.secrets.String(e.Field)
	clean.Details = s.secrets.Map(e.Details)
	clean.Faults = make([]tool.Fault, len(e.Faults))
	for i, f := range e.Faults {
		clean.Faults[i] = tool.Fault{Path: s.secrets.String(f.Path), Expected: s.secrets.String(f.Expected), Got: s.secrets.String(f.Got)}
	}
	return &clean
}
