package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/tool"
)

// other is an upstream with fields that nobody here knows.
type other struct {
	mu       sync.Mutex
	asked    []string
	changed  func(string)
	notified func(func(func(*tool.Spec) bool) bool, string, json.RawMessage)
	level    string
}

type refusal struct{}

func (refusal) Error() string { return "refused" }

func (refusal) WireError() (int64, string, json.RawMessage) {
	return -32002, "no such thing", json.RawMessage(`{"uri":"test://gone","why":[1,2]}`)
}

func (o *other) list(format string, n int) []json.RawMessage {
	var list []json.RawMessage
	for i := range n {
		list = append(list, fmt.Appendf(nil, format, i))
	}
	return list
}

func (o *other) Resources(_ context.Context, may func(*tool.Spec) bool) []json.RawMessage {
	if !reaches(may) {
		return nil
	}
	return o.list(`{"uri":"test://r%d","name":"r","x-new":{"big":12345678901234567890}}`, 250)
}

func (o *other) Templates(_ context.Context, may func(*tool.Spec) bool) []json.RawMessage {
	if !reaches(may) {
		return nil
	}
	return o.list(`{"uriTemplate":"test://t%d/{id}","name":"t","x-new":1}`, 1)
}

func (o *other) Prompts(_ context.Context, may func(*tool.Spec) bool) []json.RawMessage {
	if !reaches(may) {
		return nil
	}
	return o.list(`{"name":"p%d","x-new":true}`, 2)
}

func (o *other) answer(kind string, params json.RawMessage) (json.RawMessage, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked = append(o.asked, kind+" "+string(params))
	if strings.Contains(string(params), "gone") {
		return nil, refusal{}
	}
	return fmt.Appendf(nil, `{"%s":"x","x-new":{"big":12345678901234567890}}`, kind), nil
}

func (o *other) Read(_ context.Context, may func(*tool.Spec) bool, _ tool.Client, p json.RawMessage) (json.RawMessage, error) {
	if !reaches(may) {
		return nil, refusal{}
	}
	return o.answer("read", p)
}

func (o *other) Prompt(_ context.Context, may func(*tool.Spec) bool, _ tool.Client, p json.RawMessage) (json.RawMessage, error) {
	if !reaches(may) {
		return nil, refusal{}
	}
	return o.answer("prompt", p)
}

func (o *other) Complete(_ context.Context, may func(*tool.Spec) bool, _ tool.Client, p json.RawMessage) (json.RawMessage, error) {
	if !reaches(may) {
		return nil, refusal{}
	}
	return o.answer("complete", p)
}

func (o *other) Subscribe(_ context.Context, may func(*tool.Spec) bool, uri string) error {
	if !reaches(may) {
		return refusal{}
	}
	_, err := o.answer("subscribe", json.RawMessage(uri))
	return err
}

func (o *other) Unsubscribe(_ context.Context, uri string) error {
	_, err := o.answer("unsubscribe", json.RawMessage(uri))
	return err
}

func (o *other) SetLevel(level string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.level = level
}

func (o *other) OnChange(f func(string)) { o.changed = f }

func (o *other) OnNotification(f func(func(func(*tool.Spec) bool) bool, string, json.RawMessage)) {
	o.notified = f
}

// reaches reports whether a client may call the one tool of the upstream.
func reaches(may func(*tool.Spec) bool) bool {
	return may == nil || may(&tool.Spec{Name: "tool", Source: "other"})
}

func TestUpstream(t *testing.T) {
	o := &other{}
	k := dial(t, Config{Executor: &calls{f: echo}, Catalog: &catalog{}, Upstream: o})
	answer := k.initialize("2025-11-25", `{}`)
	for _, capability := range []string{"completions", "prompts", "resources"} {
		if at(answer, "result", "capabilities", capability) == nil {
			t.Errorf("no capability %s in %v", capability, answer)
		}
	}
	ask := func(method, params string) string {
		t.Helper()
		k.send(`{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":` + params + `}`)
		for {
			m := k.next()
			if m["id"] == nil {
				continue
			}
			raw, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			return string(raw)
		}
	}
	for _, c := range []struct{ method, params, want string }{
		{"resources/list", `{}`, `"nextCursor":"200"`},
		{"resources/list", `{"cursor":"200"}`, `"uri":"test://r249","x-new"`},
		{"resources/list", `{"cursor":"-1"}`, `not one of ours`},
		{"resources/templates/list", `{}`, `"uriTemplate":"test://t0/{id}","x-new":1`},
		{"prompts/list", `{}`, `{"name":"p1","x-new":true}`},
		{"resources/read", `{"uri":"test://r1"}`, `"read":"x","x-new"`},
		{"resources/read", `{"uri":"test://gone"}`, `{"code":-32002,"data":{"uri":"test://gone","why":[1,2]},"message":"no such thing"}`},
		{"prompts/get", `{"name":"p1","arguments":{"a":"b"}}`, `"prompt":"x"`},
		{"prompts/get", `{"name":"gone"}`, `-32002`},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"p1"},"argument":{"name":"a","value":"b"}}`, `"complete":"x"`},
		{"resources/subscribe", `{"uri":"test://r1"}`, `"result":{}`},
		{"resources/subscribe", `{"uri":"test://gone"}`, `-32002`},
		{"resources/unsubscribe", `{"uri":"test://r1"}`, `"result":{}`},
		{"logging/setLevel", `{"level":"info"}`, `"result":{}`},
	} {
		if got := ask(c.method, c.params); !strings.Contains(got, c.want) {
			t.Errorf("%s %s\n got %s\nwant %s", c.method, c.params, got, c.want)
		}
	}
	o.mu.Lock()
	level, asked := o.level, strings.Join(o.asked, "\n")
	o.mu.Unlock()
	if level != "info" {
		t.Errorf("the level upstream is %q", level)
	}
	if !strings.Contains(asked, `prompt {"arguments":{"a":"b"},"name":"p1"}`) {
		t.Errorf("asked upstream:\n%s", asked)
	}

	ask("resources/subscribe", `{"uri":"test://r2"}`)
	for _, c := range []struct {
		cause func()
		want  string
	}{
		{func() { o.changed("prompts") }, "notifications/prompts/list_changed"},
		{func() { o.changed("resources") }, "notifications/resources/list_changed"},
		{func() { o.notified(reaches, "notifications/resources/updated", json.RawMessage(`{"uri":"test://r2"}`)) }, "notifications/resources/updated"},
		{func() {
			o.notified(func(func(*tool.Spec) bool) bool { return false }, "notifications/message", json.RawMessage(`{"level":"error","data":"for others"}`))
			o.notified(reaches, "notifications/message", json.RawMessage(`{"level":"error","data":{"a":1}}`))
		}, "notifications/message"},
	} {
		c.cause()
		if got := k.next(); got["method"] != c.want || at(got, "params", "data") == "for others" {
			t.Errorf("got %v, want %s", got, c.want)
		}
	}
}

func TestOfEra(t *testing.T) {
	for _, c := range []struct {
		body, version string
		cacheable     bool
		want          string
	}{
		{`{"a":1}`, "2025-11-25", true, `{"a":1}`},
		{`{"a":1}`, versionStateless, false, `{"resultType":"complete","a":1}`},
		{` {} `, versionStateless, true, `{"resultType":"complete","ttlMs":0,"cacheScope":"private"}`},
		{`{"resultType":"input_required"}`, versionStateless, false, `{"resultType":"input_required"}`},
		{`{"ttlMs":5}`, versionStateless, true, `{"resultType":"complete","ttlMs":5}`},
		{`[]`, versionStateless, true, `[]`},
	} {
		if got := string(ofEra(json.RawMessage(c.body), c.version, c.cacheable)); got != c.want {
			t.Errorf("%s in %s: got %s, want %s", c.body, c.version, got, c.want)
		}
	}
}

// logging logs at two levels and answers.
func logging(_ context.Context, c executor.Call) *tool.Result {
	for _, level := range []string{"debug", "warning"} {
		if c.OnEvent != nil {
			c.OnEvent(tool.Event{Type: tool.EventCallLog, Data: map[string]any{"params": json.RawMessage(`{"level":"` + level + `","data":{"n":12345678901234567890},"x-new":1}`)}})
		}
	}
	return tool.Text("done")
}

func TestLogsOfACall(t *testing.T) {
	const want = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","data":{"n":12345678901234567890},"x-new":1}}`
	t.Run("session", func(t *testing.T) {
		k := dial(t, Config{Executor: &calls{f: logging}})
		k.initialize("2025-11-25", `{}`)
		call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`
		k.send(call)
		if m := k.next(); text(m) != "done" {
			t.Errorf("without a level: %v", m)
		}
		k.send(`{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"info"}}`)
		k.next()
		k.send(call)
		line, err := k.out.ReadString('\n')
		if err != nil || strings.TrimSpace(line) != want {
			t.Errorf("got %s, %v\nwant %s", line, err, want)
		}
		if m := k.next(); text(m) != "done" {
			t.Errorf("after it: %v", m)
		}
	})
	t.Run("stateless", func(t *testing.T) {
		w, _ := serveHTTP(t, Config{Executor: &calls{f: logging}})
		call := newCall(`,"io.modelcontextprotocol/logLevel":"warning"`)
		got := w.post(call, "Mcp-Protocol-Version", versionStateless, "Mcp-Method", "tools/call", "Mcp-Name", "echo")
		body := string(got.body)
		if !strings.Contains(body, "data: "+want+"\n") || strings.Contains(body, `"level":"debug"`) || !strings.Contains(body, "done") {
			t.Errorf("got %s", body)
		}
	})
}

func TestLogLevelsThatAreNone(t *testing.T) {
	s := New(Config{Executor: &calls{f: echo}, Catalog: &catalog{}})
	defer s.Close(context.Background())
	sess := newSession("s", "", time.Now())
	sess.logLevel, sess.following = "info", true
	for _, level := range []string{"", "loud", "INFO"} {
		s.followLogs(sess, level)
		if sess.level() != "info" || !sess.following {
			t.Errorf("%q: the level is %q", level, sess.level())
		}
	}
	s.followLogs(sess, "error") // it follows already: no second time
	if sess.level() != "error" {
		t.Errorf("the level is %q", sess.level())
	}
}

func TestLowestLevel(t *testing.T) {
	s := New(Config{Executor: &calls{f: echo}, Catalog: &catalog{}})
	defer s.Close(context.Background())
	if got := s.lowestLevel(); got != "" {
		t.Errorf("nobody listens: %q", got)
	}
	for i, level := range []string{"error", "", "info", "warning"} {
		sess := newSession(fmt.Sprint(i), "", time.Now())
		sess.logLevel = level
		s.bySDK[new(sdk.ServerSession)] = sess
	}
	if got := s.lowestLevel(); got != "info" {
		t.Errorf("the lowest level is %q", got)
	}
}
