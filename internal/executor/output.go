package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"

	"github.com/toolyard/toolyard/internal/artifact"
	"github.com/toolyard/toolyard/tool"
)

// Slack over the limit of a result before the executor folds it.
const (
	foldedSlack = 4 << 10 // bytes beside output that is folded already
	pagesFactor = 2       // of the limit, for a tool that cuts its own output
)

// output folds what is too long for a result, and turns what the call attached
// into links.
type output struct {
	dir *artifact.Dir // nil: what is over is not kept
	log *slog.Logger
}

func (s *output) wrap(next handler) handler {
	return func(ctx context.Context, c *call) *tool.Result {
		r := next(ctx, c)
		c.mu.Lock()
		spools, links := c.spools, c.artifacts
		c.mu.Unlock()
		for _, sp := range spools {
			if r.IsError {
				sp.close(ctx) // a call that succeeded may go on writing, as a job
			}
			if sum := sp.sofar(); sum.Handle != "" && r.Meta.OutputHandle == "" {
				r.Meta.OutputHandle, r.Meta.Truncated = sum.Handle, true
				c.folded += totalBytes(sum) - int64(len(sum.Text))
			}
		}
		s.fold(ctx, c, r)
		s.foldStructured(ctx, c, r)
		link(r, links)
		return r
	}
}

func totalBytes(s tool.OutputSummary) (n int64) {
	for _, b := range s.Bytes {
		n += b
	}
	return max(n, int64(len(s.Text)))
}

// allowed is how much text the result may hold before it is folded.
func allowed(c *call, r *tool.Result) int {
	switch {
	case c.spec.Pages:
		return pagesFactor * c.maxText
	case r.Meta.OutputHandle != "":
		return c.maxText + foldedSlack
	}
	return c.maxText
}

// fold keeps text over the limit as an artifact and shows its beginning and end.
func (s *output) fold(ctx context.Context, c *call, r *tool.Result) {
	total := 0
	for i := range r.Content {
		if r.Content[i].Kind == tool.KindText {
			total += len(r.Content[i].Text)
		}
	}
	if total <= allowed(c, r) {
		return
	}
	text := []byte(r.TextContent())
	handle := s.save(ctx, c, artifact.Meta{Name: "result of " + c.name}, text)
	head, tail := splitLimit(c.maxText)
	f := folded{
		head: cutHead(text, head), tail: cutTail(text, tail), bytes: int64(len(text)), lines: int64(bytes.Count(text, newline)), handle: handle,
	}
	blocks := []tool.Content{{Kind: tool.KindText, Text: f.text()}}
	for _, b := range r.Content {
		if b.Kind != tool.KindText {
			blocks = append(blocks, b)
		}
	}
	c.folded += int64(total - len(blocks[0].Text))
	r.Content = blocks
	r.Meta.Truncated = true
	if handle != "" {
		r.Meta.OutputHandle = handle
	}
}

// foldStructured moves structured output over the limit to an artifact. Where a
// schema promises it to the caller it stays.
func (s *output) foldStructured(ctx context.Context, c *call, r *tool.Result) {
	if len(r.Structured) <= c.maxText || c.spec.Output != nil {
		return
	}
	handle := s.save(ctx, c, artifact.Meta{Name: "structured result of " + c.name + ".json", MIME: "application/json"}, r.Structured)
	if handle == "" {
		return
	}
	c.folded += int64(len(r.Structured))
	brief, err := json.Marshal(map[string]any{"truncated": true, "bytes": len(r.Structured), "handle": handle})
	if err != nil {
		return
	}
	r.Structured = brief
	r.Meta.Truncated = true
	if r.Meta.OutputHandle == "" {
		r.Meta.OutputHandle = handle
	}
	c.note(fmt.Sprintf("The structured output is kept under handle %s; read it with output_read.", handle))
}

// save keeps data for the call's session and returns its handle, "" if it could
// not be kept.
func (s *output) save(ctx context.Context, c *call, meta artifact.Meta, data []byte) string {
	if s.dir == nil {
		return ""
	}
	meta.Session, meta.Call = c.in.Session, c.in.ID
	a, err := s.dir.Put(context.WithoutCancel(ctx), meta, bytes.NewReader(data), 0)
	if err != nil {
		s.log.Error("a result is folded and cannot be kept", "call", c.in.ID, "tool", c.name, "err", err)
		return ""
	}
	return a.ID
}

// link adds a link for each artifact that the tool did not mention itself.
func link(r *tool.Result, refs []tool.ArtifactRef) {
	for _, ref := range refs {
		mentioned := false
		for i := range r.Content {
			mentioned = mentioned || strings.TrimSpace(r.Content[i].URI) == ref.URI
		}
		if !mentioned {
			r.Content = append(r.Content[:len(r.Content):len(r.Content)],
				tool.Content{Kind: tool.KindResourceLink, URI: ref.URI, Name: ref.Name, MIME: ref.MIME, Size: ref.Size})
		}
	}
}
