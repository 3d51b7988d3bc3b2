package host

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/tool"
)

// Wrapped says what a value is that is no text, object or list and so was put
// into words: "undefined", "null", "number" or "boolean"; "" for all others. A
// tool that returns undefined is at fault, the others are only unusual.
func Wrapped(value json.RawMessage) string {
	value = bytes.TrimSpace(value)
	switch {
	case len(value) == 0:
		return "undefined"
	case value[0] == 'n':
		return "null"
	case value[0] == 't' || value[0] == 'f':
		return "boolean"
	case value[0] == '-' || value[0] >= '0' && value[0] <= '9':
		return "number"
	}
	return ""
}

// Result is what the value of a call is to its caller; nil is undefined.
//
//   - A text is text, and what [Wrapped] names becomes one.
//   - An object with a list of MCP content is that content; its structuredContent
//     is Structured. Blocks that are malformed become text.
//   - An object with images (in the shapes that tools of the Prompt Manager use, or
//     data: URLs) is those images, and the rest of it.
//   - Any other object is its JSON as text, and Structured; a list only text.
//
// An object with "success": false, or MCP's with isError, is a failure: then there
// is no result, and what was said is mapped as [Failure] does with d, which may be
// nil.
func Result(value json.RawMessage, d *definition.Definition) (*tool.Result, *tool.Error) {
	value = bytes.TrimSpace(value)
	switch Wrapped(value) {
	case "undefined", "null":
		return tool.Text("The tool returned nothing."), nil
	case "number", "boolean":
		return tool.Text(string(value)), nil
	}
	switch value[0] {
	case '"':
		var text string
		_ = json.Unmarshal(value, &text) // it is JSON, the worker has made it
		if image, ok := dataURL(text); ok {
			return &tool.Result{Content: []tool.Content{image}}, nil
		}
		return tool.Text(text), nil
	case '[':
		if blocks, good := contentList(value); good > 0 && good == len(blocks) {
			return &tool.Result{Content: blocks}, nil
		}
		return tool.Text(string(value)), nil
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(value, &object) != nil {
		return tool.Text(string(value)), nil
	}
	if said := unsuccessful(object); said != nil {
		return nil, failure(said, d)
	}
	if r := mcpResult(object); r != nil {
		if flag(object["isError"]) {
			return nil, failure(&claim{message: r.TextContent(), structured: r.Structured}, d)
		}
		return r, nil
	}
	if block, ok := content(value); ok && (block.Kind == tool.KindImage || block.Kind == tool.KindAudio) {
		return &tool.Result{Content: []tool.Content{block}}, nil
	}
	images, rest := images(object)
	if len(images) == 0 {
		return &tool.Result{Content: []tool.Content{{Kind: tool.KindText, Text: string(value)}}, Structured: value}, nil
	}
	r := &tool.Result{Content: images}
	if len(rest) > 0 {
		text := marshal(rest)
		r.Content = append(r.Content, tool.Content{Kind: tool.KindText, Text: string(text)})
		r.Structured = text
	}
	return r, nil
}

// mcpResult reads a CallToolResult; nil if it is none.
func mcpResult(object map[string]json.RawMessage) *tool.Result {
	raw, ok := object["content"]
	if !ok || len(raw) == 0 || raw[0] != '[' {
		return nil
	}
	blocks, good := contentList(raw)
	if good == 0 {
		for name := range object {
			if !slices.Contains([]string{"content", "structuredContent", "isError", "_meta"}, name) {
				return nil // a list of something else
			}
		}
	}
	r := &tool.Result{Content: blocks}
	if structured := object["structuredContent"]; len(structured) > 0 && structured[0] == '{' {
		r.Structured = structured
	}
	if len(r.Content) == 0 && r.Structured != nil {
		r.Content = []tool.Content{{Kind: tool.KindText, Text: string(r.Structured)}}
	}
	return r
}

// contentList reads a list of blocks, in which what is malformed becomes text, and
// counts those that are not.
func contentList(raw json.RawMessage) (blocks []tool.Content, good int) {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return nil, 0
	}
	for _, item := range list {
		block, ok := content(item)
		if ok {
			good++
		}
		blocks = append(blocks, block)
	}
	return blocks, good
}

// content reads one block of MCP content. One that is malformed is its own text.
func content(raw json.RawMessage) (tool.Content, bool) {
	var b struct {
		Type     string
		Text     *string
		Data     *string
		MIMEType string
		URI      string
		Name     string
		Resource *struct {
			URI, MIMEType string
			Text          *string
			Blob          *string
		}
	}
	wrong := tool.Content{Kind: tool.KindText, Text: string(raw)}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		wrong.Text = text
	}
	if len(raw) == 0 || raw[0] != '{' || json.Unmarshal(raw, &b) != nil {
		return wrong, false
	}
	switch {
	case b.Type == "text" && b.Text != nil:
		c := tool.Content{Kind: tool.KindText, Text: *b.Text}
		if hasMore(raw, "type", "text") {
			c.Raw = raw
		}
		return c, true
	case (b.Type == "image" || b.Type == "audio") && b.Data != nil:
		c, ok := media(*b.Data, b.MIMEType)
		if !ok || string(c.Kind) != b.Type {
			return wrong, false
		}
		return c, true
	case b.Type == "resource_link" && b.URI != "" && b.Name != "":
		return tool.Content{Kind: tool.KindResourceLink, URI: b.URI, Name: b.Name, MIME: b.MIMEType, Raw: raw}, true
	case b.Type == "resource" && b.Resource != nil && b.Resource.URI != "":
		c := tool.Content{Kind: tool.KindResource, URI: b.Resource.URI, MIME: b.Resource.MIMEType}
		switch {
		case b.Resource.Text != nil:
			c.Text = *b.Resource.Text
		case b.Resource.Blob != nil:
			data, err := base64.StdEncoding.DecodeString(*b.Resource.Blob)
			if err != nil {
				return wrong, false
			}
			c.Data = data
		default:
			return wrong, false
		}
		return c, true
	}
	return wrong, false
}

// hasMore reports whether a block has fields beside these, such as annotations.
func hasMore(raw json.RawMessage, known ...string) bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return false
	}
	for name := range fields {
		if !slices.Contains(known, name) {
			return true
		}
	}
	return false
}

// media is an image or a sound in base64, with its type or as a data: URL.
func media(data, mime string) (tool.Content, bool) {
	if c, ok := dataURL(data); ok {
		return c, true
	}
	kind, _, _ := strings.Cut(mime, "/")
	if kind != "image" && kind != "audio" || data == "" {
		return tool.Content{}, false
	}
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding} {
		if decoded, err := encoding.DecodeString(strings.TrimSpace(data)); err == nil {
			return tool.Content{Kind: tool.ContentKind(kind), Data: decoded, MIME: mime}, true
		}
	}
	return tool.Content{}, false
}

// dataURL reads an image or a sound out of data:image/png;base64,….
func dataURL(text string) (tool.Content, bool) {
	if !strings.HasPrefix(text, "data:image/") && !strings.HasPrefix(text, "data:audio/") {
		return tool.Content{}, false
	}
	head, data, ok := strings.Cut(text[len("data:"):], ",")
	mime, ok2 := strings.CutSuffix(head, ";base64")
	if !ok || !ok2 || strings.HasPrefix(data, "data:") {
		return tool.Content{}, false
	}
	mime, _, _ = strings.Cut(mime, ";")
	return media(data, mime)
}

// maxDepth is how deep in an object images are looked for, maxImages how many.
const (
	maxDepth  = 4
	maxImages = 32
)

// images finds the images and sounds in an object, and gives the object without
// their data: an image that is all of a field is gone from it, what else it says
// stays.
func images(object map[string]json.RawMessage) (found []tool.Content, rest map[string]json.RawMessage) {
	rest = take(object, &found, 0)
	return found, rest
}

func take(object map[string]json.RawMessage, found *[]tool.Content, depth int) map[string]json.RawMessage {
	if depth > maxDepth {
		return object
	}
	rest := maps.Clone(object)
	// {data | base64, mimeType}, alone or as {type: "image", …}
	for _, field := range []string{"data", "base64"} {
		if c, ok := media(text(object[field]), text(object["mimeType"])); ok && len(*found) < maxImages {
			rest[field] = keep(c, found)
			break
		}
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		value := object[name]
		if len(value) < 10 || len(*found) >= maxImages {
			continue
		}
		switch value[0] {
		case '"':
			if !bytes.HasPrefix(value, []byte(`"data:`)) {
				continue
			}
			if c, ok := dataURL(text(value)); ok {
				rest[name] = keep(c, found)
			}
		case '{', '[':
			if bytes.Contains(value, []byte(`"data:`)) || bytes.Contains(value, []byte(`"mimeType"`)) {
				rest[name] = takeAny(value, found, depth+1)
			}
		}
	}
	return rest
}

func takeAny(value json.RawMessage, found *[]tool.Content, depth int) json.RawMessage {
	if depth > maxDepth {
		return value
	}
	before := len(*found)
	var object map[string]json.RawMessage
	var list []json.RawMessage
	switch {
	case value[0] == '{' && json.Unmarshal(value, &object) == nil:
		object = take(object, found, depth)
		if len(*found) > before {
			return marshal(object)
		}
	case value[0] == '[' && json.Unmarshal(value, &list) == nil:
		for i, item := range list {
			if len(item) == 0 {
				continue
			}
			switch item[0] {
			case '{', '[':
				list[i] = takeAny(item, found, depth+1)
			case '"':
				if c, ok := dataURL(text(item)); ok && len(*found) < maxImages {
					list[i] = keep(c, found)
				}
			}
		}
		if len(*found) > before {
			return marshal(list)
		}
	}
	return value
}

// keep adds an image, once, and gives what stands in the text instead of it.
func keep(c tool.Content, found *[]tool.Content) json.RawMessage {
	n := slices.IndexFunc(*found, func(f tool.Content) bool { return f.MIME == c.MIME && bytes.Equal(f.Data, c.Data) })
	if n < 0 {
		n = len(*found)
		*found = append(*found, c)
	}
	return marshal(fmt.Sprintf("(%s of %d bytes, block %d of the result)", c.MIME, len(c.Data), n+1))
}

func text(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

func flag(raw json.RawMessage) bool { return string(raw) == "true" }

// marshal writes what can only be written: texts and JSON that was read before.
func marshal(v any) json.RawMessage {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return json.RawMessage("null")
	}
	return bytes.TrimSpace(out.Bytes())
}

// claim is a failure that a tool returned instead of throwing it.
type claim struct {
	message, code string
	structured    json.RawMessage // the rest of what it returned; nil if nothing
}

func (c *claim) Error() string { return c.message }

// unsuccessful reads {"success": false, "error": …, "error_code": …}.
func unsuccessful(object map[string]json.RawMessage) *claim {
	if string(object["success"]) != "false" {
		return nil
	}
	c := &claim{}
	rest := maps.Clone(object)
	delete(rest, "success")
	for _, name := range []string{"error", "message"} {
		value := object[name]
		var detail struct{ Message, Code string }
		if c.message == "" {
			c.message = text(value)
			if c.message == "" && len(value) > 0 && value[0] == '{' && json.Unmarshal(value, &detail) == nil {
				c.message, c.code = detail.Message, detail.Code
			}
			if c.message != "" {
				delete(rest, name)
			}
		}
	}
	for _, name := range []string{"error_code", "errorCode", "code"} {
		if code := text(object[name]); code != "" {
			c.code = code
			delete(rest, name)
			break
		}
	}
	if c.message == "" {
		c.message = "the tool says that it had no success"
	}
	if len(rest) > 0 {
		c.structured = marshal(rest)
	}
	return c
}

// cut shortens a text to n bytes, at a whole character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
