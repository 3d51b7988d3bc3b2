package toolyard_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/profile"
	"github.com/toolyard/toolyard/tool"
)

// definitions reads the 500 tools that the search is measured by.
func definitions(t *testing.T) []*tool.Spec {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("internal", "toolindex", "testdata", "tools.json"))
	if err != nil {
		t.Fatal(err)
	}
	var servers []struct {
		Server, Origin string
		Tools          []struct {
			Name, Title, Description string
			InputSchema              *jsonschema.Schema
		}
	}
	if err := json.Unmarshal(raw, &servers); err != nil {
		t.Fatal(err)
	}
	var specs []*tool.Spec
	for _, s := range servers {
		if s.Origin == "our own" {
			continue // they are there
		}
		if s.Server == "" {
			s.Server = "later"
		}
		for _, one := range s.Tools {
			specs = append(specs, &tool.Spec{Name: one.Name, Source: s.Server, Title: one.Title, Description: one.Description, Input: one.InputSchema, Default: tool.Allow})
		}
	}
	return specs
}

// noting is a tool that notes that it ran.
type noting struct {
	spec *tool.Spec
	ran  func(*tool.Spec)
}

func (n noting) Spec() *tool.Spec { return n.spec }

func (n noting) Call(context.Context, *tool.Request) (*tool.Result, error) {
	n.ran(n.spec)
	return tool.Text("ran " + n.spec.FullName()), nil
}

// Resources looks at the arguments, so it must not be asked of a tool outside the
// profile either.
func (n noting) Resources(context.Context, *tool.Request) ([]tool.Resource, error) {
	n.ran(n.spec)
	return nil, nil
}

// speaker speaks MCP to a yard.
type speaker struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Reader
	id  int
}

func dial(t *testing.T, yard *toolyard.Toolyard) *speaker {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- yard.ServeMCP(context.Background(), inR, outW)
		outW.Close()
	}()
	t.Cleanup(func() {
		inW.Close()
		go func() { _, _ = io.Copy(io.Discard, outR) }()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return &speaker{t: t, in: inW, out: bufio.NewReader(outR)}
}

// ask sends a request and gives its result as it came.
func (c *speaker) ask(method, params string) json.RawMessage {
	c.t.Helper()
	c.id++
	if _, err := fmt.Fprintf(c.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", c.id, method, params); err != nil {
		c.t.Fatal(err)
	}
	for {
		line, err := c.out.ReadBytes('\n')
		if err != nil {
			c.t.Fatal(err)
		}
		var m struct {
			ID     int
			Result json.RawMessage
			Error  json.RawMessage
		}
		if err := json.Unmarshal(line, &m); err != nil {
			c.t.Fatal(err)
		}
		if m.ID != c.id {
			continue // a notification
		}
		if m.Error != nil {
			return m.Error
		}
		return m.Result
	}
}

// list is every page of tools/list: the names, and the bytes of the tools.
func (c *speaker) list() (names []string, size int) {
	c.t.Helper()
	cursor := "{}"
	for cursor != "" {
		raw := c.ask("tools/list", cursor)
		var page struct {
			Tools      []json.RawMessage
			NextCursor string
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			c.t.Fatal(err)
		}
		for _, one := range page.Tools {
			var named struct{ Name string }
			if err := json.Unmarshal(one, &named); err != nil {
				c.t.Fatal(err)
			}
			names, size = append(names, named.Name), size+len(one)
		}
		if cursor = ""; page.NextCursor != "" {
			cursor = fmt.Sprintf(`{"cursor":%q}`, page.NextCursor)
		}
	}
	return names, size
}

// hello begins a session and gives the instructions.
func (c *speaker) hello() string {
	c.t.Helper()
	raw := c.ask("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}`)
	var answer struct{ Instructions string }
	if err := json.Unmarshal(raw, &answer); err != nil {
		c.t.Fatal(err)
	}
	fmt.Fprintln(c.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return answer.Instructions
}

// withMany is a yard with 500 tools.
func withMany(t *testing.T, name string) *toolyard.Toolyard {
	t.Helper()
	yard, _ := open(t, nil, func(c *toolyard.Config) {
		c.Profile = name
		for _, spec := range definitions(t) {
			c.Tools = append(c.Tools, noting{spec, func(*tool.Spec) {}})
		}
	})
	if n := len(yard.Tools()); n < 490 {
		t.Fatalf("%d tools", n)
	}
	return yard
}

// TestWhatIsOffered holds what a model reads of 500 tools, at the start of each
// conversation, to its bounds. A token is taken for four bytes of JSON; common
// tokenizers make fewer of such text, not more.
func TestWhatIsOffered(t *testing.T) {
	const bytesPerToken = 4
	for _, c := range []struct {
		profile string
		most    int // tokens of the tools and the instructions
		shown   []string
	}{
		{"search", 2000, []string{"call_tool", "tool_describe", "tool_search"}},
		{"auto", 0, []string{"bash", "call_tool", "edit", "execute_batch", "glob", "grep", "list", "patch", "read", "tool_describe", "tool_search", "write"}},
	} {
		k := dial(t, withMany(t, c.profile))
		text := k.hello()
		names, size := k.list()
		tokens := (size + len(text)) / bytesPerToken
		t.Logf("%s: %d tools of %d bytes, instructions of %d: %d tokens", c.profile, len(names), size, len(text), tokens)
		if !slices.Equal(names, c.shown) {
			t.Errorf("%s shows %s", c.profile, names)
		}
		if c.most > 0 && tokens > c.most {
			t.Errorf("%s: %d tokens, at most %d", c.profile, tokens, c.most)
		}
		if len(text) >= 2048 || !strings.Contains(text, "tool_search") || !strings.Contains(text, "github (26)") {
			t.Errorf("%s: the instructions are %d bytes: %s", c.profile, len(text), text)
		}
	}
	k := dial(t, withMany(t, "full"))
	text := k.hello()
	names, size := k.list()
	t.Logf("full: %d tools of %d bytes", len(names), size)
	if len(names) < 490 || !slices.IsSorted(names) || len(slices.Compact(names)) != len(names) {
		t.Errorf("full shows %d tools", len(names))
	}
	if len(text) >= 2048 || !strings.Contains(text, "github (26)") {
		t.Errorf("full: the instructions are %d bytes: %s", len(text), text)
	}
}

// TestSearchOverTheWire finds a tool, calls it, and calls one that is not shown by
// its own name.
func TestSearchOverTheWire(t *testing.T) {
	k := dial(t, withMany(t, "search"))
	k.hello()
	found := string(k.ask("tools/call", `{"name":"tool_search","arguments":{"query":"发送邮件","limit":3}}`))
	if !strings.Contains(found, `"name":"gmail__send_email"`) || !strings.Contains(found, `"required":["to","subject","body"]`) {
		t.Errorf("found %s", found)
	}
	for _, call := range []string{
		`{"name":"call_tool","arguments":{"name":"gmail__send_email","arguments":{"to":["a"],"subject":"s","body":"b"}}}`,
		`{"name":"call_tool","arguments":{"tool":"mcp__toolyard__gmail__send_email","arguments":{"to":["a"],"subject":"s","body":"b"}}}`,
		`{"name":"gmail__send_email","arguments":{"to":["a"],"subject":"s","body":"b"}}`,
	} {
		if got := string(k.ask("tools/call", call)); !strings.Contains(got, "ran gmail:send_email") {
			t.Errorf("%s: %s", call, got)
		}
	}
	if got := string(k.ask("tools/call", `{"name":"call_tool","arguments":{"name":"gmail__send_mail"}}`)); !strings.Contains(got, "TOOL_NOT_FOUND") || !strings.Contains(got, "gmail:send_email") {
		t.Errorf("an unknown tool: %s", got)
	}
	if got := string(k.ask("tools/call", `{"name":"call_tool","arguments":{"name":"gmail__send_email","arguments":{"to":"a"}}}`)); !strings.Contains(got, "VALIDATION_ERROR") {
		t.Errorf("wrong arguments: %s", got)
	}
}

// TestNothingOutsideAProfileRuns draws profiles and calls at random, by every name
// and through every tool that calls others.
func TestNothingOutsideAProfileRuns(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 11))
	var specs []*tool.Spec
	for i := range 24 {
		specs = append(specs, &tool.Spec{
			Name: fmt.Sprintf("do_%02d", i), Source: []string{"", "alpha", "beta", "a__b"}[i%4], Category: []string{"red", "blue"}[i%2], Default: tool.Allow,
			Description: "Does a thing.", Aliases: []string{fmt.Sprintf("alias%d", i)}, Effects: []tool.Effects{tool.Read, tool.Network, tool.State}[i%3],
			Input: &jsonschema.Schema{Type: "object"},
		})
	}
	parts := []string{"red", "alpha:*", "beta", "do_*", "alpha:do_01", "beta__do_02", "effect:network", "*", "!do_00", "!blue", "!effect:read", "!alias4", "alias8", "a__b:*",
		"!execute_batch", "meta", "!call_tool"}
	for round := range 12 {
		var patterns []string
		for range 1 + random.IntN(4) {
			patterns = append(patterns, parts[random.IntN(len(parts))])
		}
		d := profile.Definition{Tools: append(patterns, "execute_batch"), Mode: []string{"full", "search", "auto"}[random.IntN(3)]}
		set, err := profile.New(map[string]profile.Definition{"p": d})
		if err != nil {
			t.Fatal(err)
		}
		p, _ := set.Find("p")
		var mu sync.Mutex
		ran := map[string]int{}
		yard, _ := open(t, nil, func(c *toolyard.Config) {
			c.Profiles, c.Profile = map[string]toolyard.Profile{"p": {Tools: d.Tools, Mode: d.Mode}}, "p"
			c.DoomLoop = "off"
			for _, spec := range specs {
				c.Tools = append(c.Tools, noting{spec, func(s *tool.Spec) {
					mu.Lock()
					defer mu.Unlock()
					ran[s.FullName()]++
				}})
			}
		})
		k := dial(t, yard)
		k.hello()
		for range 150 {
			name, arguments := draw(random, specs, 0)
			raw, _ := json.Marshal(arguments)
			if random.IntN(2) == 0 {
				yard.Call(t.Context(), toolyard.Call{Tool: name, Arguments: raw})
			} else {
				k.ask("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, raw))
			}
		}
		some := 0
		for _, spec := range specs {
			mu.Lock()
			n := ran[spec.FullName()]
			mu.Unlock()
			if some += n; n > 0 && !p.Allows(spec) {
				t.Errorf("round %d: %s ran with %v %s", round, spec.FullName(), d.Tools, d.Mode)
			}
		}
		found := yard.Call(t.Context(), toolyard.Call{Tool: "tool_search", Arguments: json.RawMessage(`{"query":"does a thing","limit":50}`)})
		for _, spec := range specs {
			if !p.Allows(spec) && strings.Contains(string(found.Structured), fmt.Sprintf(`"name":%q`, tool.WireName(spec.FullName()))) {
				t.Errorf("round %d: %s was found with %v", round, spec.FullName(), d.Tools)
			}
		}
		t.Logf("round %d: %v %s: %d calls ran", round, d.Tools, d.Mode, some)
	}
}

// draw makes a call of one of the tools, by one of its names, often within others.
func draw(random *rand.Rand, specs []*tool.Spec, depth int) (name string, arguments any) {
	if depth < 3 && random.IntN(2) == 0 {
		inner, its := draw(random, specs, depth+1)
		switch random.IntN(3) {
		case 0:
			return "call_tool", map[string]any{"name": inner, "arguments": its}
		case 1:
			other, others := draw(random, specs, depth+1)
			return "execute_batch", map[string]any{"calls": []any{map[string]any{"tool": inner, "arguments": its}, map[string]any{"tool_name": other, "parameters": others}}}
		default:
			return "mcp__toolyard__call_tool", map[string]any{"tool_name": inner, "parameters": its}
		}
	}
	s := specs[random.IntN(len(specs))]
	names := []string{s.FullName(), tool.WireName(s.FullName()), "mcp__toolyard__" + tool.WireName(s.FullName()), "toolyard:" + s.FullName(), s.Aliases[0], "toolyard__" + s.Aliases[0], s.Name}
	return names[random.IntN(len(names))], map[string]any{}
}

// TestToolmAndProfiles: a tool of the toolbox that a profile leaves out has no
// manual, no settings and no calls through toolm either.
func TestToolmAndProfiles(t *testing.T) {
	yard, _ := open(t, nil, func(c *toolyard.Config) {
		c.Toolbox.On = true
		c.Profiles, c.Profile = map[string]toolyard.Profile{"p": {Tools: []string{"toolm", "execute_batch", "toolbox:thinking"}}}, "p"
	})
	yard.AwaitTools(t.Context())
	for _, mode := range []string{"execute", "manual", "configure", "log"} {
		r := call(t, yard, "toolm", map[string]any{"tool": "todolist", "mode": mode, "parameters": map[string]any{}})
		if !r.IsError || !strings.Contains(r.TextContent(), "there is no tool") {
			t.Errorf("%s of a tool outside the profile: %s", mode, r.TextContent())
		}
	}
	if r := call(t, yard, "toolm", map[string]any{"tool": "thinking", "mode": "manual"}); r.IsError {
		t.Errorf("manual of a tool of the profile: %s", r.TextContent())
	}
	if r := call(t, yard, "execute_batch", map[string]any{"calls": []any{map[string]any{"tool": "toolm", "arguments": map[string]any{"yaml": "tool: tool://todolist\nmode: manual\n"}}}}); !r.IsError {
		t.Errorf("through execute_batch: %s", r.TextContent())
	}
}

// TestUnknownProfile is refused at the start.
func TestUnknownProfile(t *testing.T) {
	_, err := toolyard.New(toolyard.Config{Profile: "atuo"})
	if e := tool.AsError(err); err == nil || e.Code != tool.NotFound || !strings.Contains(e.Hint, "Did you mean auto?") {
		t.Errorf("%v", err)
	}
}
