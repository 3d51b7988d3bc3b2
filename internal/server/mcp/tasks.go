package mcp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

// Tasks (SEP-2663, io.modelcontextprotocol/tasks).
const (
	// maxTasks is how many tasks run at a time. Beyond it clients wait as those do
	// that know no tasks.
	maxTasks = 1000
	// taskTTL is how long a task is kept, from its creation, and taskKept how long
	// at least after its end.
	taskTTL  = 24 * time.Hour
	taskKept = time.Hour
	// pollInterval is how often a client should look.
	taskPoll = time.Second
	// defaultTaskAfter is how long a call runs before it becomes a task.
	defaultTaskAfter = 5 * time.Second
	// personTime is how long a person is waited for before that.
	personTime = 50 * time.Second
	// storeLimit bounds a write of a task.
	storeLimit = 10 * time.Second
	// sweepEvery is the pause between two searches for tasks that have expired.
	sweepEvery = time.Minute
)

// The states of a task.
const (
	taskWorking       = "working"
	taskInputRequired = "input_required"
	taskCompleted     = "completed"
	taskFailed        = "failed"
	taskCancelled     = "cancelled"
)

// codeMissingCapability is the JSON-RPC error of a request that needs a capability
// that the client has not declared (SEP-2575).
const codeMissingCapability = -32021

// Job is a command that runs on after its call.
type Job struct {
	// Done is closed when it has ended; then Result gives what it came to.
	Done   <-chan struct{}
	Result func() *tool.Result
	// Kill ends it.
	Kill func()
}

// task is an operation as its client follows it. The operation's lock guards it.
type task struct{ row store.Task }

// later fires once, when a call has run for long enough to become a task.
type later struct {
	timer *time.Timer
	dead  bool
}

func newLater(on bool, after time.Duration) *later {
	if !on {
		return &later{dead: true}
	}
	if after <= 0 {
		after = defaultTaskAfter
	}
	return &later{timer: time.NewTimer(after)}
}

func (l *later) c() <-chan time.Time {
	if l.dead {
		return nil
	}
	return l.timer.C
}

// now fires at once.
func (l *later) now() {
	if !l.dead {
		l.timer.Reset(0)
	}
}

// wait puts it off until limit has passed since begin, and reports false if it
// has.
func (l *later) wait(begin time.Time, limit time.Duration) bool {
	left := limit - time.Since(begin)
	if left > 0 {
		l.timer.Reset(left)
	}
	return left > 0
}

func (l *later) stop() {
	if !l.dead {
		l.timer.Stop()
	}
	l.dead = true
}

// taskable notes whether a call may become a task, or must.
func (s *Server) taskable(p *operationParams, name string, v *view) {
	if s.config.Tasks == nil {
		return
	}
	p.tool = name
	if s.config.TaskRequired == nil {
		return
	}
	if offered := s.toolIn(v, name); offered != nil {
		p.tool, p.required = offered.spec.FullName(), s.config.TaskRequired(offered.spec)
	}
}

// requiredCapability refuses a request because its client knows no tasks.
func requiredCapability(what string) (func([]byte) []byte, *wireError) {
	return rawData(json.RawMessage(`{"requiredCapabilities":{"extensions":{"` + extensionTasks + `":{}}}}`)),
		&wireError{codeMissingCapability, what + ": the client has not declared the extension " + extensionTasks}
}

// becomeTask makes op a task and gives the CreateTaskResult; nil if op cannot be
// one: there are too many, or it is over.
func (s *Server) becomeTask(ctx context.Context, op *operation) func([]byte) []byte {
	now := s.config.Now().UTC()
	t := &task{row: store.Task{
		ID: "task_" + randomID(12) + s.taskMark(op.params.principal), Session: op.sess.id, Call: op.call, Tool: op.params.tool,
		Status: taskWorking, Created: now, Updated: now, Expires: now.Add(taskTTL), Runtime: s.config.Runtime,
	}}
	op.mu.Lock()
	if op.hasJob {
		t.row.Message = op.jobText
	}
	op.mu.Unlock()
	s.operations.mu.Lock()
	full := len(s.operations.tasks) >= maxTasks
	if !full {
		s.operations.tasks[t.row.ID] = op
	}
	s.operations.mu.Unlock()
	if full {
		s.config.Log.Warn("a call does not become a task: too many run", "tool", op.params.tool, "tasks", maxTasks)
		s.refuseTask(op)
		return nil
	}
	s.sweepTasks()
	if err := s.putTask(ctx, t.row); err != nil {
		s.config.Log.Error("a call does not become a task: it is not stored", "tool", op.params.tool, "err", err)
		s.dropTask(t.row.ID)
		s.refuseTask(op)
		return nil
	}
	op.mu.Lock()
	if op.over {
		op.mu.Unlock()
		s.dropTask(t.row.ID)
		if err := s.config.Tasks.DeleteTask(context.WithoutCancel(ctx), t.row.ID); err != nil {
			s.config.Log.Warn("a task that was not needed is not deleted", "task", t.row.ID, "err", err)
		}
		return nil
	}
	if op.timer != nil {
		op.timer.Stop()
	}
	op.task = t
	op.change()
	created := t.row
	op.mu.Unlock()
	s.operations.mu.Lock()
	delete(s.operations.parked, op.id)
	s.operations.mu.Unlock()
	return func(b []byte) []byte {
		return append(s.appendInfo(appendTask(append(b, `{"resultType":"task"`...), created)), '}')
	}
}

// refuseTask lets op go on as the call of a client that knows no tasks.
func (s *Server) refuseTask(op *operation) {
	op.mu.Lock()
	defer op.mu.Unlock()
	op.hasJob = false
	op.change()
}

func (s *Server) dropTask(id string) {
	s.operations.mu.Lock()
	defer s.operations.mu.Unlock()
	delete(s.operations.tasks, id)
}

// putTask writes a row, whether or not the client is still there.
func (s *Server) putTask(ctx context.Context, row store.Task) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeLimit)
	defer cancel()
	return s.config.Tasks.PutTask(ctx, row)
}

// sweepTasks deletes tasks that have expired, in the background and not often.
func (s *Server) sweepTasks() {
	now := s.config.Now()
	s.operations.mu.Lock()
	due := now.Sub(s.operations.swept) >= sweepEvery
	if due {
		s.operations.swept = now
	}
	s.operations.mu.Unlock()
	if !due {
		return
	}
	s.spawn(func() {
		ctx, cancel := context.WithTimeout(s.background, storeLimit)
		defer cancel()
		rows, err := s.config.Tasks.ListTasks(ctx, "", 10*maxTasks)
		for _, row := range rows {
			if !row.Expires.IsZero() && now.After(row.Expires) && s.liveTask(row.ID) == nil {
				err = errors.Join(err, s.config.Tasks.DeleteTask(ctx, row.ID))
			}
		}
		if err != nil && ctx.Err() == nil {
			s.config.Log.Warn("tasks that have expired are not deleted", "err", err)
		}
	})
}

func (s *Server) liveTask(id string) *operation {
	s.operations.mu.Lock()
	defer s.operations.mu.Unlock()
	return s.operations.tasks[id]
}

// taskMark names whoever made a request, in the IDs of its tasks.
func (s *Server) taskMark(principal string) string {
	if principal == "" {
		return ""
	}
	return "_" + digest("task", principal)[:8]
}

// followJob waits for the job that a call has left running, if its client follows
// it as a task.
func (s *Server) followJob(ctx context.Context, op *operation) {
	if op.result == nil || !op.able.tasks || s.config.Job == nil || op.result.IsError || op.result.Foreign != nil {
		return
	}
	var out struct {
		JobID string `json:"job_id"`
	}
	if op.result.Structured == nil || json.Unmarshal(op.result.Structured, &out) != nil || out.JobID == "" {
		return
	}
	job, ok := s.config.Job(ctx, op.sess.id, out.JobID)
	if !ok {
		return
	}
	op.mu.Lock()
	op.hasJob, op.jobText = true, "job "+out.JobID+" runs; job_output shows what it has said, job_kill ends it"
	op.change()
	op.mu.Unlock()
	for {
		op.mu.Lock()
		changed, follows := op.changed, op.hasJob
		op.mu.Unlock()
		if !follows {
			return
		}
		select {
		case <-job.Done:
			final := job.Result()
			op.mu.Lock()
			defer op.mu.Unlock()
			if final != nil {
				op.result = final
				op.jobOver = true
			}
			return
		case <-ctx.Done():
			job.Kill()
			return
		case <-changed:
		}
	}
}

// taskOver keeps what a task has come to.
func (s *Server) taskOver(op *operation) {
	op.mu.Lock()
	row := &op.task.row
	if row.Status != taskCancelled {
		op.outcome(row)
		if s.background.Err() != nil && row.Status == taskCancelled {
			row.Status, row.Message = taskFailed, "the server was stopped while the call ran"
		}
		row.Updated = s.config.Now().UTC()
	}
	row.Expires = latest(row.Expires, row.Updated.Add(taskKept))
	final := *row
	s.forget(op) // it may have asked at the moment when it became a task
	op.mu.Unlock()
	if err := s.putTask(s.background, final); err != nil {
		s.config.Log.Error("the outcome of a task is not stored", "task", final.ID, "err", err)
	}
	s.dropTask(final.ID)
	s.tellTask(final, nil)
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// outcome writes what a call has come to into its task; op is locked and over.
// What the tool says itself is a result, also where it failed; only what went
// wrong around it is an error.
func (op *operation) outcome(row *store.Task) {
	row.Message = ""
	switch {
	case op.wire != nil:
		row.Status, row.Message = taskFailed, op.wire.message
		row.Error = appendError(nil, op.wire, op.encode)
	case op.result == nil:
		row.Status, row.Result = taskCompleted, op.encode(nil)
	case op.result.Err != nil && op.result.Err.Code == tool.Cancelled && op.result.Foreign == nil:
		row.Status, row.Message = taskCancelled, op.result.Err.Text()
	case op.result.Err != nil && op.result.Err.Code == tool.Internal && op.result.Foreign == nil:
		row.Status, row.Message = taskFailed, op.result.Err.Text()
		row.Error = appendError(nil, &wireError{codeInternal, op.result.Err.Text()}, nil)
	default:
		row.Status, row.Result = taskCompleted, op.result.AppendJSON(nil)
	}
}

// taskChanged notes that a task asks something, or does not any more.
func (s *Server) taskChanged(op *operation) {
	op.mu.Lock()
	if op.task == nil || op.over || op.task.row.Status == taskCancelled {
		op.mu.Unlock()
		return
	}
	op.task.row.Updated = s.config.Now().UTC()
	row, asks := op.taskNow()
	body := appendRequestsOf(asks)
	op.mu.Unlock()
	s.tellTask(row, body)
}

// taskNow is the task as it stands; op is locked.
func (op *operation) taskNow() (store.Task, map[string]*ask) {
	row := op.task.row
	if row.Status == taskWorking && len(op.asks) > 0 {
		row.Status, row.Message = taskInputRequired, "waiting for an answer"
		return row, op.asks
	}
	return row, nil
}

func appendRequestsOf(asks map[string]*ask) json.RawMessage {
	if len(asks) == 0 {
		return nil
	}
	return appendRequests(nil, asks)
}

// Methods of the extension.
const (
	methodTaskGet    = "tasks/get"
	methodTaskUpdate = "tasks/update"
	methodTaskCancel = "tasks/cancel"
)

// isTaskMethod reports whether we answer a method as the tasks extension.
func (s *Server) isTaskMethod(method string) bool {
	return s.config.Tasks != nil && slices.Contains([]string{methodTaskGet, methodTaskUpdate, methodTaskCancel}, method)
}

// taskParams are the params of tasks/get, tasks/update and tasks/cancel.
type taskParams struct {
	callParams // what _meta says
	id         string
}

// parseTask reads them.
func parseTask(method string, raw json.RawMessage) (p taskParams, err *wireError) {
	fault := ""
	walkErr := eachMember(raw, func(key string, value []byte) error {
		switch key {
		case "taskId":
			p.id = unquote(value)
		case "inputResponses":
			p.responses = value
		case "_meta":
			if err := p.parseMeta(value); err != nil {
				fault = err.Error()
			}
		}
		return nil
	})
	switch {
	case walkErr != nil && raw != nil:
		fault = walkErr.Error()
	case fault == "" && p.id == "" && method != methodListen:
		fault = "taskId is missing"
	}
	if fault != "" {
		return p, &wireError{codeInvalidParams, method + ": " + fault}
	}
	return p, nil
}

// taskRequest answers a request of the tasks extension.
func (s *Server) taskRequest(ctx context.Context, sess *session, method string, p *taskParams) (func([]byte) []byte, *wireError) {
	capabilities := p.able
	if p.version < versionStateless {
		capabilities = sess.declared()
	}
	if !parseAbilities(capabilities).tasks {
		return requiredCapability(method)
	}
	op, row, err := s.findTask(ctx, sess, p)
	if err != nil {
		return nil, err
	}
	switch method {
	case methodTaskUpdate:
		if op != nil {
			op.mu.Lock()
			op.deliver(parseResponses(p.responses))
			op.mu.Unlock()
		}
	case methodTaskCancel:
		if op != nil {
			s.cancelTask(op)
		}
	default:
		var requests json.RawMessage
		if op != nil {
			op.mu.Lock()
			var asks map[string]*ask
			row, asks = op.taskNow()
			requests = appendRequestsOf(asks)
			op.mu.Unlock()
		}
		return func(b []byte) []byte {
			b = appendDetails(appendTask(append(b, `{"resultType":"complete"`...), row), row, requests)
			return append(s.appendInfo(b), '}')
		}, nil
	}
	return func(b []byte) []byte { return append(s.appendInfo(append(b, `{"resultType":"complete"`...)), '}') }, nil
}

// findTask finds a task of a session: op is its operation while it runs here.
func (s *Server) findTask(ctx context.Context, sess *session, p *taskParams) (op *operation, row store.Task, wire *wireError) {
	unknown := &wireError{codeInvalidParams, "there is no task " + cutText(p.id, maxLabel) + " of this session"}
	if mark := s.taskMark(p.principal); strings.Count(p.id, "_") != 1+strings.Count(mark, "_") || !strings.HasSuffix(p.id, mark) {
		return nil, row, unknown
	}
	if op = s.liveTask(p.id); op != nil && op.sess.id == sess.id {
		op.mu.Lock()
		defer op.mu.Unlock()
		if op.task != nil {
			return op, op.task.row, nil
		}
	}
	if err := s.config.Ready(ctx); err != nil {
		return nil, row, &wireError{codeInternal, tool.AsError(err).Text()}
	}
	row, err := s.config.Tasks.Task(ctx, p.id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, row, unknown
	case err != nil:
		s.config.Log.Error("a task cannot be read", "task", p.id, "err", err)
		return nil, row, &wireError{codeInternal, "the task cannot be read"}
	case row.Session != sess.id || !row.Expires.IsZero() && s.config.Now().After(row.Expires):
		return nil, row, unknown
	}
	return nil, row, nil
}

// cancelTask cancels the call behind a task, down to its process.
func (s *Server) cancelTask(op *operation) {
	op.mu.Lock()
	if op.over || op.task.row.Status == taskCancelled {
		op.mu.Unlock()
		return
	}
	row := &op.task.row
	row.Status, row.Message, row.Updated = taskCancelled, "the client has cancelled it", s.config.Now().UTC()
	row.Expires = latest(row.Expires, row.Updated.Add(taskKept))
	final := *row
	op.mu.Unlock()
	op.stop(errCancelled)
	s.tellTask(final, nil)
}

// appendTask appends the members that every form of a task has, each after a
// comma.
func appendTask(b []byte, row store.Task) []byte {
	b = appendString(append(b, `,"taskId":`...), row.ID)
	b = appendString(append(b, `,"status":`...), row.Status)
	if row.Message != "" {
		b = appendString(append(b, `,"statusMessage":`...), row.Message)
	}
	b = appendString(append(b, `,"createdAt":`...), row.Created.UTC().Format(time.RFC3339Nano))
	b = appendString(append(b, `,"lastUpdatedAt":`...), row.Updated.UTC().Format(time.RFC3339Nano))
	b = append(b, `,"ttlMs":`...)
	if row.Expires.IsZero() {
		b = append(b, "null"...)
	} else {
		b = appendJSON(b, max(1, row.Expires.Sub(row.Created).Milliseconds()))
	}
	return appendJSON(append(b, `,"pollIntervalMs":`...), taskPoll.Milliseconds())
}

// appendDetails appends what a DetailedTask has besides.
func appendDetails(b []byte, row store.Task, requests json.RawMessage) []byte {
	switch row.Status {
	case taskInputRequired:
		if requests == nil {
			requests = json.RawMessage("{}")
		}
		return append(append(b, `,"inputRequests":`...), requests...)
	case taskCompleted:
		return append(append(b, `,"result":`...), row.Result...)
	case taskFailed:
		if row.Error == nil {
			row.Error = appendError(nil, &wireError{codeInternal, row.Message}, nil)
		}
		return append(append(b, `,"error":`...), row.Error...)
	}
	return b
}

// appendInfo appends the _meta that names the server, after a comma.
func (s *Server) appendInfo(b []byte) []byte {
	b = append(b, `,"_meta":{"io.modelcontextprotocol/serverInfo":`...)
	return append(append(b, s.info...), '}')
}

// headerText decodes the value of an Mcp-Name header.
func headerText(value string) string {
	value = strings.TrimSpace(value)
	if inner, ok := strings.CutPrefix(value, "=?base64?"); ok {
		if inner, ok = strings.CutSuffix(inner, "?="); ok {
			if text, err := base64.StdEncoding.DecodeString(inner); err == nil {
				return string(text)
			}
		}
	}
	return value
}
