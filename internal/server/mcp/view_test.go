package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/internal/profile"
	"github.com/toolyard/toolyard/tool"
)

// manySpecs are the finders and n tools of four families.
func manySpecs(n int) []*tool.Spec {
	var specs []*tool.Spec
	for i := range n {
		s := spec(fmt.Sprintf("tool_%02d", i))
		s.Category = fmt.Sprintf("family%d", i%4)
		specs = append(specs, s)
	}
	for _, name := range []string{"call_tool", "tool_describe", "tool_search"} {
		specs = append(specs, spec(name))
	}
	return specs
}

// judging is an executor that lets a call's profile decide, as the real one does.
func judging(specs []*tool.Spec) *calls {
	return &calls{f: func(_ context.Context, c executor.Call) *tool.Result {
		for _, s := range specs {
			if s.FullName() == c.Tool && (c.Allowed == nil || c.Allowed(s)) {
				return tool.Text("ran " + c.Tool)
			}
		}
		return tool.ErrorResult(tool.Errorf(tool.ToolNotFound, "there is no tool %q", c.Tool))
	}}
}

// serveProfiles serves /mcp and /mcp/{profile}.
func serveProfiles(t *testing.T, c Config) *web {
	t.Helper()
	s := New(c)
	mux := http.NewServeMux()
	handler := s.Handler(HTTPOptions{})
	mux.Handle("/mcp", handler)
	mux.Handle("/mcp/{profile}", handler)
	front := httptest.NewServer(mux)
	t.Cleanup(func() {
		s.EndStreams()
		if err := s.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
		front.Close()
	})
	return &web{t: t, url: front.URL}
}

func listed(a answered) string {
	result, _ := a.message["result"].(map[string]any)
	tools, _ := result["tools"].([]any)
	var names []string
	for _, one := range tools {
		names = append(names, one.(map[string]any)["name"].(string))
	}
	return strings.Join(names, " ")
}

const (
	listRequest = `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{}}`
	callRequest = `{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":%q,"arguments":{}}}`
)

func TestProfilesOverHTTP(t *testing.T) {
	specs := manySpecs(40)
	set, err := profile.New(map[string]profile.Definition{
		"small": {Tools: []string{"tool_00", "tool_01", "family2", "!tool_02"}, Mode: "full"},
	})
	if err != nil {
		t.Fatal(err)
	}
	base := serveProfiles(t, Config{
		Executor: judging(specs), Catalog: &catalog{specs: specs}, Profiles: set,
		Caller: func(r *http.Request) (string, func(*tool.Spec) bool) {
			switch r.Header.Get("Authorization") {
			case "Bearer small":
				return "small", nil
			case "Bearer one":
				return "", func(s *tool.Spec) bool { return s.Name == "tool_05" }
			case "Bearer gone":
				return "was", nil
			}
			return "", nil
		},
	}).url
	const finders = "call_tool tool_describe tool_search"
	const small = "tool_00 tool_01 tool_06 tool_10 tool_14 tool_18 tool_22 tool_26 tool_30 tool_34 tool_38"
	for _, c := range []struct {
		name, path, key string
		want            string
		runs, refused   string // tools
	}{
		{"the default", "/mcp", "", finders, "tool_33", "nothing"},
		{"search", "/mcp/search", "", finders, "tool_33", "nothing"},
		{"a profile", "/mcp/small", "", small, "tool_06", "tool_02"},
		{"narrowed", "/mcp/small?tools=tool_00,tool_07,tool_10", "", "tool_00 tool_10", "tool_10", "tool_06"},
		{"narrowed, of all", "/mcp?tools=family1&tools=!tool_01", "", "tool_05 tool_09 tool_13 tool_17 tool_21 tool_25 tool_29 tool_33 tool_37", "tool_05", "tool_01"},
		{"a key's profile", "/mcp", "Bearer small", small, "tool_00", "tool_02"},
		{"a key's profile and another", "/mcp/full", "Bearer small", small, "tool_00", "tool_02"},
		{"a key's tools", "/mcp", "Bearer one", "tool_05", "tool_05", "tool_06"},
		{"a key's tools, searching", "/mcp/search", "Bearer one", finders, "tool_05", "tool_06"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &web{t: t, url: base + c.path}
			headers := []string{"Authorization", c.key, "Toolyard-View", "1"} // a client cannot choose a view so
			check := func(era string, post func(body string) answered) {
				t.Helper()
				if diff := cmp.Diff(c.want, listed(post(listRequest))); diff != "" {
					t.Errorf("%s: listed (-want +got)\n%s", era, diff)
				}
				if a := post(fmt.Sprintf(callRequest, c.runs)); !strings.Contains(string(a.body), "ran "+c.runs) {
					t.Errorf("%s: %s: %s", era, c.runs, a.body)
				}
				if a := post(fmt.Sprintf(callRequest, c.refused)); !strings.Contains(string(a.body), "-32602") || strings.Contains(string(a.body), "ran ") {
					t.Errorf("%s: %s: %s", era, c.refused, a.body)
				}
			}
			a := w.post(fmt.Sprintf(hello, "2025-11-25", "{}"), headers...)
			if w.session = a.header.Get("Mcp-Session-Id"); w.session == "" {
				t.Fatalf("no session: %d %s", a.status, a.body)
			}
			check("session", func(body string) answered { return w.post(body, headers...) })
			w.session = ""
			check("stateless", func(body string) answered {
				var m struct {
					Method string
					Params struct{ Name string }
				}
				if err := json.Unmarshal([]byte(body), &m); err != nil {
					t.Fatal(err)
				}
				body = strings.Replace(body, `"params":{`, `"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}},`, 1)
				body = strings.Replace(body, ",}", "}", 1)
				return w.post(body, append(slices.Clone(headers), "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", m.Method, "Mcp-Name", m.Params.Name)...)
			})
		})
	}
	for _, c := range []struct {
		path, key string
		status    int
		want      string
	}{
		{"/mcp/smal", "", http.StatusNotFound, "Did you mean small?"},
		{"/mcp?tools=read(x)", "", http.StatusBadRequest, "no pattern"},
		{"/mcp/full", "Bearer gone", http.StatusForbidden, "there is no profile"},
	} {
		w := &web{t: t, url: base + c.path}
		if a := w.post(fmt.Sprintf(hello, "2025-11-25", "{}"), "Authorization", c.key); a.status != c.status || !strings.Contains(string(a.body), c.want) {
			t.Errorf("%s: %d %s", c.path, a.status, a.body)
		}
	}
}

// TestSessionKeepsItsView: a session that was begun with a profile has it, also
// where a later request names none.
func TestSessionKeepsItsView(t *testing.T) {
	specs := manySpecs(40)
	set, err := profile.New(map[string]profile.Definition{"small": {Tools: []string{"tool_00"}}})
	if err != nil {
		t.Fatal(err)
	}
	w := serveProfiles(t, Config{Executor: judging(specs), Catalog: &catalog{specs: specs}, Profiles: set})
	base := w.url
	w.url = base + "/mcp/small"
	w.open("{}")
	w.url = base + "/mcp"
	if got := listed(w.post(listRequest)); got != "tool_00" {
		t.Errorf("listed %q", got)
	}
	if a := w.post(fmt.Sprintf(callRequest, "tool_01")); !strings.Contains(string(a.body), "-32602") {
		t.Errorf("a tool outside the profile: %s", a.body)
	}
}

func TestInstructions(t *testing.T) {
	set, err := profile.New(map[string]profile.Definition{"two": {Tools: []string{"family1", "family2"}, Mode: "full"}})
	if err != nil {
		t.Fatal(err)
	}
	many := manySpecs(400)
	for i := range 300 {
		s := spec(fmt.Sprintf("t%d", i))
		s.Source = fmt.Sprintf("a-server-with-a-long-name-%d", i)
		many = append(many, s)
	}
	for _, c := range []struct {
		name, profile string
		specs         []*tool.Spec
		want, not     string
	}{
		{"few", "auto", manySpecs(8), "family0: tool_00, tool_04\n", "tool_search (say"},
		{"searching", "search", manySpecs(8), "Find the others with tool_search", "tool_00"},
		{"a profile", "two", manySpecs(8), "family2: tool_02, tool_06\n", "family0"},
		{"many", "auto", many, " more families", "tool_00"},
		{"many, all listed", "full", many, "703 tools are listed:", "tool_00"},
	} {
		p, err := set.Find(c.profile)
		if err != nil {
			t.Fatal(err)
		}
		var all []*offered
		for _, s := range c.specs {
			all = append(all, newOffered(tool.WireName(s.FullName()), s))
		}
		text := instructions(newView(p), all)
		if len(text) > maxInstructions+16 || !strings.Contains(text, c.want) || strings.Contains(text, c.not) {
			t.Errorf("%s: %d bytes: %s", c.name, len(text), text)
		}
	}
}

// TestDefinitionsAreNotChanged: what another server says of its tool is listed as
// it came, but for the name.
func TestDefinitionsAreNotChanged(t *testing.T) {
	s := spec("create_issue")
	s.Source = "github"
	s.Definition = json.RawMessage(` {"name" : "create_issue","x-own":{"a":[1,2.50]},"inputSchema":{"type":"object","$comment":"kept"},"description":"<b>"} `)
	k := dial(t, Config{Executor: &calls{f: echo}, Catalog: &catalog{specs: []*tool.Spec{s}}})
	k.send(fmt.Sprintf(hello, "2025-11-25", "{}"))
	k.next()
	k.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, listRequest)
	line, err := k.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"name":"github__create_issue","x-own":{"a":[1,2.50]},"inputSchema":{"type":"object","$comment":"kept"},"description":"<b>"}`; !strings.Contains(line, want) {
		t.Errorf("got %s\nwant %s", line, want)
	}
}

func BenchmarkListSearchMode(b *testing.B) {
	p, _ := profile.New(nil)
	auto, _ := p.Find("auto")
	var all []*offered
	for _, s := range manySpecs(500) {
		all = append(all, newOffered(s.Name, s))
	}
	v := newView(auto)
	b.ReportAllocs()
	for b.Loop() {
		if list, _ := v.shown(all); len(list) != 3 {
			b.Fatal(len(list))
		}
	}
}

// TestProfileOfAWebSocket: a connection has the view of its URL and its key.
func TestProfileOfAWebSocket(t *testing.T) {
	specs := manySpecs(40)
	_, front := socketServer(t, Config{Executor: judging(specs), Catalog: &catalog{specs: specs}}, SocketOptions{})
	ws, _, err := websocket.Dial(t.Context(), front.URL+"?tools=tool_03,tool_05", &websocket.DialOptions{Subprotocols: []string{"mcp"}})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	k := &wsConn{t, ws}
	k.initialize("2025-11-25")
	k.send(listRequest)
	if got := listed(answered{message: k.next()}); got != "tool_03 tool_05" {
		t.Errorf("listed %q", got)
	}
	k.send(fmt.Sprintf(callRequest, "tool_04"))
	if m := k.next(); m["error"] == nil {
		t.Errorf("a tool outside the profile: %v", m)
	}
	_, resp, err := websocket.Dial(t.Context(), front.URL+"?tools=a(b)", &websocket.DialOptions{Subprotocols: []string{"mcp"}})
	if err == nil || resp == nil || resp.StatusCode != http.StatusBadRequest {
		t.Errorf("a wrong pattern: %v, %v", resp, err)
	}
}
