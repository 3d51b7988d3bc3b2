package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/gateway/upstream"
	"github.com/toolyard/toolyard/tool"
)

// Bounds of one exchange.
const (
	maxRounds = 16 // answers of input that one request may take
	firstPoll = 500 * time.Millisecond
	lastPoll  = 10 * time.Second
)

// exchange is one request for somebody: a call of a tool, a prompt, a resource.
type exchange struct {
	method  string
	name    string // of the tool or prompt, or the URI; for messages
	members []member
	client  tool.Client // who is behind; nil if that is nobody who can be asked
	session string
	emit    func(tool.Event) // nil if nobody hears
	tool    json.RawMessage  // the definition of a tool that is called
	task    bool             // the tool runs only as a task

	clock clock
}

// clock ends a request that is not heard of for too long. It stands while a
// person is asked.
type clock struct {
	mu      sync.Mutex
	limit   time.Duration
	timer   *time.Timer
	stopped int
}

var errSilent = errors.New("no answer in time")

// run gives a context that ends when nothing is heard for limit.
func (c *clock) run(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = limit
	c.timer = time.AfterFunc(limit, func() { cancel(errSilent) })
	return ctx, func() {
		c.mu.Lock()
		c.timer.Stop()
		c.mu.Unlock()
		cancel(nil)
	}
}

// heard begins to count anew.
func (c *clock) heard() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil && c.stopped == 0 {
		c.timer.Reset(c.limit)
	}
}

// stand stops the clock until the function that it gives is called.
func (c *clock) stand() (goOn func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped++
	if c.timer != nil {
		c.timer.Stop()
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.stopped--; c.stopped == 0 && c.timer != nil {
			c.timer.Reset(c.limit)
		}
	}
}

// do makes a request of a server, started if it must be, and sees it through to
// its result.
func (p *peer) do(ctx context.Context, x *exchange) (json.RawMessage, error) {
	p, l, release, err := p.useFor(ctx, x)
	if err != nil {
		return nil, err
	}
	defer release()
	limit := time.Duration(p.entry.Timeout)
	if limit == 0 {
		limit = defaultTimeout
	}
	clocked, cancel := x.clock.run(ctx, limit)
	defer cancel()
	result, err := p.rounds(clocked, l, x)
	if err != nil && ctx.Err() == nil && errors.Is(context.Cause(clocked), errSilent) {
		p.g.work.Go(func() { p.ping(p.g.background, l) })
		e := tool.Errorf(tool.TimeoutError, "the MCP server %s neither answered nor reported progress on %s for %s", p.name, x.name, limit).
			WithHint("Give it less to do, or set a longer timeout for the server.")
		e.Began = true
		return nil, e
	}
	if err == nil {
		p.worked(l)
	}
	return result, err
}

// worked notes that a server does what it is for.
func (p *peer) worked(l *link) {
	l.sick.Store(0)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.link != l {
		return
	}
	p.tries = 0
	if p.state == Degraded && p.cause == notAnswering {
		p.to(Ready, "")
	}
}

// head is what tells a result from something else: a question, or a task.
type head struct {
	Type     string                       `json:"resultType"`
	Requests map[string]tool.InputRequest `json:"inputRequests"`
	State    json.RawMessage              `json:"requestState"`
	Task     json.RawMessage              `json:"task"`
}

// headOf reads the head without the rest, which may be large. What is no object
// has none.
func headOf(result json.RawMessage) (h head, err error) {
	all, err := membersOf(result)
	if err != nil {
		return h, nil
	}
	all = slices.DeleteFunc(all, func(m member) bool {
		return m.key != "resultType" && m.key != "inputRequests" && m.key != "requestState" && m.key != "task"
	})
	if len(all) == 0 {
		return h, nil
	}
	err = json.Unmarshal(append(appendMembers([]byte{'{'}, all), '}'), &h)
	if h.Type == "" {
		err = nil
	}
	return h, err
}

// rounds asks, and asks again with what the server wants to know, until there is
// a result.
func (p *peer) rounds(ctx context.Context, l *link, x *exchange) (json.RawMessage, error) {
	var answers, state json.RawMessage
	for range maxRounds {
		result, err := p.ask(ctx, l, x, answers, state)
		if err != nil {
			return nil, sent(err)
		}
		head, err := headOf(result)
		if err != nil {
			return nil, tool.Errorf(tool.ExecutionError, "the answer cannot be read: %v", err)
		}
		switch {
		case head.Type == "input_required":
			state = head.State
			if answers, err = p.answers(ctx, x, head.Requests); err != nil {
				return nil, err
			}
		case head.Type == "task":
			return p.follow(ctx, l, x, result, false)
		case len(head.Task) > 0 && x.task:
			return p.follow(ctx, l, x, head.Task, true)
		default:
			return result, nil
		}
	}
	return nil, tool.Errorf(tool.ExecutionError, "the MCP server %s asked for input %d times and has no result", p.name, maxRounds)
}

// ask makes one request.
func (p *peer) ask(ctx context.Context, l *link, x *exchange, answers, state json.RawMessage) (json.RawMessage, error) {
	members := slices.Clone(x.members)
	if answers != nil {
		members = append(members, member{"inputResponses", answers})
	}
	if state != nil {
		members = append(members, member{"requestState", state})
	}
	if x.task && !l.client.Stateless() {
		members = append(members, member{"task", json.RawMessage(`{"ttl":3600000}`)})
	}
	r := upstream.Request{Method: x.method, Params: append(appendMembers([]byte{'{'}, members), '}'), Client: x.party()}
	p.behind(&r, x)
	if x.emit != nil {
		r.Progress, r.Log = x.progress(), x.logged(p.name)
		if r.LogLevel == "" && l.client.Stateless() && x.client == nil {
			r.Log = nil
		}
	} else {
		r.Progress = func(json.RawMessage) { x.clock.heard() }
	}
	if x.method == "tools/call" && p.entry.Type == transportHTTP {
		r.Headers, _ = upstream.HeadersOf(get(x.tool, "inputSchema")) // one that is wrong has none
	}
	r.Ask = func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, *upstream.Error) {
		return p.answer(ctx, x, method, params)
	}
	return l.client.Call(ctx, r)
}

// nobody is the party of requests that nobody in particular made.
type nobody struct{}

// party tells those apart who may not get each other's questions.
func (x *exchange) party() any {
	switch {
	case x.client == nil:
		return nobody{}
	case x.session == "":
		return x.client
	}
	return x.session
}

// The members of _meta that a client says of itself.
const (
	metaClientInfo = "io.modelcontextprotocol/clientInfo"
	metaLogLevel   = "io.modelcontextprotocol/logLevel"
)

// behind tells the server of the client behind a request: what it sent as _meta,
// who it is and what it can do, less what this server may not ask of it.
func (p *peer) behind(r *upstream.Request, x *exchange) {
	if x.client == nil {
		r.Capabilities = p.without(json.RawMessage(`{}`))
		return
	}
	meta, err := membersOf(x.client.Meta())
	if err == nil {
		var kept []member
		for _, m := range meta {
			switch {
			case m.key == metaClientInfo:
				r.ClientInfo = m.value
			case m.key == metaLogLevel:
				_ = json.Unmarshal(m.value, &r.LogLevel) // no text is no level
			case strings.HasPrefix(m.key, "toolyard/"), strings.HasPrefix(m.key, "io.modelcontextprotocol/"), m.key == "progressToken":
			default:
				kept = append(kept, m)
			}
		}
		if len(kept) > 0 {
			r.Meta = append(appendMembers([]byte{'{'}, kept), '}')
		}
	}
	if r.LogLevel == "" { // a client of the session era has set one for all its calls
		r.LogLevel = p.g.logLevel()
	}
	r.Capabilities = p.without(x.client.Capabilities())
}

// without is what a client can do as far as this server may ask for it. Roots are
// answered here where the client has none.
func (p *peer) without(capabilities json.RawMessage) json.RawMessage {
	all, err := membersOf(capabilities)
	if err != nil {
		all = nil
	}
	all = slices.DeleteFunc(all, func(m member) bool { return m.key == "sampling" && !p.entry.Sampling.Allowed })
	if !slices.ContainsFunc(all, func(m member) bool { return m.key == "roots" }) && p.tellsRoots() {
		all = append(all, member{"roots", json.RawMessage("{}")})
	}
	return append(appendMembers([]byte{'{'}, all), '}')
}

// progress takes notifications/progress.
func (x *exchange) progress() func(json.RawMessage) {
	return func(params json.RawMessage) {
		x.clock.heard()
		var in struct {
			Progress float64  `json:"progress"`
			Total    *float64 `json:"total"`
			Message  string   `json:"message"`
		}
		if json.Unmarshal(params, &in) != nil {
			return
		}
		data := map[string]any{"progress": in.Progress}
		if in.Total != nil {
			data["total"] = *in.Total
		}
		if in.Message != "" {
			data["message"] = in.Message
		}
		x.emit(tool.Event{Type: tool.EventCallProgress, Data: data})
	}
}

// logged takes notifications/message.
func (x *exchange) logged(server string) func(json.RawMessage) {
	return func(params json.RawMessage) {
		if textOf(params, "logger") == "" {
			params = with(params, "logger", quote(server))
		}
		x.emit(tool.Event{Type: tool.EventCallLog, Data: map[string]any{"params": params}})
	}
}

// follow waits for a task that a server made of a request. In the session era its
// result is asked for; since then it comes with the state.
func (p *peer) follow(ctx context.Context, l *link, x *exchange, task json.RawMessage, sessions bool) (json.RawMessage, error) {
	id := textOf(task, "taskId")
	if id == "" {
		return nil, tool.Errorf(tool.ExecutionError, "the MCP server %s made a task without an id", p.name)
	}
	params, _ := json.Marshal(map[string]string{"taskId": id})
	request := func(method string, params json.RawMessage) (json.RawMessage, error) {
		r := upstream.Request{Method: method, Params: params, Name: id, Client: x.party()}
		p.behind(&r, x)
		r.Ask = func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, *upstream.Error) {
			return p.answer(ctx, x, method, params)
		}
		return l.client.Call(ctx, r)
	}
	wait, answered := firstPoll, map[string]bool{}
	for {
		switch status := textOf(task, "status"); status {
		case "completed", "failed", "cancelled":
			return p.taskResult(x, task, status, sessions, func() (json.RawMessage, error) { return request("tasks/result", params) })
		case "input_required":
			if sessions { // the question comes with the request for the result
				return request("tasks/result", params)
			}
			if err := p.update(ctx, x, id, task, answered, request); err != nil {
				return nil, err
			}
		}
		var every struct {
			MS    float64 `json:"pollIntervalMs"`
			Older float64 `json:"pollInterval"`
		}
		_ = json.Unmarshal(task, &every) // without one we choose
		if ms := max(every.MS, every.Older); ms > 0 {
			wait = time.Duration(ms * float64(time.Millisecond))
		}
		wait = min(max(wait, 50*time.Millisecond), lastPoll)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			p.cancelTask(l, params, id)
			return nil, context.Cause(ctx)
		}
		wait = min(2*wait, lastPoll)
		var err error
		if task, err = request("tasks/get", params); err != nil {
			if ctx.Err() != nil {
				p.cancelTask(l, params, id)
			}
			return nil, sent(err)
		}
		x.clock.heard() // it still works on it
		if text := textOf(task, "statusMessage"); text != "" && x.emit != nil {
			x.emit(tool.Event{Type: tool.EventCallProgress, Data: map[string]any{"message": text}})
		}
	}
}

// taskResult is what a task that ended came to.
func (p *peer) taskResult(x *exchange, task json.RawMessage, status string, sessions bool, ask func() (json.RawMessage, error)) (json.RawMessage, error) {
	text := textOf(task, "statusMessage")
	switch {
	case status == "cancelled":
		return nil, tool.Errorf(tool.Cancelled, "the MCP server %s cancelled %s: %s", p.name, x.name, text)
	case sessions:
		result, err := ask()
		if err != nil {
			return nil, sent(err)
		}
		return result, nil
	}
	if result := get(task, "result"); result != nil {
		return result, nil
	}
	var failed upstream.Error
	if raw := get(task, "error"); raw != nil && json.Unmarshal(raw, &failed) == nil {
		failed.Data = get(raw, "data")
		return nil, &failed
	}
	return nil, tool.Errorf(tool.ExecutionError, "the task of %s ended (%s) without a result: %s", x.name, status, text)
}

// update answers what a task wants to know, each thing once.
func (p *peer) update(ctx context.Context, x *exchange, id string, task json.RawMessage, answered map[string]bool,
	request func(string, json.RawMessage) (json.RawMessage, error)) error {
	var in struct {
		Requests map[string]tool.InputRequest `json:"inputRequests"`
	}
	_ = json.Unmarshal(get(task, "inputRequests"), &in.Requests) // none is none
	for key := range in.Requests {
		if answered[key] {
			delete(in.Requests, key)
		}
		answered[key] = true
	}
	if len(in.Requests) == 0 {
		return nil
	}
	answers, err := p.answers(ctx, x, in.Requests)
	if err != nil {
		return err
	}
	params := append(appendMembers([]byte{'{'}, []member{{"taskId", quote(id)}, {"inputResponses", answers}}), '}')
	_, err = request("tasks/update", params)
	return err
}

func (p *peer) cancelTask(l *link, params json.RawMessage, id string) {
	p.g.work.Go(func() {
		ctx, cancel := context.WithTimeout(p.g.background, pingTime)
		defer cancel()
		_, _ = l.client.Call(ctx, upstream.Request{Method: "tasks/cancel", Params: params, Name: id}) // nobody waits for it
	})
}
