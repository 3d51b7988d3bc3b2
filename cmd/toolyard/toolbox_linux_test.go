package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// greeter is a tool that answers in words of its own, or with MCP content.
const greeter = `export default {
  getMetadata () { return { id: 'hello', name: 'Hello', description: 'Greets. Use it to greet somebody.', version: '1.0.0' } },
  getSchema () { return { parameters: { type: 'object', properties: { name: { type: 'string', description: 'who' }, as: { type: 'string', enum: ['text', 'image', 'content'] } }, required: ['name'] } } },
  execute ({ name, as }) {
    const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
    if (as === 'image') return { name, image: { type: 'image', data: png, mimeType: 'image/png' } }
    if (as === 'content') return { content: [{ type: 'text', text: 'first' }, { type: 'image', data: png, mimeType: 'image/png' }, { type: 'resource_link', uri: 'file:///x', name: 'x' }] }
    return 'GREETING ' + name
  }
}
`

// TestToolboxOverMCP does what somebody does who writes a tool while a client is
// connected: the tool is on the list when it is saved, and does what it says now.
func TestToolboxOverMCP(t *testing.T) {
	binary, home := program(t), t.TempDir()
	cmd := exec.Command(binary, "mcp", "--home", home, "--workspace", t.TempDir())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	changed := make(chan struct{}, 100)
	client := mcp.NewClient(&mcp.Implementation{Name: "toolbox-test", Version: "1"}, &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			select {
			case changed <- struct{}{}:
			default:
			}
		},
	})
	session, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: out, Writer: in}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		out.Close()
		_ = cmd.Wait()
	})
	list := func() map[string]*mcp.Tool {
		t.Helper()
		found := map[string]*mcp.Tool{}
		for one, err := range session.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			found[one.Name] = one
		}
		return found
	}
	call := func(name string, args map[string]any) *mcp.CallToolResult {
		t.Helper()
		r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	text := func(r *mcp.CallToolResult) string {
		var b strings.Builder
		for _, c := range r.Content {
			if one, ok := c.(*mcp.TextContent); ok {
				b.WriteString(one.Text)
			}
		}
		return b.String()
	}
	save := func(greeting string) time.Time {
		t.Helper()
		path := filepath.Join(home, "toolbox", "hello", "hello.tool.js")
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(greeter, "GREETING", greeting)), 0o644); err != nil {
			t.Fatal(err)
		}
		return time.Now()
	}

	before := list()
	if before["toolm"] == nil {
		t.Fatal("there is no toolm")
	}
	if _, there := before["toolbox__hello"]; there {
		t.Fatal("there is a tool that nobody wrote")
	}
	save("Hello")
	for list()["toolbox__hello"] == nil {
		select {
		case <-changed:
		case <-time.After(40 * time.Second):
			t.Fatal("nobody said that the list of tools has changed")
		}
	}
	hello := list()["toolbox__hello"]
	raw, err := json.Marshal(hello.InputSchema)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"name":{"description":"who","type":"string"}`, `"required":["name"]`, `"enum":["text","image","content"]`} {
		if !strings.Contains(canonical(t, raw), want) {
			t.Errorf("the schema is %s, want %s in it", raw, want)
		}
	}
	waitFor(t, "toolm to tell of the tool", func() bool { return strings.Contains(list()["toolm"].Description, "hello") })
	if n := len(list()["toolm"].Description); n > 4096 {
		t.Errorf("toolm's description has %d bytes, want at most 4096", n)
	}

	if got := text(call("toolbox__hello", map[string]any{"name": "you"})); got != "Hello you" {
		t.Errorf("got %q", got)
	}
	for _, greeting := range []string{"Good morning", "Good night"} {
		saved := save(greeting)
		n := 0 // the same call again and again would be taken for a loop
		waitFor(t, "the edit to be in use", func() bool {
			n++
			return text(call("toolbox__hello", map[string]any{"name": fmt.Sprint("number ", n)})) == fmt.Sprint(greeting, " number ", n)
		})
		t.Logf("an edit answers %s after it was saved", time.Since(saved).Round(time.Millisecond))
	}
	if got := text(call("toolm", map[string]any{"yaml": "tool: tool://hello\nparameters:\n  name: you"})); !strings.Contains(got, "Good night you") {
		t.Errorf("through toolm: %q", got)
	}

	// What is no text passes through.
	for _, name := range []string{"toolbox__hello", "toolm"} {
		for as, want := range map[string][]string{
			"image":   {"*mcp.ImageContent"},
			"content": {"*mcp.TextContent", "*mcp.ImageContent", "*mcp.ResourceLink"},
		} {
			args := map[string]any{"name": "you", "as": as}
			if name == "toolm" {
				args = map[string]any{"tool": "hello", "parameters": args}
			}
			r := call(name, args)
			var kinds []string
			for _, c := range r.Content {
				kinds = append(kinds, fmt.Sprintf("%T", c))
				if image, ok := c.(*mcp.ImageContent); ok && (image.MIMEType != "image/png" || !strings.HasPrefix(string(image.Data), "\x89PNG")) {
					t.Errorf("%s: the image is %s of %d bytes", name, image.MIMEType, len(image.Data))
				}
			}
			for _, kind := range want {
				if !slices.Contains(kinds, kind) || r.IsError {
					t.Errorf("%s, %s: got %v, want %v", name, as, kinds, want)
				}
			}
		}
	}

	// A mistake in the arguments, and one in the tool.
	if r := call("toolbox__hello", map[string]any{"nam": "you"}); !r.IsError || !strings.Contains(text(r), "name") {
		t.Errorf("without an argument that it needs: %q", text(r))
	}
	if err := os.WriteFile(filepath.Join(home, "toolbox", "hello", "hello.tool.js"), []byte("export default {{{"), 0o644); err != nil {
		t.Fatal(err)
	}
	n := 0
	waitFor(t, "the broken edit to be told", func() bool {
		n++
		return strings.Contains(text(call("toolm", map[string]any{"yaml": fmt.Sprintf("tool: hello\nmode: manual\n# %d", n)})), "SyntaxError")
	})
	if got := text(call("toolbox__hello", map[string]any{"name": "you"})); got != "Good night you" {
		t.Errorf("after a broken edit: %q, want the last good version", got)
	}
	if err := os.RemoveAll(filepath.Join(home, "toolbox", "hello")); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the tool to be gone", func() bool { return list()["toolbox__hello"] == nil })
}

// canonical is JSON with its keys in order.
func canonical(t *testing.T, raw []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
