package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/tool"
)

// web is a client of the HTTP handler.
type web struct {
	t       *testing.T
	url     string
	session string
}

func serveHTTP(t *testing.T, c Config) (*web, *Server) {
	t.Helper()
	if c.Catalog == nil {
		c.Catalog = &catalog{specs: []*tool.Spec{spec("echo")}}
	}
	s := New(c)
	front := httptest.NewServer(s.Handler(HTTPOptions{MaxBody: 1 << 20}))
	t.Cleanup(func() {
		s.EndStreams()
		if err := s.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
		front.Close()
	})
	return &web{t: t, url: front.URL + "/mcp"}, s
}

type answered struct {
	status  int
	header  http.Header
	body    []byte
	message map[string]any // the last one
	all     []map[string]any
}

func (w *web) post(body string, headers ...string) answered {
	w.t.Helper()
	r, err := http.NewRequest(http.MethodPost, w.url, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	return w.do(r, headers...)
}

func (w *web) do(r *http.Request, headers ...string) answered {
	w.t.Helper()
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if w.session != "" {
		r.Header.Set("Mcp-Session-Id", w.session)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] == "" {
			r.Header.Del(headers[i])
		} else {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Error(err)
		return answered{}
	}
	defer resp.Body.Close()
	a := answered{status: resp.StatusCode, header: resp.Header}
	if a.body, err = io.ReadAll(resp.Body); err != nil {
		w.t.Error(err)
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		for line := range bytes.Lines(a.body) {
			if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
				var m map[string]any
				if json.Unmarshal(data, &m) == nil {
					a.all = append(a.all, m)
					a.message = m
				}
			}
		}
	} else if json.Unmarshal(a.body, &a.message) == nil {
		a.all = []map[string]any{a.message}
	}
	return a
}

// open does the handshake of a session.
func (w *web) open(capabilities string) {
	w.t.Helper()
	a := w.post(fmt.Sprintf(hello, "2025-11-25", capabilities))
	if w.session = a.header.Get("Mcp-Session-Id"); w.session == "" {
		w.t.Fatalf("no session: %d %s", a.status, a.body)
	}
	if a := w.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`); a.status != http.StatusAccepted {
		w.t.Fatalf("initialized: %d %s", a.status, a.body)
	}
}

const callEcho = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":1}}}`

func TestHTTPSession(t *testing.T) {
	e := &calls{f: echo}
	w, _ := serveHTTP(t, Config{Executor: e})
	if a := w.post(callEcho); a.status != 400 || at(a.message, "error", "code") != -32600.0 {
		t.Errorf("without a session: %d %s", a.status, a.body)
	}
	w.open("{}")
	a := w.post(callEcho, "Mcp-Protocol-Version", "2025-11-25")
	if a.status != 200 || text(a.message) != `echo{"a":1}` || a.header.Get("Content-Type") != "application/json" {
		t.Errorf("call: %d %s", a.status, a.body)
	}
	if e.last().Session != w.session {
		t.Errorf("session %q, want %q", e.last().Session, w.session)
	}
	if a := w.post(strings.Replace(callEcho, `"arguments"`, `"_meta":{"progressToken":1},"arguments"`, 1)); text(a.message) != `echo{"a":1}` {
		t.Errorf("through the SDK: %d %s", a.status, a.body)
	}
	if a := w.post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"nothing"}}`); at(a.message, "error", "code") != -32602.0 {
		t.Errorf("unknown tool: %d %s", a.status, a.body)
	}
	if a := w.post(callEcho, "Mcp-Session-Id", "somebody-else"); a.status != 404 {
		t.Errorf("foreign session: %d %s", a.status, a.body)
	}
	if a := w.post(callEcho, "Mcp-Protocol-Version", "2001-01-01"); a.status != 400 {
		t.Errorf("unknown version: %d %s", a.status, a.body)
	}
	if a := w.post(callEcho, "Accept", "application/json"); a.status != 400 {
		t.Errorf("half an Accept: %d %s", a.status, a.body)
	}
	if a := w.post(callEcho, "Content-Type", "text/plain"); a.status != 415 {
		t.Errorf("content type: %d %s", a.status, a.body)
	}
	for body, code := range map[string]float64{`{`: -32700, `7`: -32600, `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`: -32600} {
		if a := w.post(body); a.status != 400 || at(a.message, "error", "code") != code {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
	if a := w.post(strings.Replace(callEcho, `"a":1`, `"a":"`+strings.Repeat("x", 1<<20)+`"`, 1)); a.status != 413 {
		t.Errorf("long body: %d %s", a.status, a.body)
	}
	r, _ := http.NewRequest(http.MethodDelete, w.url, nil)
	if a := w.do(r); a.status != 204 && a.status != 200 {
		t.Errorf("DELETE: %d", a.status)
	}
	if a := w.post(callEcho); a.status != 404 {
		t.Errorf("after DELETE: %d %s", a.status, a.body)
	}
}

func TestHTTPCancel(t *testing.T) {
	for name, how := range map[string]func(w *web){
		"notification": func(w *web) {
			if a := w.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`); a.status != 202 {
				t.Errorf("cancel: %d %s", a.status, a.body)
			}
		},
		"DELETE": func(w *web) {
			r, _ := http.NewRequest(http.MethodDelete, w.url, nil)
			w.do(r)
		},
	} {
		for path, body := range map[string]string{"ours": callEcho, "SDK": strings.Replace(callEcho, `"arguments"`, `"_meta":{"progressToken":1},"arguments"`, 1)} {
			t.Run(name+" "+path, func(t *testing.T) {
				started, ended := make(chan struct{}, 1), make(chan error, 1)
				w, _ := serveHTTP(t, Config{Executor: &calls{f: until(started, ended)}})
				w.open("{}")
				done := make(chan struct{})
				go func() { defer close(done); w.post(body) }()
				<-started
				how(w)
				if err := <-ended; err == nil {
					t.Error("the call has no cause")
				}
				<-done
			})
		}
	}
}

const (
	newVersion = "2026-07-28"
	newMeta    = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}%s}`
)

func newCall(extra string) string {
	return `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"echo","arguments":{},` + fmt.Sprintf(newMeta, extra) + `}}`
}

func TestHTTPStateless(t *testing.T) {
	e := &calls{f: echo}
	w, _ := serveHTTP(t, Config{Executor: e, Workspaces: []string{"/w"}})
	headers := []string{"Mcp-Protocol-Version", newVersion, "Mcp-Method", "tools/call", "Mcp-Name", "echo"}
	a := w.post(newCall(""), headers...)
	if a.status != 200 || at(a.message, "result", "resultType") != "complete" || text(a.message) != "echo{}" {
		t.Errorf("call: %d %s", a.status, a.body)
	}
	derived := e.last().Session
	if !strings.HasPrefix(derived, "ses_") {
		t.Errorf("session %q", derived)
	}
	w.post(newCall(""), headers...)
	if e.last().Session != derived || e.last().Turn == "" {
		t.Errorf("a second call is of session %q, want %q", e.last().Session, derived)
	}
	w.post(newCall(""), append(headers, "Authorization", "Bearer other")...)
	if e.last().Session == derived {
		t.Error("another key has the same session")
	}
	w.post(newCall(`,"toolyard/session":"mine"`), headers...)
	if e.last().Session != "mine" {
		t.Errorf("session %q, want mine", e.last().Session)
	}
	for _, bad := range []struct {
		name    string
		headers []string
		status  int
		code    float64
	}{
		{"no method header", []string{"Mcp-Method", ""}, 400, -32020},
		{"wrong method header", []string{"Mcp-Method", "tools/list"}, 400, -32020},
		{"wrong name header", []string{"Mcp-Name", "bash"}, 400, -32020},
		{"no version header", []string{"Mcp-Protocol-Version", ""}, 400, -32020},
		{"another version", []string{"Mcp-Protocol-Version", "2027-01-01"}, 400, -32020},
	} {
		a := w.post(newCall(""), append(headers, bad.headers...)...)
		if a.status != bad.status || at(a.message, "error", "code") != bad.code {
			t.Errorf("%s: %d %s", bad.name, a.status, a.body)
		}
	}
	a = w.post(strings.Replace(newCall(""), `"echo"`, `"nothing"`, 1), append(headers, "Mcp-Name", "nothing")...)
	if a.status != 400 || at(a.message, "error", "code") != -32602.0 {
		t.Errorf("unknown tool: %d %s", a.status, a.body)
	}
	r, _ := http.NewRequest(http.MethodGet, w.url, nil)
	if a := w.do(r, "Mcp-Protocol-Version", newVersion); a.status != 405 {
		t.Errorf("GET: %d", a.status)
	}
}

func TestHTTPStatelessProgress(t *testing.T) {
	w, _ := serveHTTP(t, Config{Executor: &calls{f: func(_ context.Context, c executor.Call) *tool.Result {
		c.OnEvent(tool.Event{Type: tool.EventCallProgress, Data: map[string]any{"progress": 0.5, "total": 1.0}})
		return tool.Text("done")
	}}})
	a := w.post(newCall(`,"progressToken":7`), "Mcp-Protocol-Version", newVersion, "Mcp-Method", "tools/call", "Mcp-Name", "echo")
	if len(a.all) != 2 || at(a.all[0], "params", "progressToken") != 7.0 || text(a.message) != "done" {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestHTTPStatelessClientThatGoes(t *testing.T) {
	started, ended := make(chan struct{}, 1), make(chan error, 1)
	w, _ := serveHTTP(t, Config{Executor: &calls{f: until(started, ended)}})
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, strings.NewReader(newCall("")))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "*/*", "Mcp-Protocol-Version": newVersion, "Mcp-Method": "tools/call", "Mcp-Name": "echo"} {
		r.Header.Set(k, v)
	}
	go func() {
		<-started
		cancel()
	}()
	if resp, err := http.DefaultClient.Do(r); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", resp, err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended because of %v", err)
	}
}

func TestHTTPListChangedReachesStreams(t *testing.T) {
	c := &catalog{specs: []*tool.Spec{spec("a")}}
	w, _ := serveHTTP(t, Config{Executor: &calls{f: echo}, Catalog: c})
	w.open("{}")
	r, _ := http.NewRequest(http.MethodGet, w.url, nil)
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Mcp-Session-Id", w.session)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	if !lines.Scan() {
		t.Fatal("no stream")
	}
	c.set(spec("a"), spec("b"))
	for lines.Scan() {
		if strings.Contains(lines.Text(), "notifications/tools/list_changed") {
			return
		}
	}
	t.Error("the stream ended without the notification")
}

func TestHTTPElicitation(t *testing.T) {
	w, _ := serveHTTP(t, Config{Executor: &calls{f: func(ctx context.Context, c executor.Call) *tool.Result {
		a, err := c.Asker.Ask(ctx, question())
		if err != nil {
			return tool.ErrorResult(err)
		}
		return tool.Text(a.Option)
	}}})
	w.open(`{"elicitation":{}}`)
	r, _ := http.NewRequest(http.MethodPost, w.url, strings.NewReader(callEcho))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Session-Id", w.session)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var m map[string]any
		if json.Unmarshal([]byte(data), &m) != nil {
			continue
		}
		if m["method"] == "elicitation/create" {
			w.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"result":{"action":"accept","content":{"answer":"once"}}}`, m["id"]))
			continue
		}
		if text(m) != "once" {
			t.Errorf("got %v", m)
		}
		return
	}
	t.Error("the stream ended without a result")
}

func TestHTTPTooManySessions(t *testing.T) {
	w, s := serveHTTP(t, Config{Executor: &calls{f: echo}})
	s.mu.Lock()
	for i := range maxSessions {
		id := fmt.Sprint("taken", i)
		s.http[id] = newSession(id, "", s.config.Now())
	}
	s.mu.Unlock()
	a := w.post(fmt.Sprintf(hello, "2025-11-25", "{}"))
	if a.status != 503 || a.header.Get("Retry-After") == "" {
		t.Errorf("%d %s", a.status, a.body)
	}
	s.mu.Lock()
	clear(s.http)
	s.mu.Unlock()
}
