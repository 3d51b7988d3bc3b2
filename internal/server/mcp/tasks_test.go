package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

// taskRows keeps tasks in memory.
type taskRows struct {
	mu   sync.Mutex
	rows map[string]store.Task
	fail error
}

func newTaskRows() *taskRows { return &taskRows{rows: map[string]store.Task{}} }

func (k *taskRows) PutTask(_ context.Context, t store.Task) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fail == nil {
		k.rows[t.ID] = t
	}
	return k.fail
}

func (k *taskRows) Task(_ context.Context, id string) (store.Task, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if t, ok := k.rows[id]; ok {
		return t, nil
	}
	return store.Task{}, store.ErrNotFound
}

func (k *taskRows) ListTasks(context.Context, string, int) (list []store.Task, _ error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, t := range k.rows {
		list = append(list, t)
	}
	return list, nil
}

func (k *taskRows) DeleteTask(_ context.Context, id string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.rows, id)
	return nil
}

func (k *taskRows) LoseTasks(context.Context, func(string) bool, string) (int64, error) {
	return 0, nil
}

const knowsTasks = `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// tasked is a stateless client over HTTP that knows tasks.
type tasked struct {
	*web
	headers []string
}

func (w tasked) call(capabilities, more string) map[string]any {
	return w.post(request(capabilities, "echo", "{}", more), append([]string{"Mcp-Protocol-Version", newVersion, "Mcp-Method", "tools/call", "Mcp-Name", "echo"}, w.headers...)...).message
}

func (w tasked) ask(method, id, more string) answered {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"taskId":%q%s,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":%s}}}`, method, id, more, knowsTasks)
	return w.post(body, append([]string{"Mcp-Protocol-Version", newVersion, "Mcp-Method", method, "Mcp-Name", id}, w.headers...)...)
}

// until asks for a task until it is in a state.
func (w tasked) until(id, status string) map[string]any {
	w.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if m := w.ask("tasks/get", id, "").message; at(m, "result", "status") == status {
			return m
		}
	}
	w.t.Fatalf("task %s does not become %s: %v", id, status, w.ask("tasks/get", id, "").message)
	return nil
}

// gate is an executor whose calls wait until they are let on.
type gate struct {
	started chan struct{}
	open    chan *tool.Result
	ended   chan error
}

func newGate() *gate {
	return &gate{make(chan struct{}, 2000), make(chan *tool.Result), make(chan error, 2000)}
}

func (g *gate) Call(ctx context.Context, _ executor.Call) *tool.Result {
	g.started <- struct{}{}
	select {
	case r := <-g.open:
		g.ended <- nil
		return r
	case <-ctx.Done():
		g.ended <- context.Cause(ctx)
		return tool.ErrorResult(tool.Errorf(tool.Cancelled, "it was cancelled"))
	}
}

func TestTaskLife(t *testing.T) {
	failed := tool.ErrorResult(tool.Errorf(tool.ExecutionError, "no"))
	broken := tool.ErrorResult(errors.New("broken"))
	for _, tt := range []struct {
		name   string
		result *tool.Result
		status string
	}{{"done", tool.Text("done"), "completed"}, {"failed tool", failed, "completed"}, {"broken tool", broken, "failed"}} {
		t.Run(tt.name, func(t *testing.T) {
			g, rows := newGate(), newTaskRows()
			plain, s := serveHTTP(t, Config{Executor: g, Tasks: rows, TaskAfter: time.Millisecond, Runtime: "me"})
			w := tasked{web: plain}
			m := w.call(knowsTasks, "")
			id, _ := at(m, "result", "taskId").(string)
			if at(m, "result", "resultType") != "task" || at(m, "result", "status") != "working" || id == "" {
				t.Fatalf("created: %v", m)
			}
			if row, err := rows.Task(t.Context(), id); err != nil || row.Status != "working" || row.Runtime != "me" || row.Tool != "echo" || row.Call == "" {
				t.Errorf("row %+v, %v", row, err)
			}
			if m := w.ask("tasks/get", id, "").message; at(m, "result", "status") != "working" || at(m, "result", "resultType") != "complete" {
				t.Errorf("get: %v", m)
			}
			other := tasked{web: plain, headers: []string{"Authorization", "Bearer other"}}
			if a := other.ask("tasks/get", id, ""); a.status != 400 || at(a.message, "error", "code") != -32602.0 {
				t.Errorf("another key: %d %v", a.status, a.message)
			}
			if a := other.ask("tasks/cancel", id, ""); a.status != 400 {
				t.Errorf("another key cancels: %v", a.message)
			}
			g.open <- tt.result
			m = w.until(id, tt.status)
			if tt.status == "failed" && at(m, "result", "error", "code") != -32603.0 {
				t.Errorf("failed: %v", m)
			}
			if tt.status == "completed" && at(m, "result", "result", "content") == nil {
				t.Errorf("completed: %v", m)
			}
			for end := time.Now().Add(patience); s.liveTask(id) != nil && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
			// Another process serves it from the record.
			fresh, _ := serveHTTP(t, Config{Executor: g, Tasks: rows})
			if again := (tasked{web: fresh}).ask("tasks/get", id, "").message; fmt.Sprint(again) != fmt.Sprint(m) {
				t.Errorf("after a restart: %v, want %v", again, m)
			}
		})
	}
}

func TestTaskIsLostWithItsProcess(t *testing.T) {
	rows := newTaskRows()
	plain, _ := serveHTTP(t, Config{Executor: newGate(), Tasks: rows, TaskAfter: time.Millisecond})
	id, _ := at(tasked{web: plain}.call(knowsTasks, ""), "result", "taskId").(string)
	row, err := rows.Task(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	row.Status, row.Message = "failed", "the server was restarted while the call ran" // as LoseTasks writes it
	if err := rows.PutTask(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	fresh, _ := serveHTTP(t, Config{Executor: newGate(), Tasks: rows})
	m := tasked{web: fresh}.ask("tasks/get", id, "").message
	if at(m, "result", "status") != "failed" || at(m, "result", "error", "message") != row.Message || at(m, "result", "error", "code") != -32603.0 {
		t.Errorf("got %v", m)
	}
}

func TestTaskCancelReachesTheCall(t *testing.T) {
	g := newGate()
	plain, _ := serveHTTP(t, Config{Executor: g, Tasks: newTaskRows(), TaskAfter: time.Millisecond})
	w := tasked{web: plain}
	id, _ := at(w.call(knowsTasks, ""), "result", "taskId").(string)
	for range 2 {
		if m := w.ask("tasks/cancel", id, "").message; at(m, "result", "resultType") != "complete" || at(m, "result", "status") != nil {
			t.Errorf("cancel: %v", m)
		}
	}
	if err := <-g.ended; !errors.Is(err, errCancelled) {
		t.Errorf("the call ended because of %v", err)
	}
	w.until(id, "cancelled")
}

func TestTaskAsks(t *testing.T) {
	begun := make(chan struct{})
	plain, _ := serveHTTP(t, Config{Tasks: newTaskRows(), TaskAfter: time.Millisecond, Executor: &calls{f: func(ctx context.Context, c executor.Call) *tool.Result {
		<-begun
		got, err := c.Client.Input(ctx, map[string]tool.InputRequest{
			"a": {Method: methodElicit, Params: json.RawMessage(`{"message":"a?","requestedSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}`)},
			"b": {Method: methodElicit, Params: json.RawMessage(`{"message":"b?","requestedSchema":{"type":"object","properties":{}}}`)},
		})
		if err != nil {
			return tool.ErrorResult(err)
		}
		return tool.Text(string(got["a"]) + string(got["b"]))
	}}})
	w := tasked{web: plain}
	m := w.call(knowsTasks, "")
	id, _ := at(m, "result", "taskId").(string)
	close(begun)
	m = w.until(id, "input_required")
	if len(at(m, "result", "inputRequests").(map[string]any)) != 2 {
		t.Fatalf("asks %v", m)
	}
	update := func(responses string) {
		t.Helper()
		if m := w.ask("tasks/update", id, `,"inputResponses":`+responses).message; at(m, "result", "resultType") != "complete" {
			t.Fatalf("update: %v", m)
		}
	}
	update(`{"b":{"action":"accept","content":{}},"c":7}`)
	update(`{"a":{"action":"accept","content":{"n":"one"}}}`)
	m = w.until(id, "input_required")
	left := at(m, "result", "inputRequests").(map[string]any)
	if said, _ := at(left, "a", "params", "message").(string); len(left) != 1 || !strings.Contains(said, "The last answer did not fit") {
		t.Errorf("left: %v", left)
	}
	update(`{"a":{"action":"accept","content":{"n":1}}}`)
	m = w.until(id, "completed")
	if got := fmt.Sprint(at(m, "result", "result", "content")); !strings.Contains(got, `"n":1`) {
		t.Errorf("result %v", got)
	}
}

func TestTasksAreOnlyForClientsThatKnowThem(t *testing.T) {
	required := func(*tool.Spec) bool { return true }
	plain, _ := serveHTTP(t, Config{Executor: &calls{f: echo}, Tasks: newTaskRows(), TaskRequired: required})
	w := tasked{web: plain}
	a := w.post(request("{}", "echo", "{}", ""), "Mcp-Protocol-Version", newVersion, "Mcp-Method", "tools/call", "Mcp-Name", "echo")
	if a.status != 400 || at(a.message, "error", "code") != -32021.0 ||
		at(a.message, "error", "data", "requiredCapabilities", "extensions", extensionTasks) == nil {
		t.Errorf("required: %d %s", a.status, a.body)
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"task_1",` + fmt.Sprintf(newMeta, "") + `}}`
	if a := w.post(body, "Mcp-Protocol-Version", newVersion, "Mcp-Method", "tasks/get", "Mcp-Name", "task_1"); a.status != 400 || at(a.message, "error", "code") != -32021.0 {
		t.Errorf("tasks/get: %d %s", a.status, a.body)
	}
	if a := w.post(body, "Mcp-Protocol-Version", newVersion, "Mcp-Method", "tasks/get", "Mcp-Name", "task_2"); a.status != 400 || at(a.message, "error", "code") != -32020.0 {
		t.Errorf("another name: %d %s", a.status, a.body)
	}
	for _, method := range []string{"tasks/list", "tasks/result"} {
		if a := w.ask(method, "task_1", ""); at(a.message, "error", "code") != -32601.0 {
			t.Errorf("%s: %s", method, a.body)
		}
	}
	k := dial(t, Config{Executor: &calls{f: echo}, Tasks: newTaskRows()})
	m := k.initialize("2025-11-25", "{}")
	if at(m, "result", "capabilities", "extensions", extensionTasks) == nil {
		t.Errorf("initialize: %v", m)
	}
	k.send(`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"task_1"}}`)
	if m := k.next(); at(m, "error", "code") != -32021.0 {
		t.Errorf("in a session: %v", m)
	}
	old := dial(t, Config{Executor: &calls{f: echo}})
	if m := old.initialize("2025-11-25", "{}"); at(m, "result", "capabilities", "extensions") != nil {
		t.Errorf("without tasks: %v", m)
	}
}

func TestTaskInASession(t *testing.T) {
	g := newGate()
	k := dial(t, Config{Executor: g, Tasks: newTaskRows(), TaskAfter: time.Millisecond})
	k.initialize("2025-11-25", knowsTasks)
	k.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`)
	m := k.next()
	id := at(m, "result", "taskId")
	if at(m, "result", "resultType") != "task" {
		t.Fatalf("got %v", m)
	}
	g.open <- tool.Text("done")
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		k.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":%q}}`, id))
		if m = k.next(); at(m, "result", "status") == "completed" {
			return
		}
	}
	t.Errorf("got %v", m)
}

func TestTaskThatCannotBeStoredIsACall(t *testing.T) {
	g, rows := newGate(), newTaskRows()
	rows.fail = errors.New("disk full")
	plain, _ := serveHTTP(t, Config{Executor: g, Tasks: rows, TaskAfter: time.Millisecond})
	go func() { <-g.started; g.open <- tool.Text("done") }()
	if m := (tasked{web: plain}).call(knowsTasks, ""); text(m) != "done" {
		t.Errorf("got %v", m)
	}
}

func TestTaskFollowsItsJob(t *testing.T) {
	done, killed := make(chan struct{}), make(chan struct{})
	config := Config{
		Tasks: newTaskRows(), TaskAfter: time.Hour,
		Executor: &calls{f: func(context.Context, executor.Call) *tool.Result {
			return &tool.Result{Structured: json.RawMessage(`{"job_id":"job_1"}`)}
		}},
		Job: func(context.Context, string, string) (Job, bool) {
			return Job{Done: done, Result: func() *tool.Result { return tool.Text("the job has ended") }, Kill: func() { close(killed) }}, true
		},
	}
	plain, _ := serveHTTP(t, config)
	w := tasked{web: plain}
	m := w.call(knowsTasks, "")
	id, _ := at(m, "result", "taskId").(string)
	if said, _ := at(m, "result", "statusMessage").(string); !strings.Contains(said, "job_1") {
		t.Fatalf("got %v", m)
	}
	second, _ := at(w.call(knowsTasks, ""), "result", "taskId").(string)
	w.ask("tasks/cancel", second, "")
	<-killed
	close(done)
	if m := w.until(id, "completed"); !strings.Contains(fmt.Sprint(at(m, "result", "result")), "the job has ended") {
		t.Errorf("got %v", m)
	}
	if m := w.call(elicits, ""); at(m, "result", "structuredContent", "job_id") != "job_1" {
		t.Errorf("a client that knows no tasks: %v", m)
	}
}

func TestTaskNotifications(t *testing.T) {
	g := newGate()
	plain, _ := serveHTTP(t, Config{Executor: g, Tasks: newTaskRows(), TaskAfter: time.Millisecond})
	w := tasked{web: plain}
	id, _ := at(w.call(knowsTasks, ""), "result", "taskId").(string)
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":"sub","method":"subscriptions/listen","params":{"notifications":{"taskIds":[%q,"task_other"]},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":%s}}}`, id, knowsTasks)
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url, strings.NewReader(body))
	for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": newVersion, "Mcp-Method": "subscriptions/listen"} {
		r.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var seen []string
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		var m map[string]any
		if json.Unmarshal([]byte(strings.TrimPrefix(lines.Text(), "data: ")), &m) != nil {
			continue
		}
		if at(m, "params", "_meta", "io.modelcontextprotocol/subscriptionId") != "sub" {
			t.Errorf("no subscription: %v", m)
		}
		if m["method"] == methodAcknowledged {
			if got := fmt.Sprint(at(m, "params", "notifications", "taskIds")); got != "["+id+"]" {
				t.Errorf("agreed to %s", got)
			}
			continue
		}
		status, _ := at(m, "params", "status").(string)
		if seen = append(seen, status); status == "completed" {
			if at(m, "params", "result", "content") == nil {
				t.Errorf("the result is missing: %v", m)
			}
			break
		}
		g.open <- tool.Text("done")
	}
	if fmt.Sprint(seen) != "[working completed]" {
		t.Errorf("told %v", seen)
	}
}

func TestTaskNotificationsOnAConnection(t *testing.T) {
	g := newGate()
	k := dial(t, Config{Executor: g, Tasks: newTaskRows(), TaskAfter: time.Millisecond})
	k.send(request(knowsTasks, "echo", "{}", ""))
	id, _ := at(k.next(), "result", "taskId").(string)
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":` + knowsTasks + `}`
	k.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"sub","method":"subscriptions/listen","params":{"notifications":{"taskIds":[%q]},%s}}`, id, meta))
	if m := k.next(); m["method"] != methodAcknowledged {
		t.Fatalf("got %v", m)
	}
	if m := k.next(); at(m, "params", "status") != "working" {
		t.Errorf("got %v", m)
	}
	g.open <- tool.Text("done")
	if m := k.next(); at(m, "params", "status") != "completed" || at(m, "params", "_meta", "io.modelcontextprotocol/subscriptionId") != "sub" {
		t.Errorf("got %v", m)
	}
	k.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"sub"}}`,
		fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":%q,%s}}`, id, meta))
	if m := k.next(); at(m, "result", "status") != "completed" {
		t.Errorf("got %v", m)
	}
}

// desk takes answers for calls of a process that is gone.
type desk struct{ given map[string]tool.Answer }

func (d *desk) Answer(_ context.Context, id string, a tool.Answer) error {
	if _, ok := d.given[id]; ok {
		return tool.Errorf(tool.Conflict, "the question has been answered")
	}
	d.given[id] = a
	return nil
}

func TestRetryAfterARestart(t *testing.T) {
	key := func(context.Context) ([]byte, error) { return []byte("0123456789abcdef"), nil }
	headers := []string{"Mcp-Protocol-Version", newVersion, "Mcp-Method", "tools/call", "Mcp-Name", "echo"}
	for _, tt := range []struct {
		name  string
		fresh bool
		want  string
		runs  int
	}{{"nothing had run", true, "once", 1}, {"something had run", false, "EXECUTION_ERROR", 0}} {
		t.Run(tt.name, func(t *testing.T) {
			d := &desk{given: map[string]tool.Answer{}}
			runs := 0
			asks := func(ctx context.Context, c executor.Call) *tool.Result {
				q := question()
				q.ID, q.Fresh, q.Binding = "perm_1", tt.fresh, "b"
				// As the desk does: an answer that is there already is taken.
				if a, ok := d.given[q.ID]; ok {
					runs++
					return tool.Text(a.Option)
				}
				a, err := c.Asker.Ask(ctx, q)
				if err != nil {
					return tool.ErrorResult(err)
				}
				runs++
				return tool.Text(a.Option)
			}
			old, gone := serveHTTP(t, Config{Executor: &calls{f: asks}, StateKey: key, Questions: d})
			m := old.post(request(elicits, "echo", "{}", ""), headers...).message
			if err := gone.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			w, _ := serveHTTP(t, Config{Executor: &calls{f: asks}, StateKey: key, Questions: d})
			carry := retry(m, `{"perm_1":`+accept("once")+`}`)
			got := w.post(request(elicits, "echo", "{}", carry), headers...).message
			if outcomeOf(got) != tt.want || runs != tt.runs {
				t.Errorf("got %v after %d runs", got, runs)
			}
			if !tt.fresh && at(got, "result", "_meta", "toolyard/error", "details", "reason") != "lost" && at(got, "result", "structuredContent", "error", "details", "reason") != "lost" {
				t.Errorf("got %v, want lost", got)
			}
			if again := w.post(request(elicits, "echo", "{}", carry), headers...).message; tt.fresh && at(again, "error", "code") != -32602.0 || runs != tt.runs {
				t.Errorf("replay: %v after %d runs", again, runs)
			}
		})
	}
}

func TestParkedCallsAreBounded(t *testing.T) {
	s := New(Config{Executor: &calls{f: echo}, Catalog: &catalog{specs: []*tool.Spec{spec("echo")}}})
	defer s.Close(t.Context())
	for i := range maxParked {
		if err := s.reserve(&operation{id: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.reserve(&operation{id: "7"}); err != nil {
		t.Errorf("one that is parked: %v", err)
	}
	if err := s.reserve(&operation{id: "more"}); !errors.Is(err, tool.ErrNoChannel) {
		t.Errorf("one too many: %v", err)
	}
}

func TestParkedCallEndsWithItsDeadline(t *testing.T) {
	y := newYard(t, 50*time.Millisecond)
	w, s := serveHTTP(t, y.config)
	m := w.post(request(elicits, "push", "{}", ""), "Mcp-Protocol-Version", newVersion, "Mcp-Method", "tools/call", "Mcp-Name", "push").message
	if at(m, "result", "resultType") != "input_required" {
		t.Fatal(m)
	}
	s.operations.mu.Lock()
	var op *operation
	for _, op = range s.operations.parked {
	}
	s.operations.mu.Unlock()
	<-op.done
	op.mu.Lock()
	op.expires = time.Now().Add(-time.Second)
	op.mu.Unlock()
	s.expire(op)
	if len(s.operations.parked) != 0 || y.done.Load() != 0 {
		t.Errorf("%d parked, %d effects", len(s.operations.parked), y.done.Load())
	}
}

func TestNoGoroutineIsLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 20 {
		y := newYard(t, time.Minute)
		s := New(y.config)
		sess := newSession("s", "", time.Now())
		p := callParams{name: "push", version: versionStateless, able: json.RawMessage(elicits)}
		encode, wire := s.run(t.Context(), sess, &p, channel{})
		if wire != nil || !strings.Contains(string(encode(nil)), "input_required") {
			t.Fatal(wire)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := y.executor.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(patience); runtime.NumGoroutine() > before+3 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > before+3 {
		buf := make([]byte, 1<<20)
		t.Errorf("%d goroutines, before %d:\n%s", n, before, buf[:runtime.Stack(buf, true)])
	}
}

func TestClientThatGoesInTheMiddleCancelsItsCall(t *testing.T) {
	for _, round := range []int{1, 2} {
		t.Run(fmt.Sprint("round ", round), func(t *testing.T) {
			started, ended := make(chan struct{}, 1), make(chan error, 1)
			w, _ := serveHTTP(t, Config{Executor: &calls{f: func(ctx context.Context, c executor.Call) *tool.Result {
				if round == 2 {
					if _, err := c.Asker.Ask(ctx, question()); err != nil {
						t.Error(err)
					}
				}
				return until(started, ended)(ctx, c)
			}}})
			more := ""
			if round == 2 {
				m := w.post(request(elicits, "echo", "{}", ""), "Mcp-Protocol-Version", newVersion, "Mcp-Method", "tools/call", "Mcp-Name", "echo").message
				for key := range at(m, "result", "inputRequests").(map[string]any) {
					more = retry(m, `{"`+key+`":`+accept("once")+`}`)
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, strings.NewReader(request(elicits, "echo", "{}", more)))
			if err != nil {
				t.Fatal(err)
			}
			for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "*/*", "Mcp-Protocol-Version": newVersion, "Mcp-Method": "tools/call", "Mcp-Name": "echo"} {
				r.Header.Set(k, v)
			}
			go func() { <-started; cancel() }()
			if _, err := http.DefaultClient.Do(r); !errors.Is(err, context.Canceled) {
				t.Errorf("Do: %v", err)
			}
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the call ended because of %v", err)
			}
		})
	}
}

func TestParkedCallOfAConnectionEndsWithIt(t *testing.T) {
	ended := make(chan error, 1)
	k := dial(t, Config{Executor: &calls{f: func(ctx context.Context, c executor.Call) *tool.Result {
		_, err := c.Asker.Ask(ctx, question())
		ended <- err
		return tool.Text("")
	}}})
	k.send(request(elicits, "echo", "{}", ""))
	if m := k.next(); at(m, "result", "resultType") != "input_required" {
		t.Fatal(m)
	}
	if err := k.in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, errGone) {
		t.Errorf("Ask: %v", err)
	}
}

func TestCallThatIsAnsweredElsewhere(t *testing.T) {
	// A question that somebody else answers is withdrawn; the client that comes back
	// with an answer of its own gets the result.
	elsewhere := make(chan struct{})
	w, _ := serveHTTP(t, Config{Executor: &calls{f: func(ctx context.Context, c executor.Call) *tool.Result {
		asking, withdraw := context.WithCancel(ctx)
		go func() { <-elsewhere; withdraw() }()
		if _, err := c.Asker.Ask(asking, question()); !errors.Is(err, context.Canceled) {
			return tool.Text("asked twice")
		}
		return tool.Text("somebody else said yes")
	}}})
	headers := []string{"Mcp-Protocol-Version", newVersion, "Mcp-Method", "tools/call", "Mcp-Name", "echo"}
	m := w.post(request(elicits, "echo", "{}", ""), headers...).message
	close(elsewhere)
	for { // until the withdrawal has arrived
		m = w.post(request(elicits, "echo", "{}", retry(m, `{"none":1}`)), headers...).message
		if at(m, "result", "resultType") != "input_required" {
			break
		}
	}
	if text(m) != "somebody else said yes" {
		t.Errorf("got %v", m)
	}
}

func TestProgressGoesOnAfterAnAnswer(t *testing.T) {
	w, _ := serveHTTP(t, Config{Executor: &calls{f: func(ctx context.Context, c executor.Call) *tool.Result {
		if _, err := c.Asker.Ask(ctx, question()); err != nil {
			return tool.ErrorResult(err)
		}
		c.OnEvent(tool.Event{Type: tool.EventCallProgress, Data: map[string]any{"progress": 50.0, "total": 100.0}})
		return tool.Text("done")
	}}})
	headers := []string{"Mcp-Protocol-Version", newVersion, "Mcp-Method", "tools/call", "Mcp-Name", "echo"}
	withToken := func(more, token string) answered {
		return w.post(strings.Replace(request(elicits, "echo", "{}", more), `"_meta":{`, `"_meta":{"progressToken":"`+token+`",`, 1), headers...)
	}
	m := withToken("", "one").message
	more := ""
	for key := range at(m, "result", "inputRequests").(map[string]any) {
		more = retry(m, `{"`+key+`":`+accept("once")+`}`)
	}
	a := withToken(more, "two")
	if len(a.all) != 2 || at(a.all[0], "params", "progressToken") != "two" || text(a.message) != "done" {
		t.Errorf("got %s", a.body)
	}
}

func TestTasksAreBounded(t *testing.T) {
	g := newGate()
	plain, s := serveHTTP(t, Config{Executor: g, Tasks: newTaskRows(), TaskAfter: time.Millisecond})
	for i := range maxTasks {
		s.operations.tasks[fmt.Sprint(i)] = &operation{sess: &session{}}
	}
	go func() { <-g.started; g.open <- tool.Text("done") }()
	if m := (tasked{web: plain}).call(knowsTasks, ""); text(m) != "done" {
		t.Errorf("one too many: %v", m)
	}
}
