package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/toolyard/toolyard/internal/event"
	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/internal/registry"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/toolbox"
	"github.com/toolyard/toolyard/tool"
)

// runner is an executor that answers with what it was asked.
type runner struct {
	last    executor.Call
	running []store.Call
	killed  []string
}

func (e *runner) Call(_ context.Context, c executor.Call) *tool.Result {
	e.last = c
	if string(c.Arguments) == `{"fail":true}` {
		return tool.ErrorResult(tool.Errorf(tool.NotFound, "no file a"))
	}
	return tool.Text(c.Tool + string(c.Arguments))
}

func (e *runner) ExecuteBatch(ctx context.Context, calls []executor.Call, opts tool.BatchOptions) iter.Seq2[int, *tool.Result] {
	return func(yield func(int, *tool.Result) bool) {
		for i := range slices.Backward(calls) {
			r := e.Call(ctx, calls[i])
			if !yield(i, r) || r.IsError && opts.StopOnError {
				return
			}
		}
	}
}

func (e *runner) Cancel(id string) bool {
	e.killed = append(e.killed, id)
	return id == "call_running"
}
func (e *runner) Running() []store.Call { return e.running }
func (e *runner) Stats(name string, _ time.Duration) []tool.Stats {
	return []tool.Stats{{Tool: name, Calls: 3}}
}

// record is a store of a few rows.
type record struct {
	calls  []store.Call
	filter store.CallFilter
	events []store.Event
}

func (r *record) Call(_ context.Context, id string) (store.Call, error) {
	for _, c := range r.calls {
		if c.ID == id {
			return c, nil
		}
	}
	return store.Call{}, fmt.Errorf("call %s: %w", id, store.ErrNotFound)
}

func (r *record) ListCalls(_ context.Context, f store.CallFilter) ([]store.Call, error) {
	r.filter = f
	from := 0
	if f.Before != "" {
		from = 1 + slices.IndexFunc(r.calls, func(c store.Call) bool { return c.ID == f.Before })
		if from == 0 {
			return nil, store.ErrNotFound
		}
	}
	return r.calls[from:min(from+f.Limit, len(r.calls))], nil
}

func (r *record) ListSessions(context.Context, int) ([]store.Session, error) {
	return []store.Session{{ID: "ses_1"}}, nil
}

func (r *record) EventsAfter(_ context.Context, id uint64, limit int) ([]store.Event, error) {
	var list []store.Event
	for _, e := range r.events {
		if e.ID > id && len(list) < limit {
			list = append(list, e)
		}
	}
	return list, nil
}

type jobs struct{ input string }

func (j *jobs) List(context.Context, string, int) ([]store.Job, error) {
	return []store.Job{{ID: "job_1"}}, nil
}
func (j *jobs) Output(_ context.Context, id string, offset int64, limit int) (JobOutput, error) {
	if id != "job_1" {
		return JobOutput{}, tool.Errorf(tool.NotFound, "there is no job %s", id)
	}
	return JobOutput{Status: "running", Output: fmt.Sprint(offset, limit), NextOffset: offset + 1}, nil
}
func (j *jobs) Input(_ context.Context, _, text string) error { j.input = text; return nil }
func (j *jobs) Kill(_ context.Context, id string) (store.Job, error) {
	return store.Job{ID: id, Status: "killed"}, nil
}

type rules struct{ added Rule }

func (p *rules) Rules(context.Context) ([]Rule, error) { return nil, nil }
func (p *rules) AddRule(_ context.Context, r Rule) (Rule, error) {
	if r.Rule == "bash(" {
		return r, tool.Errorf(tool.ParameterError, "the rule does not parse")
	}
	p.added = r
	r.ID = 7
	return r, nil
}
func (p *rules) Explain(_ context.Context, q Explain) (Explanation, error) {
	return Explanation{Action: "ask", Reason: q.Call + q.Tool}, nil
}

// questions are one that is pending.
type questions struct {
	asked    store.QuestionFilter
	version  string
	wait     time.Duration
	answered tool.Answer
	watchers atomic.Int64
}

func (q *questions) count() int { return int(q.watchers.Load()) }

func (q *questions) Question(_ context.Context, id string) (store.Question, error) {
	if id != "perm_1" {
		return store.Question{}, tool.Errorf(tool.NotFound, "there is no question %s", id)
	}
	return store.Question{ID: id, State: "pending", Option: q.answered.Option, Binding: "secret"}, nil
}

func (q *questions) Answer(_ context.Context, id string, a tool.Answer) error {
	switch {
	case id == "perm_2":
		return tool.Errorf(tool.Conflict, "perm_2 was answered by ann at 10:11:12: once").WithHint("The first answer counts.")
	case a.Option == "perhaps":
		return tool.Errorf(tool.ParameterError, "no option perhaps")
	}
	q.answered = a
	return nil
}

func (q *questions) Await(_ context.Context, f store.QuestionFilter, version string, wait time.Duration) ([]store.Question, string, error) {
	q.asked, q.version, q.wait = f, version, wait
	if f.Session == "none" {
		return nil, "v0", nil
	}
	return []store.Question{{ID: "perm_1", State: "pending", Title: "Allow bash?", Details: json.RawMessage(`{"rule":"bash"}`), Binding: "secret"}}, "v2", nil
}

func (q *questions) Watch() (release func()) {
	q.watchers.Add(1)
	return func() { q.watchers.Add(-1) }
}

type data struct{ *bytes.Reader }

func (data) Close() error { return nil }

// front is an API under test.
type front struct {
	*httptest.Server
	runner *runner
	record *record
	jobs   *jobs
	rules  *rules
	asked  *questions
	bus    *event.Bus
	limits Limits
}

func serve(t *testing.T) *front {
	t.Helper()
	reg := registry.New(registry.Config{})
	t.Cleanup(func() { _ = reg.Close(context.Background()) })
	for _, name := range []string{"read", "write"} {
		err := reg.Add(t.Context(), tool.New(tool.Spec{Name: name, Category: "files", Description: name + "s a file", Manual: "# " + name, Effects: tool.Read, Aliases: []string{"my_" + name}},
			func(context.Context, *tool.Request, struct {
				Path string `json:"path" jsonschema:"which"`
			}) (*tool.Result, struct{}, error) {
				return nil, struct{}{}, nil
			}))
		if err != nil {
			t.Fatal(err)
		}
	}
	f := &front{runner: &runner{}, record: &record{}, jobs: &jobs{}, rules: &rules{}, asked: &questions{}, bus: event.New(0)}
	for i := range 5 {
		f.record.calls = append(f.record.calls, store.Call{ID: fmt.Sprint("call_", 5-i), Tool: "read", Status: "ok"})
	}
	f.runner.running = []store.Call{{ID: "call_running", Status: "running"}}
	f.Server = httptest.NewServer(New(Config{
		Executor: f.runner, Registry: reg, Store: f.record, Bus: f.bus, Policy: f.rules, Questions: f.asked, Jobs: f.jobs, Workspaces: []string{"/a", "/b"}, Version: "1.2.3",
		SetLimits: func(_ context.Context, _ string, l Limits) error { f.limits = l; return nil },
		OpenArtifact: func(_ context.Context, id string) (io.ReadSeekCloser, store.Artifact, error) {
			if id != "art_1" {
				return nil, store.Artifact{}, fmt.Errorf("artifact: %w", store.ErrNotFound)
			}
			return data{bytes.NewReader([]byte("0123456789"))}, store.Artifact{ID: id, Name: "über.html", MIME: "text/html", SHA256: "abc", Created: time.Unix(1e9, 0)}, nil
		},
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *front) do(t *testing.T, method, path, body string, headers ...string) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequest(method, f.URL+prefix+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text), resp.Header
}

func TestRequests(t *testing.T) {
	f := serve(t)
	tests := []struct {
		name, method, path, body string
		status                   int
		has                      string
	}{
		{"call", "POST", "/calls", `{"tool":"read","arguments":{"path":"a"}}`, 200, `"text":"read{\"path\":\"a\"}"`},
		{"failed call", "POST", "/calls", `{"tool":"read","arguments":{"fail":true}}`, 200, `"isError":true`},
		{"unknown tool", "POST", "/calls", `{"tool":"raed"}`, 404, `TOOL_NOT_FOUND`},
		{"nearest tool", "POST", "/calls", `{"tool":"raed"}`, 404, `read`},
		{"no tool", "POST", "/calls", `{}`, 400, `tool is missing`},
		{"unknown field", "POST", "/calls", `{"tool":"read","args":{}}`, 400, `args`},
		{"two values", "POST", "/calls", `{"tool":"read"}{}`, 400, `more than one`},
		{"no JSON", "POST", "/calls", `tool=read`, 400, `does not fit`},
		{"foreign workspace", "POST", "/calls", `{"tool":"read","workspace":"/etc"}`, 400, `/a, /b`},
		{"negative timeout", "POST", "/calls", `{"tool":"read","timeout_ms":-1}`, 400, `negative`},
		{"questions", "GET", "/questions?state=pending", "", 200, `"title":"Allow bash?"`},
		{"questions' version", "GET", "/questions", "", 200, `"version":"v2"`},
		{"no questions", "GET", "/questions?session=none", "", 200, `{"questions":[],"version":"v0"}`},
		{"bad state", "GET", "/questions?state=open", "", 400, `pending, answered, cancelled, expired`},
		{"bad wait", "GET", "/questions?wait=long", "", 400, `30s`},
		{"too long a wait", "GET", "/questions?wait=2h", "", 400, `up to 1m0s`},
		{"question", "GET", "/questions/perm_1", "", 200, `"id":"perm_1"`},
		{"no question", "GET", "/questions/perm_9", "", 404, `perm_9`},
		{"answer", "POST", "/questions/perm_1/answer", `{"option":"once"}`, 200, `"option":"once"`},
		{"second answer", "POST", "/questions/perm_2/answer", `{"option":"once"}`, 409, `answered by ann`},
		{"answer to nothing", "POST", "/questions/perm_9/answer", `{"option":"once"}`, 404, `perm_9`},
		{"no such option", "POST", "/questions/perm_1/answer", `{"option":"perhaps"}`, 400, `PARAMETER_ERROR`},
		{"no answer", "POST", "/questions/perm_1/answer", `{"answer":"yes"}`, 400, `answer`},
		{"another method", "DELETE", "/questions/perm_1", "", 405, `DELETE`},
		{"bad watching", "GET", "/events?questions=perhaps", "", 400, `questions`},
		{"calls", "GET", "/calls?limit=2", "", 200, `"next_cursor":"call_4"`},
		{"next calls", "GET", "/calls?limit=2&cursor=call_4", "", 200, `"id":"call_3"`},
		{"last calls", "GET", "/calls?limit=5&cursor=call_4", "", 200, `"id":"call_1"`},
		{"bad limit", "GET", "/calls?limit=0", "", 400, `limit`},
		{"bad status", "GET", "/calls?status=fine", "", 400, `lost`},
		{"bad cursor", "GET", "/calls?cursor=call_x", "", 400, `next_cursor`},
		{"bad since", "GET", "/calls?since=yesterday", "", 400, `since`},
		{"one call", "GET", "/calls/call_3", "", 200, `"id":"call_3"`},
		{"running call", "GET", "/calls/call_running", "", 200, `"status":"running"`},
		{"no call", "GET", "/calls/call_9", "", 404, `call_9`},
		{"cancel", "DELETE", "/calls/call_running", "", 202, ``},
		{"cancel what has ended", "DELETE", "/calls/call_1", "", 409, `has ended`},
		{"cancel nothing", "DELETE", "/calls/call_9", "", 404, `call_9`},
		{"tools", "GET", "/tools", "", 200, `"wire_name":"write"`},
		{"tools found", "GET", "/tools?q=reads", "", 200, `"name":"read"`},
		{"bad state", "GET", "/tools?state=asleep", "", 400, `asleep`},
		{"tool by alias", "GET", "/tools/my_read", "", 200, `"manual":"# read"`},
		{"no such tool", "GET", "/tools/reed", "", 404, `read`},
		{"limits", "PATCH", "/tools/read", `{"limits":{"timeout_ms":5000}}`, 200, `"name":"read"`},
		{"bad limits", "PATCH", "/tools/read", `{"limits":{"attempts":0}}`, 400, `attempts`},
		{"disable", "PATCH", "/tools/write", `{"enabled":false}`, 200, `"state":"disabled"`},
		{"call of a disabled tool is the executor's to refuse", "POST", "/calls", `{"tool":"write"}`, 200, `write`},
		{"enable", "PATCH", "/tools/write", `{"enabled":true}`, 200, `"state":"ready"`},
		{"stats", "GET", "/stats?tool=my_read&window=5m", "", 200, `"tool":"read"`},
		{"bad window", "GET", "/stats?window=-1s", "", 400, `window`},
		{"sessions", "GET", "/sessions", "", 200, `ses_1`},
		{"rules", "GET", "/policy", "", 200, `{"rules":[]}`},
		{"add rule", "POST", "/policy", `{"action":"allow","rule":"bash(ls *)"}`, 201, `"id":7`},
		{"bad rule", "POST", "/policy", `{"action":"allow","rule":"bash("}`, 400, `does not parse`},
		{"bad action", "POST", "/policy", `{"action":"maybe","rule":"bash"}`, 400, `maybe`},
		{"managed rule", "POST", "/policy", `{"action":"allow","rule":"bash","scope":"managed"}`, 400, `managed`},
		{"explain", "POST", "/policy/explain", `{"call":"bash(ls)"}`, 200, `"action":"ask"`},
		{"explain nothing", "POST", "/policy/explain", `{}`, 400, `either`},
		{"jobs", "GET", "/jobs", "", 200, `job_1`},
		{"output", "GET", "/jobs/job_1/output?offset=5&limit=10", "", 200, `"next_offset":6`},
		{"no job", "GET", "/jobs/job_2/output", "", 404, `job_2`},
		{"input", "POST", "/jobs/job_1/input", `{"input":"y\n"}`, 204, ``},
		{"kill", "DELETE", "/jobs/job_1", "", 200, `killed`},
		{"no artifact", "GET", "/artifacts/art_2", "", 404, `art_2`},
		{"nowhere", "GET", "/nowhere", "", 404, `openapi.json`},
		{"wrong method", "PUT", "/tools", "", 405, `It takes GET.`},
		{"another wrong method", "PATCH", "/calls/call_1", "", 405, `GET, DELETE`},
		{"long body", "POST", "/calls", `{"tool":"` + strings.Repeat("x", maxBody) + `"}`, 413, `longer`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, body, _ := f.do(t, tt.method, tt.path, tt.body)
			if status != tt.status || !strings.Contains(body, tt.has) {
				t.Fatalf("%s %s: %d %.300s, want %d with %q", tt.method, tt.path, status, body, tt.status, tt.has)
			}
			if status < 400 {
				return
			}
			var failure struct {
				Error struct{ Code, Message string }
			}
			if err := json.Unmarshal([]byte(body), &failure); err != nil || failure.Error.Code == "" || failure.Error.Message == "" {
				t.Errorf("%s is no API error: %v", body, err)
			}
		})
	}
	if f.jobs.input != "y\n" || f.rules.added.Scope != "user" || f.limits.TimeoutMS == nil || *f.limits.TimeoutMS != 5000 {
		t.Errorf("input %q, rule %+v, limits %+v", f.jobs.input, f.rules.added, f.limits)
	}
	if status, body, _ := f.do(t, "POST", "/calls", `{"tool":"read"}`, "Content-Type", "text/plain"); status != 415 {
		t.Errorf("text/plain: %d %s", status, body)
	}
}

func TestCallIsOfASession(t *testing.T) {
	f := serve(t)
	f.do(t, "POST", "/calls", `{"tool":"read","session":"s","turn":"t","workspace":"/b","timeout_ms":1500}`)
	c := f.runner.last
	if c.Session != "s" || c.Turn != "t" || c.Workspace != "/b" || c.Timeout != 1500*time.Millisecond || c.Origin != executor.OriginAPI {
		t.Errorf("call %+v", c)
	}
	f.do(t, "POST", "/calls", `{"tool":"read"}`)
	first := f.runner.last
	f.do(t, "POST", "/calls", `{"tool":"read"}`)
	if first.Session == "" || f.runner.last.Session != first.Session || first.Workspace != "/a" {
		t.Errorf("sessions %q and %q, workspace %q", first.Session, f.runner.last.Session, first.Workspace)
	}
	f.do(t, "POST", "/calls", `{"tool":"read"}`, "Authorization", "Bearer other")
	if f.runner.last.Session == first.Session {
		t.Error("another caller has the same session")
	}
}

func TestBatch(t *testing.T) {
	f := serve(t)
	for name, body := range map[string]string{
		"lines": "{\"tool\":\"read\"}\n{\"tool\":\"nothing\"}\n",
		"array": ` [{"tool":"read"},{"tool":"nothing"}]`,
	} {
		t.Run(name, func(t *testing.T) {
			status, text, header := f.do(t, "POST", "/calls/batch", body, "Content-Type", "application/x-ndjson")
			if status != 200 || header.Get("Content-Type") != "application/x-ndjson" {
				t.Fatalf("%d %s", status, text)
			}
			var got []string
			for line := range strings.Lines(text) {
				var l struct {
					Index  int
					Tool   string
					Result struct{ Content []struct{ Text string } }
				}
				if err := json.Unmarshal([]byte(line), &l); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				got = append(got, fmt.Sprint(l.Index, l.Tool, l.Result.Content[0].Text))
			}
			if want := []string{"1nothingnothing", "0readread"}; !slices.Equal(got, want) {
				t.Errorf("lines %q, want %q", got, want)
			}
		})
	}
	for body, want := range map[string]string{
		"":                            "",
		"[]":                          "1 to 1000",
		`{"tool":"read"} x`:           "does not fit",
		`{"tool":"read","timeout":1}`: "timeout",
		`{"tool":""}`:                 "call 0",
		strings.Repeat(`{"tool":"read"}`, maxBatch+1): "1 to 1000",
	} {
		status, text, _ := f.do(t, "POST", "/calls/batch", body, "Content-Type", "application/x-ndjson")
		if status != 400 || !strings.Contains(text, want) {
			t.Errorf("%.40s: %d %s", body, status, text)
		}
	}
}

func TestArtifactRanges(t *testing.T) {
	f := serve(t)
	status, body, header := f.do(t, "GET", "/artifacts/art_1", "")
	if status != 200 || body != "0123456789" || !strings.Contains(header.Get("Content-Security-Policy"), "sandbox") || !strings.HasPrefix(header.Get("Content-Disposition"), "attachment") {
		t.Errorf("%d %s %v", status, body, header)
	}
	if status, body, _ := f.do(t, "GET", "/artifacts/art_1", "", "Range", "bytes=2-4"); status != 206 || body != "234" {
		t.Errorf("range: %d %s", status, body)
	}
	if status, _, _ := f.do(t, "GET", "/artifacts/art_1", "", "Range", "bytes=20-"); status != 416 {
		t.Errorf("range beyond the end: %d", status)
	}
	if status, _, _ := f.do(t, "GET", "/artifacts/art_1", "", "If-None-Match", `"abc"`); status != 304 {
		t.Errorf("unchanged: %d", status)
	}
}

// stream opens the events and gives their lines.
func (f *front) stream(t *testing.T, path string, headers ...string) (next func() tool.Event) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, f.URL+prefix+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	lines := bufio.NewScanner(resp.Body)
	if resp.StatusCode != 200 || !lines.Scan() {
		t.Fatalf("status %d", resp.StatusCode)
	}
	return func() tool.Event {
		t.Helper()
		for lines.Scan() {
			body, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok {
				continue
			}
			var e tool.Event
			if err := json.Unmarshal([]byte(body), &e); err != nil {
				t.Fatalf("%s: %v", body, err)
			}
			return e
		}
		t.Fatal("the stream has ended")
		return tool.Event{}
	}
}

func TestEvents(t *testing.T) {
	f := serve(t)
	f.bus.Publish(tool.Event{Type: "old"})
	all := f.stream(t, "/events")
	mine := f.stream(t, "/events?session=s&type=a,b")
	for _, e := range []tool.Event{{Type: "a", Session: "x"}, {Type: "c", Session: "s"}, {Type: "b", Session: "s"}} {
		f.bus.Publish(e)
	}
	for _, want := range []uint64{2, 3, 4} {
		if e := all(); e.ID != want {
			t.Errorf("event %d, want %d", e.ID, want)
		}
	}
	if e := mine(); e.ID != 4 {
		t.Errorf("filtered event %+v", e)
	}
	resumed := f.stream(t, "/events", "Last-Event-ID", "2")
	for _, want := range []uint64{3, 4} {
		if e := resumed(); e.ID != want {
			t.Errorf("resumed event %d, want %d", e.ID, want)
		}
	}
	if status, _, _ := f.do(t, "GET", "/events?after=x", ""); status != 400 {
		t.Errorf("after=x: %d", status)
	}
}

func TestEventsFromTheStore(t *testing.T) {
	f := serve(t)
	const published = 10_000 // more than the bus keeps
	for i := range uint64(published) {
		body, _ := json.Marshal(tool.Event{ID: i + 1, Type: "a"})
		f.record.events = append(f.record.events, store.Event{ID: i + 1, Body: body})
		f.bus.Publish(tool.Event{Type: "a"})
	}
	next := f.stream(t, "/events?after=10")
	for want := uint64(11); want <= published; want++ {
		if e := next(); e.ID != want {
			t.Fatalf("event %d, want %d", e.ID, want)
		}
	}
	f.bus.Publish(tool.Event{Type: "a"})
	if e := next(); e.ID != published+1 {
		t.Errorf("new event %d", e.ID)
	}
}

// TestOpenAPIWithToolbox: a tag of one of its bodies was malformed, and there was
// no document at all.
func TestOpenAPIWithToolbox(t *testing.T) {
	w := httptest.NewRecorder()
	New(Config{Toolbox: toolbox.New(toolbox.Config{})}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, prefix+"/openapi.json", nil))
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), prefix+"/toolbox/{name}/grants") {
		t.Errorf("%d %.300s", w.Code, w.Body)
	}
}

func TestOpenAPI(t *testing.T) {
	f := serve(t)
	status, body, _ := f.do(t, "GET", "/openapi.json", "")
	if status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	var doc struct {
		OpenAPI string `json:"openapi"`
		Info    struct{ Title, Version string }
		Paths   map[string]map[string]struct {
			OperationID string `json:"operationId"`
			Summary     string
			Parameters  []struct {
				Name, In string
				Required bool
				Schema   json.RawMessage
			}
			RequestBody *struct {
				Required bool
				Content  map[string]struct{ Schema json.RawMessage }
			}
			Responses map[string]struct {
				Ref         string `json:"$ref"`
				Description string
				Content     map[string]struct{ Schema json.RawMessage }
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.OpenAPI != "3.1.0" || doc.Info.Title == "" || doc.Info.Version != "1.2.3" {
		t.Errorf("head %+v %+v", doc.OpenAPI, doc.Info)
	}
	var whole any
	if err := json.Unmarshal([]byte(body), &whole); err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`"\$ref":"#/([^"]*)"`).FindAllStringSubmatch(body, -1) {
		at := whole
		for part := range strings.SplitSeq(m[1], "/") {
			o, _ := at.(map[string]any)
			at = o[part]
		}
		if at == nil {
			t.Errorf("reference %s leads nowhere", m[1])
		}
	}
	ids := map[string]bool{}
	schema := func(where string, raw json.RawMessage) {
		var s jsonschema.Schema
		if err := json.Unmarshal(raw, &s); err != nil {
			t.Errorf("%s: schema: %v", where, err)
			return
		}
		if _, err := s.Resolve(nil); err != nil {
			t.Errorf("%s: schema: %v", where, err)
		}
	}
	operations := 0
	for path, methods := range doc.Paths {
		for method, op := range methods {
			operations++
			where := method + " " + path
			if op.Summary == "" || op.OperationID == "" || ids[op.OperationID] {
				t.Errorf("%s: summary %q, operationId %q", where, op.Summary, op.OperationID)
			}
			ids[op.OperationID] = true
			inPath := 0
			for _, p := range op.Parameters {
				if p.In == "path" {
					inPath++
					if !p.Required || !strings.Contains(path, "{"+p.Name+"}") {
						t.Errorf("%s: parameter %s", where, p.Name)
					}
				}
				schema(where+" "+p.Name, p.Schema)
			}
			if inPath != strings.Count(path, "{") {
				t.Errorf("%s: %d path parameters", where, inPath)
			}
			if op.RequestBody != nil {
				for kind, c := range op.RequestBody.Content {
					schema(where+" "+kind, c.Schema)
				}
			}
			if op.Responses["default"].Ref == "" || len(op.Responses) != 2 {
				t.Errorf("%s: responses %v", where, op.Responses)
			}
			for _, r := range op.Responses {
				for kind, c := range r.Content {
					schema(where+" "+kind, c.Schema)
				}
			}
			// What is in the document is served.
			if strings.HasSuffix(path, "/events") {
				continue
			}
			_, text, _ := f.do(t, strings.ToUpper(method), strings.TrimPrefix(inPathPattern.ReplaceAllString(path, "x"), prefix), "")
			if strings.Contains(text, "nothing is served") {
				t.Errorf("%s is not served", where)
			}
		}
	}
	if operations != 23 {
		t.Errorf("%d operations; change this number with the table", operations)
	}
}

var inPathPattern = regexp.MustCompile(`\{[a-z]+\}`)
