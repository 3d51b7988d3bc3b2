package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/event"
	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/internal/policy"
	"github.com/toolyard/toolyard/internal/registry"
	"github.com/toolyard/toolyard/tool"
)

// yard is a server with the real pipeline behind it, and a tool that counts what
// it does.
type yard struct {
	executor *executor.Executor
	config   Config
	done     atomic.Int64
}

type pushIn struct {
	Branch string `json:"branch,omitzero" jsonschema:"what to push"`
}

func newYard(t *testing.T, deadline time.Duration) *yard {
	t.Helper()
	y := &yard{}
	r := registry.New(registry.Config{})
	for _, one := range []tool.Tool{
		tool.New(tool.Spec{Name: "push", Description: "pushes", Effects: tool.Write, Default: tool.Ask, ConcurrencySafe: true},
			func(_ context.Context, _ *tool.Request, in pushIn) (*tool.Result, struct{}, error) {
				y.done.Add(1)
				return tool.Text("pushed " + in.Branch), struct{}{}, nil
			}),
		tool.New(tool.Spec{Name: "halfway", Description: "asks between its effects", Effects: tool.Write, Default: tool.Allow, ConcurrencySafe: true},
			func(ctx context.Context, r *tool.Request, _ pushIn) (*tool.Result, struct{}, error) {
				said := ""
				for range 2 {
					y.done.Add(1)
					a, err := r.Ask(ctx, question())
					if err != nil {
						return nil, struct{}{}, err
					}
					said += a.Option + " "
				}
				y.done.Add(1)
				return tool.Text(said), struct{}{}, nil
			}),
	} {
		if err := r.Add(t.Context(), one); err != nil {
			t.Fatal(err)
		}
	}
	e, err := executor.New(executor.Config{Registry: r, Bus: event.New(0), AskDeadline: deadline, DoomLoop: "off"})
	if err != nil {
		t.Fatal(err)
	}
	y.executor, y.config = e, Config{Executor: e, Catalog: FromRegistry(r)}
	return y
}

// client makes a call and answers what it is asked: answer gets the text and the
// round and gives an ElicitResult; "" is no answer at all.
type client func(name, arguments string, answer func(message string, round int) string) map[string]any

const elicits = `{"elicitation":{}}`

// clients are the ways in, in both eras.
func (y *yard) clients(t *testing.T, capabilities string) map[string]client {
	return map[string]client{
		"stdio session": inSession(dial(t, y.config), capabilities), "stdio stateless": stateless(dial(t, y.config), capabilities),
		"HTTP session": httpSession(t, y.config, capabilities), "HTTP stateless": httpStateless(t, y.config, capabilities),
		"WebSocket session": inSession(dialSocket(t, socketFront(t, y.config)), capabilities), "WebSocket stateless": stateless(dialSocket(t, socketFront(t, y.config)), capabilities),
	}
}

func socketFront(t *testing.T, c Config) *httptest.Server {
	_, front := socketServer(t, c, SocketOptions{})
	return front
}

// line is a connection of one client.
type line interface {
	send(messages ...string)
	next() map[string]any
}

func inSession(k line, capabilities string) client {
	k.send(fmt.Sprintf(hello, "2025-11-25", capabilities))
	k.next()
	k.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	id := 0
	return func(name, arguments string, answer func(string, int) string) map[string]any {
		id++
		k.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, name, arguments))
		for round := 1; ; {
			switch m := k.next(); m["method"] {
			case "elicitation/create":
				if said := answer(at(m, "params", "message").(string), round); said != "" {
					k.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"result":%s}`, m["id"], said))
				}
				round++
			case nil:
				return m
			}
		}
	}
}

// request is a tools/call of a stateless client; more are further params.
func request(capabilities, name, arguments, more string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":%q,"arguments":%s%s,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":%s}}}`,
		name, arguments, more, capabilities)
}

// retry is what a client carries from a question to its answer.
func retry(m map[string]any, responses string) string {
	return fmt.Sprintf(`,"requestState":%q,"inputResponses":%s`, at(m, "result", "requestState"), responses)
}

// rounds answers a stateless server until there is a result.
func rounds(send func(more string) map[string]any, answer func(string, int) string) map[string]any {
	more := ""
	for round := 1; ; round++ {
		m := send(more)
		if at(m, "result", "resultType") != "input_required" {
			return m
		}
		responses := map[string]json.RawMessage{}
		for key, r := range at(m, "result", "inputRequests").(map[string]any) {
			said := answer(at(r, "params", "message").(string), round)
			if said == "" {
				for m = send(retry(m, "{}")); at(m, "result", "resultType") == "input_required"; m = send(retry(m, "{}")) {
					time.Sleep(time.Millisecond) // a client that asks until it is told
				}
				return m
			}
			responses[key] = json.RawMessage(said)
		}
		more = retry(m, string(appendJSON(nil, responses)))
	}
}

func stateless(k line, capabilities string) client {
	return func(name, arguments string, answer func(string, int) string) map[string]any {
		return rounds(func(more string) map[string]any {
			k.send(request(capabilities, name, arguments, more))
			return k.next()
		}, answer)
	}
}

func httpStateless(t *testing.T, c Config, capabilities string) client {
	w, _ := serveHTTP(t, c)
	return func(name, arguments string, answer func(string, int) string) map[string]any {
		return rounds(func(more string) map[string]any {
			return w.post(request(capabilities, name, arguments, more), "Mcp-Protocol-Version", newVersion, "Mcp-Method", "tools/call", "Mcp-Name", name).message
		}, answer)
	}
}

func httpSession(t *testing.T, c Config, capabilities string) client {
	w, _ := serveHTTP(t, c)
	w.open(capabilities)
	return func(name, arguments string, answer func(string, int) string) map[string]any {
		r, _ := http.NewRequest(http.MethodPost, w.url, strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, name, arguments)))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Mcp-Session-Id", w.session)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		for round := 1; lines.Scan(); {
			var m map[string]any
			if json.Unmarshal([]byte(strings.TrimPrefix(lines.Text(), "data: ")), &m) != nil {
				continue
			}
			if m["method"] == "elicitation/create" {
				if said := answer(at(m, "params", "message").(string), round); said != "" {
					w.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"result":%s}`, m["id"], said))
				}
				round++
			} else if m["method"] == nil {
				return m
			}
		}
		t.Error("the stream ended without a result")
		return nil
	}
}

func accept(option string) string {
	return `{"action":"accept","content":{"answer":"` + option + `"}}`
}

// outcome is the text of a result, and the code of its error.
func outcomeOf(m map[string]any) string {
	code, _ := at(m, "result", "structuredContent", "error", "code").(string)
	if code == "" {
		code, _ = at(m, "result", "_meta", "toolyard/error", "code").(string)
	}
	if code != "" {
		return code
	}
	return text(m)
}

func TestApproval(t *testing.T) {
	type step struct {
		answers []string // by round; "" is none
		want    string
		asked   int
	}
	deny, err := policy.ParseRule(tool.Deny, "push", policy.Managed, "test")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name         string
		capabilities string
		deadline     time.Duration
		meanwhile    *policy.Rule // given while a person thinks
		tool         string
		steps        []step
		done         int64
	}{
		{name: "once", steps: []step{{[]string{accept("once")}, "pushed a", 1}, {[]string{accept("once")}, "pushed a", 1}}, done: 2},
		{name: "always", steps: []step{{[]string{accept("always")}, "pushed a", 1}, {nil, "pushed a", 0}}, done: 2},
		{name: "reject", steps: []step{{[]string{accept("reject")}, "PERMISSION_DENIED", 1}, {[]string{`{"action":"decline"}`}, "PERMISSION_DENIED", 1}, {[]string{`{"action":"cancel"}`}, "PERMISSION_DENIED", 1}}},
		{name: "expire", deadline: 300 * time.Millisecond, steps: []step{{[]string{""}, "PERMISSION_TIMEOUT", 1}}},
		{name: "an answer that does not fit", steps: []step{{[]string{accept("never"), `{"action":"accept","content":{"answer":7}}`, accept("once")}, "pushed a", 3}}, done: 1},
		{name: "policy changed meanwhile", meanwhile: &deny, steps: []step{{[]string{accept("once")}, "PERMISSION_DENIED", 1}, {nil, "PERMISSION_DENIED", 0}}},
		{name: "policy changed and always", meanwhile: &deny, steps: []step{{[]string{accept("always")}, "PERMISSION_DENIED", 1}}},
		{name: "no channel", capabilities: "{}", steps: []step{{nil, "PERMISSION_DENIED", 0}}},
		{name: "only by URL", capabilities: `{"elicitation":{"url":{}}}`, steps: []step{{nil, "PERMISSION_DENIED", 0}}},
		{name: "two asks in one call", tool: "halfway", steps: []step{{[]string{accept("once"), accept("always")}, "once always ", 2}}, done: 3},
	}
	for _, tt := range tests {
		if tt.capabilities == "" {
			tt.capabilities = elicits
		}
		if tt.deadline == 0 {
			tt.deadline = time.Minute
		}
		if tt.tool == "" {
			tt.tool = "push"
		}
		for _, way := range []string{"stdio session", "stdio stateless", "HTTP session", "HTTP stateless", "WebSocket session", "WebSocket stateless"} {
			t.Run(tt.name+"/"+way, func(t *testing.T) {
				y := newYard(t, tt.deadline)
				call := y.clients(t, tt.capabilities)[way]
				for i, s := range tt.steps {
					asked := 0
					m := call(tt.tool, `{"branch":"a"}`, func(message string, round int) string {
						asked++
						if tt.tool == "push" && !(strings.Contains(message, `push {"branch":"a"}`) && strings.Contains(message, "saves the rule: allow push")) {
							t.Errorf("the person reads %q", message)
						}
						if tt.meanwhile != nil {
							rules, err := policy.New([]policy.Rule{*tt.meanwhile})
							if err != nil {
								t.Error(err)
							}
							y.executor.SetPolicy(rules)
						}
						return s.answers[min(round, len(s.answers))-1]
					})
					if got := outcomeOf(m); got != s.want || asked != s.asked {
						t.Errorf("step %d: got %q after %d questions, want %q after %d: %v", i, got, asked, s.want, s.asked, m)
					}
				}
				if got := y.done.Load(); got != tt.done {
					t.Errorf("%d effects, want %d", got, tt.done)
				}
			})
		}
	}
}

func TestRequestStateIsOfUseOnceAndForOneCall(t *testing.T) {
	y := newYard(t, time.Minute)
	w, _ := serveHTTP(t, y.config)
	post := func(name, arguments, more string, headers ...string) map[string]any {
		return w.post(request(elicits, name, arguments, more), append([]string{"Mcp-Protocol-Version", newVersion, "Mcp-Method", "tools/call", "Mcp-Name", name}, headers...)...).message
	}
	first := post("push", `{"branch":"a"}`, "")
	key := ""
	for key = range at(first, "result", "inputRequests").(map[string]any) {
	}
	yes := `{"` + key + `":` + accept("once") + `}`
	state := at(first, "result", "requestState").(string)
	altered := fmt.Sprintf(`,"requestState":%q,"inputResponses":%s`, "A"+state[1:], yes)
	longer := fmt.Sprintf(`,"requestState":%q,"inputResponses":%s`, state+"A", yes)
	refused := func(what string, m map[string]any, want error) {
		t.Helper()
		if message, _ := at(m, "error", "message").(string); at(m, "error", "code") != -32602.0 || !strings.Contains(message, want.Error()) {
			t.Errorf("%s: got %v, want %v", what, m, want)
		}
	}
	refused("altered state", post("push", `{"branch":"a"}`, altered), errStateAltered)
	refused("longer state", post("push", `{"branch":"a"}`, longer), errStateAltered)
	refused("other arguments", post("push", `{"branch":"b"}`, retry(first, yes)), errStateRequest)
	refused("other tool", post("halfway", `{"branch":"a"}`, retry(first, yes)), errStateRequest)
	refused("other key", post("push", `{"branch":"a"}`, retry(first, yes), "Authorization", "Bearer other"), errStateSession)
	if got := y.done.Load(); got != 0 {
		t.Fatalf("%d effects before the approval", got)
	}
	// The right one still counts, however the arguments are written.
	if m := post("push", `{ "branch" : "\u0061" }`, retry(first, yes)); text(m) != "pushed a" {
		t.Fatalf("got %v", m)
	}
	refused("replay", post("push", `{"branch":"a"}`, retry(first, yes)), errStateUsed)

	// Each round has a state of its own.
	second := post("push", `{"branch":"a"}`, "")
	again := post("push", `{"branch":"a"}`, retry(second, `{"wrong":1}`))
	if at(again, "result", "resultType") != "input_required" || at(again, "result", "requestState") == at(second, "result", "requestState") {
		t.Fatalf("asked again: %v", again)
	}
	refused("state of the round before", post("push", `{"branch":"a"}`, retry(second, yes)), errStateUsed)
	if got := y.done.Load(); got != 1 {
		t.Errorf("%d effects, want 1", got)
	}
}

func TestAnswersThatWereNotAskedForAllowNothing(t *testing.T) {
	y := newYard(t, time.Minute)
	w, _ := serveHTTP(t, y.config)
	headers := []string{"Mcp-Protocol-Version", newVersion, "Mcp-Method", "tools/call", "Mcp-Name", "push"}
	m := w.post(request(elicits, "push", `{}`, `,"inputResponses":{"question":`+accept("once")+`,"answer":`+accept("once")+`}`), headers...).message
	if at(m, "result", "resultType") != "input_required" || y.done.Load() != 0 {
		t.Errorf("got %v after %d effects", m, y.done.Load())
	}
}

func TestExpiredState(t *testing.T) {
	st := requestState{Owner: "o", Binds: "b", Expires: 1000}
	for _, tt := range []struct {
		name         string
		owner, binds string
		now          int64
		want         error
	}{
		{"in time", "o", "b", 1000, nil}, {"late", "o", "b", 1001, errStateExpired},
		{"another session", "p", "b", 1, errStateSession}, {"another call", "o", "c", 1, errStateRequest},
	} {
		if err := st.check(tt.owner, tt.binds, time.Unix(tt.now, 0)); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

func FuzzOpenState(f *testing.F) {
	key := []byte("0123456789abcdef")
	st := requestState{Operation: "op_1", Owner: "o", Binds: "b", Nonce: "n", Expires: 5}
	sealed, err := st.seal(key)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sealed)
	f.Add("")
	f.Add(sealed[:len(sealed)-1])
	f.Add(strings.Repeat("A", maxState+1))
	f.Fuzz(func(t *testing.T, text string) {
		got, err := openState(key, text)
		if err == nil && (text != sealed || *got != st) {
			t.Errorf("opened %q as %+v", text, got)
		}
		if err == nil {
			return
		}
		if _, err := openState([]byte("fedcba9876543210"), sealed); err == nil {
			t.Error("opened under another key")
		}
	})
}
