package toolbox

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/toolyard/toolyard/internal/toolbox/page"
	"github.com/toolyard/toolyard/tool"
)

// outcome is what execute gives back, as text and as structured content.
type outcome struct {
	Success bool            `json:"success"`
	Tool    string          `json:"tool"`
	Mode    string          `json:"mode"`
	Result  json.RawMessage `json:"result,omitempty"`
	// Repairs are what was mended in the request.
	Repairs []string `json:"repairs,omitempty"`
	// Business and Help belong to a failure; its error stands beside them.
	Business json.RawMessage `json:"business_error,omitempty"`
	Help     json.RawMessage `json:"help,omitempty"`
}

// execute calls the tool as toolbox:NAME through the whole pipeline.
func (t toolm) execute(ctx context.Context, r request) (*tool.Result, error) {
	if r.host.Host == nil {
		return nil, tool.Errorf(tool.DependencyError, "there is no executor to run the tool")
	}
	if !r.entry.Usable && r.entry.Failure != nil {
		return r.failed(tool.ErrorResult(r.entry.Failure)), nil
	}
	parameters := r.Parameters
	if len(parameters) == 0 {
		parameters = json.RawMessage("{}")
	}
	inner, err := r.host.Host.Call(ctx, source+":"+r.Tool, parameters)
	if err != nil {
		inner = tool.ErrorResult(err)
	}
	if inner.IsError {
		return r.failed(inner), nil
	}
	return r.succeeded(inner), nil
}

// succeeded wraps a result. Its images, sounds and resources are content of
// ours, in their order.
func (r *request) succeeded(inner *tool.Result) *tool.Result {
	out := outcome{Success: true, Tool: r.Tool, Mode: string(r.Mode), Result: valueOf(inner), Repairs: r.repairs}
	text := encode(out)
	result := tool.Text(string(text))
	result.Structured = text
	return r.carry(result, inner)
}

// carry takes over what a result has beside its value.
func (r *request) carry(result, inner *tool.Result) *tool.Result {
	for _, c := range inner.Content {
		if c.Kind != tool.KindText || c.Raw != nil && !isText(c.Raw) {
			result.Content = append(result.Content, c)
		}
	}
	m := inner.Meta
	result.Meta = tool.Meta{
		Cached: m.Cached, Truncated: m.Truncated, OutputHandle: m.OutputHandle, MatchedWith: m.MatchedWith,
		Sandbox: m.Sandbox, Ending: m.Ending, Peaks: m.Peaks, Artifacts: m.Artifacts, Notes: m.Notes,
	}
	return result
}

// isText reports whether a block as another server sent it is text.
func isText(raw json.RawMessage) bool {
	var block struct{ Type string }
	return json.Unmarshal(raw, &block) == nil && block.Type == "text"
}

// valueOf is a result as one JSON value: what is structured, else its text, as
// JSON where it is some. Without either it lists what the content is.
func valueOf(r *tool.Result) json.RawMessage {
	if len(r.Structured) > 0 && json.Valid(r.Structured) {
		return r.Structured
	}
	text := r.TextContent()
	if trimmed := strings.TrimSpace(text); trimmed != "" {
		if (trimmed[0] == '{' || trimmed[0] == '[') && json.Valid([]byte(trimmed)) {
			return json.RawMessage(trimmed)
		}
		return encode(text)
	}
	type block struct {
		Type string `json:"type"`
		MIME string `json:"mimeType,omitempty"`
		URI  string `json:"uri,omitempty"`
	}
	blocks := []block{}
	for _, c := range r.Content {
		if c.Kind != tool.KindText {
			blocks = append(blocks, block{string(c.Kind), c.MIME, c.URI})
		}
	}
	if len(blocks) == 0 {
		return encode(text)
	}
	return encode(map[string]any{"content": blocks})
}

// failed wraps a failure: what was wrong, what the tool's author says of it, the
// faults of the parameters, and how to call the tool.
func (r *request) failed(inner *tool.Result) *tool.Result {
	err := inner.Err
	if err == nil {
		err = tool.Errorf(tool.ExecutionError, "%s", strings.TrimSpace(inner.TextContent()))
		if err.Message == "" {
			err.Message = "the tool failed and said nothing"
		}
	}
	help := page.Help(r.entry.Definition, r.lang)
	out := outcome{Tool: r.Tool, Mode: string(r.Mode), Repairs: r.repairs}
	var text strings.Builder
	fmt.Fprintf(&text, "❌ toolbox:%s: %s (%s)\n", r.Tool, err.Text(), err.Code)
	if business, ok := err.Details["business"]; ok {
		out.Business = encode(business)
		r.business(&text, out.Business)
	}
	for _, f := range err.Faults {
		fmt.Fprintf(&text, "- %s\n", f)
	}
	if err.Retryable {
		text.WriteString(r.say("The same call may succeed later.", "稍后重试可能成功。") + "\n")
	}
	if said := strings.TrimSpace(inner.TextContent()); said != "" && inner.Err != nil && said != err.Text() && !strings.Contains(said, err.Message) {
		text.WriteString("\n" + said + "\n") // what it produced before it failed
	}
	if helps(err.Code) {
		out.Help = help.JSON
		text.WriteString("\n" + help.Markdown)
	}
	result := tool.Text(strings.TrimRight(text.String(), "\n"))
	result.IsError, result.Err, result.Structured = true, err, encode(out)
	return r.carry(result, inner)
}

// business writes what the tool's author foresaw of the failure.
func (r *request) business(b *strings.Builder, raw json.RawMessage) {
	var known struct {
		Code, Description, Solution string
		Retryable                   bool
	}
	if json.Unmarshal(raw, &known) != nil {
		return
	}
	if known.Code != "" {
		fmt.Fprintf(b, "- %s: %s\n", known.Code, known.Description)
	}
	if known.Solution != "" {
		fmt.Fprintf(b, "- %s: %s\n", r.say("Solution", "解决办法"), known.Solution)
	}
}

func (r *request) say(english, chinese string) string {
	if r.lang == page.Chinese {
		return chinese
	}
	return english
}

// helps reports whether a failure may be due to how the tool was called. Who is
// refused, or waits, is not helped by the list of parameters.
func helps(c tool.Code) bool {
	switch c.Class() {
	case "permission_error", "connection_error":
		return false
	}
	return c != tool.Cancelled && c != tool.QueueFull && c != tool.ToolDisabled
}

// encode writes a value as JSON without escapes for HTML.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return encode(fmt.Sprint(v))
	}
	return bytes.TrimSpace(b.Bytes())
}
